"""The geometry of a candidate from the highest rung that stored one."""

from __future__ import annotations

from collections.abc import Sequence

from sciagent.errors import SciagentError
from sciagent.store.database.artifacts import ArtifactStore
from sciagent.store.views.report_candidates import EvidenceAnswer

FORMATS = {"chemical/x-xyz": "xyz", "chemical/x-cif": "cif"}
MAX_BYTES = 2_000_000


def geometry(
    artifacts: ArtifactStore, answers: Sequence[EvidenceAnswer], max_bytes: int = MAX_BYTES
) -> tuple[str, str, EvidenceAnswer] | None:
    """(text, `xyz` or `cif`, the answer it belongs to); None if no rung stored one, or the files are gone."""
    for answer in reversed(answers):
        for _, sha256, size, media_type in answer.files:
            if media_type not in FORMATS or size > max_bytes:
                continue
            try:
                return artifacts.get(sha256).decode("utf-8", errors="replace"), FORMATS[media_type], answer
            except SciagentError:
                continue
    return None
