"""Written by tools/stubs.py from the catalogue; a test says when it is not current."""

# ruff: noqa
import builtins
from collections.abc import Sequence
from typing import Any, Literal, TypeVar

from warpsmith._attention import flash_attn_func as flash_attn_func
from warpsmith._attention import flash_attn_varlen_func as flash_attn_varlen_func
from warpsmith._attention import flash_attn_with_kvcache as flash_attn_with_kvcache
from warpsmith._attention import scaled_dot_product_attention as scaled_dot_product_attention
from warpsmith._batch_norm import batch_norm as batch_norm
from warpsmith._batch_norm import group_norm as group_norm
from warpsmith._batch_norm import instance_norm as instance_norm
from warpsmith._catalogue import list_rungs as list
from warpsmith._cross_entropy import cross_entropy as cross_entropy
from warpsmith._cross_entropy import linear_cross_entropy as linear_cross_entropy
from warpsmith._device import EmulatorWarning as EmulatorWarning
from warpsmith._device import check as check
from warpsmith._explain import explain as explain
from warpsmith._explore import ladder as ladder
from warpsmith._explore import profile as profile
from warpsmith._explore import report as report
from warpsmith._explore import results as results
from warpsmith._histogram import bincount as bincount
from warpsmith._histogram import histogram as histogram
from warpsmith._interpolate import interpolate as interpolate
from warpsmith._libraries import build_info as build_info
from warpsmith._linear import linear as linear
from warpsmith._matmul import grouped_mm as grouped_mm
from warpsmith._matmul import matmul as matmul
from warpsmith._matmul import mm as mm
from warpsmith._measure import bench as bench
from warpsmith._measure import verify as verify
from warpsmith._nms import batched_nms as batched_nms
from warpsmith._nms import nms as nms
from warpsmith._optimizer import adamw_ as adamw_
from warpsmith._sparse import spmm as spmm
from warpsmith._sparse import spmv as spmv
from warpsmith.nn._patch import patch as patch
from warpsmith.nn._patch import unpatch as unpatch
from warpsmith.nn._quantize import quantize as quantize

# torch's, NumPy's, CuPy's or JAX's: what a call makes is of the library that it is given.
_Array = TypeVar("_Array")

__version__: str
__all__: builtins.list[str]

def adamw(
    param: _Array,
    grad: _Array,
    exp_avg: _Array,
    exp_avg_sq: _Array,
    step: _Array,
    grad_scale: _Array | None = None,
    found_inf: _Array | None = None,
    *,
    lr: builtins.float = 0.001,
    beta1: builtins.float = 0.9,
    beta2: builtins.float = 0.999,
    eps: builtins.float = 1e-08,
    weight_decay: builtins.float = 0.01,
    maximize: builtins.bool = False,
    rung: builtins.str | None = None,
) -> tuple[_Array, _Array, _Array]:
    """A step of AdamW, in place, of one tensor."""

def add(
    input: _Array,
    other: _Array | builtins.float,
    *,
    alpha: builtins.float = 1.0,
    rung: builtins.str | None = None,
    out: _Array | None = None,
) -> _Array:
    """Sum of two tensors."""

def addmm(
    input: _Array,
    mat1: _Array,
    mat2: _Array,
    out_dtype: Literal["float32"] | Any | None = None,
    *,
    beta: builtins.float = 1.0,
    alpha: builtins.float = 1.0,
    activation: Literal["none", "relu", "gelu", "gelu_tanh", "silu"] = "none",
    precision: Literal["ieee", "tf32"] = "ieee",
    rung: builtins.str | None = None,
    out: _Array | None = None,
) -> _Array:
    """Matrix product, a scaled matrix added, an activation, rounded once."""

def all(
    input: _Array,
    dim: builtins.int | Sequence[builtins.int] | None = None,
    keepdim: builtins.bool = False,
    *,
    rung: builtins.str | None = None,
    out: _Array | None = None,
) -> _Array:
    """Whether no element is zero."""

def amax(
    input: _Array,
    dim: builtins.int | Sequence[builtins.int] | None = None,
    keepdim: builtins.bool = False,
    *,
    rung: builtins.str | None = None,
    out: _Array | None = None,
) -> _Array:
    """Largest element over dimensions."""

def amin(
    input: _Array,
    dim: builtins.int | Sequence[builtins.int] | None = None,
    keepdim: builtins.bool = False,
    *,
    rung: builtins.str | None = None,
    out: _Array | None = None,
) -> _Array:
    """Smallest element over dimensions."""

def any(
    input: _Array,
    dim: builtins.int | Sequence[builtins.int] | None = None,
    keepdim: builtins.bool = False,
    *,
    rung: builtins.str | None = None,
    out: _Array | None = None,
) -> _Array:
    """Whether any element is not zero."""

def append_kv(
    k_cache: _Array,
    v_cache: _Array,
    k: _Array,
    v: _Array,
    seqlens: _Array,
    block_table: _Array | None = None,
    cos: _Array | None = None,
    sin: _Array | None = None,
    scale_k: _Array | None = None,
    scale_v: _Array | None = None,
    *,
    interleaved: builtins.bool = False,
    rung: builtins.str | None = None,
) -> tuple[_Array, _Array]:
    """Keys and values of new tokens into a cache, whose rows may lie in pages; keys may turn."""

def argmax(
    input: _Array,
    dim: builtins.int | Sequence[builtins.int] | None = None,
    keepdim: builtins.bool = False,
    *,
    rung: builtins.str | None = None,
    out: _Array | None = None,
) -> _Array:
    """Place of the largest element, the first of several."""

def argmin(
    input: _Array,
    dim: builtins.int | Sequence[builtins.int] | None = None,
    keepdim: builtins.bool = False,
    *,
    rung: builtins.str | None = None,
    out: _Array | None = None,
) -> _Array:
    """Place of the smallest element, the first of several."""

