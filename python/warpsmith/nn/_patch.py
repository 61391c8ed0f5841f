"""warpsmith.patch: torch's modules in a model become warpsmith.nn's, where they lie.

A module changes its class and nothing else: parameters, hooks, state_dict and whoever holds it stay
as they are, and `undo` gives the class back.
"""

import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import torch

from warpsmith.nn import _modules, _rotary, _similar
from warpsmith.nn._modules import Replacement

MODULES: dict[type, type] = {
    replacement.__bases__[-1]: replacement
    for replacement in vars(_modules).values()
    if isinstance(replacement, type)
    and issubclass(replacement, Replacement)
    and not replacement.__name__.startswith("_")
    and replacement is not Replacement
}
_DTYPES = (torch.float32, torch.float16, torch.bfloat16)


@dataclass(frozen=True)
class Replaced:
    """A module that is ours now.

    Attributes:
        name: In the model, as named_modules has it.
        kind: The name of its class before.
        by: What it is computed by.
    """

    name: str
    kind: str
    by: str


@dataclass(frozen=True)
class Kept:
    """A module that stays as it was: its name, the name of its class, and why."""

    name: str
    kind: str
    reason: str


class Changed:
    """What was done to a model; print it.

    Attributes:
        replaced: What is ours now, in the order of the model.
        kept: What is not, and why. Of a module that is made of others only those are told.
    """

    def __init__(self) -> None:
        self.replaced: list[Replaced] = []
        self.kept: list[Kept] = []

    def __repr__(self) -> str:
        return "\n".join(
            [
                f"replaced: {len(self.replaced)}",
                *_lines((r.name, r.kind, r.by) for r in self.replaced),
                f"kept: {len(self.kept)}",
                *_lines((k.name, k.kind, k.reason) for k in self.kept),
            ]
        )


class Patched(Changed):
    """What `patch` did to a model; print it."""

    def __init__(self) -> None:
        super().__init__()
        self._classes: list[tuple[torch.nn.Module, type, type]] = []  # what it was, and became
        self._models: list[Any] = []

    def undo(self) -> None:
        """Gives every module its class back, and a model of transformers its attention.

        What has got another class since then (quantized, parametrized, sharded) keeps that.
        """
        for module, kind, by in self._classes:
            if type(module) is by:
                module.__class__ = kind
        for model in self._models:
            _transformers().restore(model)
        self._classes, self._models = [], []

    def _replace(self, name: str, module: torch.nn.Module, by: type) -> None:
        kind = type(module)
        text = getattr(by, "computed_by", f"warpsmith.nn.{by.__name__}")
        self._classes.append((module, kind, by))
        self.replaced.append(Replaced(name, kind.__name__, text))
        module.__class__ = by

    def _set_attention(self, name: str, model: Any) -> None:
        kind = f"attention of {type(model).__name__}"
        reason = _transformers().set_attention(model)
        if reason:
            self.kept.append(Kept(name, kind, reason))
        else:
            self._models.append(model)
            self.replaced.append(Replaced(name, kind, _transformers().COMPUTED_BY))


def _lines(rows: Iterable[tuple[str, str, str]]) -> list[str]:
    """A line for all of one kind and one text: how many, and where the first is."""
    rows = list(rows)
    first = {row[1:]: row[0] for row in reversed(rows)}
    lines = []
    for (kind, text), count in Counter(row[1:] for row in rows).items():
        where = first[kind, text] or "the model itself"
        more = ", ..." if count > 1 else ""
        lines.append(f"{count:5} {kind} ({where}{more}): {text}")
    return lines


