"""`warpsmith try`: kernels as a learner writes them, right, wrong in each way, and not at all."""

import json
import os
import subprocess
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROGRAM = ROOT / "build" / "emulated" / "warpsmith"
pytestmark = pytest.mark.skipif(
    not PROGRAM.exists(), reason="`make build/emulated` has not built the program"
)

HEAD = "#include <cuda_runtime.h>\n#include <cmath>\n#include <cstdint>\n"
SMALL = ("--shape", "17x64")


def run(*arguments: str | Path, timeout: float = 120) -> subprocess.CompletedProcess[str]:
    command = [str(PROGRAM), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout)


def template(operation: str) -> str:
    result = run("try", "--template", operation)
    assert result.returncode == 0, result.stderr
    return result.stdout


def operations() -> list[str]:
    families = json.loads(run("list", "--json").stdout)["families"]
    return [operation["name"] for family in families for operation in family["operations"]]


def tried(folder: Path, operation: str, text: str, *options: str) -> tuple[int, dict]:
    """The exit code and what `--json` tells."""
    file = folder / "mine.cu"
    file.write_text(text)
    result = run("try", file, operation, "--json", *options)
    assert result.returncode in (0, 1, 2), result.stderr
    return result.returncode, json.loads(result.stdout)


# ---- Right ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("operation", "like", "following"),
    [
        ("softmax", "safe", "online"),
        ("gemm", "any_layout", "sliced_k"),
        ("argmax", None, None),
    ],
)
def test_a_template_is_right_and_stands_low(
    tmp_path: Path, operation: str, like: str | None, following: str | None
) -> None:
    code, told = tried(tmp_path, operation, template(operation), "--order", "forward")
    assert code == 0, told
    assert told["verdict"] == "right"
    assert len(told["results"]) == told["problems"] >= 9
    names = [row["rung"] for row in told["ladder"]]
    assert names.index("yours") == names.index(told["nearest"]) + 1
    assert told["next"] is not None, "a naive kernel has something to learn"
    if like is not None:
        assert told["nearest"] == like
    if following is not None:
        assert told["next"] == following
    assert all(row["profile"]["cost"] > 0 for row in told["ladder"])


def test_all_templates_compile(tmp_path: Path) -> None:
    names = operations()
    assert len(names) > 30
    for name in names:
        (tmp_path / f"{name}.cu").write_text(template(name))
    everything = "".join(f'#include "{name}.cu"\n' for name in names)
    code, told = tried(tmp_path, "any", everything, *("--cases", "smoke", "--order", "forward"))
    assert code == 0, told


WARP_PER_ROW = """
template <class T>
__global__ void kernel(const T* x, T* out, int columns) {
  x += int64_t{blockIdx.x} * columns;
  out += int64_t{blockIdx.x} * columns;
  float max = -INFINITY;
  for (int i = threadIdx.x; i < columns; i += 32) max = fmaxf(max, float(x[i]));
  for (int d = 16; d > 0; d /= 2) max = fmaxf(max, __shfl_xor_sync(~0u, max, d));
  float sum = 0;
  for (int i = threadIdx.x; i < columns; i += 32) sum += expf(float(x[i]) - max);
  for (int d = 16; d > 0; d /= 2) sum += __shfl_xor_sync(~0u, sum, d);
  for (int i = threadIdx.x; i < columns; i += 32) out[i] = T(expf(float(x[i]) - max) / sum);
}
// No stream, int for int64_t, a template for all types, and a main() of the file's own.
template <class T>
void softmax(const T* x, T* out, int rows, int columns) {
  kernel<<<rows, 32>>>(x, out, columns);
}
int main() { return 7; }
"""


def test_a_better_kernel_stands_higher(tmp_path: Path) -> None:
    file = tmp_path / "mine.cu"
    file.write_text("#include <cuda_fp16.h>\n#include <cuda_bf16.h>\n" + HEAD + WARP_PER_ROW)
    result = run("try", file, "softmax", *SMALL)
    assert result.returncode == 0, result.stdout + result.stderr
    lines = result.stdout.splitlines()
    rights = [line for line in lines if line.startswith("right: ")]
    assert [line.split()[1] for line in rights] == ["f32,", "f16,", "bf16,"]
    assert any(line.startswith("yours ") and " 4.0 " in line for line in lines), result.stdout
    assert "nearest rung: warp_per_row" in result.stdout
    assert "hint: warp_registers " in result.stdout
    assert "warpsmith show softmax/warp_registers" in result.stdout
    assert max(len(line.replace(f"{tmp_path}/", "")) for line in lines) <= 100


def test_the_full_form_has_attributes(tmp_path: Path) -> None:
    text = """
    __global__ void kernel(const float* x, float* y, int64_t n, float alpha) {
      const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
      if (i < n) y[i] = x[i] > 0 ? x[i] : alpha * expm1f(x[i]);
    }
    void elu(const float* x, float* y, int64_t rows, int64_t columns, float alpha,
             cudaStream_t stream) {
      kernel<<<(rows * columns + 63) / 64, 64, 0, stream>>>(x, y, rows * columns, alpha);
    }
    """
    code, told = tried(tmp_path, "elu", HEAD + text, "--cases", "smoke", "--set", "alpha=0.25")
    assert code == 0, told
    assert any("alpha=0.25" in result["problem"] for result in told["results"])


# ---- Wrong ---------------------------------------------------------------------------------------

