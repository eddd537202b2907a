"""The agreement of two rungs: rank correlation with its interval, and errors if both have the same scale.

A judge's score is compared with the utility that the terminal rung's values give the same candidates.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy.engine import Connection

from sciagent.domain.answers.status_and_comparison import JudgeAgreement
from sciagent.domain.objectives import Direction, Objective, Window, utility
from sciagent.domain.properties_and_levels import JUDGED_MARGIN, JUDGED_SCORE
from sciagent.domain.quantities import Censoring
from sciagent.store.campaign_state.campaigns import CampaignRow, RungRow, rungs
from sciagent.store.results import laws_and_audits
from sciagent.store.views.report_candidates import rung_values
from sciagent.store.views.report_queries import has_measured

if TYPE_CHECKING:
    from sciagent.scheduling.array_types import Array

OPINIONS = frozenset({JUDGED_SCORE.name, JUDGED_MARGIN.name})
MAX_CANDIDATES = 5000  # for the agreement of rungs in an audit, or of a judge
MIN_PAIRS = 5  # pairs of values that a correlation or an error needs
# the zero and the scale of these energies depend on the method, so two levels are compared by rank alone
PROPERTIES_ON_METHOD_SCALE = frozenset({"homo", "lumo", "homo_lumo_gap", "total_energy", "singlet_triplet_gap"})


class Pair(NamedTuple):
    """A candidate's values of one property at two levels, in the canonical unit."""

    x: float
    x_uncertainty: float | None
    y: float
    y_uncertainty: float | None
    hit: bool


@dataclass(frozen=True)
class RankAgreement:
    """The agreement of two levels on the same candidates."""

    n: int
    """Number of pairs."""
    spearman: float | None
    """Rank correlation; None where it is not defined."""
    low: float | None
    """Lower end of its 95 % interval."""
    high: float | None
    """Upper end of its 95 % interval."""
    mae: float | None
    """Mean absolute difference; None if the two levels have different scales."""
    bias: float | None
    """Mean of y - x; None if the two levels have different scales."""


def agreement(x: Array, y: Array, shared_scale: bool) -> RankAgreement:
    """Returns the agreement of two levels. x, y: (n,) values of the same candidates at the levels, in one unit."""
    n = len(x)
    if n < MIN_PAIRS:
        return RankAgreement(n, spearman=None, low=None, high=None, mae=None, bias=None)
    rho = spearman(x, y)
    low = None
    high = None
    ends = None if rho is None else interval(rho, n)
    if ends is not None:
        low, high = ends
    mae = float(abs(y - x).mean()) if shared_scale else None
    bias = float((y - x).mean()) if shared_scale else None
    return RankAgreement(n, rho, low, high, mae, bias)


def spearman(x: Array, y: Array) -> float | None:
    """Returns Pearson's correlation of the ranks, with mean ranks for ties; None if x or y is constant."""
    if len(x) < 2 or x.min() == x.max() or y.min() == y.max():
        return None
    import numpy as np

    from sciagent.scheduling.audit_of_dropped import weighted_spearman

    return weighted_spearman(x, y, np.full(len(x), 1 / len(x)))


def interval(rho: float, n: int, z: float = 1.959964) -> tuple[float, float] | None:
    """Returns the 95 % interval by Fisher's transform with variance (1 + rho**2 / 2) / (n - 3), for n >= 4. Returns
    None for rho = 1 or -1, where the transform is infinite and a width of 0 would be wrong.

    Source: Bonett and Wright, Psychometrika 65, 23 (2000).
    """
    if abs(rho) > 1.0 - 1e-9:
        return None
    centre = math.atanh(rho)
    half = z * math.sqrt((1 + rho * rho / 2) / (n - 3))
    return math.tanh(centre - half), math.tanh(centre + half)


