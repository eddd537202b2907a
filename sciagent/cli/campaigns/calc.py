"""`calc`: the numbers of one verifier on a few molecules."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import typer

from sciagent.api.terminal import records_table
from sciagent.cli.shared import options
from sciagent.cli.shared.common import Exit, open_ledger, pairs, put_answer, say
from sciagent.errors import UsageError
from sciagent.settings import user


def calc(
    verifier: str = typer.Argument(help="A verifier, such as xtb.singlepoint; see `sciagent verifiers`."),
    smiles: list[str] = typer.Argument(help="Molecules as SMILES."),
    settings: list[str] | None = typer.Option(
        None, "--set", metavar="KEY=VALUE", help="A setting, such as solvent=water or geometry.conformers=5."
    ),
    unit: list[str] | None = typer.Option(None, metavar="PROPERTY=UNIT", help="The unit in which to show a property."),
    ledger: options.Ledger = None,
    json: options.Json = False,
) -> None:
    """Run one verifier on molecules and print the numbers. What is known is reused; what is new is kept in the ledger.

    The safety screen comes first, as in a campaign.

    Exit codes: 0 each molecule has its numbers, 1 at least one has none.
    """
    from sciagent.campaign.people.calculating import calculate, check_units, rungs_for

    rungs = rungs_for(verifier, nested(settings or []), Path.cwd())
    units = pairs("--unit", unit or [], "PROPERTY=UNIT")
    check_units(rungs[-1], units)
    answers = []
    for answer in calculate(open_ledger(ledger, create=True), rungs, smiles, units, user()):
        answers.append(answer)
        if not json and len(smiles) > 1:
            state = "known" if answer.reused else f"{answer.core_seconds:.1f} core-s"
            say(f"{len(answers)}/{len(smiles)}  {answer.text}: {answer.outcome}, {state}")
    rows = [
        {"property": value.property, "value": value, "level": value.level, "smiles": answer.smiles}
        for answer in answers
        for value in answer.values
    ]
    failures = [f"{a.text}: {a.outcome} ({a.reason}): {a.detail}" for a in answers if a.outcome != "ok"]
    put_answer(answers, json, [records_table(rows, "")] if rows else [], *failures)
    raise typer.Exit(Exit.OK if all(answer.outcome == "ok" for answer in answers) else Exit.FAILED)


def nested(texts: list[str]) -> Mapping[str, Any]:
    """Returns settings from texts such as `geometry.conformers=5`; a value is read as in a campaign file.

    Raises UsageError for a text without `=` and for a value that is no YAML.
    """
    from sciagent.yaml.document import read

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
