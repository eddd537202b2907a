"""The answer of `sciagent rewards show --guards`: signs that policies exploit their rewards, by policy."""

from __future__ import annotations

from sciagent.domain.answers.candidate_and_value_answers import AnswerModel


class GuardEstimate(AnswerModel):
    """A mean with its standard error."""

    value: float
    error: float | None
    """Standard error, with episodes as the independent units; None if there are too few."""
    n: int
    """Number of episodes or candidates behind the value."""


class ControlCheck(AnswerModel):
    """The candidates of a policy on which the control ran, a rung that decides nothing and checks the rewards."""

    reward: GuardEstimate
    """Payoff of the candidates by the terminal rung."""
    control: GuardEstimate
    """Score of the same candidates by the control: 1 within its limits, else 0; without limits, the utility."""
    gap: GuardEstimate
    """Payoff less score."""
    growth: GuardEstimate | None
    """The gap less the gap of the first policy; None for the first policy."""
    p: float | None
    """Probability of at least this growth if the policy were like the first one."""


class PromiseCheck(AnswerModel):
    """Whether the law, the model that predicts results, promises more of a policy's candidates than they are worth.

    Their worth is estimated from candidates that were drawn by lot and verified, whatever the law promised.
    """

    expected: GuardEstimate
    """Expected payoff of the candidates that were not verified."""
    verified: GuardEstimate
    """Payoff of the candidates that were drawn for the terminal rung, weighted to stand for the others."""
    index: GuardEstimate
    """The exploitation index: expected less verified."""
    p: float | None
    """Probability of at least this index if the promises were right on average."""


class PolicyDiversity(AnswerModel):
    """The diversity of a policy's proposals."""

    scaffolds: float | None
    """Expected number of distinct scaffolds in `sample` new proposals; None if there are fewer."""
    distance: GuardEstimate | None
    """Tanimoto distance from a new molecule to the nearest other one of its group or episode, from 0 to 1."""
    repeats: float | None
    """Share of the proposals that were known already; None without proposals."""
    refused: float | None
    """Share of the proposals that are no candidates; None without proposals."""


class PolicyGuards(AnswerModel):
    """The guards of one policy."""

    policy: str
    """Name under which the policy was asked."""
    hash: str | None
    """Hash of its weights; None if the ledger does not know it."""
    episodes: int
    undecided: int
    """Episodes whose outcome is not decided; they are not in `reward`."""
    proposals: int
    reward: GuardEstimate | None
    """Outcome of an episode, in hits or utility."""
    control: ControlCheck | None
    """None if the control answered for none of its candidates."""
    promise: PromiseCheck | None
    """None if no lot was drawn, or if the rewards expect nothing of unverified candidates."""
    diversity: PolicyDiversity
    alarms: tuple[str, ...]
    """Sentences on what points to an exploited reward; empty if nothing does."""

    @property
    def label(self) -> str:
        """The name with the first digits of the hash."""
        if self.hash is None or "@" in self.policy:
            return self.policy
        return f"{self.policy}@{self.hash[:8]}"


class RewardGuards(AnswerModel):
    """The guards of all policies of a campaign, by the evidence that a version of its rewards was made from."""

    control: str | None
    """Label of the control's rung; None if the campaign has none."""
    sample: int
    """Number of new proposals to which `scaffolds` refers."""
    level: float
    """Probability of a false alarm in the whole table, for each of the two tests."""
    policies: tuple[PolicyGuards, ...]
    """In the order of their first episodes."""


class GuardedVersion(AnswerModel):
    """The version of rewards that guards belong to."""

    version: int
    campaign: str
    watermark: int
    """Number of the last evidence that the rewards were made from."""


class ShownGuards(RewardGuards, GuardedVersion):
    """The guards as of a version of rewards."""
