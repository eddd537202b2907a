"""The score of a molecule by the description of a task: functions, modifiers and means as MolScore 1.9.5 has them, or
as TDC has them.

    score = mean over values v of modifier(v),  geometric, arithmetic, or of a single value

In MolScore no value enters the mean with less than 1e-6, and an element that a formula lacks lowers the score of
isomers; in TDC neither is so. Written on RDKit from the definitions of GuacaMol; equal to both within 1e-6 on the
molecules of `benchmarks/pmo`. A pattern that RDKit cannot read matches nothing, as in MolScore.

Source: Brown, Fiscato, Segler, Vaucher, J. Chem. Inf. Model. 59, 1096 (2019), section 3.2; Thomas et al.,
J. Cheminform. 16, 64 (2024).
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from sciagent.chemistry.rdkit_messages import rdkit_messages
from sciagent_bench.pmo.pickled_models import ActivityModel
from sciagent_bench.pmo.task_configs import (
    DescriptorConfig,
    FilterConfig,
    GaussMetric,
    GaussParameters,
    IsomerConfig,
    MatchConfig,
    Metric,
    ModelConfig,
    SimilarityConfig,
    SimilarityParameters,
    TaskConfig,
    ThresholdMetric,
    as_in_tdc,
)

FLOOR = 1e-6
"""The least value that enters a mean in MolScore."""
AP_DISTANCE = 10
"""Largest number of bonds between the atoms of a pair."""
ELEMENT_SIGMA = 1.0
"""Standard deviation of the Gaussian of each element's count in the score of isomers."""
TOTAL_SIGMA = 2.0
"""Standard deviation of the Gaussian of the number of atoms in the score of isomers."""

Term = Callable[[Any], float]
"""A number of an RDKit molecule."""
OpenModel = Callable[[str], ActivityModel]
"""Returns the model of activity that a task names."""


DefinedBy = Literal["tdc", "molscore"]
"""The package whose definition of a task holds: TDC, with whose oracles PMO was published, or MolScore."""


def scorer(described: TaskConfig, definition: DefinedBy, model: OpenModel) -> Term:
    """Returns the score of a task, in [0, 1], as a function of an RDKit molecule.

    described: the task as MolScore describes it. model: opens a model of activity.
    """
    config = as_in_tdc(described) if definition == "tdc" else described
    terms = [modified(metric, value_of(config, metric.name, definition, model)) for metric in config.scoring.metrics]
    method = config.scoring.method
    floor = least_value(definition)

    def score(mol: Any) -> float:
        values = [max(term(mol), floor) for term in terms]
        if method == "gmean":
            return geometric_mean(values)
        return sum(values) / len(values)

    return score


def least_value(definition: DefinedBy) -> float:
    """Returns the least value that enters a mean."""
    return FLOOR if definition == "molscore" else 0.0


def geometric_mean(values: Sequence[float]) -> float:
    """Returns the geometric mean of numbers that are not negative."""
    if min(values) <= 0:
        return 0.0
    return math.exp(sum(map(math.log, values)) / len(values))


def modified(metric: Metric, value: Term) -> Term:
    """Returns a value after its modifier."""
    if isinstance(metric, GaussMetric):
        gauss = metric.parameters
        return lambda mol: gaussian(value(mol), gauss)
    if isinstance(metric, ThresholdMetric):
        lowest = metric.parameters.upper - metric.parameters.buffer
        width = metric.parameters.buffer
        return lambda mol: min(max((value(mol) - lowest) / width, 0.0), 1.0)
    return value


def gaussian(x: float, parameters: GaussParameters) -> float:
    """Returns exp(-(x - mu)² / 2 sigma²), or 1 on the side of mu where the objective is met."""
    distance = x - parameters.mu
    is_met = {"maximize": distance >= 0, "minimize": distance <= 0, "range": False}[parameters.objective]
    return 1.0 if is_met else bell(distance, parameters.sigma)


def bell(distance: float, sigma: float) -> float:
    """Returns exp(-distance² / 2 sigma²)."""
    return math.exp(-0.5 * (distance / sigma) ** 2)


def value_of(config: TaskConfig, metric: str, definition: DefinedBy, model: OpenModel) -> Term:
    """Returns the value of a metric before its modifier."""
    function = config.function_of(metric)
    if isinstance(function, SimilarityConfig):
        return similarity(function.parameters)
    if isinstance(function, DescriptorConfig):
        return descriptors()[metric.removeprefix(f"{function.parameters.prefix}_")]
    if isinstance(function, IsomerConfig):
        return isomer_score(element_counts(function.parameters.molecular_formula), definition)
    if isinstance(function, MatchConfig):
        wanted = patterns(function.parameters.smarts)
        return lambda mol: float(matches_any(mol, wanted))
    if isinstance(function, FilterConfig):
        unwanted = patterns(function.parameters.custom_filters)
        return lambda mol: float(not matches_any(mol, unwanted))
    return activity(function, model)


