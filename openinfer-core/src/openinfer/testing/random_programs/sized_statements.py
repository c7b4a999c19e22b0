"""Drawing statements on values whose extents are expressions of sizes."""

from __future__ import annotations

from collections.abc import Callable

from openinfer.dsl.builder_values import Given
from openinfer.dtypes import BY_NAME
from openinfer.testing.random_programs.changing_sizes import SizeWriter, Value, canonical, joined

UNARY = {"f32": ("neg", "abs", "square", "relu", "identity", "tanh"), "i32": ("neg", "abs", "square", "identity")}
BINARY = ("add", "sub", "mul", "max", "min")
DEEPEST = 2
"""Most loops and blocks around a statement that may be another loop."""

FOLDS = ("sum_axis", "sum_axis", "mean_axis", "max_axis", "min_axis")


def write_op(writer: SizeWriter) -> None:
    """Write a call of an operator, or two that belong together."""
    writer.random.choice(_DRAWN)(writer)


def _call(writer: SizeWriter, op: str, *inputs: str, dtype: str, dims: tuple[str, ...], **settings: Given) -> None:
    name = writer.result(dtype, dims)
    writer.builder.op(op, *inputs, outputs=name, settings=settings)


def _unary(writer: SizeWriter) -> None:
    value = writer.some()
    _call(writer, writer.random.choice(UNARY[value.dtype]), value.name, dtype=value.dtype, dims=value.dims)


def _binary(writer: SizeWriter) -> None:
    left = writer.some()
    right = writer.like(left)
    _call(writer, writer.random.choice(BINARY), left.name, right.name, dtype=left.dtype, dims=left.dims)


def _outer(writer: SizeWriter) -> None:
    """Combine two vectors to a matrix, or a matrix with one of them."""
    left, right = writer.some(rank=1, dtype="f32"), writer.some(rank=1, dtype="f32")
    column = writer.result("f32", (*left.dims, "1"))
    writer.builder.op("unsqueeze", left.name, outputs=column, settings={"axes": [1]})
    _call(writer, writer.random.choice(BINARY), column, right.name, dtype="f32", dims=(*left.dims, *right.dims))


def _unequal(writer: SizeWriter) -> None:
    """Combine vectors of two sizes, which is legal where they are equal or one is 1."""
    if not (writer.usual["T"] == writer.usual["U"] or 1 in writer.usual.values()):
        return _outer(writer)
    names = [_of_dims(writer, (size,)) for size in ("T", "U")]
    writer.random.shuffle(names)
    _call(writer, writer.random.choice(BINARY), *names, dtype="f32", dims=(writer.open_dim(),))
    return None


def _of_dims(writer: SizeWriter, dims: tuple[str, ...], dtype: str = "f32") -> str:
    same = [value.name for value in writer.values if (value.dtype, value.dims) == (dtype, dims)]
    return writer.random.choice(same) if same and writer.chance(0.8) else writer.input(dtype, dims).name


def _fold(writer: SizeWriter) -> None:
    value = writer.some()
    axis = writer.random.randrange(len(value.dims))
    keepdims = writer.chance(0.3)
    dims = (*value.dims[:axis], *(("1",) if keepdims else ()), *value.dims[axis + 1 :])
    op = writer.random.choice(FOLDS) if value.is_float else "sum_axis"
    _call(writer, op, value.name, dtype=value.dtype, dims=dims, axes=[axis], keepdims=keepdims)


def _along(writer: SizeWriter) -> None:
    value = writer.some()
    axis = writer.random.randrange(len(value.dims))
    op = writer.random.choice(("softmax", "cumsum", "flip") if value.is_float else ("cumsum", "flip"))
    settings: dict[str, Given] = {"axes": [axis]} if op == "flip" else {"axis": axis}
    _call(writer, op, value.name, dtype=value.dtype, dims=value.dims, **settings)


