from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from pydantic import ValidationError
from pymatgen.core import Lattice, Structure

from sciagent.chemistry.crystal import Crystal, crystal_from_structure
from sciagent.chemistry.crystals.conventional_cell_and_cif import conventional_cell
from sciagent.chemistry.crystals.prototypes_and_same_structures import decorated
from sciagent.domain.outcomes_verdicts_and_reasons import Outcome, Reason
from sciagent.verification.sandbox.host import HostResult, Limits, Request, Worker
from sciagent.verification.verifier_contract import Context, Finding
from sciagent_verifiers.high_fidelity.gpaw_bands import GpawBands
from sciagent_verifiers.simulation.force_field_base import START_SECONDS
from sciagent_verifiers.simulation.mlff_bulk_modulus import MlffElastic
from sciagent_verifiers.simulation.mlff_relax import MlffRelax, lattice_errors
from sciagent_verifiers.simulation.phase_files import phases_of


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCIAGENT_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    with Worker(tmp_path_factory.mktemp("scratch"), preload=["mlff.relax"]) as worker:
        yield worker


def findings(verifier: MlffRelax, crystals: list[Crystal], folder: Path) -> list[Finding]:
    return list(verifier.verify(crystals, Context(folder, folder / "checkpoint")))


def values(finding: Finding) -> dict[str, float]:
    return {measured.property: measured.quantity.value for measured in finding.measured}


SALT = decorated("rocksalt", ("Na", "Cl"))


def test_a_salt_against_its_elements(tmp_path: Path) -> None:
    from ase.io import read

    verifier = MlffRelax({"known_phases": "elements"})
    (found,) = findings(verifier, [SALT], tmp_path)
    assert found.outcome is Outcome.OK
    got = values(found)
    assert got["formation_energy"] == pytest.approx(-2.13, abs=0.15)
    assert got["density"] == pytest.approx(2.1, abs=0.1)
    assert {(m.property, m.level) for m in found.measured} == {(m.property.name, m.level) for m in verifier.measures}
    # 5.640 angstrom at room temperature; the model's functional and the model are 0.9 % larger
    assert got["lattice_a"] == got["lattice_b"] == got["lattice_c"] == pytest.approx(5.69, abs=0.03)
    assert got["lattice_a"] ** 3 / 8 == pytest.approx(got["volume_per_atom"], rel=1e-4)
    uncertainties = {measured.property: measured.quantity.uncertainty for measured in found.measured}
    assert (got["lattice_gamma"], uncertainties["lattice_gamma"]) == (pytest.approx(90, abs=1e-6), 0.0)
    assert 0.001 < (uncertainties["lattice_a"] or 0) < 0.03
    assert 0.011 < (found.share - START_SECONDS) / found.diagnostics["steps"] < 0.012  # 12 kinds of pairs and angles
    assert found.diagnostics["space_group"] == "Fm-3m"
    atoms = read(found.artifacts[0].path)
    assert found.artifacts[0].media_type == "chemical/x-cif"
    assert atoms.get_volume() / len(atoms) == pytest.approx(got["volume_per_atom"], rel=1e-4)


def test_what_the_model_cannot_know_is_refused() -> None:
    verifier = MlffRelax({"max_atoms": 4})
    assert verifier.accepts(SALT) is None
    for crystal, reason in (
        (decorated("rocksalt", ("Po", "O")), Reason.ELEMENT),
        (replace(SALT, charge=1), Reason.CHARGE),
        (replace(SALT, multiplicity=3), Reason.MULTIPLICITY),
        (decorated("perovskite", ("Sr", "Ti", "O")), Reason.TOO_LARGE),
    ):
        refusal = verifier.accepts(crystal)
        assert refusal is not None
        assert refusal.reason is reason


def test_oxides_with_a_hubbard_u_are_compared_on_the_corrected_scale_or_refused() -> None:
    bunsenite = decorated("rocksalt", ("Ni", "O"))
    refusal = MlffRelax({"model": "chgnet-r2scan"}).accepts(bunsenite)
    assert refusal is not None and refusal.reason is Reason.NO_CORRECTION
    assert "Ni in an oxide or fluoride" in refusal.detail and "known_phases: none" in refusal.detail
    assert MlffRelax({"model": "chgnet-r2scan", "known_phases": "none"}).accepts(bunsenite) is None
    assert MlffRelax({"model": "chgnet-r2scan"}).accepts(SALT) is None
    raw = MlffRelax({"model": "7net-0"})
    assert raw.accepts(bunsenite) is None
    labels = {measure.property.name: measure.level.basis for measure in raw.measures}
    assert labels["formation_energy"] == labels["energy_above_known_phases"] == "PBE+U, MP2020"
    assert labels["volume_per_atom"] == "PBE+U, uncorrected"


