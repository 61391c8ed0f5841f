"""Scans beside torch's: dimensions, whole numbers, what is no number, gradients."""

import pytest
import torch
import warpsmith
from warpsmith import _expressions


def of_torch(name: str, x: torch.Tensor, dim: int) -> torch.Tensor:
    if name.startswith("scan_"):
        return getattr(torch, name.replace("scan_", "cum"))(x, dim).values
    return getattr(torch, name)(x, dim)


NAMES = ["cumsum", "cumprod", "logcumsumexp", "scan_max", "scan_min"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("shape", [(), (1,), (70,), (3, 40), (2, 3, 20), (2, 0, 3)], ids=str)
def test_every_dimension(name: str, shape: tuple[int, ...], device: str) -> None:
    x = torch.randn(shape, device=device)
    for dim in range(-max(x.ndim, 1), max(x.ndim, 1)):
        if name.startswith("scan_") and x.ndim > 0 and x.numel() == 0:
            continue  # torch refuses some of them
        got = getattr(warpsmith, name)(x, dim=dim)
        torch.testing.assert_close(got, of_torch(name, x, dim), rtol=1e-5, atol=1e-5)
    with pytest.raises(ValueError, match="dim 3"):
        getattr(warpsmith, name)(x, dim=3)


@pytest.mark.parametrize("name", NAMES)
def test_what_is_no_number(name: str, device: str) -> None:
    nan, inf = float("nan"), float("inf")
    x = torch.tensor([[1.0, nan, 2.0, -inf], [inf, 1.0, -inf, 2.0], [-inf, -inf, 0.5, inf]])
    x = x.repeat(1, 5).to(device)
    for dim in (0, 1):
        expected = of_torch(name, x.cpu(), dim)
        got = getattr(warpsmith, name)(x, dim=dim).cpu()
        torch.testing.assert_close(got, expected, equal_nan=True)


@pytest.mark.parametrize("name", ["cumsum", "cumprod", "scan_max", "scan_min"])
def test_whole_numbers(name: str, device: str) -> None:
    for dtype in (torch.int32, torch.int64):
        x = torch.randint(-3, 4, (6, 50), dtype=dtype, device=device)
        for dim in (0, 1):
            got = getattr(warpsmith, name)(x, dim=dim)
            expected = of_torch(name, x, dim)
            assert got.dtype == expected.dtype
            assert torch.equal(got, expected)
    if name.startswith("cum"):
        narrow = getattr(warpsmith, name)(x.int(), dim=1, dtype="int32")
        assert narrow.dtype == torch.int32
        assert torch.equal(narrow, of_torch(name, x, 1).int())
        with pytest.raises(ValueError, match="does not hold"):
            getattr(warpsmith, name)(x, dim=1, dtype="int32")
        with pytest.raises(ValueError, match="does not hold"):
            getattr(warpsmith, name)(x.float(), dim=1, dtype="int64")


def test_without_itself_and_from_the_end(device: str) -> None:
    x = torch.tensor([3.0, 1.0, 4.0, 1.0, 5.0], device=device)

    def cumsum(**how: bool) -> list[float]:
        return warpsmith.cumsum(x, **how).tolist()

    assert cumsum() == [3, 4, 8, 9, 14]
    assert cumsum(exclusive=True) == [0, 3, 4, 8, 9]
    assert cumsum(reverse=True) == [14, 11, 10, 6, 5]
    assert cumsum(exclusive=True, reverse=True) == [11, 10, 6, 5, 0]
    inf = float("inf")
    assert warpsmith.scan_min(x, exclusive=True).tolist() == [inf, 3, 1, 1, 1]
    assert warpsmith.logcumsumexp(x, exclusive=True)[0] == -inf


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dim", [0, 1])
def test_gradients(name: str, dim: int, device: str) -> None:
    x = torch.randn(5, 30, device=device, requires_grad=True)
    g = torch.randn(5, 30, device=device)
    (got,) = torch.autograd.grad(getattr(warpsmith, name)(x, dim=dim), x, g)
    (expected,) = torch.autograd.grad(of_torch(name, x, dim), x, g)
    torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["cumprod", "scan_max", "scan_min"])
@pytest.mark.parametrize("shape", [(), (4, 9)], ids=str)
def test_gradients_of_zeros_and_ties(name: str, shape: tuple[int, ...], device: str) -> None:
    """Lines with no zero, one, and several; equal elements; from both ends, without themselves."""
    x = torch.randint(-2, 3, shape, generator=torch.Generator().manual_seed(5)).float()
    x = x.to(device).requires_grad_()
    g = torch.randn(shape, device=device)
    for exclusive in (False, True):
        for reverse in (False, True):
            how = {"dim": -1, "exclusive": exclusive, "reverse": reverse}
            (got,) = torch.autograd.grad(getattr(warpsmith, name)(x, **how), x, g)
            no_dtype = {"dtype": None} if name == "cumprod" else {}
            want = _expressions.torch_function(name)(x, **how, **no_dtype)
            (expected,) = torch.autograd.grad(want, x, g)
            torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("shape", [(), (1,), (4, 5), (4, 0)], ids=str)
def test_the_answer_that_tests_compare_with(shape: tuple[int, ...]) -> None:
    """Torch has no scan without each element itself, nor from the other end: sums say what is."""
    x = torch.randn(shape)
    line = x.reshape(1, -1) if x.ndim < 2 else x
    for exclusive in (False, True):
        for reverse in (False, True):
            found = _expressions.scanned(torch.cumsum, x, -1, 0.0, exclusive, reverse)
            ones = torch.ones(line.shape[1], line.shape[1]).tril(-1 if exclusive else 0)
            want = line @ (ones if reverse else ones.T)
            torch.testing.assert_close(found, want.reshape(shape), rtol=1e-5, atol=1e-5)


def test_the_answers_broadcast_is_undone() -> None:
    x = torch.randn(3, 4)
    assert _expressions.sum_to(x, x.shape) is x and _expressions.sum_to(None, (4,)) is None
    torch.testing.assert_close(_expressions.sum_to(x, (4,)), x.sum(0))
    torch.testing.assert_close(_expressions.sum_to(x, (3, 1)), x.sum(1, keepdim=True))
