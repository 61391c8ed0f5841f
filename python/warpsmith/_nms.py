"""torchvision's nms and batched_nms on the kernels of the catalogue.

The catalogue's `nms_indices` writes as many indices as there are boxes, and how many of them count.
These cut the result there, as torchvision's do: they wait for the device.
"""

import torch

import warpsmith

_INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32)


def nms(
    boxes: torch.Tensor, scores: torch.Tensor, iou_threshold: float, *, rung: str | None = None
) -> torch.Tensor:
    """Of boxes that overlap by more than a threshold the best, as torchvision.ops.nms.

    Args:
        boxes: [N, 4], f32, f16 or bf16, any strides: x1, y1, x2, y2. All arithmetic is in f32.
        scores: [N], dtype of boxes.
        iou_threshold: From 0 to 1.
        rung: As of warpsmith.nms_indices.

    Returns:
        Indices of the boxes that are kept, i64, best score first, of equal scores the lower index.

    Raises:
        TypeError: what is no torch tensor.
        ValueError: shapes, dtypes and thresholds that do not fit.
    """
    boxes, scores = _wide(boxes, scores)
    kept, count = warpsmith.nms_indices(boxes, scores, iou_threshold=iou_threshold, rung=rung)
    return kept[: int(count)]


def batched_nms(
    boxes: torch.Tensor,
    scores: torch.Tensor,
    idxs: torch.Tensor,
    iou_threshold: float,
    *,
    rung: str | None = None,
) -> torch.Tensor:
    """The same where only boxes of one class suppress each other, as torchvision.ops.batched_nms.

    Args:
        boxes: [N, 4], f32, f16 or bf16, any strides: x1, y1, x2, y2. All arithmetic is in f32.
        scores: [N], dtype of boxes.
        idxs: [N], of integers, the class of each box.
        iou_threshold: From 0 to 1.
        rung: As of warpsmith.nms_indices.

    Returns:
        Indices of the boxes that are kept, i64, best score first, of equal scores the lower index.

    Raises:
        TypeError: what is no torch tensor.
        ValueError: shapes, dtypes and thresholds that do not fit.
    """
    boxes, scores = _wide(boxes, scores)
    if isinstance(idxs, torch.Tensor) and idxs.dtype in _INTEGERS:
        idxs = idxs.long()
    kept, count = warpsmith.nms_indices(boxes, scores, idxs, iou_threshold=iou_threshold, rung=rung)
    return kept[: int(count)]


for _function in (nms, batched_nms):
    _function.__module__ = "warpsmith"
del _function


def _wide(boxes: torch.Tensor, scores: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Both in f32 where both are of one dtype of 16 bits."""
    given = (boxes, scores)
    if not all(isinstance(x, torch.Tensor) for x in given) or boxes.dtype != scores.dtype:
        return given  # which the operation refuses
    if boxes.dtype not in (torch.float16, torch.bfloat16):
        return given
    return boxes.float(), scores.float()
