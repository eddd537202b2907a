"""Where a candidate stands follows from the ledger alone, whether the answer is in hand or is read there again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sciagent.campaign.core.built_campaign_and_derived_values import Built
from sciagent.campaign.core.create_and_open import create_or_open
from sciagent.campaign.core.record_results_and_place import Settling, settle, settle_again
from sciagent.campaign.file.campaign_spec import load_spec
from sciagent.domain.cost_and_budget import Cost
from sciagent.domain.evidence_keys_and_pooled_replicates import Finding, Measured
from sciagent.domain.outcomes_verdicts_and_reasons import Outcome, Reason
from sciagent.domain.properties_and_levels import Level
from sciagent.domain.quantities import Quantity
from sciagent.domain.states_and_needs import Standing, Verb
from sciagent.execution.worker.end_attempts import DirectResult, complete_direct
from sciagent.store.campaign_state import candidate_standings, directives
from sciagent.store.database.ledger import Ledger
from sciagent.store.results import candidates
from sciagent.verification.sandbox.host import HostResult
from tests.support.campaigns import write_campaign
from tests.support.rows import alkanes

SAFETY, CHECKS, XTB, DFT = range(4)
LEVEL = Level("PBE0")


def gap(value: float, unit: str = "eV", **more: Any) -> Measured:
    return Measured("homo_lumo_gap", LEVEL, Quantity(value, unit, **more))


# what xTB says of each candidate
ANSWERS: tuple[tuple[Outcome, tuple[Measured, ...], Reason | None, str], ...] = (
    (Outcome.OK, (gap(6),), None, ""),
    (Outcome.OK, (gap(0.22, "hartree", uncertainty=0.001, as_typed="0.2\0"),), None, ""),
    (Outcome.OK, (gap(55.0),), None, ""),  # outside the gate
    (Outcome.OK, (), None, ""),
    (Outcome.REFUSED, (), Reason.TOO_LARGE, "so\0 large"),
    (Outcome.NOT_CONVERGED, (), Reason.SCF_NOT_CONVERGED, "x" * 5000),
    (Outcome.TIMEOUT, (), Reason.WALL_LIMIT, "a limit is no evidence"),
)


@pytest.fixture
def built(tmp_path: Path) -> Built:
    file = write_campaign(tmp_path)
    return create_or_open(Ledger(str(tmp_path / "sciagent.db")), load_spec(file), file.read_text(), "test").built


def said(built: Built, connection: Any, position: int, findings: dict[int, Finding]) -> list[Settling]:
    """Settlings of candidates whose answers from a rung were recorded a moment ago."""
    rung, made = built.rungs[position], candidates.load(connection, list(findings))
    results = [
        DirectResult(
            rung.verifier,
            id_,
            rung.verifier.evidence_key(made[id_]),
            HostResult(finding, Cost(core_seconds=1), 1.0, {}, ()),
            (),
        )
        for id_, finding in findings.items()
    ]
    recorded = complete_direct(connection, "me", results, campaign_id=built.row.id, rung_id=rung.id)
    return [
        Settling(result.candidate_id, position, result.result.finding, None, one)
        for result, one in zip(results, recorded, strict=True)
    ]


def pass_fast_rungs(built: Built, connection: Any, ids: list[int]) -> None:
    for position in (SAFETY, CHECKS):
        settle(connection, built, said(built, connection, position, {i: Finding(str(i), Outcome.OK) for i in ids}))


def stand(built: Built, connection: Any, ids: list[int]) -> list[dict[str, Any]]:
    found = [dict(candidate_standings.get(connection, built.row.id, id_)) for id_ in ids]
    return [{name: value for name, value in one.items() if name != "updated_at"} for one in found]


def test_what_is_in_hand_says_what_the_ledger_says(built: Built) -> None:
    with built.ledger.begin() as connection:
        entered = candidates.enter(connection, alkanes(len(ANSWERS)))
        ids = [entered[one.key] for one in alkanes(len(ANSWERS))]
        candidate_standings.add(connection, built.row.id, [{"candidate_id": i, "in_seeds": False} for i in ids])
        pass_fast_rungs(built, connection, ids)
        assert {one["position"] for one in stand(built, connection, ids)} == {XTB}
        directives.write(connection, built.row.id, Verb.HOLD, "me", "not yet", candidate_id=ids[0])
        for position in (XTB, DFT):
            findings = {
                i: Finding(str(i), outcome, measured, reason, detail)
                for i, (outcome, measured, reason, detail) in zip(ids, ANSWERS, strict=True)
            }
            in_hand = said(built, connection, position, findings)
            assert sum(one.recorded is not None for one in in_hand) == len(ANSWERS) - 1
            settle(connection, built, in_hand)
            fast = stand(built, connection, ids)
            settle(connection, built, [one._replace(recorded=None) for one in in_hand])
            assert stand(built, connection, ids) == fast
            for id_, row in list(zip(ids, fast, strict=True))[:-1]:
                if row["position"] >= position:
                    settle_again(connection, built, id_)
            assert stand(built, connection, ids) == fast
    standing = [one["standing"] for one in fast]
    assert {Standing.DROPPED, Standing.SETTLED} <= set(standing)


def test_an_answer_that_stood_already_is_read(built: Built) -> None:
    with built.ledger.begin() as connection:
        entered = candidates.enter(connection, alkanes(1))
        [id_] = entered.values()
        candidate_standings.add(connection, built.row.id, [{"candidate_id": id_, "in_seeds": False}])
        pass_fast_rungs(built, connection, [id_])
        first = said(built, connection, XTB, {id_: Finding("a", Outcome.OK, (gap(5.0),))})
        second = said(built, connection, XTB, {id_: Finding("a", Outcome.OK, (gap(50.0),))})
        assert first[0].recorded is not None and second[0].recorded is None
        settle(connection, built, second)
        [one] = stand(built, connection, [id_])
    assert (one["standing"], one["position"]) == (Standing.OPEN, DFT), "the first answer passes the gate"


def test_replicates_are_judged_by_their_mean(built: Built) -> None:
    """The gate ends at 40 eV: each of two replicates alone would say the other thing."""
    with built.ledger.begin() as connection:
        [(key, id_)] = candidates.enter(connection, alkanes(1)).items()
        candidate_standings.add(connection, built.row.id, [{"candidate_id": id_, "in_seeds": False}])
        pass_fast_rungs(built, connection, [id_])
        rung, [candidate] = built.rungs[XTB], candidates.load(connection, [id_]).values()
        standing = []
        for replicate, value in enumerate((30.0, 60.0, 12.0)):
            host_result = HostResult(Finding(key, Outcome.OK, (gap(value),)), Cost(core_seconds=1), 1.0, {}, ())
            evidence_key = rung.verifier.evidence_key(candidate, replicate=replicate)
            result = DirectResult(rung.verifier, id_, evidence_key, host_result, (), None)
            [recorded] = complete_direct(connection, "me", [result], campaign_id=built.row.id, rung_id=rung.id)
            settle(connection, built, [Settling(id_, rung.rules.position, recorded=recorded)])
            standing += [row["standing"] for row in stand(built, connection, [id_])]
    assert standing == [Standing.OPEN, Standing.DROPPED, Standing.OPEN], "means of 30, 45 and 34 eV"


def test_a_rung_that_was_passed_over_does_not_throw_a_candidate_back(built: Built) -> None:
    """A veto that is taken back leaves it settled by the terminal rung, although no xTB answer is there."""
    with built.ledger.begin() as connection:
        [(key, id_)] = candidates.enter(connection, alkanes(1)).items()
        candidate_standings.add(connection, built.row.id, [{"candidate_id": id_, "in_seeds": False}])
        pass_fast_rungs(built, connection, [id_])
        settle(connection, built, said(built, connection, DFT, {id_: Finding(key, Outcome.OK, (gap(4.3),))}))
        before = stand(built, connection, [id_])
        for verb in (Verb.VETO, Verb.RELEASE):
            directives.write(connection, built.row.id, verb, "me", "a test", candidate_id=id_)
            settle_again(connection, built, id_)
        assert stand(built, connection, [id_]) == before
    assert before[0]["standing"] == Standing.SETTLED
