"""Predictions of a law for structures: value with its error and interval, the chance to be a hit, the nearest measured
structures, and how often such intervals held.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sciagent.campaign.core.value_sources import refuse_other_level
from sciagent.campaign.law.fit_law import CampaignValues
from sciagent.campaign.law.law_entries import LawEntry, QuantityLaw
from sciagent.chemistry.subjects.base import Subject
from sciagent.domain.objectives import Objective, ends_of
from sciagent.scheduling.array_types import Array
from sciagent.scheduling.law.left_out_calibration import (
    CENTRES,
    FAR,
    CalibratedProcess,
    ChanceBin,
    ForetoldAnswers,
    SimilarityBin,
    WidthCalibration,
    chance_bins,
    checked,
)
from sciagent.scheduling.law.prediction_interval_width import NORMAL
from sciagent.scheduling.law.similarity import order_of, smallest_hashes
from sciagent.scheduling.law.structure_process import SAME, Answers, ComparedStructures

MOST_OWN = 1000  # answers of a campaign beside those that a law holds; of more, those with the smallest hashes of keys
NEAREST = 3  # measured structures that are named
SIMILARITY_DIGITS = 9  # by which they are ranked, so that no rounding decides
SYMBOL = re.compile("[A-Z][a-z]?")  # of an element in a formula
FEWEST_SEEN = 5  # answers with an element or a charge, below which intervals of structures with it may not hold
BIN_SIZE = 50  # candidates of a bin of chances


class AskedStructure(NamedTuple):
    """A structure that is asked about."""

    notation: str
    """In the normal form of the subject."""
    charge: int
    """Net charge, in elementary charges."""


@dataclass(frozen=True)
class NearestValue:
    """A measured structure like the one that is foretold."""

    notation: str
    structure: str
    """Text that people read."""
    similarity: float
    """In [0, 1]: half by atom environments (count Tanimoto, radius 2), half by traits of the whole."""
    value: float


@dataclass(frozen=True)
class PredictedQuantity:
    """The prediction of one quantity, in its canonical unit."""

    name: str
    unit: str
    level: str
    value: float
    """Median of the predicted distribution."""
    uncertainty: float
    """Half the width of the interval that holds 68.3 % of it."""
    low: float
    """Lower end of the 90 % interval."""
    high: float
    known: float | None
    """The value that was measured already; None if it was not."""
    chance: float | None
    """Probability that the value meets the objective, 0 or 1 for a measured one; None without limits."""
    nearest: tuple[NearestValue, ...]
    held: SimilarityBin | None
    """The left-out answers with such a nearest structure; None if nothing was left out, or with a caveat."""
    caveat: str | None
    """Why the interval may not hold for this structure; None if there is no such reason."""
    own_factor: float
    """Factor on the width by the errors of the campaign's own answers; 1 without any. `held` is told without it."""


@dataclass(frozen=True)
class PredictedStructure:
    """The predictions for one structure."""

    notation: str
    structure: str
    """Text that people read: the SMILES of a molecule, formula and prototype of a crystal."""
    quantities: tuple[PredictedQuantity, ...]
    p_hit: float | None
    """Probability to meet all objectives, as if their errors were independent; None without objectives or limits."""
    missed: str | None = None
    """The gate of the campaign that it misses, or why a fast rung refuses it; it is then no hit."""
    name: str = ""
    """The first of its names in the file from which it was read; empty without one."""


@dataclass(frozen=True)
class CheckedValue:
    """A measured value beside its prediction, in the canonical unit."""

    structure: str
    measured: float
    value: float
    """The predicted value."""
    low: float
    """Lower end of the 90 % interval."""
    high: float


@dataclass(frozen=True)
class QuantityCheck:
    """The predictions of one quantity beside what other campaigns measured of structures that the law had not."""

    name: str
    unit: str
    held: WidthCalibration
    values: tuple[CheckedValue, ...]


