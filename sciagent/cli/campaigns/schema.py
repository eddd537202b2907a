"""`sciagent schema`: the JSON schema of a campaign file or of an answer, or every key as Markdown, for people."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

import typer

from sciagent.cli.shared.common import put, put_json


class SchemaOf(StrEnum):
    """What has a JSON schema: the campaign file, and what commands print with --json."""

    CAMPAIGN = "campaign"
    STATUS = "status"
    BEST = "best"
    PLAN = "plan"
    AUDIT = "audit"
    COMPARE = "compare"
    EXPLAIN = "explain"


def schema(
    of: Annotated[
        SchemaOf, typer.Argument(metavar="WHAT", help=f"The campaign file, or an answer: {', '.join(SchemaOf)}.")
    ] = SchemaOf.CAMPAIGN,
    markdown: Annotated[bool, typer.Option("--markdown", help="Every key, verifier and property as Markdown.")] = False,
) -> None:
    """Print the JSON schema of a campaign file, or of what a command prints with --json.

    Editors complete and check YAML with the first; scripts check answers with the others.
    """
    if markdown:
        from sciagent.campaign.spec.reference import reference

        put(reference().rstrip())
    elif of is SchemaOf.CAMPAIGN:
        from sciagent.campaign.spec.load import campaign_schema

        put_json(campaign_schema())
    else:
        from sciagent.domain.answers.model import json_schema

        put_json(json_schema(_answer(of)))


def _answer(of: SchemaOf) -> Any:
    from sciagent.domain.answers.audit import AuditReport
    from sciagent.domain.answers.best import BestCandidate
    from sciagent.domain.answers.comparison import Comparison
    from sciagent.domain.answers.explanation import Explanation, RefusedText
    from sciagent.domain.answers.plan import Plan
    from sciagent.domain.answers.status import Status

    answers: dict[SchemaOf, Any] = {
        SchemaOf.STATUS: Status,
        SchemaOf.BEST: list[BestCandidate],
        SchemaOf.PLAN: Plan,
        SchemaOf.AUDIT: AuditReport,
        SchemaOf.COMPARE: Comparison,
        SchemaOf.EXPLAIN: Explanation | RefusedText,
    }
    return answers[of]
