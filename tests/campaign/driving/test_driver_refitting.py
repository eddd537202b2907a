"""A campaign with a calibrated rung: refused, made, stored, used, and made again when the shared values change."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from sciagent.campaign.core.built_campaign_and_derived_values import Built
from sciagent.campaign.core.create_and_open import create_or_open
from sciagent.campaign.driving.driver import Driver
from sciagent.campaign.file.campaign_spec import load_spec
from sciagent.campaign.people.import_values import import_file
from sciagent.domain.display_units import Column
from sciagent.domain.properties_and_levels import Level
from sciagent.errors import UsageError
from sciagent.report.analysis import rung_spending_comparisons_and_worth
from sciagent.report.parts import export_rows
from sciagent.report.status_best_trace import best
from sciagent.store.campaign_state import campaigns
from sciagent.store.database.ledger import Ledger

SPEC = """
campaign: {name}
subject: molecule
objectives:
  - property: logp
    max: 2.0
    {calibrate}
ladder:
  - rung: checks
    verifier: molecule.checks
goal: {{kind: hits}}
budget: {{proposals: 50}}
proposer: {{kind: screen, file: alkanes.csv}}
scheduler: {{kind: exhaustive}}
"""
CALIBRATE = "calibrate: {from: measured, kind: linear}"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "alkanes.csv").write_text("smiles\n" + "".join("C" * n + "\n" for n in range(1, 11)))
    return tmp_path


def opened(folder: Path, name: str, calibrate: str = CALIBRATE) -> Built:
    file = folder / f"{name}.yaml"
    file.write_text(SPEC.format(name=name, calibrate=calibrate))
    return create_or_open(Ledger(str(folder / "sciagent.db")), load_spec(file), file.read_text(), "test").built


def run(built: Built) -> None:
    with Driver(built, workers=1) as driver:
        driver.run()


def measure(built: Built, folder: Path, name: str, values: dict[int, float]) -> None:
    """Imports logP by number of carbon atoms."""
    (folder / name).write_text("smiles,logp\n" + "".join("C" * n + f",{value}\n" for n, value in values.items()))
    import_file(built.ledger, folder / name, columns=[Column("logp", "logp")], level=Level("experiment"))


def shown(built: Built) -> dict[str, tuple[float, str, bool]]:
    """{SMILES: (logP, level, whether it is a hit)}."""
    with built.ledger.read() as connection:
        found = best(connection, campaigns.get(connection, built.row.name), 20)
    return {one.smiles: (one.values["logp"].value, one.values["logp"].level, one.hit) for one in found}


def test_a_campaign_is_calibrated_stored_and_calibrated_again(folder: Path) -> None:
    plain = opened(folder, "plain", "weight: 1.0")
    with pytest.raises(UsageError, match="has no imported values of logp; import at least 8"):
        opened(folder, "early")
    run(plain)
    raw = {len(smiles): value for smiles, (value, *_) in shown(plain).items()}
    noise = {n: 0.05 * (-1) ** n for n in raw}
    measure(plain, folder, "seven.csv", {n: 0.5 * raw[n] + 0.2 + noise[n] for n in range(1, 8)})
    with pytest.raises(UsageError, match="share 7 candidates with a logp; a fit needs 8"):
        opened(folder, "early")

    measure(plain, folder, "eighth.csv", {8: 0.5 * raw[8] + 0.2 + noise[8]})
    built = opened(folder, "fitted")
    run(built)
    slope, intercept = np.polyfit(
        [raw[n] for n in range(1, 9)], [0.5 * raw[n] + 0.2 + noise[n] for n in range(1, 9)], 1
    )
    for smiles, (value, level, hit) in shown(built).items():
        assert value == pytest.approx(slope * raw[len(smiles)] + intercept, rel=1e-9)
        assert level == "RDKit + linear fit, n = 8" and hit == (value <= 2.0)
    assert sum(hit for *_, hit in shown(built).values()) > sum(hit for *_, hit in shown(plain).values())
    with built.ledger.read() as connection:
        row = campaigns.get(connection, "fitted")
        columns = [column for column in export_rows.columns(connection, row) if column.property == "logp"]
        [entry, *_] = export_rows.entries(connection, row, columns)
    assert [(c.rung, c.level) for c in columns] == [("checks", "RDKit + linear fit, n = 8"), ("imported", "experiment")]
    assert ("checks", "logp") in entry.values
    assert {m.level.label for a in entry.answers for m in a.measured if a.rung == "checks"} == {"RDKit"}  # raw

    measure(plain, folder, "more.csv", {9: 9.0, 10: 10.0})
    again = opened(folder, "fitted")
    run(again)  # a line through these ten is no better than the computed values, so these count again
    assert shown(again) == shown(plain)
    with again.ledger.read() as connection:
        written = connection.exec_driver_sql("SELECT n, is_used FROM calibration ORDER BY id").all()
        events = connection.exec_driver_sql("SELECT payload FROM event WHERE kind = 'calibrated' ORDER BY id").scalars()
        last = json.loads(events.all()[-1])["fit"]
        [report_line] = rung_spending_comparisons_and_worth.rung_provenance(
            connection, row, campaigns.rungs(connection, row.id)
        )[1].calibrations
    assert [tuple(each) for each in written] == [(8, 1), (10, 0)] and last == report_line
    assert last.startswith("logp of checks stays as computed, since the linear fit to experiment would ")
    forced = opened(folder, "forced", CALIBRATE.replace("linear", "linear, force: true"))
    run(forced)
    assert {level for _, level, _ in shown(forced).values()} == {"RDKit + linear fit, n = 10"}
    assert all(hit == (value <= 2.0) for value, _, hit in shown(forced).values())
