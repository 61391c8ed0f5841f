"""Attention over a sequence that lies on several GPUs, a part on each, by torch.distributed.

`ring_attention` passes keys and values round; `ulysses_attention` exchanges the sequence for heads;
`usp_attention` is both, for more ranks than there are heads of keys. All give what attention over
the whole sequence gives, for the rank's own queries, and have gradients. `shard` takes a rank's
part of a sequence, `unshard` puts parts together. CUDA tensors want a group of NCCL, CPU tensors
one of gloo: these run in the emulator.
"""

from warpsmith.distributed._attention import ring_attention, ulysses_attention, usp_attention
from warpsmith.distributed._layout import shard, unshard

__all__ = ["ring_attention", "shard", "ulysses_attention", "unshard", "usp_attention"]
