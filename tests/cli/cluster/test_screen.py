"""The screen of `sciagent top`."""

from __future__ import annotations

import io
import re

import pytest
from rich.console import Console

from sciagent.cli.cluster.screen import frame
from sciagent.report.live.watching import Sparing, look
from sciagent.store.database.ledger import Ledger
from tests.support.busy import busy

ON_SQLITE = pytest.mark.parametrize("backend", ["sqlite"], indirect=True)


def drawn(ledger: Ledger, width: int, height: int | None = None) -> str:
    with ledger.read() as connection:
        found = look(connection, Sparing())
    console = Console(width=width, record=True, file=io.StringIO())
    console.print(frame(found, width, height))
    return console.export_text()


def test_one_look_shows_campaigns_queues_workers_and_failures(ledger: Ledger) -> None:
    busy(ledger)
    text = drawn(ledger, 140)
    assert re.search(r"redox-anolytes +running +0 +19 +2 +5 +1 +1 +21% core_seconds", text)
    assert re.search(r"high_fidelity +4 +\d s +0 +nobody serves it", text)
    assert re.search(r"node08:5120:77aa01 +\d+ +uv-absorbers +r1 +C+ +\d s +\d s +2 +draining", text)
    assert "3 of 4 slots busy, 1 job in drivers" in text
    assert re.search(r"timeout: worker_died +node07:41877:9f01ac/", text)


@ON_SQLITE
@pytest.mark.parametrize(("width", "height"), [(80, 24), (60, 24), (140, 50), (200, 16)])
def test_a_look_fits_the_terminal(ledger: Ledger, width: int, height: int) -> None:
    busy(ledger, n=40, names=[f"campaign-number-{i}-of-a-long-name" for i in range(9)])
    lines = drawn(ledger, width, height).splitlines()
    assert max(map(len, lines)) <= width and len(lines) <= max(height, 24)
    assert any("nobody serves it" in line for line in lines)
