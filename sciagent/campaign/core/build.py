"""Builds a campaign from its spec and the ledger: rungs with their verifiers, rules, limits and cost models."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sqlalchemy.engine import Connection

from sciagent.agent.proposers.enumerate import Enumerate
from sciagent.agent.proposers.evolve import Evolve
from sciagent.agent.proposers.lists import SEED, Screen
from sciagent.agent.proposers.plugins import PluginProposer, ProposerTask
from sciagent.campaign.core.calibrating import LedgerFits, fits_of
from sciagent.campaign.core.control_scores import control_rules
from sciagent.campaign.core.derived_values import check_derived
from sciagent.campaign.core.free_gates import FreeGates
from sciagent.campaign.core.judge import RungRules, RungTerms, ladder_rules
from sciagent.campaign.core.libraries import library_of
from sciagent.campaign.core.opening import as_begun, stored_spec
from sciagent.campaign.file.campaign_spec import CampaignSpec
from sciagent.campaign.file.rungs import RungSpec
from sciagent.campaign.file.schedulers import PricedSpec
from sciagent.campaign.file.sources import EnumerateSpec, EvolveSpec, LlmSpec, OneProposerSpec, PluginSpec, ScreenSpec
from sciagent.campaign.file.subjects import stated_column
from sciagent.chemistry.subjects.registry import needed_edits, subject_of
from sciagent.domain.calibration import Fit, Fits, in_use
from sciagent.domain.campaigns.scripts import Proposer
from sciagent.domain.candidates import Candidate
from sciagent.domain.cost import Cost
from sciagent.domain.jobs.resource_requests import CORES, GPU, in_words
from sciagent.domain.objectives import Objective
from sciagent.domain.outcomes import Outcome
from sciagent.domain.states import Standing
from sciagent.domain.tiers import Tier
from sciagent.errors import CampaignError, SimulatorError, UsageError
from sciagent.execution.worker.checkpoints import scratch_of
from sciagent.store.campaign_state import campaigns, standings
from sciagent.store.campaign_state.campaigns import CampaignRow
from sciagent.store.database.ledger import Ledger
from sciagent.store.job_queue import jobs, spend
from sciagent.verification.availability import unavailable
from sciagent.verification.contract import BaseVerifier
from sciagent.verification.cost import CostModel, cost_or_none
from sciagent.verification.sandbox.host import Limits


@dataclass(frozen=True)
class BuiltRung:
    """A rung that is ready to run."""

    id: int
    """Id of the rung's row in the ledger; 0 without a ledger."""
    spec: RungSpec
    verifier: BaseVerifier[Any]
    rules: RungRules
    limits: Limits
    cost_model: CostModel
    all_fits: dict[str, Fit] = field(default_factory=dict, compare=False)
    """Fits of its values to measured ones, by property, also those that are not used; `refitting.refit` writes them."""

    @property
    def fits(self) -> Fits:
        """The fits by which its values are calibrated."""
        return in_use(self.all_fits)

    @property
    def is_fast(self) -> bool:
        return self.verifier.tier is Tier.FAST

    def declared(self, candidate: Candidate) -> Cost | None:
        """Returns the cost that the verifier declares, or the file for people; None if it declares none."""
        return cost_or_none(self.verifier, candidate) if self.spec.lab is None else self.spec.lab.cost.total()

    @property
    def holds(self) -> dict[str, int]:
        """Resources that a job holds while it runs."""
        return self.spec.holds

    def reserves(self, declared: Cost | None) -> Cost:
        """Returns the cost to reserve for a job, at most what its limits allow.

        It is empty without a declared cost; the job then starts, so that its error is recorded.
        """
        if declared is None:
            return Cost()
        reservation = self.cost_model.reservation(declared)
        ceilings = self.ceilings
        return Cost({name: min(amount, ceilings.get(name, amount)) for name, amount in reservation.items()})

    def lasts(self, declared: Cost | None) -> float:
        """Returns the wall time in seconds that must be left before a job starts, at most the job's own limit."""
        if declared is None:
            return 0.0
        seconds = self.cost_model.wall_seconds(declared)
        return seconds if self.spec.is_world else min(seconds, self.limits.wall_seconds)

    @property
    def ceilings(self) -> dict[str, float]:
        """The largest amounts that one attempt of a job can take, by resource: its wall time is limited, on the cores
        and GPUs that it holds. A resource without an entry is not limited; people have no such limits."""
        if self.spec.is_world:
            return {}
        wall = self.limits.wall_seconds
        ceilings = {"core_seconds": wall * self.holds[CORES]}
        if GPU in self.holds:
            ceilings["gpu_seconds"] = wall * self.holds[GPU]
        return ceilings


