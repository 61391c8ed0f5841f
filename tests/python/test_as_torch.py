"""Functions of torch's names take torch's arguments: names, positions, dims, dtypes, numbers."""

import inspect
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
import warpsmith
from conftest import assert_close
from warpsmith import _as_torch, _functions
from warpsmith._catalogue import OPERATIONS

functional = torch.nn.functional
X = torch.randn(3, 4, 5, generator=torch.Generator().manual_seed(1))
WEIGHT = torch.linspace(0.5, 2, 20).view(4, 5)
BIAS = torch.linspace(-1, 1, 20).view(4, 5)

# Our call and torch's, letter for letter but for where the function is from.
CALLS = [
    "softmax(X, 1)",
    "softmax(input=X, dim=0)",
    "softmax(X, -1, torch.float16)",
    "softmax(X.half(), 2, dtype=torch.float32)",
    "softmax(X[0, 0, 0], 0)",
    "log_softmax(X, 0, torch.bfloat16)",
    "layer_norm(X, (5,), WEIGHT[0], BIAS[0], 1e-3)",
    "layer_norm(X, [5], WEIGHT[0])",
    "layer_norm(X, [4, 5], WEIGHT, BIAS)",
    "layer_norm(X.mT, (4,), bias=WEIGHT[:, 0], weight=BIAS[:, 0])",
    "layer_norm(X, X.shape)",
    "rms_norm(X / 1000, (4, 5), WEIGHT)",
    "rms_norm(X, (5,), eps=None)",
    "sum(X, 1, True)",
    "sum(X, dtype=torch.float64)",
    "sum(X, (0, 2))",
    "sum(X, [0], dtype=torch.float16)",
    "mean(X, 0, dtype=torch.float64)",
    "prod(X, 1, dtype=torch.float16)",
    "amax(X, ())",
    "argmax(X, 1, True)",
    "all(X > 0, (0, 1), keepdim=True)",
    "cumsum(X, 1)",
    "cumsum(X.half(), 0, dtype=torch.float32)",
    "cumprod(input=X, dim=-1)",
    "logcumsumexp(X, 0)",
    "topk(X, 2, 1, False, True)",
    "sort(X, 0, True)",
    "sort(X, stable=True, descending=True)",
    "elu(X, 0.5)",
    "gelu(X, approximate='tanh')",
    "hardshrink(X, 0.3)",
    "silu(X, False)",
    "relu(input=X)",
    "histc(X, 10, -2, 2)",
    "dot(X[0, 0], tensor=X[1, 1])",
    "bmm(X, mat2=X.mT)",
    "addmm(BIAS, mat1=WEIGHT[:, :4], mat2=WEIGHT, beta=0.5, alpha=2)",
    "add(X, X[0], alpha=0.3)",
    "add(X, 2)",
    "add(2.5, X)",
    "add(X, True, alpha=3)",
    "add(X, torch.arange(5))",
    "add(X.half(), X)",
    "add(X.half(), 0.1, alpha=-1.5)",
    "add(X.bfloat16(), X.half())",
    "add(X.half(), torch.tensor(0.1))",
    "add(torch.tensor(0.1), X.half())",
    "mul(X.half(), 0.1)",
    "mul(X.long(), 0.5)",
    "mul(input=X, other=X.bfloat16())",
]


def of_torch(name: str) -> Any:
    return getattr(torch, name, None) or getattr(functional, name)


@pytest.mark.parametrize("call", CALLS)
def test_calls(call: str) -> None:
    name = call[: call.index("(")]
    found = eval(f"warpsmith.{call}")
    want = eval(f"function{call[len(name) :]}", globals() | {"function": of_torch(name)})
    if not isinstance(want, tuple):
        found, want = (found,), (want,)
    else:
        assert type(found) is type(want)  # with torch's names of the fields
        assert torch.equal(found.values, found[0])
    for ours, theirs in zip(found, want, strict=True):
        assert ours.dtype == theirs.dtype
        assert ours.shape == theirs.shape
        assert_close(ours, theirs)


def test_numbers_beside_16_bits_are_rounded_once() -> None:
    for dtype in (torch.float16, torch.bfloat16):
        x = torch.linspace(-3, 3, 999).to(dtype)
        assert torch.equal(warpsmith.mul(x, 0.1), x * 0.1)
        assert torch.equal(warpsmith.add(x, 0.1), (x.float() + 0.1).to(dtype))
        out = torch.empty_like(x)
        assert warpsmith.mul(x, 0.1, out=out) is out
        assert torch.equal(out, x * 0.1)


