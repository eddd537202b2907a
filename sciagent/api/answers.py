"""The answers of a campaign with their display in notebooks and terminals."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from rich.table import Table

from sciagent.api import html
from sciagent.api.terminal import Paragraph, records_table, text_of
from sciagent.domain.answers.explanation import Explanation, RefusedText
from sciagent.domain.answers.status import CampaignCounts, Status
from sciagent.domain.answers.values import LadderAnswer, ShownValue
from sciagent.domain.states import CampaignState
from sciagent.report.explanation_text import paragraphs

TIERS = {"high_fidelity": "high", "simulation": "sim"}  # short labels, since the table is narrow


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
    return html.table(_rungs(status), _title(status)) + html.box(
        html.paragraph(budget_line(status)), *(html.paragraph(line, soft=True) for line in _remarks(status))
    )


def _title(status: CampaignCounts) -> str:
    return f"{status.campaign}: {status.state.replace('_', ' ')}"


def _rungs(status: CampaignCounts) -> list[Mapping[str, Any]]:
    at_work = "running" if status.driver and status.driver.alive else "waiting"
    return [
        {
            "rung": rung.rung,
            "tier": TIERS.get(rung.tier, str(rung.tier)),
            at_work: rung.running,
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
    yield from filter(None, (status.trouble, status.stop_reason))
    yield from status.notes
    if status.state in (CampaignState.CREATED, CampaignState.INTERRUPTED):
        yield "run() goes on with it"


def budget_line(status: CampaignCounts) -> str:
    """Returns a line with proposals, candidates, hits where objectives have limits, and what is spent of each limit."""
    parts = [f"{status.proposals} proposals", f"{status.candidates} candidates"]
    if status.hits_defined:
        parts.append(f"{status.hits} hit{'' if status.hits == 1 else 's'}")
    rare = {"texts could not be read": status.unreadable, "answers reused at no cost": status.reused}
    rare |= {"held": status.held, "vetoed": status.vetoed}
    parts += [f"{n} {what}" for what, n in rare.items() if n]
    jobs = {rung.rung: rung.jobs for rung in status.rungs}
    if (control := status.control) is not None:
        jobs[control.rung] = control.jobs
        limits = status.budget.get("rungs")
        if not isinstance(limits, Mapping) or control.rung not in limits:
            parts.append(f"{control.rung}, the control: {control.jobs} runs")
    if (most := status.budget.get("proposals")) is not None:
        parts[0] = f"{status.proposals} of {most} proposals"
    return " · ".join([*parts, *_limits(status, jobs), *_tasks(status)])


def _limits(status: CampaignCounts, jobs: Mapping[str, int]) -> Iterator[str]:
    """Yields what is used of each limit, proposals apart. jobs: number of jobs by rung."""
    for name, limit in status.budget.items():
        if isinstance(limit, Mapping):
            yield from (f"{rung}: {jobs.get(rung, 0)} of {n}" for rung, n in limit.items())
        elif name != "proposals" and limit is not None:
            yield f"{name} {status.spent.get(name, 0.0):.1f} of {limit:g}"
    for name, rate in status.rates.items():
        more = f", more on {rate.more_at:%Y-%m-%d}" if rate.more_at else ""
        yield f"{name} {rate.used:g} of {rate.amount:g} in seven days{more}"


def _tasks(status: CampaignCounts) -> Iterator[str]:
    """Yields the tasks of people; nothing if they do no rung."""
    if (tasks := status.tasks) is not None:
        late = f", {tasks.overdue} overdue" if tasks.overdue else ""
        waits = f", {tasks.waiting} to be approved" if tasks.waiting else ""
        yield f"tasks: {tasks.queued} on the list{waits}, {tasks.claimed} claimed, {tasks.answered} answered{late}"


class LadderResult(LadderAnswer):
    """The answer of the ladder on a single molecule, with its display in notebooks and terminals."""

    @property
    def values(self) -> dict[str, ShownValue]:
        """Value of each property at the highest rung that measured it."""
        return {name: value for rung in self.rungs for name, value in rung.values.items()}

    def paragraphs(self) -> Iterator[Paragraph]:
        """Yields the paragraphs that `sciagent verify` prints."""
        reason = f" ({self.reason})" if self.reason else ""
        yield Paragraph(f"{self.text if self.key else 'no ' + self.kind}: {self.verdict}{reason}", 0)
        if not self.rungs:
            yield Paragraph(self.detail)
        for rung in self.rungs:
            why = f" ({rung.reason}: {rung.detail})" if rung.reason else ""
            yield Paragraph(f"{rung.rung}: {rung.verdict}{why}" + (", known" if rung.reused else ""))
            for name, value in rung.values.items():
                yield Paragraph(f"{name} = {value}  [{value.level}]", 2)

    def __repr__(self) -> str:
        return "\n".join("  " * paragraph.depth + paragraph.text for paragraph in self.paragraphs())

    __str__ = __repr__

    def _repr_html_(self) -> str:
        return html.box(html.structure_of(self), html.paragraphs(self.paragraphs()))


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
        return html.box(html.structure_of(self.answer), html.paragraphs(paragraphs(self.answer)))


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
        return html.box(f'<p>report: <a href="{escape(self.path.as_posix())}" target="_blank">{name}</a></p>')
