"""What a user has around the operations: names, explain, sources, stubs, the program, Ctrl-C."""

import ast
import builtins
import importlib
import importlib.util
import inspect
import json
import linecache
import logging
import os
import re
import runpy
import shutil
import signal
import subprocess
import sys
import threading
import time
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import warpsmith
from warpsmith import _explain, _libraries, _measure, _torch
from warpsmith._catalogue import OPERATIONS

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.filterwarnings("ignore::warpsmith.EmulatorWarning")

emulated = pytest.mark.skipif(
    "emulated" not in _libraries.MODULES, reason="the emulated library is not built"
)


# ---- Names ---------------------------------------------------------------------------------------


def test_import_star_hides_no_builtin() -> None:
    scope: dict[str, Any] = {}
    exec("from warpsmith import *", scope)
    assert "softmax" in scope and "sum" not in scope and "list" not in scope
    assert not [name for name in warpsmith.__all__ if hasattr(builtins, name)]
    assert all(hasattr(warpsmith, name) for name in [*warpsmith.__all__, "list", "sum"])


def test_bench_stays_the_function(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delitem(sys.modules, "warpsmith.bench", raising=False)
    monkeypatch.setattr(sys, "argv", ["warpsmith.bench", "no_such_rung"])
    with pytest.raises(SystemExit) as end:
        runpy.run_module("warpsmith.bench", run_name="__main__", alter_sys=True)
    assert end.value.code == 2
    assert capsys.readouterr().err.startswith("error: ")
    importlib.import_module("warpsmith.bench")
    assert warpsmith.bench is _measure.bench
    assert importlib.util.find_spec("warpsmith.bench").name == "warpsmith.bench"


# ---- Devices -------------------------------------------------------------------------------------


class WithoutGpu:
    """The CUDA library where there is no GPU."""

    def require_device(self) -> None:
        raise ValueError("finds no GPU (no device)")


@emulated
def test_without_a_gpu_the_emulator_verifies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(_libraries.MODULES, "cuda", WithoutGpu())
    report = warpsmith.verify("relu", cases="smoke", dtypes=["f32"])
    assert report["device"] == "emulator"
    with pytest.raises(ValueError, match="finds no GPU"):
        warpsmith.verify("relu", device="cuda")


@emulated
def test_without_gpu_and_emulator_verify_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(_libraries.MODULES, "cuda", WithoutGpu())
    monkeypatch.delitem(_libraries.MODULES, "emulated")
    with pytest.raises(ValueError, match="finds no GPU"):
        warpsmith.verify("relu")


LARGE_CALLS = """
import logging, sys, warnings
logging.basicConfig(level=logging.INFO, stream=sys.stdout)
import numpy as np, torch, warpsmith

def told(call):
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        call()
    return [(w.category, w.filename) for w in found]

small, large = torch.zeros(512, 512), torch.zeros(513, 512)
row = torch.zeros(1, dtype=torch.int64)  # of the large array: what is counted is not computed
assert told(lambda: warpsmith.embedding(row, small)) == []
with warnings.catch_warnings():
    warnings.simplefilter("error")
    for index, table in ((row, large), (row.numpy(), large.numpy())):
        try:
            warpsmith.embedding(index, table)
        except warpsmith.EmulatorWarning as warning:
            assert "embedding: a CPU array of 262656 elements" in str(warning), warning
        else:
            raise AssertionError("no warning")
asked = torch.zeros(513, 512, requires_grad=True)
assert told(lambda: warpsmith.embedding(row, asked)) == [(warpsmith.EmulatorWarning, "<string>")]
assert told(lambda: warpsmith.embedding(row, large)) == []
"""


@emulated
def test_a_large_cpu_array_warns_once_where_it_is_called() -> None:
    run = subprocess.run([sys.executable, "-c", LARGE_CALLS], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert (
        f"INFO:warpsmith:loaded the emulated library {_libraries.PATHS['emulated']}" in run.stdout
    )


# ---- Ctrl-C --------------------------------------------------------------------------------------

# Minutes of emulation, were it not interrupted.
LONG = torch.ones(2048, 2048)
SOON = 5.0  # seconds; 0.2 where the machine has nothing else to do


def long_call() -> Any:
    return warpsmith.gemm(LONG, LONG, rung="naive")


@contextmanager
def sent(number: int, after: float = 0.3) -> Iterator[list[float]]:
    """A signal to this process, and when it was sent."""
    at: list[float] = []

    def send() -> None:
        at.append(time.perf_counter())
        os.kill(os.getpid(), number)

    timer = threading.Timer(after, send)
    timer.start()
    try:
        yield at
    finally:
        timer.join()


@contextmanager
def handled(number: int, handler: Callable[..., Any]) -> Iterator[None]:
    before = signal.signal(number, handler)
    try:
        yield
    finally:
        signal.signal(number, before)


@emulated
@pytest.mark.parametrize(
    "call",
    [
        long_call,
        lambda: warpsmith.gemm(LONG.clone().requires_grad_(), LONG, rung="naive"),
        lambda: warpsmith.gemm(LONG.numpy(), LONG.numpy(), rung="naive"),
        lambda: warpsmith.verify("gemm/naive", shapes=[[512, 512, 512]], device="cpu"),
    ],
    ids=["quick", "gradient", "numpy", "verify"],
)
def test_ctrl_c_ends_a_call(call: Callable[[], Any]) -> None:
    # A shell may have started us with the signal ignored.
    with handled(signal.SIGINT, signal.default_int_handler):
        with sent(signal.SIGINT) as at, pytest.raises(KeyboardInterrupt):
            call()
        assert time.perf_counter() - at[0] < SOON
    x = torch.tensor([-1.0, 2.0])
    assert torch.equal(warpsmith.relu(x), x.relu())  # the emulator goes on
    with pytest.raises(ValueError, match=r"f32 \[2\]"):  # and the call's end is forgotten
        warpsmith.gemm(LONG, x)


@emulated
def test_what_a_handler_raises_comes_out_of_the_call() -> None:
    def late(*_: Any) -> None:
        raise TimeoutError("too late")

    with handled(signal.SIGUSR1, late):
        for call in (long_call, lambda: warpsmith.gemm(LONG.numpy(), LONG.numpy(), rung="naive")):
            with sent(signal.SIGUSR1) as at, pytest.raises(TimeoutError, match="too late"):
                call()
            assert time.perf_counter() - at[0] < SOON


@emulated
def test_a_handler_that_returns_lets_the_call_go_on() -> None:
    x = torch.ones(256, 256)
    is_running = False
    called: list[bool] = []
    with handled(signal.SIGUSR1, lambda *_: called.append(is_running)), sent(signal.SIGUSR1, 0.05):
        is_running = True
        result = warpsmith.gemm(x, x, rung="naive")
        is_running = False
    assert called == [True]
    assert torch.equal(result, x @ x)


@emulated
def test_a_handler_may_not_call_a_kernel_in_the_midst_of_one() -> None:
    x = torch.ones(2, 2)
    with (
        handled(signal.SIGUSR1, lambda *_: warpsmith.gemm(x, x)),
        sent(signal.SIGUSR1),
        pytest.raises(RuntimeError, match="a handler of a signal"),
    ):
        long_call()


@emulated
def test_ctrl_c_leaves_other_threads_alone() -> None:
    x = torch.ones(256, 256)
    results: list[torch.Tensor] = []
    thread = threading.Thread(target=lambda: results.append(warpsmith.gemm(x, x, rung="naive")))
    thread.start()
    with (
        handled(signal.SIGINT, signal.default_int_handler),
        sent(signal.SIGINT, after=0.1),
        pytest.raises(KeyboardInterrupt),
    ):
        long_call()
    thread.join()
    assert torch.equal(results[0], x @ x)


# ---- explain, sources, stubs ---------------------------------------------------------------------


def test_explain_says_what_runs_and_why_not_the_others() -> None:
    x = torch.ones(16, 1024, requires_grad=True)
    found = warpsmith.explain("softmax", x)
    rows = {row["rung"]: row for row in found.rungs}
    assert list(rows) == [rung["name"] for rung in OPERATIONS["softmax"].rungs]
    assert [row["rung"] for row in found.rungs if row["runs"]] == [found.rung]
    assert not rows["naive"]["takes"] and "may overflow" in rows["naive"]["why"]
    assert (
        rows["online"]["takes"] and rows["online"]["why"] == f"takes it; {found.rung} comes first"
    )
    with pytest.raises(ValueError, match="may overflow"):
        warpsmith.softmax(x, rung="naive")
    assert f"softmax(float32 [16, 1024]): {found.rung} runs" in repr(found)
    assert "<table>" in found._repr_html_()
    assert warpsmith.explain("softmax", x.detach().numpy()).rung == found.rung
    assert warpsmith.explain("softmax", x, bounded=True).rungs[0]["takes"]
    assert warpsmith.explain("silu", x).rung == warpsmith.explain("swish", x).rung
    for eps in (None, 1e-3):
        told = warpsmith.explain("rms_norm", x, eps=eps).call
        assert told == "rms_norm(float32 [16, 1024], None, None" + (", eps=0.001)" if eps else ")")
    half = torch.ones(16, 16, dtype=torch.float16)
    narrow = {row["rung"]: row for row in warpsmith.explain("gemm", half, half).rungs}
    assert narrow["acc_f16"]["why"] == "adds up in f16: runs only where named"


def test_explain_says_what_is_wrong() -> None:
    x = torch.ones(4, 4)
    for arguments, keywords, error, text in [
        (("softmaxx", x), {}, ValueError, "did you mean 'softmax'"),
        (("softmax/online", x), {}, ValueError, "not of a rung"),
        (("linear", x, x), {}, ValueError, "linear calls such"),
        (("cross_entropy", x, x), {}, ValueError, "cross_entropy calls such"),
        ((3, x), {}, ValueError, "not 3"),
        (("softmax", x), {"rung": "online"}, TypeError, "takes no rung="),
        (("softmax", None), {}, TypeError, "'input' is None"),
        (("softmax", x, *[x] * 9), {}, TypeError, "too many"),
        (("softmax", x, 0), {}, TypeError, "takes no dim=0"),
        (("softmax", x.to(torch.complex64)), {}, ValueError, "complex64"),
        (("softmax", x.to(torch.int64)), {}, ValueError, "i64"),
    ]:
        with pytest.raises(error, match=text):
            warpsmith.explain(*arguments, **keywords)


def test_explain_agrees_with_the_log(caplog: pytest.LogCaptureFixture) -> None:
    x = np.ones((4, 4), np.float32)
    asked = torch.ones(4, 4)
    with caplog.at_level(logging.DEBUG, "warpsmith"):
        warpsmith.relu(x)
        torch.ops.warpsmith.softmax(asked)
        warpsmith.layer_norm(x)  # weight and bias are left out
    assert f"layer_norm: {warpsmith.explain('layer_norm', x).rung}" in caplog.messages
    assert f"relu: {warpsmith.explain('relu', x).rung}" in caplog.messages
    assert f"softmax: {warpsmith.explain('softmax', asked).rung}" in caplog.messages


def test_explain_looks_at_the_outputs_that_a_call_makes(caplog: pytest.LogCaptureFixture) -> None:
    """Their strides follow the inputs'."""
    image = torch.randn(2, 8, 4, 4).to(memory_format=torch.channels_last)
    calls = [
        ("batch_norm_forward", (image,), {}, image),
        ("batch_norm_forward", (image.contiguous(),), {}, image.contiguous()),
        ("group_norm_forward", (image,), {"groups": 2}, image),
        ("cumsum", (torch.randn(64, 48).t(), 0), {}, torch.randn(64, 48).t()),
        ("cumsum", (torch.randn(64, 48), 0), {}, torch.randn(64, 48)),
        ("relu", (torch.randn(64, 48).t(),), {}, torch.randn(64, 48).t()),
        ("transpose", (torch.randn(64, 48), 0, 1), {}, torch.empty(48, 64)),
    ]
    for name, arguments, keywords, like in calls:
        told = warpsmith.explain(name, *arguments, **keywords).rung
        results = getattr(warpsmith, name)(*arguments, **keywords)
        results = results if isinstance(results, tuple) else (results,)
        assert results[0].stride() == like.stride()
        outs = tuple(torch.empty_strided(r.shape, r.stride(), dtype=r.dtype) for r in results)
        given = _explain._arguments(OPERATIONS[name], arguments, keywords)
        caplog.clear()
        with caplog.at_level(logging.DEBUG, "warpsmith"):
            _torch.call(OPERATIONS[name], *given, None, outs)
        assert f"{name}: {told}" in caplog.messages


def test_functions_show_their_source() -> None:
    for name in OPERATIONS:
        source = inspect.getsource(getattr(warpsmith, name))
        assert ast.parse(source).body[0].name == name
    linecache.checkcache()
    assert "return general(" in inspect.getsource(warpsmith.relu)


def test_stubs_are_current() -> None:
    sys.path.insert(0, str(ROOT / "tools"))
    import stubs

    assert stubs.STUBS.read_text() == stubs.stubs(), "PYTHONPATH=python tools/stubs.py writes them"
    assert (ROOT / "python/warpsmith/py.typed").is_file()


def test_stubs_have_the_signatures_of_the_package() -> None:
    tree = ast.parse((ROOT / "python/warpsmith/__init__.pyi").read_text())
    defined = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    imported = {
        alias.asname: (node.module, alias.name)
        for node in tree.body
        if isinstance(node, ast.ImportFrom) and node.module.startswith("warpsmith")
        for alias in node.names
    }
    public = {name for name, thing in vars(warpsmith).items() if callable(thing) and name[0] != "_"}
    aliases = {
        node.targets[0].id: node.value.id
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Name)
    }
    assert defined.keys() | imported.keys() | aliases.keys() == public
    for name, original in aliases.items():
        assert getattr(warpsmith, name) is getattr(warpsmith, original)
    assert set(warpsmith.__all__) <= public
    for name, (module, original) in imported.items():
        assert getattr(importlib.import_module(module), original) is getattr(warpsmith, name)
    for name, node in defined.items():
        parameters = inspect.signature(getattr(warpsmith, name)).parameters.values()
        by_place = [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
        assert [a.arg for a in node.args.args] == by_place
        by_name = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY]
        assert [a.arg for a in node.args.kwonlyargs] == by_name
        defaults = [*node.args.defaults, *(d for d in node.args.kw_defaults if d is not None)]
        assert [ast.literal_eval(default) for default in defaults] == [
            p.default for p in parameters if p.default is not p.empty
        ]


# ---- The program ---------------------------------------------------------------------------------


needs_program = pytest.mark.skipif(
    _libraries.program() is None, reason="the program is not built beside the libraries"
)


@needs_program
def test_the_package_becomes_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    became: list[Any] = []
    monkeypatch.setattr(os, "execv", lambda *program: became.append(program))
    monkeypatch.setattr(sys, "argv", ["warpsmith", "list", "--json"])
    with pytest.raises(SystemExit):
        runpy.run_module("warpsmith", run_name="__main__", alter_sys=True)
    ((program, arguments),) = became
    assert arguments[0] == "warpsmith"
    command = [str(program), *arguments[1:]]
    listed = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    names = [
        operation["name"] for family in listed["families"] for operation in family["operations"]
    ]
    assert names == list(OPERATIONS)


def test_a_package_without_the_program_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    from warpsmith import __main__

    monkeypatch.setattr(_libraries, "PATHS", {"emulated": tmp_path / "libwarpsmith.so"})
    assert __main__.main() == 2
    assert str(tmp_path) in capsys.readouterr().err


def test_the_wheel_has_the_script() -> None:
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    module, _, function = scripts["warpsmith"].partition(":")
    assert callable(getattr(importlib.import_module(module), function))


def installed_program() -> Path | None:
    """The program of a package that is installed, with what it builds programs of its own with."""
    found = _libraries.program()
    return found if found is not None and (found.parent / "run").is_dir() else None


@pytest.mark.skipif(installed_program() is None, reason="the program is not an installed one")
def test_an_installed_program_runs_cuda_files_with_what_lies_beside_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    installed = installed_program()
    program = tmp_path / "warpsmith"
    shutil.copy(installed, program)  # a link would lead back
    shutil.copytree(installed.parent / "run", tmp_path / "run")

    def run() -> subprocess.CompletedProcess[str]:
        file = ROOT / "tests" / "cuda_file" / "programs" / "own_headers.cu"
        return subprocess.run([program, "run", file], capture_output=True, text=True, timeout=120)

    right = run()
    assert right.returncode == 0, right.stderr
    header = tmp_path / "run" / "include" / "cuda_runtime.h"
    header.write_text("#error it is this one\n")
    wrong = run()
    assert wrong.returncode != 0
    assert "it is this one" in wrong.stdout + wrong.stderr


@needs_program
def test_ctrl_c_ends_the_program() -> None:
    program = subprocess.Popen(
        [str(_libraries.program()), "verify", "gemm/naive", "--shape", "768x768x768"],
        stdout=subprocess.DEVNULL,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    time.sleep(1)
    assert program.poll() is None
    program.send_signal(signal.SIGINT)
    assert program.wait(timeout=SOON) == -signal.SIGINT


def test_build_info() -> None:
    info = warpsmith.build_info()
    assert info["version"] == warpsmith.__version__
    assert Path(info["package"]) == Path(warpsmith.__file__).parent
    assert info["variants"].keys() == _libraries.MODULES.keys()
    for variant, known in info["variants"].items():
        assert Path(known["library"]).is_file()
        assert known["revision"] and re.fullmatch(r"\w+ [\d.]+", known["compiler"])
        assert ("architectures" in known) == (variant == "cuda")
    json.dumps(info)


# ---- Environment variables -----------------------------------------------------------------------

READ = re.compile(r"""["']((?:WARPSMITH_[A-Z_]+)|NO_COLOR)["']|\$\{?(WARPSMITH_[A-Z_]+)""")
SOURCES = {".py", ".cpp", ".hpp", ".cu", ".cuh", ".in", ".cmake", ".txt", "", ".h"}


def test_the_page_of_environment_variables_has_all() -> None:
    read: set[str] = set()
    for folder in ROOT.iterdir():
        if folder.name.startswith(".") or folder.name in ("build", "dist", "results"):
            continue
        files = folder.rglob("*") if folder.is_dir() else [folder]
        for file in files:
            if file.is_file() and file.suffix in SOURCES and "__pycache__" not in file.parts:
                found = READ.findall(file.read_text(errors="replace"))
                read |= {name for names in found for name in names if name}
    page = (ROOT / "docs/environment.md").read_text()
    assert set(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)) == read
    assert "docs/environment.md" in (ROOT / "README.md").read_text()
