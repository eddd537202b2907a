"""`law`: proposes the seeds first, then those children of a genetic search that a law takes for hits.

The search is that of `evolve`: each turn breeds many children of the best candidates so far. A Gaussian process over
structures, fitted anew to the campaign's own answers for each objective, gives each child its chance to meet all
limits (`HitChances`), and the children with the largest chances are proposed. A turn depends on its seed and the ledger
alone.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from sciagent.agent.proposers.evolve import Bred, Evolve, GeneticSearch, IsKnown, with_keys
from sciagent.agent.proposers.hit_chances import HitChances
from sciagent.chemistry.subjects.base import Subject
from sciagent.domain.objectives import Objective
from sciagent.domain.proposer_interfaces import ScriptBench, Turn


class LawSearch(Evolve):
    """Proposes the seeds of a file, then the children with the largest chance to be hits.

    pool: number of children of a turn that are compared. past: names of campaigns that the law remembers. law: a law
    entry that is remembered instead. only_new: whether nothing is proposed of which they have a value. The other
    parameters are those of `Evolve`.
    """

    name = "law"

    def __init__(
        self,
        subject: Subject,
        seeds: Path,
        objectives: Sequence[Objective],
        *,
        pool: int,
        past: Sequence[str] = (),
        law: str | None = None,
        only_new: bool = False,
        column: str | None = None,
        limits: Any = None,
        keep: Sequence[str] | None = None,
    ) -> None:
        super().__init__(subject, seeds, column=column, limits=limits, keep=keep)
        self._chances = HitChances(subject, objectives)
        self._pool = pool
        self._past = past
        self._law = law
        self._only_new = only_new

    def _bred(self, workbench: ScriptBench, turn: Turn, limit: int, is_known: IsKnown) -> Bred | None:
        # only the children that are proposed are looked up, which is dear; and no operator is preferred for what the
        # law has chosen
        search = GeneticSearch(self._edits, limits=self._limits)
        keys = self._tell(search, workbench)
        if not search.population():
            return None
        children = search.ask(max(self._pool, limit), random.Random(turn.seed))
        if not self._chances.has_read_past:
            self._chances.remember(workbench.past(self._past, self._law))
        if self._only_new:
            children = [child for child in children if not self._chances.is_remembered(child.text)]
        known = workbench.measured()
        texts = [child.text for child in children]
        scores = self._chances.log_chances(known, texts)
        # a twin of a measured candidate comes last: its chance is that of the other, and nothing would be learnt
        order = np.lexsort((-scores, self._chances.has_twin(known, texts)))
        ranked = (children[place] for place in order)
        unknown = (child for child in ranked if not is_known(child.text))
        return Bred(with_keys(islice(unknown, limit), keys), {})
