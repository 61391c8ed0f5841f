// Rotary position embedding in torch: the formula, which tests and gradients are held against, and
// how others are called.
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

// ---- What others call ---------------------------------------------------------------------------

// A tensor a call, into memory of its own.
inline constexpr std::string_view kTurnedByQuack = R"(
if cos is None or cos.dim() != 2 or positions is not None:
    refuse('takes tables of [T, columns], and the positions 0, 1, 2, ...')
def turned(x):
    x = x[(None,) * (4 - x.dim())]
    return quack.rotary.apply_rotary(
        x.transpose(1, 2) if heads_first else x, cos, sin, interleaved=interleaved,
        conjugate=inverse)
)";
inline constexpr std::string_view kRopeOfQuack = kJoined<kTurnedByQuack, kOneResult>;
inline constexpr std::string_view kRopeQkOfQuack = kJoined<kTurnedByQuack, kBothResults>;

// It turns in place, which moves as many bytes: the outputs, so that the inputs stay as they are.
inline constexpr std::string_view kRopeQkOfLiger = R"(
if cos is None or cos.dim() != 2 or positions is not None or interleaved:
    refuse('takes halves, tables of [T, columns], and the positions 0, 1, 2, ...')
if 2 * cos.shape[-1] != q.shape[-1]:
    refuse('turns in place, and leaves there what does not turn')
if heads_first or not (q_out.is_contiguous() and k_out.is_contiguous()):
    refuse('copies first what is not contiguous [B, S, H, D]')
both = [t[(None,) * (4 - t.dim())].transpose(1, 2) for t in (q_out, k_out)]
turn = liger_kernel.ops.rope.rope_backward if inverse else liger_kernel.ops.rope.rope_forward
return turn(*both, cos, sin, rotary_dim=q.shape[-1])
)";

}  // namespace ws::rope
