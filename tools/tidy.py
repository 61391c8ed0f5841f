#!/usr/bin/env python3
"""Runs clang-tidy on the units that a change reaches, side by side, and notes what each cost.

Usage: tools/tidy.py [--all] [--jobs N] [--build FOLDER]

A change is what differs from where the branch left origin's main (or main), with what is not
committed; on that very commit, what the commits of its last day changed, so that all of a landing
is looked at. That is every unit that has changed, and of those that include a header that has, as
few as include all such: what clang-tidy says of a header it says of it in any. Which files a unit
includes Ninja recorded in FOLDER; where it has not, a textual search of includes finds them. All
units are checked with --all, where git has no such commit (a shallow or a young clone), and where
the checks themselves have changed.

Nearly all that a unit costs is its headers' (CLI11, GoogleTest, JSON: 4.6 s of 5.6), so units of
one folder are looked at as one text that includes them, each header once. Names in their anonymous
namespaces may clash; then those that do are looked at alone. Not seen so: using declarations and
namespace aliases that nobody uses, of which only a unit's own file is told; --all looks at each
unit alone. Each is compiled in one way only, though several programs may be made of it.
"""

import argparse
import concurrent.futures
import itertools
import json
import os
import re
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CHECKS = {".clang-tidy", "requirements/lint.txt"}
SOURCES = (".cpp", ".cu", ".hpp", ".cuh", ".inc", ".h")
GROUP = 12  # units
CLANG = "clang-diagnostic-error"
UNITED = re.compile(r'^#include "([^"]+)"', re.MULTILINE)
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
    """The units that have changed, and as few others as include every header that has."""
    made_of = {}  # of what has changed
    for unit in units:
        files = includes.get(unit)
        if files is None or unit in changed:  # no object yet, or an old one
            files = searched_includes(unit, ROOT)
        made_of[unit] = files & changed
    chosen = {unit for unit in units if unit in changed}
    seen = set().union(*(made_of[unit] for unit in chosen))
    while unseen := set().union(*made_of.values()) - seen:
        most = max(units, key=lambda unit: len(made_of[unit] & unseen))
        chosen.add(most)
        seen |= made_of[most]
    return [unit for unit in units if unit in chosen]


@dataclass(frozen=True)
class Group:
    """Units that are looked at at once, in a text that includes them: one unit is its own."""

    units: tuple[str, ...]
    text: Path
    database: Path = Path()  # the folder of compile_commands.json


@dataclass
class Verdict:
    units: tuple[str, ...]
    seconds: float
    passed: bool
    text: str


def compilations(database: list[dict]) -> dict[str, dict]:
    """By unit of this repository, the first way in which it is compiled, alone or united."""
    found: dict[str, dict] = {}
    for entry in database:
        path = Path(entry["file"])
        paths = [path]
        if path.parent == ROOT / "build" / "united":  # CMakeLists.txt: unite
            paths = [ROOT / name for name in UNITED.findall(path.read_text())]
        for path in paths:
            if path.is_relative_to(ROOT) and not path.is_relative_to(ROOT / "build"):
                found.setdefault(str(path.relative_to(ROOT)), entry)
    return found


def command_of(entry: dict, text: Path) -> str:
    """The entry's command, for another text. One whose name ends in .cu is C++: clang would take
    what was united for CUDA."""
    command = re.sub(r" -o \S+", "", entry["command"])
    language = "-x c++ " if text.suffix == ".cu" else ""
    return command.replace(entry["file"], f"{language}{text}")


