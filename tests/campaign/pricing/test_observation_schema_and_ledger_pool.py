"""The pool of a campaign is what the ledger says, whether it was kept in step or made anew."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sqlalchemy.engine import Connection

from sciagent.campaign.core.budget_tracker import BudgetTracker
from sciagent.campaign.core.built_campaign_and_derived_values import Built, BuiltRung
from sciagent.campaign.core.create_and_open import create_or_open
from sciagent.campaign.core.record_results_and_place import Settling, settle
from sciagent.campaign.driving.driver import Driver
from sciagent.campaign.file.campaign_spec import load_spec, parse_spec
from sciagent.campaign.pricing import observation_schema_and_ledger_pool
from sciagent.campaign.pricing.observation_schema_and_ledger_pool import LedgerPool, observation_schema
from sciagent.campaign.pricing.pool_law_and_cost_unit import priced_campaign
from sciagent.campaign.pricing.priced_scheduler import Pricing
from sciagent.campaign.pricing.rung_by_rung_purchasing_and_choice import purchasing_of
from sciagent.domain.cost_and_budget import Cost
from sciagent.domain.evidence_keys_and_pooled_replicates import Finding, Measured
from sciagent.domain.outcomes_verdicts_and_reasons import Outcome
from sciagent.domain.properties_and_levels import Level
from sciagent.domain.quantities import Quantity
from sciagent.domain.rung_positions_and_tiers import Position
from sciagent.domain.states_and_needs import CampaignState, Standing
from sciagent.execution.worker.end_attempts import DirectResult, complete_direct
from sciagent.scheduling.law.similarity import order_of
from sciagent.store.campaign_state import candidate_standings
from sciagent.store.database import tables as t
from sciagent.store.database.ledger import Ledger
from sciagent.store.results import candidates, laws_and_audits
from sciagent.store.views import campaign_counts_and_remarks
from sciagent.verification import verifier_registry
from sciagent.verification.sandbox.host import HostResult
from tests.campaign.fake_verifiers import Point
from tests.campaign.planning.fake_ladder import Dipole, Good, Top
from tests.support.campaigns import SMALL, write_campaign
from tests.support.rows import alkanes, gap

WINDOW = (5.0, 8.0)


def opened(folder: Path, **more: object) -> Built:
    file = write_campaign(folder, scheduler="priced", window=WINDOW, gfn1=True, **more)  # type: ignore[arg-type]
    return create_or_open(Ledger(str(folder / "sciagent.db")), load_spec(file), file.read_text(), "test").built


def pool(built: Built, **more: int) -> LedgerPool:
    schema = observation_schema(built)
    assert schema is not None
    with built.ledger.read() as connection:
        return LedgerPool(built, schema.paid, schema, connection, **more)


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> tuple[Built, LedgerPool]:
    """A campaign at its end, and the pool that its driver kept."""
    built = opened(tmp_path_factory.mktemp("priced"), dft=7)
    with Driver(built) as driver:
        assert driver.run() is CampaignState.BUDGET_SPENT
        assert isinstance(driver.session.purchasing, Pricing)
        kept = driver.session.purchasing.pool
    with built.ledger.read() as connection:
        kept.refresh(connection)
    return built, kept


def test_what_was_kept_in_step_is_what_is_made_anew(ran: tuple[Built, LedgerPool]) -> None:
    built, kept = ran
    made = pool(built)
    for name in ("scores", "closed", "out", "pending", "tried", "failed"):
        assert np.array_equal(getattr(kept, name), getattr(made, name), equal_nan=name == "scores"), name
    assert np.array_equal(kept.ids, made.ids)
    assert all(np.array_equal(kept.declared[r], made.declared[r]) for r in made.declared)


def test_the_board_says_what_the_ledger_says(ran: tuple[Built, LedgerPool]) -> None:
    built, kept = ran
    with built.ledger.read() as connection:
        stands = candidate_standings.arrivals(connection, built.row.id, 0, 1000)
    assert [s.candidate_id for s in stands] == kept.ids.tolist()
    settled = np.array([s.standing == Standing.SETTLED for s in stands])
    assert settled.sum() == 7
    assert np.array_equal(~np.isnan(kept.scores[:, -1]), settled)
    assert kept.out[settled].all()
    assert (kept.tried[1], kept.failed[1]) == (7, 0)
    assert not kept.known
    paid = [s.position > 1 for s in stands]
    assert (kept.declared["core_seconds"][paid] > 0).all()


def test_features_come_first_then_what_the_law_finds_worth_most(ran: tuple[Built, LedgerPool]) -> None:
    built, _ = ran
    with built.ledger.read() as connection:
        rows = connection.execute(t.decision.select().order_by(t.decision.c.id)).mappings().all()
        versions = {row.version for row in connection.execute(t.law.select())}
    dft = built.rungs[-1].id
    priced = [r for r in rows if r["rung_id"] == dft and "chance of a hit" in r["why"]]
    assert len(priced) >= 3
    assert {r["law_version"] for r in priced} <= versions
    assert all(r["price"] and 0 < r["index"] < 1e5 for r in priced)
    assert all("everyone gets it" in r["why"] for r in rows if r["rung_id"] != dft)


def test_a_driver_that_takes_over_begins_with_what_was_learnt(ran: tuple[Built, LedgerPool]) -> None:
    built, _ = ran
    with built.ledger.read() as connection:
        row = laws_and_audits.last(connection, built.row.id)
        pricing = purchasing_of(built, connection, BudgetTracker(built, connection))
    assert row is not None and isinstance(pricing, Pricing)
    assert pricing.law_version == row.version
    assert pricing.priced.is_learnt
    assert pricing.priced.state() == row.state["priced"]
    assert len(row.state["factors"]) == len(pricing.pool.paid) and min(row.state["factors"]) > 0


def test_the_law_selects_rows_by_the_keys_of_their_candidates(ran: tuple[Built, LedgerPool]) -> None:
    built, kept = ran
    with built.ledger.read() as connection:
        keys = laws_and_audits.candidate_keys(connection, kept.ids.tolist())
    assert kept.order is not None
    assert kept.order.tolist() == order_of(keys[id_] for id_ in kept.ids.tolist()).tolist()


def test_what_another_campaign_answered_is_taken_first_and_costs_nothing(ran: tuple[Built, LedgerPool]) -> None:
    built, kept = ran
    folder = Path(str(built.ledger.url.database)).parent
    file = write_campaign(folder, name="second", scheduler="priced", window=(2.0, 5.0), dft=2, gfn1=True)
    second = create_or_open(built.ledger, load_spec(file), file.read_text(), "test").built
    with Driver(second) as driver:
        driver.run()
    with built.ledger.read() as connection:
        status = campaign_counts_and_remarks.counts(connection, second.row)
        reused = campaign_counts_and_remarks.reuses_by_rung(connection, second.row.id)
    known = int((~np.isnan(kept.scores[:, -1])).sum())
    assert reused[second.rungs[-1].id] == known
    assert status.rungs[-1].jobs == 2


def test_a_law_learns_from_an_earlier_campaign(ran: tuple[Built, LedgerPool], tmp_path: Path) -> None:
    built, kept = ran
    folder = Path(str(built.ledger.url.database)).parent
    file = write_campaign(
        folder, name="third", molecules=("CCO", "CC=C", "CCN", "C#CC"), scheduler="priced", dft=1, gfn1=True
    )
    text = file.read_text().replace("{kind: priced}", "{kind: priced, law: {from: small}}")
    file.write_text(text)
    third = create_or_open(built.ledger, load_spec(file), text, "test").built
    first = pool(third, learn_from=built.row.id)
    assert first.out.all() and not first.in_play.any()
    told = {int(i): float(v) for i, v in zip(first.ids, first.scores[:, -1], strict=True)}
    for i, value in zip(kept.ids, kept.scores[:, -1], strict=True):
        assert np.isnan(value) or told[int(i)] == value
    with Driver(third) as driver:
        assert driver.run() is CampaignState.BUDGET_SPENT
    with built.ledger.read() as connection:
        query = t.decision.select().where(
            t.decision.c.campaign_id == third.row.id, t.decision.c.rung_id == third.rungs[-1].id
        )
        one = connection.execute(query).mappings().one()
    assert "chance of a hit" in one["why"], "it needs no first few of its own to learn from"


def test_a_campaign_to_learn_from_must_be_there(tmp_path: Path) -> None:
    from sciagent.errors import UnknownNameError

    file = write_campaign(tmp_path, molecules=SMALL[:3], scheduler="priced", dft=1, gfn1=True)
    text = file.read_text().replace("{kind: priced}", "{kind: priced, law: {from: nobody}}")
    file.write_text(text)
    with pytest.raises(UnknownNameError, match="nobody"):
        create_or_open(Ledger(str(tmp_path / "sciagent.db")), load_spec(file), text, "test")


def test_what_a_person_holds_is_out_and_comes_back(tmp_path: Path) -> None:
    from sciagent.campaign.people.find_candidate import resolve
    from sciagent.campaign.people.hold_release_veto_and_promote import hold, release

    built = opened(tmp_path, molecules=SMALL[:6], dft=1)
    with Driver(built) as driver:
        driver.run()
    made = pool(built)
    row = int(np.flatnonzero(~made.out)[0])
    id_ = int(made.ids[row])
    with built.ledger.read() as connection:
        key = connection.execute(t.candidate.select().where(t.candidate.c.id == id_)).mappings().one()["key"]
        named = resolve(connection, built.row, key)
    hold(built, named, "me", "look at it")
    with built.ledger.read() as connection:
        made.mark_changed([id_])
        made.refresh(connection)
    assert made.out[row]
    release(built, named, "me", "fine")
    with built.ledger.read() as connection:
        made.mark_changed([id_])
        made.refresh(connection)
    assert not made.out[row]


def test_a_slow_look_is_not_repeated_for_a_batch_that_the_budget_refuses(ran: tuple[Built, LedgerPool]) -> None:
    built, kept = ran
    looks = []
    with built.ledger.begin() as connection:
        pricing = purchasing_of(built, connection, BudgetTracker(built, connection))
        assert isinstance(pricing, Pricing)
        for took in (0.0, 2.0, 2.0):
            pricing.choose(connection, 4, False, set(map(Position, range(9))), set(kept.ids[:3].tolist()))
            looks.append(pricing._evaluated_at)
            pricing._evaluation_seconds = took
            pricing._queue.clear()
    assert looks[0] < looks[1] == looks[2]


DIPOLES = """
campaign: needs_a_dipole
subject: molecule
objectives:
  - {property: homo_lumo_gap, min: 4, unit: eV}
  - {property: dipole, max: 2, unit: D}
