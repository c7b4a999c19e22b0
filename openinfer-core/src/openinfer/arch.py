"""The architecture of a device that code is made for, as its file describes it (``specification: json.devices``)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from openinfer.boundary import public_methods

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

    from openinfer.diagnostics import Diagnostic
    from openinfer.dtypes import DType


WORD_NBYTES = 4
"""An i32 or an f32."""


def _none() -> Mapping[str, Any]:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Hard limits, which generated code stays inside; sizes in bytes.

    ``max_workgroup_size`` is the largest local size along each axis, ``max_workgroup_invocations`` that of all axes
    together. ``subgroup_size`` is how many invocations run in step; 1 where that is not known. ``extra`` keeps keys for
    a target's own use.
    """

    max_workgroup_size: tuple[int, int, int] = (1, 1, 1)
    max_shared_memory_bytes: int = 0
    max_push_constants_bytes: int = 128
    max_storage_buffer_range_bytes: int = 134217728
    max_workgroup_invocations: int = 128
    subgroup_size: int = 1
    extra: Mapping[str, Any] = field(default_factory=_none)


@dataclass(frozen=True, slots=True, kw_only=True)
class Features:
    """What the device can do. Without ``fp16`` or ``int8`` such values are computed in f32 or i32."""

    fp16: bool = False
    int8: bool = False
    subgroup_ops: bool = False
    cooperative_matrix: bool = False
    extra: Mapping[str, Any] = field(default_factory=_none)


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """Capacities in bytes; 0 is unknown."""

    global_bytes: int = 0
    shared_bytes_per_sm: int = 0
    l2_bytes: int = 0
    extra: Mapping[str, Any] = field(default_factory=_none)


@dataclass(frozen=True, slots=True, kw_only=True)
class Preferences:
    """Choices that are free.

    Attributes:
        default_precision: the dtype of arithmetic that the graph leaves open; no program leaves any open, so that only
            targets of plugins may read it.
        prefer_fusion: whether steps carry out several operators; without it every operator is a step of its own.
        prefer_persistent_kv: whether caches and other persistent variables come first in the nearest memories.
        max_kernel_ops: most operators of one step; None: any number.
    """

    default_precision: str = "f32"
    prefer_fusion: bool = True
    prefer_persistent_kv: bool = False
    max_kernel_ops: int | None = None
    extra: Mapping[str, Any] = field(default_factory=_none)

    @property
    def most_ops(self) -> int | None:
        """Most operators of one step, by either preference; None: any number."""
        return self.max_kernel_ops if self.prefer_fusion else 1


