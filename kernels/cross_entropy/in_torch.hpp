// Cross-entropy in torch: the formula, which tests and gradients are held against, and what its
// users and those of other packages call.
#pragma once

#include "catalogue/joined.hpp"

namespace ws::cross_entropy {

// x in f32 or wider, which rows count, their targets and weights. A wrong target is the kernel's to
// tell.
inline constexpr std::string_view kRowsInTorch = R"(
x = logits if logits.dtype == torch.float64 else logits.float()
n = x.shape[-1]
kept = target != ignore_index
at = torch.where(kept, target, 0).long().clamp(0, max(n - 1, 0))
c = x.new_ones(n) if weight is None else weight.detach().to(x.dtype)
w = c[at]
)";
inline constexpr std::string_view kRowLossInTorch = R"(
lse = torch.logsumexp(x, -1)
loss = (1 - label_smoothing) * w * (lse - x.gather(-1, at[..., None])[..., 0])
if label_smoothing:
    loss = loss + label_smoothing / max(n, 1) * (c.sum() * lse - (x * c).sum(-1))
loss = torch.where(kept, loss + z_loss * lse ** 2, 0)
)";
inline constexpr std::string_view kLossResult = R"(
return loss, torch.where(kept, lse, 0)
)";
inline constexpr std::string_view kLossInTorch =
    kJoined<kRowsInTorch, kRowLossInTorch, kLossResult>;

// g: of each loss.
inline constexpr std::string_view kRowGradientInTorch = R"(
g = g.to(x.dtype)
a = g * ((1 - label_smoothing) * w + label_smoothing / max(n, 1) * c.sum() + 2 * z_loss * lse)
d = a[..., None] * (x - lse[..., None].to(x.dtype)).exp()
d = d - (g * (label_smoothing / max(n, 1)))[..., None] * c
d = d.scatter_add(-1, at[..., None], -(g * (1 - label_smoothing) * w)[..., None])
d = torch.where(kept[..., None], d, 0).to(logits.dtype)
)";
inline constexpr std::string_view kGivenGradient = R"(
g = dloss
)";
inline constexpr std::string_view kBackwardResult = R"(
return d
)";
inline constexpr std::string_view kBackwardInTorch =
    kJoined<kRowsInTorch, kGivenGradient, kRowGradientInTorch, kBackwardResult>;
inline constexpr std::string_view kScaledGradient = R"(
g = torch.full_like(loss, scale) if dloss is None else dloss * scale
)";
inline constexpr std::string_view kFusedResult = R"(
return d, loss, torch.where(kept, lse, 0)
)";
inline constexpr std::string_view kFusedInTorch =
    kJoined<kRowsInTorch, kRowLossInTorch, kScaledGradient, kRowGradientInTorch, kFusedResult>;

// Through lse too, where somebody uses it.
inline constexpr std::string_view kGradientInTorch = R"(
d = ops.cross_entropy_backward(
    logits, target, lse, torch.zeros_like(lse) if g_loss is None else g_loss, weight,
    ignore_index=ignore_index, label_smoothing=label_smoothing, z_loss=z_loss)
if g_lse is not None:
    kept = (target != ignore_index)[..., None]
    p = torch.where(kept, logits - lse[..., None], -torch.inf).exp()
    d = (d + torch.where(kept, g_lse[..., None], 0) * p).to(logits.dtype)
return d, None, None)";
// The second one. What a row that does not count has is no number's: its lse is 0.
inline constexpr std::string_view kRowCurvedInTorch = R"(
p = torch.where(kept[..., None], x - lse[..., None].to(x.dtype), -torch.inf).exp()
g = torch.where(kept[..., None], g.to(x.dtype), 0)
k = torch.where(kept, dloss.to(x.dtype), 0)
share = label_smoothing / max(n, 1)
a = (1 - label_smoothing) * w + share * c.sum() + 2 * z_loss * lse
inner = (g * p).sum(-1)
of_target = (1 - label_smoothing) * w * g.gather(-1, at[..., None])[..., 0]
return (((k * a)[..., None] * g * p).to(logits.dtype), None,
        (k * (2 * z_loss - a) * inner).to(lse.dtype),
        (a * inner - of_target - share * (g * c).sum(-1)).to(dloss.dtype), None)
)";
inline constexpr std::string_view kBackwardCurved = kJoined<kRowsInTorch, kRowCurvedInTorch>;

// ---- What others call ---------------------------------------------------------------------------

inline constexpr std::string_view kTorchUsers = R"(
if z_loss:
    refuse('has no z_loss')
return torch.nn.functional.cross_entropy(
    logits.reshape(-1, logits.shape[-1]), target.reshape(-1).long(), weight,
    ignore_index=ignore_index, label_smoothing=label_smoothing, reduction='none'))";
inline constexpr std::string_view kTorchUsersBoth = R"(
if z_loss or (dloss is not None):
    refuse('has no z_loss, and sums losses')
with torch.enable_grad():
    x = logits.detach().reshape(-1, logits.shape[-1]).requires_grad_()
    loss = torch.nn.functional.cross_entropy(
        x, target.reshape(-1).long(), weight, ignore_index=ignore_index,
        label_smoothing=label_smoothing, reduction='sum')
    return torch.autograd.grad(loss, x))";
inline constexpr std::string_view kQuack = R"(
if weight is not None or label_smoothing or z_loss or logits.dim() != 2:
    refuse('takes no weights, label_smoothing or z_loss')
return quack.cross_entropy.cross_entropy_fwd(
    logits, target, ignore_index=ignore_index, return_lse=True))";
inline constexpr std::string_view kQuackBackward = R"(
if weight is not None or label_smoothing or z_loss or logits.dim() != 2:
    refuse('takes no weights, label_smoothing or z_loss')
return quack.cross_entropy.cross_entropy_bwd(
    logits, target, dloss, lse, ignore_index=ignore_index))";
inline constexpr std::string_view kQuackFused = R"(
if weight is not None or label_smoothing or z_loss or logits.dim() != 2 or dloss is not None:
    refuse('takes no weights, label_smoothing, z_loss or dloss')
return quack.cross_entropy.cross_entropy_fwd(
    logits, target, ignore_index=ignore_index, return_lse=True, return_dx=True,
    inplace_backward=True))";
// With its gradient, which it computes in the forward.
inline constexpr std::string_view kLiger = R"(
if weight is not None or z_loss or logits.dim() != 2:
    refuse('takes no weights here')
return liger_kernel.transformers.functional.liger_cross_entropy(
    logits, target, ignore_index=ignore_index, label_smoothing=label_smoothing, reduction='none'))";

}  // namespace ws::cross_entropy