class BuiltLadder:
    """The ladder of a spec: rungs that are ready to run, rules and objectives."""

    def __init__(self, spec: CampaignSpec, all_rungs: tuple[BuiltRung, ...]) -> None:
        self.spec = spec
        self.all_rungs = all_rungs
        """The rungs and the control, which is the last one."""
        self.control = all_rungs[-1] if all_rungs[-1].spec.control else None
        """The rung that decides nothing; None without one."""
        self.rungs = rungs = all_rungs if self.control is None else all_rungs[:-1]
        """The rungs that decide."""
        self.rules = tuple(r.rules for r in rungs)
        self.objectives: tuple[Objective, ...] = spec.domain_objectives()
        leading = next((i for i, r in enumerate(rungs) if not r.spec.at_once), len(rungs))
        self.fast, self.paid = rungs[:leading], rungs[leading:]
        """The leading fast and inline rungs, which run on each proposal at once, and the other rungs."""
        self.bought = all_rungs[leading:]
        """The rungs that run as jobs: the paid ones and the control."""
        self.computed = tuple(rung for rung in self.bought if not rung.spec.is_world)
        """The rungs whose jobs computers run."""
        self.asked = tuple(rung for rung in self.bought if rung.spec.is_world)
        """The rungs whose jobs people do."""
        self.free_gates = FreeGates(self.fast)
        self.subject = subject_of(spec.subject)
        """The subject of the campaign."""
        self.terminal = spec.terminal_position
        self.decides_at_once = self.terminal < leading
        """Whether the terminal rung answers inside the turn, so that nothing is left to buy."""


class Built(BuiltLadder):
    """A campaign that is ready to run: its ladder, spec, row and ledger."""

    def __init__(self, ledger: Ledger, row: CampaignRow, spec: CampaignSpec, rungs: tuple[BuiltRung, ...]) -> None:
        super().__init__(spec, rungs)
        self.ledger = ledger
        self.row = row
        self.together = {r.rules.position: n for r in self.computed if (n := r.verifier.together) > 1}
        self.limit_by_rung = {spec.position(label): n for label, n in spec.budget.rungs.items()}

    def make_script(self, chosen: OneProposerSpec) -> Proposer:
        """Returns the proposer of a script; for a model, the proposer of its seeds. Raises ValueError without seeds."""
        base = self.spec.base
        if isinstance(chosen, EvolveSpec):
            limits = self.edit_limits(chosen.max_sites or chosen.max_heavy_atoms)
            seeds = base / chosen.seeds
            return Evolve(self.subject, seeds, column=stated_column(chosen), limits=limits, keep=chosen.keep)
        if isinstance(chosen, EnumerateSpec):
            return Enumerate(library_of(chosen, base))
        if isinstance(chosen, ScreenSpec):
            return Screen(self.subject, base / chosen.file, stated_column(chosen), keep=chosen.keep)
        if chosen.seeds is None:
            raise ValueError("this proposer names no seeds")
        seeding = Screen(self.subject, base / chosen.seeds, stated_column(chosen), SEED, chosen.keep)
        if isinstance(chosen, PluginSpec):
            file = None if chosen.file is None else base / chosen.file
            task = ProposerTask(self.objectives, self.edit_limits(), file, chosen.settings)
            return PluginProposer(chosen.name, task, seeding)
        return seeding

    def edit_limits(self, size: int | None = None) -> Any:
        """Returns limits for new candidates: those of the subject's checks on the ladder, and the maximum size.

        Raises UsageError for a subject without edits."""
        edits = needed_edits(self.subject)
        checks = [r.verifier.settings for r in self.fast if r.verifier.name == self.subject.checks]
        return edits.limits(checks, size)

    @property
    def ahead(self) -> int:
        """Number of waiting candidates below which the proposer is asked for more."""
        return max(
            proposer.ahead if isinstance(proposer, EvolveSpec | LlmSpec) else max(proposer.batch, 4 * self.spec.workers)
            for _, proposer in self.spec.proposers
        )

    @property
    def waits(self) -> bool:
        """Whether the proposer is asked only after the first paid rung has answered for all earlier candidates."""
        return any(isinstance(chosen, EvolveSpec) and chosen.wait for _, chosen in self.spec.proposers)

    def scratch(self) -> Path:
        """Returns the working folder of jobs, on the same disk as the artifacts."""
        return scratch_of(self.ledger.artifacts)


