"""Explains one candidate from the ledger: its evidence, and the reason for its standing in each campaign.

Only the outlook of an open candidate in a priced campaign needs the verifiers; see `pricing.outlook`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent.campaign.people.resolving import resolve
from sciagent.campaign.people.rung_history import rung_stories
from sciagent.chemistry.subjects.registry import subject_of
from sciagent.domain.answers.explanation import (
    CampaignStory,
    Children,
    EvidenceStory,
    Explanation,
    Outlook,
    PersonWord,
    ProposalStory,
    RefusedProposal,
    RefusedText,
    RungStory,
)
from sciagent.domain.answers.values import CandidateName
from sciagent.domain.candidate_names import Names
from sciagent.domain.derived import VERIFIER as DERIVED
from sciagent.domain.outcomes import Reason
from sciagent.domain.states import CampaignState, Standing
from sciagent.errors import UsageError
from sciagent.report import history
from sciagent.report.answers import candidate_margins, imported_values
from sciagent.report.history import StoredEvidence
from sciagent.report.parts.contradictions import contradiction
from sciagent.store.campaign_state import campaigns, directives, standings
from sciagent.store.campaign_state.campaigns import CampaignRow, RungRow
from sciagent.store.database import tables as t
from sciagent.store.database.ledger import Ledger
from sciagent.store.results.evidence import IMPORT, know_properties
from sciagent.store.results.names import names_of
from sciagent.store.views import campaign_counts, candidates
from sciagent.store.views.candidates import EvidenceAnswer
from sciagent.store.views.queries import with_proposer

WAITS = (Standing.OPEN, Standing.HELD)
DRIVEN = (CampaignState.RUNNING, CampaignState.PAUSED)
MAX_TEXT = 4000  # characters of a proposal that the workbench stores
AT_MOST = 1000  # largest number of candidates ahead that is counted


def explain_named(
    ledger: Ledger, candidate: str, campaign: CampaignRow | str | None = None
) -> Explanation | RefusedText:
    """Returns the explanation of a candidate, or of the refusal of a proposed text.

    candidate: as of `resolve`. campaign: the only campaign to cover, or its name;
    None: all campaigns with the candidate. Raises UsageError if the ledger has neither.
    """
    with ledger.read() as connection:
        know_properties(connection)
        row = campaigns.get(connection, campaign) if isinstance(campaign, str) else campaign
        try:
            named = resolve(connection, row, candidate)
        except UsageError:
            if answer := refused(connection, candidate, row.name if row else None):
                return answer
            raise
        if row is not None:
            return explain(connection, named.id, [row], ledger)
        names = history.campaigns_of(connection, named.id)
        return explain(connection, named.id, [campaigns.get(connection, name) for name in names], ledger)


def explain(connection: Connection, candidate_id: int, rows: Sequence[CampaignRow], ledger: Ledger) -> Explanation:
    """Returns the answer of `sciagent explain`. rows: campaigns to cover."""
    candidate = history.candidate(connection, candidate_id)
    evidence = history.evidence(connection, candidate_id)
    n, first = history.children(connection, candidate_id)
    names = names_of(connection, [candidate_id, *(id_ for id_, _, _ in first)], [row.id for row in rows])
    from_files = candidates.imported(connection, [candidate_id]).get(candidate_id, [])
    stories = tuple(_campaign(connection, row, candidate_id, evidence, from_files, ledger) for row in rows)
    return Explanation(
        **{name: candidate[name] for name in ("key", "kind", "inchikey", "formula", "charge", "multiplicity")},
        text=candidate["text"],
        drawn_from=subject_of(candidate["kind"]).notation_of(candidate["text"], candidate["payload"]),
        names=names.get(candidate_id, {}),
        atoms=candidate["n_atoms"],
        first_seen=candidate["created_at"],
        also_given_as=tuple(x for x in history.aliases(connection, candidate_id) if x != candidate["text"]),
        children=Children(n=n, first=tuple(_named(names, candidate["kind"], *child) for child in first)),
        campaigns=stories,
        imported=imported_values(from_files),
        other_evidence=tuple(_other_evidence(evidence, stories, rows)),
    )


def _other_evidence(
    evidence: Sequence[StoredEvidence], stories: Sequence[CampaignStory], rows: Sequence[CampaignRow]
) -> Iterator[EvidenceStory]:
    """Yields the computed evidence that no rung of the stories shows, in the units of the first campaign that chose."""
    shown = {rung.evidence.key for story in stories for rung in story.rungs if rung.evidence}
    units = {name: unit for row in reversed(rows) for name, unit in row.units.items()}
    for each in evidence:
        if each.story.key not in shown and each.story.verifier not in (IMPORT, DERIVED):
            yield each.shown(units)


def _campaign(
    connection: Connection,
    row: CampaignRow,
    candidate_id: int,
    evidence: Sequence[StoredEvidence],
    from_files: Sequence[EvidenceAnswer],
    ledger: Ledger,
) -> CampaignStory:
    place = standings.get(connection, row.id, candidate_id)
    member = candidates.members(connection, row, [candidate_id])[candidate_id]
    ladder = campaigns.rungs(connection, row.id)
    people = directives.on(connection, row.id, candidate_id)
    rungs = rung_stories(connection, row, ladder, candidate_id, evidence)
    scheduler = row.spec["scheduler"]["kind"]
    outlook = None
    if scheduler == "priced" and Standing(place["standing"]) in WAITS:
        from sciagent.campaign.pricing.outlook import outlook as outlook_of  # takes a second to import

        outlook = outlook_of(ledger, connection, row, candidate_id)
    return CampaignStory(
        **{name: place[name] for name in ("standing", "verdict", "reason", "score", "utility")},
        campaign=row.name,
        state=row.state,
        scheduler=scheduler,
        rung=_rung_of(place, ladder).name,
        detail=place["detail"] or "",
        hit=bool(place["is_hit"]),
        in_seeds=bool(place["in_seeds"]),
        proposed=_proposals(connection, row, candidate_id, people),
        rungs=tuple(rungs),
        people=tuple(PersonWord(verb=d.verb, rung=d.rung, who=d.who, why=d.why, at=d.at) for d in people),
        core_seconds=round(sum(rung.core_seconds for rung in rungs), 3),
        outlook=outlook,
        margins=candidate_margins(connection, row, ladder, candidate_id),
        contradicted=contradiction(row, member, member.hit, from_files),
        why=_why(connection, row, ladder, place, rungs, outlook),
    )


def _named(names: Mapping[int, Names], kind: str, id_: int, key: str, text: str) -> CandidateName:
    return CandidateName(key=key, kind=kind, text=text, names=names.get(id_, {}))


def _rung_of(place: Mapping[str, Any], ladder: Sequence[RungRow]) -> RungRow:
    return ladder[min(int(place["position"]), len(ladder) - 1)]


def _proposals(
    connection: Connection, row: CampaignRow, candidate_id: int, people: Sequence[directives.Directive]
) -> tuple[ProposalStory, ...]:
    proposals = history.proposals(connection, row, candidate_id)
    parents = history.parents(connection, [proposal["id"] for proposal in proposals], candidate_id)
    names = names_of(connection, [id_ for id_, *_ in parents], [row.id])
    adding = iter([directive for directive in people if directive.verb == "add"])
    stories = []
    for proposal in proposals:
        number, proposer = proposal.pop("id"), proposal.pop("proposer")
        person = next(adding, None) if proposer is None else None
        own = tuple(
            _named(names, row.spec["subject"], *parent) for *parent, proposal_id in parents if proposal_id == number
        )
        by = proposer or (person.who if person else "a person")
        fields = proposal | {
            "detail": proposal["detail"] or "",
            "predicted": proposal["predicted"] or {},
            "parents": own,
        }
        stories.append(ProposalStory(**fields, by=by, is_person=proposer is None))
    return tuple(stories)


def _why(
    connection: Connection,
    row: CampaignRow,
    ladder: Sequence[RungRow],
    place: Mapping[str, Any],
    rungs: Sequence[RungStory],
    outlook: Outlook | None,
) -> str:
    """Explains the candidate's standing in one or two sentences."""
    rung, detail, standing = _rung_of(place, ladder).name, place["detail"] or "", Standing(place["standing"])
    if place["is_hit"]:
        return f"A hit: it passed {rung}, which decides, and meets every objective."
    if standing is Standing.OPEN:
        text = f"Open: it waits. {outlook.text}" if outlook else _queue(connection, row, ladder, place)
        return text if row.state in DRIVEN else f"{text} The campaign is not running ({row.state})."
    if place["reason"] == Reason.SAME_STRUCTURE:
        way_out = "" if rung == row.spec["terminal"] else " sciagent promote lets it go on."
        return f"Dropped after {rung}: it {detail}.{way_out}"
    because = place["reason"] or place["verdict"]
    how = "could not decide" if place["verdict"] in ("inconclusive", "error") else "said no"
    return {
        Standing.VETOED: f"Taken out {detail}. Its evidence is kept, and it is neither a hit nor a parent.",
        Standing.HELD: f"Held {detail}. It would wait for {rung}; sciagent release lets it go on.",
        Standing.PENDING: _job_state(rung, rungs),
        Standing.SETTLED: f"Settled: {rung}, which decides, has answered: {because}. {detail}".strip(),
        Standing.DROPPED: f"Dropped: {rung} {how}: {because}. {detail}".strip(),
    }[standing]


