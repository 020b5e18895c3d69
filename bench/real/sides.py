"""Quants that gquant, llama.cpp, AutoRound and GPTQ make of one model, with time and memory."""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import time

import material

# Each gets the same 16-bit base model and the same tokens. AutoRound has its makers' ways for GGUF: iterations, and the
# rate of the quick one, or `ext` for their algorithm extension.
TUNING = {"autoround": (0,), "autoround-light": (50, 5e-3), "autoround-tuned": (200,), "autoround-ext": (50, "ext")}
GPTQ = ["gptq", "gptaq"]
SIDES = ["llama.cpp", "importance", "calibrated", "target", *TUNING, "like-autoround", *GPTQ]
RIVALS = ["auto-round==0.16.1", "gptqmodel==7.7.0", "transformers==5.24.0", "torch==2.15.0", "gguf==0.19.0",
          "sentencepiece==0.2.1"]
HERE = pathlib.Path(__file__).parent


def measured(command, log, environment=None):
    """Runs a command. Returns wall-clock seconds, CPU seconds, and peak bytes."""
    log.parent.mkdir(parents=True, exist_ok=True)
    begun = time.time()
    with open(log, "wb") as out:
        child = subprocess.Popen([str(c) for c in command], stdout=out, stderr=subprocess.STDOUT,
                                 env=environment)
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise SystemExit(f"{' '.join(map(str, command))}\nfailed ({child.returncode}):\n"
                         f"{log.read_text(errors='replace')[-2000:]}")
    return {"seconds": time.time() - begun, "cpu": used.ru_utime + used.ru_stime, "memory": used.ru_maxrss * 1024}


class Bench:
    """A work folder, the programs, and how many tokens of which kinds are calibrated on."""

    def __init__(self, work, gquant, peer, tokens, threads, kinds=material.KINDS):
        self.work, self.gquant, self.peer = pathlib.Path(work), gquant, peer
        self.tokens, self.threads, self.kinds = tokens, threads, kinds
        self.on = f"{tokens}" if kinds == material.KINDS else f"{tokens}-{'-'.join(kinds)}"

    def original(self, name):
        return material.original(self.work, name, self.gquant)

    def ids(self, name):
        return material.mixed(self.work, name, self.gquant, max(self.tokens, 65536), self.kinds)

    def importance(self, name):
        path = self.work / "importance" / f"{name}-{self.on}.dat"
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            measured([self.gquant, "imatrix", "compute", "-q", "--process-output", "--context", material.WINDOW,
                      "--tokens", self.tokens, "--ids", self.ids(name), self.original(name), path],
                     self.work / "log" / "importance.log")
        return path

    def rivals(self):
        """A Python environment for AutoRound and GPTQ: some 6 GB."""
        python = self.work / "rivals" / "bin" / "python"
        if not python.exists():
            material.run(sys.executable, "-m", "venv", self.work / "rivals")
            material.run(python, "-m", "pip", "install", "-q", *RIVALS)
        return python

    def folder(self, name):
        """The base model as a Hugging Face folder."""
        path = self.work / "folders" / name
        if not path.exists():
            part = path.with_suffix(".part")
            shutil.rmtree(part, ignore_errors=True)
            material.run(self.rivals(), HERE / "folder.py", self.original(name), part)
            part.rename(path)
        return path

    def path(self, name, kind, side):
        return self.work / "files" / f"{name}-{kind}-{side}-{self.on}.gguf"

    def make(self, name, kind, side):
        """Makes the file if it is not there. Returns its path."""
        return self.make_by(self.path(name, kind, side), lambda part: self.command(name, kind, side, part))

    def make_by(self, out, command_of):
        """The same of a file of any command: command_of(path) returns it, and its environment or None."""
        cost = out.with_suffix(".json")
        if out.exists() and cost.exists():
            return out
        out.parent.mkdir(parents=True, exist_ok=True)
        making = self.work / "making" / out.stem  # a new folder: a resumed run does not show its whole cost
        shutil.rmtree(making, ignore_errors=True)
        making.mkdir(parents=True)
        part = making / out.name
        command, environment = command_of(part)
        used = measured(command, self.work / "log" / (out.stem + ".log"), environment)
        part.rename(out)
        shutil.rmtree(making)
        cost.write_text(json.dumps({**used, "bytes": out.stat().st_size, "command": list(map(str, command))}))
        return out

    def calibrating(self, name, tokens, ids=None):
        """The command of a calibration on so many tokens, without model, output and type."""
        return [self.gquant, "-q", "--force", "-t", self.threads, "--calibrate-ids", ids or self.ids(name),
                "--calibrate-tokens", tokens, "--context", material.WINDOW]

    def command(self, name, kind, side, out):
        """A kind is a file type, or pure- and one: all tensors then have its base type, which is how GPTQ is compared."""
        model, pure, kind = self.original(name), ["--pure"] * kind.startswith("pure-"), kind.removeprefix("pure-")
        ours = [self.gquant, "-q", "--force", "-t", self.threads, *pure]
        calibrated = self.calibrating(name, self.tokens) + pure
        if side == "llama.cpp":
            return self.peer_command(model, out, kind, self.importance(name), *(["pure"] if pure else []))
        if side == "importance":
            return ours + ["--imatrix", self.importance(name), model, out, kind], None
        if side == "calibrated":
            return calibrated + [model, out, kind], None
        if side == "target":
            size = self.make(name, kind, "llama.cpp").stat().st_size
            return calibrated + ["--target-size", size, model, out], None
        if side == "like-autoround":  # the types of its file, which is larger where it falls back otherwise
            return calibrated + ["--like", self.make(name, kind, "autoround"), model, out, kind], None
        if side in TUNING:
            return [self.rivals(), HERE / "autoround.py", self.folder(name), self.ids(name), self.tokens, kind, out,
                    *TUNING[side]], None
        if side in GPTQ:
            return [self.rivals(), HERE / "gptq.py", self.folder(name), self.ids(name), self.tokens, side,
                    out.with_suffix(".folder"), *ours, "--imatrix", self.importance(name), out.with_suffix(".folder"), out,
                    kind], None
        raise SystemExit(f"{side}: no such side; there are {', '.join(SIDES)}")

    def peer_command(self, model, out, kind, importance, *more):
        """llama.cpp's quantizer, and its environment."""
        library = self.peer / "node_modules/@node-llama-cpp/linux-x64/bins/linux-x64"
        return [self.peer / "peer-quantize", library, model, out, self.number(kind), self.threads, importance,
                *more], dict(os.environ, LD_LIBRARY_PATH=str(library))

    def number(self, kind):
        lines = subprocess.run([self.gquant, "types"], stdout=subprocess.PIPE, check=True).stdout.decode().splitlines()
        return next(line.split()[1] for line in lines if line.startswith(kind + " "))

    def evaluate(self, name, text, window, tokens, files):
        """KL divergences of files on a kind of text: gquant's JSON. Cached scores are reused."""
        folder = self.work / "scores"
        folder.mkdir(parents=True, exist_ok=True)
        ids = material.tokens(self.work, name, self.gquant, text, True, tokens, window)
        return self.judge(name, ids, window, files, "--scores-file", folder / f"{name}-{text}-{tokens}-{window}")

    def judge(self, name, ids, window, files, *options):
        """The same on a file of ids."""
        command = [self.gquant, "evaluate", "-q", "--json", "--ids", ids, "--context", window, "-t", self.threads, *options,
                   self.original(name), *files]
        done = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, check=True)
        return json.loads(done.stdout)["evaluation"]
