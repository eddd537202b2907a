"""Which candidate a person means: any spelling of the molecule, a piece of its key, its InChIKey; else a way out."""

from __future__ import annotations

import pytest

from sciagent.campaign.people.find_candidate import resolve
from sciagent.chemistry.crystal import Crystal
from sciagent.chemistry.crystals.notation_and_structure_text_readers import read_crystal
from sciagent.chemistry.molecule import parse_molecule
from sciagent.errors import UsageError
from sciagent.store.campaign_state.campaigns import CampaignRow
from sciagent.store.database.ledger import Ledger
from sciagent.store.results import candidates
from tests.support import rows

PYRIDONE, HYDROXYPYRIDINE = "O=c1cccc[nH]1", "Oc1ccccn1"  # tautomers: two candidates, one InChIKey


@pytest.fixture
def row(ledger: Ledger) -> CampaignRow:
    """A campaign with four alkanes; two tautomers are known to the ledger besides."""
    with ledger.begin() as connection:
        made = rows.campaign(connection)
        candidates.enter(connection, [parse_molecule(PYRIDONE), parse_molecule(HYDROXYPYRIDINE)])
        rows.entered(connection, made, 4)
        return made


def find(ledger: Ledger, row: CampaignRow | None, text: str) -> str:
    with ledger.read() as connection:
        return resolve(connection, row, text).text


@pytest.mark.parametrize("text", ["CCC", "C(C)C", " CCC ", "[CH3]CC"])
def test_any_spelling_of_the_molecule_will_do(ledger: Ledger, row: CampaignRow, text: str) -> None:
    assert find(ledger, row, text) == "CCC"


def test_a_piece_of_the_key_and_the_inchikey_will_do(ledger: Ledger, row: CampaignRow) -> None:
    propane = parse_molecule("CCC")
    for text in (propane.key, propane.key[:8], propane.inchikey):
        assert text and find(ledger, row, text) == "CCC"


def test_one_name_of_two_candidates_lists_both(ledger: Ledger, row: CampaignRow) -> None:
    inchikey = parse_molecule(PYRIDONE).inchikey
    assert inchikey == parse_molecule(HYDROXYPYRIDINE).inchikey
    with pytest.raises(UsageError) as caught:
        find(ledger, None, str(inchikey))
    said = str(caught.value)
    assert "names 2 candidates" in said and PYRIDONE in said and HYDROXYPYRIDINE in said
    assert find(ledger, None, PYRIDONE) == PYRIDONE


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("CCCCCCC", "sciagent add 'CCCCCCC' --campaign toys"),
        (PYRIDONE, 'is known to the ledger as .* but is not in campaign "toys"'),
        ("abc1", "too short for a key"),
        ("0" * 20, "no candidate"),
        ("no molecule", "no candidate"),
    ],
)
def test_a_name_that_leads_nowhere_says_what_to_type(ledger: Ledger, row: CampaignRow, text: str, fault: str) -> None:
    with pytest.raises(UsageError, match=fault):
        find(ledger, row, text)


@pytest.fixture
def cubic(ledger: Ledger) -> list[Crystal]:
    """Three perovskites of the ledger; the first two have the same text."""
    crystals = [read_crystal("perovskite: Ca Ti O"), read_crystal("perovskite: Sr Ti O")]
    larger = crystals[0].structure.scale_lattice(crystals[0].structure.volume * 1.2)
    crystals.insert(0, read_crystal(larger.to(fmt="cif")))
    with ledger.begin() as connection:
        candidates.enter(connection, crystals)
    return crystals


def test_the_text_that_people_read_will_do(ledger: Ledger, cubic: list[Crystal]) -> None:
    assert find(ledger, None, "SrTiO3 Pm-3m") == cubic[2].text == "SrTiO3 Pm-3m"
    with pytest.raises(UsageError, match="names 2 candidates"):
        find(ledger, None, "CaTiO3 Pm-3m")


def test_a_structure_of_several_lines_is_named_by_its_text(ledger: Ledger, cubic: list[Crystal]) -> None:
    assert find(ledger, None, cubic[2].structure.to(fmt="cif")) == "SrTiO3 Pm-3m"
    with pytest.raises(UsageError, match='"BaTiO3 Pm-3m" is not in the ledger; bring it in with: sciagent add FILE'):
        find(ledger, None, read_crystal("perovskite: Ba Ti O").structure.to(fmt="cif"))
    with pytest.raises(UsageError, match=r"the structure cannot be read .*as a crystal: "):
        find(ledger, None, "data_broken\n_cell_length_a 4\n")
