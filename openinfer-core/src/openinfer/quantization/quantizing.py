"""Quantising a program: scales from samples, the program with integer operators, its weights, and what changed."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from openinfer import dsl, programs
from openinfer.errors import CalibrationError
from openinfer.ir.resolved import ResolvedVar
from openinfer.ir.temporaries import temporary_names
from openinfer.model import Model, ModelContents, save_model
from openinfer.output_files import writing
from openinfer.plugins.environment import Environment
from openinfer.quantization.layers import entry_numbers, find_layers, weight_names
from openinfer.quantization.measuring import accuracy_of, output_ratios, ratios_of_layers
from openinfer.quantization.observing import MADE, READ, entry_of, observed, samples_of, watches
from openinfer.quantization.ranges import SHIFTED, SYMMETRIC, UNSIGNED, Clipping, Codes, SeenRange
from openinfer.quantization.report import LayerReport, QuantizationReport
from openinfer.quantization.rewriting import edited, replace, with_source
from openinfer.quantization.statements import (
    SCALE,
    SCALE_TENSOR,
    STEP,
    STEP_TENSOR,
    ZERO,
    Names,
    layer_statements,
    weight_declarations,
)
from openinfer.validate import resolve
from openinfer.validate.inference import inferred_types
from openinfer_oinf import quantize_array

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

    from openinfer.diagnostics import Span
    from openinfer.ir.graph import Graph
    from openinfer.ir.resolved import PrefixTable, ResolvedGraph
    from openinfer.programs import Program
    from openinfer.quantization.layers import Layer
    from openinfer.quantization.rewriting import Edit
    from openinfer.symbolic import IntExpr

    Array = npt.NDArray[Any]
    Ranges = dict[tuple[int, ...], SeenRange]

MOST_CALIBRATED = 100
"""Samples that ranges and errors of layers are taken from, by default; the accuracy is that of all."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class QuantizedProgram:
    """A program on 8-bit integers, with its weights.

    Attributes:
        graph: the program.
        text: its text: that of the original program with the statements of layers replaced.
        model: sizes, metadata and weights.
        report: what changed.
    """

    graph: Graph
    text: str
    model: Model
    report: QuantizationReport

    def save(
        self, folder: str | os.PathLike[str], name: str, *, environment: Environment | None = None
    ) -> tuple[Path, Path]:
        """Write ``NAME.oi`` and ``NAME.oinf`` into a folder, which is made if it is missing; return their paths.

        Raises:
            ModelError: the container cannot be written.
            OSError: the text cannot be.
        """
        target = Path(folder)
        target.mkdir(parents=True, exist_ok=True)
        program, container = target / f"{name}.oi", target / f"{name}.oinf"
        tensors = {
            info.name: (info.dtype, info.shape, self.model.load_raw(info.name)) for info in self.model.tensors.values()
        }
        contents = ModelContents(sizevars=self.model.sizevars, metadata=self.model.metadata, tensors=tensors)
        with writing(program) as write:
            write(self.text.encode("utf-8"))
            save_model(contents, container, environment=environment)
        return program, container


def quantize(
    program: Program,
    model: Model,
    data: Mapping[str, Array],
    *,
    clipping: Clipping | None = None,
    signed: bool = False,
    exclude: Sequence[str] = (),
    most: int = MOST_CALIBRATED,
    labels: Array | None = None,
    output: str | None = None,
    environment: Environment | None = None,
) -> QuantizedProgram:
    """Return a program whose convolutions and products with constant weights run on 8-bit integers.

    Args:
        program: a program in any form; its weights are f32.
        data: samples by input, ``[samples, …]``; persistent variables go on from sample to sample.
        clipping: how ranges of activations are chosen; by default by their largest magnitudes.
        signed: write inputs of layers that are never negative as i8 with the zero point -128, not as u8: the form that
            SMLAD and Helium multiply fastest. The results are the same.
        exclude: patterns of names of weights that stay.
        most: how many samples ranges and errors are taken from.
        labels: the class of each sample, integers ``[samples]``; with it the report has the accuracy.
        output: the output that it is about: one number for each class, or the class; needed where there are several.
        environment: what plugins offer; the installed ones by default.

    Raises:
        CalibrationError: the samples do not fit the program, nothing in it can be quantised, or no sample runs the
            same layers in both programs.
        DslSyntaxError, GraphError, ValidationError: the program is wrong; all findings.
    """
    offered = environment or Environment.default()
    graph, text = with_source(programs.graph(program))
    _check_plain(model)
    _check_names(graph)
    resolved = resolve(graph, model, environment=offered)
    samples = samples_of(graph, data, resolved.sizes)
    layers, left = find_layers(resolved, model, exclude)
    if not layers:
        reasons = "; ".join(f"line {each.line}: {each.reason}" for each in left) or "it has no product with a weight"
        raise CalibrationError(f"nothing in the program can be quantised: {reasons}")
    chosen = clipping or Clipping()
    making = _Making(resolved, layers, model, offered, chosen, signed=signed)
    making.observe(edited(text, watches(layers)), samples[:most])
    made_text, made_model = making.text(text), making.model()
    made = dsl.graph(made_text)
    resolve(made, made_model, environment=offered)
    ratios = ratios_of_layers(
        (edited(text, watches(layers)), model), (making.text(text, watched=True), made_model), samples[:most], offered
    )
    pair = ((graph, model), (made, made_model))
    report = QuantizationReport(
        layers=tuple(making.layer_report(layer, ratios.decibels.get(layer.number, math.nan)) for layer in layers),
        left=tuple(left),
        outputs=output_ratios(pair, samples[:most], offered, apart=ratios.apart),
        weight_bytes=(_nbytes(model), _nbytes(made_model)),
        samples=min(most, len(samples)),
        apart=len(ratios.apart),
        accuracy=None if labels is None else accuracy_of(pair, samples, labels, output, offered),
    )
    return QuantizedProgram(graph=made, text=made_text, model=made_model, report=report)


