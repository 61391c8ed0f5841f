"""warpsmith.mm and warpsmith.matmul are torch's: shapes, views, gradients, out=, errors."""

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
import warpsmith
from conftest import assert_close

SHAPES = [
    ((5,), (5,)),
    ((3, 5), (5,)),
    ((5,), (5, 4)),
    ((3, 5), (5, 4)),
    ((2, 3, 5), (5,)),
    ((5,), (2, 5, 4)),
    ((5,), (3, 2, 5, 4)),
    ((3, 2, 4, 5), (5,)),
    ((2, 3, 5), (5, 4)),
    ((3, 5), (2, 5, 4)),
    ((2, 3, 5), (2, 5, 4)),
    ((2, 3, 5), (1, 5, 4)),
    ((1, 3, 5), (2, 5, 4)),
    ((2, 1, 3, 5), (3, 5, 4)),
    ((2, 2, 3, 5), (1, 1, 5, 4)),
    ((1, 1, 1, 3, 5), (2, 2, 5, 4)),
    ((0,), (0,)),
    ((3, 0), (0,)),
    ((0, 5), (5, 4)),
    ((3, 0), (0, 4)),
    ((2, 3, 0), (0, 4)),
    ((2, 0, 5), (2, 5, 4)),
    ((0, 3, 5), (1, 5, 4)),
    ((2, 3, 0), (2, 0, 4)),
]
MISFITS = [
    ((), (3,)),
    ((2,), (3,)),
    ((2, 3), (4,)),
    ((3,), (4, 5)),
    ((2, 3), (4, 5)),
    ((2, 2, 3), (4, 5)),
    ((2, 2, 3), (4,)),
    ((4,), (2, 3, 5)),
    ((2, 2, 3), (2, 4, 5)),
    ((2, 2, 3), (3, 3, 5)),
    ((6, 2, 2, 3), (3, 3, 5)),
]


def tensor(shape: tuple[int, ...], seed: int, device: str = "cpu") -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator).to(device)


def pair(shapes: Any, device: str = "cpu", dtype: torch.dtype = torch.float32) -> list[Any]:
    return [tensor(shape, seed, device).to(dtype) for seed, shape in enumerate(shapes, 1)]


def turned(x: torch.Tensor) -> torch.Tensor:
    """The same values, the last two dimensions exchanged in memory."""
    return x.mT.contiguous().mT if x.dim() > 1 else x


def padded(x: torch.Tensor) -> torch.Tensor:
    """The same values in rows that lie apart."""
    return torch.nn.functional.pad(x, (0, 3))[..., : x.shape[-1]]


def outside_in(x: torch.Tensor) -> torch.Tensor:
    """The same values, the first dimension the innermost but one: as heads of attention lie."""
    return x.transpose(0, -2).contiguous().transpose(0, -2) if x.dim() > 2 else x


def same(ours: torch.Tensor, theirs: torch.Tensor) -> None:
    assert ours.shape == theirs.shape
    assert ours.dtype == theirs.dtype
    assert_close(ours, theirs)


@pytest.mark.parametrize("shapes", SHAPES, ids=str)
def test_agrees_with_torch(shapes: Any, device: str) -> None:
    a, b = pair(shapes, device)
    expected = torch.matmul(a.double(), b.double()).to(a.dtype)
    for view in (lambda x: x, turned, padded, outside_in):
        same(warpsmith.matmul(view(a), b), expected)
        same(warpsmith.matmul(a, view(b)), expected)
    same(warpsmith.matmul(input=a, other=b), expected)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_types(dtype: torch.dtype, device: str) -> None:
    for shapes in SHAPES[:14]:
        a, b = pair(shapes, device, dtype)
        same(warpsmith.matmul(a, b), torch.matmul(a.double(), b.double()).to(dtype))
    a, b = pair(((3, 16, 24), (24, 8)), device, dtype)
    same(warpsmith.mm(a[0], b), torch.mm(a[0].double(), b.double()).to(dtype))


