"""The verifiers `molecule.safety` and `crystal.safety`: they refuse explosives, acute hazards and scheduled chemical
weapons by structure."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, field_validator, model_validator

from sciagent.chemistry.crystal import Crystal
from sciagent.chemistry.molecule import Molecule
from sciagent.domain.cost_and_budget import Cost
from sciagent.domain.outcomes_verdicts_and_reasons import Reason
from sciagent.domain.properties_and_levels import SAFETY_ALERTS, Level, PropertyAtLevel, at
from sciagent.domain.rung_positions_and_tiers import Tier
from sciagent.verification.verifier_contract import Context, Finding, Refusal, Settings
from sciagent_verifiers.fast.compounds.tolerance_factors_and_supply_concentration import known_elements
from sciagent_verifiers.fast.hazards.crystal_hazards import (
    CrystalRule,
    crystal_rule_names,
    known_crystal_rule,
    known_molecule_rule,
    screen_crystal,
)
from sciagent_verifiers.fast.hazards.molecule_hazards import Hazard, Rule, rule_names, screen
from sciagent_verifiers.verifier_bases import CrystalVerifier, MoleculeVerifier, refusal_of_other_kind, refused

LEVEL = Level(method="sciagent safety screen")
MAX_EXTRA = 200  # largest number of a user's patterns or rules


class ExtraPattern(Settings):
    """A user's pattern, refused like those that ship."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,63}$", description="What a refusal calls it.")]
    smarts: str = Field(min_length=1, max_length=1000, description="What is refused.")
    reason: str = Field(min_length=10, max_length=500, description="why, in plain words")
    group: Literal["explosive", "acute_hazard", "chemical_weapon"] = Field(
        "acute_hazard", description="The group it counts in."
    )

    @field_validator("smarts")
    @classmethod
    def _pattern(cls, value: str) -> str:
        rule = Rule(name="extra", group=Reason.ACUTE_HAZARD, reason="", source="", smarts=(value,))
        _ = rule.patterns  # raises ValueError for an invalid SMARTS
        return value


class MoleculeSafetySettings(Settings):
    """Additions to the rules that ship, and exceptions from them."""

    allow: tuple[Annotated[str, AfterValidator(known_molecule_rule)], ...] = Field(
        (), description="Rules that do not refuse here; a campaign asks for the reason."
    )
    extra_smarts: tuple[ExtraPattern, ...] = Field((), max_length=MAX_EXTRA, description="Patterns of one's own.")

    @model_validator(mode="after")
    def _names(self) -> MoleculeSafetySettings:
        known = set(rule_names())
        extra = [pattern.name for pattern in self.extra_smarts]
        repeated_names = {name for name in extra if name in known or extra.count(name) > 1}
        if repeated_names:
            raise ValueError(f"the name of another safety rule: {', '.join(sorted(repeated_names))}")
        return self


class MoleculeSafety(MoleculeVerifier):
    """Refuses what matches a rule that is not allowed, with the gravest group as the reason; counts the other matches.

    The screen recognises structures and predicts nothing: a molecule that passes is not thereby safe. Isotopes,
    protonation, stereo and drawn charges are ignored. `sciagent_verifiers.fast.hazards` has the source of every rule.
    """

    name = "molecule.safety"
    version = "1"
    tier = Tier.FAST
    Settings = MoleculeSafetySettings
    settings: MoleculeSafetySettings
    preload = ("rdkit.Chem", "rdkit.Chem.rdinchi")
    engines = ("rdkit",)

    @classmethod
    def warm(cls) -> None:
        """Compiles the patterns once."""
        from rdkit import Chem

        screen(Chem.MolFromSmiles("c1ccccc1O"))

    @property
    def measures(self) -> tuple[PropertyAtLevel, ...]:
        return at(LEVEL, SAFETY_ALERTS)

    @cached_property
    def _extra(self) -> tuple[Rule, ...]:
        return tuple(
            Rule(
                name=pattern.name,
                group=Reason(pattern.group),
                reason=pattern.reason,
                source="settings",
                smarts=(pattern.smarts,),
            )
            for pattern in self.settings.extra_smarts
        )

    def alerts(self, candidate: Molecule) -> tuple[Hazard, ...]:
        """Returns every matching rule, whether allowed or not."""
        return screen(candidate.mol, self._extra)

    def accepts(self, candidate: Molecule) -> Refusal | None:
        if candidate.kind != "molecule":
            return Refusal(Reason.WRONG_KIND, f"a {candidate.kind}, not a molecule")
        return self._refusal(self.alerts(candidate))

    def cost(self, candidate: Molecule) -> Cost:
        return Cost(core_seconds=3e-4)

    def finding(self, molecule: Molecule, context: Context) -> Finding:
        alerts = self.alerts(molecule)
        diagnostics = {"rules": [alert.name for alert in alerts]} if alerts else {}
        refusal = self._refusal(alerts)
        if refusal:
            return refused(molecule, refusal, diagnostics)
        return self.exact_finding(molecule, {SAFETY_ALERTS: float(len(alerts))}, diagnostics)

    def _refusal(self, alerts: Sequence[Hazard]) -> Refusal | None:
        """Returns the refusal by the first rule that is not allowed, or None. alerts: gravest group first."""
        for alert in alerts:
            if alert.name not in self.settings.allow:
                return Refusal(alert.group, str(alert))
        return None


