"""Writes an explanation as paragraphs of text: the candidate, the answer of each rung, and the reason for its standing.

`paragraphs` is the entry; each other function writes one part. The brief text fits one screen for a candidate of a few
rungs; `Sections` lists what only the verbose text has.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from sciagent.chemistry.subjects.base import Words
from sciagent.chemistry.subjects.registry_and_candidate_dispatch import subject_of
from sciagent.domain.answers.candidate_and_value_answers import (
    EvidenceValue,
    PropertyValue,
    isomer_lines,
    limits_chance_words,
    same_compound_text,
)
from sciagent.domain.answers.explanation import (
    CampaignStory,
    DecisionStory,
    EvidenceStory,
    Explanation,
    LawStory,
    Outlook,
    ProposalStory,
    RefusedText,
    RungStory,
)
from sciagent.domain.candidate_and_its_names_in_files import name_rows
from sciagent.domain.evidence_keys_and_pooled_replicates import file_of
from sciagent.domain.lab_messages_and_codes import NOT_OBTAINED
from sciagent.domain.outcomes_verdicts_and_reasons import Outcome
from sciagent.domain.quantities import named_value_text
from sciagent.domain.safe_text_and_durations import Paragraph, one_line
from sciagent.domain.worth import percent_of
from sciagent.report.parts.wording import MEANS, amounts, diagnostics_line, mean_note, uncertainties_text
from sciagent.store.results.evidence_seals import COMPUTED

MAX_VALUES = 40  # values of one piece of evidence
MAX_ALIASES = 5
MAX_ALIAS_TEXT = 80  # characters of another text of the candidate
MAX_CHILDREN = 5  # children that an explanation names
VERDICTS = {
    "pass": "pass",
    "fail": "fail",
    "inconclusive": "could not decide",
    "error": "went wrong",
    "not_applicable": "does not take it",
}
# part of the reason of a `priced` decision; only the verbose text has it
_INDEX_AND_PRICE = re.compile(r", index \S+ at price [^;\s]+")
UNDER_WAY = "running"  # state of an attempt that has not ended
UNCERTAINTY_NOTES = {
    "class": "± over {words.repeats}, usual for such {words.many}",
    "molecule": "± over {words.repeats} of this {words.one}",
    "simulation": "± over replicas and blocks of the simulation",
    "relaxation": "± of its relaxation",
}
"""{kind of the uncertainty: text behind the value}; {words} are the words of the subject."""
JOB_STATES = {
    "queued": "decided, waits for a worker or a person",
    "running": "is at work",
    "cancelled": "cancelled, not run",
}
# a limit on wall time has a price per core-second: engines run on one thread, so a job takes this much of it
RESOURCE_NAMES = {
    "core_seconds": "core-second",
    "wall_seconds": "core-second (by the clock)",
    "gpu_seconds": "GPU-second",
}
BASES = {
    "answered": "all objectives are answered",
    "measured": "a measured value decides",
    "law": "by the campaign's law",
    "line": "by a straight line from a lower rung",
    "none": "an objective is unknown so far",
}
"""The weakest source of a worth, in words."""


@dataclass(frozen=True)
class Sections:
    """The parts of an explanation that the brief text leaves out or shortens."""

    aliases: bool
    """Other texts of the candidate, and its whole key."""
    method_sources: bool
    """The benchmark behind each error of a method."""
    provenance: bool
    """Time and cost of each calculation, settings, versions, keys and files."""
    diagnostics: bool
    """Whether the facts that a verifier states beside its values are shown."""
    scheduling: bool
    """Index, price, law and propensity of purchases."""
    all_values: bool
    """The values of a rung that no gate and no objective judges, if it has others."""
    laws: bool
    """The predictions of fitted laws."""
    most: int | None
    """Largest number of entries of each list, such as proposals, attempts and decisions; None for all."""


BRIEF = Sections(
    aliases=False,
    method_sources=False,
    provenance=False,
    diagnostics=False,
    scheduling=False,
    all_values=False,
    laws=True,
    most=2,
)
VERBOSE = Sections(
    aliases=True,
    method_sources=True,
    provenance=True,
    diagnostics=True,
    scheduling=True,
    all_values=True,
    laws=True,
    most=None,
)


def paragraphs(answer: Explanation | RefusedText, shown: Sections = BRIEF) -> Iterator[Paragraph]:
    """Yields the paragraphs of an explanation, with the sections `shown`."""
    if isinstance(answer, RefusedText):
        yield from _refused(answer)
        return
    words = subject_of(answer.kind).words
    yield from _identity(answer, shown)
    for story in answer.campaigns:
        yield from _campaign(story, shown, words)
    if not answer.campaigns:
        yield Paragraph("It is in no campaign.")
    if answer.imported:
        yield from _heading("Values brought from files")
    for value in answer.imported[: shown.most]:
        cost = f"; cost: {value.cost_text}" if value.cost else ""
        why = f", a correction: {value.why}" if value.why else ""
        yield Paragraph(f"{_value(value, words)}, from {value.file} by {value.who}, {_day(value.at)}{why}{cost}")
    yield from _left_out(answer.imported, shown)
    yield from _other_evidence(answer.other_evidence, shown, words)
    n_children = answer.children.n
    if n_children > 0:
        texts = ", ".join(child.text for child in answer.children.first)
        more = ", …" if n_children > MAX_CHILDREN else ""
        yield from _heading(f"Parent of {n_children} candidate{'' if n_children == 1 else 's'}")
        yield Paragraph(f"{texts}{more}")


def _refused(answer: RefusedText) -> Iterator[Paragraph]:
    """Yields the paragraphs on a proposed text that did not become a candidate."""
    yield Paragraph(answer.text, depth=0)
    yield Paragraph(f"It {answer.became}.")
    for proposal in answer.refused:
        by = "a person" if proposal.turn is None else f"the proposer {proposal.by} in turn {proposal.turn}"
        stated_parts = [part for part in (proposal.reason, proposal.detail) if part]
        why = ": ".join(stated_parts) if stated_parts else "no reason was kept"
        is_same_text = proposal.text.strip() == answer.text.strip()
        text = "" if is_same_text else f", as {proposal.text or 'an empty text'}"
        yield Paragraph(f"Campaign {proposal.campaign}: proposed by {by}, {_moment(proposal.at)}{text}")
        yield Paragraph(f"{'filtered' if proposal.filtered else 'refused'}: {why}", depth=2)
        if proposal.rationale:
            yield Paragraph(f"“{proposal.rationale}”", depth=2)


def _left_out(entries: Sequence[object], shown: Sections, depth: int = 1) -> Iterator[Paragraph]:
    """Yields the number of entries of a list that the text leaves out, if there are any."""
    n_left_out = 0 if shown.most is None else len(entries) - shown.most
    if n_left_out > 0:
        yield Paragraph(f"and {n_left_out} more", depth)


def _identity(answer: Explanation, shown: Sections) -> Iterator[Paragraph]:
    yield Paragraph(answer.text, depth=0)
    for row in name_rows(answer.names):
        yield Paragraph("; ".join(f"{field}: {text}" for field, text in row.items()))
    charge = f", charge {answer.charge:+d}" if answer.charge else ""
    spin = f", multiplicity {answer.multiplicity}" if answer.multiplicity != 1 else ""
    yield Paragraph(f"{answer.formula}{charge}{spin}, {answer.atoms} atoms")
    notation = answer.drawn_from or answer.text
    caveat = subject_of(answer.kind).caveat(notation)
    if caveat:
        yield Paragraph(caveat)
    yield Paragraph(f"key {answer.key if shown.aliases else answer.key[:12]}, InChIKey {answer.inchikey or 'none'}")
    if shown.aliases and answer.also_given_as:
        others = (one_line(text, MAX_ALIAS_TEXT) for text in answer.also_given_as[:MAX_ALIASES])
        yield Paragraph("also given as " + ", ".join(others))


def _campaign(story: CampaignStory, shown: Sections, words: Words) -> Iterator[Paragraph]:
    standing = "a hit" if story.hit else story.standing
    seed = ", a seed" if story.in_seeds else ""
    yield from _heading(f"In campaign {story.campaign}: {standing}{seed}")
    yield Paragraph(story.why)
    if story.same_compound:
        yield Paragraph(f"It is a {same_compound_text(story.same_compound, story.hit)}.")
    if story.contradicted is not None:
        yield Paragraph(f"A measurement contradicts this: {story.contradicted}.")
    yield from _measurements(story)
    yield Paragraph(_worth_and_cost(story))
    yield from _certainty(story, shown, words)
    yield from _laws(story.laws, shown)
    if shown.scheduling and story.outlook and story.outlook.index is not None:
        yield Paragraph(_index_and_price(story.outlook))
    for number, proposal in enumerate(story.proposed[: shown.most]):
        yield from _proposal(proposal, "Again" if number else "Proposed")
    yield from _left_out(story.proposed, shown)
    waivers = _waivers(story)
    labels = [rung.rung for rung in story.rungs]
    for rung in story.rungs:
        yield from _rung(rung, shown, waivers.get(rung.rung), labels, words)
    for decision in story.people[-(shown.most or len(story.people)) :]:
        target = f" to {decision.rung}" if decision.rung else ""
        yield Paragraph(f"{_moment(decision.at)}  {decision.who}: {decision.verb}{target}: {decision.why}")


def _certainty(story: CampaignStory, shown: Sections, words: Words) -> Iterator[Paragraph]:
    """Yields the distances from the limits with the errors of the methods, what the ± is, and P(limits)."""
    for margin in story.margins:
        yield Paragraph(f"{margin.property} at {margin.rung} is {margin}")
        if shown.method_sources and margin.method is not None:
            yield Paragraph(f"the method: {margin.method}; {margin.method.source}", depth=2)
    if story.margins:
        about = uncertainties_text({margin.uncertainty_kind for margin in story.margins if margin.repeatability}, words)
        yield Paragraph(f"{about}; “(method)” is the error against experiment")
    chance = limits_chance_words(story.p_limits, story.p_limits_unknown, story.p_limits_measured)
    if chance:
        errors = "the errors of methods and measurements" if story.p_limits_measured else "the method's error"
        meaning = f": that the true values meet all limits, {errors} included" if story.p_limits is not None else ""
        yield Paragraph(f"P(limits) {chance}{meaning}")


def law_heading(law: LawStory) -> str:
    """Returns what a law is to the campaign, as the begin of its predictions."""
    use = "which the campaign uses" if law.is_of_campaign else "the newest of the ledger at this level"
    return f"The law {law.law}, {use}"


def _laws(laws: Sequence[LawStory], shown: Sections) -> Iterator[Paragraph]:
    """Yields the predictions of each law."""
    if not laws or not shown.laws:
        return
    from sciagent.report.parts import law_predictions  # slow to import

    for law in laws:
        if law.fault is not None:
            yield Paragraph(f"{law_heading(law)}, cannot be read: {law.fault}")
            continue
        if not law.is_ready:
            yield Paragraph(f"{law_heading(law)}, is being read: ask again in some seconds")
            continue
        yield Paragraph(f"{law_heading(law)}, predicts:")
        for text, further in law_predictions.story_texts(law, shown.most):
            yield Paragraph(text, depth=2)
            for line in further:
                yield Paragraph(line, depth=3)
        if law.p_hit is not None:
            yield Paragraph(
                f"chance of a hit {law.p_hit:.2f}, if the errors of its quantities are independent", depth=2
            )


def _heading(text: str) -> Iterator[Paragraph]:
    yield Paragraph("", depth=0)
    yield Paragraph(text, depth=0)


def _measurements(story: CampaignStory) -> Iterator[Paragraph]:
    """Yields a paragraph on each experimental value that decides an objective."""
    for value in story.decided_by_measurement:
        name = value.property
        mean = f" ({mean_note(value.uncertainty_kind)})" if value.uncertainty_kind in MEANS else ""
        yield Paragraph(f"{named_value_text(name, value)}{mean} was measured, which decides {name} (measured: decide)")


def _worth_and_cost(story: CampaignStory) -> str:
    """Returns a line with the utility or the worth of the candidate and its cost."""
    is_under_way = any(attempt.state == UNDER_WAY for rung in story.rungs for attempt in rung.attempts)
    verb, end = ("has cost", " so far") if is_under_way else ("cost", "")
    cost = f"it {verb} this campaign {amounts(story.costs) or 'nothing'}{end}"
    if story.reason in NOT_OBTAINED:
        return f"Worth nothing, since not all that decides could be obtained ({story.reason}); {cost}"
    if story.utility is not None:
        return f"Utility {story.utility:.3f} (1: every objective fully met); {cost}"
    if story.expected_utility is not None and story.basis is not None:
        chance = "" if story.p_hit is None else f"P(hit) {percent_of(story.p_hit)}, "
        without = f", without {' and '.join(story.known_elsewhere)}" if story.known_elsewhere else ""
        return f"{chance}expected utility {story.expected_utility:.3f} ({BASES[story.basis]}{without}); {cost}"
    return f"{cost[0].upper()}{cost[1:]}"


def _proposal(proposal: ProposalStory, verb: str) -> Iterator[Paragraph]:
    by = proposal.by if proposal.is_person else f"the proposer {proposal.by} in turn {proposal.turn}"
    if proposal.operation == proposal.by or proposal.operation in (None, "", "person"):
        how = ""  # the operation says nothing that `by` does not say
    elif proposal.operation == "seed":
        how = ", as a seed"
    else:
        how = f", by {proposal.operation}"
    text = f", as {proposal.text}" if proposal.is_person else ""
    yield Paragraph(f"{verb} by {by}, {_moment(proposal.at)}{how}{text}")
    if proposal.detail:
        yield Paragraph(proposal.detail, depth=2)
    if proposal.parents:
        parents = " and ".join(f"{parent.text} ({parent.key[:8]})" for parent in proposal.parents)
        yield Paragraph(f"from {parents}", depth=2)
    if proposal.rationale:
        yield Paragraph(f"“{proposal.rationale}”", depth=2)


def _index_and_price(outlook: Outlook) -> str:
    """Returns a line with the numbers by which the `priced` scheduler ranks an open candidate."""
    unit = outlook.units.index if outlook.units else ""
    value = f", value {outlook.value:.3g}" if outlook.value is not None else ""
    return f"index {outlook.index:.3g} {unit} at price {outlook.price or 0:.3g}{value}"


def _waivers(story: CampaignStory) -> dict[str, str]:
    """Returns {rung: person who waived its verdict}. A promotion waives all rungs below its target, until a veto."""
    labels = [rung.rung for rung in story.rungs]
    waivers: dict[str, str] = {}
    for decision in story.people:
        if decision.verb == "veto":
            waivers = {}
        elif decision.verb == "promote" and decision.rung in labels:
            for label in labels[: labels.index(decision.rung)]:
                waivers[label] = decision.who
    return waivers


def _other_evidence(others: Sequence[EvidenceStory], shown: Sections, words: Words) -> Iterator[Paragraph]:
    if others:
        yield from _heading("Known besides, under other settings or from other work")
    current = [evidence for evidence in others if evidence.is_current]
    for evidence in current[: shown.most]:
        where = f" (campaign {evidence.campaign})" if evidence.campaign else ""
        outcome = evidence.outcome + _in_brackets(evidence.reason)
        yield Paragraph(f"{evidence.verifier} {evidence.version}{where}, {_day(evidence.at)}: {outcome}")
        if evidence.detail:
            yield Paragraph(evidence.detail, depth=2)
        # of a calculation without a campaign, nothing says which values count
        counting = () if evidence.campaign else [value.property for value in evidence.values[:MAX_VALUES]]
        yield from _values(evidence.values, words, shown, counting)
        for text in unobtained_texts(evidence.unobtained):
            yield Paragraph(text, depth=2)
        yield from _diagnostics(evidence, shown)
    yield from _left_out(current, shown)
    n_superseded = len([evidence for evidence in others if not evidence.is_current])
    if n_superseded:
        yield Paragraph(f"and {n_superseded} superseded revision{'' if n_superseded == 1 else 's'}")


def _rung(
    rung: RungStory, shown: Sections, waived_by: str | None, labels: Sequence[str], words: Words
) -> Iterator[Paragraph]:
    """Yields the paragraphs on a rung. waived_by: person who waived its verdict. labels: of all rungs of the ladder."""
    decides = ", decides" if rung.is_terminal else ""
    yield Paragraph(f"{rung.rung} ({rung.verifier} {rung.version}{decides}): {_verdict(rung)}", depth=1, style="bold")
    yield from _judgement(rung, shown, waived_by)
    if rung.evidence:
        judged = _judged(rung)
        if _is_of_people(rung.evidence):  # people enter few values, and all are of interest
            judged.update(value.property for value in rung.evidence.values)
        yield from _values(rung.evidence.values, words, shown, judged, rung.replicates)
        yield from _remarks(rung.evidence)
        for value in rung.calibrated:
            yield Paragraph(f"calibrated, which counts: {value.line()}", depth=2)
        yield from _diagnostics(rung.evidence, shown)
        is_computed_here = not rung.reused and not _is_of_people(rung.evidence)
        if rung.replicates:
            yield Paragraph(f"pooled from {len(rung.replicates)} measurements:", depth=2)
        elif shown.provenance or not is_computed_here:
            yield Paragraph(_origin(rung, rung.evidence), depth=2)
        for replicate in rung.replicates:
            texts = [named_value_text(value.property, value) for value in replicate.values]
            texts += unobtained_texts(replicate.unobtained)
            answer = ", ".join(texts) or f"{replicate.outcome}{_in_brackets(replicate.reason)}"
            yield Paragraph(f"{answer}, {_origin(rung, replicate)}", depth=3)
    yield from _decisions_and_attempts(rung, shown, labels)
    if rung.evidence:
        yield from _provenance(rung, rung.evidence, shown)


def _remarks(evidence: EvidenceStory) -> Iterator[Paragraph]:
    """Yields the remark on the values, then the properties without a value and why."""
    if evidence.outcome == Outcome.OK and evidence.detail:
        yield Paragraph(evidence.detail, depth=2)
    for text in unobtained_texts(evidence.unobtained):
        yield Paragraph(text, depth=2)


def _is_of_people(evidence: EvidenceStory) -> bool:
    """Whether people entered the evidence or brought it in a file."""
    return evidence.source != COMPUTED


def unobtained_texts(unobtained: Mapping[str, str]) -> list[str]:
    """Returns texts such as `melting_point: no value (decomposed)`. unobtained: reasons by property."""
    return [f"{name}: no value ({reason})" for name, reason in unobtained.items()]


def _verdict(rung: RungStory) -> str:
    """Returns the verdict with its reason; without a verdict, the state of the job."""
    if rung.verdict is None:
        return JOB_STATES.get(rung.job or "", "no verdict yet" if rung.evidence else "not run")
    return VERDICTS[rung.verdict] + _in_brackets(rung.reason)


def _in_brackets(reason: str | None) -> str:
    return f" ({reason})" if reason else ""


def _decisions_and_attempts(rung: RungStory, shown: Sections, labels: Sequence[str]) -> Iterator[Paragraph]:
    # the last decisions and attempts say the most
    for decision in rung.decisions[-(shown.most or len(rung.decisions)) :]:
        yield Paragraph(f"{_decision(decision, shown)}, {_moment(decision.at)}", depth=2)
        law_and_price = _law_and_price(decision, labels) if shown.scheduling else ""
        if law_and_price:
            yield Paragraph(law_and_price, depth=3)
    if shown.provenance or len(rung.attempts) > 1 or not rung.evidence:
        for attempt in rung.attempts[-(shown.most or len(rung.attempts)) :]:
            ended = f"{attempt.outcome or attempt.state}{_in_brackets(attempt.reason)}"
            yield Paragraph(f"tried {_moment(attempt.started_at)} on {attempt.host}: {ended}", depth=2)


def _judged(rung: RungStory) -> set[str]:
    """Returns the words of the rung's windows, among which are the names of the judged properties."""
    return set(re.findall(r"\w+", " ".join((*rung.gate, *rung.objectives))))


