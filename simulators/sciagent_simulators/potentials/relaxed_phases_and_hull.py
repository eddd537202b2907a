"""Known phases of a chemical system by one force field: elements and decorated prototypes, relaxed once and kept.

All energies come from the same model, so no scales mix. The hull of these phases is a lower bound: a phase that is not
among them can make a candidate less stable, never more stable. The relaxed energies are kept in files below the cache
folder, one for each element and each group of elements, under the model, its scale and the recipe. Structures that a
user brings are relaxed and kept in the same way (`relaxed_structures`).

The elements start from their ground-state structures, which are then relaxed. Simple metals and the diamond lattice
start with their measured lattice constants. Other structures come from the AFLOW prototypes that pymatgen ships; their
bonds are as long as the sums of radii, and molecular crystals have their measured volume.

Sources: ase.data.reference_states; Mehl et al., Comput. Mater. Sci. 136, S1 (2017).

Energies of a model that learnt calculations with and without a Hubbard U are kept with the corrections that make the
two comparable (`materials_project_corrections`).
"""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import tempfile
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from itertools import chain, combinations
from pathlib import Path
from typing import Any

from ase.data import chemical_symbols

from sciagent.chemistry.crystal import Crystal, space_group_of
from sciagent.domain.evidence_keys_and_pooled_replicates import content_hash
from sciagent.domain.outcomes_verdicts_and_reasons import Outcome, Reason
from sciagent.errors import SimulatorError
from sciagent.inputs.environment_variables import cache_folder
from sciagent_simulators.potentials.competing_prototypes import (
    BINARIES,
    MORE_BINARIES,
    TERNARIES,
    decorated_pairs,
    further_phases,
    pair_phases,
)
from sciagent_simulators.potentials.materials_project_corrections import compared_on, on_mp2020
from sciagent_simulators.potentials.potential_base_and_registry import Energy, EnergyScale, Potential
from sciagent_simulators.potentials.relax_and_equation_of_state import relax

PROTOTYPES = {
    "A_cP8_205_c None": "H N",
    "A_mC4_12_i None": "O",
    "A_oC8_64_f A14": "F Cl Br I",
    "A_oC8_64_f A17": "P",
    "A_oC8_64_f A11": "Ga",
    "A_oF128_70_4h A16": "S",
    "A_hP3_152_a A8": "Se Te",
    "A_hR2_166_c A7": "As Sb Bi",
    "A_hR12_166_2h None": "B",
    "A_hP4_194_bc A9": "C",
    "A_tI2_139_a A6": "In",
    "A_hR1_166_a A10": "Hg",
    "A_cI58_217_ac2g A12": "Mn",
    "A_hP4_194_ac A3'": "La Pr Nd Pm",
    "A_hR3_166_ac C19": "Sm",
    "A_tI2_139_a A_a": "Pa",
    "A_oC4_63_c A20": "U",
    "A_oP8_62_2c A_c": "Np",
    "A_mP16_11_8e None": "Pu",
}
"""AFLOW label and Strukturbericht symbol (`None` without one), and the elements that have the structure."""
PROTOTYPE_OF = {symbol: name for name, symbols in PROTOTYPES.items() for symbol in symbols.split()}
VOLUMES = {"H": 19.0, "N": 22.7, "O": 17.4, "F": 16.1, "Cl": 27.5, "Br": 32.6, "I": 42.6}
"""Measured volumes of molecular crystals, in angstrom**3 per atom; bonds do not tell how far apart molecules are."""
LATTICES = {"Sn": ("diamond", 6.49), "He": ("fcc", 4.24)}
"""Elements whose structure at 0 K ASE's table lacks, with the lattice constant in angstrom."""


def element(symbol: str) -> Any:
    """Returns the pymatgen Structure of an element, not yet relaxed. Raises KeyError for one without a structure."""
    from pymatgen.io.ase import AseAtomsAdaptor

    if symbol in PROTOTYPE_OF:
        return _prototype(PROTOTYPE_OF[symbol], symbol)
    from ase.build import bulk

    lattice, lattice_constant = LATTICES.get(symbol, (None, None))  # None takes ASE's values
    try:
        return AseAtomsAdaptor.get_structure(bulk(symbol, lattice, a=lattice_constant))
    except ValueError as error:
        raise KeyError(symbol) from error


