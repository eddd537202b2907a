"""`sciagent verifiers [NAME]`: lists and describes the installed verifiers.

`calc`: the numbers of one verifier on molecules.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from json import dumps
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

import typer

from sciagent.api.terminal_tables_and_signals import (
    Line,
    Part,
    each_signal,
    on_terminal,
    raise_interrupt,
    records_table,
)
from sciagent.cli import options
from sciagent.cli.output_logging_and_given_structures import (
    Exit,
    existing_ledger,
    open_ledger,
    pairs,
    parts_of,
    plural,
    put_answer,
    say,
    structure_records,
)
from sciagent.domain.properties_and_levels import Level
from sciagent.domain.safe_text_and_durations import Paragraph, one_line
from sciagent.domain.states_and_needs import Hear, ReportedProgress
from sciagent.errors import UsageError

if TYPE_CHECKING:
    from sciagent.domain.answers.candidate_and_value_answers import CalculatedCandidate

MAX_TEXT = 80  # characters of a candidate's text in a message


def verifiers(
    name: str | None = typer.Argument(None, help="One verifier, with all its settings; default: all."),
    cost: list[str] | None = typer.Option(
        None, metavar="STRUCTURE", help="Show only what it would cost on this structure. Repeat it."
    ),
    settings: list[str] | None = typer.Option(
        None, "--set", metavar="KEY=VALUE", help="With --cost: a setting, such as nanoseconds=1. Repeat it."
    ),
    ledger: options.Ledger = None,
    json: options.Json = False,
) -> None:
    """List the installed verifiers: the properties that each measures and their levels, its cost, settings and priors.

    A verifier that does not load is shown with its error; exit code 1 if it was named. With --cost, jobs with the same
    settings in the ledger correct what is declared.
    """
    if cost:
        _put_costs(name, cost, settings or [], ledger, json)
        return
    if settings:
        raise UsageError("--set belongs to --cost STRUCTURE; settings of a campaign stand in its file")
    from sciagent.verification.declarations_and_availability import catalogue, entry, samples_of

    samples = samples_of()
    entries = catalogue(samples) if name is None else [entry(name, samples)]
    broken = []
    for each in entries:
        if each["error"]:
            broken.append(f"{each['name']} does not load ({each['package']}): {each['error']}")
    if name is None:
        put_answer(entries, json, _overview(entries), *broken)
        return
    put_answer(entries[0], json, _lines(entries[0]), *broken)
    if broken:
        raise typer.Exit(Exit.FAILED)


def _put_costs(name: str | None, texts: list[str], settings: list[str], ledger: str | None, json: bool) -> None:
    from sciagent.campaign.people.declared_and_learnt_costs import costs_of
    from sciagent.campaign.people.verify_calculate_and_add import rungs_for

    if name is None:
        raise UsageError("name a verifier, whose cost --cost shows")
    records = structure_records(texts)
    rung = rungs_for(name, nested(settings), Path(), records)[-1]
    costs = costs_of(rung, [record.text for record in records], existing_ledger(ledger))
    rows = []
    for record, cost in zip(records, costs, strict=True):
        row: dict[str, Any] = {
            "file": record.names.get("file"),
            "structure": cost.text,
            "atoms": cost.atoms,
            "refused": cost.refused,
            **cost.declared,
        }
        row["earlier_jobs"] = cost.earlier_jobs
        row["expected_core_seconds"] = cost.expected_core_seconds if cost.refused is None else None
        rows.append(row)
    put_answer(rows, json, _cost_lines(rows))


def _cost_lines(rows: Sequence[Mapping[str, Any]]) -> Iterator[Part]:
    """Yields a paragraph for each structure. rows: as the JSON has them."""
    others = ("file", "structure", "atoms", "refused", "earlier_jobs", "expected_core_seconds")
    for row in rows:
        start = f"{row['file'] or one_line(row['structure'], MAX_TEXT)} ({row['atoms']} atoms): "
        if row["refused"] is not None:
            yield Paragraph(f"{start}refused, at no cost: {row['refused']}")
            continue
        amounts = [
            f"{_amount(amount)} {resource.replace('_', ' ')}"
            for resource, amount in row.items()
            if resource not in others
        ]
        learnt = "no earlier job with these settings"
        if row["earlier_jobs"]:
            expected = _amount(row["expected_core_seconds"])
            learnt = f"{expected} core seconds expected after {plural(row['earlier_jobs'], 'earlier job')}"
        yield Paragraph(f"{start}{', '.join(amounts) or 'nothing'} declared; {learnt}")


def _overview(entries: Sequence[Mapping[str, Any]]) -> Iterator[Part]:
    """Lists the verifiers by tier, with level, declared cost and measured properties."""
    tier = None
    for item in entries:
        if item["error"]:
            continue
        if item["tier"] != tier:
            tier = item["tier"]
            yield Paragraph(tier.replace("_", " "), depth=0)
        heading = str(item["name"])
        levels = []
        for measured in item["measures"]:
            level, _, _ = measured["level"].partition("//")  # without the method of the geometry
            levels.append(level)
        levels_text = ", ".join(dict.fromkeys(levels))  # each once, in order
        if levels_text:
            heading += f" at {levels_text}"
        if item["cost"]:
            cost = item["cost"][-1]  # of the last sample
            if "core_seconds" in cost:
                heading += f", {_amount(cost['core_seconds'])} core s"
        yield Paragraph(heading, style="bold")
        names = ", ".join(measured["property"] for measured in item["measures"])
        absent = [program["title"] for program in item["programs"] if program["missing"]]
        if absent:
            said = f"needs {absent[0]}, which is not installed; sciagent doctor says how to get it"
            yield Paragraph(said, depth=2, style="yellow")
        elif item["missing"]:
            yield Paragraph(item["missing"], depth=2, style="yellow")
        unknown = f"what it measures depends on its settings; needed: {', '.join(item['needs'])}"
        yield Paragraph(names or unknown, depth=2)
    yield Line("core s: of aspirin, or of strontium titanate. More: sciagent verifiers NAME", "dim")


def _lines(entry: Mapping[str, Any]) -> Iterator[Part]:
    """Yields the full description of a verifier; only its name if it does not load."""
    if entry["error"]:
        yield Paragraph(entry["name"], depth=0)
        return
    yield Paragraph(f"{entry['name']} {entry['version']}, {entry['tier'].replace('_', ' ')}", depth=0)
    yield from parts_of(entry["about"])
    yield Paragraph(f"from {entry['package']}")
    for program in entry["programs"]:
        here = f"{program['version']}, {program['path']}"
        yield Paragraph(program["missing"] or f"Needs {program['title']}: {here}")
    if entry["environment"]:
        yield Paragraph(f"Runs in the environment {entry['environment']} (sciagent engines)")
    if entry["missing"] and not any(program["missing"] for program in entry["programs"]):
        yield Paragraph(entry["missing"])
    yield from _measures(entry)
    yield Paragraph("Costs, as declared", depth=0)
    for cost in entry["cost"]:
        amounts = {name: amount for name, amount in cost.items() if name not in ("candidate", "atoms")}
        words = ", ".join(f"{_amount(amount)} {name.replace('_', ' ')}" for name, amount in amounts.items())
        yield Paragraph(f"{cost['candidate']} ({cost['atoms']} atoms): {words}")
    yield from _settings(entry)
    yield from _errors(entry["method_errors"])
    yield from _priors(entry["priors"])


def _measures(entry: Mapping[str, Any]) -> Iterator[Paragraph]:
    levels = {measured["level"] for measured in entry["measures"]}
    has_one_level = len(levels) == 1
    yield Paragraph(f"Measures, at {levels.pop()}" if has_one_level else "Measures", depth=0)
    if entry["needs"]:
        yield Paragraph(f"what its settings say; needed: {', '.join(entry['needs'])}")
    for measured in entry["measures"]:
        unit = "" if measured["unit"] == "1" else f" [{measured['unit']}]"
        at = "" if has_one_level else f" at {measured['level']}"
        yield Paragraph(f"{measured['property']}{unit}{at}: {measured['description']}")


def _settings(entry: Mapping[str, Any]) -> Iterator[Part]:
    yield Paragraph("Settings", depth=0)
    yield from parts_of(entry["settings_about"])
    for setting in entry["settings"]:
        value = setting["default"]
        shown = "nothing" if value is None else dumps(value, ensure_ascii=False).replace('"', "")
        default = "; required" if setting["required"] else f"; default {shown}"
        if setting["takes"] == "settings":  # each of these has its own default
            default = ""
        yield Paragraph(f"{setting['name']}: {setting['takes']}{default}")
        yield from parts_of(setting["about"], depth=2)
    if not entry["settings"]:
        yield Paragraph("none")


def _errors(errors: Sequence[Mapping[str, Any]]) -> Iterator[Paragraph]:
    """Yields the declared errors of the methods against experiment, computed minus measured."""
    yield Paragraph("Errors against experiment, from benchmarks", depth=0)
    for error in errors:
        unit = "" if error["unit"] == "1" else f" {error['unit']}"
        level = Level(error["method"], error["basis"], error["phase"]).label
        figures = f"mean absolute {error['mean_absolute_error']:.3g}{unit}, mean {error['mean_error']:+.3g}{unit}"
        where = f"n = {error['n']}, {error['chemistry']}"
        beside = "" if error["reference"] == "experiment" else f"; beside {error['reference']}"
        yield Paragraph(f"{error['property']} at {level}: {figures} ({where}{beside}); {error['source']}")
    if not errors:
        yield Paragraph("none is declared")


def _priors(priors: Sequence[Mapping[str, Any]]) -> Iterator[Paragraph]:
    yield Paragraph("Expected to tell, before any data", depth=0)
    for prior in priors:
        spread = "" if prior["residual"] is None else f", residual {prior['residual']:g}"
        rank = f"Spearman {prior['spearman']:g}{spread} (n = {prior['n']})"
        yield Paragraph(f"{prior['property']} at {prior['level']}: {rank}; {prior['source']}")
    if not priors:
        yield Paragraph("nothing is declared")


def _amount(value: float) -> str:
    """Returns a number with two digits, since a declared cost is not more precise."""
    two_digits = f"{value:.2g}"
    return two_digits if value < 100 else f"{float(two_digits):.0f}"  # without an exponent


SLOW = 1.0  # core-seconds from which a molecule gets a line of progress
EVERY = 100  # each molecule with such a number gets one, too
HEARD_SECONDS = 10.0  # between two lines on how far a long calculation is


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

    Ctrl-C or SIGTERM ends it with what is ready; the same command then goes on.

    Exit codes: 0 each molecule has its numbers, 1 at least one has none, 130 interrupted.
    """
    from sciagent.api.calc_and_answer_tables import answers_of
    from sciagent.domain.answers.candidate_and_value_answers import isomer_lines

    if not smiles and file is None:
        raise UsageError("give molecules as SMILES or crystals as files or prototypes, or a table of them with --file")
    given = nested(settings or [])
    units = pairs("--unit", unit or [], "PROPERTY=UNIT")
    opened = open_ledger(ledger, create=True)
    stream = answers_of(
        verifier,
        structure_records(smiles),
        settings=given,
        units=units,
        file=file,
        column=column,
        keep=keep,
        ledger=opened,
        hear=heard_now_and_then(),
    )
    answers, is_interrupted = _collected(stream)
    failures = []
    remarks = []
    for answer in answers:
        if answer.outcome != "ok":
            failures.append(f"{_called(answer)}: {answer.outcome} ({answer.reason}): {answer.detail}")
        elif answer.detail:
            remarks.append(f"{_called(answer)}: {answer.detail}")
        remarks += [f"{_called(answer)}: {line}" for line in isomer_lines(answer.values)]
    reused = sum(answer.reused for answer in answers)
    notes = [f"{plural(reused, 'candidate')} known already, at no cost"] if reused else []
    if is_interrupted:
        notes.append("interrupted; the same command goes on, and what is done costs nothing again")
    put_answer(answers, json, _parts(verifier, answers), *failures, *remarks, *notes)
    if is_interrupted:
        raise typer.Exit(Exit.INTERRUPTED)
    raise typer.Exit(Exit.FAILED if failures else Exit.OK)


