"""What a rung has to do with a candidate, as paragraphs of text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

from sciagent.cli.shared.tables import Paragraph
from sciagent.domain.answers.evidence_story import EvidenceStory, EvidenceValue
from sciagent.domain.answers.rung_story import DecisionStory, RungStory
from sciagent.domain.answers.values import ImportedValue
from sciagent.domain.quantities import show

MAX_VALUES = 40
VERDICTS = {
    "pass": "pass",
    "fail": "fail",
    "inconclusive": "could not decide",
    "error": "went wrong",
    "not_applicable": "does not take it",
}
JOBS = {"queued": "decided, waits for a worker", "running": "is at work", "cancelled": "cancelled, not run"}


def rung_lines(rung: RungStory, full: bool, waived_by: str | None, labels: Sequence[str]) -> Iterator[Paragraph]:
    """full: settings, engine versions, keys and files too. labels: of the ladder."""
    decides = ", decides" if rung.is_terminal else ""
    heading = f"{rung.rung} ({rung.verifier} {rung.version}{decides}): {_verdict(rung)}"
    yield Paragraph(heading, 1, bold=True)
    yield from _judgement(rung, full, waived_by)
    if rung.evidence:
        yield from value_lines(rung.evidence.values)
        yield Paragraph(_origin(rung, rung.evidence), 2)
    for decision in rung.decisions:
        yield Paragraph(f"{_decision(decision, full)}, {moment(decision.at)}", 2)
        if by := _by_law(decision, full, labels):
            yield Paragraph(by, 3)
    yield from _attempts(rung, full)
    if rung.evidence:
        yield from _provenance(rung, rung.evidence, full)


def _verdict(rung: RungStory) -> str:
    if rung.verdict is None:
        return JOBS.get(rung.job or "", "not run")
    return VERDICTS[rung.verdict] + (f" ({rung.reason})" if rung.reason else "")


def _judgement(rung: RungStory, full: bool, waived_by: str | None) -> Iterator[Paragraph]:
    """The numbers behind the verdict, who waived it, and the windows."""
    missed = bool(rung.detail) and rung.verdict != "pass"
    if missed:
        yield Paragraph(rung.detail, 2)
    if waived_by and rung.verdict not in ("pass", None):
        yield Paragraph(f"waived: {waived_by} promoted it past this rung", 2)
    windows = [*(f"gate {window}" for window in rung.gate), *(f"objective {window}" for window in rung.objectives)]
    if windows and (full or (rung.evidence and not missed)):
        yield Paragraph("; ".join(windows), 2)


def _origin(rung: RungStory, evidence: EvidenceStory) -> str:
    if rung.reused:
        where = f"campaign {evidence.campaign}" if evidence.campaign else "`sciagent verify`"
        return f"known before from {where} ({day(evidence.at)}), under the same settings: cost nothing"
    return f"computed {moment(evidence.at)}, {rung.core_seconds:.3g} core-seconds"


def _attempts(rung: RungStory, full: bool) -> Iterator[Paragraph]:
    """Where one attempt gave the evidence, there is nothing to say of it."""
    if not (full or len(rung.attempts) > 1 or not rung.evidence):
        return
    for attempt in rung.attempts:
        why = f" ({attempt.reason})" if attempt.reason else ""
        ended = f"{attempt.outcome or attempt.state}{why}"
        yield Paragraph(f"tried {moment(attempt.started_at)} on {attempt.host}: {ended}", 2)


def _provenance(rung: RungStory, evidence: EvidenceStory, full: bool) -> Iterator[Paragraph]:
    if full:
        yield Paragraph(
            "with " + ", ".join(f"{name} {version}" for name, version in sorted(evidence.versions.items())), 2
        )
        yield Paragraph("settings " + ", ".join(f"{name}={value}" for name, value in rung.settings.items()), 2)
        numbers = f"watermark {evidence.watermark}, revision {evidence.revision}"
        yield Paragraph(f"evidence {evidence.key}, {numbers}", 2)
    for file in evidence.files:
        gone = file.removed
        state = f", removed by {gone.who} {day(gone.at)}: {gone.why}" if gone else ""
        if full or gone:
            yield Paragraph(f"file {file.name}, {file.size} bytes, {file.sha256[:12]}{state}", 2)


def value_lines(values: Sequence[EvidenceValue]) -> Iterator[Paragraph]:
    """Under one heading where all are of one level."""
    levels = {value.level for value in values}
    if len(levels) == 1 and len(values) > 1:
        yield Paragraph(f"at {levels.pop()}:", 2)
        yield from (Paragraph(evidence_value(value, level=False), 3) for value in values[:MAX_VALUES])
    else:
        yield from (Paragraph(evidence_value(value), 2) for value in values[:MAX_VALUES])
    if len(values) > MAX_VALUES:
        yield Paragraph(f"and {len(values) - MAX_VALUES} more; see --json", 2)


def evidence_value(value: EvidenceValue | ImportedValue, level: bool = True) -> str:
    sign = {"below": "< ", "above": "> "}.get(value.censoring, "")
    spread = "" if value.uncertainty is not None else ", uncertainty unknown"
    at = f"  [{value.level}]" if level else ""
    return f"{value.property} = {sign}{show(value.value, value.uncertainty, value.unit)}{at}{spread}"


def _decision(decision: DecisionStory, full: bool) -> str:
    person = decision.chooser.removeprefix("person:") if decision.chooser.startswith("person:") else None
    why = (decision.why or "").removeprefix(decision.chooser).removeprefix(": ")
    why = f": {why}" if why else ""
    if decision.action == "promote" and person:
        return f"promoted by {person}{why}"
    verb = {"run": "chosen", "reuse": "reused"}.get(decision.action, decision.action)
    by = "" if decision.chooser == "reuse" else f" by {person or decision.chooser}"
    more = ""
    if full and decision.index is not None:
        more = f" (index {decision.index:.3g}, propensity {decision.propensity:g})"
    return f"{verb}{by}{more}{why}"


def _by_law(decision: DecisionStory, full: bool, labels: Sequence[str]) -> str:
    """The law and the price that a purchase was chosen by."""
    law = decision.law_version
    parts = [] if law is None else [f"by law {law if full else law[:8]}"]
    if decision.price:
        prices = (f"{amount:.3g} for one {_resource(name, labels)}" for name, amount in decision.price.items())
        parts.append(f"price {', '.join(prices)}, in hits or utility")
    return ", ".join(parts)


def _resource(name: str, labels: Sequence[str]) -> str:
    """In the singular; `rung 3` is one run of the rung at position 3."""
    if name.startswith("rung "):
        return labels[int(name.split()[1])]
    words = {"core_seconds": "core-second", "wall_seconds": "core-second (by the clock)", "gpu_seconds": "GPU-second"}
    return words.get(name) or name.removesuffix("s").replace("_", " ")


def moment(at: datetime | None) -> str:
    return "at an unknown time" if at is None else at.strftime("%Y-%m-%d %H:%M UTC")


def day(at: datetime) -> str:
    return at.strftime("%Y-%m-%d")
