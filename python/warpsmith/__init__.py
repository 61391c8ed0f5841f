"""Warpsmith: CUDA kernels as ladders, from the naive loop to the fastest, one idea a step.

Each operation of the catalogue is a function here (`warpsmith.softmax(x)`) and an operator
`torch.ops.warpsmith.softmax`. Arrays of torch, NumPy, CuPy and JAX are taken; CPU arrays run in the
emulator, CUDA arrays on the GPU, on the caller's stream. `warpsmith.list()` shows all rungs, and
`help(warpsmith.softmax)` what one takes. `warpsmith.matmul` and `warpsmith.mm` choose between
products as torch's do; `warpsmith.linear` is a layer with its activation. Attention is also torch's
`warpsmith.scaled_dot_product_attention`, and FlashAttention's `warpsmith.flash_attn_func`;
`warpsmith.distributed` has it over several GPUs.
`warpsmith.cross_entropy` is torch's, `warpsmith.linear_cross_entropy` never holds all logits.
`warpsmith.batch_norm`, `group_norm` and `instance_norm` are torch's.
`warpsmith.bincount` and `warpsmith.histogram` ask the data how many bins there are, and where.
`warpsmith.interpolate` is torch's, of images by their nearest pixels or bilinear.
`warpsmith.adamw_` is a step of AdamW of many tensors in one launch.
`warpsmith.spmv` and `warpsmith.spmm` take torch's sparse matrices;
`warpsmith.nms` and `warpsmith.batched_nms` are torchvision's.
`warpsmith.nn` has torch's modules on these, and `warpsmith.patch` puts them into a model, whose
linear layers `warpsmith.quantize` makes ones of 8 or 4 bits.
`warpsmith.explain("softmax", x)` says which rung runs a call, and why not each other.
`warpsmith.ladder("softmax")` climbs a ladder, `warpsmith.profile("softmax/online")` looks at a rung
line by line, `warpsmith.results(FILE)` reads what was measured: tables and pictures in a notebook.
"""

import builtins as _builtins

from warpsmith import _functions, _signatures
from warpsmith._catalogue import OPERATIONS
from warpsmith._catalogue import list_rungs as list
from warpsmith._device import EmulatorWarning, check
from warpsmith._explain import explain
from warpsmith._explore import ladder, profile, report, results
from warpsmith._libraries import CATALOGUE as _CATALOGUE
from warpsmith._libraries import build_info
from warpsmith._measure import bench, verify

__version__ = _CATALOGUE["version"]
__all__ = [
    "EmulatorWarning",
    "bench",
    "build_info",
    "check",
    "explain",
    "ladder",
    "list",
    "profile",
    "report",
    "results",
    "verify",
    *OPERATIONS,
]

for _operation in OPERATIONS.values():
    globals()[_operation.name] = _functions.make(_operation)
    _alias = _signatures.torch_name(_operation)  # silu of swish
    if _alias not in OPERATIONS:
        globals()[_alias] = globals()[_operation.name]
        __all__ += [_alias]
del _operation, _alias

if _functions.torch is not None:
    _of_catalogue = {_name: globals().get(_name) for _name in __all__}
    from warpsmith._matmul import grouped_mm, matmul, mm

    __all__ += ["grouped_mm", "matmul", "mm"]

    # Another catalogue (WARPSMITH_LIBRARY) need not have it.
    if "addmm" in OPERATIONS:
        from warpsmith._linear import linear

        __all__ += ["linear"]

    if "attention" in OPERATIONS:
        from warpsmith import _attention

        attention = _attention.attention
        flash_attn_func = _attention.flash_attn_func
        flash_attn_varlen_func = _attention.flash_attn_varlen_func
        flash_attn_with_kvcache = _attention.flash_attn_with_kvcache
        scaled_dot_product_attention = _attention.scaled_dot_product_attention
        __all__ += [
            "flash_attn_func",
            "flash_attn_varlen_func",
            "flash_attn_with_kvcache",
            "scaled_dot_product_attention",
        ]

    if "ring_attention_step" in OPERATIONS and _functions.torch.distributed.is_available():
        from warpsmith import distributed as distributed

    if "cross_entropy_forward" in OPERATIONS:
        from warpsmith._cross_entropy import cross_entropy, linear_cross_entropy

        __all__ += ["cross_entropy", "linear_cross_entropy"]

    if "batch_norm_forward" in OPERATIONS:
        from warpsmith._batch_norm import batch_norm, group_norm, instance_norm

        __all__ += ["batch_norm", "group_norm", "instance_norm"]

    if "count_bins" in OPERATIONS:
        from warpsmith import _histogram

        bincount, histogram = _histogram.bincount, _histogram.histogram
        histc = _histogram.histc
        __all__ += ["bincount", "histogram"]

    if "embedding_bag" in OPERATIONS:
        from warpsmith import _embedding_bag

        embedding_bag = _embedding_bag.embedding_bag

    if "quantized_linear" in OPERATIONS:
        from warpsmith import _quantized

        quantized_linear = _quantized.quantized_linear

    if "upsample_nearest2d" in OPERATIONS:
        from warpsmith._interpolate import interpolate

        __all__ += ["interpolate"]

    if "multi_tensor_adamw" in OPERATIONS:
        from warpsmith._optimizer import adamw_

        __all__ += ["adamw_"]

    if "spmv_csr" in OPERATIONS:
        from warpsmith._sparse import spmm, spmv

        __all__ += ["spmm", "spmv"]

    if "nms_indices" in OPERATIONS:
        from warpsmith._nms import batched_nms, nms

        __all__ += ["batched_nms", "nms"]

    # These ask for ranks and dtypes, which torch.fx's proxies have not: it records a call of one.
    _asking = {"embedding_bag", "quantized_linear"}  # of operations those whose function does
    for _name in __all__:
        if _name in OPERATIONS and _name not in _asking:
            continue
        if globals()[_name] is not _of_catalogue.get(_name):
            _functions.torch.fx.wrap(_name)
    del _name, _of_catalogue, _asking

    if {"addmm", "attention", "quantized_linear", "rms_norm", "swiglu"} <= OPERATIONS.keys():
        from warpsmith import nn

        patch, unpatch, quantize = nn.patch, nn.unpatch, nn.quantize
        __all__ += ["patch", "quantize", "unpatch"]

# `from warpsmith import *` hides no builtin: warpsmith.list goes by its full name.
__all__ = [name for name in __all__ if not hasattr(_builtins, name)]
