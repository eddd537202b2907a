"""The answers of a campaign with their display in notebooks and terminals: status, result of the ladder, explanation,
report, and the query of all candidates."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from html import escape
from itertools import islice
from pathlib import Path
from typing import Any

from rich.table import Table
from sqlalchemy.engine import Connection

from sciagent.api import notebook_html
from sciagent.api.best_table import levels_text
from sciagent.api.notebook_tables import ResultQuery
from sciagent.api.terminal_tables_and_signals import records_table, text_of
from sciagent.domain.answers.candidate_and_value_answers import LadderAnswer, PropertyValue, ShownValue, StructureText
from sciagent.domain.answers.explanation import Explanation, RefusedText
from sciagent.domain.answers.figures import Figure, FigureList
from sciagent.domain.answers.status_and_comparison import CampaignCounts, Status, elsewhere_text
from sciagent.domain.candidate_and_its_names_in_files import Names, identifier_text, name_cells
from sciagent.domain.safe_text_and_durations import Paragraph
from sciagent.domain.states_and_needs import CampaignState
from sciagent.errors import UnknownNameError
from sciagent.report.explanation_text import paragraphs
from sciagent.report.export import parquet_tables
from sciagent.report.parts import export_rows, wording
from sciagent.report.parts.export_rows import IMPORTED, Entry
from sciagent.store.campaign_state import campaigns
from sciagent.store.database.ledger import ArtifactStore, Ledger
from sciagent.store.views import campaign_counts_and_remarks

LEAST_CORE_SECONDS = 0.1  # least computing time of proposers or drivers that is shown
TIER_LABELS = {"high_fidelity": "high", "simulation": "sim"}  # short labels, since the table is narrow


class CampaignStatus(Status):
    """The status of a campaign, with its display in notebooks and terminals."""

    def __repr__(self) -> str:
        return text_of(rung_table(self), budget_line(self), *_remarks(self))

    __str__ = __repr__

    def _repr_html_(self) -> str:
        return status_html(self)


def rung_table(status: CampaignCounts) -> Table:
    """Returns a table with one line per rung, narrow enough for 80 columns."""
    return records_table(_rungs(status), _title(status))


def status_html(status: CampaignCounts) -> str:
    """Returns HTML with one line per rung, the budget, and the reason of the campaign's end."""
    remarks = [notebook_html.paragraph(line, soft=True) for line in _remarks(status)]
    return notebook_html.table(_rungs(status), _title(status)) + notebook_html.box(
        notebook_html.paragraph(budget_line(status)), *remarks
    )


def _title(status: CampaignCounts) -> str:
    return f"{status.campaign}: {status.state.replace('_', ' ')}"


def _rungs(status: CampaignCounts) -> list[Mapping[str, Any]]:
    """Returns the displayed cells of each rung."""
    heading_of_jobs = "running" if status.driver and status.driver.alive else "waiting"
    return [
        {
            "rung": rung.rung,
            "tier": TIER_LABELS.get(rung.tier, str(rung.tier)),
            heading_of_jobs: rung.running,
            "done": rung.done,
            "passed": rung.passed,
            "failed": rung.failed,
            "unclear": rung.inconclusive,
            "errors": rung.errors,
            "CPU s": round(rung.core_seconds, 1),
        }
        for rung in status.rungs
    ]


def _remarks(status: CampaignCounts) -> Iterator[str]:
    """Yields the lines below the budget."""
    if status.trouble:
        yield status.trouble
    if status.stop_reason:
        yield status.stop_reason
    if status.filter is not None:
        yield f"filter: {wording.let_through_sentence(status.filter, status.hits_defined)}"
    yield from status.notes
    if status.state in (CampaignState.CREATED, CampaignState.INTERRUPTED):
        yield "run() goes on with it"


def budget_line(status: CampaignCounts) -> str:
    """Returns a line with proposals, candidates, hits where objectives have limits, and what is spent of each limit."""
    max_proposals = status.budget.get("proposals")
    of_limit = "" if max_proposals is None else f" of {max_proposals}"
    parts = [f"{status.proposals}{of_limit} proposals", f"{status.candidates} candidates"]
    if status.hits_defined:
        parts.append(str(status.hit_counts))
    shown_unless_zero = {
        "more filtered by the law": status.filtered,
        "texts could not be read": status.unreadable,
        "answers reused at no cost": status.reused,
        "held": status.held,
        "vetoed": status.vetoed,
    }
    parts += [f"{n} {what}" for what, n in shown_unless_zero.items() if n]
    jobs = {rung.rung: rung.jobs for rung in status.rungs}
    control = status.control
    if control is not None:
        jobs[control.rung] = control.jobs
        # a limit on its jobs is shown by `_limits`; without one, the runs of the control rung are shown here
        limits = status.budget.get("rungs")
        if not isinstance(limits, Mapping) or control.rung not in limits:
            parts.append(f"{control.rung}, the control: {control.jobs} runs")
    return " · ".join(
        [*parts, *_limits(status, jobs), *_spent_without_limit(status), *_tasks(status), *_computing(status)]
    )


