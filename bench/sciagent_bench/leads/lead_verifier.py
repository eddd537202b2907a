"""The verifier `bench.lead`: the score of a molecule by an oracle, and its similarity to a lead.

The oracles are those on which leads are usually optimised: QED, penalised logP, and the models of activity on DRD2,
GSK3β and JNK3 of PMO, as TDC has them. A similarity costs no call: `glance` gives it, so that proposers leave out
molecules that a gate on it would drop.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from sciagent.chemistry.molecule import Molecule
from sciagent.chemistry.subjects.molecule import MoleculeSubject
from sciagent.errors import UsageError
from sciagent.verification.verifier_contract import (
    Context,
    Cost,
    Finding,
    Level,
    Measured,
    Outcome,
    Property,
    PropertyAtLevel,
    Quantity,
    Reason,
    Settings,
    SimulatorError,
    Tier,
    Verifier,
    at,
)
from sciagent_bench.pmo.score_verifier import MolScoreData, opened_task
from sciagent_bench.pmo.scoring_functions import Term, descriptors, molecule

LEAD_SCORE = Property("lead_score", ("1",), "score of a molecule by the oracle of a lead optimisation")
LEAD_SIMILARITY = Property("lead_similarity", ("1",), "Tanimoto similarity to the lead", low=0, high=1)
LEAD_PROPERTIES = (LEAD_SCORE, LEAD_SIMILARITY)
OracleName = Literal["QED", "plogP", "DRD2", "GSK3B", "JNK3"]
LEVELS: Mapping[OracleName, str] = {
    "QED": "RDKit QED",
    "plogP": "RDKit penalised logP",
    "DRD2": "TDC DRD2",
    "GSK3B": "TDC GSK3B",
    "JNK3": "TDC JNK3",
}
"""{oracle: the method that its values name}."""
ACTIVITY_ORACLES: tuple[OracleName, ...] = ("DRD2", "GSK3B", "JNK3")
"""Oracles whose model is read from MolScore's files."""

LOGP_MEAN = 2.4570953396190123
LOGP_SPREAD = 1.434324401111988
ACCESSIBILITY_MEAN = -3.0525811293166134
ACCESSIBILITY_SPREAD = 0.8335207024513095
CYCLE_MEAN = -0.0485696876403053
CYCLE_SPREAD = 0.2860212110245455
"""Means and standard deviations over ZINC 250k, with the signs of `penalised_logp`."""
LARGEST_FREE_RING = 6
"""Atoms of the largest ring that is not penalised."""


class BenchLeadSettings(Settings):
    """The lead, the oracle, and where MolScore's files are."""

    lead: str = Field(min_length=1, max_length=500, description="SMILES of the lead.")
    oracle: OracleName = Field(
        description="plogP is normalised as in ZINC 250k; the last three are models of activity."
    )
    data: MolScoreData | None = Field(
        None, description="A wheel of MolScore, or a folder into which it was unpacked: for a model of activity."
    )

    @field_validator("lead")
    @classmethod
    def _readable(cls, value: str) -> str:
        molecule(value)
        return value

    @model_validator(mode="after")
    def _data_for_models_alone(self) -> BenchLeadSettings:
        is_model = self.oracle in ACTIVITY_ORACLES
        if is_model and self.data is None:
            raise ValueError(f"{self.oracle} needs data: a wheel of MolScore or its folder")
        if self.data is not None and not is_model:
            raise ValueError(f"{self.oracle} reads no data; leave it out")
        return self


