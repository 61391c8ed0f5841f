// The formulas over torch's tensors, for what the catalogue says in Python: texts that define
// functions, of a call's names.
#pragma once

#include "catalogue/joined.hpp"

namespace ws::linear_attention {

// All pairs of steps, as attention has them: no loop, S^2 work. What decays by less than e^-1000
// is gone in any dtype, and -inf among the sums would be NaN.
inline constexpr std::string_view kPairsInTorch = R"(
import math

def wide(x):
    return x.double() if x.dtype == torch.float64 else x.float()

def every(x, heads):
    return wide(x if x.shape[1] == heads else x.repeat_interleave(heads // x.shape[1], 1))

def sums_of(log_decay, q, heads):
    if log_decay is None:
        return wide(q).new_zeros(q.shape[0], heads, q.shape[2])
    return log_decay.to(wide(q).dtype).clamp_min(-1000).cumsum(-1)

def decays_of(sums):
    steps = sums.shape[-1]
    seen = torch.ones(steps, steps, dtype=torch.bool, device=sums.device).tril()
    return (sums[..., :, None] - sums[..., None, :]).masked_fill(~seen, -math.inf).exp()

def to_end_of(sums):
    return (sums[..., -1:] - sums).exp()[..., None]

def whole_of(sums):
    return sums[..., -1:, None].exp() if sums.shape[-1] else 1.0
)";

inline constexpr std::string_view kForwardCall = R"(
heads = max(q.shape[1], k.shape[1], v.shape[1])
a, b, c = every(q, heads), every(k, heads), every(v, heads)
sums = sums_of(log_decay, q, heads)
out = ((a @ b.mT) * decays_of(sums)) @ c
final = (b * to_end_of(sums)).mT @ c
if initial_state is not None:
    out = out + sums.exp()[..., None] * (a @ initial_state.to(a.dtype))
    final = final + whole_of(sums) * initial_state
return (out * scale).to(q.dtype), final.to(torch.promote_types(q.dtype, torch.float32)) \
    if output_final_state else None
)";
inline constexpr std::string_view kForwardInTorch = kJoined<kPairsInTorch, kForwardCall>;

inline constexpr std::string_view kBackwardCall = R"(
a, b, c, g = wide(q), wide(k), wide(v), wide(dout)
sums = sums_of(log_decay, q, q.shape[1])
decays = decays_of(sums) * scale
pairs = (g @ c.mT) * decays
dq, dk = pairs @ b, pairs.mT @ a
dv = ((a @ b.mT) * decays).mT @ g
before, to_end = sums.exp()[..., None], to_end_of(sums)
dinitial = scale * (a * before).mT @ g
constant = 0
if initial_state is not None:
    dq = dq + scale * before * (g @ initial_state.to(a.dtype).mT)
if dfinal_state is not None:
    d = dfinal_state.to(a.dtype)
    dk = dk + to_end * (c @ d.mT)
    dv = dv + to_end * (b @ d)
    dinitial = dinitial + whole_of(sums) * d
    final = (b * to_end).mT @ c
    if initial_state is not None:
        final = final + whole_of(sums) * initial_state
    constant = (d * final).sum((-1, -2))[..., None]
dots = ((a * dq).sum(-1) - (b * dk).sum(-1)).flip(-1).cumsum(-1).flip(-1) + constant
state = torch.promote_types(q.dtype, torch.float32)
return (dq.to(q.dtype), dk.to(q.dtype), dv.to(q.dtype),
        None if log_decay is None else dots.to(state),
        None if initial_state is None else dinitial.to(state))
)";
inline constexpr std::string_view kBackwardInTorch = kJoined<kPairsInTorch, kBackwardCall>;

// Heads that are shared gather the gradients of all that share them. That of a sum repeats one
// number, by strides that only the lower rungs take: dense it is quicker.
inline constexpr std::string_view kSharedHeads = R"(
heads = out.shape[1]
every = lambda x: x if x.shape[1] == heads else x.repeat_interleave(heads // x.shape[1], 1)
own = lambda d, x: d if x.shape[1] == heads else d.unflatten(1, (x.shape[1], -1)).sum(2)
dout = torch.zeros(out.shape, dtype=out.dtype, device=out.device) if g_out is None \
    else g_out.contiguous()
dfinal_state = g_final_state if output_final_state else None)";
inline constexpr std::string_view kGradientCall = R"(
dq, dk, dv, da, di = ops.linear_attention_backward(
    every(q), every(k), every(v), dout, log_decay, initial_state, dfinal_state, scale=scale)
