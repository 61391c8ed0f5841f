#!/usr/bin/env python3
"""Runs clang-tidy on the units that a change reaches, side by side, and notes what each cost.

Usage: tools/tidy.py [--all] [--jobs N] [--build FOLDER]

A change is what differs from where the branch left origin's main (or main), with what is not
committed; on that very commit, what the commits of its last day changed, so that all of a landing
is looked at. A unit is reached if it, or a file that it includes, has changed: by the dependencies
that Ninja recorded in FOLDER, or where it has none, as a textual search of includes finds them. All
units are checked with --all, where git has no such commit (a shallow or a young clone), and where
the checks themselves have changed.
"""

import argparse
import concurrent.futures
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CHECKS = {".clang-tidy", "requirements/lint.txt"}
SOURCES = (".cpp", ".cu", ".hpp", ".cuh", ".inc", ".h")
INCLUDE = re.compile(r'^\s*#include "([^"]+)"', re.MULTILINE)


def git(*arguments: str) -> str | None:
    """What git prints; None where it fails."""
    done = subprocess.run(("git", *arguments), cwd=ROOT, capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else None


def changed_files() -> set[str] | None:
    """Names of the files that differ from the base; None where there is no base."""
    head = git("rev-parse", "HEAD")
    base = None
    for name in ("origin/main", "main", "origin/master", "master"):
        base = git("merge-base", "HEAD", name)
        if base:
            break
    if head and base == head:  # on main itself, as when CI looks at what has landed
        day_before = int(git("show", "-s", "--format=%ct", "HEAD") or 0) - 24 * 3600
        base = git("rev-list", "-1", f"--before={day_before}", "HEAD")
    if not base:
        return None
    listed = git("diff", "--name-only", base)
    new = git("ls-files", "--others", "--exclude-standard")
    return None if listed is None else set(f"{listed}\n{new or ''}".split())


def recorded_includes(build: Path, ninja: Path) -> dict[str, set[str]]:
    """By unit, the files of this repository that its objects were made of, as Ninja knows."""
    text = ""
    if ninja.exists():
        done = subprocess.run((ninja, "-C", build, "-t", "deps"), capture_output=True, text=True)
        text = done.stdout
    by_unit: dict[str, set[str]] = {}
    files: set[str] = set()
    unit = ""
    for line in [*text.splitlines(), ""]:
        if line.startswith("    "):
            path = Path(os.path.normpath(build / line.strip()))
            if path.is_relative_to(ROOT):
                files.add(str(path.relative_to(ROOT)))
                unit = unit or str(path.relative_to(ROOT))  # the source stands first
        elif not line and unit:
            by_unit.setdefault(unit, set()).update(files)
            files, unit = set(), ""
        elif line:
            files, unit = set(), ""
    return by_unit


def searched_includes(unit: str, root: Path = ROOT) -> set[str]:
    """The files of this repository that a unit includes, as a search of its text finds them."""
    found: set[str] = set()
    waiting = [unit]
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        found.add(name)
        text = (root / name).read_text()
        for included in INCLUDE.findall(text):
            for folder in (".", "include", str(Path(name).parent)):
                path = os.path.normpath(Path(folder) / included)
                if (root / path).is_file():
                    waiting.append(path)
                    break
    return found


def reached(units: list[str], changed: set[str], includes: dict[str, set[str]]) -> list[str]:
    """The units that have changed, or that include what has."""
    chosen = []
    for unit in units:
        made_of = includes.get(unit)
        if made_of is None or unit in changed:  # no object yet, or an old one
            made_of = searched_includes(unit)
        if made_of & changed:
            chosen.append(unit)
    return chosen


def check(unit: str, build: Path, tidy: Path) -> tuple[str, float, bool, str]:
    start = time.monotonic()
    command = (tidy, "-quiet", "-p", build, ROOT / unit)
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    noise = re.compile(r"^\d+ warnings? (generated|treated)", re.MULTILINE)
    text = done.stdout + "\n".join(
        line for line in done.stderr.splitlines() if line and not noise.search(line)
    )
    return unit, time.monotonic() - start, done.returncode == 0, text


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--all", action="store_true", help="every unit, whatever has changed")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--build", type=Path, default=ROOT / "build" / "emulated")
    arguments = parser.parse_args()
    build = arguments.build.resolve()
    database = json.loads((build / "compile_commands.json").read_text())
    paths = {Path(entry["file"]) for entry in database}
    units = sorted(
        str(path.relative_to(ROOT))
        for path in paths
        if path.is_relative_to(ROOT) and not path.is_relative_to(build)
    )
    changed = None if arguments.all else changed_files()
    chosen = units
    if changed is not None and not changed & CHECKS:
        chosen = reached(units, changed, recorded_includes(build, ROOT / ".venv/bin/ninja"))
    why = "all" if changed is None else f"{len(changed)} files changed"
    print(f"clang-tidy: {len(chosen)} of {len(units)} units ({why})", flush=True)
    tidy = ROOT / ".venv" / "bin" / "clang-tidy"
    seconds: dict[str, float] = {}
    good = True
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        for unit, cost, passed, text in pool.map(lambda u: check(u, build, tidy), chosen):
            seconds[unit] = round(cost, 2)
            good = good and passed
            if text.strip():
                print(text.rstrip(), flush=True)
    (build / "tidy.json").write_text(json.dumps(seconds, indent=1) + "\n")
    return not good


if __name__ == "__main__":
    sys.exit(main())
