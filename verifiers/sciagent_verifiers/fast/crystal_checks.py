"""The verifier `crystal.checks`: refuses unwanted crystals and computes descriptors; usually the second rung."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from sciagent.chemistry.crystal import MAX_SITES, Crystal
from sciagent.chemistry.crystals.bonds import is_metal, shortest_contact
from sciagent.chemistry.crystals.prototypes import Assignment, assignment_of
from sciagent.domain.outcomes import Reason
from sciagent.domain.properties import (
    BARTEL_TAU,
    CELL_SITES,
    ELEMENTS,
    GOLDSCHMIDT_FACTOR,
    HHI_PRODUCTION,
    HHI_RESERVE,
    OCTAHEDRAL_FACTOR,
    SHORTEST_CONTACT,
    UNUSUAL_STATES,
    Property,
    properties,
)
from sciagent.verification.contract import Context, Cost, Finding, Level, PropertyAtLevel, Refusal, Settings, Tier, at
from sciagent_verifiers.fast.compounds.composition_descriptors import known_elements, scarcity, tolerance_factors
from sciagent_verifiers.per_candidate import CrystalVerifier, no_crystal, refused

FORMULA = Level(method="formula")
CELL = Level(method="cell as proposed")
METALLOIDS = frozenset(("B", "Si", "Ge", "As", "Sb"))


class CrystalChecksSettings(Settings):
    """The limits of `crystal.checks`. Limits on its properties are a campaign's gates."""

    elements: tuple[str, ...] | None = Field(None, description="Any other is refused; default: all are allowed.")
    forbid_elements: tuple[str, ...] = Field((), description="Refused, even if allowed above.")
    require_elements: tuple[str, ...] = Field((), description="A crystal that lacks one of these is refused.")
    min_sites: int = Field(1, ge=1, description="Fewer atoms in the primitive cell are refused.")
    max_sites: int = Field(100, ge=1, le=MAX_SITES, description="More atoms in the primitive cell are refused.")
    min_elements: int = Field(1, ge=1, description="Fewer elements are refused.")
    max_elements: int = Field(6, ge=1, description="More elements are refused.")
    charge_balance: Literal["refuse", "allow"] = Field(
        "refuse",
        description="Formulas whose known oxidation states do not add up to zero; alloys, borides and such need none.",
    )
    electronegativity_order: Literal["refuse", "allow"] = Field(
        "refuse", description="Formulas that are only balanced with a cation more electronegative than an anion."
    )
    min_contact: float = Field(
        0.6, ge=0, le=1.5, description="Smallest distance of two atoms over the sum of their atomic radii."
    )

    @field_validator("elements", "forbid_elements", "require_elements")
    @classmethod
    def _known_elements(cls, value: tuple[str, ...] | None) -> tuple[str, ...] | None:
        return value if value is None else known_elements(value)

    @model_validator(mode="after")
    def _window(self) -> CrystalChecksSettings:
        if self.min_sites > self.max_sites:
            raise ValueError(f"min_sites {self.min_sites} exceeds max_sites {self.max_sites}")
        if self.min_elements > self.max_elements:
            raise ValueError(f"min_elements {self.min_elements} exceeds max_elements {self.max_elements}")
        if self.elements is not None and (outside := set(self.require_elements) - set(self.elements)):
            raise ValueError(f"required, but not allowed: {', '.join(sorted(outside))}")
        return self


