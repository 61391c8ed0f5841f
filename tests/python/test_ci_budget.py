"""tools/ci_budget.py gives each second to its family, and names what is over its budget."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))
import ci_budget
from ci_budget import HOUSE, Catalogue

CATALOGUE = Catalogue(
    ["gemm", "norm", "softmax"],
    {"softmax": "softmax", "log_softmax": "softmax", "rms_norm": "norm", "norm": "norm"},
)


@pytest.fixture(autouse=True)
def thresholds(monkeypatch: pytest.MonkeyPatch) -> None:
    """The test's own, whatever the house's are."""
    own = {"CI": 3600, "FAMILY": 90, "FAMILY_TESTS": 20, "SMOKE_TEST": 1}
    own["UNIT"] = {"emulated": 30, "cuda-check": 60}
    own["FAILS_ABOVE"] = 1.5
    for name, value in own.items():
        monkeypatch.setattr(ci_budget, name, value)


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("CMakeFiles/warpsmith_core.dir/kernels/softmax/10_row.cu.o", "softmax"),
        ("tests/CMakeFiles/kernels_test.dir/kernels/gemm_test.cu.o", "gemm"),
        ("tests/CMakeFiles/kernels_test.dir/kernels/norm/welford_test.cu.o", "norm"),
        ("CMakeFiles/warpsmith_core.dir/harness/verify.cpp.o", HOUSE),
        ("kernels/normal/a.cu", HOUSE),
    ],
)
def test_files(name, family):
    assert CATALOGUE.of_file(name) == family


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("catalogue.smoke.log_softmax/online/f32", "softmax"),
        ("verify.rms_norm/warp_per_row/bf16", "norm"),
        ("tests.python.test_operations.test_torch[log_softmax-f32]", "softmax"),
        ("kernels.Gemm.TakesEveryLayout", "gemm"),
        ("kernels.GemmTest.TakesEveryLayout", "gemm"),
        ("ptx.Wgmma.Shapes", HOUSE),
    ],
)
def test_tests(name, family):
    assert CATALOGUE.of_test(name) == family


@pytest.fixture
def build(tmp_path: Path) -> Path:
    log = "# ninja log v7\n"
    for start, end, name in (
        (0, 9000, "CMakeFiles/warpsmith_core.dir/kernels/softmax/softmax.cu.o"),
        (5000, 45000, "CMakeFiles/warpsmith_core.dir/kernels/gemm/gemm.cu.o"),
        (0, 1000, "libwarpsmith_core.a"),
    ):
        log += f"{start}\t{end}\t0\t{name}\tabcdef\n"
    emulated = tmp_path / "emulated"
    emulated.mkdir()
    (emulated / ".ninja_log").write_text(log)
    (emulated / "tests.xml").write_text(
        "<testsuite>"
        '<testcase name="catalogue.smoke.softmax/naive/f32" time="1.5"'
        ' classname="catalogue.smoke.softmax/naive/f32"/>'
        '<testcase name="ptx.Vote.All" time="0.5" classname="ptx.Vote.All"/>'
        '<testcase name="catalogue.smoke_0" time="9.0" classname="catalogue.smoke_0"/>'
        "</testsuite>"
    )
    # Of a process with many tests its own report counts, not what ctest says of it.
    (emulated / "catalogue.smoke_0.xml").write_text(
        '<testsuite><testcase name="gemm/naive/f16" time="1.25" classname="smoke"/></testsuite>'
    )
    # Left from when there were more processes.
    (emulated / "catalogue.smoke_1.xml").write_text(
        '<testsuite><testcase name="gemm/naive/f16" time="7" classname="smoke"/></testsuite>'
    )
    (emulated / "tidy.json").write_text('{"kernels/softmax/softmax.cu": 3}')
    return tmp_path


def test_costs(build):
    costs = ci_budget.collect(CATALOGUE, build, cores=2)
    assert costs["softmax"] == {"emulated": 4.5, "tests": 0.75, "lint": 1.5}
    assert costs["gemm"] == {"emulated": 20, "tests": 0.625}
    assert costs[HOUSE] == {"tests": 0.25}
    text = ci_budget.table(CATALOGUE.families, costs).splitlines()
    assert text[0].split() == ["seconds", *ci_budget.KINDS, "all"]
    assert text[3].split() == ["softmax", "4.5", "0.8", "0.0", "1.5", "0.0", "0.0", "6.8"]


def test_budgets(build):
    costs = ci_budget.collect(CATALOGUE, build, cores=2)
    excesses = ci_budget.over_budget(CATALOGUE, costs, build, {"test": 4000})
    assert [str(excess) for excess in excesses] == [
        "all of it: 4000.0 s, the budget is 3600 s",
        "emulated: kernels/gemm/gemm.cu.o: 40.0 s, the budget is 30 s",
        "catalogue.smoke.softmax/naive/f32: 1.5 s, the budget is 1 s",
        "smoke.gemm/naive/f16: 1.2 s, the budget is 1 s",
    ]
    assert not any(excess.fails for excess in excesses)


def test_a_family_over_its_budget(build):
    costs = ci_budget.collect(CATALOGUE, build, cores=2)
    for seconds, fails in ((90, None), (91, False), (135, False), (136, True)):
        costs["norm"]["sanitize"] = seconds
        excesses = ci_budget.over_budget(CATALOGUE, costs, build, {})
        found = [excess.fails for excess in excesses if excess.what == "family norm"]
        assert found == ([] if fails is None else [fails])


def test_a_slow_machine_is_slow_at_all_of_it(build):
    costs = ci_budget.collect(CATALOGUE, build, cores=2)
    for seconds, fails in ((270, False), (271, True)):
        costs["norm"]["sanitize"] = seconds
        excesses = ci_budget.over_budget(CATALOGUE, costs, build, {"test": 2 * 3600})
        assert {e.what: e.fails for e in excesses}["family norm"] == fails
        assert {e.what: e.fails for e in excesses}["all of it"]


def test_units_that_were_compiled_at_once(tmp_path):
    (tmp_path / "kernels_0.cpp").write_text(
        '#include "kernels/norm/a.cu"\n#include "harness/b.cu"\n'
    )
    log = tmp_path / ".ninja_log"
    (tmp_path / "checked_0.cu").write_text('#include "kernels/norm/c.cu"\n')
    log.write_text(
        "1000\t5000\t0\tCMakeFiles/core.dir/build/united/kernels_0.cpp.o\tabc\n"
        "1000\t2000\t0\tCMakeFiles/sm_80.dir/build/united/checked_0.cubin\tabc\n"
    )
    assert ci_budget.objects(log, tmp_path) == {
        "CMakeFiles/core.dir/kernels/norm/a.cu.o": 2,
        "CMakeFiles/core.dir/harness/b.cu.o": 2,
        "CMakeFiles/sm_80.dir/kernels/norm/c.cu.o": 1,
    }
