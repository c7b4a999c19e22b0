"""What is measured on device vulkan: programs of the public API, and the same in PyTorch where it has a GPU."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

import openinfer as oi

Step = Callable[[], object]


@dataclass(frozen=True, kw_only=True)
class Case:
    """A program with data.

    Attributes:
        text: the program; data are its volatile variables, so that a step moves nothing.
        shapes: its tensors with their element types, for a size of 1 and for slow devices.
        nbytes, operations: what a step has to move and to compute, of the sizes of ``shapes``.
        torch: the same on tensors of PyTorch, by name.
    """

    text: str
    shapes: Mapping[str, tuple[str, tuple[int, ...]]]
    operations: int = 0
    torch: Callable[[Any, Mapping[str, Any]], Any] | None = None

    @property
    def nbytes(self) -> int:
        return sum(int(np.prod(shape)) * np.dtype(kind).itemsize for kind, shape in self.shapes.values())


def _program(text: str, shapes: Mapping[str, tuple[str, tuple[int, ...]]]) -> str:
    names = {"float32": "f32", "float16": "f16", "int8": "i8", "int64": "i64"}
    declared = " ".join(f"{name}: {names[kind]}[{','.join(map(str, s))}];" for name, (kind, s) in shapes.items())
    return f"volatile {{ {declared} }} block entry {{ {text} return y; }}"


def _pointwise(count: int) -> dict[str, tuple[str, tuple[int, ...]]]:
    return dict.fromkeys(("a", "b", "y"), ("float32", (count,)))


def _rows(rows: int, columns: int, *weights: str) -> dict[str, tuple[str, tuple[int, ...]]]:
    grid = ("float32", (rows, columns))
    return {"x": grid, **dict.fromkeys(weights, ("float32", (columns,))), "y": grid}


def _product(kind: str, m: int, k: int, n: int) -> dict[str, tuple[str, tuple[int, ...]]]:
    return {"a": (kind, (m, k)), "b": (kind, (k, n)), "y": (kind, (m, n))}


def cases(*, small: bool) -> dict[str, Case]:
    """Return all cases; ``small``: of sizes that a software device carries out in milliseconds."""
    count = 1 << 20 if small else 64 << 20
    tiny = " ".join(["op add(a, b) >> y; op add(y, b) >> y;"] * 100)
    return {
        **_elementwise_cases(count),
        **_row_cases(*((512, 1024) if small else (8192, 4096))),
        **_product_cases(*((256, 256, 1024, 512) if small else (4096, 8192, 11008, 4096))),
        **_attention_and_convolution_cases(*((256, 1) if small else (4096, 32))),
        "cast i8 to f32": Case(
            text="op cast(x, to=f32) >> y;",
            shapes={"x": ("int8", (count,)), "y": ("float32", (count,))},
            torch=lambda torch, t: t["x"].to(torch.float32),
        ),
        "200 tiny operators": Case(text=tiny, shapes=_pointwise(64)),
    }


def _elementwise_cases(count: int) -> dict[str, Case]:
    return {
        "add": Case(text="op add(a, b) >> y;", shapes=_pointwise(count), torch=lambda _, t: t["a"] + t["b"]),
        "gelu((a + b) * b)": Case(
            text="op add(a, b) >> s; op mul(s, b) >> m; op gelu(m) >> y;",
            shapes=_pointwise(count),
            torch=lambda torch, t: torch.nn.functional.gelu((t["a"] + t["b"]) * t["b"]),
        ),
    }


def _row_cases(rows: int, columns: int) -> dict[str, Case]:
    return {
        "softmax": Case(
            text="op softmax(x, axis=1) >> y;",
            shapes=_rows(rows, columns),
            torch=lambda torch, t: torch.softmax(t["x"], 1),
        ),
        "rms_norm": Case(
            text="op rms_norm(x, w) >> y;",
            shapes=_rows(rows, columns, "w"),
            torch=lambda torch, t: torch.nn.functional.rms_norm(t["x"], t["w"].shape, t["w"]),
        ),
        "layer_norm": Case(
            text="op layer_norm(x, w, b) >> y;",
            shapes=_rows(rows, columns, "w", "b"),
            torch=lambda torch, t: torch.nn.functional.layer_norm(t["x"], t["w"].shape, t["w"], t["b"]),
        ),
        "argmax": Case(
            text="op argmax_axis(x, axis=1) >> y;",
            shapes={"x": ("float32", (rows, columns)), "y": ("int64", (rows,))},
            torch=lambda torch, t: torch.argmax(t["x"], 1),
        ),
        "argmax of one row": Case(
            text="op argmax_axis(x, axis=1) >> y;",
            shapes={"x": ("float32", (1, 50_257)), "y": ("int64", (1,))},
            torch=lambda torch, t: torch.argmax(t["x"], 1),
        ),
        "cumsum": Case(
            text="op cumsum(x, axis=1) >> y;",
            shapes=_rows(rows, columns),
            torch=lambda torch, t: torch.cumsum(t["x"], 1),
        ),
    }


def _product_cases(side: int, half_side: int, tall: int, wide: int) -> dict[str, Case]:
    return {
        "matmul f32": Case(
            text="op matmul(a, b) >> y;",
            shapes=_product("float32", side, side, side),
            operations=2 * side**3,
            torch=lambda _, t: t["a"] @ t["b"],
        ),
        "matmul f16": Case(
            text="op matmul(a, b) >> y;",
            shapes=_product("float16", half_side, half_side, half_side),
            operations=2 * half_side**3,
            torch=lambda _, t: t["a"] @ t["b"],
        ),
        "gemv f16": Case(
            text="op matmul(a, b, trans_b=true) >> y;",
            shapes={"a": ("float16", (1, wide)), "b": ("float16", (tall, wide)), "y": ("float16", (1, tall))},
            torch=lambda _, t: t["a"] @ t["b"].T,
        ),
        "gemv f32": Case(
            text="op matmul(a, b, trans_b=true) >> y;",
            shapes={"a": ("float32", (1, wide)), "b": ("float32", (tall, wide)), "y": ("float32", (1, tall))},
            torch=lambda _, t: t["a"] @ t["b"].T,
        ),
        "gemv int8, groups of 32": Case(
            text="op qmatmul(a, b, s, trans_w=true, group_size=32) >> y;",
            shapes={
                "a": ("float16", (1, wide)),
                "b": ("int8", (tall, wide)),
                "s": ("float16", (tall, wide // 32)),
                "y": ("float16", (1, tall)),
            },
        ),
    }


def _attention_and_convolution_cases(positions: int, images: int) -> dict[str, Case]:
    return {
        "attention of one query": Case(
            text="op sdpa(q, k, v) >> y;",
            shapes={
                **dict.fromkeys(("q", "y"), ("float32", (1, 12, 1, 64))),
                **dict.fromkeys(("k", "v"), ("float32", (1, 12, positions, 64))),
            },
            torch=lambda torch, t: torch.nn.functional.scaled_dot_product_attention(t["q"], t["k"], t["v"]),
        ),
        "conv2d": Case(
            text="op conv2d(a, b, padding=1) >> y;",
            shapes={
                "a": ("float32", (images, 64, 56, 56)),
                "b": ("float32", (64, 64, 3, 3)),
                "y": ("float32", (images, 64, 56, 56)),
            },
            operations=2 * images * 64 * 64 * 9 * 56 * 56,
            torch=lambda torch, t: torch.nn.functional.conv2d(t["a"], t["b"], padding=1),
        ),
    }


def data(case: Case) -> dict[str, np.ndarray]:
    """Return arrays for the inputs of a case: reproducible, of small numbers."""
    rng = np.random.default_rng(0)
    found: dict[str, np.ndarray] = {}
    for name, (kind, shape) in case.shapes.items():
        if name == "y":
            continue
        is_whole = np.issubdtype(np.dtype(kind), np.integer)
        found[name] = rng.integers(-9, 9, shape, kind) if is_whole else rng.random(shape, np.float32).astype(kind)
    return found


def on_vulkan(case: Case, device: str) -> Step:
    """Return a step of a case on the device."""
    graph = oi.graph(_program(case.text, case.shapes))
    executor = oi.Simulator(oi.Model.from_arrays(data(case)), graph, device=device).make_executor()

    # Steps of releases before `Executor.wait` have ended when they return.
    wait = getattr(executor, "wait", lambda: None)

    def step() -> None:
        executor.step()
        wait()

    return step


def moving(device: str, nbytes: int) -> dict[str, Step]:
    """Return the insertion and the fetch of an array, and both around an addition."""
    count = nbytes // 4
    text = (
        f"dynamic {{ x: f32[{count}]; }} volatile {{ y: f32[{count}]; }} block entry {{ op add(x, x) >> y; return y; }}"
    )
    executor = oi.Simulator(oi.Model.from_arrays({}), oi.graph(text), device=device).make_executor()
    array = np.ones(count, np.float32)
    executor.step(x=array)

    def round_trip() -> object:
        executor.step(x=array)
        return executor.fetch("y")

    return {
        "insert": lambda: executor.insert({"x": array}),
        "fetch": lambda: executor.fetch("y"),
        "insert, add, fetch": round_trip,
    }


def on_torch(case: Case) -> Step | None:
    """Return the case in PyTorch, waiting for its end; None where there is no PyTorch with a GPU."""
    try:
        import torch
    except ImportError:
        return None
    if case.torch is None or not torch.cuda.is_available():
        return None
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    tensors = {name: torch.from_numpy(array).cuda() for name, array in data(case).items()}
    call = case.torch

    def step() -> None:
        call(torch, tensors)
        torch.cuda.synchronize()

    return step
