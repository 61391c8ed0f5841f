// What others' attention is called from Python, on the bench loop's own tensors: each reads rows
// where they lie, and makes its own outputs, the logarithm of the sums too.
//
// `torch` is what its user calls; the formula of operations.hpp, which holds all scores in memory,
// only where torch has no function of its own for a call. The private operators are those that
// scaled_dot_product_attention calls once it has chosen: the choice is made here by name.
#pragma once

#include "catalogue/joined.hpp"
#include "catalogue/row.hpp"
#include "kernels/attention/formula_in_torch.hpp"

namespace ws::attention {

// What torch's own functions take beside a window or a bias.
inline constexpr std::string_view kPlainInTorch = R"(
sees = window_left < 0 and (causal or window_right < 0)
plain = sees and not softcap and alibi_slopes is None and sinks is None
)";
inline constexpr std::string_view kSdpaInTorch = R"(
if plain and not (causal and (bias is not None or q.shape[2] != k.shape[2])):
    return torch.nn.functional.scaled_dot_product_attention(
        q, k, v, attn_mask=bias, is_causal=causal, scale=scale,
        enable_gqa=q.shape[1] != k.shape[1])
return attend(q, k, v, bias, alibi_slopes)
)";
inline constexpr std::string_view kTorchUsers =
    kJoined<kAttendInTorch, kPlainInTorch, kSdpaInTorch>;

inline constexpr std::string_view kCudnnInTorch = R"(
if not plain or q.dtype == torch.float32 or (bias is not None and bias.dtype != q.dtype):
    refuse('takes f16 and bf16, causal, and a bias of that dtype')
if causal and q.shape[2] != k.shape[2]:
    refuse('aligns causal at the top left')
return torch.ops.aten._scaled_dot_product_cudnn_attention(
    q, k, v, bias, True, 0.0, causal, False, scale=scale)[:2]
)";
inline constexpr std::string_view kCudnn = kJoined<kPlainInTorch, kCudnnInTorch>;

inline constexpr std::string_view kFlashInTorch = R"(
if not plain or bias is not None or q.dtype == torch.float32 or q.shape[3] != v.shape[3]:
    refuse('takes f16 and bf16, one head dim, and causal')
return torch.ops.aten._scaled_dot_product_flash_attention(
    q, k, v, 0.0, causal, False, scale=scale)[:2]
)";
inline constexpr std::string_view kFlash = kJoined<kPlainInTorch, kFlashInTorch>;

inline constexpr std::string_view kFlash4 = R"(
if bias is not None or alibi_slopes is not None:
    refuse('takes no bias but by code that it compiles')
return flash_attn.cute.interface.flash_attn_func(
    q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), softmax_scale=scale, causal=causal,
    window_size=(None if window_left < 0 else window_left,
                 None if window_right < 0 else window_right),
    learnable_sink=sinks, softcap=softcap, return_lse=True)
)";

// Grids of packed kernels are as large as the longest sequence asks: they are told its length.
inline constexpr std::string_view kPackedFlashInTorch = R"(
if softcap or sinks is not None or seqused_k is not None or block_table is not None \
        or k.dtype != q.dtype or q.dtype == torch.float32 or q.shape[2] != v.shape[2] or q.shape[2] > 256 \
        or q.shape[2] % 8:
    return packed()
return torch.ops.aten._flash_attention_forward(
    q, k, v, cu_seqlens_q, cu_seqlens_k, max(lengths_of(cu_seqlens_q)),
    max(lengths_of(cu_seqlens_k)), 0.0, causal, False, scale=scale,
    window_size_left=window_left, window_size_right=0 if causal else window_right,
    alibi_slopes=alibi_slopes)[:2]
)";
inline constexpr std::string_view kPackedTorchUsers =
    kJoined<kAttendInTorch, kAttendPackedInTorch, kPackedFlashInTorch>;

inline constexpr std::string_view kPackedCudnnInTorch = R"(
if not plain or k.dtype != q.dtype or q.dtype == torch.float32 or seqused_k is not None \
        or block_table is not None:
    refuse('takes f16 and bf16, packed rows, and causal')
longest = max(lengths_of(cu_seqlens_q))
if causal and lengths_of(cu_seqlens_q) != lengths_of(cu_seqlens_k):
    refuse('aligns causal at the top left')
return torch.ops.aten._cudnn_attention_forward(
    q, k, v, None, cu_seqlens_q, cu_seqlens_k, longest, max(lengths_of(cu_seqlens_k)), True, 0.0,
    causal, False, scale=scale)[:2]
)";
inline constexpr std::string_view kPackedCudnn = kJoined<kPlainInTorch, kPackedCudnnInTorch>;

inline constexpr std::string_view kPackedFlash4 = R"(
if alibi_slopes is not None or k.dtype != q.dtype:
    refuse('takes one dtype, and no bias but by code that it compiles')
