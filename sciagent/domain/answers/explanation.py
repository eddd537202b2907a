"""Everything that the ledger holds on a candidate: evidence, and the results of each rung and campaign with reasons.

In a `priced` campaign an open candidate has an outlook: its expected payoff and cost by the last fit of the law, the
model that predicts results.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import datetime

from sciagent.domain.answers.candidate_and_value_answers import (
    AnswerModel,
    CandidateName,
    EvidenceValue,
    ImportedValue,
    LimitMargin,
    PropertyValue,
    RungResult,
    SameCompound,
)


class FileRemoval(AnswerModel):
    """The removal of a file."""

    who: str
    """Person who removed the file."""
    why: str
    """Reason for the removal."""
    at: datetime
    """Time of the removal (UTC)."""


class EvidenceFile(AnswerModel):
    """A file that belongs to evidence."""

    name: str
    """Name of the file."""
    sha256: str
    """SHA-256 of its content."""
    size: int
    """Size in bytes."""
    media_type: str
    """Media type."""
    removed: FileRemoval | None
    """Removal of the file; null while the file is stored."""


class EvidenceStory(AnswerModel):
    """Evidence: an answer of a verifier on a candidate."""

    key: str
    """Key of the evidence, 64 hexadecimal digits."""
    verifier: str
    """Name of the verifier."""
    version: str
    """Version of the verifier."""
    settings_hash: str
    """Hash of the verifier's settings."""
    outcome: str
    """`ok`, or another outcome."""
    reason: str | None
    """Reason for an outcome other than `ok`."""
    detail: str
    """The reason in words, or a remark on values that are `ok`."""
    values: tuple[EvidenceValue, ...]
    """Measured values."""
    unobtained: Mapping[str, str]
    """Reasons by property for which people could not obtain a quantity, although others have values."""
    diagnostics: Mapping[str, object]
    """Facts that the verifier states beside its values, by name, such as the points of a band gap."""
    versions: Mapping[str, str]
    """Versions of the programs, by name."""
    source: str
    """`computed`, or the file that the evidence was imported from."""
    who: str
    """Person who ran the verification or imported the evidence."""
    why: str | None
    """Reason for the revision."""
    at: datetime
    """Time at which the evidence was stored (UTC)."""
    revision: int
    """Number of the revision."""
    is_current: bool
    """Whether no later revision supersedes this one."""
    watermark: int
    """Sequence number among all evidence of the ledger."""
    campaign: str | None
    """Campaign that paid for the evidence; null for `sciagent verify` and for imported files."""
    core_seconds: float
    """Cost of the evidence for this candidate, in core-seconds."""
    files: tuple[EvidenceFile, ...]
    """Files of the evidence."""


class AttemptStory(AnswerModel):
    """An attempt of a job."""

    state: str
    """State of the attempt."""
    outcome: str | None
    """Outcome of the attempt; null while it has none."""
    reason: str | None
    """Reason for the outcome."""
    detail: str
    """The reason in words."""
    core_seconds: float
    """Cost of the attempt, in core-seconds."""
    cost: Mapping[str, float]
    """Cost of the attempt by resource, in the units of the campaign file; until it has ended, what is booked so far,
    such as the cost of a measurement, which is booked when its task is claimed."""
    wall_seconds: float | None
    """Wall time of the attempt, in seconds."""
    started_at: datetime | None
    """Start of the attempt (UTC)."""
    host: str
    """Machine that ran the attempt."""


class DecisionStory(AnswerModel):
    """A decision to run or reuse a rung."""

    action: str
    """`run`, `reuse` or `promote`."""
    chooser: str
    """Author of the choice: a scheduler, or `person:` and a name."""
    why: str | None
    """Reason for the choice."""
    index: float | None
    """Index by which the scheduler ranked the candidate."""
    price: Mapping[str, float] | None
    """Price of a unit of each limit, in hits or utility."""
    law_version: str | None
    """Version of the law that the choice used."""
    propensity: float | None
    """Probability of the choice."""
    watermark: int | None
    """Sequence number of the last evidence that was known."""
    at: datetime
    """Time of the decision (UTC)."""


