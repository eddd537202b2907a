"""A web server that cannot seal evidence leaves the derived values of answers to the driver."""

from __future__ import annotations

from pathlib import Path

import pytest
import sqlalchemy as sa

from sciagent.campaign.core.create_and_open import open_campaign_for_people
from sciagent.domain.derived_properties import DERIVED_VERIFIER
from sciagent.lab import record_answers
from sciagent.store.database import tables as t
from sciagent.store.database.evidence_secret import FILE_VARIABLE
from sciagent.store.database.ledger import Ledger
from tests.lab import conftest as lab
from tests.lab.test_record_answers import entry, task_ids

make = lab.make
DERIVED = """
derived:
  - {property: half_gap, unit: eV, formula: homo_lumo_gap / 2}
"""


def halves(ledger: Ledger) -> list[float]:
    query = sa.select(t.quantity.c.value).join(t.evidence, t.evidence.c.id == t.quantity.c.evidence_id)
    with ledger.read() as connection:
        return list(connection.execute(query.where(t.evidence.c.verifier == DERIVED_VERIFIER)).scalars())


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
def test_the_driver_records_what_the_web_server_could_not(
    make: lab.Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built = make(more=DERIVED)
    monkeypatch.setenv(FILE_VARIABLE, str(tmp_path / "not for the web server"))
    web = Ledger(str(tmp_path / "ledger.db"), artifacts=tmp_path / "artifacts")
    monkeypatch.delenv(FILE_VARIABLE)
    seen_by_web = open_campaign_for_people(web, "gaps")
    record_answers.enter(seen_by_web, task_ids(built)[0], entry("4.31 eV"))
    web.close()
    assert halves(built.ledger) == []
    lab.drive(built)
    assert halves(built.ledger) == [pytest.approx(4.31 / 2)]
