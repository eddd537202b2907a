"""The diagnostics of evidence on one line: facts that a verifier states beside its values, such as points of a gap."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice

from sciagent.domain.evidence import UNCERTAINTY_KIND
from sciagent.domain.text import one_line

MAX_FACTS = 24
"""Largest number of facts that are shown; the JSON of `sciagent explain` has all."""
MAX_ITEMS = 6
"""Largest number of items of a list or an object that are shown."""
MAX_DEPTH = 3
"""Number of nested lists and objects that are shown."""
MAX_CHARACTERS = 160
"""Longest text of one fact."""


def diagnostics_line(diagnostics: Mapping[str, object]) -> str:
    """Returns a line such as `is_metal: no; valence_point: 0, 0, 0`; an empty text without diagnostics.

    Long lists and texts are shortened, and characters that would act on a terminal are escaped. The kinds of
    uncertainties are left out, since they stand beside the values.
    """
    facts = [(name, value) for name, value in diagnostics.items() if name != UNCERTAINTY_KIND]
    shown = [one_line(f"{name}: {_text(value)}", MAX_CHARACTERS) for name, value in facts[:MAX_FACTS]]
    more = len(facts) - len(shown)
    return "; ".join([*shown, f"and {more} more"] if more > 0 else shown)


def _text(value: object, depth: int = 0) -> str:
    """Returns a JSON value as a text. depth: number of lists and objects around it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}"
    if value is None:
        return "none"
    if not isinstance(value, Mapping | list):
        return str(value)
    if depth == MAX_DEPTH:
        return "…"
    if isinstance(value, Mapping):
        items = [f"{name} {_text(item, depth + 1)}" for name, item in islice(value.items(), MAX_ITEMS)]
    else:
        items = [_text(item, depth + 1) for item in value[:MAX_ITEMS]]
    if len(value) > MAX_ITEMS:
        items.append(f"… ({len(value)} in all)")
    text = ", ".join(items)
    return f"({text})" if depth else text or "none"
