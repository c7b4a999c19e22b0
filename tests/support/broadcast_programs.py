"""Programs whose sizes of steps broadcast, as callers of generated code run them at every pair of small sizes."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

Array = npt.NDArray[Any]

LARGEST = 4
PAIRS = tuple(product(range(LARGEST + 1), repeat=2))
"""All values of T and U, as the callers run them one after the other."""


@dataclass(frozen=True)
class Broadcasts:
    """A program over T and U.

    Attributes:
        inputs: their extents as the language writes them, by name; `input_of` has their elements.
        text: the statements.
        python: what results are, by name, of inputs by name. `ValueError`: the sizes do not fit.
    """

    inputs: Mapping[str, str]
    text: str
    python: Mapping[str, Callable[..., Any]]

    @property
    def program(self) -> str:
        declared = " ".join(f"{name}: f32[{dims}];" for name, dims in self.inputs.items())
        return f"dynamic {{ {declared} }} block entry {{ {self.text} return {', '.join(self.python)}; }}"

    def expected(self, t: int, u: int) -> list[tuple[tuple[int, ...], list[float]]] | None:
        """Return the shapes and the elements of all results, None where the sizes do not fit."""
        shapes = {name: _shape(dims, t, u) for name, dims in self.inputs.items()}
        values = {name: input_of(number, shape) for number, (name, shape) in enumerate(shapes.items())}
        try:
            results = {name: np.asarray(python(**values)) for name, python in self.python.items()}
        except ValueError:
            return None
        return [(value.shape, value.ravel().tolist()) for value in results.values()]

    def caller(self) -> str:
        """Return a C program that prints a line for each of `PAIRS`: shapes and elements, or where the step ended.

        Inputs lie in memory of their own size, so that sanitizers find reads past their ends.
        """
        counts = [dims.replace(",", " *").replace("T", "t").replace("U", "u") for dims in self.inputs.values()]
        places = enumerate(zip(self.inputs, counts, strict=True))
        filled = "\n".join(f"inputs.v_{name} = filled({number}, {count});" for number, (name, count) in places)
        freed = "\n".join(f"free((void *)(size_t)inputs.v_{name});" for name in self.inputs)
        ranks = {name: len(shape) for name, (shape, _) in zip(self.python, self.expected(1, 1) or (), strict=True)}
        results = "\n".join(
            f"static float made_{name}[MODEL_OUTPUT_{name.upper()}_BYTES / sizeof(float) + 1]; size_t shape_{name}[8];"
            for name in ranks
        )
        taken = "\n".join(
            f"outputs.v_{name} = made_{name};" + (f" outputs.shape_{name} = shape_{name};" if rank else "")
            for name, rank in ranks.items()
        )
        shown = "\n".join(f"shown({rank}, shape_{name}, made_{name});" for name, rank in ranks.items())
        return f"""
        #include "model.h"
        #include <stdio.h>
        #include <stdlib.h>
        static struct model model;
        static float *filled(size_t place, size_t count) {{
            float *const values = malloc(count * sizeof(float) + 1);
            for (size_t i = 0; values != NULL && i < count; ++i) {{ values[i] = (float)((7 * i + 3 * place) % 5 + 1); }}
            return values;
        }}
        static void shown(int rank, const size_t *shape, const float *values) {{
            size_t count = 1;
            for (int axis = 0; axis < rank; ++axis) {{ count *= shape[axis]; printf("%d ", (int)shape[axis]); }}
            for (size_t i = 0; i < count; ++i) {{ printf("%.9g ", (double)values[i]); }}
        }}
        int main(void) {{
            struct model_inputs inputs;
            struct model_outputs outputs;
            {results}
            {taken}
            if (model_init(&model) != MODEL_OK) {{ return 1; }}
            for (size_t t = 0; t <= {LARGEST}; ++t) {{
                for (size_t u = 0; u <= {LARGEST}; ++u) {{
                    {filled}
                    inputs.extent_T = t;
                    inputs.extent_U = u;
                    const enum model_status status = model_step(&model, &inputs, &outputs);
                    if (status == MODEL_OK) {{
                        {shown}
                    }} else {{
                        printf("%s ", status == MODEL_SHAPE ? "refused" : "failed");
                        printf("at line %d", (int)model_fault_line(&model));
                    }}
                    printf("\\n");
                    {freed}
                }}
            }}
            return 0;
        }}
        """


def input_of(number: int, shape: tuple[int, ...]) -> Array:
    """Return the elements of an input, small whole numbers, by its place among the inputs."""
    return ((7 * np.arange(int(np.prod(shape))) + 3 * number) % 5 + 1).astype(np.float32).reshape(shape)


def assert_broadcasts(case: Broadcasts, printed: str) -> None:
    """Compare what a caller printed with what Python makes of the same inputs."""
    lines = printed.splitlines()
    assert len(lines) == len(PAIRS)
    for (t, u), line in zip(PAIRS, lines, strict=True):
        expected = case.expected(t, u)
        if expected is None:
            assert line == "refused at line 1", f"{case.text} at T={t}, U={u}"
        else:
            numbers = [number for shape, values in expected for number in (*shape, *values)]
            computed = np.array(line.split(), dtype=np.float64)
            assert computed.shape == (len(numbers),), f"{case.text} at T={t}, U={u}: {line}"
            np.testing.assert_allclose(computed, numbers, 1e-5, err_msg=f"{case.text} at T={t}, U={u}")


def _shape(dims: str, t: int, u: int) -> tuple[int, ...]:
    sizes = {"T": t, "U": u}
    return tuple(sizes[part] if part in sizes else int(part) for part in dims.split(", "))


ELEMENTWISE = Broadcasts(
    {"x": "T", "w": "U", "a": "T, 3", "b": "U, 3"},
    """
    op add(x, w) >> s; op mul(s, x) >> product; op gt(x, w) >> c; op where(c, x, w) >> chosen;
    op fma(x, w, s) >> fused; op sub(a, b) >> rows; op softmax(rows, axis=0) >> shares;
    op sum_axis(s, axes=[0]) >> total; loop twice (i in 0..2) { op add(s, w) >> s; }
    """.replace("\n", " "),
    {
        "s": lambda x, w, **_: x + 3 * w,
        "product": lambda x, w, **_: (x + w) * x,
        "chosen": lambda x, w, **_: np.where(x > w, x, w),
        "fused": lambda x, w, **_: x * w + (x + w),
        "shares": lambda a, b, **_: np.exp(a - b) / np.exp(a - b).sum(0),
        "total": lambda x, w, **_: (x + w).sum(),
    },
)

PRODUCTS = Broadcasts(
    {"x": "T, 2, 3", "w": "U, 3, 2", "a": "T, 2", "b": "U, 2", "c": "T, 1"},
    """
    op matmul(x, w) >> m; op add(m, m) >> twice; op einsum(a, b, equation="...i,...i->...") >> dots;
    op expand(c, shape=[U, 2]) >> e; op add(e, b) >> sums; op concat(dots, dots, axis=0) >> both;
    """.replace("\n", " "),
    {
        "twice": lambda x, w, **_: 2 * (x @ w),
        "dots": lambda a, b, **_: np.einsum("...i,...i->...", a, b),
        "sums": lambda c, b, **_: c + b,
        "both": lambda a, b, **_: np.concatenate(2 * [np.einsum("...i,...i->...", a, b)]),
    },
)

TWO_DIMS = Broadcasts(
    {"x": "T, U", "w": "U, T", "v": "U"},
    "op add(x, w) >> s; op mul(s, v) >> t; op neg(t) >> z;",
    {"z": lambda x, w, v: -((x + w) * v)},
)

EVERY_PAIR = Broadcasts(
    {"x": "T, 1", "w": "1, U", "v": "U"},
    "op add(x, w) >> s; op add(s, x) >> t; op mul(t, v) >> p; op mul(p, p) >> q; op reshape(x, shape=[1, T]) >> n;",
    {"q": lambda x, w, v: ((2 * x + w) * v) ** 2, "n": lambda x, **_: x.reshape(1, -1)},
)
