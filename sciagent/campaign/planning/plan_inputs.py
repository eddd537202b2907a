"""The inputs of a plan: molecules of the proposer, costs of the rungs on them, and correlations with objectives.

`sample_of` returns the molecules. `step_of` returns a paid rung with its costs and correlations. `from_ledger` returns
what earlier campaigns have learnt of both. A law is the statistical model by which a campaign predicts its objectives.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path

import numpy as np

from sciagent.campaign.core.build import BuiltLadder, BuiltRung
from sciagent.campaign.core.opening import open_for_people
from sciagent.campaign.core.product_libraries import library_of
from sciagent.campaign.core.verdicts import judge
from sciagent.campaign.file.campaign_spec import CampaignSpec
from sciagent.campaign.file.proposers import EnumerateSpec, ScreenSpec
from sciagent.campaign.file.subjects import stated_column
from sciagent.campaign.pricing.ledger_pool import KNOWN, ObservationSchema
from sciagent.campaign.pricing.priced_campaign import PricedCampaign, remake
from sciagent.chemistry.subjects.registry import subject_of
from sciagent.domain.answers.plan import PlanSample, RungTells
from sciagent.domain.candidates import Candidate
from sciagent.domain.evidence import Computation
from sciagent.domain.outcomes import Verdict
from sciagent.domain.rung_position import Position
from sciagent.errors import InvalidCandidateError, SciagentError, UsageError
from sciagent.scheduling.array_types import Array
from sciagent.scheduling.dynamic_programme import variances_left
from sciagent.scheduling.law.gaussian_chain import Forecast
from sciagent.scheduling.payoff import Aim
from sciagent.store.campaign_state import campaigns
from sciagent.store.database.ledger import Ledger
from sciagent.store.job_queue import spend
from sciagent.verification.contract import Verifier
from sciagent.verification.cost_models import MIN_OBSERVATIONS, ninetieth, typical
from sciagent.verification.sandbox.host import Request, Worker

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
    """(n,) expected cost on each accepted molecule of the sample, by resource."""
    refuses: int
    """Number of molecules in the sample that the verifier refuses."""
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
    passed, through_fast = _through_fast(molecules, [rung for rung in ladder.fast if rung.is_fast])
    share = len(molecules) / n_read * len(passed) / len(molecules)  # of the texts that were read
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
            numbers = range(0, library.size, max(1, library.size // SAMPLE_SIZE))
            texts = chain.from_iterable(library.products(number) for number in numbers)
            alone = len(spec.proposers) == 1
            return "the library of the proposer", texts, library.n_products if alone else None
        if chosen.files():
            first_file = next(iter(chosen.files().values()))
            path = spec.base / first_file
            records = subject_of(spec.subject).records(path, stated_column(chosen))
            return str(path), (record.text for record in records), None
    many = subject_of(spec.subject).words.many
    raise UsageError(f"a plan asks the rungs about {many}: name `seeds` for the proposer")


def _through_fast(molecules: Sequence[Candidate], rungs: Sequence[BuiltRung]) -> tuple[list[Candidate], bool]:
    """Returns the molecules that pass the fast rungs, and whether all of these rungs were run. Rungs that would first
    build files, or whose verifier does not run, are skipped."""
    left = list(molecules)
    all_were_run = True
    if not rungs:
        return left, True
    with tempfile.TemporaryDirectory() as folder, Worker(Path(folder), preload=[r.verifier.name for r in rungs]) as w:
        for rung in rungs:
            builds_files = type(rung.verifier).prepare is not Verifier.prepare
            if builds_files:
                all_were_run = False
                continue
            results = w.run(Request.of(rung.verifier, left, rung.limits))
            if not left:
                continue
            if not all(result.finding.outcome.rule.is_evidence for result in results):
                all_were_run = False
                continue
            passing_verdicts = {Verdict.PASS}
            if not rung.rules.drop_on_refusal:
                passing_verdicts.add(Verdict.NOT_APPLICABLE)
            verdicts = [judge(rung.rules, r.finding).verdict for r in results]
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
    """Returns one paid rung of the plan. at: its index among the paid rungs. ratios: learnt over declared cost of each
    earlier job."""
    rung = ladder.rungs[schema.paid[at]]
    factor = typical(ratios)
    taken = [m for m in sample.molecules if _accepts(rung, m)]
    declared_costs = [rung.declared(molecule) for molecule in taken or sample.molecules]
    declared = [cost for cost in declared_costs if cost is not None]
    names = sorted(set(chain.from_iterable(declared)))
    costs = {name: np.array([cost.get(name, 0.0) for cost in declared]) * factor for name in names}
    tells = tuple(learnt.get((at, i)) or _tells(ladder.rungs, schema, at, i) for i in planned_objectives(schema))
    refuses = len(sample.molecules) - len(taken)
    spread = ninetieth(ratios) / factor if 0 < len(ratios) < MIN_OBSERVATIONS else 1.0
    learnt_factor = factor if ratios else None
    return Step(rung, costs, refuses, factor=learnt_factor, tells=tells, spread=spread)


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
    decides = schema.columns[aim.columns[-1]]
    columns = [schema.columns[c] for c in aim.columns if schema.columns[c].at == at]
    others = [column.property for column in columns if column.property != decides.property]
    if decides.at == at:
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
    elif len(others) == len(columns):
        low, high = OTHER_CORRELATION
        kind = "other"
        why = f"it measures {', '.join(others)}"
        middle = (low + high) / 2
    else:
        top = rungs[decides.rung].verifier
        level = next(m.level.label for m in top.measures if m.property.name == decides.property)
        low, middle, high, kind, why = _declared(rungs[schema.paid[at]], decides.property, level)
    return RungTells(property=decides.property, low=low, middle=middle, high=high, kind=kind, why=why)


def _declared(rung: BuiltRung, name: str, level: str) -> tuple[float, float, float, str, str]:
    """Returns (low, middle, high, kind, source) of the declared correlation with the property at another level."""
    priors = [p for p in rung.verifier.priors if p.property == name]
    same = [p for p in priors if level == p.level or level.startswith(f"{p.level}//")]
    if not priors:
        why = f"nobody has declared how {name} ranks against {level}"
        return UNKNOWN_CORRELATION[0], sum(UNKNOWN_CORRELATION) / 2, UNKNOWN_CORRELATION[1], "unknown", why
    prior = max(same or priors, key=lambda p: p.n)
    middle, low, high = _interval(prior.spearman, prior.n)
    why = f"{prior.spearman:g} in rank against {prior.level}, {prior.n} candidates: {prior.source}"
    if same:
        return low, middle, high, "declared", why
    low = min(low, UNKNOWN_CORRELATION[0])
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


def from_ledger(
    ledger: Ledger | None, ladder: BuiltLadder, schema: ObservationSchema
) -> tuple[dict[Position, list[float]], LearntTells, float | None, str | None]:
    """Returns the ratios of learnt to declared costs, by position of the paid rung. Returns also the learnt
    correlations, the share of hits and the name of the latest earlier campaign with the same paid rungs.

    Without such a campaign, there are no correlations, and the share and the name are None.
    """
    if ledger is None:
        return {p: [] for p in schema.paid}, {}, None, None
    identity = {position: ladder.rungs[position].verifier.computation for position in schema.paid}
    with ledger.read() as connection:
        ratios = {position: spend.cost_ratios(connection, *identity[position]) for position in schema.paid}
        for name in reversed(campaigns.names(connection)[-MAX_EARLIER_CAMPAIGNS:]):
            row = campaigns.get(connection, name)
            stored = {r.computation for r in campaigns.rungs(connection, row.id)}
            if row.spec["scheduler"]["kind"] != "priced" or not set(identity.values()) <= stored:
                continue
            try:
                remade = remake(open_for_people(ledger, name), connection)
            except (SciagentError, OSError):
                continue  # its files or verifiers are missing
            if remade is not None:
                learnt, chance = _learnt(remade, name, schema, identity)
                return ratios, learnt, chance, name
    return ratios, {}, None, None


def _learnt(
    remade: PricedCampaign, name: str, schema: ObservationSchema, identity: Mapping[Position, Computation]
) -> tuple[LearntTells, float | None]:
    """Returns the correlation of each rung and the chance of a hit (None if the objectives differ) for a candidate
    without answers, by the law of the earlier campaign `name` without structures."""
    earlier = remade.schema
    scores = remade.pool.scores
    position = {r.verifier.computation: r.rules.position for r in remade.built.rungs}
    at_theirs = {position[identity[p]]: at for at, p in enumerate(schema.paid[:-1])}
    no_answers = np.full((1, scores.shape[1]), np.nan)
    with_fresh_candidate = np.vstack([scores, no_answers])
    fresh = len(scores)  # row of the candidate without answers
    law = remade.scheduler.without_structure(with_fresh_candidate, remade.pool.order)
    learnt: dict[tuple[int, int], RungTells] = {}
    chance: float | None = 1.0
    for number in planned_objectives(schema):
        own_aim = schema.aims.aims[number]
        wanted = schema.columns[own_aim.columns[-1]].property
        same = [i for i, aim in enumerate(earlier.aims.aims) if earlier.columns[aim.columns[-1]].property == wanted]
        if not same:
            chance = None
            continue
        aim = earlier.aims.aims[same[0]]
        truth = (remade.scheduler.truths or ())[same[0]]
        [(_, forecast)] = list(law.chains[same[0]].forecast(np.array([fresh])))
        for at, (r, n) in _correlations(earlier, aim, forecast, scores, at_theirs).items():
            middle, low, high = _interval(_rank_correlation(r), n)
            why = f"the law of {name}, {n} candidates"
            learnt[at, number] = RungTells(property=wanted, low=low, middle=middle, high=high, kind="learnt", why=why)
        if chance is not None and earlier.aims.kind == "hits" and (aim.low, aim.high) == (own_aim.low, own_aim.high):
            chance *= float(truth.chance(forecast.mean, np.sqrt(forecast.variance))[0])
        else:
            chance = None
    if chance is not None and not LEAST_LEARNT_CHANCE < chance < MOST_LEARNT_CHANCE:
        chance = None
    return learnt, chance


def _correlations(
    schema: ObservationSchema, aim: Aim, forecast: Forecast, scores: Array, at: Mapping[Position, int]
) -> dict[int, tuple[float, int]]:
    """Returns {rung index in the plan: (correlation with the truth of one objective, number of candidates with both
    answers)}. at: rung indices in the plan, by position in the earlier campaign."""
    known: dict[int, tuple[float, int]] = {}
    for position, place in at.items():
        columns = [c for c in aim.columns[:-1] if schema.columns[c].rung == position]
        numbers = [aim.columns.index(c) for c in columns]
        missing = [forecast.missing.index(i) for i in numbers if i in forecast.missing]
        both = ~np.isnan(scores[:, np.array([*columns, aim.columns[-1]], dtype=np.intp)])
        n = int(both.all(1).sum()) if columns else 0
        if missing and n >= LEAST_CANDIDATES:
            left = variances_left(forecast.covariance[0], [missing])
            known[place] = math.sqrt(max(0.0, 1 - float(left[1] / left[0]))), n
    return known