def _job_state(rung: str, rungs: Sequence[RungStory]) -> str:
    if any(attempt.state == "running" for story in rungs if story.rung == rung for attempt in story.attempts):
        return f"{rung} is at work on it."
    return f"A job at {rung} is decided and waits for a worker or a person."


def _queue(connection: Connection, row: CampaignRow, ladder: Sequence[RungRow], place: Mapping[str, Any]) -> str:
    """States the rung that an open candidate waits for, and the number of candidates before it."""
    position, rung = int(place["position"]), _rung_of(place, ladder)
    n = history.ahead(connection, row, position, place["score"], int(place["seq"]))
    better = "with a better score" if place["score"] is not None else "that came earlier"
    many = f"{AT_MOST} or more wait" if n >= AT_MOST else "one waits" if n == 1 else f"{n or 'none'} wait"
    text = f"Open: it waits for {rung.name}; {many} there {better}."
    limit = row.spec.get("budget", {}).get("rungs", {}).get(rung.name)
    if limit is None:
        return text
    used = campaign_counts.jobs_by_rung(connection, row.id).get(rung.id, 0)
    return f"{text} {used} of {limit} places of {rung.name} are used."


def refused(connection: Connection, text: str, name: str | None) -> RefusedText | None:
    """Returns the refused proposals with exactly this text, or else with this name in an input file; None if there are
    none. name: campaign; None: all campaigns."""
    p, c, turn, trajectory = t.proposal.c, t.campaign.c, t.turn.c, t.trajectory.c
    kept = [text[:MAX_TEXT], text.strip()[:MAX_TEXT]]
    by, detail = sa.func.coalesce(trajectory.proposer, "a person"), sa.func.coalesce(p.detail, "")
    labelled = (c.name.label("campaign"), turn.number.label("turn"), by.label("by"), detail.label("detail"))
    query = (
        sa.select(*labelled, p.text, p.reason, p.operation, p.rationale, p.at)
        .select_from(with_proposer(t.proposal.join(t.campaign, c.id == p.campaign_id)))
        .where(p.candidate_id.is_(None), *([] if name is None else [c.name == name]))
        .order_by(p.id)
        .limit(history.MANY)
    )
    found = connection.execute(query.where(p.text.in_(kept))).mappings().all()
    if not found and text.strip():  # the workbench puts the names of a refused row behind the reason
        ends = f" {text.strip()}"
        rows = connection.execute(query.where(p.detail.contains(ends, autoescape=True))).mappings()
        found = [row for row in rows if any(part.endswith(ends) for part in row["detail"].split("; ")[1:])]
    proposals = tuple(RefusedProposal(**row) for row in found)
    return RefusedText(text=text, refused=proposals) if proposals else None
