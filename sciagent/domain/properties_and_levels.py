"""Properties (what is observed) and levels (how a value was obtained).

A property has one canonical unit and a list of units that a person may type; no other text is parsed as a unit, since
pint reads "pH" as picohenry. GFN2 and PBE0 gaps are one property at two levels; their values are never compared.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from enum import StrEnum
from functools import cache
from importlib.metadata import EntryPoint

from sciagent.domain.units import AMOUNT_CONCENTRATION, MASS_CONCENTRATIONS, Conversion, factor_between
from sciagent.errors import UnitError, UnknownNameError, UsageError

GROUP = "sciagent.properties"
_log = logging.getLogger("sciagent")


class Kind(StrEnum):
    """Whether a property of a molecule or a crystal is a number on a scale or a count."""

    REAL = "real"
    COUNT = "count"


@dataclass(frozen=True)
class Property:
    """An observable of a molecule or a crystal."""

    name: str
    """Unique among all installed packages."""
    units: tuple[str, ...]
    """Units that a person may type, the canonical unit first."""
    description: str
    """Description of the observable, in one line."""
    kind: Kind = Kind.REAL
    """Whether the property is a number on a scale or a count."""
    low: float | None = None
    """Smallest physically plausible value, in the canonical unit; None without a limit."""
    high: float | None = None
    """Largest physically plausible value, in the canonical unit; None without a limit."""
    conversions: tuple[Conversion, ...] = ()
    """Conversions for the units that no factor converts to the canonical unit."""
    usual: tuple[float, float] | None = None
    """Range in which nearly all values lie, in the canonical unit; who types another one is asked whether it is right.
    None: nobody is asked."""

    @property
    def unit(self) -> str:
        """The canonical unit."""
        return self.units[0]

    @property
    def typed_units(self) -> tuple[str, ...]:
        """Units that may be typed where the molar mass of the candidate is known: `units`, and for a property that is
        given in mol/L masses by volume, too."""
        return (*self.units, *MASS_CONCENTRATIONS) if AMOUNT_CONCENTRATION in self.units else self.units

    def conversion(self, unit: str) -> Conversion | None:
        """Returns the registered conversion from `unit`, or None where a factor converts it."""
        for conversion in self.conversions:
            if conversion.unit == unit:
                return conversion
        return None


def check_conversions(prop: Property) -> None:
    """Raises UnitError for a unit that neither a factor nor a conversion converts to the canonical unit."""
    for conversion in prop.conversions:
        if conversion.unit not in prop.units[1:]:
            raise UnitError(
                f'{prop.name} has a conversion from "{conversion.unit}", which is not among its other units'
            )
    for unit in prop.units[1:]:
        if prop.conversion(unit) is None:
            try:
                factor_between(unit, prop.unit)
            except UnitError as error:
                raise UnitError(f"{prop.name}: {error}") from error


@dataclass(frozen=True)
class Level:
    """The method by which a value was obtained.

    method: `GFN2-xTB`, `PBE0`, `RDKit`, `experiment`. basis: `def2-SVP` or empty. phase: `gas`, `water`, …
    geometry: protocol of the geometry (`GFN2-xTB//ETKDGv3x10`); empty for a method that needs no geometry.
    conditions: of a measurement, such as `temperature 25 °C`.
    """

    method: str
    basis: str = ""
    phase: str = ""
    geometry: str = ""
    conditions: str = ""

    @property
    def label(self) -> str:
        """The level as text, such as `PBE0/def2-SVP(water)//GFN2-xTB`."""
        text = self.method
        if self.basis:
            text += f"/{self.basis}"
        if self.phase and self.phase != "gas":
            text += f"({self.phase})"
        if self.geometry:
            text += f"//{self.geometry}"
        if self.conditions:
            text += f", {self.conditions}"
        return text

    @property
    def is_experiment(self) -> bool:
        """Whether values of this level are measured: it has neither a basis set nor a computed geometry."""
        return not self.basis and not self.geometry

    @property
    def hash(self) -> str:
        """SHA-256 of the fields."""
        parts = asdict(self)
        if not self.conditions:  # an unset part enters no hash
            del parts["conditions"]
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


BARE_PHASES = ("", "gas")
"""Phases that name no surroundings. A value of such a level is compared with those of any phase."""
PHASE_NAMES = {
    "1-octanol": "octanol", "1,4-dioxane": "dioxane", "ch2cl2": "dichloromethane", "ch3cn": "acetonitrile",
    "chcl3": "chloroform", "cs2": "carbon disulfide", "dcm": "dichloromethane", "dmf": "dimethylformamide",
    "dmso": "dimethyl sulfoxide", "et2o": "diethyl ether", "ether": "diethyl ether", "ethylacetate": "ethyl acetate",
    "etoh": "ethanol", "furane": "furan", "h2o": "water", "mecn": "acetonitrile", "meoh": "methanol",
    "n-hexane": "hexane", "n-octanol": "octanol", "n,n-dimethylformamide": "dimethylformamide", "phme": "toluene",
    "thf": "tetrahydrofuran", "vacuum": "gas",
}  # fmt: skip
"""Usual names of a phase in place of its other ones."""


def phase_named(text: str) -> str:
    """Returns the usual name of a phase, in small letters: `acetonitrile` for `MeCN`."""
    name = " ".join(text.casefold().split())
    return PHASE_NAMES.get(name, name)


def phases_agree(first: str, second: str) -> bool:
    """Returns whether values in the two phases are of one quantity: unless both name surroundings that differ, such as
    water and hexane."""
    names = {phase_named(first), phase_named(second)}
    return len(names) == 1 or not names.isdisjoint(BARE_PHASES)


def comparable_phase(phases: Iterable[str], wanted: str) -> str | None:
    """Returns the one of the phases, by usual names, whose values are compared with those in the phase `wanted`.

    It is the same phase, else one without surroundings, else the only other one that agrees; None if none agrees or if
    several different ones do.
    """
    agreeing = {phase for phase in phases if phases_agree(phase, wanted)}
    for first in (phase_named(wanted), *BARE_PHASES):
        if first in agreeing:
            return first
    return agreeing.pop() if len(agreeing) == 1 else None


@dataclass(frozen=True)
class PropertyAtLevel:
    """A property measured at a level."""

    property: Property
    level: Level


def at(level: Level, *properties: Property) -> tuple[PropertyAtLevel, ...]:
    """Returns each property at the level."""
    return tuple(PropertyAtLevel(prop, level) for prop in properties)


_ENERGY = ("eV", "hartree", "kJ/mol", "kcal/mol", "meV", "cm^-1")
_RATIO = ("1",)

HOMO = Property("homo", _ENERGY, "energy of the highest occupied orbital", low=-60, high=20)
LUMO = Property("lumo", _ENERGY, "energy of the lowest unoccupied orbital", low=-60, high=60)
HOMO_LUMO_GAP = Property("homo_lumo_gap", _ENERGY, "orbital gap, LUMO minus HOMO; not the optical gap", low=-1, high=60)
DIPOLE = Property("dipole", ("D", "e*angstrom"), "norm of the electric dipole moment", low=0, high=200)
TOTAL_ENERGY = Property("total_energy", _ENERGY, "electronic total energy of the method")
SINGLET_TRIPLET_GAP = Property("singlet_triplet_gap", _ENERGY, "E(triplet) - E(singlet), vertical", low=-20, high=40)
MOLECULAR_WEIGHT = Property("molecular_weight", ("g/mol", "Da"), "average molecular weight", low=0)
LOGP = Property("logp", _RATIO, "octanol-water partition coefficient by Crippen's atom contributions")
TPSA = Property("tpsa", ("angstrom**2",), "topological polar surface area", low=0)
QED = Property("qed", _RATIO, "quantitative estimate of drug-likeness", low=0, high=1)
SA_SCORE = Property(
    "sa_score", _RATIO, "synthetic accessibility, 1 easy to 10 hard (Ertl and Schuffenhauer)", low=0, high=11
)
HEAVY_ATOMS = Property("heavy_atoms", _RATIO, "number of atoms other than hydrogen", Kind.COUNT, low=0)
NET_CHARGE = Property("net_charge", _RATIO, "net charge in elementary charges", Kind.COUNT)
RINGS = Property("rings", _RATIO, "number of rings (SSSR)", Kind.COUNT, low=0)
ROTATABLE_BONDS = Property("rotatable_bonds", _RATIO, "number of rotatable bonds", Kind.COUNT, low=0)
HBD = Property("hydrogen_bond_donors", _RATIO, "number of hydrogen-bond donors (Lipinski)", Kind.COUNT, low=0)
HBA = Property("hydrogen_bond_acceptors", _RATIO, "number of hydrogen-bond acceptors (Lipinski)", Kind.COUNT, low=0)
AROMATIC_RINGS = Property("aromatic_rings", _RATIO, "number of aromatic rings", Kind.COUNT, low=0)
LARGEST_RING = Property("largest_ring", _RATIO, "atoms in the largest SSSR ring, 0 without rings", Kind.COUNT, low=0)
STEREOCENTRES = Property("stereocentres", _RATIO, "tetrahedral stereocentres, defined or not", Kind.COUNT, low=0)
FRACTION_SP3 = Property("fraction_sp3", _RATIO, "sp3 carbons per carbon", low=0, high=1)
SAFETY_ALERTS = Property("safety_alerts", _RATIO, "number of hazard patterns matched", Kind.COUNT, low=0)
NEAREST_SIMILARITY = Property(
    "nearest_similarity", _RATIO, "Tanimoto similarity to the nearest reference structure", low=0, high=1
)
PURCHASABLE = Property("purchasable", _RATIO, "1 if among the purchasable building blocks, else 0", Kind.COUNT, low=0)
SYNTHESIS_STEPS = Property("synthesis_steps", _RATIO, "steps of the shortest route found", Kind.COUNT, low=0)
STRUCTURAL_ALERTS = Property("structural_alerts", _RATIO, "number of structural alerts matched", Kind.COUNT, low=0)
ELEMENTS = Property("elements", _RATIO, "number of elements", Kind.COUNT, low=1)
CELL_SITES = Property("cell_sites", _RATIO, "atoms in the primitive cell of a crystal", Kind.COUNT, low=1)
UNUSUAL_STATES = Property(
    "unusual_oxidation_states", _RATIO, "elements in an unusual oxidation state, a mean as 2", Kind.COUNT, low=0
)
SHORTEST_CONTACT = Property(
    "shortest_contact", _RATIO, "smallest distance of two atoms over the sum of their atomic radii", low=0, high=10
)
HHI_PRODUCTION = Property(
    "hhi_production", _RATIO, "scarcity by production: Herfindahl-Hirschman index", low=0, high=10_000
)
HHI_RESERVE = Property("hhi_reserve", _RATIO, "scarcity by reserves: Herfindahl-Hirschman index", low=0, high=10_000)
GOLDSCHMIDT_FACTOR = Property(
    "goldschmidt_tolerance_factor", _RATIO, "Goldschmidt's tolerance factor of a perovskite ABX3", low=0, high=10
)
OCTAHEDRAL_FACTOR = Property("octahedral_factor", _RATIO, "radius of B over X in a perovskite ABX3", low=0, high=10)
BARTEL_TAU = Property("bartel_tau", _RATIO, "Bartel's tau of ABX3; below 4.18 a perovskite is likely")
FORMATION_ENERGY = Property("formation_energy", ("eV/atom", "meV/atom"), "formation energy per atom")
E_ABOVE_HULL = Property("energy_above_hull", ("eV/atom", "meV/atom"), "energy above the convex hull", low=-1)
BAND_GAP = Property(
    "band_gap",
    _ENERGY,
    "fundamental gap of a crystal: lowest empty level minus highest occupied one; 0 for a metal",
    low=0,
    high=40,
)
MAGNETIC_MOMENT = Property("magnetic_moment", ("bohr_magneton",), "magnetic moment of the primitive cell", low=0)
E_ABOVE_KNOWN_PHASES = Property(
    "energy_above_known_phases",
    ("eV/atom", "meV/atom"),
    "energy above the hull of known phases by the same model: a lower bound of that above the hull",
)
ENERGY_SPREAD = Property(
    "energy_spread", ("eV/atom", "meV/atom"), "difference between two models of one energy scale", low=0
)
VOLUME_PER_ATOM = Property("volume_per_atom", ("angstrom**3",), "volume of the cell per atom", low=1, high=1000)
LATTICE_A = Property(
    "lattice_a", ("angstrom", "nm"), "length a of the conventional cell of a crystal", low=0.5, high=1000
)
LATTICE_B = Property(
    "lattice_b", ("angstrom", "nm"), "length b of the conventional cell of a crystal", low=0.5, high=1000
)
LATTICE_C = Property(
    "lattice_c", ("angstrom", "nm"), "length c of the conventional cell of a crystal", low=0.5, high=1000
)
LATTICE_ALPHA = Property(
    "lattice_alpha", ("degree",), "angle between b and c of the conventional cell of a crystal", low=1, high=179
)
LATTICE_BETA = Property(
    "lattice_beta", ("degree",), "angle between a and c of the conventional cell of a crystal", low=1, high=179
)
LATTICE_GAMMA = Property(
    "lattice_gamma", ("degree",), "angle between a and b of the conventional cell of a crystal", low=1, high=179
)
DENSITY = Property("density", ("g/mL", "g/cm^3", "kg/m^3"), "mass by volume", low=0, high=30)
VAPORISATION_ENTHALPY = Property(
    "vaporisation_enthalpy", ("kJ/mol", "kcal/mol", "eV"), "heat of vaporisation at the temperature of the level"
)
SELF_DIFFUSION = Property(
    "self_diffusion",
    ("m^2/s", "cm^2/s"),
    "self-diffusion coefficient of a liquid, or of the species of a crystal that its level names",
    low=0,
)
NEIGHBOURS_KEPT = Property(
    "neighbours_kept", _RATIO, "share of neighbouring atoms of a crystal that stay neighbours", low=0, high=1
)
SITE_DISPLACEMENT = Property(
    "site_displacement",
    ("angstrom", "nm"),
    "root mean square distance of atoms from their sites in the relaxed crystal",
    low=0,
    high=100,
)
BULK_MODULUS = Property("bulk_modulus", ("GPa", "eV/angstrom**3"), "bulk modulus at zero pressure", low=0, high=1000)
SOLVATION_ENERGY = Property("solvation_free_energy", _ENERGY, "solvation free energy, 1 M to 1 M")
VERTICAL_IP = Property(
    "vertical_ionization_energy", _ENERGY, "E(cation) - E, both at the neutral's geometry", low=-5, high=60
)
ADIABATIC_IP = Property(
    "adiabatic_ionization_energy", _ENERGY, "E(cation) - E, each at its own geometry, electronic", low=-5, high=60
)
VERTICAL_EA = Property(
    "vertical_electron_affinity", _ENERGY, "E - E(anion) at the neutral's geometry", low=-20, high=20
)
ADIABATIC_EA = Property(
    "adiabatic_electron_affinity", _ENERGY, "E - E(anion), each at its own geometry, electronic", low=-20, high=20
)
S1_ENERGY = Property("s1_energy", _ENERGY, "lowest singlet excitation, vertical", low=-1, high=30)
S1_WAVELENGTH = Property("s1_wavelength", ("nm",), "wavelength of the lowest singlet excitation, vertical", low=1)
S1_OSCILLATOR_STRENGTH = Property(
    "s1_oscillator_strength",
    _RATIO,
    "oscillator strength of the lowest singlet excitation, length gauge",
    low=0,
    high=30,
)
T1_ENERGY = Property("t1_energy", _ENERGY, "lowest triplet excitation, vertical", low=-10, high=30)
CONFORMERS = Property(
    "conformers", _RATIO, "distinct conformers within the energy window of the ensemble", Kind.COUNT, low=1
)
CONFORMER_WEIGHT = Property(
    "lowest_conformer_weight", _RATIO, "Boltzmann weight of the lowest conformer", low=0, high=1
)
CONFORMATIONAL_FREE_ENERGY = Property(
    "conformational_free_energy",
    _ENERGY,
    "-kT ln of the sum of Boltzmann factors above the lowest conformer",
    low=-5,
    high=0,
)
ZERO_POINT_ENERGY = Property("zero_point_energy", _ENERGY, "energy of the vibrations at 0 K, harmonic", low=0)
ENTHALPY = Property("enthalpy", _ENERGY, "total energy with vibrations, rotation, translation and kT for the volume")
GIBBS_FREE_ENERGY = Property(
    "gibbs_free_energy", _ENERGY, "enthalpy minus temperature times entropy, at the temperature and state of the level"
)
LOWEST_FREQUENCY = Property("lowest_frequency", ("cm^-1",), "lowest vibrational frequency, harmonic", low=0)
OXIDATION_POTENTIAL = Property(
    "oxidation_potential", ("V", "mV"), "oxidation potential; its level says vertical or adiabatic, and the reference"
)
REDUCTION_POTENTIAL = Property(
    "reduction_potential", ("V", "mV"), "reduction potential; its level says vertical or adiabatic, and the reference"
)
JUDGED_SCORE = Property(
    "judged_score", _RATIO, "a language model's opinion by a rubric: weighted mean of its grades", low=0, high=1
)
JUDGED_MARGIN = Property(
    "judged_margin",
    _RATIO,
    "least distance of a grade above its gate in the rubric, as a share of the scale",
    low=-1,
    high=1,
)
XRD_MATCH = Property("xrd_match", _RATIO, "cosine of measured and computed powder pattern after the fit", low=0, high=1)
XRD_RWP = Property("xrd_rwp", ("1", "%"), "weighted profile residual of a powder pattern, background subtracted", low=0)
XRD_UNEXPLAINED = Property(
    "xrd_unexplained", ("1", "%"), "share of the measured area above the computed powder pattern", low=0, high=1
)
YIELD = Property("yield", ("%", "1"), "isolated yield", low=0, high=100)

BUILT_IN: tuple[Property, ...] = tuple(value for value in list(globals().values()) if isinstance(value, Property))
"""All properties that this module defines."""
HOUSE = "sciagent"
"""The package of the built-in properties."""


@dataclass(frozen=True)
class Clash:
    """Two different definitions of a property: the rejected one and the one in use, each with its package."""

    set_aside: Property
    package: str
    stands: Property
    stands_from: str

    def __str__(self) -> str:
        """Returns the most important difference, such as `acme 0.1 (unit "1") against sciagent (unit "D")`."""
        for name in ("unit", *(field.name for field in fields(Property))):
            rejected = getattr(self.set_aside, name)
            used = getattr(self.stands, name)
            if rejected != used:
                break
        texts = [f'{name} "{value}"' if isinstance(value, str) else f"{name} {value}" for value in (rejected, used)]
        return f"{self.package} ({texts[0]}) against {self.stands_from} ({texts[1]})"


class PropertyRegistry(dict[str, Property]):
    """Properties by name. offered: (property, its package). The first of several with one name is used, and each that
    differs from it gives one of the `clashes`. broken: reason by package for packages whose properties do not load."""

    def __init__(self, offered: Iterable[tuple[Property, str]], broken: Mapping[str, str] | None = None) -> None:
        super().__init__()
        self._from: dict[str, str] = {}
        self._own: set[str] = set()  # names that this process has defined itself
        self.broken = dict(broken or {})
        clashes = []
        for prop, package in offered:
            stands = self.setdefault(prop.name, prop)
            stands_from = self._from.setdefault(prop.name, package)
            if stands != prop:
                clashes.append(Clash(prop, package, stands, stands_from))
        self.clashes = tuple(clashes)

    def __missing__(self, name: str) -> Property:
        raise UnknownNameError("property", name, self)

    def add(self, defined: Property, package: str) -> None:
        """Registers a property that this process defines; it replaces an earlier definition by this process.

        package: `NAME VERSION`. Raises UsageError if an installed package defines the property differently.
        """
        stands = self.get(defined.name)
        if stands is not None and stands != defined and defined.name not in self._own:
            clash = Clash(defined, package, stands, self._from[defined.name])
            raise UsageError(f'property "{defined.name}": {clash}; give yours another name')
        if stands is None:
            self._own.add(defined.name)
        if defined.name in self._own:
            self[defined.name] = defined
            self._from[defined.name] = package

    def provider(self, name: str) -> str:
        """Returns `NAME VERSION` of the package that defines the property. Raises UnknownNameError."""
        if name not in self:
            raise UnknownNameError("property", name, self)
        return self._from[name]


def _loaded(point: EntryPoint) -> tuple[Property, ...]:
    """Returns the properties of an entry point. Raises any exception of a plug-in, TypeError, or UnitError."""
    loaded = point.load()
    loaded_properties = (loaded,) if isinstance(loaded, Property) else tuple(loaded)
    for part in loaded_properties:
        if not isinstance(part, Property):
            raise TypeError(f"a {type(part).__name__}, not a Property")
    # sciagent's own are checked by a test, since that takes a second
    if point.dist is None or point.dist.name != HOUSE:
        for prop in loaded_properties:
            check_conversions(prop)
    return loaded_properties


@cache
def properties() -> PropertyRegistry:
    """Returns the registry of this installation: built-in properties, then the properties of the entry point group
    `sciagent.properties` (each a Property or several), sorted by package. Invalid properties are left out with a
    warning, so that a package cannot break other campaigns."""
    from importlib.metadata import entry_points

    offered = [(prop, HOUSE) for prop in BUILT_IN]
    broken: dict[str, str] = {}
    points: list[tuple[str, EntryPoint]] = []
    for point in entry_points(group=GROUP):
        package = f"{point.dist.name} {point.dist.version}" if point.dist else point.value
        points.append((package, point))
    points.sort(key=lambda package_and_point: (package_and_point[0], package_and_point[1].name))
    for package, point in points:
        try:
            loaded_properties = _loaded(point)
        except (Exception, SystemExit) as error:  # noqa: BLE001  a plug-in may raise anything
            broken[package] = f"{point.value} gives no properties: {type(error).__name__}: {error}"
        else:
            offered += [(prop, package) for prop in loaded_properties]
    registry = PropertyRegistry(offered, broken)
    for clash in registry.clashes:
        _log.warning("property %s is defined twice, and the first stands: %s", clash.set_aside.name, clash)
    for package, why in broken.items():
        _log.warning("%s: %s", package, why)
    return registry
