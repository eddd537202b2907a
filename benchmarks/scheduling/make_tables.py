"""Makes the tables in `benchmarks/scheduling/tables` from the data files of two packages.

    python -m benchmarks.scheduling.make_tables chemicals-1.5.2-py3-none-any.whl chemml-1.3-py3-none-any.whl

Both wheels are read as archives, so neither package has to be installed. The estimates by RDKit and by GFN2-xTB are
computed here, on one seeded ETKDG geometry relaxed by MMFF94. benchmarks/scheduling/README.md names the sources.
"""

from __future__ import annotations

import csv
import gzip
import io
import random
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from zipfile import ZipFile

from rdkit import Chem, RDLogger
from rdkit.Chem import AllChem, Crippen, Descriptors

HERE = Path(__file__).parent / "tables"
MOST = 3000  # rows of a table
MOST_XTB = 700  # rows of a table with values by GFN2-xTB
BOHR = 0.529177210903
DEBYE = 2.541746473
KCAL = 627.509474
Column = Mapping[str, float]  # registry number without hyphens -> value
Molecules = Mapping[str, Chem.Mol]


def main() -> None:
    RDLogger.DisableLog("rdApp.*")  # type: ignore[attr-defined]
    wheels = {path.split("/")[-1].split("-")[0]: ZipFile(path) for path in sys.argv[1:]}
    molecules = read_molecules(wheels["chemicals"])

    def of(file: str, column: str) -> Column:
        return read(wheels["chemicals"], file, column)

    joback = {name: of("Misc/joback_predictions.tsv", name) for name in ("Tm", "Tb", "Tc", "Hvap")}
    boiling = of("Misc/Physical Constants of Organic Compounds.csv", "Tb")
    refraction = by(molecules, Crippen.MolMR)
    critical = {
        **of("Critical Properties/CRCCriticalOrganics.tsv", "Tc"),
        **of("Critical Properties/IUPACOrganicCriticalProps.tsv", "Tc"),
    }
    critical = {key: value for key, value in critical.items() if value > 100}  # some lines hold another property
    dipoles = {
        **of("Misc/Muller Supporting Info Dipoles.csv", "dipole_moment"),
        **of("Misc/Poling Dipole.csv", "dipole_moment"),
        **of("Misc/cccbdb.nist.gov Dipoles.csv", "dipole_moment"),
    }
    vaporisation = of("Phase Change/Ghazerati Appendix Vaporization Enthalpy.tsv", "Hvap298")
    partition = of("Environment/Syrres logP data.csv.gz", "logP")
    write("boiling_points", molecules, {"mr": refraction, "joback_K": joback["Tb"], "measured_K": boiling})
    write("critical_points", molecules, {"joback_K": joback["Tc"], "boiling_K": boiling, "measured_K": critical})
    write(
        "melting_points",
        molecules,
        {"joback_K": joback["Tm"], "measured_K": of("Phase Change/OpenNotebook Melting Points.tsv", "Tm")},
    )
    write(
        "vaporisation",
        molecules,
        {"mr": refraction, "joback_J_mol": joback["Hvap"], "boiling_K": boiling, "measured_J_mol": vaporisation},
    )
    write(
        "flash_points",
        molecules,
        {"joback_K": joback["Tb"], "boiling_K": boiling, "measured_K": of("Safety/DIPPR T_flash Serat.csv", "T_flash")},
    )
    chosen = drawn([key for key in partition if key in molecules], MOST_XTB)
    some = {key: molecules[key] for key in chosen}
    crippen = by(some, Crippen.MolLogP)
    transfer = by(some, transfer_energy)
    write("partition", some, {"crippen": crippen, "gfn2_kcal_mol": transfer, "measured": partition})
    some = {key: molecules[key] for key in dipoles if key in molecules}
    write("dipoles", some, {"gfn2_D": by(some, gfn2_dipole), "measured_D": dipoles})
    write_polymers(wheels["chemml"])


def read_molecules(wheel: ZipFile) -> Molecules:
    """Returns molecules by registry number: neutral, connected, 2 to 40 heavy atoms."""
    found = {}
    for name in ("small", "large"):
        text = wheel.read(f"chemicals/Identifiers/chemical identifiers pubchem {name}.tsv").decode()
        for line in text.splitlines():
            cells = line.split("\t")
            if not re.fullmatch(r"[\d-]+", cells[1]) or "." in cells[4]:
                continue
            molecule = Chem.MolFromSmiles(cells[4])
            if molecule is not None and 2 <= molecule.GetNumHeavyAtoms() <= 40 and "+" not in cells[4]:
                found[cells[1].replace("-", "")] = molecule
    return found


