"""Guards of an honest policy, and of one that lives on what a frozen law believes; the test writes the evidence."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from sciagent.chemistry.molecule import parse_molecule
from sciagent.domain.answers.candidate_and_value_answers import plain
from sciagent.domain.answers.reward_guards import PolicyGuards, ShownGuards
from sciagent.rewards import guard_report
from sciagent.rewards.guard_report import guards, show_guards
from sciagent.rewards.publish_versions import publish
from sciagent.rewards.reward_spec import RewardSpec
from sciagent.scheduling.audit_of_dropped import lots
from sciagent.store.database.ledger import Ledger
from sciagent.store.learning import versioned_rewards
from tests.support.rewarded import DFT, HIT, MISS, XTB, Rewarded, rewarded

GAP = "homo_lumo_gap"
CHANCE = 0.5
POSTERIOR = RewardSpec(prices={"core_seconds": 1e-6}, unsettled="posterior")
TAILS = ("", "C", "CC", "CCC", "O", "CO", "OC", "N", "CN", "NC", "C#N", "C=O")
HONEST = [f"c1ccccc1{tail}" for tail in TAILS] + [f"C1CCCCC1{tail}" for tail in TAILS]
GAMED = [f"Clc1ccccc1{tail}" for tail in TAILS] + [f"ClC1CCCCC1{tail}" for tail in TAILS]


def verify(made: Rewarded, molecules: Sequence[str], gaps: Sequence[float]) -> None:
    """Lets all molecules pass xTB, with the value that DFT would give to a hit if it is a hit; DFT as the lot says."""
    made.check(*molecules)
    drawn = lots(made.built.spec.seed, [parse_molecule(smiles).key for smiles in molecules]) < CHANCE
    for smiles, gap, is_drawn in zip(molecules, gaps, drawn, strict=True):
        made.answer(smiles, XTB, {GAP: 8.0 if gap == HIT else 20.0}, seconds=1.0)
        if is_drawn:
            made.order(smiles, DFT, CHANCE)
            made.answer(smiles, DFT, {GAP: gap}, seconds=10.0)


def of_policies(shown: ShownGuards) -> dict[str, PolicyGuards]:
    return {policy.policy: policy for policy in shown.policies}


@pytest.fixture
def made(ledger: Ledger, tmp_path: Path) -> Rewarded:
    """Two groups of two episodes by `honest@1`: half of its molecules are hits, and xTB tells which."""
    made = rewarded(ledger, tmp_path, scheduler=f"lottery, chance: {CHANCE}")
    for group in range(2):
        id_ = made.group(group, 2)
        for sibling in range(2):
            turns = [[smiles] for smiles in HONEST[group * 12 + sibling :: 2][:6]]
            made.episode(2 * group + sibling, turns, group=id_, sibling=sibling, policy="honest@1")
    verify(made, HONEST, [HIT, MISS] * 12)
    return made


def test_the_index_finds_the_policy_that_lives_on_promises(made: Rewarded) -> None:
    first = publish(made.ledger, "small", POSTERIOR)
    honest = of_policies(show_guards(made.ledger, first.version))["honest@1"]
    assert honest.alarms == ()
    assert honest.promise is not None and honest.promise.index.error is not None
    assert abs(honest.promise.index.value) < 3 * honest.promise.index.error
    for number in range(6):  # what xTB says of chlorine looks like a hit, and never is one
        made.episode(10 + number, [GAMED[4 * number : 4 * number + 4]], policy="gaming@1")
    made.check(*GAMED)
    drawn = lots(made.built.spec.seed, [parse_molecule(smiles).key for smiles in GAMED]) < CHANCE
    for smiles, is_drawn in zip(GAMED, drawn, strict=True):
        made.answer(smiles, XTB, {GAP: 8.0}, seconds=1.0)
        if is_drawn:
            made.order(smiles, DFT, CHANCE)
            made.answer(smiles, DFT, {GAP: MISS}, seconds=10.0)
    second = publish(made.ledger, "small", POSTERIOR)
    assert second.law == first.law, "the law is frozen, so that it can be exploited"
    found = of_policies(show_guards(made.ledger, second.version))
    gaming = found["gaming@1"]
    assert gaming.promise is not None
    assert gaming.promise.verified.value == 0
    assert gaming.promise.index.value > 0.3
    assert gaming.alarms and "the law promises" in gaming.alarms[0]
    assert found["honest@1"].alarms == ()


def test_diversity_counts_repeats_and_the_nearest_of_the_group(ledger: Ledger, tmp_path: Path) -> None:
    made = rewarded(ledger, tmp_path)
    group = made.group(0, 2)
    made.episode(1, [["CCO"], ["CCO"], ["c1ccccc1"]], group=group, sibling=0, policy="collapsed@1")
    made.episode(2, [["CCO"]], group=group, sibling=1, policy="collapsed@1")
    made.episode(3, [HONEST], policy="wide@1")
    settled = RewardSpec(prices={"core_seconds": 1e-6}, unsettled="settled")
    answer = show_guards(ledger, publish(ledger, "small", settled).version)
    collapsed, wide = answer.policies
    assert (collapsed.policy, collapsed.episodes, collapsed.undecided, collapsed.proposals) == ("collapsed@1", 2, 2, 4)
    assert collapsed.diversity.repeats == 0.25 and collapsed.diversity.refused == 0
    assert collapsed.diversity.distance is not None
    assert collapsed.diversity.distance.value == pytest.approx(1 / 3), "ethanol twice, and benzene, which is unlike it"
    assert collapsed.diversity.distance.n == 3
    assert answer.sample == len(HONEST), "as many as the smallest policy with ten new proposals has"
    assert collapsed.diversity.scaffolds is None
    assert wide.diversity.scaffolds == pytest.approx(2)
    assert wide.reward is None and wide.promise is None and wide.control is None


def test_guards_are_the_same_however_many_episodes_are_read_together(
    made: Rewarded, monkeypatch: pytest.MonkeyPatch
) -> None:
    version = publish(made.ledger, "small", POSTERIOR)
    kept = show_guards(made.ledger, version.version)
    monkeypatch.setattr(guard_report, "EPISODES_PER_READ", 1)
    with made.ledger.read() as connection:
        rows = versioned_rewards.of_version(connection, version.version)
        again = guards(made.built, connection, rows, POSTERIOR, version.watermark)
    assert plain(again) == {name: value for name, value in plain(kept).items() if name in type(again).model_fields}
