"""Proposers that go through a list in order: `screen` the structures of a file, `enumerate` the products of a library.

A file is streamed, so memory stays bounded.

Products are made when they are proposed, so memory holds the lists of blocks only. The cursor is the number of the
combination, and of the product within it, so that a resumed run continues where the last one ended.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

from sciagent.chemistry.combinatorial_libraries import Combinations
from sciagent.chemistry.molecule_files import StructureRecord
from sciagent.chemistry.subjects.base import Subject
from sciagent.domain.proposer_interfaces import ProposalIn, Turn, Workbench

SEED = "seed"  # operation of the candidates that a campaign begins with


class Screen:
    """The proposer that goes through the structures of a file."""

    name = "screen"

    def __init__(
        self,
        subject: Subject,
        file: Path,
        column: str | None = None,
        operation: str = "screen",
        keep: Sequence[str] | None = None,
        n_later: int = 0,
    ) -> None:
        """column: with the structures; None: the subject's. operation: name of the operation in its proposals. keep:
        columns that stay with the candidates as names. n_later: number of records at the end that are not proposed."""
        self._subject = subject
        self._file = file
        self._operation = operation
        self._column = column
        self._keep = keep
        self._n_later = n_later
        self._records: Iterator[StructureRecord] | None = None
        self._next = -1

    @cached_property
    def total(self) -> int:
        """Number of records that are proposed. Computing it reads the whole file once."""
        return sum(1 for _ in self._subject.records(self._file, self._column)) - self._n_later

    def turn(self, workbench: Workbench, turn: Turn, limit: int) -> Mapping[str, Any] | None:
        """Proposes the next `limit` records. The cursor holds the number of the next record, for a resumed run."""
        start = int(turn.cursor.get("next", 0))
        if self._records is None or start != self._next:
            self._records = self._subject.records(self._file, self._column, start, self._keep)
        if self._n_later:
            limit = min(limit, self.total - start)
        batch = list(islice(self._records, max(limit, 0)))
        if not batch:
            return None
        proposals = []
        for record in batch:
            # the rationale of a record that holds no structure is why it holds none; other records have no fault
            proposal = ProposalIn(record.text, operation=self._operation, rationale=record.fault, names=record.names)
            proposals.append(proposal)
        workbench.propose(proposals)
        self._next = batch[-1].number + 1
        return {"next": self._next}


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
        combination = int(turn.cursor.get("next", 0))
        product = int(turn.cursor.get("product", 0))
        batch = list(islice(self._proposals_from(combination, product), limit))
        if not batch:
            return None
        workbench.propose([proposal for proposal, _ in batch])
        _, cursor = batch[-1]
        return cursor

    def _proposals_from(self, start: int, first_product: int) -> Iterator[tuple[ProposalIn, Mapping[str, int]]]:
        """Yields each proposal with the cursor after it. start: number of the first combination. first_product: number
        of the first product of that combination; the earlier ones were proposed before."""
        for number in range(start, self._library.size):
            names = self._library.names(number)
            products = self._library.products(number)
            for place, smiles in enumerate(products):
                if number > start or place >= first_product:
                    fault = ""
                    if not smiles:
                        combination, *_ = names.values()  # the name of the whole, or of its only block
                        fault = f"the groups cannot be joined: {combination}"
                    proposal = ProposalIn(smiles, operation="enumerate", rationale=fault, names=names)
                    yield proposal, {"next": number, "product": place + 1}