def _prototype(name: str, symbol: str) -> Any:
    """Returns the pymatgen Structure of an element in the prototype with this key of PROTOTYPES."""
    from pymatgen.core import Structure

    from sciagent.chemistry.crystals.cell_building_scaling_and_symmetry import rescaled

    prototype = _structures()[name]
    structure = Structure(prototype.lattice, [symbol] * len(prototype), prototype.frac_coords)
    if symbol not in VOLUMES:
        return rescaled(structure)
    structure.scale_lattice(VOLUMES[symbol] * len(structure))
    return structure


@cache
def _structures() -> Mapping[str, Any]:
    """Returns {key of PROTOTYPES: pymatgen Structure of this prototype}."""
    from pymatgen.core import Structure

    from sciagent.chemistry.crystals.cell_building_scaling_and_symmetry import analysis_folder

    structures: dict[str, Any] = {}
    with gzip.open(analysis_folder() / "prototypes/aflow_prototypes.json.gz", "rt") as file:
        for entry in json.load(file):
            name = f"{entry['tags']['aflow']} {entry['tags']['strukturbericht']}"
            if name in PROTOTYPES:
                structures.setdefault(name, Structure.from_dict(entry["snl"]))
    return structures


RECIPE = 5  # raise it whenever the phases or their relaxation change
FMAX = 0.03  # eV/angstrom, limit of the forces
STEPS = 500  # largest number of evaluations of a phase
FURTHER = "+"
"""Begin of the names of files with phases in MORE_BINARIES and TERNARIES."""
OWN = "own-"
"""Begin of the names of files with a structure that a user brings."""
AT_ONCE = 64
"""Names whose phases are relaxed together; what is relaxed is kept before the next ones begin."""
MIN_SHARE = 1e-6  # phases with a smaller share of the atoms are not named in a mixture


@dataclass(frozen=True)
class Phase:
    """A relaxed phase."""

    name: str
    """Its prototype and formula, such as `rocksalt NaCl`."""
    amounts: Mapping[str, float]
    """Atoms of each element in the formula."""
    per_atom: float
    """Energy in eV per atom."""


@dataclass(frozen=True)
class KnownPhases:
    """The phases of a chemical system on one scale."""

    phases: tuple[Phase, ...]
    scale: EnergyScale

    def formation_energy(self, amounts: Mapping[str, float], energy: Energy) -> float:
        """Returns the energy against the elements, eV per atom.

        Raises SimulatorError for another scale, or if an element is missing."""
        elements = {symbol: self._lowest(symbol) for symbol in amounts}
        total = sum(amounts.values())
        mixture = sum(n / total * elements[symbol].per_atom for symbol, n in amounts.items())
        return energy - Energy(mixture, self.scale)

    def energy_above(self, amounts: Mapping[str, float], energy: Energy) -> tuple[float, Mapping[str, float]]:
        """Returns the energy above the hull of the phases, eV per atom, and the share of atoms of each phase there.

        It is negative below the hull. Raises SimulatorError for another scale, or if an element is missing."""
        self._require_elements(amounts)
        within = [phase for phase in self.phases if set(phase.amounts) <= set(amounts)]
        shares = _mixture([phase.amounts for phase in within], [phase.per_atom for phase in within], amounts)
        hull_energy = sum(share * phase.per_atom for phase, share in zip(within, shares, strict=True))
        present: dict[str, float] = {}
        for phase, share in zip(within, shares, strict=True):
            if share > MIN_SHARE:
                present[phase.name] = present.get(phase.name, 0.0) + share
        return energy - Energy(hull_energy, self.scale), present

    def _require_elements(self, symbols: Iterable[str]) -> None:
        """Raises SimulatorError not_converged if no phase of one of the elements is known."""
        for symbol in symbols:
            self._lowest(symbol)

    def _lowest(self, symbol: str) -> Phase:
        """Returns the phase of the element with the lowest energy. Raises SimulatorError not_converged without one."""
        pure = [phase for phase in self.phases if set(phase.amounts) == {symbol}]
        if not pure:
            detail = f"no reference phase of {symbol} is known to {self.scale.model}"
            raise SimulatorError(Outcome.NOT_CONVERGED, Reason.GEOMETRY_NOT_CONVERGED, detail)
        return min(pure, key=lambda phase: phase.per_atom)


