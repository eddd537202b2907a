"""The training step: micro-batches, gradients, the optimiser. The same step serves every kind of row."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import Any, NamedTuple

import torch
from accelerate import Accelerator
from accelerate.utils import DistributedType
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_state_dict, set_state_dict

from sciagent.errors import SciagentError
from sciagent.training.learner.batches import (
    AllowedSets,
    MicroBatch,
    distribution,
    divided,
    entropy_of,
    imitation,
    kl_to_reference,
    length,
    micro_batch,
    policy_gradient,
    reverse_kl,
)
from sciagent.training.learner.rows import TrainingRow
from sciagent.training.learner.values import (
    PolicyWithValues,
    explained_variance,
    returns_to_go,
    sibling_means,
    states_of,
    targets,
    value_loss,
    valued_rows,
    values_of,
)
from sciagent.training.settings import CriticSettings, LearnerSettings

Batches = Sequence[tuple[MicroBatch, bool]]
"""Micro-batches, each with whether it counts: one that only fills up for other processes does not."""


class DivergedError(SciagentError):
    """The weights have left the range in which anything can be computed."""


class Teacher(NamedTuple):
    """A model whose distribution the policy is to learn."""

    model: Any
    weight: float = 1.0


class StepMetrics(NamedTuple):
    """The results of a step."""

    loss: float
    """Mean over the trained tokens of the step."""
    reward: float | None
    """Mean reward of the rows; None if none has a known one."""
    masked: float
    """Share of the trained tokens that were dropped since sampler and trainer disagreed."""
    kl: float | None
    """Mean KL divergence from the reference, in nats; None without a reference."""
    entropy: float
    """Mean entropy in nats."""
    grad_norm: float
    """Norm of the gradient before it was scaled down."""
    tokens: int
    """Number of trained tokens."""
    seconds: float
    value_loss: float | None = None
    """Mean over the turns of the step, of the value head; None without one."""
    explained_variance: float | None = None
    """Share of the variance of the value head's targets that it explained before the update of the policy: in the
    first step, after it was fitted to the same rows."""


class Learner:
    """A policy with its optimiser: in single precision on a CPU, in bfloat16 with weights in single precision on a GPU.

    `accelerate` places the model, and with `accelerate launch` shares the rows of a step among processes. Dropout stays
    off, since ratios compare with a policy that was sampled without it.
    """

    def __init__(
        self,
        model: Any,
        settings: LearnerSettings,
        *,
        reference: Any | None = None,
        teachers: Sequence[Teacher] = (),
        allowed: AllowedSets | None = None,
    ) -> None:
        """model: of transformers or peft; parameters that need no gradient stay as they are. reference, teachers: are
        called like the model and never trained. allowed: follows the schemas of answers. Raises ValueError if nothing
        can be trained."""
        self.settings = settings
        self.allowed = allowed
        trained = [weights for weights in model.parameters() if weights.requires_grad]
        if not trained:
            raise ValueError("the model has no parameters that need a gradient")
        cuda = torch.cuda.is_available()
        self.accelerator = Accelerator(mixed_precision="bf16" if cuda else "no", cpu=not cuda)
        groups: list[dict[str, Any]] = [{"params": trained}]
        if settings.critic is not None:
            model = PolicyWithValues(model)
            groups.append({"params": list(model.head.parameters()), "lr": settings.critic.learning_rate})
        optimiser = torch.optim.AdamW(groups, lr=settings.learning_rate, weight_decay=settings.weight_decay)
        self.model, self.optimiser = self.accelerator.prepare(model.eval(), optimiser)
        self.reference = self._placed(reference)
        self.teachers = [Teacher(self._placed(each.model), each.weight) for each in teachers if each.weight]

    @property
    def device(self) -> Any:
        return self.accelerator.device

    @property
    def policy(self) -> Any:
        """The model that is trained, without a value head and the wrapping of `accelerate`."""
        model = self.accelerator.unwrap_model(self.model)
        return model.policy if isinstance(model, PolicyWithValues) else model

    def step(self, rows: Sequence[TrainingRow]) -> StepMetrics:
        """Trains on the rows: once, or with a value head as often as its settings say. Then the rows need the rewards
        of their episodes, and the metrics are those of the last update. Raises ValueError if the rows have no token to
        train, and DivergedError, with the weights as they were, if the gradient is not finite."""
        begun = time.monotonic()
        critic = self.settings.critic
        explained = None
        if critic is not None:
            rows = self._valued(rows, critic)
            explained = explained_variance(rows)
        batches = self._batches(rows)
        for _ in range(1 if critic is None else critic.passes):
            metrics = self.gradient(rows, batches)
            norm = self.accelerator.clip_grad_norm_(self.model.parameters(), self.settings.most_gradient)
            if not math.isfinite(float(norm)):
                raise DivergedError("the gradient is not finite; train with a lower --learning-rate in another folder")
            self.optimiser.step()
            self.optimiser.zero_grad()
        seconds = time.monotonic() - begun
        return metrics._replace(grad_norm=float(norm), seconds=seconds, explained_variance=explained)

    def _valued(self, rows: Sequence[TrainingRow], critic: CriticSettings) -> list[TrainingRow]:
        """Returns the rows with advantages and with the targets of the value head.

        The first rows whose episodes earned differently are compared with their siblings. They also fit the value
        head, with which later rows are compared.
        """
        parts = [part for part, _ in self._mine(rows)]
        valued = self.accelerator.unwrap_model(self.model)
        if valued.unit:
            with self.accelerator.autocast():
                values = values_of(self.model, parts, self.device)
            found = valued_rows(rows, values, critic)
            valued.follow([value.target for value in targets(found)])
            return found
        to_go = returns_to_go(rows, critic)
        with self.accelerator.autocast():
            states = states_of(self.model, parts, self.device)
        decided = {at: value for at, value in to_go.items() if value is not None}
        if decided:
            first_states = torch.stack([states[at] for at in decided]).to(self.device)
            valued.fit(first_states, list(decided.values()), critic.warmup, critic.learning_rate)
        with self.accelerator.autocast():
            values = values_of(self.model, parts, self.device)
        return valued_rows(rows, values, critic, sibling_means(rows, to_go, values))

    def gradient(self, rows: Sequence[TrainingRow], batches: Batches | None = None) -> StepMetrics:
        """Adds the gradient of the rows' loss to those of the parameters; returns the metrics without its norm.

        How the rows are cut into micro-batches, or a trajectory into rows, changes nothing: the loss is the mean over
        all trained tokens. batches: those of the rows, if they are made already. Raises ValueError if there are none.
        """
        mine = self._batches(rows) if batches is None else batches
        total = sum(row.weight * row.trained for row in rows)
        turns = max(sum(1 for _ in targets(rows)), 1)
        critic = self.settings.critic
        # in this unit, the gradients of policy and values grow alike with the rewards
        value_factor = 0.0 if critic is None else self.settings.value_loss / (turns * (self._value_unit or 1.0))
        sums = torch.zeros(6, dtype=torch.float64)
        for place, (batch, counts) in enumerate(mine):
            waits = place < len(mine) - 1
            with self.accelerator.no_sync(self.model) if waits else nullcontext():
                summed, errors, metric_sums = self._loss(batch)
                loss = summed / total + value_factor * errors
                # processes average their gradients; a micro-batch that only fills up counts nothing
                self.accelerator.backward(loss * self.accelerator.num_processes * counts)
                sums += metric_sums * counts
        weighted, dropped, kl, entropy, tokens, errors = self.accelerator.reduce(sums.to(self.device), "sum").tolist()
        rewards = [row.reward for row in rows if row.reward is not None]
        return StepMetrics(
            loss=weighted / total,
            reward=sum(rewards) / len(rewards) if rewards else None,
            masked=dropped / tokens,
            kl=None if self.reference is None else kl / max(tokens - dropped, 1),
            entropy=entropy / tokens,
            grad_norm=0.0,
            tokens=int(tokens),
            seconds=0.0,
            value_loss=None if critic is None else errors / turns,
        )

    def _placed(self, model: Any) -> Any:
        """Returns a model that is not trained on the learner's device; the policy without its adapter is there."""
        return model.to(self.device) if isinstance(model, torch.nn.Module) else model

    def _mine(self, rows: Sequence[TrainingRow]) -> list[tuple[list[TrainingRow], bool]]:
        """Returns the micro-batches of this process, each with whether it counts. All processes get equally many."""
        n = self.accelerator.num_processes
        share = -(-sum(map(length, rows)) // n)
        parts = divided(rows, self.settings.most_tokens if n == 1 else min(self.settings.most_tokens, share))
        filled = [(part, True) for part in parts] + [(parts[0], False)] * (-len(parts) % n)
        return filled[self.accelerator.process_index :: n]

    def _batches(self, rows: Sequence[TrainingRow]) -> Batches:
        """Returns the micro-batches of this process as tensors, each with whether it counts. Raises ValueError without
        a token to train."""
        if not any(row.weight and row.trained for row in rows):
            raise ValueError("the rows of this step have no token to train")
        mine = self._mine([row for row in rows if row.trained])
        return [(micro_batch(part, self.allowed, self.device), counts) for part, counts in mine]

    def _loss(self, batch: MicroBatch) -> tuple[Any, Any, Any]:
        """Returns the weighted sum of the loss, the sum of the value loss, and (6,) sums for the metrics."""
        settings = self.settings
        logits, errors = self._forward(batch)
        table = distribution(logits, batch.temperature, batch.mask(logits.shape[-1]))
        logprobs = table.gather(-1, batch.target[:, None])[:, 0]
        terms = policy_gradient(logprobs, batch.behaviour, batch.advantage, settings)
        loss = torch.where(batch.imitated, imitation(logprobs, batch.advantage), terms.loss)
        dropped = terms.dropped & ~batch.imitated
        entropy = entropy_of(table if settings.entropy else table.detach())
        kl = torch.zeros_like(loss)
        regulariser = torch.zeros_like(loss)
        if self.reference is not None:
            there = self._frozen(self.reference, batch.own, batch)
            kl = kl_to_reference(logprobs, there.gather(-1, batch.target[:, None])[:, 0])
            # with the ratio, the gradient is that of the divergence of the policy, whatever drew the tokens
            kl = torch.where(batch.imitated, kl, (terms.ratio * kl).masked_fill(terms.dropped, 0.0))
            regulariser = regulariser + settings.kl * kl
        if self.teachers and settings.distillation:
            tables = [self._frozen(teacher.model, batch.teacher, batch) for teacher in self.teachers]
            gaps = reverse_kl(table, tables, [teacher.weight for teacher in self.teachers])
            regulariser = regulariser + settings.distillation * gaps
        if settings.entropy:
            regulariser = regulariser - settings.entropy * entropy
        loss = loss + batch.regularised * regulariser
        summed = (batch.weight * loss).sum()
        n = batch.weight.new_tensor(len(loss))
        metric_sums = torch.stack([summed, dropped.sum(), kl.sum(), entropy.sum(), n, errors])
        return summed, errors, metric_sums.detach().double().cpu()

    def _forward(self, batch: MicroBatch) -> tuple[Any, Any]:
        """Returns the (n, v) logits of the trained tokens, and the sum of the value loss: 0 without a value head."""
        with self.accelerator.autocast():
            if self.settings.critic is None:
                return batch.own.logits(self.model), batch.weight.new_zeros(())
            at = {"value_row": batch.values.row, "value_place": batch.values.place}
            logits, found = batch.own.output(self.model, **at)
        clip = self.settings.critic.clip
        widest = None if clip is None else clip * self._value_unit
        return logits, value_loss(found.values, batch.values, widest).sum()

    @property
    def _value_unit(self) -> float:
        """The running standard deviation of the value head's targets; 0 before it is fitted."""
        return float(self.accelerator.unwrap_model(self.model).unit)

    def _frozen(self, model: Any, selected: Any, batch: MicroBatch) -> Any:
        """Returns (n, v) log-probabilities by a model that is not trained."""
        with torch.no_grad(), self.accelerator.autocast():
            logits = selected.logits(model)
            return distribution(logits, batch.temperature, batch.mask(logits.shape[-1]))

    def state(self) -> Mapping[str, Any]:
        """Returns what a checkpoint needs: trained weights, optimiser, random state. Every process has to call it."""
        options = StateDictOptions(full_state_dict=True, cpu_offload=True, ignore_frozen_params=True)
        weights, optimiser = get_state_dict(self.model, self.optimiser.optimizer, options=options)
        # PyTorch finds a frozen weight by one of its names, and keeps it under the others (tied embeddings)
        named = self.accelerator.unwrap_model(self.model).named_parameters(remove_duplicate=False)
        frozen = {name for name, each in named if not each.requires_grad}
        weights = {name: each for name, each in weights.items() if name not in frozen}
        random = {"cpu": torch.get_rng_state()}
        if torch.cuda.is_available():
            random["cuda"] = torch.cuda.get_rng_state()
        state = {"weights": weights, "optimiser": optimiser, "random": random}
        if self.settings.critic is not None:
            valued = self.accelerator.unwrap_model(self.model)
            state["values"] = {"centre": valued.centre, "scale": valued.scale}
        return state

    def sharded_weights(self) -> Mapping[str, Any] | None:
        """Returns the policy's trained weights, whole, in the main process, if each process holds only a part of them
        (FSDP); else None. Every process has to call it."""
        if self.accelerator.distributed_type is not DistributedType.FSDP:
            return None
        held = self.state()["weights"]
        valued = self.settings.critic is not None
        return {name.removeprefix("policy."): each for name, each in held.items()} if valued else held

    def restore(self, state: Mapping[str, Any]) -> None:
        """Goes back to a state that `state` returned."""
        options = StateDictOptions(full_state_dict=True, cpu_offload=True, ignore_frozen_params=True, strict=False)
        set_state_dict(
            self.model,
            self.optimiser.optimizer,
            model_state_dict=state["weights"],
            optim_state_dict=state["optimiser"],
            options=options,
        )
        if self.settings.critic is not None:
            valued = self.accelerator.unwrap_model(self.model)
            valued.centre = state["values"]["centre"]
            valued.scale = state["values"]["scale"]
        torch.set_rng_state(state["random"]["cpu"])
        if torch.cuda.is_available() and "cuda" in state["random"]:
            torch.cuda.set_rng_state(state["random"]["cuda"])
