"""Odd requests to every route: `python -m benchmarks.doors.fuzz -o benchmarks/doors/results`.

Each path is asked for all methods, as nobody, lab, chemist and administrator, in process. A path that is in the folder
of results is left out, so that an interrupted run goes on. The exit code is 1 if an answer has a status of 500 or more.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import re
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from starlette.testclient import TestClient

from sciagent.campaign.core.create_and_open import create_or_open, open_campaign_for_people
from sciagent.campaign.file.campaign_spec import parse_spec
from sciagent.domain.people import Role
from sciagent.lab import record_answers
from sciagent.store.database.ledger import Ledger
from sciagent.store.database.migrate_and_back_up import upgrade
from sciagent.store.lab import tasks
from sciagent.web import password_checks
from tests.lab.conftest import CAMPAIGN, drive
from tests.lab.test_record_answers import entry
from tests.support.odd_requests import Generator, Operation, Sender, answer, is_sendable, operations_by_path
from tests.support.served_pages import Browser, Server, every_page

VISITORS = ("nobody", "lab", "chemist", "admin")
MOLECULES = ("Oc1ccccc1", "Cc1ccccc1O", "Nc1ccccc1")


@dataclass
class Tally:
    """The answers to the requests to one path, counted."""

    path: str
    seed: int
    requests: int = 0
    seconds: float = 0.0

    def __post_init__(self) -> None:
        self.statuses = Counter[str]()
        self.causes = Counter[str]()
        self.examples: dict[str, str] = {}

    def as_json(self) -> Mapping[str, Any]:
        return {
            "path": self.path,
            "seed": self.seed,
            "requests": self.requests,
            "seconds": round(self.seconds, 1),
            "statuses": dict(sorted(self.statuses.items())),
            "server_errors": sum(self.causes.values()),
            "causes": dict(self.causes.most_common()),
            "examples": self.examples,
        }


@contextmanager
def senders(template: Path, names: Sequence[str] = VISITORS) -> Iterator[tuple[FastAPI, Sequence[Sender]]]:
    """The application on a copy of a ledger, and its visitors. template: a folder that `made_ledger` has filled."""
    password_checks.REFUSAL_SECONDS = 0.0
    # figures of campaigns may be counted in a thread for a moment longer
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name, ExitStack() as stack:
        folder = Path(name)
        shutil.copytree(template, folder, dirs_exist_ok=True)
        ledger = Ledger(str(folder / "ledger.db"), artifacts=folder / "artifacts")
        stack.callback(ledger.close)
        built = open_campaign_for_people(ledger, "gaps")
        app = every_page(ledger)
        server = Server(built, app)
        with ledger.read() as connection:
            open_tasks = tasks.listed(connection, limit=10)
        known = {
            "task": [str(number) for number in range(1, 4)],
            "campaign": ["gaps"],
            "name": ["gaps"],
            "key": [task.key for task in open_tasks],
            "submission": ["1", "2"],
            "number": ["0", "1"],
            "property": ["homo_lumo_gap"],
            "find": list(MOLECULES),
            "seen": ["1"],
            "login": ["lab", "chemist", "nobody"],
            "Idempotency-Key": ["a key of somebody", "0123456789abcdef"],
            "sha256": ["0" * 64],
        }
        started = stack.enter_context(TestClient(app))
        found = []
        for visitor in names:
            browser = _browser(server, visitor)
            browser.client.portal = started.portal  # one event loop for all requests
            found.append(Sender(visitor, browser.client, browser.csrf, known))
        yield app, found


def _browser(server: Server, visitor: str) -> Browser:
    if visitor == "nobody":
        return server.nobody()
    if visitor == "admin":
        return server.person("admin", None, is_admin=True)
    return server.person(visitor, Role(visitor))


def made_ledger(folder: Path) -> None:
    """Fills a folder with a ledger of three tasks, one of which is answered."""
    ledger = Ledger(str(folder / "ledger.db"), artifacts=folder / "artifacts")
    upgrade(ledger.engine)
    (folder / "molecules.csv").write_text("\n".join(["smiles", *MOLECULES]) + "\n", encoding="utf-8")
    text = CAMPAIGN.format(name="gaps", lab="{ahead: 9, due_days: 14}", budget="{lab_slots: 99}", high=4.6)
    built = create_or_open(ledger, parse_spec(text, base=folder), text, "benchmark").built
    drive(built)
    with ledger.read() as connection:
        first = tasks.listed(connection, limit=1)[0]
    record_answers.enter(built, first.id, entry("4.31 eV"))
    ledger.close()


class PathFuzzer:
    """Sends odd requests to one path, by its visitors in turn."""

    def __init__(self, operations: Sequence[Operation], visitors: Sequence[Sender], seed: int) -> None:
        path = operations[0].path
        self.tally = Tally(path, seed)
        self._visitors = visitors
        self._generators = [Generator(operations, sender, f"{seed} {path} {sender.name}") for sender in visitors]
        self._number = 0

    def send(self) -> None:
        """Sends the next request, and counts what came of it."""
        sender = self._visitors[self._number % len(self._visitors)]
        request = self._generators[self._number % len(self._visitors)].request()
        self._number += 1
        if not is_sendable(sender, request):
            return
        begun = time.monotonic()
        outcome = answer(sender, request)
        tally = self.tally
        tally.seconds += time.monotonic() - begun
        tally.requests += 1
        tally.statuses[str(outcome.status)] += 1
        if outcome.cause is not None:
            tally.causes[outcome.cause] += 1
            tally.examples.setdefault(outcome.cause, f"{sender.name}: {request!r}"[:1500])


def asked_in_turn(template: Path, seed: int, n: float = math.inf, seconds: float = math.inf) -> Sequence[Tally]:
    """Sends requests to all paths in turn, n to each, or for some seconds. template: a folder that `made_ledger` has
    filled."""
    with senders(template) as (app, visitors):
        fuzzers = [PathFuzzer(operations, visitors, seed) for operations in operations_by_path(app).values()]
        until = time.monotonic() + seconds
        for number, fuzzer in enumerate(itertools.cycle(fuzzers)):
            if time.monotonic() > until or number >= n * len(fuzzers):
                break
            fuzzer.send()
        return [fuzzer.tally for fuzzer in fuzzers]


def asked_resumably(template: Path, n: int, seed: int, output: Path | None) -> Iterator[Tally]:
    """Sends n requests to each path, each on a ledger of its own. output: folder of results; a path with a result there
    is left out."""
    with senders(template, ()) as (app, _):
        operations = operations_by_path(app)
    for path in sorted(operations):
        file = None if output is None else output / f"fuzz{re.sub(r'[^a-z0-9]+', '_', path)}.json"
        if file is not None and file.exists():
            continue
        with senders(template) as (_, visitors):
            fuzzer = PathFuzzer(operations[path], visitors, seed)
            while fuzzer.tally.requests < n:
                fuzzer.send()
        if file is not None:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(json.dumps(fuzzer.tally.as_json(), indent=1) + "\n", encoding="utf-8")
        yield fuzzer.tally


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--requests", type=int, default=2000, help="to each path")
    parser.add_argument("--seconds", type=float, help="ask all paths in turn for this time, instead of --requests")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("-o", "--output", type=Path, help="folder of results; paths that are there are left out")
    given = parser.parse_args()
    n_requests = 0
    n_failed = 0
    with tempfile.TemporaryDirectory() as name:
        template = Path(name)
        made_ledger(template)
        tallies: Iterable[Tally]
        if given.seconds:
            tallies = asked_in_turn(template, given.seed, seconds=given.seconds)
        else:
            tallies = asked_resumably(template, given.requests, given.seed, given.output)
        for tally in tallies:
            n_requests += tally.requests
            n_failed += sum(tally.causes.values())
            sys.stdout.write(f"{json.dumps(tally.as_json())}\n")
    sys.stdout.write(f"{n_requests} requests, {n_failed} answers with a status of 500 or more\n")
    return 1 if n_failed else 0


if __name__ == "__main__":
    sys.exit(main())