def _collected(stream: Iterable[CalculatedCandidate]) -> tuple[list[CalculatedCandidate], bool]:
    """Returns the answers, and whether SIGINT or SIGTERM came before the last of them."""
    answers = []
    try:
        with each_signal(last=raise_interrupt):
            for answer in stream:
                answers.append(answer)
                _progress(answer, len(answers))
    except KeyboardInterrupt:
        return answers, True
    return answers, False


def _called(answer: CalculatedCandidate) -> str:
    """Returns the structure as it was given, on one line; of one that was given as a file, formula and space group, or
    its name where it could not be read."""
    is_file = "\n" in answer.text.strip()
    read = answer.structure or ", ".join(answer.names.get("file", ()))
    return one_line((is_file and read) or answer.text, MAX_TEXT) or "nothing"


def heard_now_and_then() -> Hear:
    """Returns what prints the progress of a long calculation on stderr, at most every HEARD_SECONDS."""
    printed_at = monotonic()

    def hear(key: str, progress: ReportedProgress) -> None:
        nonlocal printed_at
        if monotonic() - printed_at >= HEARD_SECONDS:
            printed_at = monotonic()
            say(progress.words)

    return hear


def _progress(answer: CalculatedCandidate, n: int) -> None:
    """Prints a line on stderr for a molecule that took its time, and for each hundredth."""
    if answer.core_seconds >= SLOW:
        say(f"{n}: {_called(answer)}: {answer.outcome}, {answer.core_seconds:.1f} core-s")
    elif n % EVERY == 0:
        say(f"{n} candidates done")


