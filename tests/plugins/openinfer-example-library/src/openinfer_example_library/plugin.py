"""The device `library`: a library of arrays, and core's evaluator for what the library has no function for."""

from collections.abc import Iterator

from openinfer.plugin import DeviceSpec, KernelSpec, hookimpl

OPENINFER_API = 1


@hookimpl
def openinfer_devices() -> Iterator[DeviceSpec]:
    """Offer the device: all element types, operators of every kind of definition, and whole programs."""
    yield DeviceSpec(
        name="library",
        summary="an example: array_api_strict, and core's evaluator for the rest",
        probe="openinfer_example_library.probe:probe",
        backend="openinfer_example_library.backend:LibraryBackend",
        expression_dtypes=None,
        computations=True,
        loop_programs=True,
        fitting_programs=True,
    )


@hookimpl
def openinfer_kernels(target: str) -> Iterator[KernelSpec]:
    """Offer a kernel for this device only: by its loop program, `argsort` would be interpreted."""
    if target == "library":
        integers = frozenset({"i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64"})
        yield KernelSpec(op="argsort", kernel="openinfer_example_library.kernels:argsort", dtypes=integers)
