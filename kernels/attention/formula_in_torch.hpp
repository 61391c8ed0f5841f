// The formula over torch's tensors, for what the catalogue says in Python: a text that defines
// functions, of a call's names.
#pragma once

#include <string_view>

namespace ws::attention {

// Of [B, H, rows, columns].
inline constexpr std::string_view kAttendInTorch = R"(
import math

def attend(q, k, v, bias, slopes):
    group = q.shape[1] // k.shape[1] if k.shape[1] else 1
    wide = lambda x: x.double() if x.dtype == torch.float64 else x.float()
    every = lambda x: wide(x.repeat_interleave(group, 1))
    scores = wide(q) @ every(k).mT * (q.shape[-1] ** -0.5 if scale is None else scale)
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
    scores = scores.masked_fill(hidden, -math.inf)
    lse = torch.logsumexp(scores, -1)
    if sinks is not None:
        lse = torch.logaddexp(lse, sinks[:, None])
    weights = torch.exp(scores - lse[..., None].clamp_min(torch.finfo(scores.dtype).min))
    return (weights @ every(v)).to(q.dtype), lse

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
        o, l = attend(heads(q[mine]), heads(rows(k)), heads(rows(v)), None, slopes)
        out[mine] = o[0].transpose(0, 1)
        lse[:, mine] = l[0]
    return out, lse

)";

}  // namespace ws::attention
