"""Everything that is known of one candidate."""

from __future__ import annotations

from datetime import datetime

from sciagent.domain.answers.campaign_story import CampaignStory
from sciagent.domain.answers.evidence_story import EvidenceStory
from sciagent.domain.answers.model import AnswerModel
from sciagent.domain.answers.values import CandidateName, ImportedValue


class Children(AnswerModel):
    """Candidates that were made from this one."""

    n: int
    """How many."""
    first: tuple[CandidateName, ...]
    """The first few."""


class Explanation(AnswerModel):
    """Everything that the ledger holds on one candidate."""

    key: str
    """Key of the candidate, 64 hexadecimal digits."""
    smiles: str
    """The structure as text."""
    kind: str
    """`molecule` or `crystal`."""
    inchikey: str | None
    """InChIKey; null for what has none."""
    formula: str
    """Sum formula."""
    charge: int
    """Total charge, in elementary charges."""
    multiplicity: int
    """Spin multiplicity."""
    atoms: int
    """Number of atoms, with hydrogen."""
    first_seen: datetime
    """When it entered the ledger (UTC)."""
    also_given_as: tuple[str, ...]
    """Other texts that it was handed in as."""
    children: Children
    """Candidates that were made from it."""
    campaigns: tuple[CampaignStory, ...]
    """What became of it, an entry a campaign."""
    imported: tuple[ImportedValue, ...]
    """Values from files."""
    other_evidence: tuple[EvidenceStory, ...]
    """Evidence under other settings, from other work, or superseded."""


class RefusedProposal(AnswerModel):
    """One time that a text was proposed and refused."""

    campaign: str
    """Name of the campaign."""
    text: str
    """The text, as much of it as is kept."""
    reason: str | None
    """Why it was refused."""
    detail: str
    """The same in words."""
    operation: str | None
    """How it was made."""
    rationale: str | None
    """Why, in the proposer's words."""
    by: str
    """The proposer, or `a person`."""
    turn: int | None
    """Number of the proposer's turn; null for a person."""
    at: datetime
    """When (UTC)."""


class RefusedText(AnswerModel):
    """A text that was proposed and did not become a candidate."""

    key: None = None
    """Always null: there is no candidate."""
    text: str
    """The text as it was asked for."""
    refused: tuple[RefusedProposal, ...]
    """Each time that it was proposed, oldest first."""
