"""What is asked of a server about adapters, over HTTP."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from sciagent.agent.install_and_find_models import ModelError
from sciagent.agent.serving.load_adapters_and_served_model_cards import (
    ServedCard,
    adapter_sha256,
    keep_card,
    load_adapter,
    loaded_adapters,
    served_card,
    unload_adapter,
)
from sciagent.domain.policy_identity import PolicyIdentity
from sciagent.errors import UsageError


class Fake:
    """Keeps adapters as vLLM does; `refuse`: a status and what is sent with it, for all that is posted."""

    def __init__(self) -> None:
        self.there: dict[str, str] = {}
        self.asked: list[tuple[str, dict[str, Any], str | None]] = []
        self.refuse: tuple[int, str] | None = None
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                rows = [{"id": "base"}, *({"id": name, "parent": "base"} for name in outer.there)]
                self._send(200, json.dumps({"data": rows}))

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                outer.asked.append((self.path, body, self.headers.get("Authorization")))
                if outer.refuse:
                    return self._send(*outer.refuse)
                if "unload" in self.path:
                    outer.there.pop(body["lora_name"])
                else:
                    outer.there[body["lora_name"]] = body["lora_path"]
                self._send(200, "Success")

            def _send(self, status: int, text: str) -> None:
                self.send_response(status)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text.encode())

            def log_message(self, *given: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/v1"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture
def fake() -> Iterator[Fake]:
    found = Fake()
    yield found
    found.server.shutdown()
    found.server.server_close()


@pytest.fixture(autouse=True)
def _own_models(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCIAGENT_MODELS", str(tmp_path_factory.mktemp("models")))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "adapter_config.json").write_text('{"r": 4}')
    (tmp_path / "adapter_model.safetensors").write_bytes(b"")
    return tmp_path


def test_an_adapter_is_loaded_replaced_and_unloaded(fake: Fake, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VLLM_API_KEY", "secret")
    served = load_adapter(fake.url, "policy-1", folder)
    assert served == f"policy-1@{adapter_sha256(folder)[:8]}"
    assert load_adapter(fake.url, "policy-1", folder) == load_adapter(fake.url, served, folder) == served
    assert loaded_adapters(fake.url) == {served: "base"}
    assert unload_adapter(fake.url, "policy-1") == served
    assert loaded_adapters(fake.url) == {}
    assert [path for path, *_ in fake.asked] == ["/v1/load_lora_adapter", "/v1/unload_lora_adapter"]
    assert Path(fake.asked[0][1]["lora_path"]).is_absolute() and fake.asked[0][2] == "Bearer secret"


def test_a_name_never_changes_its_weights(fake: Fake, folder: Path) -> None:
    first = load_adapter(fake.url, "policy-1", folder)
    (folder / "adapter_model.safetensors").write_bytes(b"more")
    second = load_adapter(fake.url, "policy-1", folder)
    assert second != first and set(loaded_adapters(fake.url)) == {first, second}
    with pytest.raises(UsageError, match="a name cannot change its weights"):
        load_adapter(fake.url, first, folder)
    with pytest.raises(UsageError, match="several adapters called policy-1"):
        unload_adapter(fake.url, "policy-1")
    assert unload_adapter(fake.url, first) == first and set(loaded_adapters(fake.url)) == {second}


def test_the_card_of_an_adapter_has_the_weights_of_its_base(fake: Fake, folder: Path) -> None:
    keep_card(ServedCard(name="base", base_sha256="b" * 64, template_sha256="c" * 64))
    card = served_card(load_adapter(fake.url, "policy-1", folder))
    assert card is not None and (card.base_sha256, card.template_sha256) == ("b" * 64, "c" * 64)
    assert card.adapter_sha256 == adapter_sha256(folder)
    known = PolicyIdentity("any", "anywhere", "b" * 64, card.adapter_sha256)
    assert card.name == f"policy-1@{known.hash[:8]}"
    with pytest.raises(UsageError, match="other weights were served as base"):
        keep_card(ServedCard(name="base", base_sha256="d" * 64))
    assert served_card("stranger") is None


@pytest.mark.parametrize(
    ("refuse", "said"),
    [
        ((404, '{"detail": "Not Found"}'), "serve-model"),
        ((404, '{"error": {"message": "The lora adapter x cannot be found."}}'), "cannot be found"),
        ((400, '{"error": {"message": "rank 64 is too high for LoRA"}}'), "400: .*rank 64"),
        ((500, "oops"), "500: oops"),
    ],
)
def test_what_the_server_refuses_is_told(fake: Fake, folder: Path, refuse: Any, said: str) -> None:
    fake.refuse = refuse
    with pytest.raises(ModelError, match=said):
        unload_adapter(fake.url, "x")


@pytest.mark.parametrize("status", [400, 404, 500])
def test_a_key_that_a_server_repeats_is_struck_out(
    fake: Fake, folder: Path, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    monkeypatch.setenv("VLLM_API_KEY", "sk-tell-nobody")
    fake.refuse = status, '{"error": {"message": "lora: the key sk-tell-nobody is wrong"}}'
    with pytest.raises(ModelError, match=r"the key \[secret\] is wrong"):
        load_adapter(fake.url, "x", folder)
    fake.there = {"sk-tell-nobody": "adapter"}
    assert loaded_adapters(fake.url) == {"[secret]": "base"}


def test_a_server_that_is_not_there_is_told(folder: Path) -> None:
    with pytest.raises(ModelError, match="did not answer"):
        load_adapter("http://127.0.0.1:9/v1", "x", folder)
    for wrong in ("file:///etc/passwd", "127.0.0.1:8000"):
        with pytest.raises(UsageError, match="no endpoint"):
            unload_adapter(wrong, "x")
