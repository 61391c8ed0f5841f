"""Gradients of the operations, for autograd: our own backward kernels, else torch's."""

from collections.abc import Callable
from typing import Any

import torch

from warpsmith._catalogue import OPERATIONS, Operation

aten = torch.ops.aten
Backward = Callable[..., tuple[torch.Tensor | None, ...]]


def _sum_to(gradient: torch.Tensor, shape: torch.Size) -> torch.Tensor:
    """Undoes a broadcast."""
    return gradient if gradient.shape == shape else gradient.sum_to_size(shape)


# Each takes the gradient of the output, the inputs, the output and the attributes' values, and
# returns a gradient for each input.


def _add(g, a, b, y):
    del y
    return _sum_to(g, a.shape), _sum_to(g, b.shape)


def _mul(g, a, b, y):
    del y
    return _sum_to(g * b, a.shape), _sum_to(g * a, b.shape)


def _relu(g, x, y):
    del x
    return (aten.threshold_backward(g, y, 0),)


def _elu(g, x, y, alpha):
    del y
    return (aten.elu_backward(g, alpha, 1.0, 1.0, False, x),)


def _gelu(g, x, y, approximate):
    del y
    approximate = "none" if approximate == "erf" else approximate
    return (aten.gelu_backward(g, x, approximate=approximate),)


def _swish(g, x, y):
    del y
    # aten.silu_backward has no gradient of its own.
    s = torch.sigmoid(x)
    return (g * s * (1 + x * (1 - s)),)


def _hardswish(g, x, y):
    del y
    return (aten.hardswish_backward(g, x),)


def _hardshrink(g, x, y, lambd):
    del y
    # aten.hardshrink_backward takes no symbolic shapes.
    return (torch.where((x >= -lambd) & (x <= lambd), 0.0, g),)


def _sigmoid(g, x, y):
    del x
    return (aten.sigmoid_backward(g, y),)


def _softmax(g, x, y, *_):
    if "softmax_backward" in OPERATIONS:
        return (torch.ops.warpsmith.softmax_backward(g, y),)
    return (aten._softmax_backward_data(g, y, -1, x.dtype),)


def _log_softmax(g, x, y, *_):
    if "log_softmax_backward" in OPERATIONS:
        return (torch.ops.warpsmith.log_softmax_backward(g, y),)
    return (aten._log_softmax_backward_data(g, y, -1, x.dtype),)


def _scale_mask_softmax(g, x, mask, y, scale, fill):
    del x, fill
    return torch.ops.warpsmith.scale_mask_softmax_backward(g, y, mask, scale), None


def _scale_mask_softmax_backward(g, grad, output, mask, y, scale):
    del y
    # y = scale * (grad - sum(grad * output)) * output where the mask is true, else 0
    kept = torch.where(mask, g * scale, 0)
    return *_softmax_backward(kept, grad, output, None), None


def _softmax_backward(g, grad, output, y):
    del y
    # y = (grad - sum(grad * output)) * output
    inner = (g * output).sum(-1, keepdim=True)
    total = (grad * output).sum(-1, keepdim=True)
    return (g - inner) * output, g * (grad - total) - grad * inner


def _log_softmax_backward(g, grad, output, y):
    del y
    # y = grad - exp(output) * sum(grad)
    probability = output.exp()
    inner = (g * probability).sum(-1, keepdim=True)
    return g - inner, -g * probability * grad.sum(-1, keepdim=True)


def _gemm(g, a, b, y, layout):
    del y
    # C = A B with A, B as stored or transposed; each product in the layout that needs no copy.
    gemm = torch.ops.warpsmith.gemm
    if layout[0] == "n":
        da = gemm(g, b, "nt" if layout[1] == "n" else "nn")
    else:
        da = gemm(b, g, "nt" if layout[1] == "n" else "tt")
    if layout[1] == "n":
        db = gemm(a, g, "tn" if layout[0] == "n" else "nn")
    else:
        db = gemm(g, a, "tn" if layout[0] == "n" else "tt")
    return da, db


FORMULAS: dict[str, Backward] = {
    "add": _add,
    "mul": _mul,
    "relu": _relu,
    "elu": _elu,
    "gelu": _gelu,
    "swish": _swish,
    "hardswish": _hardswish,
    "hardshrink": _hardshrink,
    "sigmoid": _sigmoid,
    "softmax": _softmax,
    "log_softmax": _log_softmax,
    "scale_mask_softmax": _scale_mask_softmax,
    "softmax_backward": _softmax_backward,
    "log_softmax_backward": _log_softmax_backward,
    "scale_mask_softmax_backward": _scale_mask_softmax_backward,
    "gemm": _gemm,
}


def formula(operation: Operation) -> tuple[Callable[..., Any], Callable[..., None]]:
    """backward and setup_context of an operation, as torch.library.register_autograd takes them."""
    count = len(operation.inputs)
    attributes = operation.attributes
    gradient = FORMULAS.get(operation.name)

    def setup(ctx: Any, inputs: tuple[Any, ...], keyword_only_inputs: Any, output: Any) -> None:
        del keyword_only_inputs
        given = inputs[count:]
        ctx.values = [*given, *(a.default for a in attributes[len(given) :])]
        ctx.save_for_backward(*inputs[:count], output)

    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[Any, ...]:
        if gradient is None:
            raise NotImplementedError(f"warpsmith.{operation.name} has no gradient yet")
        found = gradient(*gradients, *ctx.saved_tensors, *ctx.values)
        return (*found, *(None for _ in attributes))

    return backward, setup
