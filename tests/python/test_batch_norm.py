"""warpsmith.batch_norm, group_norm and instance_norm are torch's."""

from typing import Any

import pytest
import torch
import warpsmith
from conftest import assert_close

F = torch.nn.functional
dtypes = pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
SHAPES = [(4, 8), (3, 2, 5), (2, 8, 3, 4), (2, 3, 2, 3, 2)]
LAST = {4: torch.channels_last, 5: torch.channels_last_3d}


def tensor(shape: tuple[int, ...], seed: int = 1, dtype: Any = torch.float32) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return (1 + 2 * torch.randn(shape, generator=generator)).to(dtype)


def running_of(channels: int, dtype: Any = torch.float32) -> tuple[torch.Tensor, torch.Tensor]:
    return tensor((channels,), 5, dtype), tensor((channels,), 6, dtype).abs() + 0.5


def compare(ours: Any, theirs: Any, *inputs: torch.Tensor | None) -> None:
    """Values and gradients against torch's in double precision."""
    mine = [None if x is None else x.detach().requires_grad_() for x in inputs]
    wide = [None if x is None else x.detach().double().requires_grad_() for x in inputs]
    found, want = ours(*mine), theirs(*wide)
    assert found.dtype == inputs[0].dtype
    assert found.shape == want.shape
    assert_close(found, want)
    g = torch.linspace(-1, 2, found.numel()).view(found.shape).to(found.dtype).double()
    got = torch.autograd.grad((found.double() * g).sum(), [x for x in mine if x is not None])
    right = torch.autograd.grad((want * g).sum(), [x for x in wide if x is not None])
    for x, y in zip(got, right, strict=True):
        assert_close(x, y)


@dtypes
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("training", [True, False])
def test_batch_norm(shape: tuple[int, ...], dtype: Any, training: bool) -> None:
    """Moves the running statistics, in f32 as modules under autocast have them."""
    x = tensor(shape, dtype=dtype)
    weight, bias = tensor(shape[1:2], 2), tensor(shape[1:2], 3)
    for layout in {torch.contiguous_format, LAST.get(x.dim(), torch.contiguous_format)}:
        ours = running_of(shape[1])
        theirs = [r.double() for r in ours]
        options = {"training": training, "momentum": 0.3, "eps": 1e-3}
        compare(
            lambda *t, ours=ours, options=options: warpsmith.batch_norm(
                t[0], *ours, *t[1:], **options
            ),
            lambda *t, theirs=theirs, options=options: F.batch_norm(
                t[0], *theirs, *t[1:], **options
            ),
            x.contiguous(memory_format=layout),
            weight,
            bias,
        )
        for mine, right in zip(ours, theirs, strict=True):
            assert_close(mine, right)


def test_what_may_be_left_out() -> None:
    x, weight = tensor((3, 4, 5)), tensor((4,), 2)
    compare(
        lambda x: warpsmith.batch_norm(x, None, None, training=True),
        lambda x: F.batch_norm(x, None, None, training=True),
        x,
    )
    compare(
        lambda x, w: warpsmith.batch_norm(x, None, None, w, training=True),
        lambda x, w: F.batch_norm(x, None, None, w, training=True),
        x,
        weight,
    )


def test_memory_format_stays() -> None:
    x = tensor((2, 8, 3, 4)).contiguous(memory_format=torch.channels_last)
    running = running_of(8)
    for training in (True, False):
        y = warpsmith.batch_norm(x, *running, training=training)
        assert y.stride() == x.stride()


@pytest.mark.parametrize("groups", [1, 2, 8])
def test_groups_keep_the_memory_format(groups: int) -> None:
    """Values, gradients and what holds them, where channels lie side by side."""
    for x in (tensor((2, 8, 3, 4)), tensor((2, 8, 2, 3, 2))):
        x = x.contiguous(memory_format=LAST[x.dim()]).requires_grad_()
        y = warpsmith.group_norm(x, groups)
        assert y.stride() == x.stride()
        assert y.stride() == F.group_norm(x.detach(), groups).stride()
        (g,) = torch.autograd.grad(y.square().sum(), x)
        assert g.stride() == x.stride()
        mean, rstd = (torch.ones(2, groups) for _ in range(2))
        chosen = [
            warpsmith.explain("group_norm_forward", x.detach(), None, None, groups=groups),
            warpsmith.explain("group_norm_backward", y, x, mean, rstd, None, groups=groups),
        ]
        assert all("channels_last" in one.rung for one in chosen)
    y = warpsmith.instance_norm(x)
    assert y.stride() == x.stride()


