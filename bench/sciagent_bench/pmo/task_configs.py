"""The JSON files in which MolScore describes a task, validated: functions of a molecule, modifiers, and their mean.

Only what the 23 tasks of PMO use is accepted. Keys about MolScore's own output, processes and diversity filters are
ignored; in `MolOpt-DF` the filter lowers the score of a molecule that comes twice, which a campaign never verifies.

PMO was published with the oracles of TDC, from which five of MolScore's descriptions differ; `as_in_tdc` puts that
right. Two of the patterns cannot match as MolScore writes them: one has a bond that RDKit cannot read, one a single
bond in an aromatic ring.

Source: TDC 1.1.15, tdc/chem_utils/oracle/oracle.py (MIT); the same values in its version of January 2022.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

Text = Annotated[str, Field(min_length=1, max_length=500)]
Texts = Annotated[tuple[Text, ...], Field(min_length=1, max_length=20)]
DESCRIPTORS = ("QED", "CLogP", "TPSA", "NumAromaticRings", "RingCount", "Bertz", "FlourineCount")
"""The descriptors that tasks use, as MolScore spells them."""
SCAFFOLD = "[#7]-c1n[c;h1]nc2[c;h1]c(-[#8])[c;h0][c;h1]c12"
TDC_SIGMAS = {
    ("Fexofenadine_MPO", "desc_TPSA"): 10.0,
    ("Fexofenadine_MPO", "desc_CLogP"): 1.0,
    ("Osimertinib_MPO", "Osimertinib_ECFC6_Sim"): 0.1,
    ("Osimertinib_MPO", "desc_TPSA"): 10.0,
    ("Osimertinib_MPO", "desc_CLogP"): 1.0,
}
"""{(task, value): standard deviation of its Gaussian in TDC}."""
TDC_RAMPS = {("Deco_hop", "S5_Sim"): 0.85}
"""{(task, value): where its ramp from 0 ends in TDC}."""
TDC_PATTERNS = {
    ("Deco_hop", "S2"): SCAFFOLD,
    ("Scaffold_hop", "S2"): SCAFFOLD,
    ("Scaffold_hop", "S6"): "[#6]-[#6]-[#6]-[#8]-[#6]~[#6]~[#6]~[#6]~[#6]-[#7]-c1ccc2ncsc2c1",
    ("Valsartan_smarts", "s2"): "CN(C=O)Cc1ccc(c2ccccc2)cc1",
}
"""{(task, prefix of the function): its pattern in TDC}."""


class ConfigPart(BaseModel):
    """A part of a task's description. Unknown keys are ignored, and values are frozen."""

    model_config = ConfigDict(frozen=True)


class SimilarityParameters(ConfigPart):
    """The fingerprint and the reference molecules of a similarity."""

    prefix: Text
    ref_smiles: Texts
    method: Literal["mean", "max"]
    """How the similarities with several reference molecules are combined."""
    similarity_measure: Literal["Tanimoto"] = "Tanimoto"
    fp: Literal["AP", "PHCO"] | None = None
    """Atom pairs or Gobbi's pharmacophores; None for a Morgan fingerprint with counts."""
    radius: Literal[2, 3] | None = None
    features: bool = False
    """Whether a Morgan fingerprint has pharmacophoric features in place of atoms."""
    counts: Literal[True] | None = None

    @model_validator(mode="after")
    def _one_fingerprint(self) -> SimilarityParameters:
        if (self.fp is None) != (self.radius is not None and self.counts is True):
            raise ValueError("needs either fp, or radius and counts")
        return self


class DescriptorParameters(ConfigPart):
    """The prefix of descriptors."""

    prefix: Text


class IsomerParameters(ConfigPart):
    """The formula that isomers have."""

    prefix: Text
    molecular_formula: Annotated[str, Field(pattern=r"^([A-Z][a-z]?\d*){1,20}$")]


class MatchParameters(ConfigPart):
    """Patterns of which a molecule is to match any."""

    prefix: Text
    smarts: Texts
    method: Literal["any"]


class FilterParameters(ConfigPart):
    """Patterns of which a molecule is to match none."""

    prefix: Text
    custom_filters: Texts
    az_filters: Literal[False] = False


class ModelParameters(ConfigPart):
    """A published model of activity."""

    prefix: Text
    model: Literal["molopt_DRD2", "molopt_GSK3B", "molopt_JNK3"]


class SimilarityConfig(ConfigPart):
    """Tanimoto similarity to reference molecules."""

    name: Literal["TanimotoSimilarity", "MolecularSimilarity"]
    parameters: SimilarityParameters

    @property
    def metrics(self) -> tuple[str, ...]:
        """The names of its values."""
        return (f"{self.parameters.prefix}_Sim",)


class DescriptorConfig(ConfigPart):
    """Descriptors by RDKit."""

    name: Literal["RDKitDescriptors", "MolecularDescriptors"]
    parameters: DescriptorParameters

    @property
    def metrics(self) -> tuple[str, ...]:
        """The names of its values."""
        return tuple(f"{self.parameters.prefix}_{descriptor}" for descriptor in DESCRIPTORS)


