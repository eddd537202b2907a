"""A campaign asks its proposer for more while more can come of it, and says at the end what stopped the proposals."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import sqlalchemy as sa

from sciagent.agent import conversation_and_asking
from sciagent.campaign.core.create_and_open import create_or_open
from sciagent.campaign.driving.driver import Driver
from sciagent.campaign.file.campaign_spec import parse_spec
from sciagent.domain.states_and_needs import CampaignState
from sciagent.store.campaign_state import campaigns
from sciagent.store.database import tables as t
from sciagent.store.database.ledger import Ledger
from sciagent.store.views import campaign_counts_and_remarks
from tests.support.chat_server import ChatServer, answer, calls
from tests.support.plugins import installed

GROUPS = ("O", "N", "F", "Cl", "C#N", "C=O")
MOLECULES = tuple(f"{'C' * n}{group}" for n in range(1, 20) for group in GROUPS)
PER_TURN = 2
LADDER = """\
  - {{rung: cheap, verifier: fixed.gap, settings: {{method: cheap, error: 0.8, money: {0}}}}}
  - {{rung: middle, verifier: fixed.gap, settings: {{method: middle, error: 0.3, money: {1}}}}}
  - {{rung: truth, verifier: fixed.gap, settings: {{method: truth, error: 0.0, money: {2}}}}}
"""
TEXT = """\
campaign: asked
subject: molecule
seed: 1
objectives: [{{property: homo_lumo_gap, window: [5.6, 6.4], unit: eV}}]
ladder:
{ladder}goal: {{kind: hits}}
budget: {budget}
proposer: {proposer}
scheduler: {{kind: {scheduler}}}
workers: 1
"""


@pytest.fixture(scope="module", autouse=True)
def fixed_verifiers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with installed("recorded", tmp_path_factory.mktemp("site")):
        yield


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversation_and_asking, "FIRST_PAUSE", 0.01)


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    made = Ledger(str(tmp_path / "sciagent.db"))
    yield made
    made.close()


class Ran(NamedTuple):
    """What became of a campaign."""

    state: CampaignState
    why: str
    proposals: int
    jobs: dict[str, int]
    """Number of jobs by rung."""
    money: float


def run(
    ledger: Ledger,
    folder: Path,
    budget: str,
    *,
    prices: tuple[float, float, float] = (0.5, 1, 12),
    proposer: str = "{kind: screen, file: molecules.csv, batch: 6}",
    scheduler: str = "priced",
) -> Ran:
    """Runs a campaign with prices of its three rungs in money, to its end."""
    ladder = LADDER.format(*prices)
    text = TEXT.format(ladder=ladder, budget=budget, proposer=proposer, scheduler=scheduler)
    built = create_or_open(ledger, parse_spec(text, base=folder), text, "test").built
    with Driver(built) as driver:
        driver.run()
        money = driver.session.budget.used().get("money", 0.0)
        proposals = driver.intake.n_proposals
    with ledger.read() as connection:
        state, why = connection.execute(sa.select(t.campaign.c.state, t.campaign.c.stop_reason)).one()
        counted = sa.select(t.rung.c.name, sa.func.count()).join_from(t.job, t.rung).group_by(t.rung.c.name)
        jobs = {name: n for name, n in connection.execute(counted)}
    return Ran(CampaignState(state), why, proposals, jobs, money)


def model(server: ChatServer, more: str = "") -> str:
    """Returns the proposer of a campaign that asks the server when fewer than six candidates wait."""
    return f'{{kind: llm, model: m, endpoint: "{server.url}", turns: 14, ahead: 6, timeout: 20{more}}}'


def proposing(*texts: str, n: int) -> tuple[int, Any]:
    given = [("propose", {"smiles": text, "rationale": "next", "predictions": []}) for text in texts]
    return 200, calls(*given, n=n, ids=False)


def two_each(body: dict[str, Any], n: int) -> tuple[int, Any]:
    return proposing(*MOLECULES[(n - 1) * PER_TURN : n * PER_TURN], n=n)


@pytest.mark.parametrize(
    ("prices", "budget", "least"),
    [
        # the rung that everyone gets exceeds what eight proposals have released
        ((0.5, 1, 12), "{proposals: 30, money: 45, llm_tokens: 1000000}", 30),
        # the first ladders for the law to learn from exceed what six proposals have released
        ((1, 3, 12), "{proposals: 22, money: 31}", 22),
    ],
)
def test_the_model_is_asked_again_when_what_is_released_so_far_is_spent(
    prices: tuple[float, float, float], budget: str, least: int, ledger: Ledger, tmp_path: Path, server: ChatServer
) -> None:
    server.respond = two_each
    ran = run(ledger, tmp_path, budget, prices=prices, proposer=model(server))
    limit = float(budget.partition("money: ")[2].partition(",")[0].rstrip("}"))
    assert ran.proposals == least, ran
    assert limit - ran.money < prices[-1], "what is left holds no verification"
    assert ran.jobs["truth"] >= 1
    assert ran.why.endswith(f"; {least} of {least} proposals made")


def test_time_that_passes_takes_no_share_of_the_budget_away(ledger: Ledger, tmp_path: Path, server: ChatServer) -> None:
    """Ten of six hundred proposals take longer than their share of the wall time; jobs run all the same."""
    server.respond = lambda body, n: two_each(body, n) if n <= 5 else (400, {"error": {"message": "no credit"}})
    budget = "{proposals: 600, money: 90, wall_minutes: 0.3}"
    ran = run(ledger, tmp_path, budget, prices=(0.05, 0.8, 4), proposer=model(server))
    assert ran.proposals == 10 and ran.jobs["truth"] >= 2, ran


def test_a_proposer_that_knows_nothing_new_ends_and_what_it_left_is_bought(
    ledger: Ledger, tmp_path: Path, server: ChatServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the fourth turn on it repeats itself: each such turn is barren, so that the campaign ends after some."""
    monkeypatch.setattr("sciagent.campaign.proposing.model_source.ModelSource.patience", 12)
    server.respond = lambda body, n: two_each(body, min(n, 3))
    budget = "{proposals: 10000, money: 35}"
    ran = run(ledger, tmp_path, budget, prices=(1, 3, 12), proposer=model(server))
    assert ran.proposals == PER_TURN * (3 + 12)
    assert ran.why.endswith("; nothing new in 12 turns of the proposer")
    assert ran.jobs["truth"] >= 2, "the whole budget is released to those that came"


