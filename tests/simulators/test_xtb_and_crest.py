"""The program xtb itself, beside tblite on the same geometries, and the failures that it does not report."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from rdkit import Chem

from sciagent.domain.outcomes_verdicts_and_reasons import Outcome, Reason
from sciagent.errors import SimulatorError
from sciagent_simulators.geometry_and_its_checks import Geometry
from sciagent_simulators.programs.xtb_and_crest import ProgramOutput, read, run, xtb
from sciagent_simulators.solvent_tables_and_faster_pyscf_solvents import Solvation
from sciagent_simulators.starting_geometry import GeometryProtocol, prepare
from sciagent_simulators.tblite_engine import HARTREE, single_point
from tests.support.fake_programs import needs_xtb

pytestmark = needs_xtb
ETHANOL, CATION, ANION, RADICAL = ("CCO", 1), ("C[NH3+]", 1), ("C[S-]", 1), ("[CH3]", 2)


def geometry(smiles: str, multiplicity: int = 1, method: str = "gfn2") -> Geometry:
    mol = Chem.MolFromSmiles(smiles)
    protocol = GeometryProtocol.model_validate({"method": method, "conformers": 2})
    return prepare(mol, Chem.GetFormalCharge(mol), multiplicity, protocol, 1)[0]


@pytest.mark.parametrize("method", ["GFN2-xTB", "GFN1-xTB"])
@pytest.mark.parametrize(("smiles", "multiplicity"), [ETHANOL, CATION, ANION, RADICAL])
def test_xtb_agrees_with_tblite(smiles: str, multiplicity: int, method, tmp_path: Path) -> None:
    """Energies within 1e-6 hartree (2e-8 is seen), in the gas phase and in two solvents; orbitals 0.5 meV, 1 mD."""
    place = geometry(smiles, multiplicity)
    for n, solvation in enumerate((None, Solvation("water"), Solvation("acetone", "gbsa"))):
        ours = single_point(place, method, solvation)
        result, _ = xtb(place, method, tmp_path / str(n), solvation)
        assert abs(result.energy - ours.energy) / HARTREE < 1e-6
        assert (result.homo, result.lumo) == pytest.approx((ours.homo, ours.lumo), abs=5e-4)
        assert result.dipole == pytest.approx(ours.dipole, abs=1e-3)


def test_a_relaxation_by_xtb_ends_where_tblite_has_no_force(tmp_path: Path) -> None:
    result, output = xtb(geometry("CCO", method="mmff94"), "GFN2-xTB", tmp_path / "x", relax=True)
    there = single_point(result.geometry)
    assert there.fmax < 0.02  # eV/angstrom
    assert abs(result.energy - there.energy) / HARTREE < 1e-6
    assert "normal termination" in output.text and output.version.startswith(("6.", "7."))


def test_a_relaxation_that_xtb_calls_normal_but_did_not_converge_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[ProgramOutput] = []

    def short(program, arguments, *rest, **more):
        calls.append(real_run(program, [*arguments, "--cycles", "1"], *rest, **more))
        return calls[-1]

    real_run = run
    monkeypatch.setattr("sciagent_simulators.programs.xtb_and_crest.run", short)
    bent = geometry("CCCO", method="mmff94")
    bent = bent.moved(bent.positions + 0.05 * np.random.default_rng(1).normal(size=bent.positions.shape))
    with pytest.raises(SimulatorError) as error:
        xtb(bent, "GFN2-xTB", tmp_path / "x", relax=True)
    assert (error.value.outcome, error.value.reason) == (Outcome.NOT_CONVERGED, Reason.GEOMETRY_NOT_CONVERGED)
    assert calls[0].status == 0 and "normal termination" in calls[0].text


def test_charges_that_do_not_converge_have_their_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sciagent_simulators.programs.xtb_and_crest.CYCLES", 2)
    with pytest.raises(SimulatorError) as error:
        xtb(geometry("CCO"), "GFN2-xTB", tmp_path / "x")
    assert (error.value.outcome, error.value.reason) == (Outcome.NOT_CONVERGED, Reason.SCF_NOT_CONVERGED)
    assert "did not converge" in error.value.detail


def test_another_method_than_asked_for_is_refused(tmp_path: Path) -> None:
    """xtb 6.5.1 computes GFN2-xTB, with status 0, for a method that it does not know."""
    water = geometry("O")
    _, output = xtb(water, "GFN1-xTB", tmp_path / "x")
    with pytest.raises(SimulatorError, match=r"bad_result.*computed GFN1-xTB; asked for GFN2-xTB"):
        read(output, water, "GFN2-xTB", False)
    with pytest.raises(SimulatorError, match="bad_result"):
        read(output, geometry("[OH]", 2), "GFN1-xTB", False)
    (output.folder / "xtbout.json").write_text("{}")
    with pytest.raises(SimulatorError, match=r"no_result.*lacks total energy"):
        read(output, water, "GFN1-xTB", False)


def test_an_element_without_parameters_never_reaches_xtb(tmp_path: Path) -> None:
    with pytest.raises(SimulatorError, match=r"refused \(element\)"):  # xtb 6.5.1 ends with a segmentation fault
        xtb(Geometry((96,), np.zeros((1, 3))), "GFN2-xTB", tmp_path / "x")
    assert not (tmp_path / "x").exists()
