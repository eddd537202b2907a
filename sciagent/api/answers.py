"""What a campaign answers, and how a notebook and a terminal show it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from rich.console import Console

from sciagent.api import html
from sciagent.api.progress import budget_line, table
from sciagent.api.tables import Layout
from sciagent.api.values import CandidateRow, MeasuredValue
from sciagent.domain.answers.best import BestCandidate
from sciagent.domain.answers.status import CampaignCounts, Status
from sciagent.domain.answers.values import ShownValue
from sciagent.domain.jobs.states import CampaignState
from sciagent.domain.quantities import show

NOTHING = '<span class="soft">–</span>'


class CampaignStatus(Status):
    """How a campaign stands, as a notebook and a terminal show it."""

    def __repr__(self) -> str:
        return shown_text(table(self), budget_line(self), *_remarks(self))

    __str__ = __repr__

    def _repr_html_(self) -> str:
        return status_html(self)


def shown_text(*parts: Any) -> str:
    """What rich would print, as plain text."""
    console = Console(highlight=False, force_jupyter=False, color_system=None)
    with console.capture() as capture:
        for part in parts:
            console.print(part, markup=False)
    return "\n".join(line.rstrip() for line in capture.get().splitlines()).strip("\n")


def status_html(status: CampaignCounts) -> str:
    """One line a rung, the budget, and why it ended."""
    names = ("running", "done", "passed", "failed", "undecided", "errors", "CPU s")
    heads = [("rung", False), ("tier", False), *((name, True) for name in names)]
    rows = []
    for rung in status.rungs:
        counts = (rung.running, rung.done, rung.passed, rung.failed, rung.inconclusive, rung.errors)
        tier = str(rung.tier).replace("_", " ")
        rows.append(
            [
                f"<b>{escape(rung.rung)}</b>",
                f'<span class="soft">{tier}</span>',
                *(str(count) if count else NOTHING for count in counts),
                f"{rung.core_seconds:.1f}",
            ]
        )
    return html.box(
        html.heading(f"{status.campaign}: {str(status.state).replace('_', ' ')}"),
        html.rows_html(heads, rows),
        html.paragraph(budget_line(status).plain),
        *(html.paragraph(line, soft=True) for line in _remarks(status)),
    )


def _remarks(status: CampaignCounts) -> Iterator[str]:
    if status.trouble:
        yield status.trouble
    if status.stop_reason:
        yield status.stop_reason
    if status.state in (CampaignState.CREATED, CampaignState.INTERRUPTED):
        yield "run() goes on with it"


def best_layout(names: Sequence[str]) -> Layout[BestCandidate]:
    """names: the properties of the objectives."""

    def record(one: BestCandidate) -> dict[str, object]:
        fixed = ("smiles", "hit", "utility", "p_hit", "verified", "in_seeds", "reason", "key")
        made = {name: getattr(one, name) for name in fixed}
        for name, value in one.values.items():
            made |= {
                name: value.value,
                f"{name} uncertainty": value.uncertainty,
                f"{name} unit": value.unit,
                f"{name} level": value.level,
            }
        return made

    def brief(one: BestCandidate) -> dict[str, object]:
        values = [one.values.get(name) for name in names]
        return {
            "SMILES": one.smiles,
            **{n: None if v is None else _text(v) for n, v in zip(names, values, strict=True)},
            "level": next((v.level.split("//")[0] for v in values if v), None),
            "utility": one.utility,
            "": "hit" if one.hit else one.reason,
        }

    return Layout(record, brief, lambda rows: _best_html(rows, names))


def _best_html(rows: Sequence[BestCandidate], names: Sequence[str]) -> str:
    if not rows:
        return html.box(html.paragraph("no candidate yet", soft=True))
    heads = [
        ("", False),
        ("candidate", False),
        *((name.replace("_", " "), True) for name in names),
        ("utility", True),
        ("", False),
    ]
    cells = []
    for one in rows:
        values = [_value_cell(one.values.get(name)) for name in names]
        utility = NOTHING if one.utility is None else f"{one.utility:.3f}"
        cells.append([html.structure(one.smiles), f"<code>{escape(one.smiles)}</code>", *values, utility, _mark(one)])
    return html.box(html.rows_html(heads, cells))


def _mark(one: BestCandidate) -> str:
    parts = []
    if one.hit:
        parts.append('<span class="hit">hit</span>')
    elif one.reason:
        parts.append(f'<span title="{escape(one.detail or "")}">{escape(one.reason.replace("_", " "))}</span>')
    elif not one.verified:
        parts.append('<span class="soft">not verified yet</span>')
    if one.in_seeds:
        parts.append('<span class="soft">a seed</span>')
    return "<br>".join(parts)


def _text(value: ShownValue) -> str:
    return show(value.value, value.uncertainty, value.unit)


def _value_cell(value: ShownValue | None) -> str:
    if value is None:
        return NOTHING
    return _cell(_text(value), value.level)


def _candidates_html(rows: Sequence[CandidateRow], names: Sequence[str]) -> str:
    if not rows:
        return html.box(html.paragraph("no candidate yet", soft=True))
    heads = [("", False), ("candidate", False), *((name.replace("_", " "), True) for name in names), ("", False)]
    cells = []
    for one in rows:
        values = [_measured_cell(one.value(name)) for name in names]
        stands = '<span class="hit">hit</span>' if one.hit else escape(one.standing)
        if one.reason and not one.hit:
            why = f"{one.reason.replace('_', ' ')} at {one.rung}"
            stands += f'<br><span class="soft" title="{escape(one.detail or "")}">{escape(why)}</span>'
        elif one.standing == "open":
            stands += f'<br><span class="soft">at {escape(one.rung or "")}</span>'
        cells.append([html.structure(one.smiles), f"<code>{escape(one.smiles)}</code>", *values, stands])
    return html.box(html.rows_html(heads, cells))


def _measured_cell(value: MeasuredValue | None) -> str:
    return NOTHING if value is None else _cell(str(value), value.level)


def _cell(text: str, level: str) -> str:
    return f'{escape(text)}<br><span class="soft" title="{escape(level)}">{escape(level.split("//")[0])}</span>'


def _candidate_record(one: CandidateRow) -> dict[str, object]:
    made = {name: cell for name, cell in vars(one).items() if name != "values"}
    for value in one.values:
        made[f"{value.rung}.{value.property}"] = value.value
        made[f"{value.rung}.{value.property}.uncertainty"] = value.uncertainty
    return made


def _candidate_brief(one: CandidateRow) -> dict[str, object]:
    return {
        "SMILES": one.smiles,
        "stands": "hit" if one.hit else one.standing,
        "rung": one.rung,
        "reason": one.reason,
        "utility": one.utility,
    }


def candidates_layout(names: Sequence[str]) -> Layout[CandidateRow]:
    """names: the properties that are shown; a data frame has all."""
    return Layout(_candidate_record, _candidate_brief, lambda rows: _candidates_html(rows, names))


@dataclass(frozen=True)
class AddedCandidate:
    """What became of one structure that a person handed in."""

    text: str
    """As it was given."""
    status: str
    """`new`, `duplicate` or `refused`."""
    key: str | None
    """Its identity in every ledger; None if it was refused."""
    standing: str | None
    """In the campaign; None if it was refused."""
    reason: str | None
    """Why it was refused, or dropped."""
    detail: str
    """The reason in words."""


def _added_html(rows: Sequence[AddedCandidate]) -> str:
    return html.table([vars(row) for row in rows])


ADDED = Layout[AddedCandidate](vars, vars, _added_html)


@dataclass(frozen=True)
class WrittenReport:
    """A report that was written, as a link."""

    path: Path
    """The HTML file."""

    def __str__(self) -> str:
        return str(self.path)

    def __fspath__(self) -> str:
        return str(self.path)

    def _repr_html_(self) -> str:
        name = escape(str(self.path))
        return html.box(f'<p>report: <a href="{escape(self.path.as_posix())}" target="_blank">{name}</a></p>')