def _judgement(rung: RungStory, shown: Sections, waived_by: str | None) -> Iterator[Paragraph]:
    """Yields the numbers behind the verdict, the person who waived it, and the windows."""
    tells_windows = bool(rung.detail) and rung.verdict != "pass"  # the detail of a miss names the window
    is_told_below = rung.evidence is not None and rung.reason in rung.evidence.unobtained.values()
    if tells_windows and not is_told_below:
        yield Paragraph(rung.detail, depth=2)
    if waived_by and rung.verdict not in ("pass", None):
        yield Paragraph(f"waived: {waived_by} promoted it past this rung", depth=2)
    windows = [f"gate {window}" for window in rung.gate]
    windows += [f"objective {window}" for window in rung.objectives]
    if windows and (shown.provenance or (rung.evidence and not tells_windows)):
        yield Paragraph("; ".join(windows), depth=2)


def _origin(rung: RungStory, evidence: EvidenceStory) -> str:
    why = f", correction {evidence.revision}: {evidence.why}" if evidence.revision else ""
    if evidence.source.startswith("task "):
        return f"entered by {evidence.who} {_moment(evidence.at)} ({evidence.source}){why}"
    if _is_of_people(evidence):
        return f"from {file_of(evidence.source)} by {evidence.who} {_moment(evidence.at)}{why}"
    if rung.reused:
        where = f"campaign {evidence.campaign}" if evidence.campaign else "`sciagent verify`"
        return f"known before from {where} ({_day(evidence.at)}), under the same settings: cost nothing"
    return f"computed {_moment(evidence.at)}, {rung.core_seconds:.3g} core-seconds"


