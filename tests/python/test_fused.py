"""Fused steps beside torch's: halves of one tensor, dropout's mask, e4m3, AdamW of lists."""

from typing import Any

import pytest
import torch
import warpsmith
from torch.nn import functional
from warpsmith import _optimizer


@pytest.mark.parametrize("name", ["swiglu", "geglu"])
@pytest.mark.parametrize("n", [64, 33])
def test_gates_of_halves(name: str, n: int) -> None:
    """Of one tensor, and its gradient with them."""
    torch.manual_seed(1)
    both = torch.randn(5, 2 * n, requires_grad=True)
    activation = functional.silu if name == "swiglu" else functional.gelu
    ours = getattr(warpsmith, name)(*both.chunk(2, -1))
    theirs = activation(both[:, :n]) * both[:, n:]
    torch.testing.assert_close(ours, theirs)
    weights = torch.randn_like(theirs)
    (mine,) = torch.autograd.grad((ours * weights).sum(), both)
    (right,) = torch.autograd.grad((theirs * weights).sum(), both)
    torch.testing.assert_close(mine, right)


@pytest.mark.parametrize("shape", [(3, 4, 40), (7, 1), (0, 8), (9,)])
def test_bias_gelu(shape: tuple[int, ...]) -> None:
    torch.manual_seed(2)
    x = torch.randn(shape, requires_grad=True)
    bias = torch.randn(shape[-1:], requires_grad=True)
    ours = warpsmith.bias_gelu(x, bias)
    theirs = functional.gelu(x + bias)
    torch.testing.assert_close(ours, theirs)
    got = torch.autograd.grad(ours.sum(), (x, bias))
    want = torch.autograd.grad(theirs.sum(), (x, bias))
    for mine, right in zip(got, want, strict=True):
        torch.testing.assert_close(mine, right)


@pytest.mark.parametrize("shape", [(3, 0), (0, 3), (0,), (2, 0, 3), (2, 3, 0)], ids=str)
def test_gradients_of_nothing(shape: tuple[int, ...]) -> None:
    x, residual = torch.empty(shape).requires_grad_(), torch.empty(shape).requires_grad_()
    vectors = [torch.zeros(shape[-1:]).requires_grad_() for _ in range(3)]
    warpsmith.bias_gelu(x, vectors[0]).sum().backward()
    y, h = warpsmith.bias_residual_layer_norm(x, vectors[0], residual, *vectors[1:])
    (y.sum() + h.sum()).backward()
    for given in (x, residual, *vectors):
        assert given.grad is not None and given.grad.shape == given.shape
        assert not given.grad.any()


@pytest.mark.parametrize("step", [0, -1, 0.5, float("nan")])
def test_adamw_counts_steps_from_1(step: float) -> None:
    lists = [[torch.zeros(3)] for _ in range(4)]
    with pytest.raises(ValueError, match="adamw_: the first step is 1, not"):
        warpsmith.adamw_(*lists, step)
    assert all(torch.equal(one, torch.zeros(3)) for (one,) in lists)


def test_gates_compile() -> None:
    gate, up = torch.randn(2, 6, 16)
    compiled = torch.compile(lambda g, u: warpsmith.swiglu(g, u) + 1, fullgraph=True)
    torch.testing.assert_close(compiled(gate, up), functional.silu(gate) * up + 1)


def test_dropouts_masks_have_their_mean_and_are_independent() -> None:
    x = torch.ones(4000)
    first = warpsmith.dropout(x, p=0.3, seed=5)
    second = warpsmith.dropout(x, p=0.3, seed=6)
    third = warpsmith.dropout(x, p=0.3, seed=5, offset=4000)
    assert torch.equal(first, warpsmith.dropout(x, p=0.3, seed=5))
    kept = first != 0
    assert abs(kept.float().mean() - 0.7) < 0.03
    for other in (second != 0, third != 0, kept.roll(1), kept.roll(4)):
        assert abs((kept & other).float().mean() - 0.49) < 0.03  # one tells nothing of the other
    torch.testing.assert_close(first[kept], torch.full_like(first[kept], 1 / 0.7))


def test_dropout_has_one_mask_whatever_the_layout() -> None:
    x = torch.ones(30, 20)
    mask = warpsmith.dropout(x, seed=3)
    assert torch.equal(warpsmith.dropout(torch.ones(20, 30).t(), seed=3), mask)
    assert torch.equal(warpsmith.dropout(x[10:], seed=3, offset=200), mask[10:])
    assert not warpsmith.dropout(x, p=1.0, seed=3).any()
    assert torch.equal(warpsmith.dropout(x, p=0.0, seed=3), x)


def test_dropouts_gradient_has_the_mask() -> None:
    x = torch.randn(50, 7, requires_grad=True)
    y = warpsmith.dropout(x, p=0.4, seed=8)
    (gradient,) = torch.autograd.grad(y.sum(), x)
    assert torch.equal(gradient, warpsmith.dropout(torch.ones_like(x), p=0.4, seed=8))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("given", [False, True])
