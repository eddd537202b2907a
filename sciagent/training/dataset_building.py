"""Builds a data set in a folder: a Parquet file of rows for each split, tables of the campaigns, and a card.

`trajectory_rows` and `reward_rows` make the tables: the turns of a campaign and their rewards. `card_text` makes the
card, README.md, which says what the data set has, what is missing, and how it was made. `build` writes the folder. A
watermark is the number of a piece of evidence in the ledger; it says up to which evidence a data set reads. The task of
an episode is what the card calls its goal. A data set of the kind `rows` holds rows of token ids.
"""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import metadata
from itertools import groupby
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent import __version__
from sciagent.errors import UsageError
from sciagent.report.export.parquet_tables import ArrowRows, evidence_rows, table_metadata
from sciagent.store.campaign_state import campaigns as campaign_rows
from sciagent.store.campaign_state import note_and_take_watermarks
from sciagent.store.database import tables as t
from sciagent.store.database.ledger import Ledger
from sciagent.store.learning import versioned_rewards
from sciagent.store.learning.reward_inputs import EpisodeRow
from sciagent.store.results.evidence import read_watermark
from sciagent.training import verified_hindsight_and_pair_rows
from sciagent.training.command_answers import BuiltDataset, check_empty
from sciagent.training.dataset_columns import (
    EPISODE,
    TOKEN_COLUMNS,
    TOKEN_GROUP_ROWS,
    TableColumn,
    episode_cells,
    rows_of,
    schema,
)
from sciagent.training.read_turns import EVALUATION, RecordedEpisode, TrainingCampaign
from sciagent.training.settings import DatasetKind, DatasetSettings
from sciagent.training.task_splits_and_scaffold_limit import SPLITS, ScaffoldLimit, Split, held_out_tasks
from sciagent.training.verified_hindsight_and_pair_rows import Selection

JSON_COLUMNS = ("message", "calls", "observations", "sampling", "cost")
"""Columns of a turn in the ledger that the table has as JSON texts."""
COPIED_COLUMNS = (
    "prompt_ids",
    "output_ids",
    "logprobs",
    "behaviour",
    "forced",
    "kept",
    "template_hash",
    "untrainable",
    "watermark",
    "asked_watermark",
)
"""Columns of a turn that the table has as the ledger has them."""
TRAJECTORY_COLUMNS = (
    *EPISODE,
    TableColumn("turn", "whole", "number of the turn in its episode, from 0"),
    TableColumn("turn_policy", "text", "name and version of the model that answered in this turn"),
    TableColumn("opening", "text", "JSON: the first messages of the episode; only in its first turn"),
    TableColumn("message", "text", "JSON: the parsed answer"),
    TableColumn("calls", "text", "JSON: the calls of tools that were carried out"),
    TableColumn("observations", "text", "JSON: what the tools answered"),
    TableColumn("sampling", "text", "JSON: temperature, seed and other settings of sampling"),
    TableColumn("cost", "text", "JSON: cost of the turn by resource"),
    # the kept tokens are those of the last prompt and answer that this prompt repeats
    TableColumn("kept", "whole", "number of earlier tokens with which the prompt begins; prompt_ids follow them"),
    TableColumn("prompt_ids", "wholes", "token ids of the prompt after the kept ones"),
    TableColumn("output_ids", "wholes", "(n,) token ids of the answer"),
    TableColumn("logprobs", "numbers", "(n,) as the back end gave them, natural logarithms"),
    TableColumn("behaviour", "numbers", "(n,) log-probability in the distribution that the token was drawn from"),
    TableColumn("forced", "truths", "(n,) whether a grammar left no choice"),
    TableColumn("template_hash", "text", "SHA-256 of the chat template"),
    TableColumn("untrainable", "text", "why no policy gradient may use the turn; null if one may"),
    TableColumn("watermark", "whole", "of the evidence when the turn was written"),
    TableColumn("asked_watermark", "whole", "of the evidence when the model was asked"),
    TableColumn("at", "text", "UTC, ISO 8601"),
)
REWARD_COLUMNS = (
    *EPISODE,
    TableColumn("reward_version", "whole", "version of the rewards"),
    TableColumn("turn", "whole", "number of the turn; null for the outcome of the episode"),
    TableColumn("reward", "number", "in hits or utility; null if undecided"),
    TableColumn("return", "number", "sum of the rewards from this turn on"),
    TableColumn("advantage", "number", "null if undecided, or without siblings"),
    TableColumn("terms", "text", "JSON: the parts of the reward by name"),
    TableColumn("candidates", "text", "JSON: the candidates with value, cost and whether they are settled"),
)
TABLE_GROUP_ROWS = 500  # rows of a row group of a campaign's table


