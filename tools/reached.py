#!/usr/bin/env python3
"""What a change reaches: units of kernels/, for CMake, or families, for the tests.

Usage: tools/reached.py             kernels/gemm/gemm.cu;kernels/wkv/wkv.cu
       tools/reached.py --families  gemm;linear, or `all`

What a change is, is as clang-tidy's runner has it (tools/tidy.py). Units: those that have changed,
and as few others as include every header that has; a unit for each target is among them in any
case, so that there is something to compile. Families: those of which a unit has changed or includes
what has, and those that include another family's files, where anything of that one has changed.
What all share, the emulator or the harness, reaches all.
"""

import json
import sys

import tidy

ALWAYS = ("kernels/softmax/12_cluster_queue.cu", "kernels/softmax/softmax.cu")  # sm_90a; sm_80
# Of every verification; headers of include/ are found in the units.
SHARED = (
    "CMake",
    "catalogue/",
    "cmake/",
    "emulator/",
    "harness/",
    "requirements/",
    "runtime/",
    "tests/CMakeLists.txt",
    "tests/catalogue/",
    "tools/reached.py",
    "tools/setup",
)
CODE = (".cpp", ".cu", ".cuh", ".hpp")


def units_reached(units: list[str], changed: set[str] | None, includes: dict) -> list[str]:
    kernels = [unit for unit in units if unit.endswith(".cu")]
    if changed is None:
        return kernels
    return sorted({*tidy.reached(kernels, changed, includes), *ALWAYS})


def family_of(name: str) -> str | None:
    folders = name.split("/")
    return folders[1] if len(folders) > 2 and folders[0] == "kernels" else None


def families_reached(units: list[str], changed: set[str] | None, includes: dict) -> list[str]:
    """The families; ["all"] where that is so."""
    if changed is None or any(name.startswith(SHARED) for name in changed):
        return ["all"]
    code = {name for name in changed if name.endswith(CODE)}
    files: dict[str, set[str]] = {}  # that a family is made of
    for unit in units:
        made_of = includes.get(unit) or tidy.searched_includes(unit, tidy.ROOT)
        files.setdefault(family_of(unit), set()).update(made_of, {unit})
    of_changed = {family_of(name) for name in code} - {None}
    return sorted(
        family
        for family, made_of in files.items()
        if made_of & code or {family_of(name) for name in made_of} & of_changed
    )


def main(arguments: tuple[str, ...] = ()) -> int:
    build = (tidy.ROOT / "build" / "emulated").resolve()
    database = json.loads((build / "compile_commands.json").read_text())
    units = [unit for unit in sorted(tidy.compilations(database)) if family_of(unit)]
    changed = tidy.changed_files()
    includes = tidy.recorded_includes(build, tidy.ROOT / ".venv/bin/ninja")
    if arguments == ("--families",):
        print(";".join(families_reached(units, changed, includes)) or "none")
    else:
        print(";".join(units_reached(units, changed, includes)))
    return 0


if __name__ == "__main__":
    sys.exit(main(tuple(sys.argv[1:])))
