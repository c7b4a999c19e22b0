"""A program as text for people: comments say which part of the model follows and what shape leaves it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from openinfer.importers.onnx_files.branches import BranchCall
from openinfer.importers.onnx_files.cache_text import cache_declaration, cache_lines, counter_lines
from openinfer.importers.onnx_files.caches import APPEND, CALLS, cache_of, cache_stems
from openinfer.importers.onnx_files.elements import uniform
from openinfer.importers.onnx_files.loops import Carried, Loop, LoopCall, Table
from openinfer.importers.onnx_files.naming import Names, Stems, keeps_name, legal, use_of, value_stem
from openinfer.importers.onnx_files.setting_values import attribute_of
from openinfer.importers.onnx_files.sizes import names_of, shape_text, size_text, typed
from openinfer.importers.onnx_files.stage_text import HEAVY, LONGEST_LINE, comment, label, stage_end
from openinfer.importers.onnx_files.values import Call, Value, index_of
from openinfer.ir.strings import quoted
from openinfer.ir.text import scalar_text, value_text
from openinfer_oinf.convert.naming import plain_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from openinfer.importers.onnx_files.source import Payload
    from openinfer.importers.onnx_files.values import Cache, Program, Setting
    from openinfer.plugins.environment import Environment

_DIGITS = re.compile(r"\d+")
_ZERO = re.compile(r"\b0\b")


@dataclass(slots=True)
class Printed:
    """Program text, and what it needs.

    Attributes:
        weights: payloads by their names in the container.
        values: names in the program by names in the model.
        states: persistent variables by the names of inputs in the model.
    """

    text: str
    weights: dict[str, Payload] = field(default_factory=dict[str, "Payload"])
    inputs: dict[str, str] = field(default_factory=dict[str, str])
    outputs: dict[str, str] = field(default_factory=dict[str, str])
    values: dict[str, str] = field(default_factory=dict[str, str])
    states: dict[str, str] = field(default_factory=dict[str, str])


def printed(
    program: Program, environment: Environment, title: str, statements: Sequence[Call | Loop] | None = None
) -> Printed:
    """Return the text of a program; ``statements`` are its calls with loops in place of repeated ones."""
    return _Printer(program, environment, program.calls if statements is None else statements).printed(title)


class _Printer:
    def __init__(self, program: Program, environment: Environment, statements: Sequence[Call | Loop]) -> None:
        self._program = program
        self._body = statements
        self._depth = 0
        self._read = {id(value) for call in program.calls for value in call.reads()}
        self._read |= {id(value) for _, value in program.outputs}
        self._environment = environment
        self._names = Names([*program.sizes, *program.indices, *program.counters, *program.counts])
        self._of: dict[int, str] = {id(counter.value): name for name, counter in program.counters.items()}
        self._of |= {id(value): name for name, value in program.counts.items()}
        self._caches: dict[int, tuple[str, str]] = {}
        self._persistent: list[str] = []
        self._carried: set[int] = set()
        self._blocks: list[str] = []
        self._constants: list[str] = []
        self._numbers: dict[tuple[str, str, tuple[int, ...], str], str] = {}
        self._result = Printed("")
        self._stems = Stems()
        self._uses: dict[int, str] = {}

    def printed(self, title: str) -> Printed:
        program, result = self._program, self._result
        dynamic = [self._input(value) for value in program.inputs]
        states = [(self._names.new(legal(value.name, "state")), value) for value, _, _ in program.states]
        result.states = {value.name: name for name, value in states}
        for name, value in states:
            self._of[id(value)] = self._names.new(f"{name}_now")
        self._persistent += [self._state(name, value) for name, value in states]
        counters, reads, counts = counter_lines(program, self._names)
        self._persistent += counters
        outputs = self._name_outputs()
        self._name_constants()
        body = reads + [f"  cache.read {name} >> {self._of[id(value)]};" for name, value in states]
        body += list(self._statements())
        volatile = [
            f"  {name}: {typed(value.dtype, value.dims)};" for name, value, _ in outputs if self._is_sized(value)
        ]
        body += [f"  transfer {self._ref(value)} >> {name};" for name, value, is_copy in outputs if is_copy]
        for (name, _), (_, output, after) in zip(states, program.states, strict=True):
            body.append(f"  cache.write {result.outputs.get(output) or self._ref(after)} >> {name};")
        body += counts
        names = ", ".join(name for name, _, _ in outputs)
        sections = [
            "\n".join(self._heading(title)),
            _section("dynamic", dynamic),
            _section("persistent", self._persistent),
            _section("constant", self._constants),
            _section("volatile", volatile),
            "\n".join(["block entry {", *body, f"  return {names};", "}"]),
            *self._blocks,
        ]
        result.text = "\n\n".join(filter(None, sections)) + "\n"
        return result

    def _is_sized(self, value: Value) -> bool:
        """Whether the extents of a value are sizes, which a declaration may have."""
        return not names_of(*value.dims) & {*self._program.counters, *self._program.counts}

    def _heading(self, title: str) -> Iterator[str]:
        yield f"// {comment(title)}"
        for name in self._program.sizes:
            origin = self._program.origins.get(name)
            if origin:
                yield f"// The size {name} is {comment(quoted(origin))} in the model."

    def _input(self, value: Value) -> str:
        name = self._names.new(legal(value.name, "x"))
        self._of[id(value)] = name
        self._result.inputs[value.name] = name
        note = "" if name == value.name else f"  // {comment(quoted(value.name))}"
        return f"  {name}: {typed(value.dtype, value.dims)};{note}"

    def _name_outputs(self) -> list[tuple[str, Value, bool]]:
        """Name outputs; return each with its value, and whether that has to be copied there."""
        written = {id(value) for call in self._program.calls for value in call.outputs}
        found: list[tuple[str, Value, bool]] = []
        for name, value in self._program.outputs:
            if name in self._program.internal:
                continue
            own = self._names.new(legal(name, "y"))
            self._result.outputs[name] = own
            is_copy = id(value) not in written or id(value) in self._of
            if not is_copy:
                self._of[id(value)] = own
                self._result.values[name] = own
            found.append((own, value, is_copy))
        return found

    def _name_constants(self) -> None:
        values = [value for call in self._program.calls for value in call.reads()]
        values += [value for _, value in self._program.outputs]
        weights = [v.name for v in {id(v): v for v in values}.values() if v.payload is not None and v.name]
        self._stems = Stems(weights, (call.stage for call in self._program.calls))
        for call in self._program.calls:
            schema = self._environment.ops.get(call.op)
            for position, value in enumerate(call.inputs if schema else ()):
                if schema and value is not None and value.payload is not None:
                    use = use_of(call.op, position, schema.inputs[min(position, len(schema.inputs) - 1)].name)
                    # What operators use in different ways is a number.
                    self._uses[id(value)] = use if self._uses.get(id(value), use) == use else ""

    def _state(self, name: str, value: Value) -> str:
        """Return the declaration of a state, with the tensor that it starts with."""
        kind, payload = typed(value.dtype, value.dims), self._program.initial.get(value.name)
        if payload is None:
            return f"  {name}: {kind};"
        number = uniform(payload)
        if number is not None:
            return f"  {name}: {kind} @init({scalar_text(value.dtype, number)});"
        stored = plain_name(value.name) or name
        self._result.weights[stored] = payload
        return f"  {name}: {kind}{self._link(name, stored)};"

    @staticmethod
    def _link(name: str, stored: str) -> str:
        """Return the attribute that names the tensor of a variable, where that has another name."""
        return "" if stored == name else f" @ref({quoted(stored)})"

    # Constants

    def _ref(self, value: Value, use: str = "") -> str:
        found = self._of.get(id(value)) or index_of(value, self._program.indices)
        if found is None:
            found = self._of[id(value)] = self._constant(value, value.known, self._uses.get(id(value), use))
        return found

    def _constant(self, value: Value, payload: Payload, use: str) -> str:
        number = uniform(payload)
        kind = typed(value.dtype, value.dims)
        if number is not None:
            text = scalar_text(value.dtype, number)
            stem = self._stems.number(value.name, payload.count, number, use)
            key = (value.dtype.name, text, payload.shape, value.name if keeps_name(value.name, payload.count) else stem)
            if key not in self._numbers:
                name = self._numbers[key] = self._names.new(stem)
                self._constants.append(f"  {name}: {kind} @init({text});")
            return self._numbers[key]
        name = self._names.new(self._stems.weight(value.name, "table"))
        stored = plain_name(value.name) or name
        while stored in self._result.weights or not stored.strip("._-"):
            stored = f"{stored}_{name}"
        self._result.weights[stored] = payload
        link = self._link(name, stored)
        note = "" if stored == value.name or not value.name else f"  // {comment(quoted(value.name))}"
        self._constants.append(f"  {name}: {kind}{link};{note}")
        return name

    # Statements

    def _statements(self) -> Iterator[str]:
        flat: list[Call] = []
        for each in self._body:
            if isinstance(each, Loop):
                self._name_carried(each)
                self._name_loops(each.calls)
            else:
                self._name_loops([each])
        is_first = True
        for statement in self._body:
            if isinstance(statement, Call):
                flat.append(statement)
                continue
            yield from self._stages(flat)
            yield from [""] if flat else []
            yield from self._loop(statement)
            flat, is_first = [], False
        yield from [""] if flat and not is_first else []
        yield from self._stages(flat)

    def _name_loops(self, calls: Sequence[Call]) -> None:
        for call in calls:
            if isinstance(call, LoopCall) and call.loop is not None:
                self._name_carried(call.loop)
                self._name_loops(call.loop.calls)
            elif isinstance(call, BranchCall):
                for side in call.sides:
                    self._name_loops(side.calls)

    def _name_carried(self, loop: Loop) -> None:
        """Name what turns hand on: one name for what goes in, what the body writes and what comes out."""
        for carried in loop.carried:
            stem = carried.stem or (
                "h" if len(loop.carried) == 1 else value_stem(carried.after.name or carried.written.name, "h")
            )
            name = self._of.get(id(carried.after)) or self._names.new(stem)
            self._carried.add(id(carried.written))
            self._of[id(carried.written)] = self._of[id(carried.after)] = name
            if self._may_share(carried, loop):
                self._of[id(carried.initial)] = name
            if carried.before is not carried.initial:
                self._of[id(carried.before)] = name

    def _may_share(self, carried: Carried, loop: Loop) -> bool:
        """Whether the value that goes in is written by a call and read by nobody but the loop."""
        inside = {id(call) for call in loop.calls}
        readers = [call for call in self._program.calls if any(value is carried.initial for value in call.reads())]
        first = [call for call in readers if id(call) in inside or (isinstance(call, LoopCall) and call.loop is loop)]
        is_written = any(value is carried.initial for call in self._program.calls for value in call.outputs)
        is_output = any(value is carried.initial for _, value in self._program.outputs)
        times = sum(other.initial is carried.initial for other in loop.carried)
        is_alone = len(first) == len(readers) and times == 1 and not is_output
        return is_written and is_alone and id(carried.initial) not in self._of

    def _loop(self, loop: Loop) -> Iterator[str]:
        index = loop.index if loop.index in self._program.indices else self._names.new(loop.index or "i")
        outer = dict(self._of)
        for table in loop.tables:
            self._of[id(table.first)] = f"{self._table(table, index)}[{index}]"
        for cache in loop.caches:
            self._declare_cache(cache, index)
        shown = [f"[{shape_text(carried.after.dims)}]" for carried in loop.carried]
        yield f"  // {comment(loop.title)} >> {', '.join(shown)}"
        for carried in loop.carried:
            name = self._of[id(carried.written)]
            if self._of.get(id(carried.initial)) != name:
                if name not in self._result.outputs.values():
                    yield f"  assign {name}: {typed(carried.after.dtype, carried.after.dims)};"
                yield f"  transfer {self._ref(carried.initial)} >> {name};"
                self._of[id(carried.before)] = name
        yield f"  loop {loop.name} ({index} in 0..{self._count(loop)}) {{"
        kept, self._result.values = self._result.values, {}
        self._depth += 1
        late = self._late(loop)
        yield from (f"  {line}" if line else "" for line in self._stages(loop.calls))
        yield from (f"    transfer {temporary} >> {name};" for temporary, name in late)
        self._depth -= 1
        self._result.values = kept
        yield "  }"
        for carried in loop.carried:
            self._of[id(carried.before)] = outer.get(id(carried.before), self._of[id(carried.before)])
        for table in loop.tables:
            # Others may read the weight of the first layer as well.
            del self._of[id(table.first)]

    def _count(self, loop: Loop) -> str:
        return self._ref(loop.count) if isinstance(loop.count, Value) else size_text(loop.count)

    def _late(self, loop: Loop) -> list[tuple[str, str]]:
        """Rename what may only be handed on at the end of a layer; return pairs of temporary and variable."""
        pairs: list[tuple[str, str]] = []
        for carried in loop.carried:
            name = self._of[id(carried.written)]
            writers = [n for n, call in enumerate(loop.calls) if any(v is carried.written for v in call.outputs)]
            readers = [n for n, call in enumerate(loop.calls) if any(v is carried.before for v in call.reads())]
            if not writers:
                # The body hands on what it did not make: what it takes, or a value from outside.
                del self._of[id(carried.written)]
                pairs.append((self._ref(carried.written), name))
                continue
            last, writer = max(readers, default=-1), writers[0]
            call = loop.calls[writer]
            is_in_place = call.op in self._environment.ops and self._environment.op(call.op).in_place
            if last < writer or (last == writer and is_in_place):
                continue
            temporary = self._of[id(carried.written)] = self._names.new(f"next_{name}")
            pairs.append((temporary, name))
        return pairs

    def _table(self, table: Table, layer: str) -> str:
        name = self._names.new(legal(table.pattern.replace("{l}", ""), "weights"))
        pattern = "{l}".join(plain_name(part) for part in table.pattern.split("{l}"))
        while any(pattern.replace("{l}", str(n)) in self._result.weights for n in range(len(table.payloads))):
            pattern = f"{pattern}_{name}"
        for number, payload in enumerate(table.payloads):
            self._result.weights[pattern.replace("{l}", str(number))] = payload
        kind, formal = typed(table.first.dtype, table.first.dims), pattern.replace("{l}", f"{{{layer}}}")
        self._constants.append(f"  {name}({layer}): {kind} @pattern({quoted(formal)});")
        return name

    def _stages(self, calls: Sequence[Call]) -> Iterator[str]:
        start, was_short = 0, True
        while start < len(calls):
            end = stage_end(calls, start)
            last = calls[end - 1].outputs[0]
            shape = shape_text(last.dims)
            said = f"// {comment(self._label_of(calls[start:end]))} >> [{shape}]"
            lines = [
                line
                for call in calls[start:end]
                for line in (self._loop(call.loop) if isinstance(call, LoopCall) and call.loop else self._call(call))
            ]
            # A single call outside of every module says itself what it is.
            has_comment = end - start > 1 or bool(calls[start].stage) or calls[start].op in HEAVY
            is_short = len(lines) == 1 and (not has_comment or len(lines[0]) + len(said) + 2 <= LONGEST_LINE)
            if start and not self._depth and has_comment and not (is_short and was_short):
                yield ""
            if has_comment and is_short:
                lines = [f"{lines[0]}  {said}"]
            elif has_comment:
                yield f"  {said}"
            yield from lines
            start, was_short = end, is_short

    def _label_of(self, calls: Sequence[Call]) -> str:
        stage = self._stems.stage(calls[0].stage) or label(calls)
        return stage if not self._depth else _ZERO.sub("l", stage, count=1)

    def _declare_cache(self, cache: Cache, layer: str) -> tuple[str, str]:
        stem = cache_stems(_DIGITS.sub("", cache.name) if layer else cache.name)[0]
        name = self._names.new(stem)
        self._caches[id(cache)] = name, layer
        self._persistent.append(cache_declaration(cache, name, layer, self._program))
        return name, layer

    def _cache_call(self, call: Call) -> Iterator[str]:
        cache, result = cache_of(call), call.outputs[0]
        place = self._caches.get(id(cache)) or self._declare_cache(cache, "")
        stem = cache_stems(_DIGITS.sub("", cache.name) if place[1] else cache.name)[1]
        result.name = stem if call.op == APPEND else f"past_{stem}"
        target = self._target(result, call.op) if id(result) in self._read else None
        yield from cache_lines(call, place, self._ref, target)

    def _call(self, call: Call) -> Iterator[str]:
        if call.op in CALLS:
            yield from self._cache_call(call)
            return
        if isinstance(call, BranchCall):
            yield self._branch(call)
            return
        schema = self._environment.op(call.op)
        arguments: list[str] = []
        named: list[str] = []
        for position, value in enumerate(call.inputs):
            spec = schema.inputs[min(position, len(schema.inputs) - 1)]
            if value is None:
                continue
            text = self._ref(value, use_of(call.op, position, spec.name))
            if spec.optional:
                named.append(f"{spec.name}={text}")
            else:
                arguments.append(text)
        settings = [f"{name}={self._setting(name, value)}" for name, value in call.settings.items()]
        targets = [self._target(value, call.op, call.stage) for value in call.outputs]
        if call.declared:
            for name, value in zip(targets, call.outputs, strict=True):
                if name not in self._result.outputs.values() and id(value) not in self._carried:
                    yield f"  assign {name}: {typed(value.dtype, value.dims)};"
        yield f"  op {call.op}({', '.join([*arguments, *named, *settings])}) >> {', '.join(targets)};"

    def _branch(self, call: BranchCall) -> str:
        """Return the statement of a branch; its blocks are printed after the entry."""
        condition = self._ref(call.inputs[0]) if call.inputs[0] is not None else ""
        targets = [self._target(value, "chosen") for value in call.outputs]
        blocks = [self._names.new(side.name) for side in call.sides]
        kept, self._result.values = self._result.values, {}
        depth, self._depth = self._depth, 1
        for block, side in zip(blocks, call.sides, strict=True):
            made = {id(value) for each in side.calls for value in each.outputs}
            copied: list[tuple[Value, str]] = []
            for value, target in zip(side.results, targets, strict=True):
                if id(value) in made and id(value) not in self._of:
                    self._of[id(value)] = target
                else:
                    copied.append((value, target))
            lines = list(self._stages(side.calls))
            lines += [f"  transfer {self._ref(value)} >> {target};" for value, target in copied]
            self._blocks.append("\n".join([f"block {block} {{", *lines, "  return;", "}"]))
        self._depth, self._result.values = depth, kept
        return f"  branch {condition} {' '.join(blocks)};"

    def _target(self, value: Value, op: str, stage: str = "") -> str:
        if id(value) not in self._of:
            self._of[id(value)] = self._names.new(self._stems.value(value.name, op, stage))
            if value.name:
                self._result.values[value.name] = self._of[id(value)]
        return self._of[id(value)]

    def _setting(self, name: str, value: Setting) -> str:
        if isinstance(value, Value):
            return self._ref(value, name)
        return value_text(attribute_of(value))


def _section(keyword: str, lines: Sequence[str]) -> str:
    return "\n".join([f"{keyword} {{", *lines, "}"]) if lines else ""