@pytest.mark.parametrize("shapes", SHAPES, ids=str)
def test_gradients(shapes: Any, device: str) -> None:
    """Of both, of each alone, and of the gradient."""
    for wanted in ((True, True), (True, False), (False, True)):
        results = []
        for matmul in (warpsmith.matmul, torch.matmul):
            inputs = [
                x.requires_grad_(want) for x, want in zip(pair(shapes, device), wanted, strict=True)
            ]
            leaves = [x for x in inputs if x.requires_grad]
            out = matmul(*inputs)
            first = torch.autograd.grad((out * out.cos()).sum(), leaves, create_graph=True)
            second = torch.autograd.grad(sum(g.square().sum() for g in first), leaves)
            results.append([out, *first, *second])
        for ours, theirs in zip(*results, strict=True):
            same(ours, theirs)


@pytest.mark.parametrize("shapes", SHAPES, ids=str)
def test_out(shapes: Any) -> None:
    a, b = pair(shapes)
    expected = torch.matmul(a, b)
    whole = torch.full_like(expected, 7)
    empty = torch.empty(0)
    odd = turned(torch.full_like(expected, 7))
    for out in (whole, empty, odd):
        version = out._version
        assert warpsmith.matmul(a, b, out=out) is out
        assert out._version > version or out.numel() == 0
        same(out, expected)


def test_out_is_resized_with_torchs_warning() -> None:
    a, b = pair(((2, 3, 5), (5, 4)))
    for matmul in (warpsmith.matmul, torch.matmul):
        for shape in ((2, 2), (1,)):
            with pytest.warns(UserWarning, match="was resized"):
                same(matmul(a, b, out=torch.empty(shape)), a @ b)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        same(warpsmith.mm(a[0], b, out=torch.empty(0)), a[0] @ b)


def raised_by(function: Callable[..., Any], *arguments: Any, **keywords: Any) -> tuple[type, str]:
    with pytest.raises((RuntimeError, TypeError)) as caught:
        function(*arguments, **keywords)
    return caught.type, str(caught.value)


@pytest.mark.parametrize("shapes", MISFITS, ids=str)
def test_misfits_are_torchs_errors(shapes: Any) -> None:
    a, b = pair(shapes)
    assert raised_by(warpsmith.matmul, a, b) == raised_by(torch.matmul, a, b)


def test_other_errors_are_torchs() -> None:
    a, b = pair(((3, 5), (5, 4)))
    batch = a.expand(2, 3, 5)
    wrong = [
        ("mm", (batch, b), {}),
        ("mm", (a, b[0]), {}),
        ("mm", (a, a), {}),
        ("mm", (a, b.half()), {}),
        ("mm", (a, b), {"out": torch.empty(0).half()}),
        ("mm", (a.clone().requires_grad_(), b), {"out": torch.empty(0)}),
        ("mm", ([1], b), {}),
        ("matmul", (a, b.half()), {}),
        ("matmul", (batch, b.half()), {}),
        ("matmul", (batch, b.half().expand(2, 5, 4)), {}),
        ("matmul", (batch, b), {"out": torch.empty(0).half()}),
        ("matmul", (batch, b), {"out": torch.empty(0, requires_grad=True)}),
        ("matmul", (a, 3), {}),
    ]
    for name, arguments, keywords in wrong:
        ours = raised_by(getattr(warpsmith, name), *arguments, **keywords)
        theirs = raised_by(getattr(torch, name), *arguments, **keywords)
        assert ours[0] is theirs[0]
        if ours[0] is RuntimeError:
            assert ours == theirs
    with pytest.raises(ValueError, match="f32, f16 and bf16"):
        warpsmith.mm(a.double(), b.double())
    with pytest.raises(TypeError, match=r"mm\(\): argument 'out' must be Tensor, not int"):
        warpsmith.mm(a, b, out=3)


def test_meta_tensors_are_refused_in_words() -> None:
    a = torch.empty(3, 3, device="meta")
    target = torch.zeros(3, dtype=torch.int64, device="meta")
    layer = warpsmith.nn.Linear(3, 3, device="meta")
    for call in (
        lambda: warpsmith.mm(a, a),
        lambda: warpsmith.matmul(a, a[0]),
        lambda: warpsmith.matmul(a.expand(2, 3, 3), a),
        lambda: warpsmith.linear(a, a),
        lambda: layer(a),
        lambda: warpsmith.cross_entropy(a, target),
        lambda: warpsmith.linear_cross_entropy(a, a, target),
    ):
        with pytest.raises(ValueError, match="is on meta; kernels take cpu and cuda"):
            call()


