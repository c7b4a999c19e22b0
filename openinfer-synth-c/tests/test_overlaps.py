"""Results that begin to overwrite operands which are still read: nothing is lost, and less memory is taken."""

import re

import numpy as np
import pytest

import openinfer as oi
from openinfer.codegen import loop_program
from openinfer.loops.interpret import interpret
from openinfer.plan import halos
from openinfer.plan.steps import ComputeStep, ValueRef
from openinfer.plan.values import ArenaMemory, InputMemory, OutputMemory, WeightMemory

SEPARABLE = """
dynamic { image: f32[1, 3, 10, 10]; }
constant { w0: f32[8, 3, 3, 3]; w1: f32[8, 1, 3, 3]; w2: f32[16, 8, 1, 1]; w3: f32[16, 1, 3, 3]; }
block entry {
  assign a: f32[1, 8, 10, 10]; assign b: f32[1, 8, 10, 10]; assign c: f32[1, 16, 10, 10]; assign d: f32[1, 16, 5, 5];
  op conv2d(image, w0, padding=[1, 1, 1, 1]) >> a;
  op conv2d(a, w1, padding=[1, 1, 1, 1], groups=8) >> b;
  op conv2d(b, w2) >> c;
  op conv2d(c, w3, stride=[2, 2], padding=[0, 0, 1, 1], groups=16) >> d;
  op global_avg_pool(d) >> y;
  return y;
}
"""

RESIDUAL = """
dynamic { image: f32[1, 4, 8, 8]; }
constant { w0: f32[8, 4, 3, 3]; w1: f32[8, 8, 3, 3]; w2: f32[8, 8, 3, 3]; w3: f32[8, 8, 3, 3]; }
block entry {
  assign a: f32[1, 8, 8, 8]; assign b: f32[1, 8, 8, 8]; assign c: f32[1, 8, 8, 8]; assign d: f32[1, 8, 4, 4];
  op conv2d(image, w0, padding=[1, 1, 1, 1]) >> a;
  op conv2d(a, w1, padding=[1, 1, 1, 1]) >> b;
  op conv2d(b, w2, padding=[1, 1, 1, 1]) >> c;
  op add(c, a) >> c;
  op conv2d(c, w3, stride=[2, 2], padding=[0, 0, 1, 1]) >> d;
  op global_avg_pool(d) >> y;
  return y;
}
"""

PROGRAMS = {"separable": SEPARABLE, "residual": RESIDUAL}


def weights(text):
    generator = np.random.default_rng(7)
    section = text.split("constant {")[1].split("}")[0]
    shapes = {entry.split(":")[0].strip(): entry.split("[")[1].split("]")[0] for entry in section.split(";")[:-1]}
    return {
        name: generator.standard_normal([int(n) for n in shape.split(",")]).astype(np.float32) / 4
        for name, shape in shapes.items()
    }


def plan_of(text, arch=None):
    return oi.Synthesizer("c", arch=arch).synthesize(oi.Model.from_arrays(weights(text)), text).plan


def computations(plan):
    return [step for step in plan.procedures[-1].steps if isinstance(step, ComputeStep)]


def result_of(plan, image, arena):
    """Interpret the steps of a plan; ``arena(offset, count)`` returns the memory of a value."""
    memory = {}
    for value in plan.values:
        count = value.stored.count
        match value.memory:
            case InputMemory():
                memory[value.number] = image.ravel()
            case WeightMemory(number):
                memory[value.number] = np.frombuffer(plan.weights[number].data, np.float32)
            case ArenaMemory(offset):
                memory[value.number] = arena(offset, count)
            case OutputMemory():
                memory[value.number] = np.full(count, np.nan, np.float32)
            case _:
                pass
    for step in computations(plan):
        kernel = loop_program(step)
        operands = [*step.inputs, *map(ValueRef, (*step.outputs, *step.temporaries))]
        interpret(kernel, {b.name: memory[o.value] for b, o in zip(kernel.buffers, operands, strict=True)})
    return memory[plan.outputs[0].value]


def overlapping(plan):
    """Return the names of (result, operand) of steps that lie in the same bytes in part."""
    found = []
    for step in computations(plan):
        for output in step.outputs:
            for operand in step.inputs:
                one, other = plan.values[output], plan.values[operand.value]
                if isinstance(one.memory, ArenaMemory) and isinstance(other.memory, ArenaMemory):
                    start, place = one.memory.offset, other.memory.offset
                    if start < place + other.stored.nbytes and place < start + one.stored.nbytes:
                        found.append((one.name, other.name))
    return found