def activity(function: ModelConfig, model: OpenModel) -> Term:
    """Returns the probability of activity by a model, which is opened now."""
    opened = model(function.parameters.model)
    return opened.probability


def similarity(parameters: SimilarityParameters) -> Term:
    """Returns the mean or largest Tanimoto similarity to reference molecules. Raises ValueError for a SMILES that RDKit
    cannot read."""
    from rdkit.DataStructs import BulkTanimotoSimilarity

    make = fingerprint(parameters)
    references = []
    for smiles in parameters.ref_smiles:
        references.append(make(molecule(smiles)))

    def value(mol: Any) -> float:
        similarities = BulkTanimotoSimilarity(make(mol), references)
        if parameters.method == "max":
            return float(max(similarities))
        return float(sum(similarities) / len(similarities))

    return value


def molecule(smiles: str) -> Any:
    """Returns the RDKit molecule of a SMILES. Raises ValueError if RDKit cannot read it."""
    from rdkit import Chem

    with rdkit_messages():
        mol = Chem.MolFromSmiles(smiles)
    if mol is None:
        raise ValueError(f'RDKit cannot read the SMILES "{smiles}"')
    return mol


def fingerprint(parameters: SimilarityParameters) -> Callable[[Any], Any]:
    """Returns the function that makes the fingerprint of a molecule: unfolded counts of atom pairs or of Morgan's atom
    environments, or the bits of Gobbi's two-dimensional pharmacophores."""
    from rdkit.Chem import rdFingerprintGenerator as generators

    if parameters.fp == "PHCO":
        from rdkit.Chem.Pharm2D import Generate, Gobbi_Pharm2D

        generate: Callable[..., Any] = Generate.Gen2DFingerprint
        return lambda mol: generate(mol, Gobbi_Pharm2D.factory)
    generator: Any
    if parameters.radius is None:
        generator = generators.GetAtomPairGenerator(maxDistance=AP_DISTANCE)
    else:
        features = generators.GetMorganFeatureAtomInvGen() if parameters.features else None
        generator = generators.GetMorganGenerator(radius=parameters.radius, atomInvariantsGenerator=features)
    make: Callable[[Any], Any] = generator.GetSparseCountFingerprint
    return make


def descriptors() -> Mapping[str, Term]:
    """Returns the descriptors by MolScore's names."""
    from rdkit.Chem import QED, GraphDescriptors, rdMolDescriptors

    return {
        "QED": QED.qed,
        "CLogP": lambda mol: float(rdMolDescriptors.CalcCrippenDescriptors(mol)[0]),
        "TPSA": rdMolDescriptors.CalcTPSA,
        "NumAromaticRings": rdMolDescriptors.CalcNumAromaticRings,
        "RingCount": rdMolDescriptors.CalcNumRings,
        "Bertz": GraphDescriptors.BertzCT,
        "FlourineCount": fluorine_count,
    }


def fluorine_count(mol: Any) -> float:
    """Returns the number of fluorine atoms."""
    return float(sum(1 for atom in mol.GetAtoms() if atom.GetAtomicNum() == 9))


def element_counts(formula: str) -> Counter[str]:
    """Returns the number of atoms of each element in a formula such as C7H8N2O2. A charge at its end is ignored."""
    counts: Counter[str] = Counter()
    for element, number in re.findall(r"([A-Z][a-z]*)(\d*)", formula):
        counts[element] += int(number or 1)
    return counts


def isomer_score(wanted: Counter[str], definition: DefinedBy) -> Term:
    """Returns the geometric mean of Gaussians of each element's count and of the number of atoms.

    wanted: the counts of the formula. In MolScore an element that it lacks is wanted 0 times.
    """
    from rdkit.Chem import rdMolDescriptors

    def score(mol: Any) -> float:
        counts = element_counts(rdMolDescriptors.CalcMolFormula(mol))
        elements = {**wanted, **counts} if definition == "molscore" else wanted
        scores = [bell(counts[element] - wanted[element], ELEMENT_SIGMA) for element in elements]
        scores.append(bell(counts.total() - wanted.total(), TOTAL_SIGMA))
        return geometric_mean([each or least_value(definition) for each in scores])

    return score


def patterns(smarts: Sequence[str]) -> list[Any]:
    """Returns the patterns that RDKit can read."""
    from rdkit import Chem

    with rdkit_messages():
        read = [Chem.MolFromSmarts(text) for text in smarts]
    return [pattern for pattern in read if pattern is not None]


def matches_any(mol: Any, wanted: Sequence[Any]) -> bool:
    """Returns whether a molecule matches one of the patterns."""
    return any(mol.HasSubstructMatch(pattern) for pattern in wanted)