@dtypes
def test_groups_within_vectors(dtype: Any) -> None:
    """80 channels in 8 groups: of 16 bits 20 bytes, which begin within a vector of 16."""
    x = tensor((2, 80, 5, 7), dtype=dtype).contiguous(memory_format=torch.channels_last)
    weight, bias = tensor((80,), 2), tensor((80,), 3)
    compare(
        lambda x, w, b: warpsmith.group_norm(x, 8, w, b),
        lambda x, w, b: F.group_norm(x, 8, w, b),
        x,
        weight,
        bias,
    )


def test_groups_channels_last_of_numbers_whose_sum_is_beyond_f32() -> None:
    x = torch.full((1, 64, 16, 16), 3e37).contiguous(memory_format=torch.channels_last)
    for rung in ("groups_channels_last", "groups_channels_last_on_chip", "any_layout"):
        y, mean, _ = warpsmith.group_norm_forward(x, groups=8, rung=rung)
        assert y.abs().max() == 0, rung
        torch.testing.assert_close(mean, torch.full_like(mean, 3e37))


def test_eval_may_be_called_twice() -> None:
    """Running statistics that nobody writes keep the versions that gradients are saved with."""
    x = tensor((3, 4, 5)).requires_grad_()
    running = running_of(4)
    y = warpsmith.batch_norm(x, *running) + warpsmith.batch_norm(x, *running)
    y.sum().backward()
    assert x.grad is not None


class Norm(torch.nn.BatchNorm2d):
    """A module whose function is ours."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return warpsmith.batch_norm(
            input,
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            self.training,
            self.momentum,
            self.eps,
        )


def test_module() -> None:
    ours, theirs = Norm(8), torch.nn.BatchNorm2d(8)
    for step in range(3):
        x = tensor((2, 8, 3, 4), step)
        assert_close(ours(x), theirs(x))
    ours.eval(), theirs.eval()
    assert_close(ours(x), theirs(x))
    assert_close(ours.running_var, theirs.running_var)


@dtypes
@pytest.mark.parametrize(("shape", "groups"), [((5, 6), 2), ((3, 4, 5), 4), ((2, 8, 3, 4), 2)])
def test_group_norm(shape: tuple[int, ...], groups: int, dtype: Any) -> None:
    x = tensor(shape, dtype=dtype)
    weight, bias = tensor(shape[1:2], 2, dtype), tensor(shape[1:2], 3, dtype)
    for layout in {torch.contiguous_format, LAST.get(x.dim(), torch.contiguous_format)}:
        compare(
            lambda x, w, b: warpsmith.group_norm(x, groups, w, b, 1e-3),
            lambda x, w, b: F.group_norm(x, groups, w, b, 1e-3),
            x.contiguous(memory_format=layout),
            weight,
            bias,
        )
    compare(lambda x: warpsmith.group_norm(x, groups), lambda x: F.group_norm(x, groups), x)


@dtypes
def test_group_norm_under_autocast(dtype: Any, device: str) -> None:
    """f32 on a GPU; a CPU's list of functions has no group_norm."""
    x = tensor((2, 4, 6), dtype=dtype).to(device)
    with torch.autocast(device, torch.bfloat16):
        assert warpsmith.group_norm(x, 2).dtype == F.group_norm(x, 2).dtype


