"""Idealised structures, in angstrom, that the reference programs were given as well."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from sciagent_simulators.geometry_and_its_checks import Geometry

ATOMIC = {"H": 1, "C": 6, "N": 7, "O": 8, "I": 53}

STRUCTURES = {
    "water": "O 0 0 0.1173; H 0 0.7572 -0.4692; H 0 -0.7572 -0.4692",
    "hydrogen iodide": "H 0 0 0; I 0 0 1.609",
    "formaldehyde": "C 0 0 0; O 0 0 1.205; H 0 0.943 -0.587; H 0 -0.943 -0.587",
    "benzene": (
        "C 1.395 0 0; H 2.482 0 0; C 0.6975 1.208105 0; H 1.241 2.149475 0; C -0.6975 1.208105 0; H -1.241 2.149475 0;"
        "C -1.395 0 0; H -2.482 0 0; C -0.6975 -1.208105 0; H -1.241 -2.149475 0; C 0.6975 -1.208105 0;"
        "H 1.241 -2.149475 0"
    ),
    "oxygen": "O 0 0 0; O 0 0 1.207",
    "methylene": "C 0 0 0; H 0.86 0.7 0; H -0.86 0.7 0",
    "nitroxyl": "H 0.94 -0.56 0; N 0 0 0; O 0 1.21 0",
    "hydroxide": "O 0 0 0; H 0 0 0.97",
    "cyanide": "C 0 0 0; N 0 0 1.18",
    "rectangular cyclobutadiene": (
        "C 0.667 0.785 0; C 0.667 -0.785 0; C -0.667 -0.785 0; C -0.667 0.785 0;"
        "H 1.43 1.55 0; H 1.43 -1.55 0; H -1.43 -1.55 0; H -1.43 1.55 0"
    ),
    "square cyclobutadiene": (
        "C 0.72 0.72 0; C 0.72 -0.72 0; C -0.72 -0.72 0; C -0.72 0.72 0;"
        "H 1.485 1.485 0; H 1.485 -1.485 0; H -1.485 -1.485 0; H -1.485 1.485 0"
    ),
    "hydrogen atom on hydrogen atom": "H 0 0 0; H 0 0 0.05",
}

Structure = Callable[..., Geometry]


@pytest.fixture(scope="session")
def structure() -> Structure:
    def make(name: str, charge: int = 0, multiplicity: int = 1) -> Geometry:
        lines = [line.split() for line in STRUCTURES[name].split(";")]
        numbers = tuple(ATOMIC[line[0]] for line in lines)
        return Geometry(numbers, np.array([line[1:] for line in lines], dtype=float), charge, multiplicity)

    return make
