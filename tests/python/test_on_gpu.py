"""tools/on_gpu.py reads its plan, keeps to its order and its time, and tells what went wrong."""

import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))
import on_gpu

PLAN = """
families gemm linear     # both
check gemm/mma_direct
bench gemm --problem "f16 [63, 63]" --peer torch
bench addmm/wgmma
check linear
"""


def test_a_plan_is_read() -> None:
    plan = on_gpu.read(PLAN)
    assert plan.families == ["gemm", "linear"]
    assert plan.check == ["gemm/mma_direct", "linear"]
    assert plan.bench == [
        ["gemm", "--problem", "f16 [63, 63]", "--peer", "torch"],
        ["addmm/wgmma"],
    ]


@pytest.mark.parametrize("line", ["measure gemm", "bench", "check   # nothing"])
def test_a_line_that_says_nothing_is_named(line: str) -> None:
    with pytest.raises(ValueError, match="line 2: 'families', 'check' or 'bench'"):
        on_gpu.read(f"families gemm\n{line}\n")


def test_what_finds_most_comes_first(tmp_path: Path) -> None:
    groups = [*on_gpu.steps(on_gpu.read(PLAN), on_gpu.STEPS, tmp_path, 60)]
    assert [[step.name for step in group] for group in groups] == [
        ["configure"],
        ["build"],
        ["verify-smoke"],
        ["verify-verify"],
        ["memcheck", "racecheck", "synccheck"],
        ["bench-00-gemm"],
        ["bench-01-addmm-wgmma"],
    ]
    commands = [[str(word) for word in step.command] for group in groups for step in group]
    assert "-DWS_FAMILIES=gemm;linear" in commands[0]
    assert commands[2][1:] == ["verify", "gemm/mma_direct", "linear", "--cases", "smoke"]
    assert commands[4][-4:] == commands[2][-4:], "the sanitizers look at the smoke shapes"
    assert commands[-2][3:] == [
        *on_gpu.read(PLAN).bench[0],
        "-o",
        str(tmp_path / "bench-00-gemm.json"),
    ]


def ended(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, **commands: Sequence[str]) -> int:
    """The exit code where the steps are these commands."""
    steps = [[on_gpu.Step(name, command)] for name, command in commands.items()]
    monkeypatch.setattr(on_gpu, "steps", lambda *_: iter(steps))
    plan = tmp_path / "plan"
    plan.write_text(PLAN)
    monkeypatch.setattr(
        sys, "argv", ["on_gpu", str(plan), "--out", str(tmp_path), "--seconds", "2"]
    )
    return on_gpu.main()


def test_what_fails_is_told_and_the_rest_runs(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    commands = {"one": ["sh", "-c", "echo wrong; exit 3"], "two": ["echo", "right"]}
    assert ended(monkeypatch, tmp_path, **commands) == 1
    told = capsys.readouterr().out
    assert "one: FAILED (3)" in told
    assert "two: done" in told
    assert told.endswith("on_gpu: wrong: one\n")
    assert "wrong" in (tmp_path / "one.log").read_text()
    assert ended(monkeypatch, tmp_path, two=["echo", "right"]) == 0


def test_nothing_is_run_that_was_not_built(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert ended(monkeypatch, tmp_path, build=["no-such-program"], verify=["true"]) == 1
    assert capsys.readouterr().out.endswith("on_gpu: wrong: build, verify (not run)\n")


def test_the_time_ends_what_runs(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert ended(monkeypatch, tmp_path, long=["sleep", "60"], later=["true"]) == 1
    told = capsys.readouterr().out
    assert "long: FAILED (out of time)" in told
    assert told.endswith("on_gpu: wrong: long, later (not run)\n")


def test_a_line_that_takes_too_long_is_not_all_of_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert not on_gpu.run(on_gpu.Step("long", ["sleep", "60"], 0.5), tmp_path, 600)
    assert "long: FAILED (out of time)" in capsys.readouterr().out
