"""The ladder as TRL takes it: methods with schemas, openings and rewards; and a step of TRL itself."""

from __future__ import annotations

import inspect
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import mean
from typing import Any

import pytest

from sciagent.agent.conversation_and_asking import SYSTEM
from sciagent.rewards.publish_versions import publish
from sciagent.rewards.reward_spec import load_rewards
from sciagent.rewards.show_and_compare_versions import show
from sciagent.store.database.ledger import Ledger
from sciagent.training.environment.environment import Environment
from sciagent.training.environment.trl_environment import TrlLadder
from tests.support.environments import TRL, interpreter, run
from tests.support.tiny_model import write_tiny_model
from tests.training.environment.served import FAST, PAID, trajectories

Serve = Callable[..., Environment]
SQLITE = pytest.mark.parametrize("backend", ["sqlite"], indirect=True)


@pytest.fixture
def ladder(serve: Serve) -> Iterator[TrlLadder]:
    with serve() as environment:
        yield TrlLadder(environment, 2, wait=20.0, policy="mine@1")


def tools(of: Any) -> dict[str, Any]:
    """The tools as TRL finds them."""
    members = inspect.getmembers(type(of), inspect.isfunction)
    return {
        name: getattr(of, name)
        for name, _ in members
        if not name.startswith("_") and name not in ("reset", "get_reward")
    }


@SQLITE
def test_transformers_makes_the_schemas_of_the_tools_again(ladder: TrlLadder) -> None:
    from transformers.utils import get_json_schema

    offered = {schema["function"]["name"]: schema["function"] for schema in ladder.environment.tools()}
    made = {name: get_json_schema(tool)["function"] for name, tool in tools(ladder()).items()}
    assert set(made) == set(offered)
    for name, ours in offered.items():
        assert made[name]["description"] == ours["description"]
        fields, known = made[name]["parameters"]["properties"], ours["parameters"]["properties"]
        assert list(fields) == list(known)
        for field, schema in known.items():
            [kind] = [each for each in schema.get("anyOf", [schema]) if each["type"] != "null"]
            assert (fields[field]["type"], fields[field].get("enum")) == (kind["type"], kind.get("enum"))
            assert fields[field].get("nullable", False) == ("anyOf" in schema)
            assert schema.get("description", "") in fields[field]["description"]


@SQLITE
def test_siblings_begin_alike_and_are_rewarded_by_the_ladder(ladder: TrlLadder) -> None:
    [row, _] = ladder.prompts(2)
    assert row["prompt"] == [{"role": "system", "content": SYSTEM}, {"role": "user", "content": ""}]
    first, second = ladder(), ladder()
    opening = first.reset(**row)
    assert opening.startswith("Wanted: 1 ≤ logp ≤ 2.") and second.reset(**row) == opening
    assert first.propose(smiles="CCCCO") == "new #3: CCCCO [e4afbc21], settled"
    assert second.propose(smile="CCCCO").startswith("error: smiles: missing"), "the ladder answers wrong arguments"
    assert second.finish(reason="enough") == "finished"
    assert "has ended: finished by the model" in second.propose(smiles="CCCCO")
    assert first.get_reward() == pytest.approx(0.6425, abs=1e-3) and second.get_reward() == pytest.approx(0, abs=1e-3)
    again = first.reset(**ladder.prompts(1, "evaluation")[0])
    assert "CCCCO" in again, "a later group sees what was found"
    assert first.reset().startswith(SYSTEM), "a data set without prompts: the environment states all of it"


@SQLITE
def test_an_undecided_episode_has_no_reward(serve: Serve) -> None:
    with serve(PAID, workers=1) as environment:
        episode = TrlLadder(environment, 1, wait=0.0)()
        episode.reset(task=0)
        episode.propose(smiles="CCCO")
        assert episode.get_reward() is None


@SQLITE
def test_siblings_that_wait_for_their_reward_are_not_left_by_their_client(serve: Serve, ledger: Ledger) -> None:
    with serve(PAID, workers=1) as environment:
        ladder = TrlLadder(environment, 2, wait=30.0)
        first, second = ladder(), ladder()
        for episode, smiles in ((first, "CCCO"), (second, "CCCN")):
            episode.reset(task=0)
            episode.propose(smiles=smiles)
        assert first.get_reward() is not None and environment.n_open == 0
        assert second.get_reward() is not None
    assert set(trajectories(ledger).values()) == {("complete", "ended by the client")}


@pytest.mark.long
def test_trl_trains_on_the_ladder(migrated_sqlite: Path, tmp_path: Path) -> None:
    shutil.copy(migrated_sqlite, tmp_path / "sciagent.db")
    (tmp_path / "molecules.csv").write_text("smiles\nCO\nCCO\n", encoding="utf-8")
    few = "{kind: llm, model: any, seeds: molecules.csv, tools: [propose]}"
    text = FAST.replace("{kind: screen, file: molecules.csv}", few)
    (tmp_path / "ladder.yaml").write_text(text, encoding="utf-8")
    (tmp_path / "rewards.yaml").write_text("prices: {core_seconds: 1.0e-4}\nunsettled: settled\n", encoding="utf-8")
    model = str(write_tiny_model(tmp_path / "model"))
    printed = run(interpreter("trl", *TRL), "-m", "tests.support.trl_ladder", model, folder=tmp_path)
    told = json.loads(printed.splitlines()[-1])
    assert told["moved"] and told["logged"]["tools/call_frequency"] > 0 and told["logged"]["reward_std"] > 0
    ledger = Ledger(str(tmp_path / "sciagent.db"), artifacts=tmp_path / "sciagent-artifacts")
    published = publish(ledger, "rolled", load_rewards(tmp_path / "rewards.yaml"))
    episodes = show(ledger, published.version).episodes
    outcomes = [each.outcome for each in episodes if each.group == max(other.group or 0 for other in episodes)]
    assert {each.policy for each in episodes} == {None, "taught@0"}, "an episode without a turn has no policy"
    assert len(outcomes) == 8 and told["logged"]["rewards/Ladder/mean"] == pytest.approx(mean(outcomes), abs=1e-5)
