"""The entry point through which core finds this distribution: declared, of a known API, and light."""

import importlib
import subprocess
import sys
from importlib.metadata import entry_points

from openinfer.testing.waiting import limit_s

HEAVY = ("numpy", "ml_dtypes", "marshmallow", "parsimonious", "vulkan", "cffi", "jinja2")


def test_the_entry_point_leads_to_a_plugin_module_of_api_1() -> None:
    (entry_point,) = entry_points(group="openinfer", name="c")

    assert entry_point.value == "openinfer_synth_c.plugin"
    assert importlib.import_module(entry_point.value).OPENINFER_API == 1


def test_importing_the_plugin_module_loads_nothing_heavy() -> None:
    program = f"import sys, openinfer_synth_c.plugin; sys.exit(' '.join(sys.modules.keys() & set({HEAVY!r})) or 0)"

    finished = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=limit_s(60), check=False
    )

    assert (finished.returncode, finished.stderr) == (0, "")
