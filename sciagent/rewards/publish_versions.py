"""Publishes the rewards of a campaign as a version: a function of evidence, law and description.

The law is the model that values candidates which the terminal rung has not answered. A watermark is a position in the
ledger up to which evidence counts.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy.engine import Connection

from sciagent.campaign.core.built_campaign_and_derived_values import Built
from sciagent.campaign.core.create_and_open import open_campaign_for_people
from sciagent.domain.answers.candidate_and_value_answers import AnswerModel
from sciagent.errors import UsageError
from sciagent.rewards.candidate_worths_and_episode_rewards import reward_rows
from sciagent.rewards.guard_report import guards
from sciagent.rewards.reward_law import RewardLaw, fit_law, restored_law
from sciagent.rewards.reward_spec import RewardSpec
from sciagent.rewards.show_and_compare_versions import ChangedReward, changes
from sciagent.scheduling.rules import SCHEDULERS
from sciagent.store.campaign_state import note_and_take_watermarks
from sciagent.store.database.ledger import Ledger
from sciagent.store.learning import rollout_groups as groups
from sciagent.store.learning import versioned_rewards
from sciagent.store.learning.versioned_rewards import RewardVersionRow
from sciagent.store.results import laws_and_audits
from sciagent.store.results.evidence import read_watermark


class PublishedRewards(AnswerModel):
    """A version of rewards."""

    version: int
    spec_hash: str
    watermark: int
    law: int | None
    """Row of the law that valued unsettled candidates; None if there was none."""
    episodes: int
    rewarded: int
    """Episodes whose outcome is decided."""
    undecided: int
    changed: tuple[ChangedReward, ...]
    """Turns whose rewards differ from those of the previous version."""


def publish(ledger: Ledger, name: str, spec: RewardSpec) -> PublishedRewards:
    """Publishes a version of the rewards of a campaign. A version that exists is returned as it is.

    Raises UnknownNameError for an unknown campaign or law; UsageError for a watermark in the future, a law of another
    kind, or a campaign without episodes.
    """
    built = open_campaign_for_people(ledger, name)
    check_scheduler(built, spec)
    with ledger.begin() as connection:
        as_of, previous = _requested_version(connection, built.row.id, spec)
    if previous is None or previous.watermark != as_of:
        previous = _new_version(built, spec, as_of, previous)
    with ledger.read() as connection:
        return _published(connection, previous)


def publish_groups(built: Built, spec: RewardSpec, group_ids: Sequence[int]) -> RewardVersionRow:
    """Publishes a new version with the rewards of some groups of rollouts; no other episodes are read.

    It has the law of the last version under the same description. Raises UsageError as `publish` does.
    """
    check_scheduler(built, spec)
    campaign_id = built.row.id
    with built.ledger.begin() as connection:
        previous = versioned_rewards.last_of_any_scope(connection, campaign_id, spec.hash)
        as_of = note_and_take_watermarks.take(connection, [campaign_id])
    return _new_version(built, spec, as_of, previous, group_ids)


def _new_version(
    built: Built,
    spec: RewardSpec,
    as_of: int,
    previous: RewardVersionRow | None,
    group_ids: Sequence[int] | None = None,
) -> RewardVersionRow:
    """Computes a version and writes it, with its law if the law is new; returns the version.

    If another process wrote the version in the meantime, the written one is returned. group_ids: the groups whose
    episodes are rewarded; None: all episodes.
    """
    with built.ledger.read() as connection:  # a read transaction, so that no writer waits for the computation
        law_id, law = law_of(built, connection, spec, as_of, previous)
        trajectory_ids = None if group_ids is None else groups.trajectories_of(connection, group_ids)
        rows = reward_rows(built, connection, spec, law, as_of, trajectory_ids)
        guarded = guards(built, connection, rows, spec, as_of).model_dump(mode="json")
    campaign_id = built.row.id
    scope = None if group_ids is None else versioned_rewards.scope_of(group_ids)
    with built.ledger.begin() as connection:
        note_and_take_watermarks.lock(connection, campaign_id)
        newest = versioned_rewards.last(connection, campaign_id, spec.hash, scope)
        if newest is not None and newest.watermark == as_of:
            return newest
        if law is not None and law_id is None:
            law_id = laws_and_audits.write(connection, campaign_id, law.state, purpose="reward", watermark=as_of).id
        version = versioned_rewards.write_version(
            connection,
            campaign_id,
            spec_hash=spec.hash,
            spec=spec.model_dump(mode="json"),
            watermark=as_of,
            law=law_id,
            previous_id=None if newest is None else newest.id,
            guards=guarded,
            scope=scope,
        )
        versioned_rewards.write(connection, version, rows)
        return versioned_rewards.get(connection, version)


def check_scheduler(built: Built, spec: RewardSpec) -> None:
    """Raises UsageError if the rewards need a known chance of having been verified, and the scheduler knows none."""
    scheduler = built.spec.scheduler
    if spec.unsettled == "robust" and not scheduler.knows_chance:
        drawing = ", ".join(each.name() for each in SCHEDULERS if each.knows_chance)
        raise UsageError(
            "unsettled: robust needs to know with which chance a candidate was verified; "
            f'"{built.row.name}" has the scheduler {scheduler.kind}, only {drawing} draws with a known '
            "chance; take posterior or settled"
        )


def _requested_version(
    connection: Connection, campaign_id: int, spec: RewardSpec
) -> tuple[int, RewardVersionRow | None]:
    """Returns the watermark of the version that is asked for, and the last version under the same description.

    If the description states no watermark, a new one is taken, unless nothing has been written since the last version.
    Rows of the campaign below the watermark are a fixed set from then on. Raises UsageError for a watermark in the
    future.
    """
    # writers that have noted a lower watermark for their rows commit first
    note_and_take_watermarks.wait_for_earlier_writers(connection, [campaign_id])
    now = read_watermark(connection)
    previous = versioned_rewards.last(connection, campaign_id, spec.hash)
    if spec.watermark is not None:
        if spec.watermark > now:
            raise UsageError(f"watermark {spec.watermark} lies in the future; the ledger is at {now}")
        return spec.watermark, previous
    is_newest = previous is not None and previous.watermark == now
    # turns and decisions may have been written at the same watermark, since they do not raise it
    if is_newest and not note_and_take_watermarks.has_grown(connection, campaign_id, now):
        return now, previous
    return note_and_take_watermarks.take(connection, [campaign_id]), previous


def law_of(
    built: Built, connection: Connection, spec: RewardSpec, as_of: int, previous: RewardVersionRow | None
) -> tuple[int | None, RewardLaw | None]:
    """Returns the id of a law's row, and the law: the stated law, else the law of the previous version, else a new law.

    The id of a new law is None, since it has no row yet. Both are None if the description needs no law. Raises
    UsageError if the row holds no law for rewards.
    """
    if spec.unsettled == "settled":
        return None, None
    stated = spec.law or (previous.law if previous is not None else None)
    if stated is None:
        return None, fit_law(built, connection, as_of)
    row = laws_and_audits.by_id(connection, built.row.id, stated, "reward")
    if row is None:
        raise UsageError(
            f"row {stated} of the table of laws holds no law that was made for rewards of this campaign; leave law: out"
        )
    return row.id, restored_law(built, row.watermark, row.state)


def _published(connection: Connection, version: RewardVersionRow) -> PublishedRewards:
    rows = versioned_rewards.of_version(connection, version.id)
    outcomes = [row.value for row in rows if row.turn_id is None]
    before = None if version.previous_id is None else versioned_rewards.get(connection, version.previous_id)
    return PublishedRewards(
        version=version.id,
        spec_hash=version.spec_hash,
        watermark=version.watermark,
        law=version.law,
        episodes=len(outcomes),
        rewarded=sum(value is not None for value in outcomes),
        undecided=sum(value is None for value in outcomes),
        changed=() if before is None else changes(connection, before, version),
    )