RELU = """
__global__ void kernel(const float* x, float* y, int64_t n) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  BODY
}
void relu(const float* x, float* y, int64_t rows, int64_t columns, cudaStream_t stream) {
  kernel<<<(rows * columns + 63) / 64, THREADS, 0, stream>>>(x, y, rows * columns);
}
"""


@pytest.mark.parametrize(
    ("body", "threads", "defect", "says"),
    [
        ("y[i] = fmaxf(x[i], 0.0f);", "64", "error", "mine.cu:7: out of range"),
        ("if (i + 1 < n) y[i] = fmaxf(x[i], 0.0f);", "64", "unwritten", "never written"),
        ("if (i < n) y[i] = fmaxf(x[i], 0.0f) + 0.1f;", "64", "inaccurate", "the reference has"),
        ("if (i < n) y[i] = x[i] / 0.0f;", "64", "not finite", "the reference has"),
        ("if (i < n) y[i] = fmaxf(x[i], 0.0f), ((float*)x)[i] = 1;", "64", "input changed", "'x'"),
        ("if (i < n) y[i] = fmaxf(x[i], 0.0f);", "2048", "error", "cudaGetLastError"),
        (
            "if (i < n) y[i] = fmaxf(x[i], 0.0f), y[0] = fmaxf(x[0], 0.0f) + 1e-9f * threadIdx.x;",
            "64",
            "error",
            "race",
        ),
        ("while (i >= 0) {}", "64", "error", "time"),
    ],
    ids=["bounds", "unwritten", "inaccurate", "infinite", "input", "launch", "race", "hang"],
)
def test_a_wrong_kernel_is_wrong_for_the_reason_it_is(
    tmp_path: Path, body: str, threads: str, defect: str, says: str
) -> None:
    text = HEAD + RELU.replace("BODY", body).replace("THREADS", threads)
    options = ("--shape", "5x67", "--time", "2")
    code, told = tried(tmp_path, "relu", text, *options)
    assert code == 1
    assert told["verdict"] == "wrong"
    first = next(result for result in told["results"] if result["verdict"] == "failed")
    assert first["defect"] == defect, first
    assert says in first["reason"]
    assert told["ladder"] == [], "a wrong kernel has no place"


ATOMIC_SUM = """
__global__ void kernel(const float* x, float* y, int64_t n) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < n) atomicAdd(y, x[i]);
}
void sum(const float* x, float* y, int64_t n, cudaStream_t stream) {
  cudaMemsetAsync(y, 0, sizeof(float), stream);
  kernel<<<(n + 255) / 256, 256, 0, stream>>>(x, y, n);
}
"""


def test_sums_in_any_order_have_to_be_allowed(tmp_path: Path) -> None:
    shape = ("--shape", "5000")
    code, told = tried(tmp_path, "sum", HEAD + ATOMIC_SUM, *shape)
    assert code == 1
    assert told["results"][0]["defect"] == "nondeterministic"
    code, told = tried(tmp_path, "sum", HEAD + ATOMIC_SUM, *shape, "--may-differ")
    assert code == 0, told


# ---- Not at all ----------------------------------------------------------------------------------


def test_what_does_not_compile_is_two_at_its_own_line(tmp_path: Path) -> None:
    file = tmp_path / "mine.cu"
    file.write_text(
        template("relu").replace("if (i >= elements) return;", "if (i >= count) return")
    )
    line = next(n for n, t in enumerate(file.read_text().splitlines(), 1) if "i >= count" in t)
    result = run("try", file, "relu")
    assert result.returncode == 2
    assert f"mine.cu:{line}:" in result.stderr
    assert result.stdout == ""


def test_a_file_without_the_function_is_two(tmp_path: Path) -> None:
    file = tmp_path / "mine.cu"
    file.write_text(template("relu"))
    result = run("try", file, "softmax")
    assert result.returncode == 2
    assert "has no function that could be called as" in result.stderr
    assert "void softmax(const float* x, float* out, int64_t rows" in result.stderr
    code, told = tried(tmp_path, "softmax", template("relu"))
    assert code == 2
    assert told["verdict"] == "does not compile"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("try", "no_such_file.cu", "softmax"), "cannot read no_such_file.cu"),
        (("try", "Makefile"), "try wants a file and an operation"),
        (("try", "Makefile", "softmx"), "did you mean 'softmax'"),
        (("try", "Makefile", "softmax/online"), "not the rung softmax/online"),
        (("try", "--template"), "ARGUMENTS"),
        (("try", "--template", "Makefile", "softmax"), "--template wants an operation"),
    ],
)
def test_bad_usage_is_two(arguments: tuple[str, ...], says: str) -> None:
    result = subprocess.run(
        [str(PROGRAM), *arguments], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert result.returncode == 2
    assert says in result.stderr


def test_watch_tries_again_when_the_file_changes(tmp_path: Path) -> None:
    file = tmp_path / "mine.cu"
    right = template("relu")
    file.write_text(right.replace("v < 0 ? 0.0f : v", "v"))
    command = [str(PROGRAM), "try", str(file), "relu", "--watch", "--shape", "3x5"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        assert process.stdout is not None
        os.set_blocking(process.stdout.fileno(), False)

        seen = ""

        def wait_for(text: str) -> None:
            nonlocal seen
            end = time.monotonic() + 60
            while text not in seen:
                assert time.monotonic() < end, seen
                assert process.poll() is None, seen
                seen += (process.stdout.read() or b"").decode()
                time.sleep(0.05)

        try:
            wait_for("wrong (inaccurate)")
            wait_for("waiting for the file to change")
            file.write_text(right)
            wait_for("right: f32, 1 problem;")
        finally:
            process.terminate()
