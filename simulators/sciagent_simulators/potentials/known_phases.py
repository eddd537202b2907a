"""Known phases of a chemical system by one force field: the elements and decorated binaries, relaxed once and kept.

All energies come from the same model, so no scales mix. The hull of these phases is a lower bound: a phase that is not
among them can make a candidate less stable, never more stable. The relaxed energies are kept in files below the cache
folder, one for each element and each pair of elements, under the model, its scale and the recipe.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from itertools import combinations
from pathlib import Path
from typing import Any

from sciagent.domain.evidence import content_hash
from sciagent.domain.outcomes import Outcome, Reason
from sciagent.errors import InvalidCandidateError, SimulatorError
from sciagent.inputs.settings import cache_folder
from sciagent_simulators.potentials.potential import Energy, EnergyScale, Potential
from sciagent_simulators.potentials.reference_elements import element
from sciagent_simulators.potentials.relaxing import relax

RECIPE = 2  # raise it whenever the phases or their relaxation change
FMAX, STEPS = 0.03, 500
LEAST_SHARE = 1e-6  # of atoms, of a phase that is named
BINARIES = (
    "rocksalt", "CsCl", "zincblende", "NiAs", "fluorite", "rutile", "CdI2", "antifluorite", "corundum", "BiI3",
)  # fmt: skip
"""Prototypes of AX, AX2, A2X, A2X3 and AX3, with the more electropositive element as A. A pair is decorated in those
that oxidation states balance; an alloy, or another pair without a balanced one, in all."""


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
        for symbol in amounts:
            self._lowest(symbol)
        within = [phase for phase in self.phases if set(phase.amounts) <= set(amounts)]
        shares = _mixture([phase.amounts for phase in within], [phase.per_atom for phase in within], amounts)
        lowest = sum(share * phase.per_atom for phase, share in zip(within, shares, strict=True))
        present: dict[str, float] = {}
        for phase, share in zip(within, shares, strict=True):
            if share > LEAST_SHARE:
                present[phase.name] = present.get(phase.name, 0.0) + share
        return energy - Energy(lowest, self.scale), present

    def _lowest(self, symbol: str) -> Phase:
        pure = [phase for phase in self.phases if set(phase.amounts) == {symbol}]
        if not pure:
            detail = f"no reference phase of {symbol} is known to {self.scale.model}"
            raise SimulatorError(Outcome.NOT_CONVERGED, Reason.GEOMETRY_NOT_CONVERGED, detail)
        return min(pure, key=lambda phase: phase.per_atom)


def known_phases(
    potential: Potential, scale: EnergyScale, systems: Iterable[Collection[str]], binaries: bool = True
) -> KnownPhases:
    """Returns the phases of these chemical systems: read from the cache, or relaxed together and kept.

    scale: of the potential's energies; for own weights it names them. systems: the elements of each.
    binaries: whether decorated binaries belong to them, besides the elements.
    """
    wanted: dict[str, None] = {}
    for system in systems:
        wanted |= dict.fromkeys(sorted(system))
        if binaries:
            wanted |= dict.fromkeys("-".join(pair) for pair in _pairs(system))
    folder = cache_folder() / "known_phases" / _folder(scale)
    found = {name: phases for name in wanted if (phases := _read(folder / f"{name}.json")) is not None}
    missing = [name for name in wanted if name not in found]
    if missing:
        relaxed = _relaxed(potential, missing)
        for name, phases in relaxed.items():
            _write(folder / f"{name}.json", phases)
        found |= relaxed
    return KnownPhases(tuple(phase for phases in found.values() for phase in phases), scale)


def _pairs(system: Collection[str]) -> list[tuple[str, str]]:
    """Returns the pairs of elements that are decorated: beside a non-metal, two metals only if they make a salt."""
    from sciagent.chemistry.crystals.contacts import is_metal

    metals = {symbol for symbol in system if is_metal(symbol)}
    pairs = list(combinations(sorted(system), 2))
    return [pair for pair in pairs if metals == set(system) or not metals.issuperset(pair) or balanced(pair)]


@lru_cache(maxsize=4096)
def balanced(pair: tuple[str, str]) -> tuple[str, ...]:
    """Returns the prototypes in which whole oxidation states of the two elements add up to zero."""
    from sciagent.chemistry.crystals.charges import assignment_of

    found = []
    for label, structure in _decorated(pair, BINARIES):
        states = assignment_of({symbol: int(n) for symbol, n in structure.composition.get_el_amt_dict().items()})
        if states is not None and states.misordered == 0 and all(x.is_integer() for x in states.states.values()):
            found.append(label)
    return tuple(found)


def _mixture(
    phases: Sequence[Mapping[str, float]], energies: Sequence[float], amounts: Mapping[str, float]
) -> Sequence[float]:
    """Returns the share of atoms of each phase in the mixture of lowest energy with this composition.

    A linear programme: minimise sum_i x_i e_i with sum_i x_i c_i = c and x_i >= 0, where c are shares of elements."""
    from scipy.optimize import linprog

    total = sum(amounts.values())
    shares = [[phase.get(symbol, 0.0) / sum(phase.values()) for phase in phases] for symbol in amounts]
    solved = linprog(energies, A_eq=shares, b_eq=[n / total for n in amounts.values()], bounds=(0, None))
    if not solved.success:
        raise SimulatorError(Outcome.NOT_CONVERGED, Reason.GEOMETRY_NOT_CONVERGED, f"no hull: {solved.message}")
    return [float(share) for share in solved.x]


def _folder(scale: EnergyScale) -> str:
    return f"{scale.model}-{content_hash([asdict(scale), RECIPE, FMAX, STEPS, BINARIES])[:12]}"


def _relaxed(potential: Potential, names: Sequence[str]) -> dict[str, list[Phase]]:
    """Returns the relaxed phases of elements and pairs; one that does not relax is left out."""
    from pymatgen.io.ase import AseAtomsAdaptor

    starts = [(name, label, structure) for name in names for label, structure in _starts(name.split("-"))]
    cells = [AseAtomsAdaptor.get_atoms(structure, msonable=False) for _, _, structure in starts]
    found: dict[str, list[Phase]] = {name: [] for name in names}
    for (name, label, structure), done in zip(starts, relax(potential, cells, FMAX, STEPS), strict=True):
        if done.fault is None:
            amounts = structure.composition.get_el_amt_dict()
            found[name].append(Phase(f"{label} {structure.composition.reduced_formula}", amounts, done.energy_per_atom))
    return found


def _starts(symbols: Sequence[str]) -> list[tuple[str, Any]]:
    """Returns (label, pymatgen Structure) of the phases of an element or a pair, not yet relaxed."""
    if len(symbols) == 1:
        with contextlib.suppress(KeyError):
            return [("element", element(symbols[0]))]
        return []
    return _decorated(symbols, balanced((symbols[0], symbols[1])) or BINARIES)


def _decorated(symbols: Sequence[str], names: Sequence[str]) -> list[tuple[str, Any]]:
    """Returns (label, pymatgen Structure) of a pair in these prototypes."""
    from sciagent.chemistry.crystals.contacts import electronegativity
    from sciagent.chemistry.crystals.prototypes import decorated

    ordered = sorted(symbols, key=lambda symbol: electronegativity(symbol) or 0.0)
    starts = []
    for prototype in names:
        with contextlib.suppress(InvalidCandidateError):
            starts.append((prototype, decorated(prototype, ordered).structure))
    return starts


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
