"""Structures that relax to one structure: the first goes on, the others are dropped, however the answers come."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.engine import Connection

from sciagent.campaign.core.built_campaign_and_derived_values import Built
from sciagent.campaign.core.create_and_open import create_or_open
from sciagent.campaign.core.record_results_and_place import Settling, settle, settle_again
from sciagent.campaign.file.campaign_spec import load_spec
from sciagent.campaign.people import hold_release_veto_and_promote
from sciagent.campaign.people.find_candidate import FoundCandidate
from sciagent.chemistry.crystal import Crystal, crystal_from_structure
from sciagent.chemistry.crystals.prototypes_and_same_structures import crystal_from_shorthand
from sciagent.domain.cost_and_budget import Cost
from sciagent.domain.evidence_keys_and_pooled_replicates import Finding, Measured
from sciagent.domain.outcomes_verdicts_and_reasons import Outcome, Reason, Verdict
from sciagent.domain.properties_and_levels import Level
from sciagent.domain.quantities import Quantity
from sciagent.domain.states_and_needs import Standing, Verb
from sciagent.errors import UsageError
from sciagent.execution.worker.end_attempts import DirectResult, complete_direct
from sciagent.rewards.candidate_states_lots_and_episode_starts import states
from sciagent.rewards.reward_term_contract import Settlement
from sciagent.store.campaign_state import candidate_standings, directives
from sciagent.store.database.ledger import Ledger
from sciagent.store.results import candidates
from sciagent.store.results.evidence import read_watermark
from sciagent.store.views import campaign_counts_and_remarks
from sciagent.verification.sandbox.host import HostResult

CAMPAIGN = """\
campaign: salts
subject: crystal
objectives:
  - {property: PROPERTY}
  - {property: energy_above_known_phases, max: 0.05, unit: eV/atom}
ladder:
  - {rung: checks, verifier: crystal.checks}
  - {rung: stability, verifier: mlff.relax, gate: {energy_above_known_phases: {max: 0.1, unit: eV/atom}}}
