"""The verifier `molecule.checks`: refuses unwanted molecules and computes graph descriptors; usually the first rung."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from functools import cache, cached_property, lru_cache
from pathlib import Path
from typing import Any, Literal, get_args

from pydantic import Field, field_validator, model_validator

from sciagent.chemistry.molecule import Molecule
from sciagent.chemistry.molecule_normal_form import atoms_of
from sciagent.domain.omit_unset import omitted_if_unset
from sciagent.domain.outcomes_verdicts_and_reasons import Reason
from sciagent.domain.properties_and_levels import STRUCTURAL_ALERTS, properties
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
from sciagent_verifiers.fast.compounds.tolerance_factors_and_supply_concentration import known_elements
from sciagent_verifiers.fast.impossible_rings import impossible, smarts_pattern
from sciagent_verifiers.fast.molecule_descriptor_functions import descriptor_functions
from sciagent_verifiers.verifier_bases import MoleculeVerifier, refused

RDKIT = Level(method="RDKit")

Catalogue = Literal[
    "PAINS", "PAINS_A", "PAINS_B", "PAINS_C", "BRENK", "NIH", "ZINC", "CHEMBL", "CHEMBL_Glaxo", "CHEMBL_Dundee",
    "CHEMBL_BMS", "CHEMBL_SureChEMBL", "CHEMBL_MLSMR", "CHEMBL_Inpharmatica", "CHEMBL_LINT",
]  # fmt: skip
Descriptor = Literal[
    "molecular_weight", "logp", "tpsa", "hydrogen_bond_donors", "hydrogen_bond_acceptors", "rotatable_bonds", "rings",
    "aromatic_rings", "largest_ring", "stereocentres", "fraction_sp3", "heavy_atoms", "net_charge", "qed", "sa_score",
]  # fmt: skip


class MoleculeChecksSettings(Settings):
    """The limits of `molecule.checks`, its alerts and its descriptors. Limits on descriptors are a campaign's gates."""

    elements: tuple[str, ...] = Field(
        ("H", "B", "C", "N", "O", "F", "Si", "P", "S", "Cl", "Br", "I"), description="Any other is refused."
    )
    min_heavy_atoms: int = Field(1, ge=0, description="Fewer are refused.")
    max_heavy_atoms: int = Field(100, ge=1, description="More are refused.")
    max_rings: int | None = Field(None, ge=0, description="SSSR")
    min_ring_size: int = Field(3, ge=3, description="Atoms in the smallest ring allowed.")
    max_ring_size: int | None = Field(None, ge=3, description="Atoms in the largest ring allowed.")
    strained_rings: Literal["refuse", "allow"] = Field(
        "refuse",
        description="Rings that no isolable compound has: double bonds at small bridgeheads (Bredt's rule), alkynes "
        "and allenes in small rings, cyclobutadienes, antiaromatic or heaped three-membered rings.",
    )
    charges: tuple[int, ...] = Field((0,), description="Net charges allowed.")
    allow_radicals: bool = Field(False, description="Open shells.")
    allow_isotopes: bool = Field(False, description="Labelled atoms.")
    undefined_stereo: Literal["allow", "refuse"] = Field(
        "allow", description="Stereocentres or double bonds that the text leaves open."
    )
    forbid_smarts: tuple[str, ...] = Field((), description="a match is refused")
    require_smarts: tuple[str, ...] = omitted_if_unset(
        (), description="A molecule that lacks a match of any of these is refused."
    )
    alerts: tuple[Catalogue, ...] = Field((), description="RDKit filter catalogues; matches are counted, not refused")
    refuse_alerts: tuple[Catalogue, ...] = Field((), description="RDKit filter catalogues; a match is refused")
    descriptors: tuple[Descriptor, ...] = Field(get_args(Descriptor), description="What is computed and may be gated.")

    @field_validator("elements")
    @classmethod
    def _known_elements(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        return known_elements(value)

    @field_validator("forbid_smarts", "require_smarts")
    @classmethod
    def _valid_smarts(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for smarts in value:
            if smarts_pattern(smarts) is None:
                raise ValueError(f'"{smarts}" is not a SMARTS pattern')
        return value

    @model_validator(mode="after")
    def _window(self) -> MoleculeChecksSettings:
        if self.max_ring_size is not None and self.min_ring_size > self.max_ring_size:
            raise ValueError(f"min_ring_size {self.min_ring_size} exceeds max_ring_size {self.max_ring_size}")
        if self.min_heavy_atoms > self.max_heavy_atoms:
            raise ValueError(f"min_heavy_atoms {self.min_heavy_atoms} exceeds max_heavy_atoms {self.max_heavy_atoms}")
        return self


class MoleculeChecks(MoleculeVerifier):
    """Refuses what the campaign does not want, cheapest check first; measures descriptors of the rest with RDKit.

    Graph descriptors are exact for their definition (uncertainty 0); this does not mean that Crippen's logP or the SA
    score agrees with experiment. Alerts are counted at a level that names the catalogues.
    """

    name = "molecule.checks"
    version = "2"
    tier = Tier.FAST
    Settings = MoleculeChecksSettings
    settings: MoleculeChecksSettings
    preload = ("rdkit.Chem", "rdkit.Chem.QED", "rdkit.Chem.Crippen", "rdkit.Chem.rdMolDescriptors")

    def __init__(self, settings: Any = None, base: Path | None = None) -> None:
        super().__init__(settings, base)
        # cached, since `accepts` and `finding` both need it
        self._cached_refusal = lru_cache(maxsize=1024)(self._refusal)

    @classmethod
    def warm(cls) -> None:
        """Loads all that RDKit loads at first use except the table of the SA score, which `attach` loads."""
        _compute_for_phenol(name for name in descriptor_functions() if name != "sa_score")

    def attach(self) -> None:
        """Loads the table of the SA score (0.5 s, 70 MB) if the settings ask for the score."""
        _compute_for_phenol(self.settings.descriptors)

    @cached_property
    def measures(self) -> tuple[PropertyAtLevel, ...]:
        registered = properties()
        chosen = [registered[name] for name in get_args(Descriptor) if name in self.settings.descriptors]
        descriptors = at(RDKIT, *chosen)
        if not self.settings.alerts:
            return descriptors
        catalogues = "+".join(sorted(set(self.settings.alerts)))
        return descriptors + at(Level(f"RDKit {catalogues}"), STRUCTURAL_ALERTS)

    def accepts(self, candidate: Molecule) -> Refusal | None:
        return self._cached_refusal(candidate)

    def _refusal(self, candidate: Molecule) -> Refusal | None:
        """Returns the first refusal, cheapest check first, or None."""
        if candidate.kind != "molecule":
            return Refusal(Reason.WRONG_KIND, f"a {candidate.kind}, not a molecule")
        return self._by_counts(candidate) or self._by_atoms(candidate.mol) or self._by_graph(candidate.mol)

    def cost(self, candidate: Molecule) -> Cost:
        return Cost(core_seconds=2e-3 + 1e-4 * candidate.heavy_atoms)

    def finding(self, molecule: Molecule, context: Context) -> Finding:
        return self.glance(molecule, {m.property.name for m in self.measures})

    def glance(self, candidate: Molecule, names: Collection[str]) -> Finding:
        """Returns the finding with only the properties of these names."""
        refusal = self.accepts(candidate)
        if refusal:
            return refused(candidate, refusal)
        functions_by_name = descriptor_functions()
        mol = candidate.mol
        wanted = [m.property for m in self.measures if m.level is RDKIT and m.property.name in names]
        values = {prop: float(functions_by_name[prop.name](mol)) for prop in wanted}
        if self.settings.alerts and STRUCTURAL_ALERTS.name in names:
            catalogue = _catalogue(tuple(sorted(set(self.settings.alerts))))
            values[STRUCTURAL_ALERTS] = float(len(catalogue.GetMatches(mol)))
        return self.exact_finding(candidate, values, {})

    def _by_counts(self, molecule: Molecule) -> Refusal | None:
        """Returns the refusal by size, net charge or multiplicity, or None."""
        s = self.settings
        if molecule.heavy_atoms > s.max_heavy_atoms:
            return Refusal(Reason.TOO_LARGE, f"{molecule.heavy_atoms} heavy atoms; the limit is {s.max_heavy_atoms}")
        if molecule.heavy_atoms < s.min_heavy_atoms:
            return Refusal(Reason.TOO_SMALL, f"{molecule.heavy_atoms} heavy atoms; at least {s.min_heavy_atoms}")
        if molecule.charge not in s.charges:
            return Refusal(Reason.CHARGE, f"net charge {molecule.charge:+d}; allowed: {_listed(s.charges)}")
        if not s.allow_radicals and molecule.multiplicity != 1:
            return Refusal(Reason.RADICAL, f"multiplicity {molecule.multiplicity}; only closed shells are allowed")
        return None

    def _by_atoms(self, mol: Any) -> Refusal | None:
        """Returns the refusal by an atom's element, open valence or isotope, or None."""
        s = self.settings
        allows_hydrogen = "H" in s.elements
        for atom in atoms_of(mol):
            symbol = atom.GetSymbol()
            if symbol not in s.elements:
                return Refusal(Reason.ELEMENT, f"{symbol}; allowed: {_listed(s.elements)}")
            if not allows_hydrogen and atom.GetTotalNumHs():
                return Refusal(Reason.ELEMENT, f"H; allowed: {_listed(s.elements)}")
            if not s.allow_radicals and atom.GetNumRadicalElectrons():
                return Refusal(Reason.RADICAL, f"unpaired or open valence on atom {atom.GetIdx() + 1} ({symbol})")
            if not s.allow_isotopes and atom.GetIsotope():
                return Refusal(Reason.ISOTOPE, f"{atom.GetIsotope()}{symbol} at atom {atom.GetIdx() + 1}")
        return None

    def _by_graph(self, mol: Any) -> Refusal | None:
        """Returns the refusal by rings, undefined stereo, patterns or alerts, or None."""
        s = self.settings
        rings = mol.GetRingInfo().AtomRings()
        if s.max_rings is not None and len(rings) > s.max_rings:
            return Refusal(Reason.TOO_LARGE, f"{len(rings)} rings; the limit is {s.max_rings}")
        sizes = [len(ring) for ring in rings]
        if s.max_ring_size is not None and max(sizes, default=0) > s.max_ring_size:
            return Refusal(Reason.RING, f"a ring of {max(sizes)} atoms; the limit is {s.max_ring_size}")
        if min(sizes, default=s.min_ring_size) < s.min_ring_size:
            return Refusal(Reason.RING, f"a ring of {min(sizes)} atoms; at least {s.min_ring_size}")
        if s.strained_rings == "refuse":
            ring_fault = impossible(mol)
            if ring_fault:
                return Refusal(Reason.RING, ring_fault)
        if s.undefined_stereo == "refuse":
            undefined = _undefined_stereo(mol)
            if undefined:
                return Refusal(Reason.UNDEFINED_STEREO, f"not defined: {', '.join(undefined)}")
        for smarts in s.forbid_smarts:
            if mol.HasSubstructMatch(smarts_pattern(smarts)):
                return Refusal(Reason.FORBIDDEN_PATTERN, f"matches {smarts}")
        for smarts in s.require_smarts:
            if not mol.HasSubstructMatch(smarts_pattern(smarts)):
                return Refusal(Reason.MISSING_PATTERN, f"lacks {smarts}")
        for name in s.refuse_alerts:
            entry = _catalogue((name,)).GetFirstMatch(mol)
            if entry:
                return Refusal(Reason.STRUCTURAL_ALERT, f"{name}: {entry.GetDescription()}")
        return None


@cache
def _catalogue(names: tuple[str, ...]) -> Any:
    """Returns RDKit's filter catalogue with the alerts of these catalogues."""
    from rdkit.Chem.FilterCatalog import FilterCatalog, FilterCatalogParams

    params = FilterCatalogParams()
    for name in names:
        params.AddCatalog(getattr(FilterCatalogParams.FilterCatalogs, name))
    return FilterCatalog(params)


def _undefined_stereo(mol: Any) -> list[str]:
    """Returns the undefined stereocentres and double bonds, such as `atom 3` and `bond 2`."""
    from rdkit import Chem

    undefined = []
    for centre in Chem.FindPotentialStereo(Chem.Mol(mol)):
        if centre.specified == Chem.StereoSpecified.Unspecified:
            atom_or_bond = str(centre.type).partition("_")[0].lower()  # RDKit's types are such as Atom_Tetrahedral
            undefined.append(f"{atom_or_bond} {centre.centeredOn + 1}")
    return undefined


def _listed(values: Sequence[Any]) -> str:
    return ", ".join(map(str, values))


def _compute_for_phenol(names: Iterable[str]) -> None:
    """Computes these descriptors once, so that RDKit loads what they need."""
    from rdkit import Chem

    phenol = Chem.MolFromSmiles("c1ccccc1O")
    descriptors = descriptor_functions()
    for name in names:
        descriptors[name](phenol)
