"""A campaign in which measured values decide: the same verdicts whenever they are imported, and no job for a rung that
only measures what is measured."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import sqlalchemy as sa
from sqlalchemy.engine import Connection

import sciagent
from sciagent.campaign.core.built_campaign_and_derived_values import Built
from sciagent.campaign.core.create_and_open import create_or_open
from sciagent.campaign.driving.driver import Driver
from sciagent.campaign.file.campaign_spec import load_spec
from sciagent.campaign.people.import_values import import_file
from sciagent.domain.display_units import Column
from sciagent.domain.properties_and_levels import Level
from sciagent.rewards.candidate_states_lots_and_episode_starts import states
from sciagent.rewards.reward_term_contract import Settlement
from sciagent.store.database import tables as t
from sciagent.store.database.ledger import Ledger
from sciagent.store.results.evidence import read_watermark

SPEC = """
campaign: chains
subject: molecule
measured: decide
objectives:
  - {{property: chain_size, window: [3, 6]}}
  - {{property: chain_polarity, min: 0.1}}
ladder:
  - {{rung: checks, verifier: molecule.checks, gate: {{logp: {{max: 2.4}}}}}}
  - {first}
  - {second}
goal: {{kind: hits}}
budget: {{proposals: 50}}
proposer: {{kind: screen, file: chains.csv, batch: 20}}
scheduler: {{kind: {scheduler}}}
workers: 2
"""
SIZE = "{rung: size, verifier: measured_size, gate: {chain_size: {min: 2.5}}}"
POLARITY = "{rung: polarity, verifier: measured_polarity}"
CHAINS = ("CO", "CCO", "CCCO", "CCCCO", "CCCCCO", "CCCCCCO", "CCCCCCCO", "CCCCCCCCO", "OCCO", "OCCCO")
# CO misses by the computed size of 2, and passes by the measured one; for CCCO it is the other way round
MEASURED = {"CO": 4.0, "CCCO": 9.0, "CCCCO": 4.5, "CCCCCCCCO": 5.0}


@pytest.fixture(autouse=True)
def _functions() -> None:
    @sciagent.verifier(measures="chain_size", name="measured_size", cost=0.01)
    def size(molecule: Any) -> tuple[float, float]:
        return float(molecule.heavy_atoms), 0.5

    @sciagent.verifier(measures="chain_polarity", name="measured_polarity", cost=0.02)
    def polarity(molecule: Any) -> float:
        return molecule.smiles.count("O") / molecule.heavy_atoms


class Standing(NamedTuple):
    standing: str
    verdict: str | None
    reason: str | None
    is_hit: bool
    chance: int | None
    p_hit: float | None


class Campaign:
    """A campaign in a ledger of its own."""

    def __init__(self, folder: Path, rungs: Sequence[str], scheduler: str) -> None:
        folder.mkdir()
        self.folder = folder
        (folder / "chains.csv").write_text("smiles\n" + "\n".join(CHAINS) + "\n")
        first, second = rungs
        (folder / "chains.yaml").write_text(SPEC.format(first=first, second=second, scheduler=scheduler))
        self.ledger = Ledger(str(folder / "ledger.db"))

    def import_values(self, values: dict[str, float], **more: Any) -> None:
        file = self.folder / "lab.csv"
        file.write_text("smiles,size\n" + "".join(f"{text},{value}\n" for text, value in values.items()))
        import_file(
            self.ledger, file, columns=[Column("size", "chain_size", None, "0.1")], level=Level("experiment"), **more
        )

    def run(self) -> Built:
        file = self.folder / "chains.yaml"
        built = create_or_open(self.ledger, load_spec(file), file.read_text(), "test").built
        with Driver(built) as driver:
            driver.run()
        return built

    def standings(self) -> dict[str, Standing]:
        cc = t.campaign_candidate.c
        query = sa.select(t.candidate.c.text, *(cc[name] for name in Standing._fields))
        query = query.join(t.campaign_candidate, cc.candidate_id == t.candidate.c.id)
        with self.ledger.read() as connection:
            return {text: Standing(*rest) for text, *rest in connection.execute(query)}

    def ran(self, rung: str) -> set[str]:
        """The candidates for which a job of the rung was decided."""
        d = t.decision.c
        query = sa.select(t.candidate.c.text).join(t.decision, d.candidate_id == t.candidate.c.id)
        query = query.join(t.rung, t.rung.c.id == d.rung_id).where(t.rung.c.name == rung, d.action == "run")
        with self.ledger.read() as connection:
            return set(connection.execute(query).scalars())


@pytest.mark.parametrize(
    ("scheduler", "rungs"),
    [
        pytest.param("thresholds", (SIZE, POLARITY), marks=pytest.mark.long),
        ("priced", (POLARITY, SIZE)),
        pytest.param("priced", (SIZE, POLARITY), marks=pytest.mark.long),
        pytest.param("exhaustive", (POLARITY, SIZE), marks=pytest.mark.long),
    ],
)
def test_the_verdict_does_not_depend_on_when_a_value_came(
    tmp_path: Path, rungs: tuple[str, str], scheduler: str
) -> None:
    before = Campaign(tmp_path / "before", rungs, scheduler)
    before.import_values(MEASURED)
    before.run()
    standings = before.standings()
    assert {text for text in MEASURED if standings[text].is_hit} == {"CO", "CCCCO", "CCCCCCCCO"}
    assert standings["CCCO"] == Standing("dropped", "fail", "above_window", False, 0, 0.0)
    assert not before.ran("size") & MEASURED.keys(), "the rung only measures what is measured"
    assert "CCCO" not in before.ran("polarity"), "nothing is bought for a candidate that is known to miss"

    after = Campaign(tmp_path / "after", rungs, scheduler)
    after.run()
    computed = after.standings()
    assert not computed["CO"].is_hit and computed["CCCO"].is_hit
    after.import_values(MEASURED)
    built = after.run()
    assert after.standings() == standings

    with built.ledger.read() as connection:
        now = read_watermark(connection)
        [id_] = candidates_named(connection, "CCCO")
        first = evidence_before_imports(connection)
        assert states(built, connection, [id_], now)[id_].settlement is Settlement.REFUSED
        assert states(built, connection, [id_], first)[id_].payoff == 1.0, "as of then, nothing was measured"
    after.import_values(MEASURED | {"CCCO": 4.0}, revise="read again")
    after.run()
    assert after.standings()["CCCO"].is_hit, "a correction is noticed at the next start"


def candidates_named(connection: Connection, text: str) -> list[int]:
    query = sa.select(t.candidate.c.id).where(t.candidate.c.text == text)
    return list(connection.execute(query).scalars())


def evidence_before_imports(connection: Connection) -> int:
    """The watermark of the last evidence before the first imported value."""
    e = t.evidence.c
    first = connection.execute(sa.select(sa.func.min(e.watermark)).where(e.verifier == "import")).scalar_one()
    return int(first) - 1
