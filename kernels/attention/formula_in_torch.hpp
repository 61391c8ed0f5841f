// The formula over torch's tensors, for what the catalogue says in Python: a text that defines
// functions, of a call's names.
#pragma once

#include <string_view>

namespace ws::attention {

// Of [B, H, rows, columns].
inline constexpr std::string_view kAttendInTorch = R"(
import math

def wide(x):
    return x.double() if x.dtype == torch.float64 else x.float()

def every(x, q):
    return wide(x.repeat_interleave(q.shape[1] // x.shape[1] if x.shape[1] else 1, 1))

def scores_of(q, k, bias, slopes):
    scores = wide(q) @ every(k, q).mT * (q.shape[-1] ** -0.5 if scale is None else scale)
    if softcap:
        scores = softcap * torch.tanh(scores / softcap)
    if bias is not None and bias.dtype == torch.bool:
        scores = scores.masked_fill(~bias, -math.inf)
    elif bias is not None:
        scores = scores + wide(bias)
    over = torch.arange(q.shape[2], device=q.device)[:, None] + k.shape[2] - q.shape[2]
    key = torch.arange(k.shape[2], device=q.device)
    if slopes is not None:
        scores = scores - slopes[..., None, None] * (over - key).abs()
    hidden = torch.zeros_like(over - key, dtype=torch.bool)
    if causal or window_right >= 0:
        hidden |= key > over + (0 if causal else window_right)
    if window_left >= 0:
        hidden |= key < over - window_left
    return scores.masked_fill(hidden, -math.inf)

def attend(q, k, v, bias, slopes):
    scores = scores_of(q, k, bias, slopes)
    lse = torch.logsumexp(scores, -1)
    if sinks is not None:
        lse = torch.logaddexp(lse, sinks[:, None])
    weights = torch.exp(scores - lse[..., None].clamp_min(torch.finfo(scores.dtype).min))
    return (weights @ every(v, q)).to(q.dtype), lse

)";

// The gradients, also of scores; after kAttendInTorch. Under a softcap that of a score is what the
// score was before anything was added to it.
inline constexpr std::string_view kAttendBackwardInTorch = R"(
def own(x, like):
    if like.shape[1] == 0:
        return torch.zeros_like(like)
    return x.unflatten(1, (like.shape[1], -1)).sum(2).to(like.dtype)

def attend_backward(q, k, v, dout, o, lse, bias, slopes, dlse):
    factor = q.shape[-1] ** -0.5 if scale is None else scale
    scores = scores_of(q, k, bias, slopes)
    hidden = torch.isinf(lse)[..., None]
    weights = torch.exp(scores - lse[..., None]).masked_fill(hidden, 0)
    delta = (wide(dout) * wide(o)).sum(-1)
    if dlse is not None:
        delta = delta - dlse
    ds = weights * (wide(dout) @ every(v, q).mT - delta[..., None])
    dproducts = ds * factor
    if softcap:
        dproducts = dproducts / torch.cosh(wide(q) @ every(k, q).mT * factor / softcap) ** 2
    return ((dproducts @ every(k, q)).to(q.dtype), own(dproducts.mT @ wide(q), k),
            own(weights.mT @ wide(dout), v), ds)

)";

// Of packed sequences, one after the other; after kAttendBackwardInTorch.
inline constexpr std::string_view kAttendPackedBackwardInTorch = R"(
gradients = [torch.zeros_like(x) for x in (q, k, v)]
starts_q, starts_k = cu_seqlens_q.tolist(), cu_seqlens_k.tolist()
heads = lambda x: x.transpose(0, 1)[None]
for b in range(len(starts_q) - 1):
    mine = slice(starts_q[b], starts_q[b + 1])
    end = starts_k[b + 1] if seqused_k is None else starts_k[b] + int(seqused_k[b])
    seen = slice(starts_k[b], end)
    slopes = alibi_slopes
    if slopes is not None and slopes.dim() == 2:
        slopes = slopes[b]
    found = attend_backward(
        heads(q[mine]), heads(k[seen]), heads(v[seen]), heads(dout[mine]), heads(o[mine]),
        lse[None, :, mine], None, slopes, None if dlse is None else dlse[None, :, mine])
    for gradient, rows, one in zip(gradients, (mine, seen, seen), found):
        gradient[rows] = one[0].transpose(0, 1)
return tuple(gradients)
)";

// What autograd makes of them. Of one number for all queries of a head the gradient is a sum.
inline constexpr std::string_view kAttentionGradient = R"(
biased = bias is not None and bias.dtype != torch.bool and needs[3]
sloped = alibi_slopes is not None and needs[4]
dout = torch.zeros_like(out) if g_out is None else g_out
dq, dk, dv, ds = ops.attention_backward(
    q, k, v, dout, out, lse, bias, alibi_slopes, g_lse, causal=causal, window_left=window_left,
    window_right=window_right, scale=scale, softcap=softcap, score_gradient=biased or sloped,
    deterministic=deterministic or torch.are_deterministic_algorithms_enabled())
