"""An explanation as paragraphs of text."""

from __future__ import annotations

from collections.abc import Iterator

from sciagent.cli.campaigns.explain_rung import day, evidence_value, moment, rung_lines, value_lines
from sciagent.cli.shared.tables import Paragraph
from sciagent.domain.answers.campaign_story import CampaignStory, ProposalStory
from sciagent.domain.answers.evidence_story import EvidenceStory
from sciagent.domain.answers.explanation import Explanation, RefusedText


def refused_lines(answer: RefusedText) -> Iterator[Paragraph]:
    """A text that was proposed and did not become a candidate."""
    yield Paragraph(answer.text, 0)
    yield Paragraph("It was proposed and refused: it did not become a candidate.")
    for proposal in answer.refused:
        by = "a person" if proposal.turn is None else f"the proposer {proposal.by} in turn {proposal.turn}"
        why = ": ".join(x for x in (proposal.reason, proposal.detail) if x) or "no reason was kept"
        yield Paragraph(f"Campaign {proposal.campaign}: proposed by {by}, {moment(proposal.at)}")
        yield Paragraph(f"refused: {why}", 2)
        if proposal.rationale:
            yield Paragraph(f"“{proposal.rationale}”", 2)


def lines(answer: Explanation, full: bool) -> Iterator[Paragraph]:
    """full: settings, engine versions, keys and files too."""
    yield from _identity(answer, full)
    for story in answer.campaigns:
        yield from _campaign(story, full)
    if not answer.campaigns:
        yield Paragraph("It is in no campaign.")
    yield from _imported(answer)
    yield from _other_evidence(answer)
    yield from _children(answer)


def _identity(answer: Explanation, full: bool) -> Iterator[Paragraph]:
    yield Paragraph(answer.smiles, 0)
    charge = f", charge {answer.charge:+d}" if answer.charge else ""
    spin = f", multiplicity {answer.multiplicity}" if answer.multiplicity != 1 else ""
    yield Paragraph(f"{answer.formula}{charge}{spin}, {answer.atoms} atoms")
    yield Paragraph(f"key {answer.key if full else answer.key[:12]}, InChIKey {answer.inchikey or 'none'}")
    if answer.also_given_as:
        yield Paragraph("also given as " + ", ".join(answer.also_given_as[:5]))


def _campaign(story: CampaignStory, full: bool) -> Iterator[Paragraph]:
    standing = ("a hit" if story.hit else story.standing) + (", a seed" if story.in_seeds else "")
    yield from _heading(f"In campaign {story.campaign}: {standing}")
    yield Paragraph(story.why)
    yield Paragraph(_numbers(story))
    for number, proposal in enumerate(story.proposed):
        yield from _proposal(proposal, "Proposed" if number == 0 else "Again")
    waived, labels = _waivers(story), [rung.rung for rung in story.rungs]
    for rung in story.rungs:
        yield from rung_lines(rung, full, waived.get(rung.rung), labels)
    for word in story.people:
        to = f" to {word.rung}" if word.rung else ""
        yield Paragraph(f"{moment(word.at)}  {word.who}: {word.verb}{to}: {word.why}")


def _heading(text: str) -> Iterator[Paragraph]:
    yield Paragraph("", 0)
    yield Paragraph(text, 0)


def _numbers(story: CampaignStory) -> str:
    """Utility or score, and what it cost."""
    parts = []
    if story.utility is not None:
        parts.append(f"utility {story.utility:.3f} (1: every objective fully met)")
    elif story.score is not None:
        what = "how near the gates and objectives" if story.scheduler == "priced" else "orders what waits"
        parts.append(f"score {story.score:.3f} ({what}; no probability)")
    spent = f"{story.core_seconds:.3g} core-seconds" if story.core_seconds else "nothing"
    text = "; ".join([*parts, f"it cost this campaign {spent}"])
    return text[0].upper() + text[1:]


def _proposal(proposal: ProposalStory, verb: str) -> Iterator[Paragraph]:
    by = proposal.by if proposal.is_person else f"the proposer {proposal.by} in turn {proposal.turn}"
    text = f", as {proposal.text}" if proposal.is_person else ""
    yield Paragraph(f"{verb} by {by}, {moment(proposal.at)}{_operation(proposal)}{text}")
    if proposal.parents:
        yield Paragraph("from " + " and ".join(f"{one.smiles} ({one.key[:8]})" for one in proposal.parents), 2)
    if proposal.rationale:
        yield Paragraph(f"“{proposal.rationale}”", 2)


def _operation(proposal: ProposalStory) -> str:
    if proposal.operation == "seed":
        return ", as a seed"
    named = proposal.operation and proposal.operation not in ("person", proposal.by)
    return f", by {proposal.operation}" if named else ""


def _waivers(story: CampaignStory) -> dict[str, str]:
    """{rung: who waived what it said}: everything below the rung that a promotion went to, until a veto."""
    order = [rung.rung for rung in story.rungs]
    waivers: dict[str, str] = {}
    for word in story.people:
        if word.verb == "veto":
            waivers = {}
        elif word.verb == "promote" and word.rung in order:
            waivers |= dict.fromkeys(order[: order.index(word.rung)], word.who)
    return waivers


def _imported(answer: Explanation) -> Iterator[Paragraph]:
    if answer.imported:
        yield from _heading("Values brought from files")
    for value in answer.imported:
        source = value.source.split(" sha256")[0]
        yield Paragraph(f"{evidence_value(value)}, from {source} by {value.who}, {day(value.at)}")


def _other_evidence(answer: Explanation) -> Iterator[Paragraph]:
    current = [evidence for evidence in answer.other_evidence if evidence.is_current]
    superseded = len(answer.other_evidence) - len(current)
    if answer.other_evidence:
        yield from _heading("Known besides, under other settings or from other work")
    for evidence in current:
        yield Paragraph(_source(evidence))
        yield from value_lines(evidence.values)
    if superseded:
        yield Paragraph(f"and {superseded} superseded revision{'' if superseded == 1 else 's'}")


def _source(evidence: EvidenceStory) -> str:
    where = f" (campaign {evidence.campaign})" if evidence.campaign else ""
    outcome = evidence.outcome + (f" ({evidence.reason})" if evidence.reason else "")
    return f"{evidence.verifier} {evidence.version}{where}, {day(evidence.at)}: {outcome}"


def _children(answer: Explanation) -> Iterator[Paragraph]:
    if (n := answer.children.n) > 0:
        yield from _heading(f"Parent of {n} candidate{'' if n == 1 else 's'}")
        yield Paragraph(", ".join(child.smiles for child in answer.children.first) + (", …" if n > 5 else ""))
