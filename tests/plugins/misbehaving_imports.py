"""Importers of models that misbehave."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

from misbehaving import PARTS, Act, Spot, module, overriding, parts, returning, value_spot
from misbehaving_models import Store
from misbehaving_operators import MODEL, PROGRAM, operator

import openinfer as oi
from openinfer import importers
from openinfer.importers import ImportedModel, ImportReport
from openinfer.plugins import types
from openinfer.plugins.environment import Environment

TEXT = PROGRAM.replace("their_op", "neg")
REPORT = ImportReport(
    format="theirs", nodes=1, statements=1, folded=0, inputs={"a": "x"}, outputs={"b": "y"}, values={"b": "y"}
)


def imported(**fields: Any) -> ImportedModel:
    return ImportedModel(**{"graph": oi.graph(TEXT), "text": TEXT, "model": MODEL, "report": REPORT, **fields})


class Original:
    """Runs the model as another program does."""

    runner = "someone"

    def run(self, inputs: Mapping[str, Any]) -> Mapping[str, Any]:
        return {"b": -inputs["a"]}

    def values(self, inputs: Mapping[str, Any]) -> Mapping[str, Any]:
        return self.run(inputs)


class WrongOriginal(Original):
    """An original that yields something else, so that its values are requested."""

    def run(self, inputs: Mapping[str, Any]) -> Mapping[str, Any]:
        return {"b": inputs["a"] + 1}


def with_importer(load: Any = None, original: Any = None) -> ModuleType:
    parts(load=load or (lambda *_: imported()), original=original or returning(Original()))
    spec = types.ImporterSpec(
        name="their_importer",
        summary="theirs",
        suffixes=(".theirs",),
        load=f"{PARTS}:load",
        original=f"{PARTS}:original",
    )
    return module(importers=lambda: [spec], ops=lambda: [operator()])


def loaded(environment: Environment, folder: Path) -> ImportedModel:
    (folder / "m.theirs").write_bytes(b"")
    found = importers.load(folder / "m.theirs", environment=environment)
    found.save(folder, "made", environment=environment)
    return found


def verified(environment: Environment, folder: Path) -> Any:
    found = loaded(environment, folder)
    return importers.verify(folder / "m.theirs", found, environment=environment)


def imported_spot(make: Callable[[Any], Any], legal: tuple[str, ...] = ()) -> Spot:
    """Return the spot of a part of what an importer returns."""
    return value_spot(lambda value: with_importer(lambda *_: make(value)), loaded, legal)


def original_spot(base: type[Any], method: str, make: Any = lambda act: act, legal: tuple[str, ...] = ()) -> Spot:
    return Spot(lambda act: with_importer(original=returning(overriding(base, method, make)(act)())), verified, legal)


def foreign_weights(act: Act) -> Any:
    return imported(model=oi.Model(type("Theirs", (Store,), {"stored": act})()))


TEXTUAL = ("text", "format")
"""Fields that are any text."""

IMPORTERS = {
    "importing": Spot(with_importer, loaded),
    **{
        f"{field} of an import": imported_spot(
            lambda value, field=field: imported(**{field: value}), ("returns text",) * (field in TEXTUAL)
        )
        for field in ("graph", "text", "model", "report")
    },
    **{
        f"{field} of a report": imported_spot(
            lambda value, field=field: imported(report=replace(REPORT, **{field: value})),
            ("returns text",) * (field in TEXTUAL),
        )
        for field in (
            *("format", "nodes", "statements", "folded", "inputs", "outputs"),
            *("values", "feeds", "states", "notes"),
        )
    },
    **{
        f"an entry of {field} of a report": imported_spot(
            lambda value, field=field: imported(report=replace(REPORT, **{field: {"a": value}}))
        )
        for field in ("inputs", "outputs", "feeds", "states")
    },
    "weights of an import": Spot(lambda act: with_importer(lambda *_: foreign_weights(act)), loaded),
    "an original": Spot(lambda act: with_importer(original=act), verified),
    "runner of an original": original_spot(Original, "runner", property, ("returns text",)),
    "running an original": original_spot(Original, "run"),
    "an output of an original": original_spot(Original, "run", lambda act: lambda *_: {"b": act()}),
    "values of an original": original_spot(WrongOriginal, "values"),
    "a value of an original": original_spot(WrongOriginal, "values", lambda act: lambda *_: {"b": act()}),
}