def test_slabs_and_molecules_in_a_box_are_refused_before_they_are_relaxed() -> None:
    structure = decorated("MoS2", ("Mo", "S")).structure
    layer = [place for place, site in enumerate(structure) if site.frac_coords[2] < 0.5]
    cell = Lattice.hexagonal(structure.lattice.a, 20.0)
    sites = [structure[place] for place in layer]
    positions = [cell.get_fractional_coords(site.coords) for site in sites]
    slab = crystal_from_structure(Structure(cell, [site.specie.symbol for site in sites], positions))
    for verifier in (MlffRelax(), MlffElastic(), GpawBands({"geometry": {}})):
        refusal = verifier.accepts(slab)
        assert refusal is not None and refusal.reason is Reason.NOT_PERIODIC and "a slab" in refusal.detail
    assert GpawBands({"spin": {"Mo": 0}}).accepts(slab) is None, "bands of a layer mean something"


def test_a_layered_crystal_has_a_remark_beside_its_values(tmp_path: Path) -> None:
    cell = Lattice.hexagonal(2.467, 7.69)  # near the model's own minimum
    graphite = Structure.from_spacegroup("P6_3/mmc", cell, ["C", "C"], [[0, 0, 0.25], [1 / 3, 2 / 3, 0.25]])
    [found] = findings(MlffRelax({"known_phases": "none", "fmax": 0.05}), [crystal_from_structure(graphite)], tmp_path)
    assert found.outcome is Outcome.OK and "binds layers too weakly" in found.detail


def test_lengths_along_which_no_bonds_run_have_no_uncertainty() -> None:
    def errors(crystal: Crystal, last_strain: float = 0.01) -> dict[str, float | None]:
        found = lattice_errors(conventional_cell(crystal.structure), last_strain)
        return {prop.name: error for prop, error in found.items()}

    layered = errors(decorated("MoS2", ("Mo", "S")))
    assert layered["lattice_a"] and layered["lattice_c"] is None
    assert layered["volume_per_atom"] is None and layered["density"] is None
    salt = errors(SALT)
    assert salt["lattice_a"] == pytest.approx(2 * (errors(SALT, 0.005)["lattice_a"] or 0), rel=0.002)
    assert salt["lattice_alpha"] == 0
    monoclinic = errors(decorated("baddeleyite", ("Zr", "O")))
    assert monoclinic["lattice_alpha"] == 0 and (monoclinic["lattice_beta"] or 0) > 0.1


def test_failures_have_names_and_the_others_go_on(tmp_path: Path) -> None:
    squeezed = [[0.62 * x for x in row] for row in SALT.lattice]
    overlapping = replace(SALT, lattice=tuple(map(tuple, squeezed)), identity="squeezed")
    loose = replace(SALT, lattice=tuple(tuple(1.25 * x for x in row) for row in SALT.lattice), identity="loose")
    verifier = MlffRelax({"known_phases": "none", "max_volume_change": 0.3})
    first, second, third = findings(verifier, [overlapping, SALT, loose], tmp_path)
    assert first.outcome is not Outcome.OK
    assert first.reason in (Reason.VOLUME_CHANGED, Reason.OVERLAPPING_ATOMS, Reason.COLLAPSED)
    assert second.outcome is Outcome.OK
    assert (third.outcome, third.reason) == (Outcome.UNSTABLE, Reason.VOLUME_CHANGED)
    short = MlffRelax({"known_phases": "none", "steps": 2, "fmax": 1e-4})
    (unfinished,) = findings(short, [SALT], tmp_path)
    assert (unfinished.outcome, unfinished.reason) == (Outcome.NOT_CONVERGED, Reason.GEOMETRY_NOT_CONVERGED)


def entries(folder: Path, functional: str, correction: str) -> str:
    rows = [("Na", -1.32), ("Cl", -1.85), ("NaCl", -3.70)]
    data = {
        "functional": functional,
        "correction": correction,
        "entries": [{"formula": formula, "energy_per_atom": energy} for formula, energy in rows],
    }
    (folder / "entries.json").write_text(json.dumps(data))
    return str(folder / "entries.json")


def test_entries_on_the_same_scale_give_an_energy_above_the_hull(tmp_path: Path) -> None:
    verifier = MlffRelax({"known_phases": "none", "entries": entries(tmp_path, "PBE+U", "MP2020")})
    (found,) = findings(verifier, [SALT], tmp_path)
    assert values(found)["energy_above_hull"] == pytest.approx(-3.668 + 3.70, abs=0.01)
    assert found.diagnostics["hull_decomposes_into"] == {"NaCl": 1.0}


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"second_model": "chgnet-r2scan"}, "two functionals"),
        ({"second_model": "chgnet-0.3.0"}, "the model itself"),
        ({"model": "7net-omni"}, "7net-0"),
        ({"functional": "PBE"}, "belong to own weights"),
    ],
)
def test_settings_that_mix_scales_or_would_download_are_refused(settings: dict[str, str], said: str) -> None:
    with pytest.raises((ValidationError, Exception), match=said):
        MlffRelax(settings)


def test_entries_of_another_scale_are_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(ValidationError, match="do not mix"):
        MlffRelax({"entries": entries(tmp_path, "r2SCAN", "uncorrected")})


