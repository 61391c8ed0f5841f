"""warpsmith.quantize: linear layers of a model become warpsmith.nn.QuantizedLinear, in place."""

from collections import Counter
from collections.abc import Sequence

import torch

from warpsmith.nn._modules import Linear, QuantizedLinear
from warpsmith.nn._patch import Changed, Kept, Replaced, check_module, unfit


class Quantized(Changed):
    """What `quantize` did to a model, of its linear layers; print it."""


def quantize(
    model: torch.nn.Module,
    codes: str = "nf4",
    group: int = 64,
    *,
    zero_point: bool = False,
    keep: Sequence[str] = (),
) -> Quantized:
    """Makes a model's linear layers such of 8 or 4 bits, in place.

    A torch.nn.Linear, or warpsmith.nn's, becomes a warpsmith.nn.QuantizedLinear where it lies:
    its bias and its hooks stay, its weight is gone. One whose weight another module shares, as an
    embedding does, stays as it is.

    Args:
        model: Any module. One on a GPU is quantized there, one on the CPU in the emulator.
        codes: "nf4", "int4", "fp8" or "int8".
        group: How many columns share a scale, a multiple of 16.
        zero_point: Of "int4" and "int8": codes from the least to the largest, not around 0.
        keep: Names of modules, as named_modules has them or the last part of that, that stay with
            all that is in them ("lm_head").

    Returns:
        What was replaced, and which linear layers were not and why.

    Raises:
        TypeError: what is no module.
        ValueError: codes, a group or a zero_point that there is none of; nothing was replaced.
    """
    check_module("quantize", model)
    QuantizedLinear(2, 1, codes=codes, group=group, zero_point=zero_point, device="meta")
    done = Quantized()
    shared = _shared_by_modules(model)
    read = _read_by_others(model)
    kept: list[str] = []
    for name, module in list(model.named_modules()):
        if name in keep or name.rpartition(".")[2] in keep:
            kept.append(name)
        if not isinstance(module, torch.nn.Linear):
            continue
        kind = type(module).__name__
        is_named = any(name == root or name.startswith(f"{root}.") for root in kept)
        reason = "it is named in keep" if is_named else _refusal(module, codes, shared, read)
        if reason:
            done.kept.append(Kept(name, kind, reason))
            continue
        _change(module, QuantizedLinear.from_linear(module, codes, group, zero_point=zero_point))
        done.replaced.append(Replaced(name, kind, f"warpsmith.nn.QuantizedLinear, {codes}"))
    return done


quantize.__module__ = "warpsmith"


def _shared_by_modules(model: torch.nn.Module) -> set[int]:
    """The parameters, by id, that several modules have."""
    count = Counter(id(p) for module in model.modules() for p in set(module.parameters(False)))
    return {one for one, times in count.items() if times > 1}


def _read_by_others(model: torch.nn.Module) -> set[int]:
    """The layers, by id, whose weights the module around them reads itself."""
    around = torch.nn.TransformerEncoderLayer
    return {id(layer) for m in model.modules() if isinstance(m, around) for layer in m.children()}


def _refusal(linear: torch.nn.Linear, codes: str, shared: set[int], read: set[int]) -> str:
    """Why a layer cannot be quantized; "" where it can."""
    if type(linear) not in (torch.nn.Linear, Linear):
        return "a subclass of torch.nn.Linear, which may compute something else"
    if "weight" not in linear._parameters:
        return "its weight is no parameter: it is made of others before each call"
    if id(linear) in read:
        return "torch.nn.TransformerEncoderLayer reads its weight"
    if isinstance(linear, Linear) and linear.activation != "none":
        return f"computes {linear.activation} in the kernel of its product"
    if id(linear.weight) in shared:
        return "its weight is another module's, too"
    if codes in ("nf4", "int4") and linear.in_features % 2 != 0:
        return f"its {linear.in_features} columns are no pairs of codes of 4 bits"
    return unfit(linear)


def _change(linear: torch.nn.Linear, made: QuantizedLinear) -> None:
    """Makes a layer what another is; its hooks and its bias stay its own."""
    del linear._parameters["weight"]
    linear._buffers.update(made._buffers)
    for name in ("codes", "group", "zero_point"):
        setattr(linear, name, getattr(made, name))
    linear.__class__ = QuantizedLinear
