"""Every operation, dtype and rung gives torch's answer, on every kind of input."""

import itertools

import numpy as np
import pytest
import torch
import warpsmith
from conftest import (
    FLOAT_CASES,
    OPERATION_CASES,
    assert_close,
    defaults_of,
    expected_of,
    inputs_of,
)
from warpsmith._catalogue import OPERATIONS, Operation

UNARY = [op for op in OPERATIONS.values() if op.family == "elementwise" and len(op.inputs) == 1]


def call(operation: Operation, *arguments: object, **keywords: object) -> torch.Tensor:
    return getattr(warpsmith, operation.name)(*arguments, **keywords)


def attribute_values(operation: Operation) -> list[list[object]]:
    """The defaults, then every attribute by itself at another value."""
    all_values = [defaults_of(operation)]
    for i, a in enumerate(operation.attributes):
        others = {
            "choice": [choice for choice in a.choices if choice != a.default],
            "float": [0.75],
            "int": [2],
            "bool": [not a.default],
        }[a.kind]
        for other in others:
            values = defaults_of(operation)
            values[i] = other
            all_values.append(values)
    return all_values


@pytest.mark.parametrize(("operation", "dtype"), FLOAT_CASES)
def test_agrees_with_torch(operation: Operation, dtype: torch.dtype, device: str) -> None:
    inputs = inputs_of(operation, dtype, device)
    result = call(operation, *inputs)
    assert result.dtype == dtype
    assert result.device == inputs[0].device
    assert_close(result, expected_of(operation, inputs, defaults_of(operation)))


@pytest.mark.parametrize("operation", OPERATION_CASES)
def test_attributes(operation: Operation, device: str) -> None:
    for values in attribute_values(operation):
        inputs = inputs_of(operation, torch.float32, device)
        if operation.name == "gemm":
            a, b = inputs
            layout = str(values[0])
            inputs = [
                a.t().contiguous() if layout[0] == "t" else a,
                b.t().contiguous() if layout[1] == "t" else b,
            ]
        expected = expected_of(operation, inputs, values)
        names = [a.name for a in operation.attributes]
        assert_close(call(operation, *inputs, *values), expected)
        assert_close(call(operation, *inputs, **dict(zip(names, values, strict=True))), expected)


@pytest.mark.parametrize("operation", OPERATION_CASES)
def test_every_rung(operation: Operation, device: str) -> None:
    inputs = inputs_of(operation, torch.float32, device, rows=16, columns=64)
    expected = expected_of(operation, inputs, defaults_of(operation))
    ran = 0
    for rung in operation.rungs:
        try:
            result = call(operation, *inputs, rung=rung["name"])
        except ValueError as error:
            assert "does not take" in str(error)
            continue
        assert_close(result, expected)
        assert_close(call(operation, *inputs, rung=f"{operation.name}/{rung['name']}"), expected)
        ran += 1
    assert ran > 0


@pytest.mark.parametrize("operation", OPERATION_CASES)
def test_seed_names_are_rungs(operation: Operation) -> None:
    for seed in operation.seeds:
        dtype = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}.get(
            seed["dtypes"][0]
        )
        if dtype is None:
            continue
        inputs = inputs_of(operation, dtype, "cpu", rows=16, columns=64)
        expected = expected_of(operation, inputs, defaults_of(operation))
        try:
            result = call(operation, *inputs, rung=seed["name"])
        except ValueError as error:
            assert "does not take" in str(error)
            continue
        assert_close(result, expected)


@pytest.mark.parametrize(("operation", "dtype"), FLOAT_CASES)
def test_out(operation: Operation, dtype: torch.dtype, device: str) -> None:
    inputs = inputs_of(operation, dtype, device)
    expected = call(operation, *inputs)
    out = torch.full_like(expected, float("nan"))
    before = out._version
    assert call(operation, *inputs, out=out) is out
    assert torch.equal(out, expected)
    assert out._version > before  # autograd must know


