"""Which dimensions the tensors of an operation have in common, where they are no elements or rows.

As in einsum: a letter is one dimension wherever it stands. A call of a part of it, in all tensors
that have it, is that part of the results; an output that has it not is the sum of the parts'. So a
DTensor may be spread along it, and vmap's batch may lie in it, too.
"""

from collections.abc import Callable, Sequence
from typing import Any

from warpsmith._catalogue import Operation

# Words of what is read, then of what is made, and the letter in which vmap's batch lies: none of
# products, whose rules are in _matmul.py. "." is a dimension that must be whole, "~" stands for as
# many of those as there are, and "*" for as many letters; "+" is before what broadcasts,
# "-" before what may have 1 where others have more. A
# tensor of fewer dimensions has the last ones.
_HEADS = "bh.."
_WORDS = {
    "gemm": ("mk kn -> mn", ""),
    "bmm": ("bmk bkn -> bmn", ""),
    "gemv": ("mk k -> m", ""),
    "dot": ("k k -> ~", ""),
    "int_mm": ("mk kn -> mn", "m"),
    "addmm": ("+mn m. .n -> mn", "m"),
    "baddbmm": ("+bmn bm. b.n -> bmn", "b"),
    "swiglu_linear": ("m. .. -> m.", "m"),
    "quantized_linear": ("m. n. n. n. n -> mn", "m"),
    "qkv_bias_transpose": ("b..h. .h. -> bh.. bh.. bh..", "b"),
    "bias_residual_layer_norm": ("*. . *. . . -> *. *.", "*"),
    "rms_norm_quantized": ("*. . *. ~ -> *. * *.", "*"),
    "batch_norm_forward": (".c~ c c -> .c~ c c", "c"),
    "batch_norm_inference": ("nc~ c c c c -> nc~", "n"),
    "batch_norm_backward": (".c~ .c~ c c c -> .c~ c c", "c"),
    "group_norm_forward": ("n.~ . . -> n.~ n. n.", "n"),
    "group_norm_backward": ("n.~ n.~ n. n. . -> n.~ . .", ""),
    "attention": (f"{_HEADS} {_HEADS} {_HEADS} +bh.. bh h -> bh.. bh.", "b"),
    "attention_backward": (
        f"{_HEADS} {_HEADS} {_HEADS} bh.. bh.. bh. +bh.. bh bh. -> bh.. bh.. bh.. bh..",
        "b",
    ),
    "scaled_attention": (f"{_HEADS} {_HEADS} {_HEADS} bh bh bh -> bh.. bh.", "b"),
    "merge_attn_states": ("b... b.. b... b.. -> b... b..", "b"),
    "linear_attention": ("bh.. bh.. bh.. bh. bh.. -> bh.. bh..", "b"),
    "linear_attention_backward": (
        "bh.. bh.. bh.. bh.. bh. bh.. bh.. -> bh.. bh.. bh.. bh. bh..",
        "b",
    ),
    "delta_rule": ("bh.. bh.. bh.. bh. bh. bh.. -> bh.. bh..", "b"),
    "delta_rule_backward": (
        "bh.. bh.. bh.. bh. bh.. bh. bh.. bh.. -> bh.. bh.. bh.. bh. bh. bh..",
        "b",
    ),
    "selective_scan": ("b.. b.. .. b.~ b.~ . b.. . b.. -> b.. b..", "b"),
    "selective_scan_backward": (
        "b.. b.. .. b.~ b.~ b.. . b.. . .b.. -> b.. b.. .b.~ .. b.. b..",
        "",
    ),
    "wkv": ("b.c b.c c c b.c -> b.c b.c", "b"),
    "wkv_backward": ("b.c b.c c c b.c b.c b.c -> b.c b.c c c b.c", ""),
    "rope": ("b... -b... -b... b. -> b...", "b"),
    "rope_qk": ("b... b... -b... -b... b. -> b... b...", "b"),
    "upsample_nearest2d": ("n... -> n...", "n"),
    "upsample_nearest2d_backward": ("n... -> n...", "n"),
    "upsample_bilinear2d": ("n... -> n...", "n"),
    "upsample_bilinear2d_backward": ("n... -> n...", "n"),
    "embedding": (".d * -> *d", "*"),
    "index_select": ("* . -> *", "*"),
    "index_add": ("* . * -> *", "*"),
    "gather": ("* * -> *", "*"),
    "scatter_add": ("* * * -> *", "*"),
    "transpose": ("* -> *", "*"),
    "permute": ("* -> *", "*"),
}
_MANY = "ABCDEFGH"  # what "*" stands for
_DIMS = ("dim", "dim0", "dim1")
MOST_DIMENSIONS = 6  # of a tensor: kMaxRank of catalogue/problem.hpp

