"""Builds a campaign from its spec and the ledger: rungs with verifiers, rules, limits and cost models; derived values;
gates.

Derived values are computed with the answer of their last rung, and recorded as evidence. The gates of fast rungs that
need no calculation judge a molecule before it is proposed.

A control is a rung that runs by lot on settled candidates and decides nothing. Its answers are in none of the rungs
that a verdict, a law or a reward reads. They are shown beside the rewards of a policy, in
`sciagent rewards show --guards`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from sqlalchemy.engine import Connection

from sciagent.agent.proposers.evolve import Evolve
from sciagent.agent.proposers.law import LawSearch
from sciagent.agent.proposers.list_proposers import SEED, Enumerate, Screen
from sciagent.agent.proposers.plugin_proposers import PluginProposer, ProposerTask
from sciagent.campaign.core.calibrate_to_imported_values import LedgerFits
from sciagent.campaign.core.lines_to_deciding_rungs import deciding_phases, lines_of, sparing_properties
from sciagent.campaign.core.product_libraries import library_of
from sciagent.campaign.core.verdicts_and_places import Answer, RungRules, RungTerms, judge, ladder_rules
from sciagent.campaign.file.campaign_spec import CampaignSpec
from sciagent.campaign.file.proposers import (
    EnumerateSpec,
    EvolveSpec,
    LawSearchSpec,
    LlmSpec,
    OneProposerSpec,
    PluginSpec,
    ScreenSpec,
)
from sciagent.campaign.file.rungs import DEFAULT_CONTROL_SHARE, RungSpec
from sciagent.campaign.file.subject_and_safety import stated_column
from sciagent.chemistry.subjects.registry_and_candidate_dispatch import needed_edits, subject_of
from sciagent.domain.candidate_and_its_names_in_files import Candidate
from sciagent.domain.cost_and_budget import Cost
from sciagent.domain.derived_properties import DERIVED_VERIFIER, VERSION, DerivedProperty, Part
from sciagent.domain.evidence_keys_and_pooled_replicates import (
    UNCERTAINTY_KIND,
    Computation,
    EvidenceKey,
    Finding,
    Measured,
    content_hash,
    isomer_to_diagnostics,
)
from sciagent.domain.objectives import Objective, Window, utility
from sciagent.domain.outcomes_verdicts_and_reasons import Outcome, Reason, Verdict
from sciagent.domain.proposer_interfaces import Proposer
from sciagent.domain.quantities import Quantity
from sciagent.domain.rung_calibration_on_measurements import Fit, Fits, in_use
from sciagent.domain.rung_positions_and_tiers import Position, Tier
from sciagent.domain.states_and_needs import CORES, GPU, in_words
from sciagent.errors import CampaignError, SimulatorError, UsageError
from sciagent.execution.worker.read_claimed_jobs import scratch_of
from sciagent.scheduling.audit_of_dropped import lots
from sciagent.store.campaign_state.campaigns import CampaignRow
from sciagent.store.database.ledger import Ledger
from sciagent.store.results import candidates, evidence, pooled_replicates
from sciagent.store.results.evidence import NewEvidence, RecordedEvidence
from sciagent.verification.cost_models import CostModel, cost_or_none
from sciagent.verification.declarations_and_availability import unavailable
from sciagent.verification.sandbox.host import Limits
from sciagent.verification.verifier_contract import BaseVerifier, Verifier
from sciagent.verification.verifier_registry import OURS, provider

if TYPE_CHECKING:
    from sciagent.scheduling.array_types import Mask


CANDIDATES_PER_WORKER = 4  # least number of candidates that should wait for each worker
Result = TypeVar("Result", Finding, RecordedEvidence)


def with_derived(rung: BuiltRung, result: Result, earlier: Sequence[Answer]) -> Result:
    """Returns the result of a rung with the derived values that are known after it. A derived value cannot be obtained
    if a part of it was not. earlier: answers of lower rungs."""
    if not rung.spec.derived or result.outcome is not Outcome.OK:
        return result
    values: dict[Part, Quantity] = {}
    for answer in earlier:
        for measured in answer.measured:
            values[answer.position, measured.property] = measured.quantity
    for measured in result.measured:
        values[rung.rules.position, measured.property] = measured.quantity
    known_values = list[Measured]()
    unobtained = dict(result.unobtained)
    for prop in rung.spec.derived:
        value = prop.measured(values)
        if value is not None:
            known_values.append(value)
            continue
        for position, part in prop.parts.values():
            if position == rung.rules.position and part in result.unobtained:
                unobtained[prop.definition.name] = result.unobtained[part]
    return replace(result, measured=result.measured + tuple(known_values), unobtained=unobtained)


def record_derived(connection: Connection, built: Built, candidate_ids: Sequence[int]) -> None:
    """Records the derived values of candidates if their parts are in the ledger. A value whose parts have changed
    supersedes the earlier one. Call it in a write transaction.

    A process that cannot seal evidence, such as a web server that only takes people's answers, records none; the
    campaign's driver does it when it next places the candidate or starts."""
    derived = list[DerivedProperty]()
    positions = set[Position]()
    for rung in built.rungs:
        for prop in rung.spec.derived:
            derived.append(prop)
            positions.update(prop.rungs)
    if not derived or not candidate_ids or not built.ledger.secret.is_held:
        return
    answers = {}
    for position in sorted(positions):
        computation = built.rungs[position].verifier.computation
        answers[position] = pooled_replicates.pooled_answers(connection, candidate_ids, computation)
    loaded = candidates.load(connection, list(candidate_ids))
    for prop in derived:
        held = evidence.latest_with_revision(
            connection, candidate_ids, Computation(DERIVED_VERIFIER, VERSION, prop.settings_hash)
        )
        for id_, candidate in loaded.items():
            used = {}
            for position in prop.rungs:
                if id_ in answers[position]:
                    used[position] = answers[position][id_]
            new = _derived_evidence(prop, candidate.key, id_, used, held.get(id_))
            if new is not None:
                evidence.record_once(connection, [new])


