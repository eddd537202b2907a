"""Formation energies of transition-metal oxides by the shipped force fields, against measured enthalpies.

python -m benchmarks.crystals.oxides run --models chgnet-0.3.0 7net-0    a minute of a core by CHGNet, ten by 7net-0
python -m benchmarks.crystals.oxides report

`run` takes `mlff.relax` as a campaign does, with the elements as the only phases, writes a row of `oxides.csv` as each
compound ends, and leaves out those that have a row. A compound that the rung refuses has its reason as the row.
`report` prints the errors.

`oxides_experiment.csv` has the measured enthalpies of formation at 298 K, in eV/atom, with their sources. Those of the
binary oxides belong to the data to which MP2020 was fitted, so they are no independent test of its corrections, only of
the model and of whether the corrections are applied. Zero-point and thermal energies, a few hundredths of an eV, are
neglected.

Cells: prototypes with the volume of the sum of radii, but for MnO, whose radii are too small by 40 % in volume,
magnetite, an inverse spinel in which iron has both places, and V2O5 (Enjalbert, Galy, Acta Cryst. C 42, 1467 (1986)).
All are relaxed.
"""

from __future__ import annotations

import argparse
import csv
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from sciagent.chemistry.crystal import Crystal, crystal_from_structure
from sciagent.chemistry.crystals.prototypes_and_same_structures import decorated
from sciagent.domain.properties_and_levels import FORMATION_ENERGY
from sciagent.verification.verifier_contract import Context, Finding, Reason
from sciagent_verifiers.simulation.force_field_base import ForceField
from sciagent_verifiers.simulation.mlff_relax import MlffRelax

FOLDER = Path(__file__).parent
EXPERIMENT = FOLDER / "oxides_experiment.csv"
TABLE = FOLDER / "oxides.csv"
COLUMNS = ("model", "compound", "formation_energy", "reason", "core_seconds_alone")
MODELS = ("chgnet-0.3.0", "7net-0", "7net-mf-0-pbe", "chgnet-r2scan")
TOLERANCE = 0.15
"""Error in eV/atom within which a compound counts as right."""
SHORTHANDS: Mapping[str, tuple[str, ...]] = {
    "NiO": ("rocksalt", "Ni", "O"),
    "CoO": ("rocksalt", "Co", "O"),
    "FeO": ("rocksalt", "Fe", "O"),
    "Fe2O3": ("corundum", "Fe", "O"),
    "Cr2O3": ("corundum", "Cr", "O"),
    "MnO2": ("rutile", "Mn", "O"),
    "LiCoO2": ("alpha-NaFeO2", "Li", "Co", "O"),
}
"""Prototypes with their elements."""


def crystals() -> Mapping[str, Crystal]:
    """Returns the cells by compound."""
    from pymatgen.core import Lattice, Structure

    magnetite = Structure.from_spacegroup(
        "Fd-3m:2", Lattice.cubic(8.396), ["Fe", "Fe", "O"], [[1 / 8] * 3, [1 / 2] * 3, [0.2549] * 3]
    )
    places = [[0.1012, 0.25, 0.8917], [0.1043, 0.25, 0.531], [0.9311, 0.25, 0.003], [0.25, 0.25, 0.001]]
    shcherbinaite = Structure.from_spacegroup(
        "Pmmn:2", Lattice.orthorhombic(11.512, 3.564, 4.368), ["V", "O", "O", "O"], places
    )
    cells = {name: decorated(prototype, elements) for name, (prototype, *elements) in SHORTHANDS.items()}
    cells["MnO"] = crystal_from_structure(
        Structure.from_spacegroup("Fm-3m", Lattice.cubic(4.445), ["Mn", "O"], [[0] * 3, [0.5] * 3])
    )
    cells["Fe3O4"] = crystal_from_structure(magnetite.get_primitive_structure())
    cells["V2O5"] = crystal_from_structure(shcherbinaite)
    return cells


def rows_of(path: Path) -> list[dict[str, str]]:
    """Returns the rows of a table; none if there is no file."""
    if not path.exists():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def run(models: Iterable[str], compounds: Sequence[str], table: Path) -> None:
    """Computes what is missing in the table, one compound after the other."""
    cells = crystals()
    keys = [(model, compound) for model in models for compound in compounds]
    fill(table, COLUMNS, keys, lambda model, compound: measured(model, cells[compound]))


