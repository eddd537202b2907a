"""Campaigns on crystals: screened, searched, by a model's tools, over a broker, through a kill, to report and files."""

from __future__ import annotations

import csv
import json
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from sciagent import Campaign
from sciagent.api.open_ledger import open_ledger
from sciagent.campaign.core.create_and_open import create_or_open
from sciagent.campaign.driving.driver import Driver
from sciagent.campaign.file.campaign_spec import parse_spec
from tests.integration.test_executors import served
from tests.support.campaigns import environment, sciagent
from tests.support.chat_server import ChatServer, calls
from tests.support.plugins import installed
from tests.support.typed import data, told

SEEDS = """\
structure,name
perovskite: Cs Sn I,black
perovskite: Sr Ti O,strontium titanate
rocksalt: Na Cl,halite
rocksalt: Mg O,periclase
fluorite: Ca F,fluorite
zincblende: Zn S,sphalerite
not a crystal,nothing
"""
CAMPAIGN = """\
campaign: ionic
subject: crystal
seed: 5
objectives: [{property: electrostatic_energy, max: -12, unit: eV}]
ladder:
  - {rung: checks, verifier: crystal.checks}
  - {rung: ewald, verifier: ewald.energy, settings: {pause: PAUSE}}
goal: {kind: hits}
budget: {proposals: PROPOSALS}
proposer: PROPOSER
scheduler: {kind: SCHEDULER}
workers: 1
"""
SALTS = ("K Cl", "Na F", "Li F", "Li Cl", "Rb F", "Rb Cl")  # enough to spend the budget
HITS = {"MgO Fm-3m", "SrTiO3 Pm-3m", "ZnS F-43m"}
SCREEN = "{kind: screen, file: seeds.csv}"
EVOLVE = "{kind: evolve, seeds: seeds.csv, batch: 8, max_sites: 12}"


