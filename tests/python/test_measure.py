"""Peers from Python's packages, as the bench loop calls them; no GPU is needed for that."""

import importlib.metadata
import json
import sys
import types
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
import tvm_ffi
import warpsmith
from warpsmith import _expressions, _measure
from warpsmith._catalogue import OPERATIONS

SOFTMAX = OPERATIONS["softmax"]


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A package of which `inner.calls` tells what was called."""
    folder = tmp_path / "a_peer_of_tests"
    folder.mkdir()
    # Its function shadows its module, as some packages' do.
    (folder / "__init__.py").write_text("from a_peer_of_tests.inner import run as inner\n")
    (folder / "inner.py").write_text("calls = []\ndef run(x, scale):\n    calls.append((x, scale))")
    monkeypatch.syspath_prepend(tmp_path)
    yield folder.name
    for name in [name for name in sys.modules if name.partition(".")[0] == folder.name]:
        del sys.modules[name]  # the next test's is another


def arguments() -> tuple[str, list[object]]:
    """Attributes and tensors of a call of softmax, as the C++ loop hands them over."""
    values = json.dumps([attribute.default for attribute in SOFTMAX.attributes])
    x = torch.arange(6.0).reshape(2, 3)
    return values, [tvm_ffi.from_dlpack(t) for t in (x, torch.empty_like(x))]


def test_a_peer_is_an_expression_on_the_loops_tensors(
    package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(SOFTMAX.python_peers, "tests", f"{package}.inner.run(x.t(), scale=2)")
    assert "tests" in _measure.peer_names()
    peer = _measure._Peer("tests")
    assert peer.packages == {package}
    values, tensors = arguments()
    for _ in range(2):
        peer(SOFTMAX.id, values, tensors, 0)
    calls = importlib.import_module(f"{package}.inner").calls
    assert [(tuple(x.shape), scale) for x, scale in calls] == [((3, 2), 2)] * 2
    assert calls[0][0].data_ptr() == tensors[0].data_ptr()
    with pytest.raises(ValueError, match="relu has no peer 'tests'"):  # to the loop a skip
        peer(OPERATIONS["relu"].id, "[]", tensors, 0)


def test_a_peer_reaches_as_deep_as_there_are_modules(
    package: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / package / "deep.py").write_text("class Rows:\n    size = len\n")
    (tmp_path / package / "broken.py").write_text("import a_package_of_nobody\n")
    values, tensors = arguments()
    monkeypatch.setitem(SOFTMAX.python_peers, "deep", f"{package}.deep.Rows.size(x)")
    _measure._Peer("deep")(SOFTMAX.id, values, tensors, 0)
    monkeypatch.setitem(SOFTMAX.python_peers, "broken", f"{package}.broken.run(x)")
    with pytest.raises(ModuleNotFoundError, match="a_package_of_nobody"):
        _measure._Peer("broken")(SOFTMAX.id, values, tensors, 0)
    monkeypatch.setitem(SOFTMAX.python_peers, "gone", f"{package}.gone.run(x)")
    with pytest.raises(ValueError, match=r"AttributeError: .*'gone'"):
        _measure._Peer("gone")(SOFTMAX.id, values, tensors, 0)


def test_torch_is_a_peer_of_every_operation() -> None:
    peer = _measure._Peer("torch")
    values, tensors = arguments()
    peer(SOFTMAX.id, values, tensors, 0)
    assert "torch" in _measure._versions([peer])


QUACK = """
calls = []
def gemm(A, B, out=None, tuned=True):
    assert A.stride(-1) == 1 or A.stride(-2) == 1, "takes a stride of 1"
    calls.append((A, B, out, tuned))
    out.copy_(A @ B)
