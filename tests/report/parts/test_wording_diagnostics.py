"""Diagnostics of evidence on one line."""

from __future__ import annotations

from sciagent.domain.evidence_keys_and_pooled_replicates import UNCERTAINTY_KIND
from sciagent.report.parts.wording import MAX_CHARACTERS, MAX_DEPTH, MAX_FACTS, diagnostics_line


def test_facts_are_stated_in_order_and_kinds_of_uncertainties_left_out() -> None:
    facts = {
        "is_metal": False,
        "valence_point": [0.0, 0.5, 1 / 3],
        "decomposes_into": {"CaO": 0.4, "TiO2": 0.6},
        UNCERTAINTY_KIND: {"density": "class"},
        "states": [{"n": 1}, None],
    }
    assert diagnostics_line(facts) == (
        "is_metal: no; valence_point: 0, 0.5, 0.3333; decomposes_into: CaO 0.4, TiO2 0.6; states: (n 1), none"
    )
    assert diagnostics_line({}) == "" and diagnostics_line({"rules": []}) == "rules: none"


def test_a_verifier_cannot_flood_or_command_a_terminal() -> None:
    assert diagnostics_line({"residuals": list(range(1000))}) == "residuals: 0, 1, 2, 3, 4, 5, … (1000 in all)"
    assert diagnostics_line({"output": "a\x1b[2J\nb"}) == "output: a\\u001b[2J b"
    assert len(diagnostics_line({"x" * 500: "y" * 60_000})) <= MAX_CHARACTERS
    assert diagnostics_line({f"fact {n}": n for n in range(MAX_FACTS + 2)}).endswith("; and 2 more")
    nested: object = 1
    for _ in range(MAX_DEPTH + 1):
        nested = [nested]
    assert diagnostics_line({"deep": nested}) == "deep: ((…))"
