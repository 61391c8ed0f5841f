"""Attention as it is called elsewhere: torch's function and FlashAttention's, on the catalogue's.

`attention` is the catalogue's operation of that name, and of packed sequences `attention_varlen`.
The others are torch's scaled_dot_product_attention and FlashAttention's functions by their own
arguments. Tensors of other layouts are views of what the caller has, nothing is copied, and out
lies in memory as the queries do.
"""

import functools
import inspect
import math
from collections.abc import Sequence
from typing import Any

import torch

import warpsmith
from warpsmith._matmul import _autocast, _broadcast, _check_tensors

_attention = warpsmith.attention
_attention_varlen = warpsmith.attention_varlen
_sdpa = torch.nn.functional.scaled_dot_product_attention
Window = tuple[int | None, int | None]

_PACKED = """\
    window: (left, right), the two window attributes in one; None in it: all of that side.
    cu_seqlens_q: With it sequences are packed, and the call is attention_varlen's: q is
        [Tq, H, D], k and v are [Tk, Hk, D], or pages of [pages, page, Hk, D]; out is
        [Tq, H, Dv], lse [H, Tq]. i32 [B + 1], where each sequence of q begins, and Tq, or less:
        of rows that no sequence has nothing is written.
    cu_seqlens_k: The same of k and v; without it where there are pages.
    max_seqlen_q: No sequence of q is longer, which saves work.
    max_seqlen: The same, of the longest of q and of k.
    block_table: i32 [B, most pages of a sequence], where the keys of each lie.
    seqused_k: i32 [B], how many keys of each sequence count.
    scale_k: f32 [Hk] or [B, Hk], what packed keys of float8_e4m3fn were divided by.
    scale_v: The same of values.
"""


@functools.wraps(_attention)
def attention(
    q: Any,
    k: Any,
    v: Any,
    bias: Any = None,
    alibi_slopes: Any = None,
    sinks: Any = None,
    *,
    causal: bool = False,
    window_left: int = -1,
    window_right: int = -1,
    scale: float | None = None,
    softcap: float = 0.0,
    deterministic: bool = False,
    window: Window | None = None,
    cu_seqlens_q: Any = None,
    cu_seqlens_k: Any = None,
    max_seqlen_q: int | None = None,
    max_seqlen: int | None = None,
    block_table: Any = None,
    seqused_k: Any = None,
    scale_k: Any = None,
    scale_v: Any = None,
    rung: str | None = None,
    out: Any = None,
) -> Any:
    if window is not None:
        window_left, window_right = _ends("attention", window, window_left, window_right)
    if cu_seqlens_q is None:
        for name, given in (
            ("cu_seqlens_k", cu_seqlens_k),
            ("max_seqlen_q", max_seqlen_q),
            ("max_seqlen", max_seqlen),
            ("block_table", block_table),
            ("seqused_k", seqused_k),
            ("scale_k", scale_k),
            ("scale_v", scale_v),
        ):
            if given is not None:
                raise ValueError(f"attention: {name} is for packed sequences: cu_seqlens_q is None")
        return _attention(
            q,
            k,
            v,
            bias,
            alibi_slopes,
            sinks,
            causal=causal,
            window_left=window_left,
            window_right=window_right,
            scale=scale,
            softcap=softcap,
            deterministic=deterministic,
            rung=rung,
            out=out,
        )
    if bias is not None:
        raise ValueError("attention: packed sequences have no bias; alibi_slopes they have")
    return _attention_varlen(
        q,
        k,
        v,
        cu_seqlens_q,
        cu_seqlens_k,
        seqused_k,
        block_table,
        alibi_slopes,
        sinks,
        scale_k,
        scale_v,
        causal=causal,
        window_left=window_left,
        window_right=window_right,
        scale=scale,
        softcap=softcap,
        deterministic=deterministic,
        max_seqlen_q=max_seqlen if max_seqlen_q is None else max_seqlen_q,
        rung=rung,
        out=out,
    )


