"""torch's embedding_bag on the catalogue's: indices and offsets may be of two widths."""

import functools
from typing import Any

import torch

import warpsmith

_embedding_bag = warpsmith.embedding_bag
_NARROW, _WIDE = torch.int32, torch.int64


@functools.wraps(_embedding_bag)
def embedding_bag(
    input: Any, weight: Any, offsets: Any = None, *arguments: Any, **keywords: Any
) -> Any:
    if isinstance(input, torch.Tensor) and isinstance(offsets, torch.Tensor):
        if input.dtype == _NARROW and offsets.dtype == _WIDE:
            input = input.long()
        elif input.dtype == _WIDE and offsets.dtype == _NARROW:
            offsets = offsets.long()
    return _embedding_bag(input, weight, offsets, *arguments, **keywords)
