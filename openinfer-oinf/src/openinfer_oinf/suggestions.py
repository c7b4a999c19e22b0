"""What a person may have meant by a name that is not known."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from itertools import islice

_COMPARED = 10_000
_LISTED = 12


def did_you_mean(name: str, known: Iterable[str]) -> str | None:
    """The question for a misspelt name, or None when nothing is near; of many names the first are compared."""
    near = difflib.get_close_matches(name, list(islice(known, _COMPARED)), n=1)
    return f"did you mean `{near[0]}`?" if near else None


def near_or_known(name: str, known: Iterable[str]) -> str:
    """The question for a misspelt name, or the names that there are."""
    names = list(known)
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return did_you_mean(name, names) or f"known are {', '.join(names[:_LISTED]) or 'none'}{more}"
