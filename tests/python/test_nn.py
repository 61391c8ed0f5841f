"""warpsmith.nn's modules are torch's, and warpsmith.patch puts them into a model."""

import copy
import functools
import inspect
import json
import os
import pathlib
import pickle
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.nn.utils.prune
import warpsmith
from conftest import assert_close
from warpsmith import nn
from warpsmith.nn import benchmark
from warpsmith.nn._patch import MODULES

os.environ["HF_HUB_OFFLINE"] = "1"
F = torch.nn.functional
Shape = tuple[int, ...]

# Each of torch's modules that there is one for: arguments and the shape of an input.
CASES: list[tuple[str, dict[str, Any], Shape]] = [
    ("Linear", {"in_features": 6, "out_features": 4}, (2, 3, 6)),
    ("Linear", {"in_features": 6, "out_features": 4, "bias": False}, (6,)),
    ("Embedding", {"num_embeddings": 5, "embedding_dim": 6}, (2, 3)),
    ("Embedding", {"num_embeddings": 5, "embedding_dim": 3, "padding_idx": 1}, (7,)),
    ("Embedding", {"num_embeddings": 3, "embedding_dim": 8, "scale_grad_by_freq": True}, (9,)),
    ("EmbeddingBag", {"num_embeddings": 5, "embedding_dim": 6, "padding_idx": 1}, (4, 3)),
    ("EmbeddingBag", {"num_embeddings": 3, "embedding_dim": 8, "mode": "max"}, (3, 4)),
    ("LayerNorm", {"normalized_shape": 6}, (2, 3, 6)),
    ("LayerNorm", {"normalized_shape": (3, 6), "eps": 0.1}, (2, 3, 6)),
    ("LayerNorm", {"normalized_shape": 6, "bias": False}, (3, 6)),
    ("LayerNorm", {"normalized_shape": (3, 6), "elementwise_affine": False}, (2, 3, 6)),
    ("RMSNorm", {"normalized_shape": 6}, (2, 3, 6)),
    ("RMSNorm", {"normalized_shape": (3, 6), "eps": 0.1}, (2, 3, 6)),
    ("RMSNorm", {"normalized_shape": 6, "elementwise_affine": False}, (3, 6)),
    ("BatchNorm1d", {"num_features": 4}, (3, 4)),
    ("BatchNorm1d", {"num_features": 4, "affine": False}, (3, 4, 2)),
    ("BatchNorm2d", {"num_features": 4, "momentum": None}, (2, 4, 3, 2)),
    ("BatchNorm2d", {"num_features": 4, "track_running_stats": False}, (2, 4, 3, 2)),
    ("BatchNorm3d", {"num_features": 4, "momentum": 0.3, "bias": False}, (2, 4, 1, 3, 2)),
    ("GroupNorm", {"num_groups": 2, "num_channels": 4}, (2, 4, 3)),
    ("GroupNorm", {"num_groups": 4, "num_channels": 4, "affine": False, "eps": 0.1}, (2, 4, 3)),
    ("InstanceNorm1d", {"num_features": 4}, (4, 5)),
    ("InstanceNorm2d", {"num_features": 4, "affine": True}, (2, 4, 3, 2)),
    ("InstanceNorm2d", {"num_features": 4, "track_running_stats": True}, (2, 4, 3, 2)),
    ("InstanceNorm3d", {"num_features": 4, "eps": 0.1}, (2, 4, 1, 3, 2)),
    ("Softmax", {"dim": -1}, (2, 5)),
    ("Softmax", {"dim": 1}, (2, 5, 3)),
    ("LogSoftmax", {"dim": 0}, (2, 5)),
    ("CrossEntropyLoss", {"label_smoothing": 0.1, "ignore_index": 2}, (4, 5)),
    ("CrossEntropyLoss", {"weight": torch.arange(1.0, 6.0), "reduction": "sum"}, (4, 5)),
    ("ReLU", {}, (3, 4)),
    ("ReLU", {"inplace": True}, (3, 4)),
    ("ELU", {"alpha": 0.3}, (3, 4)),
    ("ELU", {"alpha": 0.3, "inplace": True}, (3, 4)),
    ("GELU", {}, (3, 4)),
    ("GELU", {"approximate": "tanh"}, (3, 4)),
    ("SiLU", {}, (3, 4)),
    ("SiLU", {"inplace": True}, (3, 4)),
    ("Hardswish", {"inplace": True}, (3, 4)),
    ("Hardshrink", {"lambd": 0.2}, (3, 4)),
    ("Sigmoid", {}, (3, 4)),
]
each_case = pytest.mark.parametrize(
    ("name", "arguments", "shape"), CASES, ids=[f"{name}-{i}" for i, (name, *_) in enumerate(CASES)]
)


def tensor(*shape: int, seed: int = 1) -> torch.Tensor:
    return 1 + 2 * torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def input_of(name: str, arguments: dict[str, Any], shape: Shape, seed: int) -> torch.Tensor:
    """Numbers, of which a gradient is wanted, or indices."""
    if not name.startswith("Embedding"):
        return tensor(*shape, seed=seed).requires_grad_()
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(arguments["num_embeddings"], shape, generator=generator)


def more_inputs(name: str) -> list[torch.Tensor]:
    return [torch.tensor([4, 0, 2, 3])] if name == "CrossEntropyLoss" else []


def pair_of(name: str, arguments: dict[str, Any]) -> list[torch.nn.Module]:
    """Ours, and torch's in double precision, with the same random parameters."""
    ours = getattr(nn, name)(**arguments)
    theirs = getattr(torch.nn, name)(**arguments)
    for seed, parameter in enumerate(ours.parameters()):
        parameter.data.copy_(tensor(*parameter.shape, seed=seed))
    theirs.load_state_dict(ours.state_dict())
    return [ours, theirs.double()]


