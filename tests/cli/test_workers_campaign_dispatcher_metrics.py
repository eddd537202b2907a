"""`sciagent worker`: what it has, as it is typed."""

from __future__ import annotations

import pytest

from sciagent.store.database.ledger import Ledger
from tests.support.commands import Typed, typed  # noqa: F401

ON_SQLITE = pytest.mark.parametrize("backend", ["sqlite"], indirect=True)


@ON_SQLITE
@pytest.mark.parametrize(
    ("said", "message"),
    [
        ("gpu", "NAME=N"),
        ("gpu=two", "NAME=N"),
        ("cores=4", "say --cores 4"),
        ("GPU=1", "is no name"),
        ("gpu=0", "1 to"),
    ],
)
def test_a_worker_says_what_it_has_in_few_words(ledger: Ledger, typed: Typed, said: str, message: str) -> None:  # noqa: F811
    assert message in typed.refused("worker", "--resource", said)