attention.__doc__ = _attention.__doc__.replace("    rung: ", f"{_PACKED}    rung: ", 1)
# functools.wraps shows that of the wrapped function, which takes less.
attention.__signature__ = inspect.Signature(
    [
        parameter.replace(annotation=inspect.Parameter.empty)
        for parameter in inspect.signature(attention, follow_wrapped=False).parameters.values()
    ]
)


def scaled_dot_product_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> torch.Tensor:
    """torch.nn.functional.scaled_dot_product_attention, without dropout.

    Args:
        query: [..., H, L, E], f32, f16 or bf16, any strides; [L, E] and [H, L, E] too.
        key: [..., H, S, E], dtype of query. Dimensions before the last two broadcast.
        value: [..., H, S, Ev], dtype of query.
        attn_mask: What broadcasts to [..., H, L, S]: bool, where False hides the key; or dtype of
            query or f32, added to scores. A query that sees no key gives 0.
        dropout_p: 0.
        is_causal: Query i sees keys 0 to i, as torch's: aligned at the top left, which is another
            thing than the `causal` of `attention` where L and S differ.
        scale: What times the products; None: 1 / sqrt(E).
        enable_gqa: Key and value may have fewer heads, a number that divides H.

    Returns:
        [..., H, L, Ev], dtype of query; in memory as query is.

    Raises:
        RuntimeError: as torch raises it, of shapes and dtypes that do not fit.
        TypeError: what is no torch tensor.
        ValueError: dropout, dtypes and devices that no kernel takes.
    """
    name = "scaled_dot_product_attention"
    if not _are_tensors(query, key, value):
        _check_tensors(name, query=query, key=key, value=value)
    if dropout_p != 0:
        raise ValueError(f"{name}: dropout_p is 0, not {dropout_p}")
    query, key, value = _autocast(query, key, value)
    if attn_mask is None and _is_plain(query, key, value, enable_gqa):  # nothing to be made of them
        return _top_left(query, key, value, None, is_causal, scale)
    if attn_mask is not None:
        (attn_mask,) = _autocast(attn_mask)
    folded = _folded(query, key, value, attn_mask, is_causal, enable_gqa)
    if folded is None:
        tensors = [x.detach() for x in (query, key, value)]
        mask = None if attn_mask is None else attn_mask.detach()
        _sdpa(*tensors, mask, 0.0, is_causal, scale=scale, enable_gqa=enable_gqa)  # which raises
        shapes = [tuple(x.shape) for x in tensors]
        raise ValueError(f"{name} does not take tensors of {shapes}")
    tensors, shape = folded
    return _top_left(*tensors, is_causal, scale).reshape(shape)


