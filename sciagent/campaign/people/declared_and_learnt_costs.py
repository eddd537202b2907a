"""The cost of a verifier on a structure before it is paid: as declared, and as earlier jobs in a ledger teach."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sciagent.campaign.core.built_campaign_and_derived_values import BuiltRung
from sciagent.campaign.people.verify_calculate_and_add import subject_for
from sciagent.store.database.ledger import Ledger
from sciagent.store.job_queue.reservations_and_bookings import cost_ratios
from sciagent.verification.cost_models import declared_cost, expected_ratio


@dataclass(frozen=True)
class CostOfStructure:
    """The cost of a verifier on a structure, before it runs."""

    text: str
    """The structure as it was given."""
    atoms: int
    refused: str | None
    """Why the verifier refuses the structure, at no cost; None if it does not."""
    declared: Mapping[str, float]
    """{resource: amount} as the verifier declares; empty for a structure that it refuses."""
    earlier_jobs: int
    """Jobs in the ledger with the same settings, at most the last 200."""
    ratio: float
    """Expected ratio of actual to declared core-seconds: 1 without earlier jobs."""

    @property
    def expected_core_seconds(self) -> float:
        """The declared core-seconds times the ratio."""
        return self.ratio * self.declared.get("core_seconds", 0.0)


def costs_of(rung: BuiltRung, texts: Sequence[str], ledger: Ledger | None) -> list[CostOfStructure]:
    """Returns the costs of a rung on structures, in their order. Nothing is computed.

    rung: the last of those that `rungs_for` returns. ledger: whose jobs teach the ratio; None for none. Raises
    InvalidCandidateError for a text that is no structure.
    """
    verifier = rung.verifier
    subject = subject_for(verifier.name)
    ratios: list[float] = []
    if ledger is not None:
        with ledger.read() as connection:
            ratios = cost_ratios(connection, *verifier.computation)
    costs = []
    for text in texts:
        candidate = subject.read(text)
        refusal = verifier.accepts(candidate)
        costs.append(
            CostOfStructure(
                text=text,
                atoms=candidate.n_atoms,
                refused=None if refusal is None else f"{refusal.reason}: {refusal.detail}",
                declared=dict(declared_cost(verifier, candidate)) if refusal is None else {},
                earlier_jobs=len(ratios),
                ratio=expected_ratio(ratios),
            )
        )
    return costs
