"""Which hazard rules a molecule matches. Elements are counted first, so that most rules cost nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from sciagent_verifiers.fast.hazards.drawing import Drawing
from sciagent_verifiers.fast.hazards.rule import GROUPS, Alert, Rule, Substance
from sciagent_verifiers.fast.hazards.rules import RULES, SUBSTANCES


@dataclass(frozen=True)
class Compiled:
    """A rule with its patterns parsed."""

    rule: Rule
    needs: tuple[tuple[str, int], ...]
    """(element, how many atoms), rarest element first."""
    patterns: tuple[Any, ...]
    without: tuple[Any, ...]

    def matches(self, drawing: Drawing) -> bool:
        rule, mol, counts = self.rule, drawing.mol, drawing.counts
        for symbol, n in self.needs:
            if counts.get(symbol, 0) < n:
                return False
        if rule.max_heavy is not None and drawing.heavy > rule.max_heavy:
            return False
        if rule.first and not drawing.has(rule.first):
            return False
        for pattern in self.patterns:
            if rule.at_least > 1:
                if len(mol.GetSubstructMatches(pattern)) >= rule.at_least:
                    break
            elif mol.HasSubstructMatch(pattern):
                break
        else:
            return False
        if any(mol.HasSubstructMatch(pattern) for pattern in self.without):
            return False
        return rule.test is None or rule.test(drawing)


def rule_names() -> tuple[str, ...]:
    """The names of all rules, sorted."""
    return tuple(sorted({rule.name for rule in RULES} | {substance.name for substance in SUBSTANCES}))


@cache
def _by_element() -> dict[str, tuple[Compiled, ...]]:
    """{rarest element that a rule needs: rules}; the key is an empty string for rules that need none."""
    by_element: dict[str, tuple[Compiled, ...]] = {}
    for rule in map(compiled, RULES):
        element = rule.needs[0][0] if rule.needs else ""
        by_element[element] = (*by_element.get(element, ()), rule)
    return by_element


@cache
def _by_formula() -> dict[str, tuple[Substance, ...]]:
    formulas = {substance.formula for substance in SUBSTANCES}
    return {formula: tuple(s for s in SUBSTANCES if s.formula == formula) for formula in formulas}


def compiled(rule: Rule) -> Compiled:
    """The rule with its patterns parsed. Raises ValueError for a pattern that is no SMARTS."""
    needs = tuple(sorted(rule.needs.items(), key=lambda need: need[0] in ("C", "N", "O")))  # rare elements first
    return Compiled(rule, needs, _patterns(rule.smarts), _patterns(rule.without))


def _patterns(smarts: Sequence[str]) -> tuple[Any, ...]:
    from rdkit import Chem

    from sciagent.chemistry.rdkit_log import rdkit_messages

    made = []
    for text in smarts:
        with rdkit_messages():
            pattern = Chem.MolFromSmarts(text) if text.strip() else None
        if pattern is None:
            raise ValueError(f'"{text}" is not a SMARTS pattern')
        made.append(pattern)
    return tuple(made)


def screen(mol: Any, more: Sequence[Compiled] = ()) -> tuple[Alert, ...]:
    """Every rule that an RDKit molecule matches, gravest group first; empty where none does.

    more: rules beyond those that ship, from `compiled`. Fragments are screened together.
    """
    drawing = Drawing(mol)
    rules = [rule for element in ("", *drawing.counts) for rule in _by_element().get(element, ())]
    alerts = {rule.rule.name: _alert(rule.rule) for rule in (*rules, *more) if rule.matches(drawing)}
    for substance in _whole(drawing):
        alerts[substance.name] = _alert(substance)
    return tuple(sorted(alerts.values(), key=lambda alert: GROUPS.index(alert.group)))


def _whole(drawing: Drawing) -> list[Substance]:
    """Substances that are the molecule, or a fragment of it."""
    from rdkit import Chem

    substances = []
    single = len(Chem.GetMolFrags(drawing.mol)) == 1
    for part in (drawing,) if single else map(Drawing, Chem.GetMolFrags(drawing.mol, asMols=True)):
        named = _by_formula().get(part.formula, ())
        substances += [substance for substance in named if substance.key == part.key]
    return substances


def _alert(rule: Rule | Substance) -> Alert:
    return Alert(rule.name, rule.group, rule.reason, rule.source)
