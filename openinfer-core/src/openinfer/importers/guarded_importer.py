"""What importers of third parties return, checked, and their originals, with every call guarded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from openinfer.dtypes import DType
from openinfer.importers.imported import ImportedModel, ImportReport
from openinfer.importers.original import Original
from openinfer.ir.graph import Graph
from openinfer.ir.nodes import Return
from openinfer.model import Model
from openinfer.model.guarded_store import GuardedStore
from openinfer.plugins.crossing import crossing, fault, guarded_methods, members, shown, wrong
from openinfer.plugins.structure import Structure
from openinfer.symbolic import IntExpr

if TYPE_CHECKING:
    import numpy.typing as npt

    from openinfer.plugins.crossing import Owner

    Array = npt.NDArray[Any]

_IMPORTS = Structure(
    ImportedModel, ImportReport, names={"Graph": Graph, "Model": Model, "DType": DType, "IntExpr": IntExpr}
)


def checked_import(owner: Owner, what: str, found: Any) -> ImportedModel:
    """Return a model that an importer made, whose weights are read with every call guarded.

    Raises:
        PluginError: it is something else, its program is wrong, or its report names what is not there.
    """
    unfit = _IMPORTS.misfit(found, ImportedModel)
    if unfit is not None:
        raise fault(owner, f"{what} returned what is not an ImportedModel: {unfit}")
    imported: ImportedModel = found
    with crossing(owner, f"checking the program that {what} returned", passing=()):
        imported.graph.check()
        declared = frozenset(imported.graph.vars)
        returned = {
            name for _, node in imported.graph.nodes() if isinstance(node.kind, Return) for name in node.kind.names
        }
    report = imported.report
    declared_there = {*report.inputs.values(), *report.states.values()}
    strangers = [
        *sorted(declared_there - declared),
        *sorted({*report.outputs.values()} - declared - returned),
        *sorted({*report.feeds} - {*report.outputs}),
    ]
    strangers += sorted({*report.feeds.values()} - {*report.inputs, *report.starts})
    strangers += sorted({*report.states} - {*report.starts})
    if strangers:
        raise fault(owner, f"the report of {what} names {shown(strangers[0])}, which is not in its program")
    with crossing(owner, f"reading the model that {what} returned"):
        store = GuardedStore(owner, f"the model that {what} returned", imported.model.tensor_store())
    return ImportedModel(
        graph=imported.graph, text=imported.text, model=Model(store, imported.model.name), report=report
    )


class GuardedOriginal:
    """Stands for the `Original` of a third party.

    Raises:
        PluginError: a method is missing, or its ``runner`` is not text.
    """

    def __init__(self, owner: Owner, what: str, original: object, report: ImportReport) -> None:
        self._owner, self._what = owner, f"the original of {what}"
        self._outputs = report.outputs
        with crossing(owner, f"reading the methods of {self._what}"):
            runner: Any = getattr(original, "runner", None)
        if type(runner) is not str:
            raise fault(owner, f"runner of {self._what} is {shown(runner)}, expected a str")
        self.runner = runner
        self._methods = guarded_methods(owner, self._what, original, members(Original))

    def run(self, inputs: Mapping[str, Array]) -> Mapping[str, Array]:
        """Return the outputs; see `Original.run`."""
        found = self._arrays("run", inputs)
        missing = next((name for name in self._outputs if name not in found), None)
        if missing is not None:
            raise fault(self._owner, f"run of {self._what} returned no output {missing!r}")
        return found

    def values(self, inputs: Mapping[str, Array]) -> Mapping[str, Array]:
        """Return what nodes write; see `Original.values`."""
        return self._arrays("values", inputs)

    def _arrays(self, method: str, inputs: Mapping[str, Array]) -> dict[str, Array]:
        found = self._methods[method](inputs)
        with crossing(self._owner, f"reading what {method} of {self._what} returned"):
            table = dict(cast("Mapping[str, Any]", found)) if isinstance(found, Mapping) else None
        if table is None or not all(isinstance(value, np.ndarray) for value in table.values()):
            raise fault(self._owner, f"{method} of {self._what} {wrong(found, 'arrays by name')}")
        return table
