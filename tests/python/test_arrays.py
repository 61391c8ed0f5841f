"""Arrays of JAX and CuPy, by stand-ins that answer as those do; test_cuda.py has the real ones."""

import logging
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import tvm_ffi
import warpsmith
from warpsmith import _arrays
from warpsmith._catalogue import OPERATIONS, Operation
from warpsmith._libraries import DEVICE_CPU, DEVICE_CUDA, MODULES

X = np.linspace(-3, 3, 24, dtype=np.float32).reshape(4, 6)


class JaxArray:
    """What is asked of a jax.Array, on NumPy's memory."""

    def __init__(self, values: np.ndarray, platform: str, streams: list[Any]) -> None:
        self.values, self._platform, self._streams = values, platform, streams

    def devices(self) -> set[Any]:
        return {_Device(self._platform)}

    def __dlpack__(self, *, stream: int | None = None) -> Any:
        self._streams.append(stream)
        return self.values.__dlpack__()

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.values.__dlpack_device__()


class _Device:
    """A jax.Device; those of one platform are the same."""

    def __init__(self, platform: str) -> None:
        self.platform = platform

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Device) and other.platform == self.platform

    def __hash__(self) -> int:
        return hash(self.platform)


class Jax:
    """The module: dtypes of what it made, and the streams that its arrays were asked for."""

    Array = JaxArray
    core = SimpleNamespace(Tracer=type("Tracer", (JaxArray,), {}))

    def __init__(self, platform: str) -> None:
        self.streams: list[Any] = []
        self.made: list[Any] = []
        self._platform = platform
        self.numpy = SimpleNamespace(empty=self._empty)
        self.dlpack = SimpleNamespace(from_dlpack=self._from_dlpack)

    def array(self, values: np.ndarray) -> JaxArray:
        return JaxArray(values, self._platform, self.streams)

    def _empty(self, shape: Sequence[int], dtype: Any, *, device: Any) -> JaxArray:
        assert device == _Device(self._platform)
        self.made.append(dtype)
        return self.array(np.full(shape, 99, dtype))

    def _from_dlpack(self, view: Any) -> JaxArray:
        return self.array(np.from_dlpack(view))


