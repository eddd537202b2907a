"""What is known of one candidate: what the ladder says of it, and why it stands where it stands."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from html import escape
from typing import Any

from sciagent.api import html
from sciagent.api.values import SIGNS, MeasuredValue, RungAnswer
from sciagent.domain.answers.evidence_story import EvidenceValue
from sciagent.domain.answers.explanation import Explanation, RefusedText
from sciagent.domain.answers.model import plain
from sciagent.domain.answers.rung_story import RungStory
from sciagent.domain.answers.values import ImportedValue
from sciagent.domain.quantities import show
from sciagent.store.campaign_state.campaigns import CampaignRow
from sciagent.store.database.ledger import Ledger


@dataclass(frozen=True)
class LadderResult:
    """What the ladder says of one molecule that was verified by itself."""

    smiles: str
    """Canonical, or as it was given where it could not be read."""
    key: str | None
    """Its identity in every ledger; None where it could not be read."""
    verdict: str
    """`pass`: it is a hit; `fail`; `inconclusive` or `error`: that could not be decided."""
    reason: str | None
    """Why it is no hit."""
    detail: str
    """The reason in words."""
    rungs: tuple[RungAnswer, ...]
    """One answer a rung, up to the one that failed it."""
    data: Mapping[str, object]
    """As `sciagent verify --json` has it."""

    @classmethod
    def of(cls, found: Mapping[str, Any], given: str) -> LadderResult:
        """found: as `sciagent verify --json` has it. given: the text."""
        rungs = tuple(
            RungAnswer(
                r["rung"],
                r["tier"],
                r["verdict"],
                r["reason"],
                r["detail"] or "",
                r["reused"],
                r["core_seconds"],
                tuple(
                    MeasuredValue(p, v["value"], v["uncertainty"], v["unit"], v["level"], r["rung"])
                    for p, v in r["values"].items()
                ),
            )
            for r in found["rungs"]
        )
        detail = found["detail"] or ""
        return cls(found["smiles"] or given, found["key"], found["verdict"], found["reason"], detail, rungs, found)

    @property
    def values(self) -> dict[str, MeasuredValue]:
        """By property, from the highest rung that measured it."""
        return {value.property: value for rung in self.rungs for value in rung.values}

    def __repr__(self) -> str:
        return "\n".join(self.lines())

    def lines(self) -> Iterator[str]:
        """As `sciagent verify` prints it."""
        yield f"{self.smiles}: {self.verdict}" + (f" ({self.reason})" if self.reason else "")
        if not self.rungs:
            yield f"  {self.detail}"
        for rung in self.rungs:
            why = f" ({rung.reason}: {rung.detail})" if rung.reason else ""
            yield f"  {rung.rung}: {rung.verdict}{why}" + (", known" if rung.reused else "")
            for value in rung.values:
                yield f"    {value.property} = {value}  [{value.level}]"

    def _repr_html_(self) -> str:
        kind = ' class="hit"' if self.verdict == "pass" else ""
        why = f": {escape(self.reason.replace('_', ' '))}" if self.reason else ""
        head = f"<p><code>{escape(self.smiles)}</code> <span{kind}>{escape(self.verdict)}</span>{why}</p>"
        rows = [
            [
                f"<b>{escape(rung.rung)}</b>",
                escape(rung.verdict) + (f'<br><span class="soft">{escape(rung.detail)}</span>' if rung.detail else ""),
                html.folded([_value_html(v.property, str(v), v.level) for v in rung.values], "values"),
                '<span class="soft">known</span>' if rung.reused else f"{rung.core_seconds:.2f}",
            ]
            for rung in self.rungs
        ]
        below = html.rows_html(STORY, rows) if rows else html.paragraph(self.detail)
        return html.box(html.structure(self.smiles), head, below)


class ExplainedCandidate:
    """All that is known of one candidate, and why it stands where it stands."""

    def __init__(self, answer: Explanation | RefusedText) -> None:
        self.answer = answer
        """The answer of `sciagent explain`; of a text that was refused, why."""
        self.smiles: str = answer.text if isinstance(answer, RefusedText) else answer.smiles
        self.key: str | None = answer.key

    @property
    def data(self) -> Any:
        """As `sciagent explain --json` has it."""
        return plain(self.answer)

    def __repr__(self) -> str:
        return "\n".join(text for text, _ in self._lines())

    def _repr_html_(self) -> str:
        if isinstance(self.answer, RefusedText):
            return html.box(*(html.paragraph(text) for text, _ in self._lines()))
        about = f"{self.answer.formula}, {self.answer.atoms} atoms, key {self.answer.key[:12]}"
        parts = [html.structure(self.smiles), html.heading(self.smiles), html.paragraph(about, soft=True)]
        for story in self.answer.campaigns:
            standing = '<span class="hit">a hit</span>' if story.hit else escape(story.standing)
            parts.append(f"<p>In campaign <b>{escape(story.campaign)}</b>: {standing}. {escape(story.why)}</p>")
            parts.append(html.rows_html(STORY, [_rung_cells(rung) for rung in story.rungs]))
        parts += [html.paragraph(f"from a file: {_shown(value)}") for value in self.answer.imported]
        return html.box(*parts)

    def _lines(self) -> Iterator[tuple[str, int]]:
        """(text, depth): 0 a heading, 1 a paragraph, 2 an item."""
        yield self.smiles, 0
        if isinstance(self.answer, RefusedText):
            for proposal in self.answer.refused:
                yield f"It was proposed and refused: {proposal.reason}: {proposal.detail}", 1
            return
        for story in self.answer.campaigns:
            standing = "a hit" if story.hit else story.standing
            yield f"In campaign {story.campaign}: {standing}. {story.why}", 1
            for rung in story.rungs:
                yield from _rung_lines(rung)
        for value in self.answer.imported:
            yield f"from a file: {_shown(value)}", 2


STORY = [("rung", False), ("verdict", False), ("values", False), ("CPU s", True)]


def _rung_cells(rung: RungStory) -> list[str]:
    detail = f'<br><span class="soft">{escape(rung.detail)}</span>' if rung.detail and rung.verdict != "pass" else ""
    found = rung.evidence.values if rung.evidence else ()
    values = [_value_html(value.property, _text(value), value.level) for value in found]
    cost = '<span class="soft">known</span>' if rung.reused else f"{rung.core_seconds:.2f}"
    verdict = escape((rung.verdict or "not run").replace("_", " "))
    return [f"<b>{escape(rung.rung)}</b>", verdict + detail, html.folded(values, "values"), cost]


def _rung_lines(rung: RungStory) -> Iterator[tuple[str, int]]:
    why = f" ({rung.reason}: {rung.detail})" if rung.reason else ""
    yield f"{rung.rung}: {rung.verdict or 'not run'}{why}", 2
    for value in rung.evidence.values if rung.evidence else ():
        yield f"{rung.rung}: {_shown(value)}", 2


def _value_html(property: str, text: str, level: str) -> str:
    short = f'<span class="soft" title="{escape(level)}">{escape(level.split("//")[0])}</span>'
    return f"{escape(property.replace('_', ' '))} = {escape(text)} {short}"


def _text(value: EvidenceValue | ImportedValue) -> str:
    return SIGNS.get(value.censoring, "") + show(value.value, value.uncertainty, value.unit)


def _shown(value: EvidenceValue | ImportedValue) -> str:
    return f"{value.property} = {_text(value)}  [{value.level}]"


def explained(ledger: Ledger, row: CampaignRow, candidate: str) -> ExplainedCandidate:
    """What the ledger knows of a candidate of the campaign. Raises UsageError where there is none."""
    from sciagent.campaign.people.explaining import explain_named

    return ExplainedCandidate(explain_named(ledger, candidate, row.name))
