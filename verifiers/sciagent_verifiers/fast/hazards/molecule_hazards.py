"""Hazard rules: classes of structures (`rules.csv`) and whole structures (`substances.csv`), and their search.

Rules only recognise structures. They contain nothing on synthesis, handling or use.

- Chemical weapons: each class is at least as wide as the schedule's wording; chains of any length match, without the
  schedule's limit of ten carbons. Compounds that a schedule exempts by name pass. Source: Organisation for the
  Prohibition of Chemical Weapons, Annex on Chemicals, as amended in 2020
  (https://www.opcw.org/chemical-weapons-convention/annexes).
- Explosives: polynitro compounds, nitrate esters, azides, peroxides, diazonium, chains of nitrogen.
- Acute hazards: GHS acute toxicity category 1 or 2 (H300, H310, H330), spontaneous ignition (H250), and classes that
  are known for these. Ordinary toxic reagents (categories 3 and 4) pass.

In `rules.csv` a space separates several patterns, and `P1 F1` in `needs` means one phosphorus and one fluorine atom.
`substances.csv` has only the first block of each standard InChIKey, and the formula of heavy atoms. The formula is
compared first, since the key is slow to compute. For rules, the counts of elements are compared before the patterns,
since they exclude most rules.

A molecule is refused as an explosive where energetic groups are dense in it. Dyes with a nitro group, sartans,
zidovudine and artemisinin pass. The limits are published rules of thumb for safe handling; they do not predict
sensitivity.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from sciagent.chemistry.rdkit_messages import rdkit_messages
from sciagent.domain.outcomes_verdicts_and_reasons import Reason
from sciagent_verifiers.fast.hazards.normalised_molecule_and_cached_matches import Drawing

NITRO = "[#7;X3](~[#8;X1,H1])~[#8;X1,H1]"  # the nitro group and its aci form
AZIDE_LIMIT = 3.0  # ratio of `_dilution` for the nitrogen of azides
DIAZO_LIMIT = 3.0  # the same for diazo groups
CHAIN_LIMIT = 1.5  # the same for chains of nitrogen
PEROXIDE_LIMIT = 6.0  # percent by mass; artemisinin has 5.7, dibenzoyl peroxide 6.6
BALANCE_LIMIT = -60.0  # percent by mass; dinitrobenzene has -95, trinitrotoluene -74 (which matches another rule)
NITRATE_LIMIT = -100.0  # percent by mass
NITROGEN_LIMIT = 70.0  # percent by mass; 3-amino-1,2,4-triazole has 67, 5-aminotetrazole 82
_PERCENT_NITROGEN = 1400.3  # 100 times the monoisotopic mass of nitrogen, g/mol
_PERCENT_OXYGEN = 1600  # 100 times the mass of oxygen, g/mol


def _dilution(drawing: Drawing, n_energetic: int) -> float:
    """Returns the number of carbon, oxygen, silicon, sulfur and phosphorus atoms per energetic nitrogen."""
    n_diluting = sum(drawing.counts.get(symbol, 0) for symbol in ("C", "O", "Si", "S", "P"))
    return n_diluting / max(n_energetic, 1)


def _reaches_oxygen_balance(drawing: Drawing, limit: float) -> bool:
    """Returns whether the oxygen balance is defined and reaches the limit, percent by mass."""
    return drawing.oxygen_balance is not None and drawing.oxygen_balance >= limit


def _is_dense_nitrate_ester(drawing: Drawing) -> bool:
    n_groups = drawing.n_matches(f"[#6]-[#8]-{NITRO}")
    return n_groups > 1 or _reaches_oxygen_balance(drawing, NITRATE_LIMIT)


def _is_dense_azide(drawing: Drawing) -> bool:
    n_energetic = drawing.n_matched_atoms("[#7;X1,X2]~[#7X2]~[#7X1]")
    return _dilution(drawing, n_energetic) < AZIDE_LIMIT


def _is_small_diazo(drawing: Drawing) -> bool:
    n_matched = drawing.n_matched_atoms("[#6]=[#7X2+]=[#7X1-]")
    n_energetic = n_matched * 2 // 3  # two of the three atoms of a diazo group are nitrogen
    return _dilution(drawing, n_energetic) < DIAZO_LIMIT


def _is_dense_nitrogen_chain(drawing: Drawing) -> bool:
    n_energetic = drawing.n_matched_atoms("[#7]~[#7]~[#7]~[#7]")
    return _dilution(drawing, n_energetic) < CHAIN_LIMIT


def _is_high_in_nitrogen(drawing: Drawing) -> bool:
    """Returns whether it is a carbon compound with at least four nitrogen atoms and NITROGEN_LIMIT."""
    n_nitrogen = drawing.counts.get("N", 0)
    if n_nitrogen < 4 or "C" not in drawing.counts:
        return False
    return _PERCENT_NITROGEN * n_nitrogen / drawing.exact_mass >= NITROGEN_LIMIT


def _is_rich_in_peroxide(drawing: Drawing) -> bool:
    """Returns whether the active oxygen reaches PEROXIDE_LIMIT; each O-O bond has one active oxygen atom."""
    return _PERCENT_OXYGEN * drawing.n_matches("[#8X2]-[#8X2]") / drawing.exact_mass >= PEROXIDE_LIMIT


CONDITIONS: dict[str, Callable[[Drawing], bool]] = {
    "nitrate-ester": _is_dense_nitrate_ester,
    "oxygen-balance": lambda drawing: _reaches_oxygen_balance(drawing, BALANCE_LIMIT),
    "dinitrophenol": lambda drawing: drawing.formula in ("C6N2O5", "C6N2O6") and drawing.n_matches(NITRO) == 2,
    "azide": _is_dense_azide,
    "small-diazo": _is_small_diazo,
    "nitrogen-chain": _is_dense_nitrogen_chain,
    "high-nitrogen": _is_high_in_nitrogen,
    "peroxide": _is_rich_in_peroxide,
}
"""The condition of each rule that has one, by the rule's name."""


