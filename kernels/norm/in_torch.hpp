// The second gradients of layer and rms norm in torch: those of what the backward operations
// compute.
#pragma once

#include "catalogue/joined.hpp"

namespace ws::norm {

// m and r are inputs of their own where the call has them; else they are of x.
inline constexpr std::string_view kWideRows = R"(
wide = lambda t: t if t.dtype == torch.float64 else t.float()
average = lambda t: t.mean(-1, True)
h, dy = wide(x), wide(grad)
)";
inline constexpr std::string_view kCentredRows = R"(
centred = lambda t: t - average(t)
m = average(h) if mean is None else wide(mean)[..., None]
shift = None if g_dbias is None else wide(g_dbias)
)";
inline constexpr std::string_view kRowsAsTheyAre = R"(
centred = lambda t: t
m = shift = None
)";
// The projection that dx is of u is symmetric: it is that of its gradient, too.
inline constexpr std::string_view kRowsCurved = R"(
away = h if m is None else h - m
r = (average(away ** 2) + eps).rsqrt() if rstd is None else wide(rstd)[..., None]
z = away * r
u = dy if weight is None else dy * wide(weight)
of_dx = torch.zeros_like(h) if g_dx is None else wide(g_dx)
q = of_dx * r
inner, outer = average(u * z), average(q * z)
du = centred(q) - z * outer
dz = -q * inner - u * outer
dr = (of_dx * (centred(u) - z * inner)).sum(-1, True)
dgrad = du if weight is None else du * wide(weight)
if g_dweight is not None:
    dgrad = dgrad + wide(g_dweight) * z
    dz = dz + wide(g_dweight) * dy
if shift is not None:
    dgrad = dgrad + shift
dr = dr + (dz * away).sum(-1, True)
daway = dz * r
dx = daway if rstd is not None else centred(daway) - dr * r ** 2 * z / h.shape[-1]
dweight = None if weight is None else sum_to(dy * du, weight.shape).to(weight.dtype)
)";
inline constexpr std::string_view kLayerNormResult = R"(
return (dgrad.to(grad.dtype), dx.to(x.dtype), dweight,
        None if mean is None else -daway.sum(-1).to(mean.dtype),
        None if rstd is None else dr[..., 0].to(rstd.dtype))
)";
inline constexpr std::string_view kRmsNormResult = R"(
return (dgrad.to(grad.dtype), dx.to(x.dtype), dweight,
        None if rstd is None else dr[..., 0].to(rstd.dtype))
)";
inline constexpr std::string_view kLayerNormCurved =
    kJoined<kWideRows, kCentredRows, kRowsCurved, kLayerNormResult>;
inline constexpr std::string_view kRmsNormCurved =
    kJoined<kWideRows, kRowsAsTheyAre, kRowsCurved, kRmsNormResult>;

}  // namespace ws::norm
