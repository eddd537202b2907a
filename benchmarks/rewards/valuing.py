"""CPU seconds to value 10,000 candidates of one campaign as of a watermark: writes valuing.json.

    python -m benchmarks.rewards.valuing

All have passed the checks and have an answer of xTB, 600 one of the terminal rung. `reading` is the honest lower bound:
the answers of all rungs read and judged, without a law.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")

from sciagent.campaign.core.built_campaign_and_derived_values import Built
from sciagent.campaign.core.create_and_open import create_or_open
from sciagent.campaign.file.campaign_spec import load_spec
from sciagent.chemistry.molecule import parse_molecule
from sciagent.domain.evidence_keys_and_pooled_replicates import Finding, Measured
from sciagent.domain.outcomes_verdicts_and_reasons import Outcome
from sciagent.domain.quantities import Quantity
from sciagent.rewards.candidate_states_lots_and_episode_starts import answers_as_of, states
from sciagent.rewards.candidate_worths_and_episode_rewards import valuations
from sciagent.rewards.reward_law import fit_law
from sciagent.rewards.reward_spec import RewardSpec
from sciagent.store.campaign_state import candidate_standings
from sciagent.store.database import engine as engines
from sciagent.store.database import migrate_and_back_up
from sciagent.store.database.ledger import Ledger
from sciagent.store.results import candidates, evidence
from sciagent.store.results.evidence import NewEvidence

HERE = Path(__file__).parent
N = 10_000
VERIFIED = 600
CHUNK = 500
GAP = "homo_lumo_gap"
CAMPAIGN = """campaign: many
subject: molecule
objectives: [{property: homo_lumo_gap, window: [3.0, 6.0], unit: eV}]
ladder:
  - {rung: checks, verifier: molecule.checks}
  - {rung: xtb, verifier: xtb.singlepoint}
  - {rung: dft, verifier: pyscf.scf, settings: {functional: PBE}}
goal: {kind: hits}
budget: {rungs: {dft: 1000}}
proposer: {kind: screen, file: molecules.csv}
scheduler: {kind: exhaustive}
"""


def molecules(n: int) -> list[str]:
    """n different molecules: chains of carbon with up to three heteroatoms, some on a ring."""
    found: dict[str, None] = {}
    parts = ("C", "O", "N", "S", "C(F)", "C(=O)")
    for length in range(3, 12):
        for code in range(len(parts) ** min(length, 5)):
            chain = "".join(parts[code // len(parts) ** i % len(parts)] for i in range(length))
            for text in (f"C{chain}C", f"c1ccccc1{chain}C"):
                found[text] = None
                if len(found) >= 2 * n:
                    return list(found)
    return list(found)


def filled(ledger: Ledger, built: Built, n: int, verified: int) -> list[int]:
    """Writes candidates and evidence; returns the candidates' ids."""
    entered: dict[str, Any] = {}
    for text in molecules(n):
        molecule = parse_molecule(text)
        entered.setdefault(molecule.key, molecule)
        if len(entered) == n:
            break
    chosen = list(entered.values())
    ids = list[int]()
    for start in range(0, len(chosen), CHUNK):
        part = chosen[start : start + CHUNK]
        with ledger.begin() as connection:
            by_key = candidates.enter(connection, part)
            candidate_standings.add(
                connection, built.row.id, [{"candidate_id": id_, "in_seeds": True} for id_ in by_key.values()]
            )
            decision = {"action": "run", "chooser": "benchmark", "propensity": 1.0}
            candidate_standings.decide(
                connection, built.row.id, [{"candidate_id": id_, **decision} for id_ in by_key.values()]
            )
            ids += by_key.values()
            for rung in built.rungs:
                if rung.rules.is_terminal and start >= verified:
                    continue
                level = {m.property.name: m.level for m in rung.spec.measures}
                new = []
                for molecule in part:
                    value = (
                        4.0
                        + int(molecule.key[:4], 16) / 2**14
                        + rung.rules.is_terminal * int(molecule.key[4:6], 16) / 256
                    )
                    measured = (Measured(GAP, level[GAP], Quantity(value, "eV", 0.05)),) if GAP in level else ()
                    finding = Finding(molecule.key, Outcome.OK, measured)
                    new.append(NewEvidence(finding, rung.verifier.evidence_key(molecule), by_key[molecule.key]))
                evidence.record_once(connection, new)
    return ids


def cpu(work: Callable[[], Any]) -> tuple[float, Any]:
    begun = time.process_time()
    done = work()
    return time.process_time() - begun, done


def measured(folder: Path, n: int, verified: int) -> dict[str, Any]:
    """Returns CPU seconds by step."""
    (folder / "molecules.csv").write_text("smiles\nC\n", encoding="utf-8")
    path = folder / "many.yaml"
    url = str(folder / "ledger.db")
    path.write_text(CAMPAIGN, encoding="utf-8")
    engine = engines.connect(engines.ledger_url(url))
    migrate_and_back_up.upgrade(engine)
    engine.dispose()
    ledger = Ledger(url, artifacts=folder / "artifacts")
    built = create_or_open(ledger, load_spec(path), CAMPAIGN, "benchmark").built
    ids = filled(ledger, built, n, verified)
    spec = RewardSpec(prices={"core_seconds": 1e-4})
    with ledger.read() as connection:
        now = evidence.read_watermark(connection)
        reading, _ = cpu(lambda: [answers_as_of(built, connection, ids[i : i + 2000], now) for i in range(0, n, 2000)])
        fitting, law = cpu(lambda: fit_law(built, connection, now))
        valuing, worths = cpu(
            lambda: valuations(built, connection, states(built, connection, ids, now), now, law, spec)
        )
    ledger.close()
    values = [worth.value for worth in worths.values()]
    assert len(values) == n
    assert all(value is not None for value in values)
    return {
        "candidates": n,
        "verified": verified,
        "cpu_seconds": {"reading": round(reading, 2), "fitting": round(fitting, 2), "valuing": round(valuing, 2)},
        "valuing_over_reading": round(valuing / reading, 2),
        "target_seconds": 5.0,
    }


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        result = {"command": "python -m benchmarks.rewards.valuing"} | measured(Path(folder), N, VERIFIED)
    (HERE / "valuing.json").write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result, indent=1))  # noqa: T201


if __name__ == "__main__":
    main()
