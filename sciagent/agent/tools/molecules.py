"""Tools that make molecules: propose, modify by a named edit, crossover, list neighbours.

Open choices are drawn with the episode's seed, so the same call on the same bench makes the same molecule. Molecules
that the bench does not know yet are preferred.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Annotated, Any

from pydantic import BaseModel, Field, PlainValidator, WithJsonSchema
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import PydanticCustomError

from sciagent.agent.tools.molecule_references import MAX_SMILES, Reference, find, number_of, plain_smiles
from sciagent.agent.tools.reading import CallError
from sciagent.agent.tools.registry import STRICT, AgentBench, Observation, Tool, ToolContext
from sciagent.chemistry.editing import edits, named
from sciagent.chemistry.editing.named import NAMED_EDITS, WHATS, NamedEdit, Site
from sciagent.chemistry.molecule import Molecule, molecule_or_none
from sciagent.domain.campaigns.ports import ProposalIn
from sciagent.domain.text import escaped, short

TRIES = 40  # largest number of (what, site) pairs that a call tries
MAX_NEIGHBOURS = 12
CROSSES = 8  # children that a crossover tries in search of an unknown molecule
MAX_SITE = 400
MAX_RESULTS = 8  # most lines on what inline rungs measured
Limit = 1e9  # largest number that a model may write; no property comes near it in its own unit


def _one_of(names: Sequence[str]) -> Any:
    """Returns the type of a text from a list of names. The error for any other text lists the names."""

    def check(value: Any) -> str:
        if not isinstance(value, str) or value not in names:
            raise PydanticCustomError("one_of", "none of the names", {"names": list(names)})
        return value

    return Annotated[str, PlainValidator(check), WithJsonSchema({"type": "string", "enum": list(names)})]


EditName: Any = _one_of(tuple(NAMED_EDITS))
Edit: Any = Annotated[EditName, Field(description="; ".join(f"{e.name}: {e.says}" for e in NAMED_EDITS.values()))]
What: Any = Annotated[_one_of(WHATS) | None, Field(description="what the edit puts in; null leaves it to chance")]
Where = Annotated[
    int | None, Field(ge=1, le=MAX_SITE, description="number of the site, as `inspect` lists it; null: any")
]


class Prediction(BaseModel):
    model_config = STRICT

    property: Annotated[
        str, Field(min_length=1, max_length=60, description="as the goal names it, such as homo_lumo_gap")
    ]
    value: Annotated[float, Field(ge=-Limit, le=Limit, description="in the unit of the goal")]
    error: Annotated[float, Field(ge=0, le=Limit, description="one standard deviation, in the same unit")]


Predictions = Annotated[
    list[Prediction], Field(max_length=8, description="what you expect to be measured; each property once")
]


def checked_predictions(predictions: Sequence[Prediction]) -> dict[str, dict[str, float]]:
    """Returns value and error by property. Raises CallError for a property that is named twice or oddly."""
    names = [p.property for p in predictions]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise CallError(f"predictions: {short(twice)} is predicted twice; predict each property once")
    if odd := next((name for name in names if not name.isascii() or not name.isidentifier()), None):
        raise CallError(f"predictions: {short(odd)!r} is no property; name one as the goal does: homo_lumo_gap")
    return {p.property: {"value": p.value, "error": p.error} for p in predictions}


def propose(
    run: ToolContext,
    smiles: Annotated[str, Field(min_length=1, max_length=MAX_SMILES, description="one molecule, one fragment")],
    rationale: Annotated[str, Field(max_length=500, description="why it should be good, in a sentence or two")] = "",
    predictions: Predictions = [],  # noqa: B006  pydantic copies it
) -> Observation:
    """Propose one molecule by its SMILES. It is checked at once, and measured later if it is worth it. Say why it
    should be good, and what you expect to be measured: each prediction is scored when the answer comes."""
    run = replace(run, predicted=checked_predictions(predictions))
    return _proposed(run, ProposalIn(plain_smiles(smiles), (), "propose", escaped(rationale)))


def modify(run: ToolContext, parent: Reference, edit: Edit, what: What = None, where: Where = None) -> Observation:
    """Make a new molecule from a known one by a named edit and propose it in the same call. `inspect` lists the sites
    of a molecule; without a site, or without saying what to put in, chance chooses among all that fit."""
    molecule, named_edit = _editable(parent, run), NAMED_EDITS[edit]
    if what is not None and what not in named_edit.whats:
        takes = f"it takes one of: {', '.join(named_edit.whats)}" if named_edit.whats else "leave what null"
        raise CallError(f'what: "{edit}" does not take {what}; {takes}')
    rng = random.Random(f"modify {run.seed}")
    pairs = named.choices(molecule.smiles, edit, what, where)
    rng.shuffle(pairs)

    def children() -> Iterator[ProposalIn]:
        for group, site in pairs[:TRIES]:
            products = named.children(molecule.smiles, edit, group or None, site.number, run.limits)
            rng.shuffle(products)
            for child in products:
                yield ProposalIn(child, (molecule.smiles,), f"modify: {edit} {group}".strip())

    if (child := _first_new(children(), run.bench)) is None:
        raise CallError(_why_not(molecule, f"{edit} {what or ''}".strip(), NAMED_EDITS[edit], where, run))
    return _proposed(run, child)


def crossover(run: ToolContext, first: Reference, second: Reference) -> Observation:
    """Join a part of one molecule to a part of another and propose the child in the same call. Chance chooses where
    they are cut."""
    parents = _editable(first, run).smiles, _editable(second, run).smiles
    rng = random.Random(f"crossover {run.seed}")

    def children() -> Iterator[ProposalIn]:
        for _ in range(CROSSES):
            if (product := edits.crossover(*parents, rng, limits=run.limits)) is None:
                return
            yield ProposalIn(product[0], parents, f"crossover: {product[1]}")

    if (child := _first_new(children(), run.bench)) is None:
        raise CallError("these two give no child within the limits; take others, or `modify` one of them")
    return _proposed(run, child)


def neighbours(
    run: ToolContext,
    parent: Reference,
    edit: Annotated[EditName | None, Field(description="only children by this edit; null: by any")] = None,
    n: Annotated[int, Field(ge=1, le=MAX_NEIGHBOURS)] = MAX_NEIGHBOURS,
) -> Observation:
    """List molecules that one named edit makes from a known one, without proposing them. Propose one of them with
    `propose`, or make it with `modify`."""
    smiles = _editable(parent, run).smiles
    rng = random.Random(f"neighbours {run.seed}")
    names = [edit] if edit else list(NAMED_EDITS)
    queues = {name: named.choices(smiles, name) for name in names}
    for queue in queues.values():
        rng.shuffle(queue)
    rows: dict[str, tuple[str, Site]] = {}
    for turn in range(TRIES):
        for name in names:
            if turn < len(queues[name]) and len(rows) < n:
                what, site = queues[name][turn]
                products = named.children(smiles, name, what or None, site.number, run.limits)
                if products and (child := rng.choice(products)) not in rows:
                    rows[child] = (f"{name} {what}".strip(), site)
    if not rows:
        raise CallError(f"no edit fits {smiles} within the limits; take another molecule")
    lines = [
        f"{child}  {made_by} at site {site.number}{_remark(child, run.bench)}"
        for child, (made_by, site) in rows.items()
    ]
    return Observation(True, "\n".join([f"neighbours of {smiles}:", *lines]))


def _editable(reference: str, run: ToolContext) -> Molecule:
    parent = find(reference, run)
    if parent.heavy_atoms > run.limits.max_heavy_atoms:
        most = run.limits.max_heavy_atoms
        raise CallError(f"{parent.heavy_atoms} heavy atoms are too many to edit; the limit is {most}")
    return parent


def _first_new(children: Iterator[ProposalIn], bench: AgentBench) -> ProposalIn | None:
    """Returns the first child that is new and misses no gate. Without one it returns the first that misses no gate, or
    else the first of all; None if there is no child."""
    first = known = None
    for child in children:
        molecule = molecule_or_none(child.text)
        first = first or child
        if molecule is None or bench.missed_gate(molecule):
            continue
        if not bench.known(molecule):
            return child
        known = known or child
    return known or first


def _remark(smiles: str, bench: AgentBench) -> str:
    """Returns a remark on a neighbour that is known or misses a gate; empty for any other."""
    molecule = molecule_or_none(smiles)
    if molecule is None or bench.known(molecule):
        return " (known)"
    missed = bench.missed_gate(molecule)
    return f" (misses a gate: {short(missed, 80)})" if missed else ""


def _why_not(parent: Molecule, wanted: str, edit: NamedEdit, where: int | None, run: ToolContext) -> str:
    """Returns why the edit does not fit, and which edits do."""
    sites = named.sites(parent.smiles)
    if where is not None and where > len(sites):
        return f"where: {parent.smiles} has sites 1 to {len(sites)}; `inspect` lists them"

    def fits(name: str) -> bool:
        pairs = named.choices(parent.smiles, name, None, where)
        some = pairs[:: max(1, len(pairs) // 4)][:4]
        return any(named.children(parent.smiles, name, what or None, site.number, run.limits) for what, site in some)

    fitting = ", ".join(name for name in NAMED_EDITS if fits(name)) or "nothing"
    if where is None:
        return f'"{wanted}" does not fit {parent.smiles}; what fits: {fitting}'
    site = sites[where - 1]
    numbers = [str(s.number) for s in sites if edit.fits(s)]
    at = f"at site {where} ({site.kind}: {site.name}); what fits there: {fitting}"
    rest = f"sites for {edit.name}: {', '.join(numbers[:20]) or 'nothing'}"
    return f'"{wanted}" does not fit {parent.smiles} {at}; {rest}'


def _proposed(run: ToolContext, proposal: ProposalIn) -> Observation:
    """Proposes a molecule and reports the bench's answer. A duplicate is a correct call; a refused proposal is not."""
    (out,) = run.bench.propose([replace(proposal, predicted=dict(run.predicted))])
    reason = ": ".join(part for part in (out.reason, out.detail) if part)
    number = f" #{number_of(out.candidate, run.numbered)}" if out.candidate else ""
    text = f"{out.status}{number}: {proposal.text}"
    text += f" ({proposal.operation})" if proposal.parents else ""
    text += f" [{out.key[:8]}]" if out.key else ""
    text += f", {out.standing}" if out.standing else ""
    text += "".join(f"; {short(line, 160)}" for line in out.results[:MAX_RESULTS])
    text += f"; {short(reason, 300)}" if reason else ""
    advice = {"duplicate": "; it was proposed before, propose another", "refused": "; mend it or propose another"}
    return Observation(out.status != "refused", text + advice.get(out.status, ""))


def cases_of_modify(full: JsonSchemaValue) -> list[JsonSchemaValue]:
    """Returns one schema per edit, with only the groups that this edit can insert."""
    cases = []
    for edit in NAMED_EDITS.values():
        choice: dict[str, Any] = {"type": "null"}
        if edit.whats:
            choice = {"anyOf": [{"type": "string", "enum": list(edit.whats)}, choice]}
        entries = {**full["properties"], "edit": {"type": "string", "enum": [edit.name]}, "what": choice}
        cases.append({**full, "properties": entries})
    return cases


_PREDICTION = {"property": "homo_lumo_gap", "value": 4.2, "error": 0.5}
MAKING = (
    Tool(propose, {"smiles": "Cc1ccncc1", "rationale": "a nitrogen lowers the LUMO", "predictions": [_PREDICTION]}),
    Tool(modify, {"parent": "#1", "edit": "add substituent", "what": "fluoro", "where": None}, cases_of_modify),
    Tool(crossover, {"first": "#1", "second": "#2"}),
    Tool(neighbours, {"parent": "#1", "edit": None, "n": 12}),
)
