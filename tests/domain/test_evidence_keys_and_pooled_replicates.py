"""Evidence keys are in ledgers: they must never change."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sciagent.domain.candidate_and_its_names_in_files import candidate_key
from sciagent.domain.evidence_keys_and_pooled_replicates import EvidenceKey, Finding, canonical_json, content_hash
from sciagent.domain.outcomes_verdicts_and_reasons import Outcome, Reason

KEY = EvidenceKey("c" * 64, "xtb.singlepoint", "1", "5" * 64)


def test_the_hash_is_pinned() -> None:
    assert KEY.hash == "a58ddafc5dad7456b17259037e7db18201bae9802220e546e834e19be69ee015"
    assert KEY.seed == 630053628
    assert (
        content_hash({"b": [1, 2.5, None, True], "a": "é"})
        == "0c187fb652afca8017b5ef38178eeef09a9dfef844316f80ba4207cdf1995ee5"
    )
    assert (
        candidate_key("molecule", "InChI=1/CH4/h1H4", 0, 1)
        == "a8254e8661ca8bac241f045efbd4cf96873d4bfd5cbfde3385e656409b7363ee"
    )


@pytest.mark.parametrize(
    "other",
    [
        {"subject": "d" * 64},
        {"verifier": "pyscf.scf"},
        {"verifier_version": "2"},
        {"settings_hash": "6" * 64},
        {"inputs_hash": "x"},
        {"replicate": 1},
        {"revision": 1},
    ],
    ids=str,
)
def test_every_part_counts(other: dict) -> None:
    assert replace(KEY, **other).hash != KEY.hash


def test_parts_cannot_run_into_each_other() -> None:
    assert (
        replace(KEY, verifier="a", verifier_version="b1").hash != replace(KEY, verifier="ab", verifier_version="1").hash
    )


def test_a_seed_fits_31_bits_and_differs_by_replicate() -> None:
    seeds = {replace(KEY, replicate=i).seed for i in range(100)}
    assert len(seeds) == 100 and all(0 <= s < 2**31 for s in seeds)


def test_canonical_json_is_one_text() -> None:
    assert (
        canonical_json({"b": 1, "a": [1.0, "é"]})
        == canonical_json({"a": [1.0, "é"], "b": 1})
        == '{"a":[1.0,"é"],"b":1}'
    )
    for bad in (float("nan"), float("inf")):
        with pytest.raises(ValueError):
            canonical_json([bad])


def test_every_outcome_but_ok_names_its_reason() -> None:
    Finding("c", Outcome.OK)
    Finding("c", Outcome.REFUSED, reason=Reason.ELEMENT)
    with pytest.raises(ValueError, match="names its reason"):
        Finding("c", Outcome.CRASHED)
    with pytest.raises(ValueError, match="names its reason"):
        Finding("c", Outcome.OK, reason=Reason.ELEMENT)


def test_charge_and_multiplicity_are_part_of_a_candidate() -> None:
    keys = {candidate_key(k, "x", q, m) for k in ("molecule", "crystal") for q in (0, 1, -1) for m in (1, 3)}
    assert len(keys) == 12 and all(len(k) == 64 for k in keys)
