"""`screen`: proposes the structures of a file in order. The file is streamed, so memory stays bounded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

from sciagent.chemistry.structure_files import StructureRecord
from sciagent.chemistry.subjects.base import Subject
from sciagent.domain.ports import ProposalIn, Turn, Workbench

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
    ) -> None:
        """column: with the structures; None: the subject's. operation: name of the operation in its proposals. keep:
        columns that stay with the candidates as names."""
        self._subject, self._file, self._operation = subject, file, operation
        self._column, self._keep = column, keep
        self._records: Iterator[StructureRecord] | None = None
        self._next = -1

    @cached_property
    def total(self) -> int:
        """Number of records in the file. Computing it reads the whole file once."""
        return sum(1 for _ in self._subject.records(self._file, self._column))

    def turn(self, workbench: Workbench, turn: Turn, limit: int) -> Mapping[str, Any] | None:
        """Proposes the next `limit` records. The cursor holds the number of the next record, for a resumed run."""
        start = int(turn.cursor.get("next", 0))
        if self._records is None or start != self._next:
            self._records = self._subject.records(self._file, self._column, start, self._keep)
        batch = list(islice(self._records, limit))
        if not batch:
            return None
        workbench.propose(
            [ProposalIn(r.text, operation=self._operation, rationale=r.fault, names=r.names) for r in batch]
        )
        self._next = batch[-1].number + 1
        return {"next": self._next}
