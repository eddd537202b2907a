"""Names of candidates from input files, on both databases."""

from __future__ import annotations

from sciagent.chemistry.molecule import parse_molecule
from sciagent.store.database.ledger import Ledger
from sciagent.store.results import candidates
from tests.support import rows


def test_a_candidate_keeps_all_names_of_its_campaign_and_of_imports_and_is_found_by_each(ledger: Ledger) -> None:
    with ledger.begin() as connection:
        campaign, other = (rows.campaign(connection, name).id for name in ("ours", "theirs"))
        ethanol = next(iter(candidates.enter(connection, [parse_molecule("CCO")]).values()))
        candidates.enter_names(
            connection, campaign, [(ethanol, {"id": "A-1", "supplier": "Acme"}), (ethanol, {"id": "A-9"})]
        )
        candidates.enter_names(connection, campaign, [(ethanol, {"id": "A-1", "remark": ""})])
        candidates.enter_names(connection, other, [(ethanol, {"id": "secret"})])
        for _ in range(2):
            candidates.enter_names(connection, None, [(ethanol, {"code": "M-3"})])
    with ledger.read() as connection:
        ours = candidates.names_of(connection, [ethanol], [campaign])[ethanol]
        assert ours == {"id": ("A-1", "A-9"), "supplier": ("Acme",), "code": ("M-3",)}
        for text in ("A-9", "M-3"):
            assert [found.id for found in candidates.find(connection, text)] == [ethanol]