def _parts(verifier: str, answers: Sequence[CalculatedCandidate]) -> Iterator[Part]:
    from sciagent.api import calc_and_answer_tables

    if answers and not on_terminal():
        records = [calc_and_answer_tables.record(answer, as_text=True) for answer in answers]
        yield records_table(records)
        return
    if not any(answer.values for answer in answers):
        return
    if calc_and_answer_tables.side_by_side(answers):
        yield calc_and_answer_tables.result_table(verifier, answers).table()
    else:
        rows = list[Mapping[str, Any]]()
        for answer in answers:
            rows += calc_and_answer_tables.rows(answer)
        yield records_table(rows)
    yield Line(f"level: {', '.join(calc_and_answer_tables.levels_of(answers))}")
    for note in calc_and_answer_tables.repeatability_notes(answers):
        yield Line(note)
        yield Line(f"the method's error is a figure of its own: sciagent verifiers {verifier}")


def nested(texts: list[str]) -> Mapping[str, Any]:
    """Returns settings from texts such as `geometry.conformers=5`; a value is read as in a campaign file.

    Raises UsageError for a text without `=` and for a value that is no YAML.
    """
    from sciagent.inputs.yaml_document import read

    settings: dict[str, Any] = {}
    for key, value in pairs("--set", texts, "KEY=VALUE").items():
        document = read(f"value: {value}", kind="a setting", opens="value: 1")
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
