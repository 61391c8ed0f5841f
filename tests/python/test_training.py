"""A transformer block that trains: 20 steps on the catalogue's kernels, beside plain torch.

The block is what models are made of, once: embedding, rms_norm, projections, rope, causal attention
of two heads that share a head of keys, swiglu, cross-entropy and AdamW. One call of each function
being right is tested elsewhere; here it is whether gradients find through all of them together.
"""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
import warpsmith
from test_gradients import Recorded

ROWS, VOCABULARY, WIDTH, HEADS, HEAD, HIDDEN = 32, 40, 32, 2, 16, 48
STEPS = 20
# eps bounds what rounding may do: an element's step changes by up to lr / eps of what its gradient
# does. With the usual 1e-8 a gradient that is 0 but for rounding moves a weight by a whole lr, in
# either direction.
ADAMW: dict[str, Any] = {"lr": 1e-2, "betas": (0.9, 0.95), "eps": 1e-3, "weight_decay": 0.05}

Weights = dict[str, torch.Tensor]
Function = Callable[..., torch.Tensor]


def weights_of(seed: int) -> Weights:
    generator = torch.Generator().manual_seed(seed)
    shapes = {
        "embedding": (VOCABULARY, WIDTH),
        "norm_1": (WIDTH,),
        "q": (HEADS * HEAD, WIDTH),
        "k": (HEAD, WIDTH),
        "v": (HEAD, WIDTH),
        "o": (WIDTH, HEADS * HEAD),
        "norm_2": (WIDTH,),
        "gate_up": (2 * HIDDEN, WIDTH),
        "down": (WIDTH, HIDDEN),
        "norm_3": (WIDTH,),
        "head": (VOCABULARY, WIDTH),
    }
    return {
        name: torch.ones(shape)
        if len(shape) == 1
        else torch.randn(shape, generator=generator) / math.sqrt(shape[-1])
        for name, shape in shapes.items()
    }


def block(
    w: Weights,
    tokens: torch.Tensor,
    targets: torch.Tensor,
    *,
    embedding: Function,
    norm: Function,
    linear: Function,
    attend: Function,
    swiglu: Function,
    cross_entropy: Function,
) -> torch.Tensor:
    """The loss, of [ROWS] tokens. attend: of q [ROWS, H, D], k and v, which are not turned yet."""
    x = embedding(tokens, w["embedding"])
    y = norm(x, w["norm_1"])
    q, k, v = (linear(y, w[name]).unflatten(-1, (-1, HEAD)) for name in "qkv")
    x = x + linear(attend(q, k, v).flatten(-2), w["o"])
    x = x + linear(swiglu(norm(x, w["norm_2"]), w["gate_up"]), w["down"])
    return cross_entropy(linear(norm(x, w["norm_3"]), w["head"]), targets)


# ---- In torch -----------------------------------------------------------------------------------


