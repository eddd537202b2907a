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
from sciagent.training.learner.learner_rows_and_rendered_conversations import TrainingRow
from sciagent.training.learner.micro_batches_and_loss import (
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
from sciagent.training.learner.value_head_and_turn_advantages import (
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
"""Micro-batches, each with whether it counts. Copies that only fill up the number of a process do not count."""


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
    """Mean loss of the value head over the turns of the step; None without a value head."""
    explained_variance: float | None = None
    """Share of the variance of the value head's targets that its values before the update of the policy explain. In the
    first step, the head has been fitted to the same rows by then."""


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
        called like the model and never trained. allowed: returns the tokens that the schema of an answer allowed.
        Raises ValueError if nothing can be trained."""
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
        """Trains on the rows: once, or with a value head as often as its settings say; returns the metrics of the last
        update.

        With a value head, the rows need the rewards of their episodes. Raises ValueError if the rows have no token to
        train, and DivergedError, before the update, if the gradient is not finite.
        """
        begun_at = time.monotonic()
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
        seconds = time.monotonic() - begun_at
        return metrics._replace(grad_norm=float(norm), seconds=seconds, explained_variance=explained)

    def _valued(self, rows: Sequence[TrainingRow], critic: CriticSettings) -> list[TrainingRow]:
        """Returns the rows with advantages and with the targets of the value head.

        Until the value head is fitted, episodes are compared with their siblings, and the first rows whose episodes
        earned differently fit the head. Later rows are compared with the head's values.
        """
        parts = [part for part, _ in self._parts_of_this_process(rows)]
        valued_policy = self.accelerator.unwrap_model(self.model)
        if valued_policy.is_fitted:
            with self.accelerator.autocast():
                values = values_of(self.model, parts, self.device)
            rows_with_targets = valued_rows(rows, values, critic)
            valued_policy.update_scale([value.target for value in targets(rows_with_targets)])
            return rows_with_targets
        to_go = returns_to_go(rows, critic)
        with self.accelerator.autocast():
            states = states_of(self.model, parts, self.device)
        decided_returns = {turn: value for turn, value in to_go.items() if value is not None}
        if decided_returns:
            first_states = torch.stack([states[turn] for turn in decided_returns]).to(self.device)
            valued_policy.fit(first_states, list(decided_returns.values()), critic.warmup, critic.learning_rate)
        with self.accelerator.autocast():
            values = values_of(self.model, parts, self.device)
        return valued_rows(rows, values, critic, sibling_means(rows, to_go, values))

    def gradient(self, rows: Sequence[TrainingRow], batches: Batches | None = None) -> StepMetrics:
        """Adds the gradient of the rows' loss to the gradients of the parameters; returns the metrics, with a norm of
        0.

        How the rows are cut into micro-batches, or a trajectory into rows, changes nothing: the loss is the mean over
        all trained tokens. batches: the micro-batches of the rows; None: they are made here. Raises ValueError if the
        rows have no token to train.
        """
        if batches is None:
            batches = self._batches(rows)
        total_weight = sum(row.weight * row.trained for row in rows)
        n_turns = max(len(list(targets(rows))), 1)
        critic = self.settings.critic
        value_factor = 0.0
        if critic is not None:
            # the value loss is quadratic in the rewards; divided by their unit it is linear, as the policy loss is
            value_factor = self.settings.value_loss / (n_turns * (self._value_unit or 1.0))
        sums = torch.zeros(6, dtype=torch.float64)  # of the metrics that `_loss` returns
        for place, (batch, is_counted) in enumerate(batches):
            is_last = place == len(batches) - 1
            # the processes exchange their gradients once, with the last micro-batch
            with nullcontext() if is_last else self.accelerator.no_sync(self.model):
                loss_sum, value_errors, metric_sums = self._loss(batch)
                loss = loss_sum / total_weight + value_factor * value_errors
                # the processes average their gradients, but the loss is divided by the weight of all rows
                factor = self.accelerator.num_processes if is_counted else 0
                self.accelerator.backward(loss * factor)
                if is_counted:
                    sums += metric_sums
        reduced_sums = self.accelerator.reduce(sums.to(self.device), "sum")
        weighted, dropped, kl, entropy, tokens, errors = reduced_sums.tolist()
        rewards = [row.reward for row in rows if row.reward is not None]
        return StepMetrics(
            loss=weighted / total_weight,
            reward=sum(rewards) / len(rewards) if rewards else None,
            masked=dropped / tokens,
            kl=None if self.reference is None else kl / max(tokens - dropped, 1),
            entropy=entropy / tokens,
            grad_norm=0.0,
            tokens=int(tokens),
            seconds=0.0,
            value_loss=None if critic is None else errors / n_turns,
        )

    def _placed(self, model: Any) -> Any:
        """Moves a reference or teacher to the learner's device, and returns it.

        The policy without its adapter, which is a function and no module, is there already.
        """
        return model.to(self.device) if isinstance(model, torch.nn.Module) else model

    def _parts_of_this_process(self, rows: Sequence[TrainingRow]) -> list[tuple[list[TrainingRow], bool]]:
        """Returns the rows of each micro-batch of this process, with whether it counts.

        All processes get the same number of micro-batches; copies of the first one, which do not count, fill it up.
        """
        n_processes = self.accelerator.num_processes
        max_tokens = self.settings.most_tokens
        if n_processes > 1:
            tokens_per_process = math.ceil(sum(map(length, rows)) / n_processes)
            max_tokens = min(max_tokens, tokens_per_process)
        parts = [(part, True) for part in divided(rows, max_tokens)]
        first_part, _ = parts[0]
        while len(parts) % n_processes:
            parts.append((first_part, False))
        return parts[self.accelerator.process_index :: n_processes]

    def _batches(self, rows: Sequence[TrainingRow]) -> Batches:
        """Returns the micro-batches of this process as tensors, each with whether it counts.

        Raises ValueError if the rows have no token to train.
        """
        if not any(row.weight and row.trained for row in rows):
            raise ValueError("the rows of this step have no token to train")
        parts = self._parts_of_this_process([row for row in rows if row.trained])
        return [(micro_batch(part, self.allowed, self.device), is_counted) for part, is_counted in parts]

    def _loss(self, batch: MicroBatch) -> tuple[Any, Any, Any]:
        """Returns the weighted sum of the loss, the sum of the value loss, and (6,) sums for the metrics.

        The sums are of the weighted loss, the dropped tokens, KL divergence, entropy, the tokens and the value loss.
        """
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
            # the reference sees the context of the policy; teachers may see another one
            reference_table = self._frozen_table(self.reference, batch.own, batch)
            kl = kl_to_reference(logprobs, reference_table.gather(-1, batch.target[:, None])[:, 0])
            # the ratio makes the gradient that of the divergence of the current policy, whichever policy has sampled
            kl = torch.where(batch.imitated, kl, (terms.ratio * kl).masked_fill(terms.dropped, 0.0))
            regulariser = regulariser + settings.kl * kl
        if self.teachers and settings.distillation:
            tables = [self._frozen_table(teacher.model, batch.teacher, batch) for teacher in self.teachers]
            divergences = reverse_kl(table, tables, [teacher.weight for teacher in self.teachers])
            regulariser = regulariser + settings.distillation * divergences
        if settings.entropy:
            regulariser = regulariser - settings.entropy * entropy
        loss = loss + batch.regularised * regulariser
        loss_sum = (batch.weight * loss).sum()
        n_tokens = batch.weight.new_tensor(len(loss))
        metric_sums = torch.stack([loss_sum, dropped.sum(), kl.sum(), entropy.sum(), n_tokens, errors])
        return loss_sum, errors, metric_sums.detach().double().cpu()

    def _forward(self, batch: MicroBatch) -> tuple[Any, Any]:
        """Returns the (n, v) logits of the trained tokens, and the sum of the value loss: 0 without a value head."""
        with self.accelerator.autocast():
            if self.settings.critic is None:
                return batch.own.logits(self.model), batch.weight.new_zeros(())
            places = {"value_row": batch.values.row, "value_place": batch.values.place}
            logits, output = batch.own.output(self.model, **places)
        clip = self.settings.critic.clip
        max_change = None if clip is None else clip * self._value_unit
        return logits, value_loss(output.values, batch.values, max_change).sum()

    @property
    def _value_unit(self) -> float:
        """The running standard deviation of the value head's targets; 0 before it is fitted."""
        return float(self.accelerator.unwrap_model(self.model).unit)

    def _frozen_table(self, model: Any, selected: Any, batch: MicroBatch) -> Any:
        """Returns (n, v) log-probabilities by a model that is not trained. selected: the tokens in its context."""
        with torch.no_grad(), self.accelerator.autocast():
            logits = selected.logits(model)
            return distribution(logits, batch.temperature, batch.mask(logits.shape[-1]))

    def state(self) -> Mapping[str, Any]:
        """Returns the state for a checkpoint: trained weights, optimiser, random numbers, and the scale of the value
        head. Every process has to call it."""
        options = StateDictOptions(full_state_dict=True, cpu_offload=True, ignore_frozen_params=True)
        weights, optimiser = get_state_dict(self.model, self.optimiser.optimizer, options=options)
        # of a frozen weight with several names (tied embeddings), PyTorch leaves out only one name
        parameters = self.accelerator.unwrap_model(self.model).named_parameters(remove_duplicate=False)
        frozen_names = {name for name, parameter in parameters if not parameter.requires_grad}
        weights = {name: weight for name, weight in weights.items() if name not in frozen_names}
        random = {"cpu": torch.get_rng_state()}
        if torch.cuda.is_available():
            random["cuda"] = torch.cuda.get_rng_state()
        state = {"weights": weights, "optimiser": optimiser, "random": random}
        if self.settings.critic is not None:
            valued = self.accelerator.unwrap_model(self.model)
            state["values"] = {"centre": valued.centre, "scale": valued.scale}
        return state

    def sharded_weights(self) -> Mapping[str, Any] | None:
        """Returns the policy's trained weights if each process holds only a part of them (FSDP); else None.

        Only the main process gets the whole weights. Every process has to call it.
        """
        if self.accelerator.distributed_type is not DistributedType.FSDP:
            return None
        weights: Mapping[str, Any] = self.state()["weights"]
        if self.settings.critic is None:
            return weights
        # the names in a `PolicyWithValues`
        return {name.removeprefix("policy."): weight for name, weight in weights.items()}

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
