"""`calc`: the numbers of one verifier on molecules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from sciagent.api.terminal import Line, Part, on_terminal, records_table
from sciagent.cli import options
from sciagent.cli.shared import Exit, open_ledger, pairs, plural, put_answer, say
from sciagent.cli.shared.structures import structures
from sciagent.errors import UsageError

if TYPE_CHECKING:
    from sciagent.domain.answers.values import CalculatedCandidate

SLOW, EVERY = 1.0, 100  # a line of progress for a molecule that took this many core-seconds, and for each hundredth


def calc(
    verifier: str = typer.Argument(help="A verifier, such as xtb.singlepoint; see `sciagent verifiers`."),
    smiles: list[str] | None = typer.Argument(
        None, metavar="[STRUCTURE]...", help="Molecules as SMILES; crystals as files or prototypes."
    ),
    file: Path | None = typer.Option(None, "--file", "-f", help="More: csv, smi or sdf; cif and others for crystals."),
    column: str | None = typer.Option(None, help="The column of a csv with the structures; default: smiles."),
    keep: list[str] | None = typer.Option(
        None, help="A column with names of the molecules; default: one that looks like an identifier. Repeat it."
    ),
    settings: list[str] | None = typer.Option(
        None, "--set", metavar="KEY=VALUE", help="A setting, such as solvent=water or geometry.conformers=5. Repeat it."
    ),
    unit: list[str] | None = typer.Option(
        None, metavar="PROPERTY=UNIT", help="The unit in which to show a property. Repeat it."
    ),
    ledger: options.Ledger = None,
    json: options.Json = False,
) -> None:
    """Run one verifier on molecules and print the numbers. Known values are reused; new ones are kept in the ledger.

    The safety screen comes first, as in a campaign. On a terminal the numbers are a table. In a file or a pipe they are
    tab-separated, one line for each molecule, with the names of the file.

    Exit codes: 0 each molecule has its numbers, 1 at least one has none.
    """
    from sciagent.api.calculating import answers_of

    if not smiles and file is None:
        raise UsageError("give molecules as SMILES or crystals as files or prototypes, or a table of them with --file")
    given, units = nested(settings or []), pairs("--unit", unit or [], "PROPERTY=UNIT")
    opened = open_ledger(ledger, create=True)
    answers = []
    for answer in answers_of(verifier, structures(smiles), given, units, file, column, keep, opened):
        answers.append(answer)
        _progress(answer, len(answers))
    failures = [f"{a.text or 'nothing'}: {a.outcome} ({a.reason}): {a.detail}" for a in answers if a.outcome != "ok"]
    remarks = [f"{a.text}: {a.detail}" for a in answers if a.outcome == "ok" and a.detail]
    reused = sum(answer.reused for answer in answers)
    notes = [f"{plural(reused, 'candidate')} known already, at no cost"] if reused else []
    put_answer(answers, json, _parts(verifier, answers), *failures, *remarks, *notes)
    raise typer.Exit(Exit.FAILED if failures else Exit.OK)


def _progress(answer: CalculatedCandidate, n: int) -> None:
    """Prints a line on stderr for a molecule that took its time, and for each hundredth."""
    if answer.core_seconds >= SLOW:
        say(f"{n}: {answer.text}: {answer.outcome}, {answer.core_seconds:.1f} core-s")
    elif n % EVERY == 0:
        say(f"{n} candidates done")


def _parts(verifier: str, answers: Sequence[CalculatedCandidate]) -> Iterator[Part]:
    from sciagent.api import calculating

    if not any(answer.values for answer in answers):
        return
    if not on_terminal():
        yield records_table([calculating.record(answer, as_text=True) for answer in answers], "")
        return
    if calculating.side_by_side(answers):
        yield calculating.result_table(verifier, answers).table()
    else:
        yield records_table([row for answer in answers for row in calculating.rows(answer)], "")
    yield Line(f"level: {', '.join(calculating.levels_of(answers))}")


def nested(texts: list[str]) -> Mapping[str, Any]:
    """Returns settings from texts such as `geometry.conformers=5`; a value is read as in a campaign file.

    Raises UsageError for a text without `=` and for a value that is no YAML.
    """
    from sciagent.inputs.document import read

    settings: dict[str, Any] = {}
    for key, value in pairs("--set", texts, "KEY=VALUE").items():
        document = read(f"value: {value}", "a setting", "value: 1")
        if document.faults:
            raise UsageError(f'--set {key}: "{value}" is no value: {document.faults[0].message}')
        *path, last = key.split(".")
        inner = settings
        for part in path:
            inner = inner.setdefault(part, {})
            if not isinstance(inner, dict):
                raise UsageError(f"--set {key}: {part} has a value of its own already")
        inner[last] = document.data["value"]
    return settings
