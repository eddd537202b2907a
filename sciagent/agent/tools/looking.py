"""Tools that show or record something: inspect, best, history, budget, note, finish."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field
from rdkit import Chem

from sciagent.agent.tools.molecule_references import Reference, find, number_of
from sciagent.agent.tools.registry import Observation, Tool, ToolContext
from sciagent.chemistry.editing.edits import canonical
from sciagent.chemistry.editing.named import NAMED_EDITS, Site, sites
from sciagent.domain.text import escaped, short

MAX_RESULTS = 8  # largest number of rungs whose results are shown
Remark = Annotated[str, Field(min_length=1, max_length=500)]
Count = Annotated[int, Field(ge=1, le=20)]
TOO_LARGE = 100  # heavy atoms; the sites of a larger molecule are not listed


def inspect(run: ToolContext, molecule: Reference) -> Observation:
    """Show one molecule: formula, what was measured of it, and the sites where `modify` can edit it, by number."""
    parsed = find(molecule, run)
    known = run.bench.known(parsed)
    lines = [
        f"{parsed.smiles} [{parsed.key[:8]}] {parsed.formula}, {parsed.heavy_atoms} heavy atoms, "
        f"charge {parsed.charge}, {'known here' if known else 'not proposed yet'}"
    ]
    if known:
        lines += [short(line, 160) for line in run.bench.results_of(parsed.key)[:MAX_RESULTS]]
    if parsed.heavy_atoms <= TOO_LARGE and (places := sites(parsed.smiles)):
        lines += [f"atoms: {_numbered(parsed.smiles)}", "sites, number name @atoms:", *_by_edits(places)]
    return Observation(True, "\n".join(lines))


def best(run: ToolContext, n: Count = 10) -> Observation:
    """List the best molecules so far by score, 0 to 1, each with its number, its key and how it was made."""
    lines = [
        f"#{number_of(row.text, run.numbered)} {row.score:.3f} {row.text} [{row.key[:8]}] "
        f"{short(row.operation, 100)}".rstrip()
        for row in run.bench.best(n)
    ]
    return Observation(True, "\n".join(lines) or "nothing is scored yet; propose something")


def history(run: ToolContext, n: Count = 10) -> Observation:
    """List the last proposals, latest first, and what became of each."""
    lines = []
    for row in run.bench.recent(n):
        score = "" if row["score"] is None else f" {row['score']:.3f}"
        why = f" ({short(row['reason'], 80)})" if row["reason"] else ""
        line = (
            f"{short(row['text'], 120)}{score} {row['standing'] or row['status']}{why} {short(row['operation'], 100)}"
        )
        lines.append(line.rstrip())
    return Observation(True, "\n".join(lines) or "nothing was proposed yet")


def budget(run: ToolContext) -> Observation:
    """Tell the goal and what may still be spent."""
    left = ", ".join(f"{short(name)} {amount:g}" for name, amount in run.bench.left().items())
    return Observation(True, f"goal: {run.bench.goal()[:1200]}\nleft: {left or 'no limit'}")


def note(run: ToolContext, text: Remark) -> Observation:
    """Keep a remark for later episodes: what worked, what did not, what to try."""
    run.bench.note(escaped(text))
    return Observation(True, "kept")


def finish(run: ToolContext, reason: Remark) -> Observation:
    """End the episode, with a reason."""
    return Observation(True, "finished", ended=True)


def _numbered(smiles: str) -> str:
    """Returns the SMILES with atom numbers, from 1."""
    mol = canonical(smiles)
    for atom in mol.GetAtoms():
        atom.SetAtomMapNum(atom.GetIdx() + 1)
    return str(Chem.MolToSmiles(mol, canonical=False))


def _by_edits(places: tuple[Site, ...]) -> list[str]:
    groups: dict[str, list[str]] = {}
    for site in places:
        first = site.places[0]
        atoms = first[:1] if site.kind == "substituent" else first
        alike = f" x{len(site.places)}" if len(site.places) > 1 else ""
        text = f"{site.number} {site.name} @{'-'.join(str(a + 1) for a in atoms)}{alike}"
        edits = ", ".join(edit.name for edit in NAMED_EDITS.values() if edit.fits(site))
        groups.setdefault(edits, []).append(text)
    return [f"{edits}: {'; '.join(texts)}" for edits, texts in groups.items()]


LOOKING = (
    Tool(inspect, {"molecule": "#1"}),
    Tool(best, {"n": 10}),
    Tool(history, {"n": 10}),
    Tool(budget),
    Tool(note, {"text": "nitro groups were refused as unstable"}),
    Tool(finish, {"reason": "the budget is spent"}),
)
