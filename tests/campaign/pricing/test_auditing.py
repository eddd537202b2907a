"""The audit of a campaign that is scheduled by price: who takes part, who is drawn, what it may cost, what stays."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa

from sciagent.campaign.core.budget_tracker import BudgetTracker
from sciagent.campaign.core.built_campaign_and_derived_values import Built
from sciagent.campaign.core.create_and_open import create_or_open
from sciagent.campaign.driving.choices_to_jobs import _decide
from sciagent.campaign.file.campaign_spec import parse_spec
from sciagent.campaign.pricing.auditing import Auditing, _rounded
from sciagent.campaign.pricing.observation_schema_and_ledger_pool import LedgerPool, observation_schema
from sciagent.campaign.pricing.pool_law_and_cost_unit import priced_campaign
from sciagent.campaign.pricing.priced_scheduler import Pricing
from sciagent.domain.proposer_interfaces import Choice
from sciagent.domain.states_and_needs import Standing
from sciagent.errors import SpecError
from sciagent.report.analysis.audit_results import audit, population
from sciagent.report.page.html_page import page
from sciagent.scheduling.audit_of_dropped import lots
from sciagent.scheduling.candidate_pool import Purchase
from sciagent.store.campaign_state import campaigns, candidate_standings
from sciagent.store.database import tables as t
from sciagent.store.database.ledger import Ledger
from sciagent.store.results import candidates, laws_and_audits
from tests.support import rows
from tests.support.campaigns import sciagent, write_campaign

N, COST, SHARE = 60, 0.01, 0.25  # candidates; of a terminal verification, in shares of the budget
PAID, TERMINAL = 2, 3  # positions, after the safety screen and the checks


class Stage:
    """A campaign whose candidates all wait at the first paid rung, and a law that says what the test wants."""

    def __init__(
        self, folder: Path, audit: str = f", audit: {SHARE}", turned: bool = False, limits: bool = True
    ) -> None:
        file = write_campaign(folder, scheduler=f"priced{audit}", dft=100)
        text = file.read_text()
        if not limits:
            text = text.replace("window: [3.0, 9.0]", "maximise: [3.0, 9.0]").replace("kind: hits", "kind: best")
        self.built: Built = create_or_open(
            Ledger(str(folder / "sciagent.db")), parse_spec(text, name="small.yaml", base=folder), text, "me"
        ).built
        schema = observation_schema(self.built)
        assert schema is not None
        self.schema, self.campaign = schema, self.built.row.id
        molecules = rows.alkanes(N)
        with self.built.ledger.begin() as connection:
            candidates.enter(connection, molecules[N // 2 :] if turned else [])
            ids = candidates.enter(connection, molecules)
            self.ids = [ids[m.key] for m in molecules]
            members = [{"candidate_id": i, "proposal_id": None, "in_seeds": False} for i in self.ids]
            candidate_standings.add(connection, self.campaign, members)
            candidate_standings.update_many(connection, self.campaign, {i: {"position": PAID} for i in self.ids})
        p = np.linspace(0.0, 0.5, N)
        self.law: Any = SimpleNamespace(is_learnt=True, price=45.0, index=p / COST, expected=p)
        self.restart()

    def restart(self) -> None:
        """Another driver takes over."""
        with self.built.ledger.read() as connection:
            self.pool = LedgerPool(self.built, self.schema.paid, self.schema, connection)
            self.pool.costs = np.full(self.pool.closed.shape, COST)
            self.auditing = Auditing(self.built, self.schema, self.pool, connection)

    def look(self, spent: float, *batch: int) -> dict[str, Any]:
        with self.built.ledger.begin() as connection:
            wanted = [Purchase(row, 1, 50.0) for row in batch]
            news = self.auditing.note_passed_over(connection, self.law, wanted, spent)
            if news:
                laws_and_audits.write(connection, self.campaign, {"audit": news})
        return news

    def due(self, spent: float) -> list[Purchase]:
        with self.built.ledger.read() as connection:
            return self.auditing.purchases_due(connection, spent)

    def buy(self, *found: Purchase) -> None:
        """What dispatch does with the choices, less the jobs."""
        with self.built.ledger.begin() as connection:
            for one in found:
                id_ = int(self.pool.ids[one.row])
                choice = Choice(id_, TERMINAL, 1.0, one.propensity, "audit: drawn")
                _decide(connection, self.built, [(choice, "run", choice.why, None)])
        self.stand(Standing.PENDING, *(one.row for one in found), position=TERMINAL)

    def stand(self, standing: Standing, *of: int, **more: Any) -> None:
        ids = {int(self.pool.ids[row]): {"standing": standing, **more} for row in of}
        with self.built.ledger.begin() as connection:
            candidate_standings.update_many(connection, self.campaign, ids)
            self.pool.mark_changed(list(ids))
            self.pool.refresh(connection)

    def log(self) -> laws_and_audits.AuditLog:
        with self.built.ledger.read() as connection:
            return laws_and_audits.audit_log(connection, self.campaign)


@pytest.fixture(name="stage")
def make_stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


def test_whoever_promises_less_than_the_price_is_passed_over_and_the_batch_is_not(stage: Stage) -> None:
    news = stage.look(0.2, 40, 41)
    below = [row for row in range(N) if stage.law.index[row] < 45 and row not in (40, 41)]
    assert [id_ for id_, *_ in news["passed"]] == [stage.ids[row] for row in below]
    assert [id_ for id_, _ in news["chosen"]] == [stage.ids[40], stage.ids[41]]
    assert [p for _, p, _, _ in news["passed"]] == pytest.approx(stage.law.expected[below], rel=1e-5)
    assert stage.look(0.2, 40, 41) == {}, "nothing is new"


def test_audits_cost_at_most_their_share_of_the_spend_and_one_job(stage: Stage) -> None:
    """Also if the campaign is stopped and resumed: another driver takes over after every eighth look."""
    bought: list[float] = []
    for number, spent in enumerate(np.linspace(0.02, 1.0, 40)):
        if number % 8 == 7:
            stage.restart()
        stage.look(float(spent))
        found = stage.due(float(spent))
        stage.buy(*found)
        bought += [COST] * len(found)
        assert sum(bought) <= SHARE * spent + COST + 1e-9
    assert sum(bought) >= 0.6 * SHARE, "and they do take place"
    with stage.built.ledger.read() as connection:
        logged = connection.execute(sa.select(t.decision.c.chooser, t.decision.c.propensity)).all()
    assert {chooser for chooser, _ in logged} == {"audit"}
    assert len(logged) == len(bought) and all(0 < pi <= 1 for _, pi in logged) and min(pi for _, pi in logged) < 0.9


def test_propensities_never_fall_and_a_new_driver_has_the_same(stage: Stage) -> None:
    before = np.zeros(0)
    for spent in np.linspace(0.05, 0.6, 12):
        stage.law.expected = stage.law.expected[::-1]  # what is believed later changes nothing of what was
        stage.law.price = 20 + 60 * float(spent)
        stage.look(float(spent))
        stage.buy(*stage.due(float(spent))[:1])
        pi = np.array(stage.auditing.log.pi)
        assert (pi[: len(before)] >= before).all() and (pi > 0).all()
        before = pi
        old, waits = stage.auditing.log, stage.due(float(spent))
        assert stage.log() == old
        stage.restart()
        assert stage.auditing.log == old and stage.due(float(spent)) == waits
    assert len(before) > 40 and before.max() > before.min()


def test_lots_hang_on_the_seed_and_the_molecule_alone(tmp_path: Path) -> None:
    one, other = Stage(tmp_path / "a"), Stage(tmp_path / "b", turned=True)
    assert one.ids != other.ids
    for stage in (one, other):
        stage.look(0.3)
    drawn = [
        {stage.ids.index(id_) for id_, lot, pi in zip(log.ids, log.lot, log.pi, strict=True) if lot < pi}
        for stage, log in ((one, one.log()), (other, other.log()))
    ]
    assert drawn[0] == drawn[1] != set()
    key = rows.alkanes(1)[0].key
    assert one.log().lot[0] == lots(1, [key])[0]


@pytest.mark.parametrize("standing", [Standing.HELD, Standing.VETOED, Standing.DROPPED])
def test_nobody_is_audited_whom_people_or_gates_took_out(stage: Stage, standing: Standing) -> None:
    stage.stand(standing, 0, 1, 2)
    stage.look(0.9)
    assert not set(stage.ids[:3]) & set(stage.log().ids)
    drawn = {one.row for one in stage.due(0.9)}
    assert len(drawn) > 3
    gone = sorted(drawn)[:3]
    stage.stand(standing, *gone)
    assert drawn - set(gone) <= {one.row for one in stage.due(0.9)}
    assert not set(gone) & {one.row for one in stage.due(0.9)}


def test_who_is_found_by_choice_later_costs_the_audit_nothing(stage: Stage) -> None:
    stage.look(0.5)
    drawn = [one.row for one in stage.due(0.5)]
    stage.stand(Standing.SETTLED, drawn[0], position=TERMINAL, is_hit=True)
    stage.look(0.9)
    assert drawn[0] not in {one.row for one in stage.due(0.9)}
    with stage.built.ledger.read() as connection:
        them = population(connection, stage.built.row, stage.log())
        found = audit(connection, stage.built.row)
    assert them.hit.sum() == 1 and found is not None and found.passed_over == len(them.ids)
    assert found.words.startswith("recall cannot be estimated: n = 1 audited hit, 5 are needed")


@pytest.mark.parametrize(("setting", "limits"), [(", audit: 0", True), ("", False)])
def test_there_is_none_at_a_share_of_0_or_without_limits(tmp_path: Path, setting: str, limits: bool) -> None:
    stage = Stage(tmp_path, setting, limits=limits)
    assert stage.look(0.9) == {} and stage.due(0.9) == []
    with stage.built.ledger.read() as connection:
        assert audit(connection, stage.built.row) is None


@pytest.mark.parametrize("share", ["-0.1", "0.6", "yes"])
def test_a_share_that_cannot_be_is_refused(tmp_path: Path, share: str) -> None:
    text = write_campaign(tmp_path, scheduler=f"priced, audit: {share}").read_text()
    with pytest.raises(SpecError, match="audit"):
        parse_spec(text, name="small.yaml", base=tmp_path)


@pytest.mark.long
def test_a_campaign_says_what_its_audit_found(tmp_path: Path) -> None:
    for seed in range(4):  # whether anybody is drawn depends on lots, and on when the law looked
        cwd = tmp_path / str(seed)
        file = write_campaign(cwd, scheduler="priced, audit: 0.4", dft=8, window=(5.0, 9.0), seed=seed, gfn1=True)
        file.write_text(file.read_text().replace("batch: 5", "batch: 24"))  # more than can be verified at once
        sciagent("run", str(file), "--quiet", "--no-report", cwd=cwd, expect=None)
        ledger = Ledger(str(cwd / "sciagent.db"))
        with ledger.read() as connection:
            row = campaigns.get(connection, "small")
            log, drawn = (
                laws_and_audits.audit_log(connection, row.id),
                laws_and_audits.audit_draws(connection, row.id),
            )
            d = t.decision.c
            logged = dict(tuple(one) for one in connection.execute(sa.select(d.id, d.propensity)))
            html = page(connection, row, ledger.artifacts)
        if drawn:
            break
    assert drawn and len(drawn) <= 0.4 * 8 + 1
    pi = dict(zip(log.ids, log.pi, strict=True))
    assert all(0 < logged[one.id] <= pi[one.candidate_id] for one in drawn), "the last is the largest"
    status = sciagent("status", "small", "--json", cwd=cwd)
    found = status["audit"]
    assert (found["share"], found["jobs"], found["passed_over"]) == (0.4, len(drawn), len(log.ids))
    assert found["words"].startswith("recall")
    assert found["guard"]["words"].startswith("not armed: n = ") and found["guard"]["missing"] > 0
    [against] = found["rungs"]
    assert (against["lower"], against["upper"], against["bias"]) == ("xtb", "dft", None)
    assert 3 <= against["n"] <= 8 and against["spearman"] is not None
    text = sciagent("status", "small", "--verbose", cwd=cwd).stdout
    plain = sciagent("status", "small", cwd=cwd).stdout
    assert "audit: recall" not in plain and "guard" not in plain and "law" not in plain
    assert "audit: recall" in text and "conformal guard not armed" in text
    assert set(status["value"]) == {"worth", "rungs", "words"} and status["value"]["worth"] >= 0
    assert "law, as of its last fit: the candidates ahead are worth" in " ".join(text.split())
    assert "What was missed" in html and "conformal" not in html


def test_what_is_written_has_six_digits_and_is_never_nothing() -> None:
    sizes = 10 ** np.random.default_rng(0).uniform(-15, 12, 500)
    values = np.concatenate([sizes, -sizes, [0.0, 1.0, 999999.5, 9.9999995e-5, 1e-20]])
    assert _rounded(values) == [float(f"{value:.6g}") for value in values.tolist()]
    assert _rounded(np.array([1e-300])) == [1e-300]


def test_an_hour_that_passes_is_no_spending_on_jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock of `wall_minutes` gives the audit no share: what jobs took does."""
    file = write_campaign(tmp_path, scheduler=f"priced, audit: {SHARE}", dft=100)
    text = re.sub(r"budget: \{", "budget: {wall_minutes: 100, ", file.read_text())
    spec = parse_spec(text, name="small.yaml", base=tmp_path)
    built = create_or_open(Ledger(str(tmp_path / "sciagent.db")), spec, text, "me").built
    with built.ledger.read() as connection:
        campaign = priced_campaign(built, connection)
        assert campaign is not None
        budget = BudgetTracker(built, connection)
        pricing = Pricing(campaign, connection, budget)
    began = budget._clock()
    monkeypatch.setattr(budget, "_clock", lambda: began + 3600.0)
    assert pricing._spent_on_jobs() == 0
    budget.spend({"core_seconds": 60.0})
    spent = pricing._spent_on_jobs()
    assert spent > 0
    monkeypatch.setattr(budget, "_clock", lambda: began + 7200.0)
    assert pricing._spent_on_jobs() == spent
