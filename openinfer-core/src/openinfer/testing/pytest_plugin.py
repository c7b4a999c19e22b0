"""The pytest plugin of the conformance kit: the option that names the device, and one test per operator and type.

``pytest --pyargs openinfer.testing.conformance --openinfer-device NAME`` runs the kit against a device.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the kit's options."""
    group = parser.getgroup("openinfer", "OpenInfer conformance")
    group.addoption(
        "--openinfer-device",
        action="append",
        default=[],
        metavar="NAME",
        help="device that the conformance tests of openinfer.testing.conformance run on (repeatable; default cpu)",
    )
    group.addoption(
        "--openinfer-op",
        action="append",
        default=[],
        metavar="NAME",
        help="operator to test (repeatable; default all)",
    )
    group.addoption(
        "--openinfer-sample",
        type=_count,
        default=1,
        metavar="N",
        help="run about one case in N, the same ones each time, and one or more of each operator and type (default 1)",
    )
    group.addoption(
        "--openinfer-allow-missing",
        action="store_true",
        help="skip operators and types that the device has nothing for, with the reason, instead of failing",
    )


def _count(text: str) -> int:
    """Return a number of cases, as `argparse` wants types of options."""
    if not text.isdecimal() or not int(text):
        raise ValueError(f"expected a whole number from 1 on, found {text!r}")
    return int(text)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Make one test per device, operator and element type."""
    if "openinfer_cell" not in metafunc.fixturenames:
        return
    from openinfer.plugins.environment import Environment

    environment = Environment.default()
    devices: list[str] = metafunc.config.getoption("--openinfer-device") or ["cpu"]
    ops: list[str] = metafunc.config.getoption("--openinfer-op") or sorted(environment.ops)
    cells = [
        (device, op, dtype)
        for device in devices
        for op in ops
        for dtype in environment.dtypes
        if dtype in environment.op(op).dtypes
    ]
    metafunc.parametrize("openinfer_cell", cells, ids=["-".join(cell) for cell in cells])