def test_no_copies_where_strides_allow(monkeypatch: pytest.MonkeyPatch) -> None:
    """What reaches the kernels lies in the caller's memory."""
    seen = []
    for name in ("gemm", "gemv", "bmm"):
        function = getattr(warpsmith, name)

        def spy(a: Any, b: Any, out: Any = None, name: str = name, function: Any = function) -> Any:
            seen.append((name, a, b))
            return function(a, b, out=out)

        monkeypatch.setattr(warpsmith, name, spy)
    a = tensor((2, 3, 4, 5), 1)
    weight = tensor((6, 5), 2)
    heads = tensor((2, 4, 3, 5), 3).transpose(1, 2)
    for left, right, name in (
        (a, weight.t(), "gemm"),  # a linear layer
        (a, weight[0], "gemv"),
        (a[0], a[0].mT, "bmm"),
        (a, a.mT, "bmm"),
        (weight, a.mT, "bmm"),
        (a, a[:1, :1].mT, "bmm"),
        (a.mT, tensor((4, 2), 4), "bmm"),
        (heads[0], heads[0].mT, "bmm"),
    ):
        seen.clear()
        same(warpsmith.matmul(left, right), torch.matmul(left, right))
        ((called, x, y),) = seen
        assert called == name
        assert x.untyped_storage()._cdata == left.untyped_storage()._cdata
        assert y.untyped_storage()._cdata == right.untyped_storage()._cdata


def test_precision_is_torchs() -> None:
    """By whichever of its names the setting was made; of f32 on a GPU, which a stand-in is here."""

    class Stub:
        def __init__(self, is_cuda: bool, dtype: torch.dtype) -> None:
            self.is_cuda = is_cuda
            self.dtype = dtype

    def found(is_cuda: bool = True, dtype: torch.dtype = torch.float32) -> str:
        return warpsmith._matmul._precision(Stub(is_cuda, dtype)).get("precision", "ieee")

    def setters() -> list[Callable[[], None]]:
        matmul = torch.backends.cuda.matmul
        return [
            lambda: setattr(matmul, "allow_tf32", True),
            lambda: torch.set_float32_matmul_precision("high"),
            lambda: setattr(matmul, "fp32_precision", "tf32"),
        ]

    before = torch.backends.cuda.matmul.fp32_precision
    try:
        torch.backends.cuda.matmul.fp32_precision = "ieee"
        assert found() == "ieee"
        for allow in setters():
            allow()
            assert found() == "tf32"
            assert found(is_cuda=False) == found(dtype=torch.float16) == "ieee"
            torch.backends.cuda.matmul.fp32_precision = "ieee"
        assert found() == "ieee"
    finally:
        torch.backends.cuda.matmul.fp32_precision = before


