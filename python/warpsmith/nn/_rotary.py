"""The rotary embedding of transformers' models, in their attention's forward.

That calls apply_rotary_pos_emb by the name that it has in its file. An attention that is patched
gets a class whose forward is the same code and finds ours under that name; the file, and the models
that are not patched, keep theirs.
"""

import copy
import functools
from collections.abc import Callable
from types import FunctionType
from typing import Any

import torch

import warpsmith
from warpsmith.nn._similar import Like, class_like

_NAME = "apply_rotary_pos_emb"
_DTYPES = (torch.float32, torch.float16, torch.bfloat16)


class RotaryAttention(Like):
    """An attention of another's, its queries and keys turned by ours."""

    computed_by = "itself, warpsmith.rope_qk in it"

    @staticmethod
    def members(theirs: Any) -> dict[str, Any]:
        """What a class has beside theirs: their forward, in a scope of its own."""
        code = theirs.forward
        scope = code.__globals__ | {_NAME: _applying(code.__globals__[_NAME])}
        forward = FunctionType(
            code.__code__, scope, code.__name__, code.__defaults__, code.__closure__
        )
        functools.update_wrapper(forward, code)
        del forward.__wrapped__  # whoever unwraps it would get theirs
        forward.__kwdefaults__ = code.__kwdefaults__
        return {"forward": forward}


def _applying(theirs: Callable[..., Any]) -> Callable[..., Any]:
    """What computes as theirs does, of tables whose halves are the same."""

    def apply_rotary_pos_emb(
        q: torch.Tensor,
        k: torch.Tensor,
        cos: torch.Tensor,
        sin: torch.Tensor,
        unsqueeze_dim: int = 1,
    ) -> Any:
        fits = (
            q.dtype in _DTYPES
            and q.dtype == k.dtype == cos.dtype
            and q.device.type in ("cpu", "cuda")
            and (q.dim(), cos.dim()) == (4, 3)
            and unsqueeze_dim in (1, 2)
            and q.shape[-1] == cos.shape[-1]
            and not cos.requires_grad
        )
        if not fits:
            return theirs(q, k, cos, sin, unsqueeze_dim)
        tables = [x[..., : x.shape[-1] // 2].unsqueeze(unsqueeze_dim) for x in (cos, sin)]
        return warpsmith.rope_qk(q, k, *tables, heads_first=unsqueeze_dim == 1)

    return apply_rotary_pos_emb


def replacement_of(module: torch.nn.Module, model: torch.nn.Module) -> type | str | None:
    """The class that a module of a model can get; why none; None: it applies no such function."""
    kind: Any = type(module)
    forward = kind.forward
    if issubclass(kind, RotaryAttention) or not isinstance(forward, FunctionType):
        return None
    function = forward.__globals__.get(_NAME)
    if _NAME not in forward.__code__.co_names or not isinstance(function, FunctionType):
        return None
    if "forward" in vars(module):
        return "its forward is not that of its class"
    if not _turns_halves(function):
        return f"its {_NAME} computes something else than warpsmith.rope_qk"
    if not _tables_are_twice_a_half(model):
        return "the tables of its rotary embedding are not known to be twice the same half"
    return class_like(RotaryAttention, kind)


def _turns_halves(function: Callable[..., Any]) -> bool:
    """Whether it turns pairs of a head's halves, asked on a few numbers."""
    generator = torch.Generator().manual_seed(0)
    q, k = (torch.randn(2, heads, 3, 8, generator=generator) for heads in (4, 2))
    cos, sin = (torch.randn(2, 3, 4, generator=generator).repeat(1, 1, 2) for _ in range(2))

    def turned(x: torch.Tensor) -> torch.Tensor:
        a, b = x.chunk(2, -1)
        return x * cos[:, None] + torch.cat((-b, a), -1) * sin[:, None]

    try:
        found = function(q, k, cos, sin)
        return all(torch.allclose(a, turned(b)) for a, b in zip(found, (q, k), strict=True))
    except Exception:  # one that wants other arguments
        return False


def _tables_are_twice_a_half(model: torch.nn.Module) -> bool:
    """Of each rotary embedding in a model, asked on a copy of it, which may keep what it saw."""
    found = [m for m in model.modules() if type(m).__name__.endswith("RotaryEmbedding")]
    try:
        for module in map(copy.deepcopy, found):
            device = next(module.buffers()).device
            positions = torch.arange(3, device=device)[None]
            for table in module(torch.zeros(1, 3, 1, device=device), positions):
                a, b = table.chunk(2, -1)
                if table.dim() != 3 or not torch.equal(a, b):
                    return False
    except Exception:  # one that wants other arguments, or has no numbers yet
        return False
    return len(found) > 0
