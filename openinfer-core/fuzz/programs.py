"""Random programs that are right, against one small model, and mutations that mostly leave the grammar whole.

Every statement is on a line of its own, so that lines can be left out, doubled and exchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from random import Random

from openinfer.dsl.tokens import Token, scan

SIZES = {"B": 2, "D": 3, "H": 4, "n": 2}
TENSORS = {**{f"W.{i}": ("float32", (3, 3)) for i in range(4)}, "m.bias": ("float32", (3,)), "scale": ("float32", ())}

FLOATS = ("f32", "f16", "f64", "bf16")
UNARY = ("relu", "abs", "neg", "sigmoid", "tanh", "exp", "square", "floor", "silu", "softplus")
BINARY = ("add", "sub", "mul", "max", "min", "pow")
INTEGER_BINARY = ("add", "sub", "mul", "and", "or", "xor", "max")
DIMS = ("[B, D]", "[D]", "", "[3*D]", "[B, D+1]", "[(B+1)*H]", "[]", "[4, B*D, 1]")
NUMBERS = ("0", "1", "2", "3", "0x10", "1_000", "9_223_372_036_854_775_807", "7usize")
FIXED = {
    "ready": ("dynamic", "ready: bool;"),
    "steps": ("dynamic", "steps: i32 @init(2);"),
    "row": ("dynamic", "row: f32 [D] ;"),
    "square": ("dynamic", "square: f32[D, D] @layout(nchw, tile=[4, 4]);"),
    "W": ("volatile", 'W(l): f32[D, D] @pattern("W.{l}");'),
    "rows": ("volatile", "rows: f32[H, D];"),
    "wide": ("volatile", "wide: f32[n, D];"),
    "out": ("volatile", "out: f32[D, D] @init(0.5);"),
    "bias": ("volatile", "bias: f32[D,];"),
    "c": ("constant", 'c: f32 @ref("scale");'),
    "vector": ("constant", 'vector: f32[D] @reference("m.bias");'),
    "K": ("persistent", "K(l, t): f32[D] @table @fixed(l=4);"),
    "A": ("persistent", "A(i, j): f32[D, H] @auto_dim(i, j);"),
    "step": ("persistent", "step: i32 @init(0x0);"),
    "plain": ("persistent", "plain: f32[D];"),
}
"""Variables by name: their section and their declaration."""
DECIMALS = ("0.5", "1e-6", "2.5e-3", "-1.0", "5.", "inf", "-inf", "nan")


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable of a program: its type as text, such as ``f32[B, D]``, and what may be done with it."""

    name: str
    type: str
    section: str

    @property
    def dtype(self) -> str:
        return self.type.partition("[")[0]


@dataclass(slots=True)
class Writer:
    """A program on its way: what is declared, and how many names there are."""

    random: Random
    variables: list[Variable] = field(default_factory=list[Variable])
    indices: tuple[str, ...] = ()
    targets: set[str] = field(default_factory=set[str])
    in_entry: bool = True
    hands_over: bool = False
    counter: int = 0

    def name(self, stem: str) -> str:
        self.counter += 1
        return f"{stem}{self.counter}"

    def declare(self, stem: str, type_: str, section: str) -> Variable:
        found = Variable(self.name(stem), type_, section)
        self.variables.append(found)
        return found

    def readable(self, type_: str) -> str:
        """Return a variable of a type that operators read; every type has a dynamic one."""
        return self.random.choice([v.name for v in self.variables if v.type == type_])

    def writable(self, type_: str) -> str:
        return self.random.choice([v.name for v in self.variables if v.type == type_ and v.section == "volatile"])

    def type(self) -> str:
        return self.random.choice([v.type for v in self.variables if v.section == "volatile"])

    def bound(self) -> str:
        return self.random.choice(("n", "B", "2", "n+1", "(B+1)*2-n", "steps"))

    def index(self) -> str:
        return self.random.choice(("0", "1", "3", *self.indices))


def program(random: Random) -> str:
    """Return a program without a finding of any phase, but for warnings, against `SIZES` and `TENSORS`."""
    writer = Writer(random)
    for _ in range(random.choice((1, 1, 2))):
        type_ = f"{random.choice((*FLOATS, 'i32', 'u8'))}{random.choice(DIMS)}"
        writer.declare("x", type_, "dynamic")
        writer.declare("y", type_, "volatile")
    made = list(writer.variables)
    body = "\n".join([*_entry(writer), *_other_blocks(writer)])
    return "\n".join([*_declarations(made, body, random), body, ""])


