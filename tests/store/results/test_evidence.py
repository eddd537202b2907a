"""Evidence: recorded once, superseded, converted, found again."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import sqlalchemy as sa

from sciagent.domain.evidence_keys_and_pooled_replicates import Computation, Measured
from sciagent.domain.outcomes_verdicts_and_reasons import OUTCOME_RULES, Outcome, Reason
from sciagent.domain.properties_and_levels import Level
from sciagent.domain.quantities import Censoring
from sciagent.errors import EvidenceConflictError, LedgerError, UnitError, UnknownNameError
from sciagent.store.database import tables as t
from sciagent.store.database.ledger import Ledger
from sciagent.store.results import candidates, evidence
from tests.support import rows
from tests.support.rows import LEVEL, SETTINGS, alkanes, gap, new_evidence


@pytest.fixture
def ids(ledger: Ledger) -> list[int]:
    with ledger.begin() as connection:
        return sorted(candidates.enter(connection, alkanes(3)).values())


def count(ledger: Ledger, table: sa.Table = t.evidence) -> int:
    with ledger.read() as connection:
        return int(connection.execute(sa.select(sa.func.count()).select_from(table)).scalar_one())


def reusable(ledger: Ledger, ids: list[int], version: str = "1", settings: str = SETTINGS, replicate: int = 0):
    with ledger.read() as connection:
        return evidence.find_reusable(connection, ids, Computation("toy", version, settings), replicate)


def test_what_was_recorded_is_read_back(ledger: Ledger, ids: list[int]) -> None:
    made = new_evidence(
        ids[0], gap(3.25, uncertainty=0.05, n=3), diagnostics={"cycles": 12}, versions={"engine": "1.2"}
    )
    with ledger.begin() as connection:
        (evidence_id,) = evidence.record(connection, [made])
    with ledger.read() as connection:
        found = rows.recorded(connection, evidence_id)
        assert found == evidence.by_key(connection, made.key.hash)
    assert (found.outcome, found.reason, found.candidate_id, found.watermark) == (Outcome.OK, None, ids[0], 1)
    assert found.measured == made.finding.measured
    with ledger.read() as connection:
        query = sa.select(t.evidence.c.diagnostics, t.evidence.c.versions).where(t.evidence.c.id == evidence_id)
        assert connection.execute(query).one() == ({"cycles": 12}, {"engine": "1.2"})


def test_what_was_recorded_is_told_as_it_will_be_read(ledger: Ledger, ids: list[int]) -> None:
    made = [
        new_evidence(
            ids[0], gap(0.25, "hartree", uncertainty=1, n=3, as_typed="0.25\0"), gap_at(4, censoring=Censoring.BELOW)
        ),
        new_evidence(ids[1], outcome=Outcome.REFUSED, reason=Reason.TOO_LARGE, detail="\0" + "x" * 5000),
        new_evidence(ids[2]),
    ]
    with ledger.begin() as connection:
        told = evidence.record_once(connection, made)
        assert {one.candidate_id: one for one in told if not isinstance(one, int)} == evidence.find_reusable(
            connection, ids, Computation("toy", "1", SETTINGS)
        )
        assert evidence.record_once(connection, made) == [one.id for one in told if not isinstance(one, int)]


def gap_at(value: float, **more: Any) -> Measured:
    """At another level."""
    return replace(gap(value, **more), level=Level("PBE"))


def test_a_second_result_under_one_key_is_refused_and_the_transaction_goes_on(ledger: Ledger, ids: list[int]) -> None:
    with ledger.begin() as connection:
        evidence.record(connection, [new_evidence(ids[0], gap(3.0))])
        with pytest.raises(EvidenceConflictError, match="stands already"):
            evidence.record(connection, [new_evidence(ids[1], gap(1.0)), new_evidence(ids[0], gap(9.0))])
        evidence.record(connection, [new_evidence(ids[2], gap(2.0))])
    assert count(ledger) == count(ledger, t.quantity) == 2  # the refused call left nothing, not even its first row
    with ledger.read() as connection:
        marks = connection.execute(sa.select(t.evidence.c.watermark).order_by(t.evidence.c.id)).scalars().all()
        assert marks == [1, 2] and evidence.read_watermark(connection) == 2


def test_one_call_cannot_give_one_key_twice(ledger: Ledger, ids: list[int]) -> None:
    with pytest.raises(EvidenceConflictError), ledger.begin() as connection:
        evidence.record(connection, [new_evidence(ids[0], gap(1)), new_evidence(ids[0], gap(2))])
    assert count(ledger) == 0


def test_the_first_may_be_kept(ledger: Ledger, ids: list[int]) -> None:
    with ledger.begin() as connection:
        first = evidence.record(connection, [new_evidence(ids[1], gap(3.0))])
        kept = rows.record_or_keep(connection, [new_evidence(i, gap(9.0)) for i in ids])
        assert kept[1] == first[0] and len(set(kept)) == 3
        assert rows.recorded(connection, kept[1]).measured[0].quantity.value == 3.0
        assert rows.record_or_keep(connection, []) == []


def test_a_candidate_that_is_not_there_is_said_to_be_so(ledger: Ledger, ids: list[int]) -> None:
    with pytest.raises(LedgerError, match="not in the ledger") as caught, ledger.begin() as connection:
        evidence.record(connection, [new_evidence(max(ids) + 1, gap())])
    assert not isinstance(caught.value, EvidenceConflictError)


def test_a_revision_supersedes(ledger: Ledger, ids: list[int]) -> None:
    with ledger.begin() as connection:
        (first,) = evidence.record(connection, [new_evidence(ids[0], gap(3.0))])
        revised = new_evidence(ids[0], gap(3.5), revision=1, supersedes=first, why="wrong sample", who="Ada")
        (second,) = evidence.record(connection, [revised])
        current = connection.execute(sa.select(t.current_evidence.c.id)).scalars().all()
        assert current == [second]
        assert rows.recorded(connection, first).measured[0].quantity.value == 3.0
    assert reusable(ledger, ids)[ids[0]].id == second


def test_a_revision_has_one_successor(ledger: Ledger, ids: list[int]) -> None:
    """Else two revisions would both be current."""
    with ledger.begin() as connection:
        (first,) = evidence.record(connection, [new_evidence(ids[0], gap(3.0))])
        evidence.record(connection, [new_evidence(ids[0], gap(3.5), revision=1, supersedes=first)])
        with pytest.raises(EvidenceConflictError, match="has been superseded"):
            evidence.record(connection, [new_evidence(ids[0], gap(4.0), revision=2, supersedes=first)])


def test_a_revision_that_is_not_reusable_hides_what_it_supersedes(ledger: Ledger, ids: list[int]) -> None:
    with ledger.begin() as connection:
        (first,) = evidence.record(connection, [new_evidence(ids[0], gap(3.0))])
        evidence.record(connection, [new_evidence(ids[0], revision=1, supersedes=first, reusable=False)])
    assert reusable(ledger, ids) == {}


def test_values_are_kept_in_canonical_units(ledger: Ledger, ids: list[int]) -> None:
    typed = gap(0.1, "hartree", uncertainty=0.01, as_typed="0.10", censoring=Censoring.BELOW, n=2)
    with ledger.begin() as connection:
        (one,) = evidence.record(connection, [new_evidence(ids[0], typed)])
        q = rows.recorded(connection, one).measured[0].quantity
    assert q.unit == "eV" and q.value == pytest.approx(2.7211386, rel=1e-7)
    assert q.uncertainty == pytest.approx(0.27211386, rel=1e-7)
    assert (q.as_typed, q.censoring, q.n) == ("0.10", Censoring.BELOW, 2)


def test_properties_and_levels_stand_once(ledger: Ledger, ids: list[int]) -> None:
    other = Level("GFN2-xTB")
    with ledger.begin() as connection:
        for i in ids:
            evidence.record(connection, [new_evidence(i, gap(1), type(gap())("homo_lumo_gap", other, gap().quantity))])
    assert (count(ledger, t.property_), count(ledger, t.level), count(ledger, t.quantity)) == (1, 2, 6)


@pytest.mark.parametrize("outcome", [o for o in Outcome if not OUTCOME_RULES[o].is_evidence])
def test_what_is_no_evidence_is_refused(ledger: Ledger, ids: list[int], outcome: Outcome) -> None:
    with pytest.raises(LedgerError, match="no evidence"), ledger.begin() as connection:
        evidence.record(connection, [new_evidence(ids[0], outcome=outcome, reason=Reason.SIGNAL)])


@pytest.mark.parametrize(
    ("measured", "error"),
    [
        ((gap(), gap(4.0)), LedgerError),
        ((gap(1, "kJ"),), UnitError),
        ((type(gap())("colour", LEVEL, gap().quantity),), UnknownNameError),
    ],
    ids=["a property twice at one level", "a foreign unit", "an unregistered property"],
)
def test_values_that_mean_nothing_are_refused_before_anything_is_written(
    ledger: Ledger, ids: list[int], measured: tuple, error: type[Exception]
) -> None:
    with ledger.begin() as connection:
        with pytest.raises(error):
            evidence.record(connection, [new_evidence(ids[0], gap()), new_evidence(ids[1], *measured)])
        assert evidence.read_watermark(connection) == 0


def test_text_that_engines_print_is_storable(ledger: Ledger, ids: list[int]) -> None:
    """PostgreSQL refuses null characters, lone surrogates and NaN in JSON; SQLite takes them."""
    odd = {"stderr": "a\0b\ud800", "residual": float("nan"), "steps": [1, float("inf")], "k\0": None}
    with ledger.begin() as connection:
        (one,) = evidence.record(connection, [new_evidence(ids[0], detail="core\0dumped \udcff", diagnostics=odd)])
        found = rows.recorded(connection, one)
        kept = connection.execute(sa.select(t.evidence.c.diagnostics)).scalar_one()
    assert found.detail == "core\N{REPLACEMENT CHARACTER}dumped \N{REPLACEMENT CHARACTER}"
    assert kept["stderr"] == "a\N{REPLACEMENT CHARACTER}b\N{REPLACEMENT CHARACTER}"
    assert kept["residual"] == "nan" and kept["steps"] == [1, "inf"]


def test_reuse_asks_for_the_same_to_the_letter(ledger: Ledger, ids: list[int]) -> None:
    a, b, c = ids
    refused = {"outcome": Outcome.REFUSED, "reason": Reason.ELEMENT}
    with ledger.begin() as connection:
        evidence.record(
            connection,
            [
                new_evidence(a, gap(1)),
                new_evidence(a, gap(2), replicate=1),
                new_evidence(a, gap(3), verifier_version="2"),
                new_evidence(a, gap(4), settings_hash="6" * 64),
                new_evidence(a, gap(5), verifier="other"),
                new_evidence(b, gap(6), reusable=False),
                new_evidence(c, **refused),
            ],
        )
    value = {k: [m.quantity.value for m in v.measured] for k, v in reusable(ledger, ids).items()}
    assert value == {a: [1.0], c: []}
    assert reusable(ledger, ids)[c].reason is Reason.ELEMENT
    assert reusable(ledger, ids, replicate=1)[a].measured[0].quantity.value == 2.0
    assert reusable(ledger, ids, version="2")[a].measured[0].quantity.value == 3.0
    assert reusable(ledger, ids, settings="6" * 64)[a].measured[0].quantity.value == 4.0
    assert reusable(ledger, ids, version="3") == reusable(ledger, []) == {}


def test_more_candidates_than_a_statement_has_parameters(ledger: Ledger, ids: list[int]) -> None:
    with ledger.begin() as connection:
        evidence.record(connection, [new_evidence(ids[0], gap(1))])
    assert list(reusable(ledger, list(range(1, 70_000)))) == [ids[0]]


def test_a_thousand_at_once_keep_their_order(ledger: Ledger, ids: list[int]) -> None:
    made = [new_evidence(ids[i % 3], gap(float(i)), replicate=i) for i in range(1200)]
    with ledger.begin() as connection:
        found = evidence.record(connection, made)
        values = [rows.recorded(connection, found[i]).measured[0].quantity.value for i in (0, 499, 500, 1199)]
        marks = connection.execute(sa.select(t.evidence.c.watermark).order_by(t.evidence.c.id)).scalars().all()
    assert values == [0.0, 499.0, 500.0, 1199.0] and marks == list(range(1, 1201))


def test_the_kind_of_an_uncertainty_is_read_with_the_value(ledger: Ledger, ids: list[int]) -> None:
    """As it is recorded, when it is reused, and from its key; an exact value has no kind."""
    stated = {"uncertainty_kind": {"homo_lumo_gap": "molecule"}}
    made = [
        new_evidence(ids[0], gap(3.25, uncertainty=0.05), diagnostics=stated),
        new_evidence(ids[1], gap(3.25, uncertainty=0.0), diagnostics=stated),
    ]
    with ledger.begin() as connection:
        told = evidence.record_once(connection, made)
    with ledger.read() as connection:
        keyed = [evidence.by_key(connection, new.key.hash) for new in made]
    found = reusable(ledger, ids)
    for several in (told, keyed, [found[ids[0]], found[ids[1]]]):
        assert [each.measured[0].quantity.uncertainty_kind for each in several] == ["molecule", None]
