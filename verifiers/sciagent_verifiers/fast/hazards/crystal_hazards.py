"""Hazard rules for crystals: elements, and groups of atoms by formula and distance.

Rules only recognise compounds. They contain nothing on synthesis, handling or use. A rule of `crystal_rules.csv` needs
all of its elements if it has a condition here, and any of them if it has none.

Settings name rules of one screen, of molecules or of crystals; a name of the other screen is refused.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from sciagent.chemistry.crystal import Crystal
from sciagent.chemistry.crystals.bonds import is_metal
from sciagent.chemistry.crystals.oxidation_states import assignment_of
from sciagent.domain.outcomes_verdicts_and_reasons import Reason
from sciagent.errors import did_you_mean
from sciagent_verifiers.fast.hazards.molecule_hazards import Hazard, rule_names

GROUPS: tuple[Reason, ...] = (Reason.RADIOACTIVE, Reason.EXPLOSIVE, Reason.ACUTE_HAZARD)
"""The gravest group comes first. If rules of several groups match, it gives the reason of the refusal."""
REACH = 2.0
"""Largest distance of two atoms of one group, in angstrom."""
HALOGENS = frozenset(("F", "Cl", "Br", "I"))
BASE_METALS = frozenset(("Li", "Na", "K", "Rb", "Cs", "Mg", "Ca", "Sr", "Ba", "Al", "Zn"))


class Compound:
    """A crystal as the rules see it."""

    def __init__(self, crystal: Crystal) -> None:
        self._crystal = crystal
        self.counts: Mapping[str, int] = Counter(crystal.species)
        self.elements = frozenset(self.counts)
        self.metals = frozenset(symbol for symbol in self.elements if is_metal(symbol))

    @cached_property
    def _near(self) -> list[list[tuple[str, float]]]:
        """Symbol and distance of all neighbours within REACH, by site."""
        structure: Any = self._crystal.structure
        first, second, _, distances = structure.get_neighbor_list(REACH, exclude_self=True)
        neighbours: list[list[tuple[str, float]]] = [[] for _ in self._crystal.species]
        for i, j, distance in zip(first, second, distances, strict=True):
            neighbours[int(i)].append((self._crystal.species[int(j)], float(distance)))
        return neighbours

    def max_neighbours(self, centre: str, neighbour: str, distance: float) -> int:
        """Returns the largest number of neighbours of one element around any atom of another.

        centre, neighbour: symbols of the elements. distance: largest distance of a neighbour, in angstrom."""
        return max((self._n_neighbours(site, neighbour, distance) for site in self._sites(centre)), default=0)

    def bridges(self, centre: str, first: str, second: str, distance: float) -> bool:
        """Returns whether an atom has neighbours of both other elements within a distance, in angstrom."""
        for site in self._sites(centre):
            has_first = self._n_neighbours(site, first, distance) > 0
            if has_first and self._n_neighbours(site, second, distance) > 0:
                return True
        return False

    def _sites(self, symbol: str) -> list[int]:
        """Returns the indices of the atoms of an element."""
        return [site for site, species in enumerate(self._crystal.species) if species == symbol]

    def _n_neighbours(self, site: int, symbol: str, distance: float) -> int:
        """Returns the number of neighbours of an element around an atom, within a distance."""
        return sum(species == symbol and apart <= distance for species, apart in self._near[site])


def _has_only(compound: Compound, allowed: frozenset[str], besides: str) -> bool:
    """Returns whether the compound has elements other than `besides`, and all of them are allowed.

    besides: symbols with blanks between them."""
    others = compound.elements - set(besides.split())
    return bool(others) and others <= allowed


def _nitrogen_rich(compound: Compound) -> bool:
    """Returns whether it is a nitride of metals with at least three nitrogen atoms per metal atom."""
    n_metals = sum(compound.counts[symbol] for symbol in compound.metals)
    return _has_only(compound, compound.metals, besides="N") and compound.counts["N"] >= 3 * n_metals


def _oxyhalogen(compound: Compound) -> bool:
    """Returns whether chlorine or bromine is the centre of oxygen atoms, by distances or by its oxidation state.

    The atoms of a candidate may be at the sums of their radii, so the formula counts as well."""
    assignment = assignment_of(compound.counts)
    states = assignment.states if assignment and not assignment.misordered else {}
    for halogen in compound.elements & {"Cl", "Br"}:
        if compound.max_neighbours(halogen, "O", 1.95) >= 3 or states.get(halogen, 0) >= 3:
            return True
    return False


def _cyanide(compound: Compound) -> bool:
    """Returns whether it is a cyanide of base metals, copper or silver."""
    return (
        compound.counts["C"] == compound.counts["N"]
        and _has_only(compound, BASE_METALS | {"Cu", "Ag", "H"}, besides="C N")
        and compound.max_neighbours("C", "N", 1.45) == 1
    )


CONDITIONS: dict[str, Callable[[Compound], bool]] = {
    "azide": lambda c: c.max_neighbours("N", "N", 1.4) >= 2,
    "nitrogen-rich-salt": _nitrogen_rich,
    "fulminate": lambda c: c.bridges("N", "C", "O", 1.45) and c.max_neighbours("N", "O", 1.45) == 1,
    "perchlorate": _oxyhalogen,
    "ammonium-nitrate": lambda c: c.max_neighbours("N", "H", 1.3) >= 4 and c.max_neighbours("N", "O", 1.5) >= 3,
    "noble-metal-nitride": lambda c: _has_only(c, frozenset(("Ag", "Au", "Hg")), besides="N"),
    "nitrogen-halide": lambda c: _has_only(c, HALOGENS, besides="N"),
    "heavy-metal-acetylide": lambda c: _has_only(c, frozenset(("Ag", "Cu", "Au", "Hg")), besides="C"),
    "xenon-oxide": lambda c: _has_only(c, frozenset(("Xe",)), besides="O"),
    "simple-cyanide": _cyanide,
    "toxic-hydride": lambda c: (
        len(c.elements) == 2 and _has_only(c, frozenset(("P", "Sb", "S", "Se", "Te")), besides="H")
    ),
    "phosphine-source": lambda c: _has_only(c, BASE_METALS, besides="P"),
    "volatile-oxide": lambda c: (
        _has_only(c, frozenset(("Os", "Ru")), besides="O")
        and c.counts["O"] >= 4 * sum(c.counts[symbol] for symbol in c.metals)
    ),
}
"""The condition of each rule that has one, by the rule's name."""