def test_a_file_is_read_to_its_end_and_the_ending_says_so(ledger: Ledger, tmp_path: Path) -> None:
    (tmp_path / "molecules.csv").write_text("smiles\n" + "\n".join(MOLECULES[:5]) + "\n")
    ran = run(ledger, tmp_path, "{money: 1000}", prices=(0.05, 0.8, 4), scheduler="exhaustive")
    assert ran.proposals == 5 and ran.jobs["truth"] == 5
    assert ran == ran._replace(
        state=CampaignState.FINISHED, why="nothing is left to do; all 5 candidates of the proposer were proposed"
    )


def test_candidates_are_verified_when_the_tokens_are_spent(ledger: Ledger, tmp_path: Path, server: ChatServer) -> None:
    server.respond = two_each
    budget = "{proposals: 40, money: 500, llm_tokens: 15}"
    ran = run(ledger, tmp_path, budget, prices=(0.05, 0.8, 4), proposer=model(server), scheduler="exhaustive")
    assert ran.proposals == 4 and ran.jobs["truth"] == 4
    assert (ran.state, ran.why) == (CampaignState.BUDGET_SPENT, "nothing is left to do; llm_tokens: 20 of 15")


def test_a_rung_without_places_does_not_hold_up_those_above_it(ledger: Ledger, tmp_path: Path) -> None:
    """The proposer waits for the first paid rung; when that has no place left, candidates that passed it go on."""
    (tmp_path / "seeds.csv").write_text("smiles\n" + "\n".join(MOLECULES[:30]) + "\n")
    budget = "{proposals: 30, money: 500, rungs: {cheap: 5}}"
    proposer = "{kind: evolve, seeds: seeds.csv, wait: true, ahead: 30}"
    ran = run(ledger, tmp_path, budget, prices=(0.05, 0.8, 4), proposer=proposer, scheduler="exhaustive")
    assert ran.jobs == {"cheap": 5, "middle": 5, "truth": 5}, ran


