"""From a spec and a ledger to everything a campaign runs with."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy.engine import Connection

from sciagent.agent.proposers.evolve import Evolve
from sciagent.agent.proposers.screen import Screen
from sciagent.campaign.core.judge import RungRules, RungTerms, ladder_rules
from sciagent.campaign.spec.campaign_spec import CampaignSpec
from sciagent.campaign.spec.load import parse_spec
from sciagent.campaign.spec.rungs import RungSpec
from sciagent.campaign.spec.sources import EvolveSpec, LlmSpec, OneProposerSpec, PricedSpec, ScreenSpec
from sciagent.chemistry.editing.edits import EditLimits
from sciagent.domain.campaigns.ports import Proposer
from sciagent.domain.candidates import Candidate
from sciagent.domain.cost import Cost
from sciagent.domain.jobs.needs import CORES
from sciagent.domain.jobs.states import Standing
from sciagent.domain.objectives import Objective
from sciagent.domain.outcomes import Outcome
from sciagent.domain.tiers import Tier
from sciagent.errors import UsageError
from sciagent.execution.worker.checkpoints import scratch_of
from sciagent.store.campaign_state import campaigns, standings
from sciagent.store.campaign_state.campaigns import CampaignRow
from sciagent.store.database.ledger import Ledger
from sciagent.store.job_queue import jobs, spend
from sciagent.verification.contract import Verifier
from sciagent.verification.cost import CostModel, cost_or_none
from sciagent.verification.registry import is_function, verifier_names
from sciagent.verification.sandbox.host import Limits


@dataclass(frozen=True)
class BuiltRung:
    """A rung ready to run."""

    id: int
    """Of its row in the ledger; 0 without a ledger."""
    spec: RungSpec
    verifier: Verifier[Any]
    rules: RungRules
    limits: Limits
    cost_model: CostModel

    @property
    def is_fast(self) -> bool:
        return self.verifier.tier is Tier.FAST

    def declared(self, candidate: Candidate) -> Cost | None:
        """The cost that the verifier expects; None where it cannot say it."""
        return cost_or_none(self.verifier, candidate)

    @property
    def holds(self) -> dict[str, int]:
        """The resources that a job holds while it runs."""
        return self.spec.holds

    def reserves(self, declared: Cost | None) -> Cost:
        """What must be left in the budget before a job is started. Nothing where the verifier cannot say its cost:
        then the job is started for the error to be recorded."""
        return Cost() if declared is None else self.cost_model.reservation(declared)

    def lasts(self, declared: Cost | None) -> float:
        """Seconds on the clock that must be left before a job is started."""
        return 0.0 if declared is None else self.cost_model.wall_seconds(declared)

    def reservation(self, candidate: Candidate) -> Cost:
        """`reserves` for a candidate."""
        return self.reserves(self.declared(candidate))


class BuiltLadder:
    """The rungs and objectives of a spec, ready to run."""

    def __init__(self, spec: CampaignSpec, rungs: tuple[BuiltRung, ...]) -> None:
        self.spec = spec
        self.rungs = rungs
        self.rules = tuple(r.rules for r in rungs)
        self.objectives: tuple[Objective, ...] = spec.domain_objectives()
        leading = next((i for i, r in enumerate(rungs) if not r.is_fast), len(rungs))
        self.fast, self.paid = rungs[:leading], rungs[leading:]
        """The leading fast rungs, which run immediately when something is proposed, and the others."""
        self.terminal = spec.terminal_position


class Built(BuiltLadder):
    """All parts of a campaign."""

    def __init__(self, ledger: Ledger, row: CampaignRow, spec: CampaignSpec, rungs: tuple[BuiltRung, ...]) -> None:
        super().__init__(spec, rungs)
        self.ledger = ledger
        self.row = row
        self.wide = {r.rules.position: r.limits.threads for r in self.paid if r.limits.threads > 1}
        self.together = {r.rules.position: n for r in self.paid if (n := r.verifier.together) > 1}
        self.limit_by_rung = {spec.position(label): n for label, n in spec.budget.rungs.items()}

    def make_script(self, chosen: OneProposerSpec) -> Proposer:
        """What proposes by a script; of a model, what enters its seeds. Raises ValueError for a model without seeds."""
        base = self.spec.base
        if isinstance(chosen, EvolveSpec):
            limits = self.edit_limits(chosen.max_heavy_atoms)
            return Evolve(base / chosen.seeds, column=chosen.column, limits=limits)
        if isinstance(chosen, ScreenSpec):
            return Screen(base / chosen.file, chosen.column)
        if chosen.seeds is None:
            raise ValueError("this proposer names no seeds")
        return Screen(base / chosen.seeds, chosen.column, operation="seed")

    def edit_limits(self, max_heavy_atoms: int = EditLimits.max_heavy_atoms) -> EditLimits:
        """What children may be: as the proposer says, and nothing that `molecule.checks` of the ladder would refuse."""
        checks: Any = [r.verifier.settings for r in self.fast if r.verifier.name == "molecule.checks"]
        if not checks:
            return EditLimits(max_heavy_atoms=max_heavy_atoms)
        return EditLimits(
            elements=tuple(checks[-1].elements),
            min_heavy_atoms=checks[-1].min_heavy_atoms,
            max_heavy_atoms=min(max_heavy_atoms, *(each.max_heavy_atoms for each in checks)),
            max_rings=checks[-1].max_rings,
            min_ring_size=checks[-1].min_ring_size,
            max_ring_size=min(EditLimits.max_ring_size, checks[-1].max_ring_size or EditLimits.max_ring_size),
            charges=tuple(checks[-1].charges),
            defined_stereo=checks[-1].undefined_stereo == "refuse",
            forbidden=tuple(checks[-1].forbid_smarts),
        )

    @property
    def ahead(self) -> int:
        """Propose again while fewer candidates than this wait for a paid rung."""
        return max(
            proposer.ahead if isinstance(proposer, EvolveSpec | LlmSpec) else max(proposer.batch, 4 * self.spec.workers)
            for _, proposer in self.spec.proposers
        )

    @property
    def waits(self) -> bool:
        """Whether the proposer is asked only when the first paid rung has answered all that came before."""
        return any(isinstance(chosen, EvolveSpec) and chosen.wait for _, chosen in self.spec.proposers)

    def scratch(self) -> Path:
        """Where jobs work: beside the artifacts, on the same disk."""
        return scratch_of(self.ledger.artifacts)


def built_ladder(spec: CampaignSpec) -> BuiltLadder:
    """The ladder of a spec without a ledger: ids are 0, and nothing is learnt of costs."""
    return BuiltLadder(spec, _build_rungs(spec, {}, {}))


def _build_rungs(spec: CampaignSpec, ids: dict[str, int], ratios: dict[str, list[float]]) -> tuple[BuiltRung, ...]:
    terms = [
        RungTerms(str(rung.tier), rung.window_gates(), rung.on_refusal == "drop", frozenset(rung.measured()))
        for rung in spec.ladder
    ]
    accept = {o.property: o.accept for o in spec.domain_objectives()}
    ladder = zip(spec.ladder, ladder_rules(terms, accept, spec.terminal_position, spec.scheduler.kind), strict=True)
    return tuple(
        BuiltRung(
            ids.get(rung.rung, 0),
            rung,
            rung.configured,
            rules,
            Limits(rung.limits.wall_seconds, int(rung.limits.memory_mb), threads=rung.holds[CORES]),
            CostModel(reversed(ratios.get(rung.rung, []))),
        )
        for rung, rules in ladder
    )


def create_or_open(
    ledger: Ledger, spec: CampaignSpec, source: str, who: str, why: str = "run with an amended file"
) -> tuple[Built, list[str]]:
    """Create the campaign, or open the stored one of that name if it is the same. who, why: for the log of amendments.

    Only what `spec.diff.AMENDABLE` names may differ from the stored one; such a change is logged as an amendment.
    Returns the parts and the amendments made, as `path: old -> new`.
    Raises UsageError with a diff when anything else differs.
    """
    stated: Any = {"spec": spec.canonical(), "spec_hash": spec.hash, "base": str(spec.base.resolve()), "source": source}
    amended: list[str] = []
    with ledger.begin() as connection:
        row = campaigns.find(connection, spec.campaign)
        if row is None:
            if isinstance(spec.scheduler, PricedSpec) and spec.scheduler.law is not None:
                campaigns.get(connection, spec.scheduler.law.source)  # it must be there
            identity, rungs = spec.identity_hash, _rung_rows(spec)
            row = campaigns.create(connection, name=spec.campaign, identity_hash=identity, rungs=rungs, **stated)
        elif row.identity_hash != spec.identity_hash:
            lines = "\n  ".join(spec.diff(row.spec, identity_only=True)) or "the versions of its verifiers"
            where = ledger.url.render_as_string(hide_password=True)
            raise UsageError(
                f'campaign "{spec.campaign}" is in {where} already, with another spec:\n  {lines}\n'
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
    """The ladder with its rows and what was learnt of its costs. Raises UsageError if a verifier has changed since."""
    rows = {r.name: r for r in campaigns.rungs(connection, row.id)}
    for rung in spec.ladder:
        verifier, stored = rung.configured, rows[rung.rung]
        if (verifier.version, verifier.settings_hash) != (stored.verifier_version, stored.settings_hash):
            raise UsageError(
                f'rung "{rung.rung}": {rung.verifier} is now version {verifier.version}, with other settings or '
                f"defaults than when the campaign began (version {stored.verifier_version}); "
                "start a campaign of a new name"
            )
    ratios = {
        r.name: spend.cost_ratios(connection, r.verifier, r.verifier_version, r.settings_hash) for r in rows.values()
    }
    return _build_rungs(spec, {name: r.id for name, r in rows.items()}, ratios)


def _retry_limited(connection: Connection, row: CampaignRow, canonical: Mapping[str, Any]) -> None:
    """Try again what ran into a limit that has been raised since; it is no evidence, so nothing is superseded."""
    reasons = {"wall_seconds": Outcome.TIMEOUT, "memory_mb": Outcome.OUT_OF_MEMORY}
    ladder = zip(campaigns.rungs(connection, row.id), row.spec["ladder"], canonical["ladder"], strict=True)
    again = {"standing": Standing.PENDING, "verdict": None, "reason": None, "detail": ""}
    for rung, old, new in ladder:
        raised = [outcome for limit, outcome in reasons.items() if new["limits"][limit] > old["limits"][limit]]
        for candidate_id in jobs.requeue(connection, row.id, rung.id, raised) if raised else ():
            standings.update(connection, row.id, candidate_id, **again)


def open_stored(ledger: Ledger, name: str, who: str) -> Built:
    """A campaign by name, from the YAML the ledger keeps. Raises UnknownNameError, SpecError if its files are gone."""
    with ledger.read() as connection:
        row = campaigns.get(connection, name)
    return create_or_open(ledger, _stored_spec(row), row.source, who)[0]


def open_for_people(ledger: Ledger, name: str) -> Built:
    """A campaign for a person's word: its ladder and rules, but no proposer, whose files may be elsewhere."""
    with ledger.read() as connection:
        row = campaigns.get(connection, name)
        spec = _stored_spec(row, candidates=False)
        return Built(ledger, row, spec, _stored_rungs(connection, row, spec))


def _stored_spec(row: CampaignRow, candidates: bool = True) -> CampaignSpec:
    """The spec as the ledger has it. Raises UsageError where a rung is a function that this process does not have."""
    known = verifier_names()
    gone = [r["verifier"] for r in row.spec["ladder"] if is_function(r["settings"]) and r["verifier"] not in known]
    if gone:
        raise UsageError(
            f'campaign "{row.name}" has the rung {gone[0]}, a function of a notebook or a script, which this process '
            "does not have: go on where the function is defined, with run(); status, best, explain, report and export "
            "work here"
        )
    return parse_spec(row.source, name=f"{row.name} (as stored)", base=Path(row.base), candidates=candidates)


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
            "gate": {k: [w.low, w.high] for k, w in rung.window_gates().items()},
        }
        for position, rung in enumerate(spec.ladder)
    ]