@dataclass(frozen=True)
class LawCheck:
    """The predictions of a law beside what other campaigns measured."""

    known: int
    """Number of candidates of which the law holds a value; they are left out."""
    quantities: tuple[QuantityCheck, ...]
    chances: tuple[ChanceBin, ...]
    """Said chances to be hits beside the share that were, in bins of at least 50; empty without limits."""


class LawPredictor:
    """The predictions of a law entry. Its processes are made once, which takes seconds for thousands of rows."""

    def __init__(self, entry: LawEntry, subject: Subject) -> None:
        self.entry = entry
        self._subject = subject
        self._memories = {law.name: law.memory(subject) for law in entry.quantities}
        self._elements = {
            law.name: Counter(element for row in law.rows for element in _elements_of(subject, row.notation))
            for law in entry.quantities
        }

    def predict(
        self,
        asked: Sequence[AskedStructure],
        objectives: Sequence[Objective] = (),
        own: CampaignValues | None = None,
        *,
        are_own: bool = False,
    ) -> list[PredictedStructure]:
        """Returns the predictions for structures, in their order.

        objectives: those of the campaign whose hits are asked for. own: the values of that campaign; a thousand of
        those that the entry does not hold are added to it. are_own: whether the structures are proposals of that
        campaign, whose errors may then narrow the intervals. Raises UsageError if they are of another level.
        """
        if own is not None:
            refuse_other_level("the law", self.entry.sources, own.sources)
        if not asked:
            return []
        limits = {each.property: ends_of(each.accept) for each in objectives if each.accept is not None}
        by_quantity = [self._foretold(law, asked, limits.get(law.name), own, are_own) for law in self.entry.quantities]
        is_whole = bool(limits) and all(self.entry.quantity(each.property) for each in objectives)
        predicted = []
        for place, (notation, _) in enumerate(asked):
            quantities = tuple(of_all[place] for of_all in by_quantity)
            chances = [each.chance for each in quantities if each.chance is not None]
            p_hit = float(np.prod(chances)) if is_whole else None
            predicted.append(PredictedStructure(notation, self._subject.shown(notation), quantities, p_hit))
        return predicted

    def _foretold(
        self,
        law: QuantityLaw,
        asked: Sequence[AskedStructure],
        limits: tuple[float, float] | None,
        own: CampaignValues | None,
        are_own: bool,
    ) -> list[PredictedQuantity]:
        """Returns the prediction of a quantity for each structure. limits: of the objective; None without one."""
        notations = [each.notation for each in asked]
        new = _unknown_values(law, own)
        compared = ComparedStructures()
        compared.add([self._subject.structure(text) for text in (*(text for text, _ in new), *notations)])
        mine = np.arange(len(new))
        rows = np.arange(len(new), len(compared))
        memory = self._memories[law.name]
        answers = Answers(mine, np.array([value for _, value in new]))
        process = CalibratedProcess(memory, law.calibration, compared, answers)
        similarity = process.similarities(rows)
        measured = [*((row.notation, row.value) for row in law.rows), *new]
        nearest = [self._nearest(similarity[:, place], measured, text) for place, text in enumerate(notations)]
        to_nearest = np.array([_similarity(found) for found in nearest])
        mean, sd = process.foretell(rows, to_nearest, are_own=are_own)
        own_factors = process.own_factors(to_nearest, are_own=are_own)
        unseen = self._unseen_elements(law, [text for text, _ in new], notations)
        caveats = _caveats(law, asked, nearest, own, unseen)
        sd[[caveat is not None for caveat in caveats]] *= FAR
        values = dict([*own.values.get(law.name, {}).values(), *measured] if own else measured)
        known = [values.get(text) for text in notations]
        chances = _chances(process, (mean, sd), limits, known)
        one = law.calibration.one_sigma
        transform = law.transform
        ends = {z: transform.inverse(mean + z * sd) for z in (-NORMAL, -one, 0.0, one, NORMAL)}
        return [
            PredictedQuantity(
                name=law.name,
                unit=law.unit,
                level=law.level,
                value=float(ends[0.0][place]),
                uncertainty=float(ends[one][place] - ends[-one][place]) / 2,
                low=float(ends[-NORMAL][place]),
                high=float(ends[NORMAL][place]),
                known=known[place],
                chance=chances[place],
                nearest=nearest[place],
                held=None if caveats[place] else law.calibration.bin_of(_similarity(nearest[place])),
                caveat=caveats[place],
                own_factor=float(own_factors[place]),
            )
            for place in range(len(notations))
        ]

    def _unseen_elements(self, law: QuantityLaw, own: Sequence[str], notations: Sequence[str]) -> list[frozenset[str]]:
        """Returns for each structure its elements that too few answers have. own: notations of own answers."""
        of_own = Counter(element for text in own for element in _elements_of(self._subject, text))
        n_with = self._elements[law.name] + of_own
        known = {element for element, n in n_with.items() if n >= FEWEST_SEEN}
        return [_elements_of(self._subject, text) - known for text in notations]

    def _nearest(
        self, similarity: Array, measured: Sequence[tuple[str, float]], notation: str
    ) -> tuple[NearestValue, ...]:
        """Returns the measured structures that are most similar to one, without itself. similarity: (n,) to each."""
        order = np.argsort(-np.round(similarity, SIMILARITY_DIGITS), kind="stable")[: NEAREST + 1]
        found = [(*measured[row], round(float(similarity[row]), 4)) for row in order.tolist()]
        return tuple(
            NearestValue(text, self._subject.shown(text), alike, value)
            for text, value, alike in found
            if text != notation
        )[:NEAREST]

    def check(self, campaigns: Sequence[tuple[CampaignValues, Sequence[Objective]]]) -> LawCheck:
        """Returns how the predictions hold for what campaigns measured of candidates of which the entry has no value.

        campaigns: their values and their objectives. Raises UsageError for values of another level.
        """
        held = self.entry.keys
        n_known = 0
        said = list[float]()
        real = list[bool]()
        answers: dict[str, list[_Answer]] = {law.name: [] for law in self.entry.quantities}
        for values, objectives in campaigns:
            refuse_other_level("the law", self.entry.sources, values.sources)
            measured = _by_candidate(values)
            new = {key: of_one for key, of_one in measured.items() if key not in held}
            n_known += len(measured) - len(new)
            asked = [AskedStructure(notation, values.charges[key]) for key, (notation, _) in new.items()]
            foretold = self.predict(asked, objectives)
            for (_, by_name), prediction in zip(new.values(), foretold, strict=True):
                for quantity in prediction.quantities:
                    if quantity.name in by_name:
                        answer = _Answer(prediction.structure, by_name[quantity.name], quantity)
                        answers[quantity.name].append(answer)
                if prediction.p_hit is not None and all(each.property in by_name for each in objectives):
                    said.append(prediction.p_hit)
                    real.append(all(_is_met(each, by_name[each.property]) for each in objectives))
        checks = [_quantity_check(law, answers[law.name]) for law in self.entry.quantities if answers[law.name]]
        bins = chance_bins(np.array(said), np.array(real, dtype=bool), BIN_SIZE)
        return LawCheck(n_known, tuple(checks), tuple(bins))