def test_a_proposer_that_learns_waits_for_answers_where_places_are_few(ledger: Ledger, tmp_path: Path) -> None:
    """Candidates that the price passes over now may still be verified, so they wait like others."""
    (tmp_path / "seeds.csv").write_text("smiles\n" + "\n".join(MOLECULES[:8]) + "\n")
    proposer = "{kind: evolve, seeds: seeds.csv, batch: 4, ahead: 5}"
    ran = run(ledger, tmp_path, "{proposals: 24, rungs: {truth: 6}}", prices=(0.01, 0.02, 1), proposer=proposer)
    assert ran.proposals == 24 and ran.jobs["truth"] == 6
    with ledger.read() as connection:
        last_turn = connection.execute(sa.select(sa.func.max(t.turn.c.watermark))).scalar_one()
        decided = sa.select(t.decision.c.watermark).join(t.rung, t.rung.c.id == t.decision.c.rung_id)
        decided_at = list(connection.execute(decided.where(t.rung.c.name == "truth")).scalars())
    assert sum(watermark < last_turn for watermark in decided_at) >= 5, "a turn after each answer"


def test_candidates_skip_a_rung_whose_places_are_used_where_it_decides_nothing(ledger: Ledger, tmp_path: Path) -> None:
    (tmp_path / "molecules.csv").write_text("smiles\n" + "\n".join(MOLECULES[:10]) + "\n")
    ran = run(ledger, tmp_path, "{money: 1000, rungs: {cheap: 5, middle: 4}}", prices=(0.01, 0.02, 12))
    assert ran.proposals == 10 and ran.jobs["truth"] == 10 and ran.state is CampaignState.FINISHED
    assert ran.jobs["cheap"] <= 5 and ran.jobs["middle"] <= 4


# A model that does not answer


@pytest.mark.parametrize("status", [400, 500])
def test_a_model_that_never_answers_ends_the_campaign_as_failed_with_its_words(
    status: int, ledger: Ledger, tmp_path: Path, server: ChatServer
) -> None:
    server.respond = lambda body, n: (status, {"error": {"message": "Unsupported parameter: top_p"}})
    ran = run(ledger, tmp_path, "{proposals: 40, money: 60}", proposer=model(server))
    assert ran.state is CampaignState.FAILED and ran.proposals == 0
    assert ran.why.startswith("the model failed 5 times in a row: m answered ")
    assert f"{status}" in ran.why and "Unsupported parameter: top_p" in ran.why


def test_what_came_before_a_model_failed_is_bought_from_its_share_and_the_rest_is_kept(
    ledger: Ledger, tmp_path: Path, server: ChatServer
) -> None:
    refused = (400, {"error": {"message": "no credit"}})
    server.respond = lambda body, n: two_each(body, n) if n <= 6 else refused
    ran = run(ledger, tmp_path, "{proposals: 24, money: 60}", prices=(0.05, 0.8, 4), proposer=model(server))
    assert ran.state is CampaignState.FAILED and ran.proposals == 12
    assert "no credit" in ran.why and "candidates still wait" in ran.why
    assert 20 < ran.money < 34, "half of the budget, and what one job took more"
    server.respond = lambda body, n: two_each(body, n - 6)
    again = run(ledger, tmp_path, "{proposals: 24, money: 60}", prices=(0.05, 0.8, 4), proposer=model(server))
    assert again.proposals == 24 and again.money > 55 and again.state is CampaignState.BUDGET_SPENT


