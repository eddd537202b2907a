"""What the loop of episodes takes beside the model's own time, and whether its memory grows.

    python -m benchmarks.agent.overhead --out benchmarks/agent/overhead.json

A real campaign, driver, ledger and endpoint; only the model is not one: a server in a process of its own that answers
each question after a fixed time with a call of `propose`. 16 episodes go on at once. Overhead: the clock over turns /
16 x that time, less 1. For the memory the server answers at once, for 1,000 episodes of two turns.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import tempfile
import time
from itertools import count, product
from pathlib import Path
from typing import Any

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_name] = "1"

CAMPAIGN = """
campaign: loop
subject: molecule
objectives: [{{property: logp, max: 5}}]
ladder:
  - {{rung: checks, verifier: molecule.checks, settings: {{descriptors: [logp]}}}}
goal: {{kind: graded}}
budget: {{proposals: {proposals}}}
proposer: {{kind: llm, model: m, endpoint: "{url}", turns: {turns}, episodes: {episodes}, ahead: 1000}}
scheduler: {{kind: exhaustive}}
workers: 1
safety: {{screen: false, reason: molecules are invented}}
"""
ENDS = ("", "C", "CC", "F", "Cl", "O", "N", "OC", "C#N", "C=O", "C(F)(F)F", "S")


def serve(seconds: float, pipe: Any) -> None:
    """Answers each question after so many seconds with the next of many molecules."""
    import threading

    from tests.support.chat_server import ChatServer, answer

    texts = (f"c1{_group(a)}c{_group(b)}c{_group(c)}c{_group(d)}cc1" for a, b, c, d in product(ENDS, repeat=4))
    numbers, lock, server = count(), threading.Lock(), ChatServer()

    def respond(body: dict[str, Any], n: int) -> tuple[int, Any]:
        server.bodies.clear()
        with lock:
            text, number = next(texts), next(numbers)
        time.sleep(seconds)
        function = {"name": "propose", "arguments": json.dumps({"smiles": text})}
        call = {"id": f"c{number}", "type": "function", "function": function}
        return 200, answer(None, finish="tool_calls", message={"tool_calls": [call]})

    server.respond = respond
    pipe.send(server.url)
    pipe.recv()


def _group(text: str) -> str:
    return f"({text})" if text else ""


def run(folder: Path, *, seconds: float, proposals: int, turns: int, episodes: int) -> dict[str, Any]:
    import psutil

    from sciagent.campaign.build import create_or_open
    from sciagent.campaign.driver import Driver
    from sciagent.campaign.load import parse_spec
    from sciagent.store.ledger import Ledger

    ours, theirs = multiprocessing.Pipe()
    server = multiprocessing.get_context("spawn").Process(target=serve, args=(seconds, theirs), daemon=True)
    server.start()
    url = ours.recv()
    text = CAMPAIGN.format(url=url, proposals=proposals, turns=turns, episodes=episodes)
    ledger = Ledger(str(folder / "sciagent.db"))
    driver = Driver(create_or_open(ledger, parse_spec(text, base=folder), text, "benchmark")[0])
    me, held, began = psutil.Process(), list[tuple[int, float]](), [0.0, 0.0]

    def step() -> None:
        if not began[0] and driver._proposals:  # what is loaded once is not the loop's
            began[:] = time.perf_counter(), time.process_time()
        if not held or driver._proposals >= held[-1][0] + proposals // 20:
            held.append((driver._proposals, round(me.memory_info().rss / 1e6, 1)))

    with driver:
        state = driver.run(step)
    wall, cpu = time.perf_counter() - began[0], time.process_time() - began[1]
    server.terminate()
    turns_made = driver._proposals
    ledger.close()
    return {
        "state": str(state), "turns": turns_made, "seconds": round(wall, 2), "cpu": round(cpu, 2),
        "cpu_ms_a_turn": round(1000 * cpu / max(turns_made, 1), 2), "rss_mb": held,
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--answer", type=float, default=2.0, help="seconds of an answer")
    parser.add_argument("--turns", type=int, default=320)
    parser.add_argument("--episodes", type=int, default=1000)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="sciagent-loop-") as one, tempfile.TemporaryDirectory() as two:
        loop = run(Path(one), seconds=given.answer, proposals=given.turns, turns=10, episodes=16)
        ideal = loop["turns"] / 16 * given.answer
        memory = run(Path(two), seconds=0.0, proposals=2 * given.episodes, turns=2, episodes=16)
    found = {
        "at": time.strftime("%Y-%m-%d", time.gmtime()), "answer_seconds": given.answer, "at_once": 16,
        "loop": loop | {"ideal_seconds": ideal, "overhead": round(loop["seconds"] / ideal - 1, 4)},
        "memory": memory,
    }  # fmt: skip
    text = json.dumps(found, indent=1)
    print(text)  # noqa: T201
    if given.out:
        given.out.write_text(text + "\n")


if __name__ == "__main__":
    main()