def attention(
    q: _Array,
    k: _Array,
    v: _Array,
    bias: _Array | None = None,
    alibi_slopes: _Array | None = None,
    sinks: _Array | None = None,
    *,
    causal: builtins.bool = False,
    window_left: builtins.int = -1,
    window_right: builtins.int = -1,
    scale: builtins.float | None = None,
    softcap: builtins.float = 0.0,
    deterministic: builtins.bool = False,
    window: Any = None,
    cu_seqlens_q: Any = None,
    cu_seqlens_k: Any = None,
    max_seqlen_q: Any = None,
    max_seqlen: Any = None,
    block_table: Any = None,
    seqused_k: Any = None,
    scale_k: Any = None,
    scale_v: Any = None,
    rung: builtins.str | None = None,
    out: _Array = None,
) -> tuple[_Array, _Array]:
    """Softmax(q k^T) v of all heads, and the logarithm of each softmax's sum."""

def attention_backward(
    q: _Array,
    k: _Array,
    v: _Array,
    dout: _Array,
    o: _Array,
    lse: _Array,
    bias: _Array | None = None,
    alibi_slopes: _Array | None = None,
    dlse: _Array | None = None,
    *,
    causal: builtins.bool = False,
    window_left: builtins.int = -1,
    window_right: builtins.int = -1,
    scale: builtins.float | None = None,
    softcap: builtins.float = 0.0,
    score_gradient: builtins.bool = False,
    deterministic: builtins.bool = False,
    rung: builtins.str | None = None,
    out: _Array | tuple[_Array, ...] | None = None,
) -> Any:
    """Gradients of attention, from its out and lse."""

def attention_varlen(
    q: _Array,
    k: _Array,
    v: _Array,
    cu_seqlens_q: _Array,
    cu_seqlens_k: _Array | None = None,
    seqused_k: _Array | None = None,
    block_table: _Array | None = None,
    alibi_slopes: _Array | None = None,
    sinks: _Array | None = None,
    scale_k: _Array | None = None,
    scale_v: _Array | None = None,
    *,
    causal: builtins.bool = False,
    window_left: builtins.int = -1,
    window_right: builtins.int = -1,
    scale: builtins.float | None = None,
    softcap: builtins.float = 0.0,
    max_seqlen_q: builtins.int | None = None,
    deterministic: builtins.bool = False,
    rung: builtins.str | None = None,
    out: _Array = None,
) -> tuple[_Array, _Array]:
    """Attention within sequences of their own lengths, packed; keys and values may lie in pages."""

def attention_varlen_backward(
    q: _Array,
    k: _Array,
    v: _Array,
    cu_seqlens_q: _Array,
    cu_seqlens_k: _Array,
    dout: _Array,
    o: _Array,
    lse: _Array,
    seqused_k: _Array | None = None,
    alibi_slopes: _Array | None = None,
    dlse: _Array | None = None,
    *,
    causal: builtins.bool = False,
    window_left: builtins.int = -1,
    window_right: builtins.int = -1,
    scale: builtins.float | None = None,
    softcap: builtins.float = 0.0,
    deterministic: builtins.bool = False,
    rung: builtins.str | None = None,
    out: _Array | tuple[_Array, ...] | None = None,
) -> tuple[_Array, _Array, _Array]:
    """Gradients of attention_varlen without pages, from its out and lse."""

def baddbmm(
    input: _Array,
    batch1: _Array,
    batch2: _Array,
    out_dtype: Literal["float32"] | Any | None = None,
    *,
    beta: builtins.float = 1.0,
    alpha: builtins.float = 1.0,
    precision: Literal["ieee", "tf32"] = "ieee",
    rung: builtins.str | None = None,
    out: _Array | None = None,
) -> _Array:
    """Matrix products of a batch, a scaled batch added, rounded once."""

def bank_conflicts(
    x: _Array,
    *,
    rounds: builtins.int,
    rung: builtins.str | None = None,
    out: _Array | None = None,
) -> _Array:
    """Tiles of 32 x 32 transposed again and again in shared memory: lanes that meet in a bank."""

def batch_norm_backward(
    grad: _Array,
    x: _Array,
    mean: _Array,
    rstd: _Array,
    weight: _Array | None = None,
    *,
    training: builtins.bool = True,
    rung: builtins.str | None = None,
    out: _Array | tuple[_Array, ...] | None = None,
) -> tuple[_Array, _Array, _Array]:
    """Gradients of batch_norm: of x, weight and bias."""

def batch_norm_forward(
    x: _Array,
    weight: _Array | None = None,
    bias: _Array | None = None,
    *,
    eps: builtins.float = 1e-05,
    rung: builtins.str | None = None,
    out: _Array | tuple[_Array, ...] | None = None,
) -> tuple[_Array, _Array, _Array]:
    """Each channel moved to mean 0 and variance 1 over the batch, scaled and shifted."""

def batch_norm_inference(
    x: _Array,
    running_mean: _Array,
    running_var: _Array,
    weight: _Array | None = None,
    bias: _Array | None = None,
    *,
    eps: builtins.float = 1e-05,
    rung: builtins.str | None = None,
    out: _Array | None = None,
) -> _Array:
    """Channels normalised by what training has left."""

def batch_norm_training(
    x: _Array,
    running_mean: _Array,
    running_var: _Array,
    weight: _Array | None = None,
    bias: _Array | None = None,
    *,
    momentum: builtins.float = 0.1,
    eps: builtins.float = 1e-05,
    rung: builtins.str | None = None,
    out: _Array | tuple[_Array, ...] | None = None,
) -> tuple[_Array, _Array, _Array]:
    """Batch_norm_forward that moves the running statistics along, in place."""

def bias_gelu(
    x: _Array,
    bias: _Array,
    *,
    approximate: Literal["none", "tanh"] = "none",
    rung: builtins.str | None = None,
    out: _Array | None = None,
) -> _Array:
    """Gelu of a tensor and a bias added to its rows."""

def bias_gelu_backward(
    grad: _Array,
    x: _Array,
    bias: _Array,
    *,
    approximate: Literal["none", "tanh"] = "none",
    rung: builtins.str | None = None,
    out: _Array | None = None,
) -> _Array:
    """Gradient of bias_gelu: that of x, whose sum over rows is that of bias."""

