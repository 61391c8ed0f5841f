#!/usr/bin/env python3
"""The units of kernels/ that a change reaches, for CMake: kernels/gemm/gemm.cu;kernels/wkv/wkv.cu

What a change is, and what it reaches, is as clang-tidy's runner has it (tools/tidy.py): units that
have changed, and one of those that include a header that has. A unit for each target is among them
in any case, so that there is something to compile.
"""

import json
import sys

import tidy

ALWAYS = ("kernels/softmax/12_cluster_queue.cu", "kernels/softmax/softmax.cu")  # sm_90a; sm_80


def main() -> int:
    build = (tidy.ROOT / "build" / "emulated").resolve()
    database = json.loads((build / "compile_commands.json").read_text())
    units = sorted(tidy.compilations(database))
    kernels = [unit for unit in units if unit.startswith("kernels/") and unit.endswith(".cu")]
    changed = tidy.changed_files()
    if changed is not None:
        includes = tidy.recorded_includes(build, tidy.ROOT / ".venv/bin/ninja")
        kernels = sorted({*tidy.reached(kernels, changed, includes), *ALWAYS})
    print(";".join(kernels))
    return 0


if __name__ == "__main__":
    sys.exit(main())
