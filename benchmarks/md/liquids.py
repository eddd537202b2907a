"""Compares `md.liquid` with the measured densities and heats of vaporisation of eight liquids:

    python -m benchmarks.md.liquids --folder FOLDER [--force-field gaff2] [--only NAME]

Each liquid takes 7 to 30 core-minutes. `rows.jsonl` gets a line as each ends, and the same command goes on after the
last; a liquid that was stopped in its middle goes on from its files in FOLDER. `--table` prints what is there.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.md.resumable_rows import append_row, chosen_options, row_of, rows_of, table_of
from sciagent_verifiers.high_fidelity.md_liquid import MdLiquid

HERE = Path(__file__).parent
ROWS = HERE / "rows.jsonl"
MEASURED = {"density": "density_g_mL", "vaporisation_enthalpy": "vaporisation_kJ_mol"}
"""{property: column of liquids.csv}."""


SETTINGS = {"box": 24, "equilibration": 0.05}
"""Smaller boxes and shorter runs than by default; the uncertainties say what that costs."""

RUNS = {"openff-2.2.1": {"nanoseconds": 0.1, "replicas": 3}, "gaff2": {"nanoseconds": 0.2, "replicas": 1}}
"""{force field: lengths and number of its runs}. One run of .1 ns of hexane holds too few independent densities."""


def liquids() -> list[dict[str, str]]:
    """The rows of liquids.csv."""
    return table_of(HERE / "liquids.csv")


def run(liquid: dict[str, str], force_field: str, folder: Path) -> dict[str, Any]:
    """Returns the row of a liquid."""
    verifier = MdLiquid({**SETTINGS, **RUNS[force_field], "force_field": force_field})
    scratch = folder / liquid["name"].replace(" ", "_") / force_field
    row = {"name": liquid["name"], "level": verifier.level.label, "force_field": force_field}
    return {**row, **row_of(verifier, liquid["smiles"], scratch, ("molecules",))}


def errors_of_force_fields() -> dict[tuple[str, str], list[float]]:
    """{(force field, property): computed minus measured values of the liquids with a row}."""
    by_name = {liquid["name"]: liquid for liquid in liquids()}
    errors: dict[tuple[str, str], list[float]] = {}
    for row in rows_of(ROWS):
        for prop, column in MEASURED.items():
            if prop in row:
                measured = float(by_name[row["name"]][column])
                errors.setdefault((row["force_field"], prop), []).append(row[prop][0] - measured)
    return errors


def figures(errors: Sequence[float]) -> tuple[int, float, float, float]:
    """Returns the number of errors, their mean, mean absolute value and root mean square."""
    n = len(errors)
    return n, sum(errors) / n, sum(map(abs, errors)) / n, math.sqrt(sum(error**2 for error in errors) / n)


def table() -> str:
    """The rows beside the measured values, and the errors of each force field."""
    by_name = {liquid["name"]: liquid for liquid in liquids()}
    lines = []
    for row in rows_of(ROWS):
        texts = [row["name"], row["force_field"]]
        for prop, column in MEASURED.items():
            measured = float(by_name[row["name"]][column])
            if prop not in row:
                texts.append(row["reason"])
                continue
            value, uncertainty = row[prop]
            texts.append(f"{value:.4g} ± {uncertainty:.2g} ({measured:g})")
        lines.append(" | ".join(texts))
    for (force_field, prop), errors in errors_of_force_fields().items():
        n, mean, absolute, square = figures(errors)
        lines.append(
            f"{force_field}, {prop}: n {n}, mean error {mean:+.3g}, mean absolute error {absolute:.3g}, root mean "
            f"square error {square:.3g}"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--force-field", default="openff-2.2.1", choices=sorted(RUNS))
    parser.add_argument("--only", help="the name of one liquid")
    chosen = chosen_options(parser, table)
    done = {(row["name"], row["force_field"]) for row in rows_of(ROWS)}
    for liquid in liquids():
        if chosen.only not in (None, liquid["name"]) or (liquid["name"], chosen.force_field) in done:
            continue
        append_row(ROWS, run(liquid, chosen.force_field, chosen.folder))


if __name__ == "__main__":
    main()