def test_each_module_is_tested() -> None:
    assert {name for name, *_ in CASES} == {ours.__name__ for ours in MODULES.values()}
    assert {name for name, *_ in CASES} <= set(nn.__all__)


@each_case
def test_module(name: str, arguments: dict[str, Any], shape: Shape) -> None:
    """Values and gradients, twice in training (running statistics move) and once in eval."""
    modules = pair_of(name, arguments)
    assert repr(modules[0]) == repr(modules[1])
    for seed, training in enumerate([True, True, False]):
        results = []
        for module in modules:
            module.train(training)
            leaf = x = input_of(name, arguments, shape, seed)
            if leaf.requires_grad:
                x = leaf.double() if module is modules[1] else leaf * 1  # no leaf, in place
            y = module(x, *more_inputs(name))
            assert (y.data_ptr() == x.data_ptr()) == arguments.get("inplace", False)
            with torch.no_grad():
                without = module(x.detach().clone(), *more_inputs(name)) if not training else y
            wanted = [t for t in (leaf, *module.parameters()) if t.requires_grad]
            g = torch.linspace(-1, 2, y.numel()).view(y.shape).to(y.dtype)
            results.append((y, without, *torch.autograd.grad(y, wanted, g)))
        assert results[0][0].dtype == torch.float32
        for mine, right in zip(*results, strict=True):
            assert_close(mine, right)
    state, wanted = (module.state_dict() for module in modules)
    assert list(state) == list(wanted)
    for mine, right in zip(state.values(), wanted.values(), strict=True):
        assert_close(mine, right)


@pytest.mark.parametrize("theirs", MODULES, ids=lambda theirs: theirs.__name__)
def test_signatures(theirs: type) -> None:
    ours = list(inspect.signature(MODULES[theirs]).parameters.values())
    wanted = list(inspect.signature(theirs).parameters.values())
    assert issubclass(MODULES[theirs], theirs)
    assert [p.name for p in ours[: len(wanted)]] == [p.name for p in wanted]
    assert [p.default for p in ours[: len(wanted)]] == [p.default for p in wanted]
    assert all(p.kind is p.KEYWORD_ONLY for p in ours[len(wanted) :])


def test_linear_with_activation() -> None:
    x = tensor(3, 6)
    for activation, want in {
        "gelu": F.gelu,
        "silu": F.silu,
        "swiglu": lambda h: F.silu(h[..., :2]) * h[..., 2:],
    }.items():
        module = nn.Linear(6, 4, activation=activation)
        assert_close(module(x), want(F.linear(x, module.weight, module.bias)))
        assert repr(module).endswith(f"bias=True, activation={activation})")
    with pytest.raises(ValueError, match=r"activation is one of none, relu, .*'tanh'"):
        nn.Linear(6, 4, activation="tanh")
    with pytest.raises(ValueError, match="odd: 5"):
        nn.Linear(6, 5, activation="swiglu")


def test_mlps() -> None:
    x = tensor(3, 6)
    mlp = nn.MLP(6, 10, activation="relu")
    hidden = torch.relu(F.linear(x, mlp.up_proj.weight, mlp.up_proj.bias))
    assert_close(mlp(x), F.linear(hidden, mlp.down_proj.weight, mlp.down_proj.bias))
    with pytest.raises(ValueError, match="SwiGLU has one"):
        nn.MLP(6, 10, activation="swiglu")
    gated = nn.SwiGLU(6, 10)
    gate, up = F.linear(x, gated.gate_up_proj.weight).chunk(2, -1)
    assert_close(gated(x), F.linear(F.silu(gate) * up, gated.down_proj.weight))
    gated(x).sum().backward()
    assert all(p.grad is not None for p in gated.parameters())


def test_what_modules_refuse() -> None:
    with pytest.raises(ValueError, match="dim is None"):
        nn.Softmax()(tensor(2, 3))
    with pytest.raises(RuntimeError, match=r"normalized_shape=\[4\] .*not \[2, 3\]"):
        nn.RMSNorm(4)(tensor(2, 3))
    with pytest.raises(ValueError, match="got f64"):
        nn.GELU()(tensor(2, 3).double())
    with pytest.raises(ValueError, match="probabilities"):
        nn.CrossEntropyLoss()(tensor(2, 3), tensor(2, 3).softmax(-1))
    with pytest.raises(RuntimeError, match="leaf"):
        nn.ReLU(inplace=True)(tensor(2, 3).requires_grad_())


def operators_called(call: Callable[[], Any]) -> list[str]:
    """Names of our operators and of torch's attention that run in a call."""

    class Seen(torch.utils._python_dispatch.TorchDispatchMode):
        def __init__(self) -> None:
            super().__init__()
            self.names: list[str] = []

        def __torch_dispatch__(self, function, types, arguments=(), keywords=None):
            self.names.append(str(function))
            return function(*arguments, **(keywords or {}))

    with Seen() as seen:
        call()
    return [name for name in seen.names if "warpsmith" in name or "attention" in name]