def test_raw_entries_get_the_corrections(tmp_path: Path) -> None:
    """-0.614 eV for the chloride, half of it for an atom."""
    settings = MlffRelax({"entries": entries(tmp_path, "PBE+U", "uncorrected")}).settings
    assert settings.entries is not None
    hull = phases_of(settings.entries, settings.scale)
    assert hull.scale == settings.scale
    salt = next(phase for phase in hull.phases if len(phase.amounts) == 2)
    assert salt.per_atom == pytest.approx(-3.70 - 0.307, abs=1e-9)


def computed_structures(folder: Path, crystals: list[Crystal]) -> str:
    """A file of pymatgen's ComputedStructureEntry, whose energies are of no model."""
    from pymatgen.entries.computed_entries import ComputedStructureEntry

    rows = []
    for number, crystal in enumerate(crystals):
        rows.append(ComputedStructureEntry(crystal.structure, energy=7.0, entry_id=f"mine-{number}").as_dict())
    (folder / "seeds.json").write_text(json.dumps(rows))
    return str(folder / "seeds.json")


def test_structures_of_a_file_join_the_known_phases(tmp_path: Path) -> None:
    """By CHGNet cubic CaTiO3 lies 0.060 eV/atom above the tilted one, which the file holds."""
    tilted = decorated("orthorhombic-perovskite", ("Ca", "Ti", "O"))
    file = computed_structures(tmp_path, [tilted, SALT, tilted])
    verifier = MlffRelax({"known_phases": "elements", "entries": file, "entries_as": "structures"})
    (found,) = findings(verifier, [decorated("perovskite", ("Ca", "Ti", "O"))], tmp_path)
    assert values(found)["energy_above_known_phases"] == pytest.approx(0.060, abs=0.01)
    assert "energy_above_hull" not in values(found)
    assert found.diagnostics["decomposes_into"] == {"mine-0 CaTiO3 Pnma": pytest.approx(1)}
    assert found.diagnostics["not_compared_with"] == "compounds, apart from those of seeds.json"
    assert {(m.property, m.level) for m in found.measured} == {(m.property.name, m.level) for m in verifier.measures}
    level = next(m.level for m in found.measured if m.property == "energy_above_known_phases")
    assert verifier.settings.entries is not None
    assert level.conditions == f"elements, {verifier.settings.entries.sha256[:12]} seeds.json"


def test_files_that_hold_no_structures_are_refused_before_anything_runs(tmp_path: Path) -> None:
    file = computed_structures(tmp_path, [SALT, decorated("perovskite", ("Sr", "Ti", "O"))])
    structures = {"entries": file, "entries_as": "structures"}
    assert MlffRelax(structures).accepts(decorated("rocksalt", ("Mg", "O"))) is None, "elements come from the model"
    for settings, said in (
        ({**structures, "max_atoms": 4}, r"structure 2 \(mine-1\): 5 atoms in the primitive cell; max_atoms is 4"),
        ({**structures, "known_phases": "none"}, "join the known phases"),
        ({"entries_as": "structures"}, "needs a file"),
        ({**structures, "entries": entries(tmp_path, "PBE+U", "MP2020")}, "structure 1"),
    ):
        with pytest.raises(ValidationError, match=said):
            MlffRelax(settings)


def test_energies_are_the_default_and_enter_no_hash() -> None:
    assert "entries_as" not in MlffRelax({"entries_as": "energies"}).settings.model_dump(mode="json")


def run(worker: Worker, crystals: list[Crystal], together: bool) -> list[HostResult]:
    settings = {"known_phases": "none", "fmax": 0.1}
    limits = Limits(wall_seconds=120, memory_mb=4000)
    return worker.run(Request("mlff.relax", settings, tuple(crystals), limits, together=together))


def test_a_batch_in_the_sandbox_gives_the_same_evidence_and_shares_its_cost(worker: Worker) -> None:
    crystals = [decorated("rocksalt", pair) for pair in (("Na", "Cl"), ("Mg", "O"))]
    batch = run(worker, crystals, together=True)
    alone = [run(worker, [crystal], together=False)[0] for crystal in crystals]
    for one, other in zip(batch, alone, strict=True):
        assert one.finding.outcome is other.finding.outcome is Outcome.OK
        energies = [found.finding.diagnostics["energy_per_atom"] for found in (one, other)]
        assert energies[0] == pytest.approx(energies[1], abs=1e-4)
        assert one.finding.diagnostics["steps"] == other.finding.diagnostics["steps"]
        assert one.files[0].media_type == "chemical/x-cif"
    total = sum(found.cost["core_seconds"] for found in batch)
    shares = sum(found.finding.share for found in batch)
    for found in batch:
        assert found.cost["core_seconds"] / total == pytest.approx(found.finding.share / shares)
    assert {"chgnet", "torch"} <= batch[0].versions.keys()


@pytest.mark.long
def test_a_second_model_measures_the_spread_on_one_scale(tmp_path: Path) -> None:
    verifier = MlffRelax({"known_phases": "none", "second_model": "7net-0"})
    (found,) = findings(verifier, [SALT], tmp_path)
    assert values(found)["energy_spread"] == pytest.approx(0.023, abs=0.01)