def _diagnostics(evidence: EvidenceStory, shown: Sections) -> Iterator[Paragraph]:
    line = diagnostics_line(evidence.diagnostics) if shown.diagnostics else ""
    if line:
        yield Paragraph(f"diagnostics: {line}", depth=2)


def _provenance(rung: RungStory, evidence: EvidenceStory, shown: Sections) -> Iterator[Paragraph]:
    if shown.provenance:
        versions = ", ".join(f"{name} {version}" for name, version in sorted(evidence.versions.items()))
        settings = ", ".join(f"{name}={value}" for name, value in rung.settings.items())
        if versions:
            yield Paragraph(f"with {versions}", depth=2)
        yield Paragraph(f"settings {settings}", depth=2)
        yield Paragraph(
            f"evidence {evidence.key}, watermark {evidence.watermark}, revision {evidence.revision}", depth=2
        )
    for file in evidence.files:
        removal = file.removed
        state = f", removed by {removal.who} {_day(removal.at)}: {removal.why}" if removal else ""
        if shown.provenance or removal:
            yield Paragraph(f"file {file.name}, {file.size} bytes, {file.sha256[:12]}{state}", depth=2)


def _values(
    values: Sequence[EvidenceValue],
    words: Words,
    shown: Sections,
    judged: Collection[str] = (),
    replicates: Sequence[EvidenceStory] = (),
) -> Iterator[Paragraph]:
    """Yields the values, under a common heading if all have the same level. judged: names of judged properties.
    replicates: the measurements that the values are pooled from."""
    listed = [value for value in values if value.property in judged]
    if shown.all_values or not listed:
        listed = list(values)[: MAX_VALUES if shown.all_values else shown.most]
    n_left_out = len(values) - len(listed)
    levels = {value.level for value in listed}
    has_heading = len(levels) == 1 and len(listed) > 1
    depth = 3 if has_heading else 2
    if has_heading:
        yield Paragraph(f"at {levels.pop()}:", depth=2)
    for value in listed:
        n = _n_measured(value.property, replicates)
        yield Paragraph(_value(value, words, with_level=not has_heading, n=n), depth=depth)
    if n_left_out > 0:
        yield Paragraph(f"and {n_left_out} more value{'' if n_left_out == 1 else 's'}", depth=2)
    for line in isomer_lines(values):
        yield Paragraph(line, depth=2)


