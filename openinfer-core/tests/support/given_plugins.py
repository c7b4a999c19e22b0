"""Plugins that tests make, and what core offers with them."""

from types import ModuleType
from typing import Any

from openinfer.expr import tree
from openinfer.ops.schema import Elementwise, InputSpec, OpSchema
from openinfer.plugins.environment import Environment, PluginInfo
from openinfer.plugins.hookspecs import hookimpl
from openinfer.plugins.loader import load_environment
from openinfer.plugins.types import API_VERSION, DeviceSpec


def plugin(*hooks: Any, api: object = API_VERSION, **attributes: object) -> ModuleType:
    module = ModuleType("example_plugin")
    if api is not None:
        module.OPENINFER_API = api
    for hook in hooks:
        setattr(module, hook.__name__, hook)
    for name, value in attributes.items():
        setattr(module, name, value)
    return module


def device(name: str, **changes: Any) -> DeviceSpec:
    fields = {"summary": "a device", "probe": "example:probe", "backend": "example:Backend"}
    return DeviceSpec(**{"name": name, "expression_dtypes": frozenset({"f32"}), **fields, **changes})


def operator(name: str, **changes: Any) -> OpSchema:
    return OpSchema(
        **{
            "name": name,
            "summary": "x",
            "category": "test",
            "inputs": (InputSpec(name="x"),),
            "dtypes": frozenset({"f32"}),
            "infer": lambda inputs, *_: (inputs[0],),
            "definition": Elementwise(lambda inputs, *_: tree.neg(inputs[0])),
            **changes,
        }
    )


def devices(*specs: object) -> Any:
    @hookimpl
    def openinfer_devices() -> tuple[object, ...]:
        return specs

    return openinfer_devices


def ops(*schemas: object) -> Any:
    @hookimpl
    def openinfer_ops() -> tuple[object, ...]:
        return schemas

    return openinfer_ops


def load(*plugins: tuple[str, object], **switches: Any) -> Environment:
    """What core and the given plugins offer together, whatever else is installed."""
    return load_environment(**{"autoload": False, "extra": plugins, **switches})


def info(environment: Environment, name: str) -> PluginInfo:
    (found,) = (plugin for plugin in environment.plugins if plugin.name == name)
    return found
