"""A ledger with many candidates and their evidence, by bulk inserts into the real tables: `big_ledger.py FILE 1000000`.

The rows are made up (random keys, a few notations for all), complete and consistent: references are checked at the end.
Each candidate stands in one campaign with a proposal and an answer of a fast rung; one in ten has gone on to a paid
rung, with its decision, job, attempt, evidence, reservation, spend and cost.
"""

from __future__ import annotations

import argparse
import sqlite3
import sys
import time
from contextlib import closing
from pathlib import Path

from sciagent.store.database.ledger import Ledger

NAME = "crowd"
KEY = "lower(hex(randomblob(32)))"
NOW = "'2026-01-01 00:00:00.000000'"
NUMBERS = "WITH RECURSIVE n(i) AS (SELECT :first UNION ALL SELECT i + 1 FROM n WHERE i < :last) "
CHUNK = 100_000

EACH = {
    "candidate": f"""INSERT INTO candidate (id, key, kind, text, identity, inchikey, formula, charge, multiplicity,
        n_atoms, payload, standardiser, library, created_at, scaffold_hash)
        SELECT i, {KEY}, 'molecule', substr('CCCCCCCCCCCCCCCCCCCC', 1, 1 + i % 20) || 'O',
        'InChI=1/invented/' || hex(randomblob(40)),
        substr(hex(randomblob(14)), 1, 14) || '-' || substr(hex(randomblob(5)), 1, 10) || '-N', 'C9H8O4', 0, 1, 21,
        '{{"smiles": "invented", "multiplicity": 1}}', '1', 'invented', {NOW},
        printf('%064x', i % 50000) FROM n""",
    "proposal": f"""INSERT INTO proposal (id, campaign_id, text, candidate_id, status, predicted, at)
        SELECT i, :campaign, 'invented ' || i, i, 'new', '{{}}', {NOW} FROM n""",
    "campaign_candidate": f"""INSERT INTO campaign_candidate (campaign_id, candidate_id, seq, standing, position, depth,
        verdict, reason, detail, p_hit, chance, expected_utility, margin, basis, is_hit, in_seeds,
        proposal_id, updated_at)
        SELECT :campaign, i, i - 1, CASE WHEN i % 10 THEN 'dropped' ELSE 'settled' END,
        CASE WHEN i % 10 THEN 0 ELSE 1 END, CASE WHEN i % 10 THEN 0 ELSE 1 END,
        CASE WHEN i % 10 THEN 'fail' ELSE 'pass' END,
        CASE WHEN i % 10 THEN 'above_window' END, '',
        CASE WHEN i % 10 THEN NULL ELSE 0 END, CASE WHEN i % 10 THEN NULL ELSE 0 END,
        CASE WHEN i % 10 THEN NULL ELSE abs(random() % 1000000) / 1e6 END, CASE WHEN i % 10 THEN NULL ELSE -0.5 END,
        CASE WHEN i % 10 THEN NULL ELSE 'answered' END, 0, 0, i, {NOW} FROM n""",
    "evidence": f"""INSERT INTO evidence (id, key, candidate_id, verifier, verifier_version, settings_hash, inputs_hash,
        replicate, revision, outcome, detail, reusable, diagnostics, versions, source, who, attempt_id, watermark, at)
        SELECT 2 * i, {KEY}, i, 'invented.fast', '1', :settings, '', 0, 0, 'ok', '', 1, '{{}}',
        '{{"python": "3.11.7", "rdkit": "2026.9.1"}}', 'computed', 'sciagent', 1, 2 * i, {NOW} FROM n""",
    "quantity": """INSERT INTO quantity (id, evidence_id, property_id, level_id, value, unit, censoring, n)
        SELECT 2 * i, 2 * i, 1, 1, abs(random() % 1000000) / 1e4, '1', 'none', 1 FROM n""",
}
EVERY_TENTH = {
    "decision": f"""INSERT INTO decision (campaign_id, candidate_id, rung_id, action, chooser, why, watermark, "index",
        propensity, at) SELECT :campaign, i, :paid, 'run', 'exhaustive', 'next in order', i, -i, 1.0, {NOW} FROM n
        WHERE i % 10 = 0""",
    "job": f"""INSERT INTO job (id, campaign_id, rung_id, candidate_id, replicate, evidence_key, state, priority,
        attempts, kills, fence, cancel_requested, outcome, created_at, updated_at)
        SELECT i, :campaign, :paid, i, 0, {KEY}, 'done', -i, 1, 0, 1, 0, 'ok', {NOW}, {NOW} FROM n WHERE i % 10 = 0""",
    "attempt": f"""INSERT INTO attempt (id, campaign_id, rung_id, job_id, fence, owner, state, outcome, n_candidates,
        cost, wall_seconds, started_at, heartbeat_at, ended_at)
        SELECT i + 1, :campaign, :paid, i, 1, 'nobody', 'done', 'ok', 1, '{{"core_seconds": 1.0}}', 1.0, {NOW}, {NOW},
        {NOW} FROM n WHERE i % 10 = 0""",
    "paid evidence": f"""INSERT INTO evidence (id, key, candidate_id, verifier, verifier_version, settings_hash,
        inputs_hash, replicate, revision, outcome, detail, reusable, diagnostics, versions, source, who, attempt_id,
        watermark, at)
        SELECT 2 * i + 1, {KEY}, i, 'noop.rdkit', '1', :settings, '', 0, 0, 'ok', '', 1, '{{}}', '{{}}', 'computed',
        'sciagent', i + 1, 2 * i + 1, {NOW} FROM n WHERE i % 10 = 0""",
    "paid quantity": """INSERT INTO quantity (id, evidence_id, property_id, level_id, value, unit, censoring, n)
        SELECT 2 * i + 1, 2 * i + 1, 1, 1, abs(random() % 1000000) / 1e4, '1', 'none', 1 FROM n WHERE i % 10 = 0""",
    "reservation": f"""INSERT INTO reservation (campaign_id, job_id, resource, amount, at, released_at)
        SELECT :campaign, i, 'core_seconds', 3.0, {NOW}, {NOW} FROM n WHERE i % 10 = 0""",
    "spend": f"""INSERT INTO spend (campaign_id, rung_id, attempt_id, resource, amount, at)
        SELECT :campaign, :paid, i + 1, 'core_seconds', 1.0, {NOW} FROM n WHERE i % 10 = 0""",
    "cost_observation": f"""INSERT INTO cost_observation (verifier, verifier_version, settings_hash, candidate_id,
        attempt_id, resource, declared, amount, at)
        SELECT 'noop.rdkit', '1', :settings, i, i + 1, 'core_seconds', 1.0, 1.0, {NOW} FROM n WHERE i % 10 = 0""",
}


