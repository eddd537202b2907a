"""Pages: the campaigns, one campaign live, its candidates, and one candidate; and a chemist's decisions on them.

Figures that are too dear to be counted at every reload are kept for a while, and say how old they are.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Annotated

from fastapi import Query
from markupsafe import Markup
from sqlalchemy.engine import Connection
from starlette.requests import Request
from starlette.responses import Response

from sciagent.campaign.core.built_campaign_and_derived_values import Built
from sciagent.campaign.core.create_and_open import open_campaign_for_people
from sciagent.campaign.people import amend_pause_stop_and_resume, hold_release_veto_and_promote
from sciagent.campaign.people.find_candidate import FoundCandidate, matching_ids, resolve
from sciagent.cockpit import api_of_campaigns_and_candidates
from sciagent.domain.answers.candidate_and_value_answers import BestCandidate
from sciagent.domain.answers.explanation import Explanation
from sciagent.domain.answers.figures import Figure
from sciagent.domain.answers.status_and_comparison import CampaignCounts
from sciagent.domain.people import Right
from sciagent.domain.states_and_needs import Standing, Verb
from sciagent.errors import UsageError
from sciagent.report import status_best_trace
from sciagent.report.analysis.rung_spending_comparisons_and_worth import Spending, spending
from sciagent.report.explain_candidate import explain_named
from sciagent.report.explanation_text import VERBOSE, law_heading, paragraphs
from sciagent.report.parts import campaign_charts, campaign_figures, wording
from sciagent.report.parts.candidate_stories import as_seen
from sciagent.report.parts.law_predictions import held_text, interval_text, predicted_text
from sciagent.store.campaign_state import campaigns, directives
from sciagent.store.campaign_state.campaigns import CampaignRow
from sciagent.store.database.ledger import Ledger
from sciagent.store.lab import tasks
from sciagent.store.lab.blind_measurements import ALL_SEEN, UnseenAnswers, unseen_answers, unseen_in
from sciagent.store.results.candidates import ids_of
from sciagent.store.results.evidence import register_ledger_properties
from sciagent.store.views import campaign_counts_and_remarks, queues_campaigns_and_recent_failures
from sciagent.store.views.report_candidates import (
    RankedCandidate,
    campaign_members,
    candidates_in_order,
    hits_best_first,
)
from sciagent.web.app import Feature
from sciagent.web.route_rules_and_request_guards import (
    LARGEST,
    CampaignName,
    Count,
    Pages,
    PathText,
    QueryText,
    RouteRule,
)
from sciagent.web.site_context_and_ticker import (
    NOTHING_REFUSED,
    RefusedForm,
    WebSite,
    campaign_of,
    next_page,
    notation_of,
    redirect_to,
    refused,
    site_of,
    texts,
    visitor,
    wants_json,
)

SHARE = 0.1  # largest share of the time of one thread for counting
LARGE_SHARE = 0.03  # the same for a large campaign, since drivers may need the same database and cores
LARGE = 100_000  # candidates from which a campaign is large
MAX_AGE_SECONDS = 60.0  # longest time between two counts
MIN_WAIT_SECONDS = 0.5  # shortest time after which a page asks again
MAX_STEPS = 200  # points of the chart
LAW_WAIT_SECONDS = 1.0  # time after which a page asks again for a law that is being read
TRAIL = replace(VERBOSE, laws=False)  # a page shows the predictions of laws apart
MAX_BEST = 12  # candidates on the page of a campaign
_DRAWING = threading.Lock()  # all threads of the process share matplotlib's settings


class Charts:
    """The figures of a campaign at one moment; each is drawn when somebody looks at it first."""

    def __init__(self, figures: Sequence[Figure]) -> None:
        self._figures = {figure.name: figure for figure in figures}
        self._drawn: dict[str, Markup] = {}
        self.seconds = 0.0
        """Processor time that drawing has taken so far, in seconds."""

    def figure(self, name: str) -> Figure | None:
        """Returns the figure of this name; None if it has nothing to show."""
        return self._figures.get(name)

    def chart(self, name: str) -> Markup:
        """Returns the drawn figure of this name."""
        with _DRAWING:  # may wait until matplotlib is loaded
            began = time.thread_time()  # drawing waits for nothing
            if name not in self._drawn:
                self._drawn[name] = Markup(campaign_charts.drawn_figure(self._figures[name]))
            self.seconds += time.thread_time() - began
            return self._drawn[name]


@dataclass(frozen=True)
class CampaignFigures:
    """The figures of a campaign at one moment."""

    status: CampaignCounts
    best: Sequence[BestCandidate]
    """Hits, and the best candidates that have a value of an objective."""
    spending: Spending
    """The costs that were booked for each rung."""
    charts: Charts
    """Hits, or the best utility, against each resource and time; and spending over time."""
    counted_at: datetime
    """Time at which they were counted."""
    at: datetime
    """Last time at which they were known to be those of the ledger; it never goes back."""
    tick: int
    """Number of the ledger's state at that moment; it grows when the ledger changes."""
    took: float
    """Seconds that counting took."""

    @property
    def age(self) -> float:
        """Returns the seconds since they were counted."""
        return (datetime.now(UTC) - self.counted_at).total_seconds()

    @property
    def seconds_to_next_count(self) -> float:
        """Returns the seconds from this count to the next."""
        share = LARGE_SHARE if self.status.candidates >= LARGE else SHARE
        return min(MAX_AGE_SECONDS, (self.took + self.charts.seconds) / share)


