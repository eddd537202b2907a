"""Quick density-functional calculations."""

from __future__ import annotations

import pytest

from sciagent.chemistry.molecule import parse_molecule
from sciagent.verification.verifier_contract import Context
from sciagent_verifiers.high_fidelity.pyscf_orbitals_dipole_energy import PyscfScf

QUICK = {"grid": 1}


@pytest.fixture
def context(tmp_path) -> Context:
    return Context(scratch=tmp_path, checkpoint=tmp_path)


def finding(smiles, context, settings=None, multiplicity=None):
    verifier = PyscfScf(settings)
    return next(iter(verifier.verify([parse_molecule(smiles, multiplicity=multiplicity)], context)))


def values(found):
    return {one.property: one.quantity.value for one in found.measured}
