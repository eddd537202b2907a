"""Live training that samples by a server: which adapters it has, and what it refuses."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa
import torch

from sciagent import Campaign
from sciagent.agent import install_and_find_models as models
from sciagent.agent.messages_sampling_and_policy_client import EpisodeQuestion, Message, PolicyError, Sampling
from sciagent.agent.policies.batched_policies import BatchPolicy
from sciagent.agent.policies.schema_tokens import unpacked
from sciagent.domain.policy_identity import PolicyIdentity
from sciagent.errors import UsageError
from sciagent.store.database import tables as t
from sciagent.training.command_answers import TrainedStep
from sciagent.training.learner.learner_rows_and_rendered_conversations import AnswerSpan
from sciagent.training.learner.load_and_publish import LoadedModel, load
from sciagent.training.learner.training_step import Learner
from sciagent.training.live.live_run import train_live
from sciagent.training.live.sampling_engines import ServedEngine, identity_of
from sciagent.training.settings import LearnerSettings, LiveSettings, TaskShare
from tests.support.adapter_server import AdapterServer

SCHEMA = {
    "type": "object",
    "properties": {"n": {"enum": [1, 2, 3, 14]}, "why": {"enum": ["small", "large"]}},
    "required": ["n", "why"],
    "additionalProperties": False,
}


@pytest.fixture(scope="module")
def server(tiny: str) -> Iterator[AdapterServer]:
    running = AdapterServer(tiny)
    yield running
    running.close()


@pytest.fixture
def loaded(tiny: str) -> LoadedModel:
    torch.set_num_threads(1)
    return load(tiny, rank=4, seed=1)


@pytest.fixture
def learner(loaded: LoadedModel) -> Learner:
    return Learner(loaded.model, LearnerSettings(), allowed=loaded.grammars.allowed)


def change(loaded: LoadedModel, by: float) -> None:
    """Changes the adapter as a training step would."""
    with torch.no_grad():
        for weights in loaded.model.parameters():
            if weights.requires_grad:
                weights.add_(by)


def of(loaded: LoadedModel, name: str) -> PolicyIdentity:
    return identity_of(loaded, loaded.model, name)


def behaviour(policy: BatchPolicy, sampling: Sampling) -> tuple[list[int], tuple[float, ...]]:
    """Returns prompt and answer, and the log-probabilities of the answer, by the server."""
    [found] = policy.answers([EpisodeQuestion([Message("user", "A number, please.")], [], sampling)])
    assert not isinstance(found, PolicyError), found
    assert found.tokens is not None and found.tokens.behaviour is not None and found.untrainable is None
    assert found.policy == policy.name
    return [*found.tokens.prompt_ids, *found.tokens.output_ids], found.tokens.behaviour


def test_each_version_is_asked_by_its_content_and_old_ones_are_unloaded(
    server: AdapterServer, loaded: LoadedModel, learner: Learner, tmp_path: Path
) -> None:
    engine = ServedEngine(server.url, "better", tmp_path / "adapters", versions=2)
    names, salts = [], set()
    for version in range(3):
        change(loaded, 0.05)
        policy = engine.policy(learner, loaded, of(loaded, "better"))
        ids, drawn = behaviour(policy, Sampling(0.7, 12, seed=version))
        with torch.no_grad():
            logits = loaded.model(input_ids=torch.tensor([ids[:-1]])).logits[0, -len(drawn) :]
        table = torch.log_softmax(logits / 0.7, -1)
        again = table.gather(-1, torch.tensor(ids[-len(drawn) :])[:, None])[:, 0]
        assert torch.allclose(again, torch.tensor(drawn), atol=1e-4), "the server has the learner's weights"
        salts.add(server.asked[-1]["cache_salt"])
        identity = policy.identity(policy.name)
        assert identity.base_sha256 == loaded.card.sha256 and policy.name == f"better@{identity.hash[:8]}"
        names.append(policy.name)
    assert len(set(names)) == len(salts) == 3
    assert set(server.adapters) == set(names[1:]) == {path.name for path in (tmp_path / "adapters").iterdir()}
    engine.close()
    assert not server.adapters and not list((tmp_path / "adapters").iterdir())


def test_what_a_killed_run_left_is_unloaded_and_equal_weights_have_one_name(
    server: AdapterServer, loaded: LoadedModel, learner: Learner, tmp_path: Path
) -> None:
    def asked(folder: str, model: LoadedModel, learner: Learner) -> BatchPolicy:
        engine = ServedEngine(server.url, "killed", tmp_path / folder)
        return engine.policy(learner, model, of(model, "killed"))

    first = asked("one", loaded, learner)
    change(loaded, 0.1)
    second = asked("one", loaded, learner)
    assert first.name not in server.adapters
    whole = load(loaded.card.name, rank=4, seed=1)
    again = asked("other", whole, Learner(whole.model, LearnerSettings()))
    assert again.name == first.name, "the folder and the process do not count"
    assert {name for name in server.adapters if name.startswith("killed@")} == {again.name}
    for policy in (first, second, again):
        policy.close()


def test_a_grammar_of_the_server_allows_what_the_trainer_computes(
    server: AdapterServer, loaded: LoadedModel, learner: Learner, tmp_path: Path
) -> None:
    change(loaded, 0.05)
    policy = ServedEngine(server.url, "held", tmp_path / "adapters").policy(learner, loaded, of(loaded, "held"))
    ids, drawn = behaviour(policy, Sampling(1.0, 40, seed=3, schema=SCHEMA))
    span = AnswerSpan(len(ids) - len(drawn), len(ids), 1.0, json.dumps(SCHEMA))
    bits = torch.from_numpy(loaded.grammars.allowed(span, ids[-len(drawn) :]))
    with torch.no_grad():
        logits = loaded.model(input_ids=torch.tensor([ids[:-1]])).logits[0, -len(drawn) :]
    table = torch.log_softmax(logits.masked_fill(~unpacked(bits, logits.shape[-1]), -torch.inf), -1)
    again = table.gather(-1, torch.tensor(ids[-len(drawn) :])[:, None])[:, 0]
    assert torch.allclose(again, torch.tensor(drawn), atol=1e-4)
    policy.close()


def test_a_server_that_cannot_be_trained_with_is_refused(
    tiny: str, loaded: LoadedModel, learner: Learner, tmp_path: Path
) -> None:
    raw = AdapterServer(tiny, is_trainable=False)
    other = ServedEngine(raw.url, "x", tmp_path / "x")
    with pytest.raises(UsageError, match=r"nats from those of the policy(.|\n)*--trainable"):
        other.policy(learner, loaded, of(loaded, "x"))
    raw.name = "stranger"
    with pytest.raises(UsageError, match=f"serves stranger, not {tiny}@"):
        other.policy(learner, loaded, of(loaded, "x"))
    raw.close()


CAMPAIGN = """
campaign: served
subject: molecule
seed: 1
objectives: [{property: logp, window: [1, 2]}]
ladder: [{verifier: molecule.checks, settings: {descriptors: [logp]}}]
goal: {kind: hits}
budget: {proposals: 1000}
proposer: {kind: llm, model: tiny, seeds: molecules.csv, max_tokens: 80, tools: [modify]}
"""


@pytest.mark.long
def test_a_run_whose_answers_a_server_samples_masks_nothing(server: AdapterServer, tmp_path: Path) -> None:
    (tmp_path / "molecules.csv").write_text("smiles\nCO\nCCO\nc1ccccc1\n", encoding="utf-8")
    (tmp_path / "rewards.yaml").write_text("prices: {llm_tokens: 0.0001}\nunsettled: settled\n", encoding="utf-8")
    (file := tmp_path / "served.yaml").write_text(CAMPAIGN, encoding="utf-8")
    ledger = Campaign.from_yaml(file, tmp_path / "ledger.db").ledger.store
    run_settings = LiveSettings(
        tasks=(TaskShare(file=file),),
        model="tiny",
        out=tmp_path / "run",
        name="sent",
        rewards=tmp_path / "rewards.yaml",
        threads=1,
    )
    run_settings = run_settings.with_changes(steps=2, groups=1, siblings=3, turns=2, lora=4, endpoint=server.url)
    told: list[TrainedStep] = []
    n = len(server.asked)
    answer = train_live(run_settings.with_changes(learning_rate=0.01), ledger, lambda step, of: told.append(step))
    assert answer.steps == 2 and [step.masked for step in told] == [0.0, 0.0]
    assert told[0].policy != told[1].policy and {step.policy for step in told} <= {
        body["model"] for body in server.asked[n:]
    }
    with ledger.read() as connection:
        rows = connection.execute(sa.select(t.policy.c.name, t.policy.c.source, t.policy.c.base_sha256)).all()
    trained = [row for row in rows if row.name.startswith("sent@") and row.base_sha256 == models.find("tiny").sha256]
    assert {row.name for row in trained} >= {step.policy for step in told}, "one row a version, server or not"
    assert len({row.name for row in trained}) == len(trained)
    assert not [name for name in server.adapters if name.startswith("sent@")], "the run unloads its adapters"