def flash_attn_func(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: Window = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: torch.Tensor | None = None,
    deterministic: bool = False,
    return_attn_probs: bool = False,
    *,
    learnable_sink: torch.Tensor | None = None,
    q_descale: torch.Tensor | None = None,
    k_descale: torch.Tensor | None = None,
    v_descale: torch.Tensor | None = None,
    num_splits: int = 0,
    pack_gqa: bool | None = None,
    return_lse: bool = False,
) -> Any:
    """flash_attn.flash_attn_func, with its arguments, without dropout.

    Args:
        q: [B, Sq, H, D], f32, f16 or bf16; any strides. Or float8_e4m3fn, which takes no softcap,
            slopes or sinks, makes bf16, and has no gradient.
        k: [B, Sk, Hk, D], dtype of q; Hk divides H.
        v: [B, Sk, Hk, Dv], dtype of q.
        dropout_p: 0.
        softmax_scale: What times <q, k>; None: 1 / sqrt(D).
        causal: A query sees no key after the one it stands over, aligned at the bottom right.
        window_size: How many keys before and after it a query sees; -1 or None: all.
        softcap: Scores become softcap * tanh(score / softcap); 0: as they are.
        alibi_slopes: f32 [H] or [B, H]: slope * distance is taken off a score.
        deterministic: The gradient gives the same bits every time, as out always does; it takes a
            seventh to two fifths longer. So too where torch.use_deterministic_algorithms is on.
        return_attn_probs: Returns (out, lse, None), as FlashAttention does without dropout.
        learnable_sink: [H], a score of each head that is weighed and has no value.
        q_descale: f32 [B, Hk], what queries of 8 bits that share a head of keys are multiplied by.
        k_descale: f32 [B, Hk], the same of keys.
        v_descale: f32 [B, Hk], the same of values.
        num_splits: For the kernel to choose, as pack_gqa.
        pack_gqa: See there.
        return_lse: Returns (out, lse).

    Returns:
        out: [B, Sq, H, Dv], dtype of q; lse: f32 [B, H, Sq], -infinity of a query that sees no key.

    Raises:
        TypeError: what is no torch tensor.
        ValueError: dropout, and shapes, dtypes and devices that do not fit.
    """
    del num_splits, pack_gqa
    _check_flash("flash_attn_func", q, k, v, 4, dropout_p)
    heads = [x.transpose(1, 2) for x in (q, k, v)]
    if q.dtype == torch.float8_e4m3fn:
        out, lse = _scaled_flash(
            heads,
            (q_descale, k_descale, v_descale),
            {"softcap": softcap, "alibi_slopes": alibi_slopes, "learnable_sink": learnable_sink},
            causal=causal,
            window=window_size,
            scale=softmax_scale,
        )
        return _as_flash(out.transpose(1, 2), lse, return_attn_probs, return_lse)
    if any(x is not None for x in (q_descale, k_descale, v_descale)):
        raise ValueError(f"flash_attn_func: descales are of float8_e4m3fn, not of {q.dtype}")
    out, lse = attention(
        *heads,
        alibi_slopes=alibi_slopes,
        sinks=None if learnable_sink is None else learnable_sink.float(),
        causal=causal,
        window=window_size,
        scale=softmax_scale,
        softcap=softcap,
        deterministic=deterministic,
    )
    return _as_flash(out.transpose(1, 2), lse, return_attn_probs, return_lse)


def flash_attn_varlen_func(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    cu_seqlens_k: torch.Tensor | None = None,
    max_seqlen_q: int | None = None,
    max_seqlen_k: int | None = None,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: Window = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: torch.Tensor | None = None,
    deterministic: bool = False,
    return_attn_probs: bool = False,
    block_table: torch.Tensor | None = None,
    *,
    seqused_k: torch.Tensor | None = None,
    page_table: torch.Tensor | None = None,
    learnable_sink: torch.Tensor | None = None,
    num_splits: int = 0,
    pack_gqa: bool | None = None,
    return_lse: bool = False,
) -> Any:
    """flash_attn.flash_attn_varlen_func, with its arguments, without dropout.

    Args:
        q: [Tq, H, D], f32, f16 or bf16, any strides: sequences one behind the other.
        k: [Tk, Hk, D], dtype of q, Hk divides H; with pages [pages, page, Hk, D].
        v: [Tk, Hk, Dv], dtype of q; with pages [pages, page, Hk, Dv].
        cu_seqlens_q: i32 [B + 1], where each sequence of q begins, and Tq, or less: of rows that no
            sequence has nothing is written.
        cu_seqlens_k: The same of k and v. With pages only lengths are taken from it, where
            seqused_k is not given.
        max_seqlen_q: No sequence of q is longer.
        max_seqlen_k: The same of k; not needed.
        dropout_p: 0.
        softmax_scale: What times <q, k>; None: 1 / sqrt(D).
        causal: A query sees no key after the one it stands over, aligned at the bottom right.
        window_size: How many keys before and after it a query sees; -1 or None: all.
        softcap: Scores become softcap * tanh(score / softcap); 0: as they are.
        alibi_slopes: f32 [H] or [B, H]: slope * distance is taken off a score.
        deterministic: The gradient gives the same bits every time, as out always does; it takes a
            seventh to two fifths longer. So too where torch.use_deterministic_algorithms is on.
        return_attn_probs: Returns (out, lse, None), as FlashAttention does without dropout.
        block_table: i32 [B, most pages of a sequence], where its keys lie.
        seqused_k: i32 [B], how many keys of each sequence count.
        page_table: Another name of block_table.
        learnable_sink: [H], a score of each head that is weighed and has no value.
        num_splits: For the kernel to choose, as pack_gqa.
        pack_gqa: See there.
        return_lse: Returns (out, lse).

    Returns:
        out: [Tq, H, Dv], dtype of q; lse: f32 [H, Tq], -infinity of a query that sees no key.

    Raises:
        TypeError: what is no torch tensor.
        ValueError: dropout, and shapes, dtypes and devices that do not fit. Wrong starts and pages
            are found on the device: the next call raises it.
    """
    del max_seqlen_k, num_splits, pack_gqa
    _check_flash("flash_attn_varlen_func", q, k, v, 3, dropout_p)
    _check_tensors("flash_attn_varlen_func", cu_seqlens_q=cu_seqlens_q)
    table = page_table if block_table is None else block_table
    if table is not None and cu_seqlens_k is not None:
        seqused_k = cu_seqlens_k.diff() if seqused_k is None else seqused_k
        cu_seqlens_k = None
    out, lse = attention(
        q,
        k,
        v,
        alibi_slopes=alibi_slopes,
        sinks=None if learnable_sink is None else learnable_sink.float(),
        causal=causal,
        window=window_size,
        scale=softmax_scale,
        softcap=softcap,
        deterministic=deterministic,
        cu_seqlens_q=cu_seqlens_q,
        cu_seqlens_k=cu_seqlens_k,
        max_seqlen_q=max_seqlen_q,
        block_table=table,
        seqused_k=seqused_k,
    )
    return _as_flash(out, lse, return_attn_probs, return_lse)


