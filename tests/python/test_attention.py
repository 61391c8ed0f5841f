"""Attention by other packages' arguments: torch's function, FlashAttention's, and packed sequences.

What the operations themselves compute is tested where all operations are; here it is what the
functions make of layouts, masks, lengths and names.
"""

import math
from typing import Any

import pytest
import torch
import warpsmith
from conftest import assert_close
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode
from warpsmith._expressions import torch_function

F = torch.nn.functional
dtypes = pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])


def tensor(shape: tuple[int, ...], seed: int, dtype: Any = torch.float32) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator).to(dtype)


def qkv(*shapes: tuple[int, ...], dtype: Any = torch.float32, device: str = "cpu") -> list[Any]:
    return [tensor(shape, i, dtype).to(device) for i, shape in enumerate(shapes)]


def wide(x: Any) -> Any:
    return x.cpu().double() if torch.is_tensor(x) and x.is_floating_point() else x


def torchs(*arguments: Any, **keywords: Any) -> torch.Tensor:
    """torch's own, in double precision: its formula, not a kernel of its."""
    on_cpu = [x.cpu() if torch.is_tensor(x) else x for x in arguments]
    with sdpa_kernel(SDPBackend.MATH):
        return F.scaled_dot_product_attention(*map(wide, on_cpu), **keywords)


