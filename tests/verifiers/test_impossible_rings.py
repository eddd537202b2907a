"""Isolable rings pass, impossible ones do not."""

from __future__ import annotations

import pytest

from sciagent.chemistry.molecule import parse_molecule
from sciagent_verifiers.fast.impossible_rings import impossible


@pytest.mark.parametrize(
    ("smiles", "why"),
    [
        ("C1#CCCC1", "triple bond (1-2) in a ring of 5"),  # cyclopentyne
        ("C1CCCCC#C1", "in a ring of 7"),  # cycloheptyne
        ("C1=C=CCCC1", "cumulated double bonds"),  # 1,2-cyclohexadiene
        ("C1CC2=CC1CC2", "bicyclo[2.2.1]"),  # 1-norbornene
        ("C1=CC2=CC1CC2", "Bredt"),
        ("C1CC2CC(=C1)C2", "bicyclo[3.1.1]"),
        ("C1CC2=NC1CC2", "Bredt"),  # an imine is no better
        ("C1=CC=C1", "cyclobutadiene"),
        ("C12C3C1C23", "3 three-membered rings"),  # tetrahedrane
        ("O1C=C1", "antiaromatic"),  # oxirene
        ("S1C=C1", "antiaromatic"),
        ("N1C=C1", "antiaromatic"),  # 1H-azirine
        ("C1CC1C1CC1C1CC1C1CC1C1CC1", "5 three-membered rings"),
    ],
)
def test_what_no_bottle_holds_is_named(smiles: str, why: str) -> None:
    assert why in (impossible(parse_molecule(smiles).mol) or "")


@pytest.mark.parametrize(
    "smiles",
    [
        "C1#CCCCCCC1",  # cyclooctyne
        "C1CCC/C=C/CC1",  # trans-cyclooctene
        "C1=C=CCCCCCC1",  # 1,2-cyclononadiene
        "C1CC2=CCCC(C1)C2",  # bicyclo[3.3.1]non-1-ene
        "C1CC2CC1C=C2",  # norbornene
        "C1=CC2C=CC1C2",  # norbornadiene
        "O=C1C=C1",  # cyclopropenone
        "C1C=C1",  # cyclopropene
        "C1=NC1",  # 2H-azirine
        "C12CC1C2",  # bicyclobutane
        "C1CC12CC2",  # spiropentane
        "C12C3C4C1C5C2C3C45",  # cubane
        "C1C2CC3CC1CC(C2)C3",  # adamantane
        "C1=CC=CC=CC=C1",  # cyclooctatetraene
        "C1N2CN3CN1CN(C2)C3",  # hexamine
        "c1ccc2ccccc2c1",
        "C1CC1C#C",
        "C/C=C1/CCCC1",
        "CN1CCC23C4C1CC5=C2C(=C(C=C5)O)OC3C(C=C4)O",  # morphine
        # paclitaxel, with its bridgehead alkene in a large ring
        "CC1=C2C(C(=O)C3(C(CC4C(C3C(C(C2(C)C)(CC1OC(=O)C(C(C5=CC=CC=C5)NC(=O)C6=CC=CC=C6)O)O)OC(=O)C7=CC=CC=C7)"
        "(CO4)OC(=O)C)O)C)OC(=O)C",
        "CC1(C)SC2C(NC(=O)Cc3ccccc3)C(=O)N2C1C(=O)O",  # benzylpenicillin
        "CCO",
    ],
)
def test_what_chemists_have_made_passes(smiles: str) -> None:
    assert impossible(parse_molecule(smiles).mol) is None