def flash_attn_with_kvcache(
    q: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    k: torch.Tensor | None = None,
    v: torch.Tensor | None = None,
    rotary_cos: torch.Tensor | None = None,
    rotary_sin: torch.Tensor | None = None,
    cache_seqlens: int | torch.Tensor | None = None,
    cache_batch_idx: torch.Tensor | None = None,
    cache_leftpad: torch.Tensor | None = None,
    block_table: torch.Tensor | None = None,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: Window = (-1, -1),
    softcap: float = 0.0,
    rotary_interleaved: bool = True,
    alibi_slopes: torch.Tensor | None = None,
    num_splits: int = 0,
    return_softmax_lse: bool = False,
    *,
    k_descale: float | torch.Tensor | None = None,
    v_descale: float | torch.Tensor | None = None,
) -> Any:
    """flash_attn.flash_attn_with_kvcache, with its arguments: decoding.

    New keys and values are written behind those of the cache, in place (`append_kv`), before
    queries attend to all of them (`attention_varlen`).

    Args:
        q: [B, Sq, H, D], f32, f16 or bf16.
        k_cache: [batch of the cache, Sk, Hk, D], dtype of q or float8_e4m3fn, Hk divides H; with
            block_table [pages, page, Hk, D]. Any strides.
        v_cache: The same, of Dv columns.
        k: [B, Snew, Hk, D], new keys, dtype of q; with it cache_seqlens has to be there. For a
            cache of float8_e4m3fn they are divided by k_descale, and values by v_descale. They may
            not require a gradient, nor may values or caches: call it under torch.no_grad().
        v: [B, Snew, Hk, Dv], new values.
        rotary_cos: [positions, rotary_dim / 2], f32 or dtype of q: new keys turn by the position
            that they are written to. Queries turn too: query i by cache_seqlens + i, or, neither
            causal nor in a window, all by cache_seqlens.
        rotary_sin: The same of the sine.
        cache_seqlens: i32 [B], how many keys each sequence has before new ones; or one for all.
            None: all that the cache has room for.
        cache_batch_idx: i32 [B], which of the cache's batch each sequence is; not with pages.
        cache_leftpad: None.
        block_table: i32 [B, most pages of a sequence], where its keys lie.
        softmax_scale: What times <q, k>; None: 1 / sqrt(D).
        causal: A query sees no key after the one it stands over, aligned at the bottom right.
        window_size: How many keys before and after it a query sees; -1 or None: all.
        softcap: Scores become softcap * tanh(score / softcap); 0: as they are.
        rotary_interleaved: Pairs of neighbours turn; else of the halves of rotary_dim.
        alibi_slopes: f32 [H] or [B, H]: slope * distance is taken off a score.
        num_splits: For the kernel to choose.
        return_softmax_lse: Returns (out, lse).
        k_descale: What a k_cache of float8_e4m3fn is multiplied by: f32 [B, Hk] or [Hk], or one
            number for all.
        v_descale: The same of v_cache.

    Returns:
        out: [B, Sq, H, Dv], dtype of q; lse: f32 [B, H, Sq], -infinity of a query that sees no key.

    Raises:
        TypeError: what is no torch tensor.
        ValueError: shapes, dtypes and devices that do not fit, and a gradient that new keys or
            values want. Lengths beyond the cache and wrong pages are found on the device: nothing
            of theirs is written, the next call raises it.
    """
    del num_splits
    name = "flash_attn_with_kvcache"
    _check_flash(name, q, k_cache, v_cache, 4, 0.0)
    if cache_leftpad is not None:
        raise ValueError(f"{name} takes no cache_leftpad")
    for first, second, names in (
        (k, v, "k and v"),
        (rotary_cos, rotary_sin, "rotary_cos and rotary_sin"),
    ):
        if (first is None) != (second is None):
            raise ValueError(f"{name} takes {names}, or neither")
    if k is None and rotary_cos is not None:
        raise ValueError(f"{name} turns queries with new keys: k is None")
    if k is not None and cache_seqlens is None:
        raise ValueError(f"{name} takes cache_seqlens, behind which k and v are written")
    if block_table is not None and cache_batch_idx is not None:
        raise ValueError(f"{name} takes block_table or cache_batch_idx, not both")
    batch, queries = q.shape[:2]
    whole = {"dtype": torch.int32, "device": q.device}
    if not torch.is_tensor(cache_seqlens):
        length = k_cache.shape[1] if cache_seqlens is None else cache_seqlens
        if cache_seqlens is None and block_table is not None:
            length *= block_table.shape[1]
        cache_seqlens = torch.full((batch,), length, **whole)
    # A contiguous cache is pages as long as a sequence can become.
    table = block_table if cache_batch_idx is None else cache_batch_idx.to(torch.int32)[:, None]
    if table is None and k_cache.shape[0] != batch:
        raise ValueError(f"{name} takes a cache of batch {batch}, not {k_cache.shape[0]}")
    used = cache_seqlens
    scales = {"scale_k": _of_heads(k_descale, k_cache), "scale_v": _of_heads(v_descale, k_cache)}
    if k is not None:
        interleaved = {"interleaved": rotary_interleaved}
        if rotary_cos is not None:
            positions = cache_seqlens[:, None].expand(batch, queries)
            if causal or _ends(name, window_size, -1, -1) != (-1, -1):
                positions = positions + torch.arange(queries, **whole)
            q = warpsmith.rope(q, rotary_cos, rotary_sin, positions.contiguous(), **interleaved)
        rotary = (rotary_cos, rotary_sin)
        warpsmith.append_kv(
            k_cache, v_cache, k, v, cache_seqlens, table, *rotary, **scales, **interleaved
        )
        used = cache_seqlens + k.shape[1]
    if table is None:
        table = torch.arange(batch, **whole)[:, None]
    out, lse = attention(
        q.reshape(batch * queries, *q.shape[2:]),
        k_cache,
        v_cache,
        alibi_slopes=alibi_slopes,
        causal=causal,
        window=window_size,
        scale=softmax_scale,
        softcap=softcap,
        cu_seqlens_q=torch.arange(batch + 1, **whole) * queries,
        max_seqlen_q=queries,
        block_table=table,
        seqused_k=used,
        **scales,
    )
    out = out.unflatten(0, (batch, queries))
    if not return_softmax_lse:
        return out
    return out, lse.unflatten(1, (batch, queries)).transpose(0, 1)