def _derived_evidence(
    prop: DerivedProperty,
    candidate_key: str,
    candidate_id: int,
    used: Mapping[Position, RecordedEvidence],
    held: tuple[RecordedEvidence, int] | None,
) -> NewEvidence | None:
    """Returns the evidence to record; None if there is no value, or the ledger has it already.

    used: answers by position of the rung. held: the evidence that the ledger has now, and its revision."""
    values = {}
    for position, answer in used.items():
        for part in answer.measured:
            values[position, part.property] = part.quantity
    measured = prop.measured(values)
    if measured is None:
        return None
    revision = 0
    if held is not None:
        held_evidence, held_revision = held
        if held_evidence.measured == (measured,):
            return None
        revision = held_revision + 1
    inputs_hash = content_hash(sorted(answer.key for answer in used.values()))
    key = EvidenceKey(candidate_key, DERIVED_VERIFIER, VERSION, prop.settings_hash, inputs_hash, revision=revision)
    kind = measured.quantity.uncertainty_kind
    isomer = measured.quantity.isomer
    diagnostics: dict[str, Any] = {"formula": prop.formula.text, **isomer_to_diagnostics(isomer)}
    if kind:
        diagnostics[UNCERTAINTY_KIND] = {measured.property: kind}
    finding = Finding(candidate_key, Outcome.OK, (measured,), diagnostics=diagnostics)
    if held is None:
        return NewEvidence(finding, key, candidate_id)
    return NewEvidence(finding, key, candidate_id, why="its parts have changed", supersedes=held[0].id)