class BenchLead(Verifier[Molecule]):
    """The score of a molecule by an oracle, and its similarity to a lead (Tanimoto, ECFP4 of 2,048 bits, no stereo).

    The score is a formula on the molecular graph, or the output of a published model of activity: a definition, not an
    estimate of anything, so that its uncertainty is 0. It says nothing about a molecule that one would make.

    Source: Jin, Yang, Barzilay, Jaakkola, ICLR 2019, arXiv 1812.01070 (task and similarity).
    """

    name = "bench.lead"
    version = "1"
    tier = Tier.FAST
    Settings = BenchLeadSettings
    settings: BenchLeadSettings
    preload = ("rdkit.Chem", "rdkit.Chem.QED", "rdkit.Chem.rdFingerprintGenerator")

    @cached_property
    def measures(self) -> tuple[PropertyAtLevel, ...]:
        compared = f"{MoleculeSubject.fingerprint} to {self.settings.lead}"
        score = at(Level(LEVELS[self.settings.oracle]), LEAD_SCORE)
        return score + at(Level(compared), LEAD_SIMILARITY)

    def attach(self) -> None:
        """Reads the model of activity, or the table of the SA score (0.5 s, 70 MB)."""
        self._score()

    def cost(self, candidate: Molecule) -> Cost:
        return Cost(core_seconds=1e-3)

    def glance(self, candidate: Molecule, names: Collection[str]) -> Finding:
        """Returns the finding with the similarity, if it is asked for; a score is always a call."""
        measured = (self._similarity(candidate),) if LEAD_SIMILARITY.name in names else ()
        return Finding(candidate.key, Outcome.OK, measured)

    def verify(self, batch: Sequence[Molecule], context: Context) -> Iterator[Finding]:
        [score_level, _] = (measure.level for measure in self.measures)
        for candidate in batch:
            try:
                value = self._score()(molecule(candidate.smiles))
            except SimulatorError as error:
                yield self.failed(candidate, error)
                continue
            score = Measured(LEAD_SCORE.name, score_level, Quantity(value, LEAD_SCORE.unit, uncertainty=0.0))
            yield Finding(candidate.key, Outcome.OK, (score, self._similarity(candidate)))

    def _similarity(self, candidate: Molecule) -> Measured:
        value = similarity(candidate.smiles, self.settings.lead)
        [_, level] = (measure.level for measure in self.measures)
        return Measured(LEAD_SIMILARITY.name, level, Quantity(value, LEAD_SIMILARITY.unit, uncertainty=0.0))

    def _score(self) -> Term:
        """Returns the score as a function of an RDKit molecule. Raises SimulatorError without what it needs."""
        data = self.settings.data
        try:
            return oracle(self.settings.oracle, None if data is None else data.path)
        except UsageError as error:
            raise SimulatorError(Outcome.BAD_ENVIRONMENT, Reason.REFERENCE_FILE, str(error)) from error


def similarity(first: str, second: str) -> float:
    """Returns the Tanimoto similarity of the fingerprints of two SMILES: ECFP4 of 2,048 bits, without stereo."""
    from rdkit.DataStructs import TanimotoSimilarity

    from sciagent.chemistry.fingerprints_and_families import features

    return float(TanimotoSimilarity(features(first).bits, features(second).bits))


@lru_cache(maxsize=8)
def oracle(name: OracleName, data: str | None) -> Term:
    """Returns the score of an RDKit molecule by an oracle. data: MolScore's wheel or folder, for a model of activity.

    Raises UsageError for files that cannot be read, SimulatorError where RDKit lacks the SA score.
    """
    if name == "QED":
        return descriptors()["QED"]
    if name == "plogP":
        return penalised_logp(accessibility())
    if data is None:
        raise UsageError(f"{name} needs MolScore's files")
    return opened_task(data, name, "tdc")


def accessibility() -> Callable[[Any], float]:
    """Returns RDKit's function of the SA score. Raises SimulatorError where RDKit has no Contrib folder."""
    try:
        from rdkit.Contrib.SA_Score import sascorer
    except ImportError as error:
        detail = "this RDKit has no Contrib/SA_Score; install the rdkit wheel"
        raise SimulatorError(Outcome.BAD_ENVIRONMENT, Reason.IMPORT_FAILED, detail) from error
    score: Callable[[Any], float] = sascorer.calculateScore
    return score


def penalised_logp(sa_score: Callable[[Any], float]) -> Term:
    """Returns the penalised logP, a function of an RDKit molecule: the sum of three values, each less its mean and
    divided by its standard deviation over ZINC 250k.

        Crippen's logP,  - SA score,  - atoms beyond six in the largest ring

    Source: Kusner, Paige, Hernández-Lobato, ICML 2017, with the normalisation of You et al., NeurIPS 2018
    (`reward_penalized_log_p` of github.com/bowenliu16/rl_graph_generation) and of Jin et al., ICLR 2019. They take the
    largest ring of a cycle basis, this function that of the smallest set of smallest rings.
    """
    from rdkit.Chem import rdMolDescriptors

    def score(mol: Any) -> float:
        log_p = float(rdMolDescriptors.CalcCrippenDescriptors(mol)[0])
        largest = max(map(len, mol.GetRingInfo().AtomRings()), default=0)
        excess = max(largest - LARGEST_FREE_RING, 0)
        return (
            (log_p - LOGP_MEAN) / LOGP_SPREAD
            + (-sa_score(mol) - ACCESSIBILITY_MEAN) / ACCESSIBILITY_SPREAD
            + (-excess - CYCLE_MEAN) / CYCLE_SPREAD
        )

    return score
