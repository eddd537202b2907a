"""Data sets from a campaign in which a model talked, read again as a trainer reads them."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from sciagent.agent.turns_to_token_rows import CONTEXT, recorded_calls
from sciagent.errors import UnknownNameError, UsageError
from sciagent.rewards.publish_versions import publish
from sciagent.rewards.reward_spec import RewardSpec
from sciagent.store.campaign_state import note_and_take_watermarks, proposer_trajectories
from sciagent.store.campaign_state.proposer_trajectories import NewTurn
from sciagent.store.database.ledger import Ledger
from sciagent.training.command_answers import BuiltDataset
from sciagent.training.dataset_building import build
from sciagent.training.settings import DatasetKind, DatasetSettings
from tests.support.conversing import Conversing, conversing
from tests.support.rewarded import XTB

SPEC = RewardSpec(prices={"core_seconds": 0.001}, unsettled="settled")


@pytest.fixture
def made(ledger: Ledger, tmp_path: Path) -> Conversing:
    """Two siblings: the first finds a hit in its first turn, the second misses, is refused, and waits for an answer."""
    made = conversing(ledger, tmp_path / "campaign")
    group = made.group(0, 2)
    made.talk(1, ["CCO", "CCN"], group=group, sibling=0)
    made.talk(2, ["CCS", "C1CC", "CCF"], group=group, sibling=1)
    made.verify("CCO", 5.0)
    made.verify("CCN", 5.5)
    made.verify("CCS", 12.0)
    return made


def built_set(
    made: Conversing, kind: DatasetKind, folder: Path, **more: Any
) -> tuple[BuiltDataset, list[dict[str, Any]]]:
    built = build(made.ledger, DatasetSettings(kind=kind, campaigns=[made.built.row.name], **more), folder)
    return built, pq.read_table(folder / "train.parquet").to_pylist()


def test_verified_turns_are_conversations_with_their_tools(made: Conversing, tmp_path: Path) -> None:
    built, rows = built_set(made, "sft", tmp_path / "sft")
    assert [(row["episode"], row["turn"], row["payoff"]) for row in rows] == [(1, 0, 1.0), (1, 1, 1.0)]
    assert built.rows == {"train": 2, "test": 0}
    first, second = rows
    assert [message["role"] for message in second["prompt"]] == ["system", "user", "assistant", "tool"]
    assert second["prompt"][:2] == first["prompt"] and second["prompt"][2] == first["completion"][0]
    [call] = first["completion"][0]["tool_calls"]
    assert json.loads(call["function"]["arguments"])["smiles"] == "CCO"
    assert json.loads(first["tools"])[0]["function"]["name"] == "propose"
    assert built.left_out == {
        "turns: no candidate is decided yet": 1,
        "turns: proposed nothing new": 1,
        "turns: worth less than 0.5": 1,
    }


def test_one_scaffold_fills_no_data_set(made: Conversing, tmp_path: Path) -> None:
    _, rows = built_set(made, "sft", tmp_path / "sft", per_scaffold=1)
    assert len(rows) == 1, "ethanol and ethylamine share the empty scaffold"


def test_labelled_answers_are_good_or_known_to_be_worth_less(made: Conversing, tmp_path: Path) -> None:
    built, rows = built_set(made, "unpaired", tmp_path / "unpaired")
    labels = {(row["episode"], row["turn"]): (row["label"], row["payoff"]) for row in rows}
    assert labels == {(1, 0): (True, 1.0), (1, 1): (True, 1.0), (2, 0): (False, 0.0), (2, 1): (False, None)}
    assert built.left_out == {"turns: a candidate is not decided yet": 1}


def test_misses_of_a_scaffold_leave_its_hits_in(made: Conversing, tmp_path: Path) -> None:
    _, rows = built_set(made, "unpaired", tmp_path / "unpaired", per_scaffold=1)
    assert [(row["episode"], row["label"]) for row in rows] == [(1, True), (2, False), (2, False)]


def test_rows_hold_what_was_sampled_with_the_advantage_of_its_turn(made: Conversing, tmp_path: Path) -> None:
    version = publish(made.ledger, "small", SPEC).version
    built, rows = built_set(made, "rows", tmp_path / "rows")
    assert built.rewards == {"small": version} and len(rows) == 2
    with made.ledger.read() as connection:
        calls = {number: recorded_calls(connection, id_) for number, id_ in _trajectories(connection)}
    for row in rows:
        for call in calls[row["episode"]]:
            places = [i for i, turn in enumerate(row["turns"]) if turn == call.turn]
            assert [row["ids"][i] for i in places] == list(call.output_ids)
            assert row["ids"][: places[0]] == list(call.prompt_ids), "the row continues exactly what the model saw"
            assert [row["behaviour"][i] for i in places] == pytest.approx(call.behaviour)
            assert [row["mask"][i] for i in places] == [not forced for forced in call.forced]
    trained = [{t for t, used in zip(row["turns"], row["gradient"], strict=True) if used} for row in rows]
    assert trained == [set(), set()], (
        "an episode waits for an answer, and nothing else can be compared with its sibling"
    )
    assert rows[0]["outcome"] is not None and rows[1]["outcome"] is None
    assert built.left_out == {"turns: without an advantage: undecided, without siblings, or no rewards published": 5}
    assert all(row["skill"] is None and row["rubric"] is None for row in rows)


def test_advantages_reach_the_tokens(made: Conversing, tmp_path: Path) -> None:
    made.check("CCF")
    made.verify("CCF", 4.0)
    publish(made.ledger, "small", SPEC)
    _, rows = built_set(made, "rows", tmp_path / "rows")
    by_turn = [{t: a for t, a in zip(row["turns"], row["advantages"], strict=True) if t != CONTEXT} for row in rows]
    # 20 core-seconds a candidate; the first sibling brings 2 of a scaffold, the second 0, 0 and 1 (the second of it)
    first = [1 - 0.02 + 0.5 - 0.02, 0.5 - 0.02]
    second = [-0.02 + 0.5 - 0.02, 0.5 - 0.02]
    assert by_turn[0] == {n: pytest.approx(a - b, abs=1e-6) for n, (a, b) in enumerate(zip(first, second, strict=True))}
    assert by_turn[1][0] == pytest.approx(second[0] - first[0], abs=1e-6)
    trained = [i for i, gradient in enumerate(rows[0]["gradient"]) if gradient]
    assert len(trained) == 6 and all(rows[0]["mask"][i] for i in trained)


def test_tables_have_watermark_attempt_and_cost(made: Conversing, tmp_path: Path) -> None:
    version = publish(made.ledger, "small", SPEC).version
    built, _ = built_set(made, "rows", tmp_path / "rows")
    tables = {name.split(".")[1]: pq.read_table(tmp_path / "rows" / name).to_pylist() for name in built.tables}
    assert {name: len(rows) for name, rows in tables.items()} == {"trajectories": 5, "evidence": 12, "rewards": 7}
    dft = [row for row in tables["evidence"] if row["rung"] == "dft"]
    assert all(json.loads(row["cost"]) == {"core_seconds": 10.0} and row["attempt"] for row in dft)
    assert len({row["watermark"] for row in tables["evidence"]}) == 12
    assert {row["reward_version"] for row in tables["rewards"]} == {version}
    assert tables["trajectories"][0]["output_ids"] == [10] * 4


def test_a_data_set_of_an_earlier_watermark_comes_out_the_same(made: Conversing, tmp_path: Path) -> None:
    then = made.watermark()
    _, before = built_set(made, "sft", tmp_path / "before")
    made.check("CCF")
    made.verify("CCF", 4.0)
    _, after = built_set(made, "sft", tmp_path / "after", as_of=then)
    assert before == after
    assert len(built_set(made, "sft", tmp_path / "now")[1]) == 3


def test_a_turn_that_is_being_written_is_in_a_data_set_whenever_that_is_built(made: Conversing, tmp_path: Path) -> None:
    with made.ledger.read() as connection:
        [trajectory] = [id_ for number, id_ in _trajectories(connection) if number == 1]
    with ThreadPoolExecutor(1) as pool:
        with made.ledger.begin() as connection:
            watermark = note_and_take_watermarks.note(connection, made.built.row.id)
            proposer_trajectories.write_turn(connection, trajectory, NewTurn(2, {}, [], [], {}, "tiny"), watermark)
            first = pool.submit(built_set, made, "rows", tmp_path / "first")
            wait([first], timeout=0.5)
        built, rows = first.result(timeout=60)
    again, same = built_set(made, "rows", tmp_path / "again", as_of=built.watermark)
    assert built.tables == again.tables and built.tables["tables/small.trajectories.parquet"] == 6
    assert rows == same


def test_goals_are_in_one_split_each_and_evaluations_in_none(ledger: Ledger, tmp_path: Path) -> None:
    names = [f"goal{n}" for n in range(4)]
    for n, name in enumerate(names):
        made = conversing(ledger, tmp_path / name, name, window=(3.0, 9.0 - n // 2))
        made.talk(1, ["CCO"], purpose="campaign")
        made.talk(2, ["CCN"], purpose="evaluation")
        if n == 0:  # evidence is shared by the campaigns
            made.verify("CCO", 5.0)
            made.verify("CCN", 5.0)
    made.verify("CCC", 5.0)  # a turn counts when evidence has come after it
    built = build(ledger, DatasetSettings(kind="sft", campaigns=names, test_campaigns=["goal3"]), tmp_path / "set")
    assert built.tasks == {"train": 1, "test": 1}
    rows = {split: pq.read_table(tmp_path / "set" / f"{split}.parquet").to_pylist() for split in built.rows}
    assert {row["campaign"] for row in rows["train"]} == {"goal0"}, "goal1 has the same goal and the same molecule"
    assert {row["campaign"] for row in rows["test"]} == {"goal2"}
    assert {row["episode"] for split in rows.values() for row in split} == {1}
    assert built.left_out["episodes: made to evaluate a model"] == 4


def test_the_card_says_what_is_in_it(made: Conversing, tmp_path: Path) -> None:
    built, _ = built_set(made, "sft", tmp_path / "sft", license="CC-BY-4.0", command="sciagent dataset build sft")
    card = (tmp_path / "sft" / "README.md").read_text(encoding="utf-8")
    assert card.startswith("---\nlicense: CC-BY-4.0\nconfigs:\n- config_name: default\n")
    for part in ("sciagent dataset build sft", "| train | 1 | 2 |", f"watermark {built.watermark}", "| tiny@0 |"):
        assert part in card
    assert "| turns: proposed nothing new | 1 |" in card and "`skill` has the skills" in card


def test_mistakes_are_named_and_leave_nothing_behind(made: Conversing, tmp_path: Path) -> None:
    full = tmp_path / "full"
    full.mkdir()
    (full / "mine.txt").write_text("mine")
    with pytest.raises(UsageError, match="is not empty"):
        built_set(made, "sft", full)
    with pytest.raises(UsageError, match="lies in the future"):
        built_set(made, "sft", tmp_path / "new", as_of=10**6)
    with pytest.raises(UnknownNameError, match="did you mean"):
        build(made.ledger, DatasetSettings(kind="sft", campaigns=["smal"]), tmp_path / "new")
    with pytest.raises(UnknownNameError):
        built_set(made, "rows", tmp_path / "new", rewards=[17])
    assert not (tmp_path / "new").exists() and [path.name for path in full.iterdir()] == ["mine.txt"]
    assert not list(tmp_path.glob(".dataset-*"))


def _trajectories(connection: Any) -> list[tuple[int, int]]:
    from sciagent.store.database import tables as t

    return [
        (number, id_)
        for number, id_ in connection.execute(
            t.trajectory.select().with_only_columns(t.trajectory.c.number, t.trajectory.c.id)
        )
    ]


def test_what_a_gate_threw_out_is_not_called_worth_less(made: Conversing, tmp_path: Path) -> None:
    made.talk(3, ["CCCl"])
    made.check("CCCl")
    made.order("CCCl", XTB)
    made.answer("CCCl", XTB, {"homo_lumo_gap": 50.0})  # beyond the gate
    built, _ = built_set(made, "sft", tmp_path / "sft", at_least=0)
    assert built.left_out["turns: thrown out by the ladder"] == 1
    assert not any("worth less" in why for why in built.left_out)
