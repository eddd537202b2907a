"""What a report says of single candidates: lineage and imported values."""

from __future__ import annotations

from pathlib import Path

import pytest

from sciagent.chemistry.molecule import parse_molecule
from sciagent.domain.states_and_needs import Standing
from sciagent.store.campaign_state import candidate_standings
from sciagent.store.database.ledger import Ledger
from sciagent.store.results import candidates
from sciagent.store.views.report_candidates import (
    candidates_in_order,
    hits_of_same_compound,
    imported_answers,
    origin_of,
)
from tests.support import rows
from tests.support.query_plans import plan_of, scans
from tests.support.reported import Maker, dyes


@pytest.fixture
def made(ledger: Ledger, tmp_path: Path) -> Maker:
    return dyes(ledger, tmp_path)


def test_lineage_goes_back_four_generations_and_no_further(made: Maker) -> None:
    with made.ledger.read() as connection:
        last = candidates_in_order(connection, made.row, 10, 1)[0]
        origin = origin_of(connection, last)
    assert (origin.proposer, origin.turn, origin.rationale) == ("evolve", 3, "conjugation lowers the gap")
    assert len(origin.parents) == 4 and origin.parents[0][0][0] == "add_atom"


def test_imported_values_are_found_by_candidate(made: Maker) -> None:
    with made.ledger.read() as connection:
        found = imported_answers(connection, made.ids)
    assert list(found) == [made.ids[0]] and found[made.ids[0]][0].measured[0].quantity.as_typed == "4.40"


# 4-methylimidazole and 5-methylimidazole are tautomers; of dioxygen, singlet and triplet; benzene stands alone
IMIDAZOLES = ("Cc1c[nH]cn1", "Cc1cnc[nH]1")


def test_hits_and_open_candidates_name_the_hits_of_their_compound(ledger: Ledger) -> None:
    """A candidate that fell names none, nor is a hit of another campaign named."""
    first, second = (parse_molecule(text) for text in IMIDAZOLES)
    triplet = parse_molecule("O=O", multiplicity=3)
    singlet = parse_molecule("O=O", multiplicity=1)
    benzene = parse_molecule("c1ccccc1")
    hit = {"standing": Standing.SETTLED, "is_hit": True}
    fell = {"standing": Standing.DROPPED}
    places = {
        "both": {first: hit, second: hit, triplet: hit, singlet: hit, benzene: hit},
        "open": {first: hit, second: {}, triplet: fell, singlet: hit},
        "none": {first: {}, second: {}, benzene: hit},
    }
    found = {}
    for name, members in places.items():
        with ledger.begin() as connection:
            row = rows.campaign(connection, name)
            ids = candidates.enter(connection, list(members))
            standings = [{"candidate_id": ids[m.key], "in_seeds": False, **place} for m, place in members.items()]
            candidate_standings.add(connection, row.id, standings)
            listed = candidates_in_order(connection, row, -1, 10)
            others = hits_of_same_compound(connection, row, listed)
        texts = {(each.text, each.multiplicity): others.get(each.id, ()) for each in listed}
        found[name] = {key: [(o.relation, o.text) for o in named] for key, named in texts.items() if named}
        if ledger.engine.dialect.name == "sqlite":
            plan = plan_of(ledger, lambda c, row=row, listed=listed: hits_of_same_compound(c, row, listed))
            assert scans(plan) == [], plan
    tautomers = {(IMIDAZOLES[0], 1): [("tautomer", IMIDAZOLES[1])], (IMIDAZOLES[1], 1): [("tautomer", IMIDAZOLES[0])]}
    spins = {("O=O", 3): [("spin state", "O=O")], ("O=O", 1): [("spin state", "O=O")]}
    assert found == {"both": tautomers | spins, "open": {(IMIDAZOLES[1], 1): [("tautomer", IMIDAZOLES[0])]}, "none": {}}