_Shapes = Sequence[tuple[int, ...] | None]


def knows(operation: Operation) -> bool:
    return operation.name in _WORDS


def fold_of(operation: Operation) -> str:
    """The letter in which vmap's batch lies, "" where it lies in none."""
    return _WORDS.get(operation.name, ("", ""))[1]


class Words:
    """The letters of one call's tensors: a string for each, a letter a dimension.

    Attributes:
        whole: Of what is read, were all dimensions there; None of what is left out.
        broadcasts: Of what is read, whether it does: all its first dimensions may be missing.
        may_repeat: Of what is read, whether it may have 1 where others have more.
        writes: Of what is made.
        has_many: Of what is read, whether it has the letters of "*".
        many: How many those are; None where tensors differ in that.
    """

    def __init__(self, operation: Operation, shapes: _Shapes, values: dict[str, Any]) -> None:
        reads, writes = (text.split() for text in _WORDS[operation.name][0].split("->"))
        layout = values.get("layout", "")
        reads = [w[::-1] if layout[i : i + 1] == "t" else w for i, w in enumerate(reads)]
        self._shapes = shapes
        self.may_repeat = [word[0] in "+-" for word in reads]
        self.broadcasts = [word.startswith("+") for word in reads]
        self.has_many = ["*" in word for word in reads]
        counts = {
            len(shape) - len(word) + 1
            for word, shape in zip(reads, shapes, strict=True)
            if shape is not None and "*" in word
        }
        self.many = counts.pop() if len(counts) == 1 else None if counts else 0
        self.whole = [
            None if shape is None else self._spelt(word, len(shape))
            for word, shape in zip(reads, shapes, strict=True)
        ]
        self.writes = [self._spelt(word, 0) for word in writes]

    def _spelt(self, word: str, rank: int) -> str:
        word = word.lstrip("+-").replace("*", _MANY[: self.many or 0])
        return word.replace("~", "." * max(0, rank - len(word) + 1))

    def place(self, i: int, letter: str) -> int | None:
        """Where a tensor that is read has a letter; None: it has it not, or repeats it."""
        word, shape = self.whole[i], self._shapes[i]
        if word is None or letter not in word:
            return None
        at = word.index(letter) - (len(word) - len(shape))
        return None if at < 0 or (self.may_repeat[i] and shape[at] == 1) else at

    def extent(self, letter: str) -> int | None:
        """How long a dimension is; None where tensors have it not, or do not say the same."""
        count = len(self._shapes)
        places = [self.place(i, letter) for i in range(count)]
        found = {self._shapes[i][at] for i, at in enumerate(places) if at is not None}
        return found.pop() if len(found) == 1 else None


# ---- DTensor ------------------------------------------------------------------------------------


