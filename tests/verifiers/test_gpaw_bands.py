"""The verifier `gpaw.bands`: levels, refusals, and findings with recorded and real runs of GPAW."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ase.build import bulk

from sciagent.chemistry.crystal import Crystal, crystal_from_structure
from sciagent.domain.outcomes_verdicts_and_reasons import Outcome, Reason
from sciagent.errors import UsageError
from sciagent.verification.verifier_contract import Context
from sciagent.verification.verifier_registry import verifier_class
from sciagent_simulators.periodic.gpaw_calculation_and_band_gap import METAL, Bands, Gap
from sciagent_verifiers.high_fidelity.gpaw_bands import BandsSettings, GpawBands
from tests.support import recorded_gpaw
from tests.support.gpaw_cells import perovskite


def crystal(atoms: Any) -> Crystal:
    from pymatgen.core import Lattice, Structure

    return crystal_from_structure(
        Structure(Lattice(atoms.cell.array), atoms.get_chemical_symbols(), atoms.get_scaled_positions())
    )


STRONTIUM_TITANATE = crystal(perovskite("Sr", "Ti", "O", 3.946))


def finding(settings: dict[str, Any], candidate: Crystal, folder: Path) -> Any:
    for name in ("scratch", "kept"):
        (folder / name).mkdir(exist_ok=True)
    context = Context(folder / "scratch", folder / "kept")
    return next(GpawBands(settings).verify([candidate], context))


@pytest.fixture
def recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCIAGENT_GPAW", recorded_gpaw.program(tmp_path))


def test_it_is_registered() -> None:
    assert verifier_class("gpaw.bands") is GpawBands


@pytest.mark.parametrize(
    ("settings", "label"),
    [
        ({}, "PBE/PW(500)"),
        ({"protocol": "fast"}, "PBE/PW(400)"),
        ({"geometry": {}}, "PBE/PW(500)//CHGNet-0.3.0"),
        ({"spin": {"Fe": 2.2, "O": 0}}, "PBE spin(Fe 2.2)/PW(500)"),
        ({"spin": {"Mn": 0}}, "PBE/PW(500)"),
        ({"mesh": 6, "semicore": ["Cu"]}, "PBE semicore(Cu)/PW(500) k(6)"),
        ({"spin": {"Fe": 2.2}, "semicore": ["Fe", "Cr"]}, "PBE spin(Fe 2.2) semicore(Cr, Fe)/PW(500)"),
    ],
)
def test_every_setting_that_changes_the_number_is_in_the_level(settings: dict[str, Any], label: str) -> None:
    measures = GpawBands(settings).measures
    assert {each.level.label for each in measures} == {label}
    names = {each.property.name for each in measures}
    assert names == {"band_gap", "total_energy"} | ({"magnetic_moment"} if "spin(" in label else set())


def test_settings_that_came_later_leave_the_keys_of_older_evidence() -> None:
    assert GpawBands().settings_hash.startswith("6464a5825b88bec8")
    assert (
        GpawBands({"semicore": ["Cu", "Ag", "Cu"]}).settings_hash == GpawBands({"semicore": ["Ag", "Cu"]}).settings_hash
    )


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"spin": {"Xx": 1}}, 'no PAW data for "Xx"'),
        ({"semicore": ["Si"]}, 'no PAW data with another shell for "Si"'),
        ({"mesh": 0}, "greater than 0.5"),
        ({"spin": {"Fe": 50}}, "more than 10 Bohr magnetons"),
        ({"geometry": {"model": "chgnet-0.3"}}, "unknown potential"),
    ],
)
def test_settings_that_mean_nothing_are_refused(settings: dict[str, Any], says: str) -> None:
    with pytest.raises((ValueError, UsageError), match=says):
        BandsSettings.model_validate(settings)


@pytest.mark.parametrize(
    ("atoms", "settings", "reason"),
    [
        (perovskite("Sr", "V", "O", 3.84), {}, Reason.ELEMENT),
        (perovskite("Sr", "V", "O", 3.84), {"spin": {"V": 1}}, None),
        (bulk("Po", "sc", a=3.35), {}, Reason.MISSING_SETUP),
        (perovskite("Sr", "Ti", "O", 3.94), {"max_atoms": 4}, Reason.TOO_LARGE),
        (perovskite("Sr", "Ti", "O", 3.94), {}, None),
    ],
)
def test_it_refuses_what_it_cannot_answer(atoms: Any, settings: dict[str, Any], reason: Reason | None) -> None:
    refusal = GpawBands(settings).accepts(crystal(atoms))
    assert (refusal and refusal.reason) == reason


def test_a_charged_cell_is_refused() -> None:
    from dataclasses import replace

    refusal = GpawBands().accepts(replace(STRONTIUM_TITANATE, charge=1))
    assert refusal is not None and refusal.reason == Reason.CHARGE


@pytest.mark.usefixtures("recorded")
def test_a_finding_has_gap_energy_files_and_versions(tmp_path: Path) -> None:
    found = finding({"protocol": "fast"}, STRONTIUM_TITANATE, tmp_path)
    assert found.outcome == Outcome.OK
    values = {row.property: row.quantity for row in found.measured}
    assert 1.5 < values["band_gap"].value < 2.2 and values["band_gap"].uncertainty > 0
    assert found.versions["gpaw"] == "22.8.0" and found.diagnostics["is_on_mesh"] is False
    assert [file.media_type for file in found.artifacts] == ["chemical/x-cif"]
    assert "_cell_length_a" in Path(found.artifacts[0].path).read_text()


@pytest.mark.parametrize(
    ("settings", "gap", "energy", "moment"),
    [
        ({"spin": {"Fe": 2.2}}, METAL, 0.052, 0.28),
        ({"spin": {"Fe": 2.2}, "mesh": 6}, METAL, 0.014, 0.06),
        ({"spin": {"Fe": 2.2}, "protocol": "fast"}, METAL, 0.38, None),
        ({"spin": {"Fe": 2.2}, "mesh": 1}, METAL, None, None),
        ({"spin": {"Fe": 2.2}}, Gap(0.5, 0.6, 1.0), 0.001, None),
    ],
)
def test_the_mesh_is_in_the_uncertainties_of_a_metal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: dict[str, Any], gap: Gap, energy: Any, moment: Any
) -> None:
    bands = Bands(-8.0, 16.0, 4.4, gap, False, (10, 10), {}, "")
    monkeypatch.setattr("sciagent_verifiers.high_fidelity.gpaw_bands.compute", lambda *_, **__: bands)
    two_irons = crystal(bulk("Fe", "hcp", a=2.45, c=3.9))
    uncertainties = {row.property: row.quantity.uncertainty for row in finding(settings, two_irons, tmp_path).measured}
    assert uncertainties["total_energy"] == (None if energy is None else pytest.approx(energy, rel=0.01))
    assert uncertainties["magnetic_moment"] == pytest.approx(moment)


@pytest.mark.usefixtures("recorded")
def test_an_error_of_the_program_is_the_outcome(tmp_path: Path) -> None:
    found = finding({}, crystal(bulk("Ne", "fcc", a=4.6)), tmp_path)
    assert (found.outcome, found.reason) == (Outcome.NOT_CONVERGED, Reason.SCF_NOT_CONVERGED)


def test_without_the_program_the_job_names_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCIAGENT_GPAW", str(tmp_path / "nowhere"))
    missing = GpawBands.missing()
    assert missing is not None and "apt-get install gpaw" in missing and "SCIAGENT_GPAW" in missing
    found = finding({}, STRONTIUM_TITANATE, tmp_path)
    assert (found.outcome, found.reason) == (Outcome.BAD_ENVIRONMENT, Reason.PROGRAM_MISSING)


def test_more_electrons_and_points_cost_more() -> None:
    copper = crystal(bulk("Cu", "fcc", a=3.63))
    settings: list[dict[str, Any]] = [{"spin": {"Cu": 0}}, {"spin": {"Cu": 0}, "semicore": ["Cu"]}]
    settings.append(settings[-1] | {"mesh": 6})
    first, second, third = (GpawBands(each).cost(copper)["core_seconds"] for each in settings)
    assert first + 5 < second < third / 3


def test_the_finer_protocol_costs_more() -> None:
    fast, standard = (
        GpawBands({"protocol": name}).cost(STRONTIUM_TITANATE)["core_seconds"] for name in ("fast", "standard")
    )
    assert 5 < fast < standard < 300


@pytest.mark.usefixtures("recorded")
def test_the_force_field_relaxes_the_cell_first(tmp_path: Path) -> None:
    found = finding({"geometry": {}}, crystal(perovskite("Sr", "Ti", "O", 3.8)), tmp_path)
    assert found.outcome == Outcome.OK and found.diagnostics["volume_ratio"] == pytest.approx(1.12, abs=0.03)
    assert found.diagnostics["space_group"] == "Pm-3m"
