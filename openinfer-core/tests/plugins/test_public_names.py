"""`openinfer.plugin`, which plugins import: lazy, sorted, and the same for Python and for type checkers."""

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from openinfer import plugin
from openinfer.plugins import types


def names_for_type_checkers() -> dict[str, tuple[str, str]]:
    """Module and name there by name, from the imports under ``if TYPE_CHECKING``."""
    tree = ast.parse(Path(plugin.__file__).read_text(encoding="utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    imports = [node for node in block.body if isinstance(node, ast.ImportFrom)]
    return {alias.asname or alias.name: (node.module or "", alias.name) for node in imports for alias in node.names}


def object_of(module: str, name: str) -> object:
    found = import_module(module)
    return getattr(found, name) if hasattr(found, name) else import_module(f"{module}.{name}")


def test_all_is_sorted_and_is_what_type_checkers_see() -> None:
    assert plugin.__all__ == sorted(plugin.__all__)
    assert sorted(names_for_type_checkers()) == plugin.__all__


@pytest.mark.parametrize("name", plugin.__all__)
def test_a_name_is_the_object_of_its_module(name: str) -> None:
    assert getattr(plugin, name) is object_of(*names_for_type_checkers()[name])


def test_every_description_of_plugins_is_public() -> None:
    descriptions = {n for n, v in vars(types).items() if isinstance(v, type) and v.__module__ == types.__name__}

    assert descriptions <= set(plugin.__all__)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match=r"module 'openinfer\.plugin' has no attribute 'nothing'"):
        _ = plugin.nothing


def test_importing_descriptions_imports_neither_operators_nor_plans() -> None:
    program = "import sys; from openinfer.plugin import DeviceSpec, KernelSpec, hookimpl; print(*sys.modules)"
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    loaded = finished.stdout.split()

    assert not [name for name in loaded if name.split(".")[1:2] in (["ops"], ["plan"], ["simulate"], ["synth"])]
