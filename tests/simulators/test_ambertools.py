"""AmberTools is found beside this Python, gives the same parameters each time, and its failures have names."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from rdkit import Chem

from sciagent.domain.outcomes_verdicts_and_reasons import Outcome, Reason
from sciagent.errors import SimulatorError
from sciagent.programs import find
from sciagent_simulators.programs import ambertools
from sciagent_simulators.programs.ambertools import (
    AMBERTOOLS,
    TypedMolecule,
    antechamber,
    check_frcmod,
    parmchk2,
    tleap,
)
from sciagent_simulators.programs.run_program_and_name_failure import ProgramOutput, run
from sciagent_simulators.starting_geometry import embed
from tests.support.force_fields import recorded

RECORDED = recorded("gaff2")
SCF_FAILURE = "QMMM: Unable to achieve self consistency to the tolerances specified"


def test_it_is_found_beside_this_python(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.delenv(AMBERTOOLS.variable, raising=False)
    found = find(AMBERTOOLS)
    assert found.path.parent == Path(sys.executable).parent and found.version[0].isdigit()
    with pytest.raises(SimulatorError, match="lacks no_such_command") as caught:
        run(AMBERTOOLS, [], tmp_path / "x", threads=1, files={}, command="no_such_command")
    assert (caught.value.outcome, caught.value.reason) == (Outcome.BAD_ENVIRONMENT, Reason.PROGRAM_MISSING)


def test_parmchk2_gives_the_same_parameters_each_time(tmp_path: Path) -> None:
    """Asked for `gaff2` by name, it gave those of GAFF in 40 % of the runs."""
    each = RECORDED["azole"]
    typed = antechamber(each.molecule, each.positions, tmp_path / "a", charges=False)
    texts = {parmchk2(typed, tmp_path / str(number)) for number in range(6)}
    assert len(texts) == 1
    assert "cd-h4-cc-na        10.5" in texts.pop()


def test_terms_that_need_revision_are_refused_by_name() -> None:
    text = "BOND\nc3-xx  0.00   0.000       ATTN, need revision\n\nANGLE\n"
    with pytest.raises(SimulatorError, match="c3-xx") as caught:
        check_frcmod(text)
    assert (caught.value.outcome, caught.value.reason) == (Outcome.REFUSED, Reason.NO_PARAMETERS)
    check_frcmod("BOND\nca-nv  417.90   1.386       same as ca-nh, penalty score=  0.0\n")


def test_tleap_names_the_parameter_that_it_lacks(tmp_path: Path) -> None:
    each = RECORDED["alcohol"]
    typed = antechamber(each.molecule, each.positions, tmp_path / "a", charges=False)
    strange = TypedMolecule(typed.mol2.replace(" oh ", " cl "), typed.types, typed.charges)
    with pytest.raises(SimulatorError) as caught:
        tleap(strange, "remark\nMASS\n\n", tmp_path / "b")
    assert (caught.value.outcome, caught.value.reason) == (Outcome.REFUSED, Reason.NO_PARAMETERS)
    assert "cl" in caught.value.detail


@pytest.mark.parametrize(
    ("printed", "reason"),
    [
        (SCF_FAILURE, Reason.SCF_NOT_CONVERGED),
        ("QMMM: System specified with odd number of electrons (   13)", Reason.MULTIPLICITY),
        ("QM AM1 NOT AVAILABLE FOR THIS ATOM", Reason.ELEMENT),
        ("", Reason.NO_RESULT),
    ],
)
def test_failures_of_sqm_have_names(printed: str, reason: Reason, tmp_path: Path, monkeypatch) -> None:
    def fake(program, arguments, folder: Path, **rest) -> ProgramOutput:
        folder.mkdir()
        (folder / "sqm.out").write_text(printed)
        return ProgramOutput(program, "26.0", folder, 0, "Cannot properly run sqm")

    monkeypatch.setattr(ambertools, "run", fake)
    each = RECORDED["alcohol"]
    with pytest.raises(SimulatorError) as caught:
        antechamber(each.molecule, each.positions, tmp_path / "x", charges=True)
    assert caught.value.reason == reason


def test_a_proton_that_moves_while_sqm_relaxes_is_noticed(tmp_path: Path, monkeypatch) -> None:
    """The last hydrogen of ethanol is written at the other end of the molecule."""
    each = RECORDED["alcohol"]
    places = each.positions.copy()
    places[8] = places[0] + [0, 0, -1.1]
    lines = [f"ATOM  {1:5d}  X   MOL     1    {x:8.3f}{y:8.3f}{z:8.3f}  1.00  0.00" for x, y, z in places]

    def fake(program, arguments, folder: Path, **rest) -> ProgramOutput:
        folder.mkdir()
        (folder / "sqm.out").write_text("Calculation Completed")
        (folder / "sqm.pdb").write_text("\n".join(lines))
        (folder / "molecule.mol2").write_text("")
        return ProgramOutput(program, "26.0", folder, 0, "")

    monkeypatch.setattr(ambertools, "run", fake)
    with pytest.raises(SimulatorError, match="AM1 relaxation") as caught:
        antechamber(each.molecule, each.positions, tmp_path / "x", charges=True)
    assert caught.value.reason == Reason.BOND_CHANGED


def test_atoms_in_another_order_are_a_bad_result(tmp_path: Path) -> None:
    molecule = Chem.AddHs(Chem.MolFromSmiles("CO"))
    geometry = embed(molecule, 0, 1, 1, 1)[0][0]
    typed = antechamber(molecule, geometry.positions, tmp_path / "x", charges=False)
    assert typed.types[:2] == ("c3", "oh") and typed.charges == (0.0,) * 6
    other = Chem.AddHs(Chem.MolFromSmiles("OC"))
    with pytest.raises(SimulatorError) as caught:
        ambertools._read_mol2(typed.mol2, other)
    assert caught.value.reason == Reason.BAD_RESULT
