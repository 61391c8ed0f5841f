"""torch.ops.warpsmith: autograd, torch.compile, modes; the quick path keeps out of them.

Nothing here names an operation: see conftest.py.
"""

import inspect
from typing import Any

import pytest
import torch
import warpsmith
from conftest import (
    DIFFERENTIABLE,
    MAKING,
    OPERATION_CASES,
    Call,
    assert_close,
    assert_within,
    call_with,
    calls_with,
    cases_for,
    doubles_of,
    floats_of,
    requiring_gradients,
    results_of,
)
from torch.fx.experimental.proxy_tensor import make_fx
from warpsmith._catalogue import Operation
from warpsmith._torch import name_in_out

BACKEND = "aot_eager"  # traces, differentiates and functionalises, and needs no compiler


@pytest.fixture(autouse=True)
def _fresh_compiler() -> None:
    torch._dynamo.reset()


def operator(operation: Operation, suffix: str = "") -> Any:
    return getattr(torch.ops.warpsmith, operation.name + suffix).default


def weighted(results: Any, weights: list[torch.Tensor]) -> torch.Tensor:
    """A sum in which every element of each float output counts differently."""
    total = 0
    for result, weight in zip(results, weights, strict=True):
        total = total + (result * weight.to(result)).sum()
    return total


def floats_in(results: Any) -> list[torch.Tensor]:
    return [r for r in results_of(results) if torch.is_tensor(r) and r.is_floating_point()]


def weights_for(results: list[torch.Tensor]) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    return [torch.randn(r.shape, generator=generator, dtype=torch.float64) for r in results]


def make_finite(call: Call) -> None:
    """Replaces the infinities and NaNs that some inputs are planted with, none of 8 bits."""
    call.inputs = [
        x.nan_to_num(0, 1, -1)
        if x is not None and x.is_floating_point() and x.dtype.itemsize > 1
        else x
        for x in call.inputs
    ]


def checks_of(call: Call) -> tuple[str, ...]:
    """opcheck's tests; that of the schema computes with tensors, which torch cannot of 8 bits."""
    narrow = any(x.dtype.itemsize == 1 for x in floats_of(call.inputs)) or any(
        layout is not None and layout.dtype in ("e4m3", "e5m2") for _, layout in call.written
    )
    others = ("test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic")
    return others if narrow else ("test_schema", *others)


@pytest.mark.parametrize("operation", OPERATION_CASES)
def test_opcheck(operation: Operation, device: str) -> None:
    for call in calls_with(operation, device)[:2]:
        make_finite(call)  # opcheck takes a NaN for a difference
        tests = checks_of(call)
        torch.library.opcheck(
            operator(operation), tuple(call.fresh()), call.attributes, test_utils=tests
        )
        if operation.gradient:
            inputs = tuple(requiring_gradients(call.fresh()))
            torch.library.opcheck(operator(operation), inputs, call.attributes, test_utils=tests)


@pytest.mark.parametrize("operation", MAKING)
def test_opcheck_of_out(operation: Operation, device: str) -> None:
    call = call_with(operation, device)
    made = iter(results_of(call.ours()))
    outs = {
        name: None if layout is None else torch.empty_like(next(made))
        for name, layout in call.written
        if name in operation.outputs
    }
    torch.library.opcheck(
        operator(operation, "_out"),
        tuple(call.fresh()),
        {name_in_out(name): value for name, value in call.attributes.items()} | outs,
        test_utils=checks_of(call),
    )


@pytest.mark.parametrize("operation", DIFFERENTIABLE)
def test_gradient(operation: Operation, device: str) -> None:
    for call in calls_with(operation, device):
        ours = requiring_gradients(call.inputs)
        theirs = requiring_gradients(doubles_of(call.inputs))
        results = floats_in(call.ours(*ours))
        reference = floats_in(tuple(x for x in call.theirs(*theirs) if x is not None))
        weights = weights_for(reference)
        got = torch.autograd.grad(weighted(results, weights), floats_of(ours), allow_unused=True)
        want = torch.autograd.grad(
            weighted(reference, weights), floats_of(theirs), allow_unused=True
        )
        for mine, right in zip(got, want, strict=True):
            if mine is None or right is None:
                other = mine if right is None else right
                assert other is None or not other.any()
                continue
            assert_close(mine, right)


