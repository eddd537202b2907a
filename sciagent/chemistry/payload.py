"""From what the ledger stores of a candidate, or a process was sent of it, back to the candidate."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from sciagent.domain.candidates import Candidate
from sciagent.domain.outcomes import Reason
from sciagent.errors import InvalidCandidateError


def candidate_from_payload(kind: str, payload: Mapping[str, Any]) -> Candidate:
    """The candidate whose `payload()` this is. Raises InvalidCandidateError for any other mapping."""
    if kind == "molecule":
        from sciagent.chemistry.molecule import Molecule

        return Molecule.from_payload(payload)
    if kind == "crystal":
        from sciagent.chemistry.crystal import Crystal

        return Crystal.from_payload(payload)
    raise InvalidCandidateError(Reason.WRONG_KIND, f'kind "{kind}"; a candidate is a molecule or a crystal')


_HYDROGENS = re.compile(r"H(?![a-z])(\d*)")


def record_of(candidate: Candidate) -> Mapping[str, Any]:
    """What `candidate_from_record` takes, as JSON: of a molecule every field, so that nothing is perceived again."""
    from sciagent.chemistry.molecule import Molecule

    if not isinstance(candidate, Molecule):
        return candidate.payload()
    m = candidate
    return {
        "smiles": m.smiles,
        "identity": m.identity,
        "charge": m.charge,
        "multiplicity": m.multiplicity,
        "formula": m.formula,
        "n_atoms": m.n_atoms,
        "heavy_atoms": m.heavy_atoms,
        "inchikey": m.inchikey,
    }


def candidate_from_record(kind: str, record: Mapping[str, Any]) -> Candidate:
    """The candidate whose record this is. Of a molecule nothing is computed: the sender has read its SMILES and worked
    out its identity (4 ms for InChI), and who compares keys afterwards sees whether identity, charge and spin arrived.
    """
    if kind != "molecule" or "identity" not in record:
        return candidate_from_payload(kind, record)
    from sciagent.chemistry.molecule import Molecule

    return Molecule(**record)


def molecule_from_columns(
    text: str, identity: str, charge: int, multiplicity: int, formula: str, n_atoms: int, inchikey: str | None
) -> Candidate:
    """The molecule behind a row that these chemistry libraries wrote. The row keeps all but the number of heavy atoms,
    which is that of all atoms less the hydrogens of the formula (deuterium stands there as H)."""
    from sciagent.chemistry.molecule import Molecule

    hydrogens = sum(int(digits or 1) for digits in _HYDROGENS.findall(formula))
    return Molecule(text, identity, charge, multiplicity, formula, n_atoms, n_atoms - hydrogens, inchikey)
