"""A control in a campaign that runs: on whom it runs, what it leaves alone, and which policy it gives away."""

from __future__ import annotations

from pathlib import Path

import pytest
import sqlalchemy as sa

from sciagent.campaign.core.built_campaign_and_derived_values import Built, is_drawn
from sciagent.campaign.core.create_and_open import create_or_open, open_stored
from sciagent.campaign.driving.driver import Driver
from sciagent.campaign.file.campaign_spec import parse_spec
from sciagent.chemistry.molecule import parse_molecule
from sciagent.rewards.guard_report import show_guards
from sciagent.rewards.publish_versions import publish
from sciagent.rewards.reward_spec import RewardSpec
from sciagent.rewards.show_and_compare_versions import show
from sciagent.store.campaign_state import campaigns
from sciagent.store.database import tables as t
from sciagent.store.database.ledger import Ledger
from sciagent.store.views import campaign_counts_and_remarks
from sciagent.training.rollouts.campaign_rollouts import no_source
from tests.support.watched import BETTER, CONTROL, GAMING, HONEST, TEXT, opened, roll_out

pytestmark = pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
SETTLED = RewardSpec(prices={"core_seconds": 1e-9}, unsettled="settled")


def controlled(built: Built) -> set[str]:
    """Keys of the candidates on which the control ran."""
    assert built.control is not None
    query = sa.select(t.candidate.c.key).join(t.job, t.job.c.candidate_id == t.candidate.c.id)
    with built.ledger.read() as connection:
        return set(connection.execute(query.where(t.job.c.rung_id == built.control.id)).scalars())


def drawn(built: Built, keys: list[str]) -> set[str]:
    assert built.control is not None
    lots = is_drawn(built.control, built.spec.seed, keys)
    return {key for key, is_chosen in zip(keys, lots, strict=True) if is_chosen}


def test_the_control_gives_away_the_policy_that_games_the_reward(ledger: Ledger, tmp_path: Path) -> None:
    built = opened(ledger, tmp_path)
    for name, molecules in (("honest@1", HONEST), ("better@2", BETTER), ("gaming@3", GAMING)):
        roll_out(open_stored(ledger, "watched", "test").built, name, molecules, groups=2, siblings=4, turns=2)
    answer = show_guards(ledger, publish(ledger, "watched", SETTLED).version)
    assert answer.control == "check"
    honest, better, gaming = answer.policies
    assert honest.reward is not None and better.reward is not None and gaming.reward is not None
    assert better.reward.value == pytest.approx(gaming.reward.value), "by the reward, both are as good"
    assert gaming.reward.value > honest.reward.value
    assert [len(policy.alarms) for policy in answer.policies] == [0, 0, 1]
    assert gaming.control is not None and better.control is not None and gaming.control.growth is not None
    assert (gaming.control.reward.value, gaming.control.control.value, gaming.control.growth.value) == (1, 0, 1)
    assert (better.control.gap.value, gaming.label) == (0, "gaming@3")
    keys = [parse_molecule(smiles).key for smiles in (*HONEST, *BETTER, *GAMING, "C", "CC", "CCC", "CCCC")]
    assert controlled(built) == drawn(built, keys), "by lot, on all that the terminal rung has answered"
    assert 0.4 < len(controlled(built)) / len(keys) < 0.8


def test_a_control_changes_no_verdict_no_worth_and_no_reward(ledger: Ledger, tmp_path: Path) -> None:
    """The same campaign with and without the control, which refutes all of its hits."""
    found = []
    for name, text in (("watched", TEXT), ("alone", TEXT.replace(f"  - {CONTROL}\n", "").replace("watched", "alone"))):
        built = opened(ledger, tmp_path, text)
        roll_out(built, "gaming@3", GAMING, groups=1, siblings=4, turns=2)
        cc, p = t.campaign_candidate.c, t.campaign_candidate
        columns = (cc.candidate_id, cc.standing, cc.position, cc.depth, cc.verdict, cc.chance, cc.utility, cc.is_hit)
        with ledger.read() as connection:
            row = campaigns.get(connection, name)
            places = connection.execute(sa.select(*columns).select_from(p).where(cc.campaign_id == row.id)).all()
            counts = campaign_counts_and_remarks.counts(connection, row)
        shown = show(ledger, publish(ledger, name, SETTLED).version)
        terms = [turn.terms["evidence"] for episode in shown.episodes for turn in episode.turns]
        found.append((sorted(places), [rung.passed for rung in counts.rungs], terms))
        ran = counts.control.jobs if counts.control else 0
        assert (ran > 0) == (name == "watched")
    with_control, without = found
    assert with_control == without


def test_candidates_do_not_pay_for_their_control(ledger: Ledger, tmp_path: Path) -> None:
    built = opened(ledger, tmp_path)
    roll_out(built, "gaming@3", GAMING, groups=1, siblings=4, turns=2)
    shown = show(ledger, publish(ledger, "watched", SETTLED).version)
    charged = {c.key: c.resources["core_seconds"] for e in shown.episodes for turn in e.turns for c in turn.candidates}
    a, j, r = t.attempt.c, t.job.c, t.rung.c
    query = sa.select(t.candidate.c.key, a.cost, r.control).select_from(
        t.attempt.join(t.job, j.id == a.job_id)
        .join(t.rung, r.id == j.rung_id)
        .join(t.candidate, t.candidate.c.id == j.candidate_id)
    )
    with ledger.read() as connection:
        attempts = connection.execute(query).all()
    assert any(control for _, _, control in attempts)
    paid = {key: cost["core_seconds"] for key, cost, control in attempts if not control}
    assert charged == {key: pytest.approx(paid[key]) for key in charged}


def test_the_budget_of_the_control_limits_it_and_a_later_driver_goes_on(ledger: Ledger, tmp_path: Path) -> None:
    text = TEXT.replace("{proposals: 1000}", "{proposals: 1000, rungs: {check: 2}}")
    built = opened(ledger, tmp_path, text)
    roll_out(built, "gaming@3", GAMING, groups=1, siblings=4, turns=2)
    assert len(controlled(built)) == 2
    more = text.replace("check: 2", "check: 3")
    amended = create_or_open(ledger, parse_spec(more, base=tmp_path), more, "test").built
    with Driver(amended, source=no_source) as driver:
        driver.run()
    assert len(controlled(built)) == 3, "the candidates that were settled before"


def test_known_evidence_of_the_control_is_reused(ledger: Ledger, tmp_path: Path) -> None:
    first = opened(ledger, tmp_path)
    again = opened(ledger, tmp_path, TEXT.replace("watched", "again"))
    assert controlled(first) and not controlled(again)
    assert again.control is not None
    with ledger.read() as connection:
        reused = campaign_counts_and_remarks.reuses_by_rung(connection, again.row.id)
    assert reused[again.control.id] == len(controlled(first))
