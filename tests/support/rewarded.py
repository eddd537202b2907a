"""Campaigns with groups of episodes, whose evidence is written by the test instead of computed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

import sqlalchemy as sa

from sciagent.campaign.core.built_campaign_and_derived_values import Built
from sciagent.campaign.core.create_and_open import create_or_open
from sciagent.campaign.file.campaign_spec import load_spec
from sciagent.chemistry.molecule import Molecule, parse_molecule
from sciagent.domain.evidence_keys_and_pooled_replicates import Finding, Measured
from sciagent.domain.outcomes_verdicts_and_reasons import Outcome
from sciagent.domain.policy_identity import PolicyIdentity
from sciagent.domain.quantities import Quantity
from sciagent.domain.states_and_needs import AttemptState
from sciagent.inputs.environment_variables import code_version
from sciagent.rewards.reward_spec import RewardSpec
from sciagent.rewards.show_and_compare_versions import ShownRewards
from sciagent.store.campaign_state import candidate_standings, proposer_trajectories
from sciagent.store.campaign_state.proposer_trajectories import NewTurn
from sciagent.store.database import tables as t
from sciagent.store.database.engine import db_now
from sciagent.store.database.ledger import Ledger
from sciagent.store.job_queue import attempts
from sciagent.store.job_queue.attempts import AttemptEnd
from sciagent.store.learning import policies_and_roles
from sciagent.store.results import candidates, evidence
from sciagent.store.results.evidence import NewEvidence, RecordedEvidence
from tests.support.campaigns import write_campaign

SAFETY, CHECKS, XTB, DFT = 0, 1, 2, 3
HIT, MISS = 5.0, 12.0  # eV; the window of the campaigns ends at 9
PRICE = 0.001
SPEC = RewardSpec(prices={"core_seconds": PRICE, "llm_tokens": 1e-5}, unsettled="settled")
GAP = "homo_lumo_gap"


class RungAnswer(NamedTuple):
    """A gap that a rung found."""

    smiles: str
    position: int
    gap: float
    """In eV."""
    replicate: int = 0
    revision: int = 0
    supersedes: int | None = None
    """Id of the evidence that it corrects."""


@dataclass
class Rewarded:
    """A campaign under construction."""

    built: Built
    checked: set[str] = field(default_factory=set)

    @property
    def ledger(self) -> Ledger:
        return self.built.ledger

    def group(self, number: int, size: int, *, watermark: int = 0, seq: int = 0) -> int:
        """Opens a group on the snapshot of a watermark, with the first `seq` candidates; returns its id."""
        with self.ledger.begin() as connection:
            values = {
                "campaign_id": self.built.row.id,
                "number": number,
                "task": {},
                "snapshot": {},
                "snapshot_watermark": watermark,
                "snapshot_seq": seq,
                "opening": [],
                "opening_hash": "0" * 64,
                "seed": number,
                "size": size,
                "purpose": "rollout",
                "code_version": code_version(),
                "state": "open",
                "at": db_now(connection),
            }
            return int(
                connection.execute(
                    sa.insert(t.rollout_group).values(values).returning(t.rollout_group.c.id)
                ).scalar_one()
            )

    def episode(
        self,
        number: int,
        turns: Sequence[Sequence[str]],
        *,
        group: int | None = None,
        sibling: int = 0,
        tokens: float = 0.0,
        policy: str = "tiny@0",
        predicted: Mapping[str, Mapping[str, Mapping[str, float]]] | None = None,
    ) -> None:
        """Writes an episode. turns: SMILES that each turn proposes; a SMILES again is a repeat. predicted: `value` and
        `error` by SMILES and property."""
        with self.ledger.begin() as connection:
            proposed = {smiles: parse_molecule(smiles) for turn in turns for smiles in turn}
            ids = candidates.enter(connection, proposed.values())
            policy_id = policies_and_roles.enter(connection, PolicyIdentity(policy, "test"))
            trajectory = proposer_trajectories.open_(
                connection,
                self.built.row.id,
                number,
                proposer="tiny",
                settings={"opening": []},
                seed=number,
                purpose="rollout" if group is not None else "campaign",
                group_id=group,
                sibling=None if group is None else sibling,
            )
            seen = set[str]()
            for place, turn in enumerate(turns):
                cost = {"llm_tokens": tokens} if tokens else {}
                new = NewTurn(
                    place,
                    {},
                    [],
                    [{"proposed": list(turn)}],
                    cost,
                    policy,
                    proposer_trajectories.SampledRow({"role": "assistant"}),
                    policy_id=policy_id,
                )
                turn_id = proposer_trajectories.write_turn(
                    connection, trajectory, new, evidence.read_watermark(connection)
                )
                for smiles in turn:
                    status = "duplicate" if smiles in seen else "new"
                    expected = (predicted or {}).get(smiles)
                    self._propose(connection, turn_id, smiles, ids[proposed[smiles].key], status, expected)
                    seen.add(smiles)

    def _propose(
        self,
        connection: sa.Connection,
        turn_id: int,
        smiles: str,
        candidate_id: int,
        status: str = "new",
        predicted: Mapping[str, Mapping[str, float]] | None = None,
    ) -> None:
        values = {"campaign_id": self.built.row.id, "turn_id": turn_id, "text": smiles, "status": status}
        values |= {"candidate_id": candidate_id, "at": db_now(connection)}
        values |= {} if predicted is None else {"predicted": predicted}
        proposal = connection.execute(sa.insert(t.proposal).values(values).returning(t.proposal.c.id)).scalar_one()
        if candidate_standings.get(connection, self.built.row.id, candidate_id) is None:
            member = {"candidate_id": candidate_id, "in_seeds": False, "proposal_id": proposal}
            candidate_standings.add(connection, self.built.row.id, [member])

    def check(self, *smiles: str) -> None:
        """Lets molecules pass the checks."""
        for each in set(smiles) - self.checked:
            self.answer(each, SAFETY, {}, seconds=0.0)
            self.answer(each, CHECKS, {}, seconds=0.0)
        self.checked |= set(smiles)

    def order(self, smiles: str, position: int, propensity: float = 1.0) -> None:
        """Writes the decision to run a rung."""
        with self.ledger.begin() as connection:
            row = {
                "action": "run",
                "chooser": "test",
                "propensity": propensity,
                "rung_id": self.built.rungs[position].id,
            }
            candidate_standings.decide(
                connection, self.built.row.id, [{"candidate_id": self._id(connection, smiles), **row}]
            )

    def answer(
        self,
        smiles: str,
        position: int,
        values: Mapping[str, float],
        *,
        seconds: float = 10.0,
        uncertainty: float = 0.05,
        supersedes: RecordedEvidence | None = None,
        revision: int = 0,
        replicate: int = 0,
    ) -> RecordedEvidence:
        """Records the answer of a rung with its attempt. values: by property, in canonical units."""
        rung = self.built.rungs[position]
        molecule: Molecule = parse_molecule(smiles)
        level = {measure.property.name: measure.level for measure in rung.spec.measures}
        unit = {measure.property.name: measure.property.unit for measure in rung.spec.measures}
        measured = tuple(
            Measured(name, level[name], Quantity(value, unit[name], uncertainty)) for name, value in values.items()
        )
        with self.ledger.begin() as connection:
            attempt = self._attempt(connection, rung.id, seconds)
            finding = Finding(molecule.key, Outcome.OK, measured)
            key = replace(rung.verifier.evidence_key(molecule, replicate), revision=revision)
            new = NewEvidence(finding, key, self._id(connection, smiles), attempt)
            if supersedes is not None:
                new = NewEvidence(
                    finding, key, self._id(connection, smiles), attempt, supersedes=supersedes.id, why="wrong"
                )
            [recorded] = evidence.record_once(connection, [new])
            assert isinstance(recorded, RecordedEvidence)
            return recorded

    def settle(self, smiles: str, gap: float, seconds: float = 100.0) -> None:
        """Lets the whole ladder answer for a molecule: xTB in 1 core-second, DFT with the gap."""
        self.check(smiles)
        for position, value, cost in ((XTB, 8.0, 1.0), (DFT, gap, seconds)):
            self.order(smiles, position)
            self.answer(smiles, position, {"homo_lumo_gap": value}, seconds=cost)

    def record(self, answers: Sequence[RungAnswer], *, seconds: float = 1.0) -> list[RecordedEvidence]:
        """Records many answers in one transaction, with an attempt for all of them, and returns them in order."""
        with self.ledger.begin() as connection:
            molecules = {answer.smiles: parse_molecule(answer.smiles) for answer in answers}
            ids = candidates.enter(connection, molecules.values())
            attempt = self._attempt(connection, self.built.rungs[answers[0].position].id, seconds)
            new = []
            for answer in answers:
                molecule, rung = molecules[answer.smiles], self.built.rungs[answer.position]
                key = replace(
                    rung.verifier.evidence_key(molecule), replicate=answer.replicate, revision=answer.revision
                )
                level = {measure.property.name: measure.level for measure in rung.spec.measures}
                gap = Measured("homo_lumo_gap", level["homo_lumo_gap"], Quantity(answer.gap, "eV", 0.05))
                finding = Finding(molecule.key, Outcome.OK, (gap,))
                old = answer.supersedes
                new.append(NewEvidence(finding, key, ids[molecule.key], attempt, supersedes=old, why=old and "wrong"))
            recorded = evidence.record_once(connection, new)
            assert all(isinstance(each, RecordedEvidence) for each in recorded)
            return [each for each in recorded if isinstance(each, RecordedEvidence)]

    def known(self, smiles: str, position: int) -> RecordedEvidence:
        """The current answer of a rung."""
        verifier = self.built.rungs[position].verifier
        with self.ledger.begin() as connection:
            id_ = self._id(connection, smiles)
            return evidence.find_reusable(connection, [id_], verifier.computation)[id_]

    def fail(self, smiles: str, position: int) -> None:
        """Lets a rung refuse a molecule by its gate: a gap far beyond any."""
        self.answer(smiles, position, {"homo_lumo_gap": 60.0})

    def _attempt(self, connection: sa.Connection, rung_id: int, seconds: float) -> int:
        attempt = attempts.begin(connection, "test", campaign_id=self.built.row.id, rung_id=rung_id)
        cost = {"core_seconds": seconds} if seconds else {}
        attempts.end_many(connection, [AttemptEnd(attempt, AttemptState.DONE, cost, seconds, Outcome.OK)])
        attempts.mark_end(connection, [attempt])
        return attempt

    def _id(self, connection: sa.Connection, smiles: str) -> int:
        molecule = parse_molecule(smiles)
        return candidates.enter(connection, [molecule])[molecule.key]

    def watermark(self) -> int:
        with self.ledger.read() as connection:
            return evidence.read_watermark(connection)


def rewarded(
    ledger: Ledger, folder: Path, name: str = "small", scheduler: str = "exhaustive", goal: str = "{kind: hits}"
) -> Rewarded:
    """A campaign with checks, xTB (gate 1 to 40 eV) and DFT, where a gap from 3 to 9 eV is a hit."""
    path = write_campaign(folder, name=name, scheduler=scheduler)
    path.write_text(path.read_text(encoding="utf-8").replace("{kind: hits}", goal), encoding="utf-8")
    built = create_or_open(ledger, load_spec(path), path.read_text(encoding="utf-8"), "test").built
    return Rewarded(built)


def returns(shown: ShownRewards) -> dict[int, list[float | None]]:
    """Returns by episode the return of each turn."""
    return {episode.episode: [turn.to_go for turn in episode.turns] for episode in shown.episodes}
