"""bincount, histc and histogram are torch's; count_bins and its like find errors themselves."""

import numpy
import pytest
import torch
import warpsmith

SHAPES = [(0,), (1,), (7,), (5000,)]


def values(shape, bins=50, dtype=torch.int64):
    torch.manual_seed(1)
    return torch.randint(0, bins, shape).to(dtype)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64])
@pytest.mark.parametrize("minlength", [0, 20, 70])
def test_bincount_is_torchs(shape, dtype, minlength):
    x = values(shape, dtype=dtype)
    counts = warpsmith.bincount(x, minlength=minlength)
    expected = torch.bincount(x, minlength=minlength)
    assert counts.dtype == expected.dtype
    assert torch.equal(counts, expected)


@pytest.mark.parametrize("shape", SHAPES[1:])
def test_bincount_adds_weights(shape):
    x = values(shape)
    weights = torch.randn(shape)
    torch.testing.assert_close(
        warpsmith.bincount(x, weights, minlength=60), torch.bincount(x, weights, minlength=60)
    )


@pytest.mark.parametrize(
    "arguments",
    [
        (torch.tensor([[1, 2]]),),
        (torch.tensor([1.5]),),
        (torch.tensor([1, -1]),),
        (torch.tensor([1, 2]), None, -1),
        (torch.tensor([1, 2]), torch.tensor([1.0])),
    ],
)
def test_bincount_refuses_as_torch(arguments):
    with pytest.raises(RuntimeError) as theirs:
        torch.bincount(*arguments)
    with pytest.raises(RuntimeError) as ours:
        warpsmith.bincount(*arguments)
    assert str(ours.value) == str(theirs.value)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_bincount_adds_weights_of_16_bits_in_f32(dtype):
    x, weights = values((500,)), torch.randn(500).to(dtype)
    torch.testing.assert_close(
        warpsmith.bincount(x, weights), torch.bincount(x, weights.float()), rtol=1e-5, atol=1e-5
    )


@pytest.mark.parametrize("minlength", [0, 3])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_bincount_of_nothing_is_torchs(minlength, dtype):
    given = torch.empty(0, dtype=torch.int64), torch.empty(0, dtype=dtype), minlength
    counts, expected = warpsmith.bincount(*given), torch.bincount(*given)
    assert counts.dtype == expected.dtype
    assert torch.equal(counts, expected)


def test_bincount_refuses_weights_that_f32_would_round():
    with pytest.raises(ValueError, match="float64"):
        warpsmith.bincount(torch.tensor([1]), torch.tensor([1.0], dtype=torch.float64))


def numbers(shape):
    torch.manual_seed(2)
    x = torch.randn(shape)
    # On edges, outside, and none.
    for i, value in enumerate([-1.0, 1.0, 0.0, 0.5, 1.0000001, 9.0, float("inf"), float("nan")]):
        x.view(-1)[3 * i] = value
    return x


@pytest.mark.parametrize("shape", [(40,), (20, 300), (3, 4, 500)])
@pytest.mark.parametrize(
    ("bins", "low", "high"), [(100, -1, 1), (7, -1, 1), (1, 0, 1), (33, 0, 3e-3)]
)
def test_histc_is_torchs(shape, bins, low, high):
    x = numbers(shape)
    assert torch.equal(
        warpsmith.histc(x, bins=bins, min=low, max=high), torch.histc(x, bins, low, high)
    )
    assert torch.equal(
        warpsmith.histc(x.mT if x.dim() > 1 else x.flip(0), bins=bins, min=low, max=high),
        torch.histc(x, bins, low, high),
    )


@pytest.mark.parametrize("x", [torch.randn(999), torch.full((5,), 2.5), torch.zeros(0)])
def test_histc_without_a_range_takes_the_datas(x):
    assert torch.equal(warpsmith.histc(x), torch.histc(x))
    assert torch.equal(warpsmith.histc(x, bins=10), torch.histc(x, 10))
    assert torch.equal(warpsmith.histc(x, bins=10, min=2, max=2), torch.histc(x, 10, 2, 2))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_histc_of_halves_counts_beyond_what_they_hold(dtype):
    counts = warpsmith.histc(torch.full((70000,), 0.5, dtype=dtype), bins=2, min=0, max=1)
    assert counts.dtype == torch.float32
    assert counts.tolist() == [0, 70000]


def test_histc_refuses_a_range_that_is_none():
    for x in (torch.tensor([1.0, float("nan")]), torch.tensor([1.0, float("inf")])):
        with pytest.raises(RuntimeError, match="not finite"):
            torch.histc(x)
        with pytest.raises(RuntimeError, match="not finite"):
            warpsmith.histc(x)
    with pytest.raises(ValueError, match="min is 2, max is 1"):
        warpsmith.histc(torch.randn(4), bins=3, min=2, max=1)


