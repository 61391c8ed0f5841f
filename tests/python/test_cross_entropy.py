"""warpsmith.cross_entropy is torch's; linear_cross_entropy is it of a product, in chunks."""

import itertools
from typing import Any

import pytest
import torch
import warpsmith
from conftest import assert_close

F = torch.nn.functional
REDUCTIONS = ("none", "mean", "sum")
dtypes = pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
SHAPES = [(7,), (5, 7), (3, 40), (2, 7, 3), (2, 5, 3, 4), (3, 1), (1, 7)]


def tensor(shape: tuple[int, ...], seed: int = 1, dtype: Any = torch.float32) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return (3 * torch.randn(shape, generator=generator)).to(dtype)


def targets_for(x: torch.Tensor, ignored: int = -100, seed: int = 2) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    shape = x.shape[:1] + x.shape[2:] if x.dim() > 1 else ()
    classes = x.shape[min(1, x.dim() - 1)]
    target = torch.randint(0, classes, shape, generator=generator)
    if target.numel() > 2:
        target.view(-1)[1] = ignored
    return target


def weights_for(classes: int) -> torch.Tensor:
    return torch.rand(classes, generator=torch.Generator().manual_seed(3)) + 0.25


def compare(x: torch.Tensor, target: torch.Tensor, **options: Any) -> None:
    """Value and gradient against torch's in double precision."""
    ours = x.detach().clone().requires_grad_()
    theirs = x.detach().double().requires_grad_()
    weight = options.get("weight")
    found = warpsmith.cross_entropy(ours, target, **options)
    doubled = options | {"weight": None if weight is None else weight.double()}
    want = F.cross_entropy(theirs, target.long(), **doubled)
    assert found.dtype == x.dtype
    assert found.shape == want.shape
    assert_close(found, want)
    g = torch.linspace(0.5, 2, found.numel(), dtype=torch.float64).view(found.shape)
    (mine,) = torch.autograd.grad((found.double() * g).sum(), ours)
    (right,) = torch.autograd.grad((want * g).sum(), theirs)
    assert_close(mine, right)


@dtypes
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_shapes(shape: tuple[int, ...], dtype: Any) -> None:
    x = tensor(shape, dtype=dtype)
    for reduction in REDUCTIONS:
        compare(x, targets_for(x), reduction=reduction)


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("smoothing", [0.0, 0.1, 1.0])
@pytest.mark.parametrize("weighted", [False, True])
def test_options(reduction: str, smoothing: float, weighted: bool) -> None:
    for shape, ignored in itertools.product([(6, 11), (2, 5, 3)], (-100, -1, 2)):
        x = tensor(shape)
        compare(
            x,
            targets_for(x, ignored),
            weight=weights_for(shape[1]) if weighted else None,
            ignore_index=ignored,
            reduction=reduction,
            label_smoothing=smoothing,
        )


def test_targets_of_32_bits() -> None:
    x = tensor((6, 11))
    compare(x, targets_for(x).int())


@pytest.mark.parametrize("shape", [(0, 5), (0, 5, 3), (2, 5, 0)], ids=str)
def test_nothing(shape: tuple[int, ...]) -> None:
    x = torch.empty(shape)
    target = torch.empty(shape[:1] + shape[2:], dtype=torch.int64)
    for reduction in REDUCTIONS:
        found = warpsmith.cross_entropy(x, target, reduction=reduction)
        want = F.cross_entropy(x, target, reduction=reduction)
        torch.testing.assert_close(found, want, equal_nan=True)


