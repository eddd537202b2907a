"""Named terms: empty episodes, novelty against the snapshot, diversity within the episode, and their rewards."""

from __future__ import annotations

from itertools import count
from pathlib import Path

import pytest
from rdkit import Chem
from rdkit.Chem import rdFingerprintGenerator
from rdkit.DataStructs import TanimotoSimilarity

from sciagent.domain.cost_and_budget import Cost
from sciagent.rewards.built_in_terms import EmptyTerm, RefusedTerm
from sciagent.rewards.publish_versions import publish
from sciagent.rewards.reward_spec import RewardSpec
from sciagent.rewards.reward_term_contract import CandidateState, Settlement, TermInputs, TermSettings, TurnOfEpisode
from sciagent.rewards.show_and_compare_versions import RewardedEpisode, show
from sciagent.store.database.ledger import Ledger
from sciagent.store.learning.reward_inputs import EpisodeRow, EpisodeTurn, ProposalRow
from tests.support.rewarded import XTB, Rewarded, rewarded

PRICES = {"core_seconds": 0.001}
SPEC = RewardSpec(prices=PRICES, unsettled="settled", terms={"novelty": 0.1, "diversity": -0.05}, terms_limit=0.5)
KNOWN = ("CCO", "CCCN")


def unlike(smiles: str, *others: str) -> float:
    """1 less the similarity to the nearest, by RDKit alone."""
    ecfp4 = rdFingerprintGenerator.GetMorganGenerator(radius=2, fpSize=2048)
    bits = [ecfp4.GetFingerprint(Chem.MolFromSmiles(text)) for text in (smiles, *others)]
    return 1 - max((TanimotoSimilarity(bits[0], other) for other in bits[1:]), default=0.0)


def terms(made: Rewarded, spec: RewardSpec = SPEC) -> dict[int, list[dict[str, float | None]]]:
    """By episode, the terms of each turn beside evidence and cost."""
    shown = show(made.ledger, publish(made.ledger, "small", spec).version)
    return {each.episode: [_named(each, place) for place in range(len(each.turns))] for each in shown.episodes}


def _named(episode: RewardedEpisode, place: int) -> dict[str, float | None]:
    return {name: value for name, value in episode.turns[place].terms.items() if name not in ("evidence", "cost")}


@pytest.fixture
def made(ledger: Ledger, tmp_path: Path) -> Rewarded:
    """Two molecules are known when the group begins; its siblings propose after each other, and share a molecule."""
    made = rewarded(ledger, tmp_path)
    made.episode(1, [KNOWN])
    group = made.group(0, 2, seq=len(KNOWN))
    made.episode(2, [["CCCO", "c1ccccc1"], ["c1ccccc1C"]], group=group, sibling=0)
    made.episode(3, [["CCCO"], []], group=group, sibling=1)
    return made


def test_novelty_sees_the_snapshot_and_diversity_the_episode_and_neither_a_sibling(made: Rewarded) -> None:
    found = terms(made)
    first = (unlike("CCCO", *KNOWN) + unlike("c1ccccc1", *KNOWN)) / 2
    assert 0 < first < 1
    varied = (1.0 + unlike("c1ccccc1", "CCCO")) / 2
    assert found[2][0] == {"novelty": pytest.approx(0.1 * first), "diversity": pytest.approx(-0.05 * varied)}
    assert found[2][1] == {
        "novelty": pytest.approx(0.1 * unlike("c1ccccc1C", *KNOWN)),
        "diversity": pytest.approx(-0.05 * unlike("c1ccccc1C", "CCCO", "c1ccccc1")),
    }
    assert found[3] == [
        {"novelty": pytest.approx(0.1 * unlike("CCCO", *KNOWN)), "diversity": pytest.approx(-0.05)},
        {"novelty": 0.0, "diversity": 0.0},
    ], "a sibling's equal molecule is as new, and a turn without proposals has no terms"
    assert [each["novelty"] for each in found[1]] == [0.0], "an episode without a group has no snapshot"