# The gravest group comes first. If rules of several groups match, it gives the reason of the refusal.
GROUPS: tuple[Reason, ...] = (Reason.CHEMICAL_WEAPON, Reason.EXPLOSIVE, Reason.ACUTE_HAZARD)


@dataclass(frozen=True)
class Hazard:
    """A rule or substance that a molecule can match."""

    name: str
    group: Reason
    reason: str
    source: str

    def __str__(self) -> str:
        return f"{self.name}: {self.reason} [{self.source}]"


@dataclass(frozen=True)
class Substance(Hazard):
    """A hazard that is one whole structure."""

    formula: str
    """Heavy atoms in alphabetical order; they are compared before an InChI is computed."""
    key: str
    """First block of the standard InChIKey: the constitution without stereo and isotopes."""


@dataclass(frozen=True)
class Rule(Hazard):
    """A hazard that is a class of structures.

    Its patterns are matched to a `Drawing`, without isotopes and with charges neutralised by protons where possible.
    """

    smarts: tuple[str, ...] = ()
    """SMARTS patterns, of which one must match."""
    needs: Mapping[str, int] = field(default_factory=dict)
    """Smallest number of atoms of each element in a match, by the symbols of `Drawing.counts`."""
    first: str = ""
    """A simpler pattern contained in every match; it is searched once for all rules that share it."""
    at_least: int = 1
    """Smallest number of matches of a pattern, counted by sets of atoms."""
    without: tuple[str, ...] = ()
    """SMARTS patterns that exempt a molecule from the rule."""
    max_heavy: int | None = None
    """Largest number of heavy atoms to which the rule applies; None for no limit."""
    test: Callable[[Drawing], bool] | None = None
    """A further condition, besides the patterns."""

    @cached_property
    def rarest_first(self) -> tuple[tuple[str, int], ...]:
        """Pairs (element, smallest number of atoms), with C, N and O last."""
        return tuple(sorted(self.needs.items(), key=lambda need: need[0] in ("C", "N", "O")))

    @cached_property
    def patterns(self) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """`smarts` and `without`, parsed. Raises ValueError for an invalid pattern."""
        return _parsed(self.smarts), _parsed(self.without)

    def matches(self, drawing: Drawing) -> bool:
        """Returns whether the rule applies to a molecule; the cheapest comparison comes first."""
        for symbol, n in self.rarest_first:
            if drawing.counts.get(symbol, 0) < n:
                return False
        if self.max_heavy is not None and drawing.heavy > self.max_heavy:
            return False
        if self.first and not drawing.has(self.first):
            return False
        mol = drawing.mol
        patterns, exempting_patterns = self.patterns
        if self.at_least > 1:
            has_match = any(len(mol.GetSubstructMatches(pattern)) >= self.at_least for pattern in patterns)
        else:
            has_match = any(mol.HasSubstructMatch(pattern) for pattern in patterns)
        if not has_match:
            return False
        if any(mol.HasSubstructMatch(pattern) for pattern in exempting_patterns):
            return False
        return self.test is None or self.test(drawing)


