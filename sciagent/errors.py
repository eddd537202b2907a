"""All errors that sciagent raises on purpose.

SciagentError
├── UsageError              the request cannot be carried out (exit code 2)
│   ├── SpecError           mistakes in a YAML file, with file, line, column and correction
│   ├── UnitError           a unit that the property does not take
│   ├── InputFileError      a mistake in a seed or import file: file, line, column
│   ├── UnknownNameError    a name that does not exist, with the nearest one that does
│   ├── TaskStateError      a task's state, or its budget, does not allow the act
│   ├── WrongVialError      a vial that is not of the task's molecule, or not usable
│   ├── AnsweredMeanwhileError  another person answered a task while one was typing
│   ├── ImprobableValuesError  an answer is improbable, and its sender has not said that it is right
│   ├── AnswerChangedError  another answer waits for a review than the one that the reviewer read
│   └── EpisodeError        an environment refused what a client asked for
├── InvalidCandidateError   a structure that cannot become a candidate, with a named reason
├── SimulatorError          an engine gave no reliable result, with outcome and reason
├── LedgerError             the ledger refused an operation
│   ├── LedgerAwayError     the database is gone, locked or restarting
│   │   └── DiskFullError   the disk of the database is full
│   ├── LedgerReplacedError the file of the ledger was deleted, replaced or cut short while it was open
│   ├── SchemaVersionError  the database has another schema version than the code (also a UsageError)
│   ├── StaleLeaseError     a write by a process that no longer holds the lease
│   └── EvidenceConflictError  there is another result under the same evidence key
├── SlurmError              Slurm refused a request or does not answer
│   └── NoPartitionError    no partition of the site can hold a job (also a UsageError)
└── CampaignError           a campaign cannot continue
    └── DriverHeldError     another live process drives the campaign
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

LEDGER_AWAY_CODE = 75
"""Exit code of a process that ended since the ledger did not answer; 75 means a passing failure on Unix."""


class SciagentError(Exception):
    """Base of all errors raised on purpose."""


class UsageError(SciagentError):
    """The request cannot be carried out; the command line exits with 2."""

    def __init__(self, text: str = "", typed: str = "") -> None:
        """typed: the way out for those who type commands. The message ends with it; pages show `text` alone."""
        super().__init__(f"{text}; {typed}" if typed else text)
        self.text = text


class SpecError(UsageError):
    """Mistakes in a campaign, recipe, rewards or site file; each line of the message is `file:line:col: …`."""


class InputFileError(UsageError):
    """A mistake in a seed or import file; the message begins with `file:line:col`."""


class UnitError(UsageError):
    """A unit that the property does not take."""


class UnknownNameError(UsageError):
    """A name that is not registered."""

    def __init__(self, what: str, name: str, known: Iterable[str]) -> None:
        names = sorted(known)
        super().__init__(f'unknown {what} "{name}"{did_you_mean(name, names)}; known: {", ".join(names) or "none"}')
        self.name = name


class TaskStateError(UsageError):
    """The state of a task, or of its campaign's budget, does not allow what was asked; nothing was recorded."""


class WrongVialError(UsageError):
    """A vial that is not of the task's molecule, or is empty or bad; nothing was recorded."""


class AnsweredMeanwhileError(UsageError):
    """Another person answered a task while one was typing; nothing was recorded."""

    def __init__(self, task: int, who: str) -> None:
        super().__init__(f"task {task} was answered by {who} while you were typing; nothing of yours was recorded yet")
        self.who = who


class ImprobableValuesError(UsageError):
    """An answer is improbable, and its sender has not confirmed it; nothing was recorded."""

    def __init__(self, odd: Iterable[str]) -> None:
        """odd: a sentence on each improbable thing."""
        self.odd = tuple(odd)
        super().__init__(f"{'; '.join(self.odd)}. Nothing is recorded yet: is it right?", "then add --sure")


class AnswerChangedError(UsageError):
    """Another answer waits for a review than the one that the reviewer read; nothing was accepted or sent back."""


class EpisodeError(UsageError):
    """An environment refused what a client asked for. `status` is the HTTP status that says so."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class InvalidCandidateError(SciagentError):
    """A structure that cannot become a candidate. `reason` is a `domain.outcomes_verdicts_and_reasons.Reason` value."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.detail = detail


class SimulatorError(SciagentError):
    """An engine gave no reliable result. `outcome` and `reason` are those of `domain.outcomes_verdicts_and_reasons`."""

    def __init__(self, outcome: str, reason: str, detail: str, **diagnostics: object) -> None:
        super().__init__(f"{outcome} ({reason}): {detail}")
        self.outcome = outcome
        self.reason = reason
        self.detail = detail
        self.diagnostics = diagnostics


class LedgerError(SciagentError):
    """The ledger refused an operation."""


class LedgerAwayError(LedgerError):
    """The database cannot be reached, is locked or restarts; the same statement may succeed later."""


class DiskFullError(LedgerAwayError):
    """The disk of the database is full; what was written before is kept, and the same statement may succeed later."""


class LedgerReplacedError(LedgerError):
    """The file of a SQLite ledger was deleted, replaced or cut short while this process had it open."""


class SchemaVersionError(LedgerError, UsageError):
    """The database has another schema version than the code."""


class StaleLeaseError(LedgerError):
    """A write by a process that no longer holds the lease."""


class EvidenceConflictError(LedgerError):
    """Another result has the same evidence key; supersede it with a revision instead."""


class SlurmError(SciagentError):
    """Slurm refused a request or does not answer; the message contains Slurm's message."""


class NoPartitionError(SlurmError, UsageError):
    """A job needs more than any partition of the site can hold; nothing was submitted."""


class CampaignError(SciagentError):
    """A campaign cannot continue."""


class DriverHeldError(CampaignError):
    """Another live process drives the campaign."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Returns `; did you mean "x"?` or an empty string. A name that differs only in case or spaces comes first."""
    names = list(known)
    plain = "".join(name.split()).casefold()
    near = [candidate for candidate in names if candidate.casefold() == plain]
    if not near:
        near = difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    return f'; did you mean "{near[0]}"?' if near else ""
