"""What the budget does not hold is passed over for what it does, and the campaign's end says what was lacking."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from sciagent.campaign.core.build import create_or_open
from sciagent.campaign.driving.driver import Driver
from sciagent.campaign.spec.load import load_spec
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
    settings: {method: truth, error: 0.0, money: 0.0, per_carbon: 1.0}
goal: {kind: hits}
budget: {money: 5}
proposer: {kind: screen, file: molecules.csv, batch: 40}
workers: 1
scheduler: """


@pytest.fixture(scope="module", autouse=True)
def fixed_verifiers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with installed("recorded", tmp_path_factory.mktemp("site")):
        yield


@pytest.mark.parametrize("scheduler", ["exhaustive", "thresholds", "priced"])
def test_a_job_that_does_not_fit_holds_up_none_that_does(scheduler: str, tmp_path: Path) -> None:
    (tmp_path / "molecules.csv").write_text("smiles\nCCCCCCCCO\nCCCCCCCN\nCO\nCCO\n", encoding="utf-8")
    file = tmp_path / "small.yaml"
    file.write_text(CAMPAIGN + f"{{kind: {scheduler}}}\n", encoding="utf-8")
    built = create_or_open(Ledger(str(tmp_path / "sciagent.db")), load_spec(file), file.read_text(), "test")[0]
    with Driver(built) as driver:
        driver.run()
    with built.ledger.read() as connection:
        query = sa.select(t.candidate.c.text).join(t.evidence, t.evidence.c.candidate_id == t.candidate.c.id)
        run = set(connection.execute(query.where(t.evidence.c.verifier == "fixed.gap")).scalars())
        why = connection.execute(sa.select(t.campaign.c.stop_reason)).scalar_one()
    assert run == {"CO", "CCO"}
    assert why.startswith("what is left of the budget holds no further job: truth would ")
    assert why.endswith("40 % are left" if scheduler == "priced" else "reserve 8 money, and 2 are left"), why
