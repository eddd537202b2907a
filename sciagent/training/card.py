"""The card of a data set: README.md, which says what is in it, what is missing, and how it was made."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import metadata
from typing import TYPE_CHECKING

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent import __version__
from sciagent.domain.answers.datasets import BuiltDataset
from sciagent.store.database import tables as t
from sciagent.training.columns import TableColumn
from sciagent.training.reading import TrainingCampaign

if TYPE_CHECKING:
    from sciagent.training.datasets import DatasetWish

WHAT = {
    "rows": "Token ids of episodes as they were sampled, with advantages, for a policy gradient.",
    "sft": "Answers whose molecule the terminal rung has verified, for supervised fine-tuning.",
    "hindsight": "Answers that failed: under the goal that they did achieve, and with hints for self-distillation.",
    "preference": "Pairs of answers to one prompt, of which one is worth more by its verified values.",
    "skill": "Answers that were sampled without a skill, with the skill's text as the hint for a teacher.",
    "unpaired": "Answers with a label: verified as good, or known to be worth less.",
}
MISSING = (
    "`skill` has the skills of the prompt, with hashes of their texts. "
    "`rubric` has scores only where a rung `lm.judge` gave them.",
    "Values are those of the terminal rung, with the errors of its method; a hit was not confirmed by a higher level.",
    "An uncertainty is mostly the repeatability of a calculation, not the error of its method.",
    "Duplicates are sought within a goal only; molecules and scaffolds may occur under two goals, also across splits.",
)


def text(
    connection: Connection,
    built: BuiltDataset,
    wish: DatasetWish,
    campaigns: Sequence[TrainingCampaign],
    columns: Sequence[TableColumn],
) -> str:
    """Returns the card. Its first lines are YAML, by which `datasets.load_dataset` finds the files."""
    files = [f"  - split: {split}\n    path: {split}.parquet" for split, n in built.rows.items() if n]
    head = ["---", f"license: {wish.licence}" if wish.licence else "license: unknown"]
    head += ["configs:", "- config_name: default", "  data_files:", *files] if files else []
    lines = [
        *head,
        "---",
        f"# {built.kind}: {', '.join(built.campaigns)}",
        "",
        WHAT[built.kind],
        "",
        *(["```sh", wish.command, "```", ""] if wish.command else []),
        f"Made by sciagent {__version__} from the evidence up to watermark {built.watermark} of the ledger, and the",
        "turns before it.",
        "",
        "## Counts",
        "",
        f"Episodes that were read: {built.episodes}; campaigns: {len(built.campaigns)}.",
        "",
        *table(("split", "goals", "rows"), [(s, built.tasks[s], n) for s, n in built.rows.items()]),
        *table(("table", "rows"), list(built.tables.items())),
        *table(("campaign", "version of rewards"), [(name, v or "none") for name, v in built.rewards.items()]),
        "All episodes of a goal are in one split, whatever their campaign.",
        "",
        "## What is missing",
        "",
        *table(("left out", "number"), list(built.left_out.items())),
        *(f"- {missing}" for missing in MISSING),
        "",
        "## Sources and licences",
        "",
        f"The data set: {wish.licence or 'no licence was stated (`--license`)'}.",
        "The ledger keeps no licences of input files, such as seeds; look them up where the files come from.",
        "",
        *table(("model that answered", "base", "adapter"), _models(connection, campaigns)),
        *table(("verifier", "version"), _verifiers(campaigns)),
        *table(("package", "version", "licence"), _packages(connection, campaigns)),
        "## Columns",
        "",
        *table(("column", "meaning"), [(f"`{c.name}`", c.about) for c in columns]),
    ]
    return "\n".join(lines).rstrip() + "\n"


def table(titles: Sequence[str], rows: Sequence[Sequence[object]]) -> list[str]:
    """Returns a table in Markdown with an empty line after it; nothing without rows."""
    if not rows:
        return []
    cells = [[str(cell).replace("|", "\\|") for cell in row] for row in rows]
    lines = [titles, ["---"] * len(titles), *cells]
    return [*(f"| {' | '.join(line)} |" for line in lines), ""]


def _models(connection: Connection, campaigns: Sequence[TrainingCampaign]) -> list[tuple[str, str, str]]:
    """Returns the models with the first digits of the hashes of their weights."""
    j, u, p = t.trajectory.c, t.turn.c, t.policy.c
    query = sa.select(u.policy_version, p.base_sha256, p.adapter_sha256).distinct()
    query = query.select_from(
        t.turn.join(t.trajectory, j.id == u.trajectory_id).outerjoin(t.policy, p.id == u.policy_id)
    )
    ids = [each.built.row.id for each in campaigns]
    rows = connection.execute(query.where(j.campaign_id.in_(ids), u.message.is_not(None)).order_by(u.policy_version))
    return [(name or "unknown", (base or "unknown")[:12], (adapter or "none")[:12]) for name, base, adapter in rows]


def _verifiers(campaigns: Sequence[TrainingCampaign]) -> list[tuple[str, str]]:
    return sorted({(rung.verifier.name, rung.verifier.version) for each in campaigns for rung in each.built.rungs})


def _packages(connection: Connection, campaigns: Sequence[TrainingCampaign]) -> list[tuple[str, str, str]]:
    """Returns the packages behind the evidence, with their licences if they are installed here."""
    e, cc = t.evidence.c, t.campaign_candidate.c
    ids = [each.built.row.id for each in campaigns]
    names = {rung.verifier.name for each in campaigns for rung in each.built.rungs}
    query = (
        sa.select(e.versions)
        .where(e.verifier.in_(sorted(names)))
        .join(t.campaign_candidate, sa.and_(cc.candidate_id == e.candidate_id, cc.campaign_id.in_(ids)))
    )
    found: dict[tuple[str, str], None] = {}
    for versions in connection.execute(query).scalars():
        found |= dict.fromkeys((versions or {}).items())
    return [(name, version, _licence(name)) for name, version in sorted(found)]


def _licence(package: str) -> str:
    try:
        about = metadata.metadata(package)
    except metadata.PackageNotFoundError:
        return "not installed here"
    known = {**about.json}
    stated = str(known.get("license_expression") or known.get("license") or "")
    return stated.splitlines()[0][:60] if stated.strip() else "not stated"
