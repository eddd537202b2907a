"""A campaign of a dozen molecules with everything a report has to tell, made through the store's own functions."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from rdkit import Chem
from rdkit.Chem import AllChem
from sqlalchemy.engine import Connection

from sciagent.chemistry.subjects.registry_and_candidate_dispatch import subject_of
from sciagent.domain.evidence_keys_and_pooled_replicates import Measured
from sciagent.domain.outcomes_verdicts_and_reasons import Outcome, Reason, Verdict
from sciagent.domain.properties_and_levels import Level
from sciagent.domain.quantities import Censoring, Quantity
from sciagent.domain.states_and_needs import AttemptState, CampaignState, Standing
from sciagent.store.campaign_state import campaigns, candidate_standings
from sciagent.store.campaign_state import proposer_trajectories as trajectories
from sciagent.store.campaign_state.campaigns import CampaignRow
from sciagent.store.campaign_state.proposer_trajectories import NewTurn
from sciagent.store.database import tables as t
from sciagent.store.database.engine import db_now
from sciagent.store.database.ledger import Ledger
from sciagent.store.job_queue import attempts, reservations_and_bookings
from sciagent.store.job_queue.attempts import AttemptEnd
from sciagent.store.results import candidates, evidence
from tests.support import rows
from tests.support.rows import new_evidence
from tests.support.worths import worth_columns

SMILES = (
    "c1ccccc1",
    "CCO",
    "CC(=O)Nc1ccc(O)cc1",
    "c1ccsc1",
    "O=C1C=CC(=O)C=C1",
    "CC#N",
    "C1CCCCC1",
    "Oc1ccccc1",
    "c1ccncc1",
    "FC(F)F",
    "CS(C)=O",
    "BrC1CC1",
)
RDKIT, GFN2 = Level("RDKit"), Level("GFN2-xTB", phase="gas", geometry="GFN2-xTB//ETKDGv3x10")
PBE0 = Level("PBE0", "def2-SVP", "gas", "GFN2-xTB//ETKDGv3x10")
LOW = (2.1, 1.4, 1.9, 2.6, 2.3, 2.9, 3.3, 2.0, 2.5)  # eV, gap at GFN2
HIGH = (4.3, 3.5, 4.1, 4.9, 4.55)  # eV, gap at PBE0


def spec(**changed: Any) -> dict[str, Any]:
    gate = {"homo_lumo_gap": [1.3, 2.8]}
    return {
        "campaign": "dyes", "description": "Gaps of small molecules.", "subject": "molecule", "seed": 1,
        "objectives": [
            {
                "property": "homo_lumo_gap", "direction": "window", "unit": "eV", "accept": [4.0, 4.6], "scale": 0.3,
                "weight": 1.0,
            }
        ],
        "ladder": [
            {"rung": "r0", "verifier": "toy0", "settings": {}, "gate": {}, "on_refusal": "drop"},
            {"rung": "r1", "verifier": "toy1", "settings": {"conformers": 10}, "gate": gate, "on_refusal": "drop"},
            {"rung": "r2", "verifier": "toy2", "settings": {"functional": "PBE0"}, "gate": {}, "on_refusal": "drop"},
        ],
        "terminal": "r2", "goal": {"kind": "hits", "count": None}, "budget": {"core_seconds": 10000},
        "proposer": {"kind": "evolve"}, "scheduler": {"kind": "thresholds"}, "workers": 2,
    } | changed  # fmt: skip


def xyz(smiles: str) -> str:
    """An embedded geometry, in the order of the molecule's atoms with hydrogens behind."""
    mol = Chem.AddHs(Chem.MolFromSmiles(smiles))
    assert AllChem.EmbedMolecule(mol, randomSeed=1) == 0
    return Chem.MolToXYZBlock(mol)


