"""Jobs that hold cores, GPUs and named resources: what their process finds, what the driver says, what runs at once."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from sciagent.campaign.core.create_and_open import create_or_open
from sciagent.campaign.driving.driver import Driver
from sciagent.campaign.file.campaign_spec import parse_spec
from sciagent.errors import SpecError, UsageError
from sciagent.execution.worker import worker_slot
from sciagent.store.database import tables as t
from sciagent.store.database.ledger import Ledger
from tests.support.elsewhere import TEXT, counts, driven, driver, molecules, until, whole, working, written

pytestmark = pytest.mark.parametrize("backend", ["sqlite"], indirect=True)


def environments(ledger: Ledger) -> list[dict[str, str | None]]:
    """What each job found, with what its attempt held."""
    a, e = t.attempt.c, t.evidence.c
    query = sa.select(e.diagnostics, a.holds, a.started_at, a.ended_at).join(t.attempt, a.id == e.attempt_id)
    with ledger.read() as connection:
        return [dict(one) for one in connection.execute(query.where(e.verifier == "bad.remote")).mappings()]


def at_once(found: list[dict[str, Any]]) -> int:
    """The most that ran at one time."""
    return max(sum(o["started_at"] <= one["started_at"] < o["ended_at"] for o in found) for one in found)


def test_a_process_sees_its_own_gpus_and_has_threads_for_its_cores(
    ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,7")
    built = written(
        ledger, tmp_path, molecules(6), resources="{cores: 2, gpu: 1}", settings="{seconds: 0.1, declared: 5}"
    )
    with working(ledger, tmp_path, slots=4, resources={"gpu": 2}):
        assert driven(built) == "finished"
    whole(ledger, 6)
    found = environments(ledger)
    for one in found:
        said = one["diagnostics"]
        assert {said[name] for name in said if name.endswith("_THREADS")} == {"2"}
        assert said["CUDA_VISIBLE_DEVICES"] == ("4", "7")[one["holds"]["gpu"][0]] and one["holds"]["cores"] == 2
    assert {one["diagnostics"]["CUDA_VISIBLE_DEVICES"] for one in found} == {"4", "7"}
    assert at_once(found) == 2


def test_a_job_without_gpus_sees_none_of_a_worker_that_has_some(ledger: Ledger, tmp_path: Path) -> None:
    built = written(ledger, tmp_path, molecules(1))
    with working(ledger, tmp_path, resources={"gpu": 2}):
        assert driven(built) == "finished"
    (one,) = environments(ledger)
    assert one["holds"] is None and one["diagnostics"]["CUDA_VISIBLE_DEVICES"] == ""
    assert one["diagnostics"]["OMP_NUM_THREADS"] == "1"


def test_the_driver_says_what_no_worker_can_ever_hold(
    ledger: Ledger, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    built = written(ledger, tmp_path, molecules(2), resources="{gpu: 1, gaussian: 1}")
    with working(ledger, tmp_path), caplog.at_level(logging.WARNING), driver(built) as one:
        until(lambda: one.step() or one.session.crews[0].unheld)
        (why,) = one.session.crews[0].unheld.values()
        one.abort()
        while one.step() is None:
            pass
    assert why == (
        'rung "remote": no worker of queue simulation can ever hold a job that needs 1 core, 1 gpu, 1 gaussian: '
        "no worker has gpu (sciagent worker --resource gpu=1); no worker has gaussian (sciagent worker --resource "
        "gaussian=1)"
    )
    assert why in caplog.text
    assert counts(ledger, t.event.c.kind, t.event.c.kind == "no_worker_can_hold") == {"no_worker_can_hold": 1}
    with working(ledger, tmp_path, name="able", resources={"gpu": 1, "gaussian": 1}):
        assert driven(create_or_open(ledger, built.spec, built.row.source, "test").built) == "finished"
    whole(ledger, 2)


def test_a_campaign_counts_the_cores_of_its_own_jobs(ledger: Ledger, tmp_path: Path) -> None:
    built = written(ledger, tmp_path, molecules(5), resources="{cores: 2}", settings="{seconds: 0.1, declared: 5}")
    with Driver(built, workers=3) as one:
        assert str(one.run(lambda: None)) == "finished"
    found = environments(ledger)
    assert len(found) == 5 and at_once(found) == 1
    assert {one["diagnostics"]["OMP_NUM_THREADS"] for one in found} == {"2"}


def test_a_campaign_that_cannot_hold_its_jobs_does_not_begin(ledger: Ledger, tmp_path: Path) -> None:
    built = written(ledger, tmp_path, molecules(1), resources="{gpu: 1}")
    with (
        pytest.raises(UsageError, match=r'rung "remote" needs 1 gpu.*--executor ledger.*--resource gpu=1'),
        Driver(built),
    ):
        pass
    built = written(ledger, tmp_path, molecules(1), resources="{cores: 3}", name="wide")
    with pytest.raises(UsageError, match="needs 3 cores, and the campaign runs on 2"), Driver(built):
        pass


def test_what_a_rung_holds_may_be_amended_and_is_no_part_of_who_it_is(ledger: Ledger, tmp_path: Path) -> None:
    first = written(ledger, tmp_path, molecules(1))
    assert written(ledger, tmp_path, molecules(1), resources="{cores: 1}").spec.hash == first.spec.hash
    second = written(ledger, tmp_path, molecules(1), resources="{cores: 2}")
    assert second.row.id == first.row.id and second.spec.identity_hash == first.spec.identity_hash
    assert "resources" not in first.spec.canonical()["ladder"][-1]
    assert second.spec.canonical()["ladder"][-1]["resources"] == {"cores": 2}


@pytest.mark.parametrize(
    ("resources", "message"),
    [
        ("{GPU: 1}", "is no name"),
        ("{memory_mb: 100}", "set by limits.memory_mb"),
        ("{gpu: 0}", "at least 1"),
        ("{cores: 2000}", "from 1 to 1024"),
        ("{cores: 1.5}", "whole number"),
        ("{'a;b': 1}", "is no name"),
    ],
)
def test_what_no_job_can_hold_is_refused_in_the_file(
    ledger: Ledger, tmp_path: Path, resources: str, message: str
) -> None:
    text = TEXT.format(
        settings="{}",
        limits="{}",
        budget="{core_seconds: 1}",
        name="x",
        batch=1,
        resources=resources,
        verifier="bad.remote",
    )
    (tmp_path / "molecules.smi").write_text("C\n")
    with pytest.raises(SpecError, match=message):
        parse_spec(text, base=tmp_path)


def test_a_worker_names_no_more_gpus_than_it_sees(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    worker_slot.check_gpus(8)
    assert (worker_slot.visible_gpus(2, [1]), worker_slot.visible_gpus(2, []), worker_slot.visible_gpus(0, [])) == (
        "1",
        "",
        None,
    )
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3")
    with pytest.raises(UsageError, match="2 GPUs, and CUDA_VISIBLE_DEVICES names 1"):
        worker_slot.check_gpus(2)
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "3"
