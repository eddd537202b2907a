"""What is known of a candidate: what the ladder says of it, and why it stands where it stands."""

from __future__ import annotations

from collections.abc import Iterator

from sciagent.api import html
from sciagent.api.explanation_text import paragraphs
from sciagent.api.terminal import Paragraph, text_of
from sciagent.domain.answers.explanation import Explanation, RefusedText
from sciagent.domain.answers.values import ShownValue
from sciagent.domain.answers.verification import LadderAnswer


class LadderResult(LadderAnswer):
    """What the ladder says of a molecule that was verified by itself, as a notebook and a terminal show it."""

    @property
    def values(self) -> dict[str, ShownValue]:
        """By property, from the highest rung that measured it."""
        return {name: value for rung in self.rungs for name, value in rung.values.items()}

    def paragraphs(self) -> Iterator[Paragraph]:
        """As `sciagent verify` prints it."""
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
    """All that is known of a candidate, and why it stands where it stands."""

    def __init__(self, answer: Explanation | RefusedText) -> None:
        self.answer = answer
        """The answer of `sciagent explain`; of a text that was refused, why."""
        self.smiles: str = answer.text if isinstance(answer, RefusedText) else answer.smiles
        self.key: str | None = answer.key

    def __repr__(self) -> str:
        return text_of(*paragraphs(self.answer))

    def _repr_html_(self) -> str:
        return html.box(html.structure(self.smiles), html.paragraphs(paragraphs(self.answer)))