def _computing(status: CampaignCounts) -> Iterator[str]:
    """Yields the computing time, in core-seconds, that no rung took: that of the proposers and that of the drivers."""
    by_rungs = sum(rung.core_seconds for rung in status.rungs)
    if status.control is not None:
        by_rungs += status.control.core_seconds
    by_proposers = status.spent.get("core_seconds", 0.0) - by_rungs
    if by_proposers >= LEAST_CORE_SECONDS:
        yield f"proposing took {wording.cost(by_proposers)}"
    if status.driver_core_seconds >= LEAST_CORE_SECONDS:
        yield f"driving took {wording.cost(status.driver_core_seconds)}, in no budget"


def _limits(status: CampaignCounts, jobs: Mapping[str, int]) -> Iterator[str]:
    """Yields what is used of each limit but that on proposals. jobs: number of jobs by rung."""
    for name, limit in status.budget.items():
        if isinstance(limit, Mapping):
            for rung, max_jobs in limit.items():
                yield f"{rung}: {jobs.get(rung, 0)} of {max_jobs}"
        elif name != "proposals" and limit is not None:
            yield wording.used_of_limit(name, status.spent.get(name, 0.0), limit)
    for name, rate in status.rates.items():
        more = f", more on {rate.more_at:%Y-%m-%d}" if rate.more_at else ""
        yield f"{wording.used_of_limit(name, rate.used, rate.amount)} in seven days{more}"


def _spent_without_limit(status: CampaignCounts) -> Iterator[str]:
    """Yields what is spent of resources that the budget does not limit; the core-seconds stand in the table."""
    for name, spent in status.spent.items():
        is_shown_elsewhere = name in ("core_seconds", "wall_minutes", "verifications")
        if spent and not is_shown_elsewhere and name not in status.budget and name not in status.rates:
            yield wording.amount(name, spent)


def _tasks(status: CampaignCounts) -> Iterator[str]:
    """Yields the tasks of people; nothing if they do no rung."""
    tasks = status.tasks
    if tasks is not None:
        to_approve = f", {tasks.waiting} to be approved" if tasks.waiting else ""
        overdue = f", {tasks.overdue} overdue" if tasks.overdue else ""
        listed = f"tasks: {tasks.queued} on the list{to_approve}"
        in_review = f", {tasks.in_review} in review" if tasks.in_review else ""
        yield f"{listed}, {tasks.claimed} claimed{in_review}, {tasks.answered} answered{overdue}"
        for name, n in tasks.elsewhere.items():
            yield f"{elsewhere_text(name, n)}: sciagent lab list --campaign {name}"


def list_commands(status: CampaignCounts) -> str:
    """Returns the commands that show what is to be measured for a campaign: on its own list, unless all of its tasks
    are on the lists of other campaigns."""
    names = [status.campaign]
    tasks = status.tasks
    if tasks is not None and tasks.elsewhere and not (tasks.queued or tasks.waiting or tasks.claimed):
        names = list(tasks.elsewhere)
    return " and ".join(f"sciagent lab list --campaign {name}" for name in names)


class LadderResult(LadderAnswer):
    """The answer of the ladder on a single molecule, with its display in notebooks and terminals."""

    @property
    def values(self) -> dict[str, ShownValue]:
        """Value of each property at the highest rung that measured it."""
        by_name = dict[str, ShownValue]()
        for rung in self.rungs:
            by_name.update(rung.values)
        return by_name

    def paragraphs(self) -> Iterator[Paragraph]:
        """Yields the paragraphs that `sciagent verify` prints."""
        reason = f" ({self.reason})" if self.reason else ""
        name = self.text if self.key else f"no {self.kind}"
        yield Paragraph(f"{name}: {self.verdict}{reason}", depth=0)
        if not self.rungs:
            yield Paragraph(self.detail)
        for rung in self.rungs:
            why = f" ({rung.reason}: {rung.detail})" if rung.reason else ""
            known = ", known" if rung.reused else ""
            yield Paragraph(f"{rung.rung}: {rung.verdict}{why}{known}")
            for name, value in rung.values.items():
                yield Paragraph(f"{name} = {value}  [{value.level}]", depth=2)

    def __repr__(self) -> str:
        return "\n".join("  " * paragraph.depth + paragraph.text for paragraph in self.paragraphs())

    __str__ = __repr__

    def _repr_html_(self) -> str:
        return notebook_html.box(notebook_html.structure_of(self), notebook_html.paragraphs(self.paragraphs()))


