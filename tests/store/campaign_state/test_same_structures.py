"""Relaxed structures are found by formula, rung and values; what was found about a candidate stays."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy.engine import Connection

from sciagent.chemistry.crystals.prototypes_and_same_structures import crystal_from_shorthand
from sciagent.domain.evidence_keys_and_pooled_replicates import Computation, Measured
from sciagent.domain.outcomes_verdicts_and_reasons import Outcome, Reason, Verdict
from sciagent.domain.properties_and_levels import VOLUME_PER_ATOM, Level
from sciagent.domain.quantities import Quantity
from sciagent.domain.rung_positions_and_tiers import Position
from sciagent.domain.states_and_needs import Standing
from sciagent.store.campaign_state import campaigns, candidate_standings, same_structures
from sciagent.store.campaign_state.campaigns import CampaignRow
from sciagent.store.campaign_state.same_structures import Likeness, RelaxedStructure, ValueWindow
from sciagent.store.database.ledger import Ledger
from sciagent.store.results import candidates, evidence
from tests.support import rows

# two phases of NaCl, of ZnS and of SiC: pairs of one formula
CRYSTALS = ("rocksalt: Na Cl", "CsCl: Na Cl", "zincblende: Zn S", "wurtzite: Zn S", "zincblende: Si C")
NACL, OTHER_NACL, ZNS, OTHER_ZNS, SIC = range(5)
RUNG = Position(1)
RELAXATION = Computation("toy", "1", rows.SETTINGS)
CIF = "chemical/x-cif"
LEVEL = Level("CHGNet-0.3.0")


class Relaxed:
    """A campaign whose second rung has relaxed all crystals; each has the volume of its number."""

    def __init__(self, connection: Connection, row: CampaignRow) -> None:
        self.connection = connection
        self.row = row
        crystals = [crystal_from_shorthand(text) for text in CRYSTALS]
        entered = candidates.enter(connection, crystals)
        self.ids = [entered[crystal.key] for crystal in crystals]
        self.keys = [crystal.key for crystal in crystals]
        candidate_standings.add(connection, row.id, [{"candidate_id": id_, "in_seeds": False} for id_ in self.ids])
        self.evidence_ids = [self.answer(number) for number in range(len(CRYSTALS))]
        for number in range(len(CRYSTALS)):
            self.stands(number, Standing.OPEN, RUNG + 1)

    def answer(self, number: int, media_type: str = CIF, **more: Any) -> int:
        value = Measured(VOLUME_PER_ATOM.name, LEVEL, Quantity(10.0 + number, "angstrom**3", 0.02))
        file = ("relaxed.cif", f"{number:064d}", 100, media_type)
        given = {"artifacts": (file,), "subject": self.keys[number], **more}
        [id_] = evidence.record(self.connection, [rows.new_evidence(self.ids[number], value, **given)])
        return id_

    def stands(self, number: int, standing: Standing, position: int, verdict: Verdict | None = None) -> None:
        place = {"standing": standing, "position": position, "verdict": verdict}
        candidate_standings.update(self.connection, self.row.id, self.ids[number], **place)

    def structure(self, number: int) -> RelaxedStructure:
        formula = {NACL: "NaCl", OTHER_NACL: "NaCl", ZNS: "ZnS", OTHER_ZNS: "ZnS", SIC: "SiC"}[number]
        return RelaxedStructure(self.ids[number], formula, self.evidence_ids[number], f"{number:064d}")

    def left(self, *numbers: int) -> list[RelaxedStructure]:
        ids = [self.ids[number] for number in numbers]
        return same_structures.relaxed_structures(self.connection, self.row.id, ids, RUNG, RELAXATION, CIF)

    def near(self, number: int, *windows: ValueWindow, without: tuple[int, ...] = ()) -> list[RelaxedStructure]:
        out = [self.ids[other] for other in without]
        of = self.row.id, self.structure(number), RUNG, RELAXATION, CIF
        return same_structures.similar_structures(self.connection, *of, windows=windows, without=out, most=8)

    def window(self, low: float, high: float) -> ValueWindow:
        known = evidence.measured_of(self.connection, self.evidence_ids)[self.evidence_ids[0]]
        property_ids, level_ids = evidence.ids_of_names(self.connection, known)
        return ValueWindow(property_ids[VOLUME_PER_ATOM.name], level_ids[LEVEL], low, high)


def test_others_of_the_formula_that_went_on_are_near(ledger: Ledger, row: CampaignRow) -> None:
    with ledger.begin() as connection:
        made = Relaxed(connection, row)
        assert made.near(NACL) == [made.structure(OTHER_NACL)]
        assert made.near(OTHER_ZNS) == [made.structure(ZNS)]
        assert made.near(SIC) == []
        assert made.near(NACL, without=(OTHER_NACL,)) == []


@pytest.mark.parametrize(("low", "high", "found"), [(10.9, 11.1, True), (11.0, 11.0, True), (11.1, 12.0, False)])
def test_their_values_lie_in_the_windows(
    ledger: Ledger, row: CampaignRow, low: float, high: float, found: bool
) -> None:
    with ledger.begin() as connection:
        made = Relaxed(connection, row)
        wide = made.window(0, 100)
        assert bool(made.near(NACL, wide, made.window(low, high))) == found


@pytest.mark.parametrize(
    ("standing", "position", "verdict", "found"),
    [
        (Standing.PENDING, 2, None, True),
        (Standing.HELD, 2, None, True),
        (Standing.DROPPED, 2, Verdict.FAIL, True),
        (Standing.SETTLED, 1, Verdict.PASS, True),
        (Standing.SETTLED, 1, Verdict.FAIL, False),
        (Standing.DROPPED, 2, Verdict.ERROR, False),
        (Standing.DROPPED, 1, Verdict.FAIL, False),
        (Standing.VETOED, 2, None, False),
        (Standing.PENDING, 1, None, False),
    ],
)
def test_those_that_a_person_or_a_crash_took_out_or_that_did_not_pass_are_left_out(
    ledger: Ledger, row: CampaignRow, standing: Standing, position: int, verdict: Verdict | None, found: bool
) -> None:
    with ledger.begin() as connection:
        made = Relaxed(connection, row)
        made.stands(OTHER_NACL, standing, position, verdict)
        assert bool(made.near(NACL)) == found
        assert bool(made.left(OTHER_NACL)) == found


def test_structures_come_in_the_order_of_arrival_and_without_those_of_other_kinds(
    ledger: Ledger, row: CampaignRow
) -> None:
    with ledger.begin() as connection:
        made = Relaxed(connection, row)
        numbers = (SIC, ZNS, NACL)
        assert made.left(*numbers) == [made.structure(number) for number in (NACL, ZNS, SIC)]
        failed = {"outcome": Outcome.UNSTABLE, "reason": Reason.VOLUME_CHANGED}
        made.answer(NACL, verifier="another")
        made.answer(NACL, media_type="text/plain", replicate=1)
        made.answer(NACL, replicate=2, **failed)
        assert made.left(NACL) == [made.structure(NACL)]
        corrected = made.answer(ZNS, revision=1, supersedes=made.evidence_ids[ZNS], why="a finer mesh", who="Ada")
        assert [structure.evidence_id for structure in made.left(ZNS)] == [corrected]
        other = rows.campaign(connection, "others")
        assert same_structures.relaxed_structures(connection, other.id, made.ids, RUNG, RELAXATION, CIF) == []


def test_a_likeness_names_the_other_and_is_known_from_its_watermark_on(ledger: Ledger, row: CampaignRow) -> None:
    with ledger.begin() as connection:
        made = Relaxed(connection, row)
        rung_id = campaigns.rungs(connection, row.id)[RUNG].id
        same_structures.write(
            connection, row.id, rung_id, made.structure(OTHER_NACL), made.structure(NACL), distance=0.02
        )
        key = made.keys[NACL][:12]
        assert same_structures.likenesses_of(connection, row.id, made.ids) == {
            made.ids[OTHER_NACL]: Likeness(RUNG, f"NaCl Fm-3m ({key})")
        }
        candidates.enter_names(connection, row.id, [(made.ids[NACL], {"name": "halite"})])
        [named] = same_structures.likenesses_of(connection, row.id, made.ids).values()
        assert named.detail == f"relaxed to the same structure as NaCl Fm-3m (halite; {key})"
        watermark = evidence.read_watermark(connection)
        assert same_structures.likenesses_of(connection, row.id, made.ids, watermark) == {}
        assert list(same_structures.likenesses_of(connection, row.id, made.ids, watermark + 1)) == [
            made.ids[OTHER_NACL]
        ]
        assert made.left(OTHER_NACL) == [], "one finding on a candidate suffices"


def test_energies_of_a_formula_come_lowest_first_without_those_that_have_a_likeness(
    ledger: Ledger, row: CampaignRow
) -> None:
    def found(low: float, high: float, most: int = 8) -> list[tuple[int, float]]:
        of = row.id, made.structure(NACL), RUNG, RELAXATION, CIF
        pairs = same_structures.of_formula_by_energy(connection, *of, window=made.window(low, high), most=most)
        return [(structure.candidate_id, energy) for structure, energy in pairs]

    with ledger.begin() as connection:
        made = Relaxed(connection, row)
        other = made.ids[OTHER_NACL]
        value = 10.0 + OTHER_NACL
        assert found(0, 100) == [(other, value)], "not the other formulas"
        assert found(0, value - 0.1) == [] and found(0, 100, most=0) == []
        rung_id = campaigns.rungs(connection, row.id)[RUNG].id
        lower, upper = made.structure(NACL), made.structure(OTHER_NACL)
        same_structures.write(connection, row.id, rung_id, upper, lower, excess=0.06)
        assert found(0, 100) == []
        [likeness] = same_structures.likenesses_of(connection, row.id, made.ids).values()
        assert likeness.reason == "lower_polymorph"
        assert likeness.detail.startswith("lies 0.060 eV/atom above NaCl Fm-3m")
