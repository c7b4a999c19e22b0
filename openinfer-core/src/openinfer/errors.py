"""Exception classes: one per kind of failure, each carrying its findings as data.

See ``specification: runtime.errors``. Every exception has ``code`` (of its first finding)
and ``diagnostics`` (all findings); ``str()`` of an exception is one line.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence


class Finding(Protocol):
    """What an exception needs to know of a finding; `openinfer.diagnostics.Diagnostic` is the one that is used."""

    @property
    def code(self) -> str: ...
    @property
    def message(self) -> str: ...


class OpenInferError(Exception):
    """Base of every error that OpenInfer raises on purpose.

    Args:
        message: one line that names what was found, what was expected and where.
        code: stable identifier of the kind of finding, such as ``"shape-mismatch"``.
        diagnostics: every finding, most important first; may be empty.
    """

    default_code = "error"

    def __init__(self, message: str, *, code: str | None = None, diagnostics: Sequence[Finding] = ()) -> None:
        super().__init__(message)
        self.diagnostics: tuple[Finding, ...] = tuple(diagnostics)
        self.code = code or (self.diagnostics[0].code if self.diagnostics else self.default_code)

    def _of_first(self, attribute: str) -> Any:
        """Return what the first finding says of itself, or None."""
        return getattr(self.diagnostics[0], attribute, None) if self.diagnostics else None


class DslSyntaxError(OpenInferError):
    """The text does not match the grammar (phase P).

    ``line`` and ``column`` count from 1, ``offset`` characters from 0; they place the first finding. ``expected`` is
    what would have been right there, in a person's words, and ``snippet`` the line of the text.
    """

    default_code = "syntax"

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        diagnostics: Sequence[Finding] = (),
        line: int = 0,
        column: int = 0,
        offset: int = 0,
        expected: tuple[str, ...] = (),
        snippet: str = "",
    ) -> None:
        super().__init__(message, code=code, diagnostics=diagnostics)
        self.line = line
        self.column = column
        self.offset = offset
        self.expected = expected
        self.snippet = snippet


class GraphError(OpenInferError):
    """The graph cannot be built: the IR cannot hold what was requested (phase B)."""

    default_code = "graph"


class SerializationError(OpenInferError):
    """A JSON document is not a valid graph, trace or device file; every finding carries a JSON pointer.

    ``path`` is the JSON pointer of the first finding.
    """

    default_code = "json"

    @property
    def path(self) -> str | None:
        return self._of_first("path")


class ModelError(OpenInferError):
    """A model file is unreadable, invalid or does not have what was requested.

    ``file`` is its path (``"<memory>"`` for a model of arrays), ``table`` the index in question (``"sizevars"``,
    ``"metadata"``, ``"tensors"``) and ``name`` the entry; None where there is no one.
    """

    default_code = "model"

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        diagnostics: Sequence[Finding] = (),
        file: str | None = None,
        table: str | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(message, code=code, diagnostics=diagnostics)
        self.file = file
        self.table = table
        self.name = name


class ValidationError(OpenInferError):
    """The graph breaks a rule of structure (phase S) or does not fit model, operators or device (phase V).

    ``block``, ``node_index`` and ``node_desc`` are those of the first finding.
    """

    default_code = "validation"

    @property
    def block(self) -> str | None:
        return self._of_first("block")

    @property
    def node_index(self) -> int | None:
        return self._of_first("node_index")

    @property
    def node_desc(self) -> str | None:
        return self._of_first("node_desc")


class ExecutionError(OpenInferError):
    """A step failed, or the host used an executor wrongly (phase R).

    ``block``, ``node_index`` and ``node_desc`` name the node that was running, if there was one; ``cause`` is the
    exception that it comes of, such as that of a kernel.
    """

    default_code = "execution"

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        diagnostics: Sequence[Finding] = (),
        block: str | None = None,
        node_index: int | None = None,
        node_desc: str | None = None,
    ) -> None:
        super().__init__(message, code=code, diagnostics=diagnostics)
        self.block = block
        self.node_index = node_index
        self.node_desc = node_desc

    @property
    def cause(self) -> BaseException | None:
        return self.__cause__


class DynamicUnsetError(ExecutionError):
    """A dynamic variable without ``@init`` was read in a step for which nothing was inserted."""

    default_code = "dynamic-unset"


class CacheIndexError(ExecutionError):
    """A persistent table was addressed at a position that cannot exist."""

    default_code = "cache-index"


class CacheLimitError(ExecutionError):
    """A persistent table would grow past its ``@fixed`` bound."""

    default_code = "cache-limit"


class ShapeError(ExecutionError):
    """A value has another shape than the place it goes to."""

    default_code = "shape-mismatch"


class DTypeError(ExecutionError):
    """A value has another element type than the place it goes to, or does not fit it."""

    default_code = "dtype-mismatch"


class DeadlockError(ExecutionError):
    """Yield and await can never meet."""

    default_code = "deadlock"


class RaceError(ExecutionError):
    """Two blocks that run at the same time touch one variable and at least one writes it."""

    default_code = "race"


class KernelMissingError(ExecutionError):
    """The device has no kernel, expression or decomposition for an operator with these element types."""

    default_code = "kernel-missing"


class FeatureMissingError(KernelMissingError):
    """An operator needs a feature that this hardware does not have or that its device leaves to another one."""


class DepthError(ExecutionError):
    """Blocks call each other more deeply than the limit of frames."""

    default_code = "depth"


class StepStateError(ExecutionError):
    """An executor cannot do what was requested at this moment of a step."""

    default_code = "step-state"


class UnsupportedError(ExecutionError):
    """The language has this construct, and running it is not supported by this version."""

    default_code = "unsupported"


class DeviceError(OpenInferError):
    """A device is unknown, unavailable or lost."""

    default_code = "device"


class SynthesisError(OpenInferError):
    """A program cannot be written out as source code, compiled, or verified for a target."""

    default_code = "synthesis"


class ModelImportError(OpenInferError):
    """A model of another format cannot become a program.

    ``nodes`` are the nodes at fault, by their names in the model, each with a finding of its own. ``inputs`` are inputs
    of the model whose values would have to be fixed at import.
    """

    default_code = "import-unsupported"

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        diagnostics: Sequence[Finding] = (),
        nodes: Sequence[str] = (),
        inputs: Sequence[str] = (),
    ) -> None:
        super().__init__(message, code=code, diagnostics=diagnostics)
        self.nodes = tuple(nodes)
        self.inputs = tuple(inputs)


class CalibrationError(OpenInferError):
    """A program cannot be quantised: the samples do not fit it, or nothing in it can run on 8-bit integers."""

    default_code = "calibration"


class MissingDependencyError(OpenInferError):
    """Something that was requested is missing on the machine, such as a compiler; the command line exits with 3."""

    default_code = "environment"


class PluginError(OpenInferError):
    """A plugin failed. ``plugin``, ``distribution``, ``hook`` and ``status`` say which and how."""

    default_code = "plugin"

    def __init__(
        self,
        message: str,
        *,
        plugin: str | None = None,
        distribution: str | None = None,
        hook: str | None = None,
        status: str | None = None,
    ) -> None:
        super().__init__(message)
        self.plugin = plugin
        self.distribution = distribution
        self.hook = hook
        self.status = status


class PluginStepError(PluginError, ExecutionError):
    """A plugin failed while a statement was bound or ran; ``cause`` is what its code raised."""

    def __init__(
        self,
        message: str,
        *,
        plugin: str | None = None,
        distribution: str | None = None,
        hook: str | None = None,
        status: str | None = None,
        block: str | None = None,
        node_index: int | None = None,
        node_desc: str | None = None,
    ) -> None:
        super().__init__(message, plugin=plugin, distribution=distribution, hook=hook, status=status)
        self.block = block
        self.node_index = node_index
        self.node_desc = node_desc
