"""Programs of several statements and steps, each with the results that plain NumPy gives for the same inputs.

Operators have tests of their own; these are about what is between them: loops, branches, tables, state that is kept
from step to step, sizes that change. Numbers are small integers, so that floats are exact in any order of additions.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from collections.abc import Mapping

Array: TypeAlias = npt.NDArray[Any]

Values: TypeAlias = "Mapping[str, Array]"


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeProgram:
    """A program, what its model holds, and its steps.

    Attributes:
        name: what it is about.
        text: the program.
        tensors: those of the model.
        sizes: those of the model, by name.
        limits: largest sizes, and numbers of entries of tables (``K.t``), of what changes from step to step.
        inputs: what is inserted before each step, by name.
        results: what each step returns, by name.
    """

    name: str
    text: str
    tensors: Values = field(default_factory=dict[str, Array])
    sizes: Mapping[str, int] = field(default_factory=dict[str, int])
    limits: Mapping[str, int] = field(default_factory=dict[str, int])
    inputs: tuple[Values, ...]
    results: tuple[Values, ...]

    @property
    def has_state(self) -> bool:
        """Whether a step depends on those before it."""
        return "persistent {" in self.text

    @property
    def is_stackable(self) -> bool:
        """Whether every step has inputs and results of the same shapes, so that those of all can be one array."""
        return all(
            {name: array.shape for name, array in step.items()} == {name: array.shape for name, array in first.items()}
            for steps, first in ((self.inputs, self.inputs[0]), (self.results, self.results[0]))
            for step in steps
        )


def whole_programs() -> tuple[WholeProgram, ...]:
    """Return the programs, the simplest first."""
    return (
        _statements(),
        _loops(),
        _bounds_of_a_step(),
        _branches(),
        _prefix_table(),
        _registers(),
        _table(),
        _reset(),
        _growing_matrix(),
        _sizes_of_a_step(),
        _counted_rows(),
        _prompt_and_tokens(),
        _consumers(),
    )


def _array(values: npt.ArrayLike, dtype: str = "f4") -> Array:
    return np.array(values, dtype)


def _rows(*shape: int, first: int = 1) -> Array:
    return np.arange(first, first + int(np.prod(shape)), dtype=np.float32).reshape(shape)


def _statements() -> WholeProgram:
    text = """
    dynamic { x: f32[2, 3]; gain: f32 @init(2.0); }
    constant { a: f32[3]; }
    volatile { y: f32[2, 3]; total: f32; }
    block entry {
      op mul(x, gain) >> scaled;
      op add(scaled, a) >> y;
      op relu(y) >> y;
      op sum_axis(y) >> total;
      return y, total;
    }
    """
    a = _array([-3, 0, 1])
    inputs: tuple[Values, ...] = (
        {"x": _rows(2, 3), "gain": _array(2)},
        {"x": _rows(2, 3, first=-3), "gain": _array(-1)},
    )
    made = [np.maximum(step["x"] * step["gain"] + a, 0) for step in inputs]
    results: tuple[Values, ...] = tuple({"y": y, "total": _array(y.sum())} for y in made)
    return WholeProgram(name="statements", text=text, tensors={"a": a}, inputs=inputs, results=results)


def _loops() -> WholeProgram:
    text = """
    dynamic { x: f32[4]; }
    volatile { y: f32[4]; steps: i64; }
    block entry {
      op identity(x) >> y;
      op fill(steps, value=0) >> steps;
      loop outer (i in 0..3) {
        loop inner (j in i..3) {
          op add(y, x) >> y;
          op add(steps, j) >> steps;
        }
      }
      return y, steps;
    }
    """
    inputs: tuple[Values, ...] = ({"x": _rows(4)}, {"x": _rows(4, first=-2)})
    results: tuple[Values, ...] = tuple(
        {"y": 7 * step["x"], "steps": _array(0 + 1 + 2 + 1 + 2 + 2, "i8")} for step in inputs
    )
    return WholeProgram(name="nested loops", text=text, inputs=inputs, results=results)


def _bounds_of_a_step() -> WholeProgram:
    text = """
    dynamic { x: f32[3]; from: i64; to: i64; }
    volatile { y: f32[3]; }
    block entry {
      op identity(x) >> y;
      loop doubled (i in from..to) {
        op add(y, y) >> y;
      }
      return y;
    }
    """
    spans = [(0, 3), (2, 2), (-1, 1), (4, 1)]
    inputs: tuple[Values, ...] = tuple(
        {"x": _rows(3), "from": _array(low, "i8"), "to": _array(high, "i8")} for low, high in spans
    )
    results: tuple[Values, ...] = tuple({"y": _rows(3) * 2.0 ** max(0, high - low)} for low, high in spans)
    return WholeProgram(name="bounds of a step", text=text, inputs=inputs, results=results)


def _branches() -> WholeProgram:
    text = """
    dynamic { x: f32[3]; most: f32; }
    constant { two: f32 @init(2.0); one: f32 @init(1.0); }
    volatile { y: f32[3]; }
    block entry {
      op sum_axis(x) >> total;
      op gt(total, most) >> is_high;
      branch is_high lower raise;
      branch finish;
      return y;
    }
    block lower { op sub(x, two) >> y; return; }
    block raise { op mul(x, two) >> y; return; }
    block finish { op add(y, one) >> y; return; }
    """
    inputs: tuple[Values, ...] = tuple({"x": _rows(3), "most": _array(most)} for most in (5, 6, 7))
    results: tuple[Values, ...] = tuple(
        {"y": (step["x"] - 2 if step["x"].sum() > step["most"] else step["x"] * 2) + 1} for step in inputs
    )
    return WholeProgram(name="branches", text=text, inputs=inputs, results=results)


def _prefix_table() -> WholeProgram:
    text = """
    dynamic { x: f32[1, D]; which: i32; }
    constant { W(l): f32[D, D] @pattern("W.{l}"); }
    volatile { y: f32[1, D]; z: f32[1, D]; }
    block entry {
      op identity(x) >> y;
      loop layers (l in 0..L) {
        op matmul(y, W[l]) >> y;
      }
      op matmul(x, W[which]) >> z;
      return y, z;
    }
    """
    weights = [_array([[1, 0, 2], [0, 1, 0], [1, 1, 0]]), _array([[0, 1, 0], [2, 0, 0], [0, 0, -1]])]
    inputs: tuple[Values, ...] = tuple({"x": _rows(1, 3), "which": _array(which, "i4")} for which in (1, 0))
    results: tuple[Values, ...] = tuple(
        {"y": step["x"] @ weights[0] @ weights[1], "z": step["x"] @ weights[int(step["which"])]} for step in inputs
    )
    return WholeProgram(
        name="prefix table",
        text=text,
        tensors={f"W.{number}": weight for number, weight in enumerate(weights)},
        sizes={"D": 3, "L": 2},
        inputs=inputs,
        results=results,
    )


def _registers() -> WholeProgram:
    text = """
    dynamic { x: f32[3]; }
    persistent { total: f32[3] @init(1.0); count: i32; backwards: i8 @init(3); }
    volatile { y: f32[3]; n: i32; left: i8; }
    block entry {
      cache.read total >> sums;
      op add(sums, x) >> y;
      cache.write y >> total;
      cache.increment 2 count;
      cache.decrement backwards;
      cache.read count >> n;
      cache.read backwards >> left;
      return y, n, left;
    }
    """
    inputs: tuple[Values, ...] = tuple({"x": _rows(3, first=first)} for first in (1, 5, -4))
    sums = np.cumsum([step["x"] for step in inputs], axis=0, dtype=np.float32) + _array(1)
    results: tuple[Values, ...] = tuple(
        {"y": sums[step], "n": _array(2 * (step + 1), "i4"), "left": _array(2 - step, "i1")}
        for step in range(len(inputs))
    )
    return WholeProgram(name="registers", text=text, inputs=inputs, results=results)


def _table() -> WholeProgram:
    text = """
    dynamic { x: f32[3]; }
    persistent { K(l, t): f32[3] @table @fixed(l=2, t=4); pos: i32; }
    volatile { newest: f32[3]; sums: f32[3]; }
    block entry {
      cache.read pos >> p;
      cache.write x >> K[0, p];
      op add(x, x) >> twice;
      cache.write twice >> K[1, p];
      assign all: f32[1, 3];
      cache.read K[1, 0..p+1] >> all;
      op sum_axis(all, axes=[0]) >> sums;
      cache.read K[0, p] >> newest;
      cache.increment pos;
      return newest, sums;
    }
    """
    inputs: tuple[Values, ...] = tuple({"x": _rows(3, first=first)} for first in (1, 10, -6, 2))
    sums = 2 * np.cumsum([step["x"] for step in inputs], axis=0, dtype=np.float32)
    results: tuple[Values, ...] = tuple(
        {"newest": step["x"], "sums": sums[number]} for number, step in enumerate(inputs)
    )
    return WholeProgram(name="table", text=text, inputs=inputs, results=results)


def _reset() -> WholeProgram:
    text = """
    dynamic { x: f32; again: bool; }
    persistent { K(t): f32 @table @fixed(t=4); pos: i32; }
    volatile { total: f32; }
    block entry {
      branch again clear keep;
      cache.read pos >> p;
      cache.write x >> K[p];
      cache.increment pos;
      assign all: f32[4];
      cache.read K[0..4] >> all;
      op sum_axis(all) >> total;
      return total;
    }
    block clear { cache.reset K; cache.reset pos; return; }
    block keep { return; }
    """
    values, again = (1, 2, 4, 8), (False, False, True, False)
    inputs: tuple[Values, ...] = tuple(
        {"x": _array(x), "again": _array(new, "?")} for x, new in zip(values, again, strict=True)
    )
    results: tuple[Values, ...] = tuple({"total": _array(total)} for total in (1, 3, 4, 12))
    return WholeProgram(name="reset", text=text, inputs=inputs, results=results)


def _growing_matrix() -> WholeProgram:
    text = """
    persistent { step: i32; A(i, j): f32[1, 2] @auto_dim(i, j) @fixed(i=3, j=3); }
    constant { one: f32 @init(1.0); }
    volatile { whole: f32[1, 2]; total: f32; }
    block entry {
      cache.increment step;
      cache.read A[step, step] >> whole;
      op add(whole, one) >> whole;
      cache.write whole >> A[step, step];
      op sum_axis(whole) >> total;
      return total;
    }
    """
    inputs: tuple[Values, ...] = ({}, {}, {})
    whole, totals = np.zeros((1, 2), np.float32), list[Array]()
    for _ in inputs:
        whole = np.pad(whole, ((0, 1), (0, 1))) + _array(1)
        totals.append(_array(whole.sum()))
    return WholeProgram(
        name="growing matrix", text=text, inputs=inputs, results=tuple({"total": total} for total in totals)
    )


def _sizes_of_a_step() -> WholeProgram:
    text = """
    dynamic { x: f32[T, 2]; w: f32[U]; }
    volatile { twice: f32[2*T, 2]; outer: f32[T, U]; }
    block entry {
      op concat(x, x, axis=0) >> twice;
      op slice(x, axes=[1], starts=[0], ends=[1]) >> column;
      op mul(column, w) >> outer;
      return twice, outer;
    }
    """
    extents = ((3, 2), (1, 5), (0, 2), (4, 1), (2, 0))
    inputs: tuple[Values, ...] = tuple({"x": _rows(rows, 2), "w": _rows(columns)} for rows, columns in extents)
    results: tuple[Values, ...] = tuple(
        {"twice": np.concatenate([step["x"]] * 2), "outer": np.outer(step["x"][:, 0], step["w"])} for step in inputs
    )
    return WholeProgram(
        name="sizes of a step",
        text=text,
        sizes={"T": 3, "U": 2},
        limits={"T": 4, "U": 5},
        inputs=inputs,
        results=results,
    )


def _counted_rows() -> WholeProgram:
    text = """
    dynamic { x: f32[6]; }
    constant { zero: f32 @init(0.0); }
    volatile { n: i64; total: f32; }
    block entry {
      op gt(x, zero) >> mask;
      op masked_select(x, mask) >> kept, n;
      op sum_axis(kept) >> total;
      return n, total;
    }
    """
    inputs: tuple[Values, ...] = tuple({"x": _rows(6, first=first)} for first in (-2, -6, 1))
    kept = [step["x"][step["x"] > 0] for step in inputs]
    results: tuple[Values, ...] = tuple(
        {"n": _array(values.size, "i8"), "total": values.sum(dtype=np.float32)} for values in kept
    )
    return WholeProgram(name="counted rows", text=text, inputs=inputs, results=results)


def _prompt_and_tokens() -> WholeProgram:
    text = """
    dynamic { x: f32[T, 2]; }
    persistent { K(t): f32[2] @table @fixed(t=8); pos: i32; }
    volatile { sums: f32[2]; n: i32; }
    block entry {
      cache.read pos >> p;
      cache.write x >> K[p..p+T];
      assign all: f32[T, 2];
      cache.read K[0..p+T] >> all;
      op sum_axis(all, axes=[0]) >> sums;
      cache.increment T pos;
      cache.read pos >> n;
      return sums, n;
    }
    """
    inputs: tuple[Values, ...] = tuple({"x": _rows(rows, 2, first=rows)} for rows in (3, 1, 0, 2, 1))
    so_far = [np.concatenate([step["x"] for step in inputs[: number + 1]]) for number in range(len(inputs))]
    results: tuple[Values, ...] = tuple(
        {"sums": rows.sum(axis=0, dtype=np.float32), "n": _array(len(rows), "i4")} for rows in so_far
    )
    return WholeProgram(
        name="prompt and tokens", text=text, sizes={"T": 1}, limits={"T": 4}, inputs=inputs, results=results
    )


def _consumers() -> WholeProgram:
    text = """
    dynamic { signal: f32[4]; }
    constant { two: f32 @init(2.0); }
    volatile { x: f32[4]; total: f32; y: f32[4]; }
    block entry {
      transfer signal >> x;
      yield x;
      op mul(signal, two) >> h;
      await x;
      op add(x, h) >> y;
      return y, total;
    }
    block changes {
      await x;
      op sub(x, two) >> x;
      yield x;
    }
    block reads {
      await x;
      op sum_axis(x) >> total;
      yield x;
    }
    """
    inputs: tuple[Values, ...] = ({"signal": _rows(4)}, {"signal": _rows(4, first=-7)})
    results: tuple[Values, ...] = tuple({"y": 3 * step["signal"] - 2, "total": step["signal"].sum()} for step in inputs)
    return WholeProgram(name="consumers", text=text, inputs=inputs, results=results)
