"""torch's batch_norm, group_norm and instance_norm on the kernels of the catalogue.

Which statistics a call uses, what it refuses and in which words is torch's and stands here.
"""

import math
from typing import Any

import torch

import warpsmith
from warpsmith._matmul import _check_tensors, _raise_as_torch


class _Training(torch.autograd.Function):
    """batch_norm_training, whose running statistics have no gradient."""

    @staticmethod
    def forward(
        ctx: Any,
        x: torch.Tensor,
        weight: torch.Tensor | None,
        bias: torch.Tensor | None,
        running_mean: torch.Tensor,
        running_var: torch.Tensor,
        momentum: float,
        eps: float,
    ) -> torch.Tensor:
        y, mean, rstd = warpsmith.batch_norm_training(
            x, running_mean, running_var, weight, bias, momentum=momentum, eps=eps
        )
        ctx.bias_dtype = None if bias is None else bias.dtype
        ctx.eps = eps
        ctx.save_for_backward(x, weight, mean, rstd)
        return y

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[Any, ...]:
        x, weight, mean, rstd = ctx.saved_tensors
        if torch.is_grad_enabled():  # a second gradient goes through the statistics, too
            _, mean, rstd = warpsmith.batch_norm_forward(x, weight, None, eps=ctx.eps)
        dx, dweight, dbias = warpsmith.batch_norm_backward(grad, x, mean, rstd, weight)
        dweight = None if weight is None else dweight
        dbias = None if ctx.bias_dtype is None else dbias.to(ctx.bias_dtype)
        return dx, dweight, dbias, None, None, None, None


