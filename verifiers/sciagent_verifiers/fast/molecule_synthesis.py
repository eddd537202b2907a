"""The verifier `molecule.synthesis`: SA score, purchasable molecules, and routes by a plug-in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from sciagent.chemistry.molecule import Molecule, molecule_or_none
from sciagent.domain.cost_and_budget import Cost
from sciagent.domain.outcomes_verdicts_and_reasons import Outcome, Reason
from sciagent.domain.properties_and_levels import (
    PURCHASABLE,
    SA_SCORE,
    SYNTHESIS_STEPS,
    Level,
    Property,
    PropertyAtLevel,
    at,
)
from sciagent.domain.rung_positions_and_tiers import Tier
from sciagent.errors import SimulatorError, UsageError
from sciagent.verification.route_finder_plugins_and_route_checks import RouteFinder, checked, route_finder
from sciagent.verification.verifier_contract import Context, Finding, Outside, Refusal, Settings, StructureFile
from sciagent_verifiers.fast.molecule_descriptor_functions import sa_score
from sciagent_verifiers.fast.molecule_index import ReferenceIndex, index_of
from sciagent_verifiers.verifier_bases import MoleculeVerifier, refused

LONGEST_NAMES = 120  # characters; longer lists of files are named by the hash of the settings


class RoutesSettings(Settings):
    """A route finder by its name; `version` is filled in, so that a newer finder gives new evidence."""

    finder: Annotated[str, Outside.PLUGIN] = Field(description="Its registered name, such as brics.")
    version: str = Field("", description="of the finder; refused if another one is installed")
    settings: dict[str, Any] = Field(default_factory=dict, description="what the finder takes")

    @model_validator(mode="before")
    @classmethod
    def _installed(cls, data: Any) -> Any:
        """Fills in the finder's version and the defaults of its settings, and has the finder check the settings."""
        given = {"finder": data} if isinstance(data, str) else data
        if not isinstance(given, Mapping) or not isinstance(given.get("finder"), str):
            return given
        settings = given.get("settings") or {}
        try:
            finder = route_finder(given["finder"])
        except UsageError as error:
            raise ValueError(str(error)) from None
        if not isinstance(settings, Mapping):
            return given
        if given.get("version") and given["version"] != finder.version:
            raise ValueError(f"version {finder.version} of {finder.name} is installed, not {given['version']}")
        all_settings = {**finder.defaults, **settings}
        finder(all_settings)  # raises ValueError for settings that it does not take
        return {**given, "version": finder.version, "settings": all_settings}


class MoleculeSynthesisSettings(Settings):
    """The building blocks and the route finder."""

    building_blocks: tuple[StructureFile, ...] = Field((), max_length=20, description="csv, smi or sdf, also .gz")
    match: Literal["exact", "connectivity"] = Field(
        "exact", description="connectivity: a building block counts whatever its stereochemistry and isotopes"
    )
    routes: RoutesSettings | None = Field(None, description="a route finder, such as brics")
    no_route: Literal["refuse", "allow"] = Field("refuse", description="what becomes of a molecule without a route")

    @field_validator("building_blocks")
    @classmethod
    def _different(cls, value: tuple[StructureFile, ...]) -> tuple[StructureFile, ...]:
        if len({file.name for file in value}) < len(value):
            raise ValueError("two files have one name; give them different ones (name:)")
        return value

    @model_validator(mode="after")
    def _stocked(self) -> MoleculeSynthesisSettings:
        if self.routes is not None and not self.building_blocks:
            raise ValueError("routes need building_blocks to end in")
        return self