def test_out_of_a_call_in_f32_has_the_shape_and_dtype_of_the_result() -> None:
    x = torch.linspace(-3, 3, 5).half()
    for out in (torch.zeros(2, 5).half(), torch.zeros(5), torch.zeros(5, dtype=torch.int64)):
        before = out.clone()
        with pytest.raises(ValueError, match=r"add: out is .* the result torch.float16 of \(5,\)"):
            warpsmith.add(x, 0.5, out=out)
        assert torch.equal(out, before)
    out = torch.zeros(5).half()
    with pytest.raises(ValueError, match="out= has no gradient"):
        warpsmith.add(x.requires_grad_(), 0.5, out=out)
    assert not out.requires_grad
    with torch.no_grad():
        assert torch.equal(warpsmith.add(x, 0.5, out=out), x + 0.5)


def test_result_dtype_is_torch_s() -> None:
    dtypes = (torch.bool, torch.uint8, torch.int64, torch.float16, torch.bfloat16)
    dtypes += (torch.float32, torch.float64)
    operands = [torch.ones(shape, dtype=d) for d in dtypes for shape in ((), (2,))]
    for a, b in product([*operands, True, 2, 0.5], repeat=2):
        if torch.is_tensor(a) or torch.is_tensor(b):
            assert _as_torch.result_dtype(a, b) == torch.result_type(a, b), (a, b)


def test_in_place() -> None:
    for name in ("relu", "elu", "silu", "hardswish"):
        x = X.clone()
        assert getattr(warpsmith, name)(x, inplace=True) is x
        assert_close(x, of_torch(name)(X))


@pytest.mark.parametrize("shape", [(6, 8), (4, 6, 8), (2, 6, 4, 8), (5, 3, 7)])
@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_another_dimension_is_no_copy(name: str, shape: tuple[int, ...]) -> None:
    """The view goes to the kernel: a rung of columns takes it, and all has torch's strides."""
    backward = getattr(warpsmith, f"{name}_backward")
    for dim in range(len(shape) - 1):
        x = torch.randn(shape, requires_grad=True)
        theirs = x.detach().clone().requires_grad_()
        result, expected = getattr(warpsmith, name)(x, dim=dim), getattr(torch, name)(theirs, dim)
        grad = torch.randn(shape)
        result.backward(grad)
        expected.backward(grad)
        of_rung = getattr(warpsmith, name)(x.detach(), dim=dim, rung="columns")
        moved = grad.swapaxes(dim, -1), result.detach().swapaxes(dim, -1)
        grad_of_rung = backward(*moved, rung="columns").swapaxes(dim, -1)
        for ours, torchs in (
            (result, expected),
            (of_rung, expected),
            (x.grad, theirs.grad),
            (grad_of_rung, theirs.grad),
        ):
            assert ours.stride() == torchs.stride()
            assert_close(ours, torchs)


def test_out_over_another_dimension() -> None:
    out = torch.empty(3, 4, 5)
    assert warpsmith.softmax(X, 0, out=out) is out
    assert_close(out, torch.softmax(X, 0))
    scalar = torch.empty(())
    assert warpsmith.softmax(X[0, 0, 0], 0, out=scalar) is scalar
    assert scalar == 1
    with pytest.raises(NotImplementedError, match=r"out over 2 dimensions \(4, 5\)"):
        warpsmith.layer_norm(X, (4, 5), out=out)


def test_dropout_only_in_training() -> None:
    assert warpsmith.dropout(X, 0.5, False, seed=1) is X
    with pytest.raises(TypeError, match="'seed'"):
        warpsmith.dropout(X, 0.5)
    with pytest.raises(ValueError, match="takes no out"):
        warpsmith.dropout(X, 0.5, False, seed=1, out=torch.empty_like(X))


def test_other_values_of_what_torch_alone_has_are_refused() -> None:
    with pytest.raises(NotImplementedError, match="relu: mode is 'fast' here, not 'exact'"):
        _as_torch.apply(warpsmith.relu, "relu", {"input": X}, {}, {"mode": ("exact", "fast")})


