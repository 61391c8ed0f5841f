"""torch.nn's modules on the kernels of the catalogue, and `patch`, which puts them into a model.

The modules that are named as torch's are subclasses of those, with their constructors, parameters
and repr. `ScaledDotProductAttention`, `MLP`, `SwiGLU`, `QuantizedLinear` and `RotaryEmbedding` are
what torch has no module of; `quantize` makes a model's linear layers such of few bits. There is no
Dropout: its random numbers would not be torch's.
"""

from warpsmith.nn._modules import (
    ELU,
    GELU,
    MLP,
    BatchNorm1d,
    BatchNorm2d,
    BatchNorm3d,
    CrossEntropyLoss,
    Embedding,
    EmbeddingBag,
    GroupNorm,
    Hardshrink,
    Hardswish,
    InstanceNorm1d,
    InstanceNorm2d,
    InstanceNorm3d,
    LayerNorm,
    Linear,
    LogSoftmax,
    QuantizedLinear,
    ReLU,
    RMSNorm,
    RotaryEmbedding,
    ScaledDotProductAttention,
    Sigmoid,
    SiLU,
    Softmax,
    SwiGLU,
)
from warpsmith.nn._patch import Kept, Patched, Replaced, patch, unpatch
from warpsmith.nn._quantize import Quantized, quantize

__all__ = [
    "ELU",
    "GELU",
    "MLP",
    "BatchNorm1d",
    "BatchNorm2d",
    "BatchNorm3d",
    "CrossEntropyLoss",
    "Embedding",
    "EmbeddingBag",
    "GroupNorm",
    "Hardshrink",
    "Hardswish",
    "InstanceNorm1d",
    "InstanceNorm2d",
    "InstanceNorm3d",
    "Kept",
    "LayerNorm",
    "Linear",
    "LogSoftmax",
    "Patched",
    "Quantized",
    "QuantizedLinear",
    "RMSNorm",
    "ReLU",
    "Replaced",
    "RotaryEmbedding",
    "ScaledDotProductAttention",
    "SiLU",
    "Sigmoid",
    "Softmax",
    "SwiGLU",
    "patch",
    "quantize",
    "unpatch",
]