ladder:
  - {rung: dipole, verifier: fake.dipole, settings: {seconds: 30}}
  - {rung: good, verifier: fake.good, settings: {seconds: 0.001}}
  - {rung: top, verifier: fake.top, settings: {seconds: 60}}
goal: {kind: hits}
budget: {core_seconds: 100000}
proposer: {kind: screen, file: all.csv}
safety: {screen: false, reason: the fake verifiers stand alone in these tests}
"""


def test_no_rung_is_taken_before_a_lower_one_on_which_an_objective_rests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rung that was passed over is not run later, so its objective would end as `not_measured`."""
    monkeypatch.setattr(verifier_registry, "_points", lambda: {kind.name: Point(kind) for kind in (Dipole, Good, Top)})
    (tmp_path / "all.csv").write_text("smiles\nC\n")
    spec = parse_spec(DIPOLES, base=tmp_path)
    built = create_or_open(Ledger(str(tmp_path / "sciagent.db")), spec, DIPOLES, "test").built
    dipole, good, top = built.rungs
    with built.ledger.begin() as connection:
        id_ = candidates.enter(connection, alkanes(1))[alkanes(1)[0].key]
        candidate_standings.add(connection, built.row.id, [{"candidate_id": id_, "in_seeds": False}])
        answer(connection, built, good, id_, gap(5.0))
        answer(connection, built, top, id_, gap(5.0))
    kept = pool(built)
    assert kept.known == {}, "the answer of `good` is known, but the dipole is not"
    with built.ledger.begin() as connection:
        priced = priced_campaign(built, connection)
        assert priced is not None and priced.scheduler.rungs_for_everyone(priced.pool) == [], (
            "good is cheap, and above the dipole"
        )
        answer(connection, built, dipole, id_, Measured("dipole", Level("fake"), Quantity(1.0, "D")))
    assert pool(built).known == {0: 0}
    with built.ledger.begin() as connection:
        kept.refresh(connection)
        assert kept.known == {}, "no second has passed since the last look"
        monkeypatch.setattr(observation_schema_and_ledger_pool, "SECONDS_BETWEEN_LOOKS", 0.0)
        kept.refresh(connection)
        assert kept.known == {0: 0}, "what another campaign brought meanwhile is found"
        assert kept.refresh(connection) == 0, "nothing is read again"
    with built.ledger.begin() as connection:
        for rung in built.rungs:
            settle(connection, built, [Settling(id_, rung.rules.position)])
        assert candidate_standings.get(connection, built.row.id, id_)["is_hit"]


def answer(connection: Connection, built: Built, rung: BuiltRung, id_: int, *measured: Measured) -> None:
    """An answer of the rung's verifier that another campaign has paid for."""
    candidate = candidates.load(connection, [id_])[id_]
    finding = Finding(candidate.key, Outcome.OK, measured)
    made = DirectResult(
        rung.verifier,
        id_,
        rung.verifier.evidence_key(candidate),
        HostResult(finding, Cost(core_seconds=1), 1.0, {}, ()),
        (),
    )
    complete_direct(connection, "me", [made], campaign_id=None, rung_id=None)
