"""torch's modules, their forward on the kernels of the catalogue.

Each class has the name of torch's that it is a subclass of: constructor, parameters, state_dict and
repr are inherited. What no kernel takes its function refuses; only attention goes to torch's
function where a gradient is wanted that has not been measured beside torch's.
"""

import copy
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

import warpsmith
from warpsmith._linear import _ACTIVATIONS


class Replacement:
    """A module that stands for one of torch's, the last of its class's bases."""

    @staticmethod
    def refusal(module: Any) -> str:
        """Why a module of torch's class cannot become this one; "" where it can."""
        return ""


class Linear(Replacement, torch.nn.Linear):
    """torch.nn.Linear, and an activation: warpsmith.linear.

    Args:
        activation: One of warpsmith.linear's. With "swiglu" out_features counts the rows of gate
            and up together; the result has half as many columns.
    """

    activation = "none"  # of a module that was torch's

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        activation: str = "none",
    ) -> None:
        if activation not in _ACTIVATIONS:
            raise ValueError(
                f"Linear: activation is one of {', '.join(_ACTIVATIONS)}: {activation!r}"
            )
        if activation == "swiglu" and out_features % 2 != 0:
            raise ValueError(f"Linear: swiglu halves out_features, which is odd: {out_features}")
        super().__init__(in_features, out_features, bias, device, dtype)
        self.activation = activation

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return warpsmith.linear(input, self.weight, self.bias, activation=self.activation)

    def extra_repr(self) -> str:
        more = "" if self.activation == "none" else f", activation={self.activation}"
        return super().extra_repr() + more


def _refusal_of_table(module: Any, function: str) -> str:
    if module.max_norm is not None:
        return f"max_norm changes its weight, which warpsmith.{function} does not"
    return f"its gradient is sparse, warpsmith.{function}'s is dense" if module.sparse else ""


class Embedding(Replacement, torch.nn.Embedding):
    """torch.nn.Embedding, without max_norm and sparse gradients: warpsmith.embedding."""

    @staticmethod
    def refusal(module: Any) -> str:
        return _refusal_of_table(module, "embedding")

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return warpsmith.embedding(
            input,
            self.weight,
            self.padding_idx,
            self.max_norm,
            self.norm_type,
            self.scale_grad_by_freq,
            self.sparse,
        )


class EmbeddingBag(Replacement, torch.nn.EmbeddingBag):
    """torch.nn.EmbeddingBag, without max_norm and sparse gradients: warpsmith.embedding_bag."""

    @staticmethod
    def refusal(module: Any) -> str:
        return _refusal_of_table(module, "embedding_bag")

    def forward(
        self,
        input: torch.Tensor,
        offsets: torch.Tensor | None = None,
        per_sample_weights: torch.Tensor | None = None,
    ) -> torch.Tensor:
        return warpsmith.embedding_bag(
            input,
            self.weight,
            offsets,
            self.max_norm,
            self.norm_type,
            self.scale_grad_by_freq,
            self.mode,
            self.sparse,
            per_sample_weights,
            self.include_last_offset,
            self.padding_idx,
        )


# ---- Normalization ------------------------------------------------------------------------------


def _over_last(
    function: Callable[..., torch.Tensor],
    input: torch.Tensor,
    shape: tuple[int, ...],
    eps: float,
    **vectors: torch.Tensor | None,
) -> torch.Tensor:
    """A norm of rows, over the last dimensions, of which there may be several."""
    if tuple(input.shape[-len(shape) :]) != tuple(shape):
        raise RuntimeError(
            f"{function.__name__}: normalized_shape={list(shape)} expects an input of "
            f"[..., {', '.join(map(str, shape))}], not {list(input.shape)}"
        )
    if len(shape) == 1:  # no views, which are nodes of autograd's graph
        return function(input, **vectors, eps=eps)
    flat = {name: None if v is None else v.flatten() for name, v in vectors.items()}
    return function(input.flatten(-len(shape)), **flat, eps=eps).view(input.shape)


