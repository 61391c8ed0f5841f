"""nms and batched_nms by torchvision's arguments: ties, thresholds on quotients, NaN, strides; and
soft_nms as its paper has it.

What every rung computes in general is tested where all operations are.
"""

import math
from collections.abc import Callable

import pytest
import torch
import warpsmith
from warpsmith._catalogue import OPERATIONS

RUNGS = pytest.mark.parametrize("rung", [r["name"] for r in OPERATIONS["nms_indices"].rungs])


def iou(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    low, high = torch.maximum(a[:2], b[:2]), torch.minimum(a[2:], b[2:])
    sides = (high - low).clamp(min=0)
    inter = sides[0] * sides[1]
    areas = [(c[2] - c[0]) * (c[3] - c[1]) for c in (a, b)]
    return inter / ((areas[0] + areas[1]) - inter)


def expected(
    boxes: torch.Tensor, scores: torch.Tensor, threshold: float, idxs: torch.Tensor | None = None
) -> list[int]:
    kept: list[int] = []
    for i in torch.sort(scores, descending=True, stable=True).indices.tolist():
        rivals = [j for j in kept if idxs is None or idxs[i] == idxs[j]]
        if not any((iou(boxes[j], boxes[i]) > threshold).item() for j in rivals):
            kept.append(i)
    return kept


def detections(count: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(count)
    low = torch.rand(count, 2, generator=generator) * 4
    boxes = torch.cat((low, low + 0.5 + torch.rand(count, 2, generator=generator)), 1)
    scores = torch.randint(0, count, (count,), generator=generator) / count
    return boxes, scores, torch.randint(0, 3, (count,), generator=generator)


@RUNGS
@pytest.mark.parametrize("threshold", [0.0, 0.3, 0.7])
def test_as_torchvision(rung: str, threshold: float, device: str) -> None:
    boxes, scores, idxs = detections(100)
    moved = [x.to(device) for x in (boxes, scores, idxs)]
    kept = warpsmith.nms(moved[0], moved[1], threshold, rung=rung)
    assert kept.dtype == torch.int64
    assert kept.tolist() == expected(boxes, scores, threshold)
    kept = warpsmith.batched_nms(*moved, threshold, rung=rung)
    assert kept.tolist() == expected(boxes, scores, threshold, idxs)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("kind", [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64])
def test_narrow_dtypes(dtype: torch.dtype, kind: torch.dtype, device: str) -> None:
    """Boxes and scores of 16 bits as the numbers that they are, classes of any integers."""
    boxes, scores, idxs = detections(100)
    boxes, scores = boxes.to(dtype), scores.to(dtype)
    moved = [x.to(device) for x in (boxes, scores, idxs.to(kind))]
    wide = boxes.float(), scores.float()
    assert warpsmith.nms(*moved[:2], 0.3).tolist() == expected(*wide, 0.3)
    assert warpsmith.batched_nms(*moved, 0.3).tolist() == expected(*wide, 0.3, idxs)
    for other in (scores.float(), scores.double()):
        with pytest.raises(ValueError, match="boxes of f32"):
            warpsmith.nms(boxes, other, 0.3)
    with pytest.raises(ValueError, match="f64"):
        warpsmith.nms(boxes.double(), scores.double(), 0.3)


@RUNGS
def test_quotients_on_the_threshold(rung: str, device: str) -> None:
    """A threshold that is a quotient, and its neighbours: rungs decide as the division does."""
    boxes, scores, _ = detections(24)
    quotients = {iou(boxes[i], boxes[j]).item() for i in range(24) for j in range(i)}
    for quotient in sorted(quotients - {0.0})[::20]:
        here = torch.tensor(quotient)
        for to in (-math.inf, quotient, math.inf):
            threshold = torch.nextafter(here, torch.tensor(to)).item()
            kept = warpsmith.nms(boxes.to(device), scores.to(device), threshold, rung=rung)
            assert kept.tolist() == expected(boxes, scores, threshold)


@RUNGS
def test_nan_and_ties(rung: str, device: str) -> None:
    boxes = torch.tensor([[0.0, 0, 2, 2]]).repeat(6, 1)
    scores = torch.tensor([0.5, math.nan, 0.5, 0.9, -math.inf, math.nan])
    assert warpsmith.nms(boxes.to(device), scores.to(device), 0.5, rung=rung).tolist() == [1]
    boxes[1, 2] = boxes[3, 0] = math.nan
    assert warpsmith.nms(boxes.to(device), scores.to(device), 0.5, rung=rung).tolist() == [1, 5, 3]


def test_indices_are_not_cut(device: str) -> None:
    boxes, scores, _ = detections(70)
    kept, count = warpsmith.nms_indices(boxes.to(device), scores.to(device), iou_threshold=0.3)
    want = expected(boxes, scores, 0.3)
    assert count.shape == () and count.item() == len(want)
    assert kept.tolist() == want + [-1] * (70 - len(want))


def assert_as_the_division_decides(
    boxes: torch.Tensor, scores: torch.Tensor, threshold: float, kept: torch.Tensor
) -> None:
    """That a box is kept where its quotient by no kept box before it is beyond the threshold.

    One within two last places of the threshold may be decided either way.
    """
    order = torch.sort(scores, descending=True, stable=True).indices
    ranked = boxes[order]
    rank = torch.empty_like(order)
    rank[order] = torch.arange(len(order), device=order.device)
    ranks = rank[kept]
    assert ranks.diff().gt(0).all()
    areas = (ranked[:, 2] - ranked[:, 0]) * (ranked[:, 3] - ranked[:, 1])
    largest = torch.zeros_like(areas)
    for some in ranks.split(512):
        low = torch.maximum(ranked[some, None, :2], ranked[:, :2])
        high = torch.minimum(ranked[some, None, 2:], ranked[:, 2:])
        inter = (high - low).clamp(min=0).prod(-1)
        quotients = inter / ((areas[some, None] + areas) - inter)
        later = some[:, None] < torch.arange(len(order), device=order.device)
        largest = torch.maximum(largest, torch.where(later, quotients, 0).amax(0))
    is_kept = torch.zeros_like(areas, dtype=torch.bool)
    is_kept[ranks] = True
    wrong = (largest > threshold) == is_kept
    allowed = 2 * torch.finfo(torch.float32).eps * threshold
    assert (largest[wrong] - threshold).abs().le(allowed).all()


COUNTS = [
    pytest.param("cpu", 1000, id="cpu-1000"),
    *(
        pytest.param("cuda", count, marks=pytest.mark.cuda, id=f"cuda-{count}")
        for count in (1000, 8192, 32768)
    ),
]


def crowd(count: int, seed: int, device: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Boxes of which some ten overlap each, and scores without a tie."""
    generator = torch.Generator().manual_seed(seed)
    low = torch.rand(count, 2, generator=generator) * math.sqrt(count)
    boxes = torch.cat((low, low + 1 + 2 * torch.rand(count, 2, generator=generator)), 1)
    scores = torch.randperm(count, generator=generator) / count
    return boxes.to(device), scores.to(device)


@pytest.mark.parametrize(("device", "count"), COUNTS, indirect=["device"])
@pytest.mark.parametrize("seed", range(3))
def test_beside_torchvision(device: str, count: int, seed: int) -> None:
    """The indices of torchvision itself: its kernels may round a quotient in another way."""
    torchvision = pytest.importorskip("torchvision", exc_type=ImportError)
    boxes, scores = crowd(count, seed, device)
    for threshold in (0.1, 0.5):
        ours = warpsmith.nms(boxes, scores, threshold)
        theirs = torchvision.ops.nms(boxes, scores, threshold)
        assert count / 20 < len(ours) < count
        if not torch.equal(ours, theirs):
            assert_as_the_division_decides(boxes, scores, threshold, ours)
            assert_as_the_division_decides(boxes, scores, threshold, theirs)


@pytest.mark.parametrize(("device", "count"), COUNTS, indirect=["device"])
def test_as_the_division_decides(device: str, count: int) -> None:
    boxes, scores = crowd(count, 3, device)
    kept = warpsmith.nms(boxes, scores, 0.3)
    assert_as_the_division_decides(boxes, scores, 0.3, kept)
    for wrong in (kept[1:], torch.sort(scores, descending=True).indices):
        with pytest.raises(AssertionError):
            assert_as_the_division_decides(boxes, scores, 0.3, wrong)


def test_columns_of_a_detectors_output(device: str) -> None:
    boxes, scores, idxs = detections(80)
    output = torch.cat((scores[:, None], boxes, torch.zeros(80, 2)), 1).to(device)
    classes = torch.stack((idxs, idxs), 1).to(device)[:, 0]
    kept = warpsmith.batched_nms(output[:, 1:5], output[:, 0], classes, 0.4)
    assert kept.tolist() == expected(boxes, scores, 0.4, idxs)


def test_of_nothing(device: str) -> None:
    assert warpsmith.nms(
        torch.zeros(0, 4, device=device), torch.zeros(0, device=device), 0.5
    ).shape == (0,)


@pytest.mark.parametrize(
    ("shapes", "threshold", "text"),
    [
        (((5, 3), (5,)), 0.5, "boxes of f32"),
        (((5, 4), (6,)), 0.5, "scores of f32"),
        (((5, 4), (5, 1)), 0.5, "scores of f32"),
        (((5, 4), (5,)), 1.5, "from 0 to 1, not 1.5"),
        (((5, 4), (5,)), -0.1, "from 0 to 1, not -0.1"),
        (((5, 4), (5,)), math.nan, "from 0 to 1, not nan"),
    ],
)
def test_refused(shapes: tuple[tuple[int, ...], ...], threshold: float, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        warpsmith.nms(*(torch.zeros(shape) for shape in shapes), threshold)


# ---- soft_nms -----------------------------------------------------------------------------------

SOFT_RUNGS = pytest.mark.parametrize("rung", [r["name"] for r in OPERATIONS["soft_nms"].rungs])


def softened(
    boxes: torch.Tensor, scores: torch.Tensor, least: float, factor: Callable[[float], float]
) -> tuple[list[float], list[int]]:
    """Scores as they become and who is kept, in double precision, as the paper's figure 2."""
    decayed, left, kept = scores.double().tolist(), list(range(len(scores))), []
    while left:
        best = max(left, key=lambda i: (decayed[i], -i))
        if decayed[best] < least:
            break
        left.remove(best)
        kept.append(best)
        for i in left:
            decayed[i] *= factor(iou(boxes[best], boxes[i]).item())
    return decayed, kept


@SOFT_RUNGS
@pytest.mark.parametrize("method", ["linear", "gaussian"])
def test_soft_nms(rung: str, method: str, device: str) -> None:
    boxes, _, _ = detections(40)
    scores = torch.rand(40, generator=torch.Generator().manual_seed(1))
    how = {"iou_threshold": 0.2, "sigma": 0.3, "score_threshold": 0.05, "method": method}
    factor = {
        "linear": lambda x: 1 - x if x > 0.2 else 1.0,
        "gaussian": lambda x: math.exp(-x * x / 0.3),
    }[method]
    wanted, order = softened(boxes, scores, 0.05, factor)
    decayed, kept, count = warpsmith.soft_nms(boxes.to(device), scores.to(device), rung=rung, **how)
    assert 10 < count.item() == len(order) < 40
    assert kept.tolist() == order + [-1] * (40 - len(order))
    torch.testing.assert_close(decayed.cpu(), torch.tensor(wanted), rtol=1e-5, atol=1e-7)
    assert decayed[kept[: len(order)]].diff().le(0).all()  # of the kept they fall
    # Columns of a detector's output are the same.
    output = torch.cat((scores[:, None], boxes), 1).to(device)
    again = warpsmith.soft_nms(output[:, 1:], output[:, 0], rung=rung, **how)
    for mine, right in zip(again, (decayed, kept, count), strict=True):
        assert torch.equal(mine, right)


@SOFT_RUNGS
def test_soft_nms_of_nan_and_ties(rung: str, device: str) -> None:
    boxes = torch.tensor([[0.0, 0, 2, 2]]).repeat(6, 1)
    scores = torch.tensor([0.5, math.nan, 0.5, 0.9, -math.inf, 0.5])
    boxes[3:, :2] = boxes[3:, :2] + 5  # inside out: an overlap of 0
    decayed, kept, count = warpsmith.soft_nms(boxes.to(device), scores.to(device), rung=rung)
    assert kept.tolist() == [1, 3, 5, -1, -1, -1]
    assert count.item() == 3
    assert decayed[[0, 2]].tolist() == [0, 0]
    boxes[1, 2] = math.nan  # which lowers nothing
    _, kept, _ = warpsmith.soft_nms(boxes.to(device), scores.to(device), rung=rung)
    assert kept.tolist() == [1, 3, 0, 5, -1, -1]


def test_soft_nms_refuses() -> None:
    boxes, scores, _ = detections(4)
    for how, text in [
        ({"iou_threshold": 1.5}, "from 0 to 1, not 1.5"),
        ({"sigma": 0.0}, "above 0 and finite in f32, not 0"),
        ({"score_threshold": math.inf}, "finite in f32, not inf"),
        ({"method": "hard"}, "'linear', 'gaussian', not 'hard'"),
    ]:
        with pytest.raises(ValueError, match=text):
            warpsmith.soft_nms(boxes, scores, **how)
    with pytest.raises(ValueError, match="scores of f32"):
        warpsmith.soft_nms(boxes, scores[:3])