def bias_residual_layer_norm(
    x: _Array,
    bias: _Array,
    residual: _Array,
    weight: _Array,
    norm_bias: _Array,
    *,
    eps: builtins.float = 1e-05,
    rung: builtins.str | None = None,
    out: _Array | tuple[_Array, ...] | None = None,
) -> tuple[_Array, _Array]:
    """Layer_norm of x + bias + residual, and that sum."""

def bmm(
    input: _Array,
    mat2: _Array,
    out_dtype: Literal["float32"] | Any | None = None,
    *,
    precision: Literal["ieee", "tf32"] = "ieee",
    rung: builtins.str | None = None,
    out: _Array | None = None,
) -> _Array:
    """Matrix products of a batch, accumulated in f32."""

def coalescing(
    x: _Array,
    *,
    rung: builtins.str | None = None,
    out: _Array | None = None,
) -> _Array:
    """A copy: which lanes ask for which bytes together."""

def count_between(
    x: _Array,
    edges: _Array,
    *,
    rung: builtins.str | None = None,
    out: _Array | None = None,
) -> _Array:
    """How many numbers lie between neighbouring edges."""

def count_bins(
    x: _Array,
    *,
    bins: builtins.int = 256,
    rung: builtins.str | None = None,
    out: _Array | None = None,
) -> _Array:
    """How often each value from 0 to bins - 1 occurs."""

def cross_entropy_backward(
    logits: _Array,
    target: _Array,
    lse: _Array,
    dloss: _Array,
    weight: _Array | None = None,
    *,
    ignore_index: builtins.int = -100,
    label_smoothing: builtins.float = 0.0,
    z_loss: builtins.float = 0.0,
    rung: builtins.str | None = None,
    out: _Array | None = None,
) -> _Array:
    """Gradient of cross_entropy_forward from its lse."""

def cross_entropy_forward(
    logits: _Array,
    target: _Array,
    weight: _Array | None = None,
    *,
    ignore_index: builtins.int = -100,
    label_smoothing: builtins.float = 0.0,
    z_loss: builtins.float = 0.0,
    rung: builtins.str | None = None,
    out: _Array | tuple[_Array, ...] | None = None,
) -> tuple[_Array, _Array]:
    """What a class costs of each row of logits."""

def cross_entropy_fused(
    logits: _Array,
    target: _Array,
    weight: _Array | None = None,
    dloss: _Array | None = None,
    *,
    ignore_index: builtins.int = -100,
    label_smoothing: builtins.float = 0.0,
    z_loss: builtins.float = 0.0,
    scale: builtins.float = 1.0,
    rung: builtins.str | None = None,
    out: _Array | tuple[_Array, ...] | None = None,
) -> tuple[_Array, _Array]:
    """Cross_entropy_forward and its gradient in one pass, in the memory of the logits."""

def cumprod(
    input: _Array,
    dim: builtins.int = -1,
    *,
    dtype: Literal["int32", "int64"] | Any | None = None,
    exclusive: builtins.bool = False,
    reverse: builtins.bool = False,
    rung: builtins.str | None = None,
    out: _Array | None = None,
) -> _Array:
    """Products of all elements up to each."""

def cumsum(
    input: _Array,
    dim: builtins.int = -1,
    *,
    dtype: Literal["int32", "int64"] | Any | None = None,
    exclusive: builtins.bool = False,
    reverse: builtins.bool = False,
    rung: builtins.str | None = None,
    out: _Array | None = None,
) -> _Array:
    """Sums of all elements up to each."""

def delta_rule(
    q: _Array,
    k: _Array,
    v: _Array,
    beta: _Array,
    log_decay: _Array | None = None,
    initial_state: _Array | None = None,
    *,
    scale: builtins.float = 1.0,
    output_final_state: builtins.bool = False,
    rung: builtins.str | None = None,
    out: _Array = None,
) -> Any:
    """Linear attention whose step corrects what the state says of its key (DeltaNet, gated)."""

def delta_rule_backward(
    q: _Array,
    k: _Array,
    v: _Array,
    beta: _Array,
    dout: _Array,
    log_decay: _Array | None = None,
    initial_state: _Array | None = None,
    dfinal_state: _Array | None = None,
    *,
    scale: builtins.float = 1.0,
    rung: builtins.str | None = None,
    out: _Array | tuple[_Array, ...] | None = None,
) -> Any:
    """Gradients of delta_rule, from its inputs."""

def dequantize_blockwise(
    weight: _Array,
    scales: _Array,
    zeros: _Array | None = None,
    *,
    format: Literal["int8", "int4", "nf4", "fp8"] | None = None,
    group_size: builtins.int = 64,
    out_dtype: Literal["bfloat16", "float16", "float32"] | Any = "bfloat16",
    rung: builtins.str | None = None,
    out: _Array | None = None,
) -> _Array:
    """The numbers that codes and scales stand for."""

def dot(
    input: _Array,
    tensor: _Array,
    *,
    allow_reduced_precision: builtins.bool = False,
    rung: builtins.str | None = None,
    out: _Array | None = None,
) -> _Array:
    """Dot product of two vectors."""

def dropout(
    input: _Array,
    p: builtins.float = 0.5,
    training: Any = True,
    inplace: Any = False,
    *,
    seed: builtins.int,
    offset: builtins.int = 0,
    rung: builtins.str | None = None,
    out: _Array | None = None,
) -> _Array:
    """Elements dropped at random, by a generator that is a function of their number."""

def elu(
    input: _Array,
    alpha: builtins.float = 1.0,
    inplace: Any = False,
    *,
    rung: builtins.str | None = None,
    out: _Array | None = None,
) -> _Array:
    """Exponential linear unit."""

def elu_backward(
    grad: _Array,
    x: _Array | builtins.float,
    *,
    alpha: builtins.float = 1.0,
    rung: builtins.str | None = None,
    out: _Array | None = None,
) -> _Array:
    """Gradient of elu."""