def built_ladder(spec: CampaignSpec, fits: LedgerFits | None = None) -> BuiltLadder:
    """Builds the ladder of a spec that is no campaign of a ledger: ids are 0, and cost models have learnt nothing.

    fits: calibrations, by position of the rung.
    """
    ladder = BuiltLadder(spec, _build_rungs(spec, {}, {}))
    for position, by_property in (fits or {}).items():
        ladder.rungs[position].all_fits.update(by_property)
    return ladder


def built_rungs(ladder: Sequence[RungSpec]) -> tuple[BuiltRung, ...]:
    """Builds rungs that belong to no campaign. They have no objectives, so only their gates judge."""
    return _built(ladder, ladder_rules(_terms(ladder), {}, len(ladder) - 1, "thresholds", "hits"), {}, {})


def _build_rungs(spec: CampaignSpec, ids: dict[str, int], ratios: dict[str, list[float]]) -> tuple[BuiltRung, ...]:
    accept = {o.property: o.accept for o in spec.domain_objectives()}
    position, units = spec.terminal_position, spec.chosen_units()
    rules = ladder_rules(_terms(spec.ladder), accept, position, spec.scheduler.kind, spec.goal.kind, units)
    if spec.control is not None:
        rules = (*rules, control_rules(spec.control, len(spec.ladder)))
    return _built(spec.all_rungs, rules, ids, ratios)


def _terms(ladder: Sequence[RungSpec]) -> list[RungTerms]:
    return [
        RungTerms(str(rung.tier), rung.window_gates(), rung.on_refusal == "drop", frozenset(rung.measured()))
        for rung in ladder
    ]


def _built(
    ladder: Sequence[RungSpec], rules: Sequence[RungRules], ids: dict[str, int], ratios: dict[str, list[float]]
) -> tuple[BuiltRung, ...]:
    return tuple(
        BuiltRung(
            ids.get(rung.rung, 0),
            rung,
            rung.configured,
            rung_rules,
            Limits(rung.limits.wall_seconds, int(rung.limits.memory_mb), threads=rung.holds[CORES]),
            CostModel(reversed(ratios.get(rung.rung, []))),
        )
        for rung, rung_rules in zip(ladder, rules, strict=True)
    )


def create_or_open(
    ledger: Ledger, spec: CampaignSpec, source: str, who: str, why: str = "run with an amended file"
) -> tuple[Built, list[str]]:
    """Creates the campaign, or opens the stored campaign of that name. who, why: for the log of amendments.

    Only the keys in `campaign_spec.AMENDABLE` may differ from the stored campaign; such changes are logged.
    Returns the campaign and the amendments as `path: old -> new`. Raises UsageError with a diff of anything else.
    """
    amended: list[str] = []
    with ledger.begin() as connection:
        row = campaigns.find(connection, spec.campaign)
        spec = spec if row is None else as_begun(spec, source, row)
        where = str(spec.base.resolve())
        stated: Any = {"spec": spec.canonical(), "spec_hash": spec.hash, "base": where, "source": source}
        check_derived(connection, spec)
        if row is None:
            if isinstance(spec.scheduler, PricedSpec) and spec.scheduler.law is not None:
                campaigns.get(connection, spec.scheduler.law.source)  # raises an error if it does not exist
            fits_of(connection, spec)  # raises an error if a calibration cannot be made
            identity, rungs = spec.identity_hash, _rung_rows(spec)
            row = campaigns.create(connection, name=spec.campaign, identity_hash=identity, rungs=rungs, **stated)
        elif row.identity_hash != spec.identity_hash:
            address = ledger.url.render_as_string(hide_password=True)
            raise UsageError(
                f'campaign "{spec.campaign}" is in {address} already, with another spec:\n'
                f"  {spec.identity_diff(row.spec)}\n"
                "Budget, goal.count, limits, resources and workers may change; for anything else give it a new name "
                "(evidence is reused)."
            )
        elif row.spec_hash != spec.hash:
            amended = spec.diff(row.spec)
            old, new = json.loads(json.dumps([row.spec, stated["spec"]]))
            changes = [(key, old.get(key), new[key]) for key in new if old.get(key) != new[key]]
            campaigns.amend(connection, row, changes=changes, who=who, why=why, **stated)
            _retry_limited(connection, row, new)
            row = campaigns.get(connection, spec.campaign)
        ladder = _stored_rungs(connection, row, spec)
    return Built(ledger, row, spec, ladder), amended


