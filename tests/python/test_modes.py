"""What torch's modes and transforms make of the operations: who sees a call, and what derives it.

Modes of the dispatcher, torch.jit.trace and torch.compile are in test_torch.py.
"""

import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import torch
import warpsmith
from conftest import (
    DIFFERENTIABLE,
    OPERATION_CASES,
    Call,
    call_with,
    calls_with,
    floats_of,
    requiring_gradients,
    results_of,
)
from torch.autograd import forward_ad
from torch.overrides import TorchFunctionMode
from torch.utils.flop_counter import FlopCounterMode
from warpsmith import _autocast, _letters
from warpsmith._catalogue import OPERATIONS, Operation

BACKEND = "aot_eager"
F = torch.nn.functional
BATCHED = [
    pytest.param(op, id=op.name) for op in OPERATIONS.values() if op.batch != "none" if op.outputs
]
WITHOUT_IN_OUT = [pytest.param(op, id=op.name) for op in OPERATIONS.values() if not op.in_out]
SPELT = [pytest.param(op, id=op.name) for op in OPERATIONS.values() if _letters.knows(op)]
LETTERED = [pytest.param(op, id=op.name) for op in OPERATIONS.values() if _letters.fold_of(op)]
CASTING = [pytest.param(op, id=op.name) for op in OPERATIONS.values() if _autocast.may_cast(op)]


def of_there(call: Call) -> tuple[Any, list[torch.Tensor]]:
    """The call as a function of the inputs that are there, and those."""
    inputs = call.fresh()

    def ours(*given: Any) -> Any:
        rest = iter(given)
        return call.ours(*[None if x is None else next(rest) for x in inputs])

    return ours, [x for x in inputs if x is not None]


def random_like(tensor: torch.Tensor) -> torch.Tensor:
    generator = torch.Generator().manual_seed(tensor.numel())
    return torch.randn(tensor.shape, generator=generator).to(tensor.dtype)


def finite(call: Call) -> Call:
    call.inputs = [
        x.nan_to_num(0, 1, -1)
        if x is not None and x.is_floating_point() and x.dtype.itemsize > 1
        else x
        for x in call.inputs
    ]
    return call


# ---- Who sees a call ----------------------------------------------------------------------------


@pytest.mark.parametrize("operation", OPERATION_CASES)
def test_function_modes_see_the_operator(operation: Operation) -> None:
    class Mode(TorchFunctionMode):
        def __torch_function__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            seen.append(str(func))
            return func(*args, **(kwargs or {}))

    call = call_with(operation)
    inputs = call.fresh()
    seen: list[str] = []
    with Mode():
        result = call.ours(*inputs)
    assert seen == [f"warpsmith.{operation.name}"]
    call.check(result)