def embedding(
    input: _Array,
    weight: _Array,
    padding_idx: builtins.int | None = None,
    max_norm: Any = None,
    norm_type: Any = 2.0,
    scale_grad_by_freq: builtins.bool = False,
    sparse: Any = False,
    *,
    rung: builtins.str | None = None,
    out: _Array | None = None,
) -> _Array:
    """Rows of a table by their numbers."""

def embedding_backward(
    dy: _Array,
    index: _Array,
    *,
    num_weights: builtins.int,
    padding_idx: builtins.int | None = None,
    scale_grad_by_freq: builtins.bool = False,
    rung: builtins.str | None = None,
    out: _Array | None = None,
) -> _Array:
    """The gradient of a table of which rows were taken."""

def embedding_bag(
    input: _Array,
    weight: _Array,
    offsets: _Array | None = None,
    max_norm: Any = None,
    norm_type: Any = 2,
    scale_grad_by_freq: builtins.bool = False,
    mode: Literal["sum", "mean", "max"] = "mean",
    sparse: Any = False,
    per_sample_weights: _Array | None = None,
    include_last_offset: builtins.bool = False,
    padding_idx: builtins.int | None = None,
    *,
    rung: builtins.str | None = None,
    out: _Array | None = None,
) -> _Array:
    """Sums, means or maxima of a table's rows, of a bag of indices each."""

def gather(
    input: _Array,
    dim: builtins.int,
    index: _Array,
    *,
    sparse_grad: Any = False,
    rung: builtins.str | None = None,
    out: _Array | None = None,
) -> _Array:
    """Elements by their places along a dimension."""

def geglu(
    gate: _Array,
    up: _Array | builtins.float,
    *,
    approximate: Literal["none", "tanh"] = "none",
    rung: builtins.str | None = None,
    out: _Array | None = None,
) -> _Array:
    """Gelu(gate) * up."""

def geglu_backward(
    grad: _Array,
    gate: _Array | builtins.float,
    up: _Array | builtins.float,
    *,
    approximate: Literal["none", "tanh"] = "none",
    rung: builtins.str | None = None,
    out: _Array | tuple[_Array, ...] | None = None,
) -> tuple[_Array, _Array]:
    """Gradients of geglu, both in one pass."""

def gelu(
    input: _Array,
    *,
    approximate: Literal["none", "tanh"] = "none",
    rung: builtins.str | None = None,
    out: _Array | None = None,
) -> _Array:
    """Gaussian error linear unit."""

def gelu_backward(
    grad: _Array,
    x: _Array | builtins.float,
    *,
    approximate: Literal["none", "tanh"] = "none",
    rung: builtins.str | None = None,
    out: _Array | None = None,
) -> _Array:
    """Gradient of gelu."""

def gemm(
    a: _Array,
    b: _Array,
    *,
    layout: Literal["nn", "nt", "tn", "tt"] = "nn",
    precision: Literal["ieee", "tf32"] = "ieee",
    rung: builtins.str | None = None,
    out: _Array | None = None,
) -> _Array:
    """Matrix product, accumulated in f32."""

def gemm_accumulate(
    a: _Array,
    b: _Array,
    c: _Array,
    *,
    rung: builtins.str | None = None,
) -> _Array:
    """Adds a matrix product to a matrix of f32."""

def gemv(
    a: _Array,
    x: _Array,
    *,
    layout: Literal["n", "t"] = "n",
    rung: builtins.str | None = None,
    out: _Array | None = None,
) -> _Array:
    """Matrix times vector, accumulated in f32."""

def group_norm_backward(
    grad: _Array,
    x: _Array,
    mean: _Array,
    rstd: _Array,
    weight: _Array | None = None,
    *,
    groups: builtins.int,
    rung: builtins.str | None = None,
    out: _Array | tuple[_Array, ...] | None = None,
) -> tuple[_Array, _Array, _Array]:
    """Gradients of group_norm: of x, weight and bias."""

def group_norm_forward(
    x: _Array,
    weight: _Array | None = None,
    bias: _Array | None = None,
    *,
    groups: builtins.int,
    eps: builtins.float = 1e-05,
    rung: builtins.str | None = None,
    out: _Array | tuple[_Array, ...] | None = None,
) -> tuple[_Array, _Array, _Array]:
    """Groups of a sample's channels moved to mean 0 and variance 1, scaled and shifted by channel."""

def grouped_gemm(
    a: _Array,
    b: _Array,
    offs: _Array,
    *,
    out_dtype: Literal["float32"] | Any | None = None,
    rung: builtins.str | None = None,
    out: _Array = None,
) -> _Array:
    """Groups of rows, each times a matrix of its own; accumulated in f32."""

def grouped_gemm_weight(
    a: _Array,
    b: _Array,
    offs: _Array,
    *,
    out_dtype: Literal["float32"] | Any | None = None,
    rung: builtins.str | None = None,
    out: _Array = None,
) -> _Array:
    """A product for each group of K, accumulated in f32: the gradient of grouped_gemm's b."""

def hardshrink(
    input: _Array,
    lambd: builtins.float = 0.5,
    *,
    rung: builtins.str | None = None,
    out: _Array | None = None,
) -> _Array:
    """Zero where the magnitude is at most lambd."""

def hardshrink_backward(
    grad: _Array,
    x: _Array | builtins.float,
    *,
    lambd: builtins.float = 0.5,
    rung: builtins.str | None = None,
    out: _Array | None = None,
) -> _Array:
    """Gradient of hardshrink."""

def hardswish(
    input: _Array,
    inplace: Any = False,
    *,
    rung: builtins.str | None = None,
    out: _Array | None = None,
) -> _Array:
    """Swish with straight lines for the sigmoid."""

def hardswish_backward(
    grad: _Array,
    x: _Array | builtins.float,
    *,
    rung: builtins.str | None = None,
    out: _Array | None = None,
) -> _Array:
    """Gradient of hardswish."""

