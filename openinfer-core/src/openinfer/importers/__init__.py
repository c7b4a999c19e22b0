"""Models of other formats as programs: text that a person reads and edits, and a container with the weights.

Importers are plugins (`openinfer.plugins.types.ImporterSpec`); what they need is imported when a file of their format
is loaded.
"""

from __future__ import annotations

from openinfer.importers.formats import load, verify
from openinfer.importers.imported import ImportedModel, ImportOptions, ImportReport

__all__ = ["ImportOptions", "ImportReport", "ImportedModel", "load", "verify"]
