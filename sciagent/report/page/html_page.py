"""Builds the report as a single HTML file that needs no network, no server and no other file, and writes it.

`page` returns the HTML, `write_report` writes it, `GrowingReport` rewrites it while the campaign runs, and
`write_episodes` writes the pages of the episodes.

The template engine escapes all text of models and people. A content security policy allows only the two scripts of
sciagent, by their hashes, and forbids every request.
"""

from __future__ import annotations

import base64
import hashlib
import inspect
import os
import tempfile
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy.engine import Connection

from sciagent import __version__
from sciagent.chemistry.subjects.registry_and_candidate_dispatch import subject_of
from sciagent.domain.answers.figures import Figure
from sciagent.domain.candidate_and_its_names_in_files import name_rows
from sciagent.domain.evidence_keys_and_pooled_replicates import file_of
from sciagent.domain.lab_messages_and_codes import NOT_OBTAINED
from sciagent.errors import UsageError
from sciagent.report.analysis import (
    audit_results,
    distributions_and_front,
    law_of_campaign,
    policy_guard_charts,
    proposers_and_prediction_scores,
    rejections_and_sessions,
    rung_spending_comparisons_and_worth,
    summary,
)
from sciagent.report.page import episode_transcripts
from sciagent.report.parts import (
    best_candidate_cards_and_table,
    campaign_charts,
    campaign_figures,
    rung_and_judge_agreement,
    wording,
)
from sciagent.store.campaign_state import campaigns
from sciagent.store.campaign_state.campaigns import CampaignRow, all_rungs, rungs
from sciagent.store.database.ledger import ArtifactStore, Ledger
from sciagent.store.results.evidence import register_ledger_properties
from sciagent.store.views import campaign_counts_and_remarks
from sciagent.store.views.report_episodes_and_proposers import episode_count
from sciagent.store.views.report_queries import amendments, directives, events, funnel

if TYPE_CHECKING:
    from jinja2 import Environment


VIEWER = "3Dmol-min.js"  # the script that shows molecules in three dimensions


def page(
    connection: Connection,
    row: CampaignRow,
    artifacts: ArtifactStore,
    top: int = best_candidate_cards_and_table.MAX_CARDS,
) -> str:
    """Returns the report of a campaign as HTML. top: number of best candidates that get a card."""
    register_ledger_properties(connection)
    return environment().get_template("report.html.j2").render(**_contents(connection, row, artifacts, top))


def _contents(connection: Connection, row: CampaignRow, artifacts: ArtifactStore, top: int) -> Mapping[str, Any]:
    """Returns the values of the report's template."""
    decisive_rungs = rungs(connection, row.id)  # without the controls
    status = campaign_counts_and_remarks.counts(connection, row)
    passages = funnel(connection, row)
    rungs_with_controls = all_rungs(connection, row.id)
    spent = rung_spending_comparisons_and_worth.spending(connection, row, rungs_with_controls)
    main_resource = spent.resources[0] if spent.resources else "core_seconds"
    unit, factor = wording.resource_unit(main_resource, spent.total(main_resource))
    cards = best_candidate_cards_and_table.cards(connection, row, decisive_rungs, artifacts, top)
    table = best_candidate_cards_and_table.table(connection, row, decisive_rungs)
    rung_pairs = rung_spending_comparisons_and_worth.compared(connection, row, decisive_rungs)
    import_pairs = rung_spending_comparisons_and_worth.compared_with_imports(connection, row, decisive_rungs)
    rejected = rejections_and_sessions.rejections(connection, row, decisive_rungs)
    unread = rejections_and_sessions.fruitless_proposals(connection, row)
    active_proposers = [p for p in proposers_and_prediction_scores.results(connection, row) if p.proposals or p.turns]
    scores = proposers_and_prediction_scores.prediction_scores(connection, row)
    geometries = {
        card.candidate.key[: best_candidate_cards_and_table.KEY_DIGITS]: card.geometry
        for card in cards
        if card.geometry
    }
    answers = summary.answers(
        row,
        status,
        passages,
        spent,
        best=cards,
        table=table,
        pairs=rung_pairs,
        rejections=rejected,
        unread=unread,
        judged=rung_and_judge_agreement.judge_agreements(connection, row),
        measured=import_pairs,
    )
    only_proposer = active_proposers[0] if len(active_proposers) == 1 else None
    return {
        "row": row,
        "spec": row.shown_spec,
        "status": status,
        "limits": row.has_limits,
        "answers": answers,
        "passages": passages,
        "spending": spent,
        "main_resource": main_resource,
        "cost_unit": unit,
        "cost_factor": factor,
        "finders": active_proposers[: proposers_and_prediction_scores.LISTED],
        "finders_left_out": len(active_proposers[proposers_and_prediction_scores.LISTED :]),
        "finder_words": ""
        if only_proposer is None
        else proposers_and_prediction_scores.summary_sentence(only_proposer, row),
        "predicted": scores,
        "predictions": {
            c.candidate.key: proposers_and_prediction_scores.listed(c.origin.predicted, row.units) for c in cards
        },
        "shown_episodes": episode_transcripts.selection(connection, row),
        "policies": policy_guard_charts.policies(connection, row),
        "cards": cards,
        "glossary": wording.WORDS,
        "not_obtained": NOT_OBTAINED,
        "subject_words": subject_of(row.spec["subject"]).words,
        "uncertainties": summary.headline_uncertainties(row, cards),
        "table": table,
        "audit": audit_results.audit(connection, row),
        "pairs": [*rung_pairs, *import_pairs],
        "laws": law_of_campaign.law_sections(connection, row, decisive_rungs),
        "said": law_of_campaign.chances_of_filter(connection, row, decisive_rungs),
        "rejections": rejected,
        "unread": unread,
        "blocks": _blocked(connection, row),
        "rungs": rung_spending_comparisons_and_worth.rung_provenance(connection, row, rungs_with_controls),
        "reused": rung_spending_comparisons_and_worth.reused_by_rung(connection, row, rungs_with_controls),
        "amendments": amendments(connection, row),
        "directives": [d for d in directives(connection, row) if d["verb"] != "amend"],
        "sessions": rejections_and_sessions.sessions(connection, row),
        "objective_charts": distributions_and_front.objective_charts(connection, row, decisive_rungs),
        "data": {"rows": table.rows, "pictures": table.pictures, "named": table.named, "geometries": geometries},
        "funnel_chart": campaign_charts.funnel(passages),
        "cost_charts": [
            (resource, campaign_charts.costs(resource, spent.by_rung(resource))) for resource in spent.resources
        ],
        "figures": _drawn(campaign_figures.campaign_figures(connection, row)),
        "finders_charts": _drawn(
            proposers_and_prediction_scores.figure_by_proposer(connection, row, active_proposers, main_resource)
        ),
        "prediction_charts": _learning(scores),
    }


