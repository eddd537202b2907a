"""The report as a single HTML file that needs no network, no server and no other file.

The template engine escapes everything that models and people wrote. A content security policy admits only our two
scripts, named by their hashes, and forbids every request.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from sqlalchemy.engine import Connection

from sciagent import __version__
from sciagent.report.analysis import audit, ladder, prediction_scores, proposers, rejections, rung_value, summary
from sciagent.report.page import viewer
from sciagent.report.parts import candidates, charts, opinions, provenance
from sciagent.report.parts.drawing import cost_unit
from sciagent.report.parts.wording import amounts, cost, many, number, unit_sign, wish, words
from sciagent.store.campaign_state.campaigns import CampaignRow, rungs
from sciagent.store.database.artifacts import ArtifactStore
from sciagent.store.views import queries, report_progress, report_queries

if TYPE_CHECKING:
    from jinja2 import Environment

MAX_SOURCE = 100_000  # characters of the campaign file that are shown
VIEWER = "3Dmol-min.js"


def page(connection: Connection, row: CampaignRow, artifacts: ArtifactStore, top: int = candidates.CARDS) -> str:
    """The whole report of a campaign at this snapshot. top: how many of the best candidates get a card."""
    return environment().get_template("report.html.j2").render(**_contents(connection, row, artifacts, top))


def _contents(connection: Connection, row: CampaignRow, artifacts: ArtifactStore, top: int) -> Mapping[str, Any]:
    steps = rungs(connection, row.id)
    status = queries.counts(connection, row)
    passages = report_queries.funnel(connection, row)
    spent = ladder.spending(connection, row, steps)
    cards = candidates.cards(connection, row, steps, artifacts, top)
    table = candidates.table(connection, row, steps)
    pairs = ladder.compared(connection, row, steps)
    judged = opinions.opinions(connection, row)
    fallen = rejections.rejections(connection, row, steps, list(candidates.named_order(row.spec)))
    unread = rejections.unread(connection, row)
    blocked, blocks = rejections.safety_blocks(connection, row)
    end = summary.terminal(row, passages)
    limits = summary.has_limits(row)
    progress = report_progress.progress(connection, row, end.rung) if end and spent.total else []
    unit, factor = cost_unit(spent.total)
    who = proposers.figures_by_proposer(connection, row)
    several = [proposer for proposer in who if proposer.proposals or proposer.turns]
    foretold = prediction_scores.prediction_scores(connection, row)
    begun, changed = report_queries.dates(connection, row)
    geometries = {c.candidate.key[:12]: {"text": c.geometry, "format": c.geometry_format} for c in cards if c.geometry}
    return {
        "row": row, "spec": row.spec, "status": status, "version": __version__, "now": datetime.now(UTC),
        "begun": begun, "changed": changed, "limits": limits,
        "answers": summary.answers(row, status, passages, spent, cards, table, pairs, fallen, unread, judged),
        "passages": passages, "funnel_chart": charts.funnel(passages) if status.candidates else "",
        "spending": spent, "cost_unit": unit, "cost_factor": factor,
        "cost_chart": charts.costs([(r.rung, r.by_fate) for r in spent.rows]) if spent.total else "",
        "progress_chart": charts.progress(progress, limits) if _moved(progress) else "",
        "finders": several[: proposers.LISTED], "finders_left_out": max(len(several) - proposers.LISTED, 0),
        "finder_words": proposers.summary_sentence(several[0], row) if len(several) == 1 else "",
        "finders_chart": _side_by_side(connection, row, several, limits), "foretold": foretold,
        "foretold_charts": _learning(foretold), "shown_episodes": viewer.selection(connection, row),
        "cards": cards, "table": table, "columns": table.columns,
        "audit": audit.audit(connection, row),
        "value": rung_value.value_of_rungs(connection, row),
        "pairs": [*pairs, *ladder.imported(connection, row, steps)], "rejections": fallen, "unread": unread,
        "blocked": blocked, "blocks": blocks, "rungs": provenance.of_rungs(connection, row, steps),
        "reused": provenance.of_reuse(connection, row, steps),
        "amendments": provenance.of_amendments(connection, row),
        "directives": provenance.of_directives(connection, row), "sessions": rejections.sessions(connection, row),
        "source": row.source[:MAX_SOURCE], "source_cut": len(row.source) > MAX_SOURCE,
        "data": {"rows": table.rows, "geometries": geometries}, "has_3d": bool(geometries),
        "style": asset("report.css"), "script": asset("report.js"), "viewer": asset(VIEWER),
        "viewer_licence": asset("3Dmol.LICENSE.txt"), "policy": policy(),
    }  # fmt: skip


def _moved(steps: list[report_progress.ProgressStep]) -> bool:
    return bool(steps) and (steps[-1].hits > 0 or steps[-1].utility is not None)


def _side_by_side(connection: Connection, row: CampaignRow, who: list[proposers.ProposerFigures], limits: bool) -> str:
    lines = proposers.progress(connection, row, who) if len(who) > 1 else {}
    return charts.by_proposer(lines, limits) if lines else ""


MAX_LEARNING = 4  # charts of predictions along the episodes
FEWEST = 10  # a chart needs at least so many answers


def _learning(scores: list[prediction_scores.PredictionAccuracy]) -> list[tuple[str, str, str]]:
    """(rung, property, chart) wherever a proposer has enough answers, in more than one bin of its episodes."""
    groups: dict[tuple[str, str, str], dict[str, list[tuple[float, float]]]] = {}
    for score in (candidate_score for candidate_score in scores if candidate_score.record.n >= FEWEST):
        points = [((b.first + b.last) / 2, b.record.crps) for b in score.bins]
        groups.setdefault((score.rung, score.property, score.unit), {})[score.proposer] = points
    shown = [(key, lines) for key, lines in groups.items() if any(len(points) > 1 for points in lines.values())]
    return [
        (
            rung,
            name,
            charts.learning(lines, "mean CRPS" if unit == "1" else f"mean CRPS / {unit_sign(unit)}", str(place)),
        )
        for place, ((rung, name, unit), lines) in enumerate(shown[:MAX_LEARNING])
    ]


def policy(scripts: tuple[str, ...] = ("report.js", VIEWER)) -> str:
    """A content security policy: no requests, no scripts but these of ours; inline styles, as SVG has them."""
    hashes = " ".join(f"'sha256-{_sha256(asset(name))}'" for name in scripts) or "'none'"
    return (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )


def _sha256(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


@lru_cache(maxsize=8)
def asset(name: str) -> str:
    return files("sciagent.report").joinpath("static", name).read_text(encoding="utf-8").replace("\r\n", "\n")


def as_json(value: Any) -> str:
    """JSON for a `script` element, escaped so that it cannot end the element."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


@lru_cache(maxsize=1)
def environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    made = Environment(
        loader=PackageLoader("sciagent.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(
        amounts=amounts,
        words=words,
        unit=unit_sign,
        cost=cost,
        wish=wish,
        many=many,
        number=number,
        when=candidates.when,
        drawn=_drawn,
        source=Markup,
        json=lambda value: Markup(as_json(value)),
    )
    return made


_SVG = re.compile(r"<(script|foreignObject|iframe|image|a)\b|\bon[a-z]+\s*=|javascript:", re.IGNORECASE)


def _drawn(svg: str) -> Any:
    """Mark an SVG of our own as safe. Raises ValueError if it contains active content."""
    from markupsafe import Markup

    if _SVG.search(re.sub(r">[^<]*<", "><", svg)):
        raise ValueError("a drawing holds something that is no drawing")
    return Markup(svg)


__all__ = ["as_json", "asset", "environment", "page", "policy"]