def test_instance_norm() -> None:
    x, weight, bias = tensor((3, 4, 6)), tensor((4,), 2), tensor((4,), 3)
    compare(
        lambda x, w, b: warpsmith.instance_norm(x, weight=w, bias=b),
        lambda x, w, b: F.instance_norm(x, weight=w, bias=b),
        x,
        weight,
        bias,
    )
    running = running_of(4)
    theirs = [r.double() for r in running]
    compare(
        lambda x: warpsmith.instance_norm(x, *running, use_input_stats=False),
        lambda x: F.instance_norm(x, *theirs, use_input_stats=False),
        x,
    )


@dtypes
@pytest.mark.parametrize("shape", [(3, 4, 6), (1, 4, 2), (2, 8, 3, 4), (2, 3, 2, 3, 2)], ids=str)
def test_instance_norm_moves_running_statistics(shape: tuple[int, ...], dtype: Any) -> None:
    x = tensor(shape, dtype=dtype)
    weight, bias = tensor(shape[1:2], 2), tensor(shape[1:2], 3)
    for layout in {torch.contiguous_format, LAST.get(x.dim(), torch.contiguous_format)}:
        ours = running_of(shape[1])
        theirs = [r.double() for r in ours]
        compare(
            lambda x, w, b, r=ours: warpsmith.instance_norm(x, *r, w, b, momentum=0.3, eps=1e-3),
            lambda x, w, b, r=theirs: F.instance_norm(x, *r, w, b, momentum=0.3, eps=1e-3),
            x.contiguous(memory_format=layout),
            weight,
            bias,
        )
        for mine, right in zip(ours, theirs, strict=True):
            assert_close(mine, right)


def test_running_statistics_of_instances_keep_their_dtype() -> None:
    x, running = tensor((3, 4, 6), dtype=torch.bfloat16), running_of(4, torch.bfloat16)
    theirs = [r.double() for r in running]
    warpsmith.instance_norm(x, *running)
    F.instance_norm(x.double(), *theirs)
    for mine, right in zip(running, theirs, strict=True):
        assert mine.dtype == torch.bfloat16
        assert_close(mine, right)


@pytest.mark.parametrize("momentum", [0.1, None])
def test_instance_norm_module(momentum: float | None) -> None:
    theirs = torch.nn.InstanceNorm2d(8, momentum=momentum, affine=True, track_running_stats=True)
    ours = warpsmith.nn.InstanceNorm2d(8, momentum=momentum, affine=True, track_running_stats=True)
    for step in range(3):
        x = tensor((2, 8, 3, 4), step)
        assert_close(ours(x), theirs(x))
    for mine, right in zip(ours.buffers(), theirs.buffers(), strict=True):
        assert_close(mine, right)
    ours.eval(), theirs.eval()
    assert_close(ours(x), theirs(x))


def test_special_values() -> None:
    """What is no number stays in its channel."""
    x = tensor((3, 4, 5))
    x[1, 2, 3] = float("nan")
    x[0, 1, 1] = float("inf")
    y = warpsmith.batch_norm(x, None, None, training=True)
    assert y[:, 1:3].isnan().all()
    assert not y[:, [0, 3]].isnan().any()


@pytest.mark.parametrize("shape", [(0, 4), (0, 4, 3), (2, 4, 0)], ids=str)
def test_nothing(shape: tuple[int, ...]) -> None:
    running = running_of(4)
    before = [r.clone() for r in running]
    x = torch.empty(shape)
    assert warpsmith.batch_norm(x, *running).shape == shape
    assert warpsmith.batch_norm(x, *running, training=True).shape == shape
    assert all(torch.equal(r, b) for r, b in zip(running, before, strict=True))
    assert warpsmith.group_norm(x, 2).shape == shape
    if len(shape) > 2:
        assert warpsmith.instance_norm(x, *running).shape == shape
        assert all(torch.equal(r, b) for r, b in zip(running, before, strict=True))


