"""The inputs of a plan: molecules of the proposer, costs of the rungs on them, and correlations with objectives.

`sample_of` returns the molecules. `step_of` returns a paid rung with its costs and correlations. `learnt_from_ledger`
returns the costs and correlations that earlier campaigns have learnt. A law is the statistical model by which a
campaign predicts its objectives.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path

import numpy as np

from sciagent.campaign.core.built_campaign_and_derived_values import BuiltLadder, BuiltRung
from sciagent.campaign.core.create_and_open import open_campaign_for_people
from sciagent.campaign.core.product_libraries import library_of
from sciagent.campaign.core.verdicts_and_places import judge
from sciagent.campaign.file.campaign_spec import CampaignSpec
from sciagent.campaign.file.proposers import EnumerateSpec, ScreenSpec
from sciagent.campaign.file.subject_and_safety import stated_column
from sciagent.campaign.pricing.observation_schema_and_ledger_pool import KNOWN, ObservationSchema
from sciagent.campaign.pricing.pool_law_and_cost_unit import PricedCampaign, rebuild_with_law
from sciagent.chemistry.subjects.registry_and_candidate_dispatch import subject_of
from sciagent.domain.answers.plan import PlanSample, RungTells
from sciagent.domain.candidate_and_its_names_in_files import Candidate
from sciagent.domain.evidence_keys_and_pooled_replicates import Computation
from sciagent.domain.outcomes_verdicts_and_reasons import Verdict
from sciagent.domain.rung_positions_and_tiers import Position
from sciagent.errors import InvalidCandidateError, SciagentError, UsageError
from sciagent.scheduling.aims_and_payoff import Aim
from sciagent.scheduling.array_types import Array
from sciagent.scheduling.dynamic_programme import variances_left
from sciagent.scheduling.law.gaussian_process_chain import Forecast
from sciagent.store.campaign_state import campaigns
from sciagent.store.database.ledger import Ledger
from sciagent.store.job_queue import reservations_and_bookings
from sciagent.verification.cost_models import MIN_OBSERVATIONS, expected_ratio, ratio_90th_percentile
from sciagent.verification.sandbox.host import Request, Worker
from sciagent.verification.verifier_contract import Verifier

SAMPLE_SIZE = 50  # number of molecules in the sample
UNKNOWN_CORRELATION = (0.3, 0.9)
"""Range of the correlation of a rung that measures the same property, if no correlation is declared."""
OTHER_CORRELATION = (0.0, 0.9)  # range of the correlation of a rung that measures another property
MAX_CORRELATION = 0.995  # largest correlation that is used
MAX_EARLIER_CAMPAIGNS = 20  # most earlier campaigns whose laws are tried
LEAST_CANDIDATES = 10  # least number of candidates with both answers for a learnt correlation
NORMAL_97_5 = 1.96  # quantile of the normal distribution, for 95 % intervals
RANK_VARIANCE = 1.06  # variance of Fisher's z of a rank correlation, times the number of candidates less 3
LEAST_LEARNT_CHANCE = 1e-4  # the law knows too little of a smaller chance of a hit
MOST_LEARNT_CHANCE = 0.95  # the law knows too little of a larger chance of a hit

LearntTells = Mapping[tuple[int, int], RungTells]
"""Learnt correlations, by index of the paid rung and index of the objective."""


@dataclass(frozen=True)
class Step:
    """A paid rung with its costs and correlations."""

    rung: BuiltRung
    costs: Mapping[str, Array]
    """(n,) expected cost on each accepted molecule of the sample, by resource, with all its replicates."""
    refuses: int
    """Number of molecules in the sample that the verifier refuses."""
    too_long: int
    """Number of molecules in the sample whose expected cost is above what one attempt may take."""
    factor: float | None
    """Ratio of learnt to declared cost; None if no cost was learnt."""
    tells: tuple[RungTells, ...]
    """Correlation with each objective."""
    spread: float
    """90th percentile of a job's cost over its expected cost; 1 without earlier jobs, and once the ratio is learnt."""

    @property
    def label(self) -> str:
        return self.rung.spec.rung

    @property
    def is_needed(self) -> bool:
        """Whether the rung decides an objective."""
        return any(tells.kind == "decides" for tells in self.tells)