@pytest.mark.parametrize("operation", OPERATION_CASES)
def test_subclasses_see_the_operator(operation: Operation) -> None:
    class Traced(torch.Tensor):
        @classmethod
        def __torch_function__(
            cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            seen.append(str(func))
            return super().__torch_function__(func, types, args, kwargs)

    call = call_with(operation)
    inputs = [None if x is None else x.as_subclass(Traced) for x in call.fresh()]
    seen: list[str] = []
    results = results_of(call.ours(*inputs))
    assert seen == [f"warpsmith.{operation.name}"]
    assert all(isinstance(result, Traced) for result in results)


# Operations whose function of the package asks a tensor for its rank or dtype: fx records that.
ASKING = ("embedding_bag", "quantized_linear")


@pytest.mark.parametrize("operation", OPERATION_CASES)
def test_fx_records_the_operator(operation: Operation) -> None:
    call = call_with(operation)
    ours, there = of_there(call)
    names = ", ".join(f"x{i}" for i in range(len(there)))
    module = torch.fx.symbolic_trace(eval(f"lambda {names}: ours({names})", {"ours": ours}))
    targets = [str(node.target) for node in module.graph.nodes]
    function = str(getattr(warpsmith, operation.name))
    recorded = function if operation.name in ASKING else f"warpsmith.{operation.name}"
    assert targets.count(recorded) == 1
    call.check(module(*there))


X, W = torch.randn(4, 4), torch.randn(4, 4)
LABELS = torch.tensor([0, 3, 1, 2])
HEADS = torch.randn(1, 2, 4, 4)
RECORDED = {
    "softmax": (lambda x: warpsmith.softmax(x, 0), X),
    "softmax of a dtype": (lambda x: warpsmith.softmax(x, -1, torch.float16), X),
    "layer_norm": (lambda x: warpsmith.layer_norm(x, (4, 4)), X),
    "add": (lambda x: warpsmith.add(x, 2, alpha=3), X),
    "mul": (lambda x: warpsmith.mul(2.0, x), X),
    "histc": (lambda x: warpsmith.histc(x, 4), X),
    "matmul": (lambda x: warpsmith.matmul(x, W), X),
    "linear": (lambda x: warpsmith.linear(x, W, activation="gelu"), X),
    "cross_entropy": (lambda x: warpsmith.cross_entropy(x, LABELS), X),
    "batch_norm": (lambda x: warpsmith.batch_norm(x, None, None, training=True), X),
    "interpolate": (lambda x: warpsmith.interpolate(x, scale_factor=2), HEADS),
    "scaled_dot_product_attention": (
        lambda x: warpsmith.scaled_dot_product_attention(x, x, x, is_causal=True),
        HEADS,
    ),
    "nms": (lambda x: warpsmith.nms(x, x[:, 0], 0.5), X.abs()),
}


@pytest.mark.parametrize("name", RECORDED)
def test_fx_records_the_function_where_an_operator_would_need_to_know_more(name: str) -> None:
    function, x = RECORDED[name]
    module = torch.fx.symbolic_trace(function)
    called = [node.target for node in module.graph.nodes if node.op == "call_function"]
    own = [str(f.__name__) for f in called if getattr(f, "__module__", "") == "warpsmith"]
    assert own == [name.split()[0]]
    torch.testing.assert_close(module(x), function(x))
    torch.testing.assert_close(module(x + 0), function(x + 0))


def test_the_profiler_names_operators() -> None:
    calls = [call_with(operation) for operation in OPERATIONS.values()]
    with torch.profiler.profile() as profile:
        for call in calls:
            call.ours()
    names = {event.name for event in profile.events()}
    assert names >= {f"warpsmith::{name}" for name in OPERATIONS}


def test_flops_are_the_catalogues() -> None:
    x, y = torch.randn(3, 4), torch.randn(4, 5)
    ops = torch.ops.warpsmith
    with FlopCounterMode(display=False) as counted:
        warpsmith.gemm(x, y)
        warpsmith.gelu(x)
        out = torch.empty_like(x)
        assert warpsmith.relu(x, out=out) is out
    with FlopCounterMode(display=False) as theirs:
        torch.mm(x, y)
    flops = counted.get_flop_counts()["Global"]
    assert flops[ops.gemm] == theirs.get_total_flops() == 2 * 3 * 4 * 5
    assert flops[ops.gelu] == 8 * 12
    assert flops[ops.relu_out] == 12


@pytest.mark.parametrize("operation", OPERATION_CASES)
def test_flops_of_fakes(operation: Operation) -> None:
    """Counted without data, and as many as of the tensors themselves."""
    call = call_with(operation)
    with FlopCounterMode(display=False) as real:
        call.ours()
    inputs = call.fresh()
    mode = torch._subclasses.fake_tensor.FakeTensorMode()
    with mode, FlopCounterMode(display=False) as fake:
        call.ours(*[None if x is None else mode.from_tensor(x) for x in inputs])
    assert list(real.get_flop_counts()["Global"]) == [getattr(torch.ops.warpsmith, operation.name)]
    assert real.get_total_flops() == fake.get_total_flops()


# ---- Forward mode, and torch.func ---------------------------------------------------------------


def test_forward_mode_passes_gradcheck() -> None:
    x = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    for function in (warpsmith.sum, warpsmith.mean, lambda x: warpsmith.sum(x, dim=0)):
        assert torch.autograd.gradcheck(function, x, check_forward_ad=True)


@pytest.mark.parametrize("operation", DIFFERENTIABLE)
def test_forward_mode_is_the_transpose_of_backward(operation: Operation) -> None:
    for call in calls_with(operation):
        finite(call)
        inputs = requiring_gradients(call.inputs)
        tangents = [None if x is None else random_like(x) for x in inputs]
        with forward_ad.dual_level():
            duals = [
                forward_ad.make_dual(x, t) if x is not None and x.is_floating_point() else x
                for x, t in zip(inputs, tangents, strict=True)
            ]
            try:
                results = results_of(call.ours(*duals))
            except NotImplementedError as error:
                assert "no forward-mode derivative" in str(error)
                pytest.skip(str(error))
            found = [forward_ad.unpack_dual(r) for r in results if r.is_floating_point()]
            found = [pair for pair in found if pair.tangent is not None]
        assert found
        weights = [random_like(primal) for primal, _ in found]
        terms = [(t.double() * w.double()).sum() for (_, t), w in zip(found, weights, strict=True)]
        forward = sum(float(term.detach()) for term in terms)
        back = torch.autograd.grad(
            [primal for primal, _ in found], floats_of(inputs), weights, allow_unused=True
        )
        products = [g * t for g, t in zip(back, floats_of(tangents), strict=True) if g is not None]
        backward = sum(float(product.sum()) for product in products)
        scale = sum(float(product.abs().sum()) for product in products)
        rounding = max(torch.finfo(tangent.dtype).eps for _, tangent in found) / 4
        assert abs(forward - backward) <= max(1e-4, rounding) * max(1.0, scale)


def test_forward_mode_of_what_wants_no_gradient() -> None:
    """Tangents alone keep a call from the quick way, which knows of none."""
    x, t = torch.randn(2, 5).unbind()
    want = torch.func.jvp(F.gelu, (x,), (t,))[1]
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, t)
        found = forward_ad.unpack_dual(warpsmith.gelu(dual))
        torch.testing.assert_close(found.tangent, want)
        with pytest.raises(NotImplementedError, match="forward-mode"):
            warpsmith.gelu(dual, out=torch.empty(5))


