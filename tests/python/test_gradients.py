"""Gradients of elementwise operations: one kernel of the catalogue each, right at the edges."""

import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
import warpsmith
from torch.autograd import forward_ad
from torch.utils._python_dispatch import TorchDispatchMode
from warpsmith import _saving, _torch
from warpsmith._catalogue import OPERATIONS, Operation
from warpsmith._expressions import make, torch_function

ELEMENTWISE = [op for op in OPERATIONS.values() if op.family == "elementwise"]
FUNCTIONS = [pytest.param(op, id=op.name) for op in ELEMENTWISE if len(op.inputs) == 1]
SLOPES = [pytest.param(op, id=op.name) for op in ELEMENTWISE if op.inputs[0] == "grad"]


class Recorded(TorchDispatchMode):
    """The operators that run under it, but for views and what autograd does to its own tensors."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(
        self, function: Any, types: Any, arguments: Any = (), keywords: Any = None
    ) -> Any:
        if not function.is_view and function is not torch.ops.aten.detach.default:
            self.names.append(str(function))
        return function(*arguments, **(keywords or {}))


def operators_of_gradient(
    result: torch.Tensor, inputs: list[torch.Tensor], **keywords: Any
) -> list[str]:
    with Recorded() as recorded:
        torch.autograd.grad(result, inputs, torch.ones_like(result), **keywords)
    return recorded.names[1:]  # the first makes the ones


@pytest.mark.parametrize("operation", FUNCTIONS)
def test_gradient_is_one_kernel(operation: Operation) -> None:
    x = torch.randn(40, dtype=torch.bfloat16, requires_grad=True)
    names = operators_of_gradient(getattr(warpsmith, operation.name)(x), [x])
    assert len(names) == 1
    assert names[0].startswith("warpsmith.")


def test_gradients_of_a_product_are_products() -> None:
    a, b = (torch.randn(4, 5, requires_grad=True) for _ in range(2))
    assert operators_of_gradient(warpsmith.mul(a, b), [a, b]) == ["warpsmith.mul.default"] * 2


def test_gradients_call_functions_that_are_quick() -> None:
    """Those of the operator's own names, that write into nothing; else the operators."""
    names = ("gemm", "swiglu_backward", "mul", "topk", "adamw")
    functions = [warpsmith.gemm, warpsmith.swiglu_backward]
    functions += [getattr(torch.ops.warpsmith, name) for name in names[2:]]
    for name, function in zip(names, functions, strict=True):
        assert getattr(_torch._QUICK, name) is function


def test_what_gradients_call_has_all_outputs() -> None:
    grad, x, weight = torch.randn(2, 4), torch.randn(2, 4), torch.randn(4)
    rms_norm_backward = _torch._QUICK.rms_norm_backward
    dx, dweight = rms_norm_backward(grad, x, weight, eps=1e-5)
    assert torch.equal(dweight, warpsmith.rms_norm_backward(grad, x, weight, eps=1e-5)[1])
    assert dx.shape == x.shape
    assert rms_norm_backward(grad, x)[1] is None


# ---- Calls that autograd follows ----------------------------------------------------------------