class Maker:
    """Writes a campaign step by step; `ids` are its candidates in order."""

    def __init__(self, ledger: Ledger, folder: Path, *, script: bool = True, **changed: Any) -> None:
        """script: whether a script has begun to propose, in whose turn candidates are entered."""
        self.ledger, self.folder = ledger, folder
        wanted = spec(**changed)
        with ledger.begin() as connection:
            self.row: CampaignRow = rows.campaign(connection, wanted["campaign"], spec=wanted)
            if script:
                opened = {"proposer": "evolve", "settings": {}, "seed": 1}
                trajectory = trajectories.open_(connection, self.row.id, 0, **opened)
                turn = NewTurn(3, {}, [], [], {}, "evolve")
                self.turn = trajectories.write_turn(connection, trajectory, turn, evidence.read_watermark(connection))
        self.ids: list[int] = []

    def enter(self, smiles: tuple[str, ...], **proposal: Any) -> None:
        """smiles: SMILES, or the notation of the campaign's subject. proposal: columns of the proposal, such as its
        text."""
        with self.ledger.begin() as connection:
            molecules = [subject_of(self.row.spec["subject"]).read(one) for one in smiles]
            ids = candidates.enter(connection, molecules)
            for molecule in molecules:
                text = proposal.get("text", molecule.text)
                more = {name: value for name, value in proposal.items() if name != "text"}
                proposal_id = self.propose(connection, text, "new", candidate_id=ids[molecule.key], **more)
                member = {"candidate_id": ids[molecule.key], "in_seeds": False, "proposal_id": proposal_id}
                candidate_standings.add(connection, self.row.id, [member])
                if self.ids:
                    connection.execute(
                        t.candidate_parent.insert().values(
                            candidate_id=ids[molecule.key],
                            parent_id=self.ids[-1],
                            proposal_id=proposal_id,
                            operation="add_atom",
                        )
                    )
                self.ids.append(ids[molecule.key])

    def propose(self, connection: Connection, text: str, status: str, **more: Any) -> int:
        values = {
            "campaign_id": self.row.id,
            "turn_id": self.turn,
            "text": text,
            "status": status,
            "at": db_now(connection),
            "operation": "add_atom",
            **more,
        }
        made = connection.execute(t.proposal.insert().values(values).returning(t.proposal.c.id))
        return int(made.scalar_one())

    def answer(
        self,
        i: int,
        rung: int,
        *measured: Measured,
        outcome: Outcome = Outcome.OK,
        reason: Reason | None = None,
        seconds: float = 1.0,
        geometry: bool = False,
        cif: str = "",
        diagnostics: Mapping[str, Any] | None = None,
        job: bool = True,
    ) -> int:
        """One job of a rung on the i-th candidate, done, with its evidence, its cost and, if asked for, a geometry.

        cif: the relaxed cell of a crystal."""
        artifacts = []
        with self.ledger.begin() as connection:
            text = connection.execute(sa.select(t.candidate.c.text).where(t.candidate.c.id == self.ids[i])).scalar_one()
            if geometry:
                path = self.folder / f"{i}-{rung}.xyz"
                path.write_text(xyz(text))
                sha, size = self.ledger.artifacts.put(path)
                artifacts.append((path.name, sha, size, "chemical/x-xyz"))
            if cif:
                path = self.folder / f"{i}-{rung}.cif"
                path.write_text(cif)
                sha, size = self.ledger.artifacts.put(path)
                artifacts.append((path.name, sha, size, "chemical/x-cif"))
            rung_id = campaigns.rungs(connection, self.row.id)[rung].id
            depth = candidate_standings.depths(connection, self.row.id, [self.ids[i]])[self.ids[i]]
            candidate_standings.update(connection, self.row.id, self.ids[i], depth=max(depth, rung))
            attempt = self._attempt(connection, i, rung_id, outcome, seconds, job)
            more = new_evidence(
                self.ids[i],
                *measured,
                verifier=f"toy{rung}",
                subject=f"{i}",
                outcome=outcome,
                reason=reason,
                attempt_id=attempt,
                artifacts=tuple(artifacts),
                versions={"engine": "1.2"},
                diagnostics=diagnostics or {},
            )
            if not outcome.rule.is_evidence:
                return 0
            return evidence.record(connection, [more])[0]

    def _attempt(
        self, connection: Connection, i: int, rung_id: int, outcome: Outcome, seconds: float, job: bool
    ) -> int:
        job_id = None
        if job:
            now = db_now(connection)
            made = connection.execute(
                t.job.insert()
                .values(
                    campaign_id=self.row.id,
                    rung_id=rung_id,
                    candidate_id=self.ids[i],
                    evidence_key="e" * 64,
                    state="done",
                    outcome=outcome,
                    created_at=now,
                    updated_at=now,
                )
                .returning(t.job.c.id)
            )
            job_id = int(made.scalar_one())
        attempt = attempts.begin(connection, "me", campaign_id=self.row.id, rung_id=rung_id)
        connection.execute(t.attempt.update().where(t.attempt.c.id == attempt).values(job_id=job_id))
        state = AttemptState.DONE if outcome.rule.is_evidence else AttemptState.FAILED
        cost = {"core_seconds": seconds}
        attempts.end_many(connection, [AttemptEnd(attempt, state, cost, seconds, outcome)])
        attempts.mark_end(connection, [attempt])
        reservations_and_bookings.book_many(
            connection, [reservations_and_bookings.Bill(self.row.id, rung_id, attempt, cost)]
        )
        return attempt

    def place(self, i: int, standing: Standing, position: int, *, expected: float | None = None, **more: Any) -> None:
        """expected: the expected utility of a candidate whose utility is not stated."""
        hit = None if standing is Standing.OPEN else bool(more.get("is_hit"))
        columns = worth_columns(more.get("utility", expected), hit)
        with self.ledger.begin() as connection:
            candidate_standings.update(
                connection, self.row.id, self.ids[i], standing=standing, position=position, **columns, **more
            )

    def end(self, state: CampaignState, why: str) -> CampaignRow:
        with self.ledger.begin() as connection:
            campaigns.set_state(connection, self.row.id, CampaignState.RUNNING)
            campaigns.set_state(connection, self.row.id, state, why)
            self.row = campaigns.get(connection, self.row.name)
        return self.row