def test_tf32_takes_f32_on_the_cpu() -> None:
    """And so do its gradients, in every layout."""
    for layout in ("nn", "nt", "tn", "tt"):
        a = tensor((3, 5) if layout[0] == "n" else (5, 3), 1).requires_grad_()
        b = tensor((5, 4) if layout[1] == "n" else (4, 5), 2).requires_grad_()
        results = [
            torch.autograd.grad(
                warpsmith.gemm(a, b, layout=layout, precision=precision).square().sum(), (a, b)
            )
            for precision in ("ieee", "tf32")
        ]
        for exact, cut in zip(*results, strict=True):
            torch.testing.assert_close(exact, cut, rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("dynamic", [False, True])
def test_compiles_without_graph_breaks(dynamic: bool) -> None:
    torch._dynamo.reset()
    compiled = torch.compile(
        lambda a, b: warpsmith.matmul(a, b), backend="aot_eager", fullgraph=True, dynamic=dynamic
    )
    for shapes in [SHAPES[i] for i in (0, 2, 3, 6, 8, 11)]:
        inputs = [x.requires_grad_() for x in pair(shapes)]
        out = compiled(*inputs)
        expected = torch.matmul(*inputs)
        same(out, expected)
        for ours, theirs in zip(
            torch.autograd.grad(out.square().sum(), inputs),
            torch.autograd.grad(expected.square().sum(), inputs),
            strict=True,
        ):
            same(ours, theirs)


def test_compiles_out() -> None:
    torch._dynamo.reset()
    compiled = torch.compile(
        lambda a, b, out: warpsmith.mm(a, b, out=out), backend="aot_eager", fullgraph=True
    )
    a, b = pair(((3, 5), (5, 4)))
    out = torch.zeros(3, 4)
    compiled(a, b, out)
    same(out, a @ b)


def test_autocast(device: str) -> None:
    a, b = pair(((2, 3, 5), (5, 4)), device)
    for function in (warpsmith.matmul, torch.matmul):
        with torch.autocast(device, dtype=torch.bfloat16):
            assert function(a, b).dtype == torch.bfloat16
            assert function(a.bfloat16(), b).dtype == torch.bfloat16


def test_vmap() -> None:
    a, b = pair(((4, 3, 5), (4, 5, 2)))
    same(torch.func.vmap(warpsmith.mm)(a, b), a @ b)
    same(
        torch.func.vmap(warpsmith.matmul, in_dims=(0, None))(a, b),
        torch.vmap(torch.matmul, in_dims=(0, None))(a, b),
    )


# ---- out_dtype, baddbmm -------------------------------------------------------------------------

halves = pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])


@halves
def test_out_dtype(dtype: torch.dtype, device: str) -> None:
    """Sums as they are, of one product and of a batch, whatever lies how."""
    a, b = pair(((3, 16, 24), (3, 24, 8)), device, dtype)
    wide = torch.matmul(a.double(), b.double()).float()
    for view in (lambda x: x, turned, padded, outside_in):
        same(warpsmith.bmm(view(a), b, torch.float32), wide)
        same(warpsmith.bmm(a, view(b), out_dtype=torch.float32), wide)
        same(warpsmith.mm(view(a)[0], b[0], torch.float32), wide[0])
    out = torch.empty(0, device=device)
    assert warpsmith.mm(a[0], b[0], out_dtype=torch.float32, out=out) is out
    same(out, wide[0])
    same(warpsmith.mm(a[0], b[0], dtype), wide[0].to(dtype))
    same(warpsmith.mm(a[0].float(), b[0].float(), torch.float32), wide[0])
    with pytest.raises(ValueError, match=r"out_dtype is torch\.float64"):
        warpsmith.mm(a[0], b[0], torch.float64)
    with pytest.raises(ValueError, match="out_dtype"):
        warpsmith.bmm(a, b, torch.float64)


@halves
def test_out_dtype_has_gradients(dtype: torch.dtype) -> None:
    a, b = pair(((2, 5, 6), (2, 6, 4)), dtype=dtype)
    leaves = [a.requires_grad_(), b.requires_grad_()]
    exact = [x.detach().double().requires_grad_() for x in leaves]
    g = tensor((2, 5, 4), 3)
    want = torch.autograd.grad(torch.bmm(*exact), exact, g.to(dtype).double())
    for ours, theirs in zip(
        torch.autograd.grad(warpsmith.bmm(a, b, torch.float32), leaves, g), want, strict=True
    ):
        same(ours, theirs.to(dtype))
    found = torch.autograd.grad(warpsmith.mm(a[0], b[0], torch.float32), leaves, g[0])
    for ours, theirs in zip(found, want, strict=True):
        same(ours[0], theirs[0].to(dtype))


