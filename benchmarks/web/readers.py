"""People who look at pages, each with a browser, in a process of their own: `python -m benchmarks.web.readers ADDRESS
COOKIE FILE-OF-KEYS USERS SECONDS` prints what they found as JSON. A line `off` on standard input lets them rest, any
other one lets them go on."""

from __future__ import annotations

import json
import random
import re
import statistics
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import httpx2

NAME = "crowd"  # the campaign with many candidates
THINK = 2.0  # seconds, on the average, that a reader looks at a page
ARRIVAL = 10.0  # seconds in which all of them come, each with a new browser; their pages are counted apart


@dataclass
class Times:
    """Milliseconds of each page, and the ages of figures in seconds."""

    pages: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    ages: list[float] = field(default_factory=list)
    arriving: list[float] = field(default_factory=list)
    """Milliseconds of the pages while all of them come."""
    faults: int = 0
    going: threading.Event = field(default_factory=threading.Event)
    """Whether the readers read or rest."""


def read(address: str, cookie: str, keys: Sequence[str], users: int, seconds: float, told: Times) -> None:
    """Readers who look at one page after another, each in its own browser. seconds: after they have come."""
    come = time.monotonic() + ARRIVAL
    until = come + seconds

    def look(seed: int) -> None:
        chance = random.Random(seed)
        client = httpx2.Client(base_url=address, cookies={"sciagent": cookie}, timeout=60)
        time.sleep(chance.expovariate(1 / THINK))  # people do not come all at once
        tasks = re.findall(r'class="task" href="(/tasks/\d+)"', client.get("/tasks").text)
        while time.monotonic() < until:
            if not told.going.is_set():
                told.going.wait()
                time.sleep(chance.expovariate(1 / THINK))
            name, path = chance.choice(
                (
                    ("list", "/tasks"),
                    ("task", chance.choice(tasks)),
                    ("campaign", f"/campaigns/{NAME}"),
                    ("candidates", f"/campaigns/{NAME}/candidates?after={chance.randrange(len(keys) * 1000)}"),
                    ("candidate", f"/campaigns/{NAME}/candidates/{chance.choice(keys)}"),
                )
            )
            begun = time.perf_counter()
            reply = client.get(path)
            took = 1000 * (time.perf_counter() - begun)
            (told.pages[name] if time.monotonic() > come else told.arriving).append(took)
            told.faults += reply.status_code != 200
            if name == "campaign" and (at := re.search(r"As of (\d\d:\d\d:\d\d) UTC", reply.text)):
                now = datetime.now(UTC)
                then = datetime.strptime(at[1], "%H:%M:%S").replace(tzinfo=UTC)
                told.ages.append((now - then.replace(year=now.year, month=now.month, day=now.day)).total_seconds())
            time.sleep(chance.expovariate(1 / THINK))

    threads = [threading.Thread(target=look, args=(seed,)) for seed in range(users)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def obey(told: Times) -> None:
    """Lets readers rest and go on as the lines of standard input say, to its end."""
    for line in sys.stdin:
        told.going.clear() if line.strip() == "off" else told.going.set()


def quantiles(values: Sequence[float]) -> dict[str, float]:
    cuts = statistics.quantiles([*values, *values], n=20, method="inclusive")
    return {"n": len(values), "p50_ms": round(cuts[9], 1), "p95_ms": round(cuts[18], 1)}


def main() -> None:
    address, cookie, keys, users, seconds = sys.argv[1:]
    told = Times()
    told.going.set()
    threading.Thread(target=obey, args=(told,), daemon=True).start()
    read(address, cookie, Path(keys).read_text(encoding="utf-8").split(), int(users), float(seconds), told)
    pages = {page: quantiles(times) for page, times in sorted(told.pages.items())}
    pages["all"] = quantiles([each for times in told.pages.values() for each in times])
    pages["arriving"] = quantiles(told.arriving)
    found = pages | {"faults": told.faults, "oldest_figures_s": max(told.ages, default=None)}
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
