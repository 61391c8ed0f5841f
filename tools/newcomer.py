#!/usr/bin/env python3
"""Walks the newcomer's path of docs/learn.md with a clock: clone, build, mend the first kernel.

Usage: tools/newcomer.py [--built]   --built: with this checkout's program, from `learn start` on

Prints what each step took, and exits 1 if one fails or all took over 15 minutes.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUDGET = 15 * 60
HOLE = "// Your turn: element i of y."
MENDED = "y[i] = a * x[i] + y[i];"


class Walk:
    def __init__(self) -> None:
        self.total = 0.0

    def step(self, what: str, command: list[str], folder: Path, expected: int = 0) -> None:
        """Runs the command; ends the walk unless it exits with `expected`."""
        begin = time.monotonic()
        result = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        seconds = time.monotonic() - begin
        self.total += seconds
        print(f"{seconds:8.1f} s  {what}", flush=True)
        if result.returncode != expected:
            words = " ".join(command)
            sys.exit(
                f"{words}: {result.returncode}, not {expected}\n{result.stdout}{result.stderr}"
            )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--built", action="store_true", help="with this checkout's program")
    built = parser.parse_args().built
    walk = Walk()
    with tempfile.TemporaryDirectory(prefix="newcomer-") as name:
        folder = Path(name)
        house = ROOT
        if not built:
            house = folder / "warpsmith"
            walk.step("git clone", ["git", "clone", "--quiet", str(ROOT), str(house)], folder)
            walk.step("make setup", ["make", "setup"], house)
            build = ["make", "build/emulated", "TARGET=warpsmith", "UNITED=ON"]
            walk.step("make build/emulated", build, house)
        program = str(house / "build" / "emulated" / "warpsmith")
        walk.step("learn start", [program, "learn", "start"], folder)
        walk.step("learn check: not yet", [program, "learn", "check"], folder, expected=1)
        exercise = folder / "warpsmith-learn" / "01_axpy" / "exercise.cu"
        text = exercise.read_text()
        if HOLE not in text:
            sys.exit(f"{exercise.name} has no line {HOLE}")
        exercise.write_text(text.replace(HOLE, MENDED))
        walk.step("learn check: solved", [program, "learn", "check"], folder)
    print(f"{walk.total:8.1f} s  in all, of {BUDGET}")
    return walk.total > BUDGET


if __name__ == "__main__":
    sys.exit(main())