def known_phases(
    potential: Potential,
    scale: EnergyScale,
    systems: Iterable[Collection[str]],
    binaries: bool = True,
    further: bool = False,
) -> KnownPhases:
    """Returns the phases of these chemical systems: read from the cache, or relaxed together and kept.

    Their energies are on the scale `compared_on` of the potential's one.

    scale: the scale of the potential's energies; it also tells a user's own weights apart. systems: the elements of
    each system. binaries: whether decorated pairs of elements belong to the phases, besides the elements. further:
    whether those of MORE_BINARIES and TERNARIES do.
    """
    wanted_names: list[str] = []  # of elements, such as Na, of pairs, such as Cl-Na, of what is further, such as +Cl-Na
    for system in systems:
        wanted_names.extend(sorted(system))
        pairs = decorated_pairs(system)
        if binaries:
            wanted_names.extend("-".join(pair) for pair in pairs)
        if further:
            groups = [*pairs, *combinations(sorted(system), 3)]
            wanted_names.extend(f"{FURTHER}{'-'.join(group)}" for group in groups)
    phases_by_name = _kept_or_relaxed(potential, scale, wanted_names, _starts)
    return KnownPhases(tuple(chain.from_iterable(phases_by_name.values())), compared_on(scale))


def relaxed_structures(potential: Potential, scale: EnergyScale, structures: Mapping[str, Crystal]) -> list[Phase]:
    """Returns the phases of given structures: read from the cache, or relaxed and kept as known phases are.

    Structures that do not relax are left out. structures: by the name that the phase gets. scale: as in
    `known_phases`."""
    crystals = {f"{OWN}{crystal.key[:32]}": crystal for crystal in structures.values()}
    phases_by_file = _kept_or_relaxed(
        potential, scale, list(crystals), lambda name: [(crystals[name].space_group, crystals[name].structure)]
    )
    phases = []
    for name, crystal in structures.items():
        for phase in phases_by_file[f"{OWN}{crystal.key[:32]}"]:
            phases.append(replace(phase, name=name))
    return phases


def _kept_or_relaxed(
    potential: Potential,
    scale: EnergyScale,
    wanted_names: Iterable[str],
    starts: Callable[[str], Sequence[tuple[str, Any]]],
) -> dict[str, list[Phase]]:
    """Returns {name: its phases}; those that no file of the cache holds are relaxed, AT_ONCE names together, and kept.

    starts: returns (label, pymatgen Structure) of the phases of a name, not yet relaxed."""
    folder = cache_folder() / "known_phases" / _folder(compared_on(scale))
    phases_by_name: dict[str, list[Phase]] = {}
    missing: list[str] = []
    for name in dict.fromkeys(wanted_names):  # each name once, in this order
        cached_phases = _read(folder / f"{name}.json")
        if cached_phases is None:
            missing.append(name)
        else:
            phases_by_name[name] = cached_phases
    for first in range(0, len(missing), AT_ONCE):
        names = missing[first : first + AT_ONCE]
        relaxed = _relaxed(potential, scale, {name: starts(name) for name in names})
        for name, phases in relaxed.items():
            _write(folder / f"{name}.json", phases)
        phases_by_name.update(relaxed)
    return phases_by_name