class RungStory(RungResult):
    """The history of a candidate at a rung: decisions, attempts and evidence."""

    verifier: str
    """Name of the rung's verifier."""
    version: str
    """Version of the verifier."""
    settings: Mapping[str, object]
    """Settings of the verifier."""
    gate: tuple[str, ...]
    """Windows of the rung's gate."""
    objectives: tuple[str, ...]
    """Windows of the objectives that the rung decides."""
    is_terminal: bool
    """Whether the rung is the terminal rung."""
    job: str | None
    """State of the rung's job; null without a job."""
    attempts: tuple[AttemptStory, ...]
    """Attempts, oldest first."""
    decisions: tuple[DecisionStory, ...]
    """Decisions, oldest first."""
    evidence: EvidenceStory | None
    """Evidence of the rung, as it was computed; null without an answer."""
    calibrated: tuple[PropertyValue, ...]
    """Calibrated values, by which gate and objectives judge; empty without a calibration."""
    replicates: tuple[EvidenceStory, ...]
    """Evidence of each measurement, where `evidence` has the pooled values of several; else empty."""


class ProposedText(AnswerModel):
    """A proposed text with its origin."""

    by: str
    """Name of the proposer or the person, or `a person`."""
    turn: int | None
    """Number of the proposer's turn; null for a person."""
    text: str
    """The proposed text, as far as the ledger keeps it."""
    operation: str | None
    """Origin of the text: `seed`, or the name of an operation."""
    rationale: str | None
    """Reason that the proposer gave."""
    at: datetime
    """Time of the proposal (UTC)."""


class FilterStory(AnswerModel):
    """A decision of the law that filters the proposals of a proposer."""

    action: str
    """`keep`: it went on for its chance; `audit`: by lot; `drop`; `remembered`: dropped, since another campaign has
    measured it."""
    chance: float
    """Chance to be a hit that the law said."""
    rank: int | None
    """1 if no compared proposal had a larger chance; null if it was not compared."""
    compared: int
    """Number of proposals that were compared, with this one."""
    propensity: float
    """Probability with which it went on."""

    @classmethod
    def of(cls, decision: Mapping[str, object] | None) -> FilterStory | None:
        """Returns the story of a decision as the ledger keeps it; None without one."""
        if decision is None:
            return None
        log_chance = decision["log_chance"]
        assert isinstance(log_chance, float | int)
        kept = {name: value for name, value in decision.items() if name != "log_chance"}
        return cls.model_validate({**kept, "chance": math.exp(log_chance)})


class ProposalStory(ProposedText):
    """A proposal of a candidate."""

    is_person: bool
    """Whether a person proposed it."""
    status: str
    """`new`, `duplicate`, `refused` or `filtered`."""
    filtered: FilterStory | None
    """Decision of the proposer's filter; null if no filter judged the proposal."""
    detail: str
    """The way from the text to the candidate, such as `protonated at pH 7.4 from CC(=O)O`, and why it was filtered;
    else empty."""
    predicted: Mapping[str, object]
    """Predictions of the proposer, by property."""
    parents: tuple[CandidateName, ...]
    """Candidates that it was made from."""


class PersonWord(AnswerModel):
    """A decision of a person on a candidate."""

    verb: str
    """`hold`, `veto`, `release`, `promote` or `add`."""
    rung: str | None
    """Target rung of a promotion."""
    who: str
    """Person who decided."""
    why: str
    """Reason for the decision."""
    at: datetime
    """Time of the decision (UTC)."""


class PropertyForecast(AnswerModel):
    """A forecast of a property that is not yet known, at the rung that decides on it."""

    property: str
    """Name of the property."""
    rung: str
    """Label of the rung that decides."""
    value: float
    """Expected value, in `unit`."""
    low: float
    """Lower end of the 90 % interval, in `unit`."""
    high: float
    """Upper end of the 90 % interval, in `unit`."""
    unit: str
    """The unit that the campaign states; else the property's canonical unit."""


class OutlookUnits(AnswerModel):
    """The unit of each number."""

    value: str
    """`hits` or `utility`."""
    p_hit: str
    """Always `probability`."""
    expected: str
    """`hits` or `utility`."""
    index: str
    """Hits or utility per budget, or per core-second where nothing is limited."""
    price: str
    """The unit of the index."""
    next_cost: Mapping[str, str]
    """Unit of each resource."""
    next_share: str
    """Always `of the whole budget`."""
    later: str
    """Always `expected runs`."""