def judge_agreements(connection: Connection, row: CampaignRow) -> tuple[JudgeAgreement, ...]:
    """Returns the agreement of each judge with the terminal rung above it, over the candidates that both answered.

    Judge and terminal rung give values of different properties. So the score, in [0, 1], is compared with the utility,
    in (0, 1], of the terminal rung's values. The rank correlation shows whether the judge orders candidates as the
    terminal rung does. The bias, score minus utility, shows whether the judge's scores are too high. The candidates are
    not a random sample, since candidates that a judge or a gate rejected were not verified.
    """
    ladder = rungs(connection, row.id)
    terminal = next(rung for rung in ladder if rung.name == row.spec["terminal"])
    below = ladder[: terminal.position]
    judges = [rung for rung in below if has_measured(connection, rung, JUDGED_SCORE.name)]
    if not judges:
        return ()
    stated = row.spec.get("objectives", ())
    objectives = [stated_objective(objective) for objective in stated if objective["property"] not in OPINIONS]
    ids = laws_and_audits.ids_with_answers_at(connection, row.id, terminal.position, MAX_CANDIDATES)
    terminal_values = exact_values(connection, terminal, ids)
    utilities = {id_: utility(objectives, values) for id_, values in terminal_values.items()}
    compared = []
    for judge in judges:
        judged_values = exact_values(connection, judge, ids)
        pairs = []
        for id_, terminal_utility in utilities.items():
            score = judged_values.get(id_, {}).get(JUDGED_SCORE.name)
            if terminal_utility is not None and score is not None:
                pairs.append((terminal_utility, score))
        compared.append(_compared(judge.name, terminal.name, pairs))
    return tuple(compared)


def decided_by_opinion(row: CampaignRow) -> bool:
    """Returns whether all objectives of the campaign are opinions of a language model."""
    wanted = {objective["property"] for objective in row.spec.get("objectives", ())}
    return bool(wanted) and wanted <= OPINIONS


def _compared(judge: str, terminal: str, pairs: list[tuple[float, float]]) -> JudgeAgreement:
    """Returns the agreement of a judge. pairs: (utility, score) of each candidate."""
    import numpy as np

    utilities, scores = np.array(pairs, dtype=float).reshape(-1, 2).T
    figures = agreement(utilities, scores, shared_scale=True)
    return JudgeAgreement(
        rung=judge,
        against=terminal,
        words=_words(judge, terminal, figures),
        n=figures.n,
        spearman=figures.spearman,
        low=figures.low,
        high=figures.high,
        bias=figures.bias,
    )


def _words(judge: str, terminal: str, figures: RankAgreement) -> str:
    """Returns the agreement in words."""
    n = figures.n
    bias = figures.bias
    if bias is None:
        have = f"{n} candidates with an answer of {terminal}, {MIN_PAIRS} needed"
        return f"how far {judge} can be trusted is not known: {have}"
    off = f"its score lies {abs(bias):.2f} {'above' if bias > 0 else 'below'} the utility on average, n = {n}"
    if figures.spearman is None:
        return f"{judge} or {terminal} calls all candidates equally good; {off}"
    width = "" if figures.low is None else f" [{figures.low:.2f}, {figures.high:.2f}]"
    return f"{judge} ranks candidates as {terminal} does with Spearman {figures.spearman:.2f}{width}; {off}"


def exact_values(connection: Connection, rung: RungRow, ids: Sequence[int]) -> dict[int, dict[str, float]]:
    """Returns {candidate id: {property: pooled value in its canonical unit}}, without censored values."""
    exact = {}
    for id_, quantities in rung_values(connection, ids, rung).items():
        exact[id_] = {
            name: quantity.value
            for name, quantity in (quantities or {}).items()
            if quantity.censoring is Censoring.NONE
        }
    return exact


def stated_objective(canonical: Mapping[str, Any]) -> Objective:
    """Returns an objective from the canonical form of the spec."""
    accept = canonical["accept"]
    ramp = canonical.get("ramp")
    return Objective(
        property=canonical["property"],
        direction=Direction(canonical["direction"]),
        accept=Window(*accept) if accept else None,
        scale=canonical.get("scale", 1.0),
        ramp=(ramp[0], ramp[1]) if ramp else None,
        weight=canonical["weight"],
    )
