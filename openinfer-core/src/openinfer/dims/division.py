"""Division of polynomials over sizes."""

from __future__ import annotations

from openinfer.affine import Index

MOST_STEPS = 64
"""Terms of a quotient: what is longer is not a multiple that a shape rule reads."""


def divided(of: Index, by: Index) -> tuple[Index, Index]:
    """Return (multiple, rest), of = by * multiple + rest; the rest is 0 where ``by`` is one of two factors of ``of``.

    Extents multiply whole expressions: ``512 * (T + 1) // (T + 1)`` is 512, whatever the sum is, where it is above 0.
    """
    if len(by.terms) == 1:
        return of.divided(by)
    lead = Index((max(by.terms, key=lambda term: len(term[0])),))
    multiple, rest = Index(), of
    for _ in range(MOST_STEPS):
        term = next((Index((term,)) for term in rest.terms if not Index((term,)).divided(lead)[1].terms), None)
        if term is None:
            break
        part, _ = term.divided(lead)
        multiple, rest = multiple + part, rest - part * by
    return multiple, rest