def histc(
    input: _Array,
    bins: builtins.int = 100,
    min: builtins.float = 0.0,
    max: builtins.float = 1.0,
    *,
    rung: builtins.str | None = None,
    out: _Array | None = None,
) -> _Array:
    """How many numbers lie in each of equal parts of a range."""

def index_add(
    input: _Array,
    dim: builtins.int,
    index: _Array,
    source: _Array,
    *,
    alpha: builtins.float = 1.0,
    rung: builtins.str | None = None,
    out: _Array | None = None,
) -> _Array:
    """Rows added to those of a tensor that indices name."""

def index_select(
    input: _Array,
    dim: builtins.int,
    index: _Array,
    *,
    rung: builtins.str | None = None,
    out: _Array | None = None,
) -> _Array:
    """Rows of a tensor by their numbers, along a dimension."""

def int_mm(
    a: _Array,
    b: _Array,
    *,
    rung: builtins.str | None = None,
    out: _Array | None = None,
) -> _Array:
    """Matrix product of 8-bit integers, exact in i32."""

def layer_norm(
    input: _Array,
    normalized_shape: Any = None,
    weight: _Array | None = None,
    bias: _Array | None = None,
    eps: builtins.float = 1e-05,
    *,
    residual: _Array | None = None,
    stats: builtins.bool = False,
    prenorm: builtins.bool = False,
    acc_f16: builtins.bool = False,
    rung: builtins.str | None = None,
    out: _Array | tuple[_Array, ...] | None = None,
) -> Any:
    """Rows moved to mean 0 and variance 1, scaled and shifted by column."""

def layer_norm_backward(
    grad: _Array,
    x: _Array,
    weight: _Array | None = None,
    mean: _Array | None = None,
    rstd: _Array | None = None,
    *,
    eps: builtins.float = 1e-05,
    bias: builtins.bool = False,
    rung: builtins.str | None = None,
    out: _Array | tuple[_Array, ...] | None = None,
) -> Any:
    """Gradients of layer_norm: of its input, its weight and its bias."""

def linear_attention(
    q: _Array,
    k: _Array,
    v: _Array,
    log_decay: _Array | None = None,
    initial_state: _Array | None = None,
    *,
    scale: builtins.float = 1.0,
    output_final_state: builtins.bool = False,
    rung: builtins.str | None = None,
    out: _Array = None,
) -> Any:
    """Causal attention without a softmax: a query times a state, which decays by a gate."""

def linear_attention_backward(
    q: _Array,
    k: _Array,
    v: _Array,
    dout: _Array,
    log_decay: _Array | None = None,
    initial_state: _Array | None = None,
    dfinal_state: _Array | None = None,
    *,
    scale: builtins.float = 1.0,
    rung: builtins.str | None = None,
    out: _Array | tuple[_Array, ...] | None = None,
) -> Any:
    """Gradients of linear_attention, from its inputs."""

def log_softmax(
    input: _Array,
    dim: Any = -1,
    dtype: Any = None,
    *,
    bounded: builtins.bool = False,
    rung: builtins.str | None = None,
    out: _Array = None,
) -> _Array:
    """Logarithm of the softmax of a row."""

def log_softmax_backward(
    grad: _Array,
    output: _Array,
    *,
    rung: builtins.str | None = None,
    out: _Array = None,
) -> _Array:
    """Gradient of log_softmax from its output."""

def logcumsumexp(
    input: _Array,
    dim: builtins.int = -1,
    *,
    exclusive: builtins.bool = False,
    reverse: builtins.bool = False,
    rung: builtins.str | None = None,
    out: _Array | None = None,
) -> _Array:
    """Logarithms of the sums of exponentials of all elements up to each."""

def mean(
    input: _Array,
    dim: builtins.int | Sequence[builtins.int] | None = None,
    keepdim: builtins.bool = False,
    *,
    dtype: Any = None,
    rung: builtins.str | None = None,
    out: _Array | None = None,
) -> _Array:
    """Mean over dimensions."""

def merge_attn_states(
    out_a: _Array,
    lse_a: _Array,
    out_b: _Array,
    lse_b: _Array,
    *,
    rung: builtins.str | None = None,
    out: _Array = None,
) -> tuple[_Array, _Array]:
    """Attention over all keys from attention over each of two parts of them."""

def mul(
    input: _Array,
    other: _Array | builtins.float,
    *,
    rung: builtins.str | None = None,
    out: _Array | None = None,
) -> _Array:
    """Product of two tensors, element by element."""

def multi_tensor_adamw(
    memory: _Array,
    pieces: _Array,
    step: _Array,
    grad_scale: _Array | None = None,
    found_inf: _Array | None = None,
    *,
    lr: builtins.float = 0.001,
    beta1: builtins.float = 0.9,
    beta2: builtins.float = 0.999,
    eps: builtins.float = 1e-08,
    weight_decay: builtins.float = 0.01,
    maximize: builtins.bool = False,
    rung: builtins.str | None = None,
) -> _Array:
    """A step of AdamW of many tensors in one launch, told by a table of where they lie."""

def nms_indices(
    boxes: _Array,
    scores: _Array,
    classes: _Array | None = None,
    *,
    iou_threshold: builtins.float,
    rung: builtins.str | None = None,
    out: _Array | tuple[_Array, ...] | None = None,
) -> tuple[_Array, _Array]:
    """Of boxes that overlap, the one with the best score: their indices and how many."""

def occupancy(
    x: _Array,
    *,
    rung: builtins.str | None = None,
    out: _Array | None = None,
) -> _Array:
    """A copy: how much must be in flight to fill a bus."""

def permute(
    input: _Array,
    dims: builtins.int | Sequence[builtins.int],
    *,
    rung: builtins.str | None = None,
    out: _Array | None = None,
) -> _Array:
    """Dimensions in another order, as a contiguous copy (torch's is a view)."""

def prod(
    input: _Array,
    dim: builtins.int | Sequence[builtins.int] | None = None,
    keepdim: builtins.bool = False,
    *,
    dtype: Literal["float32", "int32", "int64"] | Any | None = None,
    rung: builtins.str | None = None,
    out: _Array | None = None,
) -> _Array:
    """Product over a dimension, or of all."""