def _greatest(writer: SizeWriter) -> None:
    value = writer.some()
    axis = writer.random.randrange(len(value.dims))
    name = writer.result("i64", (*value.dims[:axis], *value.dims[axis + 1 :]))
    writer.values = [other for other in writer.values if other.name != name]  # Its type suits few operators.
    writer.builder.op("argmax_axis", value.name, outputs=name, settings={"axis": axis})


def _product(writer: SizeWriter) -> None:
    left, right = writer.some(rank=2, dtype="f32"), writer.some(rank=2, dtype="f32")
    chance = writer.random.random()
    if chance < 0.4 and left.dims[1] == "4":
        _call(writer, "matmul", left.name, writer.weight((4, 3)), dtype="f32", dims=(left.dims[0], "3"))
    elif chance < 0.7 and left.dims[1] == right.dims[1]:
        _call(writer, "matmul", left.name, right.name, dtype="f32", dims=(left.dims[0], right.dims[0]), trans_b=True)
    elif left.dims[0] == right.dims[0]:
        _call(writer, "matmul", left.name, right.name, dtype="f32", dims=(left.dims[1], right.dims[1]), trans_a=True)
    else:
        _call(writer, "matmul", left.name, left.name, dtype="f32", dims=(left.dims[0], left.dims[0]), trans_b=True)


def _concat(writer: SizeWriter) -> None:
    first = writer.some()
    axis = writer.random.randrange(len(first.dims))
    rest = (first.dims[:axis], first.dims[axis + 1 :])
    others = [
        value
        for value in writer.values
        if value.dtype == first.dtype
        and len(value.dims) == len(first.dims)
        and (value.dims[:axis], value.dims[axis + 1 :]) == rest
    ]
    second = writer.random.choice([first, *others])
    is_open = first.dims[axis].startswith("?") or second.dims[axis].startswith("?")
    extent = writer.open_dim() if is_open else joined(first.dims[axis], second.dims[axis])
    dims = (*first.dims[:axis], extent, *first.dims[axis + 1 :])
    _call(writer, "concat", first.name, second.name, dtype=first.dtype, dims=dims, axis=axis)


def _place(writer: SizeWriter, value: Value, axis: int) -> str:
    """Return a place along an axis, mostly near an end of it."""
    own = [] if value.dims[axis].startswith("?") else [value.dims[axis], f"({value.dims[axis]})-1"]
    return writer.random.choice((*own, "0", "1", "2", "T", "U", "T+1"))


def _slice(writer: SizeWriter) -> None:
    value = writer.some()
    axis = writer.random.randrange(len(value.dims))
    start, end = _place(writer, value, axis), _place(writer, value, axis)
    step = writer.random.choice((1, 1, 1, 2, -1))
    bounds: dict[str, Given] = {"starts": [writer.builder.expr(start)], "ends": [writer.builder.expr(end)]}
    if writer.chance(0.3):
        bounds = {"starts": [writer.random.choice((-2, -1, 0, 1))], "ends": [writer.random.choice((-1, 2, 99))]}
    dims = (*value.dims[:axis], writer.open_dim(), *value.dims[axis + 1 :])
    _call(writer, "slice", value.name, dtype=value.dtype, dims=dims, **bounds, axes=[axis], steps=[step])


def _narrow(writer: SizeWriter) -> None:
    value = writer.some(closed=True)
    axis = writer.random.randrange(len(value.dims))
    extent = value.dims[axis]
    start, length = writer.random.choice(
        (("0", extent), ("1", f"({extent})-1"), ("0", "1"), ("0", "T"), (f"({extent})-1", "1"))
    )
    settings: dict[str, Given] = {"start": writer.builder.expr(start), "length": writer.builder.expr(length)}
    dims = (*value.dims[:axis], length, *value.dims[axis + 1 :])
    _call(writer, "narrow", value.name, dtype=value.dtype, dims=dims, axis=axis, **settings)


def _select(writer: SizeWriter) -> None:
    value = writer.some()
    axis = writer.random.randrange(len(value.dims))
    extent = value.dims[axis]
    index: Given = -1 if extent.startswith("?") else writer.random.choice((writer.builder.expr(f"({extent})-1"), 0, -1))
    dims = (*value.dims[:axis], *value.dims[axis + 1 :])
    _call(writer, "select", value.name, dtype=value.dtype, dims=dims, axis=axis, index=index)


