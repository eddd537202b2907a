"""Campaigns in the ledger: spec, rungs, state, events, and the driver lease, which only one driver holds."""

from __future__ import annotations

import os
import socket
import uuid
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any

import psutil
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent.domain import derived_properties as derived
from sciagent.domain.answers.status_and_comparison import DriverState
from sciagent.domain.display_units import Units, spec_in_chosen_units
from sciagent.domain.evidence_keys_and_pooled_replicates import Computation
from sciagent.domain.properties_and_levels import Property, properties
from sciagent.domain.rung_calibration_on_measurements import Fits, in_use
from sciagent.domain.states_and_needs import CAMPAIGN_TRANSITIONS, CampaignState, check_transition
from sciagent.errors import DriverHeldError, StaleLeaseError, UnknownNameError
from sciagent.inputs.environment_variables import lease_seconds
from sciagent.store.campaign_state import note_and_take_watermarks
from sciagent.store.database import tables as t
from sciagent.store.database.engine import db_now
from sciagent.store.results.evidence import register_ledger_properties

DRIVER_LEASE_SECONDS = lease_seconds()
LOST_LEASE_TEXT = "another process drives this campaign now; this one stops and writes nothing more"
DISPATCHER_REFUSED = "dispatcher_refused"  # kind of event: a dispatcher may not start the campaign
# kinds of events: whether the cluster took the jobs of the campaign
SLURM_REFUSED = "slurm_refused"
SLURM_ACCEPTED = "slurm_took"


@dataclass(frozen=True)
class CampaignRow:
    """One row of the campaign table, without the columns of the driver lease."""

    id: int
    name: str
    spec: dict[str, Any]
    """The spec in its canonical form."""
    spec_hash: str
    identity_hash: str
    base: str
    """Folder from which relative paths in the spec start."""
    source: str
    """The YAML text of the spec."""
    state: CampaignState
    stop_reason: str | None
    wall_seconds: float
    """Time during which the campaign was driven."""
    driver_core_seconds: float
    """Computing time of the drivers themselves, such as for the scheduler's law; no budget holds it."""
    hosted: bool
    """Whether a dispatcher is to drive the campaign."""
    created_at: datetime
    updated_at: datetime

    @property
    def units(self) -> Units:
        """The units in which the campaign's values are shown, by property.

        A unit is left out if this process cannot convert to it, such as that of a property of another notebook.
        """
        known = properties()
        chosen = self.spec.get("units", {}).items()
        return {name: unit for name, unit in chosen if name in known and unit in known[name].units}

    @property
    def has_limits(self) -> bool:
        """Whether an objective has acceptance limits, which define hits."""
        objectives = self.spec.get("objectives", ())
        return any(objective.get("accept") not in (None, [None, None]) for objective in objectives)

    @property
    def limits(self) -> dict[str, tuple[float, ...]]:
        """The edges of the limits of objectives and gates, by property, in the units that the campaign chose."""
        shown = self.shown_spec
        windows = [(objective["property"], objective.get("accept")) for objective in shown["objectives"]]
        for rung in shown["ladder"]:
            windows.extend(rung["gate"].items())
        edges: dict[str, tuple[float, ...]] = {}
        for name, window in windows:
            known_edges = tuple(edge for edge in window or () if edge is not None)
            edges[name] = (*edges.get(name, ()), *known_edges)
        return edges

    @property
    def shown_spec(self) -> dict[str, Any]:
        """The spec with objectives and gates in the units that the campaign chose."""
        return spec_in_chosen_units(self.spec, self.units)


