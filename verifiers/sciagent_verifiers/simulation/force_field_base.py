"""The base class of the verifiers by machine-learnt force fields: the model, its scale, what it refuses, its files."""

from __future__ import annotations

import logging
import math
import os
import time
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import Field, model_validator

from sciagent.chemistry.crystal import Crystal, space_group_of
from sciagent.chemistry.crystals.conventional_cell_and_cif import ConventionalCell, cif_of_cell, conventional_cell
from sciagent.chemistry.crystals.layers_and_vacuum import VACUUM, part_in_vacuum, soft_vectors
from sciagent.domain.evidence_keys_and_pooled_replicates import CLASS, RELAXATION, UNCERTAINTY_KIND
from sciagent.domain.omit_unset import omitted_if_unset
from sciagent.verification.verifier_contract import (
    ArtifactFile,
    Context,
    Cost,
    Finding,
    Level,
    Measured,
    Outcome,
    Outside,
    Property,
    Quantity,
    Reason,
    ReferenceFile,
    Refusal,
    Settings,
    SimulatorError,
    Tier,
    Verifier,
)
from sciagent_simulators.potentials.potential_base_and_registry import (
    MP2020,
    UNCORRECTED,
    EnergyScale,
    Potential,
    available_device,
    is_fork_safe,
    load_potential,
    potential_factory,
    potential_versions,
)
from sciagent_simulators.potentials.relax_and_equation_of_state import Relaxed, RelaxReport, relax, settle

DEFAULT_MODEL = "chgnet-0.3.0"
EXPECTED_STEPS = 60  # of a relaxation, in the estimate of its cost
CIF = "chemical/x-cif"  # media type
START_SECONDS = 0.043  # core-seconds of a verification besides its evaluations (benchmarks/crystals)


class ForceFieldSettings(Settings):
    """The model, the relaxation and what is refused."""

    model: str = Field(DEFAULT_MODEL, description="A registered potential: `chgnet-0.3.0`, `7net-0`, …")
    weights: Annotated[ReferenceFile, Outside.CODE] | None = omitted_if_unset(
        None,
        description="Own weights for the architecture of `model`. The file is loaded with pickle, which can run code.",
    )
    functional: str = omitted_if_unset(
        "", description="Of own weights: the functional of their training data, such as PBE+U."
    )
    correction: str = omitted_if_unset(
        "", description=f"Of own weights: correction in their training energies, {UNCORRECTED} or {MP2020}."
    )
    fmax: float = Field(0.005, gt=0, le=1, description="Limit of the forces on atoms and cell, eV/angstrom.")
    steps: int = Field(500, ge=1, le=10000, description="Evaluations of a crystal at most.")
    max_atoms: int = Field(200, ge=1, le=500, description="Crystals with more atoms in the primitive cell are refused.")
    max_volume_change: float = Field(
        0.4, gt=0, le=3, description="A relaxation that changes the volume by more made another structure."
    )

    @model_validator(mode="after")
    def _is_known(self) -> ForceFieldSettings:
        factory = potential_factory(self.model)
        if self.weights is None and not factory.ships_weights:
            raise ValueError(f"{self.model} has no weights of its own; name a file: weights: FILE")
        if self.weights is None and (self.functional or self.correction):
            raise ValueError("functional and correction belong to own weights (weights: FILE)")
        if self.weights is not None and not (self.functional and self.correction):
            raise ValueError("own weights need functional and correction, which say what their energies mean")
        if self.correction not in ("", UNCORRECTED, MP2020):
            raise ValueError(f'correction is "{UNCORRECTED}" or "{MP2020}"')
        return self

    @property
    def scale(self) -> EnergyScale:
        """The scale of the model's energies. Own weights are named by the start of their hash."""
        scale = potential_factory(self.model).scale
        if self.weights is None:
            return scale
        model = f"{scale.model}:{self.weights.sha256[:12]}"
        return EnergyScale(model, functional=self.functional, correction=self.correction)


