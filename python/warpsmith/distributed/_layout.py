"""Where a sequence lies on several ranks, and what its parts see of one another."""

import functools
import operator
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
import torch.distributed as dist

ORDERS = ("zigzag", "plain")


class Mesh(NamedTuple):
    """A ring of groups: rank i * degree + u of them is member u of group i."""

    ring: int  # groups
    degree: int  # ranks of a group, which exchange heads

    @property
    def ranks(self) -> int:
        return self.ring * self.degree


def mesh_of(name: str, ranks: int, degree: int) -> Mesh:
    try:
        degree = operator.index(degree)
    except TypeError:
        raise ValueError(f"{name}: ulysses_degree is an integer, not {degree!r}") from None
    if degree < 1 or ranks % degree != 0:
        raise ValueError(f"{name}: ulysses_degree divides {ranks} ranks, {degree} does not")
    return Mesh(ranks // degree, degree)


def check_order(name: str, order: str) -> None:
    if order not in ORDERS:
        raise ValueError(f"{name}: order is one of {', '.join(ORDERS)}, not {order!r}")


def shard(
    x: torch.Tensor,
    dim: int = 2,
    *,
    group: dist.ProcessGroup | None = None,
    order: str = "zigzag",
    ulysses_degree: int = 1,
) -> torch.Tensor:
    """A rank's part of a sequence that all ranks have whole.

    Whatever belongs to tokens is cut like this: positions too, before they turn queries and keys
    (RoPE), since a part of `zigzag` is not one piece of the sequence.

    Args:
        x: Any shape.
        dim: The dimension of tokens: 2 of [B, H, S, D].
        group: Whose rank; None: the default group.
        order: Of ring_attention and usp_attention. "zigzag": the sequence is cut into 2 R pieces
            for R parts, and part r has pieces r and 2 R - 1 - r: under a causal mask all have the
            same to do. "plain": part r has piece r of R, as ulysses_attention wants it.
        ulysses_degree: Of usp_attention: each of the ring's parts is cut into so many.

    Returns:
        x with S / ranks tokens; a copy in the order "zigzag", else a view.

    Raises:
        ValueError: an unknown order, a degree that is no integer or does not divide the ranks, or
            tokens that cannot be divided.
    """
    mesh = mesh_of("shard", dist.get_world_size(group), ulysses_degree)
    return split(x, dim, mesh, order)[dist.get_rank(group)]


def unshard(
    x: torch.Tensor,
    dim: int = 2,
    *,
    group: dist.ProcessGroup | None = None,
    order: str = "zigzag",
    ulysses_degree: int = 1,
) -> torch.Tensor:
    """The whole sequence of what each rank has of it, on every rank; has no gradient.

    Args:
        x: A rank's part, of one shape on all ranks, as shard() makes it.
        dim: As in shard().
        group: As in shard().
        order: As in shard().
        ulysses_degree: As in shard().

    Returns:
        x with ranks times as many tokens.

    Raises:
        ValueError: an unknown order, a degree that is no integer or does not divide the ranks, or
            tokens that cannot be divided.
    """
    mesh = mesh_of("unshard", dist.get_world_size(group), ulysses_degree)
    parts = [torch.empty_like(x, memory_format=torch.contiguous_format) for _ in range(mesh.ranks)]
    dist.all_gather(parts, x.detach().contiguous(), group=group)
    return join(parts, dim, mesh, order)


def split(x: torch.Tensor, dim: int, mesh: Mesh, order: str) -> list[torch.Tensor]:
    """The parts of all ranks."""
    check_order("shard", order)
    pieces = (2 if order == "zigzag" else 1) * mesh.ring
    if x.shape[dim] % pieces != 0 or x.shape[dim] % mesh.ranks != 0:
        raise ValueError(
            f"shard: {x.shape[dim]} tokens are not {pieces} equal pieces for {mesh.ranks} ranks"
        )
    parts = list(x.chunk(pieces, dim))
    if order == "zigzag":
        parts = [torch.cat((parts[i], parts[-1 - i]), dim) for i in range(mesh.ring)]
    return [part for whole in parts for part in whole.chunk(mesh.degree, dim)]


def join(parts: Sequence[torch.Tensor], dim: int, mesh: Mesh, order: str) -> torch.Tensor:
    """The inverse of split()."""
    check_order("unshard", order)
    if order == "plain":
        return torch.cat(list(parts), dim)
    first: list[Any] = []
    last: list[Any] = []
    for i in range(mesh.ring):
        whole = torch.cat(list(parts[i * mesh.degree : (i + 1) * mesh.degree]), dim)
        if whole.shape[dim] % 2 != 0:
            raise ValueError(f"unshard: {whole.shape[dim]} tokens are not two equal pieces")
        piece, other = whole.chunk(2, dim)
        first.append(piece)
        last.append(other)
    return torch.cat(first + last[::-1], dim)


# ---- What parts see of one another --------------------------------------------------------------


class Part(NamedTuple):
    """What some queries of a rank see of some keys of another: one call of attention.

    The last of these queries stands over the last of these keys, as attention aligns them.
    """

    queries: slice
    keys: slice
    left: int  # the window; -1: all of that side
    right: int


@functools.lru_cache(maxsize=256)
def schedule(
    order: str, ranks: int, rank: int, rows: int, left: int, right: int
) -> tuple[tuple[Part, ...], ...]:
    """What rank `rank` of a ring computes in each step, of the keys of rank - step.

    The ring stops where no rank has anything left to see: a window that spans two parts takes two
    or three steps, however many ranks there are.
    """
    steps = ranks
    while steps > 1 and not any(
        _parts(order, ranks, r, (r - steps + 1) % ranks, rows, left, right) for r in range(ranks)
    ):
        steps -= 1
    return tuple(
        _parts(order, ranks, rank, (rank - step) % ranks, rows, left, right)
        for step in range(steps)
    )


def _pieces(order: str, ranks: int, rank: int, rows: int) -> list[tuple[int, int, int]]:
    """Of the pieces that a rank has: where each begins in the sequence and here, and its length."""
    if order == "plain":
        return [(rank * rows, 0, rows)]
    half = rows // 2
    return [(rank * half, 0, half), ((2 * ranks - 1 - rank) * half, half, half)]


def _parts(
    order: str, ranks: int, rank: int, visitor: int, rows: int, left: int, right: int
) -> tuple[Part, ...]:
    everything = slice(0, rows)
    if left < 0 and (right < 0 or (right == 0 and visitor == rank)):
        # Pieces stand in the order of the sequence, so that a rank's own are causal as they lie.
        return (Part(everything, everything, left, right),)
    parts: list[Part] = []
    for start, here, length in _pieces(order, ranks, rank, rows):
        for other_start, there, other_length in _pieces(order, ranks, visitor, rows):
            band = _band(start - other_start, length, other_length, left, right)
            if band is not None:
                _append(parts, _moved(band, here, there))
    return tuple(parts)


def _band(offset: int, queries: int, keys: int, left: int, right: int) -> Part | None:
    """What query i of `queries`, which stands over key i + offset of `keys`, sees in a window.

    Without the queries that see nothing and the keys that nobody sees, the last query sees the last
    key: so the window, counted from there, ends on neither side before it.
    """
    first = 0 if right < 0 else max(0, -offset - right)
    end = queries if left < 0 else min(queries, keys - offset + left)
    first_key = 0 if left < 0 else max(0, first + offset - left)
    end_key = keys if right < 0 else min(keys, end + offset + right)
    if first >= end or first_key >= end_key:
        return None
    shift = end + offset - end_key  # of the last query, from the last key
    if left >= 0:
        left -= shift
        left = -1 if left >= end_key - first_key - 1 else left
    if right >= 0:
        right += shift
        right = -1 if right >= end - first - 1 else right
    return Part(slice(first, end), slice(first_key, end_key), left, right)


def _moved(part: Part, queries: int, keys: int) -> Part:
    return part._replace(
        queries=slice(part.queries.start + queries, part.queries.stop + queries),
        keys=slice(part.keys.start + keys, part.keys.stop + keys),
    )


def _append(parts: list[Part], part: Part) -> None:
    """Appends a part, or joins it to the last: two rectangles side by side are one call."""
    if parts and parts[-1].left == parts[-1].right == part.left == part.right == -1:
        last = parts[-1]
        if last.keys == part.keys and last.queries.stop == part.queries.start:
            parts[-1] = last._replace(queries=slice(last.queries.start, part.queries.stop))
            return
        if last.queries == part.queries and last.keys.stop == part.keys.start:
            parts[-1] = last._replace(keys=slice(last.keys.start, part.keys.stop))
            return
    parts.append(part)
