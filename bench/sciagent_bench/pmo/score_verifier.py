"""The verifier `bench.pmo`: the score of a molecule in one of the 23 tasks of PMO."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationInfo, model_validator

from sciagent.chemistry.molecule import Molecule
from sciagent.errors import UsageError
from sciagent.verification.setting_files import FileByContent
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
from sciagent_bench.pmo.molscore_files import VERSION, MolScoreFiles
from sciagent_bench.pmo.pickled_models import MODEL_CLASSES, ActivityModel
from sciagent_bench.pmo.scoring_functions import DefinedBy, Term, molecule, scorer

PMO_SCORE = Property("pmo_score", ("1",), "score of a task of Practical Molecular Optimization", low=0, high=1)
TaskName = Literal[
    "Albuterol_similarity",
    "Amlodipine_MPO",
    "C7H8N2O2",
    "C9H10N2O2PF2Cl",
    "Celecoxxib_rediscovery",
    "DRD2",
    "Deco_hop",
    "Fexofenadine_MPO",
    "GSK3B",
    "JNK3",
    "Median_molecules_1",
    "Median_molecules_2",
    "Mestranol_similarity",
    "Osimertinib_MPO",
    "Perindopril_MPO",
    "QED",
    "Ranolazine_MPO",
    "Scaffold_hop",
    "Sitagliptin_MPO",
    "Thiothixene_rediscovery",
    "Troglitazone_rediscovery",
    "Valsartan_smarts",
    "Zaleplon_MPO",
]
"""The tasks, as MolScore spells them."""
PHARMACOPHORE_TASKS = ("Deco_hop", "Scaffold_hop")
"""Tasks whose fingerprint takes ten times as long as all others."""


class MolScoreData(FileByContent):
    """A wheel of MolScore, or a folder into which one was unpacked; its files are checked by their SHA-256."""

    version: Literal["1.9.5"] = Field("1.9.5", description="Of MolScore.")

    @model_validator(mode="before")
    @classmethod
    def _found(cls, data: Any, info: ValidationInfo) -> Any:
        given = {"path": data} if isinstance(data, str) else data
        base = (info.context or {}).get("base")
        if base is None or not isinstance(given, Mapping) or not isinstance(given.get("path"), str):
            return given
        path = (Path(base) / given["path"]).resolve()
        try:
            MolScoreFiles(path)
        except UsageError as error:
            raise ValueError(str(error)) from error
        return {**given, "path": str(path)}


class BenchPmoSettings(Settings):
    """The task, and where MolScore's files are."""

    task: TaskName = Field(description="Name of a task, as MolScore spells it.")
    definition: DefinedBy = Field(
        "tdc",
        description="tdc: with the numbers and patterns of TDC, with which PMO was published; molscore: as MolScore "
        "describes the task.",
    )
    data: MolScoreData = Field(description=f"A wheel of MolScore {VERSION}, or a folder into which it was unpacked.")


class BenchPmo(Verifier[Molecule]):
    """The score of a molecule in a task of PMO, in [0, 1], by the description in MolScore 1.9.5.

    The score is a formula on the molecular graph, or the output of a published model of activity: a definition, not an
    estimate of anything, so that its uncertainty is 0. It says nothing about a molecule that one would make.

    Source: Gao, Fu, Sun, Coley, NeurIPS Datasets and Benchmarks 2022; Thomas et al., J. Cheminform. 16, 64 (2024).
    """

    name = "bench.pmo"
    version = "1"
    tier = Tier.FAST
    Settings = BenchPmoSettings
    settings: BenchPmoSettings
    preload = ("rdkit.Chem", "rdkit.Chem.QED", "rdkit.Chem.rdFingerprintGenerator")

    @cached_property
    def measures(self) -> tuple[PropertyAtLevel, ...]:
        origin = "TDC" if self.settings.definition == "tdc" else f"MolScore {VERSION}"
        return at(Level(f"{origin} {self.settings.task}"), PMO_SCORE)

    def attach(self) -> None:
        """Reads the task, and its model of activity if it has one (0.3 s, 70 MB)."""
        self._score()

    def cost(self, candidate: Molecule) -> Cost:
        slow = self.settings.task in PHARMACOPHORE_TASKS
        return Cost(core_seconds=1e-2 if slow else 1e-3)

    def verify(self, batch: Sequence[Molecule], context: Context) -> Iterator[Finding]:
        # there is no `glance`, through which a proposer could see scores that are not counted as calls
        [measure] = self.measures
        for candidate in batch:
            try:
                value = self._score()(molecule(candidate.smiles))
            except SimulatorError as error:
                yield self.failed(candidate, error)
                continue
            score = Measured(PMO_SCORE.name, measure.level, Quantity(value, PMO_SCORE.unit, uncertainty=0.0))
            yield Finding(candidate.key, Outcome.OK, (score,))

    def _score(self) -> Term:
        """Returns the score as a function of an RDKit molecule. Raises SimulatorError without MolScore's files."""
        try:
            return opened_task(self.settings.data.path, self.settings.task, self.settings.definition)
        except UsageError as error:
            raise SimulatorError(Outcome.BAD_ENVIRONMENT, Reason.REFERENCE_FILE, str(error)) from error


@lru_cache(maxsize=32)
def opened_task(path: str, task: str, definition: DefinedBy) -> Term:
    """Returns the score of a task. path: of MolScore's wheel or folder. Raises UsageError."""
    files = MolScoreFiles(Path(path))

    def model(name: str) -> ActivityModel:
        make: Callable[[bytes], ActivityModel] = MODEL_CLASSES[name]
        return make(files.model(name))

    return scorer(files.task(task), definition, model)
