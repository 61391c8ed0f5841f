"""Ring attention, Ulysses, and both together, as autograd functions."""

import enum
import math
from collections.abc import Sequence
from contextlib import closing
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch.autograd.function import once_differentiable

import warpsmith
from warpsmith._catalogue import OPERATIONS
from warpsmith._matmul import _autocast, _check_tensors
from warpsmith.distributed._layout import Part, check_order, mesh_of, schedule
from warpsmith.distributed._ranks import Ranks, Ring, Sum, Travelling

_DTYPES = (torch.float32, torch.float16, torch.bfloat16)
_ATTENTION = OPERATIONS["attention"]


class _Options(NamedTuple):
    causal: bool
    window_left: int
    window_right: int
    scale: float | None

    @property
    def window(self) -> tuple[int, int]:
        return self.window_left, 0 if self.causal else self.window_right


class _Degree(enum.Enum):
    """A ulysses_degree that is no number of the caller's."""

    ALL = "all ranks"

    def __repr__(self) -> str:
        return str(self.value)


def ring_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    group: dist.ProcessGroup | None = None,
    causal: bool = False,
    window_left: int = -1,
    window_right: int = -1,
    scale: float | None = None,
    order: str = "zigzag",
    return_lse: bool = False,
) -> Any:
    """Attention over a sequence of which each rank has a part: keys and values go round.

    In each step a rank attends to the keys of another, while the next are on their way, and merges
    them with those before in f32, in the same kernel (`ring_attention_step`). Steps in which nobody
    sees anything are left out. The gradient goes round once more, dk and dv with it, in f32.

    Whatever is raised in a step, a KeyboardInterrupt too, waits for what is on its way: where all
    ranks stop in that step, their group can be used again.

    Liu et al., Ring Attention with Blockwise Transformers for Near-Infinite Context, 2023,
    arXiv:2310.01889; the order "zigzag" is that of Llama 3's training, arXiv:2407.21783.

    Args:
        q: [B, H, S / ranks, D], f32, f16 or bf16, any strides: the rank's part, of one shape on all
            ranks.
        k: [B, Hk, S / ranks, D], dtype of q; Hk divides H.
        v: [B, Hk, S / ranks, Dv], dtype of q.
        group: The ranks; None: the default group. NCCL for CUDA tensors, gloo for those of the CPU.
        causal: A token sees none after itself, in the whole sequence.
        window_left: How many tokens before itself it sees; -1: all.
        window_right: How many tokens after itself; -1: all. With causal none.
        scale: What times <q, k>; None: 1 / sqrt(D).
        order: How the sequence lies, see shard(). "zigzag": ranks have equally much to do where
            attention is causal; "plain": each has one piece.
        return_lse: Returns (out, lse).

    Returns:
        out: [B, H, S / ranks, Dv], dtype of q; lse: f32 [B, H, S / ranks].

    Raises:
        TypeError: what is no torch tensor.
        ValueError: shapes, dtypes and attributes that do not fit, as attention refuses them too, or
            that differ between ranks: on every rank, before any tensor is sent.
        RuntimeError: there is no group, or a rank died or makes another call. Of gloo within the
            group's time-out; of NCCL its watchdog ends the process then, unless
            TORCH_NCCL_BLOCKING_WAIT=1 lets it be raised.
    """
    options = _Options(causal, window_left, window_right, scale)
    return _attend("ring_attention", (q, k, v), group, 1, options, order, return_lse)


def ulysses_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    group: dist.ProcessGroup | None = None,
    causal: bool = False,
    window_left: int = -1,
    window_right: int = -1,
    scale: float | None = None,
    return_lse: bool = False,
) -> Any:
    """Attention over a sequence of which each rank has a part: ranks exchange it for heads.

    Each rank gets the whole sequence of some heads (all-to-all), attends as one GPU does, and
    returns what it found. Parts are in the order "plain" of shard().

    Jacobs et al., DeepSpeed Ulysses, 2023, arXiv:2309.14509.

    Args:
        q: [B, H, S / ranks, D], f32, f16 or bf16, any strides: the rank's part, of one shape on all
            ranks.
        k: [B, Hk, S / ranks, D], dtype of q; Hk divides H, and ranks divide Hk.
        v: [B, Hk, S / ranks, Dv], dtype of q.
        group: As in ring_attention.
        causal: As in ring_attention.
        window_left: As in ring_attention.
        window_right: As in ring_attention.
        scale: As in ring_attention.
        return_lse: Returns (out, lse).

    Returns:
        out: [B, H, S / ranks, Dv], dtype of q; lse: f32 [B, H, S / ranks].

    Raises:
        TypeError: as ring_attention.
        ValueError: as ring_attention, and heads of keys that the ranks do not divide.
        RuntimeError: as ring_attention.
    """
    options = _Options(causal, window_left, window_right, scale)
    return _attend("ulysses_attention", (q, k, v), group, _Degree.ALL, options, "plain", return_lse)


