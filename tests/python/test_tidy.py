"""tools/tidy.py finds the units that a change reaches."""

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))
import pytest
import reached
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
        "cli/main.cpp": {"cli/main.cpp"},
        "harness/bench.cpp": {"harness/bench.cpp", "harness/bench.hpp"},
        "harness/case.cpp": {"harness/case.cpp", "harness/bench.hpp", "harness/case.hpp"},
    }
    units = list(includes)
    both = {"harness/bench.hpp", "harness/case.hpp"}
    assert tidy.reached(units, {"harness/bench.hpp"}, includes) == ["harness/bench.cpp"]
    assert tidy.reached(units, both, includes) == ["harness/case.cpp"]
    assert tidy.reached(units, {"README.md"}, includes) == []


def test_a_unit_that_has_changed_is_looked_at(tmp_path, monkeypatch):
    monkeypatch.setattr(tidy, "ROOT", tmp_path)
    (tmp_path / "a.hpp").write_text("")
    for name in ("a.cpp", "b.cpp", "c.cpp"):
        (tmp_path / name).write_text('#include "a.hpp"\n')
    units = ["a.cpp", "b.cpp", "c.cpp"]
    assert tidy.reached(units, {"a.hpp", "b.cpp", "c.cpp"}, {}) == ["b.cpp", "c.cpp"]


def entry(file: Path, flags: str = "-O2") -> dict:
    return {"file": str(file), "command": f"c++ {flags} -o x.o -c {file}"}


def test_each_unit_is_compiled_in_one_way(tmp_path, monkeypatch):
    monkeypatch.setattr(tidy, "ROOT", tmp_path)
    united = tmp_path / "build" / "united" / "harness_0.cpp"
    united.parent.mkdir(parents=True)
    united.write_text('#include "harness/bench.cpp"\n')
    unit = tmp_path / "cli" / "main.cpp"
    found = tidy.compilations([entry(unit), entry(unit, "-O1"), entry(united)])
    assert found == {"cli/main.cpp": entry(unit), "harness/bench.cpp": entry(united)}
    command = tidy.command_of(found["harness/bench.cpp"], tmp_path / "harness" / "bench.cpp")
    assert command == f"c++ -O2 -c {tmp_path}/harness/bench.cpp"


@pytest.mark.parametrize(("suffix", "language"), [(".c", ""), (".cpp", ""), (".cu", "-x c++ ")])
def test_a_unit_is_in_its_own_language(suffix, language):
    unit = Path("/a/1").with_suffix(suffix)
    command = tidy.command_of(entry(unit), unit)
    assert command == f"c++ -O2 -c {language}{unit}"


def test_groups_are_of_one_folder_and_command():
    entries = {
        name: entry(Path("/") / name) for name in ("a/1.cpp", "a/2.cpp", "a/3.cu", "b/4.cpp")
    }
    entries["a/5.cpp"] = entry(Path("/a/5.cpp"), "-O1")
    groups = tidy.grouped(sorted(entries), entries)
    assert groups == [("a/1.cpp", "a/2.cpp"), ("a/3.cu",), ("a/5.cpp",), ("b/4.cpp",)]


def test_large_groups_are_cut():
    names = [f"a/{number}.cpp" for number in range(tidy.GROUP + 1)]
    groups = tidy.grouped(names, {name: entry(Path("/") / name) for name in names})
    assert len(groups) == 2
    assert sorted(name for group in groups for name in group) == sorted(names)


def test_clashing(tmp_path):
    for name, text in (
        ("a.cpp", ""),
        ("b.cpp", '#include "b.hpp"\n'),
        ("b.hpp", ""),
        ("c.cpp", ""),
    ):
        (tmp_path / name).write_text(text)
    group = tidy.Group(("a.cpp", "b.cpp", "c.cpp"), tmp_path / "units.cpp")
    error = "redefinition of 'kMany' [clang-diagnostic-error]"
    output = f"{tmp_path}/c.cpp:3:1: error: {error}\n{tmp_path}/b.hpp:4:2: error: {error}\n"
    assert tidy.clashing(output, group, tmp_path) == {"b.cpp", "c.cpp"}
    assert tidy.clashing("a.cpp:1:1: error: use nullptr [modernize-use-nullptr]", group) == set()


def test_what_a_change_reaches(tmp_path, monkeypatch, capsys):
    for name, text in (
        ("kernels/a/a.cu", '#include "kernels/a/a.hpp"\n'),
        ("kernels/a/a.hpp", ""),
        ("kernels/b/b.cu", '#include "kernels/b/b.hpp"\n'),
        ("kernels/b/b.hpp", '#include "x.hpp"\n'),
        ("kernels/b/c.cu", ""),
        ("kernels/c/c.cu", '#include "kernels/b/b.hpp"\n'),
        ("include/x.hpp", ""),
        ("harness/bench.cpp", ""),
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    build = tmp_path / "build" / "emulated"
    build.mkdir(parents=True)
    units = [f"kernels/{unit}.cu" for unit in ("a/a", "b/b", "b/c", "c/c")] + ["harness/bench.cpp"]
    database = [{"file": str(tmp_path / unit), "command": f"c++ -c {unit}"} for unit in units]
    (build / "compile_commands.json").write_text(json.dumps(database))
    monkeypatch.setattr(tidy, "ROOT", tmp_path)

    def of_changes(files, *arguments):
        monkeypatch.setattr(tidy, "changed_files", lambda: files)
        assert reached.main(arguments) == 0
        return capsys.readouterr().out.strip().split(";")

    assert of_changes({"kernels/a/a.hpp"}) == ["kernels/a/a.cu", *reached.ALWAYS]
    assert of_changes({"harness/bench.cpp"}) == [*reached.ALWAYS]
    every = ["kernels/a/a.cu", "kernels/b/b.cu", "kernels/b/c.cu", "kernels/c/c.cu"]
    assert of_changes(None) == every, "no base: all"

    def families(*files):
        return of_changes(set(files), "--families")

    assert families("kernels/a/a.hpp") == ["a"]
    assert families("kernels/b/c.cu") == ["b", "c"], "c has what b computes, if not in its text"
    assert families("include/x.hpp") == ["b", "c"]
    assert families("kernels/b/README.md", "docs/python.md") == ["none"]
    assert families("kernels/a/a.hpp", "emulator/emulator.cpp") == ["all"]
    assert of_changes(None, "--families") == ["all"]
