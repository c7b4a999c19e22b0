"""The simulator: a model and a device, on which graphs are validated and run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from openinfer import programs
from openinfer.boundary import public_methods
from openinfer.errors import DeviceError, ValidationError
from openinfer.ir.bulk import many_objects
from openinfer.model import Model, ModelLoader
from openinfer.plugins.environment import Environment
from openinfer.simulate.compile.placement import Placements
from openinfer.simulate.devices.opening import Device, choose_device, open_device
from openinfer.simulate.execute.executor import Executor
from openinfer.simulate.execute.observers import Observers
from openinfer.simulate.logs import LogKind, log, trace_by_default
from openinfer.validate import resolve
from openinfer.validate.resizing import resize

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

    from openinfer.diagnostics import Diagnostic
    from openinfer.ir.resolved import ResolvedGraph
    from openinfer.programs import Program


@public_methods
class Simulator:
    """Runs graphs on a device, exactly as they are written.

    Args:
        model: sizes, metadata and tensors; or the path of a file with them, which is released with its last user.
        program_or_device: a program (`openinfer.programs.Program`: a graph, its text, a file), validated at once, or
            the name of a device, in either order; both may be left out.
        device: name of the device (``"cpu"``, ``"vulkan:1"``, ...) or a `Device`; cpu by default.
        strict: whether warnings are errors.
        trace, timer: whether executors record events, and time operators; by default as ``OPENINFER_TRACE`` says.
        echo: whether `Executor.step` prints the events that it records.
        sizes: named sizes that take the place of the model's.
        limits: how far caches may grow, and how large sizes of steps may be, on a device that reserves memory for them,
            as the synthesizer takes them; other devices check their names only. Devices c and vulkan make one plan for
            all sizes.
        environment: what the plugins offer; the installed ones by default.
        placement: whether operators run on the devices that ``with { placement = "…" }`` names, of the operator or of a
            scope, loop or block around it. Off by default, so that no hint changes a result unasked.

    Raises:
        DeviceError: the device is unknown, or cannot be used here.
        ModelError: the file cannot be read.
        ValidationError: the graph does not fit, with every finding.
    """

    def __init__(
        self,
        model: Model | str | os.PathLike[str],
        *program_or_device: Program,
        device: Device | str | None = None,
        strict: bool = False,
        trace: bool | None = None,
        timer: bool | None = None,
        echo: bool = True,
        sizes: Mapping[str, int] | None = None,
        limits: Mapping[str, int] | None = None,
        environment: Environment | None = None,
        placement: bool = False,
    ) -> None:
        self._environment = environment or Environment.default()
        program, name = _program_and_device(program_or_device, device, self._environment)
        self._model = model if isinstance(model, Model) else ModelLoader.open(model, environment=environment)
        self._strict = strict
        self._trace, self._timer = trace_by_default(trace, timer)
        self._echo = echo
        self._sizes, self._limits = dict(sizes or {}), dict(limits or {})
        self._device = choose_device(name, self._environment)
        self._placement = placement
        self._resolved = None if program is None else self._resolve(program)

    def __repr__(self) -> str:
        graph = "" if self._resolved is None else f", {self._resolved.graph!r}"
        return f"<Simulator of {self._model.name} on {self.device}{graph}>"

    def _repr_html_(self) -> str:
        from openinfer.draw import fragment, graph_parts

        resolved = self._resolved
        facts = "no program yet" if resolved is None else resolved.graph.counts()
        parts = () if resolved is None else graph_parts(resolved.graph, resolved)
        return fragment(f"Simulator of {self._model.name} on {self.device}", facts, *parts)

    @property
    def device(self) -> str:
        """Name of the device, with its ordinal where it is not 0."""
        return self._device.name

    def validate(self, graph: Program) -> tuple[Diagnostic, ...]:
        """Check a program against the model and the device; return the warnings.

        Raises:
            ValidationError: every independent error at once, in ``diagnostics``.
        """
        return self._resolve(graph).warnings

    @property
    def warnings(self) -> tuple[Diagnostic, ...]:
        """The warnings about the graph that the simulator was made with; none without a graph."""
        return () if self._resolved is None else self._resolved.warnings

    def with_trace(self) -> Self:
        """Record events in executors made from here on."""
        self._trace = True
        return self

    def with_timer(self) -> Self:
        """Time operators in executors made from here on."""
        self._timer = True
        return self

    def with_inplace(self) -> Self:
        """Do nothing: operators may always write to their inputs."""
        return self

    def make_executor(self, graph: Program | None = None) -> Executor:
        """Validate a program (by default the simulator's), bind it to memory of its own, and return what runs it.

        Raises:
            ValidationError: the graph does not fit, or there is none.
            DeviceError: a device that a hint names, with ``placement``, is unknown; or such a device, or one that
                operators fall back to, cannot be used here.
            SynthesisError: a limit is not positive, or names nothing of the program that may grow.
        """
        resolved = self._resolved if graph is None else self._resolve(graph)
        if resolved is None:
            raise ValidationError("there is no graph to run: give one to Simulator or to make_executor")
        if self._limits:
            _check_limits(resolved, self._model, self._limits)
        log(LogKind.TRACE, f"binding {len(resolved.ops)} operators of {self._model.name} to device {self.device}")
        placements = Placements(resolved, self._fallback, self._environment)
        backend, binder = open_device(self._device, self._environment)
        try:
            with many_objects():
                return Executor(
                    resolved,
                    self._model,
                    backend,
                    binder,
                    placements,
                    trace=self._trace,
                    timer=self._timer,
                    echo=self._echo,
                    limits=self._limits,
                    resized=lambda sizes: self._resized(resolved, sizes),
                    observers=Observers(self._environment) if self._trace else None,
                )
        except BaseException:
            placements.close()
            backend.close()
            raise

    @property
    def _fallback(self) -> str | None:
        """The device for operators that need a missing hardware feature: falling back is an error when strict."""
        fallback = self._device.spec.fallback
        return None if fallback is None or self._strict else fallback.device

    def _resized(self, resolved: ResolvedGraph, sizes: Mapping[str, int]) -> ResolvedGraph:
        """Return a program at the sizes of a step."""
        with many_objects():
            return resize(
                resolved,
                self._model,
                {**self._sizes, **sizes},
                environment=self._environment,
                device=self.device,
                placement=self._placement,
                strict=self._strict,
            )

    def _resolve(self, program: Program) -> ResolvedGraph:
        with many_objects():
            resolved = resolve(
                programs.graph(program, strict=self._strict),
                self._model,
                sizes=self._sizes,
                environment=self._environment,
                device=self.device,
                placement=self._placement,
                strict=self._strict,
            )
        for warning in resolved.warnings:
            log(LogKind.WARNING, str(warning))
        return resolved


def _check_limits(resolved: ResolvedGraph, model: Model, limits: Mapping[str, int]) -> None:
    """Check limits on devices that need none, too: a misspelt one would go unnoticed until the program is synthesised.

    Raises:
        SynthesisError: as `Simulator.make_executor`.
    """
    from openinfer.plan import limits_of
    from openinfer.plan.bounds import CacheBounds

    sizes, caches = limits_of(resolved.graph, model, limits)
    CacheBounds(resolved, caches, sizes)


def _program_and_device(
    arguments: tuple[Program, ...], device: Device | str | None, environment: Environment
) -> tuple[Program | None, str]:
    """Return the program and the device among positional arguments."""
    names = [value for value in arguments if isinstance(value, str) and not _is_program(value, environment)]
    programs = [value for value in arguments if not any(value is name for name in names)]
    if device is not None:
        names.append(device)
    if len(programs) > 1 or len(names) > 1:
        raise TypeError(f"expected one program and one device, found {len(programs)} and {len(names)}")
    return next(iter(programs), None), next(iter(names), Device.CPU)


def _is_program(text: str, environment: Environment) -> bool:
    """Return whether a text is a program or the path of one, rather than the name of a device.

    Raises:
        DeviceError: it is none of these.
    """
    kind = str(text).partition(":")[0]
    if kind in environment.devices:
        return False
    if programs.is_program(text):
        return True
    try:
        environment.device(kind)
    except DeviceError as error:
        message = f"{error} (a program is given as a Graph, as text, or as the path of a file that exists)"
        raise DeviceError(message, code=error.code) from None
    return False
