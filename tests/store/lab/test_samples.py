"""Samples: what a person writes about a vial fits its columns on both databases."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sciagent.errors import UsageError
from sciagent.store.lab import samples, tasks
from sciagent.store.lab.samples import NewSample
from tests.lab import conftest as lab
from tests.lab.test_record_answers import task_ids

make = lab.make


def test_the_longest_texts_are_kept_and_longer_ones_refused(make: lab.Make) -> None:
    built = make()
    with built.ledger.begin() as connection:
        task = tasks.find(connection, task_ids(built)[0])
        assert task is not None
        about = {"lot": "l" * 100, "purity_how": "h" * 200, "place": "p" * 200}
        new = NewSample(task.candidate_id, task.id, "f" * 200, "made", "anna", **about)  # type: ignore[arg-type]
        samples.check_lengths(new)
        kept = samples.register(connection, new)
        assert (kept.form, kept.lot, kept.place) == (new.form, new.lot, new.place)
        assert samples.find(connection, kept.code) == kept
        with pytest.raises(UsageError, match="the batch has 900,000 characters; 100 are the most"):
            samples.check_lengths(replace(new, lot="l" * 900_000))
        with pytest.raises(UsageError, match="the place has 201 characters; 200 are the most"):
            samples.check_lengths(replace(new, place="p" * 201))
