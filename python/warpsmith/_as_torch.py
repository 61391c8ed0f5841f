"""What torch's functions take and an operation by itself does not: other dims, dtypes, numbers.

All of it is views, casts and a call of the package's function again, so that autograd and
torch.compile see what they know, and arrays of other libraries than torch's are taken too.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

from warpsmith import _signatures
from warpsmith._catalogue import DTYPES, Operation

try:
    import torch
except ImportError:
    torch = None

_Tensors = dict[str, Any]  # by the function's own names of its parameters
_Keywords = dict[str, Any]
_Function = Callable[..., Any]


def casts_of(operation: Operation) -> tuple[str, ...]:
    """Names of what torch's `dtype` may be and the operation's own may not: the input is cast."""
    floats = [d.torch for d in DTYPES.values() if d.is_float and d.bits >= 16]
    return tuple(
        [
            name
            for a in operation.attributes
            for name in floats
            if a.name == "dtype" and name not in a.choices
        ]
    )


# ---- Parameters of torch's alone ----------------------------------------------------------------


def extras_of(operation: Operation) -> dict[str, Any]:
    """Parameters that are torch's alone, and the values at which the operation is by itself."""
    arguments = _signatures.arguments_of(operation)
    return {argument.name: argument.default for argument in arguments if argument.own is None}


def apply(
    function: _Function,
    operation: str,
    tensors: _Tensors,
    keywords: _Keywords,
    extras: dict[str, tuple[Any, Any]],
) -> Any:
    """Calls a function of the package with parameters that are torch's alone.

    Args:
        function: Which.
        operation: Its name.
        tensors: What it reads, by name.
        keywords: Its attributes, rung and out.
        extras: The others: the value, and the one at which the operation is by itself.
    """
    if not hasattr(_first(tensors)[1], "shape"):  # no array, which the function will say
        return function(**tensors, **keywords)
    for name, (value, default) in extras.items():
        if type(value) is type(default) and value == default:
            continue
        rule = _RULES.get(name)
        if rule is None:
            raise NotImplementedError(f"{operation}: {name} is {default!r} here, not {value!r}")
        rest = {other: given for other, (given, _) in extras.items() if other != name}
        if has_proxy(tensors):
            return recorded(function, tensors, keywords | rest | {name: value})
        return rule(function, operation, tensors, keywords | rest, value)
    return function(**tensors, **keywords)


def has_proxy(tensors: _Tensors) -> bool:
    """Whether torch.fx traces: of its proxies neither rank nor dtype is known."""
    return torch is not None and any(isinstance(x, torch.fx.Proxy) for x in tensors.values())


def recorded(function: _Function, tensors: _Tensors, keywords: _Keywords) -> Any:
    """A call as torch.fx records one of a function that it knows."""
    tracer = next(x.tracer for x in tensors.values() if isinstance(x, torch.fx.Proxy))
    given = {name: x for name, x in keywords.items() if x is not None}
    return tracer.create_proxy("call_function", function, (), tensors | given)


def _first(tensors: _Tensors) -> tuple[str, Any]:
    return next(iter(tensors.items()))


def _other_dim(
    function: _Function, operation: str, tensors: _Tensors, keywords: _Keywords, dim: Any
) -> Any:
    """Of an operation over the last dimension: over another."""
    name, x = _first(tensors)
    if not isinstance(dim, int) or not -max(x.ndim, 1) <= dim < max(x.ndim, 1):
        raise ValueError(f"{operation}: dim is {dim!r}, of a tensor of {x.ndim} dimensions")
    if x.ndim == 0:  # torch gives it a dimension to name
        line, out = x.reshape((1,)), keywords["out"]
        to = None if out is None else out.reshape((1,))
        result = function(**tensors | {name: line}, **keywords | {"out": to})
        return result.reshape(()) if out is None else out
    out = keywords["out"]
    to = None if out is None else out.swapaxes(dim, -1)
    moved = {name: x.swapaxes(dim, -1) for name, x in tensors.items()}
    result = function(**moved, **keywords | {"out": to})
    return result.swapaxes(dim, -1) if out is None else out