def check_derived(connection: Connection, spec: CampaignSpec) -> None:
    """Raises UsageError for a derived property that the ledger knows in another unit."""
    wanted = {}
    for rung in spec.ladder:
        for prop in rung.derived:
            wanted[prop.definition.name] = prop.definition.unit
    for name, unit in evidence.stored_units(connection, list(wanted)).items():
        if unit != wanted[name]:
            raise UsageError(
                f'derived property "{name}": this ledger has values of a property of this name in {unit}, which is not '
                f"{wanted[name]}; give it another name"
            )


class FreeGates:
    """The gates of the leading fast rungs whose verifier defines `glance`, such as `molecule.checks`.

    `glance` gives the values that need no calculation. A refusal counts as a missed gate where the rung drops what it
    refuses. Limits of objectives are no gates.
    """

    def __init__(self, rungs: Sequence[BuiltRung], besides: Collection[str] = ()) -> None:
        """rungs: the leading fast rungs. besides: properties whose gates are left out, since an experimental value may
        stand in for them."""
        parts = list[Part]()
        for rung in rungs:
            for prop in rung.spec.derived:
                parts.extend(prop.parts.values())
        self._rungs: list[tuple[BuiltRung, Mapping[str, Window], set[str]]] = []
        """Each rung with its gates and the names of the properties that gates and derived values need from it."""
        for rung in rungs:
            # a verifier of another package may be slow or fail, which must not happen in the driver's process
            defines_glance = type(rung.verifier).glance is not Verifier.glance
            if defines_glance and provider(rung.verifier.name).split()[0] == OURS:
                names_in_formulas = {name for position, name in parts if position == rung.rules.position}
                gate = {name: window for name, window in rung.rules.gate.items() if name not in besides}
                self._rungs.append((rung, gate, {*gate, *names_in_formulas}))

    def missed(self, candidate: Candidate) -> str | None:
        """Returns in one line which gate the candidate misses, or why a rung refuses it; None if it misses none.

        A value that cannot be computed here misses nothing: the rung itself reports the error.
        """
        earlier: list[Answer] = []
        for rung, all_gates, names in self._rungs:
            try:
                finding = rung.verifier.glance(candidate, names)
            except SimulatorError:
                continue
            if finding is None:
                continue
            is_tolerated_refusal = finding.outcome is not Outcome.OK and not rung.rules.drop_on_refusal
            if is_tolerated_refusal:
                continue
            finding = with_derived(rung, finding, earlier)
            known_names = {measured.property for measured in finding.measured}
            gate = {name: window for name, window in all_gates.items() if name in known_names}
            judgement = judge(replace(rung.rules, accept={}, gate=gate), finding)
            earlier.append(Answer(rung.rules.position, judgement, finding.measured))
            if judgement.verdict in (Verdict.FAIL, Verdict.NOT_APPLICABLE):
                return f"{judgement.reason}: {judgement.detail}"
        return None


def control_rules(rung: RungSpec, position: int) -> RungRules:
    """Returns the rules of a control, which judge nothing. position: the position after the last rung of the ladder."""
    return RungRules(
        str(rung.tier),
        gate={},
        drop_on_refusal=False,
        measured=frozenset(rung.measured()),
        position=Position(position),
        accept={},
        is_terminal=False,
    )


def is_drawn(control: BuiltRung, seed: int, keys: Iterable[str]) -> Mask:
    """Returns (n,) whether the control runs on candidates, by their keys.

    A candidate is drawn if its lot, a number in [0, 1), is below the share of the control. The audit and the scheduler
    `lottery` draw other lots, so the control does not depend on their choices.
    """
    share = control.spec.share or DEFAULT_CONTROL_SHARE
    own_lots = lots(seed, (f"{control.spec.rung}:{key}" for key in keys))
    drawn: Mask = own_lots < share
    return drawn


