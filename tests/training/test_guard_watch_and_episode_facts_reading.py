"""The facts of episodes: gaps from a real control, promises and unsettled reward from evidence that the test writes."""

from __future__ import annotations

from pathlib import Path

import pytest

from sciagent.chemistry.molecule import parse_molecule
from sciagent.rewards.candidate_worths_and_episode_rewards import reward_rows
from sciagent.rewards.reward_law import fit_law
from sciagent.rewards.reward_spec import RewardSpec
from sciagent.scheduling.audit_of_dropped import lots
from sciagent.store.campaign_state import note_and_take_watermarks
from sciagent.store.database.ledger import Ledger
from sciagent.training.guard_watch_and_episode_facts import episode_facts, has_promises
from sciagent.training.stopping_guards import EpisodeFacts
from tests.support.rewarded import DFT, HIT, MISS, XTB, Rewarded, rewarded
from tests.support.watched import GAMING, HONEST, opened, roll_out

CHANCE = 0.5
TAILS = ("", "C", "CC", "CCC", "O", "CO", "OC", "N", "CN", "NC", "C#N", "C=O")
MOLECULES = [f"c1ccccc1{tail}" for tail in TAILS] + [f"C1CCCCC1{tail}" for tail in TAILS]


def facts_of(made: Rewarded, spec: RewardSpec) -> list[EpisodeFacts]:
    with made.ledger.begin() as connection:
        as_of = note_and_take_watermarks.take(connection, [made.built.row.id])
        law = fit_law(made.built, connection, as_of) if spec.unsettled == "posterior" else None
        rows = reward_rows(made.built, connection, spec, law, as_of)
        ids = {row.trajectory_id: 3 for row in rows}
        return list(episode_facts(made.built, connection, rows, spec, as_of, ids))


def test_the_gap_is_what_the_control_does_not_confirm(ledger: Ledger, tmp_path: Path) -> None:
    built = opened(ledger, tmp_path)
    roll_out(built, "honest@1", HONEST, 1, 3, 2)
    roll_out(built, "gaming@2", GAMING, 1, 3, 2)
    spec = RewardSpec(prices={"core_seconds": 1e-6}, unsettled="settled")
    facts = facts_of(Rewarded(built), spec)
    assert [each.policy for each in facts] == [3] * 6
    assert {each.gap for each in facts[:3]} == {0.0}
    assert {each.gap for each in facts[3:]} <= {1.0, None} and any(each.gap for each in facts), (
        "chlorine is paid, and the control sees none of it"
    )
    assert [each.earned for each in facts[3:]] == [2.0] * 3
    assert all(each.unsettled == 0 and each.promise is None for each in facts)
    assert not has_promises(built, spec)


@pytest.fixture
def made(ledger: Ledger, tmp_path: Path) -> Rewarded:
    """An episode whose molecules look like hits at xTB. DFT runs on those that the lot draws, and confirms half."""
    made = rewarded(ledger, tmp_path, scheduler=f"lottery, chance: {CHANCE}")
    made.episode(1, [[smiles] for smiles in MOLECULES])
    made.check(*MOLECULES)
    drawn = lots(made.built.spec.seed, [parse_molecule(smiles).key for smiles in MOLECULES]) < CHANCE
    for smiles, is_drawn in zip(MOLECULES, drawn, strict=True):
        made.answer(smiles, XTB, {"homo_lumo_gap": 8.0}, seconds=1.0)
        if is_drawn:
            made.order(smiles, DFT, CHANCE)
            made.answer(smiles, DFT, {"homo_lumo_gap": HIT if smiles in MOLECULES[::2] else MISS})
    return made


def test_a_promise_is_weighted_by_the_chances_of_the_lot(made: Rewarded) -> None:
    spec = RewardSpec(prices={"core_seconds": 1e-6}, unsettled="posterior")
    [facts] = facts_of(made, spec)
    assert has_promises(made.built, spec)
    drawn = lots(made.built.spec.seed, [parse_molecule(smiles).key for smiles in MOLECULES]) < CHANCE
    assert 0 < drawn.sum() < len(drawn)
    assert facts.promise is not None and facts.least_promise == -1 / CHANCE
    kept = float(drawn[::2].sum())
    promised = (facts.promise * len(MOLECULES) + kept / CHANCE) * (1 - CHANCE)
    assert 0 < promised <= (~drawn).sum(), "each of the others is promised a part of a hit"
    assert facts.earned == pytest.approx(facts.unsettled + kept)
    assert facts.unsettled == pytest.approx(promised, abs=1e-2), "but for the price of DFT"


def test_an_episode_in_which_a_lot_waits_has_no_promise_yet(made: Rewarded) -> None:
    late = next(
        f"C1CCCC1{tail}"
        for tail in TAILS
        if lots(made.built.spec.seed, [parse_molecule(f"C1CCCC1{tail}").key])[0] < CHANCE
    )
    made.episode(2, [[late]])
    made.check(late)
    made.answer(late, XTB, {"homo_lumo_gap": 8.0}, seconds=1.0)
    spec = RewardSpec(prices={"core_seconds": 1e-6}, unsettled="posterior")
    first, waiting = facts_of(made, spec)
    assert first.promise is not None and waiting.promise is None
    made.answer(late, DFT, {"homo_lumo_gap": HIT})
    decided = facts_of(made, spec)[1]
    assert decided.promise == pytest.approx(-1 / CHANCE), "it was drawn, and is a hit that nobody had promised"
