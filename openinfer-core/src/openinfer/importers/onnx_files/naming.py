"""Short legal names for the values of a model."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from openinfer.dtypes import BY_NAME
from openinfer.symbolic import LITERAL_WORDS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

LONGEST = 40
"""Characters of a name, before a number that sets it apart."""

_ODD = re.compile(r"[^A-Za-z0-9]+")
_OUTPUT = re.compile(r"_output_\d+$")
_LETTER = re.compile(r"[A-Za-z]")

LARGE = 3e38
"""Magnitude from which a number is called the lowest or highest."""

_NUMBERS = {0.0: "zero", 1.0: "one", 2.0: "two", 0.5: "half", -1.0: "minus_one"}


class Names:
    """Hands out names, each once; case does not set names apart, since files and C compilers may ignore it."""

    def __init__(self, taken: Iterable[str]) -> None:
        self._taken = {name.lower() for name in (*taken, *LITERAL_WORDS, *BY_NAME)}

    def new(self, stem: str) -> str:
        """Return a name that starts with ``stem``, which is legal."""
        name, number = stem, 2
        while name.lower() in self._taken:
            name, number = f"{stem}_{number}", number + 1
        self._taken.add(name.lower())
        return name


def legal(text: str, fallback: str) -> str:
    """Return a text as a name of letters, digits and single underscores; ``fallback`` if no letter is left."""
    name = _ODD.sub("_", text).strip("_")
    if len(name) > LONGEST:
        tail = name[-LONGEST:]
        name = tail.partition("_")[2] or tail
    if not _LETTER.search(name):
        return fallback
    return f"n{name}" if name[0].isdigit() else name


def shared_prefix(names: Iterable[str]) -> str:
    """Return the common prefix of all names up to the last ``__``; exporters add such a prefix to inlined nodes."""
    found = list(names)
    first, last = min(found, default=""), max(found, default="")
    same = next((place for place, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), len(first))
    common = first[:same]
    return common[: common.rindex("__") + 2] if "__" in common else ""


def weight_stems(names: Sequence[str], prefix: str = "") -> dict[str, str]:
    """Return a stem for each weight: its whole name, or the last parts of it that no other weight ends in."""
    parts = {name: [part for part in re.split(r"[./:]+", name.removeprefix(prefix)) if part] for name in names}
    counts: dict[tuple[str, ...], int] = {}
    for found in parts.values():
        for length in range(1, len(found) + 1):
            tail = tuple(found[-length:])
            counts[tail] = counts.get(tail, 0) + 1
    stems: dict[str, str] = {}
    for name, found in parts.items():
        whole = _ODD.sub("_", ".".join(found)).strip("_")
        if len(whole) <= LONGEST // 2 * 3 // 2 or len(found) < 2:
            stems[name] = whole
            continue
        length = next((n for n in range(2, len(found)) if counts[tuple(found[-n:])] == 1), len(found))
        stems[name] = _ODD.sub("_", ".".join(found[-length:])).strip("_")
    return stems


def value_stem(name: str, op: str, stage: str = "") -> str:
    """Return a stem for a value that a call of ``op`` in the module ``stage`` writes; the model calls it ``name``."""
    plain = _OUTPUT.sub("", name)
    parts = [part for part in plain.split("/") if part]
    module = stage.rpartition(".")[2]
    if len(parts) < 2 and op in _MAIN and not module.isdigit() and legal(module, ""):
        return legal(module, op)
    if is_anonymous(plain):
        return legal(op, "value")
    if len(parts) < 2:
        return legal(plain.lower() if plain.startswith("/") else plain, op)
    module, kind = parts[-2].rpartition(".")[2], parts[-1].rstrip("0123456789").rstrip("_")
    module = module if not module.isdigit() else parts[-2].replace(".", "_")
    return legal(module if kind.lower() in module.lower() or op in _MAIN else f"{module}_{kind.lower()}", op)


class Stems:
    """Stems of names from the names in the model, without their common prefix."""

    def __init__(self, weights: Sequence[str] = (), stages: Iterable[str] = ()) -> None:
        self._prefix = shared_prefix([*weights, *stages])
        self._weights = weight_stems(list(dict.fromkeys(weights)), self._prefix)

    def weight(self, name: str, fallback: str) -> str:
        """Return the stem of a weight."""
        return legal(self._weights.get(name, ""), fallback)

    def number(self, name: str, count: int, number: float | bool, use: str = "") -> str:
        """Return the stem of a constant that is one number all over, and that an operator uses so."""
        return self.weight(name, "numbers") if keeps_name(name, count) else number_stem(number, use)

    def value(self, name: str, op: str, stage: str = "") -> str:
        """Return the stem for the result of a call, as `value_stem`."""
        return value_stem(name.removeprefix(self._prefix), op, stage)

    def stage(self, stage: str) -> str:
        """Return the module of a call as comments name it."""
        return stage.removeprefix(self._prefix).lstrip("./")


def is_anonymous(name: str) -> bool:
    """Whether an exporter made a name up, such as ``val_12`` or ``onnx::MatMul_34``."""
    return not name or _MADE_UP.fullmatch(name) is not None


_MADE_UP = re.compile(r"(?:val|onnx::\w+?|t|tmp|const|_?v)?_?\d+")

_MAIN = ("conv1d", "conv2d", "linear", "batch_norm", "layer_norm", "embedding")
"""Operators that are what their module is for."""


def is_computed(name: str) -> bool:
    """Whether an exporter named a value after the node that writes it, such as ``/rnn/Unsqueeze_6_output_0``."""
    return _OUTPUT.search(name) is not None


def keeps_name(name: str, count: int) -> bool:
    """Whether a constant of one number all over keeps its name: one of several elements, or a weight of a module."""
    return bool(name) and (count > 1 or ("." in name and "/" not in name and not is_anonymous(name)))


_USES = {
    "add": ("offset", "offset"),
    "sub": ("minuend", "offset"),
    "mul": ("factor", "factor"),
    "div": ("dividend", "divisor"),
    "mod": ("dividend", "modulus"),
    "pow": ("base", "exponent"),
    "max": ("lower_bound", "lower_bound"),
    "min": ("upper_bound", "upper_bound"),
}
"""What the operands of arithmetic are called, whose inputs have letters for names."""


def use_of(op: str, position: int, name: str) -> str:
    """Return what an input of an operator is called; empty where its name, a letter, says nothing."""
    uses = _USES.get(op, ())
    return uses[position] if position < len(uses) else name if len(name) > 1 else ""


def number_stem(value: float | bool, use: str = "") -> str:
    """Return a stem for a constant number: a word for it, or what it is used as with three digits of it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if abs(value) >= LARGE:
        return "lowest" if value < 0 else "highest"
    digits = f"{value:.3g}" if isinstance(value, float) else str(value)
    return _NUMBERS.get(float(value)) or legal(f"{use or 'number'}_{digits}".replace("-", "m"), "number")