@pytest.fixture
def operators(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The operators to which the package's functions go, by the general way."""
    names: list[str] = []
    call = _torch.call

    def seen(operation: Operation, *arguments: Any) -> Any:
        names.append(operation.name)
        return call(operation, *arguments)

    monkeypatch.setattr(_torch, "call", seen)
    return names


def wanting(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(*shape).to(dtype).requires_grad_()


def test_a_call_with_a_gradient_is_quick(operators: list[str]) -> None:
    """It makes its node without the dispatcher, and so does the gradient, also a second one."""
    a, b, c = wanting(4, 5), wanting(5, 6), wanting(6)
    y = warpsmith.mul(warpsmith.gemm(a, b), c)
    (grad,) = torch.autograd.grad(y.square().sum(), a, create_graph=True)
    grad.square().sum().backward()
    exactly = [x.detach().double().requires_grad_() for x in (a, b, c)]
    z = (exactly[0] @ exactly[1]) * exactly[2]
    (exact,) = torch.autograd.grad(z.square().sum(), exactly[0], create_graph=True)
    exact.square().sum().backward()
    for x, of in zip((b, c), exactly[1:], strict=True):
        torch.testing.assert_close(x.grad.double(), of.grad, rtol=1e-3, atol=1e-3)

    normed, rstd = warpsmith.rms_norm(a, weight=wanting(5), stats=True)
    assert rstd.requires_grad
    (normed.square().sum() + rstd.square().sum()).backward()
    assert a.grad is not None
    assert operators == []


def test_gradients_of_what_wants_one_alone() -> None:
    a, b = wanting(4, 5), torch.randn(5, 6)
    y = warpsmith.gemm(a, b)
    assert y.grad_fn.next_functions[-1][0] is None
    assert torch.autograd.grad(y.sum(), a)[0].shape == a.shape
    x = wanting(3, 8)
    assert torch.autograd.grad(warpsmith.rms_norm(x).sum(), x)[0].shape == x.shape
    values, indices = warpsmith.topk(x, 2)
    assert values.requires_grad
    assert not indices.requires_grad


@pytest.mark.parametrize("norm", ["rms_norm", "layer_norm"])
def test_gradient_of_prenorms_sum_alone(norm: str) -> None:
    """It goes by the norm: a NaN of a row is nobody's."""
    x, weight = torch.full((2, 8), torch.nan, requires_grad=True), wanting(8)
    y, h = getattr(warpsmith, norm)(x, weight=weight, residual=torch.zeros(2, 8), prenorm=True)
    of_x, of_weight = torch.autograd.grad(h.sum(), (x, weight))
    assert y.isnan().all()
    assert torch.equal(of_x, torch.ones(2, 8))
    assert torch.equal(of_weight, torch.zeros(8))
    assert type(warpsmith.topk(x, 2)) is torch.return_types.topk


def test_what_autograd_keeps_is_not_written_over() -> None:
    a, b = wanting(3), wanting(3)
    c = a * 1
    y = warpsmith.mul(c, b)
    c.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda x: kept.append(x) or x, lambda x: x):
        warpsmith.mul(a, b).sum().backward()
    assert len(kept) == 2


def kept_by(function: Callable[[], torch.Tensor]) -> list[tuple[int, ...]]:
    """Shapes of what the graph of a result keeps."""
    kept: list[tuple[int, ...]] = []
    with torch.autograd.graph.saved_tensors_hooks(
        lambda x: kept.append(tuple(x.shape)) or x, lambda x: x
    ):
        function()
    return kept


def test_a_node_keeps_what_its_gradient_reads() -> None:
    """No more than torch's keeps, so that as much may be changed in place."""
    x, y = wanting(4, 5), wanting(5, 6)
    weight, bias = wanting(6, 5), wanting(6)
    assert kept_by(lambda: warpsmith.add(x, x)) == []
    assert kept_by(lambda: warpsmith.mean(x, dim=[0])) == []
    assert kept_by(lambda: warpsmith.topk(x, 2)[0]) == [(4, 2)]
    assert kept_by(lambda: warpsmith.gemm(x, y)) == [(4, 5), (5, 6)]
    assert kept_by(lambda: warpsmith.gemm(x, y.detach())) == [(5, 6)]
    assert kept_by(lambda: warpsmith.gemm(x.detach(), y)) == [(4, 5)]
    assert kept_by(lambda: warpsmith.linear(x, weight, bias)) == [(4, 5), (5, 6)]
    relu = kept_by(lambda: warpsmith.linear(x, weight, bias, activation="relu"))
    assert relu == [(4, 5), (5, 6), (4, 6)]
    assert kept_by(lambda: warpsmith.interpolate(wanting(1, 1, 2, 2), scale_factor=2)) == []

    layers = torch.nn.Sequential(
        torch.nn.Linear(5, 6), torch.nn.ReLU(inplace=True), torch.nn.Linear(6, 2)
    )
    warpsmith.patch(layers)
    layers(x).add_(1).sum().backward()
    h = x * 1
    s = warpsmith.sum(h)
    h.mul_(2)
    s.backward()
    z = warpsmith.add(x, x).sum()
    z.backward(retain_graph=True)
    z.backward()


def test_gradients_of_nothing() -> None:
    for shape in ((0,), (2, 0), (0, 3)):
        x = wanting(*shape)
        warpsmith.mean(x).backward()
        assert x.grad is not None
        assert x.grad.shape == shape


def curved(x: torch.Tensor, w: Any) -> torch.Tensor:
    """Of what is saved some are inputs, some outputs; `w` is warpsmith or torch."""
    return w.softmax(w.sigmoid(x) @ x, -1).pow(2).sum() + (w.mul(x, x) @ w.mul(x, x)).pow(2).sum()


def test_second_derivatives_in_every_way() -> None:
    """Also those of older batched tensors, and of duals that autograd follows."""
    x = torch.randn(3, 3)
    hessian = torch.autograd.functional.hessian
    exact = hessian(lambda x: curved(x, torch), x)
    for how in (
        {},
        {"vectorize": True},
        {"vectorize": True, "outer_jacobian_strategy": "forward-mode"},
    ):
        found = hessian(lambda x: curved(x, warpsmith), x, **how)
        torch.testing.assert_close(found, exact, rtol=1e-4, atol=1e-4)

    sums = []
    for gemm in (torch.mm, warpsmith.gemm):
        torch.manual_seed(1)
        x, y = wanting(3, 3), wanting(3, 3)
        jacobian = torch.autograd.functional.jacobian(
            lambda a, y=y, gemm=gemm: gemm(gemm(a, y), a), x, vectorize=True, create_graph=True
        )
        jacobian.pow(2).sum().backward()
        sums.append(torch.stack([x.grad, y.grad]))
    torch.testing.assert_close(*sums)


def test_tangents_end_with_their_level() -> None:
    """What a node keeps of duals is gone where these are; and it keeps itself not alive."""
    x = wanting(3, 3)
    with forward_ad.dual_level():
        y = warpsmith.sigmoid(forward_ad.make_dual(x, torch.randn(3, 3)))
        node = weakref.ref(y.grad_fn.next_functions[0][0])  # behind the view that a dual is
    with forward_ad.dual_level():
        (grad,) = torch.autograd.grad(y.sum(), x)
        assert forward_ad.unpack_dual(grad).tangent is None
    gc.disable()
    try:
        del y
        assert node() is None
    finally:
        gc.enable()


def test_duals_are_not_written_over() -> None:
    """Where a gradient's tangent needs them, it says so."""
    x = wanting(3, 3)
    with forward_ad.dual_level():
        d = forward_ad.make_dual(torch.randn(3, 3), torch.ones(3, 3)) + x
        y = warpsmith.sigmoid(d)
        with torch.no_grad():
            d.zero_()
        with pytest.raises(RuntimeError, match=r"an input of sigmoid .* modified by an inplace"):
            torch.autograd.grad(y.sum(), x)


def test_tangents_of_what_attention_adds() -> None:
    """They are there, or refused: what wants no gradient may still have a tangent."""
    q, k, v = (torch.randn(1, 2, 5, 8) for _ in range(3))

    def of_sinks(sinks: torch.Tensor) -> torch.Tensor:
        return warpsmith.attention(q, k, v, sinks=sinks)[0]

    sinks, tangent = torch.randn(2), torch.randn(2)
    _, found = torch.func.jvp(of_sinks, (sinks,), (tangent,))
    step = 1e-2
    about = (of_sinks(sinks + step * tangent) - of_sinks(sinks - step * tangent)) / (2 * step)
    torch.testing.assert_close(found, about, rtol=1e-2, atol=1e-3)
    bias = torch.randn(1, 2, 5, 5)
    with pytest.raises(NotImplementedError, match="attention has no forward-mode"):
        torch.func.jvp(lambda b: warpsmith.attention(q, k, v, b)[0], (bias,), (bias,))


def numbers(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64)


def positive(*shape: int) -> torch.Tensor:
    return numbers(*shape).abs() + 0.5


X, V = (3, 4, 2, 2), (4,)
CURVED = {
    "layer_norm": ("layer_norm_backward", [X, X, (2,), X[:-1], X[:-1]], {"bias": True}),
    "layer_norm found": ("layer_norm_backward", [X, X, (2,), None, None], {}),
    "layer_norm bare": ("layer_norm_backward", [X, X, None, X[:-1], X[:-1]], {}),
    "layer_norm of a row": ("layer_norm_backward", [V, V, V, None, None], {"bias": True}),
    "rms_norm": ("rms_norm_backward", [X, X, (2,), X[:-1]], {}),
    "rms_norm bare": ("rms_norm_backward", [X, X, None, X[:-1]], {}),
    "batch_norm": ("batch_norm_backward", [X, X, V, V, V], {}),
    "batch_norm bare": ("batch_norm_backward", [X, X, V, V, None], {}),
    "batch_norm of constants": ("batch_norm_backward", [X, X, V, V, V], {"training": False}),
    "batch_norm of matrices": ("batch_norm_backward", [(5, 4), (5, 4), V, V, V], {}),
    "group_norm": ("group_norm_backward", [X, X, (3, 2), (3, 2), V], {"groups": 2}),
    "group_norm bare": ("group_norm_backward", [X, X, (3, 1), (3, 1), None], {"groups": 1}),
    "instance_norm": ("group_norm_backward", [X, X, (3, 4), (3, 4), V], {"groups": 4}),
    "cross_entropy": ("cross_entropy_backward", [(3, 4), "target", (3,), (3,), None], {}),
    "cross_entropy of all": (
        "cross_entropy_backward",
        [(3, 4), "target", (3,), (3,), "weight"],
        {"label_smoothing": 0.1, "z_loss": 0.2},
    ),
}


@pytest.mark.parametrize("case", CURVED)
def test_gradcheck_of_second_gradients(case: str) -> None:
    """What the catalogue says in torch, in f64 beside differences of the backward's own formula."""
    name, shapes, attributes = CURVED[case]
    operation = OPERATIONS[name]
    attributes = {a.name: attributes.get(a.name, a.default) for a in operation.attributes}
    known: dict[Any, torch.Tensor] = {
        "target": torch.tensor([1, -100, 3]),
        "weight": positive(4),
    }
    inputs = [
        None if s is None else known[s] if isinstance(s, str) else positive(*s) for s in shapes
    ]
    for i, x in enumerate(inputs):
        if x is not None and x.is_floating_point() and shapes[i] != "weight":
            inputs[i] = x.requires_grad_()
    count = len(operation.inputs)
    incoming = ["g"] if len(operation.outputs) == 1 else [f"g_{o}" for o in operation.outputs]
    parameters = [*operation.inputs, *attributes, *incoming, "needs"]
    gradient = make("gradient", parameters, _saving.by_need(operation.gradient, count))

    class Formula(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, *given: Any) -> Any:
            ctx.save_for_backward(*given)
            return torch_function(name)(*given, **attributes)

        @staticmethod
        def backward(ctx: Any, *g: Any) -> Any:
            return gradient(*ctx.saved_tensors, *attributes.values(), *g, ctx.needs_input_grad)

    def found(*given: Any) -> Any:
        results = Formula.apply(*given)
        results = results if isinstance(results, tuple) else (results,)
        return tuple(x for x in results if x is not None and x.dtype == torch.float64)

    assert torch.autograd.gradcheck(found, inputs)


@pytest.mark.parametrize(
    ("text", "elements", "outlines"),
    [
        ("(x.shape if flag else x, g)", (), (0,)),
        ("(g if flag else x, x)", (), ()),
        ("(x is None, None)", (), (0,)),
        ("(x is y, None)", (0, 1), ()),
        ("flag = not flag\nreturn x if flag else g, None", (0,), ()),
        ("f = lambda flag: x if flag else g\nreturn f(False), None", (0,), ()),
        ("def f(x):\n    return x, y\nreturn f(g)", (0, 1), ()),
        ("if flag:\n    d = x.sum()\nelse:\n    d = y.sum()\nreturn d, None", (0,), ()),
    ],
)
def test_what_a_gradient_reads(
    text: str, elements: tuple[int, ...], outlines: tuple[int, ...]
) -> None:
    plan = _saving.plan(_saving.by_need(text, 2), ["x", "y"], (True, False), {"flag": True})
    assert (plan.elements, plan.outlines) == (elements, outlines)


def test_a_gradient_is_computed_by_need() -> None:
    text = _saving.by_need("return called('first'), called('second'), None", 3)
    called: list[str] = []
    gradient = make("gradient", ["needs"], text, called=lambda name: called.append(name) or name)
    assert gradient((False, True, True)) == (None, "second", None)
    assert called == ["second"]
    starred = _saving.by_need("(*g, None)", 3)
    assert make("gradient", ["g", "needs"], starred)((1, 2), (False, True, True)) == (1, 2, None)


def test_autograd_compiled() -> None:
    x = wanting(3, 4)
    with torch._dynamo.compiled_autograd._enable(torch.compile(backend="eager")):
        warpsmith.gelu(x).sum().backward()
    y = x.detach().requires_grad_()
    torch.nn.functional.gelu(y).sum().backward()
    torch.testing.assert_close(x.grad, y.grad)


def test_a_call_with_a_gradient_takes_what_calls_take() -> None:
    a = wanting(3, 4)
    half = torch.randn(3, 4).half()
    assert warpsmith.add(a, half).dtype == torch.float32  # promoted, and followed
    (grad,) = torch.autograd.grad(warpsmith.add(a, half, alpha=torch.tensor(2)).sum(), a)
    assert torch.equal(grad, torch.ones_like(a))
    (grad,) = torch.autograd.grad(warpsmith.sum(a, dim=[0]).sum(), a)
    assert torch.equal(grad, torch.ones_like(a))
    assert warpsmith.relu(a, rung=OPERATIONS["relu"].rungs[0]["name"]).requires_grad
    assert torch.equal(warpsmith.relu(a.detach(), out=torch.empty(3, 4)), a.detach().relu())
    with pytest.raises(ValueError, match="out= has no gradient, but an argument requires one"):
        warpsmith.relu(a, out=torch.empty(3, 4))
    with pytest.raises(ValueError, match="none of them"):
        warpsmith.relu(a, rung="none of them")
    with pytest.raises(ValueError, match="gemm"):
        warpsmith.gemm(a, torch.randn(5, 6))
    with pytest.raises(ValueError, match="layout is one of"):
        warpsmith.gemm(a, torch.randn(4, 6), layout="wrong")
    with pytest.raises(ValueError, match="not dense"):
        warpsmith.relu(torch.eye(3).to_sparse().requires_grad_())


def test_who_looks_on_sees_the_operator_of_a_call_with_a_gradient(operators: list[str]) -> None:
    a = wanting(3, 4)
    with Recorded() as recorded:
        warpsmith.relu(a)
    assert recorded.names == ["warpsmith.relu.default"]
    torch.vmap(torch.func.grad(lambda x: warpsmith.relu(x).sum()))(a)
    torch.func.grad(lambda x: warpsmith.relu(x).sum())(a.detach())
    assert operators == ["relu"] + ["relu", "threshold_backward"] * 2


@pytest.mark.parametrize(
    ("activation", "slope"),
    [
        ("relu", "threshold_backward"),
        ("gelu", "gelu_backward"),
        ("gelu_tanh", "gelu_backward"),
        ("silu", "silu_backward"),
    ],
)
def test_gradient_of_an_activated_sum(activation: str, slope: str) -> None:
    a, b, c = (torch.randn(4, 4, requires_grad=True) for _ in range(3))
    result = warpsmith.addmm(a, b, c, activation=activation)
    names = operators_of_gradient(result, [a, b, c])
    assert names.count(f"warpsmith.{slope}.default") == 1
    assert all(name.startswith("warpsmith.") for name in names)


@pytest.mark.parametrize("operation", SLOPES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
def test_slopes_of_special_values(operation: Operation, dtype: torch.dtype, device: str) -> None:
    """Without NaN in x, of which torch's vectors give something else than its single elements."""
    limits = torch.finfo(dtype)
    values = [0.0, -0.0, 1e-8, -1e-8, 0.5, -0.5, 3.0, -3.0, 20.0, -20.0, 100.0, -100.0]
    values += [limits.max, limits.min, limits.tiny, float("inf"), -float("inf")]
    x = torch.tensor(values, dtype=dtype).repeat(4)
    grad = torch.tensor([1.0, -0.5, 3.0, float("nan")], dtype=dtype)
    grad = grad.repeat_interleave(len(values))
    expected = torch_function(operation.name)(grad.double(), x.double()).to(dtype)
    tolerance = {torch.float32: 2e-5, torch.float16: 2e-3, torch.bfloat16: 1.6e-2}[dtype]
    torch.testing.assert_close(
        getattr(warpsmith, operation.name)(grad.to(device), x.to(device)).cpu(),
        expected,
        rtol=tolerance,
        atol=tolerance / 10,
        equal_nan=True,
    )


@pytest.mark.parametrize("operation", FUNCTIONS)
def test_derivatives_up_to_the_third(operation: Operation) -> None:
    """The first two by our kernels and what their rows say, the third by torch of that."""

    def derivatives(function: Any, x: torch.Tensor) -> list[torch.Tensor]:
        found = [function(x)]
        for _ in range(3):
            if not found[-1].requires_grad:
                break
            (slope,) = torch.autograd.grad(found[-1].sum(), x, create_graph=True, allow_unused=True)
            if slope is None:
                break
            found.append(slope)
        return found[1:]

    x = torch.linspace(-4, 4, 57)
    ours = derivatives(getattr(warpsmith, operation.name), x.clone().requires_grad_())
    theirs = derivatives(torch_function(operation.name), x.double().requires_grad_())
    for mine, right in zip(ours, theirs, strict=False):
        torch.testing.assert_close(mine.double(), right, rtol=1e-5, atol=1e-5)
    assert not any(right.any() for right in theirs[len(ours) :])


def test_gradients_go_through_any_layout() -> None:
    """One that a sum repeats, and an x that lies otherwise."""
    x = torch.randn(6, 5).t().requires_grad_()
    (gradient,) = torch.autograd.grad(warpsmith.gelu(x).sum(), x)
    (expected,) = torch.autograd.grad(torch.nn.functional.gelu(x).sum(), x)
    torch.testing.assert_close(gradient, expected)


def test_gradient_refuses_another_shape() -> None:
    with pytest.raises(ValueError, match=r"f32 \[3\] and f32 \[4\]"):
        warpsmith.gelu_backward(torch.ones(3), torch.ones(4))


def test_no_second_derivative_is_zeros() -> None:
    """As torch has it: a penalty of gradients leaves no parameter without one."""
    for function in (warpsmith.relu, warpsmith.hardshrink):
        x = torch.linspace(-2, 2, 9, requires_grad=True)
        (gradient,) = torch.autograd.grad(function(x).sum(), x, create_graph=True)
        (second,) = torch.autograd.grad(gradient.sum(), x)
        assert torch.equal(second, torch.zeros(9))


def test_negated_views_are_not_written() -> None:
    view = torch.zeros(3, dtype=torch.complex64).conj().imag
    with pytest.raises(ValueError, match="'y' is a negated view"):
        warpsmith.relu(torch.ones(3), out=view)
    assert not view.any()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize(
    ("mine", "theirs"),
    [
        (warpsmith.gelu, torch.nn.functional.gelu),
        (
            lambda x: warpsmith.gelu(x, approximate="tanh"),
            lambda x: torch.nn.functional.gelu(x, approximate="tanh"),
        ),
        (warpsmith.silu, torch.nn.functional.silu),
        (warpsmith.elu, torch.nn.functional.elu),
    ],
    ids=["gelu", "gelu_tanh", "silu", "elu"],
)
def test_second_gradients_of_16_bits_round_once(mine: Any, theirs: Any, dtype: torch.dtype) -> None:
    at, first, second = (
        torch.linspace(a, b, 1001).to(dtype) for a, b in ((-4, 4), (1, 3), (2, -5))
    )

    def curvature(function: Any, wide: torch.dtype) -> torch.Tensor:
        x = at.to(wide).requires_grad_()
        (slope,) = torch.autograd.grad(function(x), x, first.to(wide), create_graph=True)
        return torch.autograd.grad(slope, x, second.to(wide))[0].double()

    want = curvature(theirs, torch.float64)
    error = (curvature(mine, dtype) - want).abs()
    rounding = torch.finfo(dtype).eps / 2 * want.abs()
    assert (error <= 1.02 * rounding + 2e-6).all()
