"""Engines that sample the answers of rollouts. The usual one samples from the learner's own weights.

The versions of the policy that is trained: each has the hash of its weights as identity.

Samples by a server of vLLM. Each version of the policy is an adapter there, under a name with its content's hash.
"""

from __future__ import annotations

import copy
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import astuple
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from sciagent.agent import models
from sciagent.agent.messages import EpisodeQuestion, Message, PolicyError, Sampled, Sampling
from sciagent.agent.models import Model, ModelError
from sciagent.agent.policies.batches import BatchPolicy, ThreadedPolicy
from sciagent.agent.policies.endpoint import EndpointPolicy
from sciagent.agent.policies.local import InMemoryPolicy
from sciagent.agent.serving import served
from sciagent.agent.serving.served import ServedCard
from sciagent.domain.policies import PolicyIdentity
from sciagent.errors import UsageError
from sciagent.store.database.ledger import Ledger
from sciagent.store.learning import policies
from sciagent.training.learner.loading import LoadedModel, adapter_identity, write_adapter
from sciagent.training.learner.step import Learner


class Version(NamedTuple):
    """A version of the policy."""

    identity: PolicyIdentity
    steps: int
    """Number of steps after which the policy stood so."""
    weights: Mapping[str, Any] | None = None
    """The trained weights by name; None if nobody needs them later."""

    def noted(self) -> list[Any]:
        """Returns the version as lists and plain values, as a checkpoint keeps it."""
        return [list(astuple(self.identity)), self.steps, self.weights]


def from_checkpoint(noted: list[Any] | None) -> Version | None:
    """Returns the version that a checkpoint has kept; None for none."""
    return None if noted is None else Version(PolicyIdentity(*noted[0]), noted[1], noted[2])


def trained_weights(model: Any) -> Mapping[str, Any]:
    """Returns a copy of the weights that are trained, by name."""
    return {name: each.detach().clone() for name, each in model.named_parameters() if each.requires_grad}


def load_weights(model: Any, weights: Mapping[str, Any]) -> None:
    """Gives a model trained weights."""
    model.load_state_dict(weights, strict=False)


@contextmanager
def weights_swapped(model: Any, weights: Mapping[str, Any] | None) -> Iterator[None]:
    """Gives a model other trained weights for the time of the context; None: it keeps its own."""
    if weights is None:
        yield
        return
    own = trained_weights(model)
    load_weights(model, weights)
    try:
        yield
    finally:
        load_weights(model, own)


def identity_of_model(card: Model) -> PolicyIdentity:
    """Returns the identity of a model of this machine."""
    return PolicyIdentity(card.policy, "in process", card.sha256)


def identity_of(loaded: LoadedModel, model: Any, name: str) -> PolicyIdentity:
    """Returns the identity of a model as it would be on disk: that of its files, or of its adapter's."""
    with tempfile.TemporaryDirectory(prefix="sciagent-version-") as folder:
        if loaded.rank:
            write_adapter(loaded, model, Path(folder) / "adapter")
            return adapter_identity(loaded, Path(folder) / "adapter", name)
        model.save_pretrained(folder)
        sha256 = str(models.folder_sha256(Path(folder)))
    return PolicyIdentity(models.policy_name(name, sha256), "in process", sha256)


def entered(ledger: Ledger, identity: PolicyIdentity, parent_id: int | None, recipe: Mapping[str, Any]) -> int:
    """Returns the ledger's id of a version, and writes its row if it is new."""
    with ledger.begin() as connection:
        return policies.enter(connection, identity, parent_id=parent_id, recipe=recipe)


class Engine(Protocol):
    """A sampler of the policy that is being trained."""

    def policy(self, learner: Learner, loaded: LoadedModel, version: PolicyIdentity) -> BatchPolicy:
        """Returns the policy with the learner's weights as they are now. version: its name and hash in the ledger."""

    def close(self) -> None: ...


class InProcessEngine:
    """Samples in this process: from the learner's own weights, or from a copy of them beside the training."""

    def __init__(self, is_beside: bool = False) -> None:
        """is_beside: the weights change while a version of the policy is asked. One version is asked at a time."""
        self._is_beside = is_beside
        self._copy = None

    def policy(self, learner: Learner, loaded: LoadedModel, version: PolicyIdentity) -> BatchPolicy:
        import torch

        model = self._copied(learner.policy) if self._is_beside else learner.policy
        threads = torch.get_num_threads()
        return LearnersPolicy(learner, InMemoryPolicy(model, loaded.tokenizer, version, threads=threads))

    def _copied(self, model: Any) -> Any:
        if self._copy is None:
            self._copy = copy.deepcopy(model)
        load_weights(self._copy, trained_weights(model))
        return self._copy

    def close(self) -> None:
        """Does nothing: the weights go with the engine."""


class LearnersPolicy:
    """A policy whose answers depend on the weights and on the questions alone.

    Keys and values of earlier calls are not used again: they would be those of older weights, and after a restart they
    would be missing, which changes the last digits.
    """

    def __init__(self, learner: Any, policy: InMemoryPolicy) -> None:
        self._learner = learner
        self._policy = policy
        self.name = policy.name

    def answers(self, questions: Sequence[EpisodeQuestion]) -> list[Sampled | PolicyError]:
        self._policy.forget()
        with self._learner.accelerator.autocast():
            return self._policy.sample_many(questions)

    def identity(self, served: str) -> PolicyIdentity:
        return self._policy.identity(served)

    def close(self) -> None:
        self._policy.close()


