"""campaigns/perovskite_gap.yaml from its file to the report: with recorded outputs of GPAW, and for real."""

from __future__ import annotations

import resource
import sqlite3
from pathlib import Path

import pytest

from sciagent import Campaign
from tests.docs.pages import ROOT, block_with, lines
from tests.support import recorded_gpaw
from tests.support.typed import call, told

FILES = ROOT / "campaigns"
CORE_SECONDS = 1200  # 10 minutes of 2 cores


@pytest.mark.long
def test_it_goes_through_all_rungs_with_recorded_gaps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SrTiO3 is recorded, and its gap of 1.85 eV is above the window; the sulphide is not recorded."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SCIAGENT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("SCIAGENT_GPAW", recorded_gpaw.program(tmp_path))
    text = (FILES / "perovskite_gap.yaml").read_text(encoding="utf-8")
    head, _, tail = text.partition("proposer:\n")
    rest = tail.partition("scheduler:")[2]
    (tmp_path / "few.csv").write_text("structure\nperovskite: Sr Ti O\nperovskite: Ba Zr S\nperovskite: K Mg F\n")
    screen = f"{head}proposer: {{kind: screen, file: few.csv}}\nscheduler:{rest}"
    (tmp_path / "gap.yaml").write_text(screen, encoding="utf-8")
    campaign = Campaign.from_yaml(tmp_path / "gap.yaml")
    campaign.run()
    [gap] = [value for one in campaign.candidates() if (value := one.value("band_gap")) is not None]
    assert gap.value == pytest.approx(1.846, abs=1e-3)
    [first] = campaign.best(1)
    assert (first.text, first.hit) == ("BaZrS3 Pm-3m", False), "what may still be a hit comes before a known miss"
    page = campaign.report().path.read_text(encoding="utf-8")
    assert "_atom_site_fract_x" in page and "nothing is recorded" in page


@pytest.mark.slow
@pytest.mark.usefixtures("gpaw_program")
def test_it_goes_through_for_real_in_ten_minutes_of_two_cores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lines are those of docs/crystals.md."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SCIAGENT_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("SCIAGENT_LEDGER", raising=False)
    init, cd, plan, run = lines(block_with("perovskite_gap", "sh", ROOT / "docs" / "crystals.md"))
    told(*init[1:])
    monkeypatch.chdir(cd[1])
    told(*plan[1:])
    before = _core_seconds()
    assert call(*run[1:]).exit_code in (0, 3), "3: it ended without a hit"
    assert _core_seconds() - before < CORE_SECONDS
    campaign = Campaign.open("perovskite_gap")
    assert len(campaign.candidates()) >= 100
    with sqlite3.connect("sciagent.db") as ledger:
        done = dict(
            ledger.execute(
                "SELECT rung.name, count(DISTINCT job.id) FROM attempt JOIN job ON job.id = attempt.job_id "
                "JOIN rung ON rung.id = job.rung_id WHERE attempt.outcome = 'ok' GROUP BY rung.name"
            ).fetchall()
        )
    assert done["relax"] >= 30 and done["fast"] >= 6 and done["standard"] >= 2
    page = Path("perovskite_gap.report.html").read_text(encoding="utf-8")
    assert page.count("_atom_site_fract_x") >= 2, "their cells are there to be turned"


def _core_seconds() -> float:
    """Returns the CPU time of this process and of those that it has waited for."""
    return sum(
        used.ru_utime + used.ru_stime
        for used in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    )
