"""Decision trees of a node as the tables of the operator `tree_ensemble`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openinfer.importers.onnx_files.source import Array

MOST_NODES = 1 << 24
"""Nodes of the largest ensemble."""


class ForestError(ValueError):
    """The attributes of a node do not describe trees, or trees of a kind that has no tables."""


@dataclass(frozen=True, slots=True)
class Branch:
    """A node that compares an element with a number; ``left`` and ``right`` are keys of nodes or leaves."""

    mode: str
    feature: int
    threshold: float
    left: object
    right: object
    missing: bool


@dataclass(frozen=True, slots=True)
class Forest:
    """Tables of trees: see the operator `tree_ensemble`."""

    feature: Array
    threshold: Array
    children: Array
    roots: Array
    weights: Array
    missing: Array
    depth: int


@dataclass(slots=True)
class _Tables:
    """Tables that are built; leaves are numbered apart, as negative numbers until all nodes are known."""

    dtype: np.dtype[np.floating]
    rows: list[tuple[int, float, int, int, bool]] = field(default_factory=list[tuple[int, float, int, int, bool]])

    def add(self, feature: int, threshold: float, left: int, right: int, missing: bool) -> int:
        self.rows.append((feature, threshold, left, right, missing))
        return len(self.rows) - 1


def forest_of(
    branches: dict[object, Branch],
    leaves: dict[object, Sequence[float]],
    roots: Sequence[object],
    columns: int,
    kind: str,
) -> Forest:
    """Return tables of trees whose nodes compare by ``<=`` alone; numbers are of the NumPy type ``kind``.

    ``x < t`` is ``x <= t'`` with t' the number before t; ``>`` and ``>=`` swap the sides, and with them where NaN goes;
    an equality is two comparisons.

    Raises:
        ForestError: a node is not there, a node lies below itself, or a mode is unknown.
    """
    numbers = {key: -1 - place for place, key in enumerate(leaves)}
    tables = _Tables(np.dtype(kind))
    depths = dict.fromkeys(leaves, 0)
    for root in roots:
        _add(tables, root, branches, numbers, depths)
    rows = tables.rows or [(0, 0.0, -1, -1, False)]
    count = len(rows)
    places = np.array([[row[2], row[3]] for row in rows], np.int64)
    children = np.where(places < 0, count - 1 - places, places).astype(np.int32)
    starts = [numbers[root] if numbers[root] >= 0 else count - 1 - numbers[root] for root in roots]
    weights = np.array([list(row) for row in leaves.values()], tables.dtype).reshape(len(leaves), columns)
    return Forest(
        feature=np.array([row[0] for row in rows], np.int32),
        threshold=np.array([row[1] for row in rows], tables.dtype),
        children=children,
        roots=np.array(starts, np.int32),
        weights=weights,
        missing=np.array([row[4] for row in rows], np.bool_),
        depth=max((depths[root] for root in roots), default=0),
    )


def _add(
    tables: _Tables,
    root: object,
    branches: dict[object, Branch],
    numbers: dict[object, int],
    depths: dict[object, int],
) -> None:
    """Number the nodes of a tree, those below a node first, without recursion."""
    waiting, opened = [root], set[object]()
    while waiting:
        key = waiting[-1]
        if key in depths:
            waiting.pop()
            continue
        branch = branches.get(key)
        if branch is None:
            raise ForestError(f"the tree has no node {key}")
        below = [child for child in (branch.left, branch.right) if child not in depths]
        if below:
            if key in opened:
                raise ForestError(f"node {key} lies below itself")
            opened.add(key)
            waiting += below
            continue
        numbers[key], extra = _numbered(tables, branch, numbers[branch.left], numbers[branch.right])
        depths[key] = 1 + extra + max(depths[branch.left], depths[branch.right])
        if len(tables.rows) > MOST_NODES:
            raise ForestError(f"more than {MOST_NODES} nodes")
        waiting.pop()


def _numbered(tables: _Tables, branch: Branch, left: int, right: int) -> tuple[int, int]:
    """Add the comparisons of a node; return its number, and how many comparisons it is more than one."""
    number = tables.dtype.type(branch.threshold)
    below = float(np.nextafter(number, tables.dtype.type(-np.inf)))
    feature, at, missing = branch.feature, float(number), branch.missing
    match branch.mode:
        case "BRANCH_LEQ":
            return tables.add(feature, at, left, right, missing), 0
        case "BRANCH_LT":
            return tables.add(feature, below, left, right, missing), 0
        case "BRANCH_GT":
            return tables.add(feature, at, right, left, not missing), 0
        case "BRANCH_GTE":
            return tables.add(feature, below, right, left, not missing), 0
        case "BRANCH_EQ" | "BRANCH_NEQ":
            equal, other = (left, right) if branch.mode == "BRANCH_EQ" else (right, left)
            # NaN differs from any number.
            is_equal = missing and branch.mode == "BRANCH_EQ"
            inner = tables.add(feature, below, other, equal, not is_equal)
            return tables.add(feature, at, inner, other, is_equal), 1
        case _:
            raise ForestError(f"nodes that compare by {branch.mode}")
