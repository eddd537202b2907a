"""A server that answers as OpenAI's does, over HTTP, and misbehaves when it is told to."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Respond = Callable[[dict[str, Any], int], tuple[int, Any]]


class _Server(ThreadingHTTPServer):
    request_queue_size = 128  # many ask at once; with the default of 5 connections were reset


class ChatServer:
    """respond: the body asked and its number, to a status and what is sent; None: the connection is cut half way."""

    def __init__(self) -> None:
        self.bodies: list[dict[str, Any]] = []
        self.respond: Respond = lambda body, n: (200, answer("done"))
        self.headers: dict[str, str] = {}  # further headers of each answer
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                outer.bodies.append(body)
                status, sent = outer.respond(body, len(outer.bodies))
                whole = (sent if isinstance(sent, str) else json.dumps(sent)).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(whole) + (status == 299)))
                for name, value in outer.headers.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(whole)  # of 299 one byte is missing, and the connection is closed

            def log_message(self, *given: Any) -> None:
                pass

        self._server = _Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1"
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def answer(content: str | None, **more: Any) -> dict[str, Any]:
    message = {"role": "assistant", "content": content, **more.pop("message", {})}
    choice = {"index": 0, "message": message, "finish_reason": more.pop("finish", "stop"), **more.pop("choice", {})}
    usage = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}
    return {
        "id": "x",
        "object": "chat.completion",
        "created": 0,
        "model": "m-1",
        "choices": [choice],
        "usage": usage,
        **more,
    }


def calls(*given: tuple[str, dict[str, Any]], n: int = 1, ids: bool = True) -> dict[str, Any]:
    """An answer that calls tools, with the tokens that it was made of."""
    made = [
        {"id": f"c{n}-{i}", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
        for i, (name, arguments) in enumerate(given)
    ]
    if not ids:
        return answer(None, finish="tool_calls", message={"tool_calls": made})
    logprobs = {"content": [{"token": "x", "logprob": -0.25, "bytes": None, "top_logprobs": []}] * 2}
    return answer(
        None,
        finish="tool_calls",
        message={"tool_calls": made},
        choice={"logprobs": logprobs, "token_ids": [n, n + 1]},
        prompt_token_ids=list(range(100, 100 + 3 * n)),
    )
