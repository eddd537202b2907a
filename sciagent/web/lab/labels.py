"""Labels of vials, for a sheet of the printer: code, QR code of the task's address, structure."""

from __future__ import annotations

import io

import segno
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response

from sciagent.chemistry.subjects.drawing import structure_text
from sciagent.chemistry.subjects.registry import subject_of
from sciagent.domain.jobs.sample_codes import read_code
from sciagent.domain.people import Right
from sciagent.errors import UsageError
from sciagent.store.lab import samples, tasks
from sciagent.store.results import candidates
from sciagent.web.rules import Pages, RouteRule
from sciagent.web.site import site_of, visitor

MOST = 200
pages = Pages()


@pages.get("/labels", RouteRule(Right.READ))
def labels(request: Request, codes: str = "") -> Response:
    """Shows the labels of vials as a page to print. codes: with commas between them."""
    site, who, shown = site_of(request), visitor(request), []
    with site.ledger.read() as connection:
        for code in [each for each in codes.split(",") if each.strip()][:MOST]:
            sample = samples.find(connection, read_code(code))
            if sample is None:
                raise UsageError(f"no vial has the code {code[:20]}")
            of = tasks.of_candidate(connection, sample.candidate_id)
            if not any(who.rights.may(Right.READ, task.campaign_id) for task in of):
                raise UsageError(f"the vial {sample.code} is of a campaign that you may not see")
            candidate = candidates.load(connection, [sample.candidate_id])[sample.candidate_id]
            structure = structure_text(candidate)
            address = f"{str(request.base_url).rstrip('/')}/s/{sample.code}"
            alerts = samples.alerts(connection, sample.candidate_id, subject_of(candidate.kind).screen or "")
            shown.append({
                "vial": sample, "structure": structure, "qr": qr(address), "formula": candidate.formula,
                "alerts": alerts,
            })  # fmt: skip
    return site.page(request, "labels.html.j2", labels=shown)


def qr(text: str) -> Markup:
    """Returns a QR code as SVG, of error correction M (15 %), since labels are wiped."""
    out = io.BytesIO()
    segno.make(text, error="m", micro=False).save(out, kind="svg", xmldecl=False, svgns=False, omitsize=True, border=2)
    return Markup(out.getvalue().decode())