PROBE = Sampling(temperature=0.5, max_tokens=16, seed=1)
MOST_OFF = 0.2  # nats, mean over the probe; bfloat16 is off by less
_START = "start it with `sciagent serve-model MODEL --trainable`, in the precision of the trainer (--dtype)"


class ServedEngine:
    """Loads each version of the policy into a running server, and unloads the versions that no rollout asks any more.

    The server was started by `sciagent serve-model MODEL --trainable`. It reads the adapters from `folder`, which both
    machines have to see.
    """

    def __init__(self, endpoint: str, name: str, folder: Path, versions: int = 1) -> None:
        """name: of the new policy. folder: for the adapters. versions: how many stay loaded."""
        self._endpoint = endpoint
        self._name = name
        self._folder = folder.absolute()
        self._versions = versions
        self._asked = list[ThreadedPolicy]()  # the clients of the loaded versions, oldest first
        self._is_checked = False

    def policy(self, learner: Learner, loaded: LoadedModel, version: PolicyIdentity) -> BatchPolicy:
        """Loads the policy as it is now, and returns a client that asks it by the name of its content.

        Raises UsageError if the server has another model, or none of its log-probabilities can be trained on.
        """
        if not self._is_checked:
            self._check_base(loaded)
        client = asking(self._load(learner, loaded, version), self._endpoint)
        self._asked.append(ThreadedPolicy(client))
        if not self._is_checked:
            check_logprobs(client, learner)
            self._is_checked = True
        self._unload(self._versions)
        return self._asked[-1]

    def close(self) -> None:
        """Unloads the run's adapters and ends the requests."""
        with suppress(ModelError):  # a server that is gone has nothing to unload
            self._unload(0)

    def _check_base(self, loaded: LoadedModel) -> None:
        """Raises UsageError unless the server has the weights below the trained adapter."""
        card = loaded.card
        bases = served.served_bases(self._endpoint)
        hashes = [known.base_sha256 for name in bases if (known := served.served_card(name)) is not None]
        if card.sha256 not in hashes:
            there = ", ".join(bases) or "no model"
            raise UsageError(
                f"{self._endpoint} serves {there}, not {card.policy}; start it with\n"
                f"  sciagent serve-model {card.name} --trainable --lora-rank {loaded.rank}"
            )

    def _load(self, learner: Learner, loaded: LoadedModel, version: PolicyIdentity) -> str:
        """Writes the adapter as it is now, loads it, and returns its name, which is also that of its folder."""
        folder = self._folder / version.name
        folder.parent.mkdir(parents=True, exist_ok=True)
        write_adapter(loaded, learner.policy, folder)
        return served.load_adapter(self._endpoint, version.name, folder)

    def _unload(self, kept: int) -> None:
        """Unloads all versions but the last ones, those of a run that was killed among them."""
        n = max(len(self._asked) - kept, 0)
        old = self._asked[:n]
        self._asked = self._asked[n:]
        for policy in old:
            policy.close()
        names = {policy.name for policy in self._asked}
        for adapter in served.loaded_adapters(self._endpoint):
            if adapter.partition("@")[0] == self._name and adapter not in names:
                served.unload_adapter(self._endpoint, adapter)
        for folder in self._folder.glob("*"):  # the server may read the folder of a loaded adapter again
            if folder.name not in names:
                shutil.rmtree(folder, ignore_errors=True)


def asking(name: str, endpoint: str) -> EndpointPolicy:
    """Returns a client of a server that `serve-model --trainable` started."""
    return EndpointPolicy(name, endpoint, logprobs="processed", grammar="llguidance")


def policy_elsewhere(identity: PolicyIdentity, endpoint: str) -> BatchPolicy:
    """Returns a version that another process has loaded into the server."""
    if served.served_card(identity.name) is None:  # on another machine
        base = identity.base_sha256
        adapter = identity.adapter_sha256
        served.keep_card(ServedCard(name=identity.name, base_sha256=base, adapter_sha256=adapter))
    return ThreadedPolicy(asking(identity.name, endpoint))


def check_logprobs(client: EndpointPolicy, learner: Learner) -> None:
    """Raises UsageError unless the server's log-probabilities are those of the policy at the temperature of the answer.

    One short answer at a temperature that is not 1 is drawn, and computed again by the trainer's model.
    """
    drawn = client.sample([Message("user", "Propose a molecule with a small gap.")], [], PROBE)
    if drawn.tokens is None or drawn.tokens.behaviour is None:
        raise UsageError(f"{client.name}: the server returns no token ids; {_START}")
    off = _mean_difference(learner, drawn)
    if off > MOST_OFF:
        raise UsageError(
            f"{client.name}: the log-probabilities of the server differ by {off:.2g} nats from those of the policy at "
            f"temperature {PROBE.temperature:g}; {_START}"
        )


def _mean_difference(learner: Learner, drawn: Sampled) -> float:
    import torch

    tokens: Any = drawn.tokens
    n = len(tokens.output_ids)
    output = torch.tensor(tokens.output_ids, device=learner.device)
    ids = torch.tensor([[*tokens.prompt_ids, *tokens.output_ids[:-1]]], device=learner.device)
    with torch.inference_mode():
        logits = learner.model(input_ids=ids, use_cache=False).logits[0, -n:].float()
    table = torch.log_softmax(logits / PROBE.temperature, dim=-1)
    there = torch.tensor(tokens.behaviour, device=learner.device)
    return float((table.gather(-1, output[:, None])[:, 0] - there).abs().mean())
