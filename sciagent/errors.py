"""Every error that sciagent raises on purpose.

SciagentError
├── UsageError              the caller asked for something that cannot be (exit code 2)
│   ├── SpecError           a campaign or site file is wrong: file, line, column, and what would be right
│   ├── UnitError           a unit that the property does not take
│   ├── InputFileError      a seed or import file is wrong: file, line, column
│   └── UnknownNameError    a name that does not exist, with the nearest that does
├── InvalidCandidateError   a structure that cannot become a candidate, with a named reason
├── SimulatorError          an engine did not give a trustworthy result, with outcome and reason
├── LedgerError             the ledger refused
│   ├── LedgerAwayError     the database is gone, refused, locked or restarting; trying again helps
│   ├── SchemaVersionError  the database is at another migration than the code
│   ├── StaleLeaseError     a write by one who no longer holds the lease
│   └── EvidenceConflictError  another result stands under the same evidence key
├── SlurmError              Slurm refused, or does not answer; with its own words
│   └── NoPartitionError    no partition of the site holds a job (a UsageError too)
└── CampaignError           a campaign cannot go on
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class SciagentError(Exception):
    """Base of all errors raised on purpose."""


class UsageError(SciagentError):
    """The caller asked for something that cannot be; the command line exits with 2."""


class SpecError(UsageError):
    """One or more mistakes in a campaign file or a site profile; each line of the message reads `file:line:col: …`."""


class InputFileError(UsageError):
    """A mistake in a seed or import file; the message opens with `file:line:col`."""


class UnitError(UsageError):
    """A unit outside the property's allow-list."""


class UnknownNameError(UsageError):
    """A name that is not registered."""

    def __init__(self, what: str, name: str, known: Iterable[str]) -> None:
        names = sorted(known)
        super().__init__(f'unknown {what} "{name}"{did_you_mean(name, names)}; known: {", ".join(names) or "none"}')
        self.name = name


class InvalidCandidateError(SciagentError):
    """A structure that cannot become a candidate. `reason` is a `domain.outcomes.Reason` value."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.detail = detail


class SimulatorError(SciagentError):
    """An engine gave no trustworthy result. `outcome` and `reason` are values of `domain.outcomes`."""

    def __init__(self, outcome: str, reason: str, detail: str) -> None:
        super().__init__(f"{outcome} ({reason}): {detail}")
        self.outcome = outcome
        self.reason = reason
        self.detail = detail


class LedgerError(SciagentError):
    """The ledger refused."""


class LedgerAwayError(LedgerError):
    """The database is gone, refused the connection, is locked or restarts; the same statement may succeed later."""


class SchemaVersionError(LedgerError, UsageError):
    """The database is at another migration than the code."""


class StaleLeaseError(LedgerError):
    """A write by one who no longer holds the lease."""


class EvidenceConflictError(LedgerError):
    """Another result stands under the same evidence key; supersede it with a revision instead."""


class SlurmError(SciagentError):
    """Slurm refused, or does not answer; the message holds its own words."""


class NoPartitionError(SlurmError, UsageError):
    """A job asks for more than any partition of the site holds; nothing was submitted."""


class CampaignError(SciagentError):
    """A campaign cannot go on."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """`; did you mean "x"?` or an empty string. What differs only by case or blanks comes first: `ev` is `eV`."""
    names, plain = list(known), "".join(name.split()).casefold()
    near = [one for one in names if one.casefold() == plain] or difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    return f'; did you mean "{near[0]}"?' if near else ""
