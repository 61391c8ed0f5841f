"""What each operation is to be tried on: its own cases, with inputs filled as it says.

Tests and measurements walk these, so that none of them lists operations or shapes by hand.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from warpsmith import _arrays
from warpsmith._catalogue import DTYPES, Operation
from warpsmith._libraries import MODULES


def _module() -> Any:
    return next(iter(MODULES.values()))  # layouts and fills are the host's, in every build


@dataclass(frozen=True)
class Layout:
    """What a tensor of a case is."""

    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    holder: int  # the parameter in whose memory it begins: mostly it itself
    # Of what is written: relative (of the norms), worst (of an element), floor; zeros: equality.
    tolerance: tuple[float, float, float] | None
    # The same of rungs that add up in less than f32, by the dtype they add up in.
    tolerance_in: dict[str, tuple[float, float, float]]


@dataclass(frozen=True)
class Case:
    """A problem to try an operation on, before its dtype is chosen."""

    operation: Operation
    extents: tuple[int, ...]
    attributes: dict[str, Any]  # as the package's function takes them
    offset: int  # every pointer this many elements past an aligned address
    padding: int  # elements between rows that tensors do not own

    def with_extents(self, *extents: int) -> "Case":
        """The same at another size."""
        return replace(self, extents=extents)

    @cached_property
    def _text(self) -> str:
        attributes = {name.rstrip("_"): value for name, value in self.attributes.items()}
        return json.dumps(
            {
                "extents": self.extents,
                "attributes": attributes,
                "offset": self.offset,
                "padding": self.padding,
            }
        )

    def layouts(self, dtype: str) -> list[Layout | None]:
        """Of each parameter; None where the call has it not. ValueError where it is no call."""
        rows = json.loads(_module().layout_of(self.operation.id, self._text, dtype))
        return [
            row
            and Layout(
                row["dtype"],
                tuple(row["shape"]),
                tuple(row["strides"]),
                row["holder"],
                tuple(row["tolerance"]) if "tolerance" in row else None,
                {name: tuple(three) for name, three in row.get("tolerance_in", {}).items()},
            )
            for row in rows
        ]

    def inputs(self, dtype: str, device: str = "cpu", seed: int = 1) -> list[Any]:
        """Torch tensors for what is read, the same on every device; None for what is left out."""
        import torch

        known = self.layouts(dtype)[: len(self.operation.inputs)]
        buffers: list[Any] = []
        for i, layout in enumerate(known):
            if layout is None:
                buffers.append(None)
            elif layout.holder != i:
                buffers.append(buffers[layout.holder])
            else:
                torch_dtype = getattr(torch, DTYPES[layout.dtype].torch)
                buffers.append(torch.zeros(self.offset + _span(layout), dtype=torch_dtype))

        views = []
        for buffer, layout in zip(buffers, known, strict=True):
            if layout is None:
                views.append(None)
                continue
            kind = DTYPES[layout.dtype]
            address = buffer.data_ptr() + self.offset * buffer.element_size()
            code = (kind.code, kind.bits)
            views.append(_arrays.memory(address, code, layout.shape, layout.strides))
        views += [None] * (len(self.operation.parameters) - len(views))
        _module().fill_case(self.operation.id, self._text, dtype, seed, views)
        moved = [buffer if buffer is None else buffer.to(device) for buffer in buffers]
        return [
            None
            if layout is None
            else moved[layout.holder].as_strided(layout.shape, layout.strides, self.offset)
            for layout in known
        ]


def _span(layout: Layout) -> int:
    """Elements from a tensor's first to the end of its last."""
    if 0 in layout.shape:
        return 0
    pairs = zip(layout.shape, layout.strides, strict=True)
    return 1 + sum(stride * (extent - 1) for extent, stride in pairs)


def cases_of(operation: Operation, which: str = "smoke") -> list[Case]:
    """An operation's cases: "smoke" (tiny), "verify" (at every boundary) or "bench"."""
    names = {a.name.rstrip("_"): a.name for a in operation.attributes}
    rows: Sequence[Any] = json.loads(_module().cases_of(operation.id, which))
    return [
        Case(
            operation,
            tuple(row["extents"]),
            {
                names[name]: tuple(value) if isinstance(value, list) else value
                for name, value in row["attributes"].items()
            },
            row["offset"],
            row["padding"],
        )
        for row in rows
    ]
