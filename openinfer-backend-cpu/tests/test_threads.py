"""Results do not depend on the number of threads: the same bytes for each, where the library splits products."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

import openinfer_backend_cpu
from openinfer_backend_cpu.linear_algebra import linear_algebra

WORK = """
import hashlib, sys
import numpy as np
from openinfer.ir.types import TensorType
from openinfer.array_types import dtype_of_array
from openinfer.ops.applying import call_of
from openinfer.plugins.environment import Environment
from openinfer.plugins.selection import kernel_table
from openinfer.simulate.devices.binding import Binder
from openinfer.packing import pack
from openinfer.dtypes import I4
from openinfer_backend_cpu.backend import CpuBackend
from openinfer_backend_cpu.linear_algebra import linear_algebra
from openinfer_backend_cpu.tiles import tiles

# More threads than processors are possible from here on only.
linear_algebra().threads.set_count(int(sys.argv[1]))
environment = Environment.default()
table = kernel_table(environment, environment.devices["cpu"])
rng = np.random.default_rng(5)

def noise(*shape, dtype=np.float32):
    return rng.standard_normal(shape).astype(dtype)

def kind(array):
    return TensorType(dtype_of_array(array), array.shape)

def show(what, op, inputs, types=None, direct=False, **settings):
    backend = CpuBackend()
    binder = Binder(environment, table, backend)
    types = types or [None if a is None else kind(a) for a in inputs]
    call = call_of(environment.op(op), types, settings)
    buffers = [None if a is None else backend.upload(t, a) for a, t in zip(inputs, types)]
    outputs = [backend.allocate(result) for result in call.outputs]
    if direct:
        binder.direct(binder.prepare(call))(buffers, outputs)
    else:
        binder.bind(call, buffers, outputs)()
    for output in outputs:
        print(op, what, hashlib.sha256(backend.read(output).tobytes()).hexdigest())

for m, k, n in ((100, 100, 100), (129, 301, 257), (17, 3011, 19), (3, 900, 901), (2, 768, 3072), (2053, 130, 131),
                (1, 769, 3071), (769, 3071, 1), (1, 20001, 1), (1, 262, 33001)):
    a, b = noise(m, k), noise(k, n)
    assert (len(tiles(a.shape, b.shape)) > 1) == ((m, k, n) in ((2053, 130, 131), (1, 262, 33001)))
    turned = np.ascontiguousarray(a.T), np.ascontiguousarray(b.T)
    show((m, k, n), "matmul", [a, b], direct=True)
    show((m, k, n, "f64"), "matmul", [a.astype(np.float64), b.astype(np.float64)])
    show((m, k, n, "turned"), "matmul", turned, trans_a=True, trans_b=True)
    show((m, k, n), "linear", [a, b, noise(n)])
    show((m, k, n, "turned"), "linear", [a, turned[1]], trans_w=True)
show("vectors", "matmul", [noise(20001, dtype=np.float64), noise(20001, dtype=np.float64)])
show("vector", "matmul", [noise(769), noise(769, 3071)])
show("f16", "matmul", [noise(129, 301, dtype=np.float16), noise(301, 257, dtype=np.float16)])
show("turned", "matmul", [noise(301, 129), noise(257, 301)], trans_a=True, trans_b=True, direct=True)
show("stack", "matmul", [noise(5, 1, 101, 127), noise(3, 127, 211)])
show("cut stack", "matmul", [noise(9, 130, 257), noise(9, 257, 131)])
square = noise(301, 301)
show("itself", "matmul", [square, square], trans_b=True)
show("three", "einsum", [noise(150, 131), noise(131, 201), noise(201, 99)], equation="ab,bc,cd->ad")
images, taps = noise(2, 24, 37, 41), noise(40, 24, 3, 3)
show("3x3", "conv2d", [images, taps, noise(40)], padding=1)
show("f64", "conv2d", [images.astype(np.float64), taps.astype(np.float64)])
show("strided", "conv2d", [images, taps], stride=2)
show("1x1", "conv2d", [images, noise(61, 24, 1, 1)])
show("grouped", "conv2d", [images, noise(48, 6, 3, 3)], groups=4)
show("depthwise", "conv2d", [noise(3, 64, 57, 61), noise(64, 1, 3, 3)], groups=64, padding=1)
show("long", "conv1d", [noise(1, 33, 4001), noise(65, 33, 5)])
show("up", "conv_transpose2d", [noise(1, 33, 29, 31), noise(33, 35, 3, 3)], stride=2)
heads = [noise(1, 6, 131, 64), noise(1, 2, 257, 64), noise(1, 2, 257, 65)]
show("grouped heads", "sdpa", heads)
show("causal", "sdpa", [noise(1, 3, 211, 64)] * 3, causal=True)
show("one query", "sdpa", [noise(1, 4, 1, 128), noise(1, 4, 1031, 128), noise(1, 4, 1031, 128)], direct=True)
show("projected", "attn", [noise(130, 96), noise(257, 2, 48), noise(257, 2, 48), noise(96, 96)])
rows, scale = noise(3, 1024), noise(8, 514)
packed = TensorType(I4, (1024, 514))
quantised = pack(rng.integers(-8, 8, packed.shape).astype(np.int8), I4)
for count in (1, 3, 33):
    x = noise(count, 1024)
    show((count, "rows"), "qmatmul", [x, quantised, scale], [kind(x), packed, kind(scale)], group_size=128)
    small = rng.integers(-99, 99, (514, 1024)).astype(np.int8)
    show((count, "turned"), "qmatmul", [x, small, noise(514)], trans_w=True)
show("long rows", "rms_norm", [noise(3, 20001, dtype=np.float64)])
show("rows", "layer_norm", [noise(300, 700)])
show("cell", "gru_cell", [noise(65, 130), noise(65, 70), noise(210, 130), noise(210, 70), noise(420)])
"""


def reported(threads: int) -> str:
    """Return what the work prints in a process with a number of threads."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", WORK, str(threads)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "OPENBLAS_NUM_THREADS": str(threads)},
    )
    assert (done.stderr, done.returncode) == ("", 0)
    return done.stdout


@pytest.mark.rule("runtime.determinism.2")
def test_products_do_not_depend_on_the_number_of_threads() -> None:
    if not linear_algebra().threads.held:
        pytest.skip(f"{linear_algebra().name}: a library whose threads cannot be limited")
    alone = reported(1)
    assert alone.count("\n") > 70
    for threads in (2, 4):
        assert reported(threads).splitlines() == alone.splitlines()


REACHING = {
    "matmul",
    "dot",
    "vdot",
    "inner",
    "tensordot",
    "einsum",
    "linalg",
    "vecdot",
    "matvec",
    "vecmat",
    "multi_dot",
}
ALLOWED = {"matrix_products.py": {"matmul"}, "einsum.py": {"einsum"}}


def reached(path: Path) -> set[str]:
    """Return what a module calls that reaches the linear algebra library."""
    nodes = list(ast.walk(ast.parse(path.read_text("utf-8"))))
    operators = {"@" for node in nodes if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult)}
    names = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    return operators | (names & REACHING)


@pytest.mark.rule("runtime.determinism.2")
def test_only_one_module_multiplies_matrices() -> None:
    """Others ask it, so that none forgets to hold the library."""
    modules = Path(openinfer_backend_cpu.__file__).parent.rglob("*.py")
    assert {path.name: found for path in modules if (found := reached(path))} == ALLOWED
