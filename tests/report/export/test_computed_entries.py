"""Relaxed crystals of a campaign as pymatgen's entries, read back as energies and as structures of a hull."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pymatgen.entries.computed_entries import ComputedStructureEntry

from sciagent.chemistry.crystals.conventional_cell_and_cif import cif_of
from sciagent.chemistry.crystals.prototypes_and_same_structures import decorated
from sciagent.domain.evidence_keys_and_pooled_replicates import Measured
from sciagent.domain.properties_and_levels import Level
from sciagent.domain.quantities import Quantity
from sciagent.errors import UsageError
from sciagent.report.export.computed_entries import write_entries
from sciagent.store.database.ledger import Ledger
from sciagent.verification.verifier_contract import ReferenceFile
from sciagent_simulators.potentials.potential_base_and_registry import MP2020, UNCORRECTED, Energy, EnergyScale
from sciagent_verifiers.simulation.phase_files import phases_of, read_phase_structures, scale_fault
from tests.support.reported import Maker

CHGNET = EnergyScale("CHGNet-0.3.0", "PBE+U", MP2020)
RELAXED = Level(CHGNET.model, CHGNET.label, geometry="relaxed to 0.02 eV/angstrom")
ENERGIES = {"rocksalt: Na Cl": -3.668, "bcc: Na": -1.32}
A = 5.69


@pytest.fixture
def salts(own_ledger: Ledger, tmp_path: Path) -> Maker:
    """Rock salt, relaxed by two rungs to an edge of A angstrom, sodium, and periclase, which no rung relaxed."""
    made = Maker(own_ledger, tmp_path, subject="crystal", objectives=[])
    made.enter((*ENERGIES, "rocksalt: Mg O"))
    structure = decorated("rocksalt", ("Na", "Cl")).structure.copy()
    structure.scale_lattice(A**3 * len(structure) / 8)
    sodium = decorated("bcc", ("Na",)).structure
    for number, (cell, energy) in enumerate(zip((structure, sodium), ENERGIES.values(), strict=True)):
        formation = Measured("formation_energy", RELAXED, Quantity(-0.1, "eV/atom", 0.001))
        facts = {"energy_per_atom": energy, "energy_scale": CHGNET.label}
        made.answer(number, 1, formation, cif=cif_of(cell), diagnostics=facts)
    return made


@pytest.fixture
def file(salts: Maker, tmp_path: Path) -> ReferenceFile:
    path = tmp_path / "phases.json"
    with salts.ledger.read() as connection, path.open("w", encoding="utf-8") as stream:
        assert write_entries(connection, salts.row, salts.ledger.artifacts, stream) == (2, 1)
    return ReferenceFile.model_validate(str(path))


def test_pymatgen_reads_the_entries(file: ReferenceFile) -> None:
    salt, sodium = (ComputedStructureEntry.from_dict(row) for row in json.loads(Path(file.path).read_text()))
    assert salt.energy_per_atom == pytest.approx(-3.668) and sodium.energy_per_atom == pytest.approx(-1.32)
    assert salt.structure.volume == pytest.approx(A**3 / 4, rel=1e-6)
    assert salt.parameters["energy_scale"] == "PBE+U, MP2020" and salt.parameters["model"] == "CHGNet-0.3.0"
    assert salt.data["formation_energy"] == -0.1


def test_a_hull_takes_the_energies_of_the_same_model_alone(file: ReferenceFile) -> None:
    assert scale_fault(file, CHGNET) is None
    hull = phases_of(file, CHGNET)
    assert hull.scale == CHGNET
    assert sorted(phase.per_atom for phase in hull.phases) == pytest.approx([-3.668, -1.32])
    above, _ = hull.energy_above({"Na": 1}, Energy(-1.30, CHGNET))
    assert above == pytest.approx(0.02)
    other = EnergyScale("7net-0", "PBE+U", UNCORRECTED)
    assert "energies of CHGNet-0.3.0, not of 7net-0" in str(scale_fault(file, other))


def test_a_hull_takes_the_structures(file: ReferenceFile) -> None:
    structures = read_phase_structures(Path(file.path), file.sha256, 200)
    assert [name.partition(" ")[2] for name in structures] == ["NaCl Fm-3m", "Na Im-3m"]
    salt = next(iter(structures.values()))
    assert salt.structure.volume == pytest.approx(A**3 / 4, rel=1e-6)


def test_campaigns_without_such_energies_have_no_entries(own_ledger: Ledger, tmp_path: Path) -> None:
    for subject, said in (("crystal", "measured a formation energy"), ("molecule", "entries are crystals")):
        made = Maker(own_ledger, tmp_path, subject=subject, objectives=[], campaign=subject)
        with (
            own_ledger.read() as connection,
            (tmp_path / "a.json").open("w") as stream,
            pytest.raises(UsageError) as no,
        ):
            write_entries(connection, made.row, own_ledger.artifacts, stream)
        assert said in str(no.value)