class MoleculeSynthesis(MoleculeVerifier):
    """SA score; whether it is a building block; the steps of the shortest route that the chosen finder knows.

    The SA score is a heuristic from 1 (easy) to 10 (hard), fitted to molecules in PubChem. A route is only a proposal
    of the finder: `brics`, which ships with sciagent, just cuts bonds and looks up the pieces. A molecule without a
    route is refused (no_route); with `no_route: allow` its synthesis_steps is left out.

    Source: Ertl and Schuffenhauer, J. Cheminf. 1, 8 (2009), doi 10.1186/1758-2946-1-8.
    """

    name = "molecule.synthesis"
    version = "1"
    tier = Tier.FAST
    Settings = MoleculeSynthesisSettings
    settings: MoleculeSynthesisSettings
    preload = ("rdkit.Chem", "rdkit.Chem.BRICS", "sciagent_verifiers.fast.molecule_index")

    @classmethod
    def warm(cls) -> None:
        """Loads the table of the SA score once."""
        from rdkit import Chem

        sa_score(Chem.MolFromSmiles("CCO"))

    @cached_property
    def measures(self) -> tuple[PropertyAtLevel, ...]:
        s = self.settings
        names = "+".join(sorted(file.name for file in s.building_blocks))
        if len(names) > LONGEST_NAMES:
            names = f"{len(s.building_blocks)} files {self.settings_hash[:12]}"
        wanted = at(Level("RDKit"), SA_SCORE)
        if s.building_blocks:
            wanted += at(Level(f"InChIKey in {names}"), PURCHASABLE)
        if s.routes is not None:
            wanted += at(Level(f"{s.routes.finder} {s.routes.version} into {names}"), SYNTHESIS_STEPS)
        return wanted

    @cached_property
    def _stock(self) -> _Shelf:
        files = sorted(self.settings.building_blocks, key=lambda file: file.name)
        return _Shelf(tuple(map(index_of, files)), ignores_stereo=self.settings.match == "connectivity")

    @cached_property
    def _finder(self) -> RouteFinder | None:
        chosen = self.settings.routes
        return None if chosen is None else route_finder(chosen.finder)(chosen.settings)

    def prepare(self) -> None:
        for index in self._stock.indexes:
            index.build()

    def cost(self, candidate: Molecule) -> Cost:
        return Cost(core_seconds=2e-3 if self.settings.routes is None else 5e-2)

    def finding(self, molecule: Molecule, context: Context) -> Finding:
        values: dict[Property, float] = {SA_SCORE: sa_score(molecule.mol)}
        diagnostics: dict[str, Any] = {}
        if self._stock.indexes:
            building_block = self._stock.block_name(molecule.inchikey)
            values[PURCHASABLE] = float(building_block is not None)
            if building_block is not None:
                diagnostics["building_block"] = building_block
        if self._finder is not None:
            try:
                proposed_route = self._finder.find(molecule.smiles, self._stock)
                route = checked(proposed_route, molecule.smiles, self._stock)
            except ValueError as error:
                raise SimulatorError(Outcome.CRASHED, Reason.BAD_RESULT, f"{self._finder.name}: {error}") from error
            if route is None and self.settings.no_route == "refuse":
                detail = f"{self._finder.name} finds no way to it from {len(self._stock)} building blocks"
                return refused(molecule, Refusal(Reason.NO_ROUTE, detail))
            if route is not None:
                values[SYNTHESIS_STEPS] = float(route.steps)
                diagnostics["route"] = [
                    {"product": r.product, "reactants": list(r.reactants), "name": r.name} for r in route.reactions
                ]
        return self.exact_finding(molecule, values, diagnostics)


@dataclass(frozen=True)
class _Shelf:
    """The building blocks of several files."""

    indexes: tuple[ReferenceIndex, ...]
    ignores_stereo: bool
    """Whether a building block counts whatever its stereochemistry and isotopes."""

    def __contains__(self, smiles: object) -> bool:
        molecule = molecule_or_none(smiles)
        return molecule is not None and self.block_name(molecule.inchikey) is not None

    def __len__(self) -> int:
        return sum(index.about["molecules"] for index in self.indexes)

    def block_name(self, inchikey: str | None) -> str | None:
        """Returns the building block's name in the first file that has it, or None."""
        for index in self.indexes:
            name = index.holds(inchikey, connectivity=self.ignores_stereo)
            if name is not None:
                return name
        return None
