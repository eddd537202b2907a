"""The commands for files of campaigns: `sciagent init`, `sciagent schema` and `sciagent plan`.

`sciagent init` copies one of the example campaigns into a folder; `Template` describes an example. `sciagent schema`
prints JSON schemas. `sciagent plan FILE` estimates what the budget will buy, before the campaign starts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from importlib.resources import as_file, files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from sciagent.api.terminal_tables_and_signals import Line, Part, plain_table, records_table
from sciagent.cli import options
from sciagent.cli.output_logging_and_given_structures import existing_ledger, put, put_answer, put_json
from sciagent.domain.safe_text_and_durations import Paragraph
from sciagent.errors import UnknownNameError, UsageError

if TYPE_CHECKING:
    from sciagent.domain.answers.plan import Plan, PlannedRung


class SchemaOf(StrEnum):
    """The files and answers with a JSON schema: campaign and recipe files, and the output of commands with --json."""

    CAMPAIGN = "campaign"
    RECIPE = "recipe"
    STATUS = "status"
    BEST = "best"
    PLAN = "plan"
    AUDIT = "audit"
    COMPARE = "compare"
    EXPLAIN = "explain"
    CALC = "calc"
    REPORT = "report"


NAMES = ", ".join(SchemaOf)


def init(
    folder: Path | None = typer.Argument(None, metavar="DIR", help="The folder to make."),
    template: str = typer.Option("quickstart", "--template", "-t", help="A ready campaign; see --list."),
    name: str | None = typer.Option(None, "--name", "-n", help="Name of the campaign; default: as the template."),
    list_: bool = typer.Option(False, "--list", help="Show the templates, and write nothing."),
    json: options.Json = False,
) -> None:
    """Write a campaign folder that runs at once: the YAML with its comments, the seeds, a README."""
    from sciagent.campaign.file.campaign_spec import load_spec
    from sciagent.inputs.yaml_validation import NAME

    if list_:
        known = [{"name": each.name, "description": each.description} for each in templates().values()]
        put_answer(known, json, [records_table(known)])
        return
    if folder is None:
        raise UsageError("name the folder to make: sciagent init DIR, or see the templates: sciagent init --list")
    if name is not None and not re.fullmatch(NAME, name):
        raise UsageError(f'--name "{name}": 1 to 64 of a-z, 0-9, "_" and "-", the first a letter or digit')
    paths = write_template(folder, template, name)
    load_spec(paths[0])  # checks that the written campaign is valid
    files = [str(path) for path in paths]
    note = f"run it: cd {folder} && sciagent run {paths[0].name}"
    put_answer({"folder": str(folder), "template": template, "files": files}, json, map(Line, files), note)


def schema(
    of: SchemaOf = typer.Argument(SchemaOf.CAMPAIGN, metavar="WHAT", help=f"Of what: {NAMES}."),
    markdown: bool = typer.Option(False, "--markdown", help="Every key, verifier and property as Markdown."),
) -> None:
    """Print the JSON schema of a campaign or recipe file, or of what a command prints with --json.

    Editors complete and check YAML with the first two; scripts check answers with the others.
    """
    if markdown:
        from sciagent.campaign.file.key_reference import reference

        put(reference().rstrip())
    elif of is SchemaOf.CAMPAIGN:
        from sciagent.campaign.file.campaign_spec import campaign_schema

        put_json(campaign_schema())
    elif of is SchemaOf.RECIPE:
        from sciagent.training.recipes.recipe_file import recipe_schema

        put_json(recipe_schema())
    else:
        from sciagent.domain.answers import (
            candidate_and_value_answers,
            explanation,
            figures,
            plan,
            status_and_comparison,
        )

        answers: dict[SchemaOf, Any] = {
            SchemaOf.STATUS: status_and_comparison.Status,
            SchemaOf.BEST: list[candidate_and_value_answers.BestCandidate],
            SchemaOf.PLAN: plan.Plan,
            SchemaOf.AUDIT: status_and_comparison.AuditReport,
            SchemaOf.COMPARE: status_and_comparison.Comparison,
            SchemaOf.EXPLAIN: explanation.Explanation | explanation.RefusedText,
            SchemaOf.CALC: list[candidate_and_value_answers.CalculatedCandidate],
            SchemaOf.REPORT: figures.FigureList,
        }
        put_json(candidate_and_value_answers.json_schema(answers[of]))


_EDITOR = "# yaml-language-server:"  # begins the line that tells an editor the schema
_DATA = {".csv", ".smi", ".sdf", ".cif", ".xy", ".gz", ".yml"}  # endings of data files that a campaign may name
_STRUCTURES = "structures it starts from, or reads"  # what the README says of a data file that _CONTENTS lacks
_CONTENTS = {".yml": "the rubric that it is judged by", ".xy": "the measured powder pattern"}


@dataclass(frozen=True)
class Template:
    """An example campaign and its data files."""

    name: str
    path: Path
    description: str
    data: tuple[Path, ...]
    """Files in the same folder that the campaign names."""


def templates_folder() -> Path:
    """Returns the folder of the example campaigns, in the installed package or the checkout. Raises UsageError."""
    with as_file(files("sciagent") / "campaigns") as packaged:
        in_checkout = packaged.parent.parent / "campaigns"
        for place in (packaged, in_checkout):
            if (place / "quickstart.yaml").is_file():
                return place
    raise UsageError("the ready campaigns are not installed with this sciagent; install it again from its wheel")


def templates() -> dict[str, Template]:
    """Returns the example campaigns by name, sorted."""
    from ruamel.yaml import YAML

    by_name = {}
    for path in sorted(templates_folder().glob("*.yaml")):
        text = path.read_text(encoding="utf-8")
        without_comments = re.sub("#.*", "", text)
        words = dict.fromkeys(re.findall(r"[\w.-]+", without_comments))  # each once, in order
        possible_files = (path.with_name(word) for word in words if Path(word).suffix in _DATA)
        document = YAML(typ="safe", pure=True).load(text)
        description = " ".join(str(document.get("description", "")).split())
        data_files = tuple(file for file in possible_files if file.is_file())
        by_name[path.stem] = Template(path.stem, path, description, data_files)
    return by_name


def write_template(target: Path, template: str, name: str | None = None) -> list[Path]:
    """Writes a folder with the campaign, its data and a README; returns the paths of the files.

    name: the campaign's name; None: the template's. Raises UsageError if a file exists already, UnknownNameError for an
    unknown template.
    """
    known = templates()
    if template not in known:
        raise UnknownNameError("template", template, known)
    chosen = known[template]
    name = name or chosen.name
    lines = []
    for line in chosen.path.read_text(encoding="utf-8").splitlines():
        if not line.startswith(_EDITOR):
            lines.append(f"campaign: {name}" if line.startswith("campaign:") else line)
    contents = {f"{name}.yaml": "\n".join(lines).encode() + b"\n", "README.md": _readme(chosen, name).encode()}
    for data_file in chosen.data:
        contents[data_file.name] = data_file.read_bytes()
    for file in contents:
        if (target / file).exists():
            way_out = "choose another folder, or move it away (nothing was written)"
            raise UsageError(f"{target / file} exists already; {way_out}")
    if target.exists() and not target.is_dir():
        raise UsageError(f"{target} is a file, not a folder")
    target.mkdir(parents=True, exist_ok=True)
    for file, content in contents.items():
        (target / file).write_bytes(content)
    return [target / file for file in contents]


def _readme(chosen: Template, name: str) -> str:
    data = "".join(f"- `{file.name}`: {_CONTENTS.get(file.suffix, _STRUCTURES)}\n" for file in chosen.data)
    return f"""# {name}