@dataclass
class _Kept:
    """The last figures of a campaign. One thread at a time holds the lock and counts."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    figures: CampaignFigures | None = None


class Figures:
    """Counts the figures of a campaign when somebody looks and the ledger has changed, and shares them."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._kept: dict[str, _Kept] = {}
        self._lock = threading.Lock()

    def warm(self) -> None:
        """Draws once, so that matplotlib is loaded before the first count and does not add to its time."""
        with _DRAWING:
            campaign_charts.costs("core_seconds", {"rung": {"passed": 1.0}})

    def wait(self, figures: CampaignFigures, tick: int) -> float | None:
        """Returns the seconds after which a page asks again; None if the figures are of the present tick."""
        if figures.tick == tick:
            return None
        return max(MIN_WAIT_SECONDS, figures.seconds_to_next_count - figures.age)

    def of(self, campaign: str, tick: int) -> CampaignFigures:
        """Returns the figures of a campaign. tick: the present one.

        Figures of an earlier tick are counted again, unless that would take too much of the time. While one thread
        counts, the others get the earlier figures.
        """
        with self._lock:
            kept = self._kept.setdefault(campaign, _Kept())
        before = kept.figures
        if before is not None and before.tick == tick:
            return self._confirmed(kept, before)  # nothing has changed since
        if before is not None and before.age < before.seconds_to_next_count:
            return before
        must_wait = before is None  # without earlier figures
        if kept.lock.acquire(blocking=must_wait):
            try:
                if kept.figures is before:  # else another thread has just counted
                    kept.figures = self._not_before(kept.figures, self._count(campaign, tick))
            finally:
                kept.lock.release()
        if kept.figures is None:  # the thread that counted has failed
            return self._count(campaign, tick)
        return kept.figures

    def _not_before(self, before: CampaignFigures | None, figures: CampaignFigures) -> CampaignFigures:
        """Returns figures with a time that is not before that of the earlier ones, which may have been confirmed while
        these were counted."""
        return figures if before is None or before.at <= figures.at else replace(figures, at=before.at)

    def _confirmed(self, kept: _Kept, figures: CampaignFigures) -> CampaignFigures:
        """Returns the figures with the present time, which is kept, so that the time on the page never goes back."""
        confirmed = replace(figures, at=datetime.now(UTC))
        with self._lock:
            if kept.figures is not None and kept.figures.counted_at == figures.counted_at:
                kept.figures = confirmed
        return confirmed

    def _count(self, campaign: str, tick: int) -> CampaignFigures:
        """Reads the figures of a campaign from the ledger."""
        began = time.monotonic()
        at = datetime.now(UTC)
        with self._ledger.read() as connection:
            register_ledger_properties(connection)
            row = campaigns.get(connection, campaign)
            status = campaign_counts_and_remarks.counts(connection, row)
            best = status_best_trace.best(connection, row, MAX_BEST)
            spent = spending(connection, row, campaigns.all_rungs(connection, row.id))
            charts = Charts(campaign_figures.campaign_figures(connection, row, points=MAX_STEPS))
        objective_names = {objective["property"] for objective in row.spec["objectives"]}
        shown = [candidate for candidate in best if candidate.hit or _has_value(candidate, objective_names)]
        took = time.monotonic() - began
        return CampaignFigures(status, shown, spending=spent, charts=charts, counted_at=at, at=at, tick=tick, took=took)


