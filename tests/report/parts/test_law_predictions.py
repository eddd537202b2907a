"""Predictions of a fitted law for the candidates of a campaign, and their texts."""

from __future__ import annotations

from pathlib import Path

import pytest
import sqlalchemy as sa

from sciagent.campaign.law import law_commands
from sciagent.campaign.people.find_candidate import resolve
from sciagent.domain.answers.explanation import Explanation, LawStory
from sciagent.report.explain_candidate import explain, explain_named
from sciagent.report.explanation_text import paragraphs
from sciagent.report.parts.law_predictions import LawReading, held_text, laws_of, predicted_text
from sciagent.store.campaign_state import campaigns
from sciagent.store.database import tables as t
from sciagent.store.database.ledger import Ledger
from tests.campaign.law.conftest import PARTS, driven, measured


@pytest.fixture(scope="module", name="ledger")
def make_ledger(tmp_path_factory: pytest.TempPathFactory) -> Ledger:
    """A ledger with a law of acids and nitriles, with alcohols, and with a campaign that uses an older law of acids."""
    folder = tmp_path_factory.mktemp("predicted")
    ledger = Ledger(str(folder / "l.db"))
    for name, ends in zip(("alcohols", "acids", "nitriles"), PARTS, strict=True):
        measured(ledger, folder, name, ends)
    law_commands.fit(ledger, "acids", ["acids"], who="me")
    (folder / "seeds.csv").write_text("smiles\nCCCCCO\n", encoding="utf-8")
    proposer = "{kind: law, seeds: seeds.csv, law: acids, pool: 8}"
    driven(ledger, folder, "lawful", proposer, proposals=12)
    law_commands.fit(ledger, "both", ["acids", "nitriles"], who="me")
    return ledger


def laws(ledger: Ledger, text: str, campaign: str, patience: float | None = None) -> tuple[LawStory, ...]:
    answer = explain_named(ledger, text, campaign, patience=patience)
    assert isinstance(answer, Explanation)
    return answer.campaigns[0].laws


def test_a_measured_candidate_has_its_value_beside_the_prediction(ledger: Ledger) -> None:
    [law] = laws(ledger, "CCCCCO", "alcohols")
    [prediction] = law.predictions
    assert law.law.startswith("both@") and not law.is_of_campaign and law.p_hit is None
    assert prediction.measured is not None and prediction.low is not None and prediction.high is not None
    assert prediction.value is not None and prediction.low < prediction.value < prediction.high
    assert prediction.value != prediction.measured.value and len(prediction.nearest) == 3
    told = law_commands.predict(ledger, law_commands.records_of(["CCCCCO"]), law="both").structures[0].quantities[0]
    assert (told.value, told.low, told.uncertainty) == (prediction.value, prediction.low, prediction.uncertainty)


def test_the_own_answer_predicts_nothing(ledger: Ledger) -> None:
    [law] = laws(ledger, "CCCC(=O)O", "acids")
    [prediction] = law.predictions
    assert prediction.is_own_answer and prediction.value is None and prediction.low is None
    answer = explain_named(ledger, "CCCC(=O)O", "acids")
    text = " ".join(part.text for part in paragraphs(answer))
    assert "its own answer is among those to which the law was fitted" in text and "nearest measured: " in text


def test_the_version_that_a_campaign_uses_counts_not_the_newest(ledger: Ledger) -> None:
    [law] = laws(ledger, "CCCCCO", "lawful")
    assert law.is_of_campaign and law.law.startswith("acids@")
    text = " ".join(part.text for part in paragraphs(explain_named(ledger, "CCCCCO", "lawful")))
    assert "which the campaign uses, predicts:" in text and "90 % interval" in text and "; measured 0." in text


def test_a_law_of_another_computation_is_not_shown(ledger: Ledger, tmp_path: Path) -> None:
    measured(ledger, tmp_path, "sulfurs", PARTS[0], elements="[H, C, N, O, S]")
    assert laws(ledger, "CCCCCO", "sulfurs") == ()


def test_a_server_waits_for_no_large_law(ledger: Ledger) -> None:
    law_commands.fit(ledger, "large", ["acids", "alcohols", "nitriles"], who="me")
    [first] = laws(ledger, "CCCCCO", "alcohols", patience=0)
    assert not first.is_ready and first.predictions == () and first.fault is None
    [later] = laws(ledger, "CCCCCO", "alcohols")
    assert later.is_ready and later.law == first.law


def test_a_changed_entry_is_said_and_predicts_nothing(tmp_path: Path) -> None:
    ledger = Ledger(str(tmp_path / "l.db"))
    measured(ledger, tmp_path, "few", PARTS[2][:1])
    law_commands.fit(ledger, "few", ["few"], who="me")
    e = t.law_entry.c
    with ledger.begin() as connection:
        text = connection.execute(sa.select(e.content)).scalar_one()
        connection.execute(sa.update(t.law_entry).values(content=text.replace('"value":0.', '"value":1.', 1)))
    [law] = laws(ledger, "CCCC#N", "few")
    assert law.fault is not None and "has been changed" in law.fault and not law.is_ready


def test_a_law_of_blind_measurements_is_left_out(ledger: Ledger) -> None:
    with ledger.read() as connection:
        row = campaigns.get(connection, "alcohols")
        *_, rung = campaigns.rungs(connection, row.id)
        [law] = laws_of(connection, row, [rung])
        assert law.properties == {"qed"}
        found = resolve(connection, row, "CCCCCO")
        reading = LawReading(hidden=frozenset({rung.computation}))
        assert explain(connection, found.id, [row], ledger, reading=reading).campaigns[0].laws == ()


def test_predictions_are_rounded_by_their_error_and_intervals_say_how_they_held() -> None:
    assert predicted_text(4.2137, 0.1234, "eV") == "4.21 ± 0.12 eV"
    assert predicted_text(421.4, 123.4, "1") == "421 ± 123"
    assert held_text(None, None, None) == "not calibrated"
    assert held_text(None, None, "charge") == "may not hold"
    assert held_text(None, 12, None) == "not counted yet"
    assert held_text(0.884, 120, None) == "88 % of 120"
