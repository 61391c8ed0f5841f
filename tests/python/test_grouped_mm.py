"""warpsmith.grouped_mm is torch's: ranks, views, gradients, torch.compile, errors."""

from typing import Any

import pytest
import torch
import warpsmith
from conftest import assert_close
from torch.nn import functional

ENDS = [
    [4, 9, 16],
    [0, 0, 16],
    [16, 16, 16],
    [3, 3, 11],  # rows that are nobody's
]


def tensor(*shape: int, seed: int = 1, device: str = "cpu") -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(device)


def offsets(ends: list[int], device: str = "cpu") -> torch.Tensor:
    return torch.tensor(ends, dtype=torch.int32, device=device)


def by_rows(a: torch.Tensor, b: torch.Tensor, ends: list[int]) -> torch.Tensor:
    parts = [a[i:j] @ m for i, j, m in zip([0, *ends], ends, b, strict=False)]
    return torch.cat([*parts, a.new_zeros(a.shape[0] - ends[-1], b.shape[2])])


def by_depth(a: torch.Tensor, b: torch.Tensor, ends: list[int]) -> torch.Tensor:
    return torch.stack([a[:, i:j] @ b[i:j] for i, j in zip([0, *ends], ends, strict=False)])


def operands(kind: str, device: str = "cpu") -> list[torch.Tensor]:
    shapes = {
        "rows": ((16, 8), (3, 8, 24)),
        "depth": ((8, 16), (16, 24)),
        "columns": ((3, 24, 8), (8, 16)),
    }[kind]
    return [tensor(*shape, seed=seed, device=device) for seed, shape in enumerate(shapes, 1)]


def expected(kind: str, a: torch.Tensor, b: torch.Tensor, ends: list[int]) -> torch.Tensor:
    if kind == "rows":
        return by_rows(a, b, ends)
    return by_depth(a, b, ends) if kind == "depth" else by_rows(b.t(), a.mT, ends).t()


KINDS = ["rows", "depth", "columns"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("ends", ENDS, ids=str)
def test_agrees_with_a_loop(kind: str, ends: list[int], device: str) -> None:
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        a, b = (x.to(dtype) for x in operands(kind, device))
        offs = offsets(ends, device)
        want = expected(kind, a.double(), b.double(), ends).to(dtype)
        for view in (lambda x: x, lambda x: x.mT.contiguous().mT):
            assert_close(warpsmith.grouped_mm(view(a), b, offs=offs), want)
            assert_close(warpsmith.grouped_mm(a, view(b), offs=offs), want)


@pytest.mark.parametrize("kind", KINDS)
def test_agrees_with_torch(kind: str) -> None:
    a, b = operands(kind)
    offs = offsets(ENDS[0])
    assert_close(warpsmith.grouped_mm(a, b, offs=offs), functional.grouped_mm(a, b, offs=offs))


def test_batches() -> None:
    a, b = tensor(3, 4, 8), tensor(3, 8, 16)
    assert_close(warpsmith.grouped_mm(a, b), a @ b)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("ends", ENDS, ids=str)
def test_gradients(kind: str, ends: list[int], device: str) -> None:
    """Of both, and of the gradient."""
    results = []
    for ours in (True, False):
        inputs = [x.requires_grad_() for x in operands(kind, device)]
        out = (
            warpsmith.grouped_mm(*inputs, offs=offsets(ends, device))
            if ours
            else expected(kind, *inputs, ends)
        )
        first = torch.autograd.grad((out * out.cos()).sum(), inputs, create_graph=True)
        second = torch.autograd.grad(sum(g.square().sum() for g in first), inputs)
        results.append([out, *first, *second])
    for ours, theirs in zip(*results, strict=True):
        assert_close(ours, theirs)


@pytest.mark.parametrize("dynamic", [False, True])
def test_compiles_without_graph_breaks(dynamic: bool) -> None:
    torch._dynamo.reset()
    compiled = torch.compile(
        lambda a, b, offs: warpsmith.grouped_mm(a, b, offs=offs),
        backend="aot_eager",
        fullgraph=True,
        dynamic=dynamic,
    )
    for kind in KINDS:
        inputs = [x.requires_grad_() for x in operands(kind)]
        out = compiled(*inputs, offsets(ENDS[0]))
        want = expected(kind, *inputs, ENDS[0])
        assert_close(out, want)
        for ours, theirs in zip(
            torch.autograd.grad(out.square().sum(), inputs),
            torch.autograd.grad(want.square().sum(), inputs),
            strict=True,
        ):
            assert_close(ours, theirs)


def raised_by(function: Any, *arguments: Any, **keywords: Any) -> tuple[type, str]:
    with pytest.raises((RuntimeError, TypeError)) as caught:
        function(*arguments, **keywords)
    return caught.type, str(caught.value)


def test_errors_are_torchs() -> None:
    a, b = operands("rows")
    offs = offsets(ENDS[0])
    wrong: list[tuple[Any, dict[str, Any]]] = [
        ((a, b), {}),
        ((b, b.mT), {"offs": offs}),
        ((a, b), {"offs": offs.long()}),
        ((a, b), {"offs": offs[:2]}),
        ((a, b.half()), {"offs": offs}),
        ((a[:, :4], b), {"offs": offs}),
        ((a, b), {"offs": offs, "bias": torch.zeros(24)}),
        ((a, b), {"offs": offs, "out_dtype": torch.bfloat16}),
    ]
    for arguments, keywords in wrong:
        ours = raised_by(warpsmith.grouped_mm, *arguments, **keywords)
        assert ours == raised_by(functional.grouped_mm, *arguments, **keywords)
    with pytest.raises(TypeError, match="must be Tensor"):
        warpsmith.grouped_mm([1], b, offs=offs)


def test_wrong_offsets_are_raised() -> None:
    a, b = operands("rows")
    with pytest.raises(ValueError, match=r"index 17 at position 1 of 'offs' is outside \[4, 17\)"):
        warpsmith.grouped_mm(a, b, offs=offsets([4, 17, 16]))
        warpsmith.check()
    assert_close(warpsmith.grouped_mm(a, b, offs=offsets(ENDS[0])), by_rows(a, b, ENDS[0]))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("ends", ENDS, ids=str)
def test_out_dtype(kind: str, ends: list[int], device: str) -> None:
    """Sums of 16 bits as they are, and their gradients."""
    for dtype in (torch.float16, torch.bfloat16):
        leaves = [x.to(dtype).requires_grad_() for x in operands(kind, device)]
        exact = [x.detach().double().requires_grad_() for x in leaves]
        offs = offsets(ends, device)
        found = warpsmith.grouped_mm(*leaves, offs=offs, out_dtype=torch.float32)
        want = expected(kind, *exact, ends)
        assert found.dtype == torch.float32
        assert_close(found, want.float())
        for ours, theirs in zip(
            torch.autograd.grad(found.sum(), leaves),
            torch.autograd.grad(want.sum(), exact),
            strict=True,
        ):
            assert_close(ours, theirs.to(dtype))


def test_batches_out_dtype() -> None:
    a, b = tensor(3, 4, 8).half(), tensor(3, 8, 16).half()
    found = warpsmith.grouped_mm(a, b, out_dtype=torch.float32)
    assert found.dtype == torch.float32
    assert_close(found, a.float() @ b.float())
