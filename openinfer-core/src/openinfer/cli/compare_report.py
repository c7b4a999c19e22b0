"""What `openinfer compare` prints."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from openinfer.cli.findings import as_json
from openinfer.cli.terminal import table
from openinfer.diagnostics import Diagnostic, render

if TYPE_CHECKING:
    from openinfer.simulate.differences import Difference
    from openinfer.simulate.divergence import Comparison, Divergence


def comparison_text(found: Comparison, *, colour: bool) -> str:
    """Return a comparison for people: the first divergence with its line, then the largest differences."""
    pair = f"{found.device} against {found.reference}"
    counts = f"{_counted(found.nodes, 'node')} in {_counted(found.steps, 'step')}"
    lines = [f"{pair}: {counts}, {'the same within tolerance' if found.divergence is None else 'then they differ'}"]
    if found.divergence is not None:
        lines += [render(_finding(found.divergence), colour=colour), *_numbers(found.divergence, found)]
    rows = [
        (name, str(each.nodes), f"{each.absolute:.3g}", f"{each.relative:.3g}", _ulps(each.ulps))
        for name, each in sorted(found.largest.items(), key=lambda item: (-item[1].relative, item[0]))
    ]
    if rows:
        lines += ["", *table(("written by", "values", "max abs", "max rel", "max ulp"), rows).splitlines()]
    return "\n".join(lines)


def comparison_object(found: Comparison) -> dict[str, Any]:
    """Return a comparison as JSON; infinite numbers are strings."""
    return {
        "reference": found.reference,
        "device": found.device,
        "same": found.divergence is None,
        "steps": found.steps,
        "nodes": found.nodes,
        "largest": {
            name: {
                "values": each.nodes,
                "absolute": _number(each.absolute),
                "relative": _number(each.relative),
                "ulps": each.ulps,
            }
            for name, each in found.largest.items()
        },
        "divergence": None if found.divergence is None else _divergence(found.divergence),
    }


def _divergence(found: Divergence) -> dict[str, Any]:
    apart = found.difference
    return {
        **as_json(_finding(found)),
        "step": found.step,
        "variable": found.variable,
        "difference": None if apart is None else _difference(apart),
    }


def _difference(apart: Difference) -> dict[str, Any]:
    return {
        "beyond": apart.beyond,
        "elements": apart.elements,
        "absolute": _number(apart.absolute),
        "relative": _number(apart.relative),
        "ulps": apart.ulps,
        "where": list(apart.where),
        "expected": _number(apart.expected),
        "found": _number(apart.found),
    }


def _finding(found: Divergence) -> Diagnostic:
    """Return a divergence as a finding: with its place in the text, where there is one."""
    when = f" in step {found.step}" if found.step > 1 else ""
    after = f" after `{found.event.node_desc}`" if found.event is not None and found.variable else ""
    if found.event is None and found.variable:
        after = " at the end of the step"
    return Diagnostic(
        code="divergence",
        message=f"{found.reason}{after}{when}",
        span=None if found.node is None else found.node.span,
        block=None if found.event is None else found.event.block_name,
        node_index=None if found.event is None else found.event.node_index,
        node_desc=None if found.event is None else found.event.node_desc,
    )


def _numbers(found: Divergence, comparison: Comparison) -> list[str]:
    apart = found.difference
    if apart is None:
        return []
    place = f"{found.variable}[{', '.join(map(str, apart.where))}]" if apart.where else found.variable
    values = f"{comparison.reference} {_shown(apart.expected)}, {comparison.device} {_shown(apart.found)}"
    largest = f"max abs {apart.absolute:.6g}, max rel {apart.relative:.6g}, max ulp {_ulps(apart.ulps)}"
    return [f"  {place}: {values}", f"  {apart.beyond} of {apart.elements} elements beyond tolerance; {largest}"]


def _shown(value: float | bool | None) -> str:
    return f"{value:.9g}" if isinstance(value, float) else str(value)


def _ulps(ulps: int | None) -> str:
    return "-" if ulps is None else f"{ulps:,}"


def _number(value: float | bool | None) -> float | bool | str | None:
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _counted(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"
