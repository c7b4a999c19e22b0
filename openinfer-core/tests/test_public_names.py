"""The public names of `openinfer`: lazily imported, sorted, and the same for Python and for type checkers."""

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import openinfer

HEAVY = ("numpy", "ml_dtypes", "marshmallow", "parsimonious", "vulkan", "jinja2", "click", "pluggy")
NAMES = [name for name in openinfer.__all__ if name != "__version__"]


def names_for_type_checkers() -> dict[str, str]:
    """Module by name, from the imports under ``if TYPE_CHECKING``."""
    tree = ast.parse(Path(openinfer.__file__).read_text(encoding="utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    imports = [node for node in block.body if isinstance(node, ast.ImportFrom)]
    return {alias.name: node.module for node in imports for alias in node.names}


@pytest.mark.rule("api.python.1")
def test_all_is_sorted_and_is_what_type_checkers_see() -> None:
    assert openinfer.__all__ == sorted(openinfer.__all__)
    assert sorted(names_for_type_checkers()) == sorted(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_name_is_the_object_of_its_module(name: str) -> None:
    assert getattr(openinfer, name) is getattr(import_module(names_for_type_checkers()[name]), name)


@pytest.mark.rule("api.python.1")
def test_every_error_class_is_public() -> None:
    errors = import_module("openinfer.errors")
    classes = {n for n, v in vars(errors).items() if isinstance(v, type) and issubclass(v, Exception)}

    assert classes <= set(openinfer.__all__)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'openinfer' has no attribute 'nothing'"):
        _ = openinfer.nothing


@pytest.mark.rule("api.python.2")
def test_importing_the_package_imports_none_of_its_parts() -> None:
    program = "import sys, openinfer; print(*sys.modules)"
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    loaded = finished.stdout.split()

    assert not [name for name in loaded if name in HEAVY or name.startswith("openinfer.")]