def _declarations(made: list[Variable], body: str, random: Random) -> Iterator[str]:
    """Yield the sections: variables of random types, and those of `FIXED` that the blocks mention."""
    words = {token.text for token in scan(body).words()}
    for section in ("dynamic", "volatile", random.choice(("constant", "constants")), "persistent"):
        lines = [f"{v.name}: {v.type}{_maybe_init(random, v.type)};" for v in made if v.section == section]
        lines += [text for name, (where, text) in FIXED.items() if where == section.rstrip("s") and name in words]
        if lines:
            yield section + random.choice((" {", " {", " { // of these", "\n{"))
            yield from (f"  {line}" for line in lines)
            yield "}"


def _maybe_init(random: Random, type_: str) -> str:
    if random.random() < 0.5:
        return ""
    value = random.choice(DECIMALS) if type_[0] in "fb" else random.choice(("0", "1", "0x10", "7"))
    return f" @init({value})"


def _entry(writer: Writer) -> Iterator[str]:
    yield f"block entry{_hints(writer)} {{"
    yield from _statements(writer, 1, writer.random.choice((1, 2, 3, 5, 8)))
    if writer.random.random() < 0.2:
        writer.hands_over = True
        yield "  yield row;"
        yield "  await row;"
    yield f"  return{writer.random.choice(('', ' out', ' out, rows'))};"
    yield "}"


def _other_blocks(writer: Writer) -> Iterator[str]:
    """Yield the blocks that the statements so far lead to."""
    for name in sorted(writer.targets):
        yield f"block {name} {{"
        yield from _statements(
            replace(writer, indices=(), targets=set(), in_entry=False), 1, writer.random.randrange(3)
        )
        yield "  return;"
        yield "}"
    if writer.hands_over:
        yield "block consumer {"
        yield "  await row;"
        yield "  transfer row >> bias;"
        yield "  yield row;"
        yield "}"


def _statements(writer: Writer, depth: int, count: int) -> Iterator[str]:
    indent = "  " * depth
    for _ in range(count):
        if depth < 4 and writer.random.random() < 0.15:
            yield from _nested(writer, depth)
            continue
        makers = _STATEMENTS if writer.in_entry else _ANYWHERE
        yield f"{indent}{writer.random.choice(makers)(writer)}"


def _nested(writer: Writer, depth: int) -> Iterator[str]:
    indent, random = "  " * depth, writer.random
    index = writer.name("i")
    if random.random() < 0.4:
        head = random.choice(('scope "part \\"one\\""', "scope part"))
        inner = writer
    else:
        head = f"loop {writer.name('l')} ({index} in {random.choice(('0', '1'))}..{writer.bound()})"
        inner = replace(writer, indices=(*writer.indices, index))
    known = len(writer.variables)
    yield f"{indent}{head}{_hints(writer)} {{"
    yield from _statements(inner, depth + 1, random.randrange(1, 3))
    yield f"{indent}}}"
    writer.counter = max(writer.counter, inner.counter)
    del writer.variables[known:]  # a loop may run no time, so what it assigns is not read after it


def _hints(writer: Writer) -> str:
    chosen = writer.random.choice(("",) * 6 + ("fuse = true", 'group = "g", no_reorder = false', "fast = true,"))
    return f" with {{ {chosen} }}" if chosen else ""


def _assign(writer: Writer) -> str:
    type_ = writer.type()
    name = writer.declare("t", type_, "volatile").name
    return f"assign {name}: {type_};"


def _unary(writer: Writer) -> str:
    type_ = writer.type()
    name = writer.random.choice(UNARY if type_[0] in "fb" else ("square", "identity"))
    settings = writer.random.choice(("", f", alpha={writer.random.choice(('0.25', '1e-2'))}")) if name == "relu" else ""
    settings = "" if type_[0] not in "fb" else settings
    return f"op {name}({writer.readable(type_)}{settings}) >> {writer.writable(type_)}{_hints(writer)};"


def _binary(writer: Writer) -> str:
    type_ = writer.type()
    name = writer.random.choice(BINARY if type_[0] in "fb" else INTEGER_BINARY)
    inputs = f"{writer.readable(type_)}, {writer.readable(type_)}"
    return f"op {name}({inputs}) >> {writer.writable(type_)}{_hints(writer)};"