def best_seen(connection: Connection, best: Sequence[BestCandidate], unseen: UnseenAnswers) -> Sequence[BestCandidate]:
    """Returns the best candidates, which all visitors share, without those on which a blind rung hides answers from
    this one: their order would tell what was measured."""
    if not unseen.by_candidate:
        return best
    ids_by_key = ids_of(connection, [candidate.key for candidate in best])
    return [candidate for candidate in best if not unseen.of(ids_by_key[candidate.key])]


def _has_value(candidate: BestCandidate, names: Collection[str]) -> bool:
    """Returns whether a rung or an import has a value of one of these properties."""
    imported = {value.property for value in candidate.imported}
    return not imported.union(candidate.values).isdisjoint(names)


@dataclass(frozen=True)
class Axis:
    """A choice for the x axis of the charts on a campaign's page."""

    name: str
    """Name of a resource, or `time`."""
    words: str


@dataclass(frozen=True)
class ShownFigure:
    """A figure with its chart."""

    figure: Figure
    chart: Markup


def tiles_of(figures: CampaignFigures) -> list[str]:
    """Returns the names of the two resources that are shown large: the first, and where people have tasks the second
    one, too. Else the second is `wall_minutes`."""
    resources = figures.spending.resources or ["core_seconds"]
    shown = resources[:2] if figures.status.tasks is not None else resources[:1]
    return [*shown, "wall_minutes"][:2]


def cost_cells(spending: Spending) -> dict[str, dict[str, str]]:
    """Returns {resource: {rung, `proposer` or `in all`: amount}}, with equal digits in each column."""
    cells = {}
    for resource in spending.resources:
        booked = [spending.cost(rung, resource) for rung in spending.rungs]
        texts = wording.column_of_amounts(resource, [*booked, spending.total(resource)])
        cells[resource] = dict(zip([*spending.rungs, "in all"], texts, strict=True))
    return cells


def limits_in_words(status: CampaignCounts) -> list[str]:
    """Returns what is used of each limit of the whole budget, such as `240 of 1 000 EUR`."""
    limits = []
    for name, limit in status.budget.items():
        if isinstance(limit, int | float):
            used = status.proposals if name == "proposals" else status.spent.get(name, 0.0)
            limits.append(wording.used_of_limit(name, used, limit))
    return limits


def axes_of(figures: CampaignFigures, unseen: UnseenAnswers = ALL_SEEN) -> list[Axis]:
    """Returns the axes that can be chosen: each resource that was booked, and time if anything was found. unseen:
    answers of the campaign that are hidden, of which a hit would tell."""
    axes = [Axis(resource, wording.resource_words(resource)) for resource in figures.spending.resources]
    if not unseen.by_candidate and _reached_figure(figures, "time") is not None:
        axes.append(Axis("time", "time"))
    return axes


def _reached_figure(figures: CampaignFigures, axis: str) -> str | None:
    """Returns the name of the figure of hits, or of the best utility, against an axis; None without one."""
    reached = "hits" if figures.status.hits_defined else "utility"
    name = f"{reached}_over_time" if axis == "time" else f"{reached}_against_{axis}"
    return None if figures.charts.figure(name) is None else name


