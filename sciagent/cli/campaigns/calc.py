"""`calc`: the numbers of one verifier on a few molecules."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from sciagent.cli.shared import options
from sciagent.cli.shared.common import Exit, open_ledger, put_json, put_table, say
from sciagent.errors import UsageError
from sciagent.settings import user


def calc(
    verifier: Annotated[str, typer.Argument(help="A verifier, such as xtb.singlepoint; see `sciagent verifiers`.")],
    smiles: Annotated[list[str], typer.Argument(help="Molecules as SMILES.")],
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="A setting, such as solvent=water or geometry.conformers=5."),
    ] = None,
    unit: Annotated[
        list[str] | None, typer.Option("--unit", metavar="PROPERTY=UNIT", help="Unit to show a property in.")
    ] = None,
    ledger: options.Ledger = None,
    json: options.Json = False,
) -> None:
    """Run one verifier on molecules and print the numbers. What is known is reused; what is new is kept in the ledger.

    The safety screen comes first, as in a campaign.

    Exit codes: 0 each molecule has its numbers, 1 at least one has none.
    """
    from sciagent.campaign.people.calculating import calculate, check_units, rungs_for

    rungs = rungs_for(verifier, nested(settings or []), Path.cwd())
    units = dict(_pair("--unit", text) for text in unit or [])
    check_units(rungs[-1], units)
    answers = []
    for answer in calculate(open_ledger(ledger, create=True), rungs, smiles, units, user()):
        answers.append(answer)
        if not json and len(smiles) > 1:
            state = "known" if answer.reused else f"{answer.core_seconds:.1f} core-s"
            say(f"{len(answers)}/{len(smiles)}  {answer.text}: {answer.outcome}, {state}")
    if json:
        put_json(answers)
    else:
        put_table(
            [
                {"SMILES": answer.smiles, "property": value.property, "value": value, "level": value.level}
                for answer in answers
                for value in answer.values
            ]
        )
        for answer in answers:
            if answer.outcome != "ok":
                say(f"{answer.text}: {answer.outcome} ({answer.reason}): {answer.detail}")
    raise typer.Exit(Exit.OK if all(answer.outcome == "ok" for answer in answers) else Exit.FAILED)


def nested(texts: list[str]) -> Mapping[str, Any]:
    """Returns settings from texts such as `geometry.conformers=5`; a value is read as in a campaign file.

    Raises UsageError for a text without `=`, a key that is given twice, and a value that is no YAML.
    """
    from sciagent.yaml.document import read

    settings: dict[str, Any] = {}
    for text in texts:
        key, value = _pair("--set", text)
        document = read(f"value: {value}", "a setting", "value: 1")
        if document.faults:
            raise UsageError(f'--set {text}: "{value}" is no value: {document.faults[0].message}')
        *path, last = key.split(".")
        inner = settings
        for part in path:
            inner = inner.setdefault(part, {})
            if not isinstance(inner, dict):
                raise UsageError(f"--set {text}: {part} has a value of its own already")
        if last in inner:
            raise UsageError(f"--set {text}: {key} is given twice")
        inner[last] = document.data["value"]
    return settings


def _pair(option: str, text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not (key and equals):
        raise UsageError(f"{option} {text}: write it as NAME=VALUE")
    return key, value
