"""`sciagent serve-model`, as it is typed."""

from __future__ import annotations

import pytest

from tests.support.typed import refused


def test_who_lets_others_in_needs_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VLLM_API_KEY", raising=False)
    assert "VLLM_API_KEY" in refused("serve-model", "any", "--host", "0.0.0.0", "--port", "0")


def test_an_adapter_is_named_with_its_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "write NAME=FOLDER" in refused("serve-model", "any", "--lora", "policy-1")