def test_attention_module() -> None:
    q, k, v = tensor(1, 4, 5, 8), tensor(1, 2, 5, 8, seed=2), tensor(1, 2, 5, 8, seed=3)
    module = nn.ScaledDotProductAttention(0.5, is_causal=True, scale=0.3, enable_gqa=True).eval()
    assert repr(module) == (
        "ScaledDotProductAttention(dropout_p=0.5, is_causal=True, scale=0.3, enable_gqa=True)"
    )
    want = F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=0.3, enable_gqa=True)
    assert_close(module(q, k, v), want)
    mask = torch.ones(5, 5, dtype=torch.bool).tril()
    unmasked = nn.ScaledDotProductAttention(scale=0.3, enable_gqa=True)
    assert_close(unmasked(q, k, v, mask), want)
    assert operators_called(lambda: module(q, k, v)) == ["warpsmith.attention.default"]
    # torch's, where it drops out, and for gradients of f32 and under a mask.
    module.train()
    assert not any("warpsmith" in name for name in operators_called(lambda: module(q, k, v)))
    module.eval()
    for dtype, given, is_ours in (
        (torch.float32, None, False),
        (torch.bfloat16, None, True),
        (torch.bfloat16, mask, False),
    ):
        x, *rest = (t.detach().to(dtype) for t in (q, k, v))
        x.requires_grad_()
        attend = unmasked if given is not None else module
        names = operators_called(lambda: attend(x, *rest, given))  # noqa: B023
        assert ("warpsmith.attention.default" in names) == is_ours
        (grad,) = torch.autograd.grad(attend(x, *rest, given).sum(), x)
        assert grad.any()


# ---- patch --------------------------------------------------------------------------------------


class Scaled(torch.nn.Linear):
    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return 2 * super().forward(input)


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = torch.nn.Embedding(7, 6)
        self.sparse = torch.nn.Embedding(7, 6, sparse=True)
        self.normed = torch.nn.Embedding(7, 6, max_norm=1.0)
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(6, 8), torch.nn.GELU(), torch.nn.Linear(8, 6), torch.nn.LayerNorm(6)
        )
        self.scaled = Scaled(6, 6)
        self.tied = self.layers[0]
        self.wide = torch.nn.Linear(6, 6, dtype=torch.float64)
        self.complex = torch.nn.Linear(6, 6, dtype=torch.complex64)
        self.hooked = torch.nn.ReLU()
        self.hooked.forward = lambda x: x
        self.soft = torch.nn.Softmax()
        self.away = torch.nn.Linear(2, 2, device="meta")

    def forward(self, index: torch.Tensor) -> torch.Tensor:
        return self.scaled(self.layers(self.embed(index)))


INDEX = torch.tensor([[0, 3, 6]])


def test_patch_and_undo() -> None:
    model = Net()
    want, names, tensors = model(INDEX), list(model.state_dict()), list(model.parameters())
    text, classes = repr(model), [type(m) for m in model.modules()]
    seen: list[Any] = []
    model.layers[0].register_forward_hook(lambda *_: seen.append(1))
    random = torch.get_rng_state()
    report = warpsmith.patch(model)
    assert torch.equal(torch.get_rng_state(), random)
    assert [(r.name, r.kind, r.by) for r in report.replaced] == [
        ("embed", "Embedding", "warpsmith.nn.Embedding"),
        ("layers.0", "Linear", "warpsmith.nn.Linear"),
        ("layers.1", "GELU", "warpsmith.nn.GELU"),
        ("layers.2", "Linear", "warpsmith.nn.Linear"),
        ("layers.3", "LayerNorm", "warpsmith.nn.LayerNorm"),
    ]
    assert [(k.name, k.kind, k.reason) for k in report.kept] == [
        ("sparse", "Embedding", "its gradient is sparse, warpsmith.embedding's is dense"),
        (
            "normed",
            "Embedding",
            "max_norm changes its weight, which warpsmith.embedding does not",
        ),
        ("scaled", "Scaled", "a subclass of torch.nn.Linear, which may compute something else"),
        ("wide", "Linear", "weight is torch.float64, which no kernel takes"),
        ("complex", "Linear", "weight is torch.complex64, which no kernel takes"),
        ("hooked", "ReLU", "its forward is not that of its class"),
        ("soft", "Softmax", "its dim is None, which is another one for each rank"),
        ("away", "Linear", "weight is on meta; kernels take cpu and cuda"),
    ]
    assert repr(report).splitlines()[:2] == [
        "replaced: 5",
        "    1 Embedding (embed): warpsmith.nn.Embedding",
    ]
    assert repr(model) == text
    assert model.tied is model.layers[0]
    assert type(model.tied) is nn.Linear
    assert list(model.state_dict()) == names
    assert all(a is b for a, b in zip(model.parameters(), tensors, strict=True))
    assert_close(model(INDEX), want)
    assert seen == [1]
    called = operators_called(lambda: model(INDEX))
    assert [name for name in called if "gemm" not in name and "addmm" not in name] == [
        "warpsmith.embedding.default",
        "warpsmith.gelu.default",
        "warpsmith.layer_norm.default",
    ]
    again = warpsmith.patch(model)
    assert again.replaced == []
    assert again.kept == report.kept
    report.undo()
    assert [type(m) for m in model.modules()] == classes
    assert torch.equal(model(INDEX), want)


def test_unpatch_of_a_copy() -> None:
    model = Net()
    warpsmith.patch(model)
    other = copy.deepcopy(model)
    assert warpsmith.unpatch(other) is other
    assert type(other.layers[0]) is torch.nn.Linear
    assert type(model.layers[0]) is nn.Linear
    kept = nn.Linear(2, 4, activation="swiglu")
    assert type(warpsmith.unpatch(kept)) is nn.Linear
    mine = type("Mine", (nn.Linear,), {})(2, 4)
    assert type(warpsmith.unpatch(mine)).__name__ == "Mine"
    for function in (warpsmith.patch, warpsmith.unpatch):
        with pytest.raises(TypeError, match="not a function"):
            function(operators_called)


def test_what_was_changed_since_keeps_its_class() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 4))
    patched = warpsmith.patch(model)
    torch.nn.utils.parametrizations.weight_norm(model[0])
    x = tensor(2, 4)
    want = model(x)
    patched.undo()
    warpsmith.unpatch(model)
    assert_close(model(x), want)
    assert type(model[1]) is torch.nn.Linear
    assert isinstance(model[0], nn.Linear)


