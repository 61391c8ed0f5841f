"""torch.nn.functional.linear, with an activation, on the kernels of the catalogue.

It folds the batch, and chooses what is one kernel and what several.
"""

import torch

import warpsmith
from warpsmith._matmul import _autocast, _check_tensors, _precision, _raise_as_torch

_ACTIVATIONS = ("none", "relu", "gelu", "gelu_tanh", "silu", "swiglu")


def linear(
    input: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None = None,
    *,
    activation: str = "none",
) -> torch.Tensor:
    """A linear layer and its activation, as torch.nn.functional.linear and then the activation.

    One kernel, which rounds once, where nothing wants a gradient, and with `none` and `relu` in any
    case; but swiglu with a bias is always three. The gradient of another activation needs what it
    was applied to: then the product with its bias is one kernel and the activation another (of
    swiglu two: silu, and the product), each rounded, as in torch. The gradients are products of the
    catalogue's gemm, and of a bias its sum. On a GPU f32 is cut to TF32 where torch's settings
    allow that; bias and activation are kernels of their own then.

    Args:
        input: [..., K], f32, f16 or bf16; any strides.
        weight: [N, K], dtype of input; any strides. Of swiglu N / 2 rows of the gate, then those of
            what it gates.
        bias: [N], or one element for all columns, dtype of input.
        activation: "none", "relu", "gelu", "gelu_tanh" (torch's approximate="tanh"), "silu", or
            "swiglu": silu of the first half of the columns times the other half.

    Returns:
        [..., N], of swiglu [..., N / 2]; dtype of input, accumulated in f32.

    Raises:
        RuntimeError: as torch raises it, of shapes and dtypes that do not fit.
        TypeError: what is no torch tensor.
        ValueError: an activation, dtypes and devices that no kernel takes.
    """
    if activation not in _ACTIVATIONS:
        raise ValueError(f"linear: activation is one of {', '.join(_ACTIVATIONS)}: {activation!r}")
    given = {"input": input, "weight": weight} | ({} if bias is None else {"bias": bias})
    _check_tensors("linear", **given)
    tensors = _autocast(*given.values())
    if not _fits(*tensors) or (activation == "swiglu" and weight.shape[0] % 2 != 0):
        _raise_as_torch(torch.nn.functional.linear, *tensors)
    input, weight = tensors[:2]
    bias = None if bias is None else tensors[2].expand(weight.shape[0])
    if input.dim() == 2:
        return _of_rows(input, weight, bias, activation)
    rows = input.reshape(-1, input.shape[-1]) if input.shape[-1] > 0 else _empty_rows(input)
    result = _of_rows(rows, weight, bias, activation)
    return result.view(*input.shape[:-1], result.shape[-1])


linear.__module__ = "warpsmith"


def _fits(input: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> bool:
    shapes_of_bias = (weight.shape[:1], (1,), ())
    return (
        input.dim() > 0
        and weight.dim() == 2
        and input.shape[-1] == weight.shape[1]
        and input.dtype == weight.dtype
        and (bias is None or (bias.shape in shapes_of_bias and bias.dtype == weight.dtype))
    )


def _empty_rows(input: torch.Tensor) -> torch.Tensor:
    return input.reshape(input.shape[:-1].numel(), 0)


def _of_rows(
    rows: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, activation: str
) -> torch.Tensor:
    precision = _precision(rows)
    if activation == "none" and bias is None:
        return warpsmith.gemm(rows, weight, layout="nt", **precision)
    given = [tensor for tensor in (rows, weight, bias) if tensor is not None]
    wants_gradient = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in given)
    if activation == "swiglu" and bias is None and not wants_gradient and not precision:
        return warpsmith.swiglu_linear(rows, weight)
    # relu's gradient asks for no more than its result; addmm has no swiglu.
    needs_sums = wants_gradient and activation not in ("none", "relu")
    # Of few rows gemm reads a weight of f32 once, at memory's rate; addmm in TF32 has tiles alone.
    few = bool(precision) and rows.shape[0] <= 8
    if activation == "swiglu" or needs_sums or (few and activation != "none"):
        return _activated(_of_rows(rows, weight, bias, "none"), activation)
    if few:
        return warpsmith.add(warpsmith.gemm(rows, weight, layout="nt", **precision), bias)
    kind = {"activation": activation, **precision}
    if bias is None:
        nothing = weight.new_empty(1)  # which beta says not to read
        return warpsmith.addmm(nothing, rows, weight.t(), beta=0.0, **kind)
    return warpsmith.addmm(bias, rows, weight.t(), **kind)


def _activated(sums: torch.Tensor, activation: str) -> torch.Tensor:
    match activation:
        case "relu":
            return warpsmith.relu(sums)
        case "silu":
            return warpsmith.swish(sums)
        case "swiglu":
            gate, other = sums.chunk(2, -1)
            return warpsmith.mul(warpsmith.swish(gate), other)
        case _:
            return warpsmith.gelu(sums, approximate="tanh" if activation == "gelu_tanh" else "none")
