"""Every operation, dtype and rung gives torch's answer, on every kind of input.

Nothing here names an operation: see conftest.py.
"""

from typing import Any

import numpy as np
import pytest
import torch
import warpsmith
from conftest import (
    DTYPE_CASES,
    MAKING,
    OPERATION_CASES,
    call_of,
    call_with,
    calls_with,
    cases_for,
    results_of,
)
from warpsmith._catalogue import Operation
from warpsmith._signatures import arguments_of, tensor_names


@pytest.mark.parametrize(("operation", "dtype"), DTYPE_CASES)
def test_agrees_with_torch(operation: Operation, dtype: str, device: str) -> None:
    for case in cases_for(operation):
        call = call_of(case, dtype, device)
        results = call.ours()
        call.check(results)
        for result in results_of(results):
            assert result.device == call.inputs[0].device


@pytest.mark.parametrize("operation", OPERATION_CASES)
def test_every_rung(operation: Operation, device: str) -> None:
    ran = set()
    for call in calls_with(operation, device):
        for rung in operation.rungs:
            for name in (rung["name"], f"{operation.name}/{rung['name']}"):
                try:
                    results = call.ours(rung=name)
                except ValueError as error:
                    assert "does not take" in str(error), error
                    continue
                call.check(results, accumulate=rung["accumulate"])
                ran.add(rung["name"])
    assert ran


@pytest.mark.parametrize("operation", OPERATION_CASES)
def test_seed_names_are_rungs(operation: Operation) -> None:
    for seed in operation.seeds:
        case = cases_for(operation)[0]
        call = call_of(case, seed["dtypes"][0])
        try:
            call.check(call.ours(rung=seed["name"]))
        except ValueError as error:
            assert "does not take" in str(error), error


@pytest.mark.parametrize(("operation", "dtype"), DTYPE_CASES)
def test_out(operation: Operation, dtype: str, device: str) -> None:
    if not operation.outputs:
        pytest.skip("writes where it reads")
    for case in cases_for(operation)[:2]:
        call = call_of(case, dtype, device)
        expected = results_of(call.ours())
        outs = tuple(torch.full_like(result, 77) for result in expected)
        before = [out._version for out in outs]
        out = outs if len(outs) > 1 else outs[0]
        assert call.ours(out=out) is out
        for got, want, version in zip(outs, expected, before, strict=True):
            assert torch.equal(got, want) or want.is_floating_point()
            torch.testing.assert_close(got, want, equal_nan=True)
            assert got._version > version  # autograd must know


@pytest.mark.parametrize("operation", MAKING)
def test_out_of_all_outputs(operation: Operation) -> None:
    """A tuple with None for the outputs that a call has not, and lists too."""
    for call in calls_with(operation):
        made = iter(results_of(call.ours()))
        outs = [
            None if layout is None else torch.empty_like(next(made))
            for name, layout in call.written
            if name in operation.outputs
        ]
        if len(outs) == 1:
            return
        assert call.ours(out=outs) is outs
        call.check(tuple(out for out in outs if out is not None))


@pytest.mark.parametrize("operation", OPERATION_CASES)
def test_in_out_tensors_are_returned(operation: Operation, device: str) -> None:
    if not operation.in_out:
        pytest.skip("has none")
    call = call_with(operation, device)
    inputs = call.fresh()
    versions = [None if x is None else x._version for x in inputs]
    results = results_of(call.ours(*inputs))
    for x, version, p in zip(inputs, versions, operation.parameters, strict=False):
        assert x is None or (x._version > version) == p.is_written
    if not operation.outputs:
        assert any(results[0] is x for x in inputs)


@pytest.mark.parametrize("operation", OPERATION_CASES)
def test_other_extents(operation: Operation, device: str) -> None:
    """Nothing at all, and one of each."""
    first = cases_for(operation)[0]
    count = len(operation.extent_names)
    kinds = [[0] * count, [1] * count]
    kinds += [[0 if i == at else 4 for i in range(count)] for at in range(count)]
    for extents in kinds:
        case = first.with_extents(*extents)
        try:
            call = call_of(case, operation.dtypes[0], device)
            want = call.theirs()
        except (ValueError, RuntimeError, IndexError):
            continue  # torch or the operation has no such problem
        if all(torch.is_tensor(x) for x in want):
            call.check(call.ours())


def _transposed(x: torch.Tensor) -> torch.Tensor:
    return x.t().contiguous().t() if x.dim() == 2 else x