def _check_plain(model: Model) -> None:
    """Raise where a model has tensors that are quantised or packed already."""
    found = next((info for info in model.tensors.values() if info.quantised or info.dtype.is_packed), None)
    if found is not None:
        message = f"tensor {found.name!r} of {model.name} is quantised already: quantise the model of floats"
        raise CalibrationError(message)


def _check_names(graph: Graph) -> None:
    """Raise where a variable has a name that watching layers needs."""
    copied = next((name for name in (*graph.vars, *temporary_names(graph)) if name.startswith((READ, MADE))), None)
    if copied is not None:
        message = f"the program has a variable `{copied}`: names that begin like it are for watching layers"
        raise CalibrationError(message)


def _nbytes(model: Model) -> int:
    return sum(info.nbytes for info in model.tensors.values())


class _Making:
    """Facts about the layers, collected while a program is quantised."""

    def __init__(
        self,
        resolved: ResolvedGraph,
        layers: Sequence[Layer],
        model: Model,
        environment: Environment,
        clipping: Clipping,
        *,
        signed: bool,
    ) -> None:
        self._resolved, self._layers, self._model, self._clipping = resolved, layers, model, clipping
        self._positive = SHIFTED if signed else UNSIGNED
        self._environment = environment
        self._ranges: dict[str, Ranges] = {layer.weight.name: {} for layer in layers}

    def observe(self, text: str, samples: Sequence[Mapping[str, Array]]) -> None:
        runs = observed(text, self._model, samples, READ, self._environment)
        for number, indices, value in chain.from_iterable(runs):
            layer = self._layers[number]
            entry = entry_of(layer, indices, self._resolved.sizes)
            self._ranges[layer.weight.name].setdefault(entry, SeenRange()).add(value)
        for weight, ranges in self._ranges.items():
            if not any(seen.counts.any() for seen in ranges.values()):
                found = "no finite value of the samples" if ranges else "no sample"
                raise CalibrationError(f"{found} reaches `{weight}`: give others, or exclude it")

    # What follows from the ranges

    def _codes(self, weight: str) -> Codes:
        """Return the codes of what is multiplied with a weight: one form for all entries of a table."""
        return SYMMETRIC if any(seen.is_negative for seen in self._ranges[weight].values()) else self._positive

    def _step(self, weight: str, entry: tuple[int, ...]) -> np.float32:
        seen = self._ranges[weight].get(entry)
        # An entry that no sample reached takes the widest range of the others.
        bounds = [each.bound(self._clipping) for each in ([seen] if seen else self._ranges[weight].values())]
        return self._codes(weight).scale_of(max(bounds))

    def layer_report(self, layer: Layer, snr_db: float) -> LayerReport:
        seen = self._ranges[layer.weight.name].values()
        return LayerReport(
            line=0 if layer.node.span is None else layer.node.span.line,
            op=layer.resolved.op,
            weight=layer.weight.name,
            output=layer.output,
            dtype=self._codes(layer.weight.name).dtype,
            zero_point=self._codes(layer.weight.name).zero_point,
            bound=max(each.bound(self._clipping) for each in seen),
            clipped=max(each.clipped_share(self._clipping) for each in seen),
            snr_db=snr_db,
        )

    # The program

    def text(self, text: str, *, watched: bool = False) -> str:
        """Return the text of the program that is made; ``watched`` with copies of what layers make."""
        graph = self._resolved.graph
        taken = {*graph.vars, *self._resolved.sizes, *temporary_names(graph)}
        for layer in self._layers:
            suffixes = (SCALE, STEP, ZERO) if self._codes(layer.weight.name).zero_point else (SCALE, STEP)
            clash = {layer.weight.name + suffix for suffix in suffixes} & taken
            if clash:
                raise CalibrationError(f"the program has a variable `{min(clash)}`, which quantising would add: rename")
        edits = [self._declarations(layer) for layer in {layer.weight.name: layer for layer in self._layers}.values()]
        dims = self._dims()
        for layer in self._layers:
            codes = self._codes(layer.weight.name)
            lines = layer_statements(layer, Names.of(layer, taken), codes, dims[layer.source])
            if watched:
                lines.append(f"transfer {layer.output} >> {MADE}{layer.number};")
            edits.append(replace(_span(layer.node.span), lines))
        return edited(text, edits)

    def _declarations(self, layer: Layer) -> Edit:
        decl = self._declared(layer).decl
        if decl is None:
            raise ValueError(f"{layer.weight.name} has no declaration")
        step = 0.0 if decl.pattern is not None else float(self._step(layer.weight.name, ()))
        return replace(_span(decl.span), weight_declarations(layer, decl, step, self._codes(layer.weight.name)))

    def _declared(self, layer: Layer) -> ResolvedVar | PrefixTable:
        name = layer.weight.name
        return self._resolved.tables[name] if name in self._resolved.tables else self._resolved.variables[name]

    def _dims(self) -> Mapping[str, Sequence[IntExpr]]:
        """Return extents of what layers read, in sizes of the model where they are known."""
        found: dict[str, Sequence[IntExpr]] = {name: var.dims for name, var in self._resolved.variables.items()}
        for inferred in inferred_types(self._resolved, self._model, self._environment):
            known = [dim for dim in inferred.dims if dim is not None]
            if len(known) == len(inferred.dims):
                found[inferred.name] = known
        return found

    # The weights

    def model(self) -> Model:
        """Return the model with quantised weights."""
        arrays: dict[str, Array] = {
            info.name: self._model.load_tensor(info.name) for info in self._model.tensors.values()
        }
        for layer in {layer.weight.name: layer for layer in self._layers}.values():
            declared = self._declared(layer)
            for name in weight_names(declared, self._model):
                entry = self._entry(declared, name)
                clash = {name + SCALE_TENSOR, name + STEP_TENSOR} & self._model.tensors.keys()
                if clash:
                    message = f"the model has a tensor {min(clash)!r}, which quantising {name!r} would add: exclude it"
                    raise CalibrationError(message)
                stored, scale = _quantised(name, arrays[name], layer)
                step = self._step(layer.weight.name, entry)
                arrays[name] = stored
                arrays[name + SCALE_TENSOR] = (scale * np.float64(step)).astype(np.float32)
                if not isinstance(declared, ResolvedVar):
                    arrays[name + STEP_TENSOR] = np.asarray(step)
        return Model.from_arrays(arrays, sizevars=self._model.sizevars, metadata=self._model.metadata)

    def _entry(self, declared: ResolvedVar | PrefixTable, name: str) -> tuple[int, ...]:
        return () if isinstance(declared, ResolvedVar) else entry_numbers(declared, name)


def _quantised(name: str, weight: Array, layer: Layer) -> tuple[Array, Array]:
    """Return a weight as i8, its outputs last where it is a matrix, and the scale of each output in f64.

    Scales of convolutions have shape [O, 1, 1], of those over one dim [O, 1], whose weights are those of images of one
    row, and scales of matrices [N].

    Raises:
        CalibrationError: it has values that are not finite.
    """
    if not np.isfinite(weight).all():
        raise CalibrationError(f"weight {name!r} has NaN or infinities, which no integer holds: exclude it")
    stored = quantize_array(weight, "i8", axis=layer.axis)
    values, scale = stored.values.astype(np.int8), stored.quant.scale.values.astype(np.float64)
    if layer.is_signal:
        return values[:, :, None], scale[:, None]
    if layer.is_convolution:
        return values, scale[:, None, None]
    return (values.T.copy() if layer.is_transposed else values), scale


def _span(span: Span | None) -> Span:
    if span is None:
        raise ValueError("a part of the program has no place in its text")
    return span