def grouped(units: list[str], entries: dict[str, dict]) -> list[tuple[str, ...]]:
    """Units of one folder and one command in groups of at most GROUP, the largest groups first."""
    alike: dict[tuple[str, str, str], list[str]] = {}
    for unit in units:
        name = Path(unit)
        command = command_of(entries[unit], Path("UNIT").with_suffix(name.suffix))
        alike.setdefault((str(name.parent), name.suffix, command), []).append(unit)
    groups = []
    for members in alike.values():
        count = -(-len(members) // GROUP)
        groups += [tuple(members[first::count]) for first in range(count)]
    return sorted(groups, key=lambda group: -len(group))


def clashing(output: str, group: Group, root: Path = ROOT) -> set[str]:
    """The units of a group that do not compile beside the others, by the errors that clang told:
    those that an error is in, or in a file that no unit before includes."""
    wrong = {
        str(Path(name).relative_to(root))
        for name in re.findall(rf"^(.*?):\d+:\d+: error: .*\[{CLANG}", output, re.MULTILINE)
        if Path(name).is_relative_to(root)
    }
    found: set[str] = set()
    for name in wrong:
        if name in group.units:
            found.add(name)
        else:
            made_of_it = [unit for unit in group.units if name in searched_includes(unit, root)]
            found.update(made_of_it[-1:])
    return found


class Tidy:
    """clang-tidy on units and on groups of them."""

    def __init__(self, build: Path, entries: dict[str, dict]):
        self.folder = build / "tidy"
        self.entries = entries
        self.number = itertools.count()
        config = (ROOT / ".clang-tidy").read_text()
        self.headers = re.search(r"^HeaderFilterRegex: '(.*)'$", config, re.MULTILINE)[1]

    def group_of(self, units: tuple[str, ...]) -> Group:
        """With its own database of one command."""
        folder = self.folder / str(next(self.number))
        folder.mkdir(parents=True, exist_ok=True)
        entry = self.entries[units[0]]
        text = ROOT / units[0]
        if len(units) > 1:
            check = "(bugprone-suspicious-include)"
            lines = "".join(f'#include "{ROOT / unit}"\n' for unit in units)
            text = folder / f"units{Path(units[0]).suffix}"
            text.write_text(f"// NOLINTBEGIN{check}\n{lines}// NOLINTEND{check}\n")
        entry = entry | {"file": str(text), "command": command_of(entry, text)}
        (folder / "compile_commands.json").write_text(json.dumps([entry]))
        return Group(units, text, folder)

    def run(self, group: Group) -> Verdict:
        # What stands in a group is a header to clang-tidy.
        names = "|".join(re.escape(unit) for unit in group.units)
        command = (
            ROOT / ".venv" / "bin" / "clang-tidy",
            "-quiet",
            *("-p", group.database),
            f"--config-file={ROOT / '.clang-tidy'}",
            f"--header-filter={self.headers}|/({names})$",
            "--extra-arg=-ferror-limit=0",  # of those that clash each is told
            group.text,
        )
        start = time.monotonic()
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        noise = re.compile(r"^\d+ warnings? (generated|treated)|^\[\d+/\d+\]", re.MULTILINE)
        text = done.stdout + "\n".join(
            line for line in done.stderr.splitlines() if line and not noise.search(line)
        )
        return Verdict(group.units, time.monotonic() - start, done.returncode == 0, text)

    def check(self, units: tuple[str, ...]) -> list[Verdict]:
        """Of a group that is in order one verdict; else those of its parts."""
        group = self.group_of(units)
        verdict = self.run(group)
        if verdict.passed or len(units) == 1:
            return [verdict]
        alone = clashing(verdict.text, group)
        rest = tuple(unit for unit in units if unit not in alone)
        verdicts = [self.run(self.group_of((unit,))) for unit in sorted(alone)]
        if not alone or not rest:
            verdicts += [self.run(self.group_of((unit,))) for unit in rest]
        else:
            verdicts += self.check(rest)
        verdicts[0].seconds += verdict.seconds
        return verdicts


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--all", action="store_true", help="every unit, each alone")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--build", type=Path, default=ROOT / "build" / "emulated")
    arguments = parser.parse_args()
    build = arguments.build.resolve()
    database = json.loads((build / "compile_commands.json").read_text())
    entries = compilations(database)
    units = sorted(entries)
    changed = None if arguments.all else changed_files()
    chosen = units
    if changed is not None and not changed & CHECKS:
        chosen = reached(units, changed, recorded_includes(build, ROOT / ".venv/bin/ninja"))
    why = "all" if changed is None else f"{len(changed)} files changed"
    print(f"clang-tidy: {len(chosen)} of {len(units)} units ({why})", flush=True)
    tidy = Tidy(build, entries)
    seconds: dict[str, float] = {}
    good = True
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        groups = [(unit,) for unit in chosen] if arguments.all else grouped(chosen, entries)
        for verdicts in pool.map(tidy.check, groups):
            for verdict in verdicts:
                for unit in verdict.units:
                    seconds[unit] = round(verdict.seconds / len(verdict.units), 2)
                good = good and verdict.passed
                if verdict.text.strip():
                    print(verdict.text.rstrip(), flush=True)
    (build / "tidy.json").write_text(json.dumps(seconds, indent=1) + "\n")
    return not good


if __name__ == "__main__":
    sys.exit(main())