def _count(writer: SizeWriter) -> None:
    """Write the places of a size, as floats or integers."""
    size = writer.random.choice(("T", "U", "T+1", "2*T"))
    end, after_end = writer.builder.expr(size), writer.builder.expr(f"{size}+1")
    bounds: tuple[dict[str, Given], ...] = (
        *({}, {"start": 0, "step": 2}),
        *({"start": 0, "limit": end}, {"start": 1, "limit": after_end}),
    )
    settings = writer.random.choice(bounds)
    name, dtype = writer.name("y"), writer.random.choice(("f32", "i32"))
    writer.builder.assign(name, dtype, [size])
    writer.builder.op("range" if settings else "iota", outputs=name, settings=settings)
    writer.values.append(Value(name, dtype, (size,), writable=True))


def _reshape(writer: SizeWriter) -> None:
    value = writer.some(rank=2, closed=True)
    first, second = value.dims
    if second == "4":
        dims = writer.random.choice(((f"4*({first})",), (first, "2", "2"), (f"2*({first})", "2"), ("4", first)))
    else:
        dims = writer.random.choice(((second, first), (first, "1", second), ("1", first, second)))
    shape: Given = [writer.builder.expr(dim) for dim in dims]
    settings: dict[str, Given] = {} if writer.chance(0.4) else {"shape": shape}
    if not settings:
        name = writer.name("y")
        writer.builder.volatile(name, value.dtype, list(dims))
        writer.builder.op("reshape", value.name, outputs=name)
        writer.values.append(Value(name, value.dtype, canonical(dims), writable=True))
    else:
        _call(writer, "reshape", value.name, dtype=value.dtype, dims=dims, **settings)


def _transpose(writer: SizeWriter) -> None:
    value = writer.some()
    _call(writer, "transpose", value.name, dtype=value.dtype, dims=tuple(reversed(value.dims)))


def _larger(writer: SizeWriter) -> None:
    """Write what makes more of a value: `tile`, `repeat`, `pad`, `expand`."""
    value = writer.some(rank=1, closed=True)
    (extent,) = value.dims
    chance = writer.random.random()
    if chance < 0.3:
        _call(writer, "tile", value.name, dtype=value.dtype, dims=(f"2*({extent})",), repeats=[2])
    elif chance < 0.6:
        mode = writer.random.choice(("constant", "constant", "edge", "reflect"))
        _call(writer, "pad", value.name, dtype=value.dtype, dims=(f"({extent})+3",), pads=[1, 2], mode=mode)
    else:
        rows = writer.random.choice(("T", "U", "3"))
        shape: Given = [writer.builder.expr(rows), writer.builder.expr(extent)]
        _call(writer, "expand", value.name, dtype=value.dtype, dims=(rows, extent), shape=shape)


def _rows(writer: SizeWriter) -> None:
    """Look up rows of a weight or of a value by indices, one for each place of a step."""
    size = writer.random.choice(("T", "U"))
    if writer.chance(0.6):
        ids = writer.input("i32", (size,), below=5)
        op = writer.random.choice(("gather", "embedding"))
        inputs = (writer.weight((5, 4)), ids.name) if op == "gather" else (ids.name, writer.weight((5, 4)))
        _call(writer, op, *inputs, dtype="f32", dims=(size, "4"))
    else:
        value = writer.some(rank=2, dtype="f32")
        ids = writer.input("i32", (size,), below=2)
        _call(writer, "gather", value.name, ids.name, dtype="f32", dims=(size, value.dims[1]))


def _window(writer: SizeWriter) -> None:
    """Slide a window along a size."""
    name = _of_dims(writer, ("1", "2", writer.random.choice(("T", "T+1"))))
    extent = next(value.dims[2] for value in writer.values if value.name == name)
    if writer.chance(0.6):
        _call(writer, "conv1d", name, writer.weight((3, 2, 3)), dtype="f32", dims=("1", "3", extent), padding=1)
    else:
        dims = ("1", "2", f"floor(({extent})/2)+1")
        _call(writer, "max_pool1d", name, dtype="f32", dims=dims, kernel=2, stride=2, padding=1)


