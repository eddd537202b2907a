"""The verifier `gpaw.bands`: band gap, total energy and magnetic moment of a crystal by GPAW.

By its setting `geometry` a force field relaxes cell and positions first.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, field_validator

from sciagent.chemistry.crystal import Crystal, crystal_from_structure
from sciagent.chemistry.crystals.conventional_cell_and_cif import cif_of
from sciagent.domain.evidence_keys_and_pooled_replicates import ArtifactFile, Measured
from sciagent.domain.omit_unset import omitted_if_unset
from sciagent.domain.properties_and_levels import BAND_GAP, MAGNETIC_MOMENT, TOTAL_ENERGY
from sciagent.errors import InvalidCandidateError, did_you_mean
from sciagent.verification.verifier_contract import (
    Context,
    Cost,
    Finding,
    Level,
    Outcome,
    Prior,
    Property,
    PropertyAtLevel,
    Quantity,
    Reason,
    Refusal,
    Settings,
    SimulatorError,
    Tier,
    Verifier,
    at,
)
from sciagent_simulators.periodic.gpaw_calculation_and_band_gap import (
    CYCLES,
    EMPTY_BANDS,
    FUNCTIONAL,
    GPAW,
    PROTOCOLS,
    Bands,
    Protocol,
    compute,
)
from sciagent_simulators.periodic.k_points_and_elements import (
    SEMICORE,
    VALENCE,
    energy_error,
    line_points,
    mesh_of,
    moment_error,
    open_shells,
)
from sciagent_simulators.programs.run_program_and_name_failure import MPIEXEC
from sciagent_verifiers.simulation.force_field_base import ForceFieldSettings
from sciagent_verifiers.simulation.mlff_relax import MlffRelax

DEFAULT_FMAX = 0.05  # eV/angstrom
LOADING_SECONDS = 3.0  # core-seconds in which a model is loaded


class ForceFieldCell(ForceFieldSettings):
    """A relaxation of cell and positions, as by `mlff.relax`."""

    fmax: float = Field(DEFAULT_FMAX, gt=0, le=1, description="Limit of the forces on atoms and cell, eV/angstrom.")

    @property
    def label(self) -> str:
        """The name of this geometry in levels, such as `CHGNet-0.3.0`; with `fmax` if it is not the default."""
        if self.fmax == DEFAULT_FMAX:
            return self.scale.model
        return f"{self.scale.model}, {self.fmax:g} eV/angstrom"

    @property
    def _relaxer(self) -> MlffRelax:
        """`mlff.relax` with the same model, which refuses, loads and checks in the same way."""
        return MlffRelax({**self.model_dump(exclude_defaults=True), "fmax": self.fmax, "known_phases": "none"})

    def refusal(self, crystal: Crystal) -> Refusal | None:
        """Returns why the force field does not apply to the crystal, or None."""
        return self._relaxer.accepts(crystal)

    def cost(self, crystal: Crystal) -> float:
        """Returns core-seconds."""
        return LOADING_SECONDS + self._relaxer.cost(crystal)["core_seconds"]

    def lacks(self) -> str | None:
        """Returns None if the force field is installed, else how to install it."""
        return self._relaxer.lacks()

    def attach(self) -> None:
        """Loads the model, so that jobs share it."""
        self._relaxer.attach()

    def relaxed(self, crystal: Crystal, threads: int) -> tuple[Crystal, Mapping[str, Any]]:
        """Returns the relaxed crystal, without the noise that hides its symmetry, and diagnostics.

        Raises SimulatorError as `mlff.relax` does: geometry_not_converged, collapsed, volume_changed and others.
        """
        import torch

        from sciagent_simulators.potentials.potential_base_and_registry import available_device, load_potential
        from sciagent_simulators.potentials.relax_and_equation_of_state import relax

        torch.set_num_threads(threads)
        weights = self.weights.check() if self.weights else None
        potential = load_potential(self.model, weights, available_device())
        [relaxation] = relax(potential, [ase_atoms(crystal)], fmax=self.fmax, steps=self.steps)
        relaxation = self._relaxer.checked(relaxation)
        relaxed = _crystal(relaxation.atoms)
        facts: dict[str, Any] = {
            "geometry_steps": relaxation.steps,
            "geometry_fmax": round(relaxation.fmax, 6),
            "volume_ratio": round(relaxation.volume_ratio, 5),
            "space_group": relaxed.space_group,
        }
        if relaxed.space_group != crystal.space_group:
            facts["space_group_before"] = crystal.space_group
        return relaxed, facts


def ase_atoms(crystal: Crystal) -> Any:
    """Returns the primitive cell as ase.Atoms."""
    from ase import Atoms

    return Atoms(list(crystal.species), cell=crystal.lattice, scaled_positions=crystal.coordinates, pbc=True)


def _crystal(atoms: Any) -> Crystal:
    """Returns the crystal of ase.Atoms in its primitive cell. Raises SimulatorError implausible (collapsed)."""
    from pymatgen.core import Lattice, Structure

    coordinates = atoms.get_scaled_positions(wrap=False)
    structure = Structure(Lattice(atoms.cell.array), atoms.get_chemical_symbols(), coordinates)
    try:
        return crystal_from_structure(structure)
    except InvalidCandidateError as error:
        raise SimulatorError(Outcome.IMPLAUSIBLE, Reason.COLLAPSED, f"after the relaxation: {error}") from error


REPEATABILITY = 0.001  # eV, of gaps and energies
# The cost in core-seconds. SrTiO3 took 13 with the protocol `fast` and 29 with `standard`, on a busy machine.
START_SECONDS = 3.0  # for starting GPAW
BAND_POINT_SECONDS = 0.012  # for one band at one k-point, for each 1000 plane waves
DATA_SECONDS = 5.0  # for the PAW data of an element of `semicore`
UNKNOWN_VALENCE = 10  # valence electrons of an element without PAW data, in the cost
WAVES_PER_VOLUME = 2.27e-3  # plane waves = this times the volume in angstrom**3 times the cutoff in eV to the power 3/2
POLARISED_FACTOR = 2.5  # of the cost, if the two spins are computed apart


class BandsSettings(Settings):
    """A calculation of bands by GPAW with PBE and plane waves."""

    protocol: Literal["fast", "standard"] = Field(
        "standard",
        description="Plane waves and k-points: `fast` has 400 eV and a coarse mesh, `standard` 500 eV and one of twice "
        "the density.",
    )
    geometry: ForceFieldCell | None = Field(
        None, description="The force field that relaxes cell and positions first; none computes the cell as it is."
    )
    spin: dict[str, float] | None = Field(
        None,
        description="First magnetic moment of each atom by element, in Bohr magnetons, such as {Fe: 2.2}; parallel. "
        "All 0 computes open shells without spin. None refuses elements with open d or f shells.",
    )
    mesh: float | None = omitted_if_unset(
        None,
        gt=0.5,
        le=10,
        description="k-points per 1/angstrom of each reciprocal vector, 2 pi included; None takes those of the "
        "protocol. Metals want 4 to 6.",
    )
    semicore: tuple[str, ...] = omitted_if_unset(
        (),
        description="Elements with one more shell in the valence than in the PAW data that GPAW ships, such as [Cu]: "
        "3s and 3p for copper. GPAW's own generator makes the data in seconds.",
    )
    max_atoms: int = Field(20, ge=1, le=200, description="Atoms of the primitive cell; larger cells are refused.")

    @field_validator("spin")
    @classmethod
    def _elements_exist(cls, spin: dict[str, float] | None) -> dict[str, float] | None:
        for symbol in spin or {}:
            if symbol not in VALENCE:
                raise ValueError(f'no PAW data for "{symbol}"{did_you_mean(symbol, VALENCE)}')
        if any(abs(moment) > 10 for moment in (spin or {}).values()):
            raise ValueError("a moment of more than 10 Bohr magnetons an atom")
        return spin

    @field_validator("semicore")
    @classmethod
    def _have_another_shell(cls, symbols: tuple[str, ...]) -> tuple[str, ...]:
        for symbol in symbols:
            if symbol not in SEMICORE:
                raise ValueError(f'no PAW data with another shell for "{symbol}"; there are {", ".join(SEMICORE)}')
        return tuple(sorted(set(symbols)))

    @property
    def resolution(self) -> Protocol:
        """The plane waves and k-points."""
        protocol = PROTOCOLS[self.protocol]
        return replace(protocol, mesh=self.mesh) if self.mesh else protocol

    @property
    def valence(self) -> Mapping[str, int]:
        """The valence electrons of the elements of `semicore`."""
        return {symbol: SEMICORE[symbol] for symbol in self.semicore}

    @property
    def is_polarised(self) -> bool:
        """Whether the two spins are computed apart."""
        return any((self.spin or {}).values())

    @property
    def level(self) -> Level:
        first_moments = sorted((self.spin or {}).items())
        nonzero_moments = [f"{symbol} {moment:g}" for symbol, moment in first_moments if moment]
        method = FUNCTIONAL
        if nonzero_moments:
            method += f" spin({', '.join(nonzero_moments)})"
        if self.semicore:
            method += f" semicore({', '.join(self.semicore)})"
        basis = self.resolution.basis
        if self.mesh:
            basis += f" k({self.mesh:g})"
        geometry = self.geometry.label if self.geometry else ""
        return Level(method, basis, geometry=geometry)


class GpawBands(Verifier[Crystal]):
    """Fundamental band gap, total energy and magnetic moment of a crystal by GPAW: PBE, plane waves, PAW.

    It needs GPAW in a Python of its own: `apt-get install gpaw` on Debian and Ubuntu, or any Python with GPAW 22.8 or
    later that SCIAGENT_GPAW names. With several cores (`resources: {cores: 4}`) Open MPI starts that many processes.

    The gap is the lowest empty level minus the highest occupied one over the mesh and the lines of high symmetry, the
    latter at fixed density: on a mesh alone the gap of silicon is 0.13 eV too large. It is a Kohn-Sham gap: PBE lies
    about 40 % below experiment, and without spin-orbit coupling lead and tin iodides come out up to 1 eV too large;
    write windows in this scale. A metal has exactly 0. Five-atom cubic perovskites cannot tilt, which changes gaps by
    up to 1 eV. The total energy is that of the primitive cell against free atoms without spin; do not compare it with
    energies of force fields. The moment is that of the primitive cell, and measured only where `spin` is set.

    It refuses charged cells, elements without PAW data, and open d or f shells by the oxidation states of the formula
    unless `spin` is set: without +U and magnetic order their gaps mean nothing. Elements and most alloys of the d block
    count as open. Spins start parallel: antiferromagnets need a cell and moments that this verifier does not offer.

    The uncertainty is repeatability (k = 1) over mixing, number of bands and eigensolver: seven runs of SrTiO3 had root
    mean squares of 0.0006 eV in the gap and 1e-5 eV in the energy, rounded up to 0.001 eV. Shifts of the origin are
    not in it. For a metal the error of the mesh, which is much larger, is added: 0.026 eV an atom and 0.14 Bohr
    magnetons a magnetic atom with the mesh of `standard`, and with that of `fast` 0.19 eV an atom, moments unknown
    (`periodic.k_points_and_elements` names what was measured). That of a moment is not known where there is a gap. GPAW
    22.8 and 26.7 gave silicon energies within 1e-8 eV and gaps within 1 meV; other solids have not been compared
    (benchmarks/crystals/solids.py does).

    A job that is tried again goes on from the ground state that it has kept.

    Sources: Enkovaara et al., J. Phys. Condens. Matter 22, 253202 (2010); Mortensen et al., J. Chem. Phys. 160, 092503
    (2024); PBE: Perdew, Burke, Ernzerhof, Phys. Rev. Lett. 77, 3865 (1996).
    """

    name = "gpaw.bands"
    version = "2"
    tier = Tier.HIGH_FIDELITY
    kind = "crystal"
    Settings = BandsSettings
    settings: BandsSettings
    programs = (GPAW,)
    optional_programs = (MPIEXEC,)
    engines = ("pymatgen", "ase")
    preload = ("numpy", "ase.neighborlist", "ase.cell", "pymatgen.core")
    priors = (
        Prior(
            property="band_gap", level="PBE/PW(500)", spearman=0.995, residual=0.104, n=60, slope=1.0, intercept=0.034,
            method="PBE", source="benchmarks/crystals/ladder.csv, protocol fast; cubic perovskites of five atoms",
        ),
    )  # fmt: skip

    def lacks(self) -> str | None:
        """Returns what is missing of GPAW and of the force field that `geometry` names."""
        missing = self.missing()
        if missing:
            return missing
        return self.settings.geometry.lacks() if self.settings.geometry else None

    def attach(self) -> None:
        """Loads the force field, so that jobs share it."""
        if self.settings.geometry:
            self.settings.geometry.attach()

    @property
    def measures(self) -> tuple[PropertyAtLevel, ...]:
        return at(self.settings.level, *self._properties)

    @property
    def _properties(self) -> tuple[Property, ...]:
        if self.settings.is_polarised:
            return BAND_GAP, TOTAL_ENERGY, MAGNETIC_MOMENT
        return BAND_GAP, TOTAL_ENERGY

    def accepts(self, candidate: Crystal) -> Refusal | None:
        if candidate.charge or candidate.multiplicity != 1:
            detail = f"charge {candidate.charge}, multiplicity {candidate.multiplicity}; cells are neutral here"
            return Refusal(Reason.CHARGE, f"{detail}, and `spin` sets moments")
        if candidate.n_atoms > self.settings.max_atoms:
            return Refusal(Reason.TOO_LARGE, f"{candidate.n_atoms} atoms; the limit is {self.settings.max_atoms}")
        unknown = sorted(set(candidate.species) - set(VALENCE))
        if unknown:
            return Refusal(Reason.MISSING_SETUP, f"GPAW has no PAW data for {', '.join(unknown)}")
        if self.settings.geometry:
            refusal = self.settings.geometry.refusal(candidate)
            if refusal:
                return refusal
        if self.settings.spin is None:
            open_shell_elements = open_shells(candidate.formula)
            if open_shell_elements:
                detail = f"open d or f shells: {', '.join(open_shell_elements)}; set `spin` for them"
                return Refusal(Reason.ELEMENT, detail)
        return None

    def cost(self, candidate: Crystal) -> Cost:
        """Returns an estimate from bands, plane waves and k-points, with the constants above."""
        protocol = self.settings.resolution
        atoms = ase_atoms(candidate)
        valence = {**VALENCE, **self.settings.valence}
        n_electrons = sum(valence.get(symbol, UNKNOWN_VALENCE) for symbol in candidate.species)
        n_bands = n_electrons / 2 + EMPTY_BANDS
        mesh = mesh_of(atoms.cell, protocol.mesh)
        n_mesh = mesh.size[0] * mesh.size[1] * mesh.size[2] / 8  # an estimate of the points that symmetry leaves
        n_lines = len(line_points(atoms.cell, protocol.lines, mesh))
        thousand_waves = WAVES_PER_VOLUME * abs(atoms.cell.volume) * protocol.cutoff**1.5 / 1000
        n_made_data = len(set(self.settings.semicore) & set(candidate.species))
        seconds = START_SECONDS + DATA_SECONDS * n_made_data
        # a point of the mesh counts twice, since the density is iterated on it
        seconds += BAND_POINT_SECONDS * (n_lines + 2 * n_mesh) * n_bands * thousand_waves
        if self.settings.is_polarised:
            seconds *= POLARISED_FACTOR
        if self.settings.geometry:
            seconds += self.settings.geometry.cost(candidate)
        return Cost(core_seconds=seconds)

    def verify(self, batch: Sequence[Crystal], context: Context) -> Iterator[Finding]:
        for crystal in batch:
            try:
                yield self._finding(crystal, context)
            except SimulatorError as error:
                yield self.failed(crystal, error)

    def _finding(self, crystal: Crystal, context: Context) -> Finding:
        relaxation_facts: Mapping[str, Any] = {}
        computed = crystal
        if self.settings.geometry:
            computed, relaxation_facts = self.settings.geometry.relaxed(crystal, context.threads)
        name = f"{self.settings_hash[:12]}-{crystal.key[:16]}"
        checkpoint_folder = context.checkpoint / name
        checkpoint_folder.mkdir(parents=True, exist_ok=True)
        bands = compute(
            ase_atoms(computed),
            self.settings.resolution,
            context.scratch / name,
            checkpoint_folder,
            moments=self.settings.spin,
            valence=self.settings.valence,
            ranks=context.threads,
            cycles=CYCLES,
        )
        values = {TOTAL_ENERGY: bands.energy, MAGNETIC_MOMENT: abs(bands.moment)}
        if bands.gap is not None:
            values[BAND_GAP] = bands.gap.value
        uncertainties = self._uncertainties(crystal, bands)
        rows = tuple(
            Measured(prop.name, self.settings.level, Quantity(values[prop], prop.unit, uncertainties[prop]))
            for prop in self._properties
        )
        artifacts = self._files(crystal, computed, bands, context.scratch)
        return Finding(
            crystal.key,
            Outcome.OK,
            rows,
            diagnostics={**relaxation_facts, **_facts(bands)},
            artifacts=artifacts,
            versions=dict(bands.versions),
        )

    def _uncertainties(self, crystal: Crystal, bands: Bands) -> Mapping[Property, float | None]:
        """Returns the standard uncertainties; None where they are not known."""
        uncertainties: dict[Property, float | None] = {
            BAND_GAP: REPEATABILITY,
            TOTAL_ENERGY: REPEATABILITY,
            MAGNETIC_MOMENT: None,
        }
        if bands.gap is None or not bands.gap.is_metal:
            return uncertainties
        mesh = self.settings.resolution.mesh
        energy_per_atom = energy_error(mesh)
        if energy_per_atom is None:
            uncertainties[TOTAL_ENERGY] = None
        else:
            uncertainties[TOTAL_ENERGY] = math.hypot(REPEATABILITY, energy_per_atom * crystal.n_atoms)
        first_moments = self.settings.spin or {}
        n_magnetic = sum(bool(first_moments.get(symbol)) for symbol in crystal.species)
        moment_per_atom = moment_error(mesh)
        if moment_per_atom is not None and n_magnetic:
            uncertainties[MAGNETIC_MOMENT] = moment_per_atom * n_magnetic
        return uncertainties

    def _files(self, crystal: Crystal, computed: Crystal, bands: Bands, folder: Path) -> tuple[ArtifactFile, ...]:
        """Writes the cell that was computed, and GPAW's report, to files, and returns these."""
        # {suffix of the file: (text, media type)}
        texts = {"cif": (cif_of(computed.structure), "chemical/x-cif")}
        if bands.text:
            texts["gpaw.txt"] = (bands.text, "text/plain")
        files = []
        for suffix, (text, media_type) in texts.items():
            file = folder / f"{crystal.key[:16]}.{suffix}"
            file.write_text(text, encoding="utf-8")
            files.append(ArtifactFile(file.name, str(file), media_type))
        return tuple(files)


def _facts(bands: Bands) -> Mapping[str, Any]:
    """Returns the diagnostics of a calculation."""
    gap = bands.gap
    n_mesh_points, n_line_points = bands.n_points
    facts: dict[str, Any] = {
        "n_mesh_points": n_mesh_points,
        "n_line_points": n_line_points,
        "is_restarted": bands.is_restarted,
    }
    if gap is not None:
        facts["is_metal"] = gap.is_metal
        facts["direct_gap"] = gap.direct
        if not gap.is_metal:
            facts["valence_point"] = list(gap.valence_point)
            facts["conduction_point"] = list(gap.conduction_point)
            facts["is_on_mesh"] = gap.is_on_mesh
    return facts
