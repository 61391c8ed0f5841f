// Batch and group norm in torch: the formula, which tests and gradients are held against, and what
// torch's users call.
#pragma once

#include "catalogue/joined.hpp"

namespace ws::batch_norm {

// Everything in f32 or wider; across: the shape of channels in x.
inline constexpr std::string_view kWide = R"(
wide = lambda t: None if t is None else (t if t.dtype == torch.float64 else t.float())
across = (1, -1) + (1,) * (x.dim() - 2)
every = [d for d in range(x.dim()) if d != 1]
)";
inline constexpr std::string_view kScaled = R"(
normal = (wide(x) - m.view(across)) * r.view(across)
if weight is not None:
    normal = normal * wide(weight).view(across)
if bias is not None:
    normal = normal + wide(bias).view(across)
)";
inline constexpr std::string_view kOwnStatistics = R"(
m = wide(x).mean(every)
v = wide(x).var(every, unbiased=False)
r = (v + eps).rsqrt()
)";
inline constexpr std::string_view kForwardResult = R"(
return normal.to(x.dtype), m, r
)";
inline constexpr std::string_view kForwardInTorch =
    kJoined<kWide, kOwnStatistics, kScaled, kForwardResult>;
inline constexpr std::string_view kTrainingResult = R"(
n = x.numel() // max(x.shape[1], 1)
moved = lambda old, new: (wide(old) * (1 - momentum) + momentum * new).to(old.dtype)
return (moved(running_mean, m), moved(running_var, v * n / max(n - 1, 1)),
        normal.to(x.dtype), m, r)
)";
inline constexpr std::string_view kTrainingInTorch =
    kJoined<kWide, kOwnStatistics, kScaled, kTrainingResult>;
inline constexpr std::string_view kGivenStatistics = R"(
m = wide(running_mean)
r = (wide(running_var) + eps).rsqrt()
)";
inline constexpr std::string_view kInferenceResult = R"(
return normal.to(x.dtype)
)";
inline constexpr std::string_view kInferenceInTorch =
    kJoined<kWide, kGivenStatistics, kScaled, kInferenceResult>;

inline constexpr std::string_view kBackwardInTorch = R"(
across = (1, -1) + (1,) * (x.dim() - 2)
every = [d for d in range(x.dim()) if d != 1]
wide = lambda t: t if t.dtype == torch.float64 else t.float()
n = max(x.numel() // max(x.shape[1], 1), 1)
z = (wide(x) - mean.view(across)) * rstd.view(across)
g = wide(grad)
dweight, dbias = (g * z).sum(every), g.sum(every)
d = g - (dbias.view(across) + z * dweight.view(across)) / n if training else g
d = d * rstd.view(across) * (1 if weight is None else wide(weight).view(across))
to = torch.float32 if weight is None else weight.dtype
return d.to(x.dtype), dweight.to(to), dbias.to(to)
)";

// x as [N, groups, channels of a group and positions].
inline constexpr std::string_view kGrouped = R"(
wide = lambda t: None if t is None else (t if t.dtype == torch.float64 else t.float())
across = (1, -1) + (1,) * (x.dim() - 2)
every = [d for d in range(x.dim()) if d != 1]
grouped = lambda t: t.reshape(t.shape[0], groups, t[0].numel() // groups if len(t) else 0)
)";
inline constexpr std::string_view kGroupForward = R"(
h = grouped(wide(x))
m = h.mean(-1)
r = (h.var(-1, unbiased=False) + eps).rsqrt()
normal = ((h - m[..., None]) * r[..., None]).view(x.shape)
if weight is not None:
    normal = normal * wide(weight).view(across)
if bias is not None:
    normal = normal + wide(bias).view(across)
return normal.to(x.dtype), m, r
)";
inline constexpr std::string_view kGroupForwardInTorch = kJoined<kGrouped, kGroupForward>;
inline constexpr std::string_view kGroupBackward = R"(
g = wide(grad)
z = ((grouped(wide(x)) - mean[..., None]) * rstd[..., None]).view(x.shape)
dweight, dbias = (g * z).sum(every), g.sum(every)
u = grouped(g if weight is None else g * wide(weight).view(across))
h = grouped(z)
d = u - u.mean(-1, True) - h * (u * h).mean(-1, True)
d = (d * rstd[..., None]).view(x.shape)
to = torch.float32 if weight is None else weight.dtype
return d.to(x.dtype), dweight.to(to), dbias.to(to)
)";
inline constexpr std::string_view kGroupBackwardInTorch = kJoined<kGrouped, kGroupBackward>;

// Through mean and rstd too, where somebody uses them.
inline constexpr std::string_view kForwardGradient = R"(
dx, dweight, dbias = ops.batch_norm_backward(
    torch.zeros_like(x) if g_y is None else g_y, x, mean, rstd, weight)
n = x.numel() // max(x.shape[1], 1)
across = (1, -1) + (1,) * (x.dim() - 2)
if g_mean is not None:
    dx = (dx + (g_mean / n).view(across)).to(x.dtype)
if g_rstd is not None:
    slope = (g_rstd * rstd ** 3 / n).view(across)
    dx = (dx - slope * (x - mean.view(across))).to(x.dtype)
return (dx, None if weight is None else dweight,
        None if bias is None else dbias.to(bias.dtype)))";
inline constexpr std::string_view kInferenceGradient = R"(
r = (running_var.float() + eps).rsqrt()
dx, dweight, dbias = ops.batch_norm_backward(
    g, x, running_mean.float(), r, weight, training=False)
scale = -r if weight is None else -r * weight
return (dx, (dbias * scale).to(running_mean.dtype),
        (0.5 * r * dweight * scale).to(running_var.dtype),
        None if weight is None else dweight, None if bias is None else dbias.to(bias.dtype)))";