def qkv_bias_transpose(
    qkv: _Array,
    bias: _Array,
    *,
    rung: builtins.str | None = None,
    out: _Array | tuple[_Array, ...] | None = None,
) -> tuple[_Array, _Array, _Array]:
    """Queries, keys and values by heads, of one projection and its bias."""

def quantize_blockwise(
    x: _Array,
    *,
    format: Literal["int8", "int4", "nf4", "fp8"] = "int8",
    group_size: builtins.int = 64,
    zero_point: builtins.bool = False,
    rung: builtins.str | None = None,
    out: _Array | tuple[_Array, ...] | None = None,
) -> Any:
    """A weight as codes of 8 or 4 bits, with a scale for each group of columns."""

def quantized_linear(
    x: _Array,
    weight: _Array,
    scales: _Array,
    zeros: _Array | None = None,
    bias: _Array | None = None,
    *,
    format: Literal["int8", "int4", "nf4", "fp8"] | None = None,
    group_size: builtins.int = 64,
    rung: builtins.str | None = None,
    out: _Array | None = None,
) -> _Array:
    """Few rows times a weight of 8 or 4 bits, summed in f32."""

def relu(
    input: _Array,
    inplace: Any = False,
    *,
    rung: builtins.str | None = None,
    out: _Array | None = None,
) -> _Array:
    """Rectified linear unit."""

def ring_attention_step(
    q: _Array,
    k: _Array,
    v: _Array,
    out: _Array,
    lse: _Array,
    *,
    causal: builtins.bool = False,
    window_left: builtins.int = -1,
    window_right: builtins.int = -1,
    scale: builtins.float | None = None,
    rung: builtins.str | None = None,
) -> tuple[_Array, _Array]:
    """Attention over one part more of the keys, merged in f32 with that over those before."""

def rms_norm(
    input: _Array,
    normalized_shape: Any = None,
    weight: _Array | None = None,
    eps: builtins.float = 1.1920928955078125e-07,
    *,
    residual: _Array | None = None,
    stats: builtins.bool = False,
    prenorm: builtins.bool = False,
    acc_f16: builtins.bool = False,
    rung: builtins.str | None = None,
    out: _Array | tuple[_Array, ...] | None = None,
) -> Any:
    """Rows scaled to mean square 1, then by column."""

def rms_norm_backward(
    grad: _Array,
    x: _Array,
    weight: _Array | None = None,
    rstd: _Array | None = None,
    *,
    eps: builtins.float = 1.1920928955078125e-07,
    rung: builtins.str | None = None,
    out: _Array | tuple[_Array, ...] | None = None,
) -> Any:
    """Gradients of rms_norm: of its input and of its weight."""

def rms_norm_quantized(
    x: _Array,
    weight: _Array,
    residual: _Array | None = None,
    scale: _Array | None = None,
    *,
    eps: builtins.float = 1e-06,
    rung: builtins.str | None = None,
    out: _Array | tuple[_Array, ...] | None = None,
) -> Any:
    """Rms_norm of x, or of x + residual, in e4m3 with a scale: given, or found for each row."""

def rope(
    x: _Array,
    cos: _Array | None = None,
    sin: _Array | None = None,
    positions: _Array | None = None,
    *,
    interleaved: builtins.bool = False,
    inverse: builtins.bool = False,
    heads_first: builtins.bool = False,
    rotary_dim: builtins.int | None = None,
    base: builtins.float = 10000.0,
    rung: builtins.str | None = None,
    out: _Array | None = None,
) -> _Array:
    """Rotary position embedding."""

def rope_qk(
    q: _Array,
    k: _Array,
    cos: _Array | None = None,
    sin: _Array | None = None,
    positions: _Array | None = None,
    *,
    interleaved: builtins.bool = False,
    inverse: builtins.bool = False,
    heads_first: builtins.bool = False,
    rotary_dim: builtins.int | None = None,
    base: builtins.float = 10000.0,
    rung: builtins.str | None = None,
    out: _Array | tuple[_Array, ...] | None = None,
) -> tuple[_Array, _Array]:
    """Rotary position embedding of queries and keys in one launch."""

def scale_mask_softmax(
    x: _Array,
    mask: _Array,
    *,
    scale: builtins.float = 1.0,
    fill: builtins.float = -10000.0,
    rung: builtins.str | None = None,
    out: _Array = None,
) -> _Array:
    """Softmax of a scaled row, of the elements that a mask keeps."""

def scale_mask_softmax_backward(
    grad: _Array,
    output: _Array,
    mask: _Array,
    *,
    scale: builtins.float = 1.0,
    rung: builtins.str | None = None,
    out: _Array = None,
) -> _Array:
    """Gradient of scale_mask_softmax from its output."""

def scaled_attention(
    q: _Array,
    k: _Array,
    v: _Array,
    scale_q: _Array | None = None,
    scale_k: _Array | None = None,
    scale_v: _Array | None = None,
    *,
    causal: builtins.bool = False,
    window_left: builtins.int = -1,
    window_right: builtins.int = -1,
    scale: builtins.float | None = None,
    out_dtype: Literal["bfloat16", "float16"] | Any = "bfloat16",
    rung: builtins.str | None = None,
    out: _Array = None,
) -> tuple[_Array, _Array]:
    """Attention of 8-bit floats, whose heads have a scale each."""

def scaled_mm(
    a: _Array,
    b: _Array,
    scale_a: _Array,
    scale_b: _Array,
    bias: _Array | None = None,
    *,
    out_dtype: Literal["bfloat16", "float16", "float32"] | Any = "bfloat16",
    use_fast_accum: builtins.bool = False,
    rung: builtins.str | None = None,
    out: _Array | None = None,
) -> _Array:
    """Matrix product of scaled 8-bit floats, summed in f32."""

