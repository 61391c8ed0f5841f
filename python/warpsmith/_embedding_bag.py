"""torch's embedding_bag on the catalogue's: indices and offsets may be of two widths."""

import functools
from typing import Any

import torch

import warpsmith

_embedding_bag = warpsmith.embedding_bag


@functools.wraps(_embedding_bag)
def embedding_bag(
    input: Any, weight: Any, offsets: Any = None, *arguments: Any, **keywords: Any
) -> Any:
    if _differ(input, offsets):
        input, offsets = input.long(), offsets.long()
    return _embedding_bag(input, weight, offsets, *arguments, **keywords)


def _differ(input: Any, offsets: Any) -> bool:
    """Whether one is of 32 bits, the other of 64; unseen by modes, which are to see the call."""
    if not (isinstance(input, torch.Tensor) and isinstance(offsets, torch.Tensor)):
        return False
    with torch._C.DisableTorchFunction():
        return {input.dtype, offsets.dtype} == {torch.int32, torch.int64}