def _n_measured(name: str, replicates: Sequence[EvidenceStory]) -> int:
    """Returns the number of measurements that have a value of a property."""
    names = [{value.property for value in replicate.values} for replicate in replicates]
    return sum(name in of_replicate for of_replicate in names)


def _value(value: PropertyValue, words: Words, with_level: bool = True, n: int = 0) -> str:
    """Returns a value with its unit and a note on its uncertainty. words: of the subject. n: number of measurements
    that it is the mean of."""
    note = ""
    if value.uncertainty is None:
        note = ", uncertainty unknown"
    elif value.uncertainty > 0:
        kind = UNCERTAINTY_NOTES.get(value.uncertainty_kind or "", "").format(words=words)
        if value.uncertainty_kind in MEANS:
            kind = mean_note(value.uncertainty_kind, n)
        clauses = [clause for clause in (kind, value.of_one_isomer) if clause]
        note = f" ({', '.join(clauses)})" if clauses else ""
    text = value.line() if with_level else named_value_text(value.property, value)
    return f"{text}{note}"


def _decision(decision: DecisionStory, shown: Sections) -> str:
    """Returns who decided what, and the reason; with index, price and propensity if the scheduling is shown."""
    person = decision.chooser.removeprefix("person:") if decision.chooser.startswith("person:") else None
    reason = (decision.why or "").removeprefix(decision.chooser).removeprefix(": ")  # it may begin with the chooser
    if not shown.scheduling:
        reason = _INDEX_AND_PRICE.sub("", reason)
    why = f": {reason}" if reason else ""
    if decision.action == "promote" and person:
        return f"promoted by {person}{why}"
    verb = {"run": "chosen", "reuse": "reused"}.get(decision.action, decision.action)
    # evidence is reused without anybody choosing it; its chooser is then the word "reuse", too
    by = "" if decision.chooser == "reuse" else f" by {person or decision.chooser}"
    if shown.scheduling and decision.index is not None:
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
    return RESOURCE_NAMES.get(name) or name.removesuffix("s").replace("_", " ")


def _moment(at: datetime | None) -> str:
    return f"{at:%Y-%m-%d %H:%M} UTC" if at else "at an unknown time"


def _day(at: datetime) -> str:
    return f"{at:%Y-%m-%d}"
