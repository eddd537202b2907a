"""Proposers of other packages: they see what was measured, and pay for their own work."""

from __future__ import annotations

import random
import sys
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar

import pytest
import sqlalchemy as sa

from sciagent.agent.proposers.plugin_proposers import CampaignView, ProposerTask, names, proposer_class
from sciagent.campaign.core.create_and_open import create_or_open
from sciagent.campaign.driving.driver import Driver
from sciagent.campaign.file.campaign_spec import parse_spec
from sciagent.domain.proposer_interfaces import MeasuredCandidate, ProposalIn
from sciagent.domain.states_and_needs import CampaignState
from sciagent.errors import CampaignError, SpecError, UnknownNameError, UsageError
from sciagent.store.database import tables as t
from sciagent.store.database.ledger import Ledger

TEXT = """
campaign: homologues
subject: molecule
objectives: [{property: logp, window: [1, 3]}]
ladder:
  - {rung: checks, verifier: molecule.checks, settings: {max_heavy_atoms: 9, descriptors: [logp]}}
goal: {kind: hits}
budget: {proposals: 40}
proposer: {kind: plugin, name: test.longer, seeds: seeds.csv, file: letters.txt, settings: {least: 2}, batch: 2}
scheduler: {kind: exhaustive}
safety: {screen: false, reason: molecules of a test}
"""


class Longer:
    """Adds the letters of its file to the molecule of the largest logp, until that is at least 2."""

    seen: ClassVar[list[list[MeasuredCandidate]]] = []  # of all turns

    def __init__(self, task: ProposerTask) -> None:
        if task.file is None:
            raise UsageError("test.longer needs a file")
        self._letters, self._least = task.file.read_text(encoding="utf-8").strip(), task.settings["least"]
        assert task.limits.max_heavy_atoms == 9 and task.objectives[0].property == "logp"

    def ask(self, campaign: CampaignView, n: int, rng: random.Random) -> Sequence[ProposalIn]:
        measured = campaign.measured()
        self.seen.append(measured)
        largest = max(measured, key=lambda each: each.values["logp"])
        if largest.values["logp"] >= self._least:
            return ()
        sum(rng.random() for _ in range(50_000))  # some work, which is booked
        return [ProposalIn(self._letters * place + largest.text, (largest.key,), "longer") for place in (1, 2)]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the files of the campaign, and an installed package with three proposers."""
    (tmp_path / "seeds.csv").write_text("smiles\nCO\nCCO\nCN\n", encoding="utf-8")
    (tmp_path / "letters.txt").write_text("C\n", encoding="utf-8")
    info = tmp_path / "site" / "longer-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: longer\nVersion: 1.0\n", encoding="utf-8")
    points = f"""
        [sciagent.proposers]
        test.longer = {__name__}:Longer
        test.nothing = {__name__}:TEXT
        test.nowhere = nowhere_at_all:Longer
        """
    (info / "entry_points.txt").write_text(textwrap.dedent(points), encoding="utf-8")
    monkeypatch.setattr(sys, "path", [str(tmp_path / "site"), *sys.path])
    monkeypatch.setattr(Longer, "seen", [])
    return tmp_path


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    made = Ledger(str(tmp_path / "sciagent.db"))
    yield made
    made.close()


def test_it_proposes_after_the_seeds_from_what_was_measured_and_pays_for_its_work(folder: Path, ledger: Ledger) -> None:
    built = create_or_open(ledger, parse_spec(TEXT, base=folder), TEXT, "test").built
    with Driver(built) as driver:
        driver.run()
    seeds, *later = Longer.seen
    assert {each.text for each in seeds} == {"CO", "CCO", "CN"}, "all seeds come before the first question"
    assert [each.worth.order for each in seeds] == sorted((each.worth.order for each in seeds), reverse=True)
    assert all(set(each.values) == {"logp"} for each in seeds)
    assert max(each.values["logp"] for each in later[-1]) >= 2
    with ledger.read() as connection:
        made = connection.execute(sa.select(t.proposal.c.operation, t.proposal.c.text).order_by(t.proposal.c.id)).all()
        own = sa.select(sa.func.sum(t.spend.c.amount)).where(t.spend.c.attempt_id.is_(None))
        booked = connection.execute(own.where(t.spend.c.resource == "core_seconds")).scalar_one()
        turns = [cost for (cost,) in connection.execute(sa.select(t.turn.c.cost))]
    assert [operation for operation, _ in made[:5]] == ["seed", "seed", "seed", "longer", "longer"]
    assert made[3].text == "CCCO" and made[4].text == "CCCCO"
    assert 1e-3 < booked < 10
    assert sum(cost.get("core_seconds", 0) for cost in turns) >= booked


def test_the_campaign_is_another_with_another_file(folder: Path) -> None:
    before = parse_spec(TEXT, base=folder).identity_hash
    (folder / "letters.txt").write_text("CC\n", encoding="utf-8")
    assert parse_spec(TEXT, base=folder).identity_hash != before


def test_what_cannot_propose_is_refused_by_name(folder: Path) -> None:
    assert {"test.longer", "test.nothing", "test.nowhere"} <= set(names())
    assert proposer_class("test.longer") is Longer
    with pytest.raises(UnknownNameError, match=r'did you mean "test.longer"'):
        proposer_class("test.longe")
    with pytest.raises(UsageError, match="has no method `ask`"):
        proposer_class("test.nothing")
    with pytest.raises(UsageError, match="does not load: ModuleNotFoundError"):
        proposer_class("test.nowhere")
    with pytest.raises(SpecError, match=r'proposer\.name: "test.longe" is no installed proposer; did you mean'):
        parse_spec(TEXT.replace("test.longer", "test.longe"), base=folder)
    with pytest.raises(SpecError, match=r'"gone.txt" does not exist'):
        parse_spec(TEXT.replace("letters.txt", "gone.txt"), base=folder)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (KeyError("gap"), r'the proposer "test.longer" failed in turn 2: KeyError'),
        (["CCO"], r"""the proposer "test.longer" answered 'CCO', which is no ProposalIn"""),
    ],
)
def test_its_fault_is_named_and_the_campaign_goes_on_later(
    folder: Path, ledger: Ledger, monkeypatch: pytest.MonkeyPatch, answer: object, said: str
) -> None:
    def ask(*_: object) -> object:
        if isinstance(answer, Exception):
            raise answer
        return answer

    built = create_or_open(ledger, parse_spec(TEXT, base=folder), TEXT, "test").built
    with monkeypatch.context() as broken, pytest.raises(CampaignError, match=said), Driver(built) as driver:
        broken.setattr(Longer, "ask", ask)
        driver.run()
    with Driver(create_or_open(ledger, parse_spec(TEXT, base=folder), TEXT, "test").built) as driver:
        assert driver.run() is CampaignState.FINISHED
    assert {"CO", "CCO", "CN"} <= {each.text for each in Longer.seen[0]}, "the seeds are there from the first run"


def test_the_results_of_its_campaign_are_read_where_it_is_not_installed(folder: Path) -> None:
    text = TEXT.replace("test.longer", "test.gone")
    assert parse_spec(text, base=folder, candidates=False).campaign == "homologues"