@pytest.mark.parametrize("operation", DIFFERENTIABLE)
def test_gradient_of_each_output(operation: Operation) -> None:
    """The gradients of the other outputs are None then, not zeros."""
    call = calls_with(operation)[-1]
    make_finite(call)
    theirs = requiring_gradients(doubles_of(call.inputs))
    reference = floats_in(tuple(x for x in call.theirs(*theirs) if x is not None))
    for at, right in enumerate(reference):
        if not right.requires_grad:
            continue
        ours = requiring_gradients(call.inputs)
        result = floats_in(call.ours(*ours))[at]
        weights = weights_for([right])
        got = torch.autograd.grad(weighted([result], weights), floats_of(ours), allow_unused=True)
        want = torch.autograd.grad(
            weighted([right], weights), floats_of(theirs), allow_unused=True, retain_graph=True
        )
        for mine, wanted in zip(got, want, strict=True):
            if mine is not None and wanted is not None:
                assert_within(mine, wanted, (1e-3, 0, 0))  # of the whole: some elements cancel


@pytest.mark.parametrize("operation", DIFFERENTIABLE)
def test_second_gradient(operation: Operation) -> None:
    call = call_with(operation)
    # Of a channel of equal numbers, and of 1e30, terms cancel that f32 does not hold.
    if operation.name in ("batch_norm_forward", "cross_entropy_forward"):
        generator = torch.Generator().manual_seed(1)
        call.inputs[0] = torch.randn(call.inputs[0].shape, generator=generator)

    def second(compute: Any, inputs: list[torch.Tensor | None]) -> tuple[torch.Tensor | None, ...]:
        results = floats_in(tuple(x for x in results_of(compute(*inputs)) if x is not None))
        value = sum((result**2).sum() for result in results)
        firsts = torch.autograd.grad(value, floats_of(inputs), create_graph=True, allow_unused=True)
        there = [first for first in firsts if first is not None and first.requires_grad]
        if not there:
            return ()
        norm = sum((first**2).sum() for first in there)
        return torch.autograd.grad(norm, floats_of(inputs), allow_unused=True)

    try:
        got = second(call.ours, requiring_gradients(call.inputs))
        want = second(call.theirs, requiring_gradients(doubles_of(call.inputs)))
    except NotImplementedError as error:
        pytest.skip(str(error))
    for mine, right in zip(got, want, strict=False):
        if mine is not None and right is not None:
            scale = max(1.0, float(right.abs().max()))
            torch.testing.assert_close(
                mine.cpu().double(), right, rtol=1e-3, atol=1e-3 * scale, equal_nan=True
            )


@pytest.mark.parametrize("operation", OPERATION_CASES)
def test_no_gradient_is_an_error(operation: Operation) -> None:
    call = call_with(operation)
    inputs = requiring_gradients(call.fresh())
    if operation.gradient or not floats_of(inputs):
        pytest.skip("has one, or needs none")
    if operation.in_out:
        with pytest.raises(ValueError, match="no gradient"):
            call.ours(*inputs)
        with torch.no_grad():
            call.ours(*inputs)
        return
    result = [x for x in floats_in(call.ours(*inputs)) if x.dtype.itemsize > 1]
    if result:
        with pytest.raises(NotImplementedError, match="has no gradient"):
            result[0].sum().backward()


@pytest.mark.parametrize("operation", OPERATION_CASES)
def test_forward_mode_is_refused(operation: Operation) -> None:
    call = call_with(operation)
    inputs = [None if x is None else x.clone() for x in call.inputs]
    if operation.gradient or not floats_of(inputs):
        pytest.skip("has one where its gradient has one (test_modes.py), or no floats")
    with torch.autograd.forward_ad.dual_level():
        duals = [
            torch.autograd.forward_ad.make_dual(x, torch.ones_like(x))
            if x is not None and x.is_floating_point()
            else x
            for x in inputs
        ]
        with pytest.raises(NotImplementedError, match="forward-mode"):
            call.ours(*duals)
        call.ours(*inputs)  # these have no tangent


@pytest.mark.parametrize("operation", MAKING)
def test_out_of_a_gradient(operation: Operation) -> None:
    call = call_with(operation)
    if not floats_of(call.inputs) or operation.in_out:
        pytest.skip("no floats")
    outs = tuple(torch.empty_like(r) for r in results_of(call.ours()))
    out = outs if len(outs) > 1 else outs[0]
    inputs = requiring_gradients(call.inputs)
    with pytest.raises(ValueError, match="requires one"):
        call.ours(*inputs, out=out)
    with torch.no_grad():
        call.check(call.ours(*inputs, out=out))


@pytest.mark.parametrize("operation", OPERATION_CASES)
def test_compiles_without_graph_breaks(operation: Operation, device: str) -> None:
    for call in calls_with(operation, device)[:2]:
        torch._dynamo.reset()

        def ours(*inputs: Any, call: Call = call) -> Any:
            return call.ours(*inputs)

        compiled = torch.compile(ours, fullgraph=True, backend=BACKEND)
        call.check(compiled(*call.fresh()))
        if not operation.gradient:
            continue
        inputs = requiring_gradients(call.inputs)
        results = floats_in(compiled(*inputs))
        weights = weights_for(results)
        got = torch.autograd.grad(weighted(results, weights), floats_of(inputs), allow_unused=True)
        eager = requiring_gradients(call.inputs)
        results = floats_in(call.ours(*eager))
        want = torch.autograd.grad(weighted(results, weights), floats_of(eager), allow_unused=True)
        for mine, right in zip(got, want, strict=True):
            if mine is not None and right is not None:
                assert_close(mine, right)