def splits(
    operation: Operation, shapes: _Shapes, values: dict[str, Any]
) -> list[tuple[list[int | None], list[int | None]]]:
    """For each letter: which dimension it is of what is read and of what is made; None: of none."""
    if "dim0" in values or "dims" in values:  # which letters are where is theirs to say
        return []
    words = Words(operation, shapes, values)
    if words.many is None:
        return []
    along = _MANY[values["dim"] % words.many] if "dim" in values and words.many else ""
    letters = {*"".join(word for word in words.whole if word is not None)} - {".", along}
    return [
        (
            [words.place(i, letter) for i in range(len(shapes))],
            [word.index(letter) if letter in word else None for word in words.writes],
        )
        for letter in sorted(letters)
        if words.extent(letter) not in (None, 0, 1)
    ]


# ---- vmap ---------------------------------------------------------------------------------------


def batched(
    operation: Operation,
    operator: Callable[..., Any],
    count: int,
    is_batched: Sequence[bool],
    inputs: Sequence[Any],
    values: dict[str, Any],
    rung: str | None,
) -> Any:
    """The results of one call for a batch, which is first in the inputs; None where none takes it.

    Of what is made the batch is first, too.
    """
    letter = fold_of(operation)
    shapes = [
        None if x is None else tuple(x.shape[is_it:])
        for x, is_it in zip(inputs, is_batched, strict=True)
    ]
    words = Words(operation, shapes, values)
    if letter == "*":
        return _of_more_dimensions(words, operator, count, is_batched, inputs, values, rung)
    extent = words.extent(letter)
    has_none = all(words.place(i, letter) is None for i in range(len(inputs)))
    if has_none:  # the batch is all of the letter
        extent = 1
    if extent is None or any(letter not in word for word in words.writes):
        return None
    tensors = []
    for i, (x, is_it, word) in enumerate(zip(inputs, is_batched, words.whole, strict=True)):
        has_it = word is not None and letter in word
        missing = len(word) - len(shapes[i]) if has_it else 0
        if not is_it and words.place(i, letter) is None:
            has_it = has_it and has_none and missing == 1 and not words.may_repeat[i]
        elif has_it and missing > 1 and not words.broadcasts[i]:
            return None
        if not has_it:
            if is_it:
                return None
            tensors.append(x)
            continue
        one = x if is_it else x.expand(count, *x.shape)
        one = one[(slice(None), *(None,) * missing)]
        at = word.index(letter)
        shape = list(one.shape)
        shape[at + 1] = extent
        tensors.append(one.expand(shape).movedim(0, at).flatten(at, at + 1))
    found = operator(*tensors, **values, rung=rung)
    results = found if isinstance(found, tuple) else (found,)
    parts = []
    for y, word in zip(results, words.writes, strict=True):
        if y.shape != (0,) or len(word) == 1:  # else the call has it not
            at = word.index(letter)
            y = y if has_none else y.unflatten(at, (count, extent))
            y = y.movedim(at, 0)
        parts.append(y)
    return tuple(parts) if isinstance(found, tuple) else parts[0]


def _of_more_dimensions(
    words: Words,
    operator: Callable[..., Any],
    count: int,
    is_batched: Sequence[bool],
    inputs: Sequence[Any],
    values: dict[str, Any],
    rung: str | None,
) -> Any:
    """The result where the batch is a dimension before all others."""
    many = words.many
    longest = max(len(word) for word in (*words.whole, *words.writes) if word is not None)
    takes_dims = any(name in values for name in (*_DIMS, "dims"))
    if many is None or longest >= MOST_DIMENSIONS or (takes_dims and many == 0):
        return None
    if any(is_it and not has for is_it, has in zip(is_batched, words.has_many, strict=True)):
        return None
    tensors = [
        x.expand(count, *x.shape) if x is not None and has and not is_it else x
        for x, is_it, has in zip(inputs, is_batched, words.has_many, strict=True)
    ]
    dims = [values[name] for name in _DIMS if name in values]
    if any(not -many <= d < many for d in (*dims, *values.get("dims", ()))):
        return None  # each call says so
    moved = {name: values[name] % many + 1 for name in _DIMS if name in values}
    if "dims" in values:
        moved["dims"] = [0, *(d % many + 1 for d in values["dims"])]
    return operator(*tensors, **values | moved, rung=rung)