dbias = sum_to(ds, bias.shape).to(bias.dtype) if biased else None
dslopes = dsinks = None
if sloped:
    over = torch.arange(q.shape[2], device=q.device)[:, None] + k.shape[2] - q.shape[2]
    distance = (over - torch.arange(k.shape[2], device=q.device)).abs()
    dslopes = sum_to(-(ds * distance).sum((-1, -2)), alibi_slopes.shape)
if sinks is not None and needs[5]:
    delta = (dout.float() * out.float()).sum(-1)
    if g_lse is not None:
        delta = delta - g_lse
    weight = torch.where(lse == -torch.inf, 0, torch.exp(sinks[:, None] - lse))
    dsinks = -(weight * delta).sum((0, 2))
return dq, dk, dv, dbias, dslopes, dsinks
)";

// Of packed sequences. Keys in pages are packed first, each sequence with all that its pages hold:
// what is no page of theirs is behind the keys that count. Of rows that no sequence has the forward
// has written nothing: their part in the gradient of a sink may be anything, and is left out.
inline constexpr std::string_view kPackedGradient = R"(
if alibi_slopes is not None and needs[7]:
    raise NotImplementedError('warpsmith.attention_varlen has no gradient of alibi_slopes')
if k.dtype != q.dtype:
    raise NotImplementedError('warpsmith.attention_varlen has no gradient over keys of 8 bits')
dout = torch.zeros_like(out) if g_out is None else g_out
keys, values, starts_k = k, v, cu_seqlens_k
if block_table is not None:
    pages = block_table.flatten().clamp(0, k.shape[0] - 1)
    keys, values = [x.index_select(0, pages).flatten(0, 1) for x in (k, v)]
    starts_k = torch.arange(cu_seqlens_q.shape[0], device=q.device, dtype=torch.int32)
    starts_k = starts_k * (block_table.shape[1] * k.shape[1])
dq, dk, dv = ops.attention_varlen_backward(
    q, keys, values, cu_seqlens_q, starts_k, dout, out, lse, seqused_k, alibi_slopes, g_lse,
    causal=causal, window_left=window_left, window_right=window_right, scale=scale,
    softcap=softcap, deterministic=deterministic or torch.are_deterministic_algorithms_enabled())
if block_table is not None:
    dk, dv = [torch.zeros_like(x).index_add(0, pages, dx.unflatten(0, (-1, k.shape[1])))
              for x, dx in ((k, dk), (v, dv))]
dsinks = None
if sinks is not None and needs[8]:
    delta = (dout.float() * out.float()).sum(-1).mT
    if g_lse is not None:
        delta = delta - g_lse
    row = torch.arange(q.shape[0], device=q.device)
    is_somebodys = (row >= cu_seqlens_q[0]) & (row < cu_seqlens_q[-1])
    counts = is_somebodys & (lse != -torch.inf)
    dsinks = -torch.where(counts, torch.exp(sinks[:, None] - lse) * delta, 0).sum(1)
return dq, dk, dv, None, None, None, None, None, dsinks, None, None
)";

// Of 8 bits with scales; after kAttendInTorch.
inline constexpr std::string_view kAttendScaledInTorch = R"(
softcap = 0
sinks = None
exact = q.dtype == torch.float64
values = lambda x: x if exact else x.float()
scaled = lambda x, by: values(x) if by is None else values(x) * by[..., None, None]
out, lse = attend(scaled(q, scale_q), scaled(k, scale_k), scaled(v, scale_v), None, None)
return out if exact else out.to(getattr(torch, out_dtype)), lse
)";

// Of packed sequences, one after the other; after kAttendInTorch.
inline constexpr std::string_view kAttendPackedInTorch = R"(
def packed():
    starts_q = cu_seqlens_q.tolist()
    count = len(starts_q) - 1
    starts = [0] * count if cu_seqlens_k is None else cu_seqlens_k.tolist()
    lengths = [starts[b + 1] - starts[b] for b in range(count)] if seqused_k is None \
        else seqused_k.tolist()
    keys, values = [x if x.dtype == q.dtype else wide(x) for x in (k, v)]
    scaled = lambda x, by, b: x if by is None \
        else wide(x) * (by if by.dim() == 1 else by[b])[:, None]
    out = q.new_zeros(*q.shape[:2], v.shape[-1])
    lse = q.new_full((q.shape[1], q.shape[0]), -math.inf, dtype=torch.float32)
    for b in range(count):
        rows = lambda x: x[starts[b]:starts[b] + lengths[b]] if block_table is None \
            else x[block_table[b].long()].flatten(0, 1)[:lengths[b]]
        heads = lambda x: x.transpose(0, 1)[None]
        mine = slice(starts_q[b], starts_q[b + 1])
        slopes = alibi_slopes
        if slopes is not None and slopes.dim() == 2:
            slopes = slopes[b]
        o, l = attend(heads(q[mine]), heads(scaled(rows(keys), scale_k, b)),
                      heads(scaled(rows(values), scale_v, b)), None, slopes)
        out[mine] = o[0].transpose(0, 1)
        lse[:, mine] = l[0]
    return out, lse

)";

}  // namespace ws::attention