for _function in (
    attention,
    scaled_dot_product_attention,
    flash_attn_func,
    flash_attn_varlen_func,
    flash_attn_with_kvcache,
):
    _function.__module__ = "warpsmith"
del _function


def _ends(name: str, window: Window, left: int, right: int) -> tuple[int, int]:
    """Both ends of a window; what `window` leaves open is as the attributes say."""
    if not isinstance(window, tuple | list) or len(window) != 2:
        raise ValueError(f"{name}: window is (left, right), not {window!r}")
    if (left, right) != (-1, -1):
        raise ValueError(f"{name}: window, or window_left and window_right, not both")
    first, last = window
    return -1 if first is None else first, -1 if last is None else last


def _are_tensors(q: Any, k: Any, v: Any) -> bool:
    tensor = torch.Tensor
    return isinstance(q, tensor) and isinstance(k, tensor) and isinstance(v, tensor)


def _is_plain(query: Any, key: Any, value: Any, grouped: bool) -> bool:
    """Whether tensors are [B, H, L, E], [B, H, S, E] and [B, H, S, Ev] as they are."""
    q, k, v = query.shape, key.shape, value.shape
    return (
        len(q) == len(k) == len(v) == 4
        and q[0] == k[0] == v[0]
        and k[1] == v[1]
        and (q[1] == k[1] or (grouped and k[1] > 0 and q[1] % k[1] == 0))
        and k[2] == v[2]
        and q[3] == k[3]
        and query.dtype == key.dtype == value.dtype
    )


