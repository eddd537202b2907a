"""What evidence says as a text: any change changes it, and both databases give back the same text."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import assume, given
from hypothesis import strategies as st

from sciagent.domain.evidence_keys_and_pooled_replicates import isomer_to_diagnostics
from sciagent.domain.quantities import Censoring, ComputedIsomer
from sciagent.errors import LedgerError
from sciagent.store.database import tables as t
from sciagent.store.database.ledger import Ledger
from sciagent.store.results import evidence, evidence_seals
from sciagent.store.results.evidence_seals import EvidenceContent, SealedQuantity
from tests.support import rows

ISOMER = ComputedIsomer("C/C=C/C", "E", 2, 2)
QUANTITY = SealedQuantity("homo_lumo_gap", "a" * 64, 3.1, "eV", 0.2, "none", 1, None)
CONTENT = EvidenceContent(
    "b" * 64, 0, "", "ok", None, "computed", "sciagent", {"uncertainty_kind": {"homo_lumo_gap": "molecule"}},
    [QUANTITY], {}, [("log", "c" * 64)],
)  # fmt: skip
FINITE = st.floats(allow_nan=False, allow_infinity=False)
OTHER_CONTENT: dict[str, Any] = {
    "key": "d" * 64,
    "revision": 1,
    "superseded": "9" * 64,
    "outcome": "failed",
    "reason": "no_convergence",
    "source": "old.csv",
    "who": "eve",
    "diagnostics": isomer_to_diagnostics(ISOMER),
    "quantities": [],
    "unobtained": {"melting_point": "decomposed"},
    "artifacts": [("log", "e" * 64)],
}
OTHER_QUANTITY: dict[str, Any] = {
    "name": "homo",
    "level": "f" * 64,
    "value": 3.1000000000000005,
    "unit": "hartree",
    "uncertainty": None,
    "censoring": "below",
    "n": 2,
    "as_typed": "3.1 eV",
}


@pytest.mark.parametrize("name", [field.name for field in fields(EvidenceContent)])
def test_each_field_of_evidence_is_in_the_text(name: str) -> None:
    assert replace(CONTENT, **{name: OTHER_CONTENT[name]}).text != CONTENT.text


@pytest.mark.parametrize("name", [field.name for field in fields(SealedQuantity)])
def test_each_field_of_a_quantity_is_in_the_text(name: str) -> None:
    changed = replace(QUANTITY, **{name: OTHER_QUANTITY[name]})
    assert replace(CONTENT, quantities=[changed]).text != CONTENT.text


@given(st.lists(st.text(max_size=8), min_size=4, max_size=4), st.lists(st.text(max_size=8), min_size=4, max_size=4))
def test_no_two_contents_have_one_text(parts: list[str], others: list[str]) -> None:
    """Borders between texts cannot be moved: `ab`, `c` is not `a`, `bc`."""
    assume(parts != others)
    contents = []
    for source, who, name, sha256 in (parts, others):
        contents.append(replace(CONTENT, source=source, who=who, artifacts=[(name, sha256)]))
    assert contents[0].text != contents[1].text


@given(FINITE, FINITE)
def test_two_numbers_have_one_text_only_if_they_are_equal(one: float, other: float) -> None:
    texts = [replace(CONTENT, quantities=[replace(QUANTITY, value=value)]).text for value in (one, other)]
    assert (texts[0] == texts[1]) == (one == other)


def test_both_databases_give_back_what_was_sealed(ledger: Ledger) -> None:
    """The numbers are those that a database may change: a negative zero, the smallest and the largest double, a whole
    number, one with 17 digits."""
    numbers = (-0.0, 5e-324, 1.7976931348623157e308, 3.0, 0.1 + 0.2, -1e-7, 123456789012345680.0)
    with ledger.begin() as connection:
        row = rows.campaign(connection)
        ids = rows.entered(connection, row, len(numbers))
        new = []
        for id_, number in zip(ids, numbers, strict=True):
            gap = rows.gap(number, uncertainty=abs(number) / 7, censoring=Censoring.ABOVE, n=3)
            diagnostics = {"uncertainty_kind": {"homo_lumo_gap": "class"}, **isomer_to_diagnostics(ISOMER), "µ": 1e5}
            artifacts = (("ä\x00.log", "a" * 64, 4, "text/plain"), ("b.log", "b" * 64, 4, "text/plain"))
            new.append(rows.new_evidence(id_, gap, diagnostics=diagnostics, artifacts=artifacts, who="Zoë\x00"))
        evidence.record(connection, new)
    with ledger.read() as connection:
        read = evidence_seals.evidence_after(connection, 0)
    keys = ledger.secret.keys()
    assert len(read) == len(numbers)
    assert [evidence_seals.fault_of_seal(each, keys) for each in read] == [None] * len(numbers)


def test_evidence_with_another_seal_or_none_is_not_used_again(ledger: Ledger) -> None:
    with ledger.begin() as connection:
        ids = rows.entered(connection, rows.campaign(connection), 3)
        made = evidence.record(connection, [rows.new_evidence(id_, rows.gap()) for id_ in ids])
        evidence_seals.refuse_forged(connection, made)
        seals = connection.execute(sa.select(t.evidence.c.seal).order_by(t.evidence.c.id)).scalars().all()
        columns = [
            column.name for column in t.evidence.columns if column.name not in ("id", "key", "watermark", "seal")
        ]
        copied = sa.select(
            *(t.evidence.c[name] for name in columns), sa.literal("f" * 64), sa.literal(99), sa.bindparam("s")
        )
        insert = sa.insert(t.evidence).from_select(
            [*columns, "key", "watermark", "seal"], copied.where(t.evidence.c.id == made[0])
        )
        for seal, fault in ((seals[0], "does not fit"), (None, "no seal")):
            with connection.begin_nested() as attempt:
                connection.execute(insert, {"s": seal})
                forged = connection.execute(sa.select(sa.func.max(t.evidence.c.id))).scalar_one()
                with pytest.raises(LedgerError, match=fault):
                    evidence_seals.refuse_forged(connection, [*made, forged])
                attempt.rollback()
