#!/usr/bin/env python3
"""What .ci/run cost: a table of steps and families, and what is over its budget; an error if far.

Usage: tools/ci_budget.py [STEP=SECONDS ...]     the steps, as .ci/run timed them

A family's seconds are those of its objects in each build (.ninja_log; of units compiled at once
each has its part), of the C++ and Python tests named after its operations, and of clang-tidy on its
files; as `cores` of them run side by side, a second of one job is 1/cores second of CI. What
belongs to no family is the house's. Nothing is known of what was not run, and an object out of
ccache costs nothing: figures are true from nothing.
"""

import json
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# All budgets, in seconds on the machine they are meant for: 2 cores, nothing else running. Aims for
# thirty families: a family 90, its tests 20, a smoke test 1, a unit 30, 60. Above the first two are
# softmax and norm, whose verify shapes run in three orders of threads with every detector on, and
# gemm with its 39 rungs, whose Hopper kernels are compiled for each tile, layout and dtype; far
# above, attention with eight operations, whose kernels are compiled for dense and packed calls.
CI = 3000  # all of .ci/run
FAMILY = 600  # a family in all of it
FAMILY_TESTS = 200  # ... its emulated tests
SMOKE_TEST = 3  # a rung's
UNIT = {"emulated": 45, "cuda-check": 90}  # a unit: g++; nvcc, each kernel for one target

# The same tests took 540 s on one such machine and 926 s on another: what is over its budget is
# said, and only what is over it by more than machines differ fails. All of it tells how slow this
# one is, so a part fails by its share of the time.
FAILS_ABOVE = 1.8

HOUSE = "(house)"
MANY_TESTS = re.compile(r"catalogue\.(smoke|verify)_\d+")  # ctest's names of processes


@dataclass
class Catalogue:
    """Which family a file or a test belongs to."""

    families: list[str]
    operations: dict[str, str] = field(default_factory=dict)  # its family

    def of_file(self, name: str) -> str:
        for part in ("kernels/", "tests/kernels/"):
            at = name.rfind(part)
            if at < 0:
                continue
            first = name[at + len(part) :].split("/")[0]
            for family in self.families:
                if first == family or re.match(rf"{family}(_\w+)?\.", first):
                    return family
        return HOUSE

    def of_test(self, name: str) -> str:
        """By the operation or family that the name says as a word, the longest if several."""
        words = set(re.findall(r"\w+", name))
        words |= {word.lower() for word in words}
        said = [(len(word), family) for word, family in self.operations.items() if word in words]
        if said:
            return max(said)[1]
        for family in self.families:
            camel = family.title().replace("_", "")
            if family in words or re.search(rf"\b{camel}(Test)?\b|\btest_{family}\b", name):
                return family
        return HOUSE


def read_catalogue(root: Path, program: Path) -> Catalogue:
    families = sorted(path.name for path in (root / "kernels").iterdir() if path.is_dir())
    catalogue = Catalogue(families)
    if program.exists():
        listing = subprocess.run((program, "list", "--json"), capture_output=True, text=True)
        if listing.returncode == 0:
            for family in json.loads(listing.stdout)["families"]:
                for operation in family["operations"]:
                    catalogue.operations[operation["name"]] = family["name"]
    return catalogue


def objects(log: Path, united: Path = ROOT / "build" / "united") -> dict[str, float]:
    """Seconds by object of a build, as last made; units compiled at once have equal parts."""
    seconds: dict[str, float] = {}
    for line in log.read_text().splitlines() if log.exists() else []:
        parts = line.split("\t")
        if len(parts) != 5 or not parts[3].endswith((".o", ".cubin")):
            continue
        took = (int(parts[1]) - int(parts[0])) / 1000
        folder, is_united, name = parts[3].partition("build/united/")
        text = united / re.sub(r"\.cubin$", ".cu", name.removesuffix(".o"))
        units = re.findall(r'"(.+)"', text.read_text()) if is_united and text.exists() else []
        for unit in units:
            seconds[f"{folder}{unit}.o"] = took / len(units)
        if not units:
            seconds[parts[3]] = took
    return seconds


def junit(report: Path) -> dict[str, float]:
    """Seconds by test, of ctest's and pytest's reports."""
    if not report.exists():
        return {}
    seconds: dict[str, float] = defaultdict(float)
    for case in ET.parse(report).getroot().iter("testcase"):
        where = case.get("classname", "")
        name = case.get("name", "")
        full = name if where in ("", name) else f"{where}.{name}"
        if MANY_TESTS.fullmatch(full):
            continue  # their own report has them one by one
        seconds[full] += float(case.get("time", 0))
    return seconds


