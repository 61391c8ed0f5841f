"""The package itself: what it exports, documents and needs."""

import builtins
import copy
import inspect
import itertools
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import warpsmith
from conftest import OPERATION_CASES
from warpsmith import _functions, _measure
from warpsmith._catalogue import Operation
from warpsmith._signatures import arguments_of


def run_python(code: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    ).stdout


@pytest.mark.parametrize("operation", OPERATION_CASES)
def test_documentation(operation: Operation) -> None:
    function = getattr(warpsmith, operation.name)
    assert operation.formula in function.__doc__
    names = [*(argument.name for argument in arguments_of(operation)), "rung"]
    names += ["out"] if operation.outputs else []
    for name in names:
        assert f"    {name}: " in function.__doc__
        assert name in inspect.signature(function).parameters
    assert function.__name__ == operation.name
    assert (operation.name in warpsmith.__all__) != hasattr(builtins, operation.name)
    known = _functions.signature_of(operation).parameters
    given = inspect.signature(function).parameters  # one written by hand may take more
    assert [p for p in given.values() if p.name in known] == list(known.values())


def test_list() -> None:
    rows = warpsmith.list()
    names = [row["name"] for row in rows]
    assert len(names) == len(set(names))
    assert {"softmax/naive", "gemm/naive"} <= set(names)
    assert all(row["idea"] and row["dtypes"] and row["arch"] for row in rows)


def test_needs_no_torch() -> None:
    code = """
import sys
sys.modules["torch"] = None  # as if it were not installed
import numpy as np, warpsmith
x = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)
assert np.array_equal(warpsmith.relu(x), np.maximum(x, 0))
assert np.allclose(warpsmith.gemm(x, x, layout="nt"), x @ x.T, atol=1e-6)
print(warpsmith.verify("relu", cases="smoke", device="cpu")["failed"])
"""
    assert run_python(code).strip() == "0"


def test_says_where_it_looked_for_the_library(tmp_path) -> None:
    code = f"""
import os, sys
sys.modules["torch"] = None
os.environ["WARPSMITH_BUILD"] = {str(tmp_path)!r}
try:
    import warpsmith
except ImportError as error:
    print(error)
"""
    assert str(tmp_path) in run_python(code)


def test_jax() -> None:
    jax = pytest.importorskip("jax")
    x = jax.numpy.linspace(-3, 3, 8)
    result = warpsmith.relu(x)
    assert isinstance(result, jax.Array)
    assert (result == jax.nn.relu(x)).all()
    with pytest.raises(TypeError, match="jit"):
        jax.jit(warpsmith.relu)(x)
    with pytest.raises(ValueError, match="cannot be written"):
        warpsmith.relu(x, out=x)


def test_verify() -> None:
    report = warpsmith.verify("relu/scalar", random=3, dtypes=["f32"], device="cpu")
    assert len(report["results"]) == 3 and report["failed"] == 0
    report = warpsmith.verify("relu", "softmax/naive", cases="smoke", dtypes=["f32"], device="cpu")
    assert report["device"] == "emulator"
    assert report["failed"] == 0
    rungs = {result["rung"] for result in report["results"]}
    assert "softmax/naive" in rungs
    assert "softmax/safe" not in rungs
    report = warpsmith.verify(
        "gemm/any_layout",
        shapes=[[3, 5, 7]],
        attributes={"layout": "nt"},
        device="cpu",
        dtypes=["f16"],
    )
    assert [result["verdict"] for result in report["results"]] == ["passed"]


def test_bench_program_says_what_is_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    assert _measure.main(["no_such_rung", "--json"]) == 2
    assert "error: " in capsys.readouterr().err
    with pytest.raises(SystemExit):
        _measure.main(["relu", "--peer", "tensorflow"])