@dataclass(frozen=True)
class DrawnFigure:
    """A figure with its chart."""

    figure: Figure
    chart: str
    """An `svg` element."""


def _blocked(connection: Connection, row: CampaignRow) -> tuple[int, list[tuple[datetime, Mapping[str, object]]]]:
    """Returns the number of safety blocks, and the latest ones with the text that people read."""
    n, latest = events(connection, row, "safety_blocked", limit=50)
    shown = subject_of(row.spec["subject"]).shown
    return n, [(at, {**payload, "text": shown(payload.get("text", ""))}) for at, payload in latest]


def _drawn(figures: Iterable[Figure]) -> list[DrawnFigure]:
    return [DrawnFigure(figure, campaign_charts.drawn_figure(figure)) for figure in figures]


MAX_LEARNING = 4  # number of charts of prediction scores by episode
MIN_ANSWERS = 10  # answers from which a proposer has a line


def _learning(scores: list[proposers_and_prediction_scores.PredictionAccuracy]) -> list[tuple[str, str, str]]:
    """Returns (rung, property, chart) where a proposer has enough answers in more than one bin of its episodes."""
    # {(rung, property, unit): {proposer: points (number of the episode, CRPS)}}
    groups: dict[tuple[str, str, str], dict[str, list[tuple[float, float]]]] = {}
    for score in scores:
        if score.record.n >= MIN_ANSWERS:
            points = [((b.first + b.last) / 2, b.record.crps) for b in score.bins]
            lines = groups.setdefault((score.rung, score.property, score.unit), {})
            lines[score.proposer] = points
    shown = list[tuple[str, str, str]]()
    for (rung, name, unit), lines in groups.items():
        has_a_line = any(len(points) > 1 for points in lines.values())
        if has_a_line and len(shown) < MAX_LEARNING:
            label = wording.with_unit("mean CRPS", unit)
            chart = campaign_charts.learning(lines, label, salt=str(len(shown)))
            shown.append((rung, name, chart))
    return shown