class Outlook(AnswerModel):
    """The outlook of a waiting candidate; only `text` is set where no forecast is possible."""

    value: float | None = None
    """Expected payoff minus the price of the rungs that would still be bought, in hits or utility."""
    p_hit: float | None = None
    """Chance of a hit; null where the goal is not to count hits."""
    expected: float | None = None
    """Expected payoff if it were verified now, in hits or utility."""
    foretold: tuple[PropertyForecast, ...] | None = None
    """Forecasts, one entry per objective whose property is not yet known."""
    index: float | None = None
    """Hits or utility that a whole budget would bring if it were spent at this candidate's rate."""
    price: float | None = None
    """Hits or utility that the budget brings elsewhere, in the unit of the index."""
    ahead: int | None = None
    """Number of open candidates with a higher index; null where too many are open to compare."""
    next_rung: str | None = None
    """The rung that the candidate would get next."""
    next_cost: Mapping[str, float] | None = None
    """Cost of the next rung, by resource."""
    next_share: float | None = None
    """Share of the whole budget that the next rung takes; null where nothing is limited."""
    later: Mapping[str, float] | None = None
    """Expected number of runs of each rung after the next."""
    law_version: str | None = None
    """Version of the law."""
    law_watermark: int | None = None
    """Sequence number of the last evidence that the law was fitted to."""
    watermark: int | None = None
    """Sequence number of the last evidence that was counted."""
    units: OutlookUnits | None = None
    """The unit of each number."""
    text: str
    """The outlook in words, or why no forecast is possible."""


class NearestMeasured(AnswerModel):
    """A measured structure like the candidate."""

    structure: str
    """Text that people read: the SMILES of a molecule, formula and prototype of a crystal."""
    similarity: float
    """Similarity to the candidate, in [0, 1]."""
    value: float
    """Its value, in the unit of the prediction."""


class LawPrediction(AnswerModel):
    """The prediction of a fitted law for a quantity of a candidate, from what was measured of other candidates."""

    property: str
    """Name of the property."""
    level: str
    """Level of the values that the law was fitted to."""
    unit: str
    """The unit that the campaign states; else the property's canonical unit."""
    is_own_answer: bool
    """Whether the law was fitted to an answer on this very candidate, so that nothing is predicted."""
    value: float | None
    """Median of the predicted distribution, in `unit`; null if `is_own_answer`."""
    uncertainty: float | None
    """Half the width of the interval that holds 68.3 % of it."""
    low: float | None
    """Lower end of the 90 % interval."""
    high: float | None
    """Upper end of the 90 % interval."""
    held: float | None
    """Share of left-out answers, as far from all others as this candidate, in their 90 % intervals; null if fewer than
    20 answers were that far."""
    n_held: int | None
    """Number of these left-out answers; null if none was left out, or with a caveat."""
    caveat: str | None
    """Why the interval may not hold for this candidate; null if there is no such reason."""
    nearest: tuple[NearestMeasured, ...]
    """The most similar measured structures, at most three."""
    measured: PropertyValue | None
    """The value that the campaign's deciding rung has measured since; null without one."""


class LawStory(AnswerModel):
    """The predictions of a fitted law for a candidate; answers of the campaign itself that came later do not count."""

    law: str
    """Name and hash of the law, such as `gaps@5c22afeb`."""
    is_of_campaign: bool
    """Whether a proposer or a filter of the campaign uses this version; else it is the newest of the ledger at the
    level of the campaign's deciding rung."""
    is_ready: bool
    """Whether the predictions are there; a server reads a large law for some seconds, and has them when it is asked
    again."""
    fault: str | None
    """Why the law cannot be read; null if it can."""
    p_hit: float | None
    """Chance to meet all objectives, as if their errors were independent; null once an answer is known, and where the
    law lacks a quantity or no objective has limits."""
    predictions: tuple[LawPrediction, ...]
    """One for each quantity that decides an objective of the campaign."""