def test_a_server_that_refuses_an_option_is_asked_without_it_and_says_so_once(
    ledger: Ledger, tmp_path: Path, server: ChatServer
) -> None:
    def respond(body: dict[str, Any], n: int) -> tuple[int, Any]:
        if "top_p" in body:
            return 400, {"error": {"message": "Unsupported parameter: top_p"}}
        return 200, answer("no tools") if n == 2 else two_each(body, n - 2)[1]

    server.respond = respond
    budget = "{proposals: 8, money: 500}"
    ran = run(ledger, tmp_path, budget, prices=(0.05, 0.8, 4), proposer=model(server), scheduler="exhaustive")
    assert ran.proposals == 8 and ran.jobs["truth"] == 8 and ran.state is CampaignState.FINISHED
    assert sum("top_p" in body for body in server.bodies) == 1
    with ledger.read() as connection:
        events = connection.execute(sa.select(t.event.c.payload).where(t.event.c.kind == "option_refused"))
        [payload] = events.scalars()
        notes = campaign_counts_and_remarks.counts(connection, campaigns.get(connection, "asked")).notes
    assert payload["option"] == "top_p" and "Unsupported parameter: top_p" in payload["why"]
    [note] = notes
    assert note.startswith("the server of m-1 refuses top_p, which requests leave out: ")


# The campaign of a slow model, by xTB

ACCEPTORS = """
campaign: acceptors
description: Electron acceptors for an aqueous redox cell.
subject: molecule
seed: 1
objectives:
  - {{property: homo_lumo_gap, window: [2.2, 2.8], unit: eV}}
  - {{property: dipole, max: 1.5, unit: D}}
  - {{property: solvation_free_energy, max: -0.60, unit: eV}}
  - {{property: adiabatic_electron_affinity, window: [3.3, 3.7], unit: eV}}
ladder:
  - rung: checks
    verifier: molecule.checks
    settings: {{elements: [H, C, N, O, F, S, Cl], max_heavy_atoms: 16}}
    gate: {{sa_score: {{max: 4}}}}
  - rung: xtb
    verifier: xtb.singlepoint
    gate: {{homo_lumo_gap: {{min: 1.6, max: 3.4, unit: eV}}, dipole: {{max: 4, unit: D}}}}
  - {{rung: water, verifier: xtb.solvation, gate: {{solvation_free_energy: {{max: -0.25, unit: eV}}}}}}
  - {{rung: redox, verifier: xtb.ip_ea, settings: {{ions: anion, adiabatic: true, solvent: water}}}}
goal: {{kind: hits}}
budget: {{proposals: 600, llm_tokens: 1000000, rungs: {{redox: 60}}, core_seconds: 100, wall_minutes: 170}}
proposer:
  {{kind: llm, model: me, endpoint: "{url}", turns: 14, tokens: 200000, max_tokens: 4000, context: 100000, ahead: 6}}
workers: 1
"""
QUINONES = tuple(
    pattern.format(group)
    for pattern in ("O=C1C=CC(=O)C({})=C1", "O=C1C=C(C)C(=O)C({})=C1", "O=C1C=CC(=O)C({})=C1C")
    for group in ("C", "O", "F", "Cl", "N", "OC", "C#N", "SC")
)


@pytest.mark.long
def test_a_slow_model_is_asked_again_while_most_of_the_budget_is_left(
    ledger: Ledger, tmp_path: Path, server: ChatServer
) -> None:
    """Its answers took 40 of 170 minutes and more tokens than their share: neither is a share that jobs could take."""

    def respond(body: dict[str, Any], n: int) -> tuple[int, Any]:
        if n > len(QUINONES) // PER_TURN:
            return 400, {"error": {"message": "no credit"}}
        status, sent = proposing(*QUINONES[(n - 1) * PER_TURN : n * PER_TURN], n=n)
        return status, sent | {"usage": {"prompt_tokens": 8000, "completion_tokens": 200, "total_tokens": 8200}}

    server.respond = respond
    text = ACCEPTORS.format(url=server.url)
    spec = parse_spec(text, base=tmp_path)
    create_or_open(ledger, spec, text, "test")
    with ledger.begin() as connection:
        connection.execute(t.campaign.update().values(wall_seconds=40 * 60))
    with Driver(create_or_open(ledger, spec, text, "test").built) as driver:
        ended = driver.run()
        assert driver.intake.n_proposals == len(QUINONES)
    assert ended is CampaignState.FAILED
    with ledger.read() as connection:
        done = campaign_counts_and_remarks.counts(connection, campaigns.get(connection, "acceptors"))
    assert done.rungs[2].done >= 20, done.rungs
    assert str(done.stop_reason).startswith("the model failed 5 times in a row: ")


