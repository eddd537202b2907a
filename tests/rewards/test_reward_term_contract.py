"""Reward terms of other packages: they are found by entry point, enter the hash, and are named where they fail."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
import sqlalchemy as sa

from sciagent.errors import SpecError, UsageError
from sciagent.rewards import reward_term_contract
from sciagent.rewards.publish_versions import publish
from sciagent.rewards.reward_spec import RewardSpec, load_rewards
from sciagent.rewards.reward_term_contract import RewardTerm, TurnOfEpisode, term_class
from sciagent.rewards.show_and_compare_versions import show
from sciagent.store.database import tables as t
from sciagent.store.database.ledger import Ledger
from tests.support.plugins import installed
from tests.support.rewarded import Rewarded

TEXT = """
prices: {core_seconds: 0.001}
unsettled: settled
terms: {lengths.long: -0.1}
term_settings: {lengths.long: {most: 3}}
"""


@pytest.fixture(scope="module", autouse=True)
def lengths(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The package `lengths-terms` is installed."""
    with installed("lengths", tmp_path_factory.mktemp("site")):
        yield


def described(folder: Path, text: str = TEXT) -> RewardSpec:
    (folder / "rewards.yaml").write_text(text, encoding="utf-8")
    return load_rewards(folder / "rewards.yaml")


def test_a_term_of_another_package_counts_by_its_settings(made: Rewarded, tmp_path: Path) -> None:
    made.episode(1, [["CCO", "CCCCO", "CCCCO"], []])
    shown = show(made.ledger, publish(made.ledger, "small", described(tmp_path)).version)
    assert [turn.terms["lengths.long"] for turn in shown.episodes[0].turns] == [pytest.approx(-0.1 / 3), 0.0]
    shown = show(made.ledger, publish(made.ledger, "small", described(tmp_path, TEXT.replace("3}", "5}"))).version)
    assert [turn.terms["lengths.long"] for turn in shown.episodes[0].turns] == [0.0, 0.0]


def test_version_and_settings_of_a_term_enter_the_hash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = described(tmp_path)
    default = TEXT.replace("term_settings: {lengths.long: {most: 3}}\n", "")
    assert described(tmp_path, default).hash == described(tmp_path, TEXT.replace("most: 3", "most: 8")).hash
    assert described(tmp_path, default).hash != first.hash
    assert RewardSpec.model_validate(first.model_dump(mode="json")).hash == first.hash
    monkeypatch.setattr(term_class("lengths.long"), "version", "2")
    assert described(tmp_path).hash != first.hash
    pinned = TEXT + 'term_versions: {lengths.long: "1"}\n'
    with pytest.raises(SpecError, match=r"6:\d+: term_versions.*lengths-terms 0.3.0 has version 2 of the term"):
        described(tmp_path, pinned)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("{lengths.long: -0.1}", "{lengths.lon: -0.1}", r'4:9: terms.*"lengths.lon"; did you mean "lengths.long"\?'),
        (
            "{lengths.long: -0.1}",
            "{novelti: -0.1}",
            r'"novelti"; did you mean "novelty"\?\s+installed: diversity, empty',
        ),
        ("most: 3", "mots: 3", r'5:\d+: term_settings.*did you mean "most"\?\s+the term "lengths.long" takes: most'),
        ("most: 3", "most: 0", r"5:\d+: term_settings.*must be greater than 0, not 0"),
        ("term_settings: {lengths.long: {most: 3}}", "term_settings: {empty: {}}", 'no term "empty"'),
        ("{lengths.long: -0.1}", "{lengths.long: -0.1, lengths.between: 0.1}", "the term needs settings: least"),
        ("{lengths.long: -0.1}", "{lengths.nowhere: -0.1}", "lengths-terms 0.3.0 does not load: ModuleNotFoundError"),
        ("{lengths.long: -0.1}", "{lengths.nameless: -0.1}", "has to state name = 'lengths.nameless'"),
    ],
)
def test_a_mistake_is_named_with_its_line(old: str, new: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=message):
        described(tmp_path, TEXT.replace(old, new))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "lengths.broken",
            "of lengths-terms 0.3.0 fails in turn 0 of episode 1: KeyError: 'no such length'; no rewards",
        ),
        (
            "lengths.large",
            "of lengths-terms 0.3.0 returns 2.0 in turn 0 of episode 1, which is neither None nor a number",
        ),
    ],
)
def test_a_term_that_fails_is_named_and_nothing_is_lost(
    name: str, message: str, made: Rewarded, ledger: Ledger, tmp_path: Path
) -> None:
    made.episode(1, [["CCO"]])
    publish(made.ledger, "small", described(tmp_path))
    failing = TEXT.replace("lengths.long", name)
    with pytest.raises(UsageError, match=f'the reward term "{name}" {message}'):
        publish(made.ledger, "small", described(tmp_path, failing))
    with ledger.read() as connection:
        assert connection.execute(sa.select(sa.func.count()).select_from(t.reward_version)).scalar_one() == 1
    again = publish(made.ledger, "small", described(tmp_path))
    assert again.episodes == 1 and again.changed == ()


class Good(RewardTerm):
    """Keeps the contract."""

    name = "acme.good"
    version = "1"

    def of(self, turn: TurnOfEpisode) -> float | None:
        return 0.0


@pytest.mark.parametrize(
    ("name", "kind", "fault"),
    [
        ("acme.good", dict, "<class 'dict'> is no subclass of sciagent.rewards.reward_term_contract.RewardTerm"),
        ("acme.good", type("Bare", (RewardTerm,), {"name": "acme.good", "version": "1"}), "Bare lacks of"),
        ("cost", type("Cost", (Good,), {"name": "cost"}), "every reward has a part of this name"),
        ("acme.good", type("Bad", (Good,), {"version": 1}), 'version must be a text such as "1", not 1'),
        ("acme.good", type("Bad", (Good,), {"Settings": dict}), "Settings must be a subclass of .*TermSettings"),
    ],
)
def test_a_class_that_breaks_the_contract_is_named(
    name: str, kind: type, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    point = EntryPoint(name, "acme:Good", reward_term_contract.GROUP)
    monkeypatch.setattr(EntryPoint, "load", lambda _: kind)
    monkeypatch.setattr(reward_term_contract, "_entry_points", lambda: {name: point})
    monkeypatch.setattr(reward_term_contract, "package_of", lambda _: "acme 0.1")
    with pytest.raises(UsageError, match=f'^reward term "{name}" of acme 0.1: .*{fault}'):
        term_class(name)
