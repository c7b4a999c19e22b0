"""Functions of the generated source for index arithmetic; each stays at the end of its range instead of overflowing."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_SOURCES = {
    "index_add": """\
static int64_t index_add(int64_t a, int64_t b) {
    if (b > 0 && a > INT64_MAX - b) {
        return INT64_MAX;
    }
    return b < 0 && a < INT64_MIN - b ? INT64_MIN : a + b;
}""",
    "index_sub": """\
static int64_t index_sub(int64_t a, int64_t b) {
    if (b < 0 && a > INT64_MAX + b) {
        return INT64_MAX;
    }
    return b > 0 && a < INT64_MIN + b ? INT64_MIN : a - b;
}""",
    "index_mul": """\
static int64_t index_mul(int64_t a, int64_t b) {
    const int negative = (a < 0) != (b < 0);
    const uint64_t left = a < 0 ? 0 - (uint64_t)a : (uint64_t)a;
    const uint64_t right = b < 0 ? 0 - (uint64_t)b : (uint64_t)b;
    if (left != 0 && right > (uint64_t)INT64_MAX / left) {
        return negative ? INT64_MIN : INT64_MAX;
    }
    return negative ? -(int64_t)(left * right) : (int64_t)(left * right);
}""",
    "index_from_u64": """\
static int64_t index_from_u64(uint64_t value) {
    return value > (uint64_t)INT64_MAX ? INT64_MAX : (int64_t)value;
}""",
}


def integer_functions(lines: Iterable[str]) -> tuple[str, ...]:
    """Return the functions that are called in the given lines."""
    text = "\n".join(lines)
    return tuple(source for name, source in _SOURCES.items() if f"{name}(" in text)