{chosen.description}

- `{name}.yaml`: the campaign: objectives, ladder, budget. Every key has a comment or stands in the reference.
{data}
```sh
sciagent run {name}.yaml              # runs it; the same line again goes on where it stopped
sciagent status                         # how it stands, from another terminal
sciagent best                           # the best so far
sciagent explain CANDIDATE              # everything about one candidate
sciagent add CANDIDATE --reason "…"     # one of your own
sciagent amend --budget wall_minutes=30 # another budget, also while it runs
```

Results are kept in `sciagent.db` beside this file, artifacts in `sciagent-artifacts`. After a change of objectives or
rungs give the campaign a new name: what was computed under the same settings is reused at no cost.
"""


def plan(
    file: Path = typer.Argument(help="The campaign, a YAML file."),
    ledger: options.Ledger = None,
    json: options.Json = False,
) -> None:
    """Predict what the budget of a campaign will buy and which rungs look worthless, with the uncertainty of both.

    Nothing is started or written. A ledger is not needed; an existing ledger teaches what rungs cost and tell.
    """
    from sciagent.campaign.core.product_libraries import unused_reactants
    from sciagent.campaign.file.campaign_spec import load_spec
    from sciagent.campaign.planning.expected_hits_and_rung_worth import plan as plan_campaign

    spec = load_spec(file)
    answer = plan_campaign(spec, existing_ledger(ledger))
    parts: list[Part] = [Line(f"{answer.campaign}: what its budget is likely to buy", "bold"), ""]
    parts += _rungs(answer)
    parts += _cases(answer)
    parts += answer.sentences
    parts += answer.calibrations
    parts += unused_reactants(spec)
    parts += ["", Paragraph("Assumed", depth=0)]
    parts += map(Paragraph, answer.assumptions)
    put_answer(answer, json, parts)


def _rungs(plan: Plan) -> Iterator[Part]:
    title = "the rungs (core seconds: median and 90 % of the sample)"
    table = plain_table("rung", "core s", "correlation", "from", "hits it brings", "verdict", title=title)
    for rung in plan.rungs:
        table.add_row(*_cells(rung))
    yield table
    for rung in plan.rungs:
        for line in _remarks(rung, plan.sample.molecules):
            yield Paragraph(f"{rung.rung}{line}")
    yield ""


def _cells(rung: PlannedRung) -> tuple[str, ...]:
    """Returns a row of the table of rungs."""
    from sciagent.campaign.planning.expected_hits_and_rung_worth import gain_text

    cost = rung.costs.get("core_seconds")
    amount = "–" if cost is None else f"{cost.median:.3g}–{cost.p90:.3g}"
    if rung.is_terminal:
        return rung.rung, amount, "", "", "", "decides"
    tells = [tell for tell in rung.tells if tell.kind != "nothing"]
    # A rung that decides a property has the correlation 1.
    ranges = "\n".join("1" if tell.kind == "decides" else f"{tell.low:.2f}–{tell.high:.2f}" for tell in tells)
    kinds = "\n".join(tell.kind for tell in tells)
    return rung.rung, amount, ranges, kinds, gain_text(rung.delta) or "–", rung.verdict or ""


def _remarks(rung: PlannedRung, molecules: int) -> Iterator[str]:
    """Yields the remarks below the table, each to follow the rung's label. molecules: size of the sample."""
    for tell in rung.tells:
        yield f", of {tell.property}: {tell.kind}: {tell.why}"
    if rung.cost_ratio is not None:
        yield f": costs are {rung.cost_ratio:.2g} × what is declared, as learnt"
    if rung.refuses:
        yield f": refuses {rung.refuses} of {molecules} candidates"
    if rung.too_long:
        accepted = molecules - rung.refuses
        yield (
            f": {rung.too_long} of {accepted} candidates are expected to run longer than its limits: {{wall_seconds: "
            f"{rung.wall_seconds:g}}} allow"
        )


def _cases(plan: Plan) -> Iterator[Part]:
    runs_of_cases = [case.runs for case in plan.cases if case.runs is not None]
    labels = [rung.rung for rung in plan.rungs if any(rung.rung in runs for runs in runs_of_cases)]
    if not labels:
        return
    table = plain_table(
        "hits among candidates",
        *(f"{label}, runs" for label in labels),
        "hits",
        "low–high",
        f"{labels[-1]} alone",
        title="what is bought, by the share of candidates that are hits",
    )
    for case in plan.cases:
        if case.runs is not None:
            origin = " (learnt)" if case.hit_rate_is == "learnt" else ""
            table.add_row(
                f"{100 * case.hit_rate:.3g} %{origin}",
                *(_number(case.runs[label]) for label in labels),
                _number(case.hits.middle),
                f"{_number(case.hits.low)}–{_number(case.hits.high)}",
                _number(case.terminal_alone),
            )
    yield table
    yield ""


def _number(n: float | None) -> str:
    if n is None:
        return "–"
    return f"{n:.2g}" if n < 10 else f"{n:.0f}"
