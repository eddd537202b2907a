"""Tools that make candidates: propose, modify by a named edit, crossover, list neighbours.

Open choices are drawn with the episode's seed, so the same call on the same bench makes the same candidate. Candidates
that the bench does not know yet are preferred.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Annotated

from pydantic import Field

from sciagent.agent.tools.candidate_references_and_stated_predictions import (
    Predictions,
    checked_predictions,
    find,
    number_of,
    plain_notation,
)
from sciagent.agent.tools.tool_contract_and_calls import CallError, Observation, ToolContext
from sciagent.chemistry.subjects.base import EditByName, EditSite
from sciagent.domain.candidate_and_its_names_in_files import Candidate
from sciagent.domain.proposer_interfaces import FILTERED, ProposalIn
from sciagent.domain.safe_text_and_durations import escaped, short
from sciagent.errors import InvalidCandidateError

TRIES = 40  # largest number of (what, site) pairs that a call tries
MAX_NEIGHBOURS = 12
CROSS_TRIES = 8  # children that a crossover tries in search of an unknown candidate
MAX_SITE = 400
MAX_RESULTS = 8  # largest number of lines on what inline rungs measured

Where = Annotated[
    int | None, Field(ge=1, le=MAX_SITE, description="number of the site, as `inspect` lists it; null: any")
]


def propose(
    run: ToolContext,
    text: str,
    rationale: Annotated[str, Field(max_length=500, description="why it should be good, in a sentence or two")] = "",
    predictions: Predictions = [],  # noqa: B006  pydantic copies it
) -> Observation:
    """Propose one {one} by its {notation}. It is checked at once, and measured later if it is worth it. Say why it
    should be good, and what you expect to be measured: each prediction is scored when the answer comes."""
    run = replace(run, predicted=checked_predictions(predictions))
    notation = plain_notation(text, run.subject)
    return _proposed(run, ProposalIn(notation, operation="propose", rationale=escaped(rationale)))


def modify(run: ToolContext, parent: str, edit: str, what: str | None = None, where: Where = None) -> Observation:
    """Make a new {one} from a known one by a named edit and propose it in the same call. `inspect` lists the sites
    of a {one}; without a site, or without saying what to put in, chance chooses among all that fit."""
    origin = _editable(parent, run)
    named_edit = run.edits.named[edit]
    if what is not None and what not in named_edit.whats:
        takes = f"it takes one of: {', '.join(named_edit.whats)}" if named_edit.whats else "leave what null"
        raise CallError(f'what: "{edit}" does not take {what}; {takes}')
    rng = random.Random(f"modify {run.seed}")
    notation = run.subject.notation(origin)
    pairs = run.edits.choices(notation, edit, what, where)
    rng.shuffle(pairs)

    def children() -> Iterator[ProposalIn]:
        for group, site in pairs[:TRIES]:  # the group is empty for an edit that puts nothing in
            products = run.edits.children(notation, edit, group or None, site.number, run.bounds)
            rng.shuffle(products)
            for child in products:
                yield ProposalIn(child, (run.bench.key_of(origin),), f"modify: {edit} {group}".strip())

    child = _first_new(children(), run)
    if child is None:
        raise CallError(_why_not(origin, f"{edit} {what or ''}".strip(), named_edit, where, run))
    return _proposed(run, child)


def crossover(run: ToolContext, first: str, second: str) -> Observation:
    """Join a part of one {one} to a part of another and propose the child in the same call. Chance chooses where
    they are cut."""
    first_parent = _editable(first, run)
    second_parent = _editable(second, run)
    pair = run.subject.notation(first_parent), run.subject.notation(second_parent)
    keys = (run.bench.key_of(first_parent), run.bench.key_of(second_parent))
    rng = random.Random(f"crossover {run.seed}")

    def children() -> Iterator[ProposalIn]:
        for _ in range(CROSS_TRIES):
            product = run.edits.cross(pair, rng, run.bounds)
            if product is None:
                return
            text, operation = product
            yield ProposalIn(text, keys, f"crossover: {operation}")

    child = _first_new(children(), run)
    if child is None:
        raise CallError("these two give no child within the limits; take others, or `modify` one of them")
    return _proposed(run, child)


def neighbours(
    run: ToolContext,
    parent: str,
    edit: str | None = None,
    n: Annotated[int, Field(ge=1, le=MAX_NEIGHBOURS)] = MAX_NEIGHBOURS,
) -> Observation:
    """List {many} that one named edit makes from a known one, without proposing them. Propose one of them with
    `propose`, or make it with `modify`."""
    notation = run.subject.notation(_editable(parent, run))
    rng = random.Random(f"neighbours {run.seed}")
    names = [edit] if edit else list(run.edits.named)
    queues = {name: run.edits.choices(notation, name) for name in names}
    for queue in queues.values():
        rng.shuffle(queue)
    rows: dict[str, tuple[str, EditSite]] = {}  # by child: edit and group, and the site
    # the edits take turns, so that a short list shows children by each of them
    for turn in range(TRIES):
        for name in names:
            if turn >= len(queues[name]) or len(rows) >= n:
                continue
            what, site = queues[name][turn]
            products = run.edits.children(notation, name, what or None, site.number, run.bounds)
            if not products:
                continue
            child = rng.choice(products)
            if child not in rows:
                rows[child] = (f"{name} {what}".strip(), site)
    shown = run.subject.shown
    if not rows:
        raise CallError(f"no edit fits {shown(notation)} within the limits; take another {run.subject.words.one}")
    lines = [
        f"{shown(child)}  {made_by} at site {site.number}{_remark(child, run)}"
        for child, (made_by, site) in rows.items()
    ]
    return Observation(ok=True, text="\n".join([f"neighbours of {shown(notation)}:", *lines]))


def _editable(reference: str, run: ToolContext) -> Candidate:
    """Returns the candidate of a reference. Raises CallError if it is too large to edit, or if a person vetoed it."""
    parent = find(reference, run)
    barred = run.bench.barred(parent)
    if barred:
        raise CallError(f"{short(run.subject.shown(parent.text))} is {barred}; nothing is bred from it")
    why = run.edits.too_large(parent, run.bounds)
    if why:
        raise CallError(why)
    return parent


def _read(notation: str, run: ToolContext) -> Candidate | None:
    """Returns the candidate of a notation; None for any other text."""
    try:
        return run.subject.read(notation)
    except InvalidCandidateError:
        return None


def _first_new(children: Iterator[ProposalIn], run: ToolContext) -> ProposalIn | None:
    """Returns the first child that is new and misses no gate. Without one it returns the first that misses no gate, or
    else the first of all; None if there is no child."""
    first = None
    known = None
    for child in children:
        candidate = _read(child.text, run)
        first = first or child
        if candidate is None or run.bench.missed_gate(candidate):
            continue
        if not run.bench.known(candidate):
            return child
        known = known or child
    return known or first


def _remark(notation: str, run: ToolContext) -> str:
    """Returns a remark on a neighbour that is known or misses a gate; empty for any other."""
    candidate = _read(notation, run)
    if candidate is None or run.bench.known(candidate):
        return " (known)"
    missed = run.bench.missed_gate(candidate)
    return f" (misses a gate: {short(missed, 80)})" if missed else ""


def _why_not(parent: Candidate, wanted: str, edit: EditByName, where: int | None, run: ToolContext) -> str:
    """Returns why the edit does not fit, and which edits do."""
    notation = run.subject.notation(parent)
    text = parent.text
    sites = run.edits.sites(notation)
    if where is not None and where > len(sites):
        return f"where: {text} has sites 1 to {len(sites)}; `inspect` lists them"

    def fits(name: str) -> bool:
        """Returns whether one of four pairs of the edit gives a child."""
        pairs = run.edits.choices(notation, name, where=where)
        spacing = max(1, len(pairs) // 4)
        sample = pairs[::spacing][:4]
        return any(run.edits.children(notation, name, what or None, site.number, run.bounds) for what, site in sample)

    fitting = ", ".join(name for name in run.edits.named if fits(name)) or "nothing"
    if where is None:
        return f'"{wanted}" does not fit {text}; what fits: {fitting}'
    site = sites[where - 1]
    numbers = [str(s.number) for s in sites if edit.fits(s)]
    at = f"at site {where} ({site.kind}: {site.name}); what fits there: {fitting}"
    rest = f"sites for {edit.name}: {', '.join(numbers[:20]) or 'nothing'}"
    return f'"{wanted}" does not fit {text} {at}; {rest}'


def _proposed(run: ToolContext, proposal: ProposalIn) -> Observation:
    """Proposes a candidate and reports the bench's answer. A duplicate is a correct call; a refused proposal is not."""
    (out,) = run.bench.propose([replace(proposal, predicted=dict(run.predicted))])
    reason = ": ".join(part for part in (out.reason, out.detail) if part)
    is_filtered = out.status == FILTERED  # only what is in the campaign has a number
    number = f" #{number_of(out.candidate, run.numbered)}" if out.candidate and not is_filtered else ""
    text = f"{'not verified' if is_filtered else out.status}{number}: {short(run.subject.shown(proposal.text), 400)}"
    if proposal.parents:
        text += f" ({proposal.operation})"
    if out.key:
        text += f" [{out.key[:8]}]"
    if out.standing:
        text += f", {out.standing}"
    for line in out.results[:MAX_RESULTS]:
        text += f"; {short(line, 160)}"
    if reason:
        text += f"; {short(reason, 300)}"
    advice = {"duplicate": "; it was proposed before, propose another", "refused": "; mend it or propose another"}
    return Observation(ok=out.status != "refused", text=text + advice.get(out.status, ""))