@pytest.fixture(params=["cpu", "gpu"])
def jax(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Jax:
    module = Jax(request.param)
    monkeypatch.setitem(sys.modules, "jax", module)
    return module


def test_jax_gets_new_arrays_of_its_own(jax: Jax) -> None:
    result = warpsmith.softmax(jax.array(X))
    assert isinstance(result, JaxArray)
    np.testing.assert_allclose(result.values, warpsmith.softmax(X))
    # 1 is DLPack's number of the default stream, on which the call runs; a CPU has none.
    assert set(jax.streams) == ({None} if result.devices() == {_Device("cpu")} else {1})
    values, places = warpsmith.topk(jax.array(X), 1)
    np.testing.assert_array_equal(values.values, X[:, 5:])
    np.testing.assert_array_equal(places.values, np.full((4, 1), 5))


def test_jax_waits_for_what_it_does_not_know_of(jax: Jax, monkeypatch: pytest.MonkeyPatch) -> None:
    waited = []
    module = SimpleNamespace(synchronize=lambda device, stream: waited.append((device, stream)))
    monkeypatch.setattr(_arrays, "module_for", lambda kind: {DEVICE_CPU: module}[kind])
    adapter = _arrays.Jax(jax.array(X))
    view = adapter.empty(2, 32, (3,))
    assert adapter.result(None, view).values.shape == (3,)
    assert waited == ([] if adapter.stream is None else [(0, 0)])


@pytest.mark.parametrize("jax", ["gpu"], indirect=True)
def test_jax_gives_workspace(jax: Jax) -> None:
    row = np.tile(X[:1], 2000)
    for rung in OPERATIONS["sum"].rungs:
        try:
            result = warpsmith.sum(jax.array(row), rung=rung["name"])
        except ValueError:
            continue  # does not take the call
        np.testing.assert_allclose(result.values, row.sum(), rtol=1e-5)
    assert np.int32 in jax.made


def test_jax_arrays_are_concrete_and_not_written(jax: Jax) -> None:
    traced = jax.core.Tracer(X, "cpu", jax.streams)
    with pytest.raises(TypeError, match=r"outside of jax\.jit"):
        warpsmith.relu(traced)
    x = jax.array(X)
    with pytest.raises(ValueError, match="cannot be written"):
        warpsmith.relu(x, out=x)
    with pytest.raises(TypeError, match=r"one library, got .*JaxArray, numpy\.ndarray"):
        warpsmith.add(x, X)


class CuPyArray:
    """What is asked of a cupy.ndarray, over memory that nobody reads."""

    def __init__(self, values: np.ndarray, device: Any) -> None:
        self.dtype, self.shape, self.strides = values.dtype, values.shape, values.strides
        self.data = SimpleNamespace(ptr=values.ctypes.data)
        self.device = device


def test_cupy_arrays_lie_where_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    class Device(nullcontext):
        id = 3

    stream = SimpleNamespace(ptr=1234)
    cupy = SimpleNamespace(
        ndarray=CuPyArray,
        cuda=SimpleNamespace(get_current_stream=lambda: stream),
        empty=lambda shape, dtype: (shape, dtype),
    )
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    array = CuPyArray(X.T, Device())
    adapter = _arrays.adapter_of(OPERATIONS["relu"], [array])
    assert isinstance(adapter, _arrays.CuPy)
    assert adapter.stream == 1234
    assert adapter.scope() is array.device
    view = adapter.view(array)
    assert tuple(view.__dlpack_device__()) == (DEVICE_CUDA, 3)
    assert adapter.device_type(view) == DEVICE_CUDA
    assert tuple(view.shape) == (6, 4)
    assert tuple(view.strides) == (1, 6)
    assert adapter.empty(2, 16, (5,)) == ((5,), np.float16)


def test_numpy_arrays_lie_on_the_cpu() -> None:
    adapter = _arrays.adapter_of(OPERATIONS["relu"], [X])
    view = adapter.view(X[::2])
    assert tuple(view.__dlpack_device__()) == (DEVICE_CPU, 0)
    assert (tuple(view.shape), tuple(view.strides)) == ((2, 6), (12, 1))


@pytest.mark.parametrize("device", [(DEVICE_CPU, 0), (DEVICE_CUDA, 3)])
def test_arrays_of_nobody_say_where_they_are(device: tuple[int, int]) -> None:
    view = _arrays.memory(X.ctypes.data, (2, 32), X.shape, (6, 1), device)
    adapter = _arrays.adapter_of(OPERATIONS["relu"], [view])
    assert adapter.view(view) is view
    assert adapter.device_type(view) == device[0]


def test_the_log_asks_the_library_that_the_arrays_go_to(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def functions(_: Operation, kind: int) -> Any:
        asked.append(kind)
        return SimpleNamespace(choice=lambda *_: "a_rung")

    monkeypatch.setattr(Operation, "functions", functions)
    view = _arrays.memory(X.ctypes.data, (2, 32), X.shape, (6, 1), (DEVICE_CUDA, 3))
    with caplog.at_level(logging.DEBUG, "warpsmith"):
        OPERATIONS["relu"].log_choice(view, None)
    assert asked == [DEVICE_CUDA]
    assert "relu: a_rung" in caplog.messages


def test_arrays_of_nobody_need_out() -> None:
    with pytest.raises(TypeError, match=r"takes arrays of one library, got builtins\.list"):
        warpsmith.relu([1.0])
    with pytest.raises(ValueError, match="type DLPack need out="):
        warpsmith.relu(_arrays.NumPy(X).view(X))


def test_arrays_of_another_library_go_to_it() -> None:
    # As where both libraries are: NumPy's arrays reach that for GPUs first.
    relu = OPERATIONS["relu"]
    view = _arrays.memory(X.ctypes.data, (2, 32), X.shape, (6, 1), (DEVICE_CUDA, 0))
    calls = []
    other = tvm_ffi.convert(lambda *call: calls.append(len(call)))
    MODULES["emulated"].function_of(relu.id, other)(view, view)
    assert calls == [2]