def _sliced(x: torch.Tensor) -> torch.Tensor:
    if x.dim() == 0:
        return x
    wide = x.new_full((*x.shape[:-1], 2 * x.shape[-1] + 3), 1)
    part = wide[..., 1 : 2 * x.shape[-1] : 2]
    part.copy_(x)
    return part


def _offset(x: torch.Tensor) -> torch.Tensor:
    flat = x.new_full((x.numel() + 1,), 1)
    flat[1:] = x.flatten()
    return flat[1:].view(x.shape)


@pytest.mark.parametrize("operation", OPERATION_CASES)
@pytest.mark.parametrize("change", [_transposed, _sliced, _offset])
def test_strided_inputs(operation: Operation, change: Any, device: str) -> None:
    call = call_with(operation, device)
    changed = [x if x is None else change(x.clone()) for x in call.inputs]
    if "contiguous" in operation.parameters[0].doc.split(", ") and not changed[0].is_contiguous():
        for inputs, out in ((changed, None), (call.inputs, changed[0])):
            with pytest.raises(ValueError, match="contiguous"):
                call.ours(*inputs, out=out)
        return
    call.check(call.ours(*changed))
    if operation.outputs:
        outs = [change(torch.zeros_like(r).contiguous()) for r in results_of(call.ours())]
        out = tuple(outs) if len(outs) > 1 else outs[0]
        call.check(call.ours(out=out))


@pytest.mark.parametrize("operation", OPERATION_CASES)
def test_calls_that_differ_are_checked_anew(operation: Operation, device: str) -> None:
    """Other addresses, dtypes, shapes and attributes between calls of one thread."""
    calls = [
        call_of(case, dtype, device, seed)
        for seed in (1, 2)
        for dtype in operation.dtypes[:2]
        for case in cases_for(operation)[:4]
    ]
    for call in calls + calls[::-1]:
        call.check(call.ours())
        call.check(call.ours(*[x if x is None else _offset(x.clone()) for x in call.inputs]))


@pytest.mark.parametrize("operation", OPERATION_CASES)
def test_what_is_not_torch_s_is_by_keyword(operation: Operation) -> None:
    call = call_with(operation)
    function = getattr(warpsmith, operation.name)
    positional = [a for a in arguments_of(operation) if not a.by_keyword]
    with pytest.raises(TypeError, match="positional argument"):
        function(*[None] * len(positional), 1)
    tensors = dict(zip(tensor_names(operation), call.inputs, strict=True))
    for a in operation.attributes:
        if not a.required:
            continue
        others = {name: value for name, value in call.attributes.items() if name != a.name}
        with pytest.raises(TypeError, match=f"missing 1 required .*'{a.name}'"):
            function(**tensors, **others)


@pytest.mark.parametrize("operation", OPERATION_CASES)
def test_wrong_attributes(operation: Operation) -> None:
    call = call_with(operation)
    for a in operation.attributes:
        wrong = {
            "choice": ["no such choice", 3],
            "float": ["much"],
            "int": ["many", 1.5, 2**63],
            "bool": ["yes", 2],
            "dims": ["first", 1.5, (0,) * 9],
        }[a.kind]
        may_be_none = any(b.none_is_default for b in arguments_of(operation) if b.own == a.name)
        wrong += [None] if (a.required or a.default is not None) and not may_be_none else []
        for value in wrong:
            with pytest.raises(ValueError, match=f"{a.name} is"):
                getattr(warpsmith, operation.name)(
                    **dict(zip(tensor_names(operation), call.fresh(), strict=True)),
                    **(call.attributes | {a.name: value}),
                )


@pytest.mark.parametrize("operation", OPERATION_CASES)
def test_numpy(operation: Operation) -> None:
    for dtype in ("f32", "f16", "i64", "i32"):
        if dtype not in operation.dtypes:
            continue
        for case in cases_for(operation)[:3]:
            if any(layout is not None and layout.dtype == "e4m3" for layout in case.layouts(dtype)):
                continue  # NumPy has them from ml_dtypes
            call = call_of(case, dtype)
            arrays = [None if x is None else x.numpy() for x in call.fresh()]
            results = call.ours(*arrays)
            expected = results_of(call.ours())
            for got, want in zip(results_of(results), expected, strict=True):
                assert isinstance(got, np.ndarray)
                np.testing.assert_allclose(got, want.numpy(), rtol=1e-3, atol=1e-6)
            if operation.outputs and not operation.in_out:
                outs = tuple(np.empty_like(want.numpy()) for want in expected)
                out = outs if len(outs) > 1 else outs[0]
                assert call.ours(*arrays, out=out) is out
                for got, want in zip(outs, results_of(results), strict=True):
                    np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-6)
