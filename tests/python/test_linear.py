"""warpsmith.addmm and warpsmith.linear are torch's: shapes, activations, gradients, autocast."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import warpsmith
from conftest import assert_close

F = torch.nn.functional
ACTIVATIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "none": lambda h: h,
    "relu": torch.relu,
    "gelu": F.gelu,
    "gelu_tanh": lambda h: F.gelu(h, approximate="tanh"),
    "silu": F.silu,
    "swiglu": lambda h: F.silu(h.chunk(2, -1)[0]) * h.chunk(2, -1)[1],
}
each_activation = pytest.mark.parametrize("activation", ACTIVATIONS)
dtypes = pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])


def tensor(shape: tuple[int, ...], seed: int, dtype: Any = torch.float32) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator).to(dtype)


def layer(dtype: Any = torch.float32, shape: tuple[int, ...] = (2, 3, 8)) -> list[torch.Tensor]:
    return [tensor(shape, 1, dtype), tensor((16, shape[-1]), 2, dtype), tensor((16,), 3, dtype)]


def theirs(given: list[torch.Tensor], activation: str) -> torch.Tensor:
    return ACTIVATIONS[activation](F.linear(*given))


@each_activation
@dtypes
@pytest.mark.parametrize("biased", [True, False])
def test_linear(activation: str, dtype: Any, biased: bool) -> None:
    given = layer(dtype)[: 3 if biased else 2]
    ours = warpsmith.linear(*given, activation=activation)
    want = theirs([x.double() for x in given], activation)
    assert ours.dtype == dtype
    assert ours.shape == want.shape
    assert_close(ours, want)


@pytest.mark.parametrize("shape", [(8,), (0, 8), (3, 0), (2, 0, 8), (5, 8)])
def test_linear_shapes(shape: tuple[int, ...]) -> None:
    given = layer(shape=shape)
    for activation in ("none", "silu", "swiglu"):
        assert_close(warpsmith.linear(*given, activation=activation), theirs(given, activation))


@pytest.mark.parametrize("shape", [(), (1,)])
def test_a_bias_of_one_element_is_that_of_all_columns(shape: tuple[int, ...]) -> None:
    input, weight, _ = layer()
    ours = [x.requires_grad_() for x in (input, weight, tensor(shape, 3))]
    want = [x.detach().double().requires_grad_() for x in ours]
    for activation in ("none", "silu"):
        result = warpsmith.linear(*ours, activation=activation)
        expected = theirs(want, activation)
        assert_close(result, expected)
        got = torch.autograd.grad(result.sum(), ours)
        for one, other in zip(got, torch.autograd.grad(expected.sum(), want), strict=True):
            assert one.shape == other.shape
            assert_close(one, other)


@each_activation
@pytest.mark.parametrize("biased", [True, False])
def test_linear_in_tf32(activation: str, biased: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where torch's settings allow it, which the emulator is not asked."""
    asked: list[str] = []

    def noted(product: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
        def call(*given: Any, precision: str = "ieee", **more: Any) -> torch.Tensor:
            asked.append(precision)
            return product(*given, precision=precision, **more)

        return call

    monkeypatch.setattr(warpsmith, "gemm", noted(warpsmith.gemm))
    monkeypatch.setattr(warpsmith, "addmm", noted(warpsmith.addmm))
    monkeypatch.setattr("warpsmith._linear._precision", lambda _: {"precision": "tf32"})
    given = layer()[: 3 if biased else 2]
    want = [x.double().requires_grad_() for x in given]
    result = theirs(want, activation)
    with torch.no_grad():
        plain = warpsmith.linear(*given, activation=activation)
    ours = [x.requires_grad_() for x in given]
    followed = warpsmith.linear(*ours, activation=activation)
    weights = tensor(tuple(result.shape), 5)
    got = torch.autograd.grad((followed * weights).sum(), ours)
    pairs = zip(got, torch.autograd.grad((result * weights).sum(), want), strict=True)
    for mine, right in [(plain, result), (followed, result), *pairs]:
        torch.testing.assert_close(mine.double(), right, rtol=5e-3, atol=5e-2)
    assert asked == ["tf32", "tf32"]


@pytest.mark.parametrize("biased", [True, False])
def test_gradients_of_weights_lie_as_these_do(biased: bool) -> None:
    """Then autograd keeps them, and copies none."""
    given = layer()[: 3 if biased else 2]
    given[1].requires_grad_()
    result = warpsmith.linear(*given)
    (gradient,) = torch.autograd.grad(result.sum(), [given[1]])
    assert gradient.stride() == given[1].stride()
    assert_close(gradient, given[0].sum((0, 1)).double().expand(16, -1))
    turned = given[1].detach().t().contiguous().requires_grad_()  # of no transpose
    product = warpsmith.addmm(torch.zeros(16), given[0][0], turned)
    (gradient,) = torch.autograd.grad(product.sum(), [turned])
    assert gradient.stride() == turned.stride()


@each_activation
@pytest.mark.parametrize("biased", [True, False])
def test_linear_gradients(activation: str, biased: bool) -> None:
    ours = [x.requires_grad_() for x in layer()[: 3 if biased else 2]]
    want = [x.detach().double().requires_grad_() for x in ours]
    result = warpsmith.linear(*ours, activation=activation)
    expected = theirs(want, activation)
    assert_close(result, expected)
    g = tensor(tuple(result.shape), 4)
    for one, other in zip(
        torch.autograd.grad(result, ours, g),
        torch.autograd.grad(expected, want, g.double()),
        strict=True,
    ):
        assert_close(one, other)


@each_activation
def test_linear_compiles(activation: str) -> None:
    given = layer()
    function = torch.compile(
        lambda *tensors: warpsmith.linear(*tensors, activation=activation),
        fullgraph=True,
        backend="aot_eager",
    )
    assert_close(function(*given), theirs(given, activation))


@pytest.mark.parametrize(
    "shapes", [((2, 3), (4, 5)), ((), (4, 5)), ((2, 5), (4, 5), (3,)), ((3,), (2, 4, 3))]
)
def test_linear_refuses(shapes: Any) -> None:
    given = [tensor(shape, 1) for shape in shapes]
    with pytest.raises((RuntimeError, ValueError)):
        warpsmith.linear(*given)


def test_linear_refuses_others() -> None:
    given = layer()
    with pytest.raises(ValueError, match="activation is one of"):
        warpsmith.linear(*given, activation="tanh")
    with pytest.raises(TypeError):
        warpsmith.linear(given[0], 3)
    with pytest.raises((RuntimeError, ValueError)):
        warpsmith.linear(given[0], tensor((15, 8), 2), activation="swiglu")


def test_autocast() -> None:
    given = layer()
    with torch.autocast("cpu", torch.bfloat16):
        ours = warpsmith.linear(*given)
        want = F.linear(*given)
        assert ours.dtype == want.dtype == torch.bfloat16
        assert_close(ours, want)
        ours = warpsmith.addmm(given[2], given[0][0], given[1].t())
        want = torch.addmm(given[2], given[0][0], given[1].t())
        assert ours.dtype == want.dtype
        assert_close(ours, want)


@pytest.mark.parametrize("shape", [(5,), (3, 5), (1, 5), (3, 1), (1,), ()])
@dtypes
def test_addmm_broadcasts(shape: tuple[int, ...], dtype: Any) -> None:
    given = [tensor(shape, 1, dtype), tensor((3, 4), 2, dtype), tensor((4, 5), 3, dtype)]
    ours = warpsmith.addmm(*given, beta=0.5, alpha=-2)
    assert ours.dtype == dtype
    assert_close(ours, torch.addmm(*[x.double() for x in given], beta=0.5, alpha=-2))


@pytest.mark.parametrize("shape", [(5,), (3, 5), (3, 1), ()])
@pytest.mark.parametrize("activation", [name for name in ACTIVATIONS if name != "swiglu"])
def test_addmm_gradients(shape: tuple[int, ...], activation: str) -> None:
    ours = [tensor(s, i).requires_grad_() for i, s in enumerate([shape, (3, 4), (4, 5)])]
    want = [x.detach().double().requires_grad_() for x in ours]
    result = warpsmith.addmm(*ours, beta=0.5, alpha=-2, activation=activation)
    expected = ACTIVATIONS[activation](torch.addmm(*want, beta=0.5, alpha=-2))
    g = tensor((3, 5), 4)
    for one, other in zip(
        torch.autograd.grad(result, ours, g),
        torch.autograd.grad(expected, want, g.double()),
        strict=True,
    ):
        assert one.shape == other.shape
        assert_close(one, other)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("shape", [(4,), (3, 4), (3, 1)])
def test_wide_gradients_are_scaled_and_added_up_before_they_are_rounded(
    shape: tuple[int, ...], dtype: torch.dtype
) -> None:
    """Of sums beyond f16, and of neighbours that bf16 has one number for."""
    given = [tensor(shape, 0, dtype), tensor((3, 5), 1, dtype), tensor((5, 4), 2, dtype)]
    ours = [x.requires_grad_() for x in given]
    batched = [x.detach()[None].requires_grad_() for x in given]
    want = [x.detach().double().requires_grad_() for x in given]
    g = torch.tensor([[1e5], [-1e5 + 8], [1.0]]).expand(3, 4)
    factors = {"beta": 1e-3, "alpha": 1e-3}
    exact = torch.autograd.grad(torch.addmm(*want, **factors), want, g.double())
    wide = {**factors, "out_dtype": torch.float32}
    for found in (
        torch.autograd.grad(warpsmith.addmm(*ours, **wide), ours, g),
        torch.autograd.grad(warpsmith.baddbmm(*batched, **wide), batched, g[None]),
    ):
        for one, other in zip(found, exact, strict=True):
            assert_close(one.reshape(other.shape), other)


def test_factors_beyond_f32_are_refused() -> None:
    given = [tensor((5,), 0), tensor((3, 4), 1), tensor((4, 5), 2)]
    with pytest.raises(ValueError, match=r"addmm: alpha is 1e\+300, beyond f32"):
        warpsmith.addmm(*given, alpha=1e300)
    with pytest.raises(ValueError, match=r"baddbmm: beta is -1e\+300, beyond f32"):
        warpsmith.baddbmm(*[x[None] for x in given], beta=-1e300)
    assert warpsmith.addmm(*given, beta=torch.inf).isinf().all()


def test_addmm_out_and_beta_0() -> None:
    given = [torch.full((5,), torch.nan), tensor((3, 4), 1), tensor((4, 5), 2)]
    out = torch.empty(3, 5)
    assert warpsmith.addmm(*given, beta=0, out=out) is out
    assert_close(out, given[1] @ given[2])
    wide = warpsmith.addmm(*[x.half() for x in given], beta=0, out_dtype=torch.float32)
    assert wide.dtype == torch.float32
    assert_close(wide, given[1].half().float() @ given[2].half().float())
    with pytest.raises(ValueError, match="does not broadcast"):
        warpsmith.addmm(torch.zeros(4), *given[1:])


@dtypes
def test_gemm_accumulate_adds_gradients(dtype: Any) -> None:
    g, x = tensor((6, 8), 1, dtype), tensor((6, 4), 2, dtype)
    gradient = torch.zeros(8, 4)
    for step in range(1, 4):
        assert warpsmith.gemm_accumulate(g.t(), x, gradient) is gradient
        assert_close(gradient, step * (g.double().t() @ x.double()))
