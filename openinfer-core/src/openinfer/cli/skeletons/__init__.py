"""Skeletons of plugins: a package that builds, installs and passes its tests, made of one file for each kind of part.

A kind is a file ``KIND.toml`` here: what its hooks yield, and files of the package. In all of them ``plugin_name``
stands for the package that is imported, and ``plugin-name`` for the distribution.
"""

from __future__ import annotations

import inspect
import keyword
import re
import sys
import tomllib
from dataclasses import dataclass, field
from importlib.metadata import version
from importlib.resources import files
from importlib.util import find_spec
from textwrap import indent
from typing import TYPE_CHECKING, Any

from openinfer.errors import OpenInferError
from openinfer.plugins import hookspecs
from openinfer.plugins.types import API_VERSION

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
_ROOT = "root.toml"


@dataclass(frozen=True, slots=True, kw_only=True)
class HookSkeleton:
    """What one kind of part adds to a hook.

    Attributes:
        description: name of what the hook yields, in `openinfer.plugin`.
        offer: the statements that yield.
        arguments: parameters of the hook that ``offer`` uses, as they are written.
        names: other names of `openinfer.plugin` that ``offer`` uses.
        imports: statements that import what else it uses.
    """

    hook: str
    description: str
    offer: str
    arguments: str = ""
    names: Sequence[str] = ()
    imports: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Skeleton:
    """A kind of part.

    Attributes:
        files: texts by their paths in the package's folder.
        operators, devices: names that the conformance kit tests.
    """

    summary: str
    hooks: tuple[HookSkeleton, ...]
    files: Mapping[str, str]
    operators: Sequence[str] = field(default=())
    devices: Sequence[str] = field(default=())


def kinds() -> Mapping[str, Skeleton]:
    """Return the kinds of parts by name."""
    skeletons = sorted(file.name for file in files(__name__).iterdir() if file.name.endswith(".toml"))
    return {name.removesuffix(".toml"): _read(name) for name in skeletons if name != _ROOT}


def _read(name: str) -> Skeleton:
    content: dict[str, Any] = _content(name)
    hooks = tuple(HookSkeleton(**hook) for hook in content.pop("hooks"))
    return Skeleton(hooks=hooks, **content)


def _content(name: str) -> dict[str, Any]:
    return tomllib.loads(files(__name__).joinpath(name).read_text(encoding="utf-8"))


def package(name: str, parts: Iterable[Skeleton]) -> Mapping[str, str]:
    """Return the files of a plugin's package by their paths in its folder.

    Args:
        name: of the distribution, such as ``acme-tools``: the package that is imported is ``acme_tools``.
        parts: what it offers.

    Raises:
        OpenInferError: ``wrong-value``: the name is not one of a distribution, or there is such a module.
    """
    chosen, module = tuple(parts), name.replace("-", "_")
    _check_name(name, module)
    root: Mapping[str, str] = _content(_ROOT)["files"]
    texts = dict(root)
    for part in chosen:
        texts |= part.files
    texts["src/plugin_name/plugin.py"] = _plugin_module([hook for part in chosen for hook in part.hooks])
    texts["tox.ini"] += _kit(chosen)
    values = {"plugin_name": module, "plugin-name": name, "core_version": version("openinfer-core")}
    return {_filled(path, values): _filled(text, values) for path, text in sorted(texts.items())}


def _filled(text: str, values: Mapping[str, str]) -> str:
    """Return a text with values in place of their names, all at once: a value may contain a name."""
    return re.sub("|".join(values), lambda match: values[match[0]], text)


def _check_name(name: str, module: str) -> None:
    if not _NAME.fullmatch(name):
        message = f"expected the name of a distribution, such as acme-tools, found {name!r}: lower case and digits"
        raise OpenInferError(message, code="wrong-value")
    if keyword.iskeyword(module) or module in sys.stdlib_module_names or module.startswith("openinfer"):
        message = f"{module!r} is a name of Python or OpenInfer: choose another one"
        raise OpenInferError(message, code="wrong-value")
    if find_spec(module) is not None:
        message = f"a module {module!r} is installed, which the plugin would hide: choose another name"
        raise OpenInferError(message, code="wrong-value")


def _plugin_module(hooks: Sequence[HookSkeleton]) -> str:
    """Return the module that the entry point names."""
    made = {hook.description for hook in hooks if f"{hook.description}(" in hook.offer}
    imported = sorted({*made, *(name for hook in hooks for name in hook.names)}, key=_as_sorted)
    typed = sorted({hook.description for hook in hooks} - made, key=_as_sorted)
    own = sorted({line for hook in hooks for line in hook.imports})
    lines = [
        '"""What plugin-name offers to OpenInfer. The rest of the package is imported when it is used."""',
        "",
        "from __future__ import annotations",
        "",
        "from typing import TYPE_CHECKING",
        "",
        *_import_of([*imported, "hookimpl"]),
        *(["", *own] if own else []),
        "",
        "if TYPE_CHECKING:",
        "    from collections.abc import Iterator",
        *(["", f"    from openinfer.plugin import {', '.join(typed)}"] if typed else []),
        "",
        f"OPENINFER_API = {API_VERSION}",
    ]
    for name in dict.fromkeys(hook.hook for hook in hooks):
        lines += _hook_function([hook for hook in hooks if hook.hook == name])
    return "\n".join(lines) + "\n"


def _as_sorted(name: str) -> tuple[bool, str]:
    """Return the key by which sorted imports put constants first."""
    return not name.isupper(), name


def _import_of(names: Sequence[str]) -> list[str]:
    line = f"from openinfer.plugin import {', '.join(names)}"
    if len(line) <= 88:
        return [line]
    return ["from openinfer.plugin import (", *(f"    {name}," for name in names), ")"]


def _hook_function(hooks: Sequence[HookSkeleton]) -> list[str]:
    first = hooks[0]
    spec = inspect.getdoc(getattr(hookspecs, first.hook)) or ""
    return [
        "",
        "",
        "@hookimpl",
        f"def {first.hook}({first.arguments}) -> Iterator[{first.description}]:",
        f'    """{spec}"""',
        *(indent(hook.offer.strip("\n"), "    ") for hook in hooks),
    ]


def _kit(parts: Sequence[Skeleton]) -> str:
    """Return the commands of tox that run the conformance kit on what a plugin offers."""
    kit = "    pytest --pyargs openinfer.testing.conformance"
    operators = [name for part in parts for name in part.operators]
    on_cpu = [f"{kit} --openinfer-device cpu {' '.join(f'--openinfer-op {name}' for name in operators)}"]
    devices = [f"{kit} --openinfer-device {name} --openinfer-allow-missing" for part in parts for name in part.devices]
    return "".join(f"{line}\n" for line in [*(on_cpu if operators else []), *devices])
