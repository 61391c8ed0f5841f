"""selective_scan and wkv: states that go in and come out, and gradients against torch's in double.

What they compute in general is tested where all operations are.
"""

from typing import Any

import pytest
import torch
import warpsmith
from conftest import assert_close
from warpsmith._catalogue import OPERATIONS
from warpsmith._expressions import torch_function

SCANS = [r["name"] for r in OPERATIONS["selective_scan"].rungs]
WKVS = [r["name"] for r in OPERATIONS["wkv"].rungs]


def normal(*shape: int, seed: int = 1) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def scan_inputs(length: int) -> dict[str, Any]:
    return {
        "u": normal(2, 4, length, seed=1),
        "delta": normal(2, 4, length, seed=2) - 2,
        "a": -normal(4, 3, seed=3).exp(),
        "b": normal(2, 2, 3, length, seed=4),
        "c": normal(2, 2, 3, length, seed=5),
        "d": normal(4, seed=6),
        "z": normal(2, 4, length, seed=7),
        "delta_bias": normal(4, seed=8) / 4,
    }


def wkv_inputs(length: int) -> dict[str, Any]:
    return {
        "k": normal(2, length, 5, seed=1),
        "v": normal(2, length, 5, seed=2),
        "w": -normal(5, seed=3).exp() / 4,
        "u": normal(5, seed=4),
    }


def parts_of(inputs: dict[str, Any], dim: int, length: int, at: int) -> list[dict[str, Any]]:
    def part(x: torch.Tensor, first: int, size: int) -> torch.Tensor:
        return x.narrow(dim if dim >= 0 else x.dim() - 1, first, size)

    return [
        {k: part(x, first, size) if length in x.shape else x for k, x in inputs.items()}
        for first, size in ((0, at), (at, length - at))
    ]


@pytest.mark.parametrize("rung", [None, *SCANS])
def test_a_scan_goes_on_from_its_state(rung: str | None, device: str) -> None:
    inputs = {k: x.to(device) for k, x in scan_inputs(600).items()}
    options = {"delta_softplus": True, "return_last_state": True}
    if rung is not None and rung.startswith("backward"):
        return
    whole, last = warpsmith.selective_scan(**inputs, **options)
    first, second = parts_of(inputs, -1, 600, 200)
    try:
        y1, state = warpsmith.selective_scan(**first, **options, rung=rung)
        y2, end = warpsmith.selective_scan(**second, initial_state=state, **options, rung=rung)
    except ValueError as error:
        assert "does not take" in str(error), error
        return
    assert_close(torch.cat((y1, y2), -1), whole)
    assert_close(end, last)


@pytest.mark.parametrize("rung", [None, *WKVS])
def test_wkv_goes_on_from_its_state(rung: str | None, device: str) -> None:
    if rung is not None and rung.startswith("backward"):
        return
    inputs = {k: x.to(device) for k, x in wkv_inputs(70).items()}
    whole, last = warpsmith.wkv(**inputs, return_state=True)
    first, second = parts_of(inputs, 1, 70, 33)
    y1, state = warpsmith.wkv(**first, return_state=True, rung=rung)
    y2, end = warpsmith.wkv(**second, state=state, return_state=True, rung=rung)
    assert_close(torch.cat((y1, y2), 1), whole)
    assert_close(end, last)
    want = torch_function("wkv")(
        *(inputs[k].cpu().double() for k in ("k", "v", "w", "u")), None, return_state=True
    )
    assert_close(whole, want[0])
    assert_close(last, want[1])


def gradients(function: Any, inputs: dict[str, Any], **options: Any) -> list[torch.Tensor]:
    leaves = {k: x.detach().clone().requires_grad_() for k, x in inputs.items()}
    out = function(**leaves, **options)
    out = out[0] if isinstance(out, tuple) else out
    g = normal(*out.shape, seed=9).to(out)
    return list(torch.autograd.grad(out, list(leaves.values()), g))


def doubles(inputs: dict[str, Any]) -> dict[str, Any]:
    return {k: x.double() for k, x in inputs.items()}


@pytest.mark.parametrize("names", [(), ("d",), ("z", "delta_bias"), ("d", "z", "delta_bias")])
def test_gradients_of_a_scan(names: tuple[str, ...]) -> None:
    inputs = scan_inputs(40)
    inputs = {
        k: x
        for k, x in inputs.items()
        if (len(k) == 1 and k not in "dz") or k in names or k == "delta"
    }
    mine = gradients(warpsmith.selective_scan, inputs, delta_softplus=True)
    optional = {k: None for k in ("d", "z", "delta_bias", "initial_state") if k not in inputs}
    right = gradients(
        torch_function("selective_scan"), doubles(inputs), **optional, delta_softplus=True
    )
    for got, want in zip(mine, right, strict=True):
        assert_close(got, want)


