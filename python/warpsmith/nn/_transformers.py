"""Our attention in the registry of transformers, from which its models take theirs by name."""

from typing import Any

import torch
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS, sdpa_mask
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS, PreTrainedModel

import warpsmith
from warpsmith.nn._modules import torch_differentiates

NAME = "warpsmith"
COMPUTED_BY = "warpsmith.scaled_dot_product_attention; torch's for gradients in f32 and under masks"
_TORCHS = "sdpa"
# What changes the result, and what only torch's way through transformers knows of.
_NOT_OURS = ("position_bias", "cache", "softcap", "s_aux", "output_attentions")


def attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    is_causal: bool | None = None,
    **keywords: Any,
) -> tuple[torch.Tensor, None]:
    """What transformers calls; [B, H, S, D], fewer heads of keys, becomes [B, S, H, D]."""
    others = [n for n in _NOT_OURS if keywords.get(n) is not None and keywords[n] is not False]
    if dropout > 0 or others or torch_differentiates(query, key, value, attention_mask):
        return ALL_ATTENTION_FUNCTIONS[_TORCHS](
            module,
            query,
            key,
            value,
            attention_mask,
            dropout=dropout,
            scaling=scaling,
            is_causal=is_causal,
            **keywords,
        )
    if is_causal is None:
        is_causal = getattr(module, "is_causal", True)
    # One query is the last one, which sees all keys.
    is_causal = is_causal and attention_mask is None and query.shape[2] > 1
    out = warpsmith.scaled_dot_product_attention(
        query,
        key,
        value,
        attention_mask,
        is_causal=is_causal,
        scale=scaling,
        enable_gqa=True,
    )
    return out.transpose(1, 2).contiguous(), None


ALL_ATTENTION_FUNCTIONS.register(NAME, attention)
ALL_MASK_ATTENTION_FUNCTIONS.register(NAME, sdpa_mask)


def models_in(model: torch.nn.Module) -> list[tuple[str, Any]]:
    """Name and model of each of transformers', but what is inside of one."""
    found = []
    inside: set[int] = set()
    for name, module in model.named_modules():
        if isinstance(module, PreTrainedModel) and id(module) not in inside:
            found.append((name, module))
            inside.update(map(id, module.modules()))
    return found


def set_attention(model: PreTrainedModel) -> str:
    """Has a model take our attention where it took torch's; why not, where it does not."""
    parts = [part for part in model.modules() if isinstance(part, PreTrainedModel)]
    named = {str(part.config._attn_implementation) for part in parts}
    if named != {_TORCHS}:
        return f"its attn_implementation is {', '.join(sorted(named))}, not {_TORCHS}"
    if not all(part._can_set_attn_implementation() for part in parts):
        return "it takes no attention from transformers' registry"
    model.set_attn_implementation(NAME)
    return ""


def restore(model: PreTrainedModel) -> None:
    """Gives a model torch's attention back, where it has ours."""
    if model.config._attn_implementation == NAME:
        model.set_attn_implementation(_TORCHS)