LINEAR = torch.randn(6, 6)
SHIFTED = torch.randn(6)
TRANSFORMED = {
    "softmax": (warpsmith.softmax, lambda x: torch.softmax(x, -1)),
    "gelu": (warpsmith.gelu, F.gelu),
    "add": (lambda x: warpsmith.add(x, SHIFTED), lambda x: x + SHIFTED),
    "mul": (lambda x: warpsmith.mul(x, x), lambda x: x * x),
    "gemv": (lambda x: warpsmith.gemv(LINEAR, x), lambda x: LINEAR @ x),
    "cumsum": (warpsmith.cumsum, lambda x: torch.cumsum(x, -1)),
    "cumprod": (warpsmith.cumprod, lambda x: torch.cumprod(x, -1)),
    "scan_max": (warpsmith.scan_max, lambda x: torch.cummax(x, -1).values),
    "logcumsumexp": (warpsmith.logcumsumexp, lambda x: torch.logcumsumexp(x, -1)),
    "sort": (lambda x: warpsmith.sort(x)[0], lambda x: torch.sort(x)[0]),
}


@pytest.mark.filterwarnings("ignore:.*performance drop")
@pytest.mark.parametrize("name", TRANSFORMED)
def test_transforms_are_torchs(name: str) -> None:
    ours, theirs = TRANSFORMED[name]
    x, t = torch.randn(6), torch.randn(6)

    def squared(function: Any) -> Any:
        return lambda x: (function(x) ** 2).sum()

    got, want = torch.func.jvp(ours, (x,), (t,)), torch.func.jvp(theirs, (x,), (t,))
    torch.testing.assert_close(got, want)
    want = torch.func.grad(squared(theirs))(x)
    torch.testing.assert_close(torch.func.grad(squared(ours))(x), want)
    (back,) = torch.func.vjp(ours, x)[1](t)
    torch.testing.assert_close(back, torch.func.vjp(theirs, x)[1](t)[0])
    want = torch.autograd.functional.hessian(squared(theirs), x)
    tolerance = {"rtol": 1e-4, "atol": 1e-4}
    for outer in (torch.func.jacfwd, torch.func.jacrev):
        for inner in (torch.func.jacfwd, torch.func.jacrev):
            if (name, outer, inner) == ("logcumsumexp", torch.func.jacrev, torch.func.jacfwd):
                continue  # NaN: its expression is not meant to be differentiated three times
            found = outer(inner(squared(ours)))(x)
            torch.testing.assert_close(found, want, **tolerance)


