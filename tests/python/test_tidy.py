"""tools/tidy.py finds the units that a change reaches."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))
import tidy


def test_searched_includes(tmp_path):
    (tmp_path / "include" / "warpsmith").mkdir(parents=True)
    (tmp_path / "include" / "warpsmith" / "a.hpp").write_text('#include "warpsmith/b.hpp"\n')
    (tmp_path / "include" / "warpsmith" / "b.hpp").write_text("#include <array>\n")
    (tmp_path / "unit.cpp").write_text('#include "warpsmith/a.hpp"\n#include "missing.hpp"\n')
    assert tidy.searched_includes("unit.cpp", tmp_path) == {
        "unit.cpp",
        "include/warpsmith/a.hpp",
        "include/warpsmith/b.hpp",
    }


def test_reached():
    includes = {
        "harness/bench.cpp": {"harness/bench.cpp", "harness/bench.hpp"},
        "cli/main.cpp": {"cli/main.cpp"},
    }
    units = list(includes)
    assert tidy.reached(units, {"harness/bench.hpp"}, includes) == ["harness/bench.cpp"]
    assert tidy.reached(units, {"README.md"}, includes) == []