def _where(writer: SizeWriter) -> None:
    left = writer.some()
    right = writer.like(left)
    mask = writer.result("bool", left.dims)
    writer.values = [value for value in writer.values if value.name != mask]
    writer.builder.op(writer.random.choice(("lt", "ge", "eq")), left.name, right.name, outputs=mask)
    _call(writer, "where", mask, left.name, right.name, dtype=left.dtype, dims=left.dims)


def _counted(writer: SizeWriter) -> None:
    """Take the elements of a value that data choose, or that differ: their number is an extent."""
    if writer.chance(0.2):
        value = writer.some(rank=1)
        _call(writer, "unique", value.name, dtype=value.dtype, dims=(writer.open_dim(),))
        return
    value = writer.some()
    mask = writer.name("y")
    writer.builder.op(writer.random.choice(("lt", "ge")), value.name, writer.like(value).name, outputs=mask)
    if writer.chance(0.6):
        _call(writer, "masked_select", value.name, mask, dtype=value.dtype, dims=(writer.open_dim(),))
    else:
        places = writer.name("y")
        writer.builder.op("nonzero", mask, outputs=places)
        _call(writer, "gather_nd", value.name, places, dtype=value.dtype, dims=(writer.open_dim(),))


def _cast(writer: SizeWriter) -> None:
    value = writer.some()
    to = "i32" if value.is_float else "f32"
    _call(writer, "cast", value.name, dtype=to, dims=value.dims, to=BY_NAME[to])


def _loop(writer: SizeWriter) -> None:
    """Add to a value in a loop whose iterations a size counts, with elements or rows where it has as many."""
    targets = [value for value in writer.values if value.writable]
    if not targets:
        return
    target, index = writer.random.choice(targets), writer.name("i")
    end = writer.random.choice(("T", "U", "2", "T+1"))
    wanted = (target.dtype, (end, *target.dims))
    sources = [value.name for value in writer.values if (value.dtype, value.dims) == wanted]
    with writer.builder.loop("turns", index, 0, end), writer.inside():
        if sources and writer.chance(0.7):
            row, settings = writer.name("y"), {"axis": 0, "index": writer.builder.expr(index)}
            writer.builder.op("select", writer.random.choice(sources), outputs=row, settings=settings)
            writer.builder.op("add", target.name, row, outputs=target.name)
        else:
            writer.builder.op("add", target.name, writer.like(target).name, outputs=target.name)


def _turns(writer: SizeWriter) -> None:
    """Write some statements in a loop that may have no iteration."""
    if writer.depth >= DEEPEST:
        return
    start, end = writer.random.choice((("0", "T"), ("1", "T"), ("T", "U"), ("0", "2"), ("U", "3")))
    with writer.builder.loop("turns", writer.name("i"), start, end), writer.inside():
        for _ in range(writer.random.choice((1, 1, 2))):
            write_op(writer)


def _branch(writer: SizeWriter) -> None:
    """Branch to a block, or to one of two as an input says."""
    if not writer.blocks:
        return
    then, other = writer.random.choice(writer.blocks), writer.random.choice(writer.blocks)
    if writer.chance(0.3):
        writer.builder.branch(then)
    else:
        writer.builder.branch_if(writer.input("i32", (), below=2).name, then, other)


def _transfer(writer: SizeWriter) -> None:
    value = writer.some()
    writer.builder.transfer(value.name, writer.result(value.dtype, value.dims))


_DRAWN: tuple[Callable[[SizeWriter], None], ...] = (
    *(_unary, _binary, _outer, _unequal, _fold, _fold, _along, _greatest, _product, _product, _concat, _concat),
    *(_slice, _slice, _narrow, _select, _count, _reshape, _transpose, _larger, _rows, _window, _where, _cast, _loop),
    *(_turns, _branch, _branch, _transfer, _counted, _counted),
)