def _other_dtype(
    function: _Function, operation: str, tensors: _Tensors, keywords: _Keywords, dtype: Any
) -> Any:
    """Of the input cast first, as torch has it."""
    del operation
    name, x = _first(tensors)
    if torch is not None and isinstance(x, torch.Tensor):
        cast = x.to(getattr(torch, dtype) if isinstance(dtype, str) else dtype)
    else:
        cast = x.astype(dtype)
    return function(**tensors | {name: cast}, **keywords | {"dtype": None})


def _flag(operation: str, name: str, value: Any) -> bool:
    if value not in (True, False):
        raise ValueError(f"{operation}: {name} is True or False, not {value!r}")
    return bool(value)


def _in_place(
    function: _Function, operation: str, tensors: _Tensors, keywords: _Keywords, inplace: Any
) -> Any:
    if not _flag(operation, "inplace", inplace):
        return function(**tensors, **keywords)
    if keywords["out"] is not None:
        raise ValueError(f"{operation}: inplace=True leaves no place for out")
    return function(**tensors, **keywords | {"out": _first(tensors)[1]})


def _training(
    function: _Function, operation: str, tensors: _Tensors, keywords: _Keywords, training: Any
) -> Any:
    """Of an operation that is one in training alone."""
    if _flag(operation, "training", training):
        return function(**tensors, **keywords)
    if keywords["out"] is not None:
        raise ValueError(f"{operation}: training=False gives the input, and takes no out")
    return _first(tensors)[1]


def _over_shape(
    function: _Function, operation: str, tensors: _Tensors, keywords: _Keywords, shape: Any
) -> Any:
    """Of an operation over the last dimension: over several, which become one."""
    x = _first(tensors)[1]
    try:
        last = (shape,) if isinstance(shape, int) else tuple([n.__index__() for n in shape])
    except (AttributeError, TypeError):
        last = ()
    count = len(last)
    if count == 0 or tuple(x.shape[-count:]) != last:
        given = shape if isinstance(shape, (int, tuple, list)) else f"a {type(shape).__name__}"
        raise ValueError(
            f"{operation}: normalized_shape is the last extents of {list(x.shape)}, not {given}"
        )
    if count == 1:
        return function(**tensors, **keywords)

    def folded(tensor: Any) -> Any:
        if tensor is None or tuple(tensor.shape[-count:]) != last:
            return tensor
        return tensor.reshape((*tensor.shape[:-count], math.prod(last)))

    if keywords["out"] is not None:
        raise NotImplementedError(f"{operation}: out over {count} dimensions {last}")
    results = function(**{name: folded(t) for name, t in tensors.items()}, **keywords)
    if not isinstance(results, tuple):
        return results.reshape(x.shape)
    flat = folded(x).shape
    return tuple([r.reshape(x.shape) if r.shape == flat else r for r in results])


_RULES: dict[str, Callable[[_Function, str, _Tensors, _Keywords, Any], Any]] = {
    "training": _training,
    "inplace": _in_place,
    "dtype": _other_dtype,
    "normalized_shape": _over_shape,
    "dim": _other_dim,
}


_DOCS = {
    "training": "False gives the input as it is",
    "inplace": "True writes into the first tensor and returns it",
    "dtype": "what the input is cast to first; None: nothing",
    "normalized_shape": "the last extents, over all of which it goes; None: the last one",
    "dim": "along which; another than the last is a view",
}


def doc_of(name: str, default: Any) -> str:
    """What a parameter of torch's alone does."""
    return _DOCS.get(name, f"{default!r}; anything else is refused")


# Where a parameter has another value and yet changes nothing, for the source of the quick way.
SAME = {"dim": "dim == {}.ndim - 1", "normalized_shape": "normalized_shape == {}.shape[-1:]"}


# ---- Promotion ----------------------------------------------------------------------------------