def content_security_policy(scripts: tuple[str, ...] = ("report.js", VIEWER)) -> str:
    """Returns a content security policy: no requests, only these scripts, and inline styles, which SVG needs."""
    hashes = []
    for name in scripts:
        digest = hashlib.sha256(asset(name).encode()).digest()
        hashes.append(f"'sha256-{base64.b64encode(digest).decode()}'")
    script_sources = " ".join(hashes) or "'none'"
    return (
        f"default-src 'none'; script-src {script_sources}; style-src 'unsafe-inline'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )


@lru_cache(maxsize=8)
def asset(name: str) -> str:
    """Returns the text of a file in the folder `static`."""
    return files("sciagent.report").joinpath("static", name).read_text(encoding="utf-8").replace("\r\n", "\n")


@lru_cache(maxsize=1)
def environment() -> Environment:
    """Returns the template engine with the functions and filters of the reports."""
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    templates = Environment(
        loader=PackageLoader("sciagent.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.globals |= {
        "asset": asset,
        "policy": content_security_policy,
        "version": __version__,
        "now": lambda: datetime.now(UTC),
    }
    templates.filters |= {"when": lambda moment: moment.strftime("%Y-%m-%d %H:%M:%S UTC")}
    templates.filters |= {"source": Markup, "file_of": file_of, "name_rows": name_rows}
    templates.filters |= dict(inspect.getmembers(wording, inspect.isfunction))
    return templates


MIN_INTERVAL_SECONDS = 30.0  # between two reports
WRITING_SHARE = 0.03  # largest share of the time for writing reports


def write_report(ledger: Ledger, name: str, path: Path, top: int | None = None) -> None:
    """Writes the report of the campaign in its current state. Raises UnknownNameError."""
    with ledger.read() as connection:
        row = campaigns.get(connection, name)
        text = page(connection, row, ledger.artifacts, top=top or best_candidate_cards_and_table.MAX_CARDS)
    replace_text(path, text)


def replace_text(path: Path, text: str) -> None:
    """Replaces the file atomically: readers see the old or the new text, and concurrent writers do not mix."""
    handle, part = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-", suffix=".part")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        umask = os.umask(0)  # the only way to read the umask is to set it
        os.umask(umask)
        Path(part).chmod(0o666 & ~umask)
        Path(part).replace(path)
    except BaseException:  # an interrupt, too, must leave no partial file
        Path(part).unlink(missing_ok=True)
        raise


def checked_report_path(path: Path) -> Path:
    """Returns the path. Raises UsageError if a report cannot be written there."""
    if path.suffix.lower() not in (".html", ".htm"):
        raise UsageError(f'{path}: the report is an HTML file; give a name that ends in ".html"')
    if not path.parent.is_dir():
        raise UsageError(f"{path}: the folder {path.parent} does not exist")
    if path.is_dir():
        raise UsageError(f"{path} is a folder")
    return path


def checked_folder(folder: Path) -> Path:
    """Returns the folder. Raises UsageError if pages cannot be written there."""
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is a file; name a folder for the pages of the episodes")
    if not folder.parent.is_dir():
        raise UsageError(f"{folder}: the folder {folder.parent} does not exist")
    return folder


def write_episodes(ledger: Ledger, name: str, folder: Path) -> int:
    """Writes a page per episode and a list that links to them. Returns the number of episodes. Raises UnknownNameError
    if there is no such campaign. At most one episode is in memory."""

    def write(file: str, template: str, **more: Any) -> None:
        replace_text(folder / file, environment().get_template(template).render(campaign=name, **more))

    with ledger.read() as connection:
        row = campaigns.get(connection, name)
        number = episode_count(connection, row)
        # file of episode n at place n, with no file before the first and after the last
        files = ["", *(f"{n:04d}.html" for n in range(1, number + 1)), ""]
        folder.mkdir(exist_ok=True)
        lines = []
        for n, episode in enumerate(episode_transcripts.every(connection, row), start=1):
            write(files[n], "episode_page.html.j2", shown=episode, before=files[n - 1], after=files[n + 1])
            lines.append((files[n], episode._replace(turns=[]), episode.tokens, episode.seconds))
        write("index.html", "episode_list.html.j2", lines=lines)
    return len(lines)


class GrowingReport:
    """Rewrites the report in its own thread while a campaign runs, and once more at its end.

    `step` returns at once. A report that cannot be written does not stop the campaign; `fault` holds the reason.
    """

    def __init__(self, ledger: Ledger, name: str, path: Path, seconds: float = MIN_INTERVAL_SECONDS) -> None:
        self._ledger = ledger
        self._name = name
        self.path = path
        self._seconds = seconds
        self._thread: threading.Thread | None = None
        self._due = time.monotonic() + seconds
        self.fault: str | None = None

    def step(self) -> None:
        """Starts to write a report if one is due and none is being written."""
        if time.monotonic() < self._due or (self._thread is not None and self._thread.is_alive()):
            return
        self._due = float("inf")  # until this report is written
        self._thread = threading.Thread(target=self._write, name="report", daemon=True)
        self._thread.start()

    def finish(self) -> None:
        """Writes the report of the campaign's final state, and returns when it is written."""
        if self._thread is not None:
            self._thread.join()
        self._write()

    def _write(self) -> None:
        begun = time.monotonic()
        try:
            write_report(self._ledger, self._name, self.path)
            self.fault = None
        except Exception as error:  # noqa: BLE001 - the campaign matters more than its report
            self.fault = f"{type(error).__name__}: {error}"
        now = time.monotonic()
        self._due = now + max(self._seconds, (now - begun) / WRITING_SHARE)
