"""What evidence says of candidates, under the scheduler lottery and under others."""

from __future__ import annotations

from pathlib import Path

import pytest

from sciagent.chemistry.molecule import parse_molecule
from sciagent.errors import UsageError
from sciagent.rewards.candidate_states_lots_and_episode_starts import states
from sciagent.rewards.publish_versions import publish
from sciagent.rewards.reward_spec import RewardSpec
from sciagent.rewards.reward_term_contract import CandidateState, Settlement
from sciagent.scheduling.audit_of_dropped import lots
from sciagent.store.database.ledger import Ledger
from sciagent.store.results import candidates
from tests.support.rewarded import DFT, HIT, XTB, Rewarded, rewarded

CHANCE, GAP = 0.5, "homo_lumo_gap"
MOLECULES = tuple(f"{'C' * (2 + i // 2)}{'ON'[i % 2]}" for i in range(12))
ROBUST = RewardSpec(prices={"core_seconds": 1e-4}, unsettled="robust")


@pytest.fixture
def made(ledger: Ledger, tmp_path: Path) -> Rewarded:
    made = rewarded(ledger, tmp_path, scheduler=f"lottery, chance: {CHANCE}")
    made.episode(1, [MOLECULES])
    made.check(*MOLECULES)
    return made


def known(made: Rewarded, smiles: str) -> CandidateState:
    with made.ledger.begin() as connection:
        id_ = candidates.ids_of(connection, [parse_molecule(smiles).key])[parse_molecule(smiles).key]
        return states(made.built, connection, [id_], made.watermark() + 1)[id_]


def test_a_lot_decides_whose_answers_count(made: Rewarded) -> None:
    drawn = lots(made.built.spec.seed, [parse_molecule(smiles).key for smiles in MOLECULES]) < CHANCE
    assert 0 < drawn.sum() < len(MOLECULES)
    yes = [smiles for smiles, is_drawn in zip(MOLECULES, drawn, strict=True) if is_drawn]
    no = [smiles for smiles, is_drawn in zip(MOLECULES, drawn, strict=True) if not is_drawn]
    assert known(made, no[0]) == CandidateState(Settlement.UNDECIDED, chance=CHANCE), "xTB has not answered"
    for smiles in (yes[0], no[0], no[1]):
        made.answer(smiles, XTB, {GAP: 8.0})
    assert known(made, no[0]) == CandidateState(Settlement.OPEN, chance=CHANCE)
    assert known(made, yes[0]) == CandidateState(Settlement.UNDECIDED, chance=CHANCE), "drawn, and not answered yet"
    for smiles in (yes[0], no[1]):
        made.answer(smiles, DFT, {GAP: HIT})
    assert known(made, yes[0]) == CandidateState(Settlement.ANSWERED, 1.0, chance=CHANCE)
    assert known(made, no[1]) == CandidateState(Settlement.OPEN, chance=CHANCE), "somebody asked, but no lot did"
    made.fail(yes[1], XTB)
    assert known(made, yes[1]) == CandidateState(Settlement.REFUSED), "thrown out before the lot"


def test_robust_rewards_need_a_lottery(ledger: Ledger, tmp_path: Path) -> None:
    made = rewarded(ledger, tmp_path)
    made.episode(1, [MOLECULES])
    with pytest.raises(UsageError, match="only lottery draws with a known chance"):
        publish(ledger, "small", ROBUST)
