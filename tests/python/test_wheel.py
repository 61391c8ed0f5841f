"""What pip and `make setup` say and make; `make wheel-check` builds a wheel and calls it."""

import ctypes
import os
import platform
import shutil
import subprocess
import sys
import tomllib
import zipfile
from email.message import Message
from email.parser import HeaderParser
from pathlib import Path

import pytest
import scikit_build_core.build as backend
import wheels

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
CONFIGURE = [
    *(str(BIN / "cmake"), "-G", "Ninja", f"-DCMAKE_MAKE_PROGRAM={BIN / 'ninja'}"),
    *(f"-DPython_EXECUTABLE={sys.executable}", "-DSKBUILD=2", "-DWS_WHEEL_CUDA=OFF"),
]


def configure(
    source: Path, build: Path, *options: str, **environment: str
) -> subprocess.CompletedProcess[str]:
    """As pip does by way of pyproject.toml."""
    return subprocess.run(
        [*CONFIGURE, *options, "-S", str(source), "-B", str(build)],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
    )


def said(result: subprocess.CompletedProcess[str]) -> str:
    """The one error, without CMake's line breaks."""
    assert result.returncode != 0
    assert result.stderr.count("CMake Error") == 1, result.stderr
    return " ".join(result.stderr.split())


@pytest.fixture
def apt_get(tmp_path: Path) -> str:
    """A PATH with apt-get first, on whatever distribution this is."""
    folder = tmp_path / "apt"
    folder.mkdir()
    (folder / "apt-get").write_text("#!/bin/sh\n")
    (folder / "apt-get").chmod(0o755)
    return f"{folder}:{os.environ['PATH']}"


def test_says_all_libraries_that_are_missing(tmp_path: Path, apt_get: str) -> None:
    missing = ("fmt", "nlohmann_json", "Boost", "CLI11")
    options = [f"-DCMAKE_DISABLE_FIND_PACKAGE_{name}=ON" for name in missing]
    text = said(configure(ROOT, tmp_path / "build", *options, PATH=apt_get))
    assert "needs what is not found here: fmt, nlohmann JSON, Boost.Context (static). " in text
    assert "apt-get install libfmt-dev nlohmann-json3-dev libboost-context-dev " in text


def test_says_that_the_program_needs_cli11(tmp_path: Path, apt_get: str) -> None:
    options = ["-DSKBUILD=OFF", "-DCMAKE_DISABLE_FIND_PACKAGE_CLI11=ON"]
    text = said(configure(ROOT, tmp_path / "build", *options, PATH=apt_get))
    assert "not found here: CLI11. " in text
    assert "apt-get install libcli11-dev " in text


def test_says_what_else_is_needed_where_there_is_no_compiler(tmp_path: Path, apt_get: str) -> None:
    """Nor any of the places where CMake looks for one."""
    options = ["-DCMAKE_CXX_COMPILER_NAMES=none", "-DCMAKE_FIND_USE_CMAKE_SYSTEM_PATH=OFF"]
    folder = apt_get.partition(":")[0]
    text = said(configure(ROOT, tmp_path / "build", *options, PATH=folder, CXX=""))
    assert "not found here: a C++20 compiler, fmt, nlohmann JSON, Boost.Context (static). " in text
    assert "apt-get install g++ libfmt-dev nlohmann-json3-dev libboost-context-dev " in text
    found = ["-UCMAKE_CXX_COMPILER_NAMES", "-UCMAKE_FIND_USE_CMAKE_SYSTEM_PATH"]
    result = configure(ROOT, tmp_path / "build", *found)
    assert result.returncode == 0, result.stderr


def sources_of_the_library(build: Path, root: Path) -> set[Path]:
    """What is compiled of the catalogue, relative to the checkout."""
    queried = subprocess.run(
        [str(BIN / "ninja"), "-C", str(build), "-t", "inputs", "python_libraries"],
        capture_output=True,
        text=True,
        check=True,
    )
    files = (Path(line) for line in queried.stdout.splitlines())
    return {file.relative_to(root) for file in files if file.is_relative_to(root)}


def test_source_distribution_has_all_that_a_build_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    name = backend.build_sdist(str(tmp_path))
    shutil.unpack_archive(tmp_path / name, tmp_path)
    unpacked = tmp_path / name.removesuffix(".tar.gz")
    listed = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    tracked = [file for file in listed.stdout.splitlines() if (ROOT / file).exists()]
    assert not [file for file in tracked if not (unpacked / file).exists()]
    assert not [x.name for x in unpacked.iterdir() if x.name in {"build", "dist", ".venv", ".git"}]
    result = configure(unpacked, tmp_path / "build", "-DWS_MANYLINUX=ON")
    assert result.returncode == 0, result.stderr
    sources = sources_of_the_library(tmp_path / "build", unpacked)
    assert {Path("kernels/softmax/softmax.cu"), Path("cmake/manylinux/older.S")} <= sources
    assert not [file for file in sources if file.parts[0] == "tests"]