@lru_cache(maxsize=8192)
def _elements_of(subject: Subject, notation: str) -> frozenset[str]:
    """Returns the symbols of the elements of a structure."""
    return frozenset(SYMBOL.findall(subject.read(notation).formula))


def _unknown_values(law: QuantityLaw, own: CampaignValues | None) -> list[tuple[str, float]]:
    """Returns (notation, value) of at most MOST_OWN candidates of a campaign that the law does not hold, by key."""
    if own is None:
        return []
    known = {row.key for row in law.rows}
    of_campaign = own.values.get(law.name, {})
    keys = sorted(of_campaign.keys() - known)
    return [of_campaign[keys[place]] for place in smallest_hashes(order_of(keys), MOST_OWN).tolist()]


def _caveats(
    law: QuantityLaw,
    asked: Sequence[AskedStructure],
    nearest: Sequence[Sequence[NearestValue]],
    own: CampaignValues | None,
    unseen: Sequence[frozenset[str]],
) -> list[str | None]:
    """Returns for each structure why its interval may not hold: a charge or an element that few answers have, or a
    measured structure from which the law cannot tell it, such as its stereoisomer; None if there is no such reason.

    unseen: its elements that too few answers have.
    """
    n_charges = Counter([*(row.charge for row in law.rows), *(own.charges.values() if own else ())])
    caveats = list[str | None]()
    for each, found, elements in zip(asked, nearest, unseen, strict=True):
        caveat = None
        if elements:
            caveat = f"fewer than {FEWEST_SEEN} measured structures have {' or '.join(sorted(elements))}"
        elif n_charges[each.charge] < FEWEST_SEEN:
            caveat = f"fewer than {FEWEST_SEEN} measured structures have the charge {each.charge:+d}"
        elif _similarity(found) >= SAME:
            caveat = f"the law cannot tell it from {found[0].structure}, as it sees no stereo"
        caveats.append(caveat)
    return caveats


