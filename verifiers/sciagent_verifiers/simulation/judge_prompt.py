"""The prompt of a language model judge, and the JSON schema of its answer.

The prompt contains the rubric and a computed description of the molecule. It contains no name, rationale or note that a
model or a user wrote about the molecule, so no such text can ask for a grade.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sciagent.agent.messages import Message
from sciagent.chemistry.molecule import Molecule
from sciagent_verifiers.fast.descriptors import functions
from sciagent_verifiers.simulation.rubric import Criterion, Rubric

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