@dataclass(frozen=True)
class Sample:
    """The molecules for which costs are estimated."""

    molecules: tuple[Candidate, ...]
    about: PlanSample
    total: int | None
    """Largest possible number of candidates; None without a limit."""


def sample_of(ladder: BuiltLadder) -> Sample:
    """Returns the first readable molecules of the proposer's file that pass the fast rungs.

    Of a library of combinations, it returns molecules from all over the library. If no molecule passes the fast rungs,
    it returns the readable ones. Raises UsageError.
    """
    spec = ladder.spec
    source, texts, n_candidates = _texts(spec)
    molecules: list[Candidate] = []
    n_read = 0
    for text in texts:
        n_read += 1
        try:
            molecules.append(spec.standardisation.apply(text).candidate)
        except InvalidCandidateError:
            continue
        if len(molecules) == SAMPLE_SIZE:
            break
    if not molecules:
        raise UsageError(f"{source}: none of its {n_read} structures can be read; see: sciagent add --file")
    total = spec.budget.proposals
    if n_candidates is None and isinstance(spec.proposer, ScreenSpec):
        more_texts = texts if total is None else islice(texts, max(0, total - n_read))
        n_candidates = n_read + sum(1 for _ in more_texts)
    if n_candidates is not None:
        total = n_candidates if total is None else min(total, n_candidates)
    fast_rungs = [rung for rung in ladder.fast if rung.is_fast]  # `ladder.fast` has the inline rungs, too
    passed, through_fast = _through_fast(molecules, fast_rungs)
    readable_share = len(molecules) / n_read
    share = readable_share * len(passed) / len(molecules)
    sample = tuple(passed or molecules)
    about = PlanSample(
        molecules=len(sample), source=Path(source).name, read=n_read, through_fast_rungs=through_fast, passed=share
    )
    return Sample(sample, about, total)


