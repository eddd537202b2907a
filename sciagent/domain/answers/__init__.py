"""What people ask of a campaign, as frozen models: made once, shown by the CLI, Python, the report and MCP alike.

Each model is a JSON contract of `docs/cli.md`: fields are added, never changed. `sciagent schema status` prints its
JSON schema.
"""

from __future__ import annotations

from sciagent.domain.answers.audit import AuditReport
from sciagent.domain.answers.best import BestCandidate
from sciagent.domain.answers.comparison import Comparison
from sciagent.domain.answers.explanation import Explanation, RefusedText
from sciagent.domain.answers.outlook import Outlook
from sciagent.domain.answers.plan import Plan
from sciagent.domain.answers.status import CampaignCounts, Status

__all__ = [
    "AuditReport",
    "BestCandidate",
    "CampaignCounts",
    "Comparison",
    "Explanation",
    "Outlook",
    "Plan",
    "RefusedText",
    "Status",
]