class SquareNorm(torch.nn.Module):
    """An RMS norm as others have it."""

    def __init__(self, features: int = 6, offset: float = 0.0) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(tensor(features))
        self.eps = 1e-3
        self.offset = offset

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scale = (x.float().square().mean(-1, keepdim=True) + self.eps).rsqrt()
        return (self.weight + self.offset) * (x.float() * scale).to(x.dtype)


class GatedMlp(torch.nn.Module):
    def __init__(self, activation: torch.nn.Module, features: int = 6) -> None:
        super().__init__()
        self.gate_proj = torch.nn.Linear(features, 10)
        self.up_proj = torch.nn.Linear(features, 10)
        self.down_proj = torch.nn.Linear(10, features, bias=False)
        self.act = activation

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down_proj(self.act(self.gate_proj(x)) * self.up_proj(x))


@pytest.mark.parametrize(
    ("module", "by"),
    [
        (SquareNorm(), "warpsmith.rms_norm"),
        (GatedMlp(torch.nn.SiLU()), "warpsmith.swiglu between its layers"),
        (GatedMlp(torch.nn.GELU()), "warpsmith.geglu between its layers"),
        (
            GatedMlp(torch.nn.GELU(approximate="tanh")),
            "warpsmith.geglu between its layers, gelu by tanh",
        ),
    ],
    ids=["rms_norm", "silu", "gelu", "gelu_tanh"],
)
def test_what_is_like_ours(module: torch.nn.Module, by: str) -> None:
    original, x = copy.deepcopy(module), tensor(4, 6)
    report = warpsmith.patch(module)
    assert report.replaced[0].by == by
    assert report.kept == []
    assert isinstance(module, type(original))
    assert repr(module) == repr(original)
    kind = type(module)
    for one in (copy.deepcopy(module), pickle.loads(pickle.dumps(module)), module):
        assert type(one) is kind
        assert list(one.state_dict()) == list(original.state_dict())
        results = []
        for each in (one, original):
            leaf = x.clone().requires_grad_()
            y = each(leaf)
            results.append((y, *torch.autograd.grad(y.sum(), [leaf, *each.parameters()])))
        for mine, right in zip(*results, strict=True):
            assert_close(mine, right)
        assert type(warpsmith.unpatch(one)) is type(original)


def test_rms_norm_of_two_dtypes() -> None:
    """bf16 by weights of f32 is f32, as the product is."""
    module, x = SquareNorm(), tensor(4, 6).bfloat16()
    want = module(x)
    warpsmith.patch(module)
    assert module(x).dtype == want.dtype == torch.float32
    torch.testing.assert_close(module(x), want, rtol=1e-2, atol=1e-2)


class Dropping(GatedMlp):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.dropout(super().forward(x), 0.5)


class CentredNorm(torch.nn.LayerNorm):
    """Without bias it has what an RMS norm has."""


class Resting(GatedMlp):
    """Drops out when it is trained, which it is not yet."""

    def __init__(self) -> None:
        super().__init__(torch.nn.SiLU())
        self.eval()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.dropout(super().forward(x), 0.5, self.training)


class RestingByAChild(GatedMlp):
    def __init__(self) -> None:
        super().__init__(torch.nn.Dropout(0.0))
        self.eval()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.act(self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x)))


