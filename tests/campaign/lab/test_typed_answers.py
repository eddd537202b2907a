"""Texts that people type: right, or refused with the fix."""

from __future__ import annotations

import pytest

from sciagent.campaign.lab.typed_answers import typed, typed_answer
from sciagent.domain.outcomes import Reason
from sciagent.domain.quantities import Censoring
from sciagent.errors import UsageError


def test_a_value_keeps_its_digits_and_its_unit() -> None:
    found = typed("homo_lumo_gap", "4.310 eV", "0.02")
    assert (found.value, found.unit, found.uncertainty, found.as_typed) == (4.31, "eV", 0.02, "4.310 eV")
    assert typed("homo_lumo_gap", "<0.5 eV").censoring is Censoring.BELOW
    assert typed("homo_lumo_gap", "0.5 eV", limit="above").censoring is Censoring.ABOVE
    assert typed("logp", "2.1").unit == "1", "a number without a unit"


@pytest.mark.parametrize(
    ("said", "fault"),
    [
        ({"values": {"homo_lumo_gap": "n.d."}}, '"n.d." is no number with a unit'),
        ({"values": {"homo_lumo_gap": "4.3"}}, "4.3 has no unit; one of: eV"),
        ({"values": {"gap": "4.3 eV"}}, 'unknown property "gap"'),
        ({"values": {}, "not_obtained": ""}, "no value was given, and no reason"),
        ({"values": {"homo_lumo_gap": "4 eV"}, "not_obtained": "decomposed"}, "give one of the two"),
        ({"values": {}, "not_obtained": "lost"}, '"lost" is no reason'),
        ({"values": {"homo_lumo_gap": "4 eV"}, "uncertainties": {"dipole": "1"}}, "an uncertainty of dipole"),
        ({"values": {"homo_lumo_gap": "4 eV"}, "uncertainties": {"homo_lumo_gap": "-1"}}, "no number, at least 0"),
    ],
)
def test_what_cannot_be_read_is_refused(said: dict[str, object], fault: str) -> None:
    with pytest.raises(UsageError, match=fault):
        typed_answer({"values": {}, "uncertainties": {}, "limit": "", "not_obtained": ""} | said)


def test_a_reason_stands_for_a_value() -> None:
    said = {"values": {}, "uncertainties": {}, "limit": "", "not_obtained": "insoluble"}
    assert typed_answer(said).not_obtained is Reason.INSOLUBLE
