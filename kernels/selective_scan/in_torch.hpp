// The selective scan in torch: the recurrence, a step at a time, which tests are held against, and
// what users of others call.
#pragma once

#include "catalogue/joined.hpp"

namespace ws::selective_scan {

inline constexpr std::string_view kScanInTorch = R"(
wide = torch.float64 if u.dtype == torch.float64 else torch.float32
def of_channels(m, dim):
    m = m[:, None] if m.dim() == 3 else m
    return m.repeat_interleave(dim // max(m.shape[1], 1), 1)
def scan(x, s, a, b, c, d, z, delta_bias, state=None):
    if delta_bias is not None:
        s = s + delta_bias[:, None]
    if delta_softplus:
        s = torch.nn.functional.softplus(s)
    bs, cs = of_channels(b, x.shape[1]), of_channels(c, x.shape[1])
    decay = torch.exp(s[:, :, None] * a[:, :, None])
    inflow = (s * x)[:, :, None] * bs
    state = torch.zeros_like(decay[..., :1].sum(-1)) if state is None else state
    ys = []
    for t in range(x.shape[2]):
        state = decay[..., t] * state + inflow[..., t]
        ys.append((state * cs[..., t]).sum(-1))
    y = torch.stack(ys, -1) if ys else torch.zeros_like(x)
    if d is not None:
        y = y + d[:, None] * x
    if z is not None:
        y = y * torch.nn.functional.silu(z)
    return y, state
)";
inline constexpr std::string_view kForwardResult = R"(
y, state = scan(u.to(wide), delta.to(wide), a, b.to(wide), c.to(wide), d,
                None if z is None else z.to(wide), delta_bias, initial_state)
return y.to(u.dtype), state if return_last_state else None
)";
inline constexpr std::string_view kForwardInTorch = kJoined<kScanInTorch, kForwardResult>;

inline constexpr std::string_view kBackwardResult = R"(
with torch.inference_mode(False), torch.enable_grad():
    own = lambda x: x.clone().detach().to(wide)
    zeros = torch.zeros(a.shape[0], dtype=wide, device=a.device)
    given = [u, delta, a, b, c, zeros if d is None else d, z,
             zeros if delta_bias is None else delta_bias]
    leaves = [None if x is None else own(x).requires_grad_() for x in given]
    leaves.append(None if states is None else own(states[0]).requires_grad_())
    y, last = scan(*leaves)
    there = [x for x in leaves if x is not None]
    y = y + sum(0 * x.sum() for x in there)
    along = torch.zeros_like(last) if states is None else own(states[1])
    found = iter(torch.autograd.grad((y, last + 0 * y.sum()), there, (own(g), along)))
du, ddelta, da, db, dc, dd, dz, dbias, dx = [None if x is None else next(found) for x in leaves]
return (du.to(u.dtype), ddelta.to(u.dtype), torch.stack((db, dc)).to(u.dtype),
        torch.cat((da.T, dd[None], dbias[None])).to(a.dtype), None if z is None else dz.to(u.dtype),
        None if states is None else dx.to(a.dtype))
)";
inline constexpr std::string_view kBackwardInTorch = kJoined<kScanInTorch, kBackwardResult>;

inline constexpr std::string_view kGradientInTorch = R"(
g_last = g_last_state if return_last_state else None
states = None
if initial_state is not None or g_last is not None:
    none = torch.zeros_like(g_last if initial_state is None else initial_state)
    states = torch.stack([none if x is None else x for x in (initial_state, g_last)])
du, ddelta, dgroup, dchannel, dz, dinitial = ops.selective_scan_backward(
    u, delta, a, b, c, torch.zeros_like(u) if g_out is None else g_out, d, z, delta_bias, states,
    delta_softplus=delta_softplus)
return (du, ddelta, dchannel[:-2].T, dgroup[0], dgroup[1], None if d is None else dchannel[-2],
        None if z is None else dz, None if delta_bias is None else dchannel[-1],
        None if initial_state is None else dinitial))";

inline constexpr std::string_view kMamba = R"(
if initial_state is not None:
    refuse('begins at 0')
return mamba_ssm.ops.selective_scan_interface.selective_scan_fn(
    u, delta, a, b, c, d, z, delta_bias, delta_softplus, return_last_state))";

}  // namespace ws::selective_scan