def usp_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    group: dist.ProcessGroup | None = None,
    ulysses_degree: int | None = None,
    causal: bool = False,
    window_left: int = -1,
    window_right: int = -1,
    scale: float | None = None,
    order: str = "zigzag",
    return_lse: bool = False,
) -> Any:
    """Ring attention of groups, of which each exchanges heads within: for more ranks than heads.

    Ranks u, u + 1, ... u + ulysses_degree - 1, beside one another, are a group; ranks that stand at
    one place of their groups are a ring. So the ring is as much shorter, and heads of keys need not
    be as many as ranks. How the sequence lies shard() knows by the same ulysses_degree.

    Fang and Zhao, USP: A Unified Sequence Parallelism Approach for Long Context Generative AI,
    2024, arXiv:2405.07719.

    Args:
        q: As of ring_attention.
        k: As of ring_attention; ulysses_degree divides Hk.
        v: As of ring_attention.
        group: As in ring_attention.
        ulysses_degree: Ranks that exchange heads, a divisor of all; None: as many as divide Hk too.
            1 is ring_attention, all of them ulysses_attention.
        causal: As in ring_attention.
        window_left: As in ring_attention.
        window_right: As in ring_attention.
        scale: As in ring_attention.
        order: As in ring_attention, of the ring's parts.
        return_lse: Returns (out, lse).

    Returns:
        out: [B, H, S / ranks, Dv], dtype of q; lse: f32 [B, H, S / ranks].

    Raises:
        TypeError: as ring_attention.
        ValueError: as ring_attention, and a degree that is no integer, or does not divide ranks and
            heads of keys.
        RuntimeError: as ring_attention.
    """
    options = _Options(causal, window_left, window_right, scale)
    return _attend("usp_attention", (q, k, v), group, ulysses_degree, options, order, return_lse)


