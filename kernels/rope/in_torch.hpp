// Rotary position embedding in torch: the formula, which tests and gradients are held against.
#pragma once

#include "catalogue/joined.hpp"

namespace ws::rope {

// Everything is seen as [batch, head, position, column], where what is repeated is 1.
inline constexpr std::string_view kTurnedInTorch = R"(
def seen(t, swaps):
    t = t if heads_first or not swaps else t.transpose(-3, -2)
    return t[(None,) * (4 - t.dim())]
def turned(x):
    h = seen(x if x.dtype == torch.float64 else x.float(), True)
    count = h.shape[2]
    at = torch.arange(count, device=x.device) if positions is None else positions.long()
    at = at.reshape(-1, 1, count, 1)
    if cos is None:
        pairs = (x.shape[-1] if rotary_dim is None else rotary_dim) // 2
        i = torch.arange(pairs, device=x.device, dtype=torch.float64)
        angle = at * base ** (-i / pairs)
        c, s = angle.cos().to(h.dtype), angle.sin().to(h.dtype)
    else:
        pairs = cos.shape[-1]
        tables = (seen(t.detach().to(h.dtype), t.dim() > 2) for t in (cos, sin))
        c, s = (torch.take_along_dim(t, at, 2) for t in tables)
    s = -s if inverse else s
    a, b = (h[..., 0:2 * pairs:2], h[..., 1:2 * pairs:2]) if interleaved else (
        h[..., :pairs], h[..., pairs:2 * pairs])
    y = (a * c - b * s, b * c + a * s)
    y = torch.stack(y, -1).flatten(-2) if interleaved else torch.cat(y, -1)
    y = torch.cat((y, h[..., 2 * pairs:]), -1).to(x.dtype)
    return (y if heads_first else y.transpose(1, 2)).reshape(x.shape)
)";
inline constexpr std::string_view kOneResult = R"(
return turned(x)
)";
inline constexpr std::string_view kBothResults = R"(
return turned(q), turned(k)
)";
inline constexpr std::string_view kRopeInTorch = kJoined<kTurnedInTorch, kOneResult>;
inline constexpr std::string_view kRopeQkInTorch = kJoined<kTurnedInTorch, kBothResults>;

inline constexpr std::string_view kBackInTorch = R"(
how = dict(interleaved=interleaved, inverse=not inverse, heads_first=heads_first,
           rotary_dim=rotary_dim, base=base)
)";
inline constexpr std::string_view kOneGradient = R"(
return ops.rope(g, cos, sin, positions, **how), None, None, None
)";
inline constexpr std::string_view kBothGradients = R"(
if g_q_out is None or g_k_out is None:
    one = [None if g is None else ops.rope(g, cos, sin, positions, **how)
           for g in (g_q_out, g_k_out)]
    return one[0], one[1], None, None, None
q, k = ops.rope_qk(g_q_out, g_k_out, cos, sin, positions, **how)
return q, k, None, None, None
)";
inline constexpr std::string_view kRopeGradient = kJoined<kBackInTorch, kOneGradient>;
inline constexpr std::string_view kRopeQkGradient = kJoined<kBackInTorch, kBothGradients>;

}  // namespace ws::rope