@pytest.fixture(scope="module", autouse=True)
def electrostatics(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with installed("electrostatics", tmp_path_factory.mktemp("site")):
        yield


def written(folder: Path, **given: Any) -> Path:
    (folder / "seeds.csv").write_text(SEEDS, encoding="utf-8")
    text = CAMPAIGN
    chosen = {"PAUSE": 0.0, "PROPOSALS": 40, "PROPOSER": SCREEN, "SCHEDULER": "exhaustive", **given}
    for name, value in chosen.items():
        text = text.replace(name, str(value))
    (folder / "ionic.yaml").write_text(text, encoding="utf-8")
    return folder / "ionic.yaml"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_file_is_screened_reported_and_exported(folder: Path) -> None:
    campaign = Campaign.from_yaml(written(folder))
    campaign.run()
    assert {candidate.text for candidate in campaign.best(10) if candidate.hit} == HITS
    page = campaign.report().path.read_text(encoding="utf-8")
    assert "SrTiO3" in page and "<svg" in page and "_atom_site_fract_x" in page, "its cell is there to be turned"
    told("export", "ionic", "-o", "ionic.cif")
    told("export", "ionic", "-o", "ionic.db")
    from ase.db import connect
    from pymatgen.io.cif import CifParser

    assert len(CifParser(folder / "ionic.cif").parse_structures(primitive=False)) == 6
    [row] = connect(folder / "ionic.db").select("name=halite")
    madelung = -1.747565 * 14.39964 / (2 * (row.volume / 2) ** (1 / 3))  # eV for each atom of rock salt
    assert row.formula == "NaCl" and row.ewald_electrostatic_energy == pytest.approx(madelung, rel=1e-3)
    said = data("explain", "rocksalt: Na Cl", "--campaign", "ionic")
    assert (said["kind"], said["text"], said["smiles"], said["formula"]) == ("crystal", "NaCl Fm-3m", None, "NaCl")
    blocks = (folder / "ionic.cif").read_text(encoding="utf-8").split("\n\n")
    (folder / "one.cif").write_text(blocks[0], encoding="utf-8")
    answer = data("verify", "one.cif", "--campaign", "ionic.yaml")
    assert (answer["kind"], answer["smiles"]) == ("crystal", None)
    assert answer["key"] in {candidate.key for candidate in campaign.candidates()}, answer


@pytest.mark.parametrize("scheduler", ["priced", "thresholds"])
def test_a_search_finds_more_than_its_seeds(scheduler: str, folder: Path) -> None:
    campaign = Campaign.from_yaml(written(folder, PROPOSER=EVOLVE, SCHEDULER=scheduler, PROPOSALS=16))
    campaign.run()
    children = [candidate for candidate in campaign.candidates() if not candidate.in_seeds]
    assert len(children) >= 5
    story = campaign.explain(children[0].key).answer.campaigns[0].proposed[0]
    assert story.parents and story.parents[0].kind == "crystal"


def test_a_model_edits_crystals_by_its_tools(folder: Path, server: ChatServer) -> None:
    proposer = f'{{kind: llm, model: m, endpoint: "{server.url}", seeds: seeds.csv, turns: 4, timeout: 5}}'
    text = written(folder, PROPOSER=proposer, PROPOSALS=12).read_text(encoding="utf-8")
    said = [
        ("propose", {"structure": "rocksalt: K F", "rationale": "a salt", "predictions": []}),
        ("modify", {"parent": "#1", "edit": "substitute", "what": "Ca", "where": None}),
        ("inspect", {"crystal": "#1"}),
        ("finish", {"reason": "enough"}),
        *(("propose", {"structure": f"rocksalt: {salt}", "rationale": "a salt", "predictions": []}) for salt in SALTS),
    ]
    server.respond = lambda body, n: (200, calls(said[min(n, len(said)) - 1], n=n))
    built = create_or_open(open_ledger("ionic.db", True), parse_spec(text, base=folder), text, "test").built
    with Driver(built) as driver:
        while driver.step(wait=0.05) is None:
            pass
    told = json.dumps([body["messages"] for body in server.bodies])
    assert "new #" in told and "KF Fm-3m" in told and "(modify: substitute Ca)" in told
    assert "sites, number name" in told
    first = server.bodies[0]
    assert "You search for crystals" in first["messages"][0]["content"]
    assert "crossover" not in [tool["function"]["name"] for tool in first["tools"]]


@pytest.mark.long
def test_a_killed_campaign_goes_on(folder: Path) -> None:
    written(folder, PAUSE=1.0)
    command = [sys.executable, "-m", "sciagent", "run", "ionic.yaml", "--quiet", "--no-report"]
    process = subprocess.Popen(command, cwd=folder, env=environment(), start_new_session=True)
    ledger = folder / "sciagent.db"
    end = time.monotonic() + 120
    while not (ledger.exists() and _evidence(ledger) >= 2):
        assert time.monotonic() < end, "nothing was recorded"
        time.sleep(0.1)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert _evidence(ledger) < 6, "it was killed before its end"
    campaign = Campaign.open("ionic", str(ledger))
    campaign.run()
    assert len([c for c in campaign.candidates() if c.value("electrostatic_energy")]) == 6


def _evidence(ledger: Path) -> int:
    with sqlite3.connect(ledger) as connection, suppress(sqlite3.OperationalError):
        query = "SELECT count(*) FROM evidence WHERE verifier = 'ewald.energy'"
        return int(connection.execute(query).fetchone()[0])
    return 0


@pytest.mark.long
def test_a_worker_over_celery_takes_crystals(folder: Path) -> None:
    written(folder)
    with served("celery", folder) as more:
        sciagent(
            "run",
            "ionic.yaml",
            "--executor",
            "celery",
            "--quiet",
            "--no-report",
            cwd=folder,
            SCIAGENT_LEDGER="ledger.db",
            **more,
        )
        best = sciagent("best", "ionic", "--json", cwd=folder, SCIAGENT_LEDGER="ledger.db")
    assert {row["text"] for row in best if row["hit"]} == HITS


TWINS = """\
campaign: twins
subject: crystal
objectives:
  - {property: bulk_modulus, min: 5, unit: GPa}
  - {property: formation_energy, max: -1.5, unit: eV/atom}
ladder:
  - {rung: checks, verifier: crystal.checks}
  - rung: stability
    verifier: mlff.relax
    settings: {known_phases: elements}
    gate: {formation_energy: {max: -1, unit: eV/atom}}
    inline: INLINE
  - {rung: stiffness, verifier: mlff.elastic}
goal: {kind: hits}
budget: {proposals: 10}
proposer: {kind: screen, file: twins.csv}
scheduler: {kind: exhaustive}
workers: 1
"""


def tetragonal(elements: str, a: float, c: float, shift: float = 0.0) -> str:
    """A perovskite with edges in angstrom as JSON. shift: of the two cations along c, in parts of it."""
    first, second, anion = elements.split()
    places = [[0.5, 0.5, 0.5 + shift / 2], [0, 0, shift], [0.5, 0, 0], [0, 0.5, 0], [0, 0, 0.5 - shift / 2]]
    lattice = [[a, 0, 0], [0, a, 0], [0, 0, c]]
    return json.dumps({"lattice": lattice, "species": [first, second, *[anion] * 3], "coordinates": places})


def halite(edge: float) -> str:
    """Rock salt with the edge of its cubic cell in angstrom, as JSON."""
    h = edge / 2
    lattice = [[0, h, h], [h, 0, h], [h, h, 0]]
    return json.dumps({"lattice": lattice, "species": ["Na", "Cl"], "coordinates": [[0, 0, 0], [0.5, 0.5, 0.5]]})


@pytest.mark.parametrize("inline", [pytest.param("false", marks=pytest.mark.long), "true"])
def test_what_relaxes_to_one_structure_is_computed_once_and_is_one_hit(
    folder: Path, monkeypatch: pytest.MonkeyPatch, inline: str
) -> None:
    """CHGNet relaxes a tetragonal cell of CsCaCl3 to its cubic parent, and two cells of NaCl to one. mlff.elastic, the
    dearer rung, computes the first of each."""
    monkeypatch.setenv("SCIAGENT_CACHE", str(folder / "cache"))
    with (folder / "twins.csv").open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["structure", "name"])
        rows.writerow([tetragonal("Cs Ca Cl", 5.4, 5.4), "parent"])
        rows.writerow([halite(5.64), "NaCl 5.64"])
        rows.writerow([tetragonal("Cs Ca Cl", 5.36, 5.52, 0.05), "child"])
        rows.writerow([halite(5.69), "NaCl 5.69"])
    (folder / "twins.yaml").write_text(TWINS.replace("INLINE", inline), encoding="utf-8")
    campaign = Campaign.from_yaml(folder / "twins.yaml")
    campaign.run()
    with sqlite3.connect("sciagent.db") as ledger:
        jobs = "SELECT count(*) FROM job JOIN rung ON rung.id = job.rung_id WHERE rung.name = 'stiffness'"
        assert ledger.execute(jobs).fetchone() == (2,)
    best = {candidate.name: candidate for candidate in campaign.best(4)}
    assert {name: candidate.hit for name, candidate in best.items()} == {
        "parent": True,
        "NaCl 5.64": True,
        "child": False,
        "NaCl 5.69": False,
    }
    assert campaign.status().hits == 2
    for later, first in (("child", "parent"), ("NaCl 5.69", "NaCl 5.64")):
        assert best[later].reason == "same_structure"
        words = f"relaxed to the same structure as {best[first].text} ({first}; {best[first].key[:12]})"
        assert best[later].detail == words
        assert f"({later}) {words}" in "\n".join(campaign.best(4).notes())
        assert f"Dropped after stability: it {words}." in told("explain", best[later].key[:12])
    page = campaign.report().path.read_text(encoding="utf-8")
    assert f"fell at stability: {best['child'].detail}" in page
    before = {candidate.key: (candidate.reason, candidate.hit) for candidate in campaign.candidates()}
    told("resume", "twins", "--no-report")
    after = {candidate.key: (candidate.reason, candidate.hit) for candidate in Campaign.open("twins").candidates()}
    assert after == before