def test_nothing_counts() -> None:
    x = tensor((3, 5)).requires_grad_()
    target = torch.full((3,), -100)
    assert warpsmith.cross_entropy(x, target).isnan()
    assert warpsmith.cross_entropy(x, target, reduction="sum") == 0
    (gradient,) = torch.autograd.grad(warpsmith.cross_entropy(x, target, reduction="sum"), x)
    assert not gradient.any()


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_z_loss(reduction: str) -> None:
    x = tensor((6, 11)).requires_grad_()
    theirs = x.detach().double().requires_grad_()
    target = targets_for(x)
    found = warpsmith.cross_entropy(x, target, reduction=reduction, z_loss=0.01)
    want = F.cross_entropy(theirs, target, reduction="none")
    want = want + (target != -100) * 0.01 * theirs.logsumexp(-1) ** 2
    if reduction != "none":
        want = want.sum() / ((target != -100).sum() if reduction == "mean" else 1)
    assert_close(found, want)
    (mine,) = torch.autograd.grad(found.sum(), x)
    (right,) = torch.autograd.grad(want.sum(), theirs)
    assert_close(mine, right)


def test_wrong_targets_are_told() -> None:
    x = tensor((4, 7))
    for wrong in (7, -1, 2**40):
        target = torch.tensor([0, 1, wrong, 6])
        with pytest.raises(ValueError, match=f"index {wrong} at position 2 of 'target'"):
            warpsmith.cross_entropy(x, target)
            warpsmith.check()
    compare(x, torch.tensor([0, 1, 2, 6]))


def test_what_is_refused() -> None:
    x, target = tensor((4, 7)), torch.zeros(4, dtype=torch.int64)
    for error, words, given, options in (
        (ValueError, "not a valid value for reduction", (x, target), {"reduction": "max"}),
        (ValueError, "classes, not probabilities", (x, x.softmax(-1)), {}),
        (ValueError, "size_average", (x, target), {"size_average": True}),
        (ValueError, "batch_size", (x, target[:3]), {}),
        (RuntimeError, "weight", (x, target, torch.ones(6)), {}),
        (ValueError, "from 0 to 1", (x, target), {"label_smoothing": 2.0}),
        (
            NotImplementedError,
            "no gradient of weight",
            (x, target, torch.ones(7).requires_grad_()),
            {},
        ),
        (TypeError, "must be Tensor", ([1.0], target), {}),
    ):
        with pytest.raises(error, match=words):
            warpsmith.cross_entropy(*given, **options)


def test_gradcheck() -> None:
    """Against differences, which f32 knows to three digits."""
    x, target, weight = tensor((3, 6)), torch.tensor([0, 5, 2]), weights_for(6)

    def loss(at: torch.Tensor) -> torch.Tensor:
        return warpsmith.cross_entropy(at, target, weight, label_smoothing=0.1, z_loss=0.01)

    at = x.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(loss(at), at)
    for i in range(x.numel()):
        step = torch.zeros_like(x)
        step.view(-1)[i] = 0.01
        slope = (loss(x + step) - loss(x - step)) / 0.02
        assert abs(slope - gradient.view(-1)[i]) < 2e-4


def test_autocast() -> None:
    x = tensor((4, 7), dtype=torch.bfloat16)
    target = targets_for(x)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = warpsmith.cross_entropy(x, target)
    assert found.dtype == torch.float32
    assert_close(found, F.cross_entropy(x.double(), target))


def test_compile() -> None:
    torch._dynamo.reset()
    x = tensor((4, 7)).requires_grad_()
    target, weight = targets_for(x), weights_for(7)

    def loss(x: torch.Tensor) -> torch.Tensor:
        return warpsmith.cross_entropy(x, target, weight, label_smoothing=0.1)

    compiled = torch.compile(loss, backend="aot_eager", fullgraph=True)
    assert_close(compiled(x), loss(x))
    (mine,) = torch.autograd.grad(compiled(x), x)
    (right,) = torch.autograd.grad(loss(x), x)
    assert_close(mine, right)


# ---- linear_cross_entropy -----------------------------------------------------------------------