@dataclass(frozen=True)
class CrystalRule(Hazard):
    """A hazard that is a class of compounds."""

    elements: frozenset[str] = frozenset()
    """Symbols. A rule with a condition needs all of these elements, a rule without one any of them."""

    def matches(self, compound: Compound) -> bool:
        """Returns whether the rule applies to a compound."""
        condition = CONDITIONS.get(self.name)
        if condition is None:
            return bool(self.elements & compound.elements)
        return self.elements <= compound.elements and condition(compound)


@cache
def crystal_rules() -> tuple[CrystalRule, ...]:
    """Returns the rules that ship with sciagent."""
    with Path(__file__).with_name("crystal_rules.csv").open(encoding="utf-8", newline="") as table:
        return tuple(
            CrystalRule(
                name=row["name"],
                group=Reason(row["group"]),
                reason=row["reason"],
                source=row["source"],
                elements=frozenset(row["elements"].split()),
            )
            for row in csv.DictReader(table)
        )


def crystal_rule_names() -> tuple[str, ...]:
    """Returns the sorted names of all rules."""
    return tuple(sorted(rule.name for rule in crystal_rules()))


def screen_crystal(crystal: Crystal, more: Sequence[CrystalRule] = ()) -> tuple[CrystalRule, ...]:
    """Returns every rule that a crystal matches, gravest group first. more: rules besides those that ship."""
    compound = Compound(crystal)
    alerts = [rule for rule in (*crystal_rules(), *more) if rule.matches(compound)]
    return tuple(sorted(alerts, key=lambda alert: GROUPS.index(alert.group)))


MOLECULES = "molecules"
CRYSTALS = "crystals"
PAGES = {MOLECULES: "docs/safety.md", CRYSTALS: "docs/crystal_safety.md"}
"""{screen: the page that lists its rules}."""


def known_molecule_rule(name: str) -> str:
    """Returns the name. Raises ValueError if the screen of molecules has no such rule."""
    return _known(name, MOLECULES)


def known_crystal_rule(name: str) -> str:
    """Returns the name. Raises ValueError if the screen of crystals has no such rule."""
    return _known(name, CRYSTALS)


def _known(name: str, screen: str) -> str:
    """Returns the name if it is a rule of the screen. Raises ValueError otherwise."""
    names_by_screen = {MOLECULES: rule_names(), CRYSTALS: crystal_rule_names()}
    known = names_by_screen.pop(screen)
    if name in known:
        return name
    for other, names in names_by_screen.items():
        if name in names:
            raise ValueError(f'"{name}" is a safety rule for {other}, not for {screen}; {PAGES[screen]} lists those')
    raise ValueError(f'no safety rule is named "{name}"{did_you_mean(name, known)}; {PAGES[screen]} lists them')
