"""One run of a campaign in this process: how it is stopped, and that nothing is lost by it."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import sciagent
from sciagent import Campaign
from tests.api.conftest import toy_keys, write_molecules


def test_a_run_in_another_thread_is_stopped_and_goes_on_later(toys: Campaign) -> None:
    runner = threading.Thread(target=toys.run, kwargs={"progress": False})
    runner.start()
    while toys.state == "created":
        time.sleep(0.02)
    toys.stop(now=True)
    runner.join(30)
    assert toys.state in ("interrupted", "finished")
    assert toys.run(progress=False).state == "finished"


def test_an_interrupt_ends_a_run_cleanly(toys: Campaign) -> None:
    def interrupt() -> None:
        while toys.state == "created":
            time.sleep(0.02)
        os.kill(os.getpid(), signal.SIGINT)

    handler = signal.getsignal(signal.SIGINT)
    threading.Thread(target=interrupt).start()
    assert toys.run(progress=False).state == "interrupted"
    assert signal.getsignal(signal.SIGINT) is handler
    assert toys.run(progress=False).state == "finished"


@sciagent.verifier(measures="dear_energy", unit="kJ/mol", cost=50)
def dear_energy(molecule: Any) -> tuple[float, float]:
    return molecule.heavy_atoms, 0.25


def test_a_budget_that_verifies_nothing_is_what_ends_the_campaign(tmp_path: Path) -> None:
    write_molecules(tmp_path)
    changed = {
        "objectives": [{"property": "dear_energy", "window": [5, 7], "unit": "kJ/mol"}],
        "ladder": [{"rung": "checks", "verifier": "molecule.checks"}, {"rung": "dear", "verifier": dear_energy}],
        "budget": {"core_seconds": 20},
    }
    campaign = Campaign(**toy_keys(ledger=tmp_path / "toys.db", base=tmp_path, **changed))
    status = campaign.run(progress=False)
    assert status.state == "budget_spent"
    assert "what is left of the budget holds no further job: dear would take" in str(status.stop_reason)
    campaign.ledger.close()
