"""`kill -9` of a process under a fast rung, or of the driver: the standings are those of an undisturbed run."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
import sqlalchemy as sa

from sciagent.campaign.core.create_and_open import create_or_open, open_stored
from sciagent.campaign.driving.driver import Driver
from sciagent.campaign.file.campaign_spec import parse_spec
from sciagent.domain.states_and_needs import CampaignState
from sciagent.store.database import tables as t
from sciagent.store.database.ledger import Ledger
from sciagent.verification.sandbox.nursery_pool_and_links import nurseries
from tests.support.campaigns import environment

VICTIMS = ("child", "zygote", "nursery")
N_TURNS = 4
KILLS_PER_TURN = 2
MOST_CAMPAIGNS = 5
N_BATCH = 100
TEXT = f"""
campaign: struck
subject: molecule
seed: 1
objectives: [{{property: logp, min: 1}}]
ladder:
  - {{rung: checks, verifier: molecule.checks, settings: {{descriptors: [logp]}}, gate: {{logp: {{max: 5}}}}}}
goal: {{kind: hits}}
budget: {{proposals: {N_TURNS * N_BATCH}, core_seconds: 500}}
proposer: {{kind: screen, file: molecules.csv, batch: {N_BATCH}}}
"""


def write_inputs(folder: Path) -> Path:
    """Writes 400 chains with a hetero group, and the campaign that screens them. Returns the campaign's file."""
    chains = []
    for group in ("O", "N"):
        for left in range(1, 21):
            chains += [f"{'C' * left}{group}{'C' * right}" for right in range(left, 21)]
    (folder / "molecules.csv").write_text("smiles\n" + "\n".join(chains[: N_TURNS * N_BATCH]) + "\n")
    file = folder / "struck.yaml"
    file.write_text(TEXT)
    return file


def open_driver(folder: Path) -> tuple[Ledger, Driver]:
    file = write_inputs(folder)
    ledger = Ledger(str(folder / "struck.db"))
    return ledger, Driver(create_or_open(ledger, parse_spec(file.read_text(), base=folder), TEXT, "test").built)


def standings_of(ledger: Ledger) -> list[tuple[Any, ...]]:
    """Returns what the campaign concludes of each candidate, in order, with the values it rests on."""
    cc = t.campaign_candidate.c
    columns = (cc.standing, cc.position, cc.verdict, cc.reason, cc.detail, cc.is_hit, cc.utility)
    query = sa.select(t.candidate.c.key, *columns).join(t.candidate, t.candidate.c.id == cc.candidate_id)
    values = (
        sa.select(t.evidence.c.key, t.evidence.c.outcome, t.quantity.c.property_id, t.quantity.c.value)
        .outerjoin(t.quantity, t.quantity.c.evidence_id == t.evidence.c.id)
        .order_by(t.evidence.c.key, t.quantity.c.property_id)
    )
    with ledger.read() as connection:
        rows = [tuple(row) for row in connection.execute(query.order_by(cc.seq))]
        return rows + [tuple(row) for row in connection.execute(values)]


class Undisturbed:
    """The campaign without a kill."""

    def __init__(self, folder: Path) -> None:
        ledger, driver = open_driver(folder)
        with driver:
            assert driver.run() is CampaignState.FINISHED
        self.standings = standings_of(ledger)
        with ledger.read() as connection:
            seconds = connection.execute(sa.select(sa.func.sum(t.attempt.c.wall_seconds))).scalar_one()
        self.turn_seconds = seconds / N_TURNS
        """Mean time of the fast rungs in a turn, s."""
        ledger.close()


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    return Undisturbed(tmp_path_factory.mktemp("undisturbed"))


def lineages() -> list[dict[str, psutil.Process]]:
    """Returns the processes of each job that runs below this process, by kind."""
    found: list[dict[str, psutil.Process]] = []
    for pid in nurseries.pids():
        with contextlib.suppress(psutil.NoSuchProcess):
            for zygote in psutil.Process(pid).children():
                for child in zygote.children():
                    found.append({"child": child, "zygote": zygote, "nursery": psutil.Process(pid)})
    return found


