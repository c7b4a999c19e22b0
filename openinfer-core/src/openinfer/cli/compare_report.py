"""What `openinfer compare` prints."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from openinfer.cli.findings import as_json
from openinfer.cli.terminal import table
from openinfer.diagnostics import counted, printable

if TYPE_CHECKING:
    from openinfer.inspect.differences import Difference
    from openinfer.inspect.divergence import Comparison, Divergence


def comparison_text(found: Comparison) -> str:
    """Return a comparison for people: how far both agree, and the largest differences."""
    pair = f"{found.device} against {found.reference}"
    counts = f"{counted(found.nodes, 'node')} in {counted(found.steps, 'step')}"
    same = "the same within tolerance" + (", but with results that say little" if found.hollow else "")
    lines = [f"{pair}: {counts}, {same if found.divergence is None else 'then they differ'}"]
    if found.divergence is None:
        lines += [f"note: `{printable(name)}` {reason} on both" for name, reason in found.hollow.items()]
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
        "hollow": found.hollow,
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
        **as_json(found.finding()),
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


def _ulps(ulps: int | None) -> str:
    return "-" if ulps is None else f"{ulps:,}"


def _number(value: float | bool | None) -> float | bool | str | None:
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
