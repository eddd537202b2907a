"""The votes of a language model: the prompt that asks for one, reading them from answers, combining them into a score.

The prompt contains the rubric and a computed description of the molecule. It contains no name, rationale or note that a
model or a user wrote about the molecule, so no such text can ask for a grade. An invalid answer is an error. It never
counts as a grade, not even as 0.
"""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sciagent.agent.messages import Message
from sciagent.chemistry.molecule import Molecule
from sciagent.domain.quantities import Quantity
from sciagent_verifiers.fast.descriptors import functions
from sciagent_verifiers.simulation.rubric import Criterion, Rubric

LONGEST = 40_000  # characters; a longer answer is invalid
LONGEST_REASON = 1000
REASON = 200  # characters; the longest reason that the prompt asks for

SYSTEM = (
    "You grade one molecule by a rubric. Judge from its structure and the figures given, criterion by criterion and "
    "each for itself. Answer with one JSON object and nothing else: for every criterion first a reason in one short "
    f"sentence of at most {REASON} characters, then a grade, a whole number of that criterion's scale."
)
FIGURES = {
    "molecular_weight": ("molecular weight", "{:.1f} g/mol"),
    "net_charge": ("net charge", "{:.0f}"),
    "logp": ("logP (Crippen)", "{:.2f}"),
    "tpsa": ("polar surface", "{:.0f} square angstrom"),
    "hydrogen_bond_donors": ("hydrogen-bond donors", "{:.0f}"),
    "hydrogen_bond_acceptors": ("hydrogen-bond acceptors", "{:.0f}"),
    "rotatable_bonds": ("rotatable bonds", "{:.0f}"),
    "rings": ("rings", "{:.0f}"),
    "aromatic_rings": ("aromatic rings", "{:.0f}"),
    "stereocentres": ("stereocentres", "{:.0f}"),
    "fraction_sp3": ("sp3 carbons per carbon", "{:.2f}"),
    "sa_score": ("synthetic accessibility, 1 easy to 10 hard", "{:.1f}"),
}


def described(molecule: Molecule) -> str:
    """Returns a description of the molecule in lines, all computed from its structure."""
    lines = [f"SMILES: {molecule.smiles}", f"formula: {molecule.formula}"]
    if molecule.multiplicity != 1:
        lines.append(f"spin multiplicity: {molecule.multiplicity}")
    values = functions()
    lines += [f"{words}: {form.format(values[name](molecule.mol))}" for name, (words, form) in FIGURES.items()]
    return "\n".join(lines)


def messages(rubric: Rubric, order: Sequence[Criterion], description: str) -> tuple[Message, Message]:
    """Returns the system and user message, with the criteria in this order."""
    parts = [f"What it is for: {rubric.goal}"] if rubric.goal else []
    parts += [f"The molecule:\n{description}", "The criteria:"]
    for criterion in order:
        scale = "\n".join(f"  {grade}: {meaning}" for grade, meaning in criterion.scale.items())
        parts.append(f"{criterion.name}: {criterion.question}\n{scale}")
    form = ", ".join(f'"{criterion.name}": {{"reason": "…", "grade": N}}' for criterion in order)
    parts.append(f"The form of the answer, where each N is a whole number of that scale:\n{{{form}}}")
    return Message("system", SYSTEM), Message("user", "\n\n".join(parts))


def schema(order: Sequence[Criterion]) -> dict[str, Any]:
    """Returns the JSON schema of an answer. The reason precedes the grade, so that the grade can follow from it."""
    answers = {
        criterion.name: {
            "type": "object",
            "properties": {
                "reason": {"type": "string", "maxLength": REASON},
                "grade": {"type": "integer", "enum": list(criterion.scale)},
            },
            "required": ["reason", "grade"],
            "additionalProperties": False,
        }
        for criterion in order
    }
    return {"type": "object", "properties": answers, "required": list(answers), "additionalProperties": False}


