"""The package ``torch``, which is installed with the extra ``openinfer-core[torch]``."""

from __future__ import annotations

from typing import Any

from openinfer.importers.packages import module_of


def torch_module(name: str = "torch") -> Any:
    """Import and return the package ``torch`` or a module of it.

    Raises:
        MissingDependencyError: it is not installed.
    """
    return module_of("torch", name, "reading programs of torch.export")
