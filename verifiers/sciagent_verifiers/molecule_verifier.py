"""The base class of the verifiers of single molecules."""

from __future__ import annotations

from sciagent.chemistry.molecule import Molecule
from sciagent_verifiers.single_verifier import SingleVerifier, refused

__all__ = ["MoleculeVerifier", "refused"]


class MoleculeVerifier(SingleVerifier[Molecule]):
    """A verifier that treats each molecule separately."""
