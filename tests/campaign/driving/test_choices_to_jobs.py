"""What nobody could take when it was chosen is bought later: nobody is sent up past a rung that is still lacking."""

from __future__ import annotations

from collections.abc import Iterator, Set
from pathlib import Path

import pytest
from sqlalchemy.engine import Connection

from sciagent.campaign.core.budget_tracker import BudgetTracker
from sciagent.campaign.core.create_and_open import create_or_open
from sciagent.campaign.driving.driver import Driver
from sciagent.campaign.file.campaign_spec import load_spec
from sciagent.campaign.pricing.purchasing_interface import Purchasing
from sciagent.campaign.pricing.rung_by_rung_purchasing_and_choice import purchasing_of
from sciagent.domain.proposer_interfaces import Choice
from sciagent.domain.rung_positions_and_tiers import Position
from sciagent.store.database.ledger import Ledger
from tests.support.campaigns import GFN1, write_campaign

AT_GFN2, AT_GFN1 = Position(2), Position(3)  # positions, after safety and checks
ALL = frozenset(map(Position, range(5)))


class Shop:
    """A campaign of three candidates that have passed the checks and nothing else."""

    def __init__(self, connection: Connection, pricing: Purchasing) -> None:
        self.connection, self.pricing = connection, pricing

    def choose(self, slots: int, places: Set[Position] = ALL) -> list[Choice]:
        return self.pricing.choose(self.connection, slots, False, places, set())


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    file = write_campaign(tmp_path, scheduler="priced", molecules=("C", "CO", "CC"))
    file.write_text(file.read_text().replace("  - rung: dft\n", GFN1))
    built = create_or_open(Ledger(str(tmp_path / "sciagent.db")), load_spec(file), file.read_text(), "test").built
    with Driver(built) as driver:
        assert driver.intake.propose(driver.session)
    with built.ledger.read() as connection:
        yield Shop(connection, purchasing_of(built, connection, BudgetTracker(built, connection)))


def told(choices: list[Choice]) -> list[tuple[int, int]]:
    return [(one.id, one.position) for one in choices]


def test_what_nobody_could_take_is_the_most_urgent_still(shop: Shop) -> None:
    chosen = shop.choose(2)
    assert told(chosen) == [(1, AT_GFN2), (2, AT_GFN2)]
    shop.pricing.take_back(chosen, [])
    assert told(shop.choose(3)) == [(1, AT_GFN2), (2, AT_GFN2), (3, AT_GFN2)]


def test_what_comes_after_it_for_the_same_candidate_waits_too(shop: Shop) -> None:
    """The queue of GFN2's workers is full, that of GFN1's is not."""
    assert told(shop.choose(9, places={AT_GFN1})) == []
    assert told(shop.choose(9)) == [(1, AT_GFN2), (2, AT_GFN2), (3, AT_GFN2)]


def test_whose_reservation_does_not_fit_is_put_off_until_the_next_look(shop: Shop) -> None:
    chosen = shop.choose(1)
    shop.pricing.take_back([], chosen)
    assert told(shop.choose(9)) == [(2, AT_GFN2), (3, AT_GFN2)], "and the first is not sent to GFN1"


def test_where_nothing_else_is_left_the_next_look_comes_at_once(shop: Shop) -> None:
    """Jobs that ended meanwhile may have given back what was held for them; else the campaign would be over."""
    shop.pricing.take_back([], shop.choose(9))
    assert told(shop.choose(9)) == [(1, AT_GFN2), (2, AT_GFN2), (3, AT_GFN2)]


def test_what_was_chosen_by_others_is_not_taken_back(shop: Shop) -> None:
    assert told(shop.choose(1)) == [(1, AT_GFN2)]
    shop.pricing.take_back([Choice(7, AT_GFN1, 1.0)], [Choice(8, AT_GFN2, 1.0)])
    assert told(shop.choose(2)) == [(1, AT_GFN1), (2, AT_GFN2)], "as it would go on had the first one answered"