@pytest.fixture(scope="module")
def metadata(tmp_path_factory: pytest.TempPathFactory) -> Message:
    folder = tmp_path_factory.mktemp("metadata")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        name = backend.prepare_metadata_for_build_wheel(str(folder))
    return HeaderParser().parsestr((folder / name / "METADATA").read_text())


def test_metadata(metadata: Message) -> None:
    assert metadata["Author"]
    assert "gpu" in metadata["Keywords"].split(",")
    assert "Operating System :: POSIX :: Linux" in metadata.get_all("Classifier")
    required = [one for one in metadata.get_all("Requires-Dist") if "extra ==" not in one]
    assert [one.partition("=")[0] for one in required] == ["apache-tvm-ffi", "numpy"]


def test_extras(metadata: Message) -> None:
    assert set(metadata.get_all("Provides-Extra")) == {"test", "torch"}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lines = (ROOT / "requirements" / "test.txt").read_text().splitlines()
    pinned = {line.partition("==")[0] for line in lines if not line.startswith("#")}
    extra = {one.partition(">")[0] for one in project["optional-dependencies"]["test"]}
    assert extra == pinned


def test_wheels_are_for_every_target() -> None:
    targets = wheels.cuda_targets().split(";")
    assert {"80-real", "86-real", "89-real", "90a-real"} < set(targets)
    assert [one for one in targets if one.endswith("-virtual")]  # PTX


CALLS = """
#include <dlfcn.h>
#include <semaphore.h>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <thread>

bool tells = false;
struct Constructed {
  std::string text = "constructed";
  ~Constructed() { if (tells) std::puts("destroyed"); }
} constructed;
volatile double two = 2;

extern "C" __attribute__((visibility("default"))) int calls(const char* file) {
  std::mutex mutex;
  std::condition_variable changed;
  std::unique_lock lock(mutex);
  bool is_done = false;
  const auto before = std::chrono::steady_clock::now();
  const bool early = changed.wait_for(lock, std::chrono::milliseconds(30), [&] { return is_done; });
  if (early || std::chrono::steady_clock::now() - before < std::chrono::milliseconds(30)) return 1;
  std::thread other([&] { std::lock_guard held(mutex); is_done = true; changed.notify_one(); });
  if (!changed.wait_for(lock, std::chrono::minutes(1), [&] { return is_done; })) return 2;
  lock.unlock();
  other.join();
  if (std::pow(two, two) != 4 || std::exp2(two) != 4 || std::log2(two) != 1) return 3;
  if (std::exp(two) < 7 || std::log(two) > 1 || std::fmod(two, 2.0) != 0) return 4;
  if (dlsym(dlopen(nullptr, RTLD_NOW), "malloc") == nullptr) return 5;
  if (std::filesystem::file_size(file) == 0 || !std::filesystem::is_symlink(file)) return 6;
  if (std::strtol("42", nullptr, 10) != 42 || constructed.text != "constructed") return 7;
  std::shared_mutex shared;
  std::shared_lock reads(shared);
  sem_t semaphore;
  return sem_init(&semaphore, 0, 1) + sem_wait(&semaphore) + sem_destroy(&semaphore);
}

int main(int count, char** arguments) {
  tells = true;
  return count == 2 ? calls(arguments[1]) : 8;
}
"""
LINKED = """
cmake_minimum_required(VERSION 4.0)
project(linked LANGUAGES CXX)
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
find_package(Threads REQUIRED)
include("{}/cmake/manylinux/manylinux.cmake")
add_library(calls OBJECT calls.cpp)
add_executable(program)
add_library(library SHARED)
foreach(target program library)
  link_for_manylinux(${{target}})
  target_link_libraries(${{target}} PRIVATE calls Threads::Threads ${{CMAKE_DL_LIBS}})
endforeach()
"""


