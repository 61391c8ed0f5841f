"""Linear attention and the delta rule as models call them: layouts, heads, states, gradients.

What the operations compute in each case is tested where all operations are.
"""

from typing import Any

import pytest
import torch
import warpsmith
from conftest import assert_close, torch_function


def tensor(shape: tuple[int, ...], seed: int, dtype: Any = torch.float32) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator).to(dtype)


def decays(*shape: int) -> torch.Tensor:
    return -0.2 * torch.rand(shape, generator=torch.Generator().manual_seed(9))


def recurrence(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, log_decay: torch.Tensor, scale: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """Step by step, in double precision."""
    q, k, v = q.double(), k.double(), v.double()
    state = q.new_zeros(*v.shape[:2], q.shape[3], v.shape[3])
    outs = []
    for t in range(q.shape[2]):
        state = state * log_decay[:, :, t, None, None].double().exp()
        state = state + k[:, :, t, :, None] * v[:, :, t, None, :]
        outs.append((q[:, :, t, :, None] * state).sum(2) * scale)
    return torch.stack(outs, 2), state


def test_mamba_2() -> None:
    """Heads share C and B, and steps stand before heads."""
    c, b = tensor((2, 40, 1, 16), 1), tensor((2, 40, 1, 16), 2)
    x = tensor((2, 40, 4, 8), 3)
    a = decays(2, 4, 40)
    heads = [each.transpose(1, 2) for each in (c, b, x)]
    out, state = warpsmith.linear_attention(*heads, a, output_final_state=True)
    assert out.shape == (2, 4, 40, 8)
    q, k = (each.expand(2, 4, 40, 16) for each in heads[:2])
    want, final = recurrence(q, k, heads[2], a, 1.0)
    assert_close(out, want)
    assert_close(state, final)


def test_goes_on() -> None:
    q, k, v, a = (
        tensor((1, 2, 30, 16), 1),
        tensor((1, 2, 30, 16), 2),
        tensor((1, 2, 30, 8), 3),
        None,
    )
    whole, end = warpsmith.linear_attention(q, k, v, a, scale=0.25, output_final_state=True)
    state, parts = None, []
    for part in (slice(0, 17), slice(17, 18), slice(18, 30)):
        rows = [x[:, :, part] for x in (q, k, v)]
        out, state = warpsmith.linear_attention(
            *rows, a, state, scale=0.25, output_final_state=True
        )
        parts.append(out)
    assert_close(torch.cat(parts, 2), whole)
    assert_close(state, end)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", ["linear_attention", "delta_rule"])
def test_gradients_of_shared_heads(name: str, dtype: Any) -> None:
    shapes = [(1, 1, 20, 16), (1, 2, 20, 16), (1, 4, 20, 16)]
    inputs = [tensor(shape, i, dtype) for i, shape in enumerate(shapes)]
    if name == "delta_rule":
        inputs[1] = torch.nn.functional.normalize(inputs[1], dim=-1)
        inputs.append(torch.rand(1, 4, 20, generator=torch.Generator().manual_seed(8)))
    inputs.append(decays(1, 4, 20))
    ours = [x.clone().requires_grad_() for x in inputs]
    theirs = [x.double().requires_grad_() for x in inputs]
    out, state = getattr(warpsmith, name)(*ours, scale=0.25, output_final_state=True)
    want, final = torch_function(name)(*theirs, None, scale=0.25, output_final_state=True)
    weights = [tensor(tuple(x.shape), 7 + i) for i, x in enumerate((out, state))]
    got = torch.autograd.grad((out * weights[0]).sum() + (state * weights[1]).sum(), ours)
    right = torch.autograd.grad((want * weights[0]).sum() + (final * weights[1]).sum(), theirs)
    for mine, wanted in zip(got, right, strict=True):
        assert mine.shape == wanted.shape
        assert_close(mine.to(dtype), wanted)  # dout is of dtype, f32 gradients are of its values


def test_delta_rule_replaces_what_a_key_says() -> None:
    """With beta 1 and keys of norm 1 a query of a key gets its last value."""
    k = torch.eye(4)[[0, 1, 0, 2, 1]].reshape(1, 1, 5, 4)
    v = tensor((1, 1, 5, 8), 1)
    out = warpsmith.delta_rule(k, k, v, torch.ones(1, 1, 5))
    assert_close(out, v)


@pytest.mark.parametrize("name", ["linear_attention", "delta_rule"])
def test_double_differences(name: str) -> None:
    """The formula that gradients are held against is the derivative of the recurrence."""
    q, k, v = (tensor((1, 1, 6, 4), i).double().requires_grad_() for i in range(3))
    a = decays(1, 1, 6).double().requires_grad_()
    initial = tensor((1, 1, 4, 4), 5).double().requires_grad_()
    beta = [torch.rand(1, 1, 6).double().requires_grad_()] if name == "delta_rule" else []
    inputs = (q, k, v, *beta, a, initial)
    formula, backward = torch_function(name), torch_function(f"{name}_backward")

    def compute(*inputs: Any) -> Any:
        return formula(*inputs, scale=0.5, output_final_state=True)

    assert torch.autograd.gradcheck(compute, inputs)
    out, final = compute(*inputs)
    g_out, g_final = torch.randn_like(out), torch.randn_like(final)
    want = torch.autograd.grad((out, final), inputs, (g_out, g_final))
    with torch.no_grad():
        got = backward(q, k, v, *beta, g_out, a, initial, g_final, scale=0.5)
    for mine, right in zip(got, want, strict=True):
        torch.testing.assert_close(mine, right)
