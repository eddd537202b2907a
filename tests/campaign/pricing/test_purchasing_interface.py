"""What the budget does not hold is passed over for what it does, and the campaign's end says what was lacking."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from sciagent.campaign.core.create_and_open import create_or_open
from sciagent.campaign.driving.driver import Driver
from sciagent.campaign.file.campaign_spec import load_spec
from sciagent.store.database import tables as t
from sciagent.store.database.ledger import Ledger
from tests.support.plugins import installed

CAMPAIGN = """\
campaign: small
subject: molecule
objectives:
  - property: homo_lumo_gap
    window: [0, 9]
    unit: eV
ladder:
  - rung: truth
    verifier: fixed.gap
    settings: {method: truth, error: 0.0, money: 0.0, PRICE}
    limits: {wall_seconds: 600, memory_mb: 1000}
goal: {kind: hits}
budget: BUDGET
proposer: {kind: screen, file: molecules.csv, batch: 40}
workers: 1
scheduler: """


@pytest.fixture(scope="module", autouse=True)
def fixed_verifiers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with installed("recorded", tmp_path_factory.mktemp("site")):
        yield


def run_to_its_end(folder: Path, price: str, budget: str, scheduler: str) -> tuple[set[str], str]:
    """The molecules that were verified, and why the campaign ended."""
    (folder / "molecules.csv").write_text("smiles\nCCCCCCCCO\nCCCCCCCN\nCO\nCCO\n", encoding="utf-8")
    text = (
        CAMPAIGN.replace("PRICE", price if ":" in price else f"{price}: 1.0").replace("BUDGET", budget)
        + f"{{kind: {scheduler}}}\n"
    )
    file = folder / "small.yaml"
    file.write_text(text, encoding="utf-8")
    built = create_or_open(Ledger(str(folder / "sciagent.db")), load_spec(file), text, "test").built
    with Driver(built) as driver:
        driver.run()
    with built.ledger.read() as connection:
        query = sa.select(t.candidate.c.text).join(t.evidence, t.evidence.c.candidate_id == t.candidate.c.id)
        verified = set(connection.execute(query.where(t.evidence.c.verifier == "fixed.gap")).scalars())
        return verified, connection.execute(sa.select(t.campaign.c.stop_reason)).scalar_one()


@pytest.mark.parametrize("scheduler", ["exhaustive", "thresholds", "priced"])
def test_a_job_that_does_not_fit_holds_up_none_that_does(scheduler: str, tmp_path: Path) -> None:
    verified, why = run_to_its_end(tmp_path, "per_carbon", "{money: 5}", scheduler)
    assert verified == {"CO", "CCO"}
    assert why.startswith("what is left of the budget holds no further job: truth would ")
    left = "40 % are left" if scheduler == "priced" else "reserve 8 money, and 2 are left"
    assert why.endswith(f"{left}; all 4 candidates of the proposer were proposed"), why


@pytest.mark.parametrize("scheduler", ["exhaustive", "priced"])
def test_what_the_clock_did_not_hold_is_run_once_its_rung_is_known_to_be_quicker(
    scheduler: str, tmp_path: Path
) -> None:
    """Three times the declared time is reserved before the first job: 24 s for eight carbons, and 12 s are left."""
    verified, why = run_to_its_end(tmp_path, "seconds_per_carbon", "{wall_minutes: 0.2}", scheduler)
    assert len(verified) == 4, why


@pytest.mark.parametrize("scheduler", ["exhaustive", "priced"])
def test_a_job_reserves_no_more_than_its_limit_of_time_allows(scheduler: str, tmp_path: Path) -> None:
    """A job declares an hour and more, and is ended after ten minutes: half an hour holds each of them."""
    verified, why = run_to_its_end(tmp_path, "seconds_per_carbon: 3600", "{core_seconds: 1800}", scheduler)
    assert len(verified) == 4, why
    ledger = Ledger(str(tmp_path / "sciagent.db"))
    with ledger.read() as connection:
        reserved = connection.execute(sa.select(t.reservation.c.amount)).scalars().all()
    ledger.close()
    assert len(reserved) == 4 and max(reserved) == 600


def test_a_clock_that_holds_no_job_says_what_one_would_reserve(tmp_path: Path) -> None:
    verified, why = run_to_its_end(tmp_path, "seconds_per_carbon", "{wall_minutes: 0.03}", "exhaustive")
    assert not verified
    assert why.startswith(
        "what is left of the budget holds no further job: truth would reserve 24 seconds of wall time, and "
    ), why