@pytest.mark.parametrize("operation", MAKING)
def test_compiles_out(operation: Operation) -> None:
    call = call_with(operation)
    outs = tuple(torch.empty_like(r) for r in results_of(call.ours()))
    out = outs if len(outs) > 1 else outs[0]
    compiled = torch.compile(
        lambda out, *inputs: call.ours(*inputs, out=out), fullgraph=True, backend=BACKEND
    )
    call.check(compiled(out, *call.fresh()))
    call.check(out)


@pytest.mark.parametrize("operation", OPERATION_CASES)
def test_compiles_for_symbolic_shapes(operation: Operation) -> None:
    first = call_with(operation)

    def ours(*inputs: Any) -> Any:
        return first.ours(*inputs)

    compiled = torch.compile(ours, fullgraph=True, backend=BACKEND, dynamic=True)
    first.check(compiled(*first.fresh()))
    others = [
        case
        for case in cases_for(operation)
        if case.attributes == first.attributes and case is not first.case
    ]
    for case in others[-1:]:  # it may be traced anew: a second
        call = Call(case, first.dtype, case.inputs(first.dtype))
        call.check(compiled(*call.fresh()))


@pytest.mark.parametrize("operation", OPERATION_CASES)
def test_export(operation: Operation) -> None:
    call = call_with(operation)

    class Model(torch.nn.Module):
        def forward(self, *inputs: Any) -> Any:
            return call.ours(*inputs)

    program = torch.export.export(Model(), tuple(call.fresh()))
    targets = {str(node.target) for node in program.graph.nodes if node.op == "call_function"}
    assert f"warpsmith.{operation.name}.default" in targets
    call.check(program.module()(*call.fresh()))


@pytest.mark.parametrize("operation", OPERATION_CASES)
def test_jit_trace_records_the_operator(operation: Operation) -> None:
    call = call_with(operation)
    inputs = call.fresh()
    there = tuple(x for x in inputs if x is not None)

    def ours(*given: Any) -> Any:
        rest = iter(given)
        return call.ours(*[None if x is None else next(rest) for x in inputs])

    traced = torch.jit.trace(ours, there, check_trace=False)
    assert f"warpsmith::{operation.name}" in str(traced.graph)
    call.check(traced(*[x for x in call.fresh() if x is not None]))


@pytest.mark.parametrize("operation", OPERATION_CASES)
def test_modes_see_the_operator(operation: Operation) -> None:
    call = call_with(operation)
    inputs = call.fresh()
    graph = make_fx(lambda *inputs: call.ours(*inputs))(*inputs)
    assert f"torch.ops.warpsmith.{operation.name}" in graph.code
    inputs = call.fresh()
    with torch._subclasses.fake_tensor.FakeTensorMode() as mode:
        fakes = [x if x is None else mode.from_tensor(x) for x in inputs]
        for fake in results_of(call.ours(*fakes)):
            assert isinstance(fake, torch._subclasses.fake_tensor.FakeTensor)


@pytest.mark.parametrize("operation", OPERATION_CASES)
def test_fakes_are_exact(operation: Operation) -> None:
    for case in cases_for(operation):
        for dtype in operation.dtypes[:2]:
            call = Call(case, dtype, case.inputs(dtype))
            real = call.ours()
            inputs = call.fresh()
            with torch._subclasses.fake_tensor.FakeTensorMode() as mode:
                fakes = [x if x is None else mode.from_tensor(x) for x in inputs]
                fake = call.ours(*fakes)
            for a, b in zip(results_of(fake), results_of(real), strict=True):
                assert (a.shape, a.dtype, a.stride()) == (b.shape, b.dtype, b.stride())


@pytest.mark.parametrize("operation", OPERATION_CASES)
def test_fakes_refuse_what_kernels_refuse(operation: Operation) -> None:
    call = call_with(operation)
    wrong = [x for x in call.fresh() if x is not None]
    wrong[0] = torch.empty(1, 1, 1, 1, 1, 1, 2, dtype=wrong[0].dtype)  # 7 dimensions
    inputs = iter(wrong)
    given = [None if x is None else next(inputs) for x in call.inputs]
    with pytest.raises(ValueError) as eager:
        call.operator(*given)
    with torch._subclasses.fake_tensor.FakeTensorMode() as mode:
        fakes = [x if x is None else mode.from_tensor(x) for x in given]
        with pytest.raises(ValueError) as fake:
            call.operator(*fakes)
    assert str(fake.value) == str(eager.value)


