"""Series of candidates reach the report and the exports; what is no valid series is left out."""

from __future__ import annotations

import csv
from pathlib import Path

from rocrate.rocrate import ROCrate

from sciagent.domain.series import MEDIA_TYPE, CurveRole, Series, SeriesAxis, SeriesColumn, SeriesCurve
from sciagent.report.export.ro_crate_and_rerun_files import author, licence, write_crate
from sciagent.report.export.spreadsheets import write_series
from sciagent.store.database.ledger import Ledger
from sciagent.store.results import evidence
from tests.support.pages import Parsed, rendered
from tests.support.reported import PBE0, Maker, dyes, gap
from tests.support.rows import new_evidence

SPECTRUM = Series(
    title="Spectrum <of> a dye",
    axes=[SeriesAxis(name="energy", meaning="energy", unit="eV"), SeriesAxis(name="absorption", meaning="absorption")],
    columns=[
        SeriesColumn(name="energy", axis="energy", values=[1.0, 2.0, 3.5]),
        SeriesColumn(name="absorption", axis="absorption", values=[0.1, 0.9, 0.2]),
    ],
    curves=[SeriesCurve(name="absorption", role=CurveRole.COMPUTED, x="energy", y="absorption")],
)


def dyes_with_series(ledger: Ledger, folder: Path) -> Maker:
    """The dyes; the best one has a series, and beside it one that is no series at all."""
    made = dyes(ledger, folder)
    files = []
    for name, data in (("spectrum.json", SPECTRUM.to_json()), ("broken.json", b'{"title": "<script>"}')):
        (folder / name).write_bytes(data)
        files.append((name, *made.ledger.artifacts.put(folder / name), MEDIA_TYPE))
    more = {"verifier": "toy2", "subject": "0", "replicate": 1, "artifacts": tuple(files)}
    with made.ledger.begin() as connection:
        evidence.record(connection, [new_evidence(made.ids[0], gap(4.3, PBE0, 0.03), **more)])
    return made


def test_each_series_becomes_a_csv_with_units(own_ledger: Ledger, tmp_path: Path) -> None:
    made = dyes_with_series(own_ledger, tmp_path)
    folder = tmp_path / "out"
    folder.mkdir()
    with made.ledger.read() as connection:
        assert write_series(connection, made.row, made.ledger.artifacts, folder) == 1
    [path] = folder.iterdir()
    assert path.name.endswith("-r2.csv")
    with path.open(newline="") as file:
        rows = list(csv.reader(file))
    assert rows == [["energy [eV]", "absorption"], ["1.0", "0.1"], ["2.0", "0.9"], ["3.5", "0.2"]]


def test_a_crate_describes_the_series_of_the_best(own_ledger: Ledger, tmp_path: Path) -> None:
    made = dyes_with_series(own_ledger, tmp_path)
    path = tmp_path / "crate"
    with made.ledger.read() as connection:
        write_crate(connection, made.row, made.ledger.artifacts, path, [author("Ada")], licence("MIT"))
    [entity] = [e for e in ROCrate(path).data_entities if e.id.startswith("series/")]
    assert entity["description"].endswith("Spectrum <of> a dye") and (path / entity.id).is_file()


def test_the_card_of_the_candidate_has_the_chart(own_ledger: Ledger, tmp_path: Path) -> None:
    html = rendered(dyes_with_series(own_ledger, tmp_path))
    assert html.count('<figure class="series">') == 1
    assert "Spectrum <of>" not in html and "Spectrum &lt;of&gt; a dye" in html
    assert "energy / eV" in Parsed(html).text
