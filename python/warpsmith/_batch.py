"""What of an operation's tensors is a batch, for torch.vmap and for DTensor.

The row says it (Operation::batch and Parameter::rows in catalogue.hpp), of other operations
_letters.py: nothing here names one. vmap of one that has a batch is one call of more of it. DTensor
may spread the batch over devices, each of which computes its part; what is no batch is a whole on
each.
"""

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch

from warpsmith import _functions, _letters
from warpsmith._catalogue import OPERATIONS, Operation, Parameter


def _parameters(operation: Operation) -> tuple[list[Parameter], list[Parameter]]:
    """What is read, and what is made."""
    parameters = operation.parameters
    return [p for p in parameters if p.is_read], [p for p in parameters if not p.is_read]


def _values(operation: Operation, keywords: dict[str, Any]) -> dict[str, Any]:
    return {a.name: keywords.get(a.name, a.default) for a in operation.attributes}


def _dims(rank: int, dim: int | Sequence[int] | None) -> list[int] | None:
    """The dimensions that an attribute `dim` names, from the front; None where one is none."""
    dims = range(rank) if dim is None else [dim] if isinstance(dim, int) else dim
    if any(not -rank <= d < rank for d in dims):
        return None
    return [d % rank for d in dims]


# ---- vmap ---------------------------------------------------------------------------------------


def rule_of(operation: Operation, operator: Callable[..., Any]) -> Callable[..., Any] | None:
    """The rule of an operator for torch.library.register_vmap; None where nothing is told of it."""
    if operation.batch == "none" and not _letters.fold_of(operation):
        return None
    wanted_of = _functions.wanted_of(operation)
    has_dim = any(a.name == "dim" for a in operation.attributes)
    reads, writes = _parameters(operation)

    def rule(
        info: Any, in_dims: tuple[int | None, ...], *inputs: Any, **keywords: Any
    ) -> tuple[Any, Any]:
        left_out = (None,) * (len(reads) - len(inputs))
        inputs, in_dims = inputs + left_out, in_dims + left_out
        there = wanted_of(*inputs, *_values(operation, keywords).values())
        adds_up = any(p.rows == "shared" for p, has in zip(writes, there, strict=True) if has)
        front = [x if d is None else x.movedim(d, 0) for x, d in zip(inputs, in_dims, strict=True)]
        dims = [0 if has else None for has in there]
        out_dims = tuple(dims) if len(dims) > 1 else dims[0]
        if operation.batch == "none":
            is_batched = [d is not None for d in in_dims]
            rung = keywords.get("rung")
            values = _values(operation, keywords)
            result = _letters.batched(
                operation, operator, info.batch_size, is_batched, front, values, rung
            )
        elif has_dim:
            result = _along(operation, operator, front[0], keywords)
        else:
            tensors = _stacked(operation, info.batch_size, in_dims, front)
            result = None if adds_up or tensors is None else operator(*tensors, **keywords)
        if result is None:
            result = one_by_one(operation.name, operator, info.batch_size, in_dims, front, keywords)
        return result, out_dims

    return rule


def _stacked(
    operation: Operation, count: int, in_dims: Sequence[int | None], inputs: Sequence[Any]
) -> list[Any] | None:
    """The inputs of a call with a dimension more, which comes first; None where none is."""
    is_batched = [d is not None for d in in_dims]
    ranks = [
        None if x is None else x.dim() - is_it for x, is_it in zip(inputs, is_batched, strict=True)
    ]
    most = max(rank for rank in ranks if rank is not None)
    on_rows = operation.batch == "rows"
    if most == _letters.MOST_DIMENSIONS or (on_rows and ranks[0] == 0):
        return None
    tensors = []
    reads = _parameters(operation)[0]
    for p, x, rank, is_it in zip(reads, inputs, ranks, is_batched, strict=True):
        if x is None:
            tensors.append(x)
        elif on_rows and p.rows == "shared":
            if is_it:
                return None
            tensors.append(x)
        else:
            missing = 0 if on_rows and p.rows == "leading" else most - rank
            whole = x if is_it else x.expand(count, *x.shape)
            tensors.append(whole[(slice(None), *(None,) * missing)])
    return tensors


def _along(
    operation: Operation, operator: Callable[..., Any], x: Any, keywords: dict[str, Any]
) -> Any:
    """The result of an operation along `dim` for a tensor of a dimension more, which is first."""
    rank = x.dim() - 1
    dim = _values(operation, keywords)["dim"]
    dims = _dims(rank, dim)
    if rank in (0, _letters.MOST_DIMENSIONS) or dims is None:
        return None
    if dim is not None:
        moved = [d + 1 for d in dims]
        return operator(x, **keywords | {"dim": moved[0] if isinstance(dim, int) else moved})
    # Of all elements: as one row, as the place that argmax gives wants it.
    result = operator(x.flatten(1), **keywords | {"dim": 1})
    return result.reshape(-1, *(1,) * rank) if keywords.get("keepdim") else result