@pytest.mark.skipif(platform.machine() != "x86_64", reason="wheels are for x86-64")
def test_links_to_glibc_2_28_whichever_is_here(tmp_path: Path) -> None:
    (tmp_path / "calls.cpp").write_text(CALLS)
    (tmp_path / "CMakeLists.txt").write_text(LINKED.format(ROOT))
    build = tmp_path / "build"
    for command in (
        [BIN / "cmake", "-G", "Ninja", f"-DCMAKE_MAKE_PROGRAM={BIN / 'ninja'}", "-B", build],
        [BIN / "cmake", "--build", build],
    ):
        made = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
        assert made.returncode == 0, made.stdout + made.stderr
    library = build / "liblibrary.so"
    assert wheels.newer_symbols(build / "program") == wheels.newer_symbols(library) == []
    link = tmp_path / "link"
    link.symlink_to(build / "program")
    result = subprocess.run([build / "program", link], capture_output=True, text=True)
    assert (result.returncode, result.stdout) == (0, "destroyed\n")
    assert ctypes.CDLL(str(library)).calls(os.fsencode(link)) == 0


TABLE = """
0000000000000000      DF *UND*  0000000000000000 (GLIBC_2.2.5) free
0000000000000000      DF *UND*  0000000000000000 (GLIBC_2.34) dlopen
0000000000000000  w   DF *UND*  0000000000000000 (GLIBC_2.28) fcntl64
0000000000000000      DF *UND*  0000000000000000 (CXXABI_1.3.9) _ZdlPvm
000000000066f0a0 g    DO .bss   0000000000000001  GLIBC_2.32  __libc_single_threaded
"""


def test_refuses_a_wheel_that_asks_for_a_newer_glibc(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wheels, "UNPACKED", tmp_path)
    monkeypatch.setattr(wheels, "run", lambda *command: TABLE)
    made = tmp_path / "made.whl"
    with zipfile.ZipFile(made, "w") as wheel:
        wheel.writestr("warpsmith/__init__.py", "")
        wheel.writestr("warpsmith/_emulated/libwarpsmith.so", b"\x7fELF")
    with pytest.raises(SystemExit) as refused:
        wheels.refuse_newer_glibc(made)
    said = (
        "_emulated/libwarpsmith.so asks for __libc_single_threaded@GLIBC_2.32, dlopen@GLIBC_2.34;"
    )
    assert said in str(refused.value)


def test_a_wheel_is_compiled_as_make_has_compiled_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whose warnings are none then; of another compiler's none is an error."""
    monkeypatch.setattr(wheels, "ROOT", tmp_path)
    names = ("CMAKE_COMPILE_WARNING_AS_ERROR", "WS_UNITED")
    assert wheels.compiled_as_here() == dict(zip(names, ("OFF", "ON"), strict=True))
    build = tmp_path / "build" / "emulated"
    build.mkdir(parents=True)
    (build / "CMakeCache.txt").write_text(f"{names[0]}:UNINITIALIZED=ON\n{names[1]}:BOOL=OFF\n")
    assert wheels.compiled_as_here() == dict(zip(names, ("OFF", "ON"), strict=True))
    (build / "libwarpsmith.so").touch()
    assert wheels.compiled_as_here() == dict(zip(names, ("ON", "OFF"), strict=True))


# ---- tools/setup ---------------------------------------------------------------------------------


def offline_checkout(folder: Path, apt_get_exits: int) -> dict[str, str]:
    """A checkout on a machine without fmt and without a network: its environment."""
    for name in ("tools/setup", "requirements/uv.txt", "requirements/build.txt"):
        (folder / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    programs = {
        "stubs/apt-get": f"seq -f 'line %g of apt-get' 370; exit {apt_get_exits}",
        "stubs/dpkg-query": 'for name; do :; done; [ "$name" = libfmt-dev ] || echo installed',
        "stubs/sudo": '"$@"',
        "stubs/g++": "",
        "stubs/ccache": "",
        ".venv/bin/python": "echo 'WARNING: Retrying' >&2; echo 'ERROR: No matching'; exit 1",
    }
    for name, text in programs.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"#!/bin/sh\n{text}\n")
        (folder / name).chmod(0o755)
    return {**os.environ, "PATH": f"{folder / 'stubs'}:{os.environ['PATH']}"}


@pytest.mark.parametrize(("apt_get_exits", "last"), [(100, "apt-get"), (0, "ERROR: No matching")])
def test_setup_says_in_one_line_what_is_missing(
    tmp_path: Path, apt_get_exits: int, last: str
) -> None:
    environment = offline_checkout(tmp_path, apt_get_exits)
    result = subprocess.run(
        [tmp_path / "tools" / "setup"], env=environment, capture_output=True, text=True
    )
    assert result.returncode == 1
    (line,) = result.stderr.splitlines()
    assert "no network?" in line
    assert " libfmt-dev uv==" in line
    assert " apache-tvm-ffi==" in line
    assert len(result.stdout.splitlines()) <= 2
    log = (tmp_path / "build" / "setup.log").read_text()
    assert "line 370 of apt-get" in log
    assert last in log.splitlines()[-1]