class Limited(GatedMlp):
    """As that of DeepSeek-V4 is."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        gate = self.gate_proj(x).clamp(max=1000.0)
        return self.down_proj(self.act(gate) * self.up_proj(x))


class Watched(GatedMlp):
    def __init__(self) -> None:
        super().__init__(torch.nn.SiLU())
        self.seen: list[int] = []
        self.act.register_forward_hook(lambda *_: self.seen.append(1))


class GatedNorm(SquareNorm):
    """As Mamba has it: what it takes at times, ours could not."""

    def forward(self, x: torch.Tensor, gate: torch.Tensor | None = None) -> torch.Tensor:
        return super().forward(x if gate is None else x * F.silu(gate))


class TwoInputs(GatedMlp):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return super().forward(x) + y


class Adapted(GatedMlp):
    """With a layer that adds nothing until it has learnt."""

    def __init__(self) -> None:
        super().__init__(torch.nn.SiLU())
        del self.act
        self.adapter = torch.nn.Linear(6, 6, bias=False)
        torch.nn.init.zeros_(self.adapter.weight)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        gated = F.silu(self.gate_proj(x)) * self.up_proj(x)
        added = self.adapter(x[..., :1].expand(*x.shape[:-1], 6)).sum(-1, True)
        return self.down_proj(gated) + added


def test_an_adapter_is_not_left_out() -> None:
    module = Adapted()
    report = warpsmith.patch(module)
    assert type(module) is Adapted
    assert {r.name for r in report.replaced} >= {"adapter", "gate_proj"}
    torch.nn.init.ones_(module.adapter.weight)
    x = tensor(4, module.gate_proj.in_features)
    assert_close(module(x), Adapted.forward(module, x))


@pytest.mark.parametrize(
    ("module", "reason"),
    [
        (SquareNorm(offset=1.0), "computes something else"),
        (CentredNorm(6, bias=False), "computes something else"),
        (GatedMlp(torch.nn.Tanh()), "no gate of silu or gelu"),
        (Dropping(torch.nn.SiLU()), "no gate of silu or gelu"),
        (Resting(), "no gate of silu or gelu"),
        (RestingByAChild(), "drops out"),
        (Limited(torch.nn.SiLU()), "no gate of silu or gelu"),
        (Watched(), "has hooks on its activation"),
        (TwoInputs(torch.nn.SiLU()), "takes more than one argument"),
        (GatedNorm(), "takes more than one argument"),
    ],
    ids=["offset", "mean", "tanh", "dropout", "later", "child", "limit", "hook", "two", "gate"],
)
def test_what_only_looks_like_ours(module: torch.nn.Module, reason: str) -> None:
    kind = type(module)
    report = warpsmith.patch(module)
    assert reason in report.kept[0].reason
    assert type(module) is kind
    assert not getattr(module, "seen", [])  # nobody's hooks run for a probe


def recorded(module: torch.nn.Module, *inputs: torch.Tensor) -> list[str]:
    """What a module's graph calls, compiled without a break; the result is the eager one's."""
    graphs: list[torch.fx.GraphModule] = []

    def record(graph: torch.fx.GraphModule, _: Any) -> Any:
        graphs.append(graph)
        return graph

    torch._dynamo.reset()
    fresh = [x.clone() for x in inputs]
    want = copy.deepcopy(module)(*(x.clone() for x in inputs))
    assert_close(torch.compile(module, fullgraph=True, backend=record)(*fresh), want)
    (graph,) = graphs
    return [str(node.target) for node in graph.graph.nodes if node.op == "call_function"]


# Each module once, and what its graph calls beside views.
OPERATORS = {
    "Linear": ["addmm"],
    "LayerNorm": ["layer_norm"],
    "RMSNorm": ["rms_norm"],
    "GroupNorm": ["group_norm_forward"],
    "InstanceNorm2d": ["group_norm_forward"],
    "Softmax": ["softmax"],
    "LogSoftmax": ["log_softmax"],
    "CrossEntropyLoss": ["cross_entropy_forward", "sum"],
    "ReLU": ["relu"],
    "ELU": ["elu"],
    "GELU": ["gelu"],
    "SiLU": ["swish"],
    "Hardswish": ["hardswish_out"],
    "Hardshrink": ["hardshrink"],
    "Sigmoid": ["sigmoid"],
}


@pytest.mark.parametrize("name", OPERATORS)
def test_compiled_modules_stay_whole(name: str) -> None:
    arguments, shape = next(case[1:] for case in CASES if case[0] == name)
    module = getattr(nn, name)(**arguments)
    for parameter in module.parameters():
        parameter.requires_grad_(False)
    called = recorded(module, tensor(*shape), *more_inputs(name))
    ours = [name.removeprefix("warpsmith.") for name in called if "warpsmith" in name]
    assert ours == OPERATORS[name]
    assert not [name for name in called if name.startswith("aten")]


@pytest.mark.parametrize("training", [True, False])
def test_compiled_batch_norm(training: bool) -> None:
    module = nn.BatchNorm2d(4).train(training).requires_grad_(False)
    called = " ".join(recorded(module, tensor(2, 4, 3, 2)))
    assert ("warpsmith.batch_norm_inference" in called) == (not training)
    assert "torch.nn" not in called


def test_compiled_gradients() -> None:
    model = torch.nn.Sequential(
        torch.nn.Linear(6, 8), torch.nn.SiLU(), SquareNorm(8), GatedMlp(torch.nn.SiLU(), 8)
    )
    x, results = tensor(4, 6), []
    for patched in (False, True):
        if patched:
            assert len(warpsmith.patch(model).replaced) == 7
        compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
        y = compiled(x)
        results.append((y, *torch.autograd.grad(y.square().sum(), list(model.parameters()))))
    for want, mine in zip(*results, strict=True):
        assert_close(mine, want)


def test_what_is_compiled_is_compiled_anew() -> None:
    model, graphs = torch.nn.Sequential(torch.nn.Linear(6, 4), torch.nn.GELU()), []

    def record(graph: torch.fx.GraphModule, _: Any) -> Any:
        graphs.append("warpsmith" in graph.code)
        return graph

    torch._dynamo.reset()
    compiled = torch.compile(model, backend=record)
    want = compiled(tensor(2, 6))
    report = warpsmith.patch(model)
    assert_close(compiled(tensor(2, 6)), want)
    report.undo()
    assert torch.equal(compiled(tensor(2, 6)), want)
    assert graphs == [False, True]


# ---- A model of transformers --------------------------------------------------------------------

TINY = {
    "layers": 2,
    "hidden": 64,
    "intermediate": 96,
    "heads": 4,
    "kv_heads": 2,
    "vocab": 256,
    "batch": 2,
    "tokens": 8,
}


@pytest.fixture
def one_thread() -> Iterator[None]:
    """torch's threads wait for each other longer than these small tensors take."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


on_one_thread = pytest.mark.usefixtures("one_thread")


def llama() -> Any:
    return benchmark.model_of(TINY, "f32", "cpu").eval()


def sentences() -> torch.Tensor:
    generator = torch.Generator().manual_seed(3)
    return torch.randint(TINY["vocab"], (TINY["batch"], TINY["tokens"]), generator=generator)


