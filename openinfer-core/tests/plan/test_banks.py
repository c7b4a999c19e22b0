"""Values spread over memories: each lies in one of them, apart from the others, and what can fit does."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openinfer.arch import MemoryBank
from openinfer.dtypes import U8
from openinfer.errors import SynthesisError
from openinfer.ir.types import TensorType
from openinfer.plan.banks import STATE_ALIGNMENT, spread, writable
from openinfer.plan.places import ALIGNMENT, aligned
from openinfer.plan.values import NoMemory, PlanValue, Role, StateMemory


def value(number, nbytes, *, is_state):
    memory, role = (StateMemory(number), Role.STATE) if is_state else (NoMemory(), Role.TEMPORARY)
    return PlanValue(number=number, name=f"v{number}", type=TensorType(U8, (nbytes,)), role=role, memory=memory)


def values_of(states, temporaries=()):
    sizes = [*((nbytes, True) for nbytes in states), *((nbytes, False) for nbytes in temporaries)]
    return {number: value(number, nbytes, is_state=is_state) for number, (nbytes, is_state) in enumerate(sizes)}


def spread_over(rooms, values, touches=None, *, states_first=False):
    banks = [MemoryBank(name=f"m{number}", nbytes=nbytes, kind="sram") for number, nbytes in enumerate(rooms)]

    def place(some):
        """Put values one after the other: none share bytes."""
        offsets, end = {}, 0
        for each in some:
            offsets[each], end = end, end + aligned(values[each].stored.nbytes)
        return offsets, end

    return spread(values, touches or {}, banks, place, states_first=states_first)


def banks_of(found):
    return {number: bank for number, (bank, _) in found.offsets.items()}


def test_what_is_used_most_for_its_size_lies_near_be_it_kept_or_not():
    values = values_of([64, 640], [64, 640])

    found = spread_over([200, 2000], values, {0: 5, 1: 1, 2: 5, 3: 1})

    assert banks_of(found) == {0: 0, 1: 1, 2: 0, 3: 1}


def test_states_may_come_first_however_often_others_are_used():
    values = values_of([640], [64, 640])
    touches = {0: 1, 1: 50, 2: 50}

    assert banks_of(spread_over([640, 2000], values, touches)) == {0: 1, 1: 0, 2: 1}
    assert banks_of(spread_over([640, 2000], values, touches, states_first=True)) == {0: 0, 1: 1, 2: 1}


def test_states_lie_one_after_the_other_at_words_in_a_part_of_their_own():
    found = spread_over([1000], values_of([3, 9, 8], [100]))

    assert [found.offsets[number] for number in range(3)] == [(0, 0), (0, 8), (0, 24)]
    assert found.offsets[3] == (0, 0)
    assert found.used == (128,)


def test_a_small_value_that_is_used_often_does_not_keep_a_large_one_from_the_only_memory_that_holds_it():
    # In order of use the first memory has room for 200 but not for 600 more, the second for 600, the third for nothing.
    found = spread_over([700, 700, 300], values_of([600, 600, 200]), {2: 9})

    assert sorted(banks_of(found).items()) == [(0, 0), (1, 1), (2, 2)]


def test_two_small_states_make_room_for_two_large_ones():
    # The largest first would put 400 and nothing else into the first memory.
    found = spread_over([600, 800], values_of([400, 400, 304, 296]))

    assert banks_of(found) == {0: 1, 1: 1, 2: 0, 3: 0}


def test_intermediate_results_take_what_states_leave():
    values = values_of([600, 640], [60, 60])

    found = spread_over([704, 704], values, {0: 900, 1: 900})

    # 600 bytes of states reach up to 640 where intermediate results follow: 64 bytes are left of either memory.
    assert banks_of(found) == {0: 1, 1: 0, 2: 0, 3: 1}
    with pytest.raises(SynthesisError, match="v2 does not fit"):
        spread_over([704, 703], values, {0: 900, 1: 900})


@pytest.mark.parametrize("count", [60, 400])
def test_many_equal_states_that_do_not_fit_are_refused_at_once(count):
    with pytest.raises(SynthesisError, match="the persistent variables take"):
        spread_over([100 * count // 2, 100 * count // 2 - 8], values_of([96] * count + [800] * 3))


def test_the_error_says_where_others_lie_and_which_value_to_shrink():
    with pytest.raises(SynthesisError) as caught:
        spread_over([512, 300], values_of([400, 304], [64]), {2: 9})

    (found,) = caught.value.diagnostics
    assert found.message == (
        "the intermediate results take 64 bytes, the persistent variables take 704 bytes, "
        "the memories of the device are m0 512, m1 300: v1 does not fit"
    )
    assert found.hint == (
        "make v1 (u8[304]) smaller, such as by other sizes or limits (--limit); "
        "bytes of values: v0 400 in m0, v1 304, v2 64 in m0"
    )


def test_flash_holds_no_values():
    banks = [MemoryBank(name=kind, nbytes=100, kind=kind) for kind in ("flash", "external", "tcm")]

    assert [bank.name for bank in writable(banks)] == ["tcm", "external"]


@pytest.mark.rule("api.bundles.5")
@given(
    st.lists(st.integers(0, 200), max_size=5),
    st.lists(st.integers(0, 200), max_size=4),
    st.lists(st.integers(1, 600), min_size=1, max_size=3),
    st.data(),
)
def test_every_value_lies_in_one_memory_and_states_fit_if_they_can(states, temporaries, rooms, data):
    values = values_of(states, temporaries)
    touches = {number: data.draw(st.integers(0, 5)) for number in values}
    words = [aligned(max(1, nbytes), STATE_ALIGNMENT) for nbytes in states]
    try:
        found = spread_over(rooms, values, touches)
    except SynthesisError:
        # No way to spread the states over the memories, or there are others.
        ways = product(range(len(rooms)), repeat=len(states))
        fits = any(
            all(
                sum(w for w, at in zip(words, way, strict=True) if at == bank) <= room
                for bank, room in enumerate(rooms)
            )
            for way in ways
        )
        assert temporaries or not fits
        return

    assert set(found.offsets) == set(values)
    for bank, room in enumerate(rooms):
        kept = sorted((at, words[n]) for n, (of, at) in found.offsets.items() if of == bank and n < len(states))
        ends = [at + nbytes for at, nbytes in kept]
        assert all(end <= start for end, (start, _) in zip(ends, kept[1:], strict=False))
        assert all(at % STATE_ALIGNMENT == 0 for at, _ in kept)
        end = ends[-1] if ends else 0
        # Either part may come first: the other one begins at a multiple of the alignment.
        assert found.used[bank] % ALIGNMENT == 0
        assert (found.used[bank] + aligned(end) if found.used[bank] else end) <= room
