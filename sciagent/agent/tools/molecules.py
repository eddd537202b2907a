"""Tools that make molecules: propose, modify by a named edit, crossover, list neighbours.

Open choices are made with the episode's seed: the same call on the same bench makes the same molecule. Molecules that
the bench does not know yet are preferred.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from sciagent.agent.tools import arguments as given
from sciagent.agent.tools.bench import AgentBench
from sciagent.agent.tools.reading import CallError
from sciagent.agent.tools.referring import find, plain_smiles
from sciagent.agent.tools.registry import Observation, Tool, ToolContext
from sciagent.agent.tools.wording import short
from sciagent.chemistry.editing import edits, named
from sciagent.chemistry.editing.named import NAMED_EDITS
from sciagent.chemistry.editing.sites import Site
from sciagent.chemistry.molecule import Molecule, parse_molecule
from sciagent.domain.campaigns.ports import ProposalIn
from sciagent.domain.text import escaped
from sciagent.errors import InvalidCandidateError

TRIES = 40  # pairs of (what, site) that one call goes through, at most
CROSSES = 8  # children of a crossover that are made in search of a new one


def propose(arguments: given.Propose, run: ToolContext) -> Observation:
    """Propose one molecule by its SMILES. It is checked at once, and measured later if it is worth it. Say why it
    should be good, and what you expect to be measured: each prediction is scored when the answer comes."""
    names = [p.property for p in arguments.predictions]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise CallError(f"predictions: {short(twice)} is predicted twice; predict each property once")
    if odd := next((name for name in names if not name.isascii() or not name.isidentifier()), None):
        raise CallError(f"predictions: {short(odd)!r} is no property; name one as the goal does: homo_lumo_gap")
    predicted = {p.property: {"value": p.value, "error": p.error} for p in arguments.predictions}
    smiles = plain_smiles(arguments.smiles)
    return _proposed(run.bench, ProposalIn(smiles, (), "propose", escaped(arguments.rationale), predicted))


def modify(arguments: given.Modify, run: ToolContext) -> Observation:
    """Make a new molecule from a known one by a named edit and propose it in the same call. `inspect` lists the sites
    of a molecule; without a site, or without saying what to put in, chance chooses among all that fit."""
    parent = _editable(arguments.parent, run)
    edit = NAMED_EDITS[arguments.edit]
    if arguments.what is not None and arguments.what not in edit.whats:
        takes = f"it takes one of: {', '.join(edit.whats)}" if edit.whats else "it takes nothing; leave what null"
        raise CallError(f'what: "{edit.name}" does not take {arguments.what}; {takes}')
    rng = random.Random(f"modify {run.seed}")
    pairs = named.choices(parent.smiles, edit.name, arguments.what, arguments.where)
    rng.shuffle(pairs)
    known = None
    for what, site in pairs[:TRIES]:
        made = named.children(parent.smiles, edit.name, what or None, site.number, run.limits)
        rng.shuffle(made)
        for child in made:
            operation = f"modify: {edit.name} {what}".strip()
            if not _known(child, run.bench):
                return _proposed(run.bench, ProposalIn(child, (parent.smiles,), operation))
            known = known or ProposalIn(child, (parent.smiles,), operation)
    if known is not None:
        return _proposed(run.bench, known)
    raise CallError(_why_not(parent, arguments, run))


def crossover(arguments: given.Crossover, run: ToolContext) -> Observation:
    """Join a part of one molecule to a part of another and propose the child in the same call. Chance chooses where
    they are cut."""
    first, second = _editable(arguments.first, run), _editable(arguments.second, run)
    rng = random.Random(f"crossover {run.seed}")
    known = None
    for _ in range(CROSSES):
        made = edits.crossover(first.smiles, second.smiles, rng, limits=run.limits)
        if made is None:
            break
        child = ProposalIn(made[0], (first.smiles, second.smiles), f"crossover: {made[1]}")
        if not _known(child.text, run.bench):
            return _proposed(run.bench, child)
        known = known or child
    if known is not None:
        return _proposed(run.bench, known)
    raise CallError("these two give no child within the limits; take others, or `modify` one of them")


def neighbours(arguments: given.Neighbours, run: ToolContext) -> Observation:
    """List molecules that one named edit makes from a known one, without proposing them. Propose one of them with
    `propose`, or make it with `modify`."""
    parent = _editable(arguments.parent, run)
    rng = random.Random(f"neighbours {run.seed}")
    names = [arguments.edit] if arguments.edit else list(NAMED_EDITS)
    queues = {name: named.choices(parent.smiles, name) for name in names}
    for queue in queues.values():
        rng.shuffle(queue)
    rows: dict[str, tuple[str, Site]] = {}
    for turn in range(TRIES):
        for name in names:
            if turn < len(queues[name]) and len(rows) < arguments.n:
                what, site = queues[name][turn]
                made = named.children(parent.smiles, name, what or None, site.number, run.limits)
                if made and (child := rng.choice(made)) not in rows:
                    rows[child] = (f"{name} {what}".strip(), site)
    if not rows:
        raise CallError(f"no edit fits {parent.smiles} within the limits; take another molecule")
    lines = [
        f"{child}  {edit} at site {site.number}" + " (known)" * _known(child, run.bench)
        for child, (edit, site) in rows.items()
    ]
    return Observation(True, "\n".join([f"neighbours of {parent.smiles}:", *lines]))


def _editable(reference: str, run: ToolContext) -> Molecule:
    parent = find(reference, run.bench)
    if parent.heavy_atoms > run.limits.max_heavy_atoms:
        most = run.limits.max_heavy_atoms
        raise CallError(f"{parent.heavy_atoms} heavy atoms are too many to edit; the limit is {most}")
    return parent


def _known(smiles: str, bench: AgentBench) -> bool:
    try:
        return bench.known(parse_molecule(smiles).key)
    except InvalidCandidateError:
        return True


def _why_not(parent: Molecule, arguments: given.Modify, run: ToolContext) -> str:
    """Why the edit does not fit, and which edits do."""
    sites, where = named.sites(parent.smiles), arguments.where
    asked = f"{arguments.edit} {arguments.what or ''}".strip()
    if where is not None and where > len(sites):
        return f"where: {parent.smiles} has sites 1 to {len(sites)}; `inspect` lists them"
    at = f" at site {where} ({sites[where - 1].kind}: {sites[where - 1].name})" if where is not None else ""
    fitting = [name for name in NAMED_EDITS if _fits(parent, name, where, run)]
    there = [s.number for s in sites if NAMED_EDITS[arguments.edit].fits(s)]
    text = f'"{asked}" does not fit {parent.smiles}{at}; what fits{" there" if at else ""}: {_listed(fitting)}'
    return f"{text}; sites for {arguments.edit}: {_listed(there)}" if where is not None else text


def _fits(parent: Molecule, name: str, where: int | None, run: ToolContext) -> bool:
    pairs = named.choices(parent.smiles, name, None, where)
    return any(
        named.children(parent.smiles, name, what or None, site.number, run.limits)
        for what, site in pairs[:: max(1, len(pairs) // 4)][:4]
    )


def _listed(items: Sequence[object]) -> str:
    return ", ".join(map(str, items[:20])) or "nothing"


def _proposed(bench: AgentBench, proposal: ProposalIn) -> Observation:
    """Propose to the bench, and report its answer. A duplicate counts as a correct call, a refused proposal does
    not."""
    (out,) = bench.propose([proposal])
    reason = ": ".join(part for part in (out.reason, out.detail) if part)
    text = f"{out.status}: {proposal.text}"
    text += f" ({proposal.operation})" if proposal.parents else ""
    text += f" [{out.key[:8]}]" if out.key else ""
    text += f", {out.standing}" if out.standing else ""
    text += f"; {short(reason, 300)}" if reason else ""
    advice = {"duplicate": "; it was proposed before, propose another", "refused": "; mend it or propose another"}
    return Observation(out.status != "refused", text + advice.get(out.status, ""))


_PREDICTION = {"property": "homo_lumo_gap", "value": 4.2, "error": 0.5}
MAKING = (
    Tool(propose, {"smiles": "Cc1ccncc1", "rationale": "a nitrogen lowers the LUMO", "predictions": [_PREDICTION]}),
    Tool(modify, {"parent": "#1", "edit": "add substituent", "what": "fluoro", "where": None}, given.cases_of_modify),
    Tool(crossover, {"first": "#1", "second": "#2"}),
    Tool(neighbours, {"parent": "#1", "edit": None, "n": 12}),
)