def _parsed(smarts: Sequence[str]) -> tuple[Any, ...]:
    """Returns the RDKit molecules of SMARTS patterns. Raises ValueError for an invalid pattern."""
    from rdkit import Chem

    with rdkit_messages():
        patterns = tuple(Chem.MolFromSmarts(text) if text.strip() else None for text in smarts)
    if None in patterns:
        raise ValueError(f'"{smarts[patterns.index(None)]}" is not a SMARTS pattern')
    return patterns


FRAGMENTS = {
    "NITRO": NITRO,
    "OXO": "$([#15]~[#8X1,#16X1,#34X1])",  # phosphoryl, also drawn with charges, also with sulfur or selenium
    "SMALL": "$([CH3]),$([CH2][CH3]),$([CH2][CH2][CH3]),$([CH]([CH3])[CH3])",  # methyl, ethyl, the propyls
    "AMINE": "[#7;!$([#7]~[#6]=[#8,#16]);!$([#7](=*))]",
}
"""Abbreviations of pattern fragments in the table."""


def _rows(name: str) -> Iterator[Mapping[str, str]]:
    """Yields the rows of a table in this folder, by the names of its columns."""
    with (Path(__file__).parent / name).open(encoding="utf-8", newline="") as table:
        yield from csv.DictReader(table)


def _rule(row: Mapping[str, str]) -> Rule:
    """Returns the rule in a row of `rules.csv`."""
    return Rule(
        name=row["name"],
        group=Reason(row["group"]),
        reason=row["reason"],
        source=row["source"],
        smarts=tuple(row["smarts"].format(**FRAGMENTS).split()),
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
        rarest_element = rule.rarest_first[0][0] if rule.needs else ""
        by_element.setdefault(rarest_element, []).append(rule)
    return by_element


@cache
def _by_formula() -> dict[str, list[Substance]]:
    """Returns {formula of heavy atoms: substances that have it}."""
    by_formula: dict[str, list[Substance]] = {}
    for substance in SUBSTANCES:
        by_formula.setdefault(substance.formula, []).append(substance)
    return by_formula


def screen(mol: Any, more: Sequence[Rule] = ()) -> tuple[Hazard, ...]:
    """Returns every rule that an RDKit molecule matches, gravest group first.

    more: rules besides those that ship. Fragments are screened together.
    """
    drawing = Drawing(mol)
    rules = list[Rule]()
    for element in ("", *drawing.counts):
        rules.extend(_by_element().get(element, ()))
    alerts: dict[str, Hazard] = {rule.name: rule for rule in (*rules, *more) if rule.matches(drawing)}
    for substance in _identical_substances(drawing):
        alerts[substance.name] = substance
    return tuple(sorted(alerts.values(), key=lambda alert: GROUPS.index(alert.group)))


def _identical_substances(drawing: Drawing) -> list[Substance]:
    """Returns the substances that are identical with the molecule or one of its fragments."""
    from rdkit import Chem

    fragments = [drawing]
    if len(Chem.GetMolFrags(drawing.mol)) > 1:
        fragments = [Drawing(mol) for mol in Chem.GetMolFrags(drawing.mol, asMols=True)]
    substances = []
    for fragment in fragments:
        for substance in _by_formula().get(fragment.formula, ()):
            if substance.key == fragment.key:
                substances.append(substance)
    return substances