def _mixture(
    phases: Sequence[Mapping[str, float]], energies: Sequence[float], amounts: Mapping[str, float]
) -> Sequence[float]:
    """Returns the share of atoms of each phase in the mixture of lowest energy with this composition.

    phases: atoms of each element in a phase. energies: of the phases, eV per atom. amounts: the composition.
    It solves a linear programme: minimise sum_i x_i e_i with sum_i x_i c_i = c and x_i >= 0, where c are shares of
    elements. Raises SimulatorError not_converged."""
    from scipy.optimize import linprog

    total = sum(amounts.values())
    shares = []  # of each element in each phase
    for symbol in amounts:
        shares.append([phase.get(symbol, 0.0) / sum(phase.values()) for phase in phases])
    shares_in_mixture = [n / total for n in amounts.values()]
    solved = linprog(energies, A_eq=shares, b_eq=shares_in_mixture, bounds=(0, None))
    if not solved.success:
        raise SimulatorError(Outcome.NOT_CONVERGED, Reason.GEOMETRY_NOT_CONVERGED, f"no hull: {solved.message}")
    return [float(share) for share in solved.x]


def _folder(scale: EnergyScale) -> str:
    """Returns the name of the cache's folder for this model, scale and recipe."""
    recipe_hash = content_hash([asdict(scale), RECIPE, FMAX, STEPS, BINARIES, sorted(MORE_BINARIES), TERNARIES])
    return f"{scale.model}-{recipe_hash[:12]}"


def _relaxed(
    potential: Potential, scale: EnergyScale, starts_by_name: Mapping[str, Sequence[tuple[str, Any]]]
) -> dict[str, list[Phase]]:
    """Returns the relaxed phases of each name; one that does not relax is left out.

    starts_by_name: (label, pymatgen Structure) of each phase."""
    from pymatgen.analysis.structure_matcher import StructureMatcher
    from pymatgen.io.ase import AseAtomsAdaptor

    starts = []
    for name, starts_of_name in starts_by_name.items():
        for label, structure in starts_of_name:
            starts.append((name, label, structure))
    cells = [AseAtomsAdaptor.get_atoms(structure, msonable=False) for _, _, structure in starts]
    phases_by_name: dict[str, list[Phase]] = {name: [] for name in starts_by_name}
    all_relaxed = relax(potential, cells, FMAX, STEPS)
    for (name, label, structure), relaxed in zip(starts, all_relaxed, strict=True):
        if relaxed.fault is None:
            composition = structure.composition
            after = AseAtomsAdaptor.get_structure(relaxed.atoms)
            phase_name = f"{label} {composition.reduced_formula}"
            group = space_group_of(after)
            if group != space_group_of(structure) or not StructureMatcher().fit(structure, after):
                phase_name += f", relaxed to {group}"
            energy = on_mp2020(Energy(relaxed.energy_per_atom, scale), after)
            phase = Phase(phase_name, composition.get_el_amt_dict(), energy.per_atom)
            phases_by_name[name].append(phase)
    return phases_by_name


def _starts(name: str) -> list[tuple[str, Any]]:
    """Returns (label, pymatgen Structure) of the phases of a name, not yet relaxed."""
    if name.startswith(FURTHER):
        return further_phases(name.removeprefix(FURTHER).split("-"))
    symbols = name.split("-")
    if len(symbols) == 1:
        with contextlib.suppress(KeyError):
            return [("element", element(symbols[0]))]
        return []
    return pair_phases((symbols[0], symbols[1]))


def _read(path: Path) -> list[Phase] | None:
    """Returns the phases of a file; None if there is none that can be read."""
    with contextlib.suppress(OSError, ValueError, TypeError):
        return [Phase(**phase) for phase in json.loads(path.read_text(encoding="utf-8"))]
    return None


def _write(path: Path, phases: Sequence[Phase]) -> None:
    """Writes a file in one step. A cache that cannot be written to is no fault: the phases are relaxed again."""
    with contextlib.suppress(OSError):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, partial = tempfile.mkstemp(prefix=path.name, dir=path.parent)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump([asdict(phase) for phase in phases], file)
        Path(partial).replace(path)


MPTRJ = frozenset(chemical_symbols[1:95]) - {"Po", "At", "Rn", "Fr", "Ra"}
"""The 89 elements of the training set MPtrj: hydrogen to plutonium without five that have no calculations."""
