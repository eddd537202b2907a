"""The tables of hazards, classes of structures (`rules.csv`) and whole structures (`substances.csv`), and their search.

- Chemical weapons: each class is at least as wide as the schedule's wording; chains of any length match, without the
  schedule's limit of ten carbons. Compounds that a schedule exempts by name pass. Source: Organisation for the
  Prohibition of Chemical Weapons, Annex on Chemicals, as amended in 2020
  (https://www.opcw.org/chemical-weapons-convention/annexes).
- Explosives: polynitro compounds, nitrate esters, azides, peroxides, diazonium, chains of nitrogen.
- Acute hazards: GHS acute toxicity category 1 or 2 (H300, H310, H330), spontaneous ignition (H250), and classes that
  are known for these. Ordinary toxic reagents (categories 3 and 4) pass.

In `rules.csv` a space separates several patterns, and `P1 F1` in `needs` means one phosphorus and one fluorine atom.
`substances.csv` has only the first block of each standard InChIKey, and the heavy atoms, which are compared before it.
Elements are counted first, which excludes most rules.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from sciagent.domain.outcomes import Reason
from sciagent_verifiers.fast.hazards.explosives import CONDITIONS, NITRO
from sciagent_verifiers.fast.hazards.normalised_molecule import Drawing
from sciagent_verifiers.fast.hazards.rule import GROUPS, Hazard, Rule, Substance

FRAGMENTS = {
    "NITRO": NITRO,
    "OXO": "$([#15]~[#8X1,#16X1,#34X1])",  # phosphoryl, also drawn with charges, also with sulfur or selenium
    "SMALL": "$([CH3]),$([CH2][CH3]),$([CH2][CH2][CH3]),$([CH]([CH3])[CH3])",  # methyl, ethyl, the propyls
    "AMINE": "[#7;!$([#7]~[#6]=[#8,#16]);!$([#7](=*))]",
}
"""Abbreviations of pattern fragments in the table."""


def _rows(name: str) -> Iterator[Mapping[str, str]]:
    with (Path(__file__).parent / name).open(encoding="utf-8", newline="") as table:
        yield from csv.DictReader(table)


def _rule(row: Mapping[str, str]) -> Rule:
    return Rule(
        row["name"],
        Reason(row["group"]),
        row["reason"],
        row["source"],
        tuple(row["smarts"].format(**FRAGMENTS).split()),
        needs={symbol: int(n) for symbol, n in re.findall(r"([A-Za-z]+)(\d+)", row["needs"])},
        first=row["first"],
        at_least=int(row["at_least"] or 1),
        without=tuple(row["without"].format(**FRAGMENTS).split()),
        max_heavy=int(row["max_heavy"]) if row["max_heavy"] else None,
        test=CONDITIONS.get(row["name"]),
    )


RULES = tuple(map(_rule, _rows("rules.csv")))
SUBSTANCES = tuple(Substance(**{**row, "group": Reason(row["group"])}) for row in _rows("substances.csv"))  # type: ignore[arg-type]


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
