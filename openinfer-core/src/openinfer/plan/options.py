"""How a bundle is written, apart from what it computes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleOptions:
    """Choices about the files of a bundle; a target names those that it follows (`SynthTarget.options`).

    Attributes:
        prefix: what external names of the source begin with.
        project: the build system whose files it has.
        weights: where weights are: ``"embedded"`` in the source, in a ``"file"``, in an ``"object"`` that the assembler
            makes of that file, or ``"auto"``: embedded where they are few.
        io: whether inputs and outputs are the ``"caller"``'s arrays alone, or also ``"inside"`` of an instance.
        threads: whether blocks that wait for what ``entry`` yields run on threads.
    """

    prefix: str = "model"
    project: str = "make"
    weights: str = "auto"
    io: str = "caller"
    threads: bool = False


DEFAULT = BundleOptions()
"""Those of a bundle for which nothing is chosen."""