return (own(dq, q), own(dk, k), own(dv, v), None if log_decay is None else da,
        None if initial_state is None else di))";
inline constexpr std::string_view kGradientInTorch = kJoined<kSharedHeads, kGradientCall>;

inline constexpr std::string_view kDeltaGradientCall = R"(
dq, dk, dv, db, da, di = ops.delta_rule_backward(
    every(q), every(k), every(v), beta, dout, log_decay, initial_state, dfinal_state, scale=scale)
return (own(dq, q), own(dk, k), own(dv, v), db, None if log_decay is None else da,
        None if initial_state is None else di))";
inline constexpr std::string_view kDeltaGradientInTorch = kJoined<kSharedHeads, kDeltaGradientCall>;

// Step by step.
inline constexpr std::string_view kDeltaCall = R"(
heads = max(q.shape[1], k.shape[1], v.shape[1])
a, b, c = every(q, heads), every(k, heads), every(v, heads)
state = a.new_zeros(*a.shape[:2], a.shape[3], c.shape[3])
if initial_state is not None:
    state = initial_state.to(a.dtype)
outs = []
for t in range(a.shape[2]):
    if log_decay is not None:
        state = state * log_decay[:, :, t, None, None].to(a.dtype).exp()
    key = b[:, :, t, :, None]
    change = beta[:, :, t, None].to(a.dtype) * (c[:, :, t] - (key * state).sum(2))
    state = state + key * change[:, :, None]
    outs.append((a[:, :, t, :, None] * state).sum(2) * scale)
out = torch.stack(outs, 2) if outs else c.new_zeros(*a.shape[:3], c.shape[3])
return out.to(q.dtype), state.to(torch.promote_types(q.dtype, torch.float32)) \
    if output_final_state else None
)";
inline constexpr std::string_view kDeltaInTorch = kJoined<kPairsInTorch, kDeltaCall>;

inline constexpr std::string_view kDeltaBackwardCall = R"(
a, b, c, g = wide(q), wide(k), wide(v), wide(dout)
weight = beta.to(a.dtype)
steps = a.shape[2]
decays = None if log_decay is None else log_decay.to(a.dtype).exp()
state = a.new_zeros(*a.shape[:2], a.shape[3], c.shape[3])
d = state if dfinal_state is None else dfinal_state.to(a.dtype)
if initial_state is not None:
    state = initial_state.to(a.dtype)
before, errors, after = [], [], []
for t in range(steps):
    if decays is not None:
        state = state * decays[:, :, t, None, None]
    before.append(state)
    key = b[:, :, t, :, None]
    errors.append(c[:, :, t] - (key * state).sum(2))
    state = state + key * (weight[:, :, t, None] * errors[t])[:, :, None]
    after.append(state)
dq, dk, dv, dbeta, dots = ([None] * steps for _ in range(5))
for t in reversed(range(steps)):
    key, grad = b[:, :, t, :, None], g[:, :, t, None]
    d = d + scale * a[:, :, t, :, None] * grad
    said = (key * d).sum(2)
    dq[t] = scale * (after[t] * grad).sum(3)
    dv[t] = weight[:, :, t, None] * said
    dk[t] = weight[:, :, t, None] * (d * errors[t][:, :, None]).sum(3) \
        - (before[t] * dv[t][:, :, None]).sum(3)
    dbeta[t] = (errors[t] * said).sum(-1)
    d = d - key * dv[t][:, :, None]
    dots[t] = (d * before[t]).sum((-1, -2))
    if decays is not None:
        d = d * decays[:, :, t, None, None]
full = torch.promote_types(q.dtype, torch.float32)
stack = lambda rows, like, dtype: \
    torch.stack(rows, 2).to(dtype) if steps else torch.zeros_like(like, dtype=dtype)
return (stack(dq, q, q.dtype), stack(dk, k, k.dtype), stack(dv, v, v.dtype),
        stack(dbeta, beta, full), None if log_decay is None else stack(dots, log_decay, full),
        None if initial_state is None else d.to(full))
)";
inline constexpr std::string_view kDeltaBackwardInTorch =
    kJoined<kPairsInTorch, kDeltaBackwardCall>;

}  // namespace ws::linear_attention