def _top_left(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    bias: torch.Tensor | None,
    is_causal: bool,
    scale: float | None,
) -> torch.Tensor:
    """Attention of 4 dimensions, causal at the top left.

    Of more keys than queries, none sees those beyond. Of fewer, each query may see as many more to
    the right as the corner of the scores lies below.
    """
    right = -1
    if is_causal:
        queries, keys = q.shape[2], k.shape[2]
        if keys > queries:
            k, v = k[:, :, :queries], v[:, :, :queries]
        elif keys < queries:
            right, is_causal = queries - keys, False
    return _attention(q, k, v, bias, causal=is_causal, window_right=right, scale=scale)[0]


def _folded(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    mask: torch.Tensor | None,
    is_causal: bool,
    grouped: bool,
) -> tuple[list[torch.Tensor | None], tuple[int, ...]] | None:
    """query, key, value and mask as [batch, heads, rows, columns], and the shape of the result.

    Views, where strides allow it. None where they do not fit.
    """
    ranks = [query.dim(), key.dim(), value.dim()]
    if (
        min(ranks) < (3 if grouped else 2)
        or not query.dtype == key.dtype == value.dtype
        or query.shape[-1] != key.shape[-1]
        or key.shape[-2] != value.shape[-2]
        or (is_causal and mask is not None)
    ):
        return None
    rank = max(*ranks, 3)
    query, key, value = [x[(None,) * (rank - x.dim())] for x in (query, key, value)]
    heads = _heads(query.shape[-3], key.shape[-3], value.shape[-3], grouped)
    batch = _broadcast(query.shape[:-3], key.shape[:-3])
    batch = None if batch is None else _broadcast(batch, value.shape[:-3])
    if heads is None or batch is None:
        return None
    all_heads, kv_heads = heads
    scores = (*batch, all_heads, query.shape[-2], key.shape[-2])
    if mask is not None:
        mask = _mask(mask, query.dtype, scores)
        if mask is None:
            return None
    tensors = [
        _in_batch(query, batch, all_heads),
        *(_in_batch(x, batch, kv_heads) for x in (key, value)),
    ]
    shape = (*scores[:-1], value.shape[-1])
    return [*tensors, mask], shape if max(ranks) > 2 else shape[1:]