def trajectory_rows(connection: Connection, campaign: TrainingCampaign) -> ArrowRows:
    """Returns the table of trajectories, with a row for each turn of a model."""
    metadata = table_metadata(campaign.built.row, "trajectories")
    return ArrowRows(schema(TRAJECTORY_COLUMNS, metadata), _turns(connection, campaign), TABLE_GROUP_ROWS)


def _turns(connection: Connection, campaign: TrainingCampaign) -> Iterator[Mapping[str, Any]]:
    for row in campaign.episode_rows(connection):
        episode = campaign.episode(connection, row)
        messages = [{"role": message.role, "content": message.content} for message in episode.opening]
        opening: str | None = _json(messages)
        for turn in campaign.raw_turns(connection, episode):
            cells = {name: turn[name] for name in COPIED_COLUMNS}
            for name in JSON_COLUMNS:
                cells[name] = None if turn[name] is None else _json(turn[name])
            cells["turn"] = turn["number"]
            cells["opening"] = opening
            cells["at"] = turn["at"].isoformat()
            cells["turn_policy"] = turn["policy_version"]
            yield episode_cells(episode) | cells
            opening = None  # only the first turn of an episode has it


def reward_rows(connection: Connection, campaign: TrainingCampaign, version: int) -> ArrowRows:
    """Returns the table of rewards, with a row for each rewarded turn and one for the outcome of each episode."""
    metadata = table_metadata(campaign.built.row, "rewards")
    return ArrowRows(schema(REWARD_COLUMNS, metadata), _rewards(connection, campaign, version), TABLE_GROUP_ROWS)


def _rewards(connection: Connection, campaign: TrainingCampaign, version: int) -> Iterator[Mapping[str, Any]]:
    for row in campaign.episode_rows(connection):
        episode = campaign.episode(connection, row)
        numbers = {turn["id"]: turn["number"] for turn in campaign.raw_turns(connection, episode)}
        for reward in versioned_rewards.of_version(connection, version, [episode.id]):
            is_after_watermark = reward.turn_id is not None and reward.turn_id not in numbers
            if is_after_watermark:
                continue
            yield episode_cells(episode) | {
                "reward_version": version,
                "turn": None if reward.turn_id is None else numbers[reward.turn_id],
                "reward": reward.value,
                "return": reward.to_go,
                "advantage": reward.advantage,
                "terms": _json(reward.terms),
                "candidates": _json(list(reward.candidates)),
            }


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True)


DESCRIPTIONS = {
    "rows": "Token ids of episodes as they were sampled, with advantages, for a policy gradient.",
    "sft": "Answers whose molecule the terminal rung has verified, for supervised fine-tuning.",
    "hindsight": "Answers that failed: under the goal that they did achieve, and with hints for self-distillation.",
    "preference": "Pairs of answers to one prompt, of which one is worth more by its verified values.",
    "skill": "Answers that were sampled without a skill, with the skill's text as the hint for a teacher.",
    "unpaired": "Answers with a label: verified as good, or known to be worth less.",
}
# in these sentences, `skill` and `rubric` are columns
KNOWN_LIMITS = (
    "`skill` has the skills of the prompt, with hashes of their texts. "
    "`rubric` has scores only where a rung `lm.judge` gave them.",
    "Values are those of the terminal rung, with the errors of its method; a hit was not confirmed by a higher level.",
    "An uncertainty is mostly the repeatability of a calculation, not the error of its method.",
    "Duplicates are sought within a goal only; molecules and scaffolds may occur under two goals, also across splits.",
)