@pytest.mark.parametrize("arch", [None, "host"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_in_its_arena_computes_what_it_does_with_memory_for_every_value(name, arch):
    plan = plan_of(PROGRAMS[name], arch)
    image = np.random.default_rng(1).standard_normal(plan.inputs[0].type.shape).astype(np.float32)
    whole = np.full(plan.arena_nbytes // 4, np.nan, np.float32)

    together = result_of(plan, image, lambda offset, count: whole[offset // 4 : offset // 4 + count])
    apart = result_of(plan, image, lambda _, count: np.full(count, np.nan, np.float32))

    assert overlapping(plan)
    np.testing.assert_array_equal(together, apart)


@pytest.mark.parametrize("name", PROGRAMS)
def test_images_without_halos_hold_the_same_elements(name, monkeypatch):
    image = np.random.default_rng(1).standard_normal(plan_of(PROGRAMS[name]).inputs[0].type.shape).astype(np.float32)
    roomy = plan_of(PROGRAMS[name])
    monkeypatch.setattr(halos, "SMALL", 0)
    tight = plan_of(PROGRAMS[name])
    whole = np.full(tight.arena_nbytes // 4, np.nan, np.float32)

    found = result_of(tight, image, lambda offset, count: whole[offset // 4 : offset // 4 + count])
    expected = result_of(roomy, image, lambda _, count: np.full(count, np.nan, np.float32))

    assert tight.arena_nbytes < roomy.arena_nbytes
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


CHAIN = """
dynamic { image: f32[1, 3, 14, 14]; }
constant {
  w0: f32[8, 3, 1, 1]; w1: f32[8, 1, 3, 3]; w2: f32[8, 8, 1, 1]; w3: f32[8, 1, 3, 3]; w4: f32[8, 8, 1, 1];
  w5: f32[8, 1, 3, 3];
}
block entry {
  op conv2d(image, w0) >> a;
  op conv2d(a, w1, padding=[1, 1, 1, 1], groups=8) >> b;
  op conv2d(b, w2) >> c;
  op conv2d(c, w3, padding=[1, 1, 1, 1], groups=8) >> d;
  op conv2d(d, w4) >> e;
  op conv2d(e, w5, padding=[1, 1, 1, 1], groups=8) >> f;
  op global_avg_pool(f) >> y;
  return y;
}
"""


def test_steps_of_a_chain_take_turns_in_walking_their_images_backwards(monkeypatch):
    monkeypatch.setattr(halos, "SMALL", 0)
    plan = plan_of(CHAIN)
    image = np.random.default_rng(1).standard_normal(plan.inputs[0].type.shape).astype(np.float32)
    whole = np.full(plan.arena_nbytes // 4, np.nan, np.float32)

    together = result_of(plan, image, lambda offset, count: whole[offset // 4 : offset // 4 + count])
    apart = result_of(plan, image, lambda _, count: np.full(count, np.nan, np.float32))

    row, ways = 8 * 14 * 4, [step.arrangement.backwards for step in computations(plan)]
    assert {True, False} == set(ways)
    # Five results that all begin before their operands would take the rows of a step five times.
    assert plan.arena_nbytes <= 14 * row + 5 * row
    np.testing.assert_array_equal(together, apart)


SPOTTING = """
dynamic { image: f32[1, 3, 12, 4]; }
constant {
  w0: f32[64, 3, 1, 1]; w1: f32[64, 1, 3, 3]; w2: f32[64, 64, 1, 1]; w3: f32[64, 1, 3, 3]; w4: f32[64, 64, 1, 1];
}
block entry {
  op conv2d(image, w0) >> a;
  op conv2d(a, w1, padding=[1, 1, 1, 1], groups=64) >> b;
  op conv2d(b, w2) >> c;
  op conv2d(c, w3, padding=[1, 1, 1, 1], groups=64) >> d;
  op conv2d(d, w4) >> e;
  op global_avg_pool(e) >> y;
  return y;
}
"""


def spotting_with(channels):
    return SPOTTING.replace("64", str(channels))


def test_a_chain_of_depthwise_and_pointwise_convolutions_needs_one_image_and_less_than_a_row(monkeypatch):
    monkeypatch.setattr(halos, "SMALL", 0)
    plan = plan_of(SPOTTING)

    # Rings of three rows of four channels lie before or after it.
    assert [step.arrangement.sliding for step in computations(plan)[:5]] == [False, True, False, True, False]
    row = 4 * 64 * 4
    assert plan.arena_nbytes < 12 * row + row


def test_rings_of_rows_before_and_after_an_image_lose_nothing(monkeypatch):
    monkeypatch.setattr(halos, "SMALL", 0)
    # Fewer channels than above, because the interpreter of loop programs takes seconds for half a million products.
    plan = plan_of(spotting_with(channels=16))
    image = np.random.default_rng(1).standard_normal(plan.inputs[0].type.shape).astype(np.float32)
    whole = np.full(plan.arena_nbytes // 4, np.nan, np.float32)

    together = result_of(plan, image, lambda offset, count: whole[offset // 4 : offset // 4 + count])
    apart = result_of(plan, image, lambda _, count: np.full(count, np.nan, np.float32))

    assert [step.arrangement.sliding for step in computations(plan)[:5]] == [False, True, False, True, False]
    assert plan.arena_nbytes < 12 * (4 * 16 * 4) * 2
    np.testing.assert_array_equal(together, apart)


def test_wide_registers_have_room_for_whole_rows():
    plan = plan_of(SPOTTING, machine(64))

    assert not any(step.arrangement.sliding for step in computations(plan))


CROWDED = """
dynamic { image: f32[1, 8, 32, 32]; }
constant { w0: f32[8, 8, 3, 3]; w1: f32[8, 8, 3, 3]; w2: f32[8, 8, 3, 3]; w3: f32[8, 8, 3, 3]; w4: f32[8, 8, 3, 3]; }
block entry {
  op conv2d(image, w0, padding=[1, 1, 1, 1]) >> a;
  op conv2d(a, w1, padding=[1, 1, 1, 1]) >> b;
  op conv2d(b, w2, padding=[1, 1, 1, 1]) >> c;
  op add(c, a) >> d;
  op conv2d(d, w3, stride=[2, 2], padding=[0, 0, 1, 1]) >> e;
  op conv2d(e, w4, padding=[1, 1, 1, 1]) >> f;
  op global_avg_pool(f) >> y;
  return y;
}
"""


def machine(nbytes):
    return {
        "version": 2,
        "device": {"type": "cpu", "api": "c"},
        "target": {"lanes": nbytes // 4, "registers": 32, "fma": True, "dialect": "c99"},
    }


def test_images_have_no_halo_where_the_arena_is_fullest():
    tight, wide = plan_of(CROWDED), plan_of(CROWDED, machine(64))

    def with_halo(plan):
        return [v.name for v in plan.values if v.layout is not None and v.layout.halo and v.name != "image.bordered"]

    assert tight.arena_nbytes == 2 * 8 * 32 * 32 * 4
    assert with_halo(tight) == ["e"]
    assert with_halo(wide) == ["a", "b", "d", "e"]


def test_a_residual_and_the_result_that_takes_its_place_share_memory():
    plan = plan_of(RESIDUAL)
    largest = sorted((v.stored.nbytes for v in plan.values if isinstance(v.memory, ArenaMemory)), reverse=True)

    assert ("c", "a") in overlapping(plan)
    assert plan.arena_nbytes < sum(largest[:3])
    assert "overwrites a" in plan.report()


def test_no_pointer_leaves_its_array_on_the_way_to_an_element_of_a_step_that_walks_backwards():
    layers = [
        f"op conv2d(t{n}, w{n}, padding=1, groups=8) >> a{n}; op conv2d(a{n}, v{n}) >> t{n + 1};" for n in range(3)
    ]
    declared = "".join(f"w{n}: f32[8, 1, 3, 3]; v{n}: f32[8, 8, 1, 1]; " for n in range(3))
    text = (
        f"dynamic {{ t0: f32[1, 8, 24, 24]; }} constant {{ {declared} }}"
        f" block entry {{ {' '.join(layers)} op mean_axis(t3, axes=[2, 3]) >> y; return y; }}"
    )
    weights = {f"w{n}": np.ones((8, 1, 3, 3), np.float32) for n in range(3)}
    weights |= {f"v{n}": np.ones((8, 8, 1, 1), np.float32) for n in range(3)}

    source = oi.Synthesizer("c").synthesize(oi.Model.from_arrays(weights), text).bundle.files["model.c"].decode()
    pointers = re.findall(r"\*const p\d+ = \w+ \+ (.*);", source)

    assert any("-" in address for address in pointers)
    assert all(address.startswith("(") for address in pointers if "-" in address)


@pytest.mark.parametrize("axis", [0, 1, 2, 3])
def test_an_image_with_a_dimension_of_one_has_nothing_to_slide_over_there(axis):
    text = f"""
dynamic {{ x: f32[4, 2, 9, 3]; }}
block entry {{
  op logsumexp_axis(x, axes=[{axis}], keepdims=true) >> image;
  op abs(image) >> sizes;
  op sum_axis(sizes, axes=[0, 1, 2, 3]) >> y;
  return y;
}}
"""
    plan = oi.Synthesizer("c").synthesize(oi.Model.from_arrays({}), text).plan

    assert not any(step.arrangement.sliding for step in computations(plan))
