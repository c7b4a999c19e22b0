"""Shape rules and definitions of the catalogue on sizes, and how long undeclared results take to bind.

`python benchmarks/sizes.py [--bindings N] [--temporaries N]`. Every extent of every operator's examples becomes a size;
rules are compared with what they yield on numbers, at N bindings each. Then definitions are made on sizes: with extents
free, and with integer settings free too. A form is one for the example's own sizes; operators without one are listed.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import openinfer as oi
from openinfer.dims import Dim, NeedsNumberError, Space
from openinfer.errors import OpenInferError
from openinfer.ops.calls import OpCall

sys.path.insert(0, str(Path(__file__).parents[1] / "openinfer-core" / "tests" / "support"))

from free_calls import SCHEMAS, FreeCall, definition_of, free_settings, is_defined, sizes_of


def calls() -> Iterator[FreeCall]:
    for _, schema in sorted(SCHEMAS.items()):
        yield from (FreeCall(schema, example) for example in schema.examples)


def outcome(call: OpCall | None, error: Exception | None, values: Mapping[str, int]) -> object:
    if call is None:
        return type(error)
    shapes = [[n.at(values) if type(n) is Dim else n for n in made.shape] for made in call.outputs]
    return [made.dtype.name for made in call.outputs], shapes


def on_numbers(call: FreeCall, extents: Mapping[str, int]) -> object:
    try:
        return outcome(call.at(extents), None, {})
    except (OpenInferError, ArithmeticError) as error:
        return outcome(None, error, {})


def compare_rules(bindings: int) -> None:
    compared = examples = different = 0
    for call in filter(lambda call: call.extents, calls()):
        space = Space()
        sizes = sizes_of(call, space)
        paths = space.explore(lambda call=call, sizes=sizes: call.at(sizes))
        examples += 1
        for extents in call.bindings(bindings):
            (taken,) = (path for path in paths if path.is_taken(extents))
            compared += 1
            different += outcome(taken.value, taken.error, extents) != on_numbers(call, extents)
    print(f"rules of {examples} examples at {compared} bindings: {different} differences")


def has_form(call: FreeCall, *, with_settings: bool) -> bool:
    """Return whether the definition has a form on sizes that holds at the example's own."""
    space = Space()
    settings, values = None, call.extents
    if with_settings:
        settings, values = free_settings(call, space), values | call.integers
    sizes = sizes_of(call, space)

    def defined() -> object:
        made = call.at(sizes, settings)
        return definition_of(call.schema, made.substituted(space.solutions()))

    try:
        paths = space.explore(defined)
    except (NeedsNumberError, TypeError):
        return False
    return any(path.value is not None and path.is_taken(values) for path in paths)


def is_computed(call: FreeCall) -> bool:
    """Return whether the example has a definition on numbers: its element types go with its settings."""
    if not is_defined(call.schema):
        return False
    try:
        definition_of(call.schema, call.at(call.extents))
    except (OpenInferError, ArithmeticError):
        return False
    return True


def count_forms(*, with_settings: bool) -> None:
    defined = [call for call in calls() if is_computed(call)]
    refused = Counter(call.schema.name for call in defined if not has_form(call, with_settings=with_settings))
    forms = len(defined) - refused.total()
    what = "extents and integer settings" if with_settings else "extents"
    print(f"definitions with {what} free: {forms} of {len(defined)} ({100 * forms / len(defined):.1f} %) have a form")
    print(f"  without: {', '.join(f'{name} {count}' for name, count in refused.most_common())}")


def processor_time(call: Callable[[], object]) -> float:
    started = time.process_time()
    call()
    return time.process_time() - started


def time_binding(temporaries: int) -> None:
    statements = "".join(f"op exp(y) >> t{number};\n" for number in range(temporaries))
    program = oi.graph(f"volatile {{ y: f32; }} block entry {{ {statements} return y; }}")
    model = oi.Model.from_arrays({})
    oi.Simulator(model, "volatile { y: f32; } block entry { op exp(y) >> t; return y; }")  # Loads what binding needs.
    seconds = min(processor_time(lambda: oi.Simulator(model, program)) for _ in range(3))
    print(f"bind of {temporaries} undeclared temporaries: {seconds:.2f} s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bindings", type=int, default=50)
    parser.add_argument("--temporaries", type=int, default=25_000)
    options = parser.parse_args()
    compare_rules(options.bindings)
    count_forms(with_settings=False)
    count_forms(with_settings=True)
    time_binding(options.temporaries)


if __name__ == "__main__":
    main()