def shown_figures(figures: CampaignFigures, axis: str, unseen: UnseenAnswers = ALL_SEEN) -> list[ShownFigure]:
    """Returns what was found against an axis, and the spending over time if the axis is a resource. unseen: answers of
    the campaign that are hidden: the best utility tells the best value, and a hit its side of a limit."""
    reached = None if unseen.by_candidate else _reached_figure(figures, axis)
    names = (reached, f"{axis}_over_time")
    shown = []
    for name in names:
        figure = None if name is None else figures.charts.figure(name)
        if figure is not None:
            shown.append(ShownFigure(figure, figures.charts.chart(figure.name)))
    return shown


MAX_FIND = 200  # characters of a search that the page repeats
PAGE = 24  # campaigns, candidates or tasks on a page
STEER: dict[str, Callable[[Built, FoundCandidate, str, str], hold_release_veto_and_promote.SteeringResult]] = {
    "hold": hold_release_veto_and_promote.hold,
    "release": hold_release_veto_and_promote.release,
    "veto": hold_release_veto_and_promote.veto,
    "promote": hold_release_veto_and_promote.promote,
}
POSSIBLE = {
    Standing.OPEN: ("hold", "promote", "veto"),
    Standing.PENDING: ("hold", "release", "promote", "veto"),  # one that was held may still have a running job
    Standing.HELD: ("release", "veto"),
    Standing.VETOED: ("release",),
    Standing.DROPPED: ("promote", "veto"),
    Standing.SETTLED: ("veto",),
}
"""The decisions that a person can make on a candidate, by its standing."""
READ = RouteRule(Right.READ, of="campaign")
DECIDE = RouteRule(Right.DECIDE, of="campaign")
pages = Pages()


@pages.get("/", RouteRule(Right.READ))
def start(request: Request) -> Response:
    """Shows the tasks to a person who only measures, and the campaigns to everybody else."""
    rights = visitor(request).rights
    only_measures = rights.may(Right.WORK) and not rights.may(Right.DECIDE)
    return redirect_to("/tasks" if only_measures else "/campaigns")


@pages.get("/campaigns", RouteRule(Right.READ))
def campaign_list(request: Request, after: Count = 0) -> Response:
    """Shows the campaigns that the person may see, the newest first."""
    site = site_of(request)
    among = visitor(request).rights.campaigns(Right.READ)
    with site.ledger.read() as connection:
        listed = queues_campaigns_and_recent_failures.campaigns_page(
            connection, among=among, before=after or None, limit=PAGE + 1
        )
    more = listed[PAGE - 1].id if len(listed) > PAGE else 0
    return site.page(request, "campaigns.html.j2", campaigns=listed[:PAGE], more=more)


@pages.get("/campaigns/{campaign}", READ)
def campaign_page(request: Request, campaign: CampaignName, by: QueryText = "") -> Response:
    """Shows one campaign: what became of its candidates, what is spent and left, and the best.

    by: the resource on the x axis of the chart of hits, or `time`; any other text: the most telling resource.
    """
    return _campaign_page(request, campaign, by)


def _campaign_page(
    request: Request, campaign: str, by: str = "", status: int = 200, beside: RefusedForm = NOTHING_REFUSED
) -> Response:
    """Returns the page of a campaign. by: as for `campaign_page`. beside: its form, if that was refused."""
    site = site_of(request)
    shared_figures = site.shared(Figures)
    figures = shared_figures.of(campaign, site.ticker.tick)
    row = campaign_of(request)
    viewer = visitor(request).viewer
    with site.ledger.read() as connection:
        lab_tasks = tasks.listed(connection, campaign_id=row.id, limit=PAGE)
        of_tasks = unseen_answers(connection, viewer, [task.candidate_id for task in lab_tasks])
        unseen = unseen_in(connection, viewer, row.id)
        best = best_seen(connection, figures.best, unseen)
        # not among the cached figures, which may be a minute old
        progress = campaign_counts_and_remarks.job_progress(connection, row.id)
        if unseen.by_candidate:
            figures = replace(figures, status=status_best_trace.counts_seen(connection, row, unseen))
    out = [replace(task, claimed_by=None) if of_tasks.hides(task) else task for task in lab_tasks]
    may = {right: visitor(request).rights.may(right, row.id) for right in Right}
    objectives = {objective["property"] for objective in row.spec["objectives"]}
    shown: dict[str, object] = {
        "figures": figures,
        "status": figures.status,
        "objectives": objectives,
        "out": out,
        "progress": progress,
        "best": best,
        "is_blind": bool(unseen.by_candidate),
        "may": may,
    }
    shown["again"] = shared_figures.wait(figures, site.ticker.tick)
    axes = axes_of(figures, unseen)
    known = [axis.name for axis in axes]
    chosen = by if by in known else next(iter(known), "")
    shown |= {"axes": axes, "by": chosen, "shown_figures": shown_figures(figures, chosen, unseen)}
    shown["costs"] = cost_cells(figures.spending)
    shown |= {"tiles": tiles_of(figures), "limits": limits_in_words(figures.status)}
    shown |= {
        name: getattr(wording, name)
        for name in ("amount_below_name", "let_through_sentence", "resource_words", "used_of_limit")
    }
    return site.page(request, "campaign.html.j2", status, **shown, beside=beside)


