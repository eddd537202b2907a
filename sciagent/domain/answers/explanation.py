"""Everything that is known of a candidate: evidence, what each rung and each campaign made of it, and why."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from sciagent.domain.answers.model import AnswerModel
from sciagent.domain.answers.outlook import Outlook
from sciagent.domain.answers.values import CandidateName, EvidenceValue, ImportedValue
from sciagent.domain.answers.verification import RungResult


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
    """An answer of a verifier."""

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


class AttemptStory(AnswerModel):
    """An attempt of a job."""

    state: str
    """State of the attempt."""
    outcome: str | None
    """How it ended."""
    reason: str | None
    """Why it ended so."""
    detail: str
    """The same in words."""
    core_seconds: float
    """What it cost, in core-seconds."""
    wall_seconds: float | None
    """How long it took by the clock, in seconds."""
    started_at: datetime | None
    """When it began (UTC)."""
    host: str
    """The machine."""


class DecisionStory(AnswerModel):
    """A decision to run or reuse a rung."""

    action: str
    """`run`, `reuse` or `promote`."""
    chooser: str
    """Who chose: a scheduler, or `person:` and a name."""
    why: str | None
    """The reason."""
    index: float | None
    """What the candidate was chosen by."""
    price: Mapping[str, float] | None
    """Price of a unit of each limit, in hits or utility."""
    law_version: str | None
    """The law that it was chosen by."""
    propensity: float | None
    """Probability of the choice."""
    watermark: int | None
    """The last evidence that was known."""
    at: datetime
    """When (UTC)."""


class RungStory(RungResult):
    """What a rung did with a candidate: decisions, attempts and its answer."""

    verifier: str
    """Name of its verifier."""
    version: str
    """Version of its verifier."""
    settings: Mapping[str, object]
    """Settings of its verifier."""
    gate: tuple[str, ...]
    """Windows of its gate."""
    objectives: tuple[str, ...]
    """Windows of the objectives that it decides."""
    is_terminal: bool
    """Whether it decides."""
    job: str | None
    """State of its job; null where there is none."""
    attempts: tuple[AttemptStory, ...]
    """Each attempt, oldest first."""
    decisions: tuple[DecisionStory, ...]
    """Each decision, oldest first."""
    evidence: EvidenceStory | None
    """Its answer; null where there is none."""


class ProposalStory(AnswerModel):
    """A time that a candidate was proposed."""

    by: str
    """The proposer, or the person."""
    is_person: bool
    """Whether a person proposed it."""
    turn: int | None
    """Number of the proposer's turn; null for a person."""
    text: str
    """The text as it was handed in."""
    status: str
    """`new`, `duplicate` or `refused`."""
    operation: str | None
    """How it was made: `seed`, or the name of an operation."""
    rationale: str | None
    """Why, in the proposer's words."""
    predicted: Mapping[str, object]
    """What the proposer foretold, by property."""
    at: datetime
    """When (UTC)."""
    parents: tuple[CandidateName, ...]
    """What it was made from."""


class PersonWord(AnswerModel):
    """A decision of a person on a candidate."""

    verb: str
    """`hold`, `veto`, `release`, `promote` or `add`."""
    rung: str | None
    """The rung that a promotion goes to."""
    who: str
    """Who decided."""
    why: str
    """The reason."""
    at: datetime
    """When (UTC)."""


class CampaignStory(AnswerModel):
    """What became of a candidate in a campaign."""

    campaign: str
    """Name of the campaign."""
    state: str
    """State of the campaign."""
    scheduler: str
    """Its scheduler."""
    standing: str
    """Where the candidate stands: open, pending, held, vetoed, dropped or settled."""
    rung: str
    """The rung that it waits for, or that decided."""
    verdict: str | None
    """The verdict that decided; null while it is open."""
    reason: str | None
    """The reason of that verdict."""
    detail: str
    """The same with numbers."""
    score: float | None
    """What orders open candidates, in (0, 1]; not a probability."""
    utility: float | None
    """Weighted geometric mean of the desirabilities, in (0, 1]; null until it is settled."""
    hit: bool
    """Whether it is a hit."""
    in_seeds: bool
    """Whether it stood in a file of seeds."""
    proposed: tuple[ProposalStory, ...]
    """Each time that it was proposed, oldest first."""
    rungs: tuple[RungStory, ...]
    """What each rung did, in ladder order."""
    people: tuple[PersonWord, ...]
    """What people decided, oldest first."""
    core_seconds: float
    """What it cost this campaign, in core-seconds."""
    outlook: Outlook | None
    """What it promises; null unless it waits in a campaign scheduled by `priced`."""
    why: str
    """Why it stands there, in a sentence or two."""


class Children(AnswerModel):
    """Candidates that were made from it."""

    n: int
    """How many."""
    first: tuple[CandidateName, ...]
    """The first few."""


class Explanation(CandidateName):
    """Everything that the ledger holds on a candidate."""

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
    """A time that a text was proposed and refused."""

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
