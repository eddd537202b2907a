"""Cells, bulk moduli and orders of polymorphs by the shipped force fields, against measured ones.

python -m benchmarks.crystals.cells run --models chgnet-0.3.0 chgnet-r2scan    two minutes of a core for a model
python -m benchmarks.crystals.cells run --models 7net-0                        ten times more
python -m benchmarks.crystals.cells report

`run` takes `mlff.relax` and `mlff.elastic` as a campaign does, writes a row of `cells.csv` as each crystal ends, and
leaves out those that have a row. A crystal that a rung refuses has its reason in the row. `report` prints the errors.

`cells_experiment.csv` has what was measured, near room temperature and not corrected for zero-point motion, with its
source. Force fields give the minimum of the energy at rest, so thermal expansion and zero-point motion, 0.2 to 0.5 % of
a length, are part of the errors; moduli are a few per cent lower at room temperature. A value whose source is "not
seen" is shown and left out of the means. Means are over lengths a and c alike. AMCSD is the American Mineralogist
Crystal Structure Database as the package larixite 2026.1.0 has it; burnman is version 2.1.0.

Cells: prototypes with the volume of the sum of radii, relaxed. Energies of polymorphs are those of the relaxed cells at
0 K; the one named first in ORDERS is the stable form. They repeat within 1 meV/atom.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.crystals.oxides import command_line, fill, finding_of, obeyed, rows_of, values_of
from sciagent.chemistry.crystal import Crystal
from sciagent.chemistry.crystals.prototypes_and_same_structures import decorated
from sciagent.domain.properties_and_levels import BULK_MODULUS, LATTICE_A, LATTICE_C
from sciagent.verification.verifier_contract import Reason
from sciagent_verifiers.simulation.mlff_bulk_modulus import MlffElastic
from sciagent_verifiers.simulation.mlff_relax import MlffRelax

FOLDER = Path(__file__).parent
EXPERIMENT = FOLDER / "cells_experiment.csv"
TABLE = FOLDER / "cells.csv"
COLUMNS = ("model", "compound", "structure", "a", "c", "bulk_modulus", "energy_per_atom", "reason", "core_seconds")
MODELS = ("chgnet-0.3.0", "chgnet-r2scan", "7net-0")
NOT_SEEN = "source: not seen"
"""Source of a value that no publication was read for."""
ORDERS: Mapping[str, tuple[str, str]] = {
    "TiO2": ("rutile", "anatase"),
    "ZnO": ("wurtzite", "zincblende"),
    "CaTiO3": ("orthorhombic-perovskite", "perovskite"),
    "NaCl": ("rocksalt", "CsCl"),
    "CsCl": ("CsCl", "rocksalt"),
    "SiO2": ("quartz", "cristobalite-low"),
}
"""Stable structure of a compound and another one."""
QUANTITIES = {"lengths": ("a", "c"), "bulk moduli": ("bulk_modulus",)}
"""Quantities over which a mean error is taken."""


def crystals() -> list[tuple[str, str]]:
    """Returns compound and structure of all crystals, each once."""
    measured_ones = [(row["compound"], row["structure"]) for row in rows_of(EXPERIMENT)]
    polymorphs = [(compound, structure) for compound, pair in ORDERS.items() for structure in pair]
    return list(dict.fromkeys(measured_ones + polymorphs))


def crystal_of(compound: str, structure: str) -> Crystal:
    """Returns the cell of a compound in the prototype that the structure names."""
    return decorated(structure, re.findall(r"[A-Z][a-z]?", compound))


def run(models: Iterable[str], compounds: Sequence[str], table: Path) -> None:
    """Computes what is missing in the table, one crystal after the other."""
    wanted = [(compound, structure) for compound, structure in crystals() if compound in compounds]
    keys = [(model, *crystal) for model in models for crystal in wanted]
    fill(table, COLUMNS, keys, measured)


def measured(model: str, compound: str, structure: str) -> dict[str, Any]:
    """Returns lengths (angstrom), modulus (GPa), energy (eV/atom), core-seconds, and the reason of a failure.

    The modulus is computed only where a measured one is known.
    """
    crystal = crystal_of(compound, structure)
    relaxed = finding_of(MlffRelax({"model": model, "known_phases": "none"}), crystal)
    if isinstance(relaxed, Reason):
        return {"reason": relaxed.value}
    lengths = values_of(relaxed)
    found = {
        "a": f"{lengths[LATTICE_A.name]:.4f}",
        "c": f"{lengths[LATTICE_C.name]:.4f}",
        "energy_per_atom": f"{relaxed.diagnostics['energy_per_atom']:.5f}",
        "core_seconds": f"{relaxed.share:.2f}",
    }
    if (compound, structure, "bulk_modulus") not in experiment():
        return found
    elastic = finding_of(MlffElastic({"model": model}), crystal)
    if isinstance(elastic, Reason):
        return found | {"reason": elastic.value}
    seconds = f"{relaxed.share + elastic.share:.2f}"
    return found | {"bulk_modulus": f"{values_of(elastic)[BULK_MODULUS.name]:.1f}", "core_seconds": seconds}


def experiment(path: Path = EXPERIMENT) -> dict[tuple[str, str, str], tuple[float, bool]]:
    """Returns measured values by compound, structure and quantity, each with whether its source was seen."""
    return {
        (row["compound"], row["structure"], row["quantity"]): (float(row["value"]), row["source"] != NOT_SEEN)
        for row in rows_of(path)
    }


Found = Mapping[tuple[str, str, str], Mapping[str, str]]


def found_in(table: Path) -> Found:
    """Returns the rows of a table by model, compound and structure."""
    return {(row["model"], row["compound"], row["structure"]): row for row in rows_of(table)}


def errors(model: str, quantities: Sequence[str], found: Found) -> list[float]:
    """Returns the errors of a model in per cent where the source of the measured value was seen."""
    deviations = []
    for (compound, structure, quantity), (value, has_source) in experiment().items():
        cell = found.get((model, compound, structure), {}).get(quantity)
        if quantity in quantities and has_source and cell:
            deviations.append(100 * (float(cell) / value - 1))
    return deviations


def report(table: Path) -> str:
    """Returns the errors against experiment and the orders of polymorphs as tables in Markdown."""
    found = found_in(table)
    models = list(dict.fromkeys(model for model, _, _ in found))
    return f"{_errors_table(models, found)}\n{_means_table(models, found)}\n{_orders_table(models, found)}"


def _errors_table(models: Sequence[str], found: Found) -> str:
    lines = [f"| | quantity | measured | {' | '.join(models)} |", "|---" * (len(models) + 3) + "|"]
    for (compound, structure, quantity), (value, has_source) in experiment().items():
        cells = [_cell(found.get((model, compound, structure)), quantity, value) for model in models]
        shown = f"{value:g}" if has_source else f"({value:g})"
        name = "B" if quantity == "bulk_modulus" else quantity
        lines.append(f"| {compound} {structure} | {name} | {shown} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _cell(row: Mapping[str, str] | None, quantity: str, value: float) -> str:
    """Returns a value with its error in per cent, or the reason why there is none."""
    if row is None:
        return ""
    if not row[quantity]:
        return f"`{row['reason']}`"
    digits = 1 if quantity == "bulk_modulus" else 2
    return f"{row[quantity]} ({100 * (float(row[quantity]) / value - 1):+.{digits}f})"


def _means_table(models: Sequence[str], found: Found) -> str:
    lines = ["| model | quantity | values | mean error, % | mean absolute error, % |", "|---|---|---|---|---|"]
    for model in models:
        for name, quantities in QUANTITIES.items():
            deviations = errors(model, quantities, found)
            if deviations:
                mean = sum(deviations) / len(deviations)
                absolute = sum(map(abs, deviations)) / len(deviations)
                lines.append(f"| `{model}` | {name} | {len(deviations)} | {mean:+.2f} | {absolute:.2f} |")
    return "\n".join(lines) + "\n"


def _orders_table(models: Sequence[str], found: Found) -> str:
    lines = [f"| stable form and another | {' | '.join(models)} |", "|---" * (len(models) + 1) + "|"]
    for compound, (stable, other) in ORDERS.items():
        cells = []
        for model in models:
            energies = [found.get((model, compound, form), {}).get("energy_per_atom") for form in (stable, other)]
            cells.append(_order(energies))
        lines.append(f"| {compound}: {stable}, {other} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _order(energies: Sequence[str | None]) -> str:
    """Returns by how much the other form lies above the stable one, in meV/atom; a wrong order is marked."""
    stable, other = energies
    if not stable or not other:
        return ""
    above = 1000 * (float(other) - float(stable))
    return f"{above:+.1f}" if above > 0 else f"**{above:+.1f}, wrong**"


def main(arguments: Sequence[str] | None = None) -> int:
    compounds = list(dict.fromkeys(compound for compound, _ in crystals()))
    return obeyed(command_line(__doc__, MODELS, compounds, TABLE).parse_args(arguments), run, report)


if __name__ == "__main__":
    sys.exit(main())
