"""Model formats of plugins that misbehave."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from misbehaving import NO_RESULT, PARTS, Act, Spot, module, overriding, parts, returning
from misbehaving_operators import operator, with_operator

import openinfer as oi
from openinfer.dtypes import F32, I8, U4
from openinfer.model import MetadataValue, ModelContents, Quantisation, VarInfo, save_model
from openinfer.ops.schema import Composite, InputSpec, StoredScales
from openinfer.plugins import types
from openinfer.plugins.environment import Environment

W = VarInfo(name="w", dtype=F32, shape=(2,), has_data=True, offset=0, nbytes=8)


class Store:
    """A model with one tensor."""

    sizevars: Mapping[str, int] = {"N": 2}
    metadata: Mapping[str, MetadataValue] = {"m": MetadataValue("i32", 3)}
    tensors: Mapping[str, VarInfo] = {"w": W}

    def values(self, _: str) -> Any:
        return np.ones(2, np.float32)

    def stored(self, name: str) -> Any:
        return self.values(name).view(np.uint8)

    def close(self) -> None:
        """Release nothing."""


class PackedStore(Store):
    """A model with one tensor of a packed type."""

    tensors: Mapping[str, VarInfo] = {"w": replace(W, dtype=U4, nbytes=1)}


class QuantisedStore(Store):
    """A model with one quantised tensor."""

    tensors: Mapping[str, VarInfo] = {"w": replace(W, dtype=I8, nbytes=2, quantised=True)}

    def values(self, _: str) -> Any:
        return np.ones(2, np.int8)

    def quantisation(self, _: str) -> Quantisation:
        return Quantisation(axis=0, scale=np.full(2, 0.5, np.float32))


class Codes:
    """A mapping from codes to what they mean."""

    def keys(self) -> Any:
        return ["E_THEIRS"]

    def __getitem__(self, code: str) -> str:
        return f"{code} is theirs."


def with_format(opening: Any = None, save: Any = None, codes: Any = None) -> ModuleType:
    parts(open=opening or returning(Store()), save=save, codes=codes)
    spec = types.ModelFormatSpec(
        name="their_format",
        suffixes=(".theirs",),
        magic=b"",
        open=f"{PARTS}:open",
        save=f"{PARTS}:save" if save else None,
        codes=f"{PARTS}:codes",
    )
    return module(model_formats=lambda: [spec], ops=lambda: [operator()])


def loaded(
    environment: Environment,
    folder: Path,
    statement: str = "op their_op(w) >> y",
    dtype: str = "f32",
    result: str = "",
) -> Any:
    file = folder / "m.theirs"
    file.write_bytes(b"")
    with oi.ModelLoader.open(file, environment=environment) as model:
        declared = f"constant {{ w: {dtype}[N]; }} volatile {{ y: {result or dtype}[N]; }}"
        text = f"{declared} block entry {{ {statement}; return y; }}"
        executor = oi.Simulator(model, oi.graph(text), environment=environment).make_executor()
        executor.step()
        return executor.fetch("y")


def loaded_packed(environment: Environment, folder: Path) -> Any:
    return loaded(environment, folder, "transfer w >> y", "u4")


def loaded_quantised(environment: Environment, folder: Path) -> Any:
    return loaded(environment, folder, "op dequantize_linear(w) >> y", "i8", "f32")


def with_scales(act: Act) -> ModuleType:
    """Return a plugin with a quantised model and an operator that takes scales along the dim that ``act`` returns."""
    made = with_format(returning(QuantisedStore()))
    made.openinfer_ops = with_operator(
        inputs=(
            InputSpec(name="x"),
            InputSpec(name="scale", dtypes=frozenset({"f32"}), optional=True),
            InputSpec(name="zero_point", optional=True),
        ),
        dtypes=frozenset({"i8"}),
        definition=Composite(lambda steps, inputs, _: (steps.op("identity", inputs[0]),)),
        stored_scales=StoredScales(of="x", axis=act),
    ).openinfer_ops
    return made


def loaded_scales(environment: Environment, folder: Path) -> Any:
    return loaded(environment, folder, dtype="i8")


def saved(environment: Environment, folder: Path) -> object:
    contents = ModelContents(sizevars={}, metadata={}, tensors={})
    return save_model(contents, folder / "m.theirs", environment=environment)


def store_spot(method: str, legal: tuple[str, ...] = ()) -> Spot:
    return Spot(lambda act: with_format(returning(overriding(Store, method)(act)())), loaded, legal)


def table_spot(table: str, make: Callable[[Act], Any] | None = None, legal: tuple[str, ...] = ()) -> Spot:
    """Return the spot of a table of a model, or of what ``make`` puts into it."""

    def plugin(act: Act) -> ModuleType:
        found = act if make is None else lambda _: make(act)
        return with_format(returning(type("Theirs", (Store,), {table: property(found)})()))

    return Spot(plugin, loaded, legal)


ANY_VALUE = ("returns text", "returns a huge number")
"""What may be the value of a metadata entry that nothing reads."""

PLACES = ("returns None",)
"""Of a tensor that is in memory."""


FORMATS = {
    "opening a model": Spot(with_format, loaded),
    "sizevars": table_spot("sizevars"),
    "metadata": table_spot("metadata"),
    "tensors": table_spot("tensors"),
    "a metadata entry": table_spot("metadata", lambda act: {"m": MetadataValue("i32", act())}, ANY_VALUE),
    "name of a tensor": table_spot("tensors", lambda act: {"w": replace(W, name=act())}),
    "place of a tensor": table_spot("tensors", lambda act: {"w": replace(W, offset=act())}, PLACES),
    "size of a tensor": table_spot("tensors", lambda act: {"w": replace(W, nbytes=act())}),
    "values": store_spot("values"),
    "stored": Spot(lambda act: with_format(returning(overriding(PackedStore, "stored")(act)())), loaded_packed),
    "quantisation": Spot(
        lambda act: with_format(returning(overriding(QuantisedStore, "quantisation")(act)())), loaded_quantised
    ),
    "dim of stored scales": Spot(with_scales, loaded_scales),
    "closing a model": store_spot("close", NO_RESULT),
    "save": Spot(lambda act: with_format(save=act), saved, NO_RESULT),
}