@pytest.mark.parametrize("operation", UNARY, ids=lambda op: op.name)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
def test_special_values(operation: Operation, dtype: torch.dtype, device: str) -> None:
    limits = torch.finfo(dtype)
    values = [0.0, -0.0, 1e-8, -1e-8, 0.5, -0.5, 3.0, -3.0, 100.0, -100.0, limits.max, limits.min]
    values += [limits.tiny, float("inf"), float("nan")]
    x = torch.tensor(values, dtype=dtype, device=device)
    assert_close(call(operation, x), expected_of(operation, [x], defaults_of(operation)))


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_softmax_of_special_rows(name: str, device: str) -> None:
    rows = torch.zeros(6, 40)
    rows[0] = -1000.0
    rows[1, :20] = -float("inf")  # masked
    rows[2] = -float("inf")  # all masked: NaN, as in torch
    rows[3, 7] = float("nan")
    rows[4, 3] = float("inf")
    rows[5] = torch.linspace(-3e4, 3e4, 40)
    x = rows.to(device)
    assert_close(getattr(warpsmith, name)(x), getattr(torch, name)(rows.double(), -1))


MASK_SHAPES = [(2, 3, 5, 24), (2, 1, 5, 24), (1, 1, 5, 24), (5, 24), (2, 1, 1, 24), (24,)]
MASK_SHAPES += [(2, 3, 5, 1), (3, 1, 1), (1,), ()]


@pytest.mark.parametrize("shape", MASK_SHAPES, ids=str)
def test_masks_broadcast(shape: tuple[int, ...], device: str) -> None:
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(2, 3, 5, 24, generator=generator)
    mask = torch.rand(shape, generator=generator) < 0.7
    scores = torch.where(mask, x.double() * 0.5, -1.0)
    y = warpsmith.scale_mask_softmax(x.to(device), mask.to(device), 0.5, fill=-1.0)
    assert_close(y, torch.softmax(scores, -1))
    grad = torch.randn(x.shape, generator=generator)
    expected = torch.autograd.grad(
        torch.softmax(torch.where(mask, (z := x.double().requires_grad_()) * 0.5, -1.0), -1),
        z,
        grad.double(),
    )[0]
    result = warpsmith.scale_mask_softmax_backward(grad.to(device), y, mask.to(device), 0.5)
    assert_close(result, expected)


def test_masks_too_large_for_the_cache(device: str) -> None:
    # All heads are done for a query before the next.
    x = torch.randn(2, 2, 260, 16384).to(torch.float16).to(device)
    mask = torch.rand(2, 1, 260, 16384).to(device) < 0.5
    expected = torch.softmax(torch.where(mask, x.float(), -1e4), -1)
    assert_close(warpsmith.scale_mask_softmax(x, mask), expected.cpu())


def test_fully_masked_rows(device: str) -> None:
    x = torch.randn(2, 8, device=device)
    mask = torch.zeros(2, 8, dtype=torch.bool, device=device)
    assert_close(warpsmith.scale_mask_softmax(x, mask), torch.full((2, 8), 1 / 8))
    assert warpsmith.scale_mask_softmax(x, mask, fill=float("-inf")).isnan().all()


@pytest.mark.parametrize("operation", OPERATION_CASES)
@pytest.mark.parametrize("extents", [(0, 8), (8, 0), (0, 0), (1, 1)], ids=str)
def test_empty_and_tiny(operation: Operation, extents: tuple[int, int], device: str) -> None:
    rows, columns = extents
    inputs = inputs_of(operation, torch.float32, device, rows=rows, columns=columns)
    expected = expected_of(operation, inputs, defaults_of(operation))
    result = call(operation, *inputs)
    assert result.shape == expected.shape
    assert_close(result, expected)