@on_one_thread
def test_llama() -> None:
    model, tokens = llama(), sentences()
    padded = torch.ones_like(tokens)
    padded[0, :3] = 0
    with torch.no_grad():
        want = model(tokens).logits
        want_padded = model(tokens, attention_mask=padded).logits
        report = warpsmith.patch(model)
        assert_close(model(tokens).logits, want)
        assert_close(
            model(tokens, attention_mask=padded).logits[padded == 1], want_padded[padded == 1]
        )
        called = operators_called(lambda: model(tokens))
        assert called.count("warpsmith.attention.default") == TINY["layers"]
    assert (
        repr(report)
        == """\
replaced: 26
    1 Embedding (model.embed_tokens): warpsmith.nn.Embedding
   15 Linear (model.layers.0.self_attn.q_proj, ...): warpsmith.nn.Linear
    2 LlamaMLP (model.layers.0.mlp, ...): warpsmith.swiglu between its layers
    5 LlamaRMSNorm (model.layers.0.input_layernorm, ...): warpsmith.rms_norm
    2 LlamaAttention (model.layers.0.self_attn, ...): itself, warpsmith.rope_qk in it
    1 attention of LlamaForCausalLM (the model itself): warpsmith.scaled_dot_product_attention; \
torch's for gradients in f32 and under masks
kept: 1
    1 LlamaRotaryEmbedding (model.rotary_emb): warpsmith.nn has nothing that stands for it"""
    )
    assert warpsmith.patch(model).replaced == []
    report.undo()
    assert model.config._attn_implementation == "sdpa"
    with torch.no_grad():
        assert torch.equal(model(tokens).logits, want)
        assert operators_called(lambda: model(tokens))[0].startswith("aten.")


@on_one_thread
def test_llama_generates_the_same() -> None:
    model, tokens = llama(), sentences()[:1, :4]
    options = {"max_new_tokens": 4, "do_sample": False, "pad_token_id": 0, "use_cache": True}
    want = model.generate(tokens, **options)
    warpsmith.patch(model)
    assert torch.equal(model.generate(tokens, **options), want)


def test_llama_that_takes_no_attention_of_ours() -> None:
    model = llama()
    model.set_attn_implementation("eager")
    kept = warpsmith.patch(model).kept[-1]
    assert kept.kind == "attention of LlamaForCausalLM"
    assert kept.reason == "its attn_implementation is eager, not sdpa"
    assert warpsmith.unpatch(model).config._attn_implementation == "eager"


def small(name: str) -> Any:
    """A model of transformers of one layer, with random weights."""
    import transformers

    kind = {"Gemma3": "Gemma3Text"}.get(name, name)
    config = getattr(transformers, f"{kind}Config")(
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=1,
        num_attention_heads=4,
        num_key_value_heads=2,
        vocab_size=64,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
    )
    torch.manual_seed(0)
    return getattr(transformers, f"{name}ForCausalLM")(config).eval()


# Phi turns a part of each head.
@pytest.mark.parametrize("name", ["Qwen2", "Phi"])
def test_rotary_embedding(name: str) -> None:
    model, tokens = small(name), sentences() % 64
    (attention,) = (m for m in model.modules() if type(m).__name__ == f"{name}Attention")
    kind, file = type(attention), sys.modules[type(attention).__module__]
    function, forward = file.apply_rotary_pos_emb, kind.forward
    other = copy.deepcopy(model)
    with torch.no_grad():
        want = model(tokens).logits
        report = warpsmith.patch(model)
        assert "itself, warpsmith.rope_qk in it" in [r.by for r in report.replaced]
        assert_close(model(tokens).logits, want)
        for one, times in ((model, 1), (pickle.loads(pickle.dumps(model)), 1), (other, 0)):
            called = operators_called(functools.partial(one, tokens))
            assert called.count("warpsmith.rope_qk.default") == times
        # Of another dtype than the tables theirs is called: what it gives is of both.
        ours = type(attention).forward.__globals__["apply_rotary_pos_emb"]
        q, tables = tensor(1, 2, 3, 8).bfloat16(), tensor(2, 1, 3, 4).repeat(1, 1, 1, 2)
        for found, wanted in zip(ours(q, q, *tables), function(q, q, *tables), strict=True):
            assert found.dtype == torch.float32
            assert torch.equal(found, wanted)
    assert file.apply_rotary_pos_emb is function
    assert kind.forward is forward
    assert warpsmith.patch(model).replaced == []
    report.undo()
    assert type(attention) is kind


def test_rotary_embedding_in_a_forward_with_defaults() -> None:
    scope: dict[str, Any] = {"apply_rotary_pos_emb": lambda *tensors: tensors}
    exec("def forward(self, x, y=2, *, z=3): return apply_rotary_pos_emb, (x, y, z)", scope)
    theirs = type("Theirs", (), {"forward": scope["forward"]})
    forward = nn._rotary.RotaryAttention.members(theirs)["forward"]
    function, values = forward(None, 1)
    assert values == (1, 2, 3)
    assert function is not scope["apply_rotary_pos_emb"]
    assert function.__name__ == "apply_rotary_pos_emb"
    assert inspect.unwrap(forward) is forward
    assert (forward.__name__, forward.__qualname__) == ("forward", "forward")


@pytest.mark.parametrize(
    ("name", "reason"),
    [("Cohere", "computes something else"), ("Gemma3", "not known to be twice the same half")],
)
def test_rotary_embedding_of_another_kind(name: str, reason: str) -> None:
    """Of pairs of neighbours; and one that wants to know of which layer."""
    model = small(name)
    kept = [k.reason for k in warpsmith.patch(model).kept if k.kind == f"{name}Attention"]
    assert len(kept) == 1
    assert reason in kept[0]


def test_rotary_embedding_asks_what_it_turns() -> None:
    """Tables of two halves, a forward of a module's own, attention that is no class's function."""
    model = small("Qwen2")
    rotary, attention = model.model.rotary_emb, model.model.layers[0].self_attn
    rotary.forward = lambda x, positions: torch.randn(2, 1, positions.shape[1], 8).unbind()
    kept = [k for k in warpsmith.patch(model).kept if k.kind == "Qwen2Attention"]
    assert [k.name for k in kept] == ["model.layers.0.self_attn"]
    assert "not known" in kept[0].reason
    del rotary.forward
    attention.forward = attention.forward
    kept = [k for k in warpsmith.patch(model).kept if k.kind == "Qwen2Attention"]
    assert [k.reason for k in kept] == ["its forward is not that of its class"]