# Whatever the budget


@dataclass(frozen=True)
class Drawn:
    """A random campaign."""

    scheduler: str
    prices: tuple[float, float, float]
    money: float
    proposals: int | None
    places: int | None
    """Number of jobs that the last rung may start."""
    n: int
    """Number of molecules in the file."""
    proposer: str


def drawn(seed: int) -> Drawn:
    random = np.random.default_rng(seed)
    n = int(random.integers(4, 14))
    prices = tuple(np.round(np.sort(10 ** random.uniform(-1, 1, 3)), 2).tolist())
    money = round(float(sum(prices) * random.uniform(0.5, 1.5) * n / 2), 2)
    batch, ahead = random.integers(1, 7, 2)
    proposer = f"{{kind: screen, file: molecules.csv, batch: {batch}}}"
    breeds = random.random() < 0.5
    if breeds:
        wait = random.choice(("true", "false"))
        proposer = f"{{kind: evolve, seeds: molecules.csv, batch: {batch}, ahead: {ahead}, wait: {wait}}}"
    return Drawn(
        scheduler=str(random.choice(("priced", "priced", "exhaustive", "thresholds", "random"))),
        prices=prices,
        money=money,
        proposals=int(random.integers(2, n + 3)) if breeds or random.random() < 0.5 else None,
        places=int(random.integers(1, n)) if random.random() < 0.3 else None,
        n=n,
        proposer=proposer,
    )


QUICK = (0, 2, 25)  # of these the last one waits for more of its budget to be released
SEEDS = [seed if seed in QUICK else pytest.param(seed, marks=pytest.mark.long) for seed in range(60)]


@pytest.mark.parametrize("seed", SEEDS)
def test_no_campaign_ends_while_something_is_left_to_do_and_a_job_fits(
    seed: int, ledger: Ledger, tmp_path: Path
) -> None:
    """At the end each proposal is made, or what is left of the budget holds no verification of one more candidate."""
    campaign = drawn(seed)
    (tmp_path / "molecules.csv").write_text("smiles\n" + "\n".join(MOLECULES[: campaign.n]) + "\n")
    limits = [f"money: {campaign.money}"]
    limits += [f"proposals: {campaign.proposals}"] if campaign.proposals else []
    limits += [f"rungs: {{truth: {campaign.places}}}"] if campaign.places else []
    budget = f"{{{', '.join(limits)}}}"
    more = {"prices": campaign.prices, "proposer": campaign.proposer, "scheduler": campaign.scheduler}
    ran = run(ledger, tmp_path, budget, **more)  # type: ignore[arg-type]
    with ledger.read() as connection:
        c = t.campaign_candidate.c
        waiting = connection.execute(sa.select(sa.func.count()).where(c.standing == "open")).scalar_one()
        spent = sum(connection.execute(sa.select(t.spend.c.amount).where(t.spend.c.resource == "money")).scalars())
    assert spent <= campaign.money + 1e-6
    is_full = campaign.places is not None and ran.jobs.get("truth", 0) >= campaign.places
    holds_one = campaign.money - spent >= max(campaign.prices)
    most = [campaign.n] if "screen" in campaign.proposer else []
    most += [campaign.proposals] if campaign.proposals else []
    could_propose = ran.proposals < min(most) and "the proposer" not in ran.why
    assert is_full or not holds_one or not (waiting or could_propose), (campaign, ran, waiting)
