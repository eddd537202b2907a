"""A process that runs campaigns of an evaluation for its parent process.

It reads lines of JSON from stdin: the first names the ledger, each later one a campaign. It writes an answer for each
campaign to stdout. Stdin ends when the parent stops or dies; the running campaign is then stopped.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import sys
import threading
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from sciagent.errors import DriverHeldError, SciagentError
from sciagent.store.database.ledger import Ledger
from sciagent.training.evaluation.campaign_runs import CampaignRuns, PlannedCampaign, fault_of

STDOUT = 1  # file descriptor
STDERR = 2  # file descriptor
NO_MORE_LINES = ""  # in the queue of lines: stdin has ended


def line_of(planned: PlannedCampaign) -> str:
    """Returns a campaign as a line for a worker."""
    return json.dumps(asdict(planned) | {"base": str(planned.base)})


def _from_line(line: str) -> PlannedCampaign:
    fields = json.loads(line)
    fields["base"] = Path(fields["base"])
    return PlannedCampaign(**fields)


def run_to_answer(runs: CampaignRuns, planned: PlannedCampaign) -> Mapping[str, Any]:
    """Runs a campaign; returns its `figures`, or its `fault` if it failed.

    Returns `held` with the reason if another process runs the campaign, and an empty mapping if it was stopped.
    """
    try:
        figures = runs.run(planned)
    except DriverHeldError as error:
        return {"held": fault_of(error)}
    except (SciagentError, OSError) as error:
        return {"fault": fault_of(error)}
    return {} if figures is None else {"figures": figures.model_dump()}


def main() -> None:
    """Runs campaigns until stdin ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent stops its workers
    out = os.fdopen(os.dup(STDOUT), "w", encoding="utf-8")
    os.dup2(STDERR, STDOUT)  # texts that libraries print go to stderr, so that only answers reach the parent
    location = json.loads(sys.stdin.readline())
    artifacts = None if location["artifacts"] is None else Path(location["artifacts"])
    ledger = Ledger(location["url"], artifacts)
    runs = CampaignRuns(ledger)
    lines: queue.SimpleQueue[str] = queue.SimpleQueue()

    def read_lines() -> None:
        for line in sys.stdin:
            lines.put(line)
        runs.stop()
        lines.put(NO_MORE_LINES)

    threading.Thread(target=read_lines, daemon=True).start()
    for line in iter(lines.get, NO_MORE_LINES):
        out.write(json.dumps(run_to_answer(runs, _from_line(line))) + "\n")
        out.flush()
    runs.close()
    ledger.close()


if __name__ == "__main__":
    main()
