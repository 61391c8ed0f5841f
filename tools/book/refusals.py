"""What an operation says to calls that are none: the texts are those of the calls themselves."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import warpsmith
from warpsmith._arrays import memory
from warpsmith._cases import cases_of
from warpsmith._catalogue import DTYPES, OPERATIONS, Operation
from warpsmith._signatures import tensor_names

MOST = 4096  # elements of a tensor of a call that is to fail
MEMORY = np.zeros(64 * MOST, np.uint8)  # of all tensors that NumPy cannot hold

Layout = tuple[tuple[int, ...], str]  # a tensor's shape and dtype


def _numpy_holds(dtype: str) -> bool:
    return hasattr(np, DTYPES[dtype].torch)


def _inputs(operation: Operation) -> tuple[list[Layout | None], dict[str, Any]] | None:
    """Inputs of the first small case, and its attributes; of one that NumPy can hold if there is
    such a case."""
    found = None
    for case in cases_of(operation, "smoke"):
        for dtype in operation.dtypes:
            known = case.layouts(dtype)[: len(operation.inputs)]
            held = [layout for layout in known if layout is not None]
            if any(np.prod(layout.shape) > MOST or 0 in layout.shape for layout in held):
                continue
            layouts = [layout and (tuple(layout.shape), layout.dtype) for layout in known]
            if all(_numpy_holds(layout.dtype) for layout in held):
                return layouts, case.attributes
            found = found or (layouts, case.attributes)
    return found


def _tensor(layout: Layout, of_numpy: bool) -> Any:
    """Zeros: an array of NumPy, or a view of memory that has dtypes which NumPy lacks."""
    shape, dtype = layout
    if of_numpy:
        return np.zeros(shape, getattr(np, DTYPES[dtype].torch))
    strides = [int(np.prod(shape[i + 1 :])) for i in range(len(shape))]
    code = (DTYPES[dtype].code, DTYPES[dtype].bits)
    assert np.prod(shape) * code[1] <= 8 * MEMORY.size
    return memory(MEMORY.ctypes.data, code, shape, strides)


def _other_dtype(operation: Operation) -> str | None:
    return next((d for d in ("f64", "i32", "i64", "bool") if d not in operation.dtypes), None)


def _calls(
    operation: Operation, layouts: list[Layout | None], attributes: dict[str, Any]
) -> Iterator[tuple[str, Callable[[], Any]]]:
    names = tensor_names(operation)
    of_numpy = all(layout is None or _numpy_holds(layout[1]) for layout in layouts)

    def function(*some: Layout | None, **keywords: Any) -> Any:
        tensors = [layout and _tensor(layout, of_numpy) for layout in some]
        given = dict(zip(names, tensors, strict=True))
        return getattr(warpsmith, operation.name)(**given, **keywords)

    shape, dtype = layouts[0]
    other = _other_dtype(operation)
    if other is not None:
        yield (
            f"a tensor of {other}",
            lambda: function((shape, other), *layouts[1:], **attributes),
        )
    nine = (1,) * (9 - len(shape)) + shape
    yield (
        "a tensor of nine dimensions",
        lambda: function((nine, dtype), *layouts[1:], **attributes),
    )
    seconds = [i for i, layout in enumerate(layouts) if i > 0 and layout is not None and layout[0]]
    if seconds:
        i = seconds[0]
        second, dtype_there = layouts[i]
        wide = ((*second[:-1], second[-1] + 3), dtype_there)
        yield (
            f"`{operation.inputs[i]}` of another size",
            lambda: function(*layouts[:i], wide, *layouts[i + 1 :], **attributes),
        )
    for attribute in operation.attributes:
        wrong = {**attributes, attribute.name: "nonsense"}
        yield f'`{attribute.name}="nonsense"`', lambda wrong=wrong: function(*layouts, **wrong)
    yield (
        '`rung="nonsense"`',
        lambda: function(*layouts, **attributes, rung="nonsense"),
    )


def refusals(name: str) -> list[tuple[str, str, str]]:
    """(what is wrong with a call, the error's type, its text)."""
    operation = OPERATIONS[name]
    found = _inputs(operation)
    if found is None:
        return []
    told = []
    for what, call in _calls(operation, *found):
        try:
            call()
        except (TypeError, ValueError, RuntimeError) as error:
            told.append((what, type(error).__name__, str(error)))
    return told
