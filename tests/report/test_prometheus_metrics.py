"""Metrics for Prometheus: what the ledger says, and the page that lists them."""

from __future__ import annotations

import re

import pytest
import sqlalchemy as sa

from sciagent.cli.workers_campaign_dispatcher_metrics import serve_metrics
from sciagent.report.prometheus_metrics import LedgerCollector, WorkerCollector
from sciagent.store.database import tables as t
from sciagent.store.database.ledger import Ledger
from tests.docs.pages import ROOT
from tests.support.busy import busy
from tests.support.prometheus import scraped

METRIC = re.compile(r"`(sciagent_\w+)`")


ON_SQLITE = pytest.mark.parametrize("backend", ["sqlite"], indirect=True)


def test_prometheus_reads_what_the_ledger_says(ledger: Ledger) -> None:
    busy(ledger)
    with ledger.begin() as connection:
        first = connection.execute(sa.select(sa.func.min(t.attempt.c.id))).scalar_one()
        connection.execute(sa.update(t.attempt).where(t.attempt.c.id == first).values(state="stale"))
    server, at = serve_metrics(LedgerCollector(ledger), "127.0.0.1", 0)
    try:
        found = scraped(f"http://{at}/metrics")
    finally:
        server.shutdown()
        server.server_close()
    assert found["sciagent_ledger_up"] == {(): 1}
    assert found["sciagent_queue_depth"] == {("simulation",): 32, ("high_fidelity",): 4}
    assert found["sciagent_queue_slots"] == {("simulation",): 4, ("high_fidelity",): 0}
    assert 0 < found["sciagent_queue_oldest_seconds"]["high_fidelity",] < 60
    jobs = {key: n for key, n in found["sciagent_jobs"].items() if n and key[0] == "redox-anolytes"}
    assert {state: n for (_, state), n in jobs.items()} == {"running": 2, "queued": 19, "failed": 1, "done": 5}
    attempts = found["sciagent_attempts_total"]
    assert sum(attempts.values()) == 12
    assert sorted(outcome for (_, outcome, _), n in attempts.items() if n) == ["lost", "ok", "ok", "timeout", "timeout"]
    assert sum(found["sciagent_stale_results_total"].values()) == 1
    assert found["sciagent_spent_total"]["redox-anolytes", "core_seconds", "r1"] == pytest.approx(21.0)
    assert found["sciagent_worker_slots"]["ledger", "node07", "node07:41877:9f01ac"] == 4
    assert found["sciagent_worker_draining"]["ledger", "node08", "node08:5120:77aa01"] == 1
    assert found["sciagent_workers"] == {("ledger",): 2}
    assert found["sciagent_campaign_state"]["uv-absorbers", "running"] == 1


@ON_SQLITE
def test_the_page_lists_every_metric(ledger: Ledger) -> None:
    page = (ROOT / "docs" / "operations.md").read_text().split("### Metrics", 1)[1].split("### Logs", 1)[0]
    listed = {name for line in page.splitlines() if line.startswith("| `") for name in METRIC.findall(line)}
    made = [*LedgerCollector(ledger).collect(), *WorkerCollector("w", lambda: 3).collect()]
    assert listed == {one.name + ("_total" if one.type == "counter" else "") for one in made}
    memory = next(one for one in made if one.name == "sciagent_worker_memory_bytes")
    assert memory.samples[0].value > 1e7


@ON_SQLITE
def test_a_ledger_that_is_away_is_said_to_be(ledger: Ledger) -> None:
    with ledger.begin() as connection:
        connection.execute(sa.text("ALTER TABLE worker RENAME TO elsewhere"))
    names = {one.name: one for one in LedgerCollector(ledger).collect()}
    assert names["sciagent_ledger_up"].samples[0].value == 0 and "sciagent_queue_depth" not in names
