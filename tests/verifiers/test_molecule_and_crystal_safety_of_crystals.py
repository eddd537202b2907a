"""The safety screen of crystals as a verifier: refusals, exemptions and rules of one's own."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from sciagent.chemistry.crystals.notation_and_structure_text_readers import read_crystal
from sciagent.chemistry.molecule import parse_molecule
from sciagent.domain.outcomes_verdicts_and_reasons import Outcome, Reason
from sciagent.verification.verifier_contract import Context, Finding
from sciagent_verifiers.fast.molecule_and_crystal_safety import CrystalSafety


def finding(text: str, **settings: object) -> Finding:
    (found,) = CrystalSafety(settings).verify([read_crystal(text)], Context(Path(), Path()))
    return found


def test_a_hazard_is_refused_with_its_rule_and_source() -> None:
    found = finding("zincblende: Cd Te")
    assert (found.outcome, found.reason) == (Outcome.REFUSED, Reason.ACUTE_HAZARD)
    assert found.detail.startswith("cadmium: cadmium [Regulation (EC) 1272/2008")
    assert found.diagnostics == {"rules": ["cadmium"]}
    assert finding("fluorite: U O").reason is Reason.RADIOACTIVE
    assert finding("calcite: Na Cl O").reason is Reason.EXPLOSIVE


def test_an_allowed_rule_is_counted_and_others_still_refuse() -> None:
    found = finding("zincblende: Ga As", allow=["arsenic"])
    assert found.outcome is Outcome.OK
    assert [measured.quantity.value for measured in found.measured] == [1.0]
    assert found.diagnostics == {"rules": ["arsenic"]}
    assert finding("zincblende: Cd As", allow=["arsenic"]).detail.startswith("cadmium")
    assert finding("rocksalt: Na Cl").measured[0].quantity.value == 0


def test_rules_of_ones_own_refuse() -> None:
    own = {"name": "house-lead", "elements": ["Pb"], "reason": "our laboratory takes no lead"}
    found = finding("perovskite: Cs Pb I", extra_elements=[own])
    assert found.detail == "house-lead: our laboratory takes no lead [settings]"
    assert finding("perovskite: Cs Sn I", extra_elements=[own]).outcome is Outcome.OK


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"allow": ["arsenik"]}, 'did you mean "arsenic"'),
        ({"extra_elements": [{"name": "lead", "elements": ["Pbb"], "reason": "not in this house"}]}, "not an element"),
        (
            {"extra_elements": [{"name": "azide", "elements": ["N"], "reason": "not in our house"}]},
            "another safety rule",
        ),
        ({"other": 1}, "other"),
    ],
)
def test_wrong_settings_are_refused(settings: dict[str, object], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        CrystalSafety(settings)


def test_a_molecule_is_of_the_wrong_kind() -> None:
    refusal = CrystalSafety().accepts(parse_molecule("CCO"))  # type: ignore[arg-type]
    assert refusal is not None and refusal.reason is Reason.WRONG_KIND
