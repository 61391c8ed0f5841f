"""Quantised weights beside torch's arithmetic: what is lost, what comes back, gradients, layers."""

import pytest
import torch
import warpsmith

FORMATS = [
    ("int8", False),
    ("int8", True),
    ("int4", False),
    ("int4", True),
    ("nf4", False),
    ("fp8", False),
]


def _weight(format: str, zero_point: bool, n: int = 24, k: int = 192) -> tuple[torch.Tensor, ...]:
    torch.manual_seed(3)
    w = torch.randn(n, k)
    made = warpsmith.quantize_blockwise(w, format=format, group_size=64, zero_point=zero_point)
    return (w, *made, *([] if zero_point else [None]))


@pytest.mark.parametrize(("format", "zero_point"), FORMATS)
def test_what_comes_back_is_within_half_a_step(format: str, zero_point: bool) -> None:
    w, codes, scales, zeros = _weight(format, zero_point)
    back = warpsmith.dequantize_blockwise(
        codes, scales, zeros, format=format, group_size=64, out_dtype="float32"
    )
    # Of nf4 the widest step, between its two lowest levels, and of fp8, at 448; zeros are rounded
    # too.
    steps = {"int8": 0.5, "int4": 0.5, "nf4": 0.16, "fp8": 16.0}[format] * (1 + zero_point)
    allowed = steps * scales.repeat_interleave(64, 1) * (1 + 1e-5)
    assert ((back - w).abs() <= allowed).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize(("format", "zero_point"), FORMATS)
def test_linear_is_that_of_what_comes_back(
    format: str, zero_point: bool, dtype: torch.dtype
) -> None:
    _, codes, scales, zeros = _weight(format, zero_point)
    bias = torch.randn(24).to(dtype)
    back = warpsmith.dequantize_blockwise(
        codes, scales, zeros, format=format, group_size=64, out_dtype="float32"
    )
    for rows in (1, 9):
        x = torch.randn(rows, 192).to(dtype)
        y = warpsmith.quantized_linear(x, codes, scales, zeros, bias, format=format)
        expected = torch.nn.functional.linear(x.float(), back, bias.float())
        tolerance = {torch.float32: 1e-5, torch.float16: 2e-3, torch.bfloat16: 1.6e-2}[dtype]
        torch.testing.assert_close(y.float(), expected, rtol=tolerance, atol=14 * tolerance)


@pytest.mark.parametrize("shape", [(192,), (2, 3, 192), (0, 3, 192), (1, 2, 3, 192)], ids=str)
def test_inputs_of_any_rank(shape: tuple[int, ...]) -> None:
    _, codes, scales, _ = _weight("int8", False)
    x, bias = torch.randn(shape, requires_grad=True), torch.randn(24)
    of_rows = warpsmith.quantized_linear(x.reshape(-1, 192), codes, scales, None, bias)
    want = of_rows.view(*shape[:-1], 24)
    found = warpsmith.quantized_linear(x, codes, scales, None, bias)
    assert torch.equal(found, want)
    g = torch.randn(want.shape)
    for mine, right in zip(*(torch.autograd.grad(y, x, g) for y in (found, want)), strict=True):
        assert torch.equal(mine, right)
    with torch.no_grad():
        out = torch.empty(want.shape)
        assert warpsmith.quantized_linear(x, codes, scales, None, bias, out=out) is out
        assert torch.equal(out, want)
        with pytest.raises(ValueError, match="quantized_linear: out is"):
            warpsmith.quantized_linear(x, codes, scales, out=torch.empty(5))
    assert "x: [..., K]" in warpsmith.quantized_linear.__doc__


@pytest.mark.parametrize(("format", "zero_point"), [("int4", True), ("int8", True), ("fp8", False)])
def test_gradients_are_those_of_the_product(format: str, zero_point: bool) -> None:
    _, codes, scales, zeros = _weight(format, zero_point)
    x = torch.randn(3, 192, requires_grad=True)
    bias = torch.randn(24, requires_grad=True)
    scales.requires_grad_()
    y = warpsmith.quantized_linear(x, codes, scales, zeros, bias, format=format)
    if format == "int4":
        codes = torch.stack((codes >> 4, codes & 15), -1).flatten(1)
    levels = codes.float()
    if zeros is not None:
        levels = levels - zeros.repeat_interleave(64, 1)
    w = levels * scales.repeat_interleave(64, 1)
    expected = torch.nn.functional.linear(x, w, bias)
    g = torch.randn_like(y)
    inputs = (x, scales, bias)
    for ours, theirs in zip(
        torch.autograd.grad(y, inputs, g), torch.autograd.grad(expected, inputs, g), strict=True
    ):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)


def test_format_is_told_by_the_codes() -> None:
    for format in ("int8", "nf4", "fp8"):
        _, codes, scales, _ = _weight(format, False)
        told = warpsmith.dequantize_blockwise(codes, scales, format=format)
        assert torch.equal(warpsmith.dequantize_blockwise(codes, scales), told)


def test_fp8_is_what_torch_makes_of_it() -> None:
    w, codes, scales, _ = _weight("fp8", False)
    assert codes.dtype == torch.float8_e4m3fn
    groups = w.unflatten(1, (-1, 64))
    assert torch.equal(scales, groups.abs().amax(-1) / 448)
    wanted = (groups / scales[..., None]).flatten(1).to(torch.float8_e4m3fn)
    assert torch.equal(codes.view(torch.uint8), wanted.view(torch.uint8))


def test_of_any_rank_into_a_tensor_and_traced() -> None:
    _, codes, scales, _ = _weight("int8", False)
    x = torch.randn(2, 3, 192)
    want = warpsmith.quantized_linear(x, codes, scales)
    out = torch.empty(2, 3, 24)
    warpsmith.quantized_linear(x, codes, scales, out=(out,))
    assert torch.equal(out, want)
    with pytest.raises(ValueError, match="not evenly apart"):
        across = torch.empty(3, 2, 24).transpose(0, 1)
        warpsmith.quantized_linear(x, codes, scales, out=across)
    traced = torch.fx.symbolic_trace(lambda x: warpsmith.quantized_linear(x, codes, scales) * 2)
    assert torch.equal(traced(x), want * 2)


@pytest.mark.parametrize("format", ["int8", "int4"])
def test_zero_points_of_a_range_that_f32_does_not_hold(format: str) -> None:
    x = torch.linspace(-3e38, 2.5e38, 64, dtype=torch.float64).float().repeat(3, 1)
    codes, scales, zeros = warpsmith.quantize_blockwise(
        x, format=format, group_size=64, zero_point=True
    )
    steps = 255 if format == "int8" else 15
    assert scales.isfinite().all()
    assert torch.allclose(scales.double(), torch.tensor(5.5e38 / steps, dtype=torch.float64))
    back = warpsmith.dequantize_blockwise(codes, scales, zeros, format=format, group_size=64)
    assert ((back.double() - x.double()).abs() <= scales.double() * 1.01).all()