class LayerNorm(Replacement, torch.nn.LayerNorm):
    """torch.nn.LayerNorm: warpsmith.layer_norm."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return _over_last(
            warpsmith.layer_norm,
            input,
            self.normalized_shape,
            self.eps,
            weight=self.weight,
            bias=self.bias,
        )


class RMSNorm(Replacement, torch.nn.RMSNorm):
    """torch.nn.RMSNorm: warpsmith.rms_norm."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        eps = torch.finfo(torch.float32).eps if self.eps is None else self.eps
        return _over_last(warpsmith.rms_norm, x, self.normalized_shape, eps, weight=self.weight)


class _BatchNorm(Replacement):
    """What the batch norms share: which statistics a call takes, as torch has it."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        self._check_input_dim(input)
        momentum = 0.0 if self.momentum is None else self.momentum
        updates = self.training and self.track_running_stats
        if updates and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
            if self.momentum is None:  # a cumulative average
                momentum = 1.0 / float(self.num_batches_tracked)
        tracks = self.track_running_stats or not self.training
        return warpsmith.batch_norm(
            input,
            self.running_mean if tracks else None,
            self.running_var if tracks else None,
            self.weight,
            self.bias,
            self.training or self.running_mean is None,
            momentum,
            self.eps,
        )


class BatchNorm1d(_BatchNorm, torch.nn.BatchNorm1d):
    """torch.nn.BatchNorm1d: warpsmith.batch_norm."""


class BatchNorm2d(_BatchNorm, torch.nn.BatchNorm2d):
    """torch.nn.BatchNorm2d: warpsmith.batch_norm."""


class BatchNorm3d(_BatchNorm, torch.nn.BatchNorm3d):
    """torch.nn.BatchNorm3d: warpsmith.batch_norm."""


class GroupNorm(Replacement, torch.nn.GroupNorm):
    """torch.nn.GroupNorm: warpsmith.group_norm."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return warpsmith.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)


class _InstanceNorm(Replacement):
    def _apply_instance_norm(self, input: torch.Tensor) -> torch.Tensor:
        return warpsmith.instance_norm(
            input,
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            self.training or not self.track_running_stats,
            0.0 if self.momentum is None else self.momentum,
            self.eps,
        )


class InstanceNorm1d(_InstanceNorm, torch.nn.InstanceNorm1d):
    """torch.nn.InstanceNorm1d: warpsmith.instance_norm."""


class InstanceNorm2d(_InstanceNorm, torch.nn.InstanceNorm2d):
    """torch.nn.InstanceNorm2d: warpsmith.instance_norm."""


class InstanceNorm3d(_InstanceNorm, torch.nn.InstanceNorm3d):
    """torch.nn.InstanceNorm3d: warpsmith.instance_norm."""


# ---- Rows ---------------------------------------------------------------------------------------


class _AlongDim(Replacement):
    """What softmax and its logarithm share: a dimension, which is a view's last one."""

    @staticmethod
    def refusal(module: Any) -> str:
        return "its dim is None, which is another one for each rank" if module.dim is None else ""

    def _of(self, function: Callable[..., torch.Tensor], input: torch.Tensor) -> torch.Tensor:
        dim = self.dim
        if dim is None:
            raise ValueError(f"{type(self).__name__}: dim is None; say which")
        if dim in (-1, input.dim() - 1):
            return function(input)
        return function(input.movedim(dim, -1)).movedim(-1, dim)


class Softmax(_AlongDim, torch.nn.Softmax):
    """torch.nn.Softmax, of a dim that is said: warpsmith.softmax."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return self._of(warpsmith.softmax, input)


class LogSoftmax(_AlongDim, torch.nn.LogSoftmax):
    """torch.nn.LogSoftmax, of a dim that is said: warpsmith.log_softmax."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return self._of(warpsmith.log_softmax, input)