@pytest.mark.parametrize("shape", [(40,), (20, 300)])
@pytest.mark.parametrize(
    "bins",
    [
        torch.tensor([-1.0, 0.0, 0.0, 0.5, 1.0]),
        torch.tensor([0.0, 1.0]),
        torch.linspace(-2, 2, 301),
        torch.tensor([float("-inf"), 0.0, float("inf")]),
        torch.tensor([0.0, 1.0, 1.0]),
    ],
)
@pytest.mark.parametrize("density", [False, True])
def test_histogram_with_edges_is_torchs(shape, bins, density):
    x = numbers(shape)
    ours = warpsmith.histogram(x, bins, density=density)
    theirs = torch.histogram(x, bins, density=density)
    torch.testing.assert_close(ours.hist, theirs.hist, rtol=1e-6, atol=0, equal_nan=True)
    assert torch.equal(ours.bin_edges, theirs.bin_edges)


@pytest.mark.parametrize("bins", [1, 10, 77])
def test_histogram_with_a_number_of_bins_is_torchs(bins):
    x = torch.randn(3000)
    for given in (None, (-1.0, 2.0), (0.25, 0.25)):
        ours = warpsmith.histogram(x, bins, range=given)
        theirs = torch.histogram(x, bins, range=given)
        assert torch.equal(ours.hist, theirs.hist)
        assert torch.equal(ours.bin_edges, theirs.bin_edges)


@pytest.mark.parametrize("density", [False, True])
@pytest.mark.parametrize("bins", [7, torch.tensor([-2.0, -0.5, -0.5, 0.25, 1.0, 3.0])])
def test_histogram_adds_weights(bins, density):
    x, weight = torch.randn(6, 70).t(), torch.rand(70, 6)
    x[3, 2] = torch.nan
    options = {} if isinstance(bins, torch.Tensor) else {"range": (-2.0, 2.0)}
    mine = warpsmith.histogram(x, bins, weight=weight, density=density, **options)
    right = torch.histogram(x.nan_to_num(100.0), bins, weight=weight, density=density, **options)
    torch.testing.assert_close(mine.hist, right.hist, equal_nan=True)
    torch.testing.assert_close(mine.bin_edges, right.bin_edges)


def test_histogram_refuses_weights_that_do_not_fit_other_dtypes_and_a_range_of_edges():
    with pytest.raises(ValueError, match="weight"):
        warpsmith.histogram(torch.randn(4), 3, weight=torch.ones(3))
    with pytest.raises(ValueError, match=r"takes float32, not torch\.float64"):
        warpsmith.histogram(torch.randn(4).double(), 3)
    with pytest.raises(TypeError, match=r"histogram\(\) received an invalid combination"):
        warpsmith.histogram(torch.randn(4), torch.tensor([0.0, 1.0]), range=(0.0, 1.0))


def test_what_is_no_bin_is_told_by_the_device():
    for x, bins in (([3, 50, 2], 50), ([3, -1, 2], 50)):
        for dtype in (torch.int32, torch.int64):
            with pytest.raises(ValueError, match=f"index {x[1]} at position 1 of 'x'"):
                warpsmith.count_bins(torch.tensor(x, dtype=dtype), bins=bins)
    with pytest.raises(ValueError, match="index 9 at position 2 of 'x'"):
        warpsmith.count_bins(torch.tensor([1, 2, 9], dtype=torch.uint8), bins=9)
    with pytest.raises(ValueError, match=r"0\.5 at position 2 of 'edges' is out of order after 1"):
        warpsmith.count_between(torch.randn(5), torch.tensor([0.0, 1.0, 0.5]))


def test_layouts_and_other_libraries():
    x = values((30, 40), 9, torch.int32)
    expected = torch.bincount(x.flatten(), minlength=9)
    for view in (x, x.t(), x.flip(0), x[:, None].expand(30, 1, 40), x.reshape(5, 6, 40).mT):
        assert torch.equal(warpsmith.count_bins(view, bins=9), expected)
    assert torch.equal(
        warpsmith.count_bins(x[::2, ::3], bins=9),
        torch.bincount(x[::2, ::3].flatten(), minlength=9),
    )
    assert (
        warpsmith.count_bins(x.numpy(), bins=9).tolist()
        == numpy.bincount(x.numpy().ravel(), minlength=9).tolist()
    )
    many = torch.zeros(1, dtype=torch.int32).expand(100, 1000)  # one element, repeated
    assert warpsmith.count_bins(many, bins=2).tolist() == [100000, 0]


def test_weights_have_a_gradient():
    x = values((200,), 9)
    weights = torch.randn(200, requires_grad=True)
    warpsmith.sum_bins(x, weights, bins=9).square().sum().backward()
    with torch.no_grad():
        expected = 2 * torch.bincount(x, weights, minlength=9)[x]
    torch.testing.assert_close(weights.grad, expected)


def test_compiles():
    x = values((500,), 9)
    compiled = torch.compile(
        lambda x: warpsmith.count_bins(x, bins=9) * 2, fullgraph=True, backend="aot_eager"
    )
    assert torch.equal(compiled(x), 2 * torch.bincount(x, minlength=9))