@on_one_thread
def test_llama_trains_as_before() -> None:
    model, tokens = llama().train(), sentences()
    patched = copy.deepcopy(model)
    warpsmith.patch(patched)
    losses: list[list[float]] = []
    for one in (model, patched):
        optimizer = torch.optim.AdamW(one.parameters(), lr=3e-3)
        losses.append([])
        for _ in range(20):
            loss = one(tokens, labels=tokens).loss
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            losses[-1].append(loss.item())
    assert losses[0][-1] < losses[0][0] / 2
    assert losses[1] == pytest.approx(losses[0], rel=1e-4)


def test_llama_compiles_whole() -> None:
    model, tokens = llama(), sentences()
    warpsmith.patch(model)
    model.config.use_cache = False
    torch._dynamo.reset()
    graphs: list[torch.fx.GraphModule] = []

    def record(graph: torch.fx.GraphModule, _: Any) -> Any:
        graphs.append(graph)
        return graph

    with torch.no_grad():
        compiled = torch.compile(model, fullgraph=True, backend=record)
        assert_close(compiled(tokens).logits, model(tokens).logits)
    (graph,) = graphs
    called = [str(node.target) for node in graph.graph.nodes if node.op == "call_function"]
    layer = ["rms_norm", *3 * ["gemm"], "rope_qk", "attention", "gemm"]
    layer += ["rms_norm", "gemm", "gemm", "swiglu"]
    want = ["embedding", *TINY["layers"] * [*layer, "gemm"], "rms_norm", "gemm"]
    assert [name for name in called if "warpsmith" in name] == [f"warpsmith.{x}" for x in want]


