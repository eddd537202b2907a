"""The agreement of a judge's scores with the terminal rung's values for the same candidates.

The two are values of different properties. So the score, in [0, 1], is compared with the utility, in (0, 1], of the
terminal rung's values. The rank correlation shows whether the judge orders candidates as the terminal rung does. The
bias, score minus utility, shows whether its scores are too high.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from sqlalchemy.engine import Connection

from sciagent.domain.answers.status import JudgeAgreement
from sciagent.domain.objectives import Direction, Objective, Window, utility
from sciagent.domain.properties import JUDGED_MARGIN, JUDGED_SCORE
from sciagent.domain.quantities import Censoring
from sciagent.report.parts.agreement import FEWEST, KEPT, RankAgreement, agreement
from sciagent.store.campaign_state.campaigns import CampaignRow, RungRow, rungs
from sciagent.store.results import laws, pooled
from sciagent.store.views import report_queries

OPINIONS = frozenset({JUDGED_SCORE.name, JUDGED_MARGIN.name})


def opinions(connection: Connection, row: CampaignRow) -> tuple[JudgeAgreement, ...]:
    """Returns the agreement of each judge with the terminal rung above it, over the candidates that both answered.

    These candidates are not a random sample, since candidates that a judge or a gate rejected were not verified.
    """
    ladder = rungs(connection, row.id)
    terminal = next(r for r in ladder if r.name == row.spec["terminal"])
    below = ladder[: terminal.position]
    judges = [r for r in below if report_queries.measures(connection, r, JUDGED_SCORE.name)]
    if not judges:
        return ()
    objectives = [
        _objective(objective) for objective in row.spec.get("objectives", ()) if objective["property"] not in OPINIONS
    ]
    ids = laws.climbed(connection, row.id, terminal.position, KEPT)
    settled = {i: utility(objectives, values) for i, values in _values(connection, terminal, ids).items()}
    answers = []
    for judge in judges:
        opinions = _values(connection, judge, ids)
        pairs = [
            (worth, opinions[id_][JUDGED_SCORE.name])
            for id_, worth in settled.items()
            if worth is not None and JUDGED_SCORE.name in opinions.get(id_, ())
        ]
        answers.append(_compared(judge.name, terminal.name, pairs))
    return tuple(answers)


def decided_by_opinion(row: CampaignRow) -> bool:
    """Returns whether all objectives of the campaign are opinions of a language model."""
    wanted = {objective["property"] for objective in row.spec.get("objectives", ())}
    return bool(wanted) and wanted <= OPINIONS


def _compared(judge: str, terminal: str, pairs: list[tuple[float, float]]) -> JudgeAgreement:
    """Returns the agreement of a judge. pairs: (utility, score) of each candidate."""
    utilities, scores = np.array(pairs, dtype=float).reshape(-1, 2).T
    figures = agreement(utilities, scores, shared_scale=True)
    return JudgeAgreement(
        rung=judge,
        against=terminal,
        n=figures.n,
        spearman=figures.spearman,
        low=figures.low,
        high=figures.high,
        bias=figures.bias,
        words=_words(judge, terminal, figures),
    )


def _words(judge: str, terminal: str, figures: RankAgreement) -> str:
    n, bias = figures.n, figures.bias
    if bias is None:
        return (
            f"how far {judge} can be trusted is not known: {n} candidates with an answer of {terminal}, {FEWEST} needed"
        )
    off = f"its score lies {abs(bias):.2f} {'above' if bias > 0 else 'below'} the utility on average, n = {n}"
    if figures.spearman is None:
        return f"{judge} or {terminal} calls all candidates equally good; {off}"
    width = "" if figures.low is None else f" [{figures.low:.2f}, {figures.high:.2f}]"
    return f"{judge} ranks candidates as {terminal} does with Spearman {figures.spearman:.2f}{width}; {off}"


def _values(connection: Connection, rung: RungRow, ids: list[int]) -> dict[int, dict[str, float]]:
    """Returns {candidate id: {property: pooled value in its canonical unit}}, without censored values."""
    answers = pooled.values_of(connection, ids, rung.verifier, rung.verifier_version, rung.settings_hash)
    return {
        i: {name: q.value for name, q in values.items() if q.censoring is Censoring.NONE}
        for i, values in answers.items()
        if values is not None
    }


def _objective(canonical: Mapping[str, Any]) -> Objective:
    """Returns an objective from the canonical form of the spec."""
    accept, ramp = canonical["accept"], canonical.get("ramp")
    return Objective(
        canonical["property"],
        Direction(canonical["direction"]),
        Window(*accept) if accept else None,
        canonical.get("scale", 1.0),
        (ramp[0], ramp[1]) if ramp else None,
        canonical["weight"],
    )
