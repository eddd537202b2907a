"""What a plan is made from: molecules of the proposer, what rungs cost on them, and what each is known to tell."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sqlalchemy.engine import Connection

from sciagent.campaign.core.build import BuiltRung, open_for_people
from sciagent.campaign.core.judge import judge
from sciagent.campaign.pricing.forecast import fitted, remake
from sciagent.campaign.pricing.observations import KNOWN, ObservationSchema
from sciagent.campaign.spec.campaign_spec import CampaignSpec
from sciagent.campaign.spec.sources import ScreenSpec
from sciagent.chemistry.molecule import parse_molecule
from sciagent.chemistry.structure_files import read_structures
from sciagent.domain.campaigns.ladder import Position
from sciagent.domain.candidates import Candidate
from sciagent.domain.outcomes import Verdict
from sciagent.errors import InvalidCandidateError, SciagentError, UsageError
from sciagent.scheduling.value import variances_left
from sciagent.store.campaign_state import campaigns
from sciagent.store.database.ledger import Ledger
from sciagent.store.job_queue import spend
from sciagent.verification.contract import Verifier
from sciagent.verification.cost import CostModel, cost_or_none
from sciagent.verification.sandbox.host import Request, Worker

Array = NDArray[np.float64]

SAMPLE = 50  # molecules
UNKNOWN = (0.3, 0.9)  # correlation of a rung that measures the same property, if nobody has said any
OTHER = (0.0, 0.9)  # the same of one that measures something else
SURE = 0.995  # no rung is trusted to tell more
EARLIER = 20  # campaigns of the ledger, at most, whose laws are tried
FEWEST = 10  # candidates that both rungs have answered, for a learnt correlation


@dataclass(frozen=True)
class Tells:
    """How a rung's answer correlates with the property of one objective: between low and high. kind: learnt, declared,
    elsewhere (declared, but against another level), unknown, other (it measures something else), decides or nothing."""

    low: float
    middle: float
    high: float
    kind: str
    why: str

    def at(self, end: str) -> float:
        return float(getattr(self, end))


NOTHING = Tells(0.0, 0.0, 0.0, "nothing", "it says nothing of it")
DECIDES = Tells(1.0, 1.0, 1.0, "decides", "it decides it")


@dataclass(frozen=True)
class Step:
    """A paid rung. costs: (n,) by resource, of the sample, as learnt. tells: of each objective."""

    rung: BuiltRung
    costs: Mapping[str, Array]
    refuses: int
    factor: float | None
    tells: tuple[Tells, ...]

    @property
    def label(self) -> str:
        return self.rung.spec.rung

    @property
    def is_needed(self) -> bool:
        return any(one.kind == "decides" for one in self.tells)


@dataclass(frozen=True)
class Sample:
    """Molecules that the ladder is asked about. total: candidates there will be at most, None where nothing limits
    them; passed: share of the sample that the fast rungs let through."""

    molecules: tuple[Candidate, ...]
    source: str
    read: int
    total: int | None
    passed: float
    through_fast: bool


def paid_of(rungs: Sequence[BuiltRung]) -> tuple[BuiltRung, ...]:
    """As in `Built`."""
    return tuple(rungs[next((i for i, r in enumerate(rungs) if not r.is_fast), len(rungs)) :])


# The molecules


def sample_of(spec: CampaignSpec, rungs: Sequence[BuiltRung]) -> Sample:
    """The first molecules of the proposer's file that can be read, after the fast rungs. Raises UsageError."""
    chosen = next((one for _, one in spec.proposers if one.files()), None)
    if chosen is None:
        raise UsageError("a plan asks the rungs about molecules: name `seeds` for the proposer")
    path = spec.base / next(iter(chosen.files().values()))
    made: list[Candidate] = []
    read_ = 0
    records = read_structures(path, chosen.column)
    for record in records:
        read_ += 1
        try:
            made.append(parse_molecule(record.text, standardise=spec.standardise))
        except InvalidCandidateError:
            continue
        if len(made) == SAMPLE:
            break
    if not made:
        raise UsageError(f"{path}: none of its {read_} structures can be read; see: sciagent add --file")
    total = spec.budget.proposals
    if isinstance(spec.proposer, ScreenSpec):
        there = read_ + sum(1 for _ in (records if total is None else islice(records, max(0, total - read_))))
        total = there if total is None else min(total, there)
    readable = len(made) / read_
    going, ran = _through_fast(made, rungs[: len(rungs) - len(paid_of(rungs))])
    return Sample(tuple(going or made), path.name, read_, total, readable * len(going) / len(made), ran)


