"""The filter of a proposer by a law: what goes on, what is kept of the rest, and what a model is told."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa

from sciagent.campaign.core.built_campaign_and_derived_values import Built
from sciagent.campaign.core.create_and_open import create_or_open
from sciagent.campaign.driving.driver import Driver
from sciagent.campaign.file.campaign_spec import parse_spec
from sciagent.campaign.file.proposers import FilterSpec
from sciagent.campaign.people.find_candidate import resolve
from sciagent.campaign.people.hold_release_veto_and_promote import promote
from sciagent.campaign.proposing.law_filter import FilterAction, LawFilter
from sciagent.campaign.proposing.mcp_episode import McpEpisode
from sciagent.domain.answers.explanation import Explanation, RefusedText
from sciagent.domain.answers.status_and_comparison import CampaignCounts
from sciagent.domain.proposer_interfaces import MeasuredCandidate, PastProperty, PastValues
from sciagent.errors import SpecError, UsageError
from sciagent.report.analysis import law_of_campaign, proposers_and_prediction_scores, rejections_and_sessions
from sciagent.report.explain_candidate import explain_named
from sciagent.report.explanation_text import paragraphs
from sciagent.report.parts.wording import let_through_sentence
from sciagent.store.campaign_state import campaigns, proposer_trajectories
from sciagent.store.database import tables as t
from sciagent.store.database.ledger import Ledger
from sciagent.store.views import campaign_counts_and_remarks
from tests.agent.proposers.test_hit_chances import ENDS, KNOWN, WANTED, measured
from tests.support.campaigns import SMALL
from tests.support.subjects import MOLECULES

ASKED = tuple("C" * n + end for n in range(6, 10) for end in ENDS)


class Results:
    """The answers of a campaign, and of another one."""

    def __init__(self, known: Sequence[MeasuredCandidate] = KNOWN, past: Sequence[MeasuredCandidate] = ()) -> None:
        self._known = list(known)
        self._past = past

    def measured(self) -> list[MeasuredCandidate]:
        return self._known

    def past(self, campaigns: Sequence[str], law: str | None) -> PastValues:
        values = {each.text: each.values["logp"] for each in self._past}
        return {"logp": PastProperty(values, None)} if values else {}


def law_filter(spec: FilterSpec, seed: int = 1, recent: Sequence[float] | None = None) -> LawFilter:
    return LawFilter(spec, MOLECULES, [WANTED], seed, recent)


def test_of_proposals_that_come_together_the_best_go_on() -> None:
    spec = FilterSpec(keep=1, of=8, audit=0.0)
    decisions = law_filter(spec).decide(Results(), dict(zip(ASKED, ASKED, strict=True)))
    kept = {text for text, decision in decisions.items() if not decision.drops}
    best = sorted(ASKED, key=lambda text: -decisions[text].log_chance)
    assert kept == set(best[: len(ASKED) // 8])
    assert [decisions[text].rank for text in best] == list(range(1, len(ASKED) + 1))
    assert {decision.propensity for decision in decisions.values()} == {0.0, 1.0}
    assert "chance of 1" not in decisions[best[-1]].why_dropped("1 of 8")
    assert law_filter(spec).decide(Results(KNOWN[:2]), {"CCO": "CCO"}) == {}, "too little is known"


def test_the_propensity_is_the_probability_with_which_a_proposal_goes_on() -> None:
    """Over many lots each goes on as often as its mean propensity says, and the audited share is as stated."""
    spec = FilterSpec(keep=1, of=4, audit=0.4)
    chosen = law_filter(spec)
    results = Results()
    texts = ASKED[:8]
    passed = np.zeros(len(texts))
    expected = np.zeros(len(texts))
    actions = Counter[str]()
    n = 200
    for trial in range(n):
        decisions = chosen.decide(results, {f"{trial}:{text}": text for text in texts})
        for place, decision in enumerate(decisions.values()):
            passed[place] += not decision.drops
            expected[place] += decision.propensity
            actions[decision.action] += 1
    spread = np.sqrt(expected * (1 - expected / n)) + 1
    assert (np.abs(passed - expected) < 3.5 * spread).all()
    assert passed.sum() == pytest.approx(n * len(texts) / 4, rel=0.1)
    assert actions[FilterAction.AUDIT] == pytest.approx(0.4 * n * len(texts) / 4, rel=0.25)


def test_one_at_a_time_about_the_stated_share_goes_on_and_a_restart_changes_nothing() -> None:
    spec = FilterSpec(keep=1, of=8, audit=0.0)
    asked = [f"{'C' * (3 + n % 8)}{ENDS[n % 7]}" for n in range(200)]
    texts = list(dict.fromkeys(asked))
    whole = law_filter(spec, recent=[])
    decisions = [whole.decide(Results(), {text: text})[text] for text in texts]
    assert not decisions[0].drops, "the first is the best so far"
    assert len(texts) / 16 < sum(not each.drops for each in decisions) < len(texts) / 3
    half = len(texts) // 2
    resumed = law_filter(spec, recent=[each.log_chance for each in decisions[:half]])
    assert [resumed.decide(Results(), {text: text})[text] for text in texts[half:]] == decisions[half:]


def test_equal_chances_share_the_places_by_lot_so_that_nothing_starves() -> None:
    chosen = law_filter(FilterSpec(keep=1, of=8, audit=0.0), recent=[])
    results = Results()
    decisions = [chosen.decide(results, {str(n): "CCCCCC"})[str(n)] for n in range(400)]
    assert sum(not each.drops for each in decisions) == pytest.approx(50, abs=20)
    assert decisions[-1].propensity == pytest.approx(1 / 8)


def test_what_another_campaign_has_measured_is_dropped_if_only_new_ones_go_on() -> None:
    spec = FilterSpec.model_validate({"keep": 1, "of": 2, "from": ["earlier"], "only_new": True, "audit": 1.0})
    past = [measured(text) for text in ASKED]
    decisions = law_filter(spec).decide(Results([], past), {text: text for text in (*ASKED[:4], "CCCCCC=O")})
    assert [decisions[text].action for text in ASKED[:4]] == [FilterAction.REMEMBERED] * 4
    assert decisions["CCCCCC=O"].action is not FilterAction.REMEMBERED


TEXT = """
campaign: {name}
subject: molecule
seed: 1
objectives: [{{property: homo_lumo_gap, min: 9, unit: eV}}]
ladder:
  - {{rung: checks, verifier: molecule.checks}}
  - {{rung: xtb, verifier: xtb.singlepoint, inline: true, settings: {{geometry: {{method: mmff94, conformers: 1}}}}}}