def _heads(query: int, key: int, value: int, grouped: bool) -> tuple[int, int] | None:
    """Heads of the result, and of key and value; None where they do not fit.

    One head that is broadcast is a group of all: it needs no repeating.
    """
    if grouped:
        return (query, key) if key == value and key > 0 and query % key == 0 else None
    both = _broadcast((key,), (value,))
    result = None if both is None else _broadcast((query,), both)
    return None if result is None else (result[0], both[0])


def _in_batch(x: torch.Tensor, batch: Sequence[int], heads: int) -> torch.Tensor:
    wide = x.expand(*batch, heads, *x.shape[-2:])
    return wide if wide.dim() == 4 else wide.reshape(math.prod(batch), *wide.shape[-3:])


def _mask(mask: torch.Tensor, dtype: torch.dtype, scores: Sequence[int]) -> torch.Tensor | None:
    """A mask that broadcasts to the scores [..., heads, queries, keys], of 4 dimensions."""
    if mask.dtype not in (torch.bool, torch.float32, dtype) or mask.dim() > len(scores):
        return None
    mask = mask[(None,) * (len(scores) - mask.dim())]
    if any(here not in (1, there) for here, there in zip(mask.shape, scores, strict=True)):
        return None
    batch = scores[:-3]
    if all(extent == 1 for extent in mask.shape[: len(batch)]):
        return mask.reshape(1, *mask.shape[-3:])
    return mask.expand(*batch, *mask.shape[-3:]).reshape(math.prod(batch), *mask.shape[-3:])


def _check_flash(name: str, q: Any, k: Any, v: Any, rank: int, dropout_p: float) -> None:
    if not _are_tensors(q, k, v):
        _check_tensors(name, q=q, k=k, v=v)
    if dropout_p != 0:
        raise ValueError(f"{name}: dropout_p is 0, not {dropout_p}")
    if q.dim() != rank or (rank == 4 and (k.dim() != 4 or v.dim() != 4)):
        shapes = [tuple(x.shape) for x in (q, k, v)]
        raise ValueError(f"{name} takes q of {rank} dimensions, got {shapes}")


def _of_heads(descale: float | torch.Tensor | None, cache: torch.Tensor) -> torch.Tensor | None:
    """A scale for each head of a cache; one number is that of all."""
    if descale is None:
        return None
    if not torch.is_tensor(descale):
        return torch.full((cache.shape[2],), descale, dtype=torch.float32, device=cache.device)
    return descale.expand(cache.shape[2]) if descale.numel() == 1 and descale.dim() < 2 else descale


def _scaled_flash(
    heads: list[torch.Tensor],
    descales: tuple[torch.Tensor | None, ...],
    others: dict[str, Any],
    *,
    causal: bool,
    window: Window,
    scale: float | None,
) -> Any:
    """scaled_attention by FlashAttention's scales, of which q has one for each head of keys."""
    for name, value in others.items():
        if value is not None and (torch.is_tensor(value) or value != 0):
            raise ValueError(f"flash_attn_func of float8_e4m3fn takes no {name}")
    q, k, _ = heads
    of_q, of_k, of_v = descales
    if of_q is not None and of_q.shape[-1] != q.shape[1] and k.shape[1] > 0:
        of_q = of_q.repeat_interleave(q.shape[1] // k.shape[1], -1)
    left, right = _ends("flash_attn_func", window, -1, -1)
    return warpsmith.scaled_attention(
        *heads,
        of_q,
        of_k,
        of_v,
        causal=causal,
        window_left=left,
        window_right=right,
        scale=scale,
    )


def _as_flash(out: torch.Tensor, lse: torch.Tensor, probabilities: bool, with_lse: bool) -> Any:
    if probabilities:
        return out, lse, None
    return (out, lse) if with_lse else out
