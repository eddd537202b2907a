"""`mlff.md`: what it refuses, its price, copper by a cheap potential, and silicon that is killed and resumed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from pymatgen.core import Lattice, Structure

from sciagent.chemistry.crystal import crystal_from_structure
from sciagent.chemistry.crystals.prototypes_and_same_structures import decorated
from sciagent.domain.outcomes_verdicts_and_reasons import Outcome, Reason
from sciagent.domain.series import read_series
from sciagent.verification.verifier_contract import Context
from sciagent_simulators.dynamics.chunks import loaded_array
from sciagent_simulators.dynamics.crystal_chain import CrystalProtocol, CrystalSimulation
from sciagent_simulators.potentials.ase_potential import AsePotential
from sciagent_simulators.potentials.potential_base_and_registry import (
    EnergyScale,
    Potential,
    PotentialFactory,
    load_potential,
)
from sciagent_verifiers.high_fidelity.mlff_md import MlffMd, supercell_of, supercell_size
from sciagent_verifiers.simulation import force_field_base

SALT = decorated("rocksalt", ("Na", "Cl"))
SILICON = decorated("diamond", ("Si",))


def emt(weights: Path | None, device: str) -> Potential:
    from ase.calculators.emt import EMT

    return AsePotential(EMT(), EnergyScale("EMT", "LDA"))


EMT_FACTORY = PotentialFactory(
    "emt", EnergyScale("EMT", "LDA"), frozenset(("Al", "Cu", "Pt")), emt, seconds=1e-4, package="ase"
)


@pytest.fixture
def cheap(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Makes every verifier by a force field take the effective medium theory of ASE."""
    monkeypatch.setattr(force_field_base, "potential_factory", lambda name: EMT_FACTORY)
    monkeypatch.setattr(force_field_base, "load_potential", lambda name, weights, device: emt(weights, device))
    monkeypatch.setattr(force_field_base, "potential_versions", lambda name: {"ase": "1"})
    yield


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"species": "Li", "replicas": 2}, "replicas: 3 or more"),
        ({"species": "lithium"}, "pattern"),
        ({"temperature": 0}, "greater than or equal to 10"),
        ({"rdf": [["Si", "[Si]"]]}, "pattern"),
    ],
)
def test_settings_that_cannot_be_told_are_refused(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        MlffMd(settings)


def test_what_it_cannot_simulate_is_refused_before_anything_is_paid() -> None:
    wide = {"supercell": 20, "max_supercell": 200}
    slab = crystal_from_structure(
        Structure(Lattice.tetragonal(3.6, 30.0), ["Cu", "Cu"], [[0, 0, 0.5], [0.5, 0.5, 0.56]])
    )
    for settings, crystal, reason, words in (
        ({}, decorated("rocksalt", ("Po", "O")), Reason.ELEMENT, "not trained on Po"),
        ({}, replace(SALT, charge=1), Reason.CHARGE, "net charge"),
        ({}, slab, Reason.NOT_PERIODIC, "vacuum"),
        ({"species": "Li"}, SALT, Reason.ELEMENT, "NaCl has no Li"),
        (wide, SALT, Reason.TOO_LARGE, "512 atoms in the supercell; the limit is 200"),
    ):
        refusal = MlffMd(settings).accepts(crystal)
        assert refusal is not None
        assert refusal.reason is reason and words in refusal.detail
    assert MlffMd({"species": "Na"}).accepts(SALT) is None


def test_it_measures_what_is_asked_for_at_a_level_that_says_how() -> None:
    verifier = MlffMd({"species": "Na", "temperature": 600})
    names = [measure.property.name for measure in verifier.measures]
    assert names == ["neighbours_kept", "site_displacement", "self_diffusion"]
    steps = "NVT 2+20 ps x3, 10 angstrom//relaxed to 0.005 eV/angstrom"
    assert verifier.level.label == f"CHGNet-0.3.0/PBE+U, MP2020//{steps}, 600 K, Na"
    assert "10 angstrom, 1 fs//" in MlffMd({"time_step": 1}).level.label
    assert MlffMd({"model": "7net-0"}).level.label.startswith("7net-0/PBE+U, uncorrected//NVT")
    assert MlffMd({"rdf": []}).settings_hash == MlffMd().settings_hash


def test_its_price_is_that_of_all_steps_and_says_a_night() -> None:
    assert supercell_size(SILICON, 10) == 64
    price = MlffMd().cost(SILICON)["core_seconds"]
    assert price == pytest.approx(3 * 11_000 * 64 * 0.0015, rel=0.05), "an hour"
    assert MlffMd({"picoseconds": 200}).cost(SILICON)["core_seconds"] > 6 * 3600
    hydride = MlffMd().cost(decorated("rocksalt", ("Li", "H")))["core_seconds"]
    oxide = MlffMd({"time_step": 0.5}).cost(decorated("rocksalt", ("Li", "F")))["core_seconds"]
    assert hydride == pytest.approx(oxide, rel=0.5), "hydrogen takes steps of 0.5 fs"


def test_copper_keeps_its_structure(cheap: None, tmp_path: Path) -> None:
    lengths = {"supercell": 5, "picoseconds": 2.5, "equilibration": 0.5, "replicas": 2, "time_step": 5}
    told: list[tuple[float, float]] = []
    texts: list[str] = []

    def progress(done: float, of: float, text: str) -> None:
        told.append((done, of))
        texts.append(text)

    (tmp_path / "checkpoint").mkdir()
    context = Context(tmp_path, tmp_path / "checkpoint", progress=progress)
    verifier = MlffMd({"model": "emt", "steps": 50, "rdf": [["Cu", "Cu"], ["Cu", "O"]], **lengths})
    (found,) = verifier.verify([decorated("fcc", ("Cu",))], context)
    assert found.outcome is Outcome.OK, found.detail
    kept, displacement = (measured.quantity for measured in found.measured)
    assert kept.value == 1.0 and kept.uncertainty == 0.0
    assert 0.1 < displacement.value < 0.2, "6 % of the distance of neighbours"
    assert 0 < (displacement.uncertainty or 0) < 0.02
    assert found.diagnostics["mean_temperature"] == pytest.approx(300, abs=50)  # few atoms for a short time
    assert [file.name.split("-")[-1] for file in found.artifacts] == [
        "neighbours.series.json", "temperature.series.json", "displacement.series.json", "distribution.series.json"
    ]  # fmt: skip
    for file in found.artifacts:
        assert read_series(Path(file.path).read_bytes()).curves
    assert told[-1][0] == told[-1][1] and len(told) > 1200, "progress inside the chunks"
    assert texts[0].startswith("0 of 1 relaxed, 1 evaluations, forces up to "), "and while it relaxes"
    [pairs] = read_series(Path(found.artifacts[-1].path).read_bytes()).curves
    assert pairs.name == "Cu-Cu" and pairs.error is not None
    files = sorted((tmp_path / "checkpoint").rglob("*.zip"))
    assert len(files) == 2 * 7
    before = {file: file.stat().st_mtime_ns for file in files}
    (again,) = verifier.verify([decorated("fcc", ("Cu",))], context)
    assert again.measured == found.measured
    assert {file: file.stat().st_mtime_ns for file in files} == before, "what was done is not done again"


def silicon(folder: Path) -> CrystalSimulation:
    """64 atoms for 200 steps in four chunks, 300 K."""
    structure = SILICON.structure.copy()
    structure.scale_lattice(2 * 20.4)
    protocol = CrystalProtocol(300, 2.0, 0, 4, replicas=1, steps=50)
    potential = load_potential("chgnet-0.3.0", None, "cpu")
    return CrystalSimulation(potential, supercell_of(structure, 10), protocol, folder, "silicon")


@pytest.mark.long
def test_sevennet_moves_a_crystal_by_the_same_door(tmp_path: Path) -> None:
    """8 atoms, 50 steps from velocities of 300 K: they come near their temperature and stay at their sites."""
    structure = SILICON.structure.copy()
    structure.scale_lattice(2 * 20.4)
    protocol = CrystalProtocol(300, 2.0, 0, 1, replicas=1, steps=50, pairs=(("Si", "Si"),))
    potential = load_potential("7net-0", None, "cpu")
    simulation = CrystalSimulation(potential, supercell_of(structure, 5), protocol, tmp_path, "silicon")
    chain = simulation.chain(0)
    chain.run()
    record = simulation.record(chain)
    assert record.kept.min() == 1.0
    assert 100 < record.temperatures.mean() < 600
    [(name, found)] = simulation._distributions([record])
    assert name == "Si-Si" and found.highest_peak[0] == pytest.approx(2.37, abs=0.1)


KILLED = """
import os, signal, sys
from pathlib import Path
import torch
from tests.verifiers.test_mlff_md import silicon

torch.set_num_threads(1)

def report(done, of, text):
    if done > 3.5:
        os.kill(os.getpid(), signal.SIGKILL)

silicon(Path(sys.argv[1])).chain(0).run(report)
"""


@pytest.mark.long
@pytest.mark.timeout(900)
def test_silicon_that_was_killed_moves_as_silicon_that_was_not(tmp_path: Path) -> None:
    import torch

    torch.set_num_threads(1)
    root = Path(__file__).resolve().parents[2]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(root), *filter(None, sys.path)])}
    command = [sys.executable, "-c", KILLED, str(tmp_path / "killed")]
    process = subprocess.run(command, env=environment, cwd=root, check=False)
    assert process.returncode == -signal.SIGKILL
    resumed = silicon(tmp_path / "killed").chain(0)
    assert resumed.resume() == 3, "the start and two chunks; the one in which it was killed is lost"
    resumed.run()
    simulation = silicon(tmp_path / "whole")
    whole = simulation.chain(0)
    whole.run()
    ends = [loaded_array(chain.read(4), "end_positions") for chain in (resumed, whole)]
    assert ends[0] == pytest.approx(ends[1], abs=1e-5)
    record = simulation.record(whole)
    assert record.kept.min() == 1.0, "it keeps its neighbours"
    assert 0.05 < record.displacements[-1] < 0.3
    assert record.temperatures[-20:].mean() == pytest.approx(300, rel=0.25)
