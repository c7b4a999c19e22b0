"""The device `abacus` and its one hand-written kernel; what they need is imported when the device is opened."""

from collections.abc import Iterator

from openinfer.plugin import DeviceSpec, Fallback, KernelSpec, hookimpl

OPENINFER_API = 1

DTYPES = frozenset({"f32", "f64", "i32", "i64", "u8", "bool"})


@hookimpl
def openinfer_devices() -> Iterator[DeviceSpec]:
    """Offer the device."""
    yield DeviceSpec(
        name="abacus",
        summary="an example: expressions and folds evaluated with NumPy, one hand-written matmul",
        probe="openinfer_example_device.probe:probe",
        backend="openinfer_example_device.backend:AbacusBackend",
        expression_dtypes=DTYPES,
        fallback=Fallback(device="cpu", dtypes=frozenset({"f16"})),
    )


@hookimpl
def openinfer_kernels(target: str) -> Iterator[KernelSpec]:
    """Offer a kernel for this device only."""
    if target == "abacus":
        yield KernelSpec(
            op="matmul",
            kernel="openinfer_example_device.kernels:bind_matmul",
            dtypes=frozenset({"f32", "f64"}),
            supports=lambda call: call.settings.get("acc") is None,
        )