class CrossEntropyLoss(Replacement, torch.nn.CrossEntropyLoss):
    """torch.nn.CrossEntropyLoss of class indices: warpsmith.cross_entropy."""

    def forward(self, input: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return warpsmith.cross_entropy(
            input,
            target,
            self.weight,
            ignore_index=self.ignore_index,
            reduction=self.reduction,
            label_smoothing=self.label_smoothing,
        )


# ---- Activations --------------------------------------------------------------------------------


def _wants_gradient(*tensors: torch.Tensor | None) -> bool:
    return torch.is_grad_enabled() and any(x is not None and x.requires_grad for x in tensors)


def _perhaps_in_place(
    function: Callable[..., torch.Tensor], input: torch.Tensor, inplace: bool
) -> torch.Tensor:
    """function(input), written over the input where the module says so."""
    if not inplace:
        return function(input)
    if _wants_gradient(input):  # which may need what is written over
        return input.copy_(function(input.clone()))
    return function(input, out=input)


class ReLU(Replacement, torch.nn.ReLU):
    """torch.nn.ReLU: warpsmith.relu."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return _perhaps_in_place(warpsmith.relu, input, self.inplace)


class ELU(Replacement, torch.nn.ELU):
    """torch.nn.ELU: warpsmith.elu."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return _perhaps_in_place(partial(warpsmith.elu, alpha=self.alpha), input, self.inplace)


class GELU(Replacement, torch.nn.GELU):
    """torch.nn.GELU: warpsmith.gelu."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return warpsmith.gelu(input, approximate=self.approximate)


class SiLU(Replacement, torch.nn.SiLU):
    """torch.nn.SiLU: warpsmith.swish."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return _perhaps_in_place(warpsmith.swish, input, self.inplace)


class Hardswish(Replacement, torch.nn.Hardswish):
    """torch.nn.Hardswish: warpsmith.hardswish."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return _perhaps_in_place(warpsmith.hardswish, input, self.inplace)


class Hardshrink(Replacement, torch.nn.Hardshrink):
    """torch.nn.Hardshrink: warpsmith.hardshrink."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return warpsmith.hardshrink(input, lambd=self.lambd)


class Sigmoid(Replacement, torch.nn.Sigmoid):
    """torch.nn.Sigmoid: warpsmith.sigmoid."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return warpsmith.sigmoid(input)


# ---- What torch has no module of ----------------------------------------------------------------


def torch_differentiates(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor | None
) -> bool:
    """Whether torch's attention is to be taken: for gradients that ours has not on tensor cores.

    In bf16 and heads of 64 to 256 columns ours takes half of the time of torch's on an H200. In f32
    and f64, under a mask, and where heads are not of whole eights of columns, it has not been
    measured beside torch's, or there is none.
    """
    on_tensor_cores = query.dtype in (torch.float16, torch.bfloat16) and all(
        x.shape[-1] % 8 == 0 for x in (query, value)
    )
    measured = mask is None and on_tensor_cores
    return not measured and _wants_gradient(query, key, value, mask)


class ScaledDotProductAttention(torch.nn.Module):
    """warpsmith.scaled_dot_product_attention, and torch's for some gradients.

    torch's function computes a call that drops out, and, where a gradient is wanted, one in f32 or
    f64, under a mask, or of heads that are not of whole eights of columns, since ours has not been
    measured beside it; ours all others.

    Args:
        dropout_p: In training: how likely a weight is dropped.
        is_causal: Query i sees keys 0 to i.
        scale: What times the products; None: 1 / sqrt(E).
        enable_gqa: Key and value may have fewer heads.
    """

    def __init__(
        self,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        scale: float | None = None,
        enable_gqa: bool = False,
    ) -> None:
        super().__init__()
        self.dropout_p = dropout_p
        self.is_causal = is_causal
        self.scale = scale
        self.enable_gqa = enable_gqa

    def forward(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        attn_mask: torch.Tensor | None = None,
    ) -> torch.Tensor:
        dropout_p = self.dropout_p if self.training else 0.0
        function = warpsmith.scaled_dot_product_attention
        if dropout_p > 0 or torch_differentiates(query, key, value, attn_mask):
            function = torch.nn.functional.scaled_dot_product_attention
        return function(
            query,
            key,
            value,
            attn_mask,
            dropout_p,
            self.is_causal,
            scale=self.scale,
            enable_gqa=self.enable_gqa,
        )

    def extra_repr(self) -> str:
        return (
            f"dropout_p={self.dropout_p}, is_causal={self.is_causal}, scale={self.scale}, "
            f"enable_gqa={self.enable_gqa}"
        )


class MLP(torch.nn.Module):
    """Two linear layers, the activation in the kernel of the first: down(activation(up(x))).

    Args:
        features: Of input and result.
        hidden: Of what lies between.
        activation: One of warpsmith.linear's but "swiglu".
        bias: Of both layers.
        device: Of the parameters.
        dtype: Of the parameters.
    """

    def __init__(
        self,
        features: int,
        hidden: int,
        *,
        activation: str = "gelu",
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if activation == "swiglu":
            raise ValueError("MLP: an activation without a gate; SwiGLU has one")
        self.up_proj = Linear(features, hidden, bias, device, dtype, activation=activation)
        self.down_proj = Linear(hidden, features, bias, device, dtype)

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return self.down_proj(self.up_proj(input))


class SwiGLU(torch.nn.Module):
    """A gated MLP, gate and up in one product: down(silu(gate(x)) * up(x)).

    Args:
        features: Of input and result.
        hidden: Of gate and of up. Their weights are the halves of gate_up_proj's, gate's first.
        bias: Of both layers.
        device: Of the parameters.
        dtype: Of the parameters.
    """

    def __init__(
        self,
        features: int,
        hidden: int,
        *,
        bias: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.gate_up_proj = Linear(features, 2 * hidden, bias, device, dtype, activation="swiglu")
        self.down_proj = Linear(hidden, features, bias, device, dtype)

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return self.down_proj(self.gate_up_proj(input))


class QuantizedLinear(torch.nn.Module):
    """A linear layer whose weight is codes of 8 or 4 bits: warpsmith.quantized_linear.

    Codes, scales and zeros are buffers, which `to` moves and leaves their dtypes: they are the
    format. The gradient reaches input and bias. An input of many rows is multiplied by the weight
    in full, which is made of the codes for that.

    Args:
        in_features: Columns of the input; of 4 bits even.
        out_features: Columns of the result.
        bias: Whether there is one.
        codes: "nf4", "int4", "fp8" or "int8".
        group: How many columns share a scale, a multiple of 16.
        zero_point: Of "int4" and "int8": from the least to the largest, not around 0.
        device: Of buffers and bias.
        dtype: Of the bias.
    """

    _BUFFERS = ("weight_codes", "weight_scales", "weight_zeros")
    _ROWS = 64  # more of them than what codes save: quantized_linear reads codes for each 16

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        *,
        codes: str = "nf4",
        group: int = 64,
        zero_point: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.in_features = in_features
        self.out_features = out_features
        self.codes = codes
        self.group = group
        self.zero_point = zero_point
        if device is None:
            device = torch.get_default_device()
        rows = self._quantized(torch.empty(0, in_features, device="cpu"))  # none, of their columns
        for name, of in zip(self._BUFFERS, rows, strict=True):
            shape = None if of is None else (out_features, of.shape[1])
            self.register_buffer(name, None if of is None else of.new_zeros(shape, device=device))
        start = torch.zeros(out_features, device=device, dtype=dtype) if bias else None
        self.bias = None if start is None else torch.nn.Parameter(start)

    @classmethod
    def from_linear(
        cls,
        linear: torch.nn.Linear,
        codes: str = "nf4",
        group: int = 64,
        *,
        zero_point: bool = False,
    ) -> "QuantizedLinear":
        """A layer of the codes of another's weight, with a copy of its bias.

        Args:
            linear: The other, which stays as it is.
            codes: "nf4", "int4", "fp8" or "int8".
            group: How many columns share a scale.
            zero_point: Of "int4" and "int8".

        Returns:
            A layer on the device of the other.
        """
        made = cls(
            linear.in_features,
            linear.out_features,
            False,
            codes=codes,
            group=group,
            zero_point=zero_point,
            device="meta",
        )
        weight = made._quantized(linear.weight.detach())
        made._buffers.update(zip(cls._BUFFERS, weight, strict=True))
        made.bias = copy.deepcopy(linear.bias)
        made.train(linear.training)
        return made

    def dequantize(self, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        """The weight that codes and scales stand for.

        Args:
            dtype: f32, f16 or bf16.

        Returns:
            [out_features, in_features].
        """
        return warpsmith.dequantize_blockwise(
            self.weight_codes,
            self.weight_scales,
            self.weight_zeros,
            format=self.codes,
            group_size=self.group,
            out_dtype=dtype,
        )

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        rows = input.flatten(0, -2) if input.dim() > 1 else input[None]
        if rows.shape[0] > self._ROWS:
            return warpsmith.linear(input, self.dequantize(input.dtype), self.bias)
        y = warpsmith.quantized_linear(
            rows,
            self.weight_codes,
            self.weight_scales,
            self.weight_zeros,
            self.bias,
            format=self.codes,
            group_size=self.group,
        )
        return y.view(*input.shape[:-1], self.out_features)

    def extra_repr(self) -> str:
        more = ", zero_point=True" if self.zero_point else ""
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, "
            f"bias={self.bias is not None}, codes={self.codes}, group={self.group}{more}"
        )

    def _quantized(self, weight: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        """Codes, scales and zeros, None without."""
        made = warpsmith.quantize_blockwise(
            weight, format=self.codes, group_size=self.group, zero_point=self.zero_point
        )
        return made if self.zero_point else (*made, None)

    def _apply(self, fn: Callable[[torch.Tensor], torch.Tensor], recurse: bool = True) -> Any:
        """Moves buffers, whose dtypes stay: to(torch.bfloat16) is meant for the rest."""
        buffers = {id(buffer) for buffer in self._buffers.values()}

        def moved(tensor: torch.Tensor) -> torch.Tensor:
            result = fn(tensor)
            is_cast = id(tensor) in buffers and result.dtype != tensor.dtype
            return tensor.to(result.device) if is_cast else result

        return super()._apply(moved, recurse)


class RotaryEmbedding(torch.nn.Module):
    """Turns queries and keys by their positions, in one launch: warpsmith.rope_qk without tables.

    Angles are right at any position, so that there is nothing to keep and no longest sequence.

    Args:
        rotary_dim: Of a head's columns the first so many turn; all of them where left out.
        base: Pair i turns by base^(-i / pairs) a position.
        interleaved: Pairs of neighbours; else of a head's halves, as Llama has them.
        heads_first: Tensors are [B, H, S, D]; else [B, S, H, D].
    """

    def __init__(
        self,
        rotary_dim: int | None = None,
        *,
        base: float = 10000.0,
        interleaved: bool = False,
        heads_first: bool = True,
    ) -> None:
        super().__init__()
        self.rotary_dim = rotary_dim
        self.base = base
        self.interleaved = interleaved
        self.heads_first = heads_first

    def forward(
        self,
        query: torch.Tensor,
        key: torch.Tensor | None = None,
        positions: torch.Tensor | None = None,
    ) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
        how: dict[str, Any] = {
            "rotary_dim": self.rotary_dim,
            "base": self.base,
            "interleaved": self.interleaved,
            "heads_first": self.heads_first,
        }
        if key is None:
            return warpsmith.rope(query, None, None, positions, **how)
        return warpsmith.rope_qk(query, key, None, None, positions, **how)

    def extra_repr(self) -> str:
        return (
            f"rotary_dim={self.rotary_dim}, base={self.base}, interleaved={self.interleaved}, "
            f"heads_first={self.heads_first}"
        )
