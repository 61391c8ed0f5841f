"""Warpsmith as C++ programs have it: installed, as part of another build, and a kernel taken out.

Of build/emulated nothing is built here; it is installed, and the examples with it.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from warpsmith._catalogue import OPERATIONS

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "emulated"
TOOLS = Path(sys.executable).parent  # CMake and Ninja
NVCC = shutil.which(
    "nvcc", path=f"{os.environ.get('CUDA_HOME', '')}/bin:{os.environ['PATH']}:/usr/local/cuda/bin"
)
OUTPUT = """\
0.090 0.245 0.665
0.333 0.333 0.333
rows add up to 1.000 and 1.000
softmax: output 'out' is f32 [3, 2], but the result is f32 [2, 3]
"""

pytestmark = pytest.mark.skipif(
    not (BUILD / "include/warpsmith/operations.hpp").exists(),
    reason="`make build/emulated` has not built the library",
)


def run(*command: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


def run_well(*command: str | Path) -> str:
    result = run(*command)
    assert result.returncode == 0, f"{result.stdout}\n{result.stderr}"
    return result.stdout


def configure(source: Path, build: Path, *definitions: str) -> subprocess.CompletedProcess[str]:
    ninja = f"-DCMAKE_MAKE_PROGRAM={TOOLS / 'ninja'}"
    return run(TOOLS / "cmake", "-G", "Ninja", ninja, "-S", source, "-B", build, *definitions)


@pytest.fixture(scope="module")
def prefix(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """An installed package, which has been moved since."""
    folder = tmp_path_factory.mktemp("prefix")
    install = [TOOLS / "cmake", "--install", BUILD, "--component", "cpp", "--strip"]
    run_well(*install, "--prefix", folder / "first")
    yield (folder / "first").rename(folder / "second")
    shutil.rmtree(folder)  # the library is large


def test_installed(prefix: Path, tmp_path: Path) -> None:
    made = configure(ROOT / "examples/cpp", tmp_path, f"-DCMAKE_PREFIX_PATH={prefix}")
    assert made.returncode == 0, made.stderr
    run_well(TOOLS / "cmake", "--build", tmp_path)
    assert run_well(tmp_path / "softmax") == OUTPUT


def test_as_part_of_another_build(tmp_path: Path) -> None:
    """By FetchContent; what it would build is not built, which takes minutes."""
    include = re.search(r"^DLPACK_INCLUDE:PATH=(.*)$", (BUILD / "CMakeCache.txt").read_text(), re.M)
    assert include
    unneeded = ["CLI11", "GTest", "tvm_ffi", "Python"]
    made = configure(
        ROOT / "examples/cpp",
        tmp_path,
        "-DFETCHCONTENT_TRY_FIND_PACKAGE_MODE=NEVER",
        f"-DDLPACK_INCLUDE={include[1]}",
        *(f"-DCMAKE_DISABLE_FIND_PACKAGE_{name}=ON" for name in unneeded),
    )
    assert made.returncode == 0, made.stderr
    plan = run_well(TOOLS / "ninja", "-C", tmp_path, "-t", "commands", "softmax")
    assert "kernels/softmax/softmax.cu" in plan
    assert plan.index("operations_header ") < plan.index("examples/cpp/softmax.cpp")
    for part in ["cli", "tests", "ffi.cpp"]:
        assert f"{ROOT}/{part}" not in plan


PROJECT = """\
cmake_minimum_required(VERSION 3.28)
project(both LANGUAGES CXX)
find_package(warpsmith REQUIRED COMPONENTS {components})
add_library(warpsmith::cuda INTERFACE IMPORTED)  # as an installed CUDA build has it
set_target_properties(warpsmith::cuda PROPERTIES INTERFACE_WARPSMITH_DEVICE cuda)
add_executable(both {source})
target_link_libraries(both PRIVATE warpsmith::emulated warpsmith::cuda)
"""


@pytest.mark.parametrize(
    ("components", "error"),
    [("emulated", "_DEVICE"), ("cuda", "there is no warpsmith::cuda here")],
)
def test_what_cmake_refuses(prefix: Path, tmp_path: Path, components: str, error: str) -> None:
    source = ROOT / "examples/cpp/softmax.cpp"
    project = tmp_path / "CMakeLists.txt"
    project.write_text(PROJECT.format(components=components, source=source))
    made = configure(tmp_path, tmp_path / "build", f"-DCMAKE_PREFIX_PATH={prefix}")
    assert made.returncode != 0
    assert error in made.stderr


def test_every_operation_is_a_function(prefix: Path) -> None:
    header = (prefix / "include/warpsmith/operations.hpp").read_text()
    assert set(re.findall(r"^inline void (\w+)\(", header, re.M)) == set(OPERATIONS)


CALL = """\
#include "warpsmith/operations.hpp"
void call(const warpsmith::Tensor& x, const warpsmith::Tensor& y) {{
  {call}
}}
"""


def compile_call(prefix: Path, folder: Path, call: str) -> subprocess.CompletedProcess[str]:
    source = folder / "call.cpp"
    source.write_text(CALL.format(call=call))
    include = ["-I", prefix / "include", "-isystem", prefix / "include/warpsmith/third_party"]
    warnings = ["-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Werror"]
    compiler = os.environ.get("CXX", "c++")
    return run(compiler, "-std=c++20", "-fsyntax-only", *warnings, *include, source)


@pytest.mark.parametrize(
    ("call", "error"),
    [
        ('warpsmith::gelu(x, y, {.approximate = "tanh"}, nullptr);', ""),
        ('warpsmith::gelu(x, y, {.approximate = "tahn"});', "Choice"),
        ("warpsmith::topk(x, y, y, {.dim = 0});", "TopkOptions"),
    ],
)
def test_what_the_compiler_takes(prefix: Path, tmp_path: Path, call: str, error: str) -> None:
    result = compile_call(prefix, tmp_path, call)
    assert (result.returncode != 0) == bool(error), result.stderr
    assert error in result.stderr


# ---- A kernel taken out --------------------------------------------------------------------------


def kernel_of(path: Path) -> str:
    match = re.search(
        r"^template <class T>\nstruct OnlineKernel \{.*?^\};$", path.read_text(), re.M | re.S
    )
    assert match
    return match[0]


def test_the_lifted_kernel_is_the_rungs() -> None:
    assert kernel_of(ROOT / "examples/lift/online.cuh") == kernel_of(
        ROOT / "kernels/softmax/03_online.cuh"
    )


@pytest.fixture(scope="module")
def lifted(prefix: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example's program, made of its two files and the installed headers alone."""
    if NVCC is None:
        pytest.skip("no nvcc here")
    program = tmp_path_factory.mktemp("lift") / "softmax"
    options = ["-std=c++20", "--expt-relaxed-constexpr", "-arch=sm_80", "-I", prefix / "include"]
    run_well(NVCC, *options, ROOT / "examples/lift/softmax.cu", "-o", program)
    return program


@pytest.mark.skipif(NVCC is None, reason="no nvcc here")
def test_a_rungs_file_can_be_included_where_it_stands(tmp_path: Path) -> None:
    source = tmp_path / "included.cu"
    files = ["transpose/07_shared.cuh", "attention/03_online.cuh", "gemm/33_wgmma_persistent.cuh"]
    includes = "".join(f'#include "kernels/{file}"\n' for file in files)
    source.write_text(f'#include "warpsmith/standalone.hpp"\n{includes}int main() {{}}\n')
    options = ["-std=c++20", "--expt-relaxed-constexpr", "-arch=sm_90a", "-w"]
    run_well(NVCC, *options, "-I", ROOT, "-I", ROOT / "include", source, "-o", tmp_path / "a.out")


def test_the_lifted_kernel_links(lifted: Path) -> None:
    assert lifted.exists()


@pytest.mark.cuda
def test_the_lifted_kernel_runs(lifted: Path) -> None:
    assert run_well(lifted) == "0.090 0.245 0.665: no error\n"