def card_text(
    connection: Connection,
    built: BuiltDataset,
    settings: DatasetSettings,
    campaigns: Sequence[TrainingCampaign],
    columns: Sequence[TableColumn],
) -> str:
    """Returns the card. Its first lines are YAML, by which `datasets.load_dataset` finds the files."""
    files = [f"  - split: {split}\n    path: {split}.parquet" for split, n in built.rows.items() if n]
    head = ["---", f"license: {settings.license or 'unknown'}"]
    if files:
        head += ["configs:", "- config_name: default", "  data_files:", *files]
    command_block = ["```sh", settings.command, "```", ""] if settings.command else []
    lines = [
        *head,
        "---",
        f"# {built.kind}: {', '.join(built.campaigns)}",
        "",
        DESCRIPTIONS[built.kind],
        "",
        *command_block,
        f"Made by sciagent {__version__} from the evidence up to watermark {built.watermark} of the ledger, and the",
        "turns before it.",
        "",
        "## Counts",
        "",
        f"Episodes that were read: {built.episodes}; campaigns: {len(built.campaigns)}.",
        "",
        *table(("split", "goals", "rows"), [(split, built.tasks[split], n) for split, n in built.rows.items()]),
        *table(("table", "rows"), list(built.tables.items())),
        *table(("campaign", "version of rewards"), [(name, v or "none") for name, v in built.rewards.items()]),
        "All episodes of a goal are in one split, whatever their campaign.",
        "",
        "## What is missing",
        "",
        *table(("left out", "number"), list(built.left_out.items())),
        *(f"- {limit}" for limit in KNOWN_LIMITS),
        "",
        "## Sources and licences",
        "",
        f"The data set: {settings.license or 'no licence was stated (`--license`)'}.",
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
    """Returns the lines of a table in Markdown, with an empty line after it; no lines if there are no rows."""
    if not rows:
        return []
    cells = [[str(cell).replace("|", "\\|") for cell in row] for row in rows]
    lines = [titles, ["---"] * len(titles), *cells]
    return [*(f"| {' | '.join(line)} |" for line in lines), ""]


def _models(connection: Connection, campaigns: Sequence[TrainingCampaign]) -> list[tuple[str, str, str]]:
    """Returns the models that answered: name, and the first 12 digits of the hashes of base and adapter."""
    trajectory = t.trajectory.c
    turn = t.turn.c
    policy = t.policy.c
    campaign_ids = [each.built.row.id for each in campaigns]
    turns = t.turn.join(t.trajectory, trajectory.id == turn.trajectory_id)
    query = (
        sa.select(turn.policy_version, policy.base_sha256, policy.adapter_sha256)
        .distinct()
        .select_from(turns.outerjoin(t.policy, policy.id == turn.policy_id))
        .where(trajectory.campaign_id.in_(campaign_ids), turn.message.is_not(None))
        .order_by(turn.policy_version)
    )
    models = []
    for name, base, adapter in connection.execute(query):
        models.append((name or "unknown", (base or "unknown")[:12], (adapter or "none")[:12]))
    return models


def _verifiers(campaigns: Sequence[TrainingCampaign]) -> list[tuple[str, str]]:
    return sorted({(rung.verifier.name, rung.verifier.version) for each in campaigns for rung in each.built.rungs})


def _packages(connection: Connection, campaigns: Sequence[TrainingCampaign]) -> list[tuple[str, str, str]]:
    """Returns the packages behind the evidence: name, version, and the licence if the package is installed here."""
    evidence = t.evidence.c
    member = t.campaign_candidate.c
    campaign_ids = [each.built.row.id for each in campaigns]
    verifiers = {rung.verifier.name for each in campaigns for rung in each.built.rungs}
    is_of_campaigns = sa.and_(member.candidate_id == evidence.candidate_id, member.campaign_id.in_(campaign_ids))
    query = (
        sa.select(evidence.versions)
        .where(evidence.verifier.in_(sorted(verifiers)))
        .join(t.campaign_candidate, is_of_campaigns)
    )
    packages: set[tuple[str, str]] = set()
    for versions in connection.execute(query).scalars():
        packages.update((versions or {}).items())
    return [(name, version, _licence(name)) for name, version in sorted(packages)]


def _licence(package: str) -> str:
    """Returns the first line of a package's licence, or why it is not known."""
    try:
        about = metadata.metadata(package)
    except metadata.PackageNotFoundError:
        return "not installed here"
    fields = dict(about.json)
    stated = str(fields.get("license_expression") or fields.get("license") or "")
    if not stated.strip():
        return "not stated"
    return stated.splitlines()[0][:MAX_LICENCE_LENGTH]


MAX_LICENCE_LENGTH = 60  # characters of a licence on the card


COLUMNS: Mapping[DatasetKind, Sequence[TableColumn]] = {
    "rows": TOKEN_COLUMNS,
    "sft": verified_hindsight_and_pair_rows.SFT,
    "hindsight": verified_hindsight_and_pair_rows.HINDSIGHT,
    "preference": verified_hindsight_and_pair_rows.PREFERENCE,
    "unpaired": verified_hindsight_and_pair_rows.UNPAIRED,
    "skill": verified_hindsight_and_pair_rows.HINDSIGHT,
}
ANSWER_GROUP_ROWS = 200  # rows of a row group of a data set of answers, which are in memory together

Progress = Callable[[str, int, int], None]
"""Takes the campaign's name, the number of its episodes that were read, and the number of all its episodes."""


def build(ledger: Ledger, settings: DatasetSettings, folder: Path, progress: Progress | None = None) -> BuiltDataset:
    """Builds a data set in a new or empty folder. After an error, no file is left there.

    Raises UsageError for a folder with files or a watermark in the future, UnknownNameError for an unknown campaign or
    version of rewards.
    """
    check_empty(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    as_of = _watermark(ledger, settings)
    campaigns = [TrainingCampaign(ledger, name, as_of) for name in dict.fromkeys(settings.campaigns)]
    test_campaigns = [TrainingCampaign(ledger, name, as_of) for name in settings.test_campaigns]
    with ledger.read() as connection, tempfile.TemporaryDirectory(dir=folder.parent, prefix=".dataset-") as temporary:
        part = Path(temporary) / "part"
        part.mkdir()
        builder = _Builder(connection, settings, as_of, campaigns, test_campaigns, progress)
        built = builder.write(part, str(folder))
        card = card_text(connection, built, settings, campaigns, COLUMNS[settings.kind])
        (part / "README.md").write_text(card)
        if folder.exists():
            folder.rmdir()
        part.rename(folder)
    return built


def _watermark(ledger: Ledger, settings: DatasetSettings) -> int:
    """Returns the stated watermark; without one, a new watermark, which is above those of all turns so far.

    From then on, no turn is added below the returned watermark. Raises UsageError for a watermark in the future.
    """
    with ledger.begin() as connection:
        ids = [campaign_rows.get(connection, name).id for name in settings.campaigns]
        if settings.as_of is None:
            return note_and_take_watermarks.take(connection, ids)
        # transactions that write turns below the present watermark commit first
        note_and_take_watermarks.wait_for_earlier_writers(connection, ids)
        now = read_watermark(connection)
    if settings.as_of > now:
        raise UsageError(f"watermark {settings.as_of} lies in the future; the ledger is at {now}")
    return settings.as_of


class _Builder:
    """Writes the files of one data set."""

    def __init__(
        self,
        connection: Connection,
        settings: DatasetSettings,
        as_of: int,
        campaigns: Sequence[TrainingCampaign],
        test_campaigns: Sequence[TrainingCampaign],
        progress: Progress | None,
    ) -> None:
        self._connection = connection
        self._settings = settings
        # see `Selection` for the three limits
        self._selection = Selection(
            at_least=settings.at_least, p_better=settings.p_better, per_scaffold=settings.per_scaffold
        )
        self._as_of = as_of
        self._campaigns = campaigns
        self._progress = progress
        self._tasks = {each.task for each in campaigns}
        test_tasks = {each.task for each in test_campaigns}
        self._test_tasks = held_out_tasks(self._tasks, settings.test_share, test_tasks)
        self._versions = _versions(connection, settings, campaigns, as_of) if settings.kind == "rows" else {}
        self._n_episodes = 0
        # shared: the builder and the selection count into the same counter
        self._left_out: Counter[str] = self._selection.left_out

    def write(self, folder: Path, shown: str) -> BuiltDataset:
        """Writes all files but the card. shown: name of the folder for the answer."""
        kind = self._settings.kind
        columns = COLUMNS[kind]
        group_rows = TOKEN_GROUP_ROWS if kind == "rows" else ANSWER_GROUP_ROWS
        metadata = {"sciagent": __version__, "dataset": kind, "watermark": str(self._as_of)}
        rows: dict[str, int] = {}
        for split in SPLITS:
            table = ArrowRows(schema(columns, metadata | {"split": split}), self._rows(split), group_rows)
            rows[split] = table.write(folder / f"{split}.parquet")
        tables = self._tables(folder) if kind == "rows" else {}
        return BuiltDataset(
            kind=kind,
            folder=shown,
            campaigns=tuple(each.name for each in self._campaigns),
            watermark=self._as_of,
            episodes=self._n_episodes,
            rows=rows,
            tasks={"train": len(self._tasks - self._test_tasks), "test": len(self._tasks & self._test_tasks)},
            tables=tables,
            rewards=self._versions,
            left_out={why: n for why, n in sorted(self._left_out.items()) if n},
        )

    def _tables(self, folder: Path) -> dict[str, int]:
        """Writes the tables of the campaigns; returns the number of rows by file."""
        (folder / "tables").mkdir()
        tables = {}
        for each in self._campaigns:
            tables_of_campaign = {
                "trajectories": trajectory_rows(self._connection, each),
                "evidence": evidence_rows(self._connection, each.built.row, self._as_of),
            }
            version = self._versions[each.name]
            if version is not None:
                tables_of_campaign["rewards"] = reward_rows(self._connection, each, version)
            for table_name, rows in tables_of_campaign.items():
                name = f"tables/{each.name}.{table_name}.parquet"
                tables[name] = rows.write(folder / name)
        return tables

    def _rows(self, split: Split) -> Iterator[Mapping[str, Any]]:
        # a candidate may be in several pairs of answers, but in one row of any other kind
        is_of_pairs = self._settings.kind == "preference"
        limit = ScaffoldLimit(self._settings.per_scaffold, may_repeat_candidates=is_of_pairs)
        for campaign in self._campaigns:
            for episodes in self._episodes_by_group(campaign, split):
                yield from self._rows_of_group(campaign, episodes, limit)

    def _episodes_by_group(self, campaign: TrainingCampaign, split: Split) -> Iterator[list[RecordedEpisode]]:
        """Yields the episodes of a split in lists: the episodes of a group together, an episode without group alone."""
        chosen_groups = self._settings.groups
        rows = []
        for row in campaign.episode_rows(self._connection):
            if chosen_groups is None or row.group_id in chosen_groups:
                rows.append(row)
        n_read = 0
        # the rows of a group follow each other
        for _, members in groupby(rows, key=_group_key):
            episodes = [campaign.episode(self._connection, row) for row in members]
            n_read += len(episodes)
            if self._progress is not None:
                self._progress(campaign.name, n_read, len(rows))
            of_split = [each for each in episodes if (each.task in self._test_tasks) == (split == "test")]
            wanted = [each for each in of_split if each.purpose != EVALUATION]
            self._left_out["episodes: made to evaluate a model"] += len(of_split) - len(wanted)
            self._n_episodes += len(wanted)
            if wanted:
                yield wanted

    def _rows_of_group(
        self, campaign: TrainingCampaign, episodes: Sequence[RecordedEpisode], limit: ScaffoldLimit
    ) -> Iterator[Mapping[str, Any]]:
        """Yields the rows of the data set from the episodes of one group. limit: on the rows of a scaffold."""
        connection = self._connection
        selection = self._selection
        if self._settings.kind == "rows":
            version = self._versions[campaign.name]
            for episode in episodes:
                raw_turns = campaign.raw_turns(connection, episode)
                yield from rows_of(connection, episode, raw_turns, version, self._left_out)
            return
        turns: list[verified_hindsight_and_pair_rows.JudgedTurn] = []
        for episode in episodes:
            turns += verified_hindsight_and_pair_rows.judged(connection, campaign, episode)
        match self._settings.kind:
            case "sft":
                yield from verified_hindsight_and_pair_rows.verified(turns, selection, limit)
            case "hindsight":
                yield from verified_hindsight_and_pair_rows.hindsight(campaign, turns, selection, limit)
            case "preference":
                yield from verified_hindsight_and_pair_rows.pairs(campaign, turns, selection, limit)
            case "skill":
                yield from verified_hindsight_and_pair_rows.taught(campaign, turns, selection)
            case "unpaired":
                yield from verified_hindsight_and_pair_rows.labelled(turns, selection, limit)


def _group_key(row: EpisodeRow) -> tuple[str, int]:
    """Returns a key that the episodes of a group share; an episode without group has a key of its own."""
    if row.group_id is not None:
        return "group", row.group_id
    return "episode", row.id


def _versions(
    connection: Connection, settings: DatasetSettings, campaigns: Sequence[TrainingCampaign], as_of: int
) -> dict[str, int | None]:
    """Returns the version of the rewards by name of the campaign: the stated version, else the last one; None if the
    campaign has none."""
    names = {each.built.row.id: each.name for each in campaigns}
    stated: dict[str, int | None] = {}
    for version in settings.rewards:
        row = versioned_rewards.get(connection, version)
        if row.campaign_id not in names:
            raise UsageError(f"version {version} of rewards is of another campaign than {', '.join(names.values())}")
        stated[names[row.campaign_id]] = version
    versions: dict[str, int | None] = {}
    for id_, name in names.items():
        if name in stated:
            versions[name] = stated[name]
        else:
            versions[name] = versioned_rewards.last_of_campaign(connection, id_, as_of)
    return versions
