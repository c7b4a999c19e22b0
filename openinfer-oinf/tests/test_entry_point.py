"""The container never needs core: its plugin module is declared for core to load, and loaded by nothing else."""

import subprocess
import sys
from importlib.metadata import entry_points


def test_the_entry_point_is_declared() -> None:
    (entry_point,) = entry_points(group="openinfer", name="oinf")

    assert entry_point.value == "openinfer_oinf.plugin"


def test_importing_the_container_loads_neither_core_nor_the_plugin_module() -> None:
    program = "import sys, openinfer_oinf; print(*sorted(name for name in sys.modules if name.startswith('openinfer')))"

    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=600, check=False)

    assert finished.returncode == 0, finished.stderr
    loaded = finished.stdout.split()
    assert "openinfer_oinf" in loaded
    assert "openinfer_oinf.plugin" not in loaded
    assert [name for name in loaded if name.partition(".")[0] == "openinfer"] == []
