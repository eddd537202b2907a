"""A process that runs campaigns of an evaluation: the ledger and campaigns come as lines of JSON on stdin, figures go
to stdout. At the end of stdin, when its parent stops or dies, the campaign that runs is stopped."""

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


def line_of(planned: PlannedCampaign) -> str:
    """Returns a campaign as a line for a worker."""
    return json.dumps(asdict(planned) | {"base": str(planned.base)})


def _from_line(line: str) -> PlannedCampaign:
    fields = json.loads(line)
    return PlannedCampaign(**fields | {"base": Path(fields["base"])})


def answer(runs: CampaignRuns, planned: PlannedCampaign) -> Mapping[str, Any]:
    """Returns {figures}, {fault}, {held} for a campaign that another process runs, or {} for one that was stopped."""
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
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what libraries print is no answer
    place = json.loads(sys.stdin.readline())
    ledger = Ledger(place["url"], None if place["artifacts"] is None else Path(place["artifacts"]))
    runs = CampaignRuns(ledger)
    lines: queue.SimpleQueue[str] = queue.SimpleQueue()

    def read() -> None:
        for line in sys.stdin:
            lines.put(line)
        runs.stop()
        lines.put("")

    threading.Thread(target=read, daemon=True).start()
    while line := lines.get():
        out.write(json.dumps(answer(runs, _from_line(line))) + "\n")
        out.flush()
    runs.close()
    ledger.close()


if __name__ == "__main__":
    main()