@pages.get("/campaigns/{campaign}/candidates", READ)
def candidate_list(
    request: Request,
    campaign: CampaignName,
    after: Annotated[int, Query(ge=-1, le=LARGEST)] = -1,
    hits: QueryText = "",
    find: QueryText = "",
) -> Response:
    """Shows the candidates as they came, or the hits, the best first, a page at a time; `find` opens one by SMILES or
    the beginning of its key.

    after: sequence number of the last candidate shown before, or the number of hits shown before; -1: the first page.
    """
    site = site_of(request)
    row = campaign_of(request)
    with site.ledger.read() as connection:
        found_words = ""
        if find.strip():
            found = _found(connection, row, find)
            if isinstance(found, str):
                return redirect_to(f"/campaigns/{campaign}/candidates/{found}")
            listed = found.candidates
            found_words = found.words
            next_after = -1
        elif hits:
            skip = max(after, 0)
            listed = hits_best_first(connection, row, skip, PAGE + 1)
            next_after = skip + PAGE
        else:
            listed = candidates_in_order(connection, row, after, PAGE + 1)
            next_after = listed[PAGE - 1].seq if len(listed) > PAGE else -1
        unseen = unseen_answers(connection, visitor(request).viewer, [candidate.id for candidate in listed])
        ladder = campaigns.rungs(connection, row.id)
    page = [as_seen(candidate, ladder, unseen) for candidate in listed[:PAGE]]
    if hits:
        page = [candidate for candidate in page if candidate.hit]
    notation = notation_of(row.spec["subject"])
    more = next_after if len(listed) > PAGE else None
    return site.page(
        request, "candidates.html.j2", row=row, notation=notation, candidates=page, more=more, hits=hits, after=after,
        find=find.strip()[:MAX_FIND], found_words=found_words,
    )  # fmt: skip


@dataclass(frozen=True)
class FoundCandidates:
    """The result of a search that does not lead to one candidate."""

    candidates: list[RankedCandidate]
    words: str
    """The sentence of the page on the search."""


def _found(connection: Connection, row: CampaignRow, text: str) -> str | FoundCandidates:
    """Returns the key of the one candidate that a text names, or what was found instead."""
    try:
        return resolve(connection, row, text).key
    except UsageError:
        ids = matching_ids(connection, text)
    members = list(campaign_members(connection, row, sorted(ids)).values())
    if members:
        return FoundCandidates(members, f"{len(members)} candidates have this name.")
    notation = notation_of(row.spec["subject"])
    if ids:
        return FoundCandidates([], "It is known, but is no candidate of this campaign.")
    return FoundCandidates([], f"No candidate of this campaign has this name, {notation}, InChIKey or key.")


@pages.get("/campaigns/{campaign}/candidates/{key}", READ)
def candidate_page(request: Request, campaign: CampaignName, key: PathText) -> Response:
    """Shows one candidate: evidence with its origin and revisions, and why it is where it is."""
    return _candidate_page(request, key)