def one_by_one(
    name: str,
    operator: Callable[..., Any],
    count: int,
    in_dims: Sequence[int | None],
    inputs: Sequence[Any],
    keywords: dict[str, Any],
) -> Any:
    """The results of a call for each of the batch, as torch's own fallback computes them."""
    warnings.warn(
        f"warpsmith.{name} is called {count} times, once for each of vmap's batch, which no one "
        "call takes as it is",
        stacklevel=2,
    )
    results = [
        operator(
            *(x if d is None else x[i] for x, d in zip(inputs, in_dims, strict=True)), **keywords
        )
        for i in range(count)
    ]
    if not isinstance(results[0], tuple):
        return torch.stack(results)
    return tuple([torch.stack(parts) for parts in zip(*results, strict=True)])


# ---- DTensor ------------------------------------------------------------------------------------


def register_shardings() -> None:
    """Tells DTensor of all operators."""
    from torch.distributed.tensor import DTensor
    from torch.distributed.tensor._op_schema import RuntimeSchemaInfo
    from torch.distributed.tensor.experimental import register_sharding

    known = DTensor._op_dispatcher.sharding_propagator.op_to_schema_info
    for operation in OPERATIONS.values():
        if operation.in_out:
            continue
        operator = getattr(torch.ops.warpsmith, operation.name).default
        register_sharding(operator)(_shardings_of(operation))
        # All attributes tell calls apart, not only integers.
        attributes = [a.name for a in operation.attributes]
        known[operator] = RuntimeSchemaInfo(100, attributes, needs_pytree=True)


def _shardings_of(operation: Operation) -> Callable[..., Any]:
    """A function of what DTensor knows of a call: how outputs and inputs may be spread."""
    from torch.distributed.tensor import Partial, Replicate, Shard

    wanted_of = _functions.wanted_of(operation)
    reads, writes = _parameters(operation)

    def placed(p: Parameter, dim: int | None) -> Any:
        if dim is not None:
            return Shard(dim)
        return Partial() if p.is_written and p.rows == "shared" else Replicate()

    def shardings(*specs: Any, **keywords: Any) -> list[Any]:
        metas = [None if spec is None else spec.tensor_meta for spec in specs]
        metas += [None] * (len(reads) - len(metas))
        values = _values(operation, keywords)
        there = wanted_of(*metas, *values.values())
        found = [([Replicate() for _ in writes], [m and Replicate() for m in metas[: len(specs)]])]
        shapes = [None if m is None else tuple(m.shape) for m in metas]
        if _letters.knows(operation):
            for of_inputs, of_outputs in _letters.splits(operation, shapes, values):
                ins = [
                    None if shape is None else Replicate() if dim is None else Shard(dim)
                    for shape, dim in zip(shapes, of_inputs, strict=True)
                ]
                outs = [
                    Replicate() if not has else Partial() if dim is None else Shard(dim)
                    for has, dim in zip(there, of_outputs, strict=True)
                ]
                found.append((outs, ins[: len(specs)]))
        for of_inputs, of_output in _batch_dims(operation, shapes, values):
            ins = [
                None if shape is None else placed(p, dim)
                for p, shape, dim in zip(reads, shapes, of_inputs, strict=True)
            ]
            outs = [
                placed(p, None if p.rows == "shared" else of_output) if has else Replicate()
                for p, has in zip(writes, there, strict=True)
            ]
            found.append((outs, ins[: len(specs)]))
        return found

    return shardings


def _batch_dims(
    operation: Operation, shapes: Sequence[tuple[int, ...] | None], values: dict[str, Any]
) -> list[tuple[list[int | None], int]]:
    """For each dimension of the batch: which it is in each input, None where not, and in outputs.

    A dimension of an input that is repeated is none of the batch.
    """
    if operation.batch == "none":
        return []
    rank = len(shapes[0])
    if "dim" in values:
        dims = [] if values["dim"] is None else _dims(rank, values["dim"])
        if not dims:
            return []
        kept = [d for d in range(rank) if d not in dims]
        stays = values.get("keepdim", True)
        return [([d], d if stays else at) for at, d in enumerate(kept)]
    on_rows = operation.batch == "rows"
    if not on_rows:
        rank = max(len(shape) for shape in shapes if shape is not None)
    reads = _parameters(operation)[0]

    def in_input(p: Parameter, shape: tuple[int, ...] | None, d: int) -> int | None:
        if shape is None or (on_rows and p.rows == "shared"):
            return None
        at = d if on_rows and p.rows == "leading" else d - (rank - len(shape))
        return at if at >= 0 and shape[at] != 1 else None

    dims = range(rank - 1 if on_rows else rank)
    found = [[in_input(p, s, d) for p, s in zip(reads, shapes, strict=True)] for d in dims]
    return [(ins, d) for d, ins in enumerate(found) if any(at is not None for at in ins)]
