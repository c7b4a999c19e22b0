"""A forked process has no use for the devices of the process it is a copy of, and does them no harm."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from openinfer.testing.waiting import limit_s
from openinfer_backend_vulkan.api.probe import probe

pytestmark = [
    pytest.mark.usefixtures("device"),
    pytest.mark.skipif(not hasattr(os, "fork"), reason="this system forks no processes"),
]

PROGRAM = """
import gc, os, signal, sys
from openinfer.dtypes import F32
from openinfer.errors import DeviceError
from openinfer.ir.types import TensorType
from openinfer_backend_vulkan.backend import VulkanBackend

KIND = TensorType(F32, (9,))

def filled(backend):
    buffer = backend.allocate(KIND)
    backend.bind_fill(buffer, 1.0)()
    return float(backend.read(buffer).sum())

def refusal(use):
    try:
        use()
    except DeviceError as error:
        return str(error)

backend = VulkanBackend()
buffer = backend.allocate(KIND)
call = backend.bind_fill(buffer, 1.0)
call()
child = os.fork()
if child == 0:
    signal.alarm(20)
    {child}
    sys.exit(0)
print(os.waitpid(child, 0)[1], filled(backend))
"""


@pytest.mark.parametrize(
    ("child", "said"),
    [
        pytest.param("pass", "", id="ends"),
        pytest.param("backend.close()", "", id="closes"),
        pytest.param("del backend, buffer, call; gc.collect()", "", id="drops"),
        pytest.param("print(filled(VulkanBackend()), flush=True)", "9.0\n", id="opens-its-own"),
        pytest.param(
            "print(*{refusal(backend.synchronize), refusal(lambda: filled(backend))}, flush=True)",
            "the device vulkan was opened before this process was forked: open it again in this process\n",
            id="uses",
        ),
    ],
)
def test_a_forked_process(child: str, said: str) -> None:
    if "llvmpipe" not in probe().detail:
        pytest.skip("drivers of hardware may end the devices of both when a forked process ends, NVIDIA's does")
    program = PROGRAM.replace("{child}", child)

    # From 3.12 on, Python warns of a fork while other threads exist, such as those of the driver.
    command = [sys.executable, "-W", "ignore:This process:DeprecationWarning", "-c", program]
    finished = subprocess.run(command, capture_output=True, text=True, timeout=limit_s(60), check=False)

    assert (finished.stdout, finished.stderr) == (f"{said}0 9.0\n", "")