def test_bench_program_hands_on_what_it_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    about = {"problem": "f32 [8]", "bound": "memory", "ceiling_name": "copy"}
    timed = {"verdict": "passed", "median_us": 2.0, "rate": 3e12, "of_ceiling": 0.5}
    rungs = [
        {**timed, "name": "relu/scalar", "over_peer": 1.5, "over_from": 2.0, "from": "relu/naive"},
        {**timed, "name": "torch", "variant": 1, "variants": 2, "of_ceiling": None},
        {**timed, "name": "late", "verdict": "failed", "reason": "differs"},
        {"name": "none", "verdict": "refused", "reason": "too wide"},
    ]
    result = {"results": [{**about, "measurements": rungs}]}
    told: list[tuple[tuple[str, ...], dict[str, Any]]] = []

    def bench(*names: str, done: Callable[[str], None], **how: Any) -> str:
        told.append((names, how))
        done(json.dumps(result))
        return json.dumps(result)

    monkeypatch.setattr(_measure, "_bench_text", bench)
    file = tmp_path / "found.json"
    assert _measure.main(["relu", "--set", "a=b=c", "--set=d=1", "--seed=7", f"-o{file}"]) == 1
    assert json.loads(file.read_text()) == result
    assert capsys.readouterr().out.splitlines() == [
        "f32 [8]: % of copy",
        "  " + "relu/scalar".ljust(36) + "       2.00 us    3000.0 GB/s   50.0 %   1.50x peer"
        "  2.00x naive",
        "  " + "torch (1 of 2)".ljust(36) + "       2.00 us    3000.0 GB/s  ",
        "  " + "late".ljust(36) + "       2.00 us    3000.0 GB/s   50.0 %   failed: differs",
        "  " + "none".ljust(36) + " refused: too wide",
    ]
    result["results"] = [{**about, "bound": "compute", "mode": "sustained", "measurements": []}]
    assert _measure.main(["add", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == result
    assert _measure.main(["add"]) == 0
    assert capsys.readouterr().out == "f32 [8], sustained: % of copy\n"
    (names, given), (other_names, by_itself), _ = told
    assert (names, given["attributes"], given["seed"]) == (("relu",), {"a": "b=c", "d": "1"}, 7)
    assert (other_names, by_itself["attributes"], by_itself["seed"]) == (("add",), None, 1)


def test_overhead_measures() -> None:
    pytest.importorskip("torch")
    from warpsmith import overhead

    result = overhead.measure(elements=16, device="cpu", calls=2, turns=1)
    assert {"add", "add out=", "softmax", "softmax out="} <= {row["name"] for row in result["rows"]}
    assert all(row["warpsmith_us"] > 0 and row["torch_us"] > 0 for row in result["rows"])


def test_overhead_program(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    torch = pytest.importorskip("torch")
    from warpsmith import overhead

    clock = itertools.count()  # a second from one look to the next
    waits: list[None] = []
    calls: list[None] = []
    with monkeypatch.context() as patched:
        patched.setattr(overhead.time, "perf_counter", lambda: float(next(clock)))
        taken = overhead._seconds(lambda: calls.append(None), 4, lambda: waits.append(None))
    assert (taken, len(calls), len(waits)) == (0.25, 4, 2)

    made = dict.fromkeys(("warpsmith", "torch"), lambda: calls.append(None))
    monkeypatch.setattr(overhead, "_contenders", lambda elements, device: {"add": made})
    seconds = iter([9.0, 9.0, *(1e-6 * x for x in (1, 2, 3, 4, 5, 12))])  # of warm-ups, of turns
    told: list[int] = []
    monkeypatch.setattr(
        overhead, "_seconds", lambda call, calls, wait: (told.append(calls), next(seconds))[1]
    )
    result = overhead.measure(7, "cpu", calls=60, turns=3)
    assert told == [50, 50, *[60] * 6]
    (row,) = result["rows"]
    assert row.pop("name") == "add"
    assert row == pytest.approx({"warpsmith_us": 3, "torch_us": 4, "ratio": 0.75})
    row["name"] = "add"
    assert (result["device"], result["elements"]) == ("CPU, emulated kernels", 7)
    assert (result["torch"], result["python"]) == (torch.__version__, sys.version.split()[0])

    asked: list[tuple[object, ...]] = []
    monkeypatch.setattr(overhead, "measure", lambda *of: asked.append(of) or result)
    monkeypatch.setattr(sys, "argv", ["overhead", "--elements=7", "--device=cpu", "--calls=60"])
    overhead.main()
    assert capsys.readouterr().out.splitlines() == [
        "host time per call, 7 f32 elements, CPU, emulated kernels",
        "call                    warpsmith us    torch us   ratio",
        "add                             3.00        4.00    0.75",
    ]
    monkeypatch.setattr(sys, "argv", ["overhead", "--json"])
    overhead.main()
    text = capsys.readouterr().out
    assert json.loads(text) == result
    assert text.splitlines()[1].startswith('  "device"')
    assert asked == [(7, "cpu", 60), (1000, None, 500)]


def test_overhead_compares_what_computes_the_same() -> None:
    torch = pytest.importorskip("torch")
    from warpsmith import overhead

    for name, calls in overhead._contenders(16, "cpu").items():
        ours, theirs = (copy.deepcopy(calls[who]()) for who in ("warpsmith", "torch"))
        torch.testing.assert_close(ours, theirs, msg=lambda text, name=name: f"{name}: {text}")