def fill(path: Path, n: int, campaign: int, paid: int, said: bool = False) -> float:
    """n candidates into the campaign of this id, whose paid rung is `paid`; returns the seconds it took."""
    begun = time.perf_counter()
    fixed = {"campaign": campaign, "paid": paid, "settings": "5" * 64}
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("PRAGMA synchronous=OFF")
        db.execute("PRAGMA cache_size=-1000000")
        db.execute("BEGIN IMMEDIATE")
        db.execute("INSERT OR IGNORE INTO property VALUES (1, 'heavy_atoms', '1', 'count', 'number of heavy atoms')")
        db.execute("INSERT OR IGNORE INTO level VALUES (1, ?, 'invented', '{\"method\": \"invented\"}')", ("7" * 64,))
        db.execute(
            "INSERT INTO attempt (id, campaign_id, fence, owner, state, n_candidates, cost, started_at, heartbeat_at) "
            f"VALUES (1, ?, 0, 'nobody', 'done', ?, '{{}}', {NOW}, {NOW})",
            (campaign, n),
        )
        for first in range(1, n + 1, CHUNK):
            places = fixed | {"first": first, "last": min(first + CHUNK - 1, n)}
            for statement in (*EACH.values(), *EVERY_TENTH.values()):
                verb, insert = statement.split("SELECT", 1)
                db.execute(f"{verb} {NUMBERS} SELECT {insert}", places)
            if said:
                sys.stderr.write(f"{places['last']} candidates, {time.perf_counter() - begun:.0f} s\n")
        db.execute("UPDATE watermark SET value = ? WHERE id = 1", (2 * n + 1,))
        broken = db.execute("PRAGMA foreign_key_check").fetchone()
        if broken:
            raise SystemExit(f"the invented rows do not hang together: {broken}")
        db.execute("COMMIT")
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return time.perf_counter() - begun


def join(path: Path, campaign: int) -> None:
    """All that was made up into another campaign too, each candidate standing as it stands there."""
    rest = (
        "candidate_id, seq, standing, position, depth, verdict, reason, detail, p_hit, chance, expected_utility, "
        "margin, basis, is_hit, in_seeds, updated_at"
    )
    with closing(sqlite3.connect(path, isolation_level=None, timeout=60)) as db:
        db.execute("PRAGMA synchronous=OFF")
        db.execute("BEGIN IMMEDIATE")
        db.execute(
            f"INSERT INTO campaign_candidate (campaign_id, {rest}) SELECT ?, {rest} FROM campaign_candidate "
            "WHERE campaign_id = (SELECT id FROM campaign WHERE name = ?) AND proposal_id = candidate_id",
            (campaign, NAME),
        )
        db.execute("COMMIT")
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("n", type=int)
    given = parser.parse_args()
    from measure import alcohols, open_campaign, plugin

    with plugin():
        ledger = Ledger(str(given.file))
        built = open_campaign(ledger, NAME, given.file.parent, verifier="noop.rdkit", molecules=alcohols(1))
        ledger.close()
        seconds = fill(given.file, given.n, built.row.id, built.paid[0].id, said=True)
    size = given.file.stat().st_size
    sys.stdout.write(f"{given.n} candidates in {seconds:.0f} s, {size / 1e6:.0f} MB, {size / given.n:.0f} bytes each\n")


if __name__ == "__main__":
    main()
