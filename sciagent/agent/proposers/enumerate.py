"""`enumerate`: proposes every product of a library of combinations, in a fixed order.

Products are made when they are proposed, so memory holds the lists of blocks only. The cursor is the number of the
combination, and of the product within it, so that a resumed run continues where the last one ended.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from sciagent.chemistry.combinations import Combinations
from sciagent.domain.ports import ProposalIn, Turn, Workbench


class Enumerate:
    """The proposer that goes through a library of combinations."""

    name = "enumerate"

    def __init__(self, library: Combinations) -> None:
        self._library = library

    @property
    def total(self) -> int | None:
        return self._library.n_products

    def turn(self, workbench: Workbench, turn: Turn, limit: int) -> Mapping[str, Any] | None:
        """Proposes the next `limit` products. Returns None after the last one."""
        batch = list(islice(self._from(int(turn.cursor.get("next", 0)), int(turn.cursor.get("product", 0))), limit))
        if not batch:
            return None
        workbench.propose([proposal for proposal, _ in batch])
        return batch[-1][1]

    def _from(self, start: int, product: int) -> Iterator[tuple[ProposalIn, Mapping[str, int]]]:
        """Yields each proposal with the cursor after it."""
        for number in range(start, self._library.size):
            names, products = self._library.names(number), self._library.products(number)
            for place, smiles in enumerate(products):
                if number > start or place >= product:
                    fault = "" if smiles else f"the groups cannot be joined: {next(iter(names.values()))}"
                    proposal = ProposalIn(smiles, operation="enumerate", rationale=fault, names=names)
                    yield proposal, {"next": number, "product": place + 1}