@dtypes
@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("chunk", [3, 8, 4096])
def test_linear(dtype: Any, reduction: str, chunk: int) -> None:
    ours = [tensor((2, 4, 16), 1, dtype) / 4, tensor((24, 16), 4, dtype) / 4]
    theirs = [x.double().requires_grad_() for x in ours]
    ours = [x.requires_grad_() for x in ours]
    target = targets_for(torch.empty(8, 24)).view(2, 4)
    weight = weights_for(24)
    options = {"reduction": reduction, "ignore_index": -100}
    found = warpsmith.linear_cross_entropy(*ours, target, weight, chunk=chunk, **options)
    logits = F.linear(*theirs).view(8, 24)
    want = F.cross_entropy(logits, target.view(-1), weight.double(), **options)
    want = want.view(2, 4) if reduction == "none" else want
    assert found.dtype == dtype
    assert_close(found, want)
    g = torch.linspace(0.5, 2, found.numel(), dtype=torch.float64).view(found.shape)
    mine = torch.autograd.grad((found * g).sum(), ours)
    right = torch.autograd.grad((want * g).sum(), theirs)
    for x, y in zip(mine, right, strict=True):
        assert x.dtype == dtype
        assert_close(x, y)


@pytest.mark.parametrize("reduction", ["mean", "none"])
def test_linear_has_one_derivative(reduction: str) -> None:
    rows, matrix = tensor((5, 8)).requires_grad_(), tensor((12, 8), 2)
    target = targets_for(torch.empty(5, 12))
    loss = warpsmith.linear_cross_entropy(rows, matrix, target, reduction=reduction).sum()
    (gradient,) = torch.autograd.grad(loss**2, rows, create_graph=True)
    with pytest.raises(RuntimeError, match=r"once_differentiable|a first gradient alone"):
        gradient.sum().backward()


def test_linear_refuses_a_second_derivative_of_a_constant_gradient() -> None:
    rows, matrix = tensor((5, 8)).requires_grad_(), tensor((12, 8), 2)
    target = targets_for(torch.empty(5, 12))

    def loss(x: torch.Tensor) -> torch.Tensor:
        return warpsmith.linear_cross_entropy(x, matrix, target)

    (gradient,) = torch.autograd.grad(loss(rows), rows, create_graph=True)
    with pytest.raises(NotImplementedError, match="a first gradient alone"):
        gradient.square().sum().backward()
    with pytest.raises(NotImplementedError, match="a first gradient alone"):
        torch.func.jacrev(torch.func.grad(loss))(rows.detach())


