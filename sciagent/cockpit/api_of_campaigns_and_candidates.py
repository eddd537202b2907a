"""The HTTP API of campaigns and their candidates, which reads only: the answers of `status`, `best` and `explain`."""

from __future__ import annotations

from typing import Annotated

from fastapi import HTTPException, Path, Query
from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy.engine import Connection
from starlette.requests import Request

from sciagent.domain.answers.candidate_and_value_answers import CandidateList
from sciagent.domain.answers.explanation import Explanation
from sciagent.domain.answers.status_and_comparison import CampaignList, ListedCampaign, Status
from sciagent.domain.people import Right, Rights
from sciagent.domain.states_and_needs import CampaignState
from sciagent.errors import UsageError
from sciagent.report import status_best_trace
from sciagent.report.explain_candidate import explain_named
from sciagent.store.campaign_state import campaigns
from sciagent.store.lab.blind_measurements import unseen_answers, unseen_in
from sciagent.store.results.evidence import register_ledger_properties
from sciagent.store.views.queues_campaigns_and_recent_failures import campaigns_page
from sciagent.store.views.report_candidates import candidates_in_order, hits_best_first
from sciagent.web.route_rules_and_request_guards import Pages, RouteRule
from sciagent.web.site_context_and_ticker import campaign_of, next_path, site_of, visitor

READ = RouteRule(Right.READ, of="campaign")
LARGEST = 2**31 - 1  # largest integer of PostgreSQL
LAW_PATIENCE = 0.1  # seconds for which an answer waits for a law; without it, the answer says that it is read
MAX_PAGE = 100  # campaigns or candidates of a page
CampaignName = Annotated[str, Path(max_length=200, description="Name of the campaign.", examples=["soluble"])]
pages = Pages(tag="campaigns")


class PageAsked(BaseModel):
    """Which page of a list is asked for."""

    model_config = ConfigDict(extra="forbid")

    limit: int = Field(24, ge=1, le=MAX_PAGE, description="Most entries of a page.")
    cursor: int = Field(
        -1, ge=-1, le=LARGEST, description="Where the page begins, as `next` of the page before says; -1: the first."
    )


class CandidatesAsked(PageAsked):
    """Which candidates are asked for."""

    hits: bool = Field(False, description="Only hits, the best first; without it all candidates as they came.")


@pages.get("/campaigns", RouteRule(Right.READ), CampaignList)
def list_campaigns(request: Request, asked: Annotated[PageAsked, Query()]) -> CampaignList:
    """Lists the campaigns that the account may see, the newest first."""
    among = visitor(request).rights.campaigns(Right.READ)
    before = asked.cursor if asked.cursor >= 0 else None
    with site_of(request).ledger.read() as connection:
        found = campaigns_page(connection, among=among, before=before, limit=asked.limit + 1)
    page = found[: asked.limit]
    listed = [
        ListedCampaign(
            campaign=line.name,
            state=CampaignState(line.state),
            subject=line.subject,
            created_at=line.created_at,
            updated_at=line.updated_at,
        )
        for line in page
    ]
    cursor = page[-1].id if len(found) > asked.limit else None
    return CampaignList(campaigns=tuple(listed), next=next_path(request, cursor))


@pages.get("/campaigns/{campaign}", READ, Status)
def read_campaign(request: Request, campaign: CampaignName) -> Status:
    """Shows a campaign with the figures of `sciagent status --json`; those that are made of values are left out for
    whoever measures blind."""
    row = campaign_of(request)
    with site_of(request).ledger.read() as connection:
        register_ledger_properties(connection)
        answer = status_best_trace.status(connection, row, unseen_in(connection, visitor(request).viewer, row.id))
        return _without_names(connection, answer, visitor(request).rights)


def _without_names(connection: Connection, answer: Status, rights: Rights) -> Status:
    """Returns a status without the names of other campaigns that a person may not see."""
    if answer.tasks is None or not answer.tasks.elsewhere:
        return answer
    named = {}
    for name, n in answer.tasks.elsewhere.items():
        if rights.may(Right.READ, campaigns.get(connection, name).id):
            named[name] = n
    return answer.model_copy(update={"tasks": answer.tasks.model_copy(update={"elsewhere": named})})


@pages.get("/campaigns/{campaign}/candidates", READ, CandidateList)
def list_candidates(
    request: Request, campaign: CampaignName, asked: Annotated[CandidatesAsked, Query()]
) -> CandidateList:
    """Lists the candidates of a campaign, page by page, each as `sciagent best --json` shows it."""
    row = campaign_of(request)
    with site_of(request).ledger.read() as connection:
        register_ledger_properties(connection)
        if asked.hits:
            skip = max(asked.cursor, 0)
            found = hits_best_first(connection, row, skip, asked.limit + 1)
            cursor = skip + asked.limit
        else:
            found = candidates_in_order(connection, row, asked.cursor, asked.limit + 1)
            cursor = found[asked.limit - 1].seq if len(found) > asked.limit else -1
        page = found[: asked.limit]
        unseen = unseen_answers(connection, visitor(request).viewer, [candidate.id for candidate in page])
        shown = status_best_trace.with_values(connection, row, page, unseen)
    if asked.hits:
        shown = [candidate for candidate in shown if candidate.hit]
    next_cursor = cursor if len(found) > asked.limit else None
    return CandidateList(candidates=tuple(shown), next=next_path(request, next_cursor))


@pages.get("/campaigns/{campaign}/candidates/{key}", READ, Explanation)
def read_candidate(
    request: Request,
    campaign: CampaignName,
    key: Annotated[
        str, Path(pattern="^[0-9a-f]{6,64}$", max_length=64, description="Key of the candidate, or its beginning.")
    ],
) -> Explanation:
    """Shows a candidate with what `sciagent explain --json` says of it in this campaign."""
    try:
        answer = explain_named(
            site_of(request).ledger, key, campaign_of(request), visitor(request).viewer, LAW_PATIENCE
        )
    except UsageError as error:
        raise HTTPException(404, error.text) from None
    if not isinstance(answer, Explanation):
        raise HTTPException(404, f"{key} {answer.became}")
    return answer
