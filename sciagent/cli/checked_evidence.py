"""The lines of `sciagent audit` and `sciagent db check` on evidence: its seals, and the acts of people behind it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from sciagent.cli.output_logging_and_given_structures import say

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

    from sciagent.store.database.evidence_secret import EvidenceSecret
    from sciagent.store.views.check_evidence import EvidenceCheck

ROWS_PER_MESSAGE = 50_000


@dataclass(frozen=True)
class EvidenceReport:
    """The result of a check of all evidence, for a command."""

    check: EvidenceCheck
    secret_file: str
    """The file that holds the secret, or would hold it."""

    @property
    def answer(self) -> dict[str, object]:
        """The result as JSON."""
        return asdict(self.check)

    @property
    def lines(self) -> Iterator[str]:
        """The result in words."""
        check = self.check
        if check.unchecked:
            yield (
                f"{check.unchecked} seals of computed evidence were NOT checked: {self.secret_file} is missing, or "
                "this user cannot read it. Check where a worker or a driver runs, or set SCIAGENT_EVIDENCE_SECRET_FILE"
            )
        if not check.faults:
            fitting = f"{check.sealed} sealed, {check.of_people} entered or imported by people"
            yield f"{check.rows} rows of evidence: {fitting}"
            return
        yield f"{check.faults} faults of evidence:"
        yield from check.first_faults
        if check.faults > len(check.first_faults):
            yield f"and {check.faults - len(check.first_faults)} more"


def check_evidence(connection: Connection, secret: EvidenceSecret) -> EvidenceReport:
    """Checks all evidence in a read transaction, and prints now and then how far it is."""
    from sciagent.store.views import check_evidence as checks

    messages = 0

    def progress(rows: int) -> None:
        nonlocal messages
        if rows // ROWS_PER_MESSAGE > messages:
            messages = rows // ROWS_PER_MESSAGE
            say(f"{rows} rows of evidence checked")

    checked = checks.check(connection, secret.known_keys(), progress)
    return EvidenceReport(checked, str(secret.path))