def test_each_loss_of_linear_refuses_it_too_where_its_gradient_is_a_constant() -> None:
    rows, matrix = tensor((5, 8)).requires_grad_(), tensor((12, 8), 2)
    target = targets_for(torch.empty(5, 12))
    loss = warpsmith.linear_cross_entropy(rows, matrix, target, reduction="none")
    (gradient,) = torch.autograd.grad(loss, rows, torch.ones_like(loss), create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        gradient.square().sum().backward()


def test_a_row_that_does_not_count_has_no_gradient_of_lse() -> None:
    logits = tensor((3, 7)).requires_grad_()
    target = torch.tensor([1, -100, 2])
    _, lse = warpsmith.cross_entropy_forward(logits, target)
    (gradient,) = torch.autograd.grad(lse.log().sum(), logits)  # whose own gradient is infinite
    assert (gradient[1] == 0).all()
    assert gradient.isfinite().all()


def test_linear_makes_no_gradients_that_nobody_can_ask_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows, matrix = torch.randn(4, 8).requires_grad_(), torch.randn(5, 8).requires_grad_()
    target = torch.tensor([0, 1, 4, 2])
    want = warpsmith.linear_cross_entropy(rows, matrix, target).detach()
    monkeypatch.delattr("warpsmith._cross_entropy._gradients")
    with torch.no_grad():
        assert_close(warpsmith.linear_cross_entropy(rows, matrix, target), want)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("hidden", [-1e10, -1e30])
def test_hidden_classes(dtype: torch.dtype, hidden: float) -> None:
    """A mask of large numbers, over all of what some threads read."""
    logits = torch.randn(2, 32000).to(dtype)
    logits[:, :24000] = hidden
    target = torch.tensor([31000, 24001])
    ours, theirs = (logits.clone().requires_grad_() for _ in range(2))
    loss = warpsmith.cross_entropy(ours, target)
    want = F.cross_entropy(theirs.float(), target)
    torch.testing.assert_close(loss.float(), want, rtol=1e-2, atol=1e-3)
    loss.backward()
    want.backward()
    torch.testing.assert_close(ours.grad, theirs.grad, rtol=2e-2, atol=1e-4)


def test_linear_wants_no_gradient() -> None:
    rows, matrix = tensor((5, 8)), tensor((12, 8), 2)
    target = targets_for(torch.empty(5, 12))
    want = F.cross_entropy(rows @ matrix.t(), target)
    assert_close(warpsmith.linear_cross_entropy(rows, matrix, target, chunk=2), want)
    for at in (0, 1):  # only one of them
        given = [rows.clone(), matrix.clone()]
        given[at].requires_grad_()
        (mine,) = torch.autograd.grad(
            warpsmith.linear_cross_entropy(*given, target, chunk=2), [given[at]]
        )
        logits = given[0] @ given[1].t()
        (right,) = torch.autograd.grad(F.cross_entropy(logits, target), [given[at]])
        assert_close(mine, right)


def test_linear_of_nothing() -> None:
    matrix = tensor((12, 8)).requires_grad_()
    target = torch.empty(0, dtype=torch.int64)
    loss = warpsmith.linear_cross_entropy(torch.empty(0, 8), matrix, target, reduction="sum")
    assert loss == 0
    (gradient,) = torch.autograd.grad(loss, matrix)
    assert not gradient.any()


@pytest.mark.parametrize("rows", [0, 3])
def test_gradients_where_nothing_counts(rows: int) -> None:
    """The mean is no number, and its gradients are zeros, as torch has them."""
    given = [tensor((rows, 8)).requires_grad_(), tensor((12, 8), 2).requires_grad_()]
    target = torch.full((rows,), -100)
    for loss in (
        warpsmith.linear_cross_entropy(*given, target),
        warpsmith.cross_entropy(given[0] @ given[1].t(), target),
    ):
        assert loss.isnan()
        for gradient in torch.autograd.grad(loss, given):
            assert not gradient.any()


def of_logits(rows: torch.Tensor, matrix: torch.Tensor, target: torch.Tensor, **how: Any) -> Any:
    return F.cross_entropy(rows @ matrix.t(), target, **how)


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_linear_under_func(reduction: str) -> None:
    rows, matrix = tensor((3, 8)), tensor((12, 8), 2)
    target = torch.tensor([1, -100, 11])
    for at in ((0,), (1,), (0, 1)):
        found, want = (
            torch.func.grad(lambda *x, f=f: f(*x, target, reduction=reduction).square().sum(), at)(
                rows, matrix
            )
            for f in (warpsmith.linear_cross_entropy, of_logits)
        )
        for mine, right in zip(found, want, strict=True):
            assert_close(mine, right)


def test_linear_under_vmap() -> None:
    rows, matrix = tensor((4, 3, 8)), tensor((12, 8), 2)
    target = torch.randint(0, 12, (4, 3))
    for f in (lambda f: f, lambda f: torch.func.grad(f, (0, 1))):
        found, want = (
            torch.vmap(f(function), (0, None, 0))(rows, matrix, target)
            for function in (warpsmith.linear_cross_entropy, of_logits)
        )
        pairs = zip(found, want, strict=True) if isinstance(found, tuple) else [(found, want)]
        for mine, right in pairs:
            assert_close(mine, right)


def test_linear_refuses() -> None:
    rows, matrix = tensor((5, 8)), tensor((12, 8))
    target = torch.zeros(5, dtype=torch.int64)
    for given in (
        (rows, matrix.t(), target),
        (rows, matrix.half(), target),
        (rows, matrix, target[:2]),
    ):
        with pytest.raises(ValueError, match="linear_cross_entropy takes"):
            warpsmith.linear_cross_entropy(*given)
    with pytest.raises(ValueError, match="chunk=0"):
        warpsmith.linear_cross_entropy(rows, matrix, target, chunk=0)
