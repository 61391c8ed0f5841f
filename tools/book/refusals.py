"""What an operation says to calls that are none: the texts are those of the calls themselves."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import warpsmith
from warpsmith._cases import cases_of
from warpsmith._catalogue import DTYPES, OPERATIONS, Operation
from warpsmith._signatures import tensor_names

MOST = 4096  # elements of a tensor of a call that is to fail


def _arrays(operation: Operation) -> tuple[list[Any], dict[str, Any]] | None:
    """Inputs of the first small case that NumPy can hold, and its attributes."""
    for case in cases_of(operation, "smoke"):
        for dtype in operation.dtypes:
            known = case.layouts(dtype)[: len(operation.inputs)]
            held = [layout for layout in known if layout is not None]
            if any(layout.dtype in ("bf16", "e4m3", "e5m2") for layout in held):
                continue
            if any(np.prod(layout.shape) > MOST or 0 in layout.shape for layout in held):
                continue
            arrays = [
                layout and np.zeros(layout.shape, getattr(np, DTYPES[layout.dtype].torch))
                for layout in known
            ]
            return arrays, case.attributes
    return None


def _other_dtype(operation: Operation) -> str | None:
    return next((d for d in ("f64", "i32", "i64", "bool") if d not in operation.dtypes), None)


def _calls(
    operation: Operation, arrays: list[Any], attributes: dict[str, Any]
) -> Iterator[tuple[str, Callable[[], Any]]]:
    names = tensor_names(operation)

    def function(*tensors: Any, **keywords: Any) -> Any:
        given = dict(zip(names, tensors, strict=True))
        return getattr(warpsmith, operation.name)(**given, **keywords)

    other = _other_dtype(operation)
    if other is not None:
        name = DTYPES[other].torch
        yield (
            f"a tensor of {other}",
            lambda: function(arrays[0].astype(name), *arrays[1:], **attributes),
        )
    yield (
        "a tensor of nine dimensions",
        lambda: function(
            arrays[0].reshape((1,) * (9 - arrays[0].ndim) + arrays[0].shape),
            *arrays[1:],
            **attributes,
        ),
    )
    seconds = [i for i, array in enumerate(arrays) if i > 0 and array is not None and array.ndim]
    if seconds:
        i = seconds[0]
        wide = np.zeros((*arrays[i].shape[:-1], arrays[i].shape[-1] + 3), arrays[i].dtype)
        yield (
            f"`{operation.inputs[i]}` of another size",
            lambda: function(*arrays[:i], wide, *arrays[i + 1 :], **attributes),
        )
    for attribute in operation.attributes:
        wrong = {**attributes, attribute.name: "nonsense"}
        yield f'`{attribute.name}="nonsense"`', lambda wrong=wrong: function(*arrays, **wrong)
    yield (
        '`rung="nonsense"`',
        lambda: function(*arrays, **attributes, rung="nonsense"),
    )


def refusals(name: str) -> list[tuple[str, str, str]]:
    """(what is wrong with a call, the error's type, its text)."""
    operation = OPERATIONS[name]
    found = _arrays(operation)
    if found is None:
        return []
    told = []
    for what, call in _calls(operation, *found):
        try:
            call()
        except (TypeError, ValueError, RuntimeError) as error:
            told.append((what, type(error).__name__, str(error)))
    return told