def scan_max(
    x: _Array,
    *,
    dim: builtins.int = -1,
    exclusive: builtins.bool = False,
    reverse: builtins.bool = False,
    rung: builtins.str | None = None,
    out: _Array | None = None,
) -> _Array:
    """Largest of all elements up to each."""

def scan_min(
    x: _Array,
    *,
    dim: builtins.int = -1,
    exclusive: builtins.bool = False,
    reverse: builtins.bool = False,
    rung: builtins.str | None = None,
    out: _Array | None = None,
) -> _Array:
    """Smallest of all elements up to each."""

def scatter_add(
    input: _Array,
    dim: builtins.int,
    index: _Array,
    src: _Array,
    *,
    rung: builtins.str | None = None,
    out: _Array | None = None,
) -> _Array:
    """Elements added at their places along a dimension."""

def sddmm_csr(
    a: _Array,
    crow: _Array,
    col: _Array,
    b: _Array,
    *,
    rung: builtins.str | None = None,
    out: _Array | None = None,
) -> _Array:
    """Of the product of two dense matrices the elements that a sparse matrix has, accumulated in f32 or f64."""

def selective_scan(
    u: _Array,
    delta: _Array,
    a: _Array,
    b: _Array,
    c: _Array,
    d: _Array | None = None,
    z: _Array | None = None,
    delta_bias: _Array | None = None,
    initial_state: _Array | None = None,
    *,
    delta_softplus: builtins.bool = False,
    return_last_state: builtins.bool = False,
    rung: builtins.str | None = None,
    out: _Array = None,
) -> Any:
    """Mamba's recurrence: states that decay and take in as each step says."""

def selective_scan_backward(
    u: _Array,
    delta: _Array,
    a: _Array,
    b: _Array,
    c: _Array,
    g: _Array,
    d: _Array | None = None,
    z: _Array | None = None,
    delta_bias: _Array | None = None,
    states: _Array | None = None,
    *,
    delta_softplus: builtins.bool = False,
    rung: builtins.str | None = None,
    out: _Array | tuple[_Array, ...] | None = None,
) -> Any:
    """Gradient of selective_scan, also of its states."""

def sigmoid(
    x: _Array,
    *,
    rung: builtins.str | None = None,
    out: _Array | None = None,
) -> _Array:
    """Logistic function."""

def sigmoid_backward(
    grad: _Array,
    output: _Array | builtins.float,
    *,
    rung: builtins.str | None = None,
    out: _Array | None = None,
) -> _Array:
    """Gradient of sigmoid from its output."""

def silu_backward(
    grad: _Array,
    x: _Array | builtins.float,
    *,
    rung: builtins.str | None = None,
    out: _Array | None = None,
) -> _Array:
    """Gradient of swish."""

def soft_nms(
    boxes: _Array,
    scores: _Array,
    *,
    iou_threshold: builtins.float = 0.3,
    sigma: builtins.float = 0.5,
    score_threshold: builtins.float = 0.001,
    method: Literal["linear", "gaussian"] = "linear",
    rung: builtins.str | None = None,
    out: _Array | tuple[_Array, ...] | None = None,
) -> tuple[_Array, _Array, _Array]:
    """Boxes by their scores, which each that is taken lowers for those that it overlaps."""

def softmax(
    input: _Array,
    dim: Any = -1,
    dtype: Any = None,
    *,
    bounded: builtins.bool = False,
    rung: builtins.str | None = None,
    out: _Array = None,
) -> _Array:
    """Exponentials of a row, scaled to add up to 1."""

def softmax_backward(
    grad: _Array,
    output: _Array,
    *,
    rung: builtins.str | None = None,
    out: _Array = None,
) -> _Array:
    """Gradient of softmax from its output."""

def sort(
    input: _Array,
    dim: builtins.int = -1,
    descending: builtins.bool = False,
    *,
    stable: builtins.bool = True,
    rung: builtins.str | None = None,
    out: _Array | tuple[_Array, ...] | None = None,
) -> tuple[_Array, _Array]:
    """The elements along a dimension in order, and their places before."""

def spmm_csr(
    values: _Array,
    crow: _Array,
    col: _Array,
    b: _Array,
    *,
    rung: builtins.str | None = None,
    out: _Array | None = None,
) -> _Array:
    """Sparse matrix in compressed rows times a dense matrix, accumulated in f32 or f64."""

def spmv_bsr(
    values: _Array,
    crow: _Array,
    col: _Array,
    x: _Array,
    added: _Array | None = None,
    *,
    alpha: builtins.float = 1.0,
    beta: builtins.float = 1.0,
    rung: builtins.str | None = None,
    out: _Array | None = None,
) -> _Array:
    """Sparse matrix of dense blocks in compressed rows times a vector, accumulated in f32 or f64."""

def spmv_coo(
    values: _Array,
    row: _Array,
    col: _Array,
    x: _Array,
    added: _Array | None = None,
    *,
    rows: builtins.int,
    ordered: builtins.bool = False,
    alpha: builtins.float = 1.0,
    beta: builtins.float = 1.0,
    rung: builtins.str | None = None,
    out: _Array | None = None,
) -> _Array:
    """Sparse matrix in coordinates times a vector, accumulated in f32 or f64."""

def spmv_csr(
    values: _Array,
    crow: _Array,
    col: _Array,
    x: _Array,
    added: _Array | None = None,
    *,
    alpha: builtins.float = 1.0,
    beta: builtins.float = 1.0,
    rung: builtins.str | None = None,
    out: _Array | None = None,
) -> _Array:
    """Sparse matrix in compressed rows times a vector, accumulated in f32 or f64."""

def spmv_ell(
    values: _Array,
    col: _Array,
    x: _Array,
    added: _Array | None = None,
    *,
    alpha: builtins.float = 1.0,
    beta: builtins.float = 1.0,
    rung: builtins.str | None = None,
    out: _Array | None = None,
) -> _Array:
    """Sparse matrix of as many slots in each row times a vector, accumulated in f32 or f64."""