def test_gradients_of_wkv_with_a_state() -> None:
    inputs = wkv_inputs(40)
    _, state = warpsmith.wkv(**wkv_inputs(7), return_state=True)
    mine = gradients(warpsmith.wkv, inputs, state=state)
    right = gradients(torch_function("wkv"), doubles(inputs), state=state.double())
    for got, want in zip(mine, right, strict=True):
        assert_close(got, want)


def test_wkv_counts_steps_as_far_as_f32_does() -> None:
    k = torch.zeros(1, 1, 1).expand(1, 2**24 + 1, 1)
    with pytest.raises(ValueError, match=r"'k' is .* not of up to 16777216 steps"):
        warpsmith.wkv(k, k, torch.ones(1), torch.ones(1))


def test_the_reference_is_differentiable() -> None:
    small = {k: x.requires_grad_() for k, x in doubles(wkv_inputs(4)).items()}
    function = torch_function("wkv")
    assert torch.autograd.gradcheck(
        lambda k, v, w, u: function(k, v, w, u, None)[0], tuple(small.values())
    )


def state_gradients(
    function: Any, inputs: dict[str, Any], state: str, **options: Any
) -> list[torch.Tensor]:
    """Of all inputs, the state that goes in too, through out and the state that comes out."""
    leaves = {k: x.clone().requires_grad_() for k, x in inputs.items()}
    out, last = function(**{state: None, **leaves}, **options)
    gs = [normal(*x.shape, seed=9 + i).to(x) for i, x in enumerate((out, last))]
    return list(torch.autograd.grad((out, last), list(leaves.values()), gs))


@pytest.mark.parametrize("length", [1, 40, 300])
@pytest.mark.parametrize("begins", [True, False])
def test_gradients_through_the_states_of_a_scan(length: int, begins: bool) -> None:
    inputs = scan_inputs(length)
    if begins:
        inputs["initial_state"] = normal(2, 4, 3, seed=10)
    options = {"delta_softplus": True, "return_last_state": True}
    mine = state_gradients(warpsmith.selective_scan, inputs, "initial_state", **options)
    right = state_gradients(
        torch_function("selective_scan"), doubles(inputs), "initial_state", **options
    )
    for got, want in zip(mine, right, strict=True):
        assert_close(got, want)


@pytest.mark.parametrize("length", [1, 40, 300])
@pytest.mark.parametrize("begins", [True, False])
def test_gradients_through_the_states_of_wkv(length: int, begins: bool) -> None:
    inputs = wkv_inputs(length)
    if begins:
        _, inputs["state"] = warpsmith.wkv(**wkv_inputs(7), return_state=True)
    mine = state_gradients(warpsmith.wkv, inputs, "state", return_state=True)
    right = state_gradients(torch_function("wkv"), doubles(inputs), "state", return_state=True)
    for got, want in zip(mine, right, strict=True):
        assert_close(got, want)


def test_two_calls_that_pass_a_state_have_the_gradients_of_one() -> None:
    inputs = scan_inputs(60)
    options = {"delta_softplus": True, "return_last_state": True}

    def in_two(**inputs: Any) -> torch.Tensor:
        first, second = parts_of(inputs, -1, 60, 25)
        y1, state = warpsmith.selective_scan(**first, **options)
        y2, _ = warpsmith.selective_scan(**second, initial_state=state, **options)
        return torch.cat((y1, y2), -1)

    whole = gradients(warpsmith.selective_scan, inputs, delta_softplus=True)
    for got, want in zip(gradients(in_two, inputs), whole, strict=True):
        assert_close(got, want)

    def wkv_in_two(**inputs: Any) -> torch.Tensor:
        first, second = parts_of(inputs, 1, 60, 25)
        y1, state = warpsmith.wkv(**first, return_state=True)
        y2, _ = warpsmith.wkv(**second, state=state, return_state=True)
        return torch.cat((y1, y2), 1)

    whole = gradients(warpsmith.wkv, wkv_inputs(60))
    for got, want in zip(gradients(wkv_in_two, wkv_inputs(60)), whole, strict=True):
        assert_close(got, want)
