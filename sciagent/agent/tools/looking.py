"""Tools that show or record something: inspect, best, history, budget; note, finish."""

from __future__ import annotations

from typing import Any

from rdkit import Chem

from sciagent.agent.tools import arguments as given
from sciagent.agent.tools.referring import find
from sciagent.agent.tools.registry import Observation, Tool, ToolContext
from sciagent.agent.tools.wording import short
from sciagent.chemistry.editing.named import NAMED_EDITS, sites
from sciagent.chemistry.editing.sites import Site
from sciagent.domain.text import escaped

TOLD = 8  # rungs whose word is shown
TOO_LARGE = 100  # heavy atoms above which sites are not listed


def inspect(arguments: given.Inspect, run: ToolContext) -> Observation:
    """Show one molecule: formula, what was measured of it, and the sites where `modify` can edit it, by number."""
    molecule = find(arguments.molecule, run.bench)
    known = run.bench.known(molecule.key)
    told = [short(line, 160) for line in run.bench.results_of(molecule.key)[:TOLD]] if known else []
    places = sites(molecule.smiles) if molecule.heavy_atoms <= TOO_LARGE else ()
    lines = [
        f"{molecule.smiles} [{molecule.key[:8]}] {molecule.formula}, {molecule.heavy_atoms} heavy atoms, "
        f"charge {molecule.charge}, {'known here' if known else 'not proposed yet'}",
        *told,
    ]
    if places:
        lines += [f"atoms: {_numbered(molecule.smiles)}", "sites, number name @atoms:", *_by_edits(places)]
    data = {
        "smiles": molecule.smiles,
        "key": molecule.key,
        "formula": molecule.formula,
        "charge": molecule.charge,
        "heavy_atoms": molecule.heavy_atoms,
        "known": known,
        "told": told,
        "sites": [{"number": s.number, "kind": s.kind, "name": s.name, "edits": _edits(s)} for s in places],
    }
    return Observation(True, "\n".join(lines), data)


def best(arguments: given.Best, run: ToolContext) -> Observation:
    """List the best molecules so far by score, 0 to 1, with the key and how each was made."""
    rows = run.bench.best(arguments.n)
    lines = [
        f"#{rank} {row.score:.3f} {row.text} [{row.key[:8]}] {short(row.operation, 100)}".rstrip()
        for rank, row in enumerate(rows, start=1)
    ]
    data = [{"rank": n, "key": r.key, "smiles": r.text, "score": r.score} for n, r in enumerate(rows, start=1)]
    return Observation(True, "\n".join(lines) or "nothing is scored yet; propose something", {"best": data})


def history(arguments: given.History, run: ToolContext) -> Observation:
    """List the last proposals, latest first, and what became of each."""
    rows = run.bench.recent(arguments.n)
    lines = []
    for row in rows:
        score = "" if row["score"] is None else f" {row['score']:.3f}"
        fate = row["standing"] or row["status"]
        why = f" ({short(row['reason'], 80)})" if row["reason"] else ""
        made = short(row["operation"], 100)
        lines.append(f"{short(row['text'], 120)}{score} {fate}{why} {made}".rstrip())
    data = [{k: short(v, 400) if isinstance(v, str) else v for k, v in row.items()} for row in rows]
    return Observation(True, "\n".join(lines) or "nothing was proposed yet", {"history": data})


def budget(arguments: given.BudgetQuestion, run: ToolContext) -> Observation:
    """Tell the goal and what may still be spent."""
    left = run.bench.left()
    rest = ", ".join(f"{short(name)} {amount:g}" for name, amount in left.items())
    goal = "\n".join(escaped(line) for line in run.bench.goal()[:1200].split("\n"))
    return Observation(True, f"goal: {goal}\nleft: {rest or 'no limit'}", {"left": dict(left)})


def note(arguments: given.Note, run: ToolContext) -> Observation:
    """Keep a remark for later episodes: what worked, what did not, what to try."""
    text = escaped(arguments.text)
    run.bench.note(text)
    return Observation(True, "kept", {"note": text})


def finish(arguments: given.Finish, run: ToolContext) -> Observation:
    """End the episode, with a reason."""
    return Observation(True, "finished", {"reason": escaped(arguments.reason)}, ended=True)


def _numbered(smiles: str) -> str:
    """The SMILES with atom numbers, from 1."""
    mol: Any = Chem.MolFromSmiles(smiles)
    mol = Chem.MolFromSmiles(Chem.MolToSmiles(mol))
    for atom in mol.GetAtoms():
        atom.SetAtomMapNum(atom.GetIdx() + 1)
    return str(Chem.MolToSmiles(mol, canonical=False))


def _edits(site: Site) -> list[str]:
    return [edit.name for edit in NAMED_EDITS.values() if edit.fits(site)]


def _by_edits(places: tuple[Site, ...]) -> list[str]:
    groups: dict[str, list[str]] = {}
    for site in places:
        first = site.places[0]
        atoms = first[:1] if site.kind == "substituent" else first
        alike = f" x{len(site.places)}" if len(site.places) > 1 else ""
        text = f"{site.number} {site.name} @{'-'.join(str(a + 1) for a in atoms)}{alike}"
        groups.setdefault(", ".join(_edits(site)), []).append(text)
    return [f"{edits}: {'; '.join(texts)}" for edits, texts in groups.items()]


LOOKING = (
    Tool.of(inspect, molecule="#1"),
    Tool.of(best, n=10),
    Tool.of(history, n=10),
    Tool.of(budget),
    Tool.of(note, text="nitro groups were refused as unstable"),
    Tool.of(finish, reason="the budget is spent"),
)
