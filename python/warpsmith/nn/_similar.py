"""Modules that are not torch's and compute what ours do: RMS norms and gated MLPs, by structure.

One that looks like it is asked: it computes small inputs as its class says, in training and not,
of ordinary numbers and of large ones, and is taken only where that is the formula's result. A norm
that adds 1 to its weight, an MLP that drops out, and one that cuts its gate off at a limit, are
told apart from ours by that, whatever their names are.
"""

import copy
import inspect
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import torch
from torch.nn import functional

import warpsmith
from warpsmith.nn._modules import Replacement

_PROJECTIONS = ("gate_proj", "up_proj", "down_proj")
_PROBED = 4  # features of a projection where a probe has its own


class Like(Replacement):
    """Bases of classes that are made for another's class, which a pickle does not find by name."""

    @staticmethod
    def members(theirs: Any) -> dict[str, Any]:
        """What a class has beside ours and theirs."""
        return {}

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return _blank, type(self).__bases__, self.__getstate__()


@cache
def class_like(ours: type[Like], theirs: type) -> type:
    """A subclass of both that has the name of theirs."""
    members = {"__module__": theirs.__module__, **ours.members(theirs)}
    return type(theirs.__name__, (ours, theirs), members)


def is_made(kind: type) -> bool:
    """Whether a class is one of class_like's."""
    ours = kind.__bases__[0]
    return issubclass(ours, Like) and class_like(ours, kind.__bases__[-1]) is kind


def _blank(ours: type[Like], theirs: type) -> torch.nn.Module:
    kind = class_like(ours, theirs)
    return kind.__new__(kind)


def replacement_of(module: torch.nn.Module) -> type | str | None:
    """The class that a module can get; why none, where it only looks so; None: looks otherwise."""
    is_norm, is_mlp = _looks_like_rms_norm(module), _looks_like_gated_mlp(module)
    if (is_norm or is_mlp) and not _takes_one_argument(module):
        return "takes more than one argument"
    if is_norm:
        if _computes(module, _rms_norm, _rows_for_norm):
            return class_like(RmsNormLike, type(module))
        return "has weight and eps as an RMS norm has, but computes something else"
    if is_mlp:
        others = _beside_projections(module)
        if any(isinstance(child, torch.nn.modules.dropout._DropoutNd) for child in others):
            return "drops out"
        if any(_hooks_of(part) for child in others for part in child.modules()):
            return "has hooks on its activation, which would not run"
        for ours in (SwigluMlp, GegluMlp, GegluTanhMlp):
            if _computes(module, partial(_gated_mlp, ours.activation), _rows_for_mlp):
                return class_like(ours, type(module))
        return "has gate_proj, up_proj and down_proj, but no gate of silu or gelu between them"
    return None


def absorbed_by(module: torch.nn.Module) -> list[torch.nn.Module]:
    """The parts of a module that it does not call any more."""
    if not isinstance(module, _GatedMlp):
        return []
    return _beside_projections(module)


def _beside_projections(mlp: torch.nn.Module) -> list[torch.nn.Module]:
    return [child for name, child in mlp.named_children() if name not in _PROJECTIONS]


# ---- RMS norms ----------------------------------------------------------------------------------


class RmsNormLike(Like):
    """y = x / sqrt(mean(x^2) + eps) * weight, in the dtype of both together."""

    computed_by = "warpsmith.rms_norm"

    def forward(self, hidden_states: torch.Tensor) -> torch.Tensor:
        dtype = torch.promote_types(hidden_states.dtype, self.weight.dtype)
        return warpsmith.rms_norm(hidden_states.to(dtype), weight=self.weight, eps=_eps_of(self))


def _eps_of(module: torch.nn.Module) -> float | None:
    return getattr(module, "variance_epsilon", getattr(module, "eps", None))


def _looks_like_rms_norm(module: torch.nn.Module) -> bool:
    parameters = dict(module.named_parameters())
    return (
        parameters.keys() == {"weight"}
        and parameters["weight"].dim() == 1
        and isinstance(_eps_of(module), float)
        and not module._buffers
        and not module._modules
    )