inline constexpr std::string_view kGroupForwardGradient = R"(
dx, dweight, dbias = ops.group_norm_backward(
    torch.zeros_like(x) if g_y is None else g_y, x, mean, rstd, weight, groups=groups)
n = x[:1].numel() // groups
spread = lambda t: t.repeat_interleave(x.shape[1] // groups, 1).view(
    x.shape[:2] + (1,) * (x.dim() - 2))
if g_mean is not None:
    dx = (dx + spread(g_mean / n)).to(x.dtype)
if g_rstd is not None:
    dx = (dx - spread(g_rstd * rstd ** 3 / n) * (x - spread(mean))).to(x.dtype)
return (dx, None if weight is None else dweight,
        None if bias is None else dbias.to(bias.dtype)))";

// Second gradients, where mean and rstd are inputs of their own. m, r: across x; average and
// of_set: over the elements that have one mean. The projection that dx is of u is symmetric.
inline constexpr std::string_view kChannelSets = R"(
m, r = wide(mean).view(across), wide(rstd).view(across)
average = (lambda t: t.mean(every, True)) if training else (lambda t: 0)
of_set = lambda t: t.sum(every)
)";
inline constexpr std::string_view kGroupSets = R"(
spread = lambda t: t.repeat_interleave(x.shape[1] // groups, 1).view(
    x.shape[:2] + (1,) * (x.dim() - 2))
m, r = spread(wide(mean)), spread(wide(rstd))
average = lambda t: spread(grouped(t).mean(-1))
of_set = lambda t: grouped(t).sum(-1)
)";
inline constexpr std::string_view kSetsCurved = R"(
h, dy = wide(x), wide(grad)
w = 1 if weight is None else wide(weight).view(across)
away = h - m
z, u = away * r, dy * w
of_dx = torch.zeros_like(h) if g_dx is None else wide(g_dx)
q = of_dx * r
inner, outer = average(u * z), average(q * z)
du = q - average(q) - z * outer
dz = -q * inner - u * outer
dr = of_dx * (u - average(u) - z * inner)
dgrad = du * w
if g_dweight is not None:
    scale = wide(g_dweight).view(across)
    dgrad = dgrad + scale * z
    dz = dz + scale * dy
if g_dbias is not None:
    dgrad = dgrad + wide(g_dbias).view(across)
return (dgrad.to(grad.dtype), (dz * r).to(x.dtype), of_set(-dz * r).to(mean.dtype),
        of_set(dr + dz * away).to(rstd.dtype),
        None if weight is None else (dy * du).sum(every).to(weight.dtype))
)";
inline constexpr std::string_view kBackwardCurved = kJoined<kWide, kChannelSets, kSetsCurved>;
inline constexpr std::string_view kGroupBackwardCurved = kJoined<kGrouped, kGroupSets, kSetsCurved>;

// ---- What others call ---------------------------------------------------------------------------

inline constexpr std::string_view kTorchUsers = R"(
return torch.nn.functional.batch_norm(x, None, None, weight, bias, True, 0.1, eps))";
inline constexpr std::string_view kTorchUsersTraining = R"(
return torch.nn.functional.batch_norm(
    x, running_mean, running_var, weight, bias, True, momentum, eps))";
inline constexpr std::string_view kTorchUsersInference = R"(
return torch.nn.functional.batch_norm(
    x, running_mean, running_var, weight, bias, False, 0.1, eps))";
inline constexpr std::string_view kTorchUsersBackward = R"(
return torch.ops.aten.native_batch_norm_backward(
    grad, x, weight, mean, rstd, mean, rstd, training, 1e-5, [True, True, True]))";
inline constexpr std::string_view kCudnn = R"(
if weight is None or bias is None or weight.dtype != torch.float32:
    refuse('takes weight and bias of f32')
return torch.cudnn_batch_norm(x, weight, bias, None, None, True, 0.1, eps))";
inline constexpr std::string_view kCudnnTraining = R"(
if weight is None or bias is None or weight.dtype != torch.float32:
    refuse('takes weight and bias of f32')
return torch.cudnn_batch_norm(
    x, weight, bias, running_mean, running_var, True, momentum, eps))";
// The forward's reserve, which cuDNN wants back, is made in the first call, which is not timed.
inline constexpr std::string_view kCudnnBackward = R"(
if weight is None or weight.dtype != torch.float32 or not training:
    refuse('takes a weight of f32, and training')
reserve = weight.__dict__.get('_warpsmith_reserve')
if reserve is None:
    reserve = torch.cudnn_batch_norm(
        x, weight, torch.zeros_like(weight), None, None, True, 0.1, 1e-5)[3]
    weight._warpsmith_reserve = reserve
return torch.ops.aten.cudnn_batch_norm_backward(
    x, grad, weight, None, None, mean, rstd, 1e-5, reserve))";
inline constexpr std::string_view kTorchUsersGroup = R"(
w = None if weight is None else weight.to(x.dtype)
b = None if bias is None else bias.to(x.dtype)
return torch.nn.functional.group_norm(x, groups, w, b, eps))";
inline constexpr std::string_view kTorchUsersGroupBackward = R"(
w = None if weight is None else weight.to(x.dtype)
m, r = mean.to(x.dtype), rstd.to(x.dtype)
# torch's kernels take rows of one channel: its autograd copies others first, as this does.
return torch.ops.aten.native_group_norm_backward(
    grad.contiguous(), x.contiguous(), m, r, w, x.shape[0], x.shape[1], x[0, 0].numel(), groups, [True, True, True]))";

}  // namespace ws::batch_norm
