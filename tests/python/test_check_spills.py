"""tools/check_spills.py reads cuobjdump's listing and tells an allowed spill from a wrong one."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))
import check_spills
from check_spills import Kernel, cubins, parse, spilling

WARP_PER_ROW = "ws::softmax::WarpPerRow<float, 4>"
NAME = f"void ws::detail::entry<{WARP_PER_ROW} >({WARP_PER_ROW}::Arguments)"
SPILLING = Kernel(NAME, "sm_90a", 32)

LISTING = f"""
member build/libwarpsmith_core.a:softmax.cu.o:

Fatbin elf code:
================
arch = sm_80
code version = [1,8]
host = linux

Resource usage:
 Common:
  GLOBAL:0
 Function {NAME}:
  REG:8 STACK:0 SHARED:0 LOCAL:0 CONSTANT[0]:360 TEXTURE:0 SURFACE:0 SAMPLER:0

Fatbin elf code:
================
arch = sm_90a

Resource usage:
 Common:
  GLOBAL:0
 Function {NAME}:
  REG:255 STACK:32 SHARED:0 LOCAL:0 CONSTANT[0]:536 TEXTURE:0 SURFACE:0 SAMPLER:0
"""


def rung(name: str, may_spill: bool, family: str = "softmax", file: str = "") -> dict:
    return {"family": family, "name": name, "may_spill": may_spill, "file": file}


def test_parse():
    assert list(parse(LISTING)) == [Kernel(NAME, "sm_80", 0), SPILLING]


def test_a_spill_is_caught():
    assert spilling(list(parse(LISTING)), [rung("warp_per_row", False)]) == [SPILLING]


def test_a_row_may_allow_it():
    assert spilling([SPILLING], [rung("warp_per_row", True)]) == []


def test_a_struct_may_end_in_kernel():
    spill = Kernel(NAME.replace("WarpPerRow", "WarpPerRowKernel"), "sm_90a", 32)
    assert spilling([spill], [rung("warp_per_row", True)]) == []


def test_a_struct_may_be_hidden_in_a_unit():
    hidden = NAME.replace("softmax::", "softmax::(anonymous namespace)::")
    assert spilling([Kernel(hidden, "sm_90a", 32)], [rung("warp_per_row", True)]) == []


def test_a_row_without_a_file():
    row = {"family": "softmax", "name": "warp_per_row", "may_spill": True}
    assert spilling([SPILLING], [row]) == []


def test_rows_that_share_a_template():
    row = rung("row_x4", True, file="02_warp_per_row.cuh")
    assert spilling([SPILLING], [row]) == []
    assert spilling([SPILLING], [row | {"file": "02_warp_per_row.cu"}]) == []


def test_a_cubin_that_no_build_makes_is_not_read(tmp_path):
    folder = Path("CMakeFiles/kernels_sm_90a.dir/kernels/gemm")
    (tmp_path / folder).mkdir(parents=True)
    for name in ("01_naive.cubin", "02_gone.cubin"):
        (tmp_path / folder / name).touch()
    (tmp_path / "build.ninja").write_text(
        f"build {folder}/01_naive.cubin: CUDA kernels/gemm/01_naive.cu\n"
        f"build kernels_sm_90a: phony {folder}/01_naive.cubin\n"
    )
    assert cubins(tmp_path) == [("sm_90a", tmp_path / folder / "01_naive.cubin")]


def test_what_is_not_made_yet_is_told(tmp_path, monkeypatch, capsys):
    folder = Path("CMakeFiles/kernels_sm_90a.dir")
    (tmp_path / folder).mkdir(parents=True)
    (tmp_path / folder / "01_naive.cubin").touch()
    names = f"{folder}/01_naive.cubin {folder}/02_later.cubin"
    (tmp_path / "build.ninja").write_text(f"build kernels_sm_90a: phony {names}\n")
    monkeypatch.setattr(check_spills, "cuobjdump", lambda: Path("cuobjdump"))
    monkeypatch.setattr(check_spills, "output_of", lambda *command: f"{command[-1].name}\n")
    assert [*check_spills.listings(tmp_path)] == ["arch = sm_90a\n", "01_naive.cubin\n"]
    assert "1 of 2 cubins are not there" in capsys.readouterr().out


def test_a_vendors_kernel_may_spill():
    kernel = Kernel("void cub::detail::reduce::Kernel<float>(ws::half*)", "sm_90a", 32)
    assert spilling([kernel], []) == []


def test_another_row_allows_nothing():
    others = [
        rung("warp", True),
        rung("block_per_row", True),
        rung("warp_per_row", True, family="norm"),
    ]
    assert spilling([SPILLING], others) == [SPILLING]


def test_a_kernel_of_no_row_is_caught():
    assert spilling([Kernel("stray", "sm_80", 8)], [rung("warp_per_row", True)])
