"""Masses by volume that stand for amounts by volume, such as 12.3 mg/L for a solubility in mol/L: their conversion by
the molar mass of the candidate.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from sciagent.chemistry.molecule import Molecule
from sciagent.domain.candidate_and_its_names_in_files import Candidate
from sciagent.domain.properties_and_levels import Property, properties
from sciagent.domain.quantities import Quantity, to_canonical
from sciagent.domain.safe_text_and_durations import cut
from sciagent.domain.units import AMOUNT_CONCENTRATION, factor_between, unit_words
from sciagent.errors import UnitError


def molar_mass(candidate: Candidate) -> float | None:
    """Returns the molar mass of a molecule in g/mol, by its whole formula; None for a candidate without molecules."""
    if not isinstance(candidate, Molecule):
        return None
    from rdkit.Chem import rdMolDescriptors

    return float(rdMolDescriptors._CalcMolWt(candidate.mol))


def units_for(candidate: Candidate, prop: Property) -> tuple[str, ...]:
    """Returns the units in which a property of the candidate may be typed."""
    return prop.typed_units if isinstance(candidate, Molecule) else prop.units


def is_mass_for_amount(quantity: Quantity, prop: Property) -> bool:
    """Whether a quantity is a mass by volume, and the property an amount by volume."""
    return quantity.unit not in prop.units and quantity.unit in prop.typed_units


def to_canonical_by_mass(quantity: Quantity, prop: Property, candidate: Candidate) -> Quantity:
    """Returns the quantity in the property's canonical unit, as `to_canonical` does; a mass by volume is divided by the
    molar mass first, with its uncertainty.

    Raises the errors of `to_canonical`, and UnitError for a mass by volume of a candidate without a molar mass."""
    if not is_mass_for_amount(quantity, prop):
        return to_canonical(quantity, prop)
    mass = molar_mass(candidate)
    if mass is None:
        raise UnitError(
            f"{prop.name}: {quantity.as_typed or quantity} is a mass by volume, which needs the molar mass of a "
            f"molecule, and {cut(candidate.text, 60)} is none; it takes: {', '.join(map(unit_words, prop.units))}"
        )
    factor = factor_between(quantity.unit, "g/L") / mass
    uncertainty = None if quantity.uncertainty is None else quantity.uncertainty * factor
    amount = replace(quantity, value=quantity.value * factor, uncertainty=uncertainty, unit=AMOUNT_CONCENTRATION)
    return to_canonical(amount, prop)


def conversions(values: Mapping[str, Quantity], candidate: Candidate) -> tuple[str, ...]:
    """Returns for each mass by volume among the typed values of a candidate into which value it is converted, such as
    `solubility 4.6 mg/mL is 0.02553 mol/L, by the molar mass of 180.16 g/mol`. values: by property."""
    mass = molar_mass(candidate)
    texts = []
    for name, quantity in values.items():
        prop = properties()[name]
        if mass is None or not is_mass_for_amount(quantity, prop):
            continue
        converted = replace(to_canonical_by_mass(quantity, prop, candidate), as_typed=None)
        typed_text = quantity.as_typed or str(quantity)
        texts.append(f"{name} {typed_text} is {converted}, by the molar mass of {mass:.2f} g/mol")
    return tuple(texts)