def read(wheel: ZipFile, file: str, column: str) -> Column:
    data = wheel.read(f"chemicals/{file}")
    text = (gzip.decompress(data) if file.endswith(".gz") else data).decode("utf-8-sig")
    rows = csv.DictReader(io.StringIO(text), delimiter="\t")
    return {row["CAS"].replace("-", ""): float(row[column]) for row in rows if row[column]}


def by(molecules: Molecules, estimate: Callable[[Chem.Mol], float | None]) -> Column:
    values = {key: estimate(molecule) for key, molecule in molecules.items()}
    return {key: value for key, value in values.items() if value is not None}


def drawn(keys: Sequence[str], most: int) -> list[str]:
    return random.Random(0).sample(sorted(keys), min(most, len(keys)))


def write(name: str, molecules: Molecules, columns: Mapping[str, Column]) -> None:
    """Writes the molecules with an answer in the last column, at most MOST of them, at random."""
    *_, truth = columns.values()
    keys = drawn([key for key in molecules if key in truth], MOST)
    rows = [[Chem.MolToSmiles(molecules[key]), *(column.get(key) for column in columns.values())] for key in keys]
    unique = {row[0]: row for row in rows}
    write_rows(name, ["smiles", *columns], list(unique.values()))


def write_rows(name: str, header: Sequence[str], rows: Sequence[Sequence[str | float | None]]) -> None:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows([f"{cell:.6g}" if isinstance(cell, float) else cell for cell in row] for row in rows)
    path = HERE / f"{name}.csv.gz"
    path.write_bytes(gzip.compress(text.getvalue().encode(), mtime=0))
    print(f"{path.name}: {len(rows)} rows")  # noqa: T201


def write_polymers(wheel: ZipFile) -> None:
    """Building blocks of optical polymers: refractive index from DFT polarisability and density by molecular dynamics,
    and from group additivity."""
    text = wheel.read("chemml/published/RI/input_files/properties_10k.csv").decode()
    rows = []
    for row in csv.DictReader(io.StringIO(text)):
        if (molecule := Chem.MolFromSmiles(row["Mol_Smiles"])) is not None:
            ratio = Crippen.MolMR(molecule) / Descriptors.MolWt(molecule)
            rows.append([Chem.MolToSmiles(molecule), ratio, float(row["RI_geom"]), float(row["RI_LL"])])
    header = ["smiles", "mr_per_mass", "additive", "dft_and_md"]
    write_rows("refractive_indices", header, random.Random(0).sample(rows, MOST))


def gfn2_dipole(molecule: Chem.Mol) -> float | None:
    result = gfn2(molecule)
    return None if result is None else float((result[0] ** 2).sum() ** 0.5) * DEBYE


def transfer_energy(molecule: Chem.Mol) -> float | None:
    """Free energy of transfer from octanol to water by ALPB, in kcal/mol, at the geometry of the force field."""
    energies = [None if (result := gfn2(molecule, solvent)) is None else result[1] for solvent in ("water", "octanol")]
    if energies[0] is None or energies[1] is None:
        return None
    return (energies[0] - energies[1]) * KCAL


def gfn2(molecule: Chem.Mol, solvent: str | None = None):  # type: ignore[no-untyped-def]
    """Returns dipole and energy in atomic units; None where an embedding or the calculation fails."""
    import numpy as np
    from tblite.interface import Calculator

    full = Chem.AddHs(molecule)
    if AllChem.EmbedMolecule(full, randomSeed=0) != 0:  # type: ignore[attr-defined]
        return None
    AllChem.MMFFOptimizeMolecule(full)  # type: ignore[attr-defined]
    numbers = np.array([atom.GetAtomicNum() for atom in full.GetAtoms()])
    try:
        calculator = Calculator("GFN2-xTB", numbers, full.GetConformer().GetPositions() / BOHR)
        calculator.set("verbosity", 0)
        if solvent is not None:
            calculator.add("alpb-solvation", solvent)
        result = calculator.singlepoint()
    except (RuntimeError, ValueError):
        return None
    return result.get("dipole"), float(result.get("energy"))


if __name__ == "__main__":
    main()
