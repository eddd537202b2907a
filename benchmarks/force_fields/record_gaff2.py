"""Records GAFF2 energies by AmberTools' sander, for molecules at the geometries of the OpenFF record.

It uses no code of sciagent: antechamber, parmchk2, tleap and sander run one after the other, as their manual says.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.force_fields.molecules import ComparedMolecule, compared_molecule, mapped_molecule

KINDS = (
    "alcohol",
    "amide",
    "aniline",
    "nitro",
    "sulfoxide",
    "sulfonamide",
    "phosphate ester",
    "azole",
    "fused aromatic",
    "xanthine",
    "iodide",
    "thioamide",
)
TERMS = ("BOND", "ANGLE", "DIHED", "VDWAALS", "EEL", "1-4 VDW", "1-4 EEL")
LEAP = """source leaprc.gaff2
loadamberparams molecule.frcmod
molecule = loadmol2 molecule.mol2
saveamberparm molecule molecule.prmtop molecule.inpcrd
quit
"""
SANDER = """one energy, without cutoff
&cntrl
 imin=1, maxcyc=1, ntb=0, igb=0, cut=999.0, ntpr=1,
/
"""
COMMANDS = (
    "antechamber -i molecule.mol -fi mdl -o molecule.mol2 -fo mol2 -at gaff2 -c rc -cf charges.txt -dr no -seq n",
    "parmchk2 -i molecule.mol2 -f mol2 -o molecule.frcmod -s 2",
    "tleap -f leap.in",
    "sander -O -i sander.in -o sander.out -p molecule.prmtop -c molecule.inpcrd",
)


def energies(compared: ComparedMolecule, programs: Path) -> dict[str, float]:
    """Returns the energy of each term in kcal/mol. programs: folder of AmberTools' commands."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_molfile(compared, folder / "molecule.mol")
        (folder / "charges.txt").write_text("".join(f"{charge:10.6f}\n" for charge in compared.charges))
        (folder / "leap.in").write_text(LEAP)
        (folder / "sander.in").write_text(SANDER)
        for command in COMMANDS:
            program, *arguments = command.split()
            if program == "antechamber":
                arguments += ["-nc", str(round(sum(compared.charges)))]
            if program == "sander":
                (folder / "molecule.inpcrd").write_text(coordinates(compared))
            subprocess.run([programs / program, *arguments], cwd=folder, check=True, capture_output=True)
        return read_energies((folder / "sander.out").read_text())


def write_molfile(compared: ComparedMolecule, file: Path) -> None:
    """Writes the molecule at its geometry as an MDL molfile."""
    from rdkit import Chem

    molecule: Any = mapped_molecule(compared.mapped_smiles)
    conformer = Chem.Conformer(molecule.GetNumAtoms())
    for atom, position in enumerate(compared.positions):
        conformer.SetAtomPosition(atom, position)
    molecule.AddConformer(conformer)
    Chem.MolToMolFile(molecule, str(file))


def coordinates(compared: ComparedMolecule) -> str:
    """Returns the positions as sander reads them; those in a MOL2 file are rounded to 0.001 angstrom."""
    numbers = [f"{number:12.7f}" for position in compared.positions for number in position]
    lines = ["".join(numbers[start : start + 6]) for start in range(0, len(numbers), 6)]
    return "\n".join([compared.kind, f"{len(compared.positions):6d}", *lines]) + "\n"


def read_energies(text: str) -> dict[str, float]:
    """Returns the terms of the first step in the output of sander."""
    step = text.partition("NSTEP       ENERGY")[2].partition("EAMBER")[0]
    found = {}
    for term in TERMS:
        match = re.search(rf"(?<![\d-]){re.escape(term)}\s*=\s*(-?\d+\.\d+)", step)
        if match is None:
            raise ValueError(f"no {term} in {step!r}")
        found[term] = float(match[1])
    return found


def main() -> None:
    """Writes the recorded values to the named file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--programs", type=Path, required=True, help="folder of antechamber, sander, ...")
    arguments = parser.parse_args()
    command = [arguments.programs / "sander", "--version"]
    version = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()[-1]
    rows = []
    for kind in KINDS:
        compared = compared_molecule(kind)
        rows.append(asdict(compared) | {"energies": energies(compared, arguments.programs)})
    lines = ",\n".join(json.dumps(row, separators=(",", ":")) for row in rows)
    text = f'{{"versions": {{"sander": "{version}"}}, "molecules": [\n{lines}\n]}}\n'
    arguments.out.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