def control_score(control: RungSpec, objectives: Sequence[Objective], answer: RecordedEvidence) -> float | None:
    """Returns the score of a candidate by its control; None if the answer does not tell.

    The control's own limits apply; if it has none, the limits of the objectives that it measures. The score is 1 if all
    values lie within the limits, and 0 if one does not. Without limits, the score is the utility of the measured
    objectives.
    """
    if answer.outcome is not Outcome.OK:
        return None
    values = {measured.property: measured.quantity for measured in answer.measured}
    own_objectives = [objective for objective in objectives if objective.property in control.measured()]
    limits = control.accepted()
    if not limits:
        limits = {o.property: o.accept for o in own_objectives if o.accept is not None}
    if not limits:
        return utility(own_objectives, {name: quantity.value for name, quantity in values.items()})
    is_any_missing = not limits.keys() <= values.keys()
    if is_any_missing:
        return None
    reasons = [window.misses(values[name]) for name, window in limits.items()]  # None: within the limits
    if any(reason not in (None, Reason.NOT_MEASURED) for reason in reasons):
        return 0.0
    return None if Reason.NOT_MEASURED in reasons else 1.0


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
    """Fits of its values to measured ones, by property, also fits that are not used; `driver.refit` writes them."""

    @property
    def fits(self) -> Fits:
        """The fits by which its values are calibrated."""
        return in_use(self.all_fits)

    @property
    def is_fast(self) -> bool:
        return self.verifier.tier is Tier.FAST

    def declared_cost(self, candidate: Candidate) -> Cost | None:
        """Returns the cost that the verifier declares, or None; for people, the cost that the campaign file states."""
        if self.spec.lab is not None:
            return self.spec.lab.cost.total()
        return cost_or_none(self.verifier, candidate)

    @property
    def holds(self) -> dict[str, int]:
        """Resources that a job holds while it runs."""
        return self.spec.holds

    def reservation(self, declared: Cost | None) -> Cost:
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
        # no limit ends the work of people
        return seconds if self.spec.is_world else min(seconds, self.limits.wall_seconds)

    @property
    def ceilings(self) -> dict[str, float]:
        """The largest amounts that one attempt of a job can take, by resource: the limit of its wall time, times the
        cores or GPUs that it holds. A resource without an entry is not limited; people have no such limits."""
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
        rungs = all_rungs if self.control is None else all_rungs[:-1]
        self.rungs = rungs
        """The rungs that decide."""
        self.rules = tuple(r.rules for r in rungs)
        self.objectives: tuple[Objective, ...] = spec.domain_objectives()
        leading = 0  # number of leading rungs that run at once
        while leading < len(rungs) and rungs[leading].spec.may_answer_inside_turn:
            leading += 1
        self.fast = rungs[:leading]
        """The leading fast and inline rungs, which run on each proposal at once."""
        self.paid = rungs[leading:]
        """The other rungs that decide."""
        self.bought = all_rungs[leading:]
        """The rungs that run as jobs: the paid ones and the control."""
        self.computed = tuple(rung for rung in self.bought if not rung.spec.is_world)
        """The rungs whose jobs computers run."""
        self.asked = tuple(rung for rung in self.bought if rung.spec.is_world)
        """The rungs whose jobs people do."""
        self.phases = deciding_phases(spec)
        """The phase of the values that decide each objective, by property."""
        self.measured_decides = spec.measured == "decide"
        """Whether imported experimental values decide objectives."""
        decided = {o.property for o in self.objectives} if self.measured_decides else set[str]()
        self.free_gates = FreeGates(self.fast, besides=decided)
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
        self.jobs_per_call: dict[Position, int] = {}
        """Largest number of jobs that share a call, by position, for rungs with more than one."""
        for rung in self.computed:
            if rung.verifier.together > 1:
                self.jobs_per_call[rung.rules.position] = rung.verifier.together
        self.limit_by_rung = {spec.position(label): n for label, n in spec.budget.rungs.items()}
        """Largest number of jobs, by position, for rungs with such a limit."""

    def make_script(self, chosen: OneProposerSpec) -> Proposer:
        """Returns the proposer of a script; for a model, the proposer of its seeds. Raises ValueError without seeds."""
        base = self.spec.base
        if isinstance(chosen, EvolveSpec):
            limits = self.edit_limits(chosen.max_sites or chosen.max_heavy_atoms)
            seeds = base / chosen.seeds
            return Evolve(self.subject, seeds, column=stated_column(chosen), limits=limits, keep=chosen.keep)
        if isinstance(chosen, LawSearchSpec):
            return LawSearch(
                self.subject,
                base / chosen.seeds,
                self.objectives,
                pool=chosen.pool,
                past=chosen.past,
                law=chosen.law,
                only_new=chosen.only_new,
                column=stated_column(chosen),
                limits=self.edit_limits(chosen.max_sites or chosen.max_heavy_atoms),
                keep=chosen.keep,
            )
        if isinstance(chosen, EnumerateSpec):
            return Enumerate(library_of(chosen, base))
        if isinstance(chosen, ScreenSpec):
            n_later = self.spec.later_rows(chosen)
            return Screen(self.subject, base / chosen.file, stated_column(chosen), keep=chosen.keep, n_later=n_later)
        if chosen.seeds is None:
            raise ValueError("this proposer names no seeds")
        column = stated_column(chosen)
        seeding = Screen(self.subject, base / chosen.seeds, column, operation=SEED, keep=chosen.keep)
        if isinstance(chosen, PluginSpec):
            file = None if chosen.file is None else base / chosen.file
            task = ProposerTask(self.objectives, self.edit_limits(), file, chosen.settings)
            return PluginProposer(chosen.name, task, seeding)
        return seeding

    def edit_limits(self, size: int | None = None) -> Any:
        """Returns limits for new candidates: the limits of the subject's checks on the ladder, and the maximum size.

        Raises UsageError for a subject without edits."""
        edits = needed_edits(self.subject)
        checks = [r.verifier.settings for r in self.fast if r.verifier.name == self.subject.checks]
        return edits.limits(checks, size)

    @property
    def fewest_waiting(self) -> int:
        """Number of waiting candidates below which the proposer is asked for more."""
        thresholds = []
        for _, proposer in self.spec.proposers:
            if isinstance(proposer, EvolveSpec | LawSearchSpec | LlmSpec):
                thresholds.append(proposer.ahead)
            else:
                thresholds.append(max(proposer.batch, CANDIDATES_PER_WORKER * self.spec.workers))
        return max(thresholds)

    @property
    def proposer_learns(self) -> bool:
        """Whether answers change what is proposed next; the structures of a file are the same whatever is answered."""
        return any(not isinstance(chosen, ScreenSpec) for _, chosen in self.spec.proposers)

    @property
    def waits_for_first_paid_rung(self) -> bool:
        """Whether the proposer is asked only after the first paid rung has answered for all earlier candidates."""
        return any(isinstance(chosen, EvolveSpec) and chosen.wait for _, chosen in self.spec.proposers)

    def scratch(self) -> Path:
        """Returns the working folder of jobs, on the same disk as the artifacts."""
        return scratch_of(self.ledger.artifacts)