def _chances(
    process: CalibratedProcess,
    foretold: tuple[Array, Array],
    limits: tuple[float, float] | None,
    known: Sequence[float | None],
) -> list[float | None]:
    """Returns (n,) probabilities to lie within limits. foretold: means and standard deviations. known: measured values,
    which lie within the limits or do not."""
    if limits is None:
        return [None] * len(known)
    chances: list[float] = process.chances(*foretold, *limits).tolist()
    is_inside = [None if value is None else float(limits[0] <= value <= limits[1]) for value in known]
    return [chance if inside is None else inside for chance, inside in zip(chances, is_inside, strict=True)]


def _similarity(nearest: Sequence[NearestValue]) -> float:
    """Returns the similarity to the nearest measured structure; 0 if there is none."""
    return nearest[0].similarity if nearest else 0.0


def _by_candidate(values: CampaignValues) -> dict[str, tuple[str, dict[str, float]]]:
    """Returns {key: (notation, {property: value})} of the candidates of a campaign that have values."""
    measured: dict[str, tuple[str, dict[str, float]]] = {}
    for name, of_property in values.values.items():
        for key, (notation, value) in sorted(of_property.items()):
            measured.setdefault(key, (notation, {}))[1][name] = value
    return measured


def _is_met(objective: Objective, value: float) -> bool:
    low, high = ends_of(objective.accept)
    return low <= value <= high


class _Answer(NamedTuple):
    """A measured value beside its prediction."""

    structure: str
    measured: float
    predicted: PredictedQuantity


def _quantity_check(law: QuantityLaw, answers: Sequence[_Answer]) -> QuantityCheck:
    values = np.array([each.measured for each in answers])
    low, median, high = (
        law.transform(np.array([getattr(each.predicted, end) for each in answers])) for end in ("low", "value", "high")
    )
    measured = law.transform(values)
    # the ends are factor * NORMAL standard deviations away, each on its side of the median
    side = np.where(measured >= median, high - median, median - low)
    errors = np.abs(measured - median) / np.maximum(side, 1e-300) * NORMAL
    foretold = ForetoldAnswers(
        values=values,
        foretold=np.array([each.predicted.value for each in answers]),
        errors=errors,
        nearest=np.array([_similarity(each.predicted.nearest) for each in answers]),
        groups=_one_group(len(values)),
    )
    by_bin = [each.factor for each in law.calibration.bins] or [1.0] * len(CENTRES)
    held = checked(foretold, np.ones(len(values)), by_bin, 1)
    points = [
        CheckedValue(each.structure, each.measured, each.predicted.value, each.predicted.low, each.predicted.high)
        for each in answers
    ]
    return QuantityCheck(law.name, law.unit, held, tuple(points))


def _one_group(n: int) -> NDArray[np.int64]:
    return np.zeros(n, dtype=np.int64)