@dataclass(frozen=True)
class RungRow:
    """One rung of a campaign's ladder."""

    id: int
    position: int
    name: str
    """The rung's label."""
    verifier: str
    verifier_version: str
    tier: str
    settings_hash: str
    derived: Mapping[str, str] = field(default_factory=dict)
    """Settings hash of the evidence of each derived property that is known after this rung."""
    all_fits: Fits = field(default_factory=dict)
    """Fits of the rung's values to measured values, by property. Fits that are not in use are among them."""
    control: bool = False
    """Whether the rung is the campaign's control, which decides nothing."""
    decides: Mapping[str, str] = field(default_factory=dict)
    """The phase of the rung's values, by property of those objectives that no higher rung measures."""

    @property
    def fits(self) -> Fits:
        """The fits by which the rung's values are calibrated."""
        return in_use(self.all_fits)

    @property
    def computation(self) -> Computation:
        """The identity of the rung's evidence, apart from candidate and replicate."""
        return Computation(self.verifier, self.verifier_version, self.settings_hash)

    @cached_property
    def computations(self) -> Set[Computation]:
        """The rung's own computation, and the computation of each property derived after the rung."""
        of_derived = {Computation(derived.DERIVED_VERIFIER, derived.VERSION, hash_) for hash_ in self.derived.values()}
        return {self.computation} | of_derived


def names(connection: Connection) -> list[str]:
    """Names of all campaigns, oldest first."""
    return list(connection.execute(sa.select(t.campaign.c.name).order_by(t.campaign.c.id)).scalars())


def name_of(connection: Connection, campaign_id: int) -> str:
    """The name of a campaign whose id a row of the ledger names."""
    return str(connection.execute(sa.select(t.campaign.c.name).where(t.campaign.c.id == campaign_id)).scalar_one())


def find(connection: Connection, name: str) -> CampaignRow | None:
    """The campaign of this name; None if there is none."""
    columns = [t.campaign.c[name_] for name_ in CampaignRow.__dataclass_fields__]
    row = connection.execute(sa.select(*columns).where(t.campaign.c.name == name)).mappings().one_or_none()
    if row is None:
        return None
    # this process may not know the derived properties of the campaign yet
    for stated in row["spec"].get("derived", ()):
        derived.register(stated["property"], stated["unit"])
    return CampaignRow(**dict(row) | {"state": CampaignState(row["state"])})


@dataclass(frozen=True)
class StoredCampaignFile:
    """The campaign file in the ledger, as whoever entered it wrote it."""

    source: str
    """The YAML text."""
    base: str
    """Folder from which relative paths start."""
    updated_at: datetime
    """Time of the campaign's last change (UTC)."""


def stored_file(connection: Connection, campaign_id: int) -> StoredCampaignFile:
    """The file of a campaign whose id a row of the ledger names."""
    c = t.campaign.c
    row = connection.execute(sa.select(c.source, c.base, c.updated_at).where(c.id == campaign_id)).one()
    return StoredCampaignFile(row.source, row.base, row.updated_at)


def register_properties(connection: Connection) -> None:
    """Registers the properties of the ledger and of its campaigns that no package of this process defines.

    They are the derived properties, and those that a function of a notebook defines. A property that has no value yet
    is known from the objectives of a campaign, in its canonical unit alone.
    """
    register_ledger_properties(connection)
    specs = connection.execute(sa.select(t.campaign.c.spec).order_by(t.campaign.c.id)).scalars().all()
    for spec in specs:
        for stated in spec.get("derived", ()):
            derived.register(stated["property"], stated["unit"])
        for objective in spec.get("objectives", ()):
            if objective["property"] not in properties():
                properties().add(Property(objective["property"], (objective["unit"],), ""), "the ledger")


def get(connection: Connection, name: str) -> CampaignRow:
    """The campaign of this name. Raises UnknownNameError, which suggests the nearest name."""
    row = find(connection, name)
    if row is None:
        raise UnknownNameError("campaign", name, names(connection))
    return row


def create(connection: Connection, *, name: str, rungs: Sequence[Mapping[str, Any]], **values: Any) -> CampaignRow:
    """Insert a campaign. rungs: rows of the rung table in order, with all columns except campaign_id. values: spec,
    spec_hash, identity_hash, base and source, as in `CampaignRow`."""
    now = db_now(connection)
    values |= {"name": name, "state": CampaignState.CREATED, "created_at": now, "updated_at": now}
    campaign_id = connection.execute(sa.insert(t.campaign).values(values).returning(t.campaign.c.id)).scalar_one()
    connection.execute(sa.insert(t.rung), [{"campaign_id": campaign_id, **rung} for rung in rungs])
    return get(connection, name)


