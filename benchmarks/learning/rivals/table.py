"""`learning.table`: a ridge regression from a parent's values, an edit and what it puts in to the values of the child.

It is taught by the verified turns of the training tasks:

    python -m benchmarks.learning.rivals.table LEDGER --out table.json

In a campaign it looks at all named edits of the best molecules and of the latest ones, and proposes a child of each of
those with the largest probability to be hits.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.learning.rivals.children import BEST, Array, Edited, chance_of_hit, edits_of, one_new_of_each
from benchmarks.learning.rivals.lessons import PROPERTIES, Lesson, lessons_of
from sciagent.agent.proposers.plugin_proposers import CampaignView, ProposerTask
from sciagent.chemistry.editing.named_edits import NAMED_EDITS
from sciagent.chemistry.fingerprints_and_families import structure_of
from sciagent.domain.proposer_interfaces import ProposalIn
from sciagent.errors import UsageError
from sciagent.store.database.ledger import Ledger

STRENGTHS = (0.3, 1.0, 3.0, 10.0, 30.0)  # of the ridge, of which cross-validation chooses
FOLDS = 10
COLUMNS = tuple((name, what) for name, edit in NAMED_EDITS.items() for what in (edit.whats or ("",)))
PLACES = {pair: place for place, pair in enumerate(COLUMNS)}
EDITS = {name: place for place, name in enumerate(NAMED_EDITS)}


def inputs(lessons: Sequence[tuple[str, Mapping[str, float], str, str]]) -> Array:
    """Returns (n, p) inputs of the regression: the parent's values and traits, the edit, the edit with what it puts in,
    and the edit times the parent's values. lessons: (SMILES of the parent, its values, edit, what)."""
    traits = {smiles: _traits(smiles) for smiles in {smiles for smiles, *_ in lessons}}
    n = len(lessons)
    k = len(PROPERTIES)
    edits = np.zeros((n, len(EDITS)))
    pairs = np.zeros((n, len(PLACES)))
    crossed = np.zeros((n, len(EDITS), k))
    values = np.array([[known[name] for name in PROPERTIES] for _, known, _, _ in lessons]).reshape(n, k)
    for row, (_, _, edit, what) in enumerate(lessons):
        edits[row, EDITS[edit]] = 1.0
        crossed[row, EDITS[edit]] = values[row]
        if (edit, what) in PLACES:
            pairs[row, PLACES[edit, what]] = 1.0
    rest = np.array([traits[smiles] for smiles, *_ in lessons]).reshape(n, -1)
    return np.hstack([np.ones((n, 1)), values, rest, edits, pairs, crossed.reshape(n, -1)])


def _traits(smiles: str) -> tuple[float, ...]:
    structure = structure_of(smiles)
    if structure is None:
        raise UsageError(f"{smiles} is no molecule")
    return structure.traits


def ridge(x: Array, y: Array, strength: float) -> Array:
    """Returns (p, k) coefficients. x: (n, p), its first column is the constant, which is not shrunk. y: (n, k)."""
    penalty = np.full(x.shape[1], strength)
    penalty[0] = 0.0
    solved: Array = np.linalg.solve(x.T @ x + np.diag(penalty) + 1e-9 * np.eye(x.shape[1]), x.T @ y)
    return solved


def left_out(x: Array, y: Array, parents: Sequence[str], strength: float) -> Array:
    """Returns (n, k) residuals of lessons whose parents were left out of the fit, in `FOLDS` parts of the parents."""
    fold = {parent: place % FOLDS for place, parent in enumerate(sorted(set(parents)))}
    of = np.array([fold[parent] for parent in parents])
    residuals = np.empty_like(y)
    for part in range(FOLDS):
        out = of == part
        residuals[out] = y[out] - x[out] @ ridge(x[~out], y[~out], strength)
    return residuals


def taught(lessons: Sequence[Lesson]) -> dict[str, Any]:
    """Returns the table as JSON: coefficients by property, the spread of left-out residuals, and how well it does."""
    x = inputs([(each.parent, each.before, each.edit, each.what) for each in lessons])
    y = np.array([[each.after[name] for name in PROPERTIES] for each in lessons])
    parents = [each.parent for each in lessons]
    residuals = {strength: left_out(x, y, parents, strength) for strength in STRENGTHS}
    best = min(STRENGTHS, key=lambda strength: float((residuals[strength] ** 2 / y.var(0)).mean()))
    spread = residuals[best].std(0)
    explained = 1 - (residuals[best] ** 2).sum(0) / ((y - y.mean(0)) ** 2).sum(0)
    coefficients = ridge(x, y, best)
    return {
        "properties": PROPERTIES,
        "lessons": len(lessons),
        "parents": len(set(parents)),
        "strength": best,
        "spread": dict(zip(PROPERTIES, (round(float(each), 6) for each in spread), strict=True)),
        "explained": dict(zip(PROPERTIES, (round(float(each), 4) for each in explained), strict=True)),
        "columns": [list(pair) for pair in COLUMNS],
        "coefficients": [[round(float(each), 6) for each in column] for column in coefficients.T],
    }


class EditTable:
    """The proposer of the regression. file: the table that `taught` has made."""

    def __init__(self, task: ProposerTask) -> None:
        if task.file is None:
            raise UsageError("learning.table needs the key `file`: the table that its command has written")
        table = json.loads(task.file.read_text(encoding="utf-8"))
        if table["columns"] != [list(pair) for pair in COLUMNS]:
            raise UsageError(f"{task.file} was taught on other named edits; teach it again")
        if unknown := {objective.property for objective in task.objectives} - set(PROPERTIES):
            raise UsageError(f"learning.table predicts {' and '.join(PROPERTIES)} only, not {' or '.join(unknown)}")
        self._task = task
        self._spread = table["spread"]
        self._coefficients = np.array(table["coefficients"]).T

    def ask(self, campaign: CampaignView, n: int, rng: random.Random) -> Sequence[ProposalIn]:
        """Returns a child of each of the n best edits that have a new one."""
        measured = [each for each in campaign.measured() if set(PROPERTIES) <= set(each.values)]
        latest = sorted(measured, key=lambda each: -each.seq)[:BEST]
        parents = {each.text: each for each in (*measured[:BEST], *latest)}
        options = [edited for parent in parents.values() for edited in edits_of(parent)]
        if not options:
            return []
        order = np.argsort(-self._chances(options), kind="stable")
        return one_new_of_each((options[place] for place in order), campaign, self._task.limits, n, rng)

    def _chances(self, options: Sequence[Edited]) -> Array:
        rows = [(each.parent.text, each.parent.values, each.edit, each.what) for each in options]
        predicted = inputs(rows) @ self._coefficients
        means = {name: predicted[:, place] for place, name in enumerate(PROPERTIES)}
        spreads = {name: np.full(len(options), self._spread[name]) for name in PROPERTIES}
        return chance_of_hit(self._task.objectives, means, spreads)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("ledger", help="ledger with the demonstrations of the training tasks")
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    ledger = Ledger(given.ledger)
    with ledger.read() as connection:
        table = taught(lessons_of(connection))
    ledger.close()
    given.out.write_text(json.dumps(table), encoding="utf-8")
    told = {key: value for key, value in table.items() if key not in ("columns", "coefficients")}
    sys.stdout.write(json.dumps(told) + "\n")


if __name__ == "__main__":
    main()