def test_later_members_of_the_campaign_change_no_novelty(made: Rewarded) -> None:
    before = terms(made)
    made.episode(4, [["CCCCO", "c1ccccc1CC"]])
    assert {number: found for number, found in terms(made).items() if number < 4} == before


SCREENED = CandidateState(Settlement.REFUSED, screened=True)
WASTED = CandidateState(Settlement.REFUSED)
WAITING = CandidateState(Settlement.UNDECIDED)


@pytest.mark.parametrize(
    ("proposed", "values"),
    [
        ([[], [SCREENED]], [0.0, 1.0]),
        ([[SCREENED], []], [0.0, 1.0]),
        ([[WASTED], [SCREENED]], [0.0, 0.0]),
        ([[WAITING], []], [0.0, 0.0]),
        ([[]], [1.0]),
    ],
)
def test_an_episode_is_empty_if_nothing_passed_the_checks(
    proposed: list[list[CandidateState]], values: list[float], made: Rewarded
) -> None:
    numbers = count(1)
    states: dict[int, CandidateState] = {}
    turns = []
    for position, of_turn in enumerate(proposed):
        ids = [next(numbers) for _ in of_turn]
        states.update(zip(ids, of_turn, strict=True))
        turns.append(EpisodeTurn(position, position, Cost(), "", tuple(ProposalRow(id_, "new") for id_ in ids)))
    row = EpisodeRow(1, 1, None, None, None)
    term = EmptyTerm(TermSettings())
    with made.ledger.read() as connection:
        term.prepare(connection, TermInputs(made.built, 1, "settled", [(row, turns)], states, {}))
    assert [term.of(TurnOfEpisode(row, turns, position)) for position in range(len(turns))] == values


def test_what_a_filter_dropped_is_neither_refused_nor_makes_an_episode_empty(made: Rewarded) -> None:
    row = EpisodeRow(1, 1, None, None, None)
    dropped = [ProposalRow(1, "filtered"), ProposalRow(2, "filtered"), ProposalRow(None, "refused")]
    turn = TurnOfEpisode(row, [EpisodeTurn(0, 0, Cost(), "", tuple(dropped))], 0)
    assert turn.turn.was_filtered and not turn.turn.new_candidates
    assert RefusedTerm(TermSettings()).of(turn) == 1.0, "of those that count"
    term = EmptyTerm(TermSettings())
    with made.ledger.read() as connection:
        term.prepare(connection, TermInputs(made.built, 1, "settled", [(row, [turn.turn])], {}, {}))
    assert term.of(turn) == 0.0


@pytest.mark.parametrize("credit", ["rtg", "outcome", "gigpo", "marginal"])
def test_terms_count_in_the_advantages_of_every_estimator(made: Rewarded, credit: str) -> None:
    made.check("CCCO", "c1ccccc1", "c1ccccc1C")
    for smiles in ("CCCO", "c1ccccc1", "c1ccccc1C"):
        made.fail(smiles, XTB)
    with_terms = SPEC.model_copy(update={"credit": credit, "terms_limit": 0.11})
    shown = [
        show(made.ledger, publish(made.ledger, "small", spec).version)
        for spec in (with_terms, with_terms.model_copy(update={"terms": {}}))
    ]
    first, other = ([episode for episode in of.episodes if episode.group == 0] for of in shown)
    added = [sum(value or 0.0 for place in range(2) for value in _named(each, place).values()) for each in first]
    assert abs(added[0]) <= 0.11 and added[0] != pytest.approx(added[1])
    gained = [_advantage(with_) - _advantage(without) for with_, without in zip(first, other, strict=True)]
    compared = 0.0 if credit == "marginal" else 1.0
    # gigpo compares the same openings twice
    times = 2.0 if credit == "gigpo" else 1.0
    assert gained[0] == pytest.approx(times * (added[0] - compared * added[1]))
    assert gained[1] == pytest.approx(times * (added[1] - compared * added[0]))


def _advantage(episode: RewardedEpisode) -> float:
    value = episode.turns[0].advantage
    assert value is not None
    return value
