"""The base class of the verifiers of single crystals."""

from __future__ import annotations

from sciagent.chemistry.crystal import Crystal
from sciagent.domain.outcomes import Reason
from sciagent.verification.contract import Refusal
from sciagent_verifiers.single_verifier import SingleVerifier, refused

__all__ = ["CrystalVerifier", "no_crystal", "refused"]


class CrystalVerifier(SingleVerifier[Crystal]):
    """A verifier that treats each crystal separately."""

    kind = "crystal"


def no_crystal(candidate: Crystal) -> Refusal | None:
    """Returns the refusal of a candidate of another kind; None for a crystal."""
    return None if candidate.kind == "crystal" else Refusal(Reason.WRONG_KIND, f"a {candidate.kind}, not a crystal")