def _stored_rungs(connection: Connection, row: CampaignRow, spec: CampaignSpec) -> tuple[BuiltRung, ...]:
    """Builds the ladder with row ids and learnt costs. Raises UsageError if a verifier has changed since."""
    rows = {r.name: r for r in campaigns.all_rungs(connection, row.id)}
    for rung in spec.all_rungs:
        verifier, stored = rung.configured, rows[rung.rung]
        if (verifier.version, verifier.settings_hash) != (stored.verifier_version, stored.settings_hash):
            raise UsageError(
                f'rung "{rung.rung}": {rung.verifier} is now version {verifier.version}, with other settings or '
                f"defaults than when the campaign began (version {stored.verifier_version}); "
                "start a campaign of a new name"
            )
    ratios = {r.name: spend.cost_ratios(connection, *r.computation) for r in rows.values()}
    built = _build_rungs(spec, {name: r.id for name, r in rows.items()}, ratios)
    for each in built:
        each.all_fits.update(rows[each.spec.rung].all_fits)
    return built


def _retry_limited(connection: Connection, row: CampaignRow, canonical: Mapping[str, Any]) -> None:
    """Queues jobs again that exceeded a limit which was raised since. They have no evidence to supersede."""
    reasons = {"wall_seconds": Outcome.TIMEOUT, "memory_mb": Outcome.OUT_OF_MEMORY}
    ladder = zip(campaigns.all_rungs(connection, row.id), row.spec["ladder"], canonical["ladder"], strict=True)
    again = {"standing": Standing.PENDING, "verdict": None, "reason": None, "detail": ""}
    for rung, old, new in ladder:
        raised = [outcome for limit, outcome in reasons.items() if new["limits"][limit] > old["limits"][limit]]
        queued = jobs.requeue(connection, row.id, rung.id, raised) if raised else ()
        for candidate_id in () if rung.control else queued:
            standings.update(connection, row.id, candidate_id, **again)


def open_stored(ledger: Ledger, name: str, who: str) -> Built:
    """Opens a stored campaign by name. Raises UnknownNameError, or SpecError if its files are missing."""
    with ledger.read() as connection:
        row = campaigns.get(connection, name)
    return create_or_open(ledger, stored_spec(row), row.source, who)[0]


def open_for_people(ledger: Ledger, name: str) -> Built:
    """Opens a stored campaign for a person's command; the proposer's files need not exist."""
    with ledger.read() as connection:
        return open_within(connection, ledger, name)


def open_within(connection: Connection, ledger: Ledger, name: str) -> Built:
    """Like `open_for_people`, in a transaction that is open. Many readers that each wanted a second connection would
    wait for each other."""
    row = campaigns.get(connection, name)
    spec = as_begun(stored_spec(row, candidates=False), row.source, row)
    return Built(ledger, row, spec, _stored_rungs(connection, row, spec))


def _rung_rows(spec: CampaignSpec) -> Sequence[Mapping[str, Any]]:
    return [
        {
            "position": position,
            "name": rung.rung,
            "verifier": rung.configured.name,
            "verifier_version": rung.configured.version,
            "tier": str(rung.tier),
            "settings": rung.configured.settings.model_dump(mode="json"),
            "settings_hash": rung.configured.settings_hash,
            "gate": {} if rung.control else {k: [w.low, w.high] for k, w in rung.window_gates().items()},
            "control": rung.control,
        }
        for position, rung in enumerate(spec.all_rungs)
    ]


def check_here(rungs: Iterable[BuiltRung], workers: int) -> None:
    """Raises UsageError if a rung needs a program or an engine that this machine lacks, more than `workers` cores, or
    another resource, since a driver's own pool has only cores."""
    for rung in rungs:
        check_engines(rung)
        if more := {name: n for name, n in rung.holds.items() if name != CORES}:
            asked = " ".join(f"--resource {name}={n}" for name, n in more.items())
            raise UsageError(
                f'rung "{rung.spec.rung}" needs {in_words(more)}, and a campaign that runs its jobs itself has cores '
                f"alone: run it with --executor ledger and start sciagent worker {asked}"
            )
        if rung.holds[CORES] > workers:
            raise UsageError(
                f'rung "{rung.spec.rung}" needs {rung.holds[CORES]} cores, and the campaign runs on {workers}: raise '
                "workers, or give it fewer cores"
            )


def check_engines(rung: BuiltRung) -> None:
    """Raises UsageError if this machine lacks a program or an engine that the rung's verifier needs."""
    if (missing := unavailable(rung.verifier)) is not None:
        raise UsageError(f'rung "{rung.spec.rung}" ({rung.verifier.name}): {missing}')


def prepare(rungs: Iterable[BuiltRung]) -> None:
    """Lets every rung build the files that it needs. Raises CampaignError that names the rung if it fails."""
    for rung in rungs:
        try:
            rung.verifier.prepare()
        except SimulatorError as error:
            raise CampaignError(f'rung "{rung.spec.rung}" ({rung.verifier.name}): {error.detail}') from error
