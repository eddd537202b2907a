"""One answer of a verifier on one candidate."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from sciagent.domain.answers.model import AnswerModel
from sciagent.domain.answers.values import EvidenceValue


class FileRemoval(AnswerModel):
    """The removal of a file."""

    who: str
    """Who removed it."""
    why: str
    """The reason."""
    at: datetime
    """When (UTC)."""


class EvidenceFile(AnswerModel):
    """A file that belongs to evidence."""

    name: str
    """Its name."""
    sha256: str
    """SHA-256 of its content."""
    size: int
    """Bytes."""
    media_type: str
    """Media type."""
    removed: FileRemoval | None
    """Null where it is still there."""


class EvidenceStory(AnswerModel):
    """One answer of a verifier."""

    key: str
    """Key of the evidence, 64 hexadecimal digits."""
    verifier: str
    """Name of the verifier."""
    version: str
    """Version of the verifier."""
    settings_hash: str
    """Hash of its settings."""
    outcome: str
    """`ok`, or how it ended otherwise."""
    reason: str | None
    """Why it ended otherwise."""
    detail: str
    """The same in words."""
    values: tuple[EvidenceValue, ...]
    """What was measured."""
    versions: Mapping[str, str]
    """Versions of the programs, by name."""
    source: str
    """Where it comes from."""
    who: str
    """Who ran or imported it."""
    why: str | None
    """Why it was revised."""
    at: datetime
    """When (UTC)."""
    revision: int
    """Number of the revision."""
    is_current: bool
    """Whether no later revision supersedes it."""
    watermark: int
    """Its place in the order of all evidence."""
    campaign: str | None
    """The campaign that paid; null for `verify` and files."""
    core_seconds: float
    """What this candidate cost of it, in core-seconds."""
    files: tuple[EvidenceFile, ...]
    """Its files."""
