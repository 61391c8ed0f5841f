// wkv in torch: the recurrence, a step at a time, which tests and gradients are held against.
#pragma once

#include "catalogue/joined.hpp"

namespace ws::wkv {

inline constexpr std::string_view kLoopInTorch = R"(
wide = torch.float64 if k.dtype == torch.float64 else torch.float32
def loop(ks, vs, w, u):
    if state is None:
        p = q = torch.zeros_like(ks[:, :1].sum(1))
        o = torch.full_like(p, -1e38)
    else:
        p, q, o = state.unbind(1)
    outs = []
    for t in range(ks.shape[1]):
        here = torch.maximum(o, u + ks[:, t])
        before, own = torch.exp(o - here), torch.exp(u + ks[:, t] - here)
        outs.append((before * p + own * vs[:, t]) / (before * q + own))
        here = torch.maximum(w + o, ks[:, t])
        before, own = torch.exp(w + o - here), torch.exp(ks[:, t] - here)
        p, q, o = before * p + own * vs[:, t], before * q + own, here
    return torch.stack(outs, 1) if outs else ks * vs, torch.stack((p, q, o), 1)
)";
inline constexpr std::string_view kForwardResult = R"(
out, last = loop(k.to(wide), v.to(wide), w, u)
return out.to(k.dtype), last if return_state else None
)";
inline constexpr std::string_view kForwardInTorch = kJoined<kLoopInTorch, kForwardResult>;

inline constexpr std::string_view kBackwardResult = R"(
with torch.inference_mode(False), torch.enable_grad():
    own = lambda x: x.clone().detach().to(wide)
    given = (k, v, w, u) if state is None else (k, v, w, u, state)
    leaves = [own(x).requires_grad_() for x in given]
    state = None if state is None else leaves[4]
    out, last = loop(*leaves[:4])
    along = torch.zeros_like(last) if g_last_state is None else own(g_last_state)
    found = torch.autograd.grad((out, last), leaves, (own(g), along), allow_unused=True)
gk, gv, gw, gu, *gstate = [torch.zeros_like(x) if y is None else y
                           for x, y in zip(leaves, found, strict=True)]
return (gk.to(k.dtype), gv.to(k.dtype), gw.to(w.dtype), gu.to(u.dtype),
        gstate[0].to(w.dtype) if gstate else None)
)";
inline constexpr std::string_view kBackwardInTorch = kJoined<kLoopInTorch, kBackwardResult>;

inline constexpr std::string_view kGradientInTorch = R"(
gk, gv, gw, gu, gstate = ops.wkv_backward(
    k, v, w, u, torch.zeros_like(k) if g_out is None else g_out, state,
    g_last_state if return_state else None)
return gk, gv, gw, gu, gstate)";

}  // namespace ws::wkv
