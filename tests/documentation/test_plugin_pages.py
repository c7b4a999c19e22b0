"""The pages of plugins say what is: every hook with its exact signature, every status and switch, every listing.

The reference is docs/plugins.md; the tutorials, the page of devices and that of targets list whole packages.
"""

import builtins
import dataclasses
import importlib.util
import inspect
import re
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest

import openinfer
from openinfer import plugin
from openinfer.cli import main
from openinfer.cli.skeletons import kinds
from openinfer.dtypes import F32
from openinfer.ir.types import TensorType
from openinfer.ops import schema
from openinfer.ops.applying import call_of
from openinfer.plugins import hookspecs, switches, types
from openinfer.plugins.environment import Environment, Status
from openinfer.testing.pytest_plugin import pytest_addoption

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "plugins.md").read_text(encoding="utf-8")
HOOKS = [value for name, value in vars(hookspecs).items() if name.startswith("openinfer_")]
TUTORIALS = (ROOT / "docs" / "plugins-tutorials.md").read_text(encoding="utf-8")
DEVICES = (ROOT / "docs" / "plugins-devices.md").read_text(encoding="utf-8")
TARGETS = (ROOT / "docs" / "architecture" / "targets.md").read_text(encoding="utf-8")
LISTINGS = re.findall(
    r"^`(tests/plugins/[^`]+)`:\n\n```\w+\n(.*?)^```$", PAGE + TUTORIALS + DEVICES + TARGETS, re.MULTILINE | re.DOTALL
)


@pytest.mark.parametrize("hook", HOOKS, ids=lambda hook: hook.__name__)
def test_every_hook_has_a_section_with_its_exact_signature(hook: object) -> None:
    signature = str(inspect.signature(hook)).replace("'", "")

    assert f"\n### `{hook.__name__}{signature}`\n" in PAGE


def test_classes_that_the_page_names_can_be_imported_by_plugins() -> None:
    named = set(re.findall(r"`([A-Z][A-Za-z]*[a-z][A-Za-z]*)(?:\(.*?\))?`", PAGE)) - set(dir(builtins))

    assert {"DeviceSpec", "Original", "Environment"} <= named
    assert named <= {*plugin.__all__, *openinfer.__all__}


def test_no_section_mentions_a_hook_that_does_not_exist() -> None:
    assert len(re.findall(r"^### `openinfer_", PAGE, re.MULTILINE)) == len(HOOKS)


def test_every_status_is_explained() -> None:
    for status in Status:
        assert f"\n| {status.value} | " in PAGE


def test_every_switch_is_listed_with_its_option() -> None:
    rows = re.findall(r"^\| `(--[a-z-]+)[^`]*` \| `OPENINFER_", PAGE, re.MULTILINE)
    options = {option for parameter in main.params for option in parameter.opts if "plugins" in option}

    assert set(rows) == options
    for variable in switches.VARIABLES:
        assert f"`{variable}=" in PAGE


def described() -> set[tuple[str, str]]:
    """Return the descriptions that plugins make, each with each of its fields."""
    values = [value for name, value in inspect.getmembers(plugin, inspect.isclass) if name in plugin.__all__]
    modules = (types.__name__, schema.__name__)
    classes = [value for value in values if value.__module__ in modules and dataclasses.is_dataclass(value)]
    # What the loader fills in is not set by plugins.
    return {(c.__name__, f.name) for c in classes for f in dataclasses.fields(c) if f.name != "owner"}


def test_every_field_of_a_description_is_listed_with_the_core_that_has_it() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (\d+\.\d+\.\d+) \| (.*) \|$", PAGE, re.MULTILINE)

    assert {(name, field) for name, _, fields in rows for field in re.findall(r"`(\w+)`", fields)} == described()


def test_every_kind_of_skeleton_is_listed() -> None:
    for name, kind in kinds().items():
        assert f"\n| `{name}` | {kind.summary} |\n" in PAGE


def test_listings_are_the_files_that_they_name() -> None:
    assert LISTINGS
    for path, text in LISTINGS:
        assert text == (ROOT / path).read_text(encoding="utf-8"), path


def test_every_python_file_of_an_example_is_listed() -> None:
    sources = (ROOT / "tests" / "plugins").glob("openinfer-example-*/src/*/[a-z]*.py")

    listed = {path for path, _ in LISTINGS if path.endswith(".py")}
    assert {path.relative_to(ROOT).as_posix() for path in sources} == listed


@pytest.mark.parametrize("right", [False, True])
@pytest.mark.parametrize("left", [False, True])
def test_the_example_of_a_kernel_reads_the_settings_of_its_operator(left: bool, right: bool) -> None:
    path = ROOT / "tests/plugins/openinfer-example-device/src/openinfer_example_device/kernels.py"
    spec = importlib.util.spec_from_file_location("example_kernels", path)
    assert spec is not None
    assert spec.loader is not None
    kernels = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(kernels)
    a, b = (np.arange(count, dtype=np.float32).reshape(-1, 4) for count in (12, 20))
    a, b = a if not left else a.T.copy(), b if right else b.T.copy()
    types = [TensorType(F32, array.shape) for array in (a, b)]
    call = call_of(Environment.default().op("matmul"), types, {"trans_a": left, "trans_b": right})
    out = np.zeros(call.outputs[0].shape, np.float32)

    kernels.bind_matmul(call, [a, b], [out])()

    assert out.tolist() == ((a.T if left else a) @ (b.T if right else b)).tolist()


def test_every_option_of_the_conformance_kit_is_listed() -> None:
    group = Mock()
    pytest_addoption(Mock(getgroup=Mock(return_value=group)))
    options = [call.args[0] for call in group.addoption.call_args_list]

    assert re.findall(r"^\| `(--openinfer-[a-z-]+)[^`]*` \|", PAGE, re.MULTILINE) == options


def test_the_example_of_an_oracle_passes() -> None:
    section = PAGE.partition("## Testing a backend\n")[2]
    (code,) = re.findall(r"^```python\n(.*?)^```$", section.partition("\n## ")[0], re.MULTILINE | re.DOTALL)

    found: dict[str, object] = {}
    exec(compile(code, "docs/plugins.md", "exec"), found)

    assert found["cells"]


def test_examples_import_from_the_module_of_plugin_authors() -> None:
    sources = [text for path, text in LISTINGS if path.endswith(".py")]
    imported = {
        name for text in sources for name in re.findall(r"^ *from (openinfer(?:\.\w+)*) import", text, re.MULTILINE)
    }

    assert {name for name in imported if not name.startswith("openinfer.testing")} == {"openinfer.plugin"}
