"""torch's interpolate, nearest and nearest-exact: pixels, gradients, memory formats, refusals."""

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
def test_is_torchs(how: dict, mode: str, inside: bool) -> None:
    x = images(2, 4, 5, 6)
    x = x.to(memory_format=torch.channels_last) if inside else x
    x.requires_grad_()
    ours = warpsmith.interpolate(x, **how, mode=mode)
    theirs = functional.interpolate(x, **how, mode=mode)
    assert torch.equal(ours, theirs)
    assert ours.stride() == theirs.stride()
    g = images(*ours.shape)
    assert_close(torch.autograd.grad(ours, x, g)[0], torch.autograd.grad(theirs, x, g)[0])


def test_every_size_has_torchs_pixels() -> None:
    x = torch.arange(13.0).reshape(1, 1, 1, 13)
    for width in range(1, 60):
        for mode in ("nearest", "nearest-exact"):
            how = {"size": (1, width), "mode": mode}
            assert torch.equal(warpsmith.interpolate(x, **how), functional.interpolate(x, **how)), (
                how
            )


def test_what_is_not_here_is_refused() -> None:
    with pytest.raises(ValueError, match="not 'bilinear'"):
        warpsmith.interpolate(images(1, 1, 2, 2), 4, mode="bilinear")
    with pytest.raises(ValueError, match=r"not \[1, 2, 3\]"):
        warpsmith.interpolate(images(1, 2, 3), 4)
    for how in ({}, {"size": 4, "scale_factor": 2}, {"size": 4, "align_corners": True}):
        with pytest.raises(ValueError) as ours:
            warpsmith.interpolate(images(1, 1, 2, 2), **how)
        with pytest.raises(ValueError) as theirs:
            functional.interpolate(images(1, 1, 2, 2), **how)
        assert str(ours.value) == str(theirs.value)
