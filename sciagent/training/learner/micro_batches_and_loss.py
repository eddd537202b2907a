"""Micro-batches of rows as tensors, and the terms of the loss of their trained tokens.

`divided` cuts the rows of a step into parts that fit into memory; `micro_batch` makes tensors of a part. Each function
of the loss takes n tokens and returns one number per token; the step adds the numbers up.

The policy gradient is that of PPO and GRPO with the clipping of DAPO (Yu et al. 2025, arXiv:2503.14476). Tokens whose
ratio says that sampler and trainer disagree are dropped on both sides (IcePop; Ling team 2025, arXiv:2510.18855).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch

from sciagent.agent.policies.schema_tokens import unpacked
from sciagent.training.learner.learner_rows_and_rendered_conversations import AnswerSpan, TrainingRow
from sciagent.training.learner.value_head_and_turn_advantages import ValueBatch, value_batch
from sciagent.training.settings import LearnerConstants

ALL_ALLOWED = -1  # a word of 32 bits, all of them set
AllowedSets = Callable[[AnswerSpan, Sequence[int]], Any]
"""Returns (n, words) bits: the tokens that the schema of an answer allowed at each of its n places, as
`agent.policies.schema_tokens.packed` writes them. The second argument holds the n ids of the answer."""


@dataclass(frozen=True)
class Selected:
    """Padded sequences, and the n places in them whose next token is trained."""

    ids: Any
    """(b, t) padded on the right. Under a causal mask padding changes nothing before it, so no mask is needed."""
    row: Any
    """(n,) number of the sequence."""
    place: Any
    """(n,) place before the trained token, whose output predicts the token."""

    def logits(self, model: Any) -> Any:
        """Returns the (n, v) logits that a model gives the trained tokens."""
        logits, _ = self.output(model)
        return logits

    def output(self, model: Any, **more: Any) -> tuple[Any, Any]:
        """Returns the logits, and the whole output of the model. more: further arguments of the model."""
        kept_places, column = torch.unique(self.place, return_inverse=True)
        output = model(input_ids=self.ids, use_cache=False, logits_to_keep=kept_places, **more)
        n_columns = output.logits.shape[1]
        if n_columns != len(kept_places):  # a model that does not know `logits_to_keep` returns all places
            column = self.place
        # the gradient of `index_select` needs no sorting on a GPU; that of indexing by rows and columns does
        logits = output.logits.flatten(0, 1).index_select(0, self.row * n_columns + column)
        return logits, output


@dataclass(frozen=True)
class MicroBatch:
    """Some rows of a step: b sequences with n trained tokens."""

    own: Selected
    """The trained tokens, after the context that the policy sees."""
    teacher: Selected
    """The same trained tokens, after the context that the teachers see."""
    target: Any
    """(n,) ids of the trained tokens."""
    advantage: Any
    """(n,) advantages, as in `TrainingRow`."""
    behaviour: Any
    """(n,) log-probabilities in the distribution that the tokens were drawn from; 0 where `imitated`."""
    imitated: Any
    """(n,) whether the token is trained without a ratio."""
    temperature: Any
    """(n,) temperatures at which the tokens were drawn."""
    weight: Any
    """(n,) factor in the mean over the step."""
    regularised: Any
    """(n,) 1 where the entropy bonus and the divergences count, and 0 elsewhere."""
    allowed: Any | None
    """(n, words) bits: the tokens that a grammar allowed; None if no token had a grammar."""
    values: ValueBatch
    """States and targets of the value head; empty without one."""

    def mask(self, vocabulary: int) -> Any | None:
        """Returns (n, v) booleans: the tokens that a grammar allowed; None if no token had a grammar."""
        return None if self.allowed is None else unpacked(self.allowed, vocabulary)


def divided(rows: Sequence[TrainingRow], most_tokens: int) -> list[list[TrainingRow]]:
    """Returns the rows in groups of similar length, each with at most `most_tokens` tokens after padding.

    A longer row is alone. The division depends on nothing but the rows.
    """
    groups: list[list[TrainingRow]] = []
    for row in sorted(rows, key=length):
        if groups and length(row) * (len(groups[-1]) + 1) <= most_tokens:
            groups[-1].append(row)
        else:
            groups.append([row])
    return groups


def micro_batch(rows: Sequence[TrainingRow], allowed: AllowedSets | None, device: Any, pad: int = 0) -> MicroBatch:
    """Returns the tensors of some rows. allowed: needed if an answer was drawn under a schema.

    Raises ValueError if a schema has to be followed and `allowed` is None.
    """
    places = [np.flatnonzero(row.mask) for row in rows]
    own = _selected([row.ids for row in rows], places, device, pad)
    teacher = own
    if any(row.teacher_context is not None for row in rows):
        teacher_ids = []
        teacher_places = []
        for row, row_places in zip(rows, places, strict=True):
            ids = _for_teacher(row)
            teacher_ids.append(ids)
            teacher_places.append(row_places + len(ids) - len(row.ids))
        teacher = _selected(teacher_ids, teacher_places, device, pad)
    rows_with_places = list(zip(rows, places, strict=True))

    def numbers(values: Iterable[Any]) -> Any:
        return torch.from_numpy(np.concatenate(list(values)).astype(np.float32)).to(device)

    target = np.concatenate([np.asarray(row.ids)[at] for row, at in rows_with_places])
    imitated = np.concatenate([np.full(len(at), row.behaviour is None) for row, at in rows_with_places])
    return MicroBatch(
        own=own,
        teacher=teacher,
        target=torch.from_numpy(target.astype(np.int64)).to(device),
        advantage=numbers(np.asarray(row.advantages)[at] for row, at in rows_with_places),
        behaviour=numbers(
            np.zeros(len(at)) if row.behaviour is None else np.asarray(row.behaviour)[at]
            for row, at in rows_with_places
        ),
        imitated=torch.from_numpy(imitated).to(device),
        temperature=numbers(_temperatures(row)[at] for row, at in rows_with_places),
        weight=numbers(np.full(len(at), row.weight) for row, at in rows_with_places),
        regularised=numbers(np.full(len(at), row.regularised) for row, at in rows_with_places),
        allowed=_allowed(rows, places, allowed, device),
        values=value_batch(rows, device),
    )


def length(row: TrainingRow) -> int:
    """Returns the number of tokens of a row, as the model or as a teacher sees it, whichever are more."""
    return max(len(row.ids), len(_for_teacher(row)))


def _for_teacher(row: TrainingRow) -> tuple[int, ...]:
    """Returns the ids that a teacher sees: its own context, then the row from the first trained token on."""
    if row.teacher_context is None:
        return row.ids
    return (*row.teacher_context, *row.ids[row.mask.index(True) :])


def _selected(sequences: Sequence[tuple[int, ...]], places: Sequence[Any], device: Any, pad: int) -> Selected:
    """Returns padded sequences. places: for each sequence, the places of its trained tokens."""
    ids = np.full((len(sequences), max(map(len, sequences))), pad, dtype=np.int64)
    for padded_row, sequence in zip(ids, sequences, strict=True):
        padded_row[: len(sequence)] = sequence
    sequence_numbers = np.repeat(np.arange(len(sequences)), [len(row_places) for row_places in places])
    places_before = np.concatenate(places) - 1
    return Selected(
        ids=torch.from_numpy(ids).to(device),
        row=torch.from_numpy(sequence_numbers).to(device),
        place=torch.from_numpy(places_before).to(device),
    )


def _temperatures(row: TrainingRow) -> Any:
    """Returns the temperature at which each token of a row was drawn; 1 outside its answers."""
    temperatures = np.ones(len(row.ids))
    for span in row.spans:
        temperatures[span.begin : span.end] = span.temperature
    return temperatures


def _allowed(
    rows: Sequence[TrainingRow], places: Sequence[Any], allowed: AllowedSets | None, device: Any
) -> Any | None:
    """Returns (n, words) bits, or None if no trained token had a grammar."""
    answers = list[tuple[Any, Any]]()  # numbers of the trained tokens of an answer, and their bits
    ends = np.cumsum([len(row_places) for row_places in places])  # numbers of trained tokens up to the end of each row
    for row, row_places, end in zip(rows, places, ends, strict=True):
        for span in row.spans:
            inside = (row_places >= span.begin) & (row_places < span.end)
            if span.schema is None or not inside.any():
                continue
            if allowed is None:
                raise ValueError("an answer was drawn under a schema, and no tokenizer can follow it")
            span_bits = allowed(span, row.ids[span.begin : span.end])
            numbers = end - len(row_places) + np.flatnonzero(inside)
            answers.append((numbers, span_bits[row_places[inside] - span.begin]))
    if not answers:
        return None
    _, first_bits = answers[0]
    all_bits = np.full((ends[-1], first_bits.shape[1]), ALL_ALLOWED, dtype=np.int32)
    for numbers, bits in answers:
        all_bits[numbers] = bits
    return torch.from_numpy(all_bits).to(device)


class PolicyTerms(NamedTuple):
    """The policy gradient of n tokens."""

    loss: Any
    """(n,)"""
    ratio: Any
    """(n,) ρ; 1 for dropped tokens."""
    dropped: Any
    """(n,) whether the ratio lies outside the mask; such tokens have loss and gradient 0."""


def distribution(logits: Any, temperature: Any, allowed: Any | None) -> Any:
    """Returns (n, v) log-probabilities of the distribution that tokens are drawn from.

    logits: (n, v). temperature: (n,). allowed: (n, v) booleans, the tokens that a grammar allows; None for all.
    """
    logits = logits.float() / temperature[:, None]
    if allowed is not None:
        logits = logits.masked_fill(~allowed, -torch.inf)
    return torch.log_softmax(logits, dim=-1)


def policy_gradient(logprobs: Any, behaviour: Any, advantages: Any, settings: LearnerConstants) -> PolicyTerms:
    """Returns -min(ρA, clip(ρ)A) with ρ = exp(logprobs - behaviour), and 0 for tokens whose ρ lies outside the mask.

    logprobs: (n,) by the policy. behaviour: (n,) log-probabilities in the distribution that the tokens were drawn from.
    advantages: (n,).
    """
    log_ratio = logprobs - behaviour
    ratio = log_ratio.detach().exp()
    dropped = (ratio < settings.mask_low) | (ratio > settings.mask_high)
    # dropped tokens get the ratio 1, since an infinite ratio would make their gradient NaN
    ratio = log_ratio.masked_fill(dropped, 0.0).exp()
    clipped = ratio.clamp(settings.clip_low, settings.clip_high)
    loss = -torch.minimum(ratio * advantages, clipped * advantages)
    return PolicyTerms(loss.masked_fill(dropped, 0.0), ratio, dropped)


def imitation(logprobs: Any, advantages: Any) -> Any:
    """Returns -A log p: (n,), the loss of supervised fine-tuning where A = 1."""
    return -advantages * logprobs


def kl_to_reference(logprobs: Any, reference: Any) -> Any:
    """Returns (n,) estimates of KL(policy ‖ reference) at sampled tokens, none of them negative.

    logprobs, reference: (n,) of the sampled tokens. Source: Schulman (2020), "Approximating KL divergence", k3.
    """
    difference = reference - logprobs
    return torch.expm1(difference) - difference


def entropy_of(table: Any) -> Any:
    """Returns (n,) entropies in nats. table: (n, v) log-probabilities; a token that a grammar excludes adds nothing."""
    p = table.exp()
    return -(p * table.masked_fill(p == 0, 0.0)).sum(dim=-1)


def reverse_kl(table: Any, teachers: Sequence[Any], weights: Sequence[float]) -> Any:
    """Returns Σ_k w_k KL(policy ‖ teacher k) over the whole vocabulary: (n,).

    table: (n, v) log-probabilities of the policy. teachers: (n, v) log-probabilities of each. A token that a grammar
    excludes has probability 0 and adds nothing.
    """
    p = table.exp()
    gaps = [weight * (table - teacher) for teacher, weight in zip(teachers, weights, strict=True)]
    gap = torch.stack(gaps).sum(dim=0)
    return (p * gap.masked_fill(p == 0, 0.0)).sum(dim=-1)