def sum(
    input: _Array,
    dim: builtins.int | Sequence[builtins.int] | None = None,
    keepdim: builtins.bool = False,
    *,
    dtype: Literal["float32", "int32", "int64"] | Any | None = None,
    allow_reduced_precision: builtins.bool = False,
    rung: builtins.str | None = None,
    out: _Array | None = None,
) -> _Array:
    """Sum over dimensions."""

def sum_between(
    x: _Array,
    edges: _Array,
    weights: _Array,
    *,
    rung: builtins.str | None = None,
    out: _Array | None = None,
) -> _Array:
    """Sum of the weights that go with the numbers between neighbouring edges."""

def sum_bins(
    x: _Array,
    weights: _Array,
    *,
    bins: builtins.int = 256,
    rung: builtins.str | None = None,
    out: _Array | None = None,
) -> _Array:
    """Sum of the weights that go with each value."""

def swiglu(
    gate: _Array,
    up: _Array | builtins.float,
    *,
    rung: builtins.str | None = None,
    out: _Array | None = None,
) -> _Array:
    """Silu(gate) * up."""

def swiglu_backward(
    grad: _Array,
    gate: _Array | builtins.float,
    up: _Array | builtins.float,
    *,
    rung: builtins.str | None = None,
    out: _Array | tuple[_Array, ...] | None = None,
) -> tuple[_Array, _Array]:
    """Gradients of swiglu, both in one pass."""

def swiglu_linear(
    x: _Array,
    weight: _Array,
    *,
    rung: builtins.str | None = None,
    out: _Array | None = None,
) -> _Array:
    """Two products of one input, the one gated by the silu of the other."""

def swish(
    input: _Array,
    inplace: Any = False,
    *,
    rung: builtins.str | None = None,
    out: _Array | None = None,
) -> _Array:
    """X * sigmoid(x), also called SiLU."""

def threshold_backward(
    grad: _Array,
    x: _Array | builtins.float,
    *,
    threshold: builtins.float = 0.0,
    rung: builtins.str | None = None,
    out: _Array | None = None,
) -> _Array:
    """Gradient of relu, from its input or its output."""

def topk(
    input: _Array,
    k: builtins.int,
    dim: builtins.int = -1,
    largest: builtins.bool = True,
    sorted: builtins.bool = True,
    *,
    rung: builtins.str | None = None,
    out: _Array | tuple[_Array, ...] | None = None,
) -> tuple[_Array, _Array]:
    """The k largest or smallest elements along a dimension, and their places."""

def transpose(
    input: _Array,
    dim0: builtins.int = -2,
    dim1: builtins.int = -1,
    *,
    rung: builtins.str | None = None,
    out: _Array | None = None,
) -> _Array:
    """Two dimensions trade places, as a contiguous copy (torch's is a view)."""

def unrolling(
    x: _Array,
    *,
    terms: builtins.int,
    rung: builtins.str | None = None,
    out: _Array | None = None,
) -> _Array:
    """A long sum in a thread's registers: loops, and chains of additions that wait for each other."""

def upsample_bilinear2d(
    x: _Array,
    *,
    height: builtins.int,
    width: builtins.int,
    scale_height: builtins.float | None = None,
    scale_width: builtins.float | None = None,
    align_corners: builtins.bool = False,
    channels_last: builtins.bool = False,
    rung: builtins.str | None = None,
    out: _Array | None = None,
) -> _Array:
    """Images of another size, each pixel between the four around it."""

def upsample_bilinear2d_backward(
    grad: _Array,
    *,
    height: builtins.int,
    width: builtins.int,
    scale_height: builtins.float | None = None,
    scale_width: builtins.float | None = None,
    align_corners: builtins.bool = False,
    channels_last: builtins.bool = False,
    rung: builtins.str | None = None,
    out: _Array | None = None,
) -> _Array:
    """Gradient of upsample_bilinear2d: each pixel the weighted sum of what it is a part of."""

def upsample_nearest2d(
    x: _Array,
    *,
    height: builtins.int,
    width: builtins.int,
    scale_height: builtins.float | None = None,
    scale_width: builtins.float | None = None,
    exact: builtins.bool = False,
    channels_last: builtins.bool = False,
    rung: builtins.str | None = None,
    out: _Array | None = None,
) -> _Array:
    """Images of another size, each pixel the nearest one."""

def upsample_nearest2d_backward(
    grad: _Array,
    *,
    height: builtins.int,
    width: builtins.int,
    scale_height: builtins.float | None = None,
    scale_width: builtins.float | None = None,
    exact: builtins.bool = False,
    channels_last: builtins.bool = False,
    rung: builtins.str | None = None,
    out: _Array | None = None,
) -> _Array:
    """Gradient of upsample_nearest2d: each pixel the sum of those of its copies."""

def vector_norm(
    input: _Array,
    ord: builtins.float = 2.0,
    dim: builtins.int | Sequence[builtins.int] | None = None,
    keepdim: builtins.bool = False,
    *,
    dtype: Any = None,
    rung: builtins.str | None = None,
    out: _Array | None = None,
) -> _Array:
    """Norm over dimensions, of order 1, 2 or infinity."""

def warp_divergence(
    x: _Array,
    *,
    degree: builtins.int,
    rung: builtins.str | None = None,
    out: _Array | None = None,
) -> _Array:
    """A polynomial of the even elements, another of the odd ones: lanes that want another branch."""

def wkv(
    k: _Array,
    v: _Array,
    w: _Array,
    u: _Array,
    state: _Array | None = None,
    *,
    return_state: builtins.bool = False,
    rung: builtins.str | None = None,
    out: _Array = None,
) -> Any:
    """RWKV-4's mean of the values so far, weighed by keys that decay."""

def wkv_backward(
    k: _Array,
    v: _Array,
    w: _Array,
    u: _Array,
    g: _Array,
    state: _Array | None = None,
    g_last_state: _Array | None = None,
    *,
    rung: builtins.str | None = None,
    out: _Array | tuple[_Array, ...] | None = None,
) -> Any:
    """Gradient of wkv."""

silu = swish