"""


@pytest.fixture
def installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[str, str], types.ModuleType]]:
    """Makes a module of this text, in the place of a package that is installed."""
    monkeypatch.syspath_prepend(tmp_path)
    roots: set[str] = set()
    there: dict[str, types.ModuleType] = {}

    def install(path: str, text: str) -> types.ModuleType:
        *folders, name = path.split(".")
        folder = tmp_path.joinpath(*folders)
        folder.mkdir(parents=True, exist_ok=True)
        (tmp_path / folders[0] / "__init__.py").touch()
        (folder / f"{name}.py").write_text(text)
        if folders[0] not in roots:
            roots.add(folders[0])
            there.update({n: sys.modules.pop(n) for n in list(sys.modules) if is_of(n, roots)})
        return importlib.import_module(path)

    yield install
    for name in [name for name in sys.modules if is_of(name, roots)]:
        del sys.modules[name]
    sys.modules.update(there)


def is_of(name: str, roots: Collection[str]) -> bool:
    return name.partition(".")[0] in roots


@pytest.fixture
def quack_calls(installed: Callable[[str, str], types.ModuleType]) -> list[Any]:
    """What a package called as QuACK is, which has its matrix product, was called with."""
    return installed("quack.gemm_interface", QUACK).calls


def product(layout: str, dtype: torch.dtype = torch.bfloat16) -> list[torch.Tensor]:
    """a, b and c of a product of [2, 3] and [3, 4], stored as the layout says."""
    a, b = torch.randn(2, 3).to(dtype), torch.randn(3, 4).to(dtype)
    a = a.t().contiguous() if layout[0] == "t" else a
    b = b.t().contiguous() if layout[1] == "t" else b
    return [a, b, torch.zeros(2, 4, dtype=dtype)]


def call(peer: _measure._Peer, name: str, tensors: Sequence[Any], *attributes: Any) -> None:
    handed = [None if t is None else tvm_ffi.from_dlpack(t) for t in tensors]
    peer(OPERATIONS[name].id, json.dumps(attributes), handed, 0)


@pytest.mark.parametrize("layout", ["nn", "nt", "tn", "tt"])
@pytest.mark.parametrize("name", ["quack", "quack_tuned"])
def test_quack_multiplies_every_layout(quack_calls: list[Any], name: str, layout: str) -> None:
    tensors = product(layout)
    call(_measure._Peer(name), "gemm", tensors, layout, "ieee")
    ((a, b, out, tuned),) = quack_calls
    assert (a.shape, b.shape) == ((2, 3), (3, 4))
    assert a.data_ptr() == tensors[0].data_ptr(), "a view, no copy"
    assert out.data_ptr() == tensors[2].data_ptr(), "no allocation is timed"
    assert tuned == (name == "quack_tuned")
    assert torch.equal(tensors[2], a @ b)


def test_quack_multiplies_a_batch(quack_calls: list[Any]) -> None:
    a, b = torch.randn(5, 2, 3).half(), torch.randn(5, 4, 3).half().transpose(1, 2)
    c = torch.zeros(5, 2, 4).half()
    call(_measure._Peer("quack_tuned"), "bmm", [a, b, c], None, "ieee")
    assert torch.equal(c, a @ b)
    assert quack_calls[0][3]


FLASH_ATTN = """
calls = []
def flash_attn_func(q, k, v, **keywords):
    calls.append((q, k, v, keywords))
def flash_attn_varlen_func(q, k, v, **keywords):
    calls.append((q, k, v, keywords))
"""


def test_flash_attention_reads_rows_where_they_lie(
    installed: Callable[[str, str], types.ModuleType],
) -> None:
    calls = installed("flash_attn.cute.interface", FLASH_ATTN).calls
    peer = _measure._Peer("fa4")
    heads = [torch.randn(2, 3, 4, 8).half() for _ in range(4)]
    causal = (True, -1, -1, None, 0.0)
    call(peer, "attention", [*heads[:3], None, None, None, heads[3], None], *causal, False)
    starts = torch.tensor([0, 3, 4], dtype=torch.int32)
    rows = [torch.randn(4, 3, 8).half() for _ in range(4)]
    packed = [*rows[:3], starts, starts, *[None] * 6, rows[3], None]
    call(peer, "attention_varlen", packed, *causal, None, False)
    dense, (q, _, _, keywords) = calls
    assert dense[0].shape == (2, 4, 3, 8)
    assert dense[0].data_ptr() == heads[0].data_ptr()
    assert dense[3]["causal"]
    assert dense[3]["window_size"] == (None, None)
    assert q.data_ptr() == rows[0].data_ptr()
    assert (keywords["max_seqlen_q"], keywords["max_seqlen_k"]) == (3, 3)
    with pytest.raises(ValueError, match="takes no bias"):
        bias = torch.zeros(4, 4).half()
        call(peer, "attention", [*heads[:3], bias, None, None, heads[3], None], *causal, False)


QUACK_ROTARY = """
import torch
calls = []
def apply_rotary(x, cos, sin, seqlen_offsets=None, cu_seqlens=None, max_seqlen=None,
                 interleaved=False, inplace=False, conjugate=False):
    assert x.dim() == 4 and cos.dim() == 2 and cos.shape[0] >= x.shape[1]
    calls.append((x, interleaved, conjugate))
    return torch.empty_like(x)
"""
LIGER_ROPE = """
calls = []
def rope_forward(q, k, cos, sin, position_ids=None, unsqueeze_dim=1, rotary_dim=None):
    calls.append(("forward", q, k, rotary_dim))
def rope_backward(q, k, cos, sin, position_ids=None, unsqueeze_dim=1, rotary_dim=None):
    calls.append(("backward", q, k, rotary_dim))