def rungs(connection: Connection, campaign_id: int) -> list[RungRow]:
    """The ladder of a campaign, in order, without its control."""
    return [rung for rung in all_rungs(connection, campaign_id) if not rung.control]


def all_rungs(connection: Connection, campaign_id: int) -> list[RungRow]:
    """The ladder of a campaign, in order; its control is the last one."""
    c = t.rung.c
    column_names = [name for name in RungRow.__dataclass_fields__ if name not in ("derived", "all_fits")]
    query = sa.select(*(c[name] for name in column_names), t.campaign.c.spec["derived"]).join(t.campaign)
    rows = connection.execute(query.where(c.campaign_id == campaign_id).order_by(c.position)).all()
    fits = note_and_take_watermarks.current_fits(connection, campaign_id)
    ladder = []
    stated_properties: Sequence[Mapping[str, Any]] = ()
    for *values, stated_in_spec in rows:
        columns = dict(zip(column_names, values, strict=True))
        ladder.append(RungRow(**columns, all_fits=fits.get(columns["id"], {})))
        stated_properties = stated_in_spec or ()  # the same in each row, since all rows are of one campaign
    computations = {rung.name: rung.computation for rung in ladder}
    for stated in stated_properties:
        position = list(computations).index(stated["after"])  # of the rung after which the property is known
        settings_hash = derived.settings_hash(stated, computations)
        all_derived = {**ladder[position].derived, stated["property"]: settings_hash}
        ladder[position] = replace(ladder[position], derived=all_derived)
    return ladder


def write_requests(connection: Connection, by_rung: Mapping[int, Mapping[str, Any]]) -> None:
    """Store each rung's request for remote workers. by_rung: {rung id: settings with paths, and limits}."""
    for rung_id, request in by_rung.items():
        connection.execute(sa.update(t.rung).where(t.rung.c.id == rung_id).values(request=dict(request)))


def amend(
    connection: Connection,
    row: CampaignRow,
    *,
    changes: Sequence[tuple[str, Any, Any]],
    who: str,
    why: str,
    **values: Any,
) -> None:
    """Store an amended spec, and log each change.

    changes: (path, old value, new value). values: spec, spec_hash, source and base, as in `CampaignRow`.
    """
    now = db_now(connection)
    shared = {"campaign_id": row.id, "who": who, "why": why, "at": now}
    rows = [{"path": path, "old": old, "new": new, **shared} for path, old, new in changes]
    connection.execute(sa.insert(t.campaign_amendment), rows)
    connection.execute(sa.update(t.campaign).where(t.campaign.c.id == row.id).values(**values, updated_at=now))


def amended_values(connection: Connection, campaign_id: int) -> list[tuple[str, Any, Any]]:
    """The amendments of a campaign as (path, old value, new value), in order of time."""
    a = t.campaign_amendment.c
    query = sa.select(a.path, a.old, a.new).where(a.campaign_id == campaign_id).order_by(a.id)
    return [(path, old, new) for path, old, new in connection.execute(query)]


def set_state(connection: Connection, campaign_id: int, state: CampaignState, stop_reason: str | None = None) -> None:
    """Set the state. Raises ValueError for a transition that is not allowed."""
    old = connection.execute(sa.select(t.campaign.c.state).where(t.campaign.c.id == campaign_id)).scalar_one()
    if old != state:
        check_transition(CAMPAIGN_TRANSITIONS, CampaignState(old), state)
    values = {"state": state, "stop_reason": stop_reason, "wakes_at": None, "updated_at": db_now(connection)}
    connection.execute(sa.update(t.campaign).where(t.campaign.c.id == campaign_id).values(values))


