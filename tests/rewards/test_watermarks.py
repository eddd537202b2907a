"""A version of rewards at a watermark is the same whenever it is computed, whatever came later."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from sciagent.campaign.proposing.campaign_workbench import CampaignWorkbench
from sciagent.campaign.proposing.write_turns import MadeTurn, TurnWriter
from sciagent.chemistry.molecule import parse_molecule
from sciagent.domain.rung_calibration_on_measurements import Fit, FitKind
from sciagent.rewards.publish_versions import publish
from sciagent.rewards.reward_spec import RewardSpec
from sciagent.rewards.show_and_compare_versions import ShownRewards, show
from sciagent.store.campaign_state import candidate_standings, note_and_take_watermarks
from sciagent.store.campaign_state.proposer_trajectories import NewTurn
from sciagent.store.database import tables as t
from sciagent.store.database.ledger import Ledger
from sciagent.store.results import candidates
from tests.support.rewarded import DFT, XTB, Rewarded, RungAnswer, rewarded

SPEC = RewardSpec(prices={"core_seconds": 0.001, "llm_tokens": 1e-5}, terms={"refused": -0.05, "novelty": 0.1})
EARLY = tuple(f"{'C' * (2 + i // 3)}{('O', 'N', 'S')[i % 3]}" for i in range(24))
LATE = tuple(f"{'C' * (2 + i // 4)}C{('OC', 'NC', 'SC', 'Cl')[i % 4]}" for i in range(120))
OTHERS = tuple(f"{'C' * (1 + i)}C#N" for i in range(12))
GAP = "homo_lumo_gap"
DECISION = {"candidate_id": 1, "action": "run", "chooser": "test", "propensity": 1.0}
FIT = Fit(GAP, FitKind.OFFSET, "experiment", 1.0, -1.5, 20, 0.1, 0.1, 2.0)


def gap(i: int, position: int, spread: float = 0.0) -> float:
    return (6.0 + (i * 7 % 20) / 4) * (0.9 if position == DFT else 1.0) + spread


def begun(ledger: Ledger, folder: Path) -> Rewarded:
    """Two siblings and an episode without siblings; of 24 molecules, xTB has answered for 20 and DFT for 14. The ledger
    also has answers for molecules that are not in the campaign yet."""
    made = rewarded(ledger, folder)
    group = made.group(0, 2)
    made.episode(1, [EARLY[:6], EARLY[6:12]], group=group, sibling=0, tokens=120.0)
    made.episode(2, [EARLY[4:10], EARLY[10:18]], group=group, sibling=1, tokens=80.0)
    made.episode(3, [EARLY[18:21], EARLY[21:]])
    made.check(*EARLY)
    for i in range(20):
        made.order(EARLY[i], XTB)
    made.record([RungAnswer(EARLY[i], XTB, gap(i, XTB)) for i in range(19)])
    for i in range(14):
        made.order(EARLY[i], DFT)
    made.record([RungAnswer(EARLY[i], DFT, gap(i, DFT)) for i in range(14)], seconds=900.0)
    made.record([RungAnswer(name, rung, gap(3, rung)) for name in OTHERS for rung in (XTB, DFT)])
    return made


def later(made: Rewarded) -> int:
    """All that can come after a version; returns the number of later answers."""
    new = [RungAnswer(LATE[i], rung, gap(i, rung, 0.3)) for i in range(120) for rung in (XTB, DFT)]
    again = [RungAnswer(EARLY[i], XTB, gap(i, XTB, n / 9), replicate=n) for i in range(24) for n in range(1, 9)]
    fresh = [RungAnswer(EARLY[i], XTB, 3.0) for i in range(19, 24)] + [RungAnswer(EARLY[i], DFT, 5.0) for i in (14, 15)]
    answers = [*made.record(new), *made.record(again), *made.record(fresh)]
    for revision in (1, 2, 3):  # of what was recorded before the version, and of the revisions
        known = [(i, rung, made.known(EARLY[i], rung)) for i in range(14) for rung in (XTB, DFT)]
        wrong = [RungAnswer(EARLY[i], rung, 30.0 / revision, 0, revision, old.id) for i, rung, old in known]
        answers += made.record(wrong, seconds=50.0)
    made.episode(4, [LATE[:5], EARLY[:3]], group=made.group(1, 2, watermark=made.watermark()), sibling=0)
    made.episode(5, [LATE[5:9]])
    with made.ledger.begin() as connection:  # a person adds what the ledger knows already
        ids = candidates.enter(connection, [parse_molecule(name) for name in OTHERS]).values()
        candidate_standings.add(connection, made.built.row.id, [{"candidate_id": id_, "in_seeds": True} for id_ in ids])
        note_and_take_watermarks.write_fits(connection, made.built.row.id, {made.built.rungs[DFT].id: {GAP: FIT}})
    for smiles in (*OTHERS, EARLY[20], EARLY[21]):
        made.order(smiles, DFT)
    return len(answers)


def shown(made: Rewarded, spec: RewardSpec = SPEC) -> ShownRewards:
    return show(made.ledger, publish(made.ledger, "small", spec).version)


def as_text(version: ShownRewards) -> str:
    return "\n".join(episode.model_dump_json() for episode in version.episodes)


def test_a_version_is_the_same_after_500_later_answers_with_revisions_and_all_else(
    ledger: Ledger, tmp_path: Path
) -> None:
    made = begun(ledger, tmp_path)
    first = shown(made)
    assert first.law is not None and len(first.episodes) == 3
    then = as_text(first)
    assert later(made) >= 500
    assert as_text(show(ledger, first.version)) == then, "as it was kept"
    stated = SPEC.model_copy(update={"watermark": first.watermark, "law": first.law})
    assert as_text(shown(made, stated)) == then, "computed again by the same law"
    fresh = stated.model_copy(update={"law": None})
    assert as_text(shown(made, fresh)) == then, "computed again by a law that is fitted again"
    with ledger.read() as connection:
        states = [connection.execute(sa.select(t.law.c.state).where(t.law.c.id == id_)).scalar_one() for id_ in (1, 2)]
    assert states[0] == states[1]
    now = shown(made)
    assert len(now.episodes) == 5 and as_text(now) != then


def test_turns_without_new_evidence_make_a_new_version(ledger: Ledger, tmp_path: Path) -> None:
    made = begun(ledger, tmp_path)
    first = publish(ledger, "small", SPEC)
    assert publish(ledger, "small", SPEC) == first
    made.episode(4, [EARLY[:1]], tokens=1000.0)
    second = publish(ledger, "small", SPEC)
    assert second.version > first.version and second.episodes == first.episodes + 1
    assert {change.episode for change in second.changed} == {4}


@pytest.mark.parametrize("kind", ["turn", "decision", "calibration"])
def test_what_was_being_written_when_a_watermark_was_taken_is_below_it_at_once_or_never(
    ledger: Ledger, tmp_path: Path, kind: str
) -> None:
    """A driver has read the counter and written its row, and commits only after another process took the number of a
    version. Both read the rows below it: when it was taken, and when the driver has committed."""
    made = rewarded(ledger, tmp_path)
    made.episode(1, [["CCO"]])
    table = getattr(t, kind)
    no_rungs: Any = None
    turn = MadeTurn(1, NewTurn(1, {}, [], [], {}, "tiny"), CampaignWorkbench(made.built, no_rungs))
    writes = {
        "turn": lambda connection: TurnWriter(made.built, "test").write(connection, [turn]),
        "decision": lambda connection: candidate_standings.decide(connection, made.built.row.id, [DECISION]),
        "calibration": lambda connection: note_and_take_watermarks.write_fits(
            connection, made.built.row.id, {made.built.rungs[DFT].id: {GAP: FIT}}
        ),
    }

    def below(watermark: int) -> set[int]:
        with ledger.read() as connection:
            return set(connection.execute(sa.select(table.c.id).where(table.c.watermark < watermark)).scalars())

    def version() -> tuple[int, set[int]]:
        with ledger.begin() as connection:
            watermark = note_and_take_watermarks.take(connection, [made.built.row.id])
        return watermark, below(watermark)

    with ThreadPoolExecutor(1) as pool:
        with ledger.begin() as connection:
            writes[kind](connection)
            taken = pool.submit(version)
            wait([taken], timeout=0.3)
        watermark, then = taken.result(timeout=30)
    assert below(watermark) == then, "the set below a watermark grew after it was taken"
    assert len(then) == (2 if kind == "turn" else 1)
