"""The package itself: what it exports, documents and needs."""

import ctypes
import inspect
import json
import subprocess
import sys

import pytest
import warpsmith
from conftest import OPERATION_CASES
from warpsmith import _functions, _libraries, _measure
from warpsmith._catalogue import Operation


def run_python(code: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    ).stdout


@pytest.mark.parametrize("operation", OPERATION_CASES)
def test_documentation(operation: Operation) -> None:
    function = getattr(warpsmith, operation.name)
    assert operation.formula in function.__doc__
    for name in (*operation.inputs, *(a.name for a in operation.attributes), "rung", "out"):
        assert f"    {name}: " in function.__doc__
        assert name in inspect.signature(function).parameters
    assert function.__name__ == operation.name
    assert operation.name in warpsmith.__all__
    assert inspect.signature(function) == _functions.signature_of(operation)


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


class Device(ctypes.Structure):
    _fields_ = (("type", ctypes.c_int32), ("id", ctypes.c_int32))


class DataType(ctypes.Structure):
    _fields_ = (("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16))


class DLTensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device", Device),
        ("ndim", ctypes.c_int32),
        ("dtype", DataType),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class Call(ctypes.Structure):
    _fields_ = (
        ("operation", ctypes.c_int32),
        ("rung", ctypes.c_int64),
        ("tensor_count", ctypes.c_int32),
        ("tensors", ctypes.POINTER(ctypes.POINTER(DLTensor))),
        ("attribute_count", ctypes.c_int32),
        ("attributes", ctypes.POINTER(ctypes.c_double)),
        ("stream", ctypes.c_void_p),
        ("workspace", ctypes.c_void_p),
        ("workspace_bytes", ctypes.c_size_t),
    )


class Address(ctypes.Structure):
    _fields_ = (
        ("family", ctypes.c_int32),
        ("operation", ctypes.c_int32),
        ("rung", ctypes.c_int64),
    )


class Output(ctypes.Structure):
    _fields_ = (("dtype", DataType), ("ndim", ctypes.c_int32), ("shape", ctypes.c_int64 * 8))


def test_c_interface() -> None:
    path = _libraries.find("emulated")
    if path is None:
        pytest.skip("the emulated library is not built")
    library = ctypes.CDLL(str(path))
    library.ws_last_error.restype = ctypes.c_char_p

    text = ctypes.c_char_p()
    assert library.ws_catalogue(ctypes.byref(text)) == 0
    assert json.loads(text.value)["emulated"] is True

    address = Address()
    assert library.ws_resolve(b"relu/scalar", ctypes.byref(address)) == 0
    assert address.rung == 0
    assert library.ws_resolve(b"rely", ctypes.byref(address)) == 1
    assert b"did you mean 'relu'" in library.ws_last_error()
    library.ws_resolve(b"relu", ctypes.byref(address))
    assert address.rung == -1

    values = (ctypes.c_float * 6)(-2, -1, 0, 1, 2, 3)
    results = (ctypes.c_float * 6)()
    shape = (ctypes.c_int64 * 2)(2, 3)

    def tensor(data) -> DLTensor:
        address = ctypes.cast(data, ctypes.c_void_p)
        return DLTensor(address, Device(1, 0), 2, DataType(2, 32, 1), shape, None, 0)

    x, y = tensor(values), tensor(results)
    tensors = (ctypes.POINTER(DLTensor) * 2)(ctypes.pointer(x), ctypes.pointer(y))
    call = Call(address.operation, -1, 2, tensors, 0, None, None, None, 0)
    assert library.ws_run(ctypes.byref(call)) == 0, library.ws_last_error()
    assert list(results) == [0, 0, 0, 1, 2, 3]

    output = Output()
    call.tensor_count = 1
    assert library.ws_infer(ctypes.byref(call), ctypes.byref(output)) == 0
    assert list(output.shape[: output.ndim]) == [2, 3]
    size = ctypes.c_size_t(1)
    assert library.ws_workspace(ctypes.byref(call), ctypes.byref(size)) == 0
    assert size.value == 0
    rung = ctypes.c_int64()
    assert library.ws_choose(ctypes.byref(call), ctypes.byref(rung)) == 0
    call.rung = rung
    reason = ctypes.c_char_p()
    assert library.ws_supports(ctypes.byref(call), ctypes.byref(reason)) == 0
    assert reason.value == b""
    call.rung = 999
    assert library.ws_run(ctypes.byref(call)) == 1
    assert b"999" in library.ws_last_error()

    options = json.dumps({"names": ["relu/scalar"], "cases": "smoke", "dtypes": ["f32"]}).encode()
    assert library.ws_verify(options, ctypes.byref(text)) == 0
    assert json.loads(text.value)["failed"] == 0
    assert library.ws_verify(b"{", ctypes.byref(text)) == 1
    assert library.ws_bench(options, None, 0, None, ctypes.byref(text)) == 1
    assert b"emulator" in library.ws_last_error()


def test_overhead_measures() -> None:
    pytest.importorskip("torch")
    from warpsmith import overhead

    result = overhead.measure(elements=16, device="cpu", calls=2, turns=1)
    assert {"add", "add out=", "softmax", "softmax out="} <= {row["name"] for row in result["rows"]}
    assert all(row["warpsmith_us"] > 0 and row["torch_us"] > 0 for row in result["rows"])