def test_gradients_of_each_sample() -> None:
    x, weight = torch.randn(3, 4, 6), torch.randn(6)

    def loss(function: Any) -> Any:
        return lambda weight, x: (function(x, weight) ** 2).sum()

    def ours(x: Any, weight: Any) -> Any:
        return warpsmith.layer_norm(x, weight=weight)

    def theirs(x: Any, weight: Any) -> Any:
        return F.layer_norm(x, (6,), weight)

    with pytest.warns(UserWarning, match="layer_norm_backward is called 3 times"):
        got = torch.vmap(torch.func.grad(loss(ours)), (None, 0))(weight, x)
    want = torch.vmap(torch.func.grad(loss(theirs)), (None, 0))(weight, x)
    torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("operation", DIFFERENTIABLE)
def test_func_grad_is_autograds(operation: Operation) -> None:
    call = finite(call_with(operation))
    ours, there = of_there(call)

    def total(*inputs: Any) -> Any:
        results = [r for r in results_of(ours(*inputs)) if r.is_floating_point()]
        return sum((r * random_like(r)).sum() for r in results)

    at = tuple(i for i, x in enumerate(there) if x.is_floating_point())
    got = torch.func.grad(total, at)(*there)
    inputs = requiring_gradients(there)
    want = torch.autograd.grad(total(*inputs), floats_of(inputs), materialize_grads=True)
    for mine, right in zip(got, want, strict=True):
        torch.testing.assert_close(mine, right, equal_nan=True)


@pytest.mark.parametrize("operation", WITHOUT_IN_OUT)
def test_functionalize_takes_what_stands_for_another(operation: Operation) -> None:
    call = call_with(operation)
    ours, there = of_there(call)
    call.check(torch.func.functionalize(ours)(*there))


# ---- vmap ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("operation", BATCHED)
def test_vmap_is_one_call(operation: Operation) -> None:
    """Of a batch in front or at the end, of all tensors or only the first."""
    if operation.in_out:
        pytest.skip("changes its inputs")
    for call in calls_with(operation):
        ours, there = of_there(call)
        count = len(call.inputs)
        reads = zip(operation.parameters[:count], call.inputs, strict=True)
        shared = [p.rows == "shared" for p, x in reads if x is not None]
        adds_up = any(p.rows == "shared" for p in operation.parameters[count:])
        if adds_up or max(x.dim() for x in there) == 6 or there[0].dim() == 0:
            continue
        others = [torch.stack([x, x.roll(1, -1)] if x.dim() else [x, x]) for x in there]
        for alone in (False, True):
            for at in (0, -1):
                is_batched = [i == 0 if alone else not s for i, s in enumerate(shared)]
                inputs = [
                    x.movedim(0, at).contiguous() if is_it else one
                    for x, one, is_it in zip(others, there, is_batched, strict=True)
                ]
                in_dims = tuple(at if is_it else None for is_it in is_batched)
                with warnings.catch_warnings():
                    warnings.simplefilter("error")
                    got = torch.vmap(ours, in_dims)(*inputs)
                for i in range(2):
                    triples = zip(others, there, is_batched, strict=True)
                    want = ours(*[x[i] if is_it else one for x, one, is_it in triples])
                    for batched, one in zip(results_of(got), results_of(want), strict=True):
                        torch.testing.assert_close(batched[i], one, equal_nan=True)


@pytest.mark.parametrize("operation", SPELT)
def test_letters_are_those_of_the_operation(operation: Operation) -> None:
    """A word for each tensor, and of the same letter as many elements in what is made."""
    assert operation.batch == "none"
    for call in calls_with(operation):
        shapes = [None if x is None else tuple(x.shape) for x in call.inputs]
        words = _letters.Words(operation, shapes, call.attributes)
        assert len(words.writes) == len(operation.outputs)
        fold = _letters.fold_of(operation).replace("*", "A" if words.many else "")
        assert all(fold in word for word in words.writes)
        made = [x.shape if x is not None else None for x in call.theirs()]
        for word, shape in zip(words.writes, made, strict=True):
            if shape is None or len(word) > len(shape) or "*" in _letters.fold_of(operation):
                continue  # where dims are told by attributes
            for at, letter in enumerate(word):
                assert letter == "." or words.extent(letter) in (None, shape[at])