def built_ladder(spec: CampaignSpec, fits: LedgerFits | None = None) -> BuiltLadder:
    """Builds the ladder of a spec that is no campaign of a ledger: ids are 0, and cost models have learnt nothing.

    fits: calibrations, by position of the rung.
    """
    ladder = BuiltLadder(spec, build_rungs(spec, ids={}, ratios={}))
    for position, by_property in (fits or {}).items():
        ladder.rungs[position].all_fits.update(by_property)
    return ladder


def built_rungs(ladder: Sequence[RungSpec]) -> tuple[BuiltRung, ...]:
    """Builds rungs that belong to no campaign. They have no objectives, so only their gates judge."""
    last_position = len(ladder) - 1
    rules = ladder_rules(_terms(ladder), accept={}, terminal=last_position, scheduler="thresholds", goal="hits")
    return _built(ladder, rules, ids={}, ratios={})


def build_rungs(spec: CampaignSpec, ids: dict[str, int], ratios: dict[str, list[float]]) -> tuple[BuiltRung, ...]:
    """Builds the rungs of a campaign. ids, ratios: ledger ids and ratios of true to declared cost, by label."""
    objectives = spec.domain_objectives()
    accept = {o.property: o.accept for o in objectives}
    up_to_terminal = spec.ladder[: spec.terminal_position + 1]
    lines = lines_of(up_to_terminal, objectives)
    spared_by = sparing_properties(up_to_terminal, objectives) if spec.measured == "decide" else []
    rules = ladder_rules(
        _terms(spec.ladder),
        accept,
        terminal=spec.terminal_position,
        scheduler=spec.scheduler.kind,
        goal=spec.goal.kind,
        units=spec.chosen_units(),
        lines=lines,
        spared_by=spared_by,
    )
    if spec.control is not None:
        rules = (*rules, control_rules(spec.control, len(spec.ladder)))
    return _built(spec.all_rungs, rules, ids, ratios)