@pytest.mark.parametrize("shape", [(), (5,), (4, 5), (1, 4, 5), (3, 1, 1), (3, 4, 1), (3, 4, 5)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_baddbmm(shape: tuple[int, ...], dtype: torch.dtype, device: str) -> None:
    given = [tensor(s, i, device).to(dtype) for i, s in enumerate((shape, (3, 4, 6), (3, 6, 5)))]
    want = torch.baddbmm(*[x.double() for x in given], beta=0.5, alpha=-2)
    same(warpsmith.baddbmm(*given, beta=0.5, alpha=-2), want.to(dtype))
    same(warpsmith.baddbmm(given[0], turned(given[1]), turned(given[2])), torch.baddbmm(*given))
    if dtype == torch.float32:
        return
    wide = {"beta": 0.5, "alpha": -2, "out_dtype": torch.float32}
    same(warpsmith.baddbmm(*given, **wide), want.float())
    same(warpsmith.baddbmm(given[0].float(), *given[1:], **wide), want.float())
    with pytest.raises(ValueError, match="takes an input of the dtype of batch1"):
        warpsmith.baddbmm(given[0].float(), *given[1:])


def test_baddbmm_out_beta_0_and_errors() -> None:
    given = [torch.full((5,), torch.nan), *pair(((3, 4, 6), (3, 6, 5)))]
    out = torch.empty(3, 4, 5)
    assert warpsmith.baddbmm(*given, beta=0, out=out) is out
    same(out, given[1] @ given[2])
    with pytest.raises(ValueError, match="does not broadcast"):
        warpsmith.baddbmm(torch.zeros(4), *given[1:])
    with pytest.raises(ValueError, match="takes one K"):
        warpsmith.baddbmm(given[0], given[1], given[1])


@pytest.mark.parametrize("shape", [(), (5,), (4, 5), (3, 4, 1), (3, 4, 5)])
def test_baddbmm_gradients(shape: tuple[int, ...]) -> None:
    ours = [tensor(s, i).requires_grad_() for i, s in enumerate((shape, (3, 4, 6), (3, 6, 5)))]
    want = [x.detach().double().requires_grad_() for x in ours]
    g = tensor((3, 4, 5), 4)
    for one, other in zip(
        torch.autograd.grad(warpsmith.baddbmm(*ours, beta=0.5, alpha=-2), ours, g),
        torch.autograd.grad(torch.baddbmm(*want, beta=0.5, alpha=-2), want, g.double()),
        strict=True,
    ):
        assert one.shape == other.shape
        assert_close(one, other)


def test_baddbmm_compiles_autocasts_and_maps() -> None:
    torch._dynamo.reset()
    given = [x.requires_grad_() for x in (tensor((4, 5), 1), *pair(((3, 4, 6), (3, 6, 5))))]
    compiled = torch.compile(
        lambda *x: warpsmith.baddbmm(*x, beta=2), backend="aot_eager", fullgraph=True
    )
    out = compiled(*given)
    want = torch.baddbmm(*given, beta=2)
    same(out, want)
    for one, other in zip(
        torch.autograd.grad(out.sum(), given), torch.autograd.grad(want.sum(), given), strict=True
    ):
        same(one, other)
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        assert warpsmith.baddbmm(*given).dtype == torch.baddbmm(*given).dtype
    batched = [tensor((2, 3, 4, 5), 1), tensor((2, 3, 4, 6), 2), tensor((2, 3, 6, 5), 3)]
    same(torch.func.vmap(warpsmith.baddbmm)(*batched), torch.func.vmap(torch.baddbmm)(*batched))


def test_batches_are_cut_to_tf32_where_torch_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    """What matmul tells bmm, and what becomes of it on the CPU."""
    seen = []
    function = warpsmith.bmm

    def spy(*inputs: Any, **keywords: Any) -> Any:
        seen.append(keywords.get("precision"))
        return function(*inputs, **keywords)

    monkeypatch.setattr(warpsmith, "bmm", spy)
    monkeypatch.setattr(warpsmith._matmul, "_precision", lambda _: {"precision": "tf32"})
    a, b = (x.requires_grad_() for x in pair(((3, 4, 6), (3, 6, 5))))
    cut = warpsmith.matmul(a, b)
    assert seen == ["tf32"]
    want = torch.bmm(a, b)
    torch.testing.assert_close(cut, want, rtol=1e-2, atol=1e-2)
    for one, other in zip(
        torch.autograd.grad(cut.square().sum(), (a, b)),
        torch.autograd.grad(want.square().sum(), (a, b)),
        strict=True,
    ):
        torch.testing.assert_close(one, other, rtol=2e-2, atol=2e-2)
