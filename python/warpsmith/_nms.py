"""torchvision's nms and batched_nms on the kernels of the catalogue.

The catalogue's `nms_indices` writes as many indices as there are boxes, and how many of them count.
These cut the result there, as torchvision's do: they wait for the device.
"""

import torch

import warpsmith


def nms(
    boxes: torch.Tensor, scores: torch.Tensor, iou_threshold: float, *, rung: str | None = None
) -> torch.Tensor:
    """Of boxes that overlap by more than a threshold the best, as torchvision.ops.nms.

    Args:
        boxes: [N, 4], f32, any strides: x1, y1, x2, y2.
        scores: [N], f32.
        iou_threshold: From 0 to 1.
        rung: As of warpsmith.nms_indices.

    Returns:
        Indices of the boxes that are kept, i64, best score first, of equal scores the lower index.

    Raises:
        TypeError: what is no torch tensor.
        ValueError: shapes, dtypes and thresholds that do not fit.
    """
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
        boxes: [N, 4], f32, any strides: x1, y1, x2, y2.
        scores: [N], f32.
        idxs: [N], i64, the class of each box.
        iou_threshold: From 0 to 1.
        rung: As of warpsmith.nms_indices.

    Returns:
        Indices of the boxes that are kept, i64, best score first, of equal scores the lower index.

    Raises:
        TypeError: what is no torch tensor.
        ValueError: shapes, dtypes and thresholds that do not fit.
    """
    kept, count = warpsmith.nms_indices(boxes, scores, idxs, iou_threshold=iou_threshold, rung=rung)
    return kept[: int(count)]


for _function in (nms, batched_nms):
    _function.__module__ = "warpsmith"
del _function
