"""The report as a single HTML file that needs no network, no server and no other file.

The template engine escapes all text of models and people. A content security policy allows only the two scripts of
sciagent, by their hashes, and forbids every request.
"""

from __future__ import annotations

import base64
import hashlib
import inspect
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from sqlalchemy.engine import Connection

from sciagent import __version__
from sciagent.domain.evidence import file_of
from sciagent.report.analysis import (
    audit,
    ladder,
    objectives,
    policies,
    prediction_scores,
    proposers,
    rejections,
    summary,
)
from sciagent.report.page import episodes
from sciagent.report.parts import agreement, candidates, charts, glossary, wording
from sciagent.store.campaign_state.campaigns import CampaignRow, all_rungs, rungs
from sciagent.store.database.artifacts import ArtifactStore
from sciagent.store.results.evidence import know_properties
from sciagent.store.views import campaign_counts, progress, queries

if TYPE_CHECKING:
    from jinja2 import Environment

VIEWER = "3Dmol-min.js"


def page(connection: Connection, row: CampaignRow, artifacts: ArtifactStore, top: int = candidates.CARDS) -> str:
    """Returns the report of a campaign as HTML. top: number of best candidates that get a card."""
    know_properties(connection)
    return environment().get_template("report.html.j2").render(**_contents(connection, row, artifacts, top))


def _contents(connection: Connection, row: CampaignRow, artifacts: ArtifactStore, top: int) -> Mapping[str, Any]:
    steps = rungs(connection, row.id)
    status = campaign_counts.counts(connection, row)
    passages = queries.funnel(connection, row)
    with_control = all_rungs(connection, row.id)
    spent = ladder.spending(connection, row, with_control)
    unit, factor = wording.cost_unit(spent.total)
    cards = candidates.cards(connection, row, steps, artifacts, top)
    table = candidates.table(connection, row, steps)
    pairs = ladder.compared(connection, row, steps)
    judged, measured = agreement.opinions(connection, row), ladder.imported(connection, row, steps)
    fallen = rejections.rejections(connection, row, steps)
    unread = rejections.unread(connection, row)
    who = [p for p in proposers.results(connection, row) if p.proposals or p.turns]
    limits, terminal = row.has_limits, summary.terminal(row, passages)
    scores = prediction_scores.prediction_scores(connection, row)
    geometries = {card.candidate.key[:12]: card.geometry for card in cards if card.geometry}
    return {
        "row": row,
        "spec": row.shown_spec,
        "status": status,
        "limits": limits,
        "answers": summary.answers(row, status, passages, spent, cards, table, pairs, fallen, unread, judged, measured),
        "passages": passages,
        "spending": spent,
        "cost_unit": unit,
        "cost_factor": factor,
        "finders": who[: proposers.LISTED],
        "finders_left_out": len(who[proposers.LISTED :]),
        "finder_words": proposers.summary_sentence(who[0], row) if len(who) == 1 else "",
        "predicted": scores,
        "predictions": {c.candidate.key: prediction_scores.listed(c.origin.predicted, row.units) for c in cards},
        "shown_episodes": episodes.selection(connection, row),
        "policies": policies.policies(connection, row),
        "cards": cards,
        "glossary": glossary.WORDS,
        "table": table,
        "audit": audit.audit(connection, row),
        "pairs": [*pairs, *measured],
        "rejections": fallen,
        "unread": unread,
        "blocks": queries.events(connection, row, "safety_blocked", limit=50),
        "rungs": ladder.of_rungs(connection, row, with_control),
        "reused": ladder.of_reuse(connection, row, with_control),
        "amendments": queries.amendments(connection, row),
        "directives": [d for d in queries.directives(connection, row) if d["verb"] != "amend"],
        "sessions": rejections.sessions(connection, row),
        "objective_charts": objectives.objective_charts(connection, row, steps),
        "data": {"rows": table.rows, "pictures": table.pictures, "named": table.named, "geometries": geometries},
        "funnel_chart": charts.funnel(passages),
        "cost_chart": charts.costs(spent.by_rung),
        "progress_chart": charts.progress({"": progress.progress(connection, row, terminal.rung)}, limits),
        "finders_chart": charts.progress(proposers.progress(connection, row, who), limits),
        "prediction_charts": _learning(scores),
    }


MAX_LEARNING = 4  # number of charts of prediction scores by episode
FEWEST = 10  # smallest number of answers for a chart


def _learning(scores: list[prediction_scores.PredictionAccuracy]) -> list[tuple[str, str, str]]:
    """Returns (rung, property, chart) where a proposer has enough answers in more than one bin of its episodes."""
    groups: dict[tuple[str, str, str], dict[str, list[tuple[float, float]]]] = {}
    for score in scores:
        if score.record.n >= FEWEST:
            points = [((b.first + b.last) / 2, b.record.crps) for b in score.bins]
            groups.setdefault((score.rung, score.property, score.unit), {})[score.proposer] = points
    shown = [(key, lines) for key, lines in groups.items() if any(len(points) > 1 for points in lines.values())]
    return [
        (rung, name, charts.learning(lines, wording.with_unit("mean CRPS", unit), str(place)))
        for place, ((rung, name, unit), lines) in enumerate(shown[:MAX_LEARNING])
    ]


def policy(scripts: tuple[str, ...] = ("report.js", VIEWER)) -> str:
    """Returns a content security policy: no requests, only these scripts, and inline styles, which SVG needs."""
    digests = [base64.b64encode(hashlib.sha256(asset(name).encode()).digest()).decode() for name in scripts]
    hashes = " ".join(f"'sha256-{digest}'" for digest in digests) or "'none'"
    return (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )


@lru_cache(maxsize=8)
def asset(name: str) -> str:
    return files("sciagent.report").joinpath("static", name).read_text(encoding="utf-8").replace("\r\n", "\n")


@lru_cache(maxsize=1)
def environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    templates = Environment(
        loader=PackageLoader("sciagent.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.globals |= {"asset": asset, "policy": policy, "version": __version__, "now": lambda: datetime.now(UTC)}
    templates.filters |= {"when": lambda moment: moment.strftime("%Y-%m-%d %H:%M:%S UTC")}
    templates.filters |= {"source": Markup, "file_of": file_of}
    templates.filters |= dict(inspect.getmembers(wording, inspect.isfunction))
    return templates
