#!/usr/bin/env python3
"""Write compact copies of recorded type assignments, for clones without the shared test material.

    compact_mixes.py FROM_FOLDER TO_FOLDER MODEL...

Reads FROM_FOLDER/MODEL.json, writes TO_FOLDER/mixes-MODEL.json: the same members, without white space, and with
the key of an earlier run in place of a result that is equal to it.
"""
import json
import sys


def compact(golden):
    first = {}
    for key, result in golden["assign"].items():
        text = json.dumps(result, sort_keys=True)
        golden["assign"][key] = first.get(text, result)
        first.setdefault(text, key)
    return golden


def main():
    source, target, *models = sys.argv[1:]
    for model in models:
        with open(f"{source}/{model}.json") as file:
            golden = compact(json.load(file))
        with open(f"{target}/mixes-{model}.json", "w") as file:
            json.dump(golden, file, separators=(",", ":"))
            file.write("\n")


if __name__ == "__main__":
    main()