class BadVoteError(ValueError):
    """An answer does not have the required form."""


@dataclass(frozen=True)
class Vote:
    """The grade and the reason for each criterion, by its name."""

    grades: Mapping[str, int]
    reasons: Mapping[str, str]


def read_vote(text: str, rubric: Rubric) -> Vote:
    """Returns the vote in an answer: a JSON object with a reason and a grade for every criterion, and nothing else.

    Raises BadVoteError."""
    answers = _read_object(text)
    names = {criterion.name for criterion in rubric.criteria}
    if missing := sorted(names - answers.keys()):
        raise BadVoteError(f"no answer to {', '.join(missing)}")
    if len(answers) > len(names):
        raise BadVoteError("answers to what was not asked")
    grades, reasons = {}, {}
    for criterion in rubric.criteria:
        answer = answers[criterion.name]
        if not isinstance(answer, dict) or set(answer) != {"reason", "grade"}:
            raise BadVoteError(f"{criterion.name}: not a reason and a grade")
        grade, reason = answer["grade"], answer["reason"]
        if type(grade) is not int or grade not in criterion.scale:
            raise BadVoteError(f"{criterion.name}: the grade is not a whole number from 0 to {criterion.top}")
        if not isinstance(reason, str) or len(reason) > LONGEST_REASON:
            raise BadVoteError(f"{criterion.name}: the reason is not a text of at most {LONGEST_REASON} characters")
        grades[criterion.name], reasons[criterion.name] = grade, reason
    return Vote(grades, reasons)


def _read_object(text: str) -> Mapping[str, Any]:
    if len(text) > LONGEST:
        raise BadVoteError(f"{len(text)} characters; at most {LONGEST}")
    try:
        answers = json.loads(text, object_pairs_hook=_once)
    except RecursionError:
        raise BadVoteError("nested too deeply") from None
    except BadVoteError:
        raise
    except ValueError as error:  # a number of thousands of digits raises another error than bad JSON
        raise BadVoteError(f"not one JSON object: {error}"[:200]) from None
    if not isinstance(answers, dict):
        raise BadVoteError("not a JSON object")
    return answers


def _once(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    unique = dict(pairs)
    if len(unique) < len(pairs):
        raise BadVoteError("one key given twice")
    return unique


def score(rubric: Rubric, votes: Sequence[Vote]) -> Quantity:
    """Returns the mean over votes of (sum_c w_c g_c / t_c) / sum_c w_c, where g_c is the grade and t_c the highest one.

    The uncertainty is sd / sqrt(n) between votes, but at least that of rounding to whole grades: 1 / (t_c sqrt 12) for
    each criterion, weighted and added in quadrature. votes: at least two.
    """
    shares = {
        criterion.name: criterion.weight / sum(c.weight for c in rubric.criteria) for criterion in rubric.criteria
    }
    whole = [sum(shares[c.name] * vote.grades[c.name] / c.top for c in rubric.criteria) for vote in votes]
    floor = math.sqrt(sum((shares[c.name] / c.top) ** 2 for c in rubric.criteria) / 12)
    return _mean(whole, floor)


def margin(rubric: Rubric, votes: Sequence[Vote]) -> Quantity | None:
    """Returns the smallest (mean grade - gate) / highest grade over the gated criteria, or None without gates.

    A negative margin means that a gate is missed."""
    margins = [
        _mean(
            [(vote.grades[criterion.name] - criterion.gate) / criterion.top for vote in votes],
            1 / (criterion.top * math.sqrt(12)),
        )
        for criterion in rubric.gated
        if criterion.gate is not None
    ]
    return min(margins, key=lambda estimate: estimate.value, default=None)


def _mean(values: Sequence[float], floor: float) -> Quantity:
    spread = statistics.stdev(values) / math.sqrt(len(values))
    return Quantity(statistics.fmean(values), "1", max(spread, floor), n=len(values))