class ExtraElements(Settings):
    """A user's rule, refused like those that ship."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,63}$", description="What a refusal calls it.")]
    elements: tuple[str, ...] = Field(min_length=1, max_length=118, description="Any of these is refused.")
    reason: str = Field(min_length=10, max_length=500, description="why, in plain words")
    group: Literal["explosive", "acute_hazard", "radioactive"] = Field(
        "acute_hazard", description="The group it counts in."
    )

    @field_validator("elements")
    @classmethod
    def _elements(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        return known_elements(value)


class CrystalSafetySettings(Settings):
    """Additions to the rules that ship, and exceptions from them."""

    allow: tuple[Annotated[str, AfterValidator(known_crystal_rule)], ...] = Field(
        (), description="Rules that do not refuse here; a campaign asks for the reason."
    )
    extra_elements: tuple[ExtraElements, ...] = Field((), max_length=MAX_EXTRA, description="Rules of one's own.")

    @model_validator(mode="after")
    def _names(self) -> CrystalSafetySettings:
        known = set(crystal_rule_names())
        extra = [rule.name for rule in self.extra_elements]
        repeated_names = {name for name in extra if name in known or extra.count(name) > 1}
        if repeated_names:
            raise ValueError(f"the name of another safety rule: {', '.join(sorted(repeated_names))}")
        return self


class CrystalSafety(CrystalVerifier):
    """Refuses what matches a rule that is not allowed, with the gravest group as the reason; counts the other matches.

    The screen recognises elements and groups of atoms and predicts nothing: a crystal that passes is not thereby safe.
    `sciagent_verifiers/fast/hazards/crystal_rules.csv` has the source of every rule.
    """

    name = "crystal.safety"
    version = "1"
    tier = Tier.FAST
    Settings = CrystalSafetySettings
    settings: CrystalSafetySettings
    preload = ("pymatgen.core",)
    engines = ("pymatgen-core",)

    @property
    def measures(self) -> tuple[PropertyAtLevel, ...]:
        return at(LEVEL, SAFETY_ALERTS)

    @cached_property
    def _extra(self) -> tuple[CrystalRule, ...]:
        return tuple(
            CrystalRule(
                name=rule.name,
                group=Reason(rule.group),
                reason=rule.reason,
                source="settings",
                elements=frozenset(rule.elements),
            )
            for rule in self.settings.extra_elements
        )

    def alerts(self, candidate: Crystal) -> tuple[CrystalRule, ...]:
        """Returns every matching rule, whether allowed or not."""
        return screen_crystal(candidate, self._extra)

    def accepts(self, candidate: Crystal) -> Refusal | None:
        return refusal_of_other_kind(candidate) or self._refusal(self.alerts(candidate))

    def cost(self, candidate: Crystal) -> Cost:
        return Cost(core_seconds=2e-3)

    def finding(self, crystal: Crystal, context: Context) -> Finding:
        alerts = self.alerts(crystal)
        diagnostics = {"rules": [alert.name for alert in alerts]} if alerts else {}
        refusal = self._refusal(alerts)
        if refusal:
            return refused(crystal, refusal, diagnostics)
        return self.exact_finding(crystal, {SAFETY_ALERTS: float(len(alerts))}, diagnostics)

    def _refusal(self, alerts: Sequence[CrystalRule]) -> Refusal | None:
        """Returns the refusal by the first rule that is not allowed, or None. alerts: gravest group first."""
        for alert in alerts:
            if alert.name not in self.settings.allow:
                return Refusal(alert.group, str(alert))
        return None
