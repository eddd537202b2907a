"""Failures with another goal or a hint, and pairs of answers, from a campaign in which a model talked."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import sqlalchemy as sa

from sciagent.store.database import tables as t
from sciagent.store.database.engine import db_now
from sciagent.store.database.ledger import Ledger
from sciagent.training.dataset_building import build
from sciagent.training.read_turns import TrainingCampaign
from sciagent.training.settings import DatasetKind, DatasetSettings
from sciagent.training.task_splits_and_scaffold_limit import ScaffoldLimit
from sciagent.training.verified_hindsight_and_pair_rows import Selection, hindsight, judged, utilities
from tests.support.conversing import Conversing, conversing


@pytest.fixture
def backend() -> str:
    return "sqlite"


@pytest.fixture
def made(ledger: Ledger, tmp_path: Path) -> Conversing:
    return conversing(ledger, tmp_path / "campaign")


def rows_of(made: Conversing, kind: DatasetKind, folder: Path) -> tuple[list[dict[str, Any]], dict[str, int]]:
    built = build(made.ledger, DatasetSettings(kind=kind, campaigns=["small"]), folder)
    return pq.read_table(folder / "train.parquet").to_pylist(), dict(built.left_out)


def test_a_failure_becomes_the_answer_to_the_goal_that_it_achieved(made: Conversing, tmp_path: Path) -> None:
    made.talk(1, ["CCO", "CCN"])
    made.verify("CCO", 12.0)
    made.verify("CCN", 5.0)
    rows, left_out = rows_of(made, "hindsight", tmp_path / "set")
    hinted, relabelled = rows
    assert (hinted["how"], relabelled["how"]) == ("hinted", "relabelled")
    goal = relabelled["prompt"][1]["content"]
    assert "Wanted: 9 ≤ homo_lumo_gap ≤ 15 eV." in goal and "3 ≤ homo_lumo_gap ≤ 9 eV" not in goal
    assert "Wanted: 3 ≤ homo_lumo_gap ≤ 9 eV." in hinted["prompt"][1]["content"]
    assert relabelled["completion"] == hinted["completion"] and relabelled["hint"] is None
    assert "homo_lumo_gap came out above" in hinted["hint"] and "12" not in hinted["hint"]
    assert left_out == {"turns: did not fail": 1}


def test_a_turn_with_a_candidate_that_waits_has_not_failed_yet(made: Conversing, tmp_path: Path) -> None:
    made.talk(1, ["CCO CCN"])
    made.verify("CCO", 12.0)
    assert rows_of(made, "hindsight", tmp_path / "set") == ([], {"turns: a candidate is not decided yet": 1})


def test_a_turn_of_which_a_filter_dropped_a_proposal_has_not_failed(made: Conversing, tmp_path: Path) -> None:
    """A chance that a law says makes no row of a candidate that was never verified, and no answer better than it."""
    made.talk(1, ["CCO", "CCN"])
    made.verify("CCO", 12.0)
    made.verify("CCN", 12.0)
    with made.ledger.begin() as connection:
        turn_id = connection.execute(sa.select(sa.func.min(t.turn.c.id))).scalar_one()
        values = {"campaign_id": made.built.row.id, "turn_id": turn_id, "text": "CCC", "status": "filtered"}
        connection.execute(sa.insert(t.proposal).values(values | {"at": db_now(connection)}))
    with made.ledger.read() as connection:
        campaign = TrainingCampaign(made.ledger, "small", 10**6)
        [row] = campaign.episode_rows(connection)
        first, second = judged(connection, campaign, campaign.episode(connection, row))
    assert first.turn.was_filtered and first.has_undecided and not second.has_undecided
    assert utilities(made.built.objectives, first.turn, first.verdicts) is None
    assert utilities(made.built.objectives, second.turn, second.verdicts) is not None


def test_worths_under_the_old_goal_leave_the_prompt(made: Conversing, tmp_path: Path) -> None:
    learned = (
        "#1 CCN: P(hit) 31 %, expected utility 0.53; xtb: homo_lumo_gap 8 eV\n"
        "#2 CC=O: no hit, expected utility 0.20\nHits so far: 2.\n"
        "Hits so far: 3, 2 distinct; tautomers of one compound count once.\n"
        "new #9: CCC (modify: swap ring) [0a1b2c3d], settled; hit, utility 0.12; xtb: homo_lumo_gap 9 eV\n"
        "duplicate #2: CC=O [4e5f6a7b], settled; expected utility 0.20; it was proposed before, propose another\n"
        "not verified: CCF (modify: swap O) [0a1b2c3d]; the law gives it a chance of 0.03 to be a hit, below the best "
        "1 of 16 so far\n"
        "Tried so far, by ring skeleton: c1ccccc1: 4, 1 hit, 2 turned down, best expected utility 0.71; "
        "no ring: 3, 2 hits."
    )
    made.talk(1, ["CCO"], learned=learned)
    made.verify("CCO", 12.0)
    hinted, relabelled = rows_of(made, "hindsight", tmp_path / "set")[0]
    assert learned in hinted["prompt"][1]["content"]
    assert relabelled["prompt"][1]["content"].endswith(
        "\n\n#1 CCN: xtb: homo_lumo_gap 8 eV\n#2 CC=O\n"
        "new #9: CCC (modify: swap ring) [0a1b2c3d], settled; xtb: homo_lumo_gap 9 eV\n"
        "duplicate #2: CC=O [4e5f6a7b], settled; it was proposed before, propose another\n"
        "not verified: CCF (modify: swap O) [0a1b2c3d]\n"
        "Tried so far, by ring skeleton: c1ccccc1: 4, 2 turned down; no ring: 3."
    )


@pytest.mark.parametrize("said", [{"rationale": "the gap must be below 9 eV"}, {"thinking": "3 to 9 eV is wanted"}])
def test_an_answer_that_names_the_old_goal_is_not_relabelled(
    made: Conversing, tmp_path: Path, said: dict[str, str]
) -> None:
    made.talk(1, ["CCO"], **said)  # type: ignore[arg-type]
    made.verify("CCO", 12.0)
    rows, left_out = rows_of(made, "hindsight", tmp_path / "set")
    assert [row["how"] for row in rows] == ["hinted"]
    assert left_out == {"goals: the prompt or the answer names the old goal": 1}


def test_a_refused_text_gives_a_hint_and_no_goal(made: Conversing, tmp_path: Path) -> None:
    made.talk(1, ["C1CC"])
    made.verify("CCO", 5.0)
    [row], left_out = rows_of(made, "hindsight", tmp_path / "set")
    assert row["hint"] == "The answer that comes to mind first is refused: unparsable. Write one that is not."
    assert left_out == {"goals: no value at the terminal rung": 1}


def test_one_scaffold_or_one_text_gives_few_hints(made: Conversing, tmp_path: Path) -> None:
    alcohols = [f"{'C' * n}O" for n in range(2, 8)]
    made.talk(1, alcohols)
    made.talk(2, ["C1CC"] * 6)
    for smiles in alcohols:
        made.verify(smiles, 12.0)
    settings = DatasetSettings(kind="hindsight", campaigns=["small"], per_scaffold=2)
    built = build(made.ledger, settings, tmp_path / "set")
    rows = pq.read_table(tmp_path / "set" / "train.parquet").to_pylist()
    hints = [row["hint"] for row in rows if row["how"] == "hinted"]
    assert sum("came out above" in hint for hint in hints) == sum("unparsable" in hint for hint in hints) == 2
    assert sum(row["how"] == "relabelled" for row in rows) == 2
    left_out = dict(built.left_out)
    assert left_out["hints: a scaffold that 2 rows have"] == left_out["hints: a text that 2 rows have"] == 4


def test_pairs_answer_one_prompt_and_are_surely_ordered(made: Conversing, tmp_path: Path) -> None:
    group = made.group(0, 4)
    for sibling, text in enumerate(("CCO", "CCN", "C1CC", "CCF")):
        made.talk(sibling + 1, [text], group=group, sibling=sibling)
    made.verify("CCO", 5.0)
    made.verify("CCN", 9.01, uncertainty=0.5)  # about as likely a hit as not
    rows, left_out = rows_of(made, "preference", tmp_path / "set")
    assert [(row["episode"], row["rejected_episode"]) for row in rows] == [(1, 3), (2, 3)]
    for row in rows:
        assert row["p_better"] > 0.9 and row["chosen"] != row["rejected"]
    assert left_out == {
        "pairs: an answer that is not decided, proposes nothing, or lacks an uncertainty": 3,
        "pairs: better with a probability of at most 0.9": 1,
    }


def test_different_prompts_are_never_compared(made: Conversing, tmp_path: Path) -> None:
    group = made.group(0, 2)
    made.talk(1, ["CCO", "CCS"], group=group, sibling=0)
    made.talk(2, ["CCN", "CCF"], group=group, sibling=1)
    for smiles, gap in (("CCO", 5.0), ("CCN", 20.0), ("CCS", 5.0), ("CCF", 20.0)):
        made.verify(smiles, gap)
    rows, left_out = rows_of(made, "preference", tmp_path / "set")
    assert [(row["turn"], row["rejected_turn"]) for row in rows] == [(0, 0)]
    assert left_out == {"turns: no other answer to the same prompt": 2}


def test_hints_without_tokens_leave_the_places_of_those_with_tokens(made: Conversing) -> None:
    made.talk(1, ["CCO"])
    made.talk(2, ["CCN"])
    for smiles in ("CCO", "CCN"):
        made.verify(smiles, 12.0)
    campaign = TrainingCampaign(made.ledger, "small", made.watermark() + 1)
    with made.ledger.read() as connection:
        episodes = [campaign.episode(connection, row) for row in campaign.episode_rows(connection)]
        turns = [turn for episode in episodes for turn in judged(connection, campaign, episode)]
    turns[0].turn = replace(turns[0].turn, sampled=None)  # as of a script
    rows = hindsight(campaign, turns, Selection(), ScaffoldLimit(1))
    assert ["prompt_ids" in row for row in rows if row["how"] == "hinted"] == [False, True]
