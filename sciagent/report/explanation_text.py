"""An explanation as paragraphs of text: the candidate, the answer of each rung, and the reason for its standing."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import datetime

from sciagent.chemistry.subjects.base import Words
from sciagent.chemistry.subjects.registry import subject_of
from sciagent.domain.answers.explanation import (
    CampaignStory,
    DecisionStory,
    EvidenceStory,
    Explanation,
    Outlook,
    ProposalStory,
    RefusedText,
    RungStory,
)
from sciagent.domain.answers.values import EvidenceValue, PropertyValue
from sciagent.domain.quantities import stated
from sciagent.domain.text import Paragraph, one_line
from sciagent.report.parts.wording import diagnostics_line

MAX_VALUES = 40
MAX_ALIAS = 80  # characters of another text of the candidate
VERDICTS = {
    "pass": "pass",
    "fail": "fail",
    "inconclusive": "could not decide",
    "error": "went wrong",
    "not_applicable": "does not take it",
}
_INDEX = re.compile(r", index \S+ at price [^;\s]+")  # part of the reason of a `priced` decision; --full shows it
KINDS = {"class": " (± usual for such {words.many})", "molecule": " (± of this {words.one})"}
JOBS = {"queued": "decided, waits for a worker or a person", "running": "is at work", "cancelled": "cancelled, not run"}
RESOURCES = {"core_seconds": "core-second", "wall_seconds": "core-second (by the clock)", "gpu_seconds": "GPU-second"}


def paragraphs(answer: Explanation | RefusedText, full: bool = False) -> Iterator[Paragraph]:
    """Yields the paragraphs of an explanation. full: include settings, engine versions, keys and files."""
    if isinstance(answer, RefusedText):
        yield from _refused(answer)
        return
    words = subject_of(answer.kind).words
    yield from _identity(answer, full)
    for story in answer.campaigns:
        yield from _campaign(story, full, words)
    if not answer.campaigns:
        yield Paragraph("It is in no campaign.")
    if answer.imported:
        yield from _heading("Values brought from files")
    for value in answer.imported:
        cost = f"; cost: {value.cost_text}" if value.cost else ""
        yield Paragraph(f"{_value(value, words)}, from {value.file} by {value.who}, {_day(value.at)}{cost}")
    yield from _other_evidence(answer.other_evidence, words)
    if (n := answer.children.n) > 0:
        yield from _heading(f"Parent of {n} candidate{'' if n == 1 else 's'}")
        yield Paragraph(", ".join(child.text for child in answer.children.first) + (", …" if n > 5 else ""))


def _refused(answer: RefusedText) -> Iterator[Paragraph]:
    """Yields the paragraphs on a proposed text that did not become a candidate."""
    yield Paragraph(answer.text, 0)
    yield Paragraph("It was proposed and refused: it did not become a candidate.")
    for proposal in answer.refused:
        by = "a person" if proposal.turn is None else f"the proposer {proposal.by} in turn {proposal.turn}"
        why = ": ".join(part for part in (proposal.reason, proposal.detail) if part) or "no reason was kept"
        text = "" if proposal.text.strip() == answer.text.strip() else f", as {proposal.text or 'an empty text'}"
        yield Paragraph(f"Campaign {proposal.campaign}: proposed by {by}, {_moment(proposal.at)}{text}")
        yield Paragraph(f"refused: {why}", 2)
        if proposal.rationale:
            yield Paragraph(f"“{proposal.rationale}”", 2)


def _identity(answer: Explanation, full: bool) -> Iterator[Paragraph]:
    yield Paragraph(answer.text, 0)
    if answer.names:
        yield Paragraph("; ".join(f"{field}: {', '.join(texts)}" for field, texts in answer.names.items()))
    charge = f", charge {answer.charge:+d}" if answer.charge else ""
    spin = f", multiplicity {answer.multiplicity}" if answer.multiplicity != 1 else ""
    yield Paragraph(f"{answer.formula}{charge}{spin}, {answer.atoms} atoms")
    if caveat := subject_of(answer.kind).caveat(answer.drawn_from or answer.text):
        yield Paragraph(caveat)
    yield Paragraph(f"key {answer.key if full else answer.key[:12]}, InChIKey {answer.inchikey or 'none'}")
    if answer.also_given_as:
        others = (one_line(text, MAX_ALIAS) for text in answer.also_given_as[:5])
        yield Paragraph("also given as " + ", ".join(others))


def _campaign(story: CampaignStory, full: bool, words: Words) -> Iterator[Paragraph]:
    standing = ("a hit" if story.hit else story.standing) + (", a seed" if story.in_seeds else "")
    yield from _heading(f"In campaign {story.campaign}: {standing}")
    yield Paragraph(story.why)
    if story.contradicted is not None:
        yield Paragraph(f"A measurement contradicts this: {story.contradicted}.")
    yield Paragraph(_score_and_cost(story))
    for margin in story.margins:
        yield Paragraph(f"{margin.property} at {margin.rung} is {margin}")
        if margin.method is not None:
            yield Paragraph(f"the method: {margin.method}; {margin.method.source}", 2)
    if full and story.outlook and story.outlook.index is not None:
        yield Paragraph(_index_and_price(story.outlook))
    for number, proposal in enumerate(story.proposed):
        yield from _proposal(proposal, "Again" if number else "Proposed")
    waivers = _waivers(story)
    labels = [rung.rung for rung in story.rungs]
    for rung in story.rungs:
        yield from _rung(rung, full, waivers.get(rung.rung), labels, words)
    for word in story.people:
        to = f" to {word.rung}" if word.rung else ""
        yield Paragraph(f"{_moment(word.at)}  {word.who}: {word.verb}{to}: {word.why}")


def _heading(text: str) -> Iterator[Paragraph]:
    yield Paragraph("", 0)
    yield Paragraph(text, 0)


def _score_and_cost(story: CampaignStory) -> str:
    """Returns a line with the utility or score of the candidate and its cost."""
    cost = f"it cost this campaign {f'{story.core_seconds:.3g} core-seconds' if story.core_seconds else 'nothing'}"
    if story.utility is not None:
        return f"Utility {story.utility:.3f} (1: every objective fully met); {cost}"
    if story.score is not None:
        what = "how near the gates and objectives" if story.scheduler == "priced" else "orders what waits"
        return f"Score {story.score:.3f} ({what}; no probability); {cost}"
    return cost.capitalize()


def _proposal(proposal: ProposalStory, verb: str) -> Iterator[Paragraph]:
    by = proposal.by if proposal.is_person else f"the proposer {proposal.by} in turn {proposal.turn}"
    known = {"seed": ", as a seed", "person": "", proposal.by: "", "": ""}
    how = known.get(proposal.operation or "", f", by {proposal.operation}")
    text = f", as {proposal.text}" if proposal.is_person else ""
    yield Paragraph(f"{verb} by {by}, {_moment(proposal.at)}{how}{text}")
    if proposal.detail:
        yield Paragraph(proposal.detail, 2)
    if proposal.parents:
        yield Paragraph("from " + " and ".join(f"{parent.text} ({parent.key[:8]})" for parent in proposal.parents), 2)
    if proposal.rationale:
        yield Paragraph(f"“{proposal.rationale}”", 2)


def _index_and_price(outlook: Outlook) -> str:
    """Returns a line with the numbers by which the `priced` scheduler ranks an open candidate."""
    unit = outlook.units.index if outlook.units else ""
    value = f", value {outlook.value:.3g}" if outlook.value is not None else ""
    return f"index {outlook.index:.3g} {unit} at price {outlook.price or 0:.3g}{value}"


def _waivers(story: CampaignStory) -> dict[str, str]:
    """Returns {rung: person who waived its verdict}. A promotion waives all rungs below its target, until a veto."""
    order = [rung.rung for rung in story.rungs]
    waivers: dict[str, str] = {}
    for word in story.people:
        if word.verb == "veto":
            waivers = {}
        elif word.verb == "promote" and word.rung in order:
            waivers |= dict.fromkeys(order[: order.index(word.rung)], word.who)
    return waivers


def _other_evidence(others: Sequence[EvidenceStory], words: Words) -> Iterator[Paragraph]:
    if others:
        yield from _heading("Known besides, under other settings or from other work")
    for evidence in others:
        if evidence.is_current:
            where = f" (campaign {evidence.campaign})" if evidence.campaign else ""
            outcome = evidence.outcome + _in_brackets(evidence.reason)
            yield Paragraph(f"{evidence.verifier} {evidence.version}{where}, {_day(evidence.at)}: {outcome}")
            if evidence.detail:
                yield Paragraph(evidence.detail, 2)
            yield from _values(evidence.values, words)
            yield from _diagnostics(evidence)
    if superseded := sum(not evidence.is_current for evidence in others):
        yield Paragraph(f"and {superseded} superseded revision{'' if superseded == 1 else 's'}")


def _rung(
    rung: RungStory, full: bool, waived_by: str | None, labels: Sequence[str], words: Words
) -> Iterator[Paragraph]:
    """Yields the paragraphs on a rung. labels: labels of all rungs of the ladder."""
    decides = ", decides" if rung.is_terminal else ""
    yield Paragraph(f"{rung.rung} ({rung.verifier} {rung.version}{decides}): {_verdict(rung)}", 1, "bold")
    yield from _judgement(rung, full, waived_by)
    if rung.evidence:
        yield from _values(rung.evidence.values, words)
        for value in rung.calibrated:
            yield Paragraph(f"calibrated, which counts: {value.line()}", 2)
        yield from _diagnostics(rung.evidence)
        yield Paragraph(_origin(rung, rung.evidence), 2)
    for decision in rung.decisions:
        yield Paragraph(f"{_decision(decision, full)}, {_moment(decision.at)}", 2)
        if full and (by := _law_and_price(decision, labels)):
            yield Paragraph(by, 3)
    if full or len(rung.attempts) > 1 or not rung.evidence:
        for attempt in rung.attempts:
            ended = f"{attempt.outcome or attempt.state}{_in_brackets(attempt.reason)}"
            yield Paragraph(f"tried {_moment(attempt.started_at)} on {attempt.host}: {ended}", 2)
    if rung.evidence:
        yield from _provenance(rung, rung.evidence, full)


def _verdict(rung: RungStory) -> str:
    """Returns the verdict with its reason; without a verdict, the state of the job."""
    if rung.verdict is None:
        return JOBS.get(rung.job or "", "not run")
    return VERDICTS[rung.verdict] + _in_brackets(rung.reason)


def _in_brackets(reason: str | None) -> str:
    return f" ({reason})" if reason else ""


def _judgement(rung: RungStory, full: bool, waived_by: str | None) -> Iterator[Paragraph]:
    """Yields the numbers behind the verdict, the person who waived it, and the windows."""
    missed = bool(rung.detail) and rung.verdict != "pass"
    if missed:
        yield Paragraph(rung.detail, 2)
    if waived_by and rung.verdict not in ("pass", None):
        yield Paragraph(f"waived: {waived_by} promoted it past this rung", 2)
    windows = [*(f"gate {window}" for window in rung.gate), *(f"objective {window}" for window in rung.objectives)]
    if windows and (full or (rung.evidence and not missed)):
        yield Paragraph("; ".join(windows), 2)


def _origin(rung: RungStory, evidence: EvidenceStory) -> str:
    if evidence.source.startswith("task "):
        why = f", correction {evidence.revision}: {evidence.why}" if evidence.revision else ""
        return f"entered by {evidence.who} {_moment(evidence.at)} ({evidence.source}){why}"
    if rung.reused:
        where = f"campaign {evidence.campaign}" if evidence.campaign else "`sciagent verify`"
        return f"known before from {where} ({_day(evidence.at)}), under the same settings: cost nothing"
    return f"computed {_moment(evidence.at)}, {rung.core_seconds:.3g} core-seconds"


def _diagnostics(evidence: EvidenceStory) -> Iterator[Paragraph]:
    if line := diagnostics_line(evidence.diagnostics):
        yield Paragraph(f"diagnostics: {line}", 2)


def _provenance(rung: RungStory, evidence: EvidenceStory, full: bool) -> Iterator[Paragraph]:
    if full:
        versions = ", ".join(f"{name} {version}" for name, version in sorted(evidence.versions.items()))
        yield Paragraph(f"with {versions}", 2)
        yield Paragraph("settings " + ", ".join(f"{name}={value}" for name, value in rung.settings.items()), 2)
        yield Paragraph(f"evidence {evidence.key}, watermark {evidence.watermark}, revision {evidence.revision}", 2)
    for file in evidence.files:
        gone = file.removed
        state = f", removed by {gone.who} {_day(gone.at)}: {gone.why}" if gone else ""
        if full or gone:
            yield Paragraph(f"file {file.name}, {file.size} bytes, {file.sha256[:12]}{state}", 2)


def _values(values: Sequence[EvidenceValue], words: Words) -> Iterator[Paragraph]:
    """Yields the values, under a common heading if all have the same level."""
    levels = {value.level for value in values}
    together = len(levels) == 1 and len(values) > 1
    if together:
        yield Paragraph(f"at {levels.pop()}:", 2)
    for value in values[:MAX_VALUES]:
        yield Paragraph(_value(value, words, level=not together), 3 if together else 2)
    if len(values) > MAX_VALUES:
        yield Paragraph(f"and {len(values) - MAX_VALUES} more; see --json", 2)


def _value(value: PropertyValue, words: Words, level: bool = True) -> str:
    unknown = "" if value.uncertainty is not None else ", uncertainty unknown"
    if value.uncertainty:
        unknown = KINDS.get(value.uncertainty_kind or "", "").format(words=words)
    return (value.line() if level else stated(value.property, value)) + unknown


def _decision(decision: DecisionStory, full: bool) -> str:
    person = decision.chooser.removeprefix("person:") if decision.chooser.startswith("person:") else None
    why = (decision.why or "").removeprefix(decision.chooser).removeprefix(": ")
    why = why and f": {why if full else _INDEX.sub('', why)}"
    if decision.action == "promote" and person:
        return f"promoted by {person}{why}"
    verb = {"run": "chosen", "reuse": "reused"}.get(decision.action, decision.action)
    by = "" if decision.chooser == "reuse" else f" by {person or decision.chooser}"
    if full and decision.index is not None:
        by += f" (index {decision.index:.3g}, propensity {decision.propensity:g})"
    return f"{verb}{by}{why}"


def _law_and_price(decision: DecisionStory, labels: Sequence[str]) -> str:
    """Returns a text on the law and the prices behind a purchase."""
    law = decision.law_version
    parts = [] if law is None else [f"by law {law}"]
    if decision.price:
        prices = (f"{amount:.3g} for one {_resource(name, labels)}" for name, amount in decision.price.items())
        parts.append(f"price {', '.join(prices)}, in hits or utility")
    return ", ".join(parts)


def _resource(name: str, labels: Sequence[str]) -> str:
    """Returns the name of a resource in the singular; for `rung 3`, the label of the rung at position 3."""
    if name.startswith("rung "):
        return labels[int(name.split()[1])]
    return RESOURCES.get(name) or name.removesuffix("s").replace("_", " ")


def _moment(at: datetime | None) -> str:
    return f"{at:%Y-%m-%d %H:%M} UTC" if at else "at an unknown time"


def _day(at: datetime) -> str:
    return f"{at:%Y-%m-%d}"
