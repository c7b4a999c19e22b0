"""Functions of the generated source for index arithmetic: exact in 64 bits, and what has no such value is noted."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_SOURCES = {
    "index_add": """\
static int64_t index_add(int64_t a, int64_t b, bool *overflow) {
    if ((b > 0 && a > INT64_MAX - b) || (b < 0 && a < INT64_MIN - b)) {
        *overflow = true;
        return 0;
    }
    return a + b;
}""",
    "index_sub": """\
static int64_t index_sub(int64_t a, int64_t b, bool *overflow) {
    if ((b > 0 && a < INT64_MIN + b) || (b < 0 && a > INT64_MAX + b)) {
        *overflow = true;
        return 0;
    }
    return a - b;
}""",
    "index_mul": """\
static int64_t index_mul(int64_t a, int64_t b, bool *overflow) {
    const bool negative = (a < 0) != (b < 0);
    const uint64_t left = a < 0 ? 0 - (uint64_t)a : (uint64_t)a;
    const uint64_t right = b < 0 ? 0 - (uint64_t)b : (uint64_t)b;
    const uint64_t most = (uint64_t)INT64_MAX + (negative ? 1 : 0);
    if (left == 0 || right == 0) {
        return 0;
    }
    if (right > most / left) {
        *overflow = true;
        return 0;
    }
    return negative ? -(int64_t)(left * right - 1) - 1 : (int64_t)(left * right);
}""",
    "index_div": """\
static int64_t index_div(int64_t a, int64_t b, bool *overflow) {
    if (a < 0 || b < 1 || a % b != 0) {
        *overflow = true;
        return 0;
    }
    return a / b;
}""",
    "index_rem": """\
static int64_t index_rem(int64_t a, int64_t b, bool *overflow) {
    if (a < 0 || b < 1) {
        *overflow = true;
        return 0;
    }
    return a % b;
}""",
    "index_floor": """\
static int64_t index_floor(int64_t a, int64_t b, bool *overflow) {
    if (a < 0 || b < 1) {
        *overflow = true;
        return 0;
    }
    return a / b;
}""",
    "index_ceil": """\
static int64_t index_ceil(int64_t a, int64_t b, bool *overflow) {
    if (a < 0 || b < 1) {
        *overflow = true;
        return 0;
    }
    return a / b + (a % b != 0 ? 1 : 0);
}""",
    "index_from_u64": """\
static int64_t index_from_u64(uint64_t value, bool *overflow) {
    if (value > (uint64_t)INT64_MAX) {
        *overflow = true;
        return 0;
    }
    return (int64_t)value;
}""",
}


def integer_functions(names: Iterable[str]) -> tuple[str, ...]:
    """Return the functions of these names, always in the same order."""
    wanted = frozenset(names)
    return tuple(source for name, source in _SOURCES.items() if name in wanted)
