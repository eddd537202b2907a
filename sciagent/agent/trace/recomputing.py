"""Computes again, from what the ledger holds, how likely the tokens of a turn were when they were drawn."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sciagent.agent.messages import NO_CHANCE
from sciagent.agent.policies.constrained import allowed_sets, unpacked
from sciagent.agent.policies.local import LocalPolicy
from sciagent.agent.trace import RecordedCall


def schema_of(sampling: Mapping[str, Any], tool_set: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Returns the schema that restricted a whole answer; None without one. sampling, tool_set: as in the ledger."""
    return in_order(tool_set["answer_schema"]) if sampling["grammar"] and tool_set["structured"] else None


def in_order(schema: Any) -> Any:
    """Returns a schema whose objects have their properties in the order of `required`, which names all of them.

    A grammar follows the order of the properties, and PostgreSQL keeps the order of lists alone.
    """
    if isinstance(schema, list):
        return [in_order(each) for each in schema]
    if not isinstance(schema, Mapping):
        return schema
    found = {name: in_order(value) for name, value in schema.items()}
    if isinstance(required := found.get("required"), list) and "properties" in found:
        found["properties"] = {name: found["properties"][name] for name in [*required, *found["properties"]]}
    return found


def behaviour_of(
    policy: LocalPolicy, call: RecordedCall, sampling: Mapping[str, Any], tool_set: Mapping[str, Any]
) -> tuple[float, ...]:
    """Returns (n,) natural log-probabilities of the n output ids in the distribution that they were drawn from.

    The whole sequence is computed at once; the grammar is made again from the schema of the tool set. sampling,
    tool_set: as in the ledger. Raises ValueError for an answer that was drawn without chance, or if the schema does not
    allow an output id.
    """
    import torch

    if sampling["temperature"] <= 0:
        raise ValueError(f"turn {call.turn}: {NO_CHANCE}")
    ids = torch.tensor([[*call.prompt_ids, *call.output_ids[:-1]]], device=policy.model.device)
    n = len(call.output_ids)
    with torch.inference_mode():
        logits = policy.model(input_ids=ids, use_cache=False, logits_to_keep=n).logits[0].float()
    schema = schema_of(sampling, tool_set)
    if schema is not None:
        bits = torch.from_numpy(_allowed(policy, schema, call)).to(logits.device)
        logits = logits.masked_fill(~unpacked(bits, logits.shape[-1]), -torch.inf)
    table = torch.log_softmax(logits / sampling["temperature"], dim=-1)
    return tuple(table[torch.arange(n), torch.tensor(call.output_ids, device=table.device)].tolist())


def _allowed(policy: LocalPolicy, schema: Mapping[str, Any], call: RecordedCall) -> Any:
    """Returns (n, words) bits: the tokens that the schema allowed at each place of the answer."""
    try:
        return allowed_sets(policy.constrained(schema), call.output_ids)
    except ValueError as error:
        raise ValueError(f"turn {call.turn}: {error}") from None