@dataclass(frozen=True)
class DriverLease:
    """The right to drive a campaign. Every write checks `fence`, a number that grows with each new driver."""

    campaign_id: int
    owner: str
    fence: int


def new_owner() -> str:
    """A name `host:pid:start time:random`, which lets other processes on the host check whether this one is alive."""
    me = psutil.Process()
    return f"{socket.gethostname()}:{os.getpid()}:{me.create_time():.2f}:{uuid.uuid4().hex[:8]}"


def owner_is_dead(owner: str) -> bool:
    """True only if the owner ran on this host and its process has certainly ended."""
    try:
        host, pid, started_at, _ = owner.rsplit(":", 3)
        if host != socket.gethostname():
            return False
        process = psutil.Process(int(pid))
        # the system may have used the pid again; the start times of one and the same process differ by rounding only
        is_another_process = abs(process.create_time() - float(started_at)) > 1.0
        return is_another_process or bool(process.status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True
    except ValueError:
        return False


def driver_of(connection: Connection, campaign_id: int) -> DriverState | None:
    """The state of the current driver, or of the last one if it died with its lease; None if nobody has the lease."""
    c = t.campaign.c
    row = connection.execute(sa.select(c.driver, c.driver_until).where(c.id == campaign_id)).one()
    owner = row.driver
    until = row.driver_until
    if not owner or until is None:
        return None
    parts = owner.rsplit(":", 3)  # as `new_owner` makes it
    host = parts[0]
    pid = parts[1] if len(parts) > 1 else "?"
    alive = until > db_now(connection) and not owner_is_dead(owner)
    return DriverState(host=host, pid=pid, until=until, alive=alive)


def take_driver(
    connection: Connection, campaign_id: int, owner: str, seconds: float = DRIVER_LEASE_SECONDS
) -> DriverLease:
    """Take the driver lease. Raises DriverHeldError if a live driver holds it."""
    now = db_now(connection)
    c = t.campaign.c
    query = sa.select(c.name, c.driver, c.driver_until).where(c.id == campaign_id).with_for_update()
    name, holder, until = connection.execute(query).one()
    has_lease = holder and until and until > now
    if has_lease and not owner_is_dead(holder):
        raise DriverHeldError(
            f'campaign "{name}" is being driven by {holder.rsplit(":", 2)[0]} (host:pid) until {until:%H:%M:%S} UTC; '
            "stop that process, or wait until its lease ends"
        )
    fence = connection.execute(
        sa.update(t.campaign)
        .where(c.id == campaign_id)
        .values(driver=owner, driver_until=now + timedelta(seconds=seconds), driver_fence=c.driver_fence + 1)
        .returning(c.driver_fence)
    ).scalar_one()
    return DriverLease(campaign_id, owner, fence)


def renew_driver(
    connection: Connection, lease: DriverLease, wall_seconds: float = 0.0, core_seconds: float = 0.0
) -> None:
    """Extends the lease. Raises StaleLeaseError if it was lost.

    wall_seconds: time driven since the last call. core_seconds: computing time of the driver itself since then.
    """
    c = t.campaign.c
    until = db_now(connection) + timedelta(seconds=DRIVER_LEASE_SECONDS)
    changed = connection.execute(
        sa.update(t.campaign)
        .where(c.id == lease.campaign_id, c.driver_fence == lease.fence, c.driver == lease.owner)
        .values(
            driver_until=until,
            wall_seconds=c.wall_seconds + wall_seconds,
            driver_core_seconds=c.driver_core_seconds + core_seconds,
        )
    )
    if changed.rowcount != 1:
        raise StaleLeaseError(LOST_LEASE_TEXT)


def check_driver(connection: Connection, lease: DriverLease) -> None:
    """Raises StaleLeaseError if the lease was lost. Call it in a write transaction, before any write.

    It locks the campaign's row, so that no other driver can take the lease until the commit.
    """
    c = t.campaign.c
    query = sa.select(c.driver_fence).where(c.id == lease.campaign_id).with_for_update(key_share=True)
    if connection.execute(query).scalar_one() != lease.fence:
        raise StaleLeaseError(LOST_LEASE_TEXT)


def release_driver(connection: Connection, campaign_id: int, owner: str) -> None:
    """Give the lease back, if this owner still holds it. The owner need not know that: its connection may have been
    lost while it took the lease."""
    c = t.campaign.c
    is_held = sa.and_(c.id == campaign_id, c.driver == owner)
    connection.execute(sa.update(t.campaign).where(is_held).values(driver=None, driver_until=None))


def set_hosted(connection: Connection, campaign_id: int, hosted: bool) -> bool:
    """Set whether a dispatcher is to drive the campaign; returns whether that changed anything."""
    c = t.campaign.c
    changed = sa.update(t.campaign).where(c.id == campaign_id, c.hosted != hosted).values(hosted=hosted)
    return connection.execute(changed).rowcount == 1


def hosted_without_driver(connection: Connection) -> list[tuple[int, str]]:
    """(id, name) of campaigns that a dispatcher is to drive and that have no live driver.

    A waiting campaign is among them once it is woken.
    """
    c = t.campaign.c
    now = db_now(connection)
    is_asleep = sa.and_(c.state == CampaignState.WAITING, sa.or_(c.wakes_at.is_(None), c.wakes_at > now))
    query = sa.select(c.id, c.name, c.driver, c.driver_until).where(c.hosted == sa.true(), sa.not_(is_asleep))
    campaigns = []
    for id_, name, driver, until in connection.execute(query.order_by(c.id)).all():
        has_lease = driver and until and until > now
        if not has_lease or owner_is_dead(driver):
            campaigns.append((int(id_), name))
    return campaigns


def campaigns_with_rung(connection: Connection, candidate_id: int, computation: Computation) -> list[tuple[int, str]]:
    """(id, name) of campaigns that have the candidate and a rung with this computation, in the order of their ids."""
    c = t.campaign.c
    r = t.rung.c
    cc = t.campaign_candidate.c
    name, version, settings_hash = computation
    query = (
        sa.select(c.id, c.name)
        .join(t.rung, r.campaign_id == c.id)
        .join(t.campaign_candidate, sa.and_(cc.campaign_id == c.id, cc.candidate_id == candidate_id))
        .where(r.verifier == name, r.verifier_version == version, r.settings_hash == settings_hash)
        .order_by(c.id)
    )
    return [(int(id_), text) for id_, text in connection.execute(query)]


def wake(connection: Connection, campaign_id: int, at: datetime | None = None) -> None:
    """Let a dispatcher drive the campaign again if it is waiting. at: the time from which; None for now."""
    c = t.campaign.c
    update = sa.update(t.campaign).where(c.id == campaign_id, c.state == CampaignState.WAITING)
    connection.execute(update.values(wakes_at=at or db_now(connection)))


# kinds of events
AMBIGUOUS_STATE = "ambiguous_protonation"  # the protonation state of candidates at the campaign's pH is ambiguous
NO_STATE = "not_protonated"  # no protonation state of candidates at the campaign's pH was found
FORMS_LEFT_OUT = "forms_left_out"  # molecules have more stereoisomers or tautomers than become candidates
MAX_MODEL_EVENTS = 50  # latest events of models in which a failure is sought
MODEL_LIMITED = "model_limited"  # a model's server takes no more requests for a time
MODEL_FAILED = "model_failed"  # a model did not answer a question
MODEL_ANSWERS = "model_answers"  # a model answers again after one of these two
OPTION_REFUSED = "option_refused"  # a model's server refused an option of the requests


def log_event(connection: Connection, campaign_id: int | None, kind: str, payload: Mapping[str, Any]) -> None:
    """Append an event to the log. campaign_id: None for an event of no campaign."""
    values = {"campaign_id": campaign_id, "kind": kind, "payload": dict(payload), "at": db_now(connection)}
    connection.execute(sa.insert(t.event).values(values))


def last_event(connection: Connection, campaign_id: int, kind: str) -> datetime | None:
    """When the last event of a kind was logged; None if there is none."""
    e = t.event.c
    query = sa.select(sa.func.max(e.at)).where(e.campaign_id == campaign_id, e.kind == kind)
    logged_at: datetime | None = connection.execute(query).scalar()
    return logged_at


def last_payload(connection: Connection, campaign_id: int, kind: str) -> Mapping[str, Any] | None:
    """The payload of the last event of a kind; None if there is none."""
    e = t.event.c
    query = sa.select(e.payload).where(e.campaign_id == campaign_id, e.kind == kind)
    payload: Mapping[str, Any] | None = connection.execute(query.order_by(e.id.desc()).limit(1)).scalar()
    return payload


def trouble(connection: Connection, campaign_id: int) -> str | None:
    """The reason why no dispatcher starts the campaign, its jobs do not reach the cluster, or the model of its running
    proposer does not answer; None without one."""
    warning = _refusal(connection, campaign_id) or slurm_warning(connection, campaign_id)
    return warning or _model_warning(connection, campaign_id)


def _model_warning(connection: Connection, campaign_id: int) -> str | None:
    """Why the last question to a model of a running campaign has no answer; None if each model answers."""
    e = t.event.c
    state = connection.execute(sa.select(t.campaign.c.state).where(t.campaign.c.id == campaign_id)).scalar()
    if state != CampaignState.RUNNING:
        return None
    kinds = [MODEL_LIMITED, MODEL_FAILED, MODEL_ANSWERS, "driver_started"]
    query = sa.select(e.kind, e.payload).where(e.campaign_id == campaign_id, e.kind.in_(kinds))
    answering = set[str]()
    for kind, payload in connection.execute(query.order_by(e.id.desc()).limit(MAX_MODEL_EVENTS)):
        if kind == "driver_started":
            break
        model = str(payload.get("model", ""))
        if kind == MODEL_ANSWERS:
            answering.add(model)
        elif model not in answering:
            if kind == MODEL_FAILED:
                return f"the model {model} failed: {payload['why']}"
            until = datetime.fromisoformat(payload["until"])
            return f"the model {model} is limited until {until:%H:%M} UTC: {payload['why']}"
    return None


def _refusal(connection: Connection, campaign_id: int) -> str | None:
    """The reason why a dispatcher did not start the campaign; None if a driver was started since, or if it is not
    handed in."""
    e = t.event.c
    kinds = [DISPATCHER_REFUSED, "driver_started"]
    query = sa.select(e.kind, e.payload).join(t.campaign, t.campaign.c.id == e.campaign_id)
    query = query.where(e.campaign_id == campaign_id, e.kind.in_(kinds), t.campaign.c.hosted == sa.true())
    last = connection.execute(query.order_by(e.id.desc()).limit(1)).first()
    if last is None or last.kind != DISPATCHER_REFUSED:
        return None
    return str(last.payload["why"])


def slurm_warning(connection: Connection, campaign_id: int) -> str | None:
    """Why jobs of the campaign do not reach the cluster; None if they do. A new driver starts without a warning."""
    e = t.event.c
    kinds = [SLURM_REFUSED, SLURM_ACCEPTED, "driver_started"]
    query = sa.select(e.kind, e.payload).where(e.campaign_id == campaign_id, e.kind.in_(kinds))
    last = connection.execute(query.order_by(e.id.desc()).limit(1)).first()
    if last is None or last.kind != SLURM_REFUSED:
        return None
    return str(last.payload["why"])


def set_slurm_warning(connection: Connection, campaign_id: int, why: str | None) -> None:
    """Record the current warning as an event; None records its end. A repeated warning is not recorded again."""
    if slurm_warning(connection, campaign_id) == why:
        return
    if why:
        log_event(connection, campaign_id, SLURM_REFUSED, {"why": why})
    else:
        log_event(connection, campaign_id, SLURM_ACCEPTED, {})