def test_statistics_over_several_dimensions() -> None:
    y, mean, rstd = warpsmith.layer_norm(X, (4, 5), WEIGHT, BIAS, stats=True)
    assert y.shape == X.shape
    assert_close(mean, X.mean((1, 2)))
    assert_close(rstd, (X.var((1, 2), unbiased=False) + 1e-5).rsqrt())


def test_gradients() -> None:
    def gradients(space: Any, norms: Any) -> tuple[torch.Tensor, ...]:
        x, w = X.clone().requires_grad_(), WEIGHT.clone().requires_grad_()
        y = norms.layer_norm(x, (4, 5), w)
        y = space.add(space.mul(space.softmax(y, 1), 2.5), w, alpha=0.5)
        return torch.autograd.grad(space.sum(y, dtype=torch.float64), (x, w))

    ours, theirs = gradients(warpsmith, warpsmith), gradients(torch, functional)
    for found, want in zip(ours, theirs, strict=True):
        assert_close(found, want)


def test_compiles() -> None:
    def both(space: Any, norms: Any, x: torch.Tensor, half: torch.Tensor) -> Any:
        return (
            space.softmax(x, 0, torch.float32),
            norms.layer_norm(x, (4, 5)),
            space.add(x, half),
            space.mul(half, 0.5),
            space.cumsum(half, 0, dtype=torch.float32),
            space.topk(x, 2, 1).values,
        )

    compiled = torch.compile(
        lambda x, half: both(warpsmith, warpsmith, x, half), fullgraph=True, backend="eager"
    )
    theirs = both(torch, functional, X, X.half())
    for found, want in zip(compiled(X, X.half()), theirs, strict=True):
        assert found.dtype == want.dtype
        assert_close(found, want)


@pytest.mark.parametrize("name", ["sum", "mean", "amax", "argmax"])
def test_a_dimension_may_be_a_symbol(name: str) -> None:
    ours, theirs = getattr(warpsmith, name), getattr(torch, name)
    torch._dynamo.reset()
    compiled = torch.compile(lambda x, dim: ours(x, dim), fullgraph=True, backend="aot_eager")
    for dim in (0, 1, 2, -1):
        assert_close(compiled(X, dim), theirs(X, dim))


def test_arrays_of_numpy() -> None:
    x = X.numpy()
    assert_close(torch.from_numpy(warpsmith.softmax(x, 0)), torch.softmax(X, 0))
    assert_close(
        torch.from_numpy(warpsmith.layer_norm(x, (4, 5))), functional.layer_norm(X, (4, 5))
    )
    mean = warpsmith.mean(x, 0, dtype=np.float64)
    assert mean.dtype == np.float64
    assert_close(torch.from_numpy(mean), X.double().mean(0))


def test_signatures() -> None:
    """Defaults that torch requires are the operation's own; what torch has not is by keyword."""
    known = {
        "add": "(input, other, *, alpha=1.0, rung=None, out=None)",
        "softmax": "(input, dim=-1, dtype=None, *, bounded=False, rung=None, out=None)",
        "topk": "(input, k, dim=-1, largest=True, sorted=True, *, rung=None, out=None)",
        "elu": "(input, alpha=1.0, inplace=False, *, rung=None, out=None)",
        "gemv": "(a, x, *, layout='n', rung=None, out=None)",
        "scaled_mm": "(a, b, scale_a, scale_b, bias=None, *, out_dtype='bfloat16', "
        "use_fast_accum=False, rung=None, out=None)",
    }
    for name, text in known.items():
        assert str(inspect.signature(getattr(warpsmith, name))) == text
        assert str(_functions.signature_of(OPERATIONS[name])) == text
    assert warpsmith.silu is warpsmith.swish


def test_flags_may_be_numbers() -> None:
    x = torch.randn(3, 4)
    assert torch.equal(warpsmith.silu(x, inplace=0), warpsmith.silu(x))
    dropped = warpsmith.dropout(x, 0.5, training=1, seed=1)
    assert torch.equal(dropped, warpsmith.dropout(x, 0.5, seed=1))


def test_outputs_lie_as_their_input_does(device: str) -> None:
    x = torch.randn(2, 3, 4, 5, device=device)
    for y in (x.to(memory_format=torch.channels_last), x.permute(3, 1, 0, 2)):
        for found in (torch.ops.warpsmith.relu(y), torch.ops.warpsmith.add(y, y)):
            assert found.stride() == torch.relu(y).stride()