def _terms(ladder: Sequence[RungSpec]) -> list[RungTerms]:
    """Returns the facts about each rung that a judgement needs."""
    return [
        RungTerms(
            str(rung.tier),
            gate=rung.window_gates(),
            drop_on_refusal=rung.on_refusal == "drop",
            measured=frozenset(rung.measured()),
        )
        for rung in ladder
    ]


def _built(
    ladder: Sequence[RungSpec], rules: Sequence[RungRules], ids: dict[str, int], ratios: dict[str, list[float]]
) -> tuple[BuiltRung, ...]:
    """Builds rungs with their rules. ids, ratios: as in `build_rungs`; a rung without an id gets 0."""
    built = []
    for rung, rung_rules in zip(ladder, rules, strict=True):
        limits = Limits(
            rung.limits.wall_seconds,
            int(rung.limits.memory_mb),
            threads=rung.holds[CORES],
            stall_seconds=rung.limits.stall_seconds,
        )
        cost_model = CostModel(reversed(ratios.get(rung.rung, [])))  # the ledger has the latest ratio first
        built.append(BuiltRung(ids.get(rung.rung, 0), rung, rung.configured, rung_rules, limits, cost_model))
    return tuple(built)


def check_here(rungs: Iterable[BuiltRung], workers: int) -> None:
    """Raises UsageError if a rung needs a program or an engine that this machine lacks, more than `workers` cores, or
    another resource, since a driver's own pool has only cores."""
    for rung in rungs:
        check_engines(rung)
        other_resources = {name: n for name, n in rung.holds.items() if name != CORES}
        if other_resources:
            options = " ".join(f"--resource {name}={n}" for name, n in other_resources.items())
            raise UsageError(
                f'rung "{rung.spec.rung}" needs {in_words(other_resources)}, and a campaign that runs its jobs itself '
                f"has cores alone: run it with --executor ledger and start sciagent worker {options}"
            )
        if rung.holds[CORES] > workers:
            raise UsageError(
                f'rung "{rung.spec.rung}" needs {rung.holds[CORES]} cores, and the campaign runs on {workers}: raise '
                "workers, or give it fewer cores"
            )


def check_engines(rung: BuiltRung) -> None:
    """Raises UsageError if this machine lacks a program or an engine that the rung's verifier needs."""
    fault = unavailable(rung.verifier)
    if fault is not None:
        raise UsageError(f'rung "{rung.spec.rung}" ({rung.verifier.name}): {fault}')


def prepare(rungs: Iterable[BuiltRung]) -> None:
    """Lets every rung build the files that it needs. Raises CampaignError that names the rung if it fails."""
    for rung in rungs:
        try:
            rung.verifier.prepare()
        except SimulatorError as error:
            raise CampaignError(f'rung "{rung.spec.rung}" ({rung.verifier.name}): {error.detail}') from error