def test_quantized_norm_is_torchs(dtype: torch.dtype, given: bool) -> None:
    """The same bytes, but where a number lies on the edge of two."""
    torch.manual_seed(4)
    x = torch.randn(6, 64).to(dtype)
    residual = torch.randn(6, 64).to(dtype)
    weight = torch.ones(64, dtype=dtype)
    scale = torch.tensor(0.004) if given else None  # some saturate
    y, *scales, total = warpsmith.rms_norm_quantized(x, weight, residual, scale)
    h = x + residual
    assert torch.equal(total, h)
    z = h.float() * (h.float().square().mean(-1, keepdim=True) + 1e-6).rsqrt()
    s = scale if given else (z.abs().amax(-1) / 448)[:, None]
    assert len(scales) == (0 if given else 1)
    if not given:
        torch.testing.assert_close(scales[0], s[:, 0])
    want = (z / s).clamp(-448, 448).to(torch.float8_e4m3fn)
    steps = (y.view(torch.uint8).int() - want.view(torch.uint8).int()).abs()
    assert steps.max() <= 1
    assert (steps != 0).float().mean() < 0.01


def adamw_state(sizes: list[int], dtype: torch.dtype, moments: torch.dtype) -> Any:
    torch.manual_seed(6)
    params = [torch.randn(n).to(dtype) for n in sizes]
    means = [torch.zeros(n, dtype=moments) for n in sizes]
    return params, means, [torch.zeros_like(m) for m in means]


@pytest.mark.parametrize("maximize", [False, True])
def test_adamw_is_torchs(maximize: bool) -> None:
    """Over five steps, of tensors of all sizes, one of them empty."""
    sizes = [1000, 1, 0, 77, 5000]
    params, means, squares = adamw_state(sizes, torch.float32, torch.float32)
    theirs = [p.clone().requires_grad_() for p in params]
    keywords = {"lr": 0.02, "weight_decay": 0.1, "maximize": maximize}
    optimizer = torch.optim.AdamW(theirs, betas=(0.8, 0.95), **keywords)
    for step in range(1, 6):
        grads = [torch.randn(n) for n in sizes]
        for p, g in zip(theirs, grads, strict=True):
            p.grad = g.clone()
        optimizer.step()
        warpsmith.adamw_(params, grads, means, squares, step, betas=(0.8, 0.95), **keywords)
    for mine, right in zip(params, theirs, strict=True):
        torch.testing.assert_close(mine, right.detach(), rtol=2e-5, atol=2e-6)


def test_adamw_keeps_the_table_of_a_list_that_comes_back() -> None:
    """However many others come in between: a CUDA graph may be about to be made of it."""
    lists = [[torch.ones(8)] for _ in range(4)]
    warpsmith.adamw_(*lists, 1)
    (found,) = [
        x for x in _optimizer._tables.values() if x[0] == min(t.data_ptr() for (t,) in lists)
    ]
    others = [[[torch.ones(8)] for _ in range(4)] for _ in range(2 * _optimizer._TABLES)]
    for other in others:
        warpsmith.adamw_(*other, 1)
        warpsmith.adamw_(*lists, 1)
    assert any(x is found for x in _optimizer._tables.values())
    assert len(_optimizer._tables) <= _optimizer._TABLES


@pytest.mark.parametrize("size", [1, _optimizer.PIECE - 1, _optimizer.PIECE, _optimizer.PIECE + 1])
def test_adamw_cuts_tensors_into_pieces(size: int) -> None:
    """As few as hold them, where each begins and how long it is."""
    starts = [4 << 20, 5 << 20, 6 << 20, 7 << 20]
    rows = [(*starts, size), (*(start + (1 << 19) for start in starts), 7)]
    base, elements, table = _optimizer._new_table(rows, torch.float32, torch.device("cpu"))
    assert base == starts[0]
    assert elements == (3 << 18) + (1 << 17) + 7
    whole, rest = divmod(size, _optimizer.PIECE)
    lengths = [_optimizer.PIECE] * whole + ([rest] if rest else [])
    pieces = [
        [(i << 18) + number * _optimizer.PIECE for i in range(4)] + [length]
        for number, length in enumerate(lengths)
    ]
    pieces.append([(i << 18) + (1 << 17) for i in range(4)] + [7])
    assert table.tolist() == pieces