def patch(model: torch.nn.Module) -> Patched:
    """Has a model computed by the kernels of the catalogue, in place.

    torch's modules become those of warpsmith.nn that are named as they are. So do RMS norms and
    gated MLPs of others, transformers' among them, that compute the same on a probe. A model of
    transformers whose attention is torch's ("sdpa") takes ours from its registry; torch's computes
    what drops out or has a softcap or sinks, and gradients in f32, under a mask, or of heads that
    are not of whole eights of columns. What it turns by apply_rotary_pos_emb our rope_qk turns.
    Functions that a model calls by itself stay what they are.

    Args:
        model: Any module; one that is compiled is compiled anew in its next call.

    Returns:
        What was replaced, what was not and why; and `undo`.

    Raises:
        TypeError: what is no module.
    """
    check_module("patch", model)
    done = Patched()
    absorbed: set[int] = set()
    for name, module in list(model.named_modules()):
        if id(module) in absorbed:
            continue
        found = _replacement_of(module)
        if isinstance(found, type):
            done._replace(name, module, found)
        elif found:
            done.kept.append(Kept(name, type(module).__name__, found))
        absorbed.update(map(id, _similar.absorbed_by(module)))
    for name, attending in _models_of_transformers(model):
        _patch_rotary(done, name, attending)
        if attending.config._attn_implementation != _transformers().NAME:
            done._set_attention(name, attending)
    return done


def unpatch(model: torch.nn.Module) -> torch.nn.Module:
    """Undoes `patch` in a model, or in a copy of one.

    Every module of warpsmith.nn that stands for another becomes that, also one that `patch` did not
    make; but a Linear with an activation, which torch has none of, and what has a class made of
    ours: a subclass, a module that was parametrized or sharded.

    Args:
        model: The model.

    Returns:
        It.

    Raises:
        TypeError: what is no module.
    """
    check_module("unpatch", model)
    for module in model.modules():
        is_more = isinstance(module, _modules.Linear) and module.activation != "none"
        kind = type(module)
        if (kind in MODULES.values() or _similar.is_made(kind)) and not is_more:
            module.__class__ = kind.__bases__[-1]
    for _, attending in _models_of_transformers(model):
        _transformers().restore(attending)
    return model


def _patch_rotary(done: Patched, name: str, model: Any) -> None:
    for inner, module in list(model.named_modules()):
        full = f"{name}.{inner}".strip(".")
        found = _rotary.replacement_of(module, model)
        if isinstance(found, type):
            done._replace(full, module, found)
        elif found:
            done.kept.append(Kept(full, type(module).__name__, found))


for _function in (patch, unpatch):
    _function.__module__ = "warpsmith"
del _function


def check_module(name: str, model: Any) -> None:
    if not isinstance(model, torch.nn.Module):
        raise TypeError(f"{name}: takes a torch.nn.Module, not a {type(model).__name__}")


def _replacement_of(module: torch.nn.Module) -> type | str:
    """The class that a module can get; or why none, "" where nobody would ask."""
    kind = type(module)
    if isinstance(module, Replacement) or kind.__module__ == _modules.__name__:
        return ""
    found = MODULES.get(kind) or _similar.replacement_of(module)
    if isinstance(found, type):
        return unfit(module) or found.refusal(module) or found
    if found:
        return found
    base = next((base.__name__ for base in kind.__mro__ if base in MODULES), None)
    if base is not None:
        return f"a subclass of torch.nn.{base}, which may compute something else"
    is_made_of_others = next(module.children(), None) is not None
    return "" if is_made_of_others else "warpsmith.nn has nothing that stands for it"


def unfit(module: torch.nn.Module) -> str:
    """Why a module cannot be computed by kernels, whatever its class."""
    if "forward" in vars(module):
        return "its forward is not that of its class"
    for name, tensor in [*module.named_parameters(), *module.named_buffers()]:
        is_number = tensor.is_floating_point() or tensor.is_complex()
        if is_number and tensor.dtype not in _DTYPES:
            return f"{name} is {tensor.dtype}, which no kernel takes"
        if tensor.device.type not in ("cpu", "cuda"):
            return f"{name} is on {tensor.device}; kernels take cpu and cuda"
    return ""


# ---- Attention of transformers ------------------------------------------------------------------


def _transformers() -> ModuleType:
    """What speaks to transformers, which only its models need."""
    from warpsmith.nn import _transformers as module

    return module


def _models_of_transformers(model: torch.nn.Module) -> list[tuple[str, Any]]:
    """Name and model of each that is transformers', but what is inside of one."""
    if "transformers.modeling_utils" not in sys.modules:
        return []
    return _transformers().models_in(model)