@torch.compiler.disable  # ranks agree on the call by messages, which no graph can hold
def _attend(
    name: str,
    tensors: tuple[torch.Tensor, ...],
    group: dist.ProcessGroup | None,
    degree: int | _Degree | None,
    options: _Options,
    order: str,
    return_lse: bool,
) -> Any:
    """degree: of Ulysses; None: as many as divide the heads of keys."""
    _check_tensors(name, q=tensors[0], k=tensors[1], v=tensors[2])
    q, k, v = _autocast(*tensors)
    ranks = Ranks(name, group, q.device)
    graded = [x for x, tensor in zip("qkv", (q, k, v), strict=True) if tensor.requires_grad]
    wanted = f", gradients of {', '.join(graded)}" if graded and torch.is_grad_enabled() else ""
    wanted += ", with lse" if return_lse else ""  # which Ulysses exchanges too
    # Each value as it would be written: what one rank refuses, a 1.0 or "1", is not another's 1.
    ranks.agree(
        f"{name}({_shapes(q, k, v)}{wanted}, {order!r}, ulysses_degree {degree!r}, {options})"
    )
    options = _checked(name, q, k, v, options)
    if degree is _Degree.ALL:
        degree = ranks.count
    elif degree is None:
        degree = math.gcd(ranks.count, k.shape[1])
    mesh = mesh_of(name, ranks.count, degree)
    degree = mesh.degree
    check_order(name, order)
    if k.shape[1] % degree != 0:
        most = math.gcd(ranks.count, k.shape[1])
        raise ValueError(
            f"{name}: {degree} ranks do not divide {k.shape[1]} heads of keys; "
            f"usp_attention(ulysses_degree={most}) has a ring of {ranks.count // most} beside them"
        )
    rows = q.shape[2] * degree
    if order == "zigzag" and mesh.ring > 1 and rows % 2 != 0:
        raise ValueError(f"{name}: in zigzag a part is of two equal pieces, not of {rows} tokens")
    members = [ranks.rank // degree * degree + member for member in range(degree)]
    if degree > 1:
        q, k, v = [_ToHeads.apply(x, ranks, members) for x in (q, k, v)]
    if mesh.ring > 1:
        out, lse = _Ring.apply(q, k, v, Ring(ranks, mesh), order, options)
    else:
        out, lse = warpsmith.attention(q, k, v, **options._asdict())
    if degree > 1:
        if return_lse:
            out, lse = _ToTokens.apply(ranks, members, out, lse[..., None])
            lse = lse[..., 0]
        else:
            (out,) = _ToTokens.apply(ranks, members, out)
    return (out, lse) if return_lse else out


def _shapes(*tensors: torch.Tensor) -> str:
    x = tensors[0]
    kind = "{} of {}".format(*sorted({(str(x.dtype), x.device.type) for x in tensors})[0])
    if any(other.dtype != x.dtype or other.device != x.device for other in tensors):
        kind = ", ".join(f"{other.dtype} of {other.device.type}" for other in tensors)
    return f"{' x '.join(str(list(tensor.shape)) for tensor in tensors)}, {kind}"


def _checked(
    name: str, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, options: _Options
) -> _Options:
    """The options as Python's own bool, ints and float; ValueError for a wrong call.

    Ranks have agreed on the call, so that all of them refuse it, and none has sent a tensor yet:
    one that found an error between two steps would leave others to wait for it.
    """
    got = f"got {_shapes(q, k, v)}"
    if not q.dim() == k.dim() == v.dim() == 4:
        raise ValueError(f"{name} takes q, k and v of 4 dimensions, {got}")
    if q.dtype not in _DTYPES or not q.dtype == k.dtype == v.dtype:
        raise ValueError(f"{name} takes q, k and v of one dtype of f32, f16 and bf16, {got}")
    if not q.device == k.device == v.device:
        raise ValueError(f"{name} takes q, k and v of one device, {got}")
    if not (
        q.shape[0] == k.shape[0]
        and k.shape[:3] == v.shape[:3]
        and q.shape[2:] == k.shape[2:]
        and k.shape[1] > 0
        and q.shape[1] % k.shape[1] == 0
    ):
        raise ValueError(
            f"{name} takes q [B, H, S, D], k [B, Hk, S, D] and v [B, Hk, S, Dv], where Hk divides "
            f"H, {got}"
        )
    # What each step would refuse, attention knows: it takes the same D, Dv, windows and scales.
    values = [getattr(options, a.name, a.default) for a in _ATTENTION.attributes]
    others = [None] * (len(_ATTENTION.parameters) - 3)
    try:
        attributes = _ATTENTION.checked(values)
        functions = _ATTENTION.functions(int(q.__dlpack_device__()[0]))
        functions.infer(q, k, v, *others, *attributes.values())
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error
    return _Options(*(attributes[field] for field in _Options._fields))


# ---- The ring -----------------------------------------------------------------------------------


class _Ring(torch.autograd.Function):
    """Attention of a ring's part of queries over all keys: out of the dtype of q, and lse."""

    @staticmethod
    def forward(
        ctx: Any,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        ring: Ring,
        order: str,
        options: _Options,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        steps = schedule(order, ring.count, ring.place, q.shape[2], *options.window)
        sums = q.new_empty((*q.shape[:3], v.shape[3]), dtype=torch.float32)  # not read before set
        lse = q.new_full(q.shape[:3], -math.inf, dtype=torch.float32)
        with closing(ring.rounds([_as_sent(k), _as_sent(v)], len(steps))) as rounds:
            for parts, (keys, values) in zip(steps, rounds, strict=True):
                for part in parts:
                    warpsmith.ring_attention_step(
                        q[:, :, part.queries],
                        _as_sent(keys[:, part.keys]),
                        _as_sent(values[:, part.keys]),
                        sums[:, :, part.queries],
                        lse[:, :, part.queries],
                        window_left=part.left,
                        window_right=part.right,
                        scale=options.scale,
                    )
        out = sums.to(q.dtype)
        ctx.save_for_backward(q, k, v, out, lse)
        ctx.ring, ctx.steps, ctx.scale = ring, steps, options.scale
        ctx.set_materialize_grads(False)
        return out, lse

    @staticmethod
    @once_differentiable
    def backward(
        ctx: Any, dout: torch.Tensor | None, dlse: torch.Tensor | None
    ) -> tuple[torch.Tensor | None, ...]:
        q, k, v, out, lse = ctx.saved_tensors
        if dout is None and dlse is None:
            return (None,) * 6
        dout = torch.zeros_like(out) if dout is None else dout
        ring, steps = ctx.ring, ctx.steps
        dq = Sum(_as_sent(q))
        sent = [_as_sent(k), _as_sent(v)]
        sums = Travelling(sent)
        with closing(ring.rounds(sent, len(steps), sums)) as rounds:
            for parts, keys_and_values in zip(steps, rounds, strict=True):
                keys, values = (_as_sent(x) for x in keys_and_values)
                for part in parts:
                    gradients = _gradients(part, q, keys, values, dout, out, lse, dlse, ctx.scale)
                    dq.add(part.queries, _as_sent(gradients[0]))
                    sums.add(part.keys, [_as_sent(x) for x in gradients[1:]])
        # They have got as far as the steps are many; nothing is added to them any more.
        complete = [x.to(k.dtype) for x in sums.here]
        if len(steps) > 1:
            mine = [torch.empty_like(x) for x in complete]
            ring.pass_on(complete, mine, 1 - len(steps))()
            complete = mine
        return *(_as_sent(x) for x in (dq.total.to(q.dtype), *complete)), None, None, None


def _as_sent(x: torch.Tensor) -> torch.Tensor:
    """[B, H, S, D] as [B, S, H, D] or back: rows come before heads in what goes round, as linear
    layers leave them, so that nothing has to be copied for it."""
    return x.transpose(1, 2)


def _gradients(
    part: Part,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    dout: torch.Tensor,
    out: torch.Tensor,
    lse: torch.Tensor,
    dlse: torch.Tensor | None,
    scale: float | None,
) -> tuple[torch.Tensor, ...]:
    """Of a part, by the lse and out of all keys: what it adds to those of its queries and keys."""
    rows = part.queries
    return warpsmith.attention_backward(
        q[:, :, rows],
        k[:, :, part.keys],
        v[:, :, part.keys],
        dout[:, :, rows],
        out[:, :, rows],
        lse[:, :, rows],
        dlse=None if dlse is None else dlse[:, :, rows],
        window_left=part.left,
        window_right=part.right,
        scale=scale,
        deterministic=torch.are_deterministic_algorithms_enabled(),
    )


# ---- Ulysses ------------------------------------------------------------------------------------


def _to_heads(x: torch.Tensor, ranks: Ranks, members: Sequence[int]) -> torch.Tensor:
    """[B, H, S / members, D] of each to [B, H / members, S, D], rows before heads in memory."""
    batch, heads, rows, dim = x.shape
    count = len(members)
    by_member = x.reshape(batch, count, heads // count, rows, dim).permute(1, 3, 0, 2, 4)
    received = ranks.all_to_all(by_member.contiguous(), members)
    return received.view(count * rows, batch, heads // count, dim).permute(1, 2, 0, 3)


def _to_tokens(x: torch.Tensor, ranks: Ranks, members: Sequence[int]) -> torch.Tensor:
    """The inverse: [B, H / members, S, D] of each to [B, H, S / members, D]."""
    batch, heads, rows, dim = x.shape
    count = len(members)
    by_member = x.permute(2, 0, 1, 3).contiguous().view(count, rows // count, batch, heads, dim)
    received = ranks.all_to_all(by_member, members)
    return received.permute(2, 0, 3, 1, 4).reshape(batch, count * heads, rows // count, dim)


class _ToHeads(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, ranks: Ranks, members: Sequence[int]) -> torch.Tensor:
        ctx.ranks, ctx.members = ranks, members
        return _to_heads(x, ranks, members)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        return _to_tokens(gradient, ctx.ranks, ctx.members), None, None


class _ToTokens(torch.autograd.Function):
    """Of several at once: the way back exchanges as much on a rank whose loss has one of them."""

    @staticmethod
    def forward(
        ctx: Any, ranks: Ranks, members: Sequence[int], *found: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        ctx.ranks, ctx.members = ranks, members
        return tuple(_to_tokens(x, ranks, members) for x in found)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        return None, None, *(_to_heads(x, ctx.ranks, ctx.members) for x in gradients)


for _function in (ring_attention, ulysses_attention, usp_attention):
    _function.__module__ = "warpsmith.distributed"
del _function
