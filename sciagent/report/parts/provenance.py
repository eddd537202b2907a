"""The origin of the report's numbers: verifiers, versions, settings, engines and reused answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy.engine import Connection

from sciagent.domain.properties import properties
from sciagent.report.parts.wording import window
from sciagent.store.campaign_state.campaigns import CampaignRow, RungRow
from sciagent.store.views import report_queries


@dataclass(frozen=True)
class RungProvenance:
    """The verifier of a rung with its settings and engines."""

    rung: RungRow
    given: Mapping[str, Any]
    """The rung of the campaign's spec: `settings`, `gate`, `on_refusal`."""
    engines: dict[str, list[str]]
    """{engine: versions seen in the latest evidence of the rung}."""
    looked_at: int
    """Number of pieces of evidence from which `engines` was read."""

    @property
    def gate(self) -> list[str]:
        """Windows of the gate as texts, such as `1.3 ≤ HOMO-LUMO gap ≤ 2.8 eV`."""
        return [window(edges, name, properties()[name].unit) for name, edges in self.given["gate"].items()]


def of_rungs(connection: Connection, row: CampaignRow, ladder: Sequence[RungRow]) -> list[RungProvenance]:
    """Returns the provenance of each rung of the ladder."""
    provenance = []
    for rung in ladder:
        engines: dict[str, set[str]] = {}
        seen = report_queries.measured_by(connection, rung)
        for versions, _ in seen:
            for name, version in (versions or {}).items():
                engines.setdefault(str(name), set()).add(str(version))
        by_name = {name: sorted(versions) for name, versions in sorted(engines.items())}
        provenance.append(RungProvenance(rung, row.spec["ladder"][rung.position], by_name, len(seen)))
    return provenance


def of_reuse(connection: Connection, row: CampaignRow, ladder: Sequence[RungRow]) -> list[tuple[str, str, int]]:
    """Returns (rung, origin, number) of the answers that cost this campaign nothing."""
    labels: dict[int | None, str] = {r.id: r.name for r in ladder}
    reused = []
    for rung_id, name, source, n in report_queries.reused(connection, row):
        if name is not None:
            origin = "this campaign, earlier" if name == row.name else f"campaign {name}"
        else:
            origin = "sciagent verify" if source == "computed" else f"file {source}"
        reused.append((labels.get(rung_id, ""), origin, n))
    return reused
