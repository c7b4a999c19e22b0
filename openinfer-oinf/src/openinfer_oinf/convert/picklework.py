"""How much work a pickle asks of whoever reads it, counted before anything is built.

Objects that a pickle reaches many times cost their reader little to build and much to hash, compare or print: tuples
in one another, each twice, are 2^n tuples to a hash. Whole numbers can be chosen so that all of them collide in a
table. Both kinds of work are counted here; depth bounds neither.
"""

from __future__ import annotations

import pickletools
import warnings
from collections.abc import Iterator
from typing import IO, Any

from .model import source_error

_FREE = 1 << 22
_PER_OPCODE = 16
# Characters of a text, or digits of a number, that count as much as one object.
_UNIT = 16
_PUTS = ("PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE")
_GETS = ("GET", "BINGET", "LONG_BINGET", "DUP")
_FILLS = ("APPEND", "APPENDS", "SETITEM", "SETITEMS", "ADDITEMS", "BUILD")
_CONSTANT = (str, bool, type(None))


class Work:
    """The steps that a pickle takes, of which its length gives reason for `allowed`."""

    def __init__(self, allowed: int) -> None:
        self.allowed = allowed
        self.spent = 0

    def spend(self, steps: int) -> None:
        """Raise `OinfError` (E_SOURCE) once more was spent than is allowed."""
        self.spent += steps
        if self.spent > self.allowed:
            raise source_error(f"a pickle that takes more than {self.allowed} steps, far more than its length needs")


class Keys:
    """The keys of one table, as the work of putting them there.

    Hashes of texts are secret, those of whole numbers are not: numbers one after another fill a table without
    collisions, and any other may collide with all that are there.
    """

    def __init__(self, work: Work) -> None:
        self._work = work
        self.count = 0
        self._numbers = 0
        self._next: int | None = None

    def add(self, key: object) -> None:
        """Raise `OinfError` (E_SOURCE) for a key that state dicts do not have, or for too much work."""
        self.count += 1
        if isinstance(key, _CONSTANT):
            self._work.spend(1)
            return
        if not isinstance(key, int) or key.bit_length() > 63:
            message = (
                "a key that is neither a text nor a whole number of 64 bits; save the state dict of the model alone"
            )
            raise source_error(message)
        self._work.spend(1 if key == self._next else 1 + self._numbers)
        self._numbers += 1
        self._next = key + 1


class _Objects:
    """The objects of a pickle: how much each counts by itself, and which ones it holds or was made of."""

    def __init__(self) -> None:
        self.sizes: list[int] = []
        self.parts: list[list[int]] = []
        self.total = 0

    def add(self, argument: object, parts: list[int]) -> int:
        self.sizes.append(1 + _length(argument) // _UNIT)
        self.parts.append(parts)
        self.total += self.sizes[-1]
        return len(self.sizes) - 1

    def require_expandable(self, allowed: int) -> None:
        """Raise `OinfError` (E_SOURCE) for an object that stands for more than `allowed`, counting each reference."""
        unknown, pending = -1, 0
        whole = [unknown] * len(self.sizes)
        for root in range(len(self.sizes)):
            path = [root]
            while path:
                at = path[-1]
                if whole[at] == unknown:
                    # What holds itself counts as empty inside of itself.
                    whole[at] = pending
                    path += [part for part in self.parts[at] if whole[part] == unknown]
                    continue
                path.pop()
                if whole[at] == pending:
                    whole[at] = self.sizes[at] + sum(whole[part] for part in self.parts[at])
                    if whole[at] > allowed:
                        message = f"objects that stand for more than {allowed}, counted each time that they are reached"
                        raise source_error(message)


def _length(argument: object) -> int:
    if isinstance(argument, str | bytes | bytearray):
        return len(argument)
    return argument.bit_length() // 8 if isinstance(argument, int) else 0


def _opcodes(stream: IO[bytes]) -> Iterator[tuple[pickletools.OpcodeInfo, Any, int | None]]:
    """Yield the operations of a pickle; escapes that Python deprecates in its strings are not worth a warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        yield from pickletools.genops(stream)


def check_pickle(stream: IO[bytes]) -> Work:
    """Follow the next pickle without building anything; the work that building it may take.

    Raises `OinfError` (E_SOURCE) for objects that stand for far more than the pickle holds, and what `pickletools`
    and Python raise for pickles that are not sound.
    """
    objects = _Objects()
    memo: dict[object, int] = {}
    places = Work(_FREE)
    numbers = Keys(places)
    mark = -1
    stack: list[int] = []
    count = 0
    for opcode, argument, _ in _opcodes(stream):
        count += 1
        places.allowed = _FREE + _PER_OPCODE * count
        name = opcode.name
        if name in _PUTS:
            place = len(memo) if name == "MEMOIZE" else argument
            numbers.add(place)
            memo[place] = _object(stack[-1])
            continue
        if name in _GETS:
            stack.append(_object(stack[-1]) if name == "DUP" else memo[argument])
            continue
        taken: list[int] = []
        before = opcode.stack_before
        if pickletools.markobject in before:
            while (top := stack.pop()) != mark:
                taken.append(top)
            before = before[: before.index(pickletools.markobject)]
        taken += [stack.pop() for _ in before]
        if name in _FILLS:
            # What is filled lies under all that goes into it.
            objects.parts[_object(taken[-1])] += taken[:-1]
            stack.append(taken[-1])
            continue
        after = opcode.stack_after
        stack += [mark if each is pickletools.markobject else objects.add(argument, taken) for each in after]
    allowed = _FREE + _PER_OPCODE * objects.total
    objects.require_expandable(allowed)
    return Work(allowed)


def _object(at: int) -> int:
    if at < 0:
        raise ValueError("a mark where an object is due")
    return at