class IsomerConfig(ConfigPart):
    """Closeness of the molecular formula to a given one."""

    name: Literal["Isomer"]
    parameters: IsomerParameters

    @property
    def metrics(self) -> tuple[str, ...]:
        """The names of its values."""
        return (f"{self.parameters.prefix}_isomer_score",)


class MatchConfig(ConfigPart):
    """Whether the molecule matches a pattern."""

    name: Literal["SubstructureMatch"]
    parameters: MatchParameters

    @property
    def metrics(self) -> tuple[str, ...]:
        """The names of its values."""
        return (f"{self.parameters.prefix}_substruct_match",)


class FilterConfig(ConfigPart):
    """Whether the molecule matches no pattern."""

    name: Literal["SubstructureFilters"]
    parameters: FilterParameters

    @property
    def metrics(self) -> tuple[str, ...]:
        """The names of its values."""
        return (f"{self.parameters.prefix}_substruct_filt",)


class ModelConfig(ConfigPart):
    """The probability of activity by a published model."""

    name: Literal["LegacyQSAR"]
    parameters: ModelParameters

    @property
    def metrics(self) -> tuple[str, ...]:
        """The names of its values."""
        return (f"{self.parameters.prefix}_pred_proba",)


FunctionConfig = Annotated[
    SimilarityConfig | DescriptorConfig | IsomerConfig | MatchConfig | FilterConfig | ModelConfig,
    Field(discriminator="name"),
]


class GaussParameters(ConfigPart):
    """A Gaussian; with `maximize` or `minimize` it is 1 on the far side of mu."""

    objective: Literal["maximize", "minimize", "range"]
    mu: float
    sigma: Annotated[float, Field(gt=0)]


class ThresholdParameters(ConfigPart):
    """A ramp from 0 at `upper - buffer` to 1 at `upper`."""

    objective: Literal["maximize"]
    upper: float
    buffer: Annotated[float, Field(gt=0)]


class RawMetric(ConfigPart):
    """A value as it is."""

    name: Text
    weight: Literal[1]
    modifier: Literal["raw"]


class GaussMetric(ConfigPart):
    """A value through a Gaussian."""

    name: Text
    weight: Literal[1]
    modifier: Literal["gauss"]
    parameters: GaussParameters


class ThresholdMetric(ConfigPart):
    """A value through a ramp."""

    name: Text
    weight: Literal[1]
    modifier: Literal["lin_thresh"]
    parameters: ThresholdParameters


Metric = Annotated[RawMetric | GaussMetric | ThresholdMetric, Field(discriminator="modifier")]


class ScoringConfig(ConfigPart):
    """The modified values, and how they are combined: the only one, or their geometric or arithmetic mean."""

    method: Literal["single", "gmean", "amean"]
    metrics: Annotated[tuple[Metric, ...], Field(min_length=1, max_length=10)]


class TaskConfig(ConfigPart):
    """The description of a task."""

    task: Text
    scoring_functions: Annotated[tuple[FunctionConfig, ...], Field(min_length=1, max_length=10)]
    scoring: ScoringConfig

    @model_validator(mode="after")
    def _every_value_is_computed(self) -> TaskConfig:
        for metric in self.scoring.metrics:
            self.function_of(metric.name)
        if self.scoring.method == "single" and len(self.scoring.metrics) != 1:
            raise ValueError(f"the method single takes one value, not {len(self.scoring.metrics)}")
        return self

    def function_of(
        self, metric: str
    ) -> SimilarityConfig | DescriptorConfig | IsomerConfig | MatchConfig | FilterConfig | ModelConfig:
        """Returns the function that computes a value. Raises ValueError if there is none."""
        for function in self.scoring_functions:
            if metric in function.metrics:
                return function
        raise ValueError(f"no function computes {metric}")


def as_in_tdc(config: TaskConfig) -> TaskConfig:
    """Returns a task with the standard deviations, ramps and patterns that it has in TDC."""
    metrics = tuple(_metric_in_tdc(config.task, metric) for metric in config.scoring.metrics)
    functions = []
    for function in config.scoring_functions:
        pattern = TDC_PATTERNS.get((config.task, function.parameters.prefix))
        key = "custom_filters" if isinstance(function, FilterConfig) else "smarts"
        if pattern is not None:
            parameters = function.parameters.model_copy(update={key: (pattern,)})
            function = function.model_copy(update={"parameters": parameters})
        functions.append(function)
    scoring = config.scoring.model_copy(update={"metrics": metrics})
    return config.model_copy(update={"scoring": scoring, "scoring_functions": tuple(functions)})


def _metric_in_tdc(
    task: str, metric: RawMetric | GaussMetric | ThresholdMetric
) -> RawMetric | GaussMetric | ThresholdMetric:
    """Returns a value with the modifier that it has in TDC."""
    place = (task, metric.name)
    if isinstance(metric, GaussMetric) and place in TDC_SIGMAS:
        gauss = metric.parameters.model_copy(update={"sigma": TDC_SIGMAS[place]})
        return metric.model_copy(update={"parameters": gauss})
    if isinstance(metric, ThresholdMetric) and place in TDC_RAMPS:
        ramp = metric.parameters.model_copy(update={"upper": TDC_RAMPS[place], "buffer": TDC_RAMPS[place]})
        return metric.model_copy(update={"parameters": ramp})
    return metric
