"""What nobody measures is booked as it was declared, and a slot in a laboratory is one slot."""

from __future__ import annotations

from pathlib import Path

import pytest
import sqlalchemy as sa

from sciagent.campaign.core.create_and_open import create_or_open
from sciagent.campaign.driving.driver import Driver
from sciagent.campaign.file.campaign_spec import load_spec
from sciagent.domain.cost_and_budget import Cost
from sciagent.domain.states_and_needs import CampaignState
from sciagent.store.database import tables as t
from sciagent.store.database.ledger import Ledger
from sciagent.verification.cost_models import CostModel, unmeasured
from sciagent_verifiers.high_fidelity.pyscf_orbitals_dipole_energy import PyscfScf
from tests.support.campaigns import write_campaign

DECLARED = Cost(core_seconds=10, lab_slots=1, money=4)


def test_only_what_is_measured_is_scaled() -> None:
    model = CostModel()
    assert dict(model.reservation(DECLARED)) == {"core_seconds": 30, "lab_slots": 1, "money": 4}
    for _ in range(5):
        model.observe(Cost(core_seconds=10), Cost(core_seconds=20))
    assert dict(model.expected(DECLARED)) == {"core_seconds": 20, "lab_slots": 1, "money": 4}
    assert dict(unmeasured(DECLARED)) == {"lab_slots": 1, "money": 4}


def test_what_a_verifier_counted_is_booked_and_not_what_it_declared() -> None:
    assert dict(unmeasured(DECLARED, Cost(core_seconds=99, money=3))) == {"money": 3}
    assert dict(unmeasured(DECLARED, Cost())) == {}
    assert dict(unmeasured(Cost(core_seconds=1), Cost(llm_tokens=7))) == {"llm_tokens": 7}


def test_money_is_spent_when_the_job_has_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = PyscfScf.cost
    monkeypatch.setattr(PyscfScf, "cost", lambda self, molecule: own(self, molecule) + Cost(money=4))
    file = write_campaign(tmp_path, molecules=("C=C", "C=O", "CO"), scheduler="thresholds", dft=3)
    file.write_text(file.read_text().replace("{rungs: {dft: 3}}", "{money: 9}"))
    ledger = Ledger(str(tmp_path / "sciagent.db"))
    with Driver(create_or_open(ledger, load_spec(file), file.read_text(), "test").built) as driver:
        assert driver.run() is CampaignState.BUDGET_SPENT
    with ledger.read() as connection:
        booked = connection.execute(sa.select(t.spend.c.amount).where(t.spend.c.resource == "money")).scalars().all()
    assert booked == [4, 4], "a third would have taken 12 of 9"
