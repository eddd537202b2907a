"""What a model sampled comes back from the ledger: its calls, its training rows, and how likely each token was, also
after the campaign went on under another driver."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from sciagent.agent.install_and_find_models import add_folder
from sciagent.agent.policies.local_model import LocalPolicy
from sciagent.agent.turns_to_token_rows import behaviour_of, linearise, recorded_calls
from sciagent.campaign.core.create_and_open import create_or_open, open_stored
from sciagent.campaign.driving.driver import Driver
from sciagent.campaign.file.campaign_spec import parse_spec
from sciagent.store.campaign_state import proposer_trajectories
from sciagent.store.database import tables as t
from sciagent.store.database.ledger import Ledger
from sciagent.store.learning import policies_and_roles
from tests.support.tiny_model import write_tiny_model

CONTEXT = 8192
TEXT = """
campaign: talking
subject: molecule
seed: 1
objectives: [{{property: logp, max: 5}}]
ladder: [{{rung: quick, verifier: bad.quick}}]
goal: {{kind: graded}}
budget: {{proposals: 40, llm_tokens: {tokens}}}
proposer:
  {{kind: llm, model: tiny, turns: 3, episodes: 2, max_tokens: 60, tools: [modify, best], context: 8000, {more}}}
scheduler: {{kind: exhaustive}}
workers: 1
"""


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SCIAGENT_MODELS", str(tmp_path_factory.mktemp("models")))
        folder = write_tiny_model(tmp_path_factory.mktemp("tiny") / "tiny", context=CONTEXT)
        yield add_folder(folder, "tiny", lambda text: None).name


@pytest.mark.parametrize(("more", "tokens"), [("temperature: 0.7", 9_000), ("structured: false", 20_000)])
def test_every_turn_comes_back_as_it_was_sampled(
    ledger: Ledger, tmp_path: Path, tiny: str, more: str, tokens: int
) -> None:
    text = TEXT.format(tokens=tokens, more=more)
    driver = Driver(create_or_open(ledger, parse_spec(text, base=tmp_path), text, "test").built)
    u = t.turn.c

    def n_turns() -> int:
        with ledger.read() as connection:
            return int(connection.execute(sa.select(sa.func.count(u.id))).scalar_one())

    with driver:
        driver.run(lambda: driver.request_stop() if n_turns() >= 3 else None)
    before = n_turns()
    with Driver(open_stored(ledger, "talking", "test").built) as again:
        again.run()
    assert n_turns() > before >= 3
    policy, compared = LocalPolicy(tiny, device="cpu"), 0
    with ledger.read() as connection:
        ids = connection.execute(sa.select(u.trajectory_id).distinct().order_by(u.trajectory_id)).scalars().all()
        for id_ in ids:
            rows, calls = proposer_trajectories.turns(connection, id_), recorded_calls(connection, id_)
            assert [call.turn for call in calls] == [row["number"] for row in rows]
            for row, call in zip(rows, calls, strict=True):
                assert row["untrainable"] is None and call.behaviour is not None
                assert len(call.prompt_ids) == row["sampling"]["prompt_tokens"]
                tools = policies_and_roles.tool_set_content(connection, row["tool_set_id"])
                assert tools["structured"] == row["sampling"]["grammar"] == ("structured" not in more)
                assert behaviour_of(policy, call, row["sampling"], tools) == pytest.approx(call.behaviour, abs=1e-4)
                compared += len(call.output_ids)
            found = linearise(calls)
            assert sum(sum(row.sampled) for row in found.rows) == sum(len(call.output_ids) for call in calls)
            known = [chance for row in found.rows for chance in row.behaviour if chance is not None]
            assert sorted(known) == sorted(chance for call in calls for chance in call.behaviour or ())
        [(base, adapter)] = connection.execute(sa.select(t.policy.c.base_sha256, t.policy.c.adapter_sha256)).all()
        assert base == policy.identity("").base_sha256 and adapter is None
    policy.close()
    assert compared > 100
