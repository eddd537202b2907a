"""What is told of a candidate from the ledger alone, with verifiers that compute nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from sciagent.campaign.core.built_campaign_and_derived_values import Built
from sciagent.campaign.core.create_and_open import create_or_open
from sciagent.campaign.core.record_results_and_place import Settling, settle
from sciagent.campaign.file.campaign_spec import parse_spec
from sciagent.domain.answers.explanation import Explanation
from sciagent.domain.cost_and_budget import Cost
from sciagent.domain.evidence_keys_and_pooled_replicates import Finding, Measured
from sciagent.domain.outcomes_verdicts_and_reasons import Outcome
from sciagent.domain.states_and_needs import Verb
from sciagent.errors import UnknownNameError, UsageError
from sciagent.execution.worker.end_attempts import DirectResult, complete_direct
from sciagent.report.explain_candidate import explain_named
from sciagent.report.explanation_text import paragraphs
from sciagent.report.status_best_trace import best
from sciagent.store.campaign_state import candidate_standings, directives
from sciagent.store.database.ledger import Ledger
from sciagent.store.results import candidates
from sciagent.verification import verifier_registry
from sciagent.verification.sandbox.host import HostResult
from tests.campaign.fake_verifiers import Point
from tests.campaign.planning.fake_ladder import Dipole, Top
from tests.support.rows import alkanes, gap

TEXT = """
campaign: told
subject: molecule
objectives:
  - {property: homo_lumo_gap, min: 4, unit: eV}
ladder:
  - {rung: low, verifier: fake.low, gate: {homo_lumo_gap: {min: 1, unit: eV}}}
  - {rung: top, verifier: fake.top}
goal: {kind: hits}
budget: {core_seconds: 100, rungs: {low: 7}}
proposer: {kind: screen, file: all.csv}
scheduler: {kind: thresholds}
safety: {screen: false, reason: the fake verifiers stand alone in these tests}
"""


class Low(Dipole):
    name, of = "fake.low", Top.of


@pytest.fixture
def built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Built:
    """A campaign with two candidates: the rung `low` has failed the first; the second waits."""
    monkeypatch.setattr(verifier_registry, "_points", lambda: {kind.name: Point(kind) for kind in (Low, Top)})
    (tmp_path / "all.csv").write_text("smiles\nC\n")
    spec = parse_spec(TEXT, base=tmp_path)
    made = create_or_open(Ledger(str(tmp_path / "sciagent.db")), spec, TEXT, "ann").built
    with made.ledger.begin() as connection:
        ids = candidates.enter(connection, alkanes(2))
        candidate_standings.add(
            connection, made.row.id, [{"candidate_id": id_, "in_seeds": False} for id_ in ids.values()]
        )
        answer(made, connection, 0, ids[alkanes(1)[0].key], gap(0.5))
    return made


def answer(built: Built, connection, position: int, id_: int, *measured: Measured) -> None:  # type: ignore[no-untyped-def]
    rung, candidate = built.rungs[position], candidates.load(connection, [id_])[id_]
    found = Finding(candidate.key, Outcome.OK, measured, diagnostics={"states": [1, 2]})
    result = HostResult(found, Cost(core_seconds=2), 1.0, {}, ())
    made = DirectResult(rung.verifier, id_, rung.verifier.evidence_key(candidate), result, ())
    [recorded] = complete_direct(connection, "me", [made], campaign_id=built.row.id, rung_id=rung.id)
    settle(connection, built, [Settling(id_, rung.rules.position, recorded=recorded)])


def answer_elsewhere(built: Built, connection, position: int, id_: int, *measured: Measured) -> None:  # type: ignore[no-untyped-def]
    """An answer that another campaign has paid for, and that this one has not taken up."""
    rung, candidate = built.rungs[position], candidates.load(connection, [id_])[id_]
    result = HostResult(Finding(candidate.key, Outcome.OK, measured), Cost(core_seconds=2), 1.0, {}, ())
    made = DirectResult(rung.verifier, id_, rung.verifier.evidence_key(candidate), result, ())
    complete_direct(connection, "me", [made], campaign_id=None, rung_id=None)


def rungs_of_values(connection, built: Built) -> set[str]:  # type: ignore[no-untyped-def]
    """The rungs of the values that `best` shows for CC."""
    [candidate] = [each for each in best(connection, built.row, 5) if each.text == "CC"]
    return {value.rung for value in candidate.values.values()}


def told(built: Built, smiles: str) -> Explanation:
    explanation = explain_named(built.ledger, smiles)
    assert isinstance(explanation, Explanation)
    return explanation


def test_a_dropped_candidate_is_told_with_the_gate_and_the_value(built: Built) -> None:
    [story] = told(built, "C").campaigns
    assert (story.standing, story.rung, story.verdict, story.hit) == ("dropped", "low", "fail", False)
    assert story.why.startswith("Dropped: low said no: below_window. homo_lumo_gap = 0.5 eV, gate 1 ≤ homo_lumo_gap")
    assert story.core_seconds == 2.0
    assert story.rungs[0].evidence and story.rungs[0].evidence.diagnostics == {"states": [1, 2]}


def test_a_waiting_candidate_is_told_with_its_rung_and_the_places_left(built: Built) -> None:
    [story] = told(built, "CC").campaigns
    assert story.why.startswith("Open: it waits for low; none wait there before it. 0 of 7 places of low")
    assert story.why.endswith("The campaign is not running (created).")


def test_an_answer_from_elsewhere_stands_beside_no_chance_that_lacks_it(built: Built) -> None:
    with built.ledger.begin() as connection:
        id_ = candidates.ids_of(connection, [alkanes(2)[1].key])[alkanes(2)[1].key]
        answer(built, connection, 0, id_, gap(5.0))
        answer_elsewhere(built, connection, 1, id_, gap(2.0))
    explanation = told(built, "CC")
    [story] = explanation.campaigns
    assert (story.standing, story.known_elsewhere, story.margins) == ("open", ("top",), ())
    assert story.why.startswith("Open: the ledger has the answer of top from elsewhere, which this campaign has not")
    words = " ".join(paragraph.text for paragraph in paragraphs(explanation))
    assert "by a straight line from a lower rung, without top" in words
    with built.ledger.begin() as connection:
        assert rungs_of_values(connection, built) == {"low"}
        settle(connection, built, [Settling(id_, built.rungs[1].rules.position)])
        assert rungs_of_values(connection, built) == {"top"}
    [story] = told(built, "CC").campaigns
    assert (story.standing, story.known_elsewhere) == ("settled", ())


def test_what_people_decided_is_told_with_name_and_reason(built: Built) -> None:
    with built.ledger.begin() as connection:
        id_ = candidates.ids_of(connection, [alkanes(2)[1].key])[alkanes(2)[1].key]
        directives.write(connection, built.row.id, Verb.HOLD, "ann", "wait for the NMR", candidate_id=id_)
    [story] = told(built, "CC").campaigns
    assert [(word.verb, word.who, word.why) for word in story.people] == [("hold", "ann", "wait for the NMR")]


def test_another_campaign_and_an_unknown_text_are_refused(built: Built) -> None:
    with pytest.raises(UnknownNameError, match="told"):
        explain_named(built.ledger, "C", "other")
    with pytest.raises(UsageError, match="is not in the ledger"):
        explain_named(built.ledger, "CCCCCCCCO")
