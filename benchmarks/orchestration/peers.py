"""No-op tasks through bare Celery, a process pool and Colmena; run by an interpreter that has them, without sciagent.

    PEERS/bin/python benchmarks/orchestration/peers.py celery|pool|colmena --redis-port PORT --jobs N --singles M

Prints JSON: seconds for all N tasks given at once, and the round trips of M tasks one after the other.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

PORT = int(os.environ.get("PEERS_REDIS_PORT", "0"))


def noop(number: int) -> int:
    return number


def celery_app() -> Any:
    from celery import Celery

    url = f"redis://127.0.0.1:{PORT}/0"
    app = Celery("peers", broker=url, backend=f"redis://127.0.0.1:{PORT}/1")
    app.conf.update(
        task_serializer="json",
        accept_content=["json"],
        result_serializer="json",
        worker_prefetch_multiplier=1,
        task_acks_late=False,
        worker_hijack_root_logger=False,
    )
    app.task(name="peers.noop")(noop)
    return app


def by_celery(n: int, singles: int) -> dict[str, Any]:
    command = [sys.executable, "-m", "celery", "-A", "peers:app", "worker", "-c", "2", "--loglevel=ERROR",
               "--without-gossip", "--without-mingle"]  # fmt: skip
    here = Path(__file__).resolve().parent
    worker = subprocess.Popen(command, cwd=here, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        task = celery_app().tasks["peers.noop"]
        task.delay(0).get(timeout=60)
        began = time.perf_counter()
        results = [task.delay(i) for i in range(n)]
        for one in results:
            one.get(timeout=600)
        seconds = time.perf_counter() - began
        trips = []
        for i in range(singles):
            began = time.perf_counter()
            task.delay(i).get(timeout=60)
            trips.append(time.perf_counter() - began)
        return {"seconds": seconds, "trips": trips}
    finally:
        worker.terminate()
        worker.wait()


def by_pool(n: int, singles: int) -> dict[str, Any]:
    with ProcessPoolExecutor(2) as pool:
        pool.submit(noop, 0).result()
        began = time.perf_counter()
        for one in [pool.submit(noop, i) for i in range(n)]:
            one.result()
        seconds = time.perf_counter() - began
        trips = []
        for i in range(singles):
            began = time.perf_counter()
            pool.submit(noop, i).result()
            trips.append(time.perf_counter() - began)
    return {"seconds": seconds, "trips": trips}


def by_colmena(n: int, singles: int) -> dict[str, Any]:
    from colmena.queue.redis import RedisQueues
    from colmena.task_server.local import LocalTaskServer

    queues = RedisQueues(topics=["noop"], hostname="127.0.0.1", port=PORT)
    server = LocalTaskServer(queues, [noop], threads=False, num_workers=2)
    server.start()
    try:
        queues.send_inputs(0, method="noop", topic="noop")
        queues.get_result("noop")
        began = time.perf_counter()
        for i in range(n):
            queues.send_inputs(i, method="noop", topic="noop")
        for _ in range(n):
            queues.get_result("noop")
        seconds = time.perf_counter() - began
        trips = []
        for i in range(singles):
            began = time.perf_counter()
            queues.send_inputs(i, method="noop", topic="noop")
            queues.get_result("noop")
            trips.append(time.perf_counter() - began)
        return {"seconds": seconds, "trips": trips}
    finally:
        queues.send_kill_signal()
        server.join(30)


def main() -> None:
    global PORT
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("celery", "pool", "colmena"))
    parser.add_argument("--redis-port", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1000)
    parser.add_argument("--singles", type=int, default=200)
    given = parser.parse_args()
    PORT = given.redis_port
    os.environ["PEERS_REDIS_PORT"] = str(PORT)
    found = {"celery": by_celery, "pool": by_pool, "colmena": by_colmena}[given.what](given.jobs, given.singles)
    print(json.dumps(found))  # noqa: T201


app = celery_app() if PORT and __name__ != "__main__" else None

if __name__ == "__main__":
    main()
