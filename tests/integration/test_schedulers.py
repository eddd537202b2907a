"""Each scheduler on a small real campaign: checks, GFN2, GFN1, PBE on molecules of two heavy atoms."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

import sciagent as sci
from sciagent import Campaign
from sciagent.store.database import tables as t
from sciagent.store.database.ledger import Ledger
from tests.support.campaigns import GFN1, sciagent, write_campaign

MOLECULES = ("C", "C=C", "CO", "O", "CC", "CF")


def run(folder: Path, scheduler: str) -> list[dict[str, Any]]:
    """Decisions in the order they were made: action, rung, candidate, score then (index), propensity, why."""
    file = write_campaign(folder, molecules=MOLECULES, dft=2, workers=2)
    text = file.read_text().replace("  - rung: dft\n", GFN1)
    file.write_text(text.replace("scheduler: {kind: exhaustive}", f"scheduler: {scheduler}"))
    sciagent("run", str(file), "--quiet", "--no-report", cwd=folder, expect=None)
    query = (
        sa.select(
            t.decision.c.action,
            t.rung.c.name.label("rung"),
            t.decision.c.candidate_id,
            t.decision.c.index,
            t.decision.c.propensity,
            t.decision.c.why,
            t.decision.c.chooser,
        )
        .join(t.rung, t.rung.c.id == t.decision.c.rung_id)
        .order_by(t.decision.c.id)
    )
    with Ledger(str(folder / "sciagent.db")).read() as connection:
        return [dict(row) for row in connection.execute(query).mappings()]


def counts(folder: Path) -> dict[str, int]:
    return {r["rung"]: r["done"] for r in sciagent("status", "small", "--json", cwd=folder)["rungs"]}


def test_random_logs_how_likely_each_draw_was(tmp_path: Path) -> None:
    decisions = run(tmp_path, "{kind: random}")
    assert {d["chooser"] for d in decisions} == {"random"}
    assert all(d["why"].startswith("random: drawn from ") for d in decisions)
    assert all(d["propensity"] == pytest.approx(1 / int(d["why"].split()[3])) for d in decisions)
    order = [d["candidate_id"] for d in decisions if d["rung"] == "xtb"]
    assert order != sorted(order)
    assert counts(tmp_path)["dft"] == 2


def test_halving_promotes_one_in_eta(tmp_path: Path) -> None:
    decisions = run(tmp_path, "{kind: halving, eta: 2.0}")
    done = {rung: sum(d["rung"] == rung for d in decisions) for rung in ("xtb", "gfn1", "dft")}
    assert done == {"xtb": 6, "gfn1": 3, "dft": 1}
    assert decisions[0]["why"] == "halving: next in order at the first paid rung"
    reasons = [d["why"].split(" on")[0] for d in decisions if d["rung"] != "xtb"]
    assert sorted(reasons) == [f"halving: best of those waiting; place {n}" for n in (1, 1, 2, 3)]
    status = sciagent("status", "small", "--json", cwd=tmp_path)
    assert status["state"] == "finished"
    assert status["stop_reason"].startswith(
        "nothing is left to do; 5 candidates were not promoted by the rule of the scheduler; all "
    )


def test_best_rung_ranks_by_one_rung_and_never_runs_the_other(tmp_path: Path) -> None:
    decisions = run(tmp_path, "{kind: best_rung, rung: gfn1}")
    done = {rung: [d for d in decisions if d["rung"] == rung] for rung in ("xtb", "gfn1", "dft")}
    assert {rung: len(found) for rung, found in done.items()} == {"xtb": 0, "gfn1": 6, "dft": 2}
    assert decisions[:6] == done["gfn1"], "everything is ranked before the terminal rung is run"
    found = sciagent("export", "small", "-o", "all.jsonl", cwd=tmp_path)
    assert found.returncode == 0
    assert counts(tmp_path)["dft"] == 2
    best = sciagent("best", "small", "-n", "6", "--json", cwd=tmp_path)
    assert sum(one["verified"] for one in best) == 2
    assert {d["candidate_id"] for d in done["dft"]} <= {d["candidate_id"] for d in done["gfn1"]}


@pytest.mark.parametrize(
    ("scheduler", "message"),
    [
        ("{kind: best_rung, rung: gfn}", 'did you mean "gfn1"?'),
        ("{kind: best_rung, rung: dft}", "is not a paid rung below the terminal one"),
        ("{kind: best_rung, rung: checks}", "paid rungs there: xtb, gfn1"),
        ("{kind: halving, eta: 1.0}", "eta"),
    ],
)
def test_what_cannot_be_is_refused(tmp_path: Path, scheduler: str, message: str) -> None:
    file = write_campaign(tmp_path, molecules=MOLECULES, dft=2)
    text = file.read_text().replace("  - rung: dft\n", GFN1)
    file.write_text(text.replace("scheduler: {kind: exhaustive}", f"scheduler: {scheduler}"))
    refused = sciagent("run", str(file), cwd=tmp_path, expect=2)
    assert message in refused.stderr and "scheduler" in refused.stderr


def test_priced_gives_everyone_the_cheap_rungs_and_says_why_and_at_which_price(tmp_path: Path) -> None:
    decisions = run(tmp_path, "{kind: priced}")
    assert {d["chooser"] for d in decisions} <= {"priced", "audit"}
    assert all(d["why"].startswith(("priced: ", "audit: ")) for d in decisions)
    climbed = [[d["rung"] for d in decisions if d["candidate_id"] == one] for one in range(1, 7)]
    assert all(rungs == ["xtb", "gfn1", "dft"][: len(rungs)] for rungs in climbed), "nobody goes past a cheap rung"
    assert sum("dft" in rungs for rungs in climbed) == 2
    # only dft is limited, so what the others cost is nothing; who was at GFN2 when the last place went needs no more
    assert sum("gfn1" in rungs for rungs in climbed) >= 5


@pytest.mark.long
@pytest.mark.parametrize("goal", ["{kind: best, count: 2}", "{kind: graded}"])
def test_priced_looks_for_utility_where_that_is_the_goal(tmp_path: Path, goal: str) -> None:
    file = write_campaign(tmp_path, scheduler="priced", dft=7)
    text = file.read_text().replace("window: [3.0, 9.0]", "minimise: [12.0, 3.0]")
    file.write_text(text.replace("goal: {kind: hits}", f"goal: {goal}"))
    sciagent("run", str(file), "--quiet", "--no-report", cwd=tmp_path, expect=None)
    best = [one for one in sciagent("best", "small", "-n", "100", "--json", cwd=tmp_path) if one["verified"]]
    with Ledger(str(tmp_path / "sciagent.db")).read() as connection:
        whys = [row.why for row in connection.execute(t.decision.select())]
    assert len(best) == 7
    assert sum("expected payoff" in why for why in whys) == 5, "after the first two"
    assert max(one["utility"] for one in best) > 0.8


@sci.verifier(measures="plain_gap", unit="eV", cost=0.01)
def plain_gap(molecule: Any) -> tuple[float, float]:
    return float(molecule.heavy_atoms), 0.01


@sci.verifier(measures="plain_energy", unit="eV", cost=0.01)
def plain_energy(molecule: Any) -> tuple[float, float]:
    return molecule.heavy_atoms / 10, 0.01


@pytest.mark.parametrize(
    "scheduler",
    ["priced", "thresholds", "exhaustive", "random", "halving", {"kind": "best_rung", "rung": "gap"}, "lottery"],
)
def test_no_scheduler_buys_the_dear_rung_for_a_missed_objective(tmp_path: Path, scheduler: Any) -> None:
    """The gap, in eV as many as heavy atoms, is decided below the terminal rung: two of eight molecules meet it."""
    (tmp_path / "molecules.csv").write_text("smiles\n" + "\n".join("C" * n for n in range(1, 9)) + "\n")
    campaign = Campaign(
        name="toys",
        base=tmp_path,
        ledger=tmp_path / "toys.db",
        objectives=[
            {"property": "plain_gap", "window": [3.5, 5.5], "unit": "eV"},
            {"property": "plain_energy", "max": 1, "unit": "eV"},
        ],
        ladder=[
            {"rung": "checks", "verifier": "molecule.checks"},
            {"rung": "gap", "verifier": plain_gap, "gate": {"plain_gap": {"max": 20, "unit": "eV"}}},
            {"rung": "energy", "verifier": plain_energy},
        ],
        goal={"kind": "hits"},
        budget={"core_seconds": 100, "rungs": {"energy": 4}},
        proposer={"kind": "screen", "file": "molecules.csv"},
        scheduler=scheduler if isinstance(scheduler, dict) else {"kind": scheduler},
        workers=1,
    )
    campaign.run(progress=False)
    d, text = t.decision.c, t.candidate.c.text
    bought = (
        sa.select(text)
        .select_from(t.decision.join(t.rung, t.rung.c.id == d.rung_id).join(t.candidate))
        .where(t.rung.c.name == "energy", d.action == "run")
    )
    with Ledger(str(tmp_path / "toys.db")).read() as connection:
        dear = set(connection.execute(bought).scalars())
    assert dear <= {"CCCC", "CCCCC"}
    hits = {candidate.text for candidate in campaign.best(8) if candidate.hit}
    assert hits == dear and (scheduler in ("lottery", "halving") or len(hits) == 2)
    campaign.ledger.close()