def formula(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    window: tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
    slopes: torch.Tensor | None = None,
    sinks: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """out and lse of q [B, Sq, H, D], one query after the other."""
    q, k, v = wide(q), wide(k), wide(v)
    batch, queries, heads, dim = q.shape
    keys, group = k.shape[1], heads // k.shape[2]
    out = q.new_zeros(batch, queries, heads, v.shape[3])
    lse = q.new_full((batch, heads, queries), -math.inf)
    for b in range(batch):
        for h in range(heads):
            for i in range(queries):
                over = i + keys - queries
                first = 0 if window[0] < 0 else max(0, over - window[0])
                last = keys if window[1] < 0 else min(keys, over + window[1] + 1)
                seen = torch.arange(first, max(first, last))
                scores = k[b, seen, h // group] @ q[b, i, h] / math.sqrt(dim)
                if softcap:
                    scores = softcap * torch.tanh(scores / softcap)
                if slopes is not None:
                    slope = wide(slopes)[b, h] if slopes.dim() == 2 else wide(slopes)[h]
                    scores = scores - slope * (over - seen).abs()
                sink = q.new_empty(0) if sinks is None else wide(sinks)[h : h + 1]
                lse[b, h, i] = torch.logsumexp(torch.cat([scores, sink]), 0)
                out[b, i, h] = torch.exp(scores - lse[b, h, i]) @ v[b, seen, h // group]
    return out, lse


# ---- torch's scaled_dot_product_attention -------------------------------------------------------

SHAPES = {
    "matrices": ((7, 8), (5, 8), (5, 4)),
    "heads": ((4, 7, 8), (4, 9, 8), (4, 9, 8)),
    "batch": ((2, 3, 7, 8), (2, 3, 7, 8), (2, 3, 7, 8)),
    "more keys": ((2, 3, 5, 8), (2, 3, 9, 8), (2, 3, 9, 6)),
    "more queries": ((2, 3, 9, 8), (2, 3, 4, 8), (2, 3, 4, 8)),
    "one query": ((2, 3, 1, 8), (2, 3, 9, 8), (2, 3, 9, 8)),
    "two batches": ((2, 3, 2, 7, 8), (2, 3, 2, 9, 8), (2, 3, 2, 9, 8)),
    "broadcast heads": ((2, 3, 7, 8), (2, 1, 9, 8), (2, 1, 9, 8)),
    "broadcast queries": ((1, 1, 7, 8), (2, 3, 9, 8), (2, 3, 9, 8)),
    "broadcast ranks": ((2, 2, 3, 7, 8), (2, 1, 9, 8), (3, 9, 8)),
    "no queries": ((2, 3, 0, 8), (2, 3, 9, 8), (2, 3, 9, 8)),
    "no keys": ((2, 3, 7, 8), (2, 3, 0, 8), (2, 3, 0, 8)),
    "no batch": ((0, 3, 7, 8), (0, 3, 9, 8), (0, 3, 9, 8)),
}
each_shape = pytest.mark.parametrize("shapes", SHAPES.values(), ids=SHAPES)


@each_shape
@pytest.mark.parametrize("is_causal", [False, True])
def test_torchs_shapes(shapes: Any, is_causal: bool, device: str) -> None:
    given = qkv(*shapes, device=device)
    ours = warpsmith.scaled_dot_product_attention(*given, is_causal=is_causal)
    want = torchs(*given, is_causal=is_causal)
    assert ours.shape == want.shape
    assert_close(ours, want)


@dtypes
def test_torchs_dtypes_and_scale(dtype: Any, device: str) -> None:
    given = qkv(*[(2, 3, 9, 16)] * 3, dtype=dtype, device=device)
    ours = warpsmith.scaled_dot_product_attention(*given, None, 0.0, True, 0.3)
    assert ours.dtype == dtype
    assert_close(ours, torchs(*given, None, 0.0, True, scale=0.3))


@pytest.mark.parametrize(
    "shape", [(5, 7), (5, 1), (1, 7), (7,), (3, 5, 7), (2, 1, 1, 7), (2, 3, 5, 7), (1, 3, 1, 7)]
)
@pytest.mark.parametrize("kind", ["bool", "own", "f32"])
def test_torchs_masks(shape: tuple[int, ...], kind: str, device: str) -> None:
    given = qkv((2, 3, 5, 8), (2, 3, 7, 8), (2, 3, 7, 8), dtype=torch.float16, device=device)
    mask = tensor(shape, 7, torch.float32 if kind == "f32" else torch.float16).to(device)
    if kind == "bool":
        mask = mask > -0.3
    ours = warpsmith.scaled_dot_product_attention(*given, mask)
    assert_close(ours, torchs(*given, mask))


def test_torchs_mask_of_several_batches() -> None:
    given = qkv(*[(2, 3, 2, 5, 8)] * 3)
    for shape in ((5, 5), (3, 1, 5, 5), (2, 1, 2, 5, 5), (2, 3, 1, 1, 5)):
        mask = tensor(shape, 5)
        assert_close(warpsmith.scaled_dot_product_attention(*given, mask), torchs(*given, mask))


def test_rows_that_see_nothing_are_0(device: str) -> None:
    given = qkv(*[(1, 2, 4, 8)] * 3, device=device)
    mask = torch.ones(4, 4, dtype=torch.bool, device=device).tril(-1)
    ours = warpsmith.scaled_dot_product_attention(*given, mask)
    assert ours[:, :, 0].eq(0).all()
    assert_close(ours, torchs(*given, mask))
    _, lse = warpsmith.attention(*given, mask)
    assert lse[:, :, 0].eq(-math.inf).all()


@pytest.mark.parametrize("shapes", [((2, 6, 5, 8), (2, 2, 7, 8)), ((6, 5, 8), (3, 7, 8))])
def test_torchs_groups_of_heads(shapes: Any, device: str) -> None:
    given = qkv(shapes[0], shapes[1], shapes[1], device=device)
    ours = warpsmith.scaled_dot_product_attention(*given, enable_gqa=True)
    assert_close(ours, torchs(*given, enable_gqa=True))
    with pytest.raises(RuntimeError):
        warpsmith.scaled_dot_product_attention(*given)


REFUSED = {
    "rank": (((8,), (8,), (8,)), {}),
    "head dims": (((2, 3, 4, 8), (2, 3, 4, 9), (2, 3, 4, 8)), {}),
    "batches": (((2, 3, 4, 8), (3, 3, 5, 8), (3, 3, 5, 8)), {}),
    "groups": (((2, 5, 4, 8), (2, 2, 5, 8), (2, 2, 5, 8)), {"enable_gqa": True}),
    "mask": (((2, 3, 4, 8),) * 3, {"attn_mask": torch.zeros(4, 5)}),
    "mask's dtype": (((2, 3, 4, 8),) * 3, {"attn_mask": torch.zeros(4, 4, dtype=torch.int32)}),
    "mask and causal": (((2, 3, 4, 8),) * 3, {"attn_mask": torch.zeros(4, 4), "is_causal": True}),
}


@pytest.mark.parametrize("shapes, keywords", REFUSED.values(), ids=REFUSED)
def test_torchs_errors(shapes: Any, keywords: Any) -> None:
    given = qkv(*shapes)
    with pytest.raises(RuntimeError) as theirs:
        F.scaled_dot_product_attention(*given, **keywords)
    with pytest.raises(RuntimeError) as ours:
        warpsmith.scaled_dot_product_attention(*given, **keywords)
    assert str(ours.value) == str(theirs.value)


def test_what_torchs_function_does_not_take() -> None:
    q, k, v = qkv(*[(1, 2, 4, 8)] * 3)
    with pytest.raises(ValueError, match=r"dropout_p is 0, not 0\.1"):
        warpsmith.scaled_dot_product_attention(q, k, v, dropout_p=0.1)
    with pytest.raises(TypeError, match="argument 'key'"):
        warpsmith.scaled_dot_product_attention(q, 3, v)
    with pytest.raises((RuntimeError, ValueError), match=r"take|match"):
        warpsmith.scaled_dot_product_attention(q, k, v[:, :, :3])
    with pytest.raises(RuntimeError, match="dtype"):
        warpsmith.scaled_dot_product_attention(q, k.half(), v)
    with pytest.raises(ValueError, match="f32, f16, bf16"):
        warpsmith.scaled_dot_product_attention(q.double(), k.double(), v.double())


def test_autocast() -> None:
    given = qkv(*[(1, 2, 4, 8)] * 3)
    mask = tensor((4, 4), 3)
    with torch.autocast("cpu", torch.bfloat16):
        ours = warpsmith.scaled_dot_product_attention(*given, mask)
        want = F.scaled_dot_product_attention(*given, mask)
    assert ours.dtype == want.dtype == torch.bfloat16
    assert_close(ours, want)


# ---- Layouts ------------------------------------------------------------------------------------


def test_out_lies_as_the_queries_do(device: str) -> None:
    rows_first = [x.transpose(1, 2) for x in qkv(*[(2, 5, 3, 8)] * 3, device=device)]
    packed = tensor((2, 5, 3, 3, 8), 1).to(device).permute(2, 0, 3, 1, 4)
    for given in (rows_first, packed.unbind()):
        out, lse = warpsmith.attention(*given)
        assert out.transpose(1, 2).is_contiguous()
        assert lse.is_contiguous()
        assert_close(out, torchs(*given))
        ours = warpsmith.scaled_dot_product_attention(*given, is_causal=True)
        assert ours.transpose(1, 2).is_contiguous()
        assert_close(ours, torchs(*given, is_causal=True))
    out, _ = warpsmith.attention(*[x.contiguous() for x in rows_first])
    assert out.is_contiguous()


def test_the_callers_outputs(device: str) -> None:
    given = qkv(*[(2, 3, 5, 8)] * 3, device=device)
    outs = torch.empty(2, 5, 3, 8, device=device).transpose(1, 2), torch.empty(2, 3, 5).to(device)
    assert warpsmith.attention(*given, out=outs) is outs
    assert_close(outs[0], torchs(*given))


# ---- FlashAttention's functions -----------------------------------------------------------------

CALLS = {
    "plain": {},
    "causal": {"causal": True},
    "window": {"window_size": (2, 1)},
    "left": {"causal": True, "window_size": (3, 0)},
    "right": {"window_size": (None, 2)},
    "softcap": {"softcap": 1.5},
    "alibi": {"causal": True, "alibi_slopes": torch.tensor([0.1, 0.2, 0.3, 0.4])},
    "alibi of batches": {"alibi_slopes": torch.linspace(0.1, 0.8, 8).view(2, 4)},
    "sinks": {"learnable_sink": torch.tensor([0.5, -1.0, 2.0, 0.0]).bfloat16()},
}
each_call = pytest.mark.parametrize("keywords", CALLS.values(), ids=CALLS)


def meant(keywords: dict[str, Any], b: int | None = None) -> dict[str, Any]:
    """The formula's arguments; of sequence b alone."""
    left, right = [-1 if end is None else end for end in keywords.get("window_size", (-1, -1))]
    slopes = keywords.get("alibi_slopes")
    if slopes is not None and slopes.dim() == 2 and b is not None:
        slopes = slopes[b]
    return {
        "window": (left, 0 if keywords.get("causal") else right),
        "softcap": keywords.get("softcap", 0.0),
        "slopes": slopes,
        "sinks": keywords.get("learnable_sink"),
    }


def moved(keywords: dict[str, Any], device: str) -> dict[str, Any]:
    return {name: x.to(device) if torch.is_tensor(x) else x for name, x in keywords.items()}


@each_call
@pytest.mark.parametrize("lengths", [(5, 9), (9, 5)])
def test_flash_attn_func(keywords: dict[str, Any], lengths: tuple[int, int], device: str) -> None:
    queries, keys = lengths
    given = qkv((2, queries, 4, 8), (2, keys, 2, 8), (2, keys, 2, 12), device=device)
    called = moved(keywords, device)
    out, lse = warpsmith.flash_attn_func(*given, **called, return_lse=True)
    want, want_lse = formula(*given, **meant(keywords))
    assert out.is_contiguous()
    assert_close(out, want)
    assert_close(lse, want_lse)
    alone = warpsmith.flash_attn_func(*given, **called)
    assert torch.equal(alone, out)


@pytest.mark.parametrize("keywords", [{}, {"causal": True}, {"window_size": (2, 1)}])
@pytest.mark.parametrize("has_scales", [False, True])
def test_flash_attn_func_of_8_bits(keywords: dict[str, Any], has_scales: bool, device: str) -> None:
    shapes = (2, 20, 4, 32), (2, 33, 2, 32), (2, 33, 2, 16)
    given = qkv(*shapes, dtype=torch.float8_e4m3fn, device=device)
    scales = [0.5 + tensor((2, 2), seed).abs().to(device) for seed in (3, 4, 5)]
    named = dict(zip(("q_descale", "k_descale", "v_descale"), scales, strict=True))
    out, lse = warpsmith.flash_attn_func(
        *given, **keywords, **(named if has_scales else {}), return_lse=True
    )
    exact = [x.float() for x in given]
    if has_scales:
        exact = [
            x * scale.repeat_interleave(x.shape[2] // 2, 1)[:, None, :, None]
            for x, scale in zip(exact, scales, strict=True)
        ]
    want, want_lse = formula(*exact, window=meant(keywords)["window"])
    assert out.dtype == torch.bfloat16
    error = (wide(out) - want.cpu()).norm() / want.cpu().norm()
    assert error < 0.05  # weights have 8 bits on tensor cores
    torch.testing.assert_close(lse.cpu().double(), want_lse.cpu(), rtol=1e-3, atol=1e-3)


def test_flash_attn_func_of_8_bits_refuses() -> None:
    given = qkv(*[(1, 4, 2, 16)] * 3, dtype=torch.float8_e4m3fn)
    with pytest.raises(ValueError, match="takes no softcap"):
        warpsmith.flash_attn_func(*given, softcap=1.0)
    with pytest.raises(ValueError, match="takes no learnable_sink"):
        warpsmith.flash_attn_func(*given, learnable_sink=torch.zeros(2))
    with pytest.raises(ValueError, match=r"scale_k of f32 \[2\]"):
        warpsmith.flash_attn_func(*given, k_descale=torch.ones(1, 3))
    with pytest.raises(ValueError, match="descales are of float8_e4m3fn"):
        half = [x.half() for x in given]
        warpsmith.flash_attn_func(*half, k_descale=torch.ones(1, 2))


def test_flash_attn_func_by_position() -> None:
    q, k, v = qkv(*[(1, 4, 2, 8)] * 3)
    out, _, probabilities = warpsmith.flash_attn_func(
        q, k, v, 0.0, 0.2, True, (2, 0), 0.0, None, True, True
    )
    assert probabilities is None
    same, _ = warpsmith.attention(
        *[x.transpose(1, 2) for x in (q, k, v)], causal=True, window=(2, None), scale=0.2
    )
    assert torch.equal(out, same.transpose(1, 2))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("causal", [False, True])
def test_error_by_flash_attentions_rule(dtype: Any, causal: bool, device: str) -> None:
    given = qkv((2, 33, 4, 64), (2, 40, 2, 64), (2, 40, 2, 64), dtype=dtype, device=device)
    exact, _ = formula(*given, window=(-1, 0 if causal else -1))
    seen = torch.ones(33, 40, dtype=torch.bool, device=device)
    seen = seen.tril(40 - 33) if causal else seen
    with sdpa_kernel(SDPBackend.MATH):
        heads = [x.transpose(1, 2) for x in given]
        theirs = F.scaled_dot_product_attention(*heads, seen, enable_gqa=True).transpose(1, 2)
    ours = warpsmith.flash_attn_func(*given, causal=causal)
    error = (wide(ours) - exact).abs().max()
    assert error <= 2 * (wide(theirs) - exact).abs().max() + 1e-5


# ---- Packed sequences ---------------------------------------------------------------------------

LENGTHS_Q, LENGTHS_K = (3, 0, 5, 1), (4, 2, 3, 0)


def starts_of(lengths: tuple[int, ...], device: str = "cpu") -> torch.Tensor:
    starts = [sum(lengths[:i]) for i in range(len(lengths) + 1)]
    return torch.tensor(starts, dtype=torch.int32, device=device)


def expected(
    q: torch.Tensor, keys: list[Any], values: list[Any], keywords: dict[str, Any]
) -> tuple[torch.Tensor, torch.Tensor]:
    """Of packed queries, with the keys and values of each sequence: [its length, Hk, D]."""
    outs, lses = [], []
    for b, rows in enumerate(q.split(LENGTHS_Q)):
        out, lse = formula(rows[None], keys[b][None], values[b][None], **meant(keywords, b))
        outs.append(out[0])
        lses.append(lse[0])
    return torch.cat(outs), torch.cat(lses, 1)


@each_call
def test_flash_attn_varlen_func(keywords: dict[str, Any], device: str) -> None:
    if "alibi_slopes" in keywords and keywords["alibi_slopes"].dim() == 2:
        keywords = keywords | {"alibi_slopes": torch.linspace(0.1, 0.9, 16).view(4, 4)}
    q, k, v = qkv((9, 4, 8), (9, 2, 8), (9, 2, 12), device=device)
    called = [starts_of(LENGTHS_Q, device), starts_of(LENGTHS_K, device), 5, 4]
    out, lse = warpsmith.flash_attn_varlen_func(
        q, k, v, *called, **moved(keywords, device), return_lse=True
    )
    want, want_lse = expected(q, [*k.split(LENGTHS_K)], [*v.split(LENGTHS_K)], keywords)
    assert_close(out, want)
    assert_close(lse, want_lse)


def test_fewer_keys_than_there_are(device: str) -> None:
    q, k, v = qkv((9, 4, 8), (9, 2, 8), (9, 2, 8), device=device)
    used = torch.tensor([2, 0, 3, 0], dtype=torch.int32, device=device)
    out = warpsmith.flash_attn_varlen_func(
        q, k, v, starts_of(LENGTHS_Q, device), starts_of(LENGTHS_K, device), 5, 4, seqused_k=used
    )
    keys, values = [
        [x[:n] for x, n in zip(y.split(LENGTHS_K), used.tolist(), strict=True)] for y in (k, v)
    ]
    assert_close(out, expected(q, keys, values, {})[0])


@pytest.mark.parametrize("said", ["seqused_k", "cu_seqlens_k"])
def test_pages(said: str, device: str) -> None:
    lengths = (6, 0, 9, 4)
    q, k, v = qkv((9, 4, 8), (7, 4, 2, 8), (7, 4, 2, 8), device=device)
    table = torch.tensor([[3, 1, 0], [0, 0, 0], [5, 6, 2], [4, 0, 0]], dtype=torch.int32)
    given: dict[str, Any] = {"seqused_k": torch.tensor(lengths, dtype=torch.int32, device=device)}
    if said == "cu_seqlens_k":
        given = {"cu_seqlens_k": starts_of(lengths, device)}
    out = warpsmith.flash_attn_varlen_func(
        q, k, v, starts_of(LENGTHS_Q, device), max_seqlen_q=5, causal=True, **given,
        block_table=table.to(device),
    )  # fmt: skip
    keys, values = [
        [x.cpu()[table[b].long()].flatten(0, 1)[: lengths[b]] for b in range(4)] for x in (k, v)
    ]
    assert_close(out, expected(q, keys, values, {"causal": True})[0])


def turned(x: torch.Tensor, cos: Any, sin: Any, first: list[list[int]], interleaved: bool) -> Any:
    """Rows x [B, S, H, D] at positions first[b][i], by the formula."""
    x = wide(x).clone()
    pairs = cos.shape[1]
    for b, positions in enumerate(first):
        for i, position in enumerate(positions):
            at = [slice(0, 2 * pairs, 2), slice(1, 2 * pairs, 2)]
            if not interleaved:
                at = [slice(0, pairs), slice(pairs, 2 * pairs)]
            c, s = wide(cos[position]), wide(sin[position])
            one, two = x[b, i, :, at[0]].clone(), x[b, i, :, at[1]].clone()
            x[b, i, :, at[0]], x[b, i, :, at[1]] = one * c - two * s, two * c + one * s
    return x


@pytest.mark.parametrize("cache", ["contiguous", "batch_idx", "paged"])
@pytest.mark.parametrize("rotary", [None, True, False])
@pytest.mark.parametrize("causal", [True, False])
def test_flash_attn_with_kvcache(cache: str, rotary: Any, causal: bool, device: str) -> None:
    lengths, new = [5, 0], 2
    q, k, v = qkv((2, 2, 4, 16), (2, new, 2, 16), (2, new, 2, 8), device=device)
    shape = {"contiguous": (2, 8), "batch_idx": (3, 8), "paged": (9, 2)}[cache]
    k_cache, v_cache = tensor((*shape, 2, 16), 5).to(device), tensor((*shape, 2, 8), 6).to(device)
    given: dict[str, Any] = {}
    if cache == "batch_idx":
        given["cache_batch_idx"] = torch.tensor([2, 0], dtype=torch.int32, device=device)
    if cache == "paged":
        table = torch.tensor([[3, 8, 0, 5], [1, 7, 2, 4]], dtype=torch.int32)
        given["block_table"] = table.to(device)

    def rows_of(x: torch.Tensor, b: int) -> torch.Tensor:
        if cache == "paged":
            return x.cpu()[table[b].long()].flatten(0, 1)
        return x.cpu()[[2, 0][b] if cache == "batch_idx" else b]

    keys, values = [[rows_of(x, b).clone() for b in range(2)] for x in (k_cache, v_cache)]
    want_k, want_q = k, q
    if rotary is not None:
        cos, sin = tensor((8, 6), 7), tensor((8, 6), 8)
        given |= {"rotary_cos": cos.to(device), "rotary_sin": sin.to(device)}
        given["rotary_interleaved"] = rotary
        places = [[n, n + 1] for n in lengths]
        want_k = turned(k, cos, sin, places, rotary)
        want_q = turned(q, cos, sin, places if causal else [[n, n] for n in lengths], rotary)
    out, lse = warpsmith.flash_attn_with_kvcache(
        q, k_cache, v_cache, k, v, causal=causal, return_softmax_lse=True,
        cache_seqlens=torch.tensor(lengths, dtype=torch.int32, device=device), **given,
    )  # fmt: skip
    for b, n in enumerate(lengths):
        keys[b][n : n + new], values[b][n : n + new] = want_k[b].cpu(), v[b].cpu()
        assert_close(rows_of(k_cache, b), keys[b])
        assert_close(rows_of(v_cache, b), values[b])
        want, want_lse = formula(
            want_q[b : b + 1],
            keys[b][None, : n + new],
            values[b][None, : n + new],
            (-1, 0 if causal else -1),
        )
        assert_close(out[b : b + 1], want)
        assert_close(lse[b : b + 1], want_lse)


def test_a_cache_is_attended_to_as_it_is(device: str) -> None:
    q, k, v = qkv((2, 1, 4, 8), (2, 6, 2, 8), (2, 6, 2, 8), device=device)
    out = warpsmith.flash_attn_with_kvcache(q, k, v)
    assert_close(out, formula(q, k, v)[0])
    out = warpsmith.flash_attn_with_kvcache(q, k, v, cache_seqlens=4)
    assert_close(out, formula(q, k[:, :4], v[:, :4])[0])
    with pytest.raises(ValueError, match="k and v, or neither"):
        warpsmith.flash_attn_with_kvcache(q, k, v, k)
    with pytest.raises(ValueError, match="takes cache_seqlens"):
        warpsmith.flash_attn_with_kvcache(q, k, v, k, v)
    with pytest.raises(ValueError, match="a cache of batch 1, not 2"):
        warpsmith.flash_attn_with_kvcache(q[:1], k, v)
    numbers = torch.tensor([[0], [1]], dtype=torch.int32, device=device)
    for told, given in (
        ("takes no cache_leftpad", {"cache_leftpad": numbers[:, 0]}),
        ("rotary_cos and rotary_sin, or neither", {"rotary_cos": k}),
        ("turns queries with new keys", {"rotary_cos": k, "rotary_sin": k}),
        ("not both", {"block_table": numbers, "cache_batch_idx": numbers[:, 0]}),
    ):
        with pytest.raises(ValueError, match=told):
            warpsmith.flash_attn_with_kvcache(q, k, v, **given)


def test_all_pages_of_a_cache_count_where_no_length_is_given(device: str) -> None:
    q, k, v = qkv((1, 1, 4, 8), (3, 4, 2, 8), (3, 4, 2, 8), device=device)
    table = torch.tensor([[2, 0]], dtype=torch.int32, device=device)
    out = warpsmith.flash_attn_with_kvcache(q, k, v, block_table=table)
    whole = [x[[2, 0]].reshape(1, 8, 2, 8) for x in (k, v)]
    assert_close(out, formula(q, *whole)[0])


@pytest.mark.parametrize("paged", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_a_cache_of_8_bits(paged: bool, dtype: torch.dtype, device: str) -> None:
    q, k, v = qkv((2, 1, 4, 32), (2, 6, 2, 32), (2, 6, 2, 16), device=device)
    q, k, v = q.to(dtype), k.to(torch.float8_e4m3fn), v.to(torch.float8_e4m3fn)
    of_k = torch.tensor([[0.5, 2.0], [1.5, 0.25]], device=device)
    given: dict[str, Any] = {"k_descale": of_k, "v_descale": 3.0, "cache_seqlens": 5}
    caches = (k, v)
    if paged:
        given["block_table"] = torch.tensor([[0, 1], [2, 3]], dtype=torch.int32, device=device)
        caches = tuple(x.reshape(4, 3, *x.shape[2:]) for x in caches)
    out, lse = warpsmith.flash_attn_with_kvcache(q, *caches, **given, return_softmax_lse=True)
    keys, values = k.float()[:, :5] * of_k[:, None, :, None], v.float()[:, :5] * 3
    want, want_lse = formula(q.float(), keys, values)
    assert out.dtype == dtype
    tolerance = 1e-5 if dtype == torch.float32 else 2e-2
    torch.testing.assert_close(wide(out), want, rtol=tolerance, atol=tolerance)
    torch.testing.assert_close(wide(lse), want_lse, rtol=1e-3, atol=1e-3)


def test_a_cache_whose_values_lie_in_keys(device: str) -> None:
    cache = tensor((2, 40, 1, 288), 4, torch.bfloat16).to(device)
    q = tensor((2, 1, 16, 288), 5, torch.bfloat16).to(device)
    lengths = torch.tensor([40, 7], dtype=torch.int32, device=device)
    out = warpsmith.flash_attn_with_kvcache(q, cache, cache[..., :256], cache_seqlens=lengths)
    for b, n in enumerate([40, 7]):
        keys = cache[b : b + 1, :n]
        want = formula(q[b : b + 1], keys, keys[..., :256])[0]
        torch.testing.assert_close(wide(out[b : b + 1]), want, rtol=2e-2, atol=2e-2)


def test_caches_of_8_bits_that_are_refused() -> None:
    q, k, v = qkv((2, 1, 4, 8), (2, 6, 2, 8), (2, 6, 2, 8))
    narrow = [x.to(torch.float8_e4m3fn) for x in (k, v)]
    lengths = torch.zeros(2, dtype=torch.int32)
    with pytest.raises(ValueError, match="of one dtype of f32, f16, bf16, or caches of e4m3"):
        warpsmith.append_kv(k, v, k.half(), v.half(), lengths)
    with pytest.raises(ValueError, match="of one dtype of f32, f16, bf16, or caches of e4m3"):
        warpsmith.append_kv(*narrow, *narrow, lengths)
    with pytest.raises(ValueError, match="takes scale_v where caches are of e4m3"):
        warpsmith.append_kv(k, v, k, v, lengths, scale_v=torch.ones(2))
    with pytest.raises(ValueError, match=r"takes scale_k of f32 \[2\] or \[2, 2\]"):
        warpsmith.append_kv(*narrow, k, v, lengths, scale_k=torch.ones(1))
    seven = [x[:, :1].expand(2, 7, 2, 8) for x in (k, v)]
    with pytest.raises(ValueError, match="as many new rows as a sequence has room for, 6"):
        warpsmith.append_kv(*narrow, *seven, lengths)
    with pytest.raises(ValueError, match="takes scale_k where k and v are of e4m3"):
        warpsmith.flash_attn_with_kvcache(q, k, v, k_descale=1.0)
    with pytest.raises(ValueError, match="or k and v of e4m3"):
        warpsmith.flash_attn_with_kvcache(q, narrow[0], v)
    q.requires_grad_()
    out = warpsmith.flash_attn_with_kvcache(q, *narrow)
    with pytest.raises(NotImplementedError, match="no gradient over keys of 8 bits"):
        out.sum().backward()


def e4m3_of(x: torch.Tensor, scale: torch.Tensor | float) -> torch.Tensor:
    return (x.float() / scale).clamp(-448, 448).to(torch.float8_e4m3fn)


@pytest.mark.parametrize("paged", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_a_cache_of_8_bits_is_written_and_read(
    paged: bool, dtype: torch.dtype, device: str
) -> None:
    """Steps of decoding by the caller's scales, against attention over what the cache has."""
    k_cache, v_cache = [torch.zeros(2, 6, 2, d).to(torch.float8_e4m3fn) for d in (32, 16)]
    of_k = torch.tensor([[0.01, 0.5], [0.02, 0.001]])  # beyond the largest at the end
    of_v = torch.tensor([0.01, 0.3])
    cos, sin = tensor((6, 16), 7), tensor((6, 16), 8)
    lengths = torch.tensor([2, 0], dtype=torch.int32)
    pages = (4, 3) if paged else (2, 6)
    given: dict[str, Any] = {"k_descale": of_k, "v_descale": of_v, "rotary_interleaved": False}
    given |= {"rotary_cos": cos, "rotary_sin": sin}
    if paged:
        given["block_table"] = torch.tensor([[3, 0], [1, 2]], dtype=torch.int32)
    given = {n: x.to(device) if torch.is_tensor(x) else x for n, x in given.items()}
    caches = [x.reshape(*pages, *x.shape[2:]).to(device) for x in (k_cache, v_cache)]
    for step, new in enumerate((3, 1)):
        q, k, v = qkv((2, 1, 4, 32), (2, new, 2, 32), (2, new, 2, 16), dtype=dtype)
        out = warpsmith.flash_attn_with_kvcache(
            q.to(device), *caches, k.to(device), v.to(device),
            cache_seqlens=lengths.to(device), **given,
        )  # fmt: skip
        places = [[int(n) + i for i in range(new)] for n in lengths]
        want_k = turned(k, cos, sin, places, False)
        rows = [x.cpu().reshape(-1, *x.shape[2:]) for x in caches]
        for b, n in enumerate(lengths.tolist()):
            table = given["block_table"][b].tolist() if paged else [b]
            at = torch.tensor([p * pages[1] + i for p in table for i in range(pages[1])])
            keys, values = [x[at[: n + new]] for x in rows]
            assert torch.equal(values[n:].float(), e4m3_of(v[b], of_v[:, None]).float())
            found, scale = keys[n:].double(), of_k[b].double()[:, None]
            want = (want_k[b] / scale).clamp(-448, 448)
            assert ((found - want).abs() <= want.abs() / 16 * 1.001 + 2**-10).all(), step
            wide_k = keys.float() * of_k[b][:, None]
            wide_v = values.float() * of_v[:, None]
            want_q = turned(q[b : b + 1], cos, sin, [[n]], False).to(dtype)
            want_out = formula(want_q, wide_k[None], wide_v[None])[0]
            tolerance = 1e-5 if dtype == torch.float32 else 2e-2
            torch.testing.assert_close(
                wide(out[b : b + 1]), want_out, rtol=tolerance, atol=tolerance
            )
        lengths = lengths + new


def test_a_cache_of_8_bits_for_queries_of_8_bits(device: str) -> None:
    k_cache, v_cache = [torch.zeros(2, 5, 2, 16).to(torch.float8_e4m3fn).to(device)] * 2
    v_cache = v_cache.clone()
    q, k, v = qkv((2, 4, 5, 16), (2, 5, 2, 16), (2, 5, 2, 16), device=device)
    scales = [torch.tensor(x, device=device) for x in ([0.1, 0.2], [0.3, 0.1])]
    q = q.to(torch.float8_e4m3fn)
    lengths = torch.zeros(2, dtype=torch.int32, device=device)
    of_k, of_v = scales
    warpsmith.append_kv(k_cache, v_cache, k, v, lengths, scale_k=of_k, scale_v=of_v)
    heads = [x.transpose(1, 2) for x in (k_cache, v_cache)]
    out, _ = warpsmith.scaled_attention(q, *heads, None, of_k, of_v, causal=True)
    keys, values = k_cache.float() * of_k[:, None], v_cache.float() * of_v[:, None]
    want = formula(q.float().transpose(1, 2), keys, values, (-1, 0))[0].transpose(1, 2)
    assert (wide(out) - want).norm() <= 0.04 * want.norm()


@pytest.mark.parametrize("rung", ["append_naive", "append_vector"])
def test_what_a_cache_of_8_bits_has_of_each_number(rung: str, device: str) -> None:
    """Every f16, NaN and infinities among them, and as many f32 at the ends of their range, by
    scales at those ends too: torch's bits."""
    scales = torch.tensor([1.0, 1 / 3, 2.0**-149, 3.3e38])
    every = torch.arange(-(2**15), 2**15).to(torch.int16).view(torch.float16)
    lengths = torch.zeros(1, dtype=torch.int32, device=device)
    for x in (every, every.float() * 3e33, every.float() * 1e-35):
        v = x.reshape(1, 64, 1, 1024).expand(1, 64, 4, 1024)
        of_v = torch.zeros(v.shape).to(torch.float8_e4m3fn).to(device)
        given = [x.to(device) for x in (of_v[..., :16].clone(), of_v, v[..., :16], v)]
        warpsmith.append_kv(*given, lengths, scale_v=scales.to(device), rung=rung)
        bits = [y.view(torch.uint8).where(~y.float().isnan(), 127)
                for y in (of_v.cpu(), e4m3_of(v, scales[:, None]))]  # fmt: skip
        assert torch.equal(*bits)


def test_a_wrong_scale_of_a_cache_is_told_and_not_written(device: str) -> None:
    k, v = [torch.zeros(2, 6, 2, 16).to(torch.float8_e4m3fn).to(device) for _ in range(2)]
    new = tensor((2, 1, 2, 16), 9, torch.float16).to(device)
    lengths = torch.tensor([5, 2], dtype=torch.int32, device=device)
    right = torch.full((2, 2), 0.5, device=device)
    for name in ("scale_k", "scale_v"):
        for wrong in (0.0, -1.0, math.inf, math.nan):
            caches = [k.clone(), v.clone()]
            numbers = right.clone()
            numbers[1, 0] = wrong
            with pytest.raises(ValueError, match=f"at position 2 of '{name}' is not above 0"):
                warpsmith.append_kv(*caches, new, new, lengths, **{name: numbers})
                warpsmith.check()
            for cache in caches:
                assert not cache[1, :, 0].cpu().float().any()
                assert cache[1, 2, 1].cpu().float().any()
                assert cache[0, 5].cpu().float().any()


def test_a_cache_without_room_is_told_and_not_written() -> None:
    k, v = qkv((2, 6, 2, 8), (2, 6, 2, 8))
    before = k.clone()
    lengths = torch.tensor([6, 2], dtype=torch.int32)
    new = tensor((2, 1, 2, 8), 9)
    with pytest.raises(ValueError, match="index 6 at position 0 of 'seqlens' is outside"):
        warpsmith.append_kv(k, v, new, new, lengths)
    assert torch.equal(k[0], before[0])
    assert torch.equal(k[1, 2], new[1, 0])
    k = before.clone()
    table = torch.tensor([[0], [2]], dtype=torch.int32)
    with pytest.raises(ValueError, match="index 2 at position 1 of 'block_table' is outside"):
        warpsmith.append_kv(k, v, new, new, lengths - 2, table)
    assert torch.equal(k[0, 4], new[0, 0])
    assert torch.equal(k[1], before[1])
    angles = tensor((4, 4), 7)
    with pytest.raises(ValueError, match="index 5 at position 5 of 'cos' is outside"):
        warpsmith.append_kv(k, v, new, new, lengths - 1, None, angles, angles)


def test_one_function_of_dense_and_packed() -> None:
    q, k, v = qkv((9, 4, 8), (9, 2, 8), (9, 2, 8))
    starts = [starts_of(LENGTHS_Q), starts_of(LENGTHS_K)]
    given = {"cu_seqlens_q": starts[0], "cu_seqlens_k": starts[1]}
    out, lse = warpsmith.attention(q, k, v, **given, max_seqlen=5, window=(2, 0))
    same = warpsmith.attention_varlen(q, k, v, *starts, window_left=2, window_right=0)
    assert torch.equal(out, same[0])
    assert torch.equal(lse, same[1])
    with pytest.raises(ValueError, match="packed sequences have no bias"):
        warpsmith.attention(q, k, v, q, **given)
    with pytest.raises(ValueError, match="cu_seqlens_k is for packed sequences"):
        warpsmith.attention(q, k, v, cu_seqlens_k=starts[1])
    with pytest.raises(ValueError, match="not both"):
        warpsmith.attention(q, k, v, **given, window=(1, 1), window_left=2)
    with pytest.raises(ValueError, match=r"window is \(left, right\)"):
        warpsmith.attention(q, k, v, **given, window=3)


@pytest.mark.parametrize("starts", [[0, 5, 3, 9], [0, 4, 20, 9], [-1, 4, 5, 9], [0, 3, 5, 10]])
def test_wrong_starts(starts: list[int], device: str) -> None:
    q, k, v = qkv(*[(9, 2, 8)] * 3, device=device)
    wrong = torch.tensor(starts, dtype=torch.int32, device=device)
    with pytest.raises(ValueError, match="of 'cu_seqlens_q' is outside"):
        warpsmith.flash_attn_varlen_func(q, k, v, wrong, starts_of((3, 3, 3), device))
        warpsmith.check()


def test_a_wrong_page(device: str) -> None:
    q, k, v = qkv((4, 2, 8), (3, 4, 2, 8), (3, 4, 2, 8), device=device)
    with pytest.raises(ValueError, match="of 'block_table' is outside"):
        warpsmith.flash_attn_varlen_func(
            q, k, v, starts_of((4,), device),
            seqused_k=torch.tensor([7], dtype=torch.int32, device=device),
            block_table=torch.tensor([[1, 3]], dtype=torch.int32, device=device),
        )  # fmt: skip
        warpsmith.check()


def test_what_flash_attentions_functions_do_not_take() -> None:
    q, k, v = qkv(*[(1, 4, 2, 8)] * 3)
    with pytest.raises(ValueError, match=r"dropout_p is 0, not 0\.5"):
        warpsmith.flash_attn_func(q, k, v, 0.5)
    with pytest.raises(ValueError, match="takes q of 4 dimensions"):
        warpsmith.flash_attn_func(q[0], k[0], v[0])
    starts = starts_of((4,))
    with pytest.raises(ValueError, match="flash_attn_varlen_func takes q of 3 dimensions"):
        warpsmith.flash_attn_varlen_func(q, k, v, starts, starts)
    with pytest.raises(ValueError, match=r"flash_attn_varlen_func: dropout_p is 0, not 0\.5"):
        warpsmith.flash_attn_varlen_func(q[0], k[0], v[0], starts, starts, dropout_p=0.5)
    with pytest.raises(ValueError, match="flash_attn_with_kvcache takes q of 4 dimensions"):
        warpsmith.flash_attn_with_kvcache(q[0], k, v)
    with pytest.raises(TypeError, match="argument 'v'"):
        warpsmith.flash_attn_func(q, k, None)
    with pytest.raises(ValueError, match="multiple of those of k, not 2 of 3"):
        warpsmith.flash_attn_func(q, *qkv((1, 4, 3, 8), (1, 4, 3, 8)))


# ---- What torch does with functions -------------------------------------------------------------


def traced(name: str) -> Any:
    functions = {
        "sdpa": lambda *x: warpsmith.scaled_dot_product_attention(*x, is_causal=True),
        "flash": lambda *x: warpsmith.flash_attn_func(*x, causal=True),
        "attention": lambda *x: warpsmith.attention(*[y.transpose(1, 2) for y in x])[0],
    }
    return functions[name]


@pytest.mark.parametrize("name", ["sdpa", "flash", "attention"])
@pytest.mark.parametrize("dynamic", [False, True])
def test_compiles(name: str, dynamic: bool, device: str) -> None:
    function = traced(name)
    compiled = torch.compile(function, fullgraph=True, backend="aot_eager", dynamic=dynamic)
    for rows in (5, 6):
        given = qkv(*[(2, rows, 4, 8)] * 3, device=device)
        ours, want = compiled(*given), function(*given)
        assert ours.stride() == want.stride()
        assert torch.equal(ours, want)


@pytest.mark.parametrize("name", ["sdpa", "flash", "attention"])
def test_gradient_compiles(name: str, device: str) -> None:
    function = traced(name)
    compiled = torch.compile(function, fullgraph=True, backend="aot_eager")
    given = [x.requires_grad_() for x in qkv(*[(2, 5, 4, 8)] * 3, device=device)]
    mine = torch.autograd.grad(compiled(*given).square().sum(), given)
    want = torch.autograd.grad(function(*given).square().sum(), given)
    for one, other in zip(mine, want, strict=True):
        assert torch.equal(one, other)


def test_compiles_of_packed_sequences(device: str) -> None:
    def function(*given: torch.Tensor) -> torch.Tensor:
        return warpsmith.flash_attn_varlen_func(*given, 5, 4)

    given = [*qkv(*[(9, 2, 8)] * 3, device=device)]
    given += [starts_of(LENGTHS_Q, device), starts_of(LENGTHS_K, device)]
    compiled = torch.compile(function, fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(*given), function(*given))


def test_opcheck_of_rows_before_heads(device: str) -> None:
    given = [x.transpose(1, 2) for x in qkv(*[(2, 5, 4, 8)] * 3, device=device)]
    torch.library.opcheck(torch.ops.warpsmith.attention.default, (*given,), {"causal": True})


# ---- Gradients ----------------------------------------------------------------------------------

EXTRAS: dict[str, dict[str, Any]] = {
    "plain": {},
    "causal": {"causal": True},
    "window": {"window_left": 3, "window_right": 1},
    "scaled": {"scale": 0.3, "softcap": 2.0},
    "bias": {"bias": (2, 1, 6, 9)},
    "bias of all": {"bias": (9,), "causal": True},
    "slopes": {"alibi_slopes": (4,), "causal": True},
    "slopes of each batch": {"alibi_slopes": (2, 4)},
    "sinks": {"sinks": (4,), "causal": True},
}


@pytest.mark.parametrize("extra", EXTRAS)
@pytest.mark.parametrize("of_lse", [False, True])
def test_gradient(extra: str, of_lse: bool, device: str) -> None:
    given = dict(zip("qkv", qkv((2, 4, 6, 8), (2, 2, 9, 8), (2, 2, 9, 12)), strict=True))
    attributes = dict(EXTRAS[extra])
    for at, name in enumerate(("bias", "alibi_slopes", "sinks")):
        if name in attributes:
            given[name] = tensor(attributes.pop(name), 7 + at).abs() / 2

    def gradients(function: Any, inputs: dict[str, torch.Tensor]) -> tuple[torch.Tensor, ...]:
        inputs = {name: x.requires_grad_() for name, x in inputs.items()}
        out, lse = function(**inputs, **attributes)
        loss = (out * tensor(out.shape, 3).to(out)).sum()
        if of_lse:
            loss = loss + (lse * tensor(lse.shape, 4).to(lse)).sum()
        return torch.autograd.grad(loss, list(inputs.values()))

    every = {"bias": None, "alibi_slopes": None, "sinks": None}
    want = gradients(
        lambda **x: torch_function("attention")(**every | x),
        {name: wide(x) for name, x in given.items()},
    )
    ours = gradients(warpsmith.attention, {name: x.to(device) for name, x in given.items()})
    for name, mine, right in zip(given, ours, want, strict=True):
        torch.testing.assert_close(mine.cpu().double(), right, rtol=2e-5, atol=2e-5, msg=name)


@pytest.mark.parametrize("extra", EXTRAS)
def test_gradcheck_of_the_formula(extra: str) -> None:
    """Numbers beside what the catalogue says in torch, which kernels are held against."""
    given = dict(zip("qkv", qkv((1, 4, 3, 3), (1, 2, 4, 3), (1, 2, 4, 2)), strict=True))
    attributes = dict(EXTRAS[extra])
    shapes = {"bias": (1, 1, 3, 4), "alibi_slopes": (4,), "sinks": (4,)}
    for at, name in enumerate(shapes.keys() & attributes.keys()):
        attributes.pop(name)
        given[name] = tensor(shapes[name], 7 + at).abs() / 2
    every = {"bias": None, "alibi_slopes": None, "sinks": None}
    doubles = [x.double().requires_grad_() for x in given.values()]

    def found(*inputs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        named = dict(zip(given, inputs, strict=True))
        return torch_function("attention")(**every | named, **attributes)

    assert torch.autograd.gradcheck(found, doubles)


def test_gradient_of_a_query_that_sees_nothing(device: str) -> None:
    q, k, v = [x.requires_grad_() for x in qkv((1, 1, 5, 8), *[(1, 1, 2, 8)] * 2, device=device)]
    out, _ = warpsmith.attention(q, k, v, causal=True)
    out.sum().backward()
    assert torch.equal(q.grad[:, :, :3], torch.zeros_like(q.grad[:, :, :3]))
    for x in (q, k, v):
        assert x.grad.isfinite().all()


@dtypes
@pytest.mark.parametrize("name", ["sdpa", "flash", "attention"])
def test_gradient_by_each_function(name: str, dtype: Any, device: str) -> None:
    def loss(function: Any, inputs: list[torch.Tensor]) -> list[torch.Tensor]:
        inputs = [x.detach().requires_grad_() for x in inputs]
        out = function(*inputs)
        return list(torch.autograd.grad(out, inputs, tensor(out.shape, 3).to(out)))

    given = qkv(*[(2, 6, 4, 8)] * 3, dtype=dtype, device=device)
    right = {
        "sdpa": lambda *x: torchs(*x, is_causal=True),
        "flash": lambda *x: torchs(*[y.transpose(1, 2) for y in x],
                                   is_causal=True).transpose(1, 2),
        "attention": lambda *x: torchs(*[y.transpose(1, 2) for y in x]),
    }  # fmt: skip
    want = loss(right[name], [wide(x) for x in given])
    for mine, true in zip(loss(traced(name), given), want, strict=True):
        assert mine.dtype == dtype
        assert_close(mine.cpu(), true.to(dtype))


def test_gradients_lie_as_their_tensors_do(device: str) -> None:
    q, k, v = [x.transpose(1, 2) for x in qkv(*[(2, 5, 4, 8)] * 3, device=device)]
    out, lse = warpsmith.attention(q, k, v)
    gradients = warpsmith.attention_backward(q, k, v, torch.ones_like(out), out, lse)
    assert [x.stride() for x in gradients] == [x.stride() for x in (q, k, v)]


@pytest.mark.parametrize(
    "rung",
    ["any", "mma", "mma_atomic", "wgmma", "wgmma_atomic"],
)
def test_gradients_where_all_scores_are_far_below_zero(rung: str) -> None:
    # A key that is not there has the score 0, whose weight would be infinite.
    torch.manual_seed(2)
    k = (1 + torch.randn(1, 1, 70, 64) / 100).bfloat16()
    q = torch.full((1, 1, 70, 64), -3, dtype=torch.bfloat16)
    v, dout = (torch.randn(1, 1, 70, 64).bfloat16() for _ in range(2))
    out, lse = warpsmith.attention(q, k, v, scale=1.0)
    assert lse.max() < -100
    given = (q, k, v, dout, out, lse)
    found = warpsmith.attention_backward(*given, scale=1.0, rung=f"backward_{rung}")[:3]
    wanted = warpsmith.attention_backward(*given, scale=1.0, rung="backward_naive")[:3]
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one.float(), other.float(), rtol=0.02, atol=0.03)


def test_what_attention_backward_does_not_take() -> None:
    q, k, v = qkv(*[(1, 2, 4, 8)] * 3)
    out, lse = warpsmith.attention(q, k, v)
    with pytest.raises(ValueError, match=r"takes dout of f32 \[1, 2, 4, 8\], got f32 \[2, 4, 8\]"):
        warpsmith.attention_backward(q, k, v, out[0], out, lse)
    with pytest.raises(ValueError, match=r"takes lse of f32 \[1, 2, 4\], got f16"):
        warpsmith.attention_backward(q, k, v, out, out, lse.half())


# ---- Gradients of packed sequences --------------------------------------------------------------

PACKED_EXTRAS: dict[str, dict[str, Any]] = {
    "plain": {},
    "causal": {"causal": True},
    "window": {"window_left": 2, "window_right": 1},
    "scaled": {"scale": 0.3, "softcap": 2.0},
    "slopes": {"alibi_slopes": (4, 4), "causal": True},
    "used": {"seqused_k": (1, 0, 3, 0), "causal": True},
    "sinks": {"sinks": (4,), "causal": True},
}


def packed_gradients(function: Any, given: dict[str, Any], of_lse: bool) -> list[torch.Tensor]:
    """Of q, k, v and sinks, where there are any."""
    wanted = [given[name].requires_grad_() for name in ("q", "k", "v")]
    if given.get("sinks") is not None:
        wanted.append(given["sinks"].requires_grad_())
    out, lse = function(**given)
    loss = (out * tensor(out.shape, 3).to(out)).sum()
    if of_lse:
        seen = lse.isfinite()
        loss = loss + (lse[seen] * tensor(lse.shape, 4).to(lse)[seen]).sum()
    return list(torch.autograd.grad(loss, wanted))


def packed_formula(**given: Any) -> Any:
    names = ("seqused_k", "block_table", "alibi_slopes", "sinks", "scale_k", "scale_v")
    return torch_function("attention_varlen")(**dict.fromkeys(names) | given)


@pytest.mark.parametrize("extra", PACKED_EXTRAS)
@pytest.mark.parametrize("of_lse", [False, True])
def test_gradient_of_packed_sequences(extra: str, of_lse: bool, device: str) -> None:
    shapes = (sum(LENGTHS_Q), 4, 8), (sum(LENGTHS_K), 2, 8), (sum(LENGTHS_K), 2, 12)
    given: dict[str, Any] = dict(zip("qkv", qkv(*shapes), strict=True))
    given |= {"cu_seqlens_q": starts_of(LENGTHS_Q), "cu_seqlens_k": starts_of(LENGTHS_K)}
    attributes = dict(PACKED_EXTRAS[extra])
    for name in ("alibi_slopes", "sinks"):
        if name in attributes:
            given[name] = tensor(attributes.pop(name), 7).abs() / 2
    if "seqused_k" in attributes:
        given["seqused_k"] = torch.tensor(attributes.pop("seqused_k"), dtype=torch.int32)
    of_us = {name: x.detach().clone().to(device) for name, x in given.items()}
    of_torch = {name: wide(x) for name, x in given.items()}
    mine = packed_gradients(
        lambda **x: warpsmith.attention_varlen(**x, **attributes), of_us, of_lse
    )
    want = packed_gradients(lambda **x: packed_formula(**x, **attributes), of_torch, of_lse)
    for one, right in zip(mine, want, strict=True):
        torch.testing.assert_close(one.cpu().double(), right, rtol=2e-5, atol=2e-5)


def test_gradcheck_of_the_formula_of_packed_sequences() -> None:
    """Numbers beside what the catalogue says in torch, which kernels are held against."""
    lengths_q, lengths_k = (3, 0, 2), (2, 1, 4)
    given = [x.double().requires_grad_() for x in qkv((5, 2, 3), (7, 1, 3), (7, 1, 4))]
    starts = {"cu_seqlens_q": starts_of(lengths_q), "cu_seqlens_k": starts_of(lengths_k)}

    def out_of(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return packed_formula(q=q, k=k, v=v, **starts, window_left=2, window_right=1)[0]

    assert torch.autograd.gradcheck(out_of, given)
    with torch.no_grad():
        out, lse = packed_formula(
            **dict(zip("qkv", given, strict=True)), **starts, window_left=2, window_right=1
        )
    dout = tensor(out.shape, 3).double()
    found = torch_function("attention_varlen_backward")(
        *given, *starts.values(), dout, out, lse.double(), None, None, None,
        window_left=2, window_right=1,
    )  # fmt: skip
    want = torch.autograd.grad(out_of(*given), given, dout)
    for one, right in zip(found, want, strict=True):
        torch.testing.assert_close(one, right, rtol=1e-6, atol=1e-6)  # lse is f32


@dtypes
@pytest.mark.parametrize("causal", [False, True])
def test_flash_attn_varlen_func_has_gradients(dtype: Any, causal: bool, device: str) -> None:
    """As a call of each sequence has: of two heads a head of keys, on tensor cores in 16 bits."""
    lengths = (70, 1, 0, 66)
    rows = sum(lengths)
    given = qkv((rows, 4, 64), (rows, 2, 64), (rows, 2, 64), dtype=dtype, device=device)
    given = [x.requires_grad_() for x in given]
    starts = starts_of(lengths, device)
    out = warpsmith.flash_attn_varlen_func(*given, starts, starts, 70, 70, causal=causal)
    dout = tensor(out.shape, 3).to(out)
    mine = torch.autograd.grad(out, given, dout)
    true = [x.detach().cpu().double().requires_grad_() for x in given]
    wanted = packed_formula(
        **dict(zip("qkv", true, strict=True)),
        cu_seqlens_q=starts.cpu(),
        cu_seqlens_k=starts.cpu(),
        causal=causal,
    )[0]
    want = torch.autograd.grad(wanted, true, dout.cpu().double())
    limit = {torch.float32: 2e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}[dtype]
    for one, right in zip(mine, want, strict=True):
        assert one.dtype == dtype
        torch.testing.assert_close(one.cpu().double(), right, rtol=limit, atol=limit)


@pytest.mark.parametrize("rung", ["any", "mma"])
def test_gradients_of_rows_that_no_sequence_has_are_zero(rung: str, device: str) -> None:
    """Whatever is in them, and nothing of it comes into others."""
    q, k, v = qkv((150, 2, 64), (160, 1, 64), (160, 1, 64), dtype=torch.bfloat16, device=device)
    starts_q = torch.tensor([3, 80, 80, 140], dtype=torch.int32, device=device)
    starts_k = torch.tensor([5, 70, 90, 150], dtype=torch.int32, device=device)
    used = torch.tensor([60, 20, 60], dtype=torch.int32, device=device)
    out, lse = warpsmith.attention_varlen(q, k, v, starts_q, starts_k, used)
    dout = tensor(out.shape, 3).to(out)
    nobodys_q = [*range(3), *range(140, 150)]
    nobodys_k = [*range(5), *range(65, 90), *range(150, 160)]
    for rows, tensors in ((nobodys_q, (q, dout, out)), (nobodys_k, (k, v))):
        for x in tensors:
            x[rows] = math.nan
    lse[:, nobodys_q] = math.nan
    found = warpsmith.attention_varlen_backward(
        q, k, v, starts_q, starts_k, dout, out, lse, used, rung=f"backward_{rung}"
    )
    for gradient, rows in zip(found, (nobodys_q, nobodys_k, nobodys_k), strict=True):
        assert (gradient[rows] == 0).all()
        assert gradient.isfinite().all()
    # The gradient of a sink is made of each query, but not of those that are nobody's.
    sinks = torch.zeros(2, device=device, requires_grad=True)
    with_sinks, _ = warpsmith.attention_varlen(
        *(x.nan_to_num() for x in (q, k, v)), starts_q, starts_k, used, sinks=sinks
    )
    somebodys = torch.arange(150, device=device).clamp(3, 139)
    with_sinks[somebodys].float().sum().backward()
    assert sinks.grad.isfinite().all()


def test_packed_sequences_in_one_projection_have_gradients(device: str) -> None:
    """q, k and v are views of one tensor, as flash_attn_varlen_qkvpacked_func has them."""
    qkv_packed = tensor((9, 3, 2, 8), 0).to(device).requires_grad_()
    starts = starts_of(LENGTHS_Q, device)
    out = warpsmith.flash_attn_varlen_func(*qkv_packed.unbind(1), starts, starts)
    out.square().sum().backward()
    copies = [x.detach().clone().requires_grad_() for x in qkv_packed.unbind(1)]
    same = warpsmith.flash_attn_varlen_func(*copies, starts, starts)
    same.square().sum().backward()
    assert torch.equal(qkv_packed.grad, torch.stack([x.grad for x in copies], 1))


class Gradients(TorchDispatchMode):
    """Whether each call of a gradient is to give the same bits every time."""

    def __init__(self) -> None:
        super().__init__()
        self.deterministic: list[bool] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if "attention" in str(func) and "backward" in str(func):
            self.deterministic.append((kwargs or {}).get("deterministic", False))
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("packed", [False, True])
def test_a_gradient_is_deterministic_where_a_call_says_so(packed: bool) -> None:
    shape = (9, 2, 8) if packed else (1, 9, 2, 8)
    given = [x.requires_grad_() for x in qkv(*[shape] * 3)]
    starts = [starts_of(LENGTHS_Q, "cpu")] * 2 if packed else []
    function = warpsmith.flash_attn_varlen_func if packed else warpsmith.flash_attn_func
    for wanted in (False, True):
        with Gradients() as seen:
            function(*given, *starts, deterministic=wanted).square().sum().backward()
        assert seen.deterministic == [wanted]


def test_gradient_of_packed_sequences_compiles(device: str) -> None:
    starts = [starts_of(LENGTHS_Q, device), starts_of(LENGTHS_K, device)]

    def loss(*given: torch.Tensor) -> torch.Tensor:
        return warpsmith.flash_attn_varlen_func(*given, *starts, 5, 4, causal=True).square().sum()

    given = [x.requires_grad_() for x in qkv(*[(9, 2, 8)] * 3, device=device)]
    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
    mine = torch.autograd.grad(compiled(*given), given)
    for one, other in zip(mine, torch.autograd.grad(loss(*given), given), strict=True):
        assert torch.equal(one, other)


def test_gradient_of_keys_in_pages(device: str) -> None:
    """Two share a page and have one behind their keys that is none; the third has no key at all."""
    given: dict[str, Any] = dict(zip("qkv", qkv((6, 4, 8), *[(5, 4, 2, 8)] * 2), strict=True))
    given["cu_seqlens_q"] = starts_of((3, 2, 1))
    given["seqused_k"] = torch.tensor([7, 6, 0], dtype=torch.int32)
    given["block_table"] = torch.tensor([[4, 1, 9], [0, 1, -2], [0, 0, 0]], dtype=torch.int32)
    of_us = {name: x.detach().clone().to(device) for name, x in given.items()}
    of_torch = {name: wide(x) for name, x in given.items()}
    of_torch["block_table"] = given["block_table"].clamp(0, 4)
    mine = packed_gradients(lambda **x: warpsmith.attention_varlen(**x, causal=True), of_us, True)
    want = packed_gradients(
        lambda **x: packed_formula(**x, cu_seqlens_k=None, causal=True), of_torch, True
    )
    for one, right in zip(mine, want, strict=True):
        torch.testing.assert_close(one.cpu().double(), right, rtol=2e-5, atol=2e-5)


def test_packed_gradients_that_there_are_not() -> None:
    slopes = torch.ones(2, requires_grad=True)
    q, k, v = qkv(*[(9, 2, 8)] * 3)
    starts = starts_of(LENGTHS_Q), starts_of(LENGTHS_K)
    out = warpsmith.flash_attn_varlen_func(q, k, v, *starts, alibi_slopes=slopes)
    with pytest.raises(NotImplementedError, match="no gradient of alibi_slopes"):
        out.sum().backward()


@pytest.mark.parametrize("rung", ["any", "mma"])
def test_wrong_starts_of_a_gradient(rung: str, device: str) -> None:
    q, k, v = qkv(*[(9, 2, 8)] * 3, dtype=torch.bfloat16, device=device)
    starts = starts_of((3, 3, 3), device)
    out, lse = warpsmith.attention_varlen(q, k, v, starts, starts)
    wrong = torch.tensor([0, 3, 5, 10], dtype=torch.int32, device=device)
    for given in ((wrong, starts), (starts, wrong)):
        with pytest.raises(ValueError, match=r"index 10 at position 3 of 'cu_seqlens_[qk]'"):
            warpsmith.attention_varlen_backward(
                q, k, v, *given, out, out, lse, rung=f"backward_{rung}"
            )
            warpsmith.check()


def test_what_attention_varlen_backward_does_not_take() -> None:
    q, k, v = qkv(*[(9, 2, 8)] * 3)
    starts = starts_of(LENGTHS_Q), starts_of(LENGTHS_K)
    out, lse = warpsmith.attention_varlen(q, k, v, *starts)
    with pytest.raises(ValueError, match=r"takes dout of f32 \[9, 2, 8\], got f32 \[8, 2, 8\]"):
        warpsmith.attention_varlen_backward(q, k, v, *starts, out[1:], out, lse)
    with pytest.raises(ValueError, match=r"takes lse of f32 \[2, 9\], got f32 \[9, 2\]"):
        warpsmith.attention_varlen_backward(q, k, v, *starts, out, out, lse.mT)
    with pytest.raises(ValueError, match=r"takes cu_seqlens_k of i32 \[5\]"):
        warpsmith.attention_varlen_backward(q, k, v, starts[0], starts[1][1:], out, out, lse)


@pytest.mark.cuda
def test_in_a_graph() -> None:
    given = qkv(*[(2, 130, 4, 64)] * 3, dtype=torch.bfloat16, device="cuda")
    want = warpsmith.flash_attn_func(*given, causal=True)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = warpsmith.flash_attn_func(*given, causal=True)
    out.fill_(77)
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(out, want)


@pytest.mark.cuda
def test_compiles_with_cuda_graphs() -> None:
    given = qkv(*[(2, 130, 4, 64)] * 3, dtype=torch.bfloat16, device="cuda")
    compiled = torch.compile(traced("flash"), fullgraph=True, mode="reduce-overhead")
    want = traced("flash")(*given)
    for _ in range(4):
        assert torch.equal(compiled(*given), want)


@pytest.mark.parametrize("rung", ["ring_any", "ring_wgmma"])
def test_steps_of_a_ring_are_attention_over_all_keys(rung: str) -> None:
    """What out holds at first is never read: nothing, or NaN."""
    q, k, v = qkv((2, 4, 40, 64), (2, 2, 90, 64), (2, 2, 90, 64), dtype=torch.bfloat16)
    q[0, 1, 7] = math.nan
    out = torch.full((2, 4, 40, 64), math.nan)
    lse = torch.full((2, 4, 40), -math.inf)
    for first, last in ((30, 80), (0, 30), (80, 90)):
        keys, values = k[:, :, first:last], v[:, :, first:last]
        assert warpsmith.ring_attention_step(q, keys, values, out, lse, rung=rung)[0] is out
    want, lse_wanted = warpsmith.attention(q.float(), k.float(), v.float(), rung="any")
    assert out[0, 1, 7].isnan().all()
    assert lse[0, 1, 7].isnan()
    rows = ~lse_wanted.isnan()
    assert rows.sum() == rows.numel() - 1
    assert (out - want)[rows].abs().max() < 4e-3  # weights of bf16
    assert (lse - lse_wanted)[rows].abs().max() < 1e-4


@pytest.mark.parametrize("rung", ["ring_any", "ring_wgmma"])
def test_a_step_that_sees_nothing_changes_nothing(rung: str) -> None:
    q, k, v = qkv((1, 1, 70, 64), (1, 1, 10, 64), (1, 1, 10, 64), dtype=torch.float16)
    out, lse = tensor((1, 1, 70, 64), 7), tensor((1, 1, 70), 8)
    lse[..., ::2] = -math.inf
    before = out.clone(), lse.clone()
    warpsmith.ring_attention_step(q, k, v, out, lse, causal=True, rung=rung)
    met = torch.isfinite(before[1]) & (torch.arange(70) < 60)
    assert torch.equal(out[met], before[0][met])
    assert torch.equal(lse[met], before[1][met])
    nothing = torch.isinf(before[1]) & (torch.arange(70) < 60)
    assert (out[nothing] == 0).all()
    assert (lse[nothing] == -math.inf).all()
    assert torch.isfinite(lse[..., 60:]).all()


def test_steps_of_a_ring_refuse_another_state() -> None:
    q, k, v = qkv((1, 2, 5, 16), (1, 2, 7, 16), (1, 2, 7, 24))
    out, lse = torch.zeros(1, 2, 5, 24), torch.zeros(1, 2, 5)
    warpsmith.ring_attention_step(q, k, v, out, lse)
    assert "ring_any" in str(warpsmith.explain("ring_attention_step", q, k, v, out, lse))
    for wrong in ((out.half(), lse), (out[..., :16], lse), (out, lse.double()), (out, lse[:, :1])):
        with pytest.raises(ValueError, match="ring_attention_step"):
            warpsmith.ring_attention_step(q, k, v, *wrong)