def _cast(writer: Writer) -> str:
    source, target = writer.type(), writer.type()
    if source.removeprefix(source.partition("[")[0]) != target.removeprefix(target.partition("[")[0]):
        return _transfer(writer)
    return f"op cast({writer.readable(source)}, to={target.partition('[')[0]}) >> {writer.writable(target)};"


def _matmul(writer: Writer) -> str:
    return f"op matmul({writer.random.choice(('square', f'W[{writer.index()}]'))}, W[{writer.index()}]) >> out;"


def _linear(writer: Writer) -> str:
    return f"op linear(square, W[{writer.index()}], bias={writer.random.choice(('row', 'vector', 'bias'))}) >> out;"


def _shaped(writer: Writer) -> str:
    return writer.random.choice(
        (
            "op sum_axis(square, axis=0) >> bias;",
            "op transpose(square, perm=[1, 0]) >> out;",
            "op reshape(square, shape=[D, -1]) >> out;",
            "op reshape(square, shape=[n+1, D]) >> out;",
            "op softmax(square, axis=-1) >> out;",
            "op fill(row, value=c) >> bias;",
            "op clamp(row, min=0.0, max=6.0,) >> bias;",
        )
    )


def _transfer(writer: Writer) -> str:
    type_ = writer.type()
    return f"transfer {writer.readable(type_)} >> {writer.writable(type_)}{_hints(writer)};"


def _cache(writer: Writer) -> str:
    index = writer.index()
    return writer.random.choice(
        (
            f"cache.write row >> K[{index}, step]{_hints(writer)};",
            f"cache.read K[{index}, 0] >> bias;",
            f"cache.read K[{index}, 0..n] >> wide;",
            "cache.read K[, 2] >> rows;",
            "cache.read plain >> bias;",
            "cache.write row >> plain;",
            "cache.reset K;",
            "cache.reset A;",
            f"cache.reset K[{index}];",
            "cache.increment step;",
            "cache.increment 2 step;",
            "cache.decrement 1 step;",
        )
    )


def _order(writer: Writer) -> str:
    dep = "barrier; transfer row >> bias; dep after(barrier) before(cache.write); cache.write row >> plain;"
    return writer.random.choice(("barrier;", dep, "// a remark", "barrier; /* a remark /* in a remark */ */"))


def _branch(writer: Writer) -> str:
    found = writer.random.choice((("left",), ("right",), ("left", "right")))
    writer.targets |= set(found)
    if len(found) == 1:
        return f"branch {found[0]};"
    return writer.random.choice(("branch ready left right;", "branch ready right left;"))


_ANYWHERE: tuple[Callable[[Writer], str], ...] = (
    *(_unary, _binary, _binary, _cast, _matmul, _linear, _shaped, _transfer, _cache, _cache, _order),
)
_STATEMENTS = (*_ANYWHERE, _assign, _branch)


def changed(text: str, random: Random) -> str:
    """Return a program with a line or a token changed for another such: mostly still within the grammar."""
    return random.choice((_line_changed, _token_changed, _token_changed, _token_changed))(text, random)


def _line_changed(text: str, random: Random) -> str:
    lines = text.split("\n")
    whole = [number for number, line in enumerate(lines) if line.rstrip().endswith(";")]
    if not whole:
        return text
    here, there = random.choice(whole), random.choice(whole)
    line = lines[here]
    how = random.randrange(4)
    if how == 0:
        del lines[here]
    elif how == 1:
        lines.insert(there, line)
    else:
        lines[here], lines[there] = lines[there], line
    return "\n".join(lines)


def _token_changed(text: str, random: Random) -> str:
    found = [token for token in scan(text).words() if token.kind in ("name", "number", "string")]
    if not found:
        return text
    token = random.choice(found)
    return text[: token.start] + _instead(token, found, random) + text[token.start + len(token.text) :]


def _instead(token: Token, found: list[Token], random: Random) -> str:
    if token.kind == "number":
        return random.choice((*NUMBERS, *DECIMALS, "n", "x1", "n+1", "2*(D-1)"))
    same = [other.text for other in found if other.kind == token.kind]
    if token.kind == "string":
        return random.choice((*same, '"W.{t}"', '"missing"', '"{l}-{l}"', '"\\u{1F600}"', '"*/"', '""'))
    return random.choice(
        (*same, "missing", f"{token.text}_", token.text[:-1] or "q", token.text.upper(), "true", "f16")
    )
