"""The form of saved state: little-endian on every machine, checked before anything of it is used.

==========  ============================================================================================
bytes       content
==========  ============================================================================================
0 to 3      ``OIST``
4 to 7      version of the form, 1
8 to 15     identity of the variables: the first 8 bytes of the SHA-256 of their names and types, as JSON
16 to 23    bytes of the items
24 on       the items of all variables, one after another
last 4      CRC-32 (that of zlib) of everything before
==========  ============================================================================================
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openinfer.synth.c_host.variables import Variable

HEAD_NBYTES = 24
"""Bytes before the items."""

CHECKSUM_NBYTES = 4
"""Bytes after them."""


def saved_nbytes(variables: Sequence[Variable]) -> int:
    """Return the bytes of saved state."""
    return HEAD_NBYTES + sum(variable.nbytes for variable in variables) + CHECKSUM_NBYTES


def identity(variables: Sequence[Variable]) -> int:
    """Return a number by which the state of a program is known: that of other variables has another one."""
    text = json.dumps([[variable.name, variable.kind, variable.most] for variable in variables])
    return int.from_bytes(hashlib.sha256(text.encode("ascii")).digest()[:8], "little")
