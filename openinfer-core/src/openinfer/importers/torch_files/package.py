"""The package ``torch``, which is installed with the extra ``openinfer-core[torch]``."""

from __future__ import annotations

import importlib
from typing import Any

from openinfer.errors import MissingDependencyError


def torch_module(name: str = "torch") -> Any:
    """Import and return the package ``torch`` or a module of it.

    Raises:
        MissingDependencyError: it is not installed.
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        message = (
            f"reading programs of torch.export needs the package torch ({error}): "
            "install it with `pip install openinfer-core[torch]`"
        )
        raise MissingDependencyError(message) from error
