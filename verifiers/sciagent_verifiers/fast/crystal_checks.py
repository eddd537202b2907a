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
from sciagent.chemistry.crystals.oxidation_states import Assignment, assignment_of
from sciagent.domain.omit_unset import omitted_if_unset
from sciagent.domain.outcomes_verdicts_and_reasons import Reason
from sciagent.domain.properties_and_levels import (
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
from sciagent.verification.verifier_contract import (
    Context,
    Cost,
    Finding,
    Level,
    PropertyAtLevel,
    Refusal,
    Settings,
    Tier,
    at,
)
from sciagent_simulators.periodic.k_points_and_elements import open_shells
from sciagent_verifiers.fast.compounds.tolerance_factors_and_supply_concentration import (
    known_elements,
    scarcity,
    tolerance_factors,
)
from sciagent_verifiers.verifier_bases import CrystalVerifier, refusal_of_other_kind, refused

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
    open_shells: Literal["refuse", "allow"] = omitted_if_unset(
        "allow",
        description="Formulas with open d or f shells in their usual ions. `gpaw.bands` refuses them without `spin`; "
        "those refused here are not relaxed before.",
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
        if self.elements is not None:
            not_allowed = set(self.require_elements) - set(self.elements)
            if not_allowed:
                raise ValueError(f"required, but not allowed: {', '.join(sorted(not_allowed))}")
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
        # cached, since `accepts` and `finding` both need it
        self._cached_refusal = lru_cache(maxsize=1024)(self._refusal)

    @cached_property
    def measures(self) -> tuple[PropertyAtLevel, ...]:
        by_formula = (ELEMENTS, UNUSUAL_STATES, HHI_PRODUCTION, HHI_RESERVE)
        factors = (GOLDSCHMIDT_FACTOR, OCTAHEDRAL_FACTOR, BARTEL_TAU)
        return at(FORMULA, *by_formula, *factors) + at(CELL, CELL_SITES, SHORTEST_CONTACT, properties()["density"])

    def accepts(self, candidate: Crystal) -> Refusal | None:
        return self._cached_refusal(candidate)

    def cost(self, candidate: Crystal) -> Cost:
        return Cost(core_seconds=2e-3 + 1e-4 * candidate.n_atoms)

    def finding(self, crystal: Crystal, context: Context) -> Finding:
        return self.glance(crystal, {m.property.name for m in self.measures})

    def glance(self, candidate: Crystal, names: Collection[str]) -> Finding:
        """Returns the finding with only the properties of these names, for gates that read no others."""
        refusal = self.accepts(candidate)
        if refusal:
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
        index = scarcity(counts)
        if index is not None:
            values[HHI_PRODUCTION] = index.production
            values[HHI_RESERVE] = index.reserve
        factors = tolerance_factors(counts)
        if factors is not None:
            values[GOLDSCHMIDT_FACTOR] = factors.goldschmidt
            values[OCTAHEDRAL_FACTOR] = factors.octahedral
            values[BARTEL_TAU] = factors.bartel
        diagnostics = {"oxidation_states": dict(assignment.states)} if assignment else {}
        wanted_values = {prop: value for prop, value in values.items() if prop.name in names}
        return self.exact_finding(candidate, wanted_values, diagnostics)

    def _refusal(self, candidate: Crystal) -> Refusal | None:
        """Returns the first refusal, cheapest check first, or None."""
        refusal = refusal_of_other_kind(candidate)
        if refusal is not None:
            return refusal
        counts = Counter(candidate.species)
        return (
            self._by_counts(candidate, counts)
            or self._by_charges(counts)
            or self._by_shells(candidate)
            or self._by_distances(candidate)
        )

    def _by_counts(self, crystal: Crystal, counts: Counter[str]) -> Refusal | None:
        """Returns the refusal by elements or size of the cell, or None. counts: atoms by symbol."""
        s = self.settings
        for symbol in sorted(counts):
            if symbol in s.forbid_elements:
                return Refusal(Reason.ELEMENT, f"{symbol}; it is forbidden")
            if s.elements is not None and symbol not in s.elements:
                return Refusal(Reason.ELEMENT, f"{symbol}; allowed: {', '.join(s.elements)}")
        missing = [symbol for symbol in s.require_elements if symbol not in counts]
        if missing:
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
        """Returns the refusal by the oxidation states of the elements, or None."""
        assignment = _assignment(counts)
        if assignment is None:
            if self.settings.charge_balance == "allow":
                return None
            return Refusal(Reason.CHARGE, "no known oxidation states of its elements add up to zero")
        if assignment.misordered and self.settings.electronegativity_order == "refuse":
            states = ", ".join(f"{symbol} {state:+g}" for symbol, state in assignment.states.items())
            return Refusal(Reason.CHARGE, f"only balanced with a cation more electronegative than an anion: {states}")
        return None

    def _by_shells(self, crystal: Crystal) -> Refusal | None:
        """Returns the refusal by open d or f shells, or None."""
        if self.settings.open_shells == "allow":
            return None
        elements = open_shells(crystal.formula)
        return Refusal(Reason.ELEMENT, f"open d or f shells: {', '.join(elements)}") if elements else None

    def _by_distances(self, crystal: Crystal) -> Refusal | None:
        """Returns the refusal if two atoms are too close, or None."""
        shortest = shortest_contact(crystal.structure)  # over the sum of the atomic radii
        if shortest < self.settings.min_contact:
            detail = f"a contact of {shortest:.2f} of the sum of the radii; at least {self.settings.min_contact:g}"
            return Refusal(Reason.OVERLAPPING_ATOMS, detail)
        return None


def _assignment(counts: Counter[str]) -> Assignment | None:
    """Returns the oxidation states. An alloy, a boride, a silicide or an antimonide needs none and is balanced."""
    assignment = assignment_of(counts)
    is_implausible = assignment is None or assignment.misordered
    if is_implausible and all(is_metal(symbol) or symbol in METALLOIDS for symbol in counts):
        return Assignment(states=dict.fromkeys(counts, 0.0), unusual=0, misordered=0)
    return assignment
