"""Candidates: entered once under their key, found by what people type, and the same when they come back."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from sciagent.chemistry.crystal import Crystal, crystal_from_structure
from sciagent.chemistry.molecule import parse_molecule
from sciagent.domain.evidence_keys_and_pooled_replicates import Computation
from sciagent.domain.properties_and_levels import Level
from sciagent.domain.quantities import Quantity
from sciagent.store.database import tables as t
from sciagent.store.database.ledger import Ledger
from sciagent.store.results import candidates, evidence
from tests.support.query_plans import plan_of, scans
from tests.support.rows import Measured, alkanes, gap, new_evidence


def test_a_candidate_is_entered_once(ledger: Ledger) -> None:
    first, again = parse_molecule("OCC"), parse_molecule("CCO")
    with ledger.begin() as connection:
        ids = candidates.enter(connection, [first, again])
        assert candidates.enter(connection, [again]) == ids and len(ids) == 1
        assert candidates.ids_of(connection, [first.key, "0" * 64]) == ids
        assert connection.execute(sa.select(sa.func.count()).select_from(t.candidate)).scalar() == 1
        assert candidates.enter(connection, []) == {}


def test_it_comes_back_the_same(ledger: Ledger) -> None:
    made = [parse_molecule(s) for s in ("c1ccccc1[N+](=O)[O-]", "F/C=C/F", "[NH4+]", "N[C@@H](C)C(=O)O")]
    made.append(parse_molecule("[O][O]", multiplicity=3))
    with ledger.begin() as connection:
        ids = candidates.enter(connection, made)
        back = candidates.load(connection, list(ids.values()))
    for one in made:
        twin = back[ids[one.key]]
        assert (twin, twin.key, twin.text, twin.multiplicity) == (one, one.key, one.text, one.multiplicity)


def test_a_crystal_goes_through_the_ledger(ledger: Ledger) -> None:
    from pymatgen.core import Lattice, Structure

    salt = Structure.from_spacegroup("Fm-3m", Lattice.cubic(5.64), ["Na", "Cl"], [[0, 0, 0], [0.5, 0.5, 0.5]])
    crystal = crystal_from_structure(salt)
    gap_of_salt = Measured("homo_lumo_gap", Level("PBE", phase="solid"), Quantity(5.0, "eV"))
    with ledger.begin() as connection:
        id_ = candidates.enter(connection, [crystal])[crystal.key]
        evidence.record(connection, [new_evidence(id_, gap_of_salt, subject=crystal.key)])
        assert candidates.enter(connection, [crystal_from_structure(salt * (2, 1, 1))]) == {crystal.key: id_}
        back = candidates.load(connection, [id_])[id_]
        found = evidence.find_reusable(connection, [id_], Computation("toy", "1", "5" * 64))
        assert candidates.find(connection, crystal.key[:12])[0][2] == "NaCl Fm-3m"
        shown = candidates.find_by_text(connection, "NaCl Fm-3m", ["crystal"], None)
        assert [row.id for row in shown] == [id_]
        assert candidates.find_by_text(connection, "NaCl Fm-3m", ["crystal"], 1) == [], "in no campaign"
    assert isinstance(back, Crystal)
    assert (back, back.key, back.n_atoms, back.charge) == (crystal, crystal.key, crystal.n_atoms, 0)
    assert back.structure.matches(crystal.structure)
    assert found[id_].measured == (gap_of_salt,)


def test_what_people_type_is_found(ledger: Ledger) -> None:
    ethanol = parse_molecule("OCC")
    with ledger.begin() as connection:
        id_ = candidates.enter(connection, [ethanol, *alkanes(5)])[ethanol.key]
        candidates.enter_aliases(connection, [(id_, "OCC"), (id_, "C(O)C"), (id_, "OCC"), (id_, "x" * 5000)])
        candidates.enter_aliases(connection, [(id_, "ethanol")], notation="name")
        for text in (ethanol.key, ethanol.key[:6], ethanol.inchikey, "OCC", "C(O)C", "ethanol"):
            assert [row[0] for row in candidates.find(connection, str(text))] == [id_], text
        for text in ("", ethanol.key[:5], ethanol.key[:-1] + "z", "%", "x" * 5000, "a\0b", "\ud800", "methanol"):
            assert candidates.find(connection, text) == [], text


def test_a_text_means_the_candidate_it_first_meant(ledger: Ledger) -> None:
    a, b = alkanes(2)
    with ledger.begin() as connection:
        ids = candidates.enter(connection, [a, b])
        candidates.enter_aliases(connection, [(ids[a.key], "alkane"), (ids[b.key], "other")])
        candidates.enter_aliases(connection, [(ids[b.key], "alkane")])
        assert [row[0] for row in candidates.find(connection, "alkane")] == [ids[a.key]]


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
@pytest.mark.parametrize("campaign_id", [None, 1])
def test_a_text_is_found_by_an_index(ledger: Ledger, campaign_id: int | None) -> None:
    plan = plan_of(ledger, lambda asked: candidates.find_by_text(asked, "NaCl Fm-3m", ["crystal"], campaign_id))
    assert scans(plan) == []
    assert any("ix_candidate_text" in line for line in plan)


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
def test_proposed_texts_are_looked_for_in_one_campaign_by_an_index(ledger: Ledger) -> None:
    plan = plan_of(ledger, lambda asked: candidates.proposed_among(asked, 1, ["CCO", "CCN"]))
    assert scans(plan) == []
    assert any("ix_proposal_campaign_status (campaign_id=?)" in line for line in plan), plan


def test_many_at_once(ledger: Ledger) -> None:
    made = alkanes(60)
    with ledger.begin() as connection:
        ids = candidates.enter(connection, made)
        assert len(candidates.load(connection, [*ids.values(), *range(10**6, 10**6 + 70_000)])) == 60
        evidence.record(connection, [new_evidence(i, gap()) for i in ids.values()])
