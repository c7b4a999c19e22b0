"""NumPy's handling of floating-point errors, which code of a plugin can change for everything that runs later."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, ParamSpec, TypeVar

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

P = ParamSpec("P")
T = TypeVar("T")


def restoring_errors(call: Callable[P, T]) -> Callable[P, T]:
    """Return a call that leaves the handling of floating-point errors (`numpy.seterr`) as it finds it."""

    @wraps(call)
    def run(*args: P.args, **kwargs: P.kwargs) -> T:
        with np.errstate():
            return call(*args, **kwargs)

    return run
