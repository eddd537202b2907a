"""The registry of properties, and levels."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from sciagent.domain.properties_and_levels import (
    BUILT_IN,
    HOMO,
    Kind,
    Level,
    PropertyRegistry,
    comparable_phase,
    phase_named,
    phases_agree,
    properties,
)
from sciagent.errors import UnknownNameError


def test_every_built_in_property_is_registered_and_fits_the_ledger() -> None:
    registry = properties()
    assert set(BUILT_IN) <= set(registry.values()) and len(BUILT_IN) == len({p.name for p in BUILT_IN})
    for prop in BUILT_IN:
        assert prop.name.isidentifier() and prop.description and prop.units
        assert len(set(prop.units)) == len(prop.units) and all(len(u) <= 40 for u in prop.units)
        assert prop.low is None or prop.high is None or prop.low < prop.high
        assert prop.kind is not Kind.COUNT or prop.unit == "1"


def test_an_unknown_property_names_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match='unknown property "homo_lumo_gapp"; did you mean "homo_lumo_gap"'):
        properties()["homo_lumo_gapp"]
    assert "nothing" not in properties() and properties().get("dipole") is properties()["dipole"]


def test_a_property_is_registered_once() -> None:
    twice = PropertyRegistry([(HOMO, "sciagent"), (HOMO, "acme 0.1")])
    assert dict(twice) == {"homo": HOMO} and twice.clashes == () and twice.provider("homo") == "sciagent"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"units": ("hartree",)}, 'acme 0.1 (unit "hartree") against sciagent (unit "eV")'),
        (
            {"units": ("eV",)},
            "acme 0.1 (units ('eV',)) against sciagent (units ('eV', 'hartree', 'kJ/mol', 'kcal/mol', 'meV', 'cm^-1'))",
        ),
        ({"high": 5}, "acme 0.1 (high 5) against sciagent (high 20)"),
        ({"description": "mine"}, f'acme 0.1 (description "mine") against sciagent (description "{HOMO.description}")'),
    ],
)
def test_of_two_definitions_the_first_stands(change: dict[str, Any], said: str) -> None:
    registry = PropertyRegistry([(HOMO, "sciagent"), (replace(HOMO, **change), "acme 0.1")])
    assert registry["homo"] == HOMO
    assert [str(clash) for clash in registry.clashes] == [said]


@pytest.mark.parametrize(
    ("text", "name"),
    [("MeCN", "acetonitrile"), (" Ethyl  Acetate", "ethyl acetate"), ("DCM", "dichloromethane"), ("", "")],
)
def test_a_phase_has_one_name(text: str, name: str) -> None:
    assert phase_named(text) == name
    assert phases_agree(text, name) and phase_named(name) == name


def test_levels_differ_in_every_part_and_their_hash_is_pinned() -> None:
    full = Level("PBE0", "def2-SVP", "water", "GFN2-xTB")
    others = [
        Level("PBE0"),
        Level("PBE0", "def2-SVP"),
        Level("PBE0", phase="water"),
        Level("PBE0", geometry="GFN2-xTB"),
    ]
    assert len({x.hash for x in (full, *others)}) == 5
    assert full.label == "PBE0/def2-SVP(water)//GFN2-xTB" and Level("GFN2-xTB", phase="gas").label == "GFN2-xTB"
    assert full.hash == "815545278e02a4617b2c6f6bbbd26864c077838442dc132feaa3441e5dae7346"


@pytest.mark.parametrize(
    ("phases", "wanted", "compared"),
    [
        (["water"], "water", "water"),
        (["hexane"], "water", None),
        (["hexane", ""], "water", ""),
        (["hexane", "gas", "water"], "water", "water"),
        (["hexane"], "gas", "hexane"),
        (["hexane", "water"], "", None),
        (["hexane", "", "water"], "gas", ""),
        ([], "water", None),
    ],
)
def test_values_in_another_solvent_are_not_compared(phases: list[str], wanted: str, compared: str | None) -> None:
    assert comparable_phase(phases, wanted) == compared
    assert compared is None or phases_agree(compared, wanted)