def _candidate_page(request: Request, key: str, status: int = 200, beside: RefusedForm = NOTHING_REFUSED) -> Response:
    """Returns the page of a candidate. beside: the form of decisions, if that was refused."""
    site = site_of(request)
    row = campaign_of(request)
    answer = explain_named(site.ledger, key, row, visitor(request).viewer, api_of_campaigns_and_candidates.LAW_PATIENCE)
    if not isinstance(answer, Explanation):
        raise UsageError(f"{key[:80]} {answer.became}")
    may = {right: visitor(request).rights.may(right, row.id) for right in Right}
    story = answer.campaigns[0]  # only this campaign was asked for
    shown = {"row": row, "answer": answer, "story": story, "trail": list(paragraphs(answer, TRAIL))}
    is_reading = any(not law.is_ready and law.fault is None for law in story.laws)
    shown["again"] = LAW_WAIT_SECONDS if is_reading else None
    shown |= {"law_heading": law_heading, "predicted_text": predicted_text, "interval_text": interval_text}
    shown["held_text"] = held_text
    shown["verbs"] = POSSIBLE[Standing(story.standing)]
    evidence = [(rung.rung, rung.evidence) for rung in story.rungs if rung.evidence is not None]
    for rung in story.rungs:
        evidence += [(f"{rung.rung}, one of several", replicate) for replicate in rung.replicates]
    labels = {(own.verifier, own.settings_hash): label for label, own in evidence}
    for other in answer.other_evidence:
        label = labels.get((other.verifier, other.settings_hash), "")
        evidence.append((label, other))
    return site.page(request, "candidate.html.j2", status, **shown, evidence=evidence, may=may, beside=beside)


@pages.post("/campaigns/{campaign}/state", DECIDE)
def state(request: Request, campaign: CampaignName) -> Response:
    """Pauses, stops or resumes a campaign. A campaign without a driver is handed to the dispatcher."""
    try:
        _change_state(request, campaign)
    except UsageError as error:
        status, beside = refused(request, error, "steer", "why")
        return (
            beside.as_answer(status) if wants_json(request) else _campaign_page(request, campaign, "", status, beside)
        )
    return next_page(request, f"/campaigns/{campaign}")


def _change_state(request: Request, campaign: str) -> None:
    """Carries out the decision that the form states. Raises UsageError."""
    site = site_of(request)
    who = visitor(request).who
    said = texts(request)
    verb = said.get("verb", "")
    if verb in (Verb.PAUSE, Verb.STOP):
        amend_pause_stop_and_resume.instruct(
            site.ledger, campaign, Verb(verb), who, directives.checked_reason(said.get("why", ""))
        )
    elif verb == Verb.RESUME:
        driver = amend_pause_stop_and_resume.wake(site.ledger, campaign, who)
        if driver is None:
            amend_pause_stop_and_resume.hand_in(site.ledger, campaign, who)
    else:
        raise UsageError(f'"{verb[:20]}" is nothing that a campaign does')


@pages.post("/campaigns/{campaign}/candidates/{key}", DECIDE)
def steer(request: Request, campaign: CampaignName, key: PathText) -> Response:
    """Holds, releases, vetoes or promotes a candidate."""
    site = site_of(request)
    said = texts(request)
    built = open_campaign_for_people(site.ledger, campaign)
    with site.ledger.read() as connection:
        register_ledger_properties(connection)
        named = resolve(connection, built.row, key, with_filtered=said.get("verb") == "promote")
    try:
        act = STEER.get(said.get("verb", ""))
        if act is None:
            raise UsageError("say whether to hold, release, veto or promote it")
        act(built, named, visitor(request).who, directives.checked_reason(said.get("why", "")))
    except UsageError as error:
        status, beside = refused(request, error, "steer", "why")
        return beside.as_answer(status) if wants_json(request) else _candidate_page(request, named.key, status, beside)
    return next_page(request, f"/campaigns/{campaign}/candidates/{named.key}")


def _warm(site: WebSite) -> None:
    site.shared(Figures).warm()


FEATURE = Feature((pages, api_of_campaigns_and_candidates.pages), _warm)
