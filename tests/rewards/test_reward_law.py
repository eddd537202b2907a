"""The worth of candidates is a function of the evidence up to a watermark."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from sciagent.campaign.core.create_and_open import create_or_open
from sciagent.campaign.file.campaign_spec import load_spec
from sciagent.chemistry.molecule import molecule_or_none, parse_molecule
from sciagent.rewards import reward_law
from sciagent.rewards.publish_versions import publish
from sciagent.rewards.reward_spec import RewardSpec
from sciagent.rewards.show_and_compare_versions import ShownRewards, show
from sciagent.store.database.ledger import Ledger
from sciagent.store.database.tables import metadata
from sciagent.store.results import candidates
from tests.support.campaigns import write_campaign
from tests.support.rewarded import CHECKS, DFT, SAFETY, XTB, Rewarded, RungAnswer, rewarded
from tests.support.servers.postgres import empty

SPEC = RewardSpec(prices={"core_seconds": 0.001})
GAP = "homo_lumo_gap"
MOLECULES = tuple(f"{'C' * (2 + i // 3)}{('O', 'N', 'S')[i % 3]}" for i in range(20))
EVENTS = [(i, XTB) for i in range(18)] + [(i, DFT) for i in range(0, 18, 2)] + [(1, DFT), (3, DFT), (5, DFT)]


def truth(i: int, position: int) -> float:
    """The gap of the i-th molecule, eV: by xTB, or by DFT, which follows it roughly."""
    low = 6.0 + (i * 7 % 20) / 4
    return low * 0.9 + ((i * 5) % 7 - 3) / 6 if position == DFT else low


@contextmanager
def opened(url: str, folder: Path) -> Iterator[Ledger]:
    ledger = Ledger(url, artifacts=folder / "artifacts")
    yield ledger
    ledger.close()


def build(ledger: Ledger, folder: Path, order: Sequence[tuple[int, int]]) -> Rewarded:
    """A campaign whose answers arrive in an order of (molecule, position). The ids of molecules follow it, too."""
    made = rewarded(ledger, folder)
    with ledger.begin() as connection:
        candidates.enter(connection, [parse_molecule(MOLECULES[i]) for i, _ in order])
    group = made.group(0, 2)
    made.episode(1, [MOLECULES[:7], MOLECULES[7:14]], group=group, sibling=0)
    made.episode(2, [MOLECULES[10:]], group=group, sibling=1)
    made.check(*MOLECULES)
    for i, position in order:
        made.order(MOLECULES[i], position)
        made.answer(MOLECULES[i], position, {GAP: truth(i, position)}, seconds=1.0)
    return made


def published(made: Rewarded, spec: RewardSpec = SPEC) -> ShownRewards:
    return show(made.ledger, publish(made.ledger, "small", spec).version)


def test_the_same_evidence_gives_equal_rewards_in_every_order_and_on_both_databases(
    migrated_sqlite: Path, migrated_postgres: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reward_law, "MAX_TEACHING", 8)  # more answers than the law keeps
    found = []
    for number in range(4):
        url = migrated_postgres if number == 0 else str(tmp_path / f"{number}.db")
        if number:
            shutil.copy(migrated_sqlite, url)
        order = EVENTS[:]
        random.Random(number).shuffle(order)
        with opened(url, tmp_path) as ledger:
            found.append(published(build(ledger, tmp_path / str(number), order)))
    empty(migrated_postgres, [table.name for table in metadata.tables.values()])
    texts = {shown.model_dump_json(exclude={"version", "law"}) for shown in found}  # ids of rows, which databases give
    assert len(texts) == 1, "equal to the last byte"
    worths = [candidate for episode in found[0].episodes for turn in episode.turns for candidate in turn.candidates]
    assert any(not worth.settled and worth.value not in (None, 0.0, 1.0) for worth in worths)


def test_a_candidate_that_was_not_verified_is_worth_less_by_the_price_of_its_verification(
    ledger: Ledger, tmp_path: Path
) -> None:
    made = build(ledger, tmp_path, EVENTS)
    free, dear = (
        {
            c.key: c.value
            for episode in published(made, RewardSpec(prices={"core_seconds": price, "money": 1.0})).episodes
            for turn in episode.turns
            for c in turn.candidates
            if not c.settled
        }
        for price in (0.0, 1e-3)
    )
    terminal = made.built.rungs[DFT]
    costs = {parse_molecule(smiles).key: terminal.declared_cost(parse_molecule(smiles)) or {} for smiles in MOLECULES}
    assert free and any(value for value in free.values())
    for key, value in dear.items():
        paid = 1e-3 * costs[key]["core_seconds"]
        assert paid > 0 and value == pytest.approx(max(0.0, (free[key] or 0.0) - paid))


def open_values(ledger: Ledger, folder: Path, name: str, objectives: str) -> dict[str, float]:
    """The values of candidates that wait for DFT, by key. The checks tell their logp, which is .9 for those."""
    path = write_campaign(folder, name=name)
    text = path.read_text(encoding="utf-8").replace("ladder:\n", f"{objectives}ladder:\n")
    path.write_text(text, encoding="utf-8")
    made = Rewarded(create_or_open(ledger, load_spec(path), text, "test").built)
    made.episode(1, [MOLECULES])
    verified = {i for i, position in EVENTS if position == DFT}
    for i, smiles in enumerate(MOLECULES):
        made.answer(smiles, SAFETY, {}, seconds=0.0)
        made.answer(smiles, CHECKS, {"logp": (i * 7 % 20) / 10 if i in verified else 0.9}, seconds=0.0)
    for i, position in EVENTS:
        made.order(MOLECULES[i], position)
        made.answer(MOLECULES[i], position, {GAP: truth(i, position)}, seconds=1.0)
    spec = RewardSpec(prices={"money": 1.0})
    [episode] = show(ledger, publish(ledger, name, spec).version).episodes
    worths = [worth for turn in episode.turns for worth in turn.candidates]
    return {worth.key: worth.value for worth in worths if not worth.settled and worth.value is not None}


def test_an_objective_that_a_lower_rung_has_met_is_known(migrated_sqlite: Path, tmp_path: Path) -> None:
    found = []
    for name, more in (("alone", ""), ("both", "  - {property: logp, max: 1}\n")):
        url = str(tmp_path / f"{name}.db")
        shutil.copy(migrated_sqlite, url)
        with opened(url, tmp_path / name) as ledger:
            found.append(open_values(ledger, tmp_path / name, name, more))
    alone, both = found
    assert len(both) >= 5 and any(0.01 < value < 0.99 for value in alone.values())
    assert both == pytest.approx({key: alone[key] for key in both}, abs=0.03)


@pytest.mark.long
def test_1100_terminal_answers_in_three_orders_give_equal_rewards_on_both_databases(
    migrated_sqlite: Path, migrated_postgres: str, tmp_path: Path
) -> None:
    """The law keeps 1000 of them, and its chains fewer. Neither limit is lowered for the test."""
    parts = ("O", "N", "S", "C(F)", "C(=O)C", "c1ccccc1", "C#N", "C(O)C")
    texts_of = (f"{'C' * n}{a}{'C' * m}{b}" for n in range(1, 8) for m in range(1, 8) for a in parts[:5] for b in parts)
    names = list({m.key: text for text in texts_of if (m := molecule_or_none(text)) is not None}.values())[:1160]
    assert len(names) == 1160
    texts = set()
    for number, seed in enumerate((1, 2, 3)):
        url = migrated_postgres if number == 0 else str(tmp_path / f"{number}.db")
        if number:
            shutil.copy(migrated_sqlite, url)
        with opened(url, tmp_path) as ledger:
            texts.add(_many(ledger, tmp_path / str(number), names, seed))
    empty(migrated_postgres, [table.name for table in metadata.tables.values()])
    assert len(texts) == 1


def _many(ledger: Ledger, folder: Path, names: Sequence[str], seed: int) -> str:
    """Returns the rewards of two siblings that propose 60 of many molecules; the answers arrive in a random order."""
    made = rewarded(ledger, folder)
    group = made.group(0, 2)
    made.episode(1, [names[-30:-15], names[-15:]], group=group, sibling=0)
    made.episode(2, [names[-60:-30]], group=group, sibling=1)
    made.episode(3, [names[:-60]])
    order = [(i, rung) for i in range(len(names)) for rung in (XTB, DFT) if rung == XTB or i < len(names) - 60]
    random.Random(seed).shuffle(order)
    made.check(*names[-60:])
    for start in range(0, len(order), 200):
        made.record([RungAnswer(names[i], rung, truth(i, rung)) for i, rung in order[start : start + 200]], seconds=0.0)
    shown = published(made)
    assert shown.law is not None
    return "\n".join(episode.model_dump_json() for episode in shown.episodes if episode.group == 0)


def test_the_expected_improvement_over_a_record_lies_between_its_bounds(ledger: Ledger, tmp_path: Path) -> None:
    made = rewarded(ledger, tmp_path, goal="{kind: best}")
    made.episode(1, [list(MOLECULES)], group=made.group(0, 1))
    made.check(*MOLECULES)
    for i, position in EVENTS:
        made.answer(MOLECULES[i], position, {GAP: truth(i, position)}, seconds=1.0)
    with ledger.read() as connection:
        now = made.watermark()
        law = reward_law.fit_law(made.built, connection, now)
        assert law is not None
        ids = list(candidates.ids_of(connection, [parse_molecule(smiles).key for smiles in MOLECULES]).values())
        whole, above = (reward_law.expectations(made.built, connection, law, ids, now, record) for record in (0.0, 0.6))
    assert len(whole) == len(MOLECULES)
    assert all(max(0.0, whole[id_] - 0.6) - 1e-9 <= above[id_] <= 0.4 * whole[id_] + 1e-9 for id_ in ids)
    assert any(above[id_] > whole[id_] - 0.6 + 1e-3 for id_ in ids), "an answer may lie below the record"