class ForceField(Verifier[Crystal]):
    """A verifier that evaluates crystals with a force field, many in a call. Its settings are ForceFieldSettings."""

    tier = Tier.SIMULATION
    kind = "crystal"
    together = 64
    requires: ClassVar[tuple[str, ...]] = ("torch", "pymatgen")
    settings: ForceFieldSettings
    engines: ClassVar[tuple[str, ...]] = ("chgnet", "sevenn", "torch", "pymatgen", "ase")
    preload: ClassVar[tuple[str, ...]] = (
        "numpy", "scipy.linalg", "scipy.optimize", "ase", "pymatgen.core", "pymatgen.io.ase", "pymatgen.io.cif",
        "pymatgen.symmetry.analyzer", "torch",
        "sciagent_simulators.potentials.relaxed_phases_and_hull",
        "sciagent_simulators.potentials.relax_and_equation_of_state",
    )  # fmt: skip
    spread: ClassVar[Mapping[Property, float]]
    """Standard uncertainties that are the same for all crystals: the repeatability over the starting structure, in
    canonical units."""

    def lacks(self) -> str | None:
        """Returns None if the model's package and PyTorch are installed, else how to install them."""
        needed = ("torch", "pymatgen", potential_factory(self.settings.model).package)
        absent = [name for name in needed if find_spec(name) is None]
        return f"{', '.join(absent)} not installed; pip install 'sciagent[mlff]'" if absent else None

    @property
    def runs_in(self) -> str | None:
        """The environment of the model's package."""
        return potential_factory(self.settings.model).environment

    @classmethod
    def warm(cls) -> None:
        """Sets PyTorch to one thread: more would not survive the fork. CUDA is not touched."""
        import torch

        torch.set_num_threads(1)

    def attach(self) -> None:
        """Loads the model on the CPU and runs it with one thread, so that jobs share what it has built."""
        import torch
        from ase.build import bulk

        torch.set_num_threads(1)
        potential = self._loaded("cpu")
        potential_versions(self.settings.model)  # kept for the jobs
        if is_fork_safe():
            for _ in range(2):  # TorchScript optimises a model at its second run
                potential.evaluate([bulk("NaCl", "rocksalt", a=5.7)])

    def _loaded(self, device: str, model: str | None = None) -> Potential:
        """Returns the potential of the settings with its own weights, or another model with the weights it ships."""
        if model is not None:
            return load_potential(model, None, device)  # None: with the weights that it ships
        weights = self.settings.weights.check() if self.settings.weights else None
        return load_potential(self.settings.model, weights, device)

    @cached_property
    def level(self) -> Level:
        """Model, functional with correction, and the relaxation."""
        scale = self.settings.scale
        return Level(scale.model, scale.label, geometry=f"relaxed to {self.settings.fmax:g} eV/angstrom")

    def accepts(self, candidate: Crystal) -> Refusal | None:
        factory = potential_factory(self.settings.model)
        unknown = sorted(set(candidate.species) - factory.elements)
        if unknown:
            return Refusal(Reason.ELEMENT, f"{factory.name} was not trained on {', '.join(unknown)}")
        if candidate.charge and factory.ignores_charge:
            detail = f"net charge {candidate.charge:+d}; {factory.name} knows neutral crystals only"
            return Refusal(Reason.CHARGE, detail)
        if candidate.multiplicity != 1 and factory.ignores_charge:
            return Refusal(Reason.MULTIPLICITY, f"{factory.name} takes no spin as an input")
        if candidate.n_atoms > self.settings.max_atoms:
            detail = f"{candidate.n_atoms} atoms in the primitive cell; the limit is {self.settings.max_atoms}"
            return Refusal(Reason.TOO_LARGE, detail)
        part = part_in_vacuum(candidate)
        if part is not None:
            detail = f"{part.name} with more than {VACUUM:g} angstrom of vacuum around it; relax bulk crystals only"
            return Refusal(Reason.NOT_PERIODIC, detail)
        return None

    @property
    def seconds(self) -> float:
        """Core-seconds of the model for an atom."""
        return potential_factory(self.settings.model).seconds

    def cost(self, candidate: Crystal) -> Cost:
        return Cost(core_seconds=0.2 + EXPECTED_STEPS * self.seconds * candidate.n_atoms)

    def verify(self, batch: Sequence[Crystal], context: Context) -> Iterator[Finding]:
        import torch
        from pymatgen.io.ase import AseAtomsAdaptor

        torch.set_num_threads(context.threads)
        logging.getLogger("matscipy").setLevel(logging.ERROR)
        began = time.monotonic()
        device = available_device()
        potential = self._loaded(device)
        cells = [AseAtomsAdaptor.get_atoms(crystal.structure, msonable=False) for crystal in batch]

        def report(n_done: int, evaluations: int, fmax: float) -> None:
            text = f"{n_done} of {len(cells)} relaxed, {evaluations} evaluations, forces up to {fmax:.3g} eV/angstrom"
            context.progress(n_done, len(cells), text)

        settings = self.settings
        relaxed = relax(potential, cells, settings.fmax, settings.steps, with_strain=True, report=report)
        relaxed = self._settled(potential, relaxed, report)
        findings = self.findings(batch, relaxed, potential, context)
        versions = potential_versions(self.settings.model)
        # The time of the batch is divided among its crystals by what each would have taken alone.
        shares = [self.seconds_alone(relaxation) for relaxation in relaxed]
        seconds_per_share = (time.monotonic() - began) / sum(shares)
        for finding, share in zip(findings, shares, strict=True):
            spent = Cost(gpu_seconds=seconds_per_share * share) if device == "cuda" else None
            yield replace(finding, share=share, spent=spent, versions=versions)

    def _settled(self, potential: Potential, relaxed: Sequence[Relaxed], report: RelaxReport) -> list[Relaxed]:
        """Returns the relaxations; those of cells with a vector that no bonds cross are settled or have a fault."""
        results = list(relaxed)
        soft = [i for i, each in enumerate(results) if each.fault is None and any(soft_vectors(structure_of(each)))]
        settled = settle(potential, [results[i] for i in soft], self.settings.fmax, self.settings.steps, report)
        for index, relaxation in zip(soft, settled, strict=True):
            results[index] = relaxation
        return results

    def seconds_alone(self, relaxation: Relaxed) -> float:
        """Returns the core-seconds of a relaxation alone."""
        estimated_seconds = relaxation.steps * len(relaxation.atoms) * self.seconds
        return START_SECONDS + (relaxation.seconds or estimated_seconds)

    @abstractmethod
    def findings(
        self, batch: Sequence[Crystal], relaxed: Sequence[Relaxed], potential: Potential, context: Context
    ) -> Sequence[Finding]:
        """Returns one finding for each crystal, in order."""

    def checked(self, relaxation: Relaxed) -> Relaxed:
        """Returns the relaxation. Raises SimulatorError if it did not converge or became another structure."""
        _require_convergence(relaxation)
        change = relaxation.volume_ratio - 1
        if abs(change) > self.settings.max_volume_change:
            limit = f"the limit is {self.settings.max_volume_change:.0%}"
            detail = f"the volume changed by {change:+.0%} in the relaxation; {limit}"
            raise SimulatorError(Outcome.UNSTABLE, Reason.VOLUME_CHANGED, detail)
        return relaxation

    def measured(
        self,
        values: Mapping[Property, float],
        levels: Mapping[Property, Level],
        spreads: Mapping[Property, float | None] | None = None,
    ) -> tuple[Measured, ...]:
        """Returns the values, in canonical units, with the repeatability of the relaxation.

        levels: of properties that depend on more than the model and the relaxation. spreads: standard uncertainties of
        this crystal, of properties without one for all crystals, or in its place; None where one is not known.
        Raises SimulatorError implausible for a value outside the property's bounds."""
        rows = []
        for prop, value in values.items():
            low = -math.inf if prop.low is None else prop.low
            high = math.inf if prop.high is None else prop.high
            if not low <= value <= high:
                detail = f"{prop.name} = {value:.4g} {prop.unit}; plausible is {prop.low} to {prop.high}"
                raise SimulatorError(Outcome.IMPLAUSIBLE, Reason.IMPLAUSIBLE_VALUE, detail)
            uncertainty = spreads[prop] if spreads and prop in spreads else self.spread[prop]
            quantity = Quantity(value, prop.unit, uncertainty)
            rows.append(Measured(prop.name, levels.get(prop, self.level), quantity))
        return tuple(rows)

    def calculated(
        self,
        crystal: Crystal,
        context: Context,
        rows: tuple[Measured, ...],
        relaxation: Relaxed,
        facts: Mapping[str, Any],
        cell: ConventionalCell | None = None,
        remark: str = "",
    ) -> Finding:
        """Returns the finding of a successful calculation, with the relaxed conventional cell as a CIF.

        cell: this cell, if it is known already. remark: on the values, shown wherever they are.
        """
        structure = structure_of(relaxation)
        path = Path(context.scratch) / f"{crystal.key[:16]}.cif"
        path.write_text(cif_of_cell(cell or conventional_cell(structure)), encoding="utf-8")
        of_class = {prop.name for prop in self.spread}
        diagnostics = {
            "steps": relaxation.steps,
            "fmax": relaxation.fmax,
            "volume_change": relaxation.volume_ratio - 1,
            "space_group": space_group_of(structure),
            "space_group_before": crystal.space_group,
            **facts,
            UNCERTAINTY_KIND: {row.property: CLASS if row.property in of_class else RELAXATION for row in rows},
        }
        files = (ArtifactFile(path.name, os.fspath(path), CIF),)
        return Finding(crystal.key, Outcome.OK, rows, detail=remark, diagnostics=diagnostics, artifacts=files)


def _require_convergence(relaxation: Relaxed) -> None:
    """Raises SimulatorError if the relaxation has failed."""
    _ = relaxation.energy_per_atom  # raises the error


def structure_of(relaxation: Relaxed) -> Any:
    """Returns the relaxed cell as a pymatgen Structure."""
    from pymatgen.core import Lattice, Structure

    atoms = relaxation.atoms
    return Structure(Lattice(atoms.cell.array), atoms.get_chemical_symbols(), atoms.get_scaled_positions(wrap=True))