def emulated_reports(build: Path) -> list[Path]:
    """ctest's, and those of the processes it ran that have many tests each."""
    whole = build / "emulated" / "tests.xml"
    if not whole.exists():
        return []
    names = [case.get("name", "") for case in ET.parse(whole).getroot().iter("testcase")]
    return [
        whole,
        *(whole.with_name(f"{name}.xml") for name in names if MANY_TESTS.fullmatch(name)),
    ]


Costs = dict[str, dict[str, float]]  # by family, by kind


def collect(catalogue: Catalogue, build: Path, cores: int) -> Costs:
    costs: Costs = defaultdict(lambda: defaultdict(float))

    def add(kind: str, family: str, seconds: float) -> None:
        costs[family][kind] += seconds / cores

    for preset in ("emulated", "ci", "cuda-check"):
        for name, seconds in objects(build / preset / ".ninja_log").items():
            add({"ci": "sanitize"}.get(preset, preset), catalogue.of_file(name), seconds)
    for kind, report in (
        *(("tests", report) for report in emulated_reports(build)),
        ("sanitize", build / "ci" / "catalogue_test.xml"),
        ("sanitize", build / "ci" / "kernels_test.xml"),
        ("python", build / "emulated" / "python.xml"),
    ):
        for name, seconds in junit(report).items():
            add(kind, catalogue.of_test(name), seconds)
    tidy = build / "emulated" / "tidy.json"
    if tidy.exists():
        for name, seconds in json.loads(tidy.read_text()).items():
            add("lint", catalogue.of_file(name), seconds)
    return costs


@dataclass
class Excess:
    """What took longer than its budget."""

    what: str
    seconds: float
    budget: float
    pace: float = 1  # how much longer than meant this machine takes

    @property
    def fails(self) -> bool:
        return self.seconds > FAILS_ABOVE * self.pace * self.budget

    def __str__(self) -> str:
        return f"{self.what}: {self.seconds:.1f} s, the budget is {self.budget} s"


def over_budget(
    catalogue: Catalogue, costs: Costs, build: Path, steps: dict[str, float]
) -> list[Excess]:
    """Each budget that is exceeded."""
    whole = sum(steps.values())
    pace = max(1.0, whole / CI)
    spent = [Excess("all of it", whole, CI)]
    for family in catalogue.families:
        spent.append(Excess(f"family {family}", sum(costs[family].values()), FAMILY, pace))
        spent.append(Excess(f"tests of {family}", costs[family]["tests"], FAMILY_TESTS, pace))
    for preset, budget in UNIT.items():
        for name, seconds in objects(build / preset / ".ninja_log").items():
            unit = f"{preset}: {name.rpartition('.dir/')[2]}"
            spent.append(Excess(unit, seconds, budget, pace))
    for report in emulated_reports(build):
        for name, seconds in junit(report).items():
            if "smoke." in name:
                spent.append(Excess(name, seconds, SMOKE_TEST, pace))
    return [one for one in spent if one.seconds > one.budget]


KINDS = ("emulated", "tests", "python", "lint", "sanitize", "cuda-check")


def table(families: list[str], costs: Costs) -> str:
    lines = ["seconds".ljust(14) + "".join(kind.rjust(12) for kind in (*KINDS, "all"))]
    for family in (*families, HOUSE):
        row = [costs[family][kind] for kind in KINDS]
        lines.append(family.ljust(14) + "".join(f"{s:12.1f}" for s in (*row, sum(row))))
    return "\n".join(lines)


def main() -> int:
    steps = {name: float(s) for name, s in (given.split("=") for given in sys.argv[1:])}
    build = ROOT / "build"
    catalogue = read_catalogue(ROOT, build / "emulated" / "warpsmith")
    costs = collect(catalogue, build, os.cpu_count() or 1)
    print(table(catalogue.families, costs))
    if steps:
        parts = ", ".join(f"{name} {seconds:.0f} s" for name, seconds in steps.items())
        print(f"steps: {parts}; all {sum(steps.values()):.0f} s")
    excesses = over_budget(catalogue, costs, build, steps)
    for excess in excesses:
        print(f"{'far ' if excess.fails else ''}over budget: {excess}")
    return any(excess.fails for excess in excesses)


if __name__ == "__main__":
    sys.exit(main())