class ExplainedCandidate:
    """The explanation of a candidate, with its display in notebooks and terminals."""

    def __init__(self, answer: Explanation | RefusedText) -> None:
        self.answer = answer
        """The answer of `sciagent explain`; for a refused text, the refusals with their reasons."""
        self.smiles: str = answer.text
        """The structure as text."""
        self.key: str | None = answer.key

    def __repr__(self) -> str:
        return text_of(*paragraphs(self.answer))

    def _repr_html_(self) -> str:
        return notebook_html.box(
            notebook_html.structure_of(self.answer), notebook_html.paragraphs(paragraphs(self.answer))
        )


@dataclass(frozen=True)
class WrittenReport:
    """The path of a written report; notebooks show it as a link."""

    path: Path
    """The HTML file."""

    def __str__(self) -> str:
        return str(self.path)

    def __fspath__(self) -> str:
        return str(self.path)

    def _repr_html_(self) -> str:
        name = escape(str(self.path))
        return notebook_html.box(f'<p>report: <a href="{escape(self.path.as_posix())}" target="_blank">{name}</a></p>')


class ShownFigures:
    """The figures of a campaign, with their display in notebooks and terminals."""

    def __init__(self, answer: FigureList) -> None:
        self.answer = answer
        """The answer of `sciagent report --json`."""

    def __iter__(self) -> Iterator[Figure]:
        return iter(self.answer.figures)

    def __getitem__(self, name: str) -> Figure:
        """Returns the figure of this name, such as `hits_against_money`. Raises UnknownNameError."""
        by_name = {figure.name: figure for figure in self.answer.figures}
        if name not in by_name:
            raise UnknownNameError("figure", name, list(by_name))
        return by_name[name]

    def __repr__(self) -> str:
        names = ", ".join(figure.name for figure in self.answer.figures)
        return f"<figures of {self.answer.campaign}: {names or 'nothing to show yet'}>"

    def _repr_html_(self) -> str:
        from sciagent.report.parts.campaign_charts import drawn_figure

        parts = []
        for figure in self.answer.figures:
            notes = " ".join(figure.notes)
            parts.append(notebook_html.chart(drawn_figure(figure)))
            parts.append(notebook_html.paragraph(f"{figure.title}. {notes}", soft=True))
        return notebook_html.box(*parts) if parts else notebook_html.box(notebook_html.paragraph(repr(self)))


class MeasuredValue(PropertyValue):
    """A value that a rung measured."""

    rung: str
    """Label of the rung."""

    def __repr__(self) -> str:
        return f"<{self.line()}>"