def strike(victims: list[str], delays: list[float], over: threading.Event, struck: list[str]) -> None:
    """Kills processes at these times, s, after the first job of a turn has begun. over: set when the turn is over."""
    while not lineages():
        if over.wait(0.001):
            return
    began = time.monotonic()
    for victim, delay in zip(victims, delays, strict=True):
        time.sleep(max(0.0, began + delay - time.monotonic()))
        while not (running := lineages()):
            if over.wait(0.001):
                return
        with contextlib.suppress(psutil.NoSuchProcess):
            running[0][victim].send_signal(signal.SIGKILL)
            struck.append(victim)


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(1, 8))])
def test_a_killed_process_of_a_fast_rung_changes_no_standing(
    tmp_path: Path, undisturbed: Undisturbed, seed: int
) -> None:
    """Eight moments for each seed, two in a turn; the long seeds have 56 together.

    On a busy machine a turn may be over before its kills come, so the campaign is made again until enough have come.
    """
    rng = random.Random(seed)
    struck: list[str] = []
    for number in range(MOST_CAMPAIGNS):
        folder = tmp_path / str(number)
        folder.mkdir()
        _strike_campaign(folder, undisturbed, seed, rng, struck)
        if len(struck) >= N_TURNS and set(struck) == set(VICTIMS):
            return
    pytest.fail(f"too few kills came while a batch ran: {struck}")


def _strike_campaign(folder: Path, undisturbed: Undisturbed, seed: int, rng: random.Random, struck: list[str]) -> None:
    """Runs the campaign while its processes are killed, and compares its standings. struck: gets the kinds of the
    processes that were killed."""
    nurseries.close()  # this campaign then has the only one
    ledger, driver = open_driver(folder)
    with driver:
        for turn in range(N_TURNS):
            over = threading.Event()
            first = seed + turn * KILLS_PER_TURN
            victims = [VICTIMS[number % len(VICTIMS)] for number in range(first, first + KILLS_PER_TURN)]
            delays = sorted(rng.uniform(0.0, undisturbed.turn_seconds) for _ in victims)
            killer = threading.Thread(target=strike, args=(victims, delays, over, struck))
            killer.start()
            driver.step()
            over.set()
            killer.join()
        assert driver.run() is CampaignState.FINISHED
    assert standings_of(ledger) == undisturbed.standings
    ledger.close()


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.long)])
def test_a_campaign_whose_driver_was_killed_ends_with_the_same_standings(
    tmp_path: Path, undisturbed: Undisturbed, seed: int
) -> None:
    write_inputs(tmp_path)
    command = [sys.executable, "-m", "sciagent", "run", "struck.yaml", "--ledger", "struck.db", "--quiet"]
    process = subprocess.Popen(command, cwd=tmp_path, env=environment(), start_new_session=True)
    while n_turns(tmp_path) <= seed:
        assert process.poll() is None, "it ended before it could be killed"
        time.sleep(0.005)
    time.sleep(random.Random(seed).uniform(0.0, undisturbed.turn_seconds))
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert 0 < n_turns(tmp_path) < N_TURNS
    ledger = Ledger(str(tmp_path / "struck.db"))
    with Driver(open_stored(ledger, "struck", "test").built) as driver:  # as `sciagent resume`
        assert driver.run() is CampaignState.FINISHED
    assert standings_of(ledger) == undisturbed.standings
    ledger.close()


def n_turns(folder: Path) -> int:
    """Returns the number of turns in the ledger; 0 before it is made."""
    if not (folder / "struck.db").exists():
        return 0
    with contextlib.suppress(sqlite3.OperationalError):  # there are no tables yet
        connection = sqlite3.connect(f"file:{folder}/struck.db?mode=ro", uri=True)
        with contextlib.closing(connection):
            return int(connection.execute("select count(*) from turn").fetchone()[0])
    return 0