def batch_norm(
    input: torch.Tensor,
    running_mean: torch.Tensor | None,
    running_var: torch.Tensor | None,
    weight: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> torch.Tensor:
    """torch.nn.functional.batch_norm.

    In training the statistics of the batch are used, and the running ones, where there are any,
    move along in place, the variance without bias. Sums are in f32, whatever the dtype of input.

    Args:
        input: [N, C, ...] of 2 to 5 dimensions, f32, f16 or bf16; any strides. Contiguous and
            channels_last are fastest.
        running_mean: [C], dtype of input or f32. None: there is none.
        running_var: [C], where there is a running_mean.
        weight: [C], dtype of input or f32.
        bias: [C], dtype of input or f32.
        training: Uses the batch's statistics; else the running ones.
        momentum: How much of the running statistics is new. torch's modules make a number of their
            momentum=None (a cumulative average) before they call.
        eps: Added to the variance; in training above 0.

    Returns:
        Shape, dtype and memory format of input.

    Raises:
        RuntimeError, ValueError: as torch raises them, of shapes that do not fit, no running
            statistics, and in training channels of one value or an eps that is not above 0.
        TypeError: what is no torch tensor.
        ValueError: dtypes that no kernel takes.
    """
    name = "batch_norm"
    _check_tensors(name, input=input)
    running = (running_mean, running_var)
    vectors = (*running, weight, bias)
    alone = (running_mean is None) != (running_var is None)
    if alone or (running_mean is None and not training) or not _fit(input, vectors):
        _raise_as_torch(
            torch.nn.functional.batch_norm, input.detach(), *running, weight, bias, training
        )
    if momentum is None:
        raise ValueError(f"{name}: momentum is a number: a cumulative average is its caller's")
    if not training:
        return warpsmith.batch_norm_inference(input, *running, weight, bias, eps=eps)
    if eps <= 0:
        raise ValueError(f"{name} eps must be positive during training, but got {eps}")
    if input.shape[0] * math.prod(input.shape[2:]) == 1:
        raise ValueError(
            f"Expected more than 1 value per channel when training, got input size {input.size()}"
        )
    if running_mean is None:
        return warpsmith.batch_norm_forward(input, weight, bias, eps=eps)[0]
    return _Training.apply(input, weight, bias, *running, momentum, eps)


def group_norm(
    input: torch.Tensor,
    num_groups: int,
    weight: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    eps: float = 1e-5,
) -> torch.Tensor:
    """torch.nn.functional.group_norm; arguments as of batch_norm.

    Under torch.autocast of a GPU input, weight and bias become f32, as torch has it.
    """
    name = "group_norm"
    _check_tensors(name, input=input)
    vectors = (weight, bias)
    if input.is_cuda and torch.is_autocast_enabled("cuda"):  # a CPU's list has no group_norm
        input, weight, bias = (None if x is None else x.float() for x in (input, *vectors))
    if num_groups < 1 or not _fit(input, vectors) or input.shape[1] % num_groups:
        _raise_as_torch(torch.nn.functional.group_norm, input.detach(), num_groups, weight, bias)
    count = input.numel() // (max(input.shape[0], 1) * num_groups)
    if count == 1 and input.shape[0] == 1:
        raise ValueError(
            "Expected more than 1 value per channel when training, got input size "
            f"{[1, num_groups, *input.shape[2:]]}"
        )
    return warpsmith.group_norm_forward(input, weight, bias, groups=num_groups, eps=eps)[0]


def instance_norm(
    input: torch.Tensor,
    running_mean: torch.Tensor | None = None,
    running_var: torch.Tensor | None = None,
    weight: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> torch.Tensor:
    """torch.nn.functional.instance_norm: each channel of each sample by itself.

    As group_norm with a group a channel. Without use_input_stats it is batch_norm by the running
    statistics; with it these, where there are any, move along in place: means over the samples of
    what each has, the variance without bias, to within 2^-22 of eps.

    Args:
        input: [N, C, ...] of 3 to 5 dimensions, f32, f16 or bf16; any strides.
        running_mean: [C]. None: there is none.
        running_var: [C], where there is a running_mean.
        weight: [C], dtype of input or f32.
        bias: [C], dtype of input or f32.
        use_input_stats: Uses the statistics of the input; else the running ones.
        momentum: How much of the running statistics is new.
        eps: Added to the variance.

    Returns:
        Shape, dtype and memory format of input.

    Raises:
        RuntimeError, ValueError: as torch raises them, of shapes that do not fit, running
            statistics of which one is missing, and channels of one value.
        TypeError: what is no torch tensor.
        ValueError: dtypes that no kernel takes.
    """
    name = "instance_norm"
    _check_tensors(name, input=input)
    running = (running_mean, running_var)
    vectors = (*running, weight, bias)
    if not use_input_stats:
        if running_mean is None or running_var is None or not _fit(input, vectors):
            _raise_as_torch(
                torch.nn.functional.instance_norm, input.detach(), *running, weight, bias, False
            )
        return warpsmith.batch_norm_inference(input, *running, weight, bias, eps=eps)
    alone = (running_mean is None) != (running_var is None)
    if input.dim() == 2 or alone or not _fit(input, vectors):
        _raise_as_torch(torch.nn.functional.instance_norm, input.detach(), *running, weight, bias)
    if math.prod(input.shape[2:]) == 1:
        raise ValueError(
            f"Expected more than 1 spatial element when training, got input size {input.size()}"
        )
    y, mean, rstd = warpsmith.group_norm_forward(
        input, weight, bias, groups=max(input.shape[1], 1), eps=eps
    )
    if running_mean is not None and running_var is not None and input.numel() > 0:
        count = math.prod(input.shape[2:])
        variance = (rstd.detach() ** -2 - eps).clamp(min=0) * (count / (count - 1))
        _move(running_mean, mean.detach(), momentum)
        _move(running_var, variance, momentum)
    return y


for _function in (batch_norm, group_norm, instance_norm):
    _function.__module__ = "warpsmith"
del _function


def _move(running: torch.Tensor, of_samples: torch.Tensor, momentum: float) -> None:
    """Moves a running statistic, [C], towards the mean of what samples have, [N, C]."""
    with torch.no_grad():
        running.copy_(running.float() * (1 - momentum) + of_samples.mean(0) * momentum)


def _fit(input: torch.Tensor, vectors: tuple[torch.Tensor | None, ...]) -> bool:
    """Whether the tensors are such as torch takes too; dtypes are for the operations to refuse."""
    if input.dim() < 2:
        return False
    return all(x is None or x.shape == (input.shape[1],) for x in vectors)