MANY_REGISTERS = 16
"""Registers with which a core has room for elements of several terms and for its totals, as RV32 has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cycles:
    """Cycles of instructions on a processor that begins one at a time; those without a name here take one.

    Attributes:
        mul: a product of integers.
        mac: a product of integers, or two of halves of words, added to a total.
        fma_f32: a product of f32 added to a total.
        convert: from floats to integers and back.
        div: a quotient or a square root.
        load: of a word.
        load_pair: of two words by one instruction, such as an i64 or an f64.
        branch: one that is taken, with the instructions that it drops from the pipeline.
    """

    mul: int = 1
    mac: int = 1
    fma_f32: int = 1
    convert: int = 1
    div: int = 12
    load: int = 1
    load_pair: int = 2
    branch: int = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetInfo:
    """What schedules are chosen by: the machine as loops see it.

    Attributes:
        vector_nbytes: width of a vector register; 16 where nothing is known.
        registers: vector registers that a program may use.
        integer_registers: those for totals of integers where these have registers of their own; None: ``registers``.
        fma: whether a fused multiply-add is one instruction, so that sums whose order is free use it.
        multiply_adds, loads: vector instructions of either kind that start in one cycle.
        line_nbytes: a line of the caches.
        l1_nbytes, l2_nbytes: what the data caches of one core hold, the nearest first.
        fpu: floats that the processor computes in, ``"none"``, ``"single"`` or ``"double"``, where conversions and
            rounding are functions of a library, as on microcontrollers; None: floats cost no more than integers.
        dot4: whether four products of 8-bit integers are added to a 32-bit one by one instruction.
        dsp: whether two products of 16-bit integers are added to a 32-bit one by one instruction, and pairs of bytes
            widened to these by one.
        mve: whether sixteen products of 8-bit integers are added to a total in a core register by one instruction, and
            vectors of 16 bytes have arithmetic of 32 bits, on a processor that is else one without vectors.
        plain: whether the compiler makes vectors of loops over elements instead of words for vectors of bytes; so it is
            where nothing is known.
        cycles: by which layers are compared on microcontrollers; no schedule follows them.
        extra: unknown keys, for a target's own use.
    """

    vector_nbytes: int = 16
    registers: int = 16
    integer_registers: int | None = None
    fma: bool = False
    multiply_adds: int = 2
    loads: int = 2
    line_nbytes: int = 64
    l1_nbytes: int = 32768
    l2_nbytes: int = 1048576
    fpu: str | None = None
    dot4: bool = False
    dsp: bool = False
    mve: bool = False
    plain: bool = True
    cycles: Cycles = field(default_factory=Cycles, compare=False)
    extra: Mapping[str, Any] = field(default_factory=_none, compare=False)

    def lanes(self, itemsize: int) -> int:
        """Return how many elements of ``itemsize`` bytes a vector register holds, at least 1."""
        return max(1, self.vector_nbytes // itemsize)

    @property
    def is_scalar(self) -> bool:
        """Whether this is the core of a microcontroller without vectors: arithmetic and loads take turns."""
        return self.fpu is not None and self.lanes(WORD_NBYTES) == 1

    @property
    def has_few_registers(self) -> bool:
        """Whether totals of integers leave no registers for elements of several terms; Helium has these in vectors."""
        return self.is_scalar and not self.mve and (self.integer_registers or self.registers) < MANY_REGISTERS

    @property
    def takes_turns(self) -> bool:
        """Whether this is the core of a microcontroller, which does one thing after the other."""
        return self.fpu is not None

    @property
    def in_vectors(self) -> TargetInfo:
        """The machine as loops see it that compute in its vectors of Helium: eight registers of 16 bytes."""
        return replace(self, vector_nbytes=16, registers=8, integer_registers=None) if self.mve else self

    def for_totals(self, dtype: DType) -> TargetInfo:
        """Return the machine as sums of a type see it: ``registers`` are those that hold their totals."""
        if self.integer_registers is None or not dtype.is_integer:
            return self
        return replace(self, registers=self.integer_registers)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryBank:
    """A memory of the device.

    Attributes:
        name: an identifier, which generated source and its section are called after.
        kind: ``"tcm"`` (next to the core), ``"sram"`` or ``"external"``, which hold intermediate results and
            states; or ``"flash"``, which holds weights.
        wait_states: of flash, the cycles by which a load of a weight takes longer.
    """

    name: str
    nbytes: int
    kind: str
    wait_states: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiler:
    """What compiles the source that is written for the device.

    Attributes:
        dialect: ``"c99"`` for plain C, ``"vector"`` where the compiler has the vector types of GCC and Clang, ``"mve"``
            where it has these and Arm's functions for Helium. Results are the same.
        flags: for the processor, in addition to those for every program.
    """

    dialect: str = "c99"
    flags: tuple[str, ...] = ()

    @property
    def has_vector_types(self) -> bool:
        """Whether the compiler has the vector types of GCC and Clang."""
        return self.dialect != "c99"


@public_methods
@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceArch:
    """A device file.

    Attributes:
        type: class of device, such as ``"cpu"`` or ``"gpu"``.
        processor: what schedules are chosen by.
        compiler: what compiles the source.
        memories: where values and weights lie, in the order of the file; empty where that is left to the linker.
        api: synth target that writes for it, such as ``"c"``.
        vendor, name, architecture, driver: informative.
        extra: unknown sections, for a target's own use.
        document: the file as it was written, which `to_json` gives back.
        warnings: findings that are not errors.
    """

    type: str
    api: str
    vendor: str = ""
    name: str = ""
    architecture: str = ""
    driver: str = ""
    limits: Limits = field(default_factory=Limits)
    features: Features = field(default_factory=Features)
    memory: Memory = field(default_factory=Memory)
    preferences: Preferences = field(default_factory=Preferences)
    processor: TargetInfo = field(default_factory=TargetInfo)
    compiler: Compiler = field(default_factory=Compiler)
    memories: tuple[MemoryBank, ...] = ()
    extra: Mapping[str, Any] = field(default_factory=_none)
    document: Mapping[str, Any] = field(default_factory=_none, compare=False, repr=False)
    warnings: tuple[Diagnostic, ...] = field(default=(), compare=False, repr=False)

    @property
    def machine(self) -> TargetInfo:
        """What schedules are chosen by: the processor without instructions that the dialect has no words for."""
        is_plain = self.compiler.dialect != "vector"
        processor = self.processor
        return replace(
            processor,
            dot4=processor.dot4 and not is_plain,
            dsp=processor.dsp and is_plain,
            mve=processor.mve and self.compiler.dialect == "mve",
            plain=is_plain,
        )

    @property
    def flash_wait_states(self) -> int:
        """Cycles by which a load of a weight takes longer; those of the slowest flash, since the linker distributes."""
        return max((bank.wait_states for bank in self.memories if bank.kind == "flash"), default=0)

    @staticmethod
    def load(source: Mapping[str, Any] | str | os.PathLike[str], *, strict: bool = False) -> DeviceArch:
        """Return the device of a file (a path, given as ``str`` or path object) or of a JSON document.

        Args:
            source: the file or document.
            strict: refuse what is otherwise a warning, such as unknown keys.

        Raises:
            SerializationError: the file is not a device file; all findings with JSON pointers.
            OSError: the file cannot be read.
        """
        from openinfer.serialize.archs import load_arch

        return load_arch(source, strict=strict)

    def to_json(self) -> dict[str, Any]:
        """Return the document that the device was read from: unknown keys included, defaults not added."""
        from openinfer.serialize.archs import arch_to_json

        return arch_to_json(self)


DeviceCustom = DeviceArch
"""The same class, by the name that the long design document uses."""
