"""Rows of a benchmark of long simulations: one JSON line for each that has ended, so that the same command goes on."""

from __future__ import annotations

import argparse
import csv
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sciagent.chemistry.molecule import parse_molecule
from sciagent.errors import SimulatorError
from sciagent.verification.verifier_contract import Context
from sciagent_verifiers.verifier_bases import MoleculeVerifier


def table_of(path: Path) -> list[dict[str, str]]:
    """The rows of a CSV file."""
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def rows_of(path: Path) -> list[dict[str, Any]]:
    """The runs that have ended."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def append_row(path: Path, row: dict[str, Any]) -> None:
    """Adds a run that has ended to the file and prints it."""
    line = json.dumps(row) + "\n"
    with path.open("a", encoding="utf-8") as file:
        file.write(line)
    sys.stdout.write(line)
    sys.stdout.flush()


def row_of(verifier: MoleculeVerifier, smiles: str, folder: Path, diagnostics: tuple[str, ...]) -> dict[str, Any]:
    """Returns the result of a verifier on a molecule: values with uncertainties, or the reason without them, the CPU
    time, and the named diagnostics.

    folder: of this run alone. It keeps the checkpoint, from which a run that was stopped in its middle goes on.
    """
    attempt = folder / f"attempt-{time.time_ns()}"
    attempt.mkdir(parents=True)
    checkpoint = folder / "checkpoint"
    checkpoint.mkdir(exist_ok=True)
    molecule = parse_molecule(smiles)
    row: dict[str, Any] = {"declared_core_seconds": round(verifier.cost(molecule)["core_seconds"])}
    began = time.process_time()
    try:
        finding = verifier.finding(molecule, Context(scratch=attempt, checkpoint=checkpoint))
    except SimulatorError as error:
        row["reason"] = str(error.reason)
        row["detail"] = error.detail
    else:
        for measured in finding.measured:
            quantity = measured.quantity
            row[measured.property] = [round(quantity.value, 5), round(quantity.uncertainty or 0.0, 5)]
        row.update({name: finding.diagnostics[name] for name in diagnostics})
    row["core_seconds_of_last_attempt"] = round(time.process_time() - began)
    return row


def chosen_options(parser: argparse.ArgumentParser, table: Callable[[], str]) -> argparse.Namespace:
    """Returns the options of the command, with the folder of the runs. `--table` prints the table and ends."""
    parser.add_argument("--folder", type=Path, help="for the files of the runs")
    parser.add_argument("--table", action="store_true", help="print what is there")
    chosen = parser.parse_args()
    if chosen.table:
        sys.stdout.write(table() + "\n")
        parser.exit()
    if chosen.folder is None:
        parser.error("name a --folder")
    return chosen