"""
# Of queries or keys [2, 5, H, 8], and what is said of pairs: neighbours, inverse, heads first.
HALVES, BACK, NEIGHBOURS_HEADS_FIRST = (
    (False, False, False, None, 1e4),
    (False, True, False, None, 1e4),
    (True, False, True, None, 1e4),
)


def heads(count: int, *shape: int) -> torch.Tensor:
    return torch.randn(*(shape or (2, 5)), count, 8).half()


def test_quack_turns_queries_and_keys_where_they_lie(
    installed: Callable[[str, str], types.ModuleType],
) -> None:
    calls = installed("quack.rotary", QUACK_ROTARY).calls
    peer, table = _measure._Peer("quack"), torch.randn(6, 4)
    q, k = heads(4), heads(2)
    call(peer, "rope_qk", [q, k, table, table, None, q.clone(), k.clone()], *BACK)
    assert [x.data_ptr() for x, *_ in calls] == [q.data_ptr(), k.data_ptr()]
    assert calls.pop()[1:] == (False, True)
    call(peer, "rope", [q.transpose(1, 2), table, table, None, q], *NEIGHBOURS_HEADS_FIRST)
    x, *how = calls.pop()
    assert (x.data_ptr(), x.stride(), how) == (q.data_ptr(), q.stride(), [True, False])
    call(peer, "rope", [heads(3, 5), table, table, None, heads(3, 5)], *HALVES)
    assert calls.pop()[0].shape == (1, 5, 3, 8)
    one = torch.zeros(5, dtype=torch.int64)
    for tables in ([None, None, None], [table, table, one], [table[None, :, None]] * 2 + [None]):
        with pytest.raises(ValueError, match=r"takes tables of \[T, columns\], and the positions"):
            call(peer, "rope", [q, *tables, q], *HALVES)


def test_liger_turns_the_outputs_in_place(
    installed: Callable[[str, str], types.ModuleType],
) -> None:
    calls = installed("liger_kernel.ops.rope", LIGER_ROPE).calls
    peer, table, narrow = _measure._Peer("liger"), torch.randn(6, 4), torch.randn(6, 2)
    q, k, q_out, k_out = heads(4), heads(2), heads(4), heads(2)
    for how, name in ((HALVES, "forward"), (BACK, "backward")):
        call(peer, "rope_qk", [q, k, table, table, None, q_out, k_out], *how)
        which, *turned, columns = calls.pop()
        assert (which, columns) == (name, 8)
        for got, want in zip(turned, (q_out, k_out), strict=True):
            assert got.data_ptr() == want.data_ptr(), "no input is changed"
            assert got.transpose(1, 2).is_contiguous(), "or it would be copied"
    positions, first = torch.zeros(5, dtype=torch.int64), heads(4).transpose(1, 2)
    for reason, tensors, how in (
        ("takes halves", [q, k, table, table, positions, q_out, k_out], HALVES),
        ("takes halves", [q, k, None, None, None, q_out, k_out], HALVES),
        ("takes halves", [q, k, table, table, None, q_out, k_out], NEIGHBOURS_HEADS_FIRST),
        ("leaves there", [q, k, narrow, narrow, None, q_out, k_out], HALVES),
        ("copies first", [q, k, table, table, None, first, first], HALVES),
    ):
        with pytest.raises(ValueError, match=reason):
            call(peer, "rope_qk", tensors, *how)
    with pytest.raises(ValueError, match="rope has no peer 'liger'"):
        call(peer, "rope", [q, table, table, None, q_out], *HALVES)
    assert not calls


def test_torch_attends_by_its_own_function(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    functional = torch.nn.functional
    monkeypatch.setattr(functional, "scaled_dot_product_attention", lambda *x, **y: calls.append(y))
    peer = _measure._Peer("torch")
    q, k = torch.randn(1, 4, 5, 8), torch.randn(1, 2, 5, 8)
    tensors = [q, k, k, None, None, None, q, None]
    call(peer, "attention", tensors, True, -1, -1, None, 0.0, False)
    assert calls == [{"attn_mask": None, "is_causal": True, "scale": None, "enable_gqa": True}]
    call(peer, "attention", tensors, False, 2, -1, None, 1.5, False)  # by the formula
    assert len(calls) == 1


def test_what_a_package_cannot_do_is_a_reason_and_no_crash(quack_calls: list[Any]) -> None:
    peer = _measure._Peer("quack_tuned")
    with pytest.raises(ValueError, match="f32 would be multiplied as TF32"):
        call(peer, "gemm", product("nn", torch.float32), "nn", "ieee")
    gaps = torch.zeros(5, 4, 6).half()[:, ::2, ::2]
    with pytest.raises(ValueError, match="AssertionError: takes a stride of 1"):
        call(peer, "bmm", [gaps, gaps.mT, torch.zeros(5, 2, 2).half()], None, "ieee")
    assert not quack_calls
    call(peer, "gemm", product("nn"), "nn", "ieee")  # the next problem is none the worse
    assert quack_calls


def test_torch_must_not_fail() -> None:
    with pytest.raises(RuntimeError):
        call(_measure._Peer("torch"), "gemm", [torch.zeros(2, 3)] * 3, "nn", "ieee")


def test_what_torch_makes_no_graph_of_is_a_skip(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SOFTMAX.python_peers, "torch", "torch._dynamo.graph_break()")
    values, tensors = arguments()
    with pytest.raises(ValueError, match=r"torch.compile makes no one graph"):
        _measure._Peer("compile")(SOFTMAX.id, values, tensors, 0)


def test_each_problem_is_compiled_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of one function torch compiles eight variants, and a bench has more problems."""
    told: list[str] = []
    defaults = [attribute.default for attribute in SOFTMAX.attributes]
    monkeypatch.setattr(torch._dynamo, "reset", lambda: told.append("reset"))
    monkeypatch.setattr(torch, "compile", lambda function, **_: told.append("compile") or function)
    peer = _measure._Peer("compile")
    for rows in range(1, 10):
        for dtype in (torch.float32, torch.float16):
            x = torch.zeros(rows, 3, dtype=dtype)
            for _ in range(2):
                call(peer, "softmax", [x, torch.empty_like(x)], *defaults)
    assert told == ["reset", "compile"] * 18


