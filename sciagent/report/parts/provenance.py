"""Where every number comes from: verifiers, versions, settings and engines; reuse, amendments and directives."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy.engine import Connection

from sciagent.report.parts.wording import window, words
from sciagent.store.campaign_state.campaigns import CampaignRow, RungRow
from sciagent.store.views import report_queries

MAX_SETTING = 400  # characters of one setting that are shown


@dataclass(frozen=True)
class RungProvenance:
    """The verifier of a rung and what it ran with."""

    rung: RungRow
    settings: list[tuple[str, str]]
    gate: list[str]
    on_refusal: str
    engines: dict[str, list[str]]
    """{engine: versions seen in the latest evidence of the rung}."""
    looked_at: int
    """How many pieces of evidence `engines` rests on."""


def of_rungs(connection: Connection, row: CampaignRow, ladder: Sequence[RungRow]) -> list[RungProvenance]:
    specs: Sequence[Any] = row.spec.get("ladder", ())
    provenance = []
    for rung in ladder:
        spec = specs[rung.position] if rung.position < len(specs) else {}
        engines: dict[str, set[str]] = {}
        seen = report_queries.measured_by(connection, rung)
        for versions, _ in seen:
            for name, version in (versions or {}).items():
                engines.setdefault(str(name), set()).add(str(version))
        provenance.append(
            RungProvenance(
                rung,
                [(str(k), _setting(v)) for k, v in spec.get("settings", {}).items()],
                [text for k, v in spec.get("gate", {}).items() if (text := window(v, k, _unit(k)))],
                spec.get("on_refusal", "drop"),
                {k: sorted(v) for k, v in sorted(engines.items())},
                len(seen),
            )
        )
    return provenance


def _unit(name: str) -> str:
    from sciagent.domain.properties import properties

    known = properties()
    return known[name].unit if name in known else "1"


def _setting(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= MAX_SETTING else text[:MAX_SETTING] + "…"


@dataclass(frozen=True)
class Reused:
    rung: str
    origin: str
    n: int


def of_reuse(connection: Connection, row: CampaignRow, ladder: Sequence[RungRow]) -> list[Reused]:
    """The number of answers that cost this campaign nothing, by rung and origin."""
    labels: dict[int | None, str] = {r.id: r.name for r in ladder}
    reused = []
    for rung_id, name, source, n in report_queries.reused(connection, row):
        if name is not None:
            origin = "this campaign, earlier" if name == row.name else f"campaign {name}"
        else:
            origin = "sciagent verify" if source == "computed" else f"file {source}"
        reused.append(Reused(labels.get(rung_id, ""), origin, n))
    return reused


@dataclass(frozen=True)
class RecordedChange:
    at: Any
    who: str
    what: str
    why: str


def of_amendments(connection: Connection, row: CampaignRow) -> list[RecordedChange]:
    return [
        RecordedChange(at, who, f"{path}: {_setting(old)} → {_setting(new)}", why)
        for at, who, path, old, new, why in report_queries.amendments(connection, row)
    ]


def of_directives(connection: Connection, row: CampaignRow) -> list[RecordedChange]:
    return [
        RecordedChange(
            d["at"],
            d["who"],
            " ".join(x for x in (words(d["verb"]), d["candidate"] or "", _payload(d["payload"])) if x),
            d["why"],
        )
        for d in report_queries.directives(connection, row)
    ]


def _payload(payload: Any) -> str:
    return _setting(payload) if payload else ""