class CrystalChecks(CrystalVerifier):
    """Refuses what the campaign does not want, cheapest check first; measures descriptors of the rest.

    Values are exact for their definition (uncertainty 0). Oxidation states are a rule of thumb: `charge_balance`
    refuses subvalent and Zintl compounds with bonds between like atoms. Scarcity and tolerance factors are missing
    where a table lacks an element, and tolerance factors exist for compounds ABX3 only. The modules of
    `sciagent_verifiers.fast.compounds` name the sources.
    """

    name = "crystal.checks"
    version = "1"
    tier = Tier.FAST
    Settings = CrystalChecksSettings
    settings: CrystalChecksSettings
    preload = ("pymatgen.core", "sciagent.chemistry.crystals.bonds")
    engines = ("pymatgen-core",)

    def __init__(self, settings: Any = None, base: Path | None = None) -> None:
        super().__init__(settings, base)
        self._refusal = lru_cache(maxsize=1024)(self._look)  # cached, since `accepts` and `finding` both need it

    @cached_property
    def measures(self) -> tuple[PropertyAtLevel, ...]:
        by_formula = (ELEMENTS, UNUSUAL_STATES, HHI_PRODUCTION, HHI_RESERVE)
        factors = (GOLDSCHMIDT_FACTOR, OCTAHEDRAL_FACTOR, BARTEL_TAU)
        return at(FORMULA, *by_formula, *factors) + at(CELL, CELL_SITES, SHORTEST_CONTACT, properties()["density"])

    def accepts(self, candidate: Crystal) -> Refusal | None:
        return self._refusal(candidate)

    def cost(self, candidate: Crystal) -> Cost:
        return Cost(core_seconds=2e-3 + 1e-4 * candidate.n_atoms)

    def finding(self, crystal: Crystal, context: Context) -> Finding:
        return self.glance(crystal, {m.property.name for m in self.measures})

    def glance(self, candidate: Crystal, names: Collection[str]) -> Finding:
        if refusal := self.accepts(candidate):
            return refused(candidate, refusal)
        counts = Counter(candidate.species)
        values: dict[Property, float] = {
            ELEMENTS: float(len(counts)),
            CELL_SITES: float(candidate.n_atoms),
            SHORTEST_CONTACT: shortest_contact(candidate.structure),
            properties()["density"]: float(candidate.structure.density),
        }
        assignment = _assignment(counts)
        if assignment is not None:
            values[UNUSUAL_STATES] = float(assignment.unusual)
        if (index := scarcity(counts)) is not None:
            values |= {HHI_PRODUCTION: index.production, HHI_RESERVE: index.reserve}
        if (factors := tolerance_factors(counts)) is not None:
            values |= {GOLDSCHMIDT_FACTOR: factors.goldschmidt, OCTAHEDRAL_FACTOR: factors.octahedral}
            values[BARTEL_TAU] = factors.bartel
        diagnostics = {"oxidation_states": dict(assignment.states)} if assignment else {}
        return self.exact(candidate, {p: v for p, v in values.items() if p.name in names}, diagnostics)

    def _look(self, candidate: Crystal) -> Refusal | None:
        if (refusal := no_crystal(candidate)) is not None:
            return refusal
        counts = Counter(candidate.species)
        return self._by_counts(candidate, counts) or self._by_charges(counts) or self._by_distances(candidate)

    def _by_counts(self, crystal: Crystal, counts: Counter[str]) -> Refusal | None:
        s = self.settings
        for symbol in sorted(counts):
            if symbol in s.forbid_elements or (s.elements is not None and symbol not in s.elements):
                allowed = f"allowed: {', '.join(s.elements)}" if s.elements else "it is forbidden"
                return Refusal(Reason.ELEMENT, f"{symbol}; {allowed}")
        if missing := [symbol for symbol in s.require_elements if symbol not in counts]:
            return Refusal(Reason.ELEMENT, f"lacks {', '.join(missing)}")
        if not s.min_elements <= len(counts) <= s.max_elements:
            reason = Reason.TOO_LARGE if len(counts) > s.max_elements else Reason.TOO_SMALL
            return Refusal(reason, f"{len(counts)} elements; from {s.min_elements} to {s.max_elements}")
        if crystal.n_atoms > s.max_sites:
            return Refusal(Reason.TOO_LARGE, f"{crystal.n_atoms} atoms in the cell; the limit is {s.max_sites}")
        if crystal.n_atoms < s.min_sites:
            return Refusal(Reason.TOO_SMALL, f"{crystal.n_atoms} atoms in the cell; at least {s.min_sites}")
        return None

    def _by_charges(self, counts: Counter[str]) -> Refusal | None:
        assignment = _assignment(counts)
        if assignment is None:
            if self.settings.charge_balance == "allow":
                return None
            return Refusal(Reason.CHARGE, "no known oxidation states of its elements add up to zero")
        if assignment.misordered and self.settings.electronegativity_order == "refuse":
            states = ", ".join(f"{symbol} {state:+g}" for symbol, state in assignment.states.items())
            return Refusal(Reason.CHARGE, f"only balanced with a cation more electronegative than an anion: {states}")
        return None

    def _by_distances(self, crystal: Crystal) -> Refusal | None:
        if (shortest := shortest_contact(crystal.structure)) < self.settings.min_contact:
            detail = f"a contact of {shortest:.2f} of the sum of the radii; at least {self.settings.min_contact:g}"
            return Refusal(Reason.OVERLAPPING_ATOMS, detail)
        return None


def _assignment(counts: Counter[str]) -> Assignment | None:
    """Returns the oxidation states. An alloy, a boride, a silicide or an antimonide needs none and is balanced."""
    assignment = assignment_of(counts)
    if (assignment is None or assignment.misordered) and all(is_metal(s) or s in METALLOIDS for s in counts):
        return Assignment(dict.fromkeys(counts, 0.0), 0, 0)
    return assignment
