"""Abacus: counts beads. The program is described here, and nowhere else."""

from __future__ import annotations

from pathlib import Path

from sciagent.programs import Program
from sciagent_simulators.programs.run_program_and_name_failure import failed, run

ABACUS = Program(
    "abacus", "Abacus", "ACME_ABACUS", ("abacus",), ("--version",), r"Abacus (\d+\.\d+)", "your grandmother"
)


def counted(beads: int, folder: Path, threads: int) -> int:
    """Returns the number that the program counts. Raises SimulatorError."""
    output = run(ABACUS, ["count"], folder, threads, {"beads.txt": "o" * beads})
    if output.status or not output.text.strip().isdigit():
        raise failed(output, {}, "has counted nothing")
    return int(output.text)
