"""Compares `md.hydration` with measured hydration free energies:

    python -m benchmarks.md.hydration --folder FOLDER [--only NAME] [--full]

The settings are shortened to at most a core-hour: 8 windows of 20 and 50 ps in a box of 20 angstrom, three replicas;
`--full` takes those of the verifier, some 11 core-hours. `hydration_rows.jsonl` gets a line as each ends, and the same
command goes on after the last; a solute that was stopped in its middle goes on from its files in FOLDER. `--table`
prints what is there.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from benchmarks.md.resumable_rows import append_row, chosen_options, row_of, rows_of, table_of
from sciagent.domain.units import factor_between
from sciagent_verifiers.high_fidelity.md_hydration import MdHydration

HERE = Path(__file__).parent
SOLUTES = HERE / "hydration.csv"
ROWS = HERE / "hydration_rows.jsonl"
SHORT = {"box": 20, "windows": 8, "equilibration": 0.02, "nanoseconds": 0.05, "start": 0.05}
DIAGNOSTICS = (
    "mbar_uncertainty_kj_mol",
    "scatter_of_replicas_kj_mol",
    "replicas_kj_mol",
    "charges_kj_mol",
    "smallest_overlap",
    "independent_frames",
    "waters",
)


def run(solute: dict[str, str], settings: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Returns the row of a solute."""
    verifier = MdHydration(settings)
    scratch = folder / solute["name"].replace(" ", "_") / verifier.settings_hash[:16]
    row = {"name": solute["name"], "level": verifier.level.label}
    return {**row, **row_of(verifier, solute["smiles"], scratch, DIAGNOSTICS)}


def table() -> str:
    """The rows beside the measured values, in kcal/mol."""
    by_name = {solute["name"]: solute for solute in table_of(SOLUTES)}
    lines = []
    for row in rows_of(ROWS):
        solute = by_name[row["name"]]
        measured = f"measured {solute['hydration_kcal_mol']} ± {solute['hydration_uncertainty']}"
        value = row["reason"] if "reason" in row else "{:.2f} ± {:.2f}".format(*_in_kcal(row["solvation_free_energy"]))
        lines.append(" | ".join([row["name"], row["level"], value, measured]))
    return "\n".join(lines)


def _in_kcal(value: list[float]) -> list[float]:
    """Returns a value and its uncertainty, eV, in kcal/mol."""
    return [number * factor_between("eV", "kcal/mol") for number in value]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", help="the name of one solute")
    parser.add_argument("--full", action="store_true", help="with the verifier's own settings")
    chosen = chosen_options(parser, table)
    settings: dict[str, Any] = {} if chosen.full else dict(SHORT)
    level = MdHydration(settings).level.label
    done = {(row["name"], row["level"]) for row in rows_of(ROWS)}
    for solute in table_of(SOLUTES):
        if chosen.only in (None, solute["name"]) and (solute["name"], level) not in done:
            append_row(ROWS, run(solute, settings, chosen.folder))


if __name__ == "__main__":
    main()
