"""What the loop of episodes takes beside the model's own time, and whether its memory grows.

    python -m benchmarks.agent.overhead --out benchmarks/agent/overhead.json

A real campaign, driver, ledger and endpoint; only the model is not one: a server in a process of its own that answers
each question after a fixed time with a call of `propose`. 16 episodes of so many turns go on at once, from the first
question to the last turn in the ledger. Baseline, in the same run: 16 threads that ask the same server as often, one
question after another, by the same client, and do nothing with the answers. Overhead: the clock of the loop over that
of the baseline, less 1. For the memory the server answers at once, for 1,000 episodes of two turns.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
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
AT_ONCE = 16
ENDS = ("", "C", "CC", "F", "Cl", "O", "N", "OC", "C#N", "C=O", "C(F)(F)F", "S")


def serve(seconds: float, pipe: Any) -> None:
    """Answers each question after so many seconds with the next of many molecules."""
    import threading

    from tests.support.chat_server import ChatServer, calls

    texts = (f"c1{_group(a)}c{_group(b)}c{_group(c)}c{_group(d)}cc1" for a, b, c, d in product(ENDS, repeat=4))
    numbers = count()
    lock = threading.Lock()
    server = ChatServer()

    def respond(body: dict[str, Any], n: int) -> tuple[int, Any]:
        server.bodies.clear()
        with lock:
            text = next(texts)
            number = next(numbers)
        time.sleep(seconds)
        return 200, calls(("propose", {"smiles": text}), n=number, ids=False)

    server.respond = respond
    pipe.send(server.url)
    pipe.recv()


def _group(text: str) -> str:
    return f"({text})" if text else ""


@contextmanager
def server(seconds: float) -> Iterator[str]:
    """Its URL."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=serve, args=(seconds, theirs), daemon=True)
    process.start()
    try:
        yield ours.recv()
    finally:
        process.terminate()


def bare(url: str, questions: int) -> float:
    """Seconds that 16 threads take which only ask."""
    from sciagent.agent.messages_sampling_and_policy_client import Message, Sampling
    from sciagent.agent.policies.endpoint_requests_and_answers import EndpointPolicy

    policy = EndpointPolicy("m", url)

    def ask(_: int) -> None:
        told = [Message("user", "Propose a molecule.")]
        for _turn in range(questions):
            sampled = policy.sample(told, (), Sampling())
            told += [sampled.message, Message("tool", "ok", call_id=sampled.message.calls[0].id)]

    began = time.perf_counter()
    with ThreadPoolExecutor(AT_ONCE) as threads:
        list(threads.map(ask, range(AT_ONCE)))
    took = time.perf_counter() - began
    policy.close()
    return took


def run(folder: Path, url: str, *, proposals: int, turns: int) -> dict[str, Any]:
    """proposals: in all, one a turn; turns: of an episode."""
    import psutil

    from sciagent.campaign.core.create_and_open import create_or_open
    from sciagent.campaign.driving.driver import Driver
    from sciagent.campaign.file.campaign_spec import parse_spec
    from sciagent.store.database.ledger import Ledger

    text = CAMPAIGN.format(url=url, proposals=proposals, turns=turns, episodes=AT_ONCE)
    ledger = Ledger(str(folder / "sciagent.db"))
    driver = Driver(create_or_open(ledger, parse_spec(text, base=folder), text, "benchmark").built)
    me = psutil.Process()
    held = list[tuple[int, float]]()
    took = [0.0, 0.0]

    def step() -> None:
        took[:] = time.perf_counter() - began, time.process_time() - worked
        if not held or driver.intake.n_proposals >= held[-1][0] + proposals // 20:
            held.append((driver.intake.n_proposals, round(me.memory_info().rss / 1e6, 1)))

    with driver:
        began = time.perf_counter()
        worked = time.process_time()
        state = driver.run(step)  # its last step is the end; answers that nobody wants any more are not waited for
    ledger.close()
    wall, cpu = took
    return {
        "state": str(state),
        "turns": driver.intake.n_proposals,
        "seconds": round(wall, 2),
        "cpu": round(cpu, 2),
        "cpu_ms_a_turn": round(1000 * cpu / max(driver.intake.n_proposals, 1), 2),
        "rss_mb": held,
    }


def loop(seconds: float, turns: int) -> dict[str, Any]:
    """turns: of each of 16 episodes."""
    with tempfile.TemporaryDirectory(prefix="sciagent-loop-") as folder, server(seconds) as url:
        alone = [bare(url, turns)]
        found = run(Path(folder), url, proposals=AT_ONCE * turns, turns=turns)
        alone.append(bare(url, turns))
    baseline = sum(alone) / 2
    del found["rss_mb"]
    more = {"answer_seconds": seconds, "bare_seconds": round(baseline, 2)}
    return found | more | {"overhead": round(found["seconds"] / baseline - 1, 4)}


def memory(episodes: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="sciagent-loop-") as folder, server(0.0) as url:
        return run(Path(folder), url, proposals=2 * episodes, turns=2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--answers", type=float, nargs="+", default=[2.0, 5.0], help="seconds of an answer")
    parser.add_argument("--turns", type=int, default=12, help="of each of 16 episodes")
    parser.add_argument("--episodes", type=int, default=1000, help="over which the memory is watched")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    found = {
        "at": time.strftime("%Y-%m-%d", time.gmtime()),
        "at_once": AT_ONCE,
        "loops": [loop(seconds, given.turns) for seconds in given.answers],
        "memory": memory(given.episodes) if given.episodes else None,
    }
    text = json.dumps(found, indent=1)
    print(text)  # noqa: T201
    if given.out:
        given.out.write_text(text + "\n")


if __name__ == "__main__":
    main()
