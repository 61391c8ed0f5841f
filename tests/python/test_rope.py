"""Rotary position embedding as its users call it, and beside transformers' own."""

import pytest
import torch
import warpsmith
from conftest import assert_close


def tensor(shape: tuple[int, ...], seed: int = 1) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def tables(positions: int, pairs: int) -> tuple[torch.Tensor, torch.Tensor]:
    angle = torch.arange(positions)[:, None] * 10000.0 ** (-torch.arange(pairs) / pairs)
    return angle.cos(), angle.sin()


def test_tables_and_angles_are_the_same() -> None:
    x = tensor((2, 9, 3, 16))
    assert_close(warpsmith.rope(x, *tables(9, 8)), warpsmith.rope(x))


@pytest.mark.parametrize("interleaved", [False, True])
def test_the_inverse_turns_back(interleaved: bool) -> None:
    q, k = tensor((2, 5, 4, 16)), tensor((2, 5, 2, 16), 2)
    turned = warpsmith.rope_qk(q, k, interleaved=interleaved)
    back = warpsmith.rope_qk(*turned, interleaved=interleaved, inverse=True)
    for got, want in zip(back, (q, k), strict=True):
        assert_close(got, want)


def test_heads_first_is_the_transposed_call() -> None:
    x = tensor((2, 5, 4, 16))
    turned = warpsmith.rope(x.transpose(1, 2), heads_first=True)
    assert torch.equal(turned.transpose(1, 2), warpsmith.rope(x))
    assert turned.stride() == x.transpose(1, 2).stride()


def test_in_place() -> None:
    x = tensor((5, 2, 16))
    want = warpsmith.rope(x)
    assert warpsmith.rope(x, out=x) is x
    assert torch.equal(x, want)


@pytest.mark.parametrize("which", [0, 1])
def test_gradient_of_one_result(which: int) -> None:
    q, k = tensor((2, 3, 2, 8)).requires_grad_(), tensor((2, 3, 1, 8), 2).requires_grad_()
    warpsmith.rope_qk(q, k)[which].sum().backward()
    there, missing = (q, k) if which == 0 else (k, q)
    assert_close(there.grad, warpsmith.rope(torch.ones_like(there), inverse=True))
    assert missing.grad is None or not missing.grad.any()


def test_tables_have_no_gradient() -> None:
    cos, sin = (table.requires_grad_() for table in tables(3, 4))
    x = tensor((3, 1, 8)).requires_grad_()
    warpsmith.rope(x, cos, sin).sum().backward()
    assert x.grad is not None
    assert cos.grad is None and sin.grad is None


def test_positions_out_of_range_are_told() -> None:
    with pytest.raises(ValueError, match="index 3 at position 1 of 'positions' is outside"):
        warpsmith.rope(tensor((2, 1, 8)), *tables(3, 4), torch.tensor([0, 3]))


def test_is_what_transformers_computes() -> None:
    llama = pytest.importorskip("transformers.models.llama.modeling_llama")
    config = llama.LlamaConfig(hidden_size=64, num_attention_heads=4)
    q, k = tensor((2, 4, 7, 16)), tensor((2, 2, 7, 16), 2)
    positions = torch.stack([torch.arange(7), torch.arange(7) + 5])
    cos, sin = llama.LlamaRotaryEmbedding(config)(q, positions)
    want = llama.apply_rotary_pos_emb(q, k, cos, sin)
    # Their tables stand twice, for each half of a head, one for each sequence.
    half = [table[:, None, :, :8] for table in (cos, sin)]
    for got, expected in zip(warpsmith.rope_qk(q, k, *half, heads_first=True), want, strict=True):
        assert_close(got, expected)
    module = warpsmith.nn.RotaryEmbedding()
    for got, expected in zip(module(q, k, positions), want, strict=True):
        assert_close(got, expected)


def test_module() -> None:
    module = warpsmith.nn.RotaryEmbedding(4, base=500.0, interleaved=True, heads_first=False)
    x = tensor((2, 3, 2, 8))
    same = {"rotary_dim": 4, "base": 500.0, "interleaved": True}
    assert torch.equal(module(x), warpsmith.rope(x, **same))
    assert repr(module) == (
        "RotaryEmbedding(rotary_dim=4, base=500.0, interleaved=True, heads_first=False)"
    )
    assert not module.state_dict()
