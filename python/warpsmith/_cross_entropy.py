"""torch's cross_entropy, and one that never holds all logits, on the kernels of the catalogue.

The catalogue's operations give each row's loss; which of them are counted, and how they become one
number, is torch's and stands here.
"""

import math
from typing import Any

import torch

import warpsmith
from warpsmith._matmul import (
    _autocast,
    _autocasts,
    _check_tensors,
    _precision,
    _raise_as_torch,
)

_REDUCTIONS = ("none", "mean", "sum")
_DTYPES = (torch.float32, torch.float16, torch.bfloat16)


def cross_entropy(
    input: torch.Tensor,
    target: torch.Tensor,
    weight: torch.Tensor | None = None,
    size_average: None = None,
    ignore_index: int = -100,
    reduce: None = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
    *,
    z_loss: float = 0.0,
) -> torch.Tensor:
    """torch.nn.functional.cross_entropy of class indices, and z_loss.

    Sums are in f32, whatever the dtype of input. The logits are read once; their gradient reads
    them once more and keeps one number a row.

    Args:
        input: [C], [N, C] or [N, C, d1, ...], f32, f16 or bf16; any strides. Classes that lie side
            by side in memory are fastest.
        target: [], [N] or [N, d1, ...], i64 or i32: classes, or ignore_index. Others are found on
            the device: nothing is written for their rows, and the next call raises it.
        weight: [C], of each class; may not require a gradient.
        size_average: None, as reduce: torch's old names of a reduction.
        ignore_index: The target of what counts nothing.
        reduce: None.
        reduction: "mean" (over the weights of what counts), "sum" or "none".
        label_smoothing: From 0 to 1.
        z_loss: This times log(sum(exp(input)))^2 is added to each loss that counts.

    Returns:
        A number, or the shape of target; dtype of input, f32 under torch.autocast.

    Raises:
        RuntimeError, ValueError: as torch raises them, of shapes and dtypes that do not fit.
        TypeError: what is no torch tensor.
        ValueError: targets that are probabilities, and dtypes that no kernel takes.
        NotImplementedError: a gradient of weight is wanted.
    """
    name = "cross_entropy"
    _check_tensors(name, input=input, target=target)
    _check_reduction(name, reduction)
    if size_average is not None or reduce is not None:
        raise ValueError(f"{name}: says by reduction what size_average and reduce said")
    if target.is_floating_point():
        raise ValueError(f"{name}: takes targets that are classes, not probabilities")
    classes = input.shape[min(1, input.dim() - 1)] if input.dim() > 0 else 0
    shape = input.shape[:1] + input.shape[2:] if input.dim() > 1 else input.shape[:-1]
    if (
        input.dim() == 0
        or target.shape != shape
        or input.dtype not in _DTYPES
        or target.dtype not in (torch.int64, torch.int32)
        or (weight is not None and weight.shape != (classes,))
    ):
        given = (input.detach(), target, weight)
        _raise_as_torch(torch.nn.functional.cross_entropy, *(x for x in given if x is not None))
    logits = input.movedim(1, -1) if input.dim() > 2 else input
    counts = _class_weights(name, weight)
    loss, _ = warpsmith.cross_entropy_forward(
        logits,
        target,
        counts,
        ignore_index=ignore_index,
        label_smoothing=label_smoothing,
        z_loss=z_loss,
    )
    result = _reduced(loss, target, counts, ignore_index, reduction)
    return result if _autocasts(input) else result.to(input.dtype)