def _through_fast(molecules: Sequence[Candidate], rungs: Sequence[BuiltRung]) -> tuple[list[Candidate], bool]:
    """Those that the fast rungs let through, and whether all of these were asked: none that would first build
    something on disk, and none whose verifier does not run."""
    going, asked = list(molecules), True
    if not rungs:
        return going, True
    with tempfile.TemporaryDirectory() as folder, Worker(Path(folder), preload=[r.verifier.name for r in rungs]) as w:
        for rung in rungs:
            if type(rung.verifier).prepare is not Verifier.prepare:
                asked = False
                continue
            results = w.run(Request(rung.verifier.name, rung.verifier.request_settings, tuple(going), rung.limits))
            found = [r.finding for r in results]
            if not going or not all(f.outcome.rule.is_evidence for f in found):
                asked = asked and not going
                continue
            said = [judge(rung.rules, f.outcome, f.reason, f.detail, f.measured).verdict for f in found]
            stays = {Verdict.PASS} | (set() if rung.rules.drop_on_refusal else {Verdict.NOT_APPLICABLE})
            going = [m for m, verdict in zip(going, said, strict=True) if verdict in stays]
    return going, asked


# What is known of the rungs


def step_of(
    rungs: Sequence[BuiltRung],
    schema: ObservationSchema,
    at: int,
    sample: Sample,
    ratios: Sequence[float],
    learnt: Mapping[tuple[int, int], Tells],
) -> Step:
    """at: place among the paid rungs. learnt: by that and the number of the objective."""
    rung = rungs[schema.paid[at]]
    model = CostModel(reversed(ratios))
    taken = [m for m in sample.molecules if _accepts(rung, m)]
    declared = [c for m in taken or sample.molecules if (c := cost_or_none(rung.verifier, m)) is not None]
    names = sorted({name for cost in declared for name in cost})
    costs = {name: np.array([cost.get(name, 0.0) for cost in declared]) * model.factor for name in names}
    tells = tuple(learnt.get((at, i)) or _tells(rungs, schema, at, i) for i in asked(schema))
    refuses = len(sample.molecules) - len(taken)
    return Step(rung, costs, refuses, model.factor if model.learnt else None, tells)


def asked(schema: ObservationSchema) -> list[int]:
    """The objectives that a paid rung decides; what a fast rung decides is known before anything is bought."""
    aims = schema.aims.aims
    found = [i for i, aim in enumerate(aims) if schema.columns[aim.columns[-1]].at != KNOWN]
    return found or list(range(len(aims)))


def _accepts(rung: BuiltRung, molecule: Candidate) -> bool:
    try:
        return rung.verifier.accepts(molecule) is None
    except Exception:  # noqa: BLE001  a plug-in may raise anything; the job itself will say it
        return True


def _tells(rungs: Sequence[BuiltRung], schema: ObservationSchema, at: int, number: int) -> Tells:
    """How well each rung tells one objective, by what its verifier declares."""
    rung = rungs[schema.paid[at]]
    aim = schema.aims.aims[number]
    decides = schema.columns[aim.columns[-1]]
    mine = [schema.columns[c] for c in aim.columns if schema.columns[c].at == at]
    if decides.at == at:
        return DECIDES
    if not mine:
        return NOTHING
    top = rungs[decides.rung].verifier
    level = next(m.level.label for m in top.measures if m.property.name == decides.property)
    if all(c.property != decides.property for c in mine):
        return Tells(*_middled(*OTHER), "other", f"it measures {', '.join(c.property for c in mine)}")
    priors = [p for p in rung.verifier.priors if p.property == decides.property]
    same = [p for p in priors if level == p.level or level.startswith(f"{p.level}//")]
    if not priors:
        return Tells(
            *_middled(*UNKNOWN), "unknown", f"nobody has declared how {decides.property} ranks against {level}"
        )
    prior = max(same or priors, key=lambda p: p.n)
    r, low, high = _interval(prior.spearman, prior.n)
    where = f"{prior.spearman:g} in rank against {prior.level}, {prior.n} molecules: {prior.source}"
    if same:
        return Tells(low, r, high, "declared", where)
    return Tells(min(low, UNKNOWN[0]), (min(low, UNKNOWN[0]) + high) / 2, high, "elsewhere", f"{where}; here {level}")


def _middled(low: float, high: float) -> tuple[float, float, float]:
    return low, (low + high) / 2, high