def _rows_for_norm(module: torch.nn.Module) -> torch.Tensor:
    """Rows of which eps is nothing, and half of the whole."""
    rows = torch.randn(2, module.weight.shape[0])
    rows[1] *= max(_eps_of(module), 1e-12) ** 0.5
    return rows


def _rms_norm(module: torch.nn.Module, x: torch.Tensor) -> torch.Tensor:
    return x * (x.square().mean(-1, True) + _eps_of(module)).rsqrt() * module.weight


# ---- Gated MLPs ---------------------------------------------------------------------------------


class _GatedMlp(Like):
    """down_proj(activation(gate_proj(x)) * up_proj(x)), activation and product in one kernel."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down_proj(self.gated(self.gate_proj(x), self.up_proj(x)))


class SwigluMlp(_GatedMlp):
    computed_by = "warpsmith.swiglu between its layers"
    activation = staticmethod(functional.silu)
    gated = staticmethod(warpsmith.swiglu)


class GegluMlp(_GatedMlp):
    computed_by = "warpsmith.geglu between its layers"
    activation = staticmethod(functional.gelu)
    gated = staticmethod(warpsmith.geglu)


class GegluTanhMlp(_GatedMlp):
    computed_by = "warpsmith.geglu between its layers, gelu by tanh"
    activation = staticmethod(partial(functional.gelu, approximate="tanh"))
    gated = staticmethod(partial(warpsmith.geglu, approximate="tanh"))


def _looks_like_gated_mlp(module: torch.nn.Module) -> bool:
    """Three projections, at most one child more, which has nothing to learn, and no more state."""
    others = _beside_projections(module)
    alone = [*module._parameters, *module._buffers]
    return (
        dict(module.named_children()).keys() >= set(_PROJECTIONS)
        and not alone
        and len(others) <= 1
        and not any(True for child in others for _ in child.parameters())
    )


def _gated_mlp(
    activation: Callable[[torch.Tensor], torch.Tensor], module: torch.nn.Module, x: torch.Tensor
) -> torch.Tensor:
    return module.down_proj(activation(module.gate_proj(x)) * module.up_proj(x))


def _rows_for_mlp(_: torch.nn.Module) -> torch.Tensor:
    return torch.randn(64, _PROBED)


# ---- The probe ----------------------------------------------------------------------------------


def _takes_one_argument(module: torch.nn.Module) -> bool:
    """Beside itself: some norms take a gate, some MLPs what to route by."""
    return len(inspect.signature(type(module).forward).parameters) == 2


def _hooks_of(module: torch.nn.Module) -> list[dict[Any, Any]]:
    return [hooks for name, hooks in vars(module).items() if name.endswith("_hooks") and hooks]


def _computes(
    module: torch.nn.Module,
    formula: Callable[[torch.nn.Module, torch.Tensor], torch.Tensor],
    rows_for: Callable[[torch.nn.Module], torch.Tensor],
) -> bool:
    """Whether a module's class computes a formula of these rows, and of larger ones."""
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.default_generator.manual_seed(0)
        for training in (False, True):
            probe, rows = _probe_of(module, training), rows_for(module)
            for size in (1.0, 1e2, 1e4):
                want = formula(probe, rows * size)
                try:
                    found = type(module).forward(probe, rows * size)
                except Exception:  # one that wants other state, or more of what was made small
                    return False
                if not isinstance(found, torch.Tensor) or found.shape != want.shape:
                    return False
                if not (found - want).abs().max() <= 1e-5 * want.abs().max():
                    return False
    return True


def _probe_of(module: torch.nn.Module, training: bool) -> torch.nn.Module:
    """A copy on the CPU, in f32: its parameters random, its projections random and small."""
    probe = object.__new__(type(module))
    probe.__dict__.update(module.__dict__)
    probe.__dict__["training"] = training
    probe.__dict__["_parameters"] = {
        name: None if parameter is None else torch.randn(parameter.shape)
        for name, parameter in module._parameters.items()
    }
    probe.__dict__["_modules"] = {
        name: _projection() if name in _PROJECTIONS else copy.deepcopy(child).train(training)
        for name, child in module.named_children()
    }
    return probe


def _projection() -> torch.nn.Linear:
    projection = torch.nn.Linear(_PROBED, _PROBED)
    for parameter in projection.parameters():
        parameter.normal_()
    return projection
