#!/usr/bin/env python3
"""Draws size against KL divergence from the table of a results page: picture.py RESULTS.md OUT.svg

The page's table "In the picture" has a row per file: size in MB, KL divergence, and its maker. One colour per maker, the
same on light and dark pages; both axes are logarithmic.
"""
import math
import pathlib
import re
import sys

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 720, 400, 64, 16, 36, 48
LEGEND = {"llama.cpp": "llama.cpp, imatrix", "gquant, imatrix": "gquant, same imatrix", "gquant": "gquant, calibrated",
          "gquant, by size": "the same, types by size"}
COLOURS = {"llama.cpp": "#d9822b", "gquant, imatrix": "#a35bd1", "gquant": "#1f8f5f", "gquant, by size": "#2b7cd9"}
MODEL = "Qwen2.5-Coder 1.5B"
STYLE = """text{font:13px system-ui,sans-serif;fill:#333}.t{font-size:15px;font-weight:600}.g{stroke:#8884;stroke-width:1}
@media (prefers-color-scheme:dark){text{fill:#ddd}}"""


def rows(page):
    text = page.read_text().split("In the picture", 1)[1]
    for line in text.splitlines():
        cells = [c.strip() for c in line.strip("|").split("|")]
        if len(cells) == 4 and re.fullmatch(r"[\d.]+", cells[2]):
            yield cells[0], cells[1], float(cells[2]), float(cells[3])


def scale(values, low, high, grow):
    a, b = math.log(min(values) / grow), math.log(max(values) * grow)
    return lambda v: low + (math.log(v) - a) / (b - a) * (high - low)


def main():
    page, out = map(pathlib.Path, sys.argv[1:])
    data = list(rows(page))
    x = scale([size for _, _, size, _ in data], LEFT, WIDTH - RIGHT, 1.06)
    y = scale([kl for _, _, _, kl in data], HEIGHT - BOTTOM, TOP, 1.3)
    svg = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
           f'aria-label="KL divergence against file size of {MODEL}">', f"<style>{STYLE}</style>",
           f'<text class="t" x="{LEFT}" y="20">{MODEL}: KL divergence in nats, lower is better</text>']
    for tick in (.001, .002, .005, .01, .02, .05, .1, .2, .5):
        if HEIGHT - BOTTOM > y(tick) > TOP:
            svg += [f'<path class="g" d="M{LEFT} {y(tick):.1f}H{WIDTH - RIGHT}"/>',
                    f'<text x="{LEFT - 8}" y="{y(tick) + 4:.1f}" text-anchor="end">{tick:g}</text>']
    for tick in (700, 800, 900, 1000, 1100, 1200):
        if LEFT < x(tick) < WIDTH - RIGHT:
            svg.append(f'<text x="{x(tick):.1f}" y="{HEIGHT - BOTTOM + 20}" text-anchor="middle">{tick}</text>')
    svg.append(f'<text x="{(LEFT + WIDTH) / 2:.0f}" y="{HEIGHT - 8}" text-anchor="middle">file, MB</text>')
    for n, maker in enumerate(maker for maker in COLOURS if any(who == maker for who, *_ in data)):
        colour = COLOURS[maker]
        own = sorted((x(size), y(kl), kind) for who, kind, size, kl in data if who == maker)
        if len(own) > 1:
            svg.append(f'<polyline fill="none" stroke="{colour}" stroke-width="2" points="' +
                       " ".join(f"{a:.1f},{b:.1f}" for a, b, _ in own) + '"/>')
        for a, b, kind in own:
            svg.append(f'<circle cx="{a:.1f}" cy="{b:.1f}" r="4.5" fill="{colour}"><title>{maker} {kind}</title></circle>')
            if maker == "llama.cpp":
                svg.append(f'<text x="{a + 7:.1f}" y="{b - 7:.1f}">{kind}</text>')
        at = TOP + 14 + 20 * n
        svg += [f'<circle cx="{WIDTH - 190}" cy="{at}" r="4.5" fill="{colour}"/>',
                f'<text x="{WIDTH - 178}" y="{at + 4}">{LEGEND[maker]}</text>']
    out.write_text("\n".join(svg) + "\n</svg>\n")


if __name__ == "__main__":
    main()
