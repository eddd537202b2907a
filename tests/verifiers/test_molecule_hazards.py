"""The rules of the safety screen: each is needed, named and sourced, and no shortcut hides a match."""

from __future__ import annotations

import re
from dataclasses import replace

from sciagent.chemistry.molecule import parse_molecule
from sciagent_verifiers.fast.hazards.molecule_hazards import RULES, SUBSTANCES, rule_names
from sciagent_verifiers.fast.hazards.normalised_molecule_and_cached_matches import Drawing
from tests.verifiers.safety_table import HAZARDS, SCREEN, TABLE


def test_every_rule_is_met_by_a_structure_of_the_table() -> None:
    met = {alert.name for row in HAZARDS for alert in SCREEN.alerts(parse_molecule(row["smiles"]))}
    assert met == set(rule_names())


def test_names_are_unique_and_every_rule_has_a_reason_and_a_source() -> None:
    names = [rule.name for rule in RULES] + sorted({one.name for one in SUBSTANCES})
    assert len(names) == len(set(names))
    for one in (*RULES, *SUBSTANCES):
        assert re.fullmatch(r"[a-z0-9][a-z0-9-]{2,63}", one.name)
        assert len(one.reason) >= 5 and len(one.source) > 5, one.name


def test_what_is_counted_first_never_hides_a_match() -> None:
    drawings = {row["smiles"]: Drawing(parse_molecule(row["smiles"]).mol) for row in TABLE}
    hidden = []
    for rule in RULES:
        bare, whole = replace(rule, needs={}, first=""), rule
        hidden += [(rule.name, text) for text, one in drawings.items() if bare.matches(one) != whole.matches(one)]
    assert hidden == []
