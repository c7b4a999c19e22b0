"""Building many objects at once, without the garbage collector looking through them again and again."""

from __future__ import annotations

import gc
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Generator


@contextmanager
def many_objects() -> Generator[None]:
    """Pause the cyclic garbage collector while a graph, plan, source or executor is built.

    These hold no cycles, so a collection frees nothing while one grows; it only traverses all of it, which makes a
    line of a long program cost more than one of a short program.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
