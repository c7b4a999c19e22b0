"""Ways to damage a file: fields, bytes, order and length."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from struct import Struct

from seed_files import SeedFile

_U32, _U64 = Struct("<I"), Struct("<Q")
_FILE_SIZE_AT = 61

_WORDS = (
    0,
    1,
    2,
    3,
    4,
    7,
    8,
    12,
    13,
    14,
    15,
    24,
    25,
    26,
    64,
    65,
    1 << 24,
    1 << 31,
    (1 << 32) - 1,
    0x7FC00000,
    0xFF800000,
)
_DOUBLE_WORDS = (
    0,
    1,
    7,
    8,
    72,
    1 << 31,
    1 << 32,
    1 << 33,
    1 << 60,
    1 << 62,
    (1 << 63) - 1,
    1 << 63,
    (1 << 64) - 8,
    (1 << 64) - 1,
)
_STEPS = (1, 2, 4, 8, 16, 72, -1, -2, -4, -8, -16, -72)

Mutation = Callable[[bytearray, SeedFile, Random], None]


def mutated(seeds: list[SeedFile], random: Random) -> bytes:
    """A seed file after one to four mutations; half of those whose length changed state their true size."""
    seed = random.choice(seeds)
    data = bytearray(seed.data)
    for _ in range(1 if random.random() < 0.6 else random.randint(2, 4)):
        if len(data) < 8:
            break
        random.choice(_MUTATIONS)(data, seed, random)
    if len(data) != len(seed.data) and len(data) >= 72 and random.random() < 0.5:
        _U64.pack_into(data, _FILE_SIZE_AT, len(data))
    return bytes(data)


def _change_word(data: bytearray, seed: SeedFile, random: Random) -> None:
    at = random.choice(seed.words)
    if at + 4 <= len(data):
        near = (_U32.unpack_from(data, at)[0] + random.choice(_STEPS)) & 0xFFFFFFFF
        _U32.pack_into(data, at, near if random.random() < 0.4 else random.choice(_WORDS))


def _change_double_word(data: bytearray, seed: SeedFile, random: Random) -> None:
    at = random.choice(seed.double_words)
    if at + 8 <= len(data):
        near = (_U64.unpack_from(data, at)[0] + random.choice(_STEPS)) & 0xFFFFFFFFFFFFFFFF
        _U64.pack_into(data, at, near if random.random() < 0.6 else random.choice(_DOUBLE_WORDS))


def _copy_double_word(data: bytearray, seed: SeedFile, random: Random) -> None:
    """Make two fields equal: offsets that overlap, sizes that disagree."""
    source, target = random.choice(seed.double_words), random.choice(seed.double_words)
    if max(source, target) + 8 <= len(data):
        data[target : target + 8] = data[source : source + 8]


def _change_byte(data: bytearray, _seed: SeedFile, random: Random) -> None:
    at = random.randrange(len(data))
    data[at] = random.randrange(256) if random.random() < 0.5 else data[at] ^ (1 << random.randrange(8))


def _copy_bytes(data: bytearray, _seed: SeedFile, random: Random) -> None:
    """Overwrite some units of 8 bytes with others: repeated names, moved entries."""
    size = 8 * random.randint(1, 6)
    source, target = random.randrange(0, len(data), 4), random.randrange(0, len(data), 4)
    part = data[source : source + size]
    data[target : target + len(part)] = part


def _remove_bytes(data: bytearray, _seed: SeedFile, random: Random) -> None:
    at = random.randrange(0, len(data), 8)
    del data[at : at + 8 * random.randint(1, 4)]


def _insert_bytes(data: bytearray, _seed: SeedFile, random: Random) -> None:
    at = random.randrange(0, len(data) + 8, 8)
    data[at:at] = random.choice((0, 0, 1, 255)).to_bytes(1, "little") * (8 * random.randint(1, 4))


def _cut(data: bytearray, _seed: SeedFile, random: Random) -> None:
    del data[random.randrange(len(data)) :]


def _append(data: bytearray, _seed: SeedFile, random: Random) -> None:
    data += bytes([random.choice((0, 65))]) * random.choice((1, 8, 64, 4096, 8192))


# Fields more often than the rest: they reach furthest.
_MUTATIONS: tuple[Mutation, ...] = (
    *[_change_word] * 4,
    *[_change_double_word] * 4,
    *[_copy_double_word] * 2,
    *[_change_byte] * 4,
    *[_copy_bytes] * 2,
    _remove_bytes,
    _insert_bytes,
    _cut,
    _append,
)