def test_the_table_says_which_variant_and_what_was_timed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    times = {"verdict": "passed", "median_us": 2.0, "rate": 1e12, "of_ceiling": 0.5}
    peer = {"name": "cublasLt", "role": "peer", "variant": 3, "variants": 8, **times}
    group = {"problem": "gemm f16", "mode": "sustained", "bound": "compute"}
    group |= {"ceiling_name": "data sheet", "measurements": [peer]}
    _measure._print_table(group)
    printed = capsys.readouterr().out
    assert printed.startswith("gemm f16, sustained: % of data sheet\n")
    assert "cublasLt (3 of 8)" in printed


def test_a_package_that_is_not_there_is_told_before_anything_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(SOFTMAX.python_peers, "far", "a_package_of_nobody.softmax(x)")
    with pytest.raises(ValueError, match=r"'far' needs a_package_of_nobody, which is not inst"):
        warpsmith.bench("softmax", peers=["far"])
    with pytest.raises(ValueError, match=r"peers are 'torch', 'compile'.*, not 'nothing'"):
        warpsmith.bench("softmax", peers=["nothing"])


def test_the_loop_gets_peers_their_versions_and_whom_to_tell(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    handed: list[Any] = []

    def loop(text: str, peers: list[str], functions: list[Any], stream: int, tell: Any) -> str:
        handed.append((json.loads(text), peers, len(functions), stream))
        if tell is not None:
            tell("one problem")
        return "all problems"

    library = types.SimpleNamespace(bench=loop)
    monkeypatch.setattr(_measure, "MODULES", {"emulated": library})
    told: list[str] = []
    version = importlib.metadata.version("torch")
    options = {"names": ["softmax"], "min_runs": 2, "packages": {"torch": version}}
    for done in (None, told.append):
        text = _measure._bench_text("softmax", peers=["torch"], done=done, min_runs=2)
        assert text == "all problems"
        assert handed.pop() == (options, ["torch"], 1, 0)
    assert told == ["one problem"]
    _measure._bench_text("softmax", peers=[])
    assert handed == [({"names": ["softmax"]}, [], 0, 0)]


def test_a_problem_is_taken_by_its_text() -> None:
    shapes = [[1, 64], [2, 64]]
    report = warpsmith.verify("relu/scalar", dtypes=["f32"], shapes=shapes, problems=["[2, 64]"])
    assert [result["problem"] for result in report["results"]] == ["relu f32 [2, 64]"]


def test_a_table_of_pieces_is_lists_of_tensors_to_a_peer() -> None:
    memory = torch.arange(12)
    pieces = torch.tensor([[0, 4, 2], [2, 8, 3]])
    lists = _expressions.tensors_of(memory, pieces)
    told = [[tensor.tolist() for tensor in column] for column in lists]
    assert told == [[[0, 1], [2, 3, 4]], [[4, 5], [8, 9, 10]]]
    assert lists[0][0].data_ptr() == memory.data_ptr()
    assert _expressions.tensors_of(memory, pieces) is lists