def turned(x: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
    """rope of [rows, heads, D], of a head's halves."""
    pair = torch.arange(HEAD // 2, dtype=torch.float64)
    angle = positions.double()[:, None] * 10000.0 ** (-2 * pair / HEAD)
    cos, sin = angle.cos().to(x.dtype)[:, None], angle.sin().to(x.dtype)[:, None]
    a, b = x.chunk(2, -1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


def in_torch(lengths: Sequence[int]) -> Callable[..., torch.Tensor]:
    def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        positions = torch.cat([torch.arange(n) for n in lengths])
        q, k = turned(q, positions), turned(k, positions)
        sequence = torch.repeat_interleave(torch.arange(len(lengths)), torch.tensor(lengths))
        sees = (sequence[:, None] == sequence) & (positions[:, None] >= positions)
        scores = torch.einsum("ihd,jd->hij", q, k[:, 0]) / math.sqrt(HEAD)
        return torch.einsum(
            "hij,jd->ihd", scores.masked_fill(~sees, -math.inf).softmax(-1), v[:, 0]
        )

    def swiglu(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        gate, up = torch.nn.functional.linear(x, weight).chunk(2, -1)
        return torch.nn.functional.silu(gate) * up

    def compute(w: Weights, tokens: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return block(
            w,
            tokens,
            targets,
            embedding=torch.nn.functional.embedding,
            norm=lambda x, weight: torch.nn.functional.rms_norm(x, (WIDTH,), weight, 1e-5),
            linear=torch.nn.functional.linear,
            attend=attend,
            swiglu=swiglu,
            cross_entropy=torch.nn.functional.cross_entropy,
        )

    return compute


# ---- On the catalogue's kernels -----------------------------------------------------------------


def in_warpsmith(lengths: Sequence[int], packed: bool) -> Callable[..., torch.Tensor]:
    def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        positions = torch.cat([torch.arange(n, dtype=torch.int32) for n in lengths])[None]
        q, k = warpsmith.rope_qk(q[None], k[None], None, None, positions, heads_first=False)
        if not packed:
            return warpsmith.flash_attn_func(q, k, v[None], causal=True)[0]
        starts = torch.tensor([0, *lengths], dtype=torch.int32).cumsum(0, dtype=torch.int32)
        longest = max(lengths)
        return warpsmith.flash_attn_varlen_func(
            q[0], k[0], v, starts, starts, longest, longest, causal=True
        )

    def compute(w: Weights, tokens: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return block(
            w,
            tokens,
            targets,
            embedding=warpsmith.embedding,
            norm=lambda x, weight: warpsmith.rms_norm(x, (WIDTH,), weight, 1e-5),
            linear=warpsmith.linear,
            attend=attend,
            swiglu=lambda x, weight: warpsmith.linear(x, weight, activation="swiglu"),
            cross_entropy=warpsmith.cross_entropy,
        )

    return compute


# ---- Training -----------------------------------------------------------------------------------


def trained(
    compute: Callable[..., torch.Tensor], dtype: torch.dtype, *, by_us: bool
) -> tuple[list[float], Weights, list[str]]:
    """The loss before each step and the weights after the last; operators of the last step."""
    w = {name: x.to(dtype).requires_grad_() for name, x in weights_of(1).items()}
    generator = torch.Generator().manual_seed(2)
    tokens = torch.randint(VOCABULARY, (ROWS,), generator=generator)
    targets = tokens.roll(-1)
    parameters = list(w.values())
    moments = [[torch.zeros_like(x) for x in parameters] for _ in range(2)]
    optimizer = torch.optim.AdamW(parameters, **ADAMW)

    def step(number: int) -> float:
        optimizer.zero_grad()
        loss = compute(w, tokens, targets)
        loss.backward()
        if by_us:
            gradients = [x.grad for x in parameters]
            with torch.no_grad():
                warpsmith.adamw_(parameters, gradients, *moments, number, **ADAMW)
        else:
            optimizer.step()
        return loss.item()

    losses = [step(number) for number in range(1, STEPS)]
    with Recorded() as recorded:
        losses.append(step(STEPS))
    return losses, {name: x.detach() for name, x in w.items()}, recorded.names


@pytest.mark.filterwarnings("ignore:multi_tensor_adamw")  # from the first tensor to the last is far
@pytest.mark.parametrize(
    ("lengths", "packed"),
    [((ROWS,), False), ((9, 1, 17, 5), True)],
    ids=["one sequence", "packed sequences"],
)
def test_a_block_trains_as_in_torch(lengths: tuple[int, ...], packed: bool) -> None:
    losses, w, names = trained(in_warpsmith(lengths, packed), torch.float32, by_us=True)
    true_losses, true_w, _ = trained(in_torch(lengths), torch.float64, by_us=False)
    theirs, their_w, _ = trained(in_torch(lengths), torch.float32, by_us=False)
    assert true_losses[-1] < true_losses[0] / 4
    # Sums of tens of products are off by some 1e-7, and each step is taken from where the ones
    # before have led. What that makes of torch's own f32 says what is noise (3e-6 after 20 steps):
    # another order of sums is as good, and may be some times as far from the truth. Of a wrong
    # gradient anywhere losses differ by percents.
    noise = max(abs(a / b - 1) for a, b in zip(theirs, true_losses, strict=True))
    assert noise < 1e-5
    assert losses == pytest.approx(true_losses, rel=5 * noise + 1e-6)
    for name, right in true_w.items():
        off = (their_w[name].double() - right).abs().max().item()
        torch.testing.assert_close(w[name].double(), right, rtol=0, atol=5 * off + 1e-6, msg=name)
    attention = "attention_varlen" if packed else "attention"
    ours = Counter(
        name.removeprefix("warpsmith.").removesuffix(".default")
        for name in names
        if name.startswith("warpsmith.")
    )
    assert ours == {
        "embedding": 1,
        "embedding_backward": 1,
        "rms_norm": 3,
        "rms_norm_backward": 3,
        "gemm": 7 * 3,  # of each product two more are its gradients
        "rope_qk": 2,  # its gradient turns back
        attention: 1,
        f"{attention}_backward": 1,
        "swish": 1,
        "silu_backward": 1,
        "mul": 3,  # the gate's, and two of its gradient
        "cross_entropy_forward": 1,
        "sum": 1,
        "cross_entropy_backward": 1,
        "multi_tensor_adamw": 1,
    }
    # What torch computes beside: sums where x is used twice, the mean of losses, shapes and tables.
    layers = ("mm", "linear", "softmax", "attention", "norm", "silu", "embedding", "nll", "exp")
    assert not [n for n in names if n.startswith("aten.") and any(x in n for x in layers)]