def fill(
    table: Path, columns: Sequence[str], keys: Iterable[tuple[str, ...]], computed: Callable[..., Mapping[str, Any]]
) -> None:
    """Appends the rows that a table lacks, each as it ends.

    keys: values of the first columns, which name a row. computed: returns the other columns of a key.
    """
    if not table.exists():
        table.write_text(",".join(columns) + "\n", encoding="utf-8")
    rows = rows_of(table)
    for key in keys:
        names = columns[: len(key)]
        if any(tuple(row[name] for name in names) == key for row in rows):
            continue
        found = dict(zip(names, key, strict=True)) | dict(computed(*key))
        with table.open("a", encoding="utf-8", newline="") as file:
            csv.DictWriter(file, columns, lineterminator="\n").writerow(found)
        sys.stdout.write(f"{found}\n")
        sys.stdout.flush()


def finding_of(rung: ForceField, crystal: Crystal) -> Finding | Reason:
    """Returns what a rung finds, or the reason of its refusal or failure."""
    refusal = rung.accepts(crystal)
    if refusal is not None:
        return refusal.reason
    with tempfile.TemporaryDirectory() as folder:
        (finding,) = rung.verify([crystal], Context(Path(folder), Path(folder) / "kept"))
    return finding if finding.reason is None else finding.reason


def values_of(finding: Finding) -> dict[str, float]:
    """Returns the measured values by property."""
    return {measured.property: measured.quantity.value for measured in finding.measured}


def measured(model: str, crystal: Crystal) -> dict[str, Any]:
    """Returns the formation energy (eV/atom) and the core-seconds of the relaxation, or the reason of a failure."""
    finding = finding_of(MlffRelax({"model": model, "known_phases": "elements"}), crystal)
    if isinstance(finding, Reason):
        return {"reason": finding.value}
    formation_energy = values_of(finding)[FORMATION_ENERGY.name]
    return {"formation_energy": f"{formation_energy:.4f}", "core_seconds_alone": f"{finding.share:.2f}"}


def report(table: Path) -> str:
    """Returns the errors against experiment as a table in Markdown, one column for a model."""
    wanted = {row["compound"]: float(row["formation_energy"]) for row in rows_of(EXPERIMENT)}
    found = {(row["model"], row["compound"]): row for row in rows_of(table)}
    models = list(dict.fromkeys(model for model, _ in found))
    lines = [f"| | measured | {' | '.join(models)} |", "|---" * (len(models) + 2) + "|"]
    for compound, enthalpy in wanted.items():
        cells = [_cell(found.get((model, compound)), enthalpy) for model in models]
        lines.append(f"| {compound} | {enthalpy:.3f} | {' | '.join(cells)} |")
    summary = []
    for model in models:
        rows = [(row, wanted[compound]) for (its_model, compound), row in found.items() if its_model == model]
        errors = [abs(float(row["formation_energy"]) - enthalpy) for row, enthalpy in rows if row["formation_energy"]]
        n_right = sum(error <= TOLERANCE for error in errors)
        summary.append(f"{n_right} of {len(errors)}" if errors else "refused")
    lines.append(f"| within {TOLERANCE:g} | | {' | '.join(summary)} |")
    return "\n".join(lines) + "\n"


def _cell(row: Mapping[str, str] | None, enthalpy: float) -> str:
    """Returns a value with its error, or the reason why there is none."""
    if row is None:
        return ""
    if not row["formation_energy"]:
        return f"`{row['reason']}`"
    value = float(row["formation_energy"])
    return f"{value:.3f} ({value - enthalpy:+.3f})"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = command_line(__doc__, MODELS, [row["compound"] for row in rows_of(EXPERIMENT)], TABLE)
    return obeyed(parser.parse_args(arguments), run, report)


def command_line(
    description: str | None, models: Sequence[str], compounds: Sequence[str], table: Path
) -> argparse.ArgumentParser:
    """Returns the parser of a part, models, compounds and a table, with these defaults."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=("run", "report"))
    parser.add_argument("--models", nargs="+", default=list(models))
    parser.add_argument("--compounds", nargs="+", default=list(compounds))
    parser.add_argument("--table", type=Path, default=table)
    return parser


def obeyed(
    given: argparse.Namespace, run: Callable[[Iterable[str], Sequence[str], Path], None], report: Callable[[Path], str]
) -> int:
    """Runs, or prints the report, and returns 0."""
    if given.part == "run":
        run(given.models, given.compounds, given.table)
    else:
        sys.stdout.write(report(given.table))
    return 0


if __name__ == "__main__":
    sys.exit(main())