def promotes(operation: Operation) -> bool:
    """Whether an operation is of two tensors that broadcast, whose dtypes torch makes one."""
    outputs = [p for p in operation.parameters if not p.is_read]
    both = "torch.broadcast_shapes({}.shape, {}.shape)"
    return len(operation.inputs) == 2 and outputs[0].shape == both.format(*operation.inputs)


def differ(a: Any, b: Any) -> bool:
    """Whether two operands are torch's and Python's numbers, and not of one dtype and device.

    Or torch.fx's, and a number.
    """
    if isinstance(a, torch.Tensor):
        if isinstance(b, torch.Tensor):
            return a.dtype != b.dtype or (a.device != b.device and 0 in (a.dim(), b.dim()))
        return isinstance(b, (bool, int, float))
    of_torch = (torch.Tensor, torch.fx.Proxy)
    if isinstance(a, (bool, int, float)):
        return isinstance(b, of_torch)
    return isinstance(a, of_torch) and isinstance(b, (bool, int, float))


def _dtype_of(number: Any) -> Any:
    if isinstance(number, bool):
        return torch.bool
    return torch.int64 if isinstance(number, int) else torch.get_default_dtype()


def _category(dtype: Any) -> int:
    """Bool, whole numbers, floating-point numbers, complex ones."""
    if dtype.is_complex:
        return 3
    return 2 if dtype.is_floating_point else int(dtype != torch.bool)


def result_dtype(a: Any, b: Any) -> Any:
    """torch.result_type, which torch.compile does not know."""

    def kind(x: Any) -> tuple[int, Any]:
        is_tensor = isinstance(x, torch.Tensor)
        weight = (2 if x.dim() else 1) if is_tensor else 0
        return weight, x.dtype if is_tensor else _dtype_of(x)

    (weight, dtype), (other_weight, other) = kind(a), kind(b)
    if weight == other_weight:
        return torch.promote_types(dtype, other)
    if weight < other_weight:
        dtype, other = other, dtype
    return torch.promote_types(dtype, other) if _category(other) > _category(dtype) else dtype


def refuse_gradients(name: str, what: str, tensors: Sequence[Any]) -> None:
    """Of calls that write into the caller's memory, which gradients do not follow."""
    there = [x for x in tensors if isinstance(x, torch.Tensor)]
    if torch.is_grad_enabled() and any(x.requires_grad for x in there):
        raise ValueError(f"{name}: {what} no gradient, but an argument requires one")


def promote(function: _Function, tensors: _Tensors, keywords: _Keywords) -> Any:
    """Calls a function of operands that differ() as torch does: in their common dtype.

    Beside a tensor of 16 bits a number, or a tensor without dimensions, keeps what it is: the call
    is in f32 then, and rounded once.
    """
    if has_proxy(tensors):
        return recorded(function, tensors, keywords)
    a, b = tensors.values()
    dtype = result_dtype(a, b)
    device = next(
        (x.device for x in (a, b) if isinstance(x, torch.Tensor) and x.dim()),
        (a if isinstance(a, torch.Tensor) else b).device,
    )
    both_have_dims = all(isinstance(x, torch.Tensor) and x.dim() for x in (a, b))
    is_narrow = dtype.is_floating_point and dtype.itemsize < 4 and not both_have_dims
    wide = torch.float32 if is_narrow else dtype

    def brought(x: Any) -> Any:
        if not isinstance(x, torch.Tensor):
            return torch.full((), x, dtype=wide, device=device)
        return x.to(dtype).to(wide) if x.dim() else x.to(device, wide)

    operands = {name: brought(x) for name, x in tensors.items()}
    if wide == dtype:
        return function(**operands, **keywords)
    out = keywords["out"]
    if out is not None:
        refuse_gradients(function.__name__, "out= has", (a, b, out))
    result = function(**operands, **keywords | {"out": None})
    if out is None:
        return result.to(dtype)
    if (out.shape, out.dtype) != (result.shape, dtype):
        raise ValueError(
            f"{function.__name__}: out is {out.dtype} of {tuple(out.shape)}, the result "
            f"{dtype} of {tuple(result.shape)}"
        )
    return out.copy_(result)