return flash_attn.cute.interface.flash_attn_varlen_func(
    q, k, v, cu_seqlens_q=cu_seqlens_q, cu_seqlens_k=cu_seqlens_k,
    max_seqlen_q=max(lengths_of(cu_seqlens_q)),
    max_seqlen_k=None if cu_seqlens_k is None else max(lengths_of(cu_seqlens_k)),
    seqused_k=seqused_k, page_table=block_table, softmax_scale=scale, causal=causal,
    window_size=(None if window_left < 0 else window_left,
                 None if window_right < 0 else window_right),
    learnable_sink=sinks, softcap=softcap, return_lse=True)
)";

// Of the gradient: what autograd calls behind the functions above. Each makes its own outputs, and
// takes what the forward has kept, here the problem's own.
inline constexpr std::string_view kBackwardRefusals = R"(
if window_left >= 0 or (window_right >= 0 and not causal) or softcap or alibi_slopes is not None \
        or bias is not None or dlse is not None or score_gradient:
    refuse('takes causal, and nothing else')
)";
inline constexpr std::string_view kHalvesBackward = R"(
if q.dtype == torch.float32:
    refuse('takes f16 and bf16')
)";
inline constexpr std::string_view kFlashBackwardInTorch = R"(
if q.shape[3] != v.shape[3] or q.shape[1] != k.shape[1]:
    refuse('takes one head dim, and a head of keys for each of q')
none = torch.zeros(2, dtype=torch.uint64, device=q.device)
return torch.ops.aten._scaled_dot_product_flash_attention_backward(
    dout, q, k, v, o, lse, None, None, q.shape[2], k.shape[2], 0.0, causal, none, none[:1],
    scale=scale)
)";
inline constexpr std::string_view kFlashBackward =
    kJoined<kBackwardRefusals, kHalvesBackward, kFlashBackwardInTorch>;
inline constexpr std::string_view kCudnnBackwardInTorch = R"(
if causal and q.shape[2] != k.shape[2]:
    refuse('aligns causal at the top left')
none = torch.zeros((), dtype=torch.int64, device=q.device)
return torch.ops.aten._scaled_dot_product_cudnn_attention_backward(
    dout, q, k, v, o, lse[..., None], none, none, None, None, None, q.shape[2], k.shape[2], 0.0,
    causal, scale=scale)
)";
inline constexpr std::string_view kCudnnBackward =
    kJoined<kBackwardRefusals, kHalvesBackward, kCudnnBackwardInTorch>;
// What torch takes for f32: three products of TF32, too.
inline constexpr std::string_view kEfficientBackwardInTorch = R"(
if q.shape[1] != k.shape[1] or q.shape[2] % 32:
    refuse('takes a head of keys for each of q, and lse of whole tiles of 32 queries')
if causal and q.shape[2] != k.shape[2]:
    refuse('aligns causal at the top left')
none = torch.zeros((), dtype=torch.int64, device=q.device)
return torch.ops.aten._scaled_dot_product_efficient_attention_backward(
    dout, q, k, v, None, o, lse, none, none, 0.0, [True, True, True, False], causal, scale=scale)[:3]
)";
inline constexpr std::string_view kEfficientBackward =
    kJoined<kBackwardRefusals, kEfficientBackwardInTorch>;
inline constexpr std::string_view kFlash4Backward = R"(
if bias is not None or alibi_slopes is not None or score_gradient or dlse is not None:
    refuse('takes no bias but by code that it compiles')
return flash_attn.cute.interface._flash_attn_bwd(
    q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), o.transpose(1, 2),
    dout.transpose(1, 2), lse, softmax_scale=scale, causal=causal, softcap=softcap,
    window_size_left=None if window_left < 0 else window_left,
    window_size_right=None if window_right < 0 else window_right)
)";
// Of packed sequences, which both take by where they begin and by the length of the longest.
inline constexpr std::string_view kPackedFlashBackward = R"(
if softcap or alibi_slopes is not None or dlse is not None or seqused_k is not None \
        or q.dtype == torch.float32 or q.shape[2] != v.shape[2] or q.shape[1] != k.shape[1]:
    refuse('takes f16 and bf16, one head dim, and a head of keys for each of q')
none = torch.zeros(2, dtype=torch.uint64, device=q.device)
return torch.ops.aten._flash_attention_backward(
    dout, q, k, v, o, lse, cu_seqlens_q, cu_seqlens_k, max(lengths_of(cu_seqlens_q)),
    max(lengths_of(cu_seqlens_k)), 0.0, causal, none, none[:1], scale=scale,
    window_size_left=window_left, window_size_right=0 if causal else window_right)
)";
inline constexpr std::string_view kPackedFlash4Backward = R"(
if alibi_slopes is not None or dlse is not None or seqused_k is not None:
    refuse('takes no bias but by code that it compiles')
return flash_attn.cute.interface._flash_attn_bwd(
    q, k, v, o, dout, lse, softmax_scale=scale, causal=causal, softcap=softcap,
    window_size_left=None if window_left < 0 else window_left,
    window_size_right=None if window_right < 0 else window_right,
    cu_seqlens_q=cu_seqlens_q, cu_seqlens_k=cu_seqlens_k,
    max_seqlen_q=max(lengths_of(cu_seqlens_q)), max_seqlen_k=max(lengths_of(cu_seqlens_k)))
)";

}  // namespace ws::attention
