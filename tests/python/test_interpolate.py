"""torch's interpolate, nearest and bilinear: pixels, gradients, memory formats, refusals."""

import numpy as np
import pytest
import torch
import warpsmith
from conftest import assert_close
from torch.nn import functional


def images(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(1))


HOW = [
    {"scale_factor": 2},
    {"size": (7, 9)},
    {"size": 3},
    {"scale_factor": (1.7, 2.6)},
    {"scale_factor": 1.7, "recompute_scale_factor": True},
    {"scale_factor": 0.4},
]


@pytest.mark.parametrize("how", HOW, ids=str)
@pytest.mark.parametrize("mode", ["nearest", "nearest-exact"])
@pytest.mark.parametrize("inside", [False, True])
def test_nearest_is_torchs(how: dict, mode: str, inside: bool) -> None:
    x = images(2, 4, 5, 6)
    x = x.to(memory_format=torch.channels_last) if inside else x
    x.requires_grad_()
    ours = warpsmith.interpolate(x, **how, mode=mode)
    theirs = functional.interpolate(x, **how, mode=mode)
    assert torch.equal(ours, theirs)
    assert ours.stride() == theirs.stride()
    g = images(*ours.shape)
    assert_close(torch.autograd.grad(ours, x, g)[0], torch.autograd.grad(theirs, x, g)[0])


@pytest.mark.parametrize("how", HOW, ids=str)
@pytest.mark.parametrize("corners", [False, True])
@pytest.mark.parametrize("inside", [False, True])
def test_bilinear_is_torchs(how: dict, corners: bool, inside: bool) -> None:
    x = images(2, 4, 5, 6)
    x = x.to(memory_format=torch.channels_last) if inside else x
    x.requires_grad_()
    how = {**how, "mode": "bilinear", "align_corners": corners}
    ours = warpsmith.interpolate(x, **how)
    theirs = functional.interpolate(x, **how)
    assert_close(ours, theirs)
    assert ours.stride() == theirs.stride()
    g = images(*ours.shape).requires_grad_()
    of_ours, of_theirs = (
        torch.autograd.grad(y, x, g, create_graph=True)[0] for y in (ours, theirs)
    )
    assert_close(of_ours, of_theirs)
    u = images(*x.shape)
    assert_close(torch.autograd.grad(of_ours, g, u)[0], torch.autograd.grad(of_theirs, g, u)[0])


def test_every_size_is_bilinear_as_torchs() -> None:
    x = images(1, 1, 1, 13)
    for width in range(1, 60):
        for corners in (False, True):
            how = {"size": (1, width), "mode": "bilinear", "align_corners": corners}
            assert_close(warpsmith.interpolate(x, **how), functional.interpolate(x, **how))


def test_what_is_not_finite_goes_where_torch_lets_it() -> None:
    x = images(1, 1, 4, 8)
    x[0, 0, 1, 2] = torch.inf
    for corners in (False, True):
        how = {"size": (7, 16), "mode": "bilinear", "align_corners": corners}
        ours, theirs = warpsmith.interpolate(x, **how), functional.interpolate(x, **how)
        assert torch.equal(ours.isfinite(), theirs.isfinite())


@pytest.mark.parametrize("how", [{"size": (4, 8)}, {"scale_factor": 1}], ids=str)
@pytest.mark.parametrize("corners", [False, True])
@pytest.mark.parametrize("inside", [False, True])
def test_the_same_size_is_a_copy(how: dict, corners: bool, inside: bool) -> None:
    """Also of what is not finite, which bilinear weights of 0 would make no number."""
    x = images(2, 3, 4, 8)
    x[0, 0, 1, 2], x[1, 2, 3, 7] = torch.inf, torch.nan
    x = x.to(memory_format=torch.channels_last) if inside else x
    x.requires_grad_()
    y = warpsmith.interpolate(x, **how, mode="bilinear", align_corners=corners)
    assert torch.equal(y.nan_to_num(nan=7), x.nan_to_num(nan=7))
    assert y.stride() == x.stride() and y.data_ptr() != x.data_ptr()
    g = images(*y.shape)
    assert torch.equal(torch.autograd.grad(y, x, g)[0], g)
    with pytest.raises(ValueError, match="f32, f16 or bf16"):
        warpsmith.interpolate(x.double(), **how, mode="bilinear", align_corners=corners)


def test_every_size_has_torchs_pixels() -> None:
    x = torch.arange(13.0).reshape(1, 1, 1, 13)
    for width in range(1, 60):
        for mode in ("nearest", "nearest-exact"):
            how = {"size": (1, width), "mode": mode}
            assert torch.equal(warpsmith.interpolate(x, **how), functional.interpolate(x, **how)), (
                how
            )


def test_sizes_of_numpy_and_batches_of_vmap() -> None:
    x = images(2, 3, 4, 5)
    size = (np.int64(3), np.int32(7))
    assert torch.equal(warpsmith.interpolate(x, size), functional.interpolate(x, (3, 7)))
    mapped = torch.vmap(lambda one: warpsmith.interpolate(one[None], (3, 7)))(x)
    assert torch.equal(mapped[:, 0], functional.interpolate(x, (3, 7)))


def test_what_is_not_here_is_refused() -> None:
    with pytest.raises(ValueError, match="not 'bicubic'"):
        warpsmith.interpolate(images(1, 1, 2, 2), 4, mode="bicubic")
    with pytest.raises(ValueError, match="antialias is False here, not True"):
        warpsmith.interpolate(images(1, 1, 2, 2), 4, mode="bilinear", antialias=True)
    with pytest.raises(ValueError, match=r"not \[1, 2, 3\]"):
        warpsmith.interpolate(images(1, 2, 3), 4)
    for how in ({}, {"size": 4, "scale_factor": 2}, {"size": 4, "align_corners": True}):
        with pytest.raises(ValueError) as ours:
            warpsmith.interpolate(images(1, 1, 2, 2), **how)
        with pytest.raises(ValueError) as theirs:
            functional.interpolate(images(1, 1, 2, 2), **how)
        assert str(ours.value) == str(theirs.value)
