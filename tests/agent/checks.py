"""What must hold of the rows of any trajectory, checked token by token against the records they came from."""

from __future__ import annotations

from collections.abc import Sequence

from sciagent.agent.turns_to_token_rows import Join, Linearised, RecordedCall


def check(records: Sequence[RecordedCall], result: Linearised, drift_limit: int) -> None:
    """Every sampled token once, behind what the model saw, with its log-probability; and the counts add up."""
    by_turn = {record.turn: record for record in records}
    seen = []
    for row in result.rows:
        assert len(row.ids) == len(row.mask) == len(row.logprobs) == len(row.behaviour) == len(row.turns)
        for position, turn in enumerate(row.turns):
            if not row.sampled[position]:
                assert (row.mask[position], row.logprobs[position], turn) == (False, 0.0, -1)
                continue
            record = by_turn[turn]
            place = position - len(record.prompt_ids)
            assert row.ids[:position] == record.prompt_ids + record.output_ids[:place]
            assert row.ids[position] == record.output_ids[place]
            assert row.logprobs[position] == record.logprobs[place]
            assert row.mask[position] is not record.forced[place]
            seen.append((turn, place))
    assert sorted(seen) == [(record.turn, place) for record in records for place in range(len(record.output_ids))]
    trained = sum(sum(row.mask) for row in result.rows)
    assert trained == len(seen) - sum(sum(record.forced) for record in records)
    assert sum(result.joins.values()) == max(len(records) - 1, 0)
    asides = [row for row in result.rows if row.aside]
    assert result.drifted == sum(sum(row.sampled) for row in asides) <= drift_limit * result.joins[Join.REALIGN]
    assert all(sum(row.sampled) <= drift_limit for row in asides)
    if all(record.output_ids for record in records):
        assert len(asides) == result.joins[Join.REALIGN]
        assert len(result.rows) - len(asides) == result.joins[Join.FORK] + bool(records)


def fewest_rows(records: Sequence[RecordedCall]) -> int:
    """How many rows any lineariser needs: calls whose prompt and answer start no other call's. A call made twice
    counts once, so this is a lower bound."""
    calls = {record.prompt_ids + record.output_ids for record in records}
    return sum(not any(other != call and other[: len(call)] == call for other in calls) for call in calls)