DEAR
goal: {kind: hits}
budget: {proposals: 100}
proposer: {kind: screen, file: salts.csv}
scheduler: {kind: exhaustive}
"""
DEAR = "  - {rung: stiffness, verifier: mlff.elastic}"
SAFETY, CHECKS, RELAX, ELASTIC = range(4)
LEVEL = Level("CHGNet-0.3.0")
EDGES = (5.64, 5.69, 5.80, 5.50)
SAME = "same_structure"


def rocksalt(edge: float, salt: str = "Na Cl") -> Crystal:
    """A rock salt with the edge of its cubic cell in angstrom."""
    structure = crystal_from_shorthand(f"rocksalt: {salt}").structure.copy()
    structure.scale_lattice(edge**3 / 4)
    return crystal_from_structure(structure)


class Salts:
    """A campaign on rock salts whose rungs say what a test lets them say."""

    def __init__(self, built: Built, connection: Connection, crystals: Sequence[Crystal]) -> None:
        self.built = built
        self.connection = connection
        self.crystals = crystals
        entered = candidates.enter(connection, crystals)
        self.ids = [entered[crystal.key] for crystal in crystals]
        candidate_standings.add(connection, built.row.id, [{"candidate_id": i, "in_seeds": False} for i in self.ids])
        for position in (SAFETY, CHECKS):
            settle(connection, built, self.said(position, {i: () for i in range(len(crystals))}))

    def said(
        self, position: int, measured: dict[int, Sequence[Measured]], cells: dict[int, str] | None = None
    ) -> list[Settling]:
        """Records answers of a rung and returns their settlings. measured, cells: by number of the crystal."""
        rung = self.built.rungs[position]
        results = []
        for number, values in measured.items():
            crystal = self.crystals[number]
            files: tuple[tuple[str, str, int, str], ...] = ()
            if cells is not None and number in cells:
                files = (self.stored(cells[number]),)
            finding = Finding(crystal.key, Outcome.OK, tuple(values))
            host = HostResult(finding, Cost(core_seconds=1), 1.0, {}, ())
            key = rung.verifier.evidence_key(crystal)
            results.append(DirectResult(rung.verifier, self.ids[number], key, host, files))
        recorded = complete_direct(self.connection, "me", results, campaign_id=self.built.row.id, rung_id=rung.id)
        return [
            Settling(result.candidate_id, rung.rules.position, result.result.finding, None, one)
            for result, one in zip(results, recorded, strict=True)
        ]

    def stored(self, text: str) -> tuple[str, str, int, str]:
        """Stores the text of a CIF as a worker does."""
        file = self.built.scratch() / "relaxed.cif"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        return ("relaxed.cif", *self.built.ledger.artifacts.put(file), "chemical/x-cif")

    def relaxed(
        self, edges: dict[int, float], above: dict[int, float] | None = None, formation: dict[int, float] | None = None
    ) -> list[Settling]:
        """Records relaxations. edges: of the relaxed cells, above: energies above the known phases, formation:
        formation energies, by number."""
        cells = {number: cif(rocksalt(edge)) for number, edge in edges.items()}
        values = {number: energies(edge, (above or {}).get(number, 0.0)) for number, edge in edges.items()}
        for number, energy in (formation or {}).items():
            values[number].append(Measured("formation_energy", LEVEL, Quantity(energy, "eV/atom", 0.001)))
        return self.said(RELAX, values, cells)

    def settle(self, settlings: Sequence[Settling]) -> None:
        settle(self.connection, self.built, settlings)

    def rows(self) -> list[dict[str, Any]]:
        found = [dict(candidate_standings.get(self.connection, self.built.row.id, id_)) for id_ in self.ids]
        return [{name: value for name, value in row.items() if name != "updated_at"} for row in found]

    def fell(self) -> list[bool]:
        """Whether each of the crystals was dropped as the structure of another one."""
        return [row["reason"] == SAME for row in self.rows()]

    def say(self, verb: Verb, number: int, rung: int | None = None) -> None:
        rung_id = None if rung is None else self.built.rungs[rung].id
        of = {"candidate_id": self.ids[number], "rung_id": rung_id}
        directives.write(self.connection, self.built.row.id, verb, "me", "a test", **of)

    def named(self, number: int) -> FoundCandidate:
        return FoundCandidate(self.ids[number], self.crystals[number].key, self.crystals[number].text)


def cif(crystal: Crystal) -> str:
    return str(crystal.structure.to(fmt="cif"))


def energies(edge: float, above: float) -> list[Measured]:
    """What `mlff.relax` measures, with its uncertainties."""
    volume = Measured("volume_per_atom", LEVEL, Quantity(edge**3 / 8, "angstrom**3", 0.02))
    return [volume, Measured("energy_above_known_phases", LEVEL, Quantity(above, "eV/atom", 0.001))]


def bulk_modulus(value: float) -> list[Measured]:
    return [Measured("bulk_modulus", LEVEL, Quantity(value, "GPa", 0.3))]


def written(folder: Path, wanted: str, dear: str) -> Built:
    file = folder / "salts.yaml"
    file.write_text(CAMPAIGN.replace("PROPERTY", wanted).replace("DEAR\n", dear), encoding="utf-8")
    (folder / "salts.csv").write_text("structure\nrocksalt: Na Cl\n", encoding="utf-8")
    ledger = Ledger(str(folder / "sciagent.db"))
    return create_or_open(ledger, load_spec(file), file.read_text(encoding="utf-8"), "test").built


@pytest.fixture
def built(tmp_path: Path) -> Built:
    return written(tmp_path, "bulk_modulus, min: 5, unit: GPa", f"{DEAR}\n")


@pytest.fixture
def cheap(tmp_path: Path) -> Built:
    """A campaign whose terminal rung relaxes."""
    return written(tmp_path, "volume_per_atom, max: 30, unit: angstrom**3", "")


def salts(built: Built, connection: Connection, edges: Sequence[float] = EDGES) -> Salts:
    return Salts(built, connection, [rocksalt(edge) for edge in edges])


def test_the_later_of_two_is_dropped_before_the_dearer_rung_and_names_the_first(built: Built) -> None:
    with built.ledger.begin() as connection:
        made = salts(built, connection, EDGES[:2])
        made.settle(made.relaxed({0: 5.692}))
        made.settle(made.relaxed({1: 5.693}))
        first, second = made.rows()
        assert (first["standing"], first["position"], first["reason"]) == (Standing.OPEN, ELASTIC, None)
        assert (second["standing"], second["position"], second["verdict"]) == (Standing.DROPPED, RELAX, Verdict.FAIL)
        key = made.crystals[0].key[:12]
        assert second["reason"] == SAME
        assert second["detail"] == f"relaxed to the same structure as NaCl Fm-3m ({key})"
        assert (second["is_hit"], second["chance"], second["depth"]) == (False, None, RELAX), (
            "no parent, but it teaches"
        )
        made.settle(made.said(ELASTIC, {0: bulk_modulus(25.0)}))
        assert made.rows()[0]["is_hit"]
        assert campaign_counts_and_remarks.hits(connection, built.row.id) == (1, 1)


def test_of_several_that_come_at_once_the_first_of_the_campaign_goes_on(built: Built) -> None:
    with built.ledger.begin() as connection:
        made = salts(built, connection)
        settlings = made.relaxed({0: 5.692, 1: 5.693, 2: 5.691, 3: 5.6})
        made.settle(settlings[::-1])
        assert made.fell() == [False, True, True, False], "5.6 differs by 5 % in volume"


def test_the_one_that_was_answered_first_goes_on_although_it_arrived_later(built: Built) -> None:
    with built.ledger.begin() as connection:
        made = salts(built, connection, EDGES[:2])
        made.settle(made.relaxed({1: 5.692}))
        made.settle(made.relaxed({0: 5.692}))
        assert made.fell() == [True, False]
        assert made.crystals[1].key[:12] in made.rows()[0]["detail"]


@pytest.mark.parametrize(("edge", "above"), [(5.75, 0.0), (5.692, 0.006)])
def test_other_volumes_and_other_energies_are_other_structures(built: Built, edge: float, above: float) -> None:
    with built.ledger.begin() as connection:
        made = salts(built, connection, EDGES[:2])
        made.settle(made.relaxed({0: 5.692, 1: edge}, {1: above}))
        assert made.fell() == [False, False]


def test_values_that_differ_by_less_than_their_uncertainties_do_not_tell_structures_apart(built: Built) -> None:
    with built.ledger.begin() as connection:
        made = salts(built, connection, EDGES[:2])
        made.settle(made.relaxed({0: 5.692, 1: 5.70}, {1: 0.004}))
        assert made.fell() == [False, True]


def test_other_cells_with_the_same_values_are_other_structures(built: Built) -> None:
    with built.ledger.begin() as connection:
        made = salts(built, connection, EDGES[:2])
        strained = rocksalt(5.692).structure.copy()
        strained.apply_strain([0.08, -0.08, 0.0])
        cells = {0: cif(rocksalt(5.692)), 1: str(strained.to(fmt="cif"))}
        made.settle(made.said(RELAX, {number: energies(5.692, 0.0) for number in cells}, cells))
        assert made.fell() == [False, False]


@pytest.mark.parametrize("text", ["", "data_x\n_cell_length_a nonsense", "\0"])
def test_a_file_that_is_no_structure_is_compared_with_nothing(built: Built, text: str) -> None:
    with built.ledger.begin() as connection:
        made = salts(built, connection, EDGES[:3])
        values = {number: energies(5.692, 0.0) for number in range(3)}
        made.settle(made.said(RELAX, values, {0: text, 1: cif(rocksalt(5.692))}))
        assert made.fell() == [False, False, False]


def test_a_file_that_is_gone_is_compared_with_nothing(built: Built) -> None:
    with built.ledger.begin() as connection:
        made = salts(built, connection, EDGES[:2])
        made.settle(made.relaxed({0: 5.692}))
        for file in built.ledger.artifacts.root.rglob("*"):
            if file.is_file():
                file.unlink()
        made.settle(made.relaxed({1: 5.693}))
        assert made.fell() == [False, False]


def test_what_a_person_has_vetoed_or_a_crash_has_dropped_stands_in_nobodys_way(built: Built) -> None:
    with built.ledger.begin() as connection:
        made = salts(built, connection, EDGES[:3])
        made.settle(made.relaxed({0: 5.692}))
        made.say(Verb.VETO, 0)
        settle_again(connection, built, made.ids[0])
        made.settle(made.relaxed({1: 5.693}))
        assert made.fell() == [False, False, False]
        crashed = Finding("x", Outcome.CRASHED, reason=Reason.EXCEPTION, detail="no memory")
        made.settle([Settling(made.ids[1], built.rungs[ELASTIC].rules.position, crashed)])
        assert made.rows()[1]["verdict"] == Verdict.ERROR
        made.settle(made.relaxed({2: 5.693}))
        assert made.fell() == [False, False, False]


def test_one_that_fell_later_was_computed_and_is_not_computed_again(built: Built) -> None:
    with built.ledger.begin() as connection:
        made = salts(built, connection, EDGES[:2])
        made.settle(made.relaxed({0: 5.692}))
        made.settle(made.said(ELASTIC, {0: bulk_modulus(2.0)}))
        assert made.rows()[0]["verdict"] == Verdict.FAIL
        made.settle(made.relaxed({1: 5.693}))
        assert made.fell() == [False, True]


def test_one_that_fails_the_gate_falls_for_that_and_stands_in_nobodys_way(built: Built) -> None:
    with built.ledger.begin() as connection:
        made = salts(built, connection, EDGES[:3])
        made.settle(made.relaxed({0: 5.692, 1: 5.692, 2: 5.692}, {0: 0.101, 1: 0.102, 2: 0.049}))
        assert [row["reason"] for row in made.rows()] == ["above_window", "above_window", None]


def test_a_candidate_that_is_placed_again_falls_for_the_same_reason(built: Built) -> None:
    """The likeness is a row of the ledger: a driver that resumes, a veto that is taken back and a first one that a
    person takes out later change nothing."""
    with built.ledger.begin() as connection:
        made = salts(built, connection, EDGES[:2])
        settlings = made.relaxed({0: 5.692, 1: 5.693})
        made.settle(settlings)
        before = made.rows()
        made.settle([one._replace(recorded=None) for one in settlings])
        assert made.rows() == before
        for verb in (Verb.VETO, Verb.RELEASE):
            made.say(verb, 1)
            settle_again(connection, built, made.ids[1])
        assert made.rows() == before
        made.say(Verb.VETO, 0)
        settle_again(connection, built, made.ids[0])
        settle_again(connection, built, made.ids[1])
        assert made.rows()[1] == before[1]


def test_a_promotion_waives_it_as_it_waives_gates(built: Built) -> None:
    with built.ledger.begin() as connection:
        made = salts(built, connection, EDGES[:2])
        made.settle(made.relaxed({0: 5.692, 1: 5.693}))
        made.say(Verb.PROMOTE, 1, ELASTIC)
        settle_again(connection, built, made.ids[1])
        assert [row["standing"] for row in made.rows()] == [Standing.OPEN, Standing.OPEN]
        made.settle(made.said(ELASTIC, {0: bulk_modulus(25.0), 1: bulk_modulus(25.0)}))
        settle_again(connection, built, made.ids[0])
        assert [row["is_hit"] for row in made.rows()] == [True, True]


def test_one_that_is_released_is_compared_with_what_went_on_in_its_place(built: Built) -> None:
    with built.ledger.begin() as connection:
        made = salts(built, connection, EDGES[:2])
        made.settle(made.relaxed({0: 5.692}))
        made.say(Verb.VETO, 0)
        settle_again(connection, built, made.ids[0])
        made.settle(made.relaxed({1: 5.693}))
        made.say(Verb.RELEASE, 0)
        settle_again(connection, built, made.ids[0])
        assert made.fell() == [True, False]


def test_of_two_that_the_terminal_rung_relaxes_one_is_a_hit(cheap: Built) -> None:
    with cheap.ledger.begin() as connection:
        made = salts(cheap, connection, EDGES[:2])
        made.settle(made.relaxed({0: 5.692, 1: 5.693}))
        first, second = made.rows()
        assert (first["standing"], first["is_hit"]) == (Standing.SETTLED, True)
        assert (second["standing"], second["reason"], second["is_hit"]) == (Standing.DROPPED, SAME, False)
        assert campaign_counts_and_remarks.hits(connection, cheap.row.id) == (1, 1)
        named = made.named(1)
    with pytest.raises(UsageError, match="no rung is left to which it could go on"):
        hold_release_veto_and_promote.promote(cheap, named, "me", "a test")


def test_a_reward_pays_one_of_two(cheap: Built) -> None:
    """It pays for the second nothing, as for what a gate has thrown out; at a watermark before it was found, it is
    not known yet."""
    with cheap.ledger.begin() as connection:
        made = salts(cheap, connection, EDGES[:2])
        made.settle(made.relaxed({0: 5.692}))
        before = read_watermark(connection)
        made.settle(made.relaxed({1: 5.693}))
        found = states(cheap, connection, made.ids, read_watermark(connection) + 1)
        assert [found[id_].settlement for id_ in made.ids] == [Settlement.ANSWERED, Settlement.REFUSED]
        assert found[made.ids[0]].payoff == 1.0
        earlier = states(cheap, connection, made.ids, before)
        assert earlier[made.ids[1]].settlement is not Settlement.REFUSED


def test_evidence_of_another_campaign_is_compared_alike(built: Built, tmp_path: Path) -> None:
    """A campaign that reuses both relaxations, at no cost, drops the same candidate."""
    with built.ledger.begin() as connection:
        made = salts(built, connection, EDGES[:2])
        made.settle(made.relaxed({0: 5.692, 1: 5.693}))
    folder = tmp_path / "other"
    folder.mkdir()
    file = tmp_path / "salts.yaml"
    text = file.read_text(encoding="utf-8").replace("campaign: salts", "campaign: others")
    file.write_text(text, encoding="utf-8")
    other = create_or_open(built.ledger, load_spec(file), text, "test").built
    with other.ledger.begin() as connection:
        again = Salts(other, connection, made.crystals)
        again.settle([Settling(id_, other.rungs[RELAX].rules.position) for id_ in again.ids])
        assert again.fell() == [False, True]


LOW, HIGH = -2.00, -1.80
"""Formation energies that differ by more than the limit of the objective, 0.05 eV/atom."""


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_what_lies_too_far_above_a_lower_form_is_dropped_in_any_order(built: Built, order: tuple[int, int]) -> None:
    edges, formation = {0: 5.69, 1: 5.90}, {0: LOW, 1: HIGH}
    with built.ledger.begin() as connection:
        made = salts(built, connection, EDGES[:2])
        for number in order:
            made.settle(made.relaxed({number: edges[number]}, formation={number: formation[number]}))
        lower, upper = made.rows()
        assert (lower["standing"], lower["reason"]) == (Standing.OPEN, None)
        assert (upper["standing"], upper["position"], upper["reason"]) == (Standing.DROPPED, RELAX, "lower_polymorph")
        assert upper["detail"] == (
            f"lies 0.200 eV/atom above NaCl Fm-3m ({made.crystals[0].key[:12]}), which has the same formula"
        )
        assert (upper["is_hit"], upper["chance"]) == (False, None)
        before = made.rows()
        settle_again(connection, built, made.ids[1])
        assert made.rows() == before
        made.say(Verb.PROMOTE, 1, ELASTIC)
        settle_again(connection, built, made.ids[1])
        assert made.rows()[1]["standing"] == Standing.OPEN, "a person may waive it"


def test_of_several_at_once_the_lowest_goes_on_with_what_lies_within_the_limit(built: Built) -> None:
    with built.ledger.begin() as connection:
        made = salts(built, connection)
        formation = {0: HIGH, 1: LOW, 2: LOW + 0.049, 3: HIGH + 0.01}
        made.settle(made.relaxed({0: 5.69, 1: 5.90, 2: 5.50, 3: 5.30}, formation=formation))
        assert [row["reason"] for row in made.rows()] == ["lower_polymorph", None, None, "lower_polymorph"]
        lowest = made.crystals[1].key[:12]
        assert all(lowest in made.rows()[number]["detail"] for number in (0, 3))


def test_a_hit_that_a_later_candidate_undercuts_is_none_any_more(cheap: Built) -> None:
    with cheap.ledger.begin() as connection:
        made = salts(cheap, connection, EDGES[:2])
        made.settle(made.relaxed({0: 5.69}, formation={0: HIGH}))
        assert made.rows()[0]["is_hit"]
        before = read_watermark(connection)
        made.settle(made.relaxed({1: 5.90}, formation={1: LOW}))
        assert [row["is_hit"] for row in made.rows()] == [False, True]
        now = states(cheap, connection, made.ids, read_watermark(connection) + 1)
        assert now[made.ids[0]].settlement is Settlement.REFUSED
        assert states(cheap, connection, made.ids, before)[made.ids[0]].payoff == 1.0, "at that time it was one"


def test_a_form_that_a_person_vetoed_undercuts_nothing(built: Built) -> None:
    with built.ledger.begin() as connection:
        made = salts(built, connection, EDGES[:2])
        made.settle(made.relaxed({0: 5.69}, formation={0: LOW}))
        made.say(Verb.VETO, 0)
        settle_again(connection, built, made.ids[0])
        made.settle(made.relaxed({1: 5.90}, formation={1: HIGH}))
        assert made.rows()[1]["standing"] == Standing.OPEN