class CampaignStory(AnswerModel):
    """The history of a candidate in a campaign."""

    campaign: str
    """Name of the campaign."""
    state: str
    """State of the campaign."""
    scheduler: str
    """Name of the campaign's scheduler."""
    standing: str
    """Standing of the candidate: open, pending, held, vetoed, dropped or settled."""
    rung: str
    """The rung that the candidate waits for, or the rung that decided."""
    verdict: str | None
    """Final verdict; null while the candidate is open."""
    reason: str | None
    """Reason for the verdict."""
    detail: str
    """The reason with numbers."""
    p_hit: float | None
    """Probability to be a hit: 1 or 0 once decided; null where it is unknown, or where no objective has limits."""
    expected_utility: float | None
    """Expected utility, in (0, 1]; the utility, once every objective is answered; 0 if people could not obtain what
    decides; null before a paid rung answers."""
    basis: str | None
    """Weakest source of the two: `answered`, `measured` (an imported value decides), `law`, `line` (a straight line
    from a lower rung) or `none`."""
    utility: float | None
    """Weighted geometric mean of the desirabilities, in (0, 1]; null until the candidate is settled."""
    hit: bool
    """Whether the candidate is a hit."""
    in_seeds: bool
    """Whether a seed file contains the candidate."""
    proposed: tuple[ProposalStory, ...]
    """Proposals of the candidate, oldest first."""
    rungs: tuple[RungStory, ...]
    """History at each rung, in ladder order."""
    people: tuple[PersonWord, ...]
    """Decisions of people, oldest first."""
    core_seconds: float
    """Cost of the candidate to this campaign, in core-seconds."""
    costs: Mapping[str, float]
    """Cost of the candidate to this campaign by resource, in the units of the campaign file."""
    outlook: Outlook | None
    """Outlook of the candidate; null unless it waits in a campaign scheduled by `priced`."""
    laws: tuple[LawStory, ...]
    """Predictions of the fitted laws that the campaign uses; if it uses none, of the newest law of the ledger at the
    level of its deciding rung."""
    p_limits: float | None
    """Probability that the true values lie within the limits of all objectives, the errors of the methods included;
    null where one is unknown, before the deciding rungs have answered, and where no objective has limits."""
    p_limits_unknown: tuple[str, ...]
    """The objectives that leave `p_limits` unknown although the deciding rung has answered."""
    p_limits_measured: tuple[str, ...]
    """The objectives whose part of `p_limits` comes from an experimental value of the candidate, not from the error of
    a method."""
    margins: tuple[LimitMargin, ...]
    """Distance of each objective's value from its limits, with the two uncertainties."""
    contradicted: str | None
    """The imported values that contradict the verdict, as a sentence; null where none does."""
    decided_by_measurement: tuple[PropertyValue, ...]
    """Imported experimental values that decide objectives, under `measured: decide` of the campaign file."""
    same_compound: tuple[SameCompound, ...]
    """Hits with its standard InChIKey, at most three, which count once with it; empty where there are none, and for a
    candidate that is neither a hit nor open."""
    known_elsewhere: tuple[str, ...]
    """Labels of the rungs whose answers others have brought, and which the campaign has not taken up: it does so while
    it runs and has places. The standing, `p_hit` and `p_limits` of an open candidate do not rest on them yet."""
    why: str
    """Explanation of the standing, in a sentence or two."""


class Children(AnswerModel):
    """Candidates that were made from a candidate."""

    n: int
    """Number of these candidates."""
    first: tuple[CandidateName, ...]
    """The first few of them."""


class Explanation(CandidateName):
    """Everything that the ledger holds on a candidate."""

    inchikey: str | None
    """InChIKey; null for a candidate without one."""
    formula: str
    """Sum formula."""
    charge: int
    """Total charge, in elementary charges."""
    multiplicity: int
    """Spin multiplicity."""
    atoms: int
    """Number of atoms, with hydrogen."""
    first_seen: datetime
    """Time at which the candidate entered the ledger (UTC)."""
    also_given_as: tuple[str, ...]
    """Other texts that were proposed for this candidate."""
    children: Children
    """Candidates that were made from this one."""
    campaigns: tuple[CampaignStory, ...]
    """History of the candidate, one entry per campaign."""
    imported: tuple[ImportedValue, ...]
    """Values imported from files."""
    other_evidence: tuple[EvidenceStory, ...]
    """Evidence under other settings, from other work, or superseded."""


class RefusedProposal(ProposedText):
    """A proposal that was refused, or that the filter of its proposer dropped."""

    campaign: str
    """Name of the campaign."""
    reason: str | None
    """Reason for the refusal."""
    detail: str
    """The reason in words."""
    filtered: FilterStory | None
    """Decision of the proposer's filter; null for a text that was refused."""


class RefusedText(AnswerModel):
    """A proposed text that did not become a candidate."""

    key: None = None
    """Always null: there is no candidate."""
    text: str
    """The text that the question named."""
    refused: tuple[RefusedProposal, ...]
    """Proposals of the text, oldest first."""

    @property
    def became(self) -> str:
        """The fate of the text, as the end of a sentence."""
        if any(proposal.filtered for proposal in self.refused):
            return "was proposed, and the law of a filter dropped it: sciagent promote lets it go on"
        return "was proposed and refused: it did not become a candidate"