def _interval(spearman: float, n: int) -> tuple[float, float, float]:
    """Correlation of a joint Gaussian with this rank correlation, whatever its sign, and a 95 % interval (Fisher's z;
    the variance for ranks after Fieller, Hartley and Pearson, Biometrika 44, 470 (1957))."""
    z = math.atanh(min(abs(spearman), SURE))
    half = 1.96 * math.sqrt(1.06 / max(n - 3, 1))
    ends = (max(math.tanh(z - half), 0.0), math.tanh(z), math.tanh(z + half))
    r, low, high = (min(2 * math.sin(math.pi * one / 6), SURE) for one in (ends[1], ends[0], ends[2]))
    return r, low, high


def from_ledger(
    ledger: Ledger | None, spec: CampaignSpec, rungs: Sequence[BuiltRung], schema: ObservationSchema
) -> tuple[dict[Position, list[float]], dict[tuple[int, int], Tells], float | None, str | None]:
    """What the rungs cost beside what was declared, by position; what they tell, by place among the paid ones and
    objective, and the share of hits, as the law of an earlier campaign has it; and that campaign's name."""
    if ledger is None:
        return {p: [] for p in schema.paid}, {}, None, None
    with ledger.read() as connection:
        identity = {p: _identity(rungs[p]) for p in schema.paid}
        ratios = {p: spend.cost_ratios(connection, *one) for p, one in identity.items()}
        for name in reversed(campaigns.names(connection)[-EARLIER:]):
            row = campaigns.get(connection, name)
            stored = {(r.verifier, r.verifier_version, r.settings_hash) for r in campaigns.rungs(connection, row.id)}
            if row.spec["scheduler"]["kind"] != "priced" or not set(identity.values()) <= stored:
                continue
            try:
                found = _learnt(ledger, connection, name, schema, identity)
            except (SciagentError, OSError):
                continue  # its files or verifiers are gone
            if found is not None:
                return ratios, *found, name
    return ratios, {}, None, None


def _identity(rung: BuiltRung) -> tuple[str, str, str]:
    return rung.verifier.name, rung.verifier.version, rung.verifier.settings_hash


def _learnt(
    ledger: Ledger,
    connection: Connection,
    name: str,
    schema: ObservationSchema,
    identity: Mapping[Position, tuple[str, str, str]],
) -> tuple[dict[tuple[int, int], Tells], float | None] | None:
    """By the law without structure, of a candidate on which no rung has answered yet."""
    remade = remake(open_for_people(ledger, name), connection)
    if remade is None:
        return None
    theirs, scores = remade.campaign.schema, remade.campaign.pool.scores
    position = {_identity(r): r.rules.position for r in remade.campaign.built.rungs}
    fresh = np.vstack([scores, np.full((1, scores.shape[1]), np.nan)])
    [law] = fitted(remade.row, theirs, fresh, remade.truths, None, 0)
    told_: dict[tuple[int, int], Tells] = {}
    chance: float | None = 1.0
    for number in asked(schema):
        mine = schema.aims.aims[number]
        wanted = schema.columns[mine.columns[-1]].property
        same = [i for i, a in enumerate(theirs.aims.aims) if theirs.columns[a.columns[-1]].property == wanted]
        if not same:
            chance = None
            continue
        aim, chain, truth = theirs.aims.aims[same[0]], law.chains[same[0]], remade.truths[same[0]]
        [(_, forecast)] = list(chain.forecast(np.array([len(scores)])))
        covariance = forecast.covariance[0]
        for at, p in enumerate(schema.paid[:-1]):
            columns = [c for c in aim.columns[:-1] if theirs.columns[c].rung == position[identity[p]]]
            places = [
                forecast.missing.index(aim.columns.index(c))
                for c in columns
                if aim.columns.index(c) in forecast.missing
            ]
            both = ~np.isnan(scores[:, np.array([*columns, aim.columns[-1]], dtype=np.intp)])
            n = int(both.all(1).sum()) if columns else 0
            if places and n >= FEWEST:
                left = variances_left(covariance, [places])
                r = math.sqrt(max(0.0, 1 - float(left[1] / left[0])))
                middle, low, high = _interval(6 / math.pi * math.asin(r / 2), n)
                told_[at, number] = Tells(low, middle, high, "learnt", f"the law of {name}, {n} candidates")
        if chance is not None and theirs.aims.kind == "hits" and (aim.low, aim.high) == (mine.low, mine.high):
            chance *= float(truth.chance(forecast.mean, np.sqrt(forecast.variance))[0])
        else:
            chance = None
    return told_, chance if chance is not None and 1e-4 < chance < 0.95 else None