@on_one_thread
def test_benchmark(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    options = [f"--{name.replace('_', '-')}={size}" for name, size in TINY.items()]
    options += ["--device=cpu", "--dtype=f32", "--turns=1"]
    monkeypatch.setattr(sys, "argv", ["benchmark", *options])
    benchmark.main()
    table = capsys.readouterr().out.splitlines()
    assert table[0] == "replaced: 26"
    assert table[-2].split()[0] == "forward"
    assert table[-1].split()[:2] == ["training", "step"]
    monkeypatch.setattr(sys, "argv", ["benchmark", *options, "--json"])
    benchmark.main()
    result = json.loads(capsys.readouterr().out)
    assert [row["name"] for row in result["rows"]] == ["forward", "training step"]
    for row in result["rows"]:
        assert row["ratio"] == pytest.approx(row["after"] / row["before"])
        assert row["before"] > 0
    assert result["sizes"] == TINY
    assert "LlamaRMSNorm" in result["patched"]


def test_benchmark_refuses(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ValueError, match="not depth"):
        benchmark.measure({"depth": 3})
    with pytest.raises(ValueError, match="at least 1, not 0"):
        benchmark.measure(TINY, turns=0)
    monkeypatch.setattr(sys, "argv", ["benchmark", "--turns=0"])
    with pytest.raises(SystemExit) as refused:
        benchmark.main()
    assert refused.value.code == 2
    assert "at least 1, not 0" in capsys.readouterr().err


# ---- Weights of few bits ------------------------------------------------------------------------

CODES = [
    ("nf4", {}, 0.15),
    ("int4", {"zero_point": True}, 0.15),
    ("fp8", {"group": 32}, 0.05),
    ("int8", {}, 0.02),
]
each_codes = pytest.mark.parametrize(("codes", "how", "lost"), CODES, ids=[c[0] for c in CODES])


@each_codes
def test_quantized_linear(codes: str, how: dict[str, Any], lost: float) -> None:
    linear = torch.nn.Linear(96, 8).eval()
    layer = nn.QuantizedLinear.from_linear(linear, codes, **how)
    assert not layer.training
    group, more = how.get("group", 64), ", zero_point=True" if "zero_point" in how else ""
    assert repr(layer) == (
        "QuantizedLinear(in_features=96, out_features=8, bias=True, "
        f"codes={codes}, group={group}{more})"
    )
    weight = layer.dequantize()
    assert (weight - linear.weight).norm() < lost * linear.weight.norm()
    few, many = tensor(2, 3, 96), tensor(65, 96)
    for x in (few, few[0, 0], many, few[:0]):
        assert_close(layer(x), F.linear(x, weight, linear.bias))
    for rows, reader in ((64, "quantized_linear"), (65, "dequantize_blockwise")):
        with torch.no_grad():
            called = operators_called(functools.partial(layer, tensor(rows, 96)))
        assert called[0] == f"warpsmith.{reader}.default"
    leaf = few.clone().requires_grad_()
    layer(leaf).sum().backward()
    assert_close(leaf.grad, weight.sum(0).expand(few.shape))
    assert_close(layer.bias.grad, torch.full((8,), 6.0))
    assert linear.bias.grad is None


@each_codes
def test_state_of_quantized_linear(
    codes: str, how: dict[str, Any], lost: float, tmp_path: pathlib.Path
) -> None:
    layer = nn.QuantizedLinear.from_linear(torch.nn.Linear(96, 8), codes, **how)
    x = tensor(3, 96)
    names = ["bias", "weight_codes", "weight_scales"] + ["weight_zeros"] * ("zero_point" in how)
    assert list(layer.state_dict()) == names
    other = nn.QuantizedLinear(96, 8, codes=codes, **how)
    assert not other.dequantize().any()
    other.load_state_dict(layer.state_dict())
    torch.save(layer, tmp_path / "layer.pt")
    loaded = torch.load(tmp_path / "layer.pt", weights_only=False)
    for copied in (other, copy.deepcopy(layer), loaded):
        assert torch.equal(copied(x), layer(x))
    with pytest.raises(RuntimeError, match=r"Missing key.*weight_codes"):
        layer.load_state_dict(torch.nn.Linear(96, 8).state_dict())
    # Of another dtype is what is no part of the format.
    narrow = copy.deepcopy(layer).to(torch.bfloat16)
    assert narrow.bias.dtype == torch.bfloat16
    for name, buffer in narrow.named_buffers():
        assert buffer.dtype == layer.get_buffer(name).dtype
        assert torch.equal(buffer, layer.get_buffer(name))
    assert narrow(x.bfloat16()).dtype == torch.bfloat16
    assert {b.device.type for b in nn.QuantizedLinear(96, 8, device="meta").buffers()} == {"meta"}


@each_codes
def test_quantized_linear_in_graphs(codes: str, how: dict[str, Any], lost: float) -> None:
    layer = nn.QuantizedLinear.from_linear(torch.nn.Linear(96, 8), codes, **how)
    torch._dynamo.reset()
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    for rows in (3, 65):
        x = tensor(rows, 96)
        assert_close(compiled(x), layer(x))
    inputs = (tensor(3, 96), *layer.buffers())
    if codes != "fp8":  # of which torch cannot tell whether it was changed
        torch.library.opcheck(
            torch.ops.warpsmith.quantized_linear.default,
            (*inputs, *[None] * (5 - len(inputs))),
            {"format": codes, "group_size": layer.group},
        )


@on_one_thread
@each_codes
def test_quantize_a_llama(codes: str, how: dict[str, Any], lost: float) -> None:
    """Its logits are those of the weights that codes stand for, and near what they were."""
    model, tokens = llama(), sentences()[:1]
    rounded = copy.deepcopy(model)
    report = warpsmith.quantize(model, codes, **how, keep=["lm_head"])
    layers = 7 * TINY["layers"]
    assert (
        repr(report)
        == f"""\
replaced: {layers}
{layers:5} Linear (model.layers.0.self_attn.q_proj, ...): warpsmith.nn.QuantizedLinear, {codes}
kept: 1
    1 Linear (lm_head): it is named in keep"""
    )
    for name, layer in model.named_modules():
        if isinstance(layer, nn.QuantizedLinear):
            rounded.get_submodule(name).weight.data = layer.dequantize()
    with torch.no_grad():
        before, found = llama()(tokens).logits, model(tokens).logits
        assert_close(found, rounded(tokens).logits)
    assert (found - before).norm() < 2 * lost * before.norm()


def test_quantize_keeps_weights_that_others_make_or_read() -> None:
    model = torch.nn.Sequential(
        torch.nn.Linear(16, 8),
        torch.nn.Linear(8, 16),
        torch.nn.TransformerEncoderLayer(16, 2, 32, batch_first=True),
    ).eval()
    torch.nn.utils.prune.l1_unstructured(model[1], "weight", 0.5)
    report = warpsmith.quantize(model, "int8", group=16)
    assert [r.name for r in report.replaced] == ["0"]
    reasons = {k.name: k.reason for k in report.kept}
    assert reasons["1"] == "its weight is no parameter: it is made of others before each call"
    assert reasons["2.linear1"] == "torch.nn.TransformerEncoderLayer reads its weight"
    assert torch.isfinite(model(tensor(2, 3, 16))).all()


def test_quantize_keeps_what_it_must() -> None:
    class Wordy(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = torch.nn.Embedding(8, 16)
            self.head = torch.nn.Linear(16, 8, bias=False)
            self.head.weight = self.embed.weight
            self.up = torch.nn.Linear(16, 8)
            self.tied = self.up
            self.active = nn.Linear(16, 8, activation="gelu")
            self.scaled = Scaled(16, 8)
            self.odd = torch.nn.Linear(15, 8)
            self.wide = torch.nn.Linear(16, 8, dtype=torch.float64)
            self.block = torch.nn.Sequential(torch.nn.Linear(16, 8))

    model = Wordy()
    seen: list[Any] = []
    model.up.register_forward_hook(lambda *_: seen.append(1))
    bias = model.up.bias
    patched = warpsmith.patch(model)
    report = warpsmith.quantize(model, group=16, keep=["block"])
    assert [r.name for r in report.replaced] == ["up"]
    assert [(k.name, k.reason) for k in report.kept] == [
        ("head", "its weight is another module's, too"),
        ("active", "computes gelu in the kernel of its product"),
        ("scaled", "a subclass of torch.nn.Linear, which may compute something else"),
        ("odd", "its 15 columns are no pairs of codes of 4 bits"),
        ("wide", "weight is torch.float64, which no kernel takes"),
        ("block.0", "it is named in keep"),
    ]
    assert model.tied is model.up
    assert model.up.bias is bias
    want = F.linear(torch.ones(16), model.up.dequantize(), bias)
    assert_close(model.up(torch.ones(16)), want)
    assert seen == [1]
    # Neither undoing nor patching once more takes it for something else.
    patched.undo()
    again = warpsmith.patch(warpsmith.unpatch(model))
    assert type(model.up) is nn.QuantizedLinear
    assert not any(kept.name == "up" for kept in again.kept)
    kinds = [type(m) for m in model.modules()]
    for refused in ({"codes": "nf3"}, {"group": 8}, {"zero_point": True}):
        with pytest.raises(ValueError, match=r"'nf3'|multiple of 16|has none"):
            warpsmith.quantize(model, **refused)
    assert [type(m) for m in model.modules()] == kinds
    with pytest.raises(TypeError, match="not a Tensor"):
        warpsmith.quantize(tensor(2, 2))
