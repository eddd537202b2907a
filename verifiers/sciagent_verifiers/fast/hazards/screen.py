"""The search for hazard rules that a molecule matches. Elements are counted first, which excludes most rules."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from sciagent_verifiers.fast.hazards.normalised_molecule import Drawing
from sciagent_verifiers.fast.hazards.rule import GROUPS, Hazard, Rule, Substance
from sciagent_verifiers.fast.hazards.rules import RULES, SUBSTANCES


def rule_names() -> tuple[str, ...]:
    """Returns the sorted names of all rules."""
    return tuple(sorted({rule.name for rule in (*RULES, *SUBSTANCES)}))


@cache
def _by_element() -> dict[str, list[Rule]]:
    """Returns {rarest element that a rule needs: rules}; the key is empty for rules that need no element."""
    by_element: dict[str, list[Rule]] = {}
    for rule in RULES:
        by_element.setdefault(rule.rarest_first[0][0] if rule.needs else "", []).append(rule)
    return by_element


@cache
def _by_formula() -> dict[str, list[Substance]]:
    by_formula: dict[str, list[Substance]] = {}
    for substance in SUBSTANCES:
        by_formula.setdefault(substance.formula, []).append(substance)
    return by_formula


def screen(mol: Any, more: Sequence[Rule] = ()) -> tuple[Hazard, ...]:
    """Returns every rule that an RDKit molecule matches, gravest group first.

    more: rules besides those that ship. Fragments are screened together.
    """
    drawing = Drawing(mol)
    rules = [rule for element in ("", *drawing.counts) for rule in _by_element().get(element, ())]
    alerts: dict[str, Hazard] = {rule.name: rule for rule in (*rules, *more) if rule.matches(drawing)}
    alerts |= {substance.name: substance for substance in _whole(drawing)}
    return tuple(sorted(alerts.values(), key=lambda alert: GROUPS.index(alert.group)))


def _whole(drawing: Drawing) -> list[Substance]:
    """Returns the substances that are identical with the molecule or one of its fragments."""
    from rdkit import Chem

    substances = []
    single = len(Chem.GetMolFrags(drawing.mol)) == 1
    for part in (drawing,) if single else map(Drawing, Chem.GetMolFrags(drawing.mol, asMols=True)):
        named = _by_formula().get(part.formula, ())
        substances += [substance for substance in named if substance.key == part.key]
    return substances