@pytest.mark.parametrize("operation", OPERATION_CASES)
def test_strided_inputs(operation: Operation, device: str) -> None:
    dense = inputs_of(operation, torch.float32, device, rows=6, columns=10)
    expected = expected_of(operation, dense, defaults_of(operation))

    def transposed(x: torch.Tensor) -> torch.Tensor:
        return x.t().contiguous().t()

    def sliced(x: torch.Tensor) -> torch.Tensor:
        wide = x.new_full((x.shape[0], 2 * x.shape[1] + 3), float("nan"))
        wide[:, 1 : 2 * x.shape[1] : 2] = x
        return wide[:, 1 : 2 * x.shape[1] : 2]

    def offset(x: torch.Tensor) -> torch.Tensor:
        flat = x.new_full((x.numel() + 1,), float("nan"))
        flat[1:] = x.flatten()
        return flat[1:].view(x.shape)

    for change in (transposed, sliced, offset):
        assert_close(call(operation, *map(change, dense)), expected)
        out = change(torch.zeros_like(expected, dtype=torch.float32, device=device))
        assert_close(call(operation, *dense, out=out), expected)


@pytest.mark.parametrize("operation", UNARY, ids=lambda op: op.name)
def test_scalars_and_many_dimensions(operation: Operation, device: str) -> None:
    for shape in ((), (7,), (2, 1, 3, 1, 2, 2)):
        x = torch.randn(shape, device=device)
        result = call(operation, x)
        assert result.shape == x.shape
        assert_close(result, expected_of(operation, [x], defaults_of(operation)))


@pytest.mark.parametrize("name", ["add", "mul"])
def test_broadcast(name: str, device: str) -> None:
    for a, b in itertools.permutations([(3, 1, 5), (4, 1), (5,), ()], 2):
        x, y = torch.randn(a, device=device), torch.randn(b, device=device)
        assert_close(getattr(warpsmith, name)(x, y), getattr(torch, name)(x.double(), y).cpu())


def test_negated_views(device: str) -> None:
    # The imaginary part of a conjugate is a real tensor with a bit that says "negated".
    x = torch.randn(8, 2, device=device)
    view = torch.view_as_complex(x).conj().imag
    assert view.is_neg()
    assert torch.equal(warpsmith.relu(view), torch.relu(view))
    assert torch.equal(warpsmith.relu(view[:1]), torch.relu(view[:1]))


@pytest.mark.parametrize("operation", OPERATION_CASES)
def test_numpy(operation: Operation) -> None:
    for dtype in (np.float32, np.float16):
        tensors = inputs_of(operation, torch.from_numpy(np.empty(0, dtype)).dtype, "cpu")
        arrays = [tensor.numpy() for tensor in tensors]
        result = call(operation, *arrays)
        assert isinstance(result, np.ndarray)
        assert result.dtype == dtype
        expected = call(operation, *tensors)
        np.testing.assert_array_equal(result, expected.numpy())
        out = np.empty_like(result)
        assert call(operation, *arrays, out=out) is out
        np.testing.assert_array_equal(out, result)


def test_numpy_bf16() -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    x = np.linspace(-3, 3, 24, dtype=np.float32).astype(ml_dtypes.bfloat16)
    result = warpsmith.softmax(x)
    assert result.dtype == ml_dtypes.bfloat16
    expected = torch.softmax(torch.from_numpy(x.astype(np.float32)).bfloat16(), -1)
    np.testing.assert_allclose(result.astype(np.float32), expected.float().numpy(), rtol=1e-2)


def test_numpy_read_only_and_strided() -> None:
    x = np.random.default_rng(0).standard_normal((6, 8)).astype(np.float32)
    x.flags.writeable = False
    np.testing.assert_array_equal(warpsmith.relu(x), np.maximum(x, 0))
    np.testing.assert_array_equal(warpsmith.relu(x.T), np.maximum(x.T, 0))
    np.testing.assert_array_equal(warpsmith.relu(x[::-1, ::2]), np.maximum(x[::-1, ::2], 0))


def test_anything_with_dlpack() -> None:
    class Array:
        def __init__(self, array: np.ndarray) -> None:
            self.array = array

        def __dlpack__(self, **keywords: object) -> object:
            return self.array.__dlpack__(**keywords)

        def __dlpack_device__(self) -> tuple[int, int]:
            return self.array.__dlpack_device__()

    x = np.linspace(-1, 1, 12, dtype=np.float32)
    out = Array(np.empty_like(x))
    assert warpsmith.relu(Array(x), out=out) is out
    np.testing.assert_array_equal(out.array, np.maximum(x, 0))