@pytest.mark.parametrize("operation", MAKING)
def test_fakes_refuse_a_wrong_out(operation: Operation) -> None:
    call = call_with(operation)
    outs = [torch.empty(1, 2, 3, 4, 5).to(r.dtype) for r in results_of(call.ours())]
    out = tuple(outs) if len(outs) > 1 else outs[0]
    with pytest.raises(ValueError, match="but the result is"):
        call.ours(out=out)
    compiled = torch.compile(lambda out, *x: call.ours(*x, out=out), backend=BACKEND)
    with pytest.raises(Exception, match="but the result is"):
        compiled(out, *call.fresh())


@pytest.mark.parametrize("operation", MAKING)
def test_out_that_is_an_input_is_refused(operation: Operation) -> None:
    """Also in a later call of the same layout, which the quick path would know."""
    if operation.in_place:
        pytest.skip("may be computed in place")
    for call in calls_with(operation):
        made = results_of(call.ours())
        for x in call.inputs:
            if x is None or len(made) != 1:
                continue
            if x.shape != made[0].shape or x.dtype != made[0].dtype:
                continue
            for _ in range(2):
                call.ours(out=torch.empty_strided(x.shape, x.stride(), dtype=x.dtype))
                with pytest.raises(ValueError, match="shares memory"):
                    call.ours(out=x)


@pytest.mark.parametrize("operation", MAKING)
def test_in_place(operation: Operation, device: str) -> None:
    if not operation.in_place or len(operation.outputs) != 1:
        pytest.skip("is not computed in place")
    call = call_with(operation, device)
    for _ in range(2):
        x = call.inputs[0].clone()
        call.check(call.ours(x, *call.inputs[1:], out=x))
        call.check(call.ours(out=torch.empty_like(x)))
    x = torch.cat([call.inputs[0].flatten(), call.inputs[0].flatten()[:1]])
    shifted = x[1:].view(call.inputs[0].shape)
    with pytest.raises(ValueError, match="shares memory"):
        call.ours(x[:-1].view(shifted.shape), *call.inputs[1:], out=shifted)


@pytest.mark.parametrize("operation", OPERATION_CASES)
def test_parameters_and_inference_mode(operation: Operation) -> None:
    call = call_with(operation)
    if not operation.in_out and floats_of(call.inputs):
        weights = [
            torch.nn.Parameter(x) if x is not None and x.is_floating_point() else x
            for x in call.inputs
        ]
        call.check(tuple(r.detach() for r in results_of(call.ours(*weights))))
    with torch.inference_mode():
        call.check(call.ours())


@pytest.mark.parametrize("operation", MAKING)
def test_negated_views(operation: Operation, device: str) -> None:
    """The imaginary part of a conjugate is a real tensor with a bit that says "negated"."""
    call = call_with(operation, device)
    x = call.inputs[0]
    if operation.in_out or x.dtype != torch.float32:
        pytest.skip("no f32")
    pairs = torch.stack([torch.zeros_like(x), -x], -1).contiguous()
    view = torch.view_as_complex(pairs).conj().imag
    assert view.is_neg()
    torch.testing.assert_close(view, x, rtol=0, atol=0, equal_nan=True)
    call.check(call.ours(view, *call.inputs[1:]))
    call.check(
        call.operator(view, *call.inputs[1:])
        if len(operation.outputs) == 1
        else call.ours(view, *call.inputs[1:])
    )


@pytest.mark.parametrize("operation", MAKING)
def test_vmap(operation: Operation) -> None:
    call = call_with(operation)
    if operation.in_out or any(x is not None and x.dim() == 0 for x in call.inputs):
        pytest.skip("not for vmap")
    there = [x for x in call.inputs if x is not None]

    def ours(*given: Any) -> Any:
        rest = iter(given)
        return call.ours(*[None if x is None else next(rest) for x in call.inputs])

    batched = torch.vmap(ours)(*[torch.stack([x, x]) for x in there])
    for result, want in zip(results_of(batched), results_of(ours(*there)), strict=True):
        torch.testing.assert_close(result, torch.stack([want, want]), equal_nan=True)


def test_a_kernel_that_fails_is_not_tried_another_way(monkeypatch: pytest.MonkeyPatch) -> None:
    for operation in warpsmith.OPERATIONS.values():
        call = call_with(operation)
        function = inspect.unwrap(getattr(warpsmith, operation.name))

        def failed(*_: Any) -> None:
            raise RuntimeError("the kernel failed")

        with monkeypatch.context() as patch:
            for way in ("run_fresh", "run_given", "run_made"):
                patch.setitem(function.__globals__, way, failed)
            patch.setitem(function.__globals__, "general", lambda *_: pytest.fail("tried again"))
            with pytest.raises(RuntimeError, match="the kernel failed"):
                call.ours()
