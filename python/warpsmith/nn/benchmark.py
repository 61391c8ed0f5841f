"""Tokens a second of a Llama-shaped model before and after `warpsmith.patch`.

`python -m warpsmith.nn.benchmark [--compile] [--json] [--hidden 2048] ...`: a model of transformers
with random weights, as it is and patched, reads tokens and takes training steps with AdamW. Both
take turns (A B A B) on the same tokens; the median of the turns is shown.
"""

import argparse
import copy
import datetime
import json
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch

import warpsmith

_SIZES = {
    "layers": (16, "decoder layers"),
    "hidden": (2048, "features of a token"),
    "intermediate": (8192, "features between the layers of the MLP"),
    "heads": (32, "heads of queries"),
    "kv_heads": (8, "heads of keys and values"),
    "vocab": (32000, "tokens there are"),
    "batch": (1, "sequences"),
    "tokens": (2048, "tokens of a sequence"),
}
SIZES = {name: standard for name, (standard, _) in _SIZES.items()}
_DTYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}


def model_of(sizes: dict[str, int], dtype: str, device: str) -> torch.nn.Module:
    """A Llama of transformers, with random weights."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        num_hidden_layers=sizes["layers"],
        hidden_size=sizes["hidden"],
        intermediate_size=sizes["intermediate"],
        num_attention_heads=sizes["heads"],
        num_key_value_heads=sizes["kv_heads"],
        vocab_size=sizes["vocab"],
        max_position_embeddings=sizes["tokens"],
        use_cache=False,
    )
    torch.manual_seed(0)
    with torch.device(device):
        return LlamaForCausalLM(config).to(_DTYPES[dtype])


def _reads(model: Any, tokens: torch.Tensor) -> Callable[[], None]:
    def read() -> None:
        with torch.no_grad():
            model(tokens)

    return read


def _trains(model: Any, tokens: torch.Tensor) -> Callable[[], None]:
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)

    def step() -> None:
        model(tokens, labels=tokens).loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def _tokens_a_second(
    calls: dict[str, Callable[[], None]], tokens: torch.Tensor, turns: int
) -> dict[str, float]:
    """Of each contender, the median of its turns, which they take one after the other."""
    wait = torch.cuda.synchronize if tokens.is_cuda else (lambda: None)
    times: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(turns + 1):  # the first is a warm-up
        for name, call in calls.items():
            wait()
            start = time.perf_counter()
            call()
            wait()
            if turn > 0:
                times[name].append(time.perf_counter() - start)
    return {name: tokens.numel() / statistics.median(each) for name, each in times.items()}


def measure(
    sizes: dict[str, int] | None = None,
    dtype: str = "bf16",
    device: str | None = None,
    compiled: bool = False,
    turns: int = 11,
) -> dict[str, Any]:
    """Tokens a second of a model, before and after it is patched.

    Args:
        sizes: Those of SIZES that are other ones.
        dtype: Of the weights: "f32", "f16" or "bf16".
        device: "cuda" or "cpu"; None takes the GPU where there is one.
        compiled: By torch.compile, both.
        turns: Of each contender.

    Returns:
        "rows": of reading and of a training step "name", "before", "after" and their "ratio";
        "patched": what was replaced, as text; and what was measured.
    """
    sizes = SIZES | (sizes or {})
    if unknown := sizes.keys() - SIZES.keys():
        raise ValueError(f"measure: sizes are {', '.join(SIZES)}, not {', '.join(unknown)}")
    if turns < 1 or min(sizes.values()) < 1:
        raise ValueError(f"measure: turns and sizes are at least 1, not {turns} and {sizes}")
    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    before = model_of(sizes, dtype, device)
    after = copy.deepcopy(before)
    patched = warpsmith.patch(after)
    models = {"before": before, "after": after}
    if compiled:
        models = {name: torch.compile(model) for name, model in models.items()}
    tokens = torch.randint(sizes["vocab"], (sizes["batch"], sizes["tokens"]), device=device)
    rows = []
    for name, contender in (("forward", _reads), ("training step", _trains)):
        calls = {which: contender(model, tokens) for which, model in models.items()}
        found = _tokens_a_second(calls, tokens, turns)
        rows.append({"name": name, **found, "ratio": found["after"] / found["before"]})
    import transformers

    variant = "cuda" if tokens.is_cuda else "emulated"
    return {
        "device": torch.cuda.get_device_name() if tokens.is_cuda else "CPU, emulated kernels",
        "date": datetime.date.today().isoformat(),
        "revision": warpsmith.build_info()["variants"][variant]["revision"],
        "sizes": sizes,
        "dtype": dtype,
        "compiled": compiled,
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "patched": repr(patched),
        "rows": rows,
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m warpsmith.nn.benchmark", description=__doc__)
    for name, (standard, text) in _SIZES.items():
        option = f"--{name.replace('_', '-')}"
        parser.add_argument(option, type=int, default=standard, help=f"{text} ({standard})")
    parser.add_argument("--dtype", choices=_DTYPES, default="bf16", help="of the weights (bf16)")
    parser.add_argument("--device", choices=["cuda", "cpu"], help="default: the GPU, if any")
    parser.add_argument("--compile", action="store_true", help="both by torch.compile")
    parser.add_argument("--turns", type=int, default=11, help="of each (11)")
    parser.add_argument("--json", action="store_true", help="print JSON instead of the table")
    options = parser.parse_args()
    sizes = {name: getattr(options, name) for name in SIZES}
    try:
        result = measure(sizes, options.dtype, options.device, options.compile, options.turns)
    except (ImportError, ValueError) as error:  # no transformers; sizes of which there is no model
        parser.error(str(error))
    if options.json:
        print(json.dumps(result, indent=2))
        return
    print(result["patched"])
    print(f"tokens a second, {result['dtype']}, {result['device']}")
    print(f"{'':<16}{'before':>12}{'after':>12}{'ratio':>8}")
    for row in result["rows"]:
        print(f"{row['name']:<16}{row['before']:>12.0f}{row['after']:>12.0f}{row['ratio']:>8.2f}")


if __name__ == "__main__":
    main()