@dataclass(frozen=True, repr=False)
class CandidateRow:
    """A candidate of a campaign with its standing and all values that rungs measured."""

    key: str
    """Key of the candidate, the same in every ledger."""
    kind: str
    """Subject of the campaign: `molecule` or `crystal`."""
    text: str
    """Canonical SMILES of a molecule; reduced formula and space group of a crystal."""
    smiles: str | None
    """Canonical SMILES; None for a candidate that is no molecule."""
    formula: str
    """Sum formula."""
    inchikey: str | None
    """InChIKey; None for a candidate without one."""
    standing: str
    """`open`, `pending`, `dropped`, `settled`, `held` or `vetoed`."""
    rung: str | None
    """The rung that the candidate waits for, runs at, or ended at."""
    verdict: str | None
    """Verdict of that rung: `pass`, `fail`, `not_applicable`, `inconclusive` or `error`."""
    reason: str | None
    """Reason why the candidate did not pass."""
    detail: str | None
    """The reason in words."""
    hit: bool
    """Whether the candidate is a hit."""
    contradicted: str | None
    """Imported values that contradict the verdict, as a sentence; None if none does."""
    utility: float | None
    """Utility in (0, 1]; None until the terminal rung has answered."""
    p_hit: float | None
    """Probability to be a hit: 1 or 0 once decided; None where it is unknown, or where no objective has limits."""
    expected_utility: float | None
    """Expected utility, in (0, 1]; the utility, once every objective is answered; 0 if people could not obtain what
    decides; None before a paid rung answers."""
    p_limits: float | None
    """Probability that the true values lie within all limits, by the errors of the methods or by experimental values of
    the candidate; None where it is unknown."""
    basis: str | None
    """Weakest source of the two: `answered`, `measured` (an imported value decides), `law`, `line` (a straight line
    from a lower rung) or `none`."""
    in_seeds: bool
    """Whether a seed file contains the candidate."""
    names: Names = field(default_factory=dict)
    """Names and remarks in input files, by column; every column has a text for each row, in the same order."""
    drawn_from: str = ""
    """Notation from which it is drawn."""
    structure: Mapping[str, Any] | None = None
    """Cell of a crystal, as a rung relaxed it last or else as proposed (`source`): `space_group`, `conventional` (a, b,
    c in angstrom, alpha, beta, gamma in degrees), and the primitive cell by `lattice` (vectors as rows, angstrom),
    `species` and `coordinates` (fractional). None for a molecule."""
    values: tuple[MeasuredValue, ...] = ()
    """Measured values, in ladder order of their rungs."""

    def value(self, property: str) -> MeasuredValue | None:
        """Returns the value of a property at the highest rung that measured it.

        Without one it is an imported value, whose `rung` is `imported`; None if there is none either.
        """
        values = [value for value in reversed(self.values) if value.property == property]
        from_rungs = [value for value in values if value.rung != IMPORTED]
        return next(iter(from_rungs or values), None)

    def __repr__(self) -> str:
        return f"<{self.text}: {'hit' if self.hit else self.standing}, {len(self.values)} values>"


def candidates_of(store: Ledger, name: str, properties: Sequence[str]) -> ResultQuery[CandidateRow]:
    """Returns the query of a campaign's candidates, in order of arrival. properties: properties that are displayed."""

    def page(connection: Connection, last_seq: int | None) -> tuple[list[CandidateRow], int | None]:
        row = campaigns.get(connection, name)
        start_after = -1 if last_seq is None else last_seq
        entries = export_rows.entries(connection, row, export_rows.columns(connection, row), start_after)
        entries_of_page = list(islice(entries, export_rows.PAGE_ROWS))
        if entries_of_page:
            last_seq = entries_of_page[-1].candidate.seq
        return [_row(entry, store.artifacts) for entry in entries_of_page], last_seq

    def count(connection: Connection) -> int:
        return campaign_counts_and_remarks.n_candidates(connection, campaigns.get(connection, name).id)

    def arrow(connection: Connection) -> parquet_tables.ArrowRows:
        return parquet_tables.candidate_rows(connection, campaigns.get(connection, name))

    brief = partial(_brief, properties=properties)
    return ResultQuery(f"Candidates of {name}", store, page, count, arrow, brief, record=_record)


def _row(entry: Entry, artifacts: ArtifactStore) -> CandidateRow:
    """Returns the row of a candidate. artifacts: with the relaxed cells."""
    values = []
    for (rung, name), measured in entry.values.items():
        values.append(MeasuredValue.of(measured, rung=rung, property=name))
    candidate = entry.candidate
    # `fixed` has the other fields of a row, by name
    return CandidateRow(
        **entry.fixed,
        names=candidate.names,
        drawn_from=candidate.drawn_from,
        structure=export_rows.cell_of(entry, artifacts),
        values=tuple(values),
    )


def _brief(row: CandidateRow, properties: Sequence[str]) -> Mapping[str, Any]:
    """Returns the displayed cells of a candidate."""
    values = {name: row.value(name) for name in properties}
    stands = "hit" if row.hit else row.standing
    structure = StructureText(kind=row.kind, text=row.text, drawn_from=row.drawn_from)
    return {
        "name": identifier_text(row.names),
        structure.column: notebook_html.cell(structure),
        **values,
        "level": levels_text(values),
        "stands": stands,
        "rung": row.rung,
        "reason": row.reason,
    }


def _record(row: CandidateRow) -> Mapping[str, Any]:
    """Returns all cells of a candidate, for a data frame."""
    left_out = ("names", "drawn_from", "values") if row.structure else ("names", "drawn_from", "values", "structure")
    cells = {name: cell for name, cell in vars(row).items() if name not in left_out}
    cells = name_cells(row.names, fields=tuple(row.names)) | cells
    for value in row.values:
        name = f"{value.rung}.{value.property}"
        cells |= {name: value.value, f"{name}.uncertainty": value.uncertainty}
    return cells
