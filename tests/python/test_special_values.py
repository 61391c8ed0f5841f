"""What is peculiar to families: infinities, masks, broadcasts, many dimensions."""

import itertools

import numpy as np
import pytest
import torch
import warpsmith
from conftest import assert_close
from warpsmith._catalogue import OPERATIONS, Operation
from warpsmith._expressions import torch_function

UNARY = [
    pytest.param(operation, id=operation.name)
    for operation in OPERATIONS.values()
    if operation.family == "elementwise" and len(operation.inputs) == 1
]


def call(operation: Operation, x: torch.Tensor) -> torch.Tensor:
    return getattr(warpsmith, operation.name)(x)


def rounded(expected: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return expected.to(dtype)


@pytest.mark.parametrize("operation", UNARY)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
def test_special_values(operation: Operation, dtype: torch.dtype, device: str) -> None:
    limits = torch.finfo(dtype)
    values = [0.0, -0.0, 1e-8, -1e-8, 0.5, -0.5, 3.0, -3.0, 100.0, -100.0, limits.max, limits.min]
    values += [limits.tiny, float("inf"), float("nan")]
    x = torch.tensor(values, dtype=dtype, device=device)
    expected = torch_function(operation.name)(x.cpu().double())
    tolerance = {torch.float32: 2e-5, torch.float16: 2e-3, torch.bfloat16: 1.6e-2}[dtype]
    torch.testing.assert_close(
        call(operation, x).cpu().double(),
        rounded(expected, dtype).double(),
        rtol=tolerance,
        atol=tolerance / 10,
        equal_nan=True,
    )


@pytest.mark.parametrize("operation", UNARY)
def test_scalars_and_many_dimensions(operation: Operation, device: str) -> None:
    for shape in ((), (7,), (2, 1, 3, 1, 2, 2)):
        x = torch.randn(shape, device=device)
        result = call(operation, x)
        assert result.shape == x.shape
        assert_close(result, torch_function(operation.name)(x.cpu().double()))


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_softmax_of_special_rows(name: str, device: str) -> None:
    rows = torch.zeros(6, 40)
    rows[0] = -1000.0
    rows[1, :20] = -float("inf")  # masked
    rows[2] = -float("inf")  # all masked: NaN, as in torch
    rows[3, 7] = float("nan")
    rows[4, 3] = float("inf")
    rows[5] = torch.linspace(-3e4, 3e4, 40)
    result = getattr(warpsmith, name)(rows.to(device))
    expected = getattr(torch, name)(rows.double(), -1).float()
    torch.testing.assert_close(result.cpu(), expected, rtol=2e-5, atol=2e-6, equal_nan=True)


@pytest.mark.parametrize("rung", [rung["name"] for rung in OPERATIONS["rms_norm"].rungs])
def test_rms_norm_of_infinite_rows(rung: str, device: str) -> None:
    rows = torch.ones(3, 256)
    rows[0, [5, 90]] = float("inf")
    rows[1, [5, 6]] = torch.tensor([-float("inf"), float("inf")])
    rows[2, 255] = float("nan")
    try:
        result = warpsmith.rms_norm(rows.to(device), rung=rung)
    except ValueError as error:
        pytest.skip(str(error))
    expected = rows * (rows.square().mean(-1, keepdim=True) + 1e-6).rsqrt()
    torch.testing.assert_close(result.cpu(), expected, equal_nan=True)


MASK_SHAPES = [(2, 3, 5, 24), (2, 1, 5, 24), (1, 1, 5, 24), (5, 24), (2, 1, 1, 24), (24,)]
MASK_SHAPES += [(2, 3, 5, 1), (3, 1, 1), (1,), ()]


@pytest.mark.parametrize("shape", MASK_SHAPES, ids=str)
def test_masks_broadcast(shape: tuple[int, ...], device: str) -> None:
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(2, 3, 5, 24, generator=generator)
    mask = torch.rand(shape, generator=generator) < 0.7
    scores = torch.where(mask, x.double() * 0.5, -1.0)
    y = warpsmith.scale_mask_softmax(x.to(device), mask.to(device), scale=0.5, fill=-1.0)
    assert_close(y, torch.softmax(scores, -1))
    grad = torch.randn(x.shape, generator=generator)
    expected = torch.autograd.grad(
        torch.softmax(torch.where(mask, (z := x.double().requires_grad_()) * 0.5, -1.0), -1),
        z,
        grad.double(),
    )[0]
    result = warpsmith.scale_mask_softmax_backward(grad.to(device), y, mask.to(device), scale=0.5)
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


@pytest.mark.parametrize("name", ["add", "mul"])
def test_broadcast(name: str, device: str) -> None:
    for a, b in itertools.permutations([(3, 1, 5), (4, 1), (5,), ()], 2):
        x, y = torch.randn(a, device=device), torch.randn(b, device=device)
        assert_close(getattr(warpsmith, name)(x, y), getattr(torch, name)(x.double(), y).cpu())


def test_broadcast_gradient() -> None:
    a = torch.randn(4, 3, requires_grad=True)
    b = torch.randn(3, requires_grad=True)
    ga, gb = torch.autograd.grad(warpsmith.mul(a, b).sum(), (a, b))
    torch.testing.assert_close(ga, b.detach().expand(4, 3))
    torch.testing.assert_close(gb, a.detach().sum(0))


@pytest.mark.parametrize("layout", ["nn", "nt", "tn", "tt"])
def test_gemm_layouts(layout: str) -> None:
    a = torch.randn((3, 4) if layout[0] == "n" else (4, 3), requires_grad=True)
    b = torch.randn((4, 5) if layout[1] == "n" else (5, 4), requires_grad=True)
    g = torch.randn(3, 5)
    ours = warpsmith.gemm(a, b, layout=layout)
    product = (a if layout[0] == "n" else a.t()) @ (b if layout[1] == "n" else b.t())
    torch.testing.assert_close(ours, product)
    pairs = zip(
        torch.autograd.grad(ours, (a, b), g), torch.autograd.grad(product, (a, b), g), strict=True
    )
    for got, wanted in pairs:
        torch.testing.assert_close(got, wanted)


def test_strides_are_kept() -> None:
    x = torch.randn(4, 6).t()
    assert warpsmith.relu(x).stride() == torch.ops.warpsmith.relu(x).stride() == x.stride()


def test_negated_views(device: str) -> None:
    # The imaginary part of a conjugate is a real tensor with a bit that says "negated".
    x = torch.randn(8, 2, device=device)
    view = torch.view_as_complex(x).conj().imag
    assert view.is_neg()
    assert torch.equal(warpsmith.relu(view), torch.relu(view))
    assert torch.equal(warpsmith.relu(view[:1]), torch.relu(view[:1]))


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


def test_compiles_several_operations() -> None:
    def compute(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(x)
        warpsmith.add(x, y, out=out)
        z = warpsmith.gelu(out, approximate="tanh", rung="vector_x4")
        return warpsmith.gemm(z, y, layout="nt") + warpsmith.elu(x, alpha=0.5).sum()

    x, y = torch.randn(4, 8), torch.randn(4, 8)
    torch._dynamo.reset()
    compiled = torch.compile(compute, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(x, y), compute(x, y))


def test_compiles_with_inductor(device: str) -> None:
    x = torch.randn(4, 16, device=device)
    torch._dynamo.reset()
    compiled = torch.compile(lambda x: warpsmith.softmax(x * 2) + 1, fullgraph=True)
    torch.testing.assert_close(compiled(x), torch.softmax(x * 2, -1) + 1)


def test_compiles_once_for_all_shapes() -> None:
    compiles = 0

    def counting(graph: torch.fx.GraphModule, _: object):
        nonlocal compiles
        compiles += 1
        return graph.forward

    torch._dynamo.reset()
    compiled = torch.compile(
        lambda a, b: warpsmith.gemm(warpsmith.relu(a), b), backend=counting, dynamic=True
    )
    for m, n, k in ((4, 5, 6), (7, 8, 9), (10, 11, 12)):
        a, b = torch.randn(m, k), torch.randn(k, n)
        torch.testing.assert_close(compiled(a, b), torch.relu(a) @ b)
    assert compiles == 1