@pytest.mark.parametrize("operation", LETTERED)
def test_vmap_folds_the_batch_into_a_letter(operation: Operation) -> None:
    """Of the first tensor alone, and of all that have the letter, in front and at the end."""
    for call in calls_with(operation):
        ours, there = of_there(finite(call))
        shapes = [None if x is None else tuple(x.shape) for x in call.inputs]
        words = _letters.Words(operation, shapes, call.attributes)
        fold = _letters.fold_of(operation)
        letter = fold.replace("*", "A")
        has = [
            words.has_many[i]
            if fold == "*"
            else letter in words.whole[i]
            and (words.broadcasts[i] or x.dim() >= len(words.whole[i]) - 1)
            for i, x in enumerate(call.inputs)
            if x is not None
        ]
        others = [torch.stack([x, x.roll(1, -1)]) if x.dim() else x.expand(2) for x in there]
        firsts = [i == has.index(True) for i in range(len(has))]
        for is_batched, at in ((has, 0), (has, -1), (firsts, 0), (firsts, -1)):
            inputs = [
                x.movedim(0, at).contiguous() if is_it else one
                for x, one, is_it in zip(others, there, is_batched, strict=True)
            ]
            in_dims = tuple(at if is_it else None for is_it in is_batched)
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                got = torch.vmap(ours, in_dims)(*inputs)
            for i in range(2):
                triples = zip(others, there, is_batched, strict=True)
                want = ours(*[x[i] if is_it else one for x, one, is_it in triples])
                for batched, one in zip(results_of(got), results_of(want), strict=True):
                    same(batched[i], one)


def same(got: torch.Tensor, want: torch.Tensor) -> None:
    """As near as another rung is, which a larger call may have."""
    assert got.dtype == want.dtype
    near = 4 * torch.finfo(want.dtype).eps if want.dtype.is_floating_point else 0
    got, want = got.double(), want.double()
    largest = float(want.nan_to_num(0, 0, 0).abs().max()) if want.numel() > 0 else 0.0
    torch.testing.assert_close(
        got, want, rtol=near, atol=max(near, 1e-5) * max(1.0, largest), equal_nan=True
    )