def _texts(spec: CampaignSpec) -> tuple[str, Iterator[str], int | None]:
    """Returns the name of a proposer's file or library, its SMILES, and the number of its candidates if it is known.

    Raises UsageError if no proposer begins with a file or a library."""
    for _, chosen in spec.proposers:
        if isinstance(chosen, EnumerateSpec):
            library = library_of(chosen, spec.base)
            # places all over the library; at one place there may be no, one or several products
            numbers = range(0, library.size, max(1, library.size // SAMPLE_SIZE))
            texts = chain.from_iterable(library.products(number) for number in numbers)
            is_only_proposer = len(spec.proposers) == 1
            n_candidates = library.n_products if is_only_proposer else None
            return "the library of the proposer", texts, n_candidates
        files = list(chosen.files().values())
        if files:
            path = spec.base / files[0]
            records = subject_of(spec.subject).records(path, stated_column(chosen))
            return str(path), (record.text for record in records), None
    many = subject_of(spec.subject).words.many
    raise UsageError(f"a plan asks the rungs about {many}: name `seeds` for the proposer")


def _through_fast(molecules: Sequence[Candidate], rungs: Sequence[BuiltRung]) -> tuple[list[Candidate], bool]:
    """Returns the molecules that pass the fast rungs, and whether all of these rungs were run.

    A rung is skipped if it would have to build files first, or if its verifier does not run.
    """
    left = list(molecules)
    all_were_run = True
    if not rungs:
        return left, True
    names = [rung.verifier.name for rung in rungs]
    with tempfile.TemporaryDirectory() as folder, Worker(Path(folder), preload=names) as worker:
        for rung in rungs:
            builds_files = type(rung.verifier).prepare is not Verifier.prepare  # it has a `prepare` of its own
            if builds_files:
                all_were_run = False
                continue
            if not left:
                continue
            results = worker.run(Request.of(rung.verifier, left, rung.limits))
            if not all(result.finding.outcome.rule.is_evidence for result in results):
                all_were_run = False
                continue
            passing_verdicts = {Verdict.PASS}
            if not rung.rules.drop_on_refusal:
                passing_verdicts.add(Verdict.NOT_APPLICABLE)
            verdicts = [judge(rung.rules, result.finding).verdict for result in results]
            left = [molecule for molecule, verdict in zip(left, verdicts, strict=True) if verdict in passing_verdicts]
    return left, all_were_run


def step_of(
    ladder: BuiltLadder,
    schema: ObservationSchema,
    at: int,
    sample: Sample,
    ratios: Sequence[float],
    learnt: LearntTells,
) -> Step:
    """Returns one paid rung of the plan.

    at: its index among the paid rungs. ratios: actual over declared cost of each earlier job. learnt: correlations that
    an earlier campaign has learnt.
    """
    rung = ladder.rungs[schema.paid[at]]
    factor = expected_ratio(ratios)
    accepted = [molecule for molecule in sample.molecules if _accepts(rung, molecule)]
    declared_costs = [rung.declared_cost(molecule) for molecule in accepted or sample.molecules]
    declared = [cost for cost in declared_costs if cost is not None]
    names = sorted(set(chain.from_iterable(declared)))
    n_jobs = rung.spec.tasks_per_candidate
    costs = {name: np.array([cost.get(name, 0.0) for cost in declared]) * factor * n_jobs for name in names}
    too_long = 0
    if accepted:
        too_long = sum(_exceeds(cost, factor, rung.ceilings) for cost in declared)
    tells = []
    for objective in planned_objectives(schema):
        tells.append(learnt.get((at, objective)) or _tells(ladder.rungs, schema, at, objective))
    refuses = len(sample.molecules) - len(accepted)
    spread = ratio_90th_percentile(ratios) / factor if 0 < len(ratios) < MIN_OBSERVATIONS else 1.0
    learnt_factor = factor if ratios else None
    return Step(rung, costs, refuses, too_long, factor=learnt_factor, tells=tuple(tells), spread=spread)


def _exceeds(declared: Mapping[str, float], factor: float, ceilings: Mapping[str, float]) -> bool:
    """Returns whether the declared cost times the factor exceeds a ceiling; a resource without one has no limit."""
    return any(amount * factor > ceilings.get(name, math.inf) for name, amount in declared.items())


def planned_objectives(schema: ObservationSchema) -> list[int]:
    """Returns the indices of objectives that a paid rung decides; if there are none, of all objectives."""
    aims = schema.aims.aims
    decided_by_paid_rung = []
    for i, aim in enumerate(aims):
        deciding_column = schema.columns[aim.columns[-1]]
        if deciding_column.at != KNOWN:
            decided_by_paid_rung.append(i)
    return decided_by_paid_rung or list(range(len(aims)))


def _accepts(rung: BuiltRung, molecule: Candidate) -> bool:
    """Returns whether the verifier of a rung takes a molecule."""
    try:
        return rung.verifier.accepts(molecule) is None
    except Exception:  # noqa: BLE001  a plug-in may raise anything; the job itself will report it
        return True


def _tells(rungs: Sequence[BuiltRung], schema: ObservationSchema, at: int, number: int) -> RungTells:
    """Returns the lowest and highest correlation with objective `number` that the verifier of rung `at` declares."""
    aim = schema.aims.aims[number]
    deciding = schema.columns[aim.columns[-1]]
    columns = [schema.columns[c] for c in aim.columns if schema.columns[c].at == at]
    others = [column.property for column in columns if column.property != deciding.property]
    if deciding.at == at:
        low = 1.0
        middle = 1.0
        high = 1.0
        kind = "decides"
        why = "it decides it"
    elif not columns:
        low = 0.0
        middle = 0.0
        high = 0.0
        kind = "nothing"
        why = "it says nothing of it"
    elif len(others) == len(columns):  # the rung does not measure the objective's property
        low, high = OTHER_CORRELATION
        kind = "other"
        why = f"it measures {', '.join(others)}"
        middle = (low + high) / 2
    else:
        deciding_verifier = rungs[deciding.rung].verifier
        level = next(m.level.label for m in deciding_verifier.measures if m.property.name == deciding.property)
        low, middle, high, kind, why = _declared(rungs[schema.paid[at]], deciding.property, level)
    return RungTells(property=deciding.property, low=low, middle=middle, high=high, kind=kind, why=why)


def _declared(rung: BuiltRung, name: str, level: str) -> tuple[float, float, float, str, str]:
    """Returns (low, middle, high, kind, source) of the declared correlation with the property at another level."""
    priors = [p for p in rung.verifier.priors if p.property == name]
    same = [p for p in priors if level == p.level or level.startswith(f"{p.level}//")]  # any level of the geometry
    if not priors:
        why = f"nobody has declared how {name} ranks against {level}"
        return UNKNOWN_CORRELATION[0], sum(UNKNOWN_CORRELATION) / 2, UNKNOWN_CORRELATION[1], "unknown", why
    prior = max(same or priors, key=lambda p: p.n)
    middle, low, high = _interval(prior.spearman, prior.n)
    why = f"{prior.spearman:g} in rank against {prior.level}, {prior.n} candidates: {prior.source}"
    if same:
        return low, middle, high, "declared", why
    low = min(low, UNKNOWN_CORRELATION[0])  # it may rank worse at another level than at the declared one
    return low, (low + high) / 2, high, "elsewhere", f"{why}; here {level}"


def _interval(spearman: float, n: int) -> tuple[float, float, float]:
    """Returns middle, low and high: the absolute correlation of a joint Gaussian with this rank correlation, and its
    95 % interval (Fisher's z; variance after Fieller, Hartley and Pearson, Biometrika 44, 470 (1957))."""
    z = math.atanh(min(abs(spearman), MAX_CORRELATION))
    half_width = NORMAL_97_5 * math.sqrt(RANK_VARIANCE / max(n - 3, 1))
    middle = _linear_correlation(math.tanh(z))
    low = _linear_correlation(max(math.tanh(z - half_width), 0.0))
    high = _linear_correlation(math.tanh(z + half_width))
    return middle, low, high


def _linear_correlation(spearman: float) -> float:
    """Returns the correlation of a joint Gaussian with this rank correlation, `MAX_CORRELATION` at most."""
    return min(2 * math.sin(math.pi * spearman / 6), MAX_CORRELATION)


def _rank_correlation(correlation: float) -> float:
    """Returns the rank correlation of a joint Gaussian with this correlation."""
    return 6 / math.pi * math.asin(correlation / 2)


def learnt_from_ledger(
    ledger: Ledger | None, ladder: BuiltLadder, schema: ObservationSchema
) -> tuple[dict[Position, list[float]], LearntTells, float | None, str | None]:
    """Returns the ratios of actual to declared cost of earlier jobs, by position of the paid rung; then, of the latest
    earlier campaign with the same paid rungs, the learnt correlations, the share of hits and the name.

    Without such a campaign, there are no correlations, and the share and the name are None.
    """
    if ledger is None:
        return {p: [] for p in schema.paid}, {}, None, None
    # what identifies a rung in any campaign: its verifier, version and settings
    identity = {position: ladder.rungs[position].verifier.computation for position in schema.paid}
    with ledger.read() as connection:
        ratios = {
            position: reservations_and_bookings.cost_ratios(connection, *identity[position]) for position in schema.paid
        }
        for name in reversed(campaigns.names(connection)[-MAX_EARLIER_CAMPAIGNS:]):
            row = campaigns.get(connection, name)
            stored = {rung.computation for rung in campaigns.rungs(connection, row.id)}
            has_paid_rungs = set(identity.values()) <= stored
            if row.spec["scheduler"]["kind"] != "priced" or not has_paid_rungs:
                continue
            try:
                rebuilt = rebuild_with_law(open_campaign_for_people(ledger, name), connection)
            except (SciagentError, OSError):
                continue  # its files or verifiers are missing
            if rebuilt is not None:
                learnt, chance = _learnt(rebuilt, name, schema, identity)
                return ratios, learnt, chance, name
    return ratios, {}, None, None


def _learnt(
    rebuilt: PricedCampaign, name: str, schema: ObservationSchema, identity: Mapping[Position, Computation]
) -> tuple[LearntTells, float | None]:
    """Returns the correlation of each rung, and the chance of a hit of a candidate without answers.

    Both are from the law of the earlier campaign `name`, used without structures. The chance is None if the objectives
    differ. schema, identity: of this campaign; identity: computations by position of the paid rung.
    """
    earlier = rebuilt.schema
    scores = rebuilt.pool.scores
    earlier_position = {rung.verifier.computation: rung.rules.position for rung in rebuilt.built.rungs}
    index_in_plan: dict[Position, int] = {}  # by position in the earlier campaign, without the terminal rung
    for index, position in enumerate(schema.paid[:-1]):
        index_in_plan[earlier_position[identity[position]]] = index
    no_answers = np.full((1, scores.shape[1]), np.nan)
    with_fresh_candidate = np.vstack([scores, no_answers])
    fresh = len(scores)  # row of the candidate without answers
    law = rebuilt.scheduler.without_structure(with_fresh_candidate, rebuilt.pool.order)
    learnt: dict[tuple[int, int], RungTells] = {}
    chance: float | None = 1.0
    for number in planned_objectives(schema):
        own_aim = schema.aims.aims[number]
        wanted = schema.columns[own_aim.columns[-1]].property
        of_property = []  # indices of the earlier campaign's objectives on this property
        for index, earlier_aim in enumerate(earlier.aims.aims):
            if earlier.columns[earlier_aim.columns[-1]].property == wanted:
                of_property.append(index)
        if not of_property:
            chance = None
            continue
        first = of_property[0]
        aim = earlier.aims.aims[first]
        truth = (rebuilt.scheduler.truths or ())[first]
        [(_, forecast)] = list(law.chains[first].forecast(np.array([fresh])))  # one group, since it is one candidate
        correlations = _correlations(earlier, aim, forecast, scores, index_in_plan)
        for at, (correlation, n) in correlations.items():
            middle, low, high = _interval(_rank_correlation(correlation), n)
            why = f"the law of {name}, {n} candidates"
            learnt[at, number] = RungTells(property=wanted, low=low, middle=middle, high=high, kind="learnt", why=why)
        has_same_limits = (aim.low, aim.high) == (own_aim.low, own_aim.high)
        if chance is not None and earlier.aims.kind == "hits" and has_same_limits:
            chance *= float(truth.chance(forecast.mean, np.sqrt(forecast.variance))[0])
        else:
            chance = None
    if chance is not None and not LEAST_LEARNT_CHANCE < chance < MOST_LEARNT_CHANCE:
        chance = None
    return learnt, chance


def _correlations(
    schema: ObservationSchema, aim: Aim, forecast: Forecast, scores: Array, index_in_plan: Mapping[Position, int]
) -> dict[int, tuple[float, int]]:
    """Returns {rung index in the plan: (correlation with the truth of one objective, number of candidates that both the
    rung and the deciding rung have answered)}.

    schema, aim, forecast, scores: of the earlier campaign. index_in_plan: rung indices in the plan, by position in the
    earlier campaign.
    """
    known: dict[int, tuple[float, int]] = {}
    for position, index in index_in_plan.items():
        columns = [c for c in aim.columns[:-1] if schema.columns[c].rung == position]
        places_in_aim = [aim.columns.index(c) for c in columns]
        places_in_covariance = [forecast.missing.index(place) for place in places_in_aim if place in forecast.missing]
        is_answered = ~np.isnan(scores[:, np.array([*columns, aim.columns[-1]], dtype=np.intp)])
        n = int(is_answered.all(1).sum()) if columns else 0
        if places_in_covariance and n >= LEAST_CANDIDATES:
            variance, variance_with_answers = variances_left(forecast.covariance[0], [places_in_covariance])
            explained_share = 1 - float(variance_with_answers / variance)
            known[index] = math.sqrt(max(0.0, explained_share)), n
    return known