def test_adamw_with_wide_moments_gaps_and_a_scaler() -> None:
    params, means, squares = adamw_state([40, 8], torch.bfloat16, torch.float32)
    params.append(torch.randn(6, 8)[:, :3])
    means.append(torch.zeros(6, 3))
    squares.append(torch.zeros(6, 3))
    grads = [torch.randn_like(p) for p in params]
    before = [p.clone() for p in params]
    scaler = {"grad_scale": torch.tensor(2.0), "found_inf": torch.tensor(1.0)}
    warpsmith.adamw_(params, grads, means, squares, torch.tensor(1.0), **scaler)
    assert all(torch.equal(p, q) for p, q in zip(params, before, strict=True))
    scaler["found_inf"] = torch.tensor(0.0)
    warpsmith.adamw_(params, grads, means, squares, torch.tensor(1.0), lr=0.1, **scaler)
    for p, old, g, m in zip(params, before, grads, means, strict=True):
        torch.testing.assert_close(m, 0.1 * g.float() / 2)
        want = old.float() * (1 - 1e-3) - 0.1 * g.float().sign()
        torch.testing.assert_close(p.float(), want, rtol=1e-2, atol=1e-3)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda lists: lists[1].pop(), "lists of"),
        (lambda lists: lists[1].__setitem__(0, torch.ones(7)), "grads.0. is of shape"),
        (lambda lists: lists[2].__setitem__(0, 1.0), "exp_avgs.0. is of float, not a torch"),
        (lambda lists: lists[2].__setitem__(0, torch.ones(8, device="meta")), "is on meta"),
        (lambda lists: lists[2].__setitem__(0, torch.ones(8).double()), "float64"),
        (lambda lists: lists[3].__setitem__(0, lists[0][0]), "begins where another"),
        (lambda lists: lists[3].__setitem__(0, lists[0][0].new_zeros(9)[:8]), None),
    ],
)
def test_adamw_checks_its_lists(change: Any, told: str | None) -> None:
    lists = [[torch.ones(8)] for _ in range(4)]
    change(lists)
    if told is None:
        warpsmith.adamw_(*lists, 1)
        return
    with pytest.raises((TypeError, ValueError), match=told):
        warpsmith.adamw_(*lists, 1)
    whole = torch.ones(12)
    parts = [[whole[:8]], [whole[4:]], [torch.zeros(8)], [torch.zeros(8)]]
    with pytest.raises(ValueError, match="share memory"):
        warpsmith.adamw_(*parts, 1)


def test_adamw_moves_versions() -> None:
    """So that autograd finds that a tensor it kept has changed."""
    lists = [[torch.ones(8)] for _ in range(4)]
    before = lists[0][0]._version
    warpsmith.adamw_(*lists, 1)
    assert lists[0][0]._version > before


@pytest.mark.parametrize("sizes", [[], [0], [0, 0]], ids=str)
def test_adamw_of_nothing(sizes: list[int]) -> None:
    params, means, squares = adamw_state(sizes, torch.float32, torch.float32)
    warpsmith.adamw_(params, [p.clone() for p in params], means, squares, 1)
    assert all(p.numel() == 0 for p in params)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_qkv_is_taken_apart_and_put_together(dtype: torch.dtype) -> None:
    """And the gradient of one part alone."""
    torch.manual_seed(4)
    qkv = torch.randn(2, 5, 3, 4, 16, dtype=dtype, requires_grad=True)
    bias = torch.randn(3, 4, 16, dtype=dtype, requires_grad=True)
    parts = warpsmith.qkv_bias_transpose(qkv, bias)
    theirs = (qkv + bias).permute(2, 0, 3, 1, 4)
    for ours, right in zip(parts, theirs, strict=True):
        torch.testing.assert_close(ours, right)
    g = torch.randn_like(parts[1])
    got = torch.autograd.grad(parts[1], (qkv, bias), g)
    for ours, right in zip(got, torch.autograd.grad(theirs[1], (qkv, bias), g), strict=True):
        torch.testing.assert_close(ours, right)


def test_adamw_lists_of_two_dtypes_may_not_share_memory() -> None:
    whole = torch.ones(8)
    lists = [[whole[:4], whole.view(torch.float16)[4:8]]]
    lists += [[torch.zeros_like(p) for p in lists[0]] for _ in range(3)]
    with pytest.raises(ValueError, match="share memory"):
        warpsmith.adamw_(*lists, 1)
    whole = torch.ones(6, 4)  # what lies in the gaps of another shares nothing
    lists = [[whole[:, :2], whole[:, 2:]]]
    lists += [[torch.zeros(6, 2) for _ in range(2)] for _ in range(3)]
    warpsmith.adamw_(*lists, 1, lr=0.5, weight_decay=1.0)
    assert torch.equal(whole, torch.full((6, 4), 0.5))


def test_adamw_is_no_part_of_a_compiled_graph() -> None:
    """Which would copy all that lies between the tensors, and write it back."""
    params, means, squares = adamw_state([40, 8], torch.float32, torch.float32)
    grads = [torch.randn_like(p) for p in params]
    wanted = [p.clone() for p in params]
    warpsmith.adamw_(wanted, grads, *([torch.zeros_like(p) for p in params] for _ in range(2)), 1)

    def step(scale: torch.Tensor) -> torch.Tensor:
        warpsmith.adamw_(params, grads, means, squares, 1)
        return scale * 2

    torch._dynamo.reset()
    assert torch.compile(step, backend="aot_eager")(torch.tensor(3.0)) == 6
    for mine, right in zip(params, wanted, strict=True):
        assert torch.equal(mine, right)