def gap(value: float, level: Level, uncertainty: float | None = 0.05, **more: Any) -> Measured:
    return Measured("homo_lumo_gap", level, Quantity(value, "eV", uncertainty, **more))


def dyes(ledger: Ledger, folder: Path, **changed: Any) -> Maker:
    """Twelve molecules: two hits, three verified misses, losses of every sort, one reused answer, one still open."""
    made = Maker(ledger, folder, **changed)
    made.enter(SMILES, rationale="conjugation lowers the gap")
    weight = Measured("molecular_weight", RDKIT, Quantity(100.0, "g/mol", 0.0))
    for i in range(12):
        made.answer(i, 0, weight, job=False, seconds=0.01)
    for i, value in enumerate(LOW):
        made.answer(i, 1, gap(value, GFN2), seconds=2.0, geometry=i < 6)
    hits = {0, 2}
    for i, value in enumerate(HIGH):
        made.answer(i, 2, gap(value, PBE0, None if i == 4 else 0.03), seconds=60.0 + i)
        verdict, reason = (Verdict.PASS, None) if i in hits else (Verdict.FAIL, Reason.ABOVE_WINDOW)
        if value < 4.0:
            reason = Reason.BELOW_WINDOW
        made.place(
            i,
            Standing.SETTLED,
            2,
            verdict=verdict,
            reason=reason,
            depth=2,
            expected=0.9 - i / 100,
            utility=0.9 - i / 10,
            is_hit=i in hits,
            hit_tier="high_fidelity" if i in hits else None,
            detail="" if i in hits else f"homo_lumo_gap = {value} eV, objective 4 ≤ homo_lumo_gap ≤ 4.6 eV",
        )
    for i in (5, 6):
        detail = f"homo_lumo_gap = {LOW[i]} eV, gate 1.3 ≤ homo_lumo_gap ≤ 2.8 eV"
        made.place(
            i,
            Standing.DROPPED,
            1,
            verdict=Verdict.FAIL,
            reason=Reason.ABOVE_WINDOW,
            detail=detail,
            depth=1,
            expected=0.2,
        )
    made.place(7, Standing.OPEN, 2, depth=1, expected=0.6)
    made.answer(8, 2, outcome=Outcome.NOT_CONVERGED, reason=Reason.SCF_NOT_CONVERGED, seconds=30.0)
    made.place(
        8,
        Standing.DROPPED,
        2,
        verdict=Verdict.INCONCLUSIVE,
        reason=Reason.SCF_NOT_CONVERGED,
        detail="100 cycles",
        depth=1,
        expected=0.5,
    )
    made.answer(9, 1, outcome=Outcome.TIMEOUT, reason=Reason.WALL_LIMIT, seconds=20.0)
    made.place(9, Standing.DROPPED, 1, verdict=Verdict.INCONCLUSIVE, reason=Reason.WALL_LIMIT, detail="600 s")
    made.place(10, Standing.DROPPED, 1, verdict=Verdict.ERROR, reason=Reason.KILLS_WORKERS, detail="twice")
    made.place(11, Standing.DROPPED, 0, verdict=Verdict.NOT_APPLICABLE, reason=Reason.ELEMENT, detail="Br")
    _around(made)
    made.end(CampaignState.BUDGET_SPENT, "what is left of the budget holds no further job")
    return made


def _around(made: Maker) -> None:
    """A reused answer, proposals that are none, a block, a word of a person, a value from a file."""
    ledger, row = made.ledger, made.row
    with ledger.begin() as connection:
        now = db_now(connection)
        rung = campaigns.rungs(connection, row.id)[1]
        one = connection.execute(sa.select(t.evidence.c.id).where(t.evidence.c.verifier == "toy1")).scalars().first()
        connection.execute(
            t.decision.insert().values(
                campaign_id=row.id,
                candidate_id=made.ids[0],
                rung_id=rung.id,
                action="reuse",
                chooser="reuse",
                watermark=1,
                propensity=1.0,
                evidence_id=one,
                at=now,
            )
        )
        made.propose(connection, "C1CC", "refused", reason=Reason.UNPARSABLE, detail="ring 1 is not closed")
        made.propose(connection, "c1ccccc1", "duplicate", candidate_id=made.ids[0])
        campaigns.log_event(connection, row.id, "safety_blocked", {"text": "O=[N+]([O-])OCC", "reason": "explosive"})
        connection.execute(
            t.directive.insert().values(
                campaign_id=row.id,
                candidate_id=made.ids[7],
                verb="hold",
                payload={},
                who="ada",
                why="ask Grace first",
                at=now,
            )
        )
        measured = Measured("homo_lumo_gap", Level("experiment"), Quantity(4.4, "eV", 0.1, Censoring.NONE, 2, "4.40"))
        evidence.record(
            connection,
            [new_evidence(made.ids[0], measured, verifier="import", subject="0", source="lab.csv", who="ada")],
        )