def linear_cross_entropy(
    input: torch.Tensor,
    linear_weight: torch.Tensor,
    target: torch.Tensor,
    weight: torch.Tensor | None = None,
    *,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
    z_loss: float = 0.0,
    chunk: int = 4096,
) -> torch.Tensor:
    """cross_entropy of input @ linear_weight.T, of which only a chunk of rows is ever in memory.

    Where a gradient is wanted, each chunk's logits become their gradient in place, and from it the
    product's gradients are computed at once: `backward` only scales them. With reduction="none"
    it computes the logits again, since only then the gradient of each loss is known.

    Args:
        input: [..., K], f32, f16 or bf16.
        linear_weight: [V, K], dtype of input.
        target: i64 or i32, input.shape[:-1]: classes, or ignore_index.
        weight: [V], of each class; may not require a gradient.
        ignore_index: The target of what counts nothing.
        reduction: "mean", "sum" or "none", as of cross_entropy.
        label_smoothing: From 0 to 1.
        z_loss: This times log(sum(exp(logits)))^2 is added to each loss that counts.
        chunk: Rows of which the logits are in memory. The gradient of linear_weight, which is
            added up in f32, is read and written once for each chunk.

    Returns:
        A number, or the shape of target; dtype of input, f32 under torch.autocast.

    Raises:
        TypeError: what is no torch tensor.
        ValueError: shapes, dtypes and devices that do not fit.
        NotImplementedError: a gradient of weight is wanted.
    """
    name = "linear_cross_entropy"
    _check_tensors(name, input=input, linear_weight=linear_weight, target=target)
    _check_reduction(name, reduction)
    dtype = torch.float32 if _autocasts(input) else input.dtype
    input, linear_weight = _autocast(input, linear_weight)
    fits = (
        input.dim() > 0
        and linear_weight.dim() == 2
        and input.shape[-1] == linear_weight.shape[1]
        and input.dtype == linear_weight.dtype
        and target.shape == input.shape[:-1]
        and (weight is None or weight.shape == linear_weight.shape[:1])
    )
    if not fits or input.dtype not in _DTYPES or chunk < 1:
        shapes = [tuple(x.shape) for x in (input, linear_weight, target)]
        raise ValueError(
            f"{name} takes input [..., K], linear_weight [V, K] of one dtype of f32, f16 or bf16, "
            f"target [...] and a chunk of at least one row, not {shapes}, {input.dtype}, "
            f"{linear_weight.dtype}, chunk={chunk}"
        )
    rows = input.reshape(math.prod(target.shape), input.shape[-1])
    targets = target.reshape(-1)
    counts = _class_weights(name, weight)
    options = {
        "ignore_index": ignore_index,
        "label_smoothing": label_smoothing,
        "z_loss": z_loss,
    }
    wants = tuple(torch.is_grad_enabled() and x.requires_grad for x in (rows, linear_weight))
    loss, *_ = _InChunks.apply(
        rows, linear_weight, targets, counts, reduction == "none", chunk, options, wants
    )
    if reduction == "none":
        loss = loss.view(target.shape)
    elif reduction == "mean":
        loss = loss / _denominator(targets, counts, ignore_index)
    return loss.to(dtype)


for _function in (cross_entropy, linear_cross_entropy):
    _function.__module__ = "warpsmith"
del _function


def _check_reduction(name: str, reduction: str) -> None:
    if reduction not in _REDUCTIONS:
        raise ValueError(f"{name}: {reduction} is not a valid value for reduction")


def _class_weights(name: str, weight: torch.Tensor | None) -> torch.Tensor | None:
    if weight is None:
        return None
    if torch.is_grad_enabled() and weight.requires_grad:  # as torch's functions refuse it
        raise NotImplementedError(f"{name} has no gradient of weight")
    return weight.detach().float()


def _denominator(
    target: torch.Tensor, weight: torch.Tensor | None, ignore_index: int
) -> torch.Tensor:
    """The weights of what counts, added up."""
    kept = target != ignore_index
    if weight is None or weight.numel() == 0:
        return kept.sum()
    # A wrong target is the kernel's to tell.
    return (weight[target.clamp(0, weight.numel() - 1)] * kept).sum()


def _reduced(
    loss: torch.Tensor,
    target: torch.Tensor,
    weight: torch.Tensor | None,
    ignore_index: int,
    reduction: str,
) -> torch.Tensor:
    if reduction == "none":
        return loss
    total = warpsmith.sum(loss)
    return total if reduction == "sum" else total / _denominator(target, weight, ignore_index)