def test_vmap_of_products_is_bmm() -> None:
    a, b = torch.randn(3, 4, 5), torch.randn(3, 5, 6)
    seen = []

    class Mode(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            seen.append(str(func))
            return func(*args, **(kwargs or {}))

    def one(function: Any, in_dims: Any, *inputs: Any, **attributes: Any) -> Any:
        seen.clear()
        with warnings.catch_warnings(), Mode():
            warnings.simplefilter("error")
            result = torch.vmap(lambda *x: function(*x, **attributes), in_dims)(*inputs)
        return result, [name for name in seen if name.startswith("warpsmith")]

    for function, in_dims, inputs, attributes, want, calls in (
        (warpsmith.gemm, 0, (a, b), {}, a @ b, "bmm"),
        (warpsmith.gemm, 0, (a.mT, b.mT), {"layout": "tt"}, a @ b, "bmm"),
        (warpsmith.gemm, (0, None), (a, b[0]), {}, a @ b[0], "gemm"),
        (warpsmith.gemm, (0, None), (a.mT, b[0].T), {"layout": "tt"}, a @ b[0], "gemm"),
        (warpsmith.gemm, (None, 0), (a[0], b), {}, a[0] @ b, "bmm"),
        (warpsmith.gemm, (2, 1), (a.movedim(0, 2), b.movedim(0, 1)), {}, a @ b, "bmm"),
        (warpsmith.gemv, 0, (a, b[..., 0]), {}, (a @ b[..., :1])[..., 0], "bmm"),
        (warpsmith.gemv, (0, None), (a.mT, b[0, :, 0]), {"layout": "t"}, a @ b[0, :, 0], "bmm"),
        (warpsmith.dot, (0, None), (a[:, 0], b[0, :, 0]), {}, a[:, 0] @ b[0, :, 0], "bmm"),
        (warpsmith.bmm, (None, 0), (a, torch.stack([b, b])), {}, torch.stack([a @ b] * 2), "bmm"),
    ):
        got, names = one(function, in_dims, *inputs, **attributes)
        torch.testing.assert_close(got, want)
        assert names == [f"warpsmith.{calls}.default"]
    with pytest.warns(UserWarning, match="gemm is called 3 times"):
        got = torch.vmap(lambda a, b: warpsmith.gemm(a, b, rung="naive"))(a, b)
    torch.testing.assert_close(got, a @ b)


def test_vmap_of_what_has_no_letter_is_a_loop() -> None:
    x, w = torch.randn(3, 4, 6), torch.randn(3, 5, 6)
    with pytest.warns(UserWarning, match="addmm is called 3 times"):
        got = torch.vmap(lambda x, w: warpsmith.addmm(x[0, :5], x, w.mT))(x, w)
    torch.testing.assert_close(got, torch.vmap(lambda x, w: torch.addmm(x[0, :5], x, w.mT))(x, w))
    with pytest.warns(UserWarning, match="embedding is called 3 times"):
        got = torch.vmap(warpsmith.embedding, (None, 0))(torch.tensor([4, 0]), w)
    assert torch.equal(got, w[:, [4, 0]])
    table = torch.randn(3, 4, 3)  # for each of the batch another one
    heads = torch.randn(1, 4, 2, 6)
    with pytest.warns(UserWarning, match="rope is called 3 times"):
        got = torch.vmap(warpsmith.rope, (None, 0, 0))(heads, table.cos(), table.sin())
    assert torch.equal(got[1], warpsmith.rope(heads, table[1].cos(), table[1].sin()))
    deep = torch.randn(2, 1, 1, 1, 1, 2, 3)  # 7 dimensions
    with pytest.warns(UserWarning, match="transpose is called 2 times"):
        got = torch.vmap(lambda x: warpsmith.transpose(x, -1, 0))(deep)
    assert torch.equal(got, deep.transpose(-1, 1))
    with pytest.warns(UserWarning, match="gather is called 2 times"), pytest.raises(ValueError):
        torch.vmap(lambda x: warpsmith.gather(x, 1, x.long()))(torch.zeros(2, 3))


def test_vmap_of_what_no_call_takes_is_a_loop() -> None:
    x = torch.randn(2, 1, 1, 1, 1, 2, 3)  # 7 dimensions
    with pytest.warns(UserWarning, match="softmax is called 2 times"):
        torch.testing.assert_close(torch.vmap(warpsmith.softmax)(x), torch.softmax(x, -1))
    with pytest.warns(UserWarning, match="topk is called 2 times"):
        got = torch.vmap(lambda x: warpsmith.topk(x, 2))(x)
    for ours, theirs in zip(got, torch.topk(x, 2), strict=True):
        assert torch.equal(ours, theirs)
    with pytest.warns(UserWarning, match="sum is called 2 times"), pytest.raises(ValueError):
        torch.vmap(lambda x: warpsmith.sum(x, dim=-2))(torch.randn(2, 3))  # not the batch's


# ---- autocast -----------------------------------------------------------------------------------


@pytest.mark.parametrize("operation", CASTING)
def test_autocast_makes_what_torchs_own_makes(operation: Operation) -> None:
    theirs = _autocast.torch_version(operation)
    for narrow in (torch.bfloat16, torch.float16):
        for dtype in (torch.float32, narrow):
            call = finite(call_with(operation))
            inputs = _autocast.to(dtype, call.fresh())
            with torch.no_grad(), torch.autocast("cpu", dtype=narrow):
                try:
                    want = results_of(theirs(*inputs, **call.attributes))[0].dtype
                    got = results_of(call.operator(*inputs))[0].dtype
                except (RuntimeError, ValueError, TypeError):
                    continue
            if operation.outputs:
                assert got == want, dtype


# As torch documents it: CUDA's lists.
LOW, HIGH, LEFT = torch.float16, torch.float32, None
ON_GPU = {
    "gemm": LOW,
    "bmm": LOW,
    "gemv": LOW,
    "addmm": LOW,
    "baddbmm": LOW,
    "softmax": HIGH,
    "log_softmax": HIGH,
    "layer_norm": HIGH,
    "group_norm_forward": HIGH,
    "sum": HIGH,
    "prod": HIGH,
    "cumsum": HIGH,
    "vector_norm": HIGH,
    "mean": LEFT,
    "gelu": LEFT,
    "add": LEFT,
    "amax": LEFT,
}


@pytest.mark.parametrize("name", ON_GPU)
def test_autocast_on_a_gpu(name: str) -> None:
    """Asked of fakes, so that it needs none."""
    operation = OPERATIONS[name]
    want = ON_GPU[name]
    if not _autocast.may_cast(operation):
        assert want is LEFT
        return

    def ours(*inputs: Any, **attributes: Any) -> Any:
        function = getattr(torch.ops.warpsmith, name)
        return function(*[None if x is None else x.cpu() for x in inputs], **attributes)

    rule = _autocast.Rule(operation, ours, "cuda")
    call = call_with(operation)
    for dtype in (torch.float32, torch.float16):
        inputs = _autocast.to(dtype, call.inputs)
        with torch._subclasses.fake_tensor.FakeTensorMode() as mode:
            fakes = [None if x is None else mode.from_tensor(x).to("cuda") for x in inputs]
        cast = rule.casts(fakes, call.attributes, torch.float16)[0] or dtype
        assert cast == (dtype if want is LEFT else want)


def test_autocast_inside_of_transforms() -> None:
    x, w = torch.randn(3, 4, 8), torch.randn(8, 8)

    def loss(w: Any, x: Any) -> Any:
        return warpsmith.gemm(x, w).float().square().sum()

    def theirs(w: Any, x: Any) -> Any:
        return torch.mm(x, w).float().square().sum()

    with torch.autocast("cpu", dtype=torch.bfloat16):
        batched = torch.vmap(warpsmith.gemm, (0, None))(x, w)
        got = torch.func.grad(loss)(w, x[0])
        want = torch.func.grad(theirs)(w, x[0])
    assert batched.dtype == torch.bfloat16
    assert got.dtype == want.dtype == torch.float32
    torch.testing.assert_close(got, want, rtol=2e-2, atol=2e-1)


def test_autocast_is_seen_by_compile() -> None:
    x, y = torch.randn(8, 8), torch.randn(8, 8)

    def model(x: Any, y: Any) -> Any:
        return warpsmith.gelu(warpsmith.gemm(x, y))

    with torch.autocast("cpu", dtype=torch.bfloat16):
        eager = model(x, y)
        torch._dynamo.reset()
        compiled = torch.compile(model, fullgraph=True, backend=BACKEND, dynamic=True)(x, y)
        theirs = F.gelu(x @ y)
    assert eager.dtype == compiled.dtype == theirs.dtype == torch.bfloat16
    torch.testing.assert_close(eager, compiled)
    torch.testing.assert_close(eager, theirs, rtol=2e-2, atol=2e-2)


# ---- DTensor ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def mesh() -> Iterator[Any]:
    """Of two devices, of which this process is the first; nothing is sent."""
    from torch.distributed.tensor import init_device_mesh
    from torch.testing._internal.distributed.fake_pg import FakeStore

    torch.distributed.init_process_group("fake", rank=0, world_size=2, store=FakeStore())
    yield init_device_mesh("cpu", (2,))
    torch.distributed.destroy_process_group()


def test_dtensor_computes_shards_alone(mesh: Any) -> None:
    from torch.distributed.tensor import DTensor, Partial, Replicate, Shard

    whole, other = torch.randn(4, 6), torch.randn(4, 6)
    weight = torch.randn(6)
    keep = torch.rand(4, 6) > 0.3

    def spread(tensor: torch.Tensor, dim: int | None) -> Any:
        local = tensor if dim is None else tensor.narrow(dim, 0, tensor.shape[dim] // 2)
        placement = Replicate() if dim is None else Shard(dim)
        return DTensor.from_local(local, mesh, [placement], run_check=False)

    def check(function: Any, *given: tuple[torch.Tensor, int | None], out: Any) -> None:
        results = results_of(function(*[spread(tensor, dim) for tensor, dim in given]))
        wanted = results_of(function(*[tensor for tensor, _ in given]))
        for result, want in zip(results, wanted, strict=True):
            assert result.placements == (out,)
            if isinstance(out, Shard):
                want = want.narrow(out.dim, 0, want.shape[out.dim] // 2)
                torch.testing.assert_close(result.to_local(), want)

    for dim in (0, 1):
        check(warpsmith.gelu, (whole, dim), out=Shard(dim))
        check(warpsmith.add, (whole, dim), (other, dim), out=Shard(dim))
    check(warpsmith.add, (whole, 0), (weight, None), out=Shard(0))
    check(warpsmith.add, (whole, 1), (weight, 0), out=Shard(1))
    check(torch.ops.warpsmith.softmax, (whole, 0), out=Shard(0))
    check(warpsmith.softmax, (whole, 1), out=Replicate())
    check(warpsmith.scale_mask_softmax, (whole, 0), (keep, 0), out=Shard(0))
    check(lambda x, w: warpsmith.layer_norm(x, weight=w), (whole, 0), (weight, None), out=Shard(0))
    check(lambda x: warpsmith.layer_norm(x, stats=True), (whole, 0), out=Shard(0))
    check(lambda x: warpsmith.sum(x, dim=1), (whole, 0), out=Shard(0))
    check(lambda x: warpsmith.sum(x, dim=[0]), (whole, 1), out=Shard(0))
    check(lambda x: warpsmith.sum(x, dim=[0], keepdim=True), (whole, 1), out=Shard(1))
    check(lambda x: warpsmith.sum(x, dim=0), (whole, 0), out=Replicate())
    check(warpsmith.sum, (whole, 0), out=Replicate())
    check(lambda x: warpsmith.cumsum(x, dim=0), (whole, 1), out=Shard(1))
    check(lambda x: warpsmith.topk(x, k=2), (whole, 0), out=Shard(0))
    check(warpsmith.gemm, (whole, None), (other.t(), None), out=Replicate())
    check(lambda x: warpsmith.transpose(x, 0, 1), (whole, 0), out=Replicate())
    rows = torch.tensor([3, 1])
    check(
        lambda x, i: warpsmith.gather(x, 0, i),
        (whole, 1),
        (rows[:, None].expand(2, 6), 1),
        out=Shard(1),
    )
    check(lambda x, i: warpsmith.index_select(x, 1, i), (whole, 0), (rows, None), out=Shard(0))
    check(lambda i, w: warpsmith.embedding(i, w), (rows, 0), (whole, None), out=Shard(0))
    check(lambda i, w: warpsmith.embedding(i, w), (rows, None), (whole, 1), out=Shard(1))

    # The heads of k and v that all of q's share stay whole.
    q, kv = torch.randn(2, 4, 5, 8), torch.randn(2, 1, 5, 8)
    check(warpsmith.attention, (q, 1), (q, 1), (q, 1), out=Shard(1))
    check(warpsmith.attention, (q, 0), (kv, 0), (kv, 0), out=Shard(0))
    check(warpsmith.attention, (q, None), (kv, None), (kv, None), out=Replicate())

    x, shared = spread(whole, 0).requires_grad_(), spread(weight, None).requires_grad_()
    warpsmith.layer_norm(x, weight=shared).backward(spread(other, 0))
    assert x.grad.placements == (Shard(0),)
    assert shared.grad.placements == (Partial(),)
    own = weight.clone().requires_grad_()
    warpsmith.layer_norm(whole[:2], weight=own).backward(other[:2])
    torch.testing.assert_close(shared.grad.to_local(), own.grad)


@pytest.mark.parametrize(
    ("layout", "of_a", "of_b", "out"),
    [
        ("nn", 0, None, 0),
        ("nn", None, 1, 1),
        ("nn", 1, 0, None),
        ("tt", 1, None, 0),
        ("tt", None, 0, 1),
        ("tt", 0, 1, None),
        ("nt", 0, None, 0),
        ("nt", 1, 1, None),
    ],
)
def test_dtensor_spreads_products(
    mesh: Any, layout: str, of_a: int | None, of_b: int | None, out: int | None
) -> None:
    """Rows of one, columns of the other; and what is summed over, whose parts are left to add."""
    from torch.distributed.tensor import DTensor, Partial, Replicate, Shard

    a, b = torch.randn(4, 6), torch.randn(6, 8)
    pairs = zip((a, b), layout, (of_a, of_b), strict=True)
    locals_ = []
    spread = []
    for whole, turned, dim in pairs:
        whole = whole.t() if turned == "t" else whole
        local = whole if dim is None else whole.narrow(dim, 0, whole.shape[dim] // 2)
        placement = Replicate() if dim is None else Shard(dim)
        locals_.append(local)
        spread.append(DTensor.from_local(local, mesh, [placement], run_check=False))
    result = warpsmith.gemm(*spread, layout=layout)
    assert result.placements == (Partial() if out is None else Shard(out),)
    assert result.shape == (4, 8)
    torch.testing.assert_close(result.to_local(), warpsmith.gemm(*locals_, layout=layout))
