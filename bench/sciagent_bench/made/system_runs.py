"""The campaigns of a search for stable crystals, in one folder: one for each chemical system, proposer and seed.

The ladder is `crystal.checks`, which holds to the system and to cells of at most MAX_SITES atoms, and `mlff.relax`, the
oracle. The elements and the pairs of them in the prototypes of `mlff.relax` are given: they are relaxed first, in a
campaign of their own, and their answers are reused. `evolve` and `law` start from them and from the first START
structures of the lot; these are calls, the given ones are not. `random` takes the structures of the lot in their
order: the prototypes of the table with elements of the system on their places, then named edits of them.

MADE starts from the phases of the Materials Project, whose energies are not part of its repository.

Source: Malik et al., MADE, arXiv 2601.20996 (2026); github.com/diffractivelabs/MADE.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from itertools import combinations, islice, permutations
from pathlib import Path
from typing import Any

from sciagent.api.campaign import Campaign, LedgerView
from sciagent.api.open_ledger import pick_campaign
from sciagent.chemistry.crystal import NO_PYMATGEN, Crystal
from sciagent.chemistry.crystals.bonds import electronegativity
from sciagent.chemistry.crystals.edits import CrystalLimits, mutate
from sciagent.chemistry.crystals.prototypes_and_same_structures import crystal_from_shorthand, decorated, prototypes
from sciagent.chemistry.subjects.registry_and_candidate_dispatch import subject_of
from sciagent.errors import CampaignError, UsageError
from sciagent.report.export.structure_files import atoms_of
from sciagent.report.parts.export_rows import AS_PROPOSED, Entry, columns, entries
from sciagent.verification.verifier_registry import verifier_class
from sciagent_bench.campaigns_of_a_benchmark import BenchmarkFolder
from sciagent_bench.made.discovery_figures import RANDOM, TOLERANCE, DiscoveryRun, OracleAnswer, discovery_curve

START = 10
"""Structures of the lot that a search begins with; they are the first calls."""
MAX_CALLS = 200
MARGIN = 50
"""Structures of a lot beyond the calls, in place of those that the checks refuse."""
MAX_SITES = 10
"""Largest number of atoms in a primitive cell."""
MIN_SYSTEM = 2
MAX_SYSTEM = 5
GIVEN = ("rocksalt", "CsCl", "zincblende", "NiAs", "fluorite", "rutile", "CdI2", "antifluorite", "corundum", "BiI3")
"""Prototypes of the given phases, with the more electropositive element first: those of `mlff.relax` with
`known_phases: binaries`."""
PROPOSERS: Mapping[str, Mapping[str, Any]] = {
    RANDOM: {"kind": "screen", "batch": START},
    "evolve": {"kind": "evolve", "batch": START, "max_sites": MAX_SITES},
    "law": {"kind": "law", "batch": 4, "pool": 64, "max_sites": MAX_SITES},
}
"""{name: its keys in the campaign file}. `law` chooses one of sixteen children, as by default, but 4 at a time."""
DATABASE = "made.db"
ORACLE = "mlff.relax"
RUNG = "relax"
ENERGY = "formation_energy"


@dataclass(frozen=True)
class ChemicalSystem:
    """The elements of a chemical system, in alphabetical order."""

    elements: tuple[str, ...]

    @classmethod
    def of(cls, text: str) -> ChemicalSystem:
        """Returns the system of a text such as `Al-Li-V`. Raises UsageError."""
        try:
            from pymatgen.core import Element
        except ImportError as error:
            raise UsageError(NO_PYMATGEN) from error
        symbols = text.split("-")
        for symbol in symbols:
            if not Element.is_valid_symbol(symbol):
                raise UsageError(f'--systems "{text}": "{symbol}" is not an element; a system is written as Al-Li-V')
        if len(set(symbols)) != len(symbols) or not MIN_SYSTEM <= len(symbols) <= MAX_SYSTEM:
            raise UsageError(f'--systems "{text}": a system has {MIN_SYSTEM} to {MAX_SYSTEM} different elements')
        return cls(tuple(sorted(symbols)))

    @property
    def name(self) -> str:
        return "-".join(self.elements)

    @cached_property
    def given(self) -> tuple[str, ...]:
        """Shorthands of the given phases."""
        by_electronegativity = sorted(self.elements, key=lambda symbol: electronegativity(symbol) or 0.0)
        pairs = combinations(by_electronegativity, 2)
        return tuple(f"{prototype}: {' '.join(pair)}" for pair in pairs for prototype in GIVEN)

    def lot(self, seed: int) -> Iterator[str]:
        """Yields different structures by lot, none of which is given, as texts: all prototypes with cells of at most
        MAX_SITES atoms first, then without end named edits of them."""
        rng = random.Random(seed)
        shorthands = [
            f"{name}: {' '.join(chosen)}"
            for name, prototype in sorted(prototypes().items())
            for chosen in permutations(self.elements, len(prototype.order))
            if len(chosen) >= MIN_SYSTEM
        ]
        rng.shuffle(shorthands)
        known = {_crystal(text).key for text in self.given}
        parents = []
        for text in shorthands:
            if _sites(text.partition(":")[0]) > MAX_SITES:
                continue
            crystal = _crystal(text)
            if crystal.key not in known:
                known.add(crystal.key)
                parents.append(crystal)
                yield text
        limits = CrystalLimits(self.elements, max_sites=MAX_SITES, min_elements=MIN_SYSTEM)
        while True:
            mutated = mutate(rng.choice(parents), rng, limits=limits)
            if mutated is not None and mutated[0].key not in known:
                known.add(mutated[0].key)
                parents.append(mutated[0])
                yield subject_of("crystal").notation(mutated[0])


@lru_cache(maxsize=1 << 12)
def _crystal(text: str) -> Crystal:
    return crystal_from_shorthand(text)


@lru_cache(maxsize=256)
def _sites(name: str) -> int:
    """Returns the number of atoms in the primitive cell of a prototype of the table."""
    prototype = prototypes()[name]
    return decorated(name, prototype.example.split()).n_atoms


class SystemRuns:
    """The campaigns in a folder, with the same oracle."""

    def __init__(self, folder: Path, model: str, calls: int) -> None:
        """model: a registered potential of `mlff.relax`. calls: of each run. Raises UnknownNameError for another model,
        and UsageError if its package is not installed."""
        # the volume of a proposal follows from radii, so that a large change means little
        self._settings = {"model": model, "known_phases": "binaries", "max_volume_change": 3.0}
        lacks = verifier_class(ORACLE)(self._settings).lacks()
        if lacks is not None:
            raise UsageError(f'--model "{model}": {lacks}')
        self._files = folder
        self._folder = BenchmarkFolder(folder, DATABASE)
        self._model = model
        self._calls = calls
        self._given: dict[ChemicalSystem, tuple[OracleAnswer, ...]] = {}

    def given(self, system: ChemicalSystem) -> tuple[OracleAnswer, ...]:
        """Returns the given phases of a system, which are relaxed if they have not been.

        Raises what `run` does; CampaignError if there is no answer on any of them.
        """
        if system not in self._given:
            name = self._name(system, "given")
            file = f"given-{system.name}.csv"
            self._put(file, system.given)
            n = len(system.given)
            spec = self._spec(name, system, 0, {"kind": "screen", "file": file}, budget={"proposals": n})
            answers = self._folder.calls(spec, n, answers_of)
            if all(answer.structure is None for answer in answers):
                detail = f"the safety screen or {self._model} refuses all given phases of {system.name}"
                raise CampaignError(f"{detail}; see: sciagent status {name} --ledger {self._files / DATABASE}")
            self._given[system] = answers
        return self._given[system]

    def run(self, system: ChemicalSystem, proposer: str, keys: Mapping[str, Any], seed: int) -> DiscoveryRun:
        """Runs a campaign to its end, or reads one that has ended. keys: of the proposer, without its structures.

        Raises KeyboardInterrupt if the campaign was stopped, UsageError, SpecError and CampaignError.
        """
        given = self.given(system)
        name = self._name(system, proposer, str(seed))
        is_screen = keys.get("kind") == "screen"
        file = f"{'lot' if is_screen else 'start'}-{system.name}-{seed}.csv"
        if not (self._files / file).exists():  # a lot takes some seconds
            lot = tuple(islice(system.lot(seed), MAX_CALLS + MARGIN if is_screen else START))
            self._put(file, lot if is_screen else (*system.given, *lot))
        # structures of `seeds` do not count as verifications
        verifications = self._calls if is_screen else self._calls - START
        proposer_spec = {**keys, "file" if is_screen else "seeds": file}
        spec = self._spec(name, system, seed, proposer_spec, budget={"verifications": verifications})
        given_keys = {answer.key for answer in given}
        read_calls: Callable[[Campaign], Sequence[OracleAnswer]] = partial(answers_of, left_out=given_keys)
        calls = self._folder.calls(spec, self._calls, read_calls)
        failures = sum(answer.structure is None for answer in calls)
        curve = discovery_curve(system.elements, given, calls)
        return DiscoveryRun(system.name, proposer, seed, name, failures, self._core_seconds(name), curve)

    def _core_seconds(self, name: str) -> float:
        """Returns what the verifications and the proposer of a campaign have cost."""
        with LedgerView(self._files / DATABASE) as ledger:
            return Campaign.open(name, ledger).status().spent.get("core_seconds", 0.0)

    def _name(self, system: ChemicalSystem, *parts: str) -> str:
        """Returns the name of a campaign."""
        return re.sub(r"[^a-z0-9_-]", "-", "-".join([self._model, system.name, *parts]).lower())

    def _put(self, name: str, texts: Sequence[str]) -> None:
        """Writes a file of structures that campaign files name. Nobody sees half of it."""
        import csv
        import io

        stream = io.StringIO()
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerows([["structure"], *([text] for text in texts)])
        self._files.mkdir(parents=True, exist_ok=True)
        part = self._files / f"{name}.part"
        part.write_text(stream.getvalue(), encoding="utf-8")
        part.replace(self._files / name)

    def _spec(
        self, name: str, system: ChemicalSystem, seed: int, proposer: Mapping[str, Any], budget: Mapping[str, int]
    ) -> Mapping[str, Any]:
        """Returns the campaign file."""
        checks = {
            "elements": list(system.elements),
            "min_elements": MIN_SYSTEM,
            "max_sites": MAX_SITES,
            "charge_balance": "allow",
            "electronegativity_order": "allow",
        }
        return {
            "campaign": name,
            "subject": "crystal",
            "seed": seed,
            "objectives": [{"property": "energy_above_known_phases", "unit": "eV/atom", "max": TOLERANCE}],
            "ladder": [
                {"rung": "checks", "verifier": "crystal.checks", "settings": checks},
                {"rung": RUNG, "verifier": ORACLE, "settings": self._settings, "inline": True},
            ],
            "goal": {"kind": "hits"},
            "budget": dict(budget),
            "proposer": dict(proposer),
            "scheduler": {"kind": "exhaustive"},
            "workers": 1,
        }


def answers_of(campaign: Campaign, left_out: frozenset[str] | set[str] = frozenset()) -> list[OracleAnswer]:
    """Returns the structures that the oracle was asked about, in order of arrival. left_out: keys of candidates."""
    store = campaign.ledger.store
    answers = []
    with store.read() as connection:
        row = pick_campaign(connection, campaign.name)
        for entry in entries(connection, row, columns(connection, row)):
            is_asked = any(answer.rung == RUNG for answer in entry.answers)
            if is_asked and entry.candidate.key not in left_out:
                answers.append(_answer(entry, store.artifacts))
    return answers


def _answer(entry: Entry, artifacts: Any) -> OracleAnswer:
    """Returns the answer of the oracle on a candidate. artifacts: the ledger's files."""
    from pymatgen.io.ase import AseAtomsAdaptor

    candidate = entry.candidate
    measured = entry.values.get((RUNG, ENERGY))
    atoms, source = atoms_of(entry, artifacts)
    if measured is None or source == AS_PROPOSED:
        return OracleAnswer(candidate.key, candidate.text)
    structure = AseAtomsAdaptor.get_structure(atoms)
    return OracleAnswer(candidate.key, candidate.text, measured.quantity.value, structure)