class _InChunks(torch.autograd.Function):
    """The sum of the losses of rows @ matrix.T, or each of them; and the sum's gradients."""

    @staticmethod
    def forward(
        rows: torch.Tensor,
        matrix: torch.Tensor,
        target: torch.Tensor,
        weight: torch.Tensor | None,
        each: bool,
        chunk: int,
        options: dict[str, Any],
        wants: tuple[bool, ...],  # gradients; under no_grad autograd's own answer is another
    ) -> tuple[torch.Tensor | None, ...]:
        if any(wants) and not each:
            losses, *gradients = _gradients(
                rows, matrix, target, weight, None, wants, chunk, options
            )
            return warpsmith.sum(losses), *gradients
        losses = torch.empty(target.shape, dtype=torch.float32, device=rows.device)
        for part, logits in _logits(rows, matrix, chunk):
            loss, _ = warpsmith.cross_entropy_forward(logits, target[part], weight, **options)
            losses[part] = loss
        return losses if each else warpsmith.sum(losses), None, None

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Any, ...]) -> None:
        rows, matrix, target, weight, ctx.each, ctx.chunk, ctx.options, wants = inputs
        gradients = output[1:]
        ctx.set_materialize_grads(False)
        ctx.dtypes = rows.dtype, matrix.dtype
        if ctx.each and any(wants):
            ctx.save_for_backward(rows, matrix, target, weight)
        elif any(wants):
            ctx.save_for_backward(*gradients, target)

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor, *second: Any) -> tuple[torch.Tensor | None, ...]:
        # A second gradient is one through the gradients that are kept. What is compiled asks for
        # all at once.
        if any(x is not None for x in second) and not torch.compiler.is_compiling():
            raise NotImplementedError("linear_cross_entropy has a first gradient alone")
        if ctx.each:
            # All as arguments: a second gradient is refused where g is a constant, too.
            found = _gradients_of_each(ctx, g, *ctx.saved_tensors)
        else:
            *found, target = ctx.saved_tensors
            # Of nothing a mean is no number; its gradient is 0 even so, as torch has it.
            g = torch.where((target != ctx.options["ignore_index"]).any(), g, 0)
            found = [None if x is None else x * g for x in found]
        gradients = [
            None if x is None else x.to(dtype) for x, dtype in zip(found, ctx.dtypes, strict=True)
        ]
        return (*gradients, None, None, None, None, None, None)

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], *inputs: Any) -> tuple[Any, Any]:
        """One call for each of the batch, all of whose gradients are kept until they are asked."""
        tensors, options = inputs[:4], inputs[4:]
        calls = [
            _InChunks.apply(
                *(
                    x if d is None else x.select(d, i)
                    for x, d in zip(tensors, in_dims[:4], strict=True)
                ),
                *options,
            )
            for i in range(info.batch_size)
        ]
        results = [
            None if parts[0] is None else torch.stack(parts) for parts in zip(*calls, strict=True)
        ]
        return tuple(results), tuple([None if result is None else 0 for result in results])


@torch.autograd.function.once_differentiable
def _gradients_of_each(
    ctx: Any,
    g: torch.Tensor,
    rows: torch.Tensor,
    matrix: torch.Tensor,
    target: torch.Tensor,
    weight: torch.Tensor | None,
) -> tuple[torch.Tensor | None, ...]:
    wants = ctx.needs_input_grad[:2]
    _, *found = _gradients(rows, matrix, target, weight, g, wants, ctx.chunk, ctx.options)
    return tuple(found)


def _logits(rows: torch.Tensor, matrix: torch.Tensor, chunk: int) -> Any:
    """Chunks of rows @ matrix.T, in one memory: a slice of rows, and its logits."""
    total = rows.shape[0]
    memory = rows.new_empty(min(chunk, total), matrix.shape[0])
    for first in range(0, total, chunk):
        part = slice(first, min(first + chunk, total))
        logits = memory[: part.stop - first]
        warpsmith.gemm(rows[part], matrix, layout="nt", out=logits, **_precision(rows))
        yield part, logits


def _gradients(
    rows: torch.Tensor,
    matrix: torch.Tensor,
    target: torch.Tensor,
    weight: torch.Tensor | None,
    dloss: torch.Tensor | None,
    wants: tuple[bool, ...],
    chunk: int,
    options: dict[str, Any],
) -> tuple[torch.Tensor, torch.Tensor | None, torch.Tensor | None]:
    """Each loss, and the gradients that are wanted: of rows, and of the matrix in f32."""
    losses = torch.empty(target.shape, dtype=torch.float32, device=rows.device)
    of_rows = torch.empty_like(rows) if wants[0] else None
    of_matrix = None
    if wants[1]:
        of_matrix = torch.zeros(matrix.shape, dtype=torch.float32, device=rows.device)
    for part, logits in _logits(rows, matrix, chunk):
        loss, _ = warpsmith.cross_entropy_fused(
            logits, target[part], weight, None if dloss is None else dloss[part], **options
        )
        losses[part] = loss
        if of_rows is not None:
            warpsmith.gemm(logits, matrix, out=of_rows[part], **_precision(rows))
        if of_matrix is not None:
            warpsmith.gemm_accumulate(logits.t(), rows[part], of_matrix)
    return losses, of_rows, of_matrix
