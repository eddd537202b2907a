"""The ledger as a notebook sees it."""

from __future__ import annotations

from pathlib import Path

import pytest

from sciagent import Campaign, Ledger
from sciagent.errors import UnknownNameError, UsageError


def test_evidence_is_found_by_property_campaign_and_candidate(done: Campaign) -> None:
    ledger = Ledger(done.ledger.store.url.database)
    energies = ledger.evidence(property="toy_energy")
    assert {(row.text, row.value, row.unit, row.level) for row in energies} >= {("CCO", 3.0, "kJ/mol", "toy_energy")}
    frame = energies.to_pandas()
    assert len(frame) == len(energies) == 4 and set(frame["campaign"]) == {"toys"}
    key = next(row.key for row in energies if row.text == "CCO")
    assert {row.property for row in ledger.evidence(key=key)} >= {"toy_energy", "logp"}
    assert len(ledger.evidence(verifier="import")) == 0
    assert len(done.evidence("toy_energy")) == 4


def test_a_name_that_is_not_there_is_told(done: Campaign) -> None:
    with pytest.raises(UnknownNameError, match='unknown property "toy_enrgy"; did you mean "toy_energy"'):
        done.ledger.evidence(property="toy_enrgy")
    with pytest.raises(UnknownNameError, match="unknown campaign"):
        done.ledger.evidence(campaign="other")


def test_a_ledger_that_is_not_there_is_made_only_when_it_is_asked_for(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no ledger at"):
        Ledger(tmp_path / "new.db")
    with Ledger(tmp_path / "new.db", create=True) as ledger:
        assert len(ledger.campaigns()) == 0 and "none yet" in repr(ledger)


def test_it_shows_its_campaigns(done: Campaign) -> None:
    assert [(one.name, one.state, one.candidates, one.hits) for one in done.ledger.campaigns()] == [
        ("toys", "finished", 5, 2)
    ]
    assert "toys" in done.ledger._repr_html_()
