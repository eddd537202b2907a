"""A small server that samples from a real model and its adapters, by the requests that vLLM takes."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from sciagent.agent import install_and_find_models
from sciagent.agent.messages_sampling_and_policy_client import (
    EpisodeQuestion,
    Message,
    PolicyError,
    Sampled,
    Sampling,
    ToolCall,
)
from sciagent.agent.policies.local_model import LocalPolicy
from sciagent.agent.serving.load_adapters_and_served_model_cards import ServedCard, keep_card


class AdapterServer:
    """A model of `sciagent models` with its adapters, in this process."""

    def __init__(self, model: str, *, is_trainable: bool = True) -> None:
        """is_trainable: returns log-probabilities after temperature and grammar, as `serve-model --trainable` does."""
        card = install_and_find_models.find(model)
        self.model, self.is_trainable = model, is_trainable
        self.name = card.policy
        self.adapters: dict[str, str] = {}
        self.asked: list[dict[str, Any]] = []
        """Bodies of the requests for answers."""
        self._policies: dict[str, LocalPolicy] = {}
        self._lock = threading.Lock()
        keep_card(ServedCard(name=self.name, base_sha256=card.sha256, template_sha256=card.template_sha256))
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                rows = [{"id": outer.name}, *({"id": name, "parent": outer.name} for name in outer.adapters)]
                self._send(200, {"data": rows})

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                if self.path.endswith("/load_lora_adapter"):
                    outer.adapters[body["lora_name"]] = body["lora_path"]
                    self._send(200, "loaded")
                elif self.path.endswith("/unload_lora_adapter"):
                    outer.adapters.pop(body["lora_name"])
                    outer._policies.pop(body["lora_name"], None)
                    self._send(200, "unloaded")
                elif body["model"] not in {outer.name, *outer.adapters}:
                    self._send(404, {"error": {"message": f"no model {body['model']}"}})
                else:
                    self._send(200, outer.answer(body))

            def _send(self, status: int, content: Any) -> None:
                text = json.dumps(content).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, *given: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1"
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def answer(self, body: dict[str, Any]) -> dict[str, Any]:
        """Returns the answer to a request."""
        self.asked.append(body)
        schema = (body.get("response_format") or {}).get("json_schema", {}).get("schema")
        schema = {name: value for name, value in schema.items() if name != "x-guidance"} if schema else None
        sampling = Sampling(body["temperature"], body["max_tokens"], body.get("seed"), schema)
        question = EpisodeQuestion([_message(sent) for sent in body["messages"]], body.get("tools") or [], sampling)
        with self._lock:
            [found] = self._policy(body["model"]).sample_many([question])
        if isinstance(found, PolicyError):
            raise found
        return self._as_json(found, body["model"])

    def _policy(self, name: str) -> LocalPolicy:
        if name not in self._policies:
            policy = LocalPolicy(self.model)
            if name in self.adapters:
                from peft import PeftModel

                PeftModel.from_pretrained(policy.model, self.adapters[name]).merge_and_unload()  # in place
            self._policies[name] = policy
        return self._policies[name]

    def _as_json(self, found: Sampled, name: str) -> dict[str, Any]:
        tokens, message = found.tokens, found.message
        assert tokens is not None and tokens.behaviour is not None
        logprobs = tokens.behaviour if self.is_trainable else tokens.logprobs
        calls = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in message.calls
        ]
        choice = {
            "index": 0,
            "message": {"role": "assistant", "content": message.content, "tool_calls": calls},
            "finish_reason": "length" if found.finish == "length" else "stop",
            "token_ids": list(tokens.output_ids),
            "logprobs": {"content": [{"logprob": value} for value in logprobs]},
        }
        usage = {"prompt_tokens": found.prompt_tokens, "completion_tokens": found.output_tokens}
        return {"model": name, "prompt_token_ids": list(tokens.prompt_ids), "choices": [choice], "usage": usage}


def _message(sent: dict[str, Any]) -> Message:
    calls = tuple(
        ToolCall(call["id"], call["function"]["name"], call["function"]["arguments"])
        for call in sent.get("tool_calls") or ()
    )
    return Message(sent["role"], sent["content"] or "", calls=calls, call_id=sent.get("tool_call_id", ""))