def test_what_is_refused() -> None:
    x, four, three = tensor((2, 4, 3)), torch.ones(4), torch.ones(3)
    one = torch.ones(1, 4)
    for error, words, call in (
        (
            ValueError,
            "more than 1 value",
            lambda: warpsmith.batch_norm(one, None, None, None, None, True),
        ),
        (RuntimeError, "running_mean", lambda: warpsmith.batch_norm(x, None, None)),
        (RuntimeError, "running_mean", lambda: warpsmith.batch_norm(x, three, three)),
        (RuntimeError, "weight", lambda: warpsmith.batch_norm(x, four, four, three)),
        (ValueError, "momentum", lambda: warpsmith.batch_norm(x, four, four, momentum=None)),
        (
            ValueError,
            "f32, f16 or bf16|none that kernels",
            lambda: warpsmith.batch_norm(x.double(), four, four),
        ),
        (TypeError, "must be Tensor", lambda: warpsmith.batch_norm([1.0], None, None)),
        (RuntimeError, "num_groups|divisible", lambda: warpsmith.group_norm(x, 3)),
        (ValueError, "more than 1 value", lambda: warpsmith.group_norm(one, 4)),
        (ValueError, "more than 1 spatial", lambda: warpsmith.instance_norm(x[..., :1])),
        (ValueError, "running_mean", lambda: warpsmith.instance_norm(x, four)),
        (RuntimeError, "running_mean", lambda: warpsmith.instance_norm(x, three, three)),
        (ValueError, "eps must", lambda: warpsmith.batch_norm(x, *[None] * 4, True, eps=0.0)),
        (
            ValueError,
            "got -1",
            lambda: warpsmith.batch_norm(x, four, four, None, None, True, 0, -1),
        ),
    ):
        with pytest.raises(error, match=words):
            call()


def test_gradcheck() -> None:
    """Against differences, which f32 knows to three digits."""
    x, weight = tensor((3, 2, 4)), tensor((2,), 2)
    running = running_of(2)

    def loss(at: torch.Tensor) -> torch.Tensor:
        y = warpsmith.batch_norm(at, *running, weight, training=True)
        return (y * torch.linspace(-1, 1, y.numel()).view(y.shape)).sum()

    at = x.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(loss(at), at)
    for i in range(x.numel()):
        step = torch.zeros_like(x)
        step.view(-1)[i] = 0.02
        slope = (loss(x + step) - loss(x - step)) / 0.04
        assert abs(slope - gradient.view(-1)[i]) < 2e-3


@pytest.mark.parametrize("training", [True, False])
def test_compile(training: bool) -> None:
    torch._dynamo.reset()
    x, weight, bias = tensor((2, 4, 6)).requires_grad_(), tensor((4,), 2), tensor((4,), 3)

    def norm(x: torch.Tensor, *running: torch.Tensor) -> torch.Tensor:
        return warpsmith.batch_norm(x, *running, weight, bias, training)

    compiled = torch.compile(norm, backend="aot_eager", fullgraph=True)
    ours, theirs = running_of(4), running_of(4)
    found, want = compiled(x, *ours), norm(x, *theirs)
    assert_close(found, want)
    for mine, right in zip(ours, theirs, strict=True):
        assert_close(mine, right)
    (mine,) = torch.autograd.grad(found.square().sum(), x)
    (right,) = torch.autograd.grad(want.square().sum(), x)
    assert_close(mine, right)


def test_second_gradients_go_through_the_statistics_of_training() -> None:
    def penalty(function: Any, dtype: torch.dtype) -> list[torch.Tensor]:
        torch.manual_seed(4)
        x, w = (torch.randn(s, dtype=torch.float64).to(dtype) for s in ((3, 4, 5), (4,)))
        x.requires_grad_(), w.requires_grad_()
        running = torch.zeros(4, dtype=dtype), torch.ones(4, dtype=dtype)
        y = function(x, *running, w, None, True)
        (g,) = torch.autograd.grad((y**3).sum(), x, create_graph=True)
        return torch.autograd.grad((g**2).sum(), (x, w))

    found = penalty(warpsmith.batch_norm, torch.float32)
    want = penalty(torch.nn.functional.batch_norm, torch.float64)
    for one, other in zip(found, want, strict=True):
        torch.testing.assert_close(one.double(), other, rtol=1e-4, atol=1e-3)
