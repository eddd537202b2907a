"""The answers of a campaign with their display in notebooks and terminals."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from rich.table import Table

from sciagent.api import html
from sciagent.api.explanation_text import paragraphs
from sciagent.api.terminal import Paragraph, records_table, text_of
from sciagent.domain.answers.explanation import Explanation, RefusedText
from sciagent.domain.answers.margins import LimitMargin
from sciagent.domain.answers.status import CampaignCounts, Status
from sciagent.domain.answers.values import BestCandidate, LadderAnswer, ShownValue
from sciagent.domain.campaigns.calibration import short_label
from sciagent.domain.candidate_names import cells as named
from sciagent.domain.jobs.states import CampaignState

KIND_WORDS = {
    "molecule": "of each molecule, from its own conformers or repeated runs",
    "class": "usual for such molecules, not computed for each",
    "fit": "together with the leave-one-out error of the fit",
    None: "of the protocol",
}
"""What is said of the uncertainties, by their kind."""
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
    return records_table(_rungs(status), f"{status.campaign}: {status.state}")


def status_html(status: CampaignCounts) -> str:
    """Returns HTML with one line per rung, the budget, and the reason of the campaign's end."""
    return html.table(_rungs(status), f"{status.campaign}: {status.state.replace('_', ' ')}") + html.box(
        html.paragraph(budget_line(status)), *(html.paragraph(line, soft=True) for line in _remarks(status))
    )


def _rungs(status: CampaignCounts) -> list[Mapping[str, Any]]:
    return [
        {
            "rung": rung.rung,
            "tier": TIERS.get(rung.tier, str(rung.tier)),
            "running": rung.running,
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
    """Returns a line with proposals, candidates, hits, and the amount spent of each limit."""
    parts = [
        f"{status.proposals} proposals",
        f"{status.candidates} candidates",
        f"{status.hits} hit{'' if status.hits == 1 else 's'}",
    ]
    rare = {"texts could not be read": status.unreadable, "answers reused at no cost": status.reused}
    rare |= {"held": status.held, "vetoed": status.vetoed}
    parts += [f"{n} {what}" for what, n in rare.items() if n]
    jobs = {rung.rung: rung.jobs for rung in status.rungs}
    for name, limit in status.budget.items():
        if isinstance(limit, Mapping):
            parts += [f"{rung}: {jobs.get(rung, 0)} of {n}" for rung, n in limit.items()]
        elif name == "proposals":
            parts[0] = f"{status.proposals} of {limit} proposals"
        elif limit is not None:
            parts.append(f"{name} {status.spent.get(name, 0.0):.1f} of {limit:g}")
    return " · ".join(parts)


def best_brief(candidate: BestCandidate, properties: Sequence[str]) -> Mapping[str, Any]:
    """Returns the displayed cells of a best candidate. properties: properties of the objectives, one column each."""
    return {
        "name": candidate.name,
        "smiles": candidate.smiles,
        **values_and_level({name: candidate.values.get(name) for name in properties}),
        "utility": candidate.utility,
        "P(hit)": candidate.p_hit,
        **nearest_limit(candidate),
        "stands": _stands(candidate),
        "seed": "a seed" if candidate.in_seeds else "",
    }


def _stands(candidate: BestCandidate) -> str:
    if candidate.hit:
        return "hit, contradicted" if candidate.contradicted else "hit"
    return (candidate.reason or "").replace("_", " ")


def nearest_limit(candidate: BestCandidate) -> Mapping[str, str]:
    """Returns the cell `clear by`: the distance from the limit that is nearest, relative to the method's error, in the
    unit of the value. There is no such cell where the error of the method is not known for any objective."""

    def relative(margin: LimitMargin) -> float:
        size = margin.method.mean_absolute_error if margin.method else 0.0
        return margin.margin / size if size else math.copysign(math.inf, margin.margin)

    known = [margin for margin in candidate.margins if margin.method]
    if not known:
        return {}
    nearest = min(known, key=relative)
    name = f"{nearest.property}: " if len(candidate.margins) > 1 else ""
    return {"clear by": f"{name}{nearest.cell()}"}


def certainty_lines(candidates: Sequence[BestCandidate]) -> Iterator[str]:
    """Yields one line for each objective on what its ± means, and on the error of the method against experiment."""
    by_property: dict[tuple[str, str], list[LimitMargin]] = {}
    for margin in (margin for candidate in candidates for margin in candidate.margins):
        by_property.setdefault((margin.property, margin.rung), []).append(margin)
    for (name, rung), margins in by_property.items():
        kinds = {margin.uncertainty_kind for margin in margins if margin.repeatability}
        method = next((str(margin.method) for margin in margins if margin.method), "error against experiment not known")
        yield f"{name} at {rung}: ± is the repeatability {KIND_WORDS.get(one_of(kinds), KIND_WORDS[None])}; {method}"


def one_of(kinds: set[str | None]) -> str | None:
    """Returns the only kind; None for several or none."""
    return next(iter(kinds)) if len(kinds) == 1 else None


def values_and_level(values: Mapping[str, ShownValue | None]) -> Mapping[str, Any]:
    """Returns the values with the method of the first one, as cells. values: by property; None if not measured."""
    return {**values, "level": next((short_label(value.level) for value in values.values() if value), None)}


def best_record(candidate: BestCandidate) -> Mapping[str, Any]:
    """Returns the cells of a best candidate for a data frame."""
    fixed = ("smiles", "hit", "contradicted", "utility", "p_hit", "verified", "in_seeds", "reason", "key")
    cells = {name: getattr(candidate, name) for name in fixed}
    cells = named(candidate.names, tuple(candidate.names)) | cells
    for name, value in candidate.values.items():
        cells |= {name: value.value} | {
            f"{name} {part}": getattr(value, part) for part in ("uncertainty", "unit", "level")
        }
    return cells


class LadderResult(LadderAnswer):
    """The answer of the ladder on a single molecule, with its display in notebooks and terminals."""

    @property
    def values(self) -> dict[str, ShownValue]:
        """Value of each property at the highest rung that measured it."""
        return {name: value for rung in self.rungs for name, value in rung.values.items()}

    def paragraphs(self) -> Iterator[Paragraph]:
        """Yields the paragraphs that `sciagent verify` prints."""
        reason = f" ({self.reason})" if self.reason else ""
        yield Paragraph(f"{self.smiles or 'no molecule'}: {self.verdict}{reason}", 0)
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
        return html.box(html.structure(self.smiles or ""), html.paragraphs(self.paragraphs()))


class ExplainedCandidate:
    """The explanation of a candidate, with its display in notebooks and terminals."""

    def __init__(self, answer: Explanation | RefusedText) -> None:
        self.answer = answer
        """The answer of `sciagent explain`; for a refused text, the refusals with their reasons."""
        self.smiles: str = answer.text if isinstance(answer, RefusedText) else answer.smiles
        self.key: str | None = answer.key

    def __repr__(self) -> str:
        return text_of(*paragraphs(self.answer))

    def _repr_html_(self) -> str:
        return html.box(html.structure(self.smiles), html.paragraphs(paragraphs(self.answer)))


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