goal: {{kind: hits}}
budget: {{proposals: {proposals}}}
proposer: {{kind: screen, file: molecules.csv, batch: 4, filter: {{keep: 1, of: 4}}}}
scheduler: {{kind: exhaustive}}
"""


def opened(ledger: Ledger, folder: Path, name: str, proposals: int = 100) -> Built:
    (folder / "molecules.csv").write_text("\n".join(("smiles", *SMALL, "C((", "")), encoding="utf-8")
    text = TEXT.format(name=name, proposals=proposals)
    return create_or_open(ledger, parse_spec(text, base=folder), text, "test").built


def driven(built: Built) -> Built:
    with Driver(built) as driver:
        driver.run()
    return built


def proposals(built: Built) -> list[Any]:
    p = t.proposal.c
    query = sa.select(p.text, p.status, p.filter_decision, p.candidate_id).where(p.campaign_id == built.row.id)
    with built.ledger.read() as connection:
        return list(connection.execute(query.order_by(p.id)).mappings())


def counted(built: Built) -> CampaignCounts:
    with built.ledger.read() as connection:
        return campaign_counts_and_remarks.counts(connection, built.row)


@pytest.fixture
def built(ledger: Ledger, tmp_path: Path) -> Built:
    """A screen of 24 molecules and a text that is none, of which a quarter goes on after the first batch."""
    return driven(opened(ledger, tmp_path, "screened"))


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
def test_what_is_dropped_is_kept_with_its_chance_and_nothing_is_run_for_it(built: Built, tmp_path: Path) -> None:
    """A campaign that was stopped in between drops the same ones."""
    made = proposals(built)
    by_status = Counter(row["status"] for row in made)
    assert len(made) == len(SMALL) + 1 and by_status["refused"] == 1 and by_status["filtered"] >= 12
    decisions = [row["filter_decision"] for row in made if row["filter_decision"]]
    assert {row["status"] for row in made[:4]} == {"new"} and len(decisions) >= len(SMALL) - 8
    assert all(0 < each["propensity"] <= 1 and each["log_chance"] <= 0 for each in decisions)
    with built.ledger.read() as connection:
        counts = campaign_counts_and_remarks.counts(connection, built.row)
        [results] = proposers_and_prediction_scores.results(connection, built.row)
        evidence = set(connection.execute(sa.select(t.evidence.c.candidate_id)).scalars())
    assert (counts.filtered, counts.proposals) == (by_status["filtered"], len(made) - by_status["filtered"])
    assert (results.filtered, results.proposals) == (counts.filtered, counts.proposals)
    assert counts.candidates == by_status["new"]
    let_through = Counter(
        row["filter_decision"]["action"] for row in made if row["status"] == "new" and row["filter_decision"]
    )
    assert counts.filter is not None and counts.filter.chosen.hits + counts.filter.audited.hits <= counts.hits
    numbers = (counts.filter.chosen.candidates, counts.filter.audited.candidates)
    assert numbers == (let_through["keep"], let_through["audit"]) and counts.filter.chosen.answered == numbers[0] > 0
    with built.ledger.read() as connection:
        ladder = campaigns.rungs(connection, built.row.id)
        said = law_of_campaign.chances_of_filter(connection, built.row, ladder)
        [section] = law_of_campaign.law_sections(connection, built.row, ladder)
    assert said is not None and said.words.startswith(f"{sum(let_through.values())} answered candidates: mean chance")
    assert section.title == "The law, fitted to the present answers" and "nor are its chances" in section.notes[0]
    assert "of the candidates that the law chose" in let_through_sentence(counts.filter, hits_defined=True)
    assert not evidence & {row["candidate_id"] for row in made if row["status"] == "filtered"}
    tight = driven(opened(built.ledger, tmp_path, "tight", proposals=6))
    assert sum(row["status"] != "filtered" for row in proposals(tight)) <= 6
    halved = opened(built.ledger, tmp_path, "halved")
    with Driver(halved) as driver:
        while len(proposals(halved)) < 8:
            driver.step()
    driven(opened(built.ledger, tmp_path, "halved"))
    whole = [(row["text"], row["status"], row["filter_decision"]) for row in made]
    assert [(row["text"], row["status"], row["filter_decision"]) for row in proposals(halved)] == whole


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
def test_a_person_reads_why_and_can_send_it_up_the_ladder(built: Built) -> None:
    text = next(row["text"] for row in proposals(built) if row["status"] == "filtered")
    for campaign in ("screened", None):
        answer = explain_named(built.ledger, text, campaign)
        assert isinstance(answer, RefusedText) and answer.refused[0].filtered
        assert 0 <= answer.refused[0].filtered.chance <= 1
        words = " ".join(paragraph.text for paragraph in paragraphs(answer))
        assert "the law gives it a chance of" in words and "sciagent promote" in words
    with built.ledger.read() as connection:
        with pytest.raises(UsageError, match="is not in campaign"):
            resolve(connection, built.row, text)
        named = resolve(connection, built.row, text, with_filtered=True)
    before = counted(built)
    assert promote(built, named, "ann", "to know").standing == "settled"
    after = counted(built)
    assert (after.filtered, after.proposals) == (before.filtered - 1, before.proposals + 1), "it counts once"
    assert after.filter == before.filter, "a person sent it, not the filter"
    with built.ledger.read() as connection:
        n_filtered = sum(each.filtered for each in proposers_and_prediction_scores.results(connection, built.row))
        groups = rejections_and_sessions.fruitless_proposals(connection, built.row)
    assert n_filtered == after.filtered == sum(each.n for each in groups if each.verdict == "filtered")
    answer = explain_named(built.ledger, text, "screened")
    assert isinstance(answer, Explanation)
    [story] = answer.campaigns
    assert [(each.status, each.filtered is None) for each in story.proposed] == [("filtered", False), ("new", True)]


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
def test_a_client_is_told_that_a_proposal_is_not_verified(built: Built) -> None:
    texts = ("CCO", "CCN", "CCC", "CC(C)C", "CCF", "CCS", "CC(=O)C", "COC")
    with McpEpisode(built, "client") as episode:
        answers = [episode.call("propose", {"smiles": text, "rationale": "", "predictions": []}).text for text in texts]
    dropped = [answer for answer in answers if answer.startswith("not verified")]
    assert 0 < len(dropped) < len(texts) and all("below the best 1 of 4 so far" in answer for answer in dropped)
    assert not any("#" in answer for answer in dropped), "only what is in the campaign has a number"
    with built.ledger.read() as connection:
        recent = proposer_trajectories.latest_log_chances(connection, built.row.id, "mcp", 64)
    decisions = [row["filter_decision"] for row in proposals(built)[-len(texts) :]]
    assert recent == [each["log_chance"] for each in decisions if each]


def test_a_filter_that_drops_nothing_or_has_nothing_to_spare_is_refused(tmp_path: Path) -> None:
    (tmp_path / "molecules.csv").write_text("smiles\nC\n", encoding="utf-8")
    text = TEXT.format(name="wrong", proposals=10)
    with pytest.raises(SpecError, match="drops nothing"):
        parse_spec(text.replace("keep: 1", "keep: 4"), base=tmp_path)
    without_xtb = "\n".join(line for line in text.splitlines() if "xtb" not in line)
    with pytest.raises(SpecError, match="all rungs are fast"):
        parse_spec(without_xtb.replace("homo_lumo_gap, min: 9, unit: eV", "qed, min: 0.5"), base=tmp_path)
