"""What a function may return, and what its parameters may be; in this process, without a sandbox."""

from __future__ import annotations

import math
from typing import Any

import cloudpickle
import pytest

import sciagent
from sciagent.chemistry.molecule import Molecule, parse_molecule
from sciagent.domain.outcomes_verdicts_and_reasons import Outcome, Reason
from sciagent.errors import UsageError
from sciagent.verification.function_verifiers import VerifierFunction, code_of, restore
from sciagent.verification.verifier_contract import Refusal
from tests.support.plugins import register_again

ANSWERS: dict[str, Any] = {
    "number": 3,
    "pair": (3, 0.5),
    "pair without uncertainty": (3.0, None),
    "by property": {"fn_answer": (3, 0.5)},
    "refusal": Refusal(Reason.TOO_LARGE, "too many atoms"),
    "not finite": math.inf,
    "three numbers": (1, 2, 3),
    "another property": {"fn_other": 1},
    "nothing": None,
}


@sciagent.verifier(measures="fn_answer", unit="Da")
def answering(molecule: Any, what: str = "number") -> Any:
    """Gives one of the answers above."""
    return ANSWERS[what]


@sciagent.verifier(measures={"fn_first": "Da", "fn_second": "eV"})
def two(molecule: Any) -> Any:
    """Gives one number for two properties."""
    return 1.0


@pytest.fixture(autouse=True)
def registered() -> None:
    """The properties of this module's functions, where another test has had all properties read anew."""
    register_again()


@pytest.fixture(scope="module")
def benzene() -> Molecule:
    return parse_molecule("c1ccccc1")


def finding(function: VerifierFunction, molecule: Molecule, **settings: Any) -> Any:
    context: Any = None
    [found] = function.kind(settings).verify((molecule,), context)
    return found


@pytest.mark.parametrize(
    ("what", "uncertainty"), [("number", None), ("pair", 0.5), ("pair without uncertainty", None), ("by property", 0.5)]
)
def test_a_number_has_the_uncertainty_that_was_returned(
    what: str, uncertainty: float | None, benzene: Molecule
) -> None:
    found = finding(answering, benzene, what=what)
    assert found.outcome is Outcome.OK
    [measured] = found.measured
    assert (measured.property, measured.quantity.value) == ("fn_answer", 3.0)
    assert (measured.quantity.unit, measured.quantity.uncertainty) == ("Da", uncertainty)
    assert measured.level.method == "answering"


def test_refusals_and_numbers_that_are_not_finite_are_outcomes(benzene: Molecule) -> None:
    refused = finding(answering, benzene, what="refusal")
    assert (refused.outcome, refused.reason, refused.detail) == (Outcome.REFUSED, Reason.TOO_LARGE, "too many atoms")
    infinite = finding(answering, benzene, what="not finite")
    assert (infinite.outcome, infinite.reason) == (Outcome.IMPLAUSIBLE, Reason.NOT_FINITE)
    assert infinite.detail == "fn_answer is inf"


@pytest.mark.parametrize(
    ("what", "error", "message"),
    [
        ("three numbers", TypeError, "it returned 3 numbers"),
        ("another property", ValueError, "it returned 'fn_other', and measures fn_answer"),
        ("nothing", TypeError, "it returned nothing"),
    ],
)
def test_other_answers_are_mistakes(what: str, error: type[Exception], message: str, benzene: Molecule) -> None:
    with pytest.raises(error, match=message):
        finding(answering, benzene, what=what)


def test_one_number_for_two_properties_is_a_mistake(benzene: Molecule) -> None:
    with pytest.raises(TypeError):
        finding(two, benzene)


def test_every_parameter_needs_a_name() -> None:
    def with_any(molecule: Any, **settings: Any) -> float:
        return 1.0

    with pytest.raises(UsageError, match="name every parameter"):
        sciagent.verifier(measures="fn_answer", unit="Da", name="with_any")(with_any)


@pytest.mark.parametrize(
    ("one", "other"),
    [([1, 2], [1, 3]), ({"a": 1, "b": 2}, {"a": 1, "b": 3}), ({1, 2}, {1, 3}), ({"a": [1]}, {"a": [2]})],
)
def test_what_a_collection_in_a_closure_holds_counts(one: Any, other: Any) -> None:
    def using(values: Any) -> Any:
        return lambda molecule: len(values)

    assert code_of(using(one), "here") == code_of(using(one), "here") != code_of(using(other), "here")
    assert code_of(using({"b": 2, "a": 1}), "here") == code_of(using({"a": 1, "b": 2}), "here"), (
        "the order does not count"
    )


def test_a_function_without_a_source_counts_by_its_bytecode() -> None:
    made = []
    for body in ("return 1.0", "return 1.0", "return 2.0"):
        names: dict[str, Any] = {}
        exec(f"def guess(molecule):\n    {body}\n", names)  # as a notebook may do
        made.append(code_of(names["guess"], "here"))
    assert made[0] == made[1] != made[2]


def test_a_pickle_defines_the_verifier_again(benzene: Molecule) -> None:
    definition = answering.definition
    restore(cloudpickle.dumps(([], cloudpickle.dumps(definition))))
    assert finding(answering, benzene).outcome is Outcome.OK
