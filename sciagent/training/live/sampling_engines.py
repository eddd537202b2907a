"""Engines that sample the answers of rollouts, and the versions of the policy that they sample from.

A `Version` of the policy that is trained has the hash of its weights in its identity. `InProcessEngine` samples in this
process, from the learner's own weights or a copy. `ServedEngine` samples by a server of vLLM, in which each version is
an adapter under a name with the hash of its content.
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

from sciagent.agent import install_and_find_models
from sciagent.agent.install_and_find_models import Model, ModelError
from sciagent.agent.messages_sampling_and_policy_client import EpisodeQuestion, Message, PolicyError, Sampled, Sampling
from sciagent.agent.policies.batched_policies import BatchPolicy, ThreadedPolicy
from sciagent.agent.policies.endpoint_requests_and_answers import EndpointPolicy
from sciagent.agent.policies.local_model import InMemoryPolicy
from sciagent.agent.serving import load_adapters_and_served_model_cards as served
from sciagent.agent.serving.load_adapters_and_served_model_cards import ServedCard
from sciagent.domain.policy_identity import PolicyIdentity
from sciagent.errors import UsageError
from sciagent.store.database.ledger import Ledger
from sciagent.store.learning import policies_and_roles
from sciagent.training.learner.load_and_publish import LoadedModel, adapter_identity, write_adapter
from sciagent.training.learner.training_step import Learner


class Version(NamedTuple):
    """A version of the policy."""

    identity: PolicyIdentity
    steps: int
    """Number of steps that the policy had been trained for."""
    weights: Mapping[str, Any] | None = None
    """The trained weights by name; None if nobody needs them later."""

    def to_checkpoint(self) -> list[Any]:
        """Returns the version as lists and plain values, as a checkpoint keeps it."""
        return [list(astuple(self.identity)), self.steps, self.weights]


def from_checkpoint(noted: list[Any] | None) -> Version | None:
    """Returns the version that a checkpoint has kept as `Version.to_checkpoint` says; None if it has kept none."""
    if noted is None:
        return None
    identity, steps, weights = noted
    return Version(PolicyIdentity(*identity), steps, weights)


def trained_weights(model: Any) -> Mapping[str, Any]:
    """Returns a copy of the weights that are trained, by name."""
    return {name: weight.detach().clone() for name, weight in model.named_parameters() if weight.requires_grad}


def load_weights(model: Any, weights: Mapping[str, Any]) -> None:
    """Sets the trained weights of a model. weights: by name, as `trained_weights` returns them."""
    model.load_state_dict(weights, strict=False)


@contextmanager
def weights_swapped(model: Any, weights: Mapping[str, Any] | None) -> Iterator[None]:
    """Gives a model other trained weights for the time of the context; None: it keeps its own."""
    if weights is None:
        yield
        return
    own_weights = trained_weights(model)
    load_weights(model, weights)
    try:
        yield
    finally:
        load_weights(model, own_weights)


def identity_of_model(card: Model) -> PolicyIdentity:
    """Returns the identity of a model of this machine."""
    return PolicyIdentity(card.policy, "in process", card.sha256)


def identity_of(loaded: LoadedModel, model: Any, name: str) -> PolicyIdentity:
    """Returns the identity of a model by the hash of the files that it would have on disk. A model with an adapter is
    identified by the files of the adapter."""
    with tempfile.TemporaryDirectory(prefix="sciagent-version-") as folder:
        if loaded.rank:
            write_adapter(loaded, model, Path(folder) / "adapter")
            return adapter_identity(loaded, Path(folder) / "adapter", name)
        model.save_pretrained(folder)
        sha256 = str(install_and_find_models.folder_sha256(Path(folder)))
    return PolicyIdentity(install_and_find_models.policy_name(name, sha256), "in process", sha256)


def enter_version(ledger: Ledger, identity: PolicyIdentity, parent_id: int | None, recipe: Mapping[str, Any]) -> int:
    """Returns the ledger's id of a version, and writes its row if it is new."""
    with ledger.begin() as connection:
        return policies_and_roles.enter(connection, identity, parent_id=parent_id, recipe=recipe)


class Engine(Protocol):
    """A sampler of the policy that is being trained."""

    def policy(self, learner: Learner, loaded: LoadedModel, version: PolicyIdentity) -> BatchPolicy:
        """Returns the policy with the learner's weights as they are now. version: its name and hash in the ledger."""

    def close(self) -> None: ...


class InProcessEngine:
    """Samples in this process: from the learner's own weights, or from a copy of them beside the training."""

    def __init__(self, is_beside: bool = False) -> None:
        """is_beside: whether the weights may change while a version of the policy is asked, so that it needs a copy of
        them. One version is asked at a time."""
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

    Cached keys and values of earlier calls are not used again: older weights have computed them, and after a restart
    they would be missing, which changes the last digits of the results.
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
"""How the server draws the answer by which its log-probabilities are checked."""
MAX_DIFFERENCE = 0.2  # of log-probabilities in nats, mean over the probe; with bfloat16 they differ by less
_HOW_TO_START = "start it with `sciagent serve-model MODEL --trainable`, in the precision of the trainer (--dtype)"


class ServedEngine:
    """Loads each version of the policy into a running server, and unloads the versions that no rollout asks any more.

    The server was started by `sciagent serve-model MODEL --trainable`. It reads the adapters from `folder`, which both
    machines have to see.
    """

    def __init__(self, endpoint: str, name: str, folder: Path, versions: int = 1) -> None:
        """name: of the policy that is trained. folder: for the adapters. versions: number of versions that stay
        loaded."""
        self._endpoint = endpoint
        self._name = name
        self._folder = folder.absolute()
        self._versions = versions
        self._clients = list[ThreadedPolicy]()  # of the loaded versions, oldest first
        self._is_checked = False

    def policy(self, learner: Learner, loaded: LoadedModel, version: PolicyIdentity) -> BatchPolicy:
        """Loads the policy as it is now, and returns a client that asks it by the name of its content.

        Raises UsageError if the server has another model, or if its log-probabilities cannot be trained on.
        """
        if not self._is_checked:
            self._check_base(loaded)
        adapter_name = self._load(learner, loaded, version)
        client = client_of(adapter_name, self._endpoint)
        self._clients.append(ThreadedPolicy(client))
        if not self._is_checked:
            check_logprobs(client, learner)
            self._is_checked = True
        self._unload(kept=self._versions)
        return self._clients[-1]

    def close(self) -> None:
        """Unloads the run's adapters and ends the requests."""
        with suppress(ModelError):  # a server that is gone has nothing to unload
            self._unload(kept=0)

    def _check_base(self, loaded: LoadedModel) -> None:
        """Raises UsageError unless the server has the weights below the trained adapter."""
        card = loaded.card
        bases = served.served_bases(self._endpoint)
        hashes = []
        for name in bases:
            base_card = served.served_card(name)
            if base_card is not None:
                hashes.append(base_card.base_sha256)
        if card.sha256 not in hashes:
            served_names = ", ".join(bases) or "no model"
            raise UsageError(
                f"{self._endpoint} serves {served_names}, not {card.policy}; start it with\n"
                f"  sciagent serve-model {card.name} --trainable --lora-rank {loaded.rank}"
            )

    def _load(self, learner: Learner, loaded: LoadedModel, version: PolicyIdentity) -> str:
        """Writes the adapter as it is now, loads it into the server, and returns its name there."""
        folder = self._folder / version.name
        folder.parent.mkdir(parents=True, exist_ok=True)
        write_adapter(loaded, learner.policy, folder)
        return served.load_adapter(self._endpoint, version.name, folder)

    def _unload(self, kept: int) -> None:
        """Unloads all versions but the last ones, also versions that a killed process of the run has left.

        kept: number of versions that stay loaded.
        """
        n_old = max(len(self._clients) - kept, 0)
        old_clients = self._clients[:n_old]
        self._clients = self._clients[n_old:]
        for policy in old_clients:
            policy.close()
        names = {policy.name for policy in self._clients}
        for adapter in served.loaded_adapters(self._endpoint):
            model_name, _, _ = adapter.partition("@")  # an adapter is called NAME@HASH
            if model_name == self._name and adapter not in names:
                served.unload_adapter(self._endpoint, adapter)
        for folder in self._folder.glob("*"):  # those of loaded adapters stay: the server may read them again
            if folder.name not in names:
                shutil.rmtree(folder, ignore_errors=True)


def client_of(name: str, endpoint: str) -> EndpointPolicy:
    """Returns a client of a server that `serve-model --trainable` started. name: of the adapter that is asked."""
    return EndpointPolicy(name, endpoint, logprobs="processed", grammar="llguidance")


def policy_loaded_elsewhere(identity: PolicyIdentity, endpoint: str) -> BatchPolicy:
    """Returns a client of a version that another process has loaded into the server."""
    if served.served_card(identity.name) is None:  # another machine has loaded it, and this one has no card of it
        base = identity.base_sha256
        adapter = identity.adapter_sha256
        served.keep_card(ServedCard(name=identity.name, base_sha256=base, adapter_sha256=adapter))
    return ThreadedPolicy(client_of(identity.name, endpoint))


def check_logprobs(client: EndpointPolicy, learner: Learner) -> None:
    """Raises UsageError unless the server's log-probabilities are those of the policy at the temperature of the answer.

    The server draws one short answer at a temperature that is not 1, and the trainer's model computes its
    log-probabilities again.
    """
    drawn = client.sample([Message("user", "Propose a molecule with a small gap.")], tools=[], sampling=PROBE)
    if drawn.tokens is None or drawn.tokens.behaviour is None:
        raise UsageError(f"{client.name}: the server returns no token ids; {_HOW_TO_START}")
    difference = _mean_difference(learner, drawn)
    if difference > MAX_DIFFERENCE:
        raise UsageError(
            f"{client.name}: the log-probabilities of the server differ by {difference:.2g} nats from those of the "
            f"policy at temperature {PROBE.temperature:g}; {_HOW_TO_START}"
        )


def _mean_difference(learner: Learner, drawn: Sampled) -> float:
    """Returns the mean absolute difference, in nats, of the log-probabilities by the server and by the learner."""
    import torch

    tokens: Any = drawn.tokens
    n = len(tokens.output_ids)
    output = torch.tensor(tokens.output_ids, device=learner.device)
    ids = torch.tensor([[*tokens.prompt_ids, *tokens.output_ids[:-1]]], device=learner.device)
    with torch.inference_mode():
        logits = learner.model(input_ids=ids, use_cache=False).logits[0, -n:].float()  # (n, tokens)
    table = torch.log_softmax(logits / PROBE.temperature, dim=-1)
    own_logprobs = table.gather(-1, output[:, None])[:, 0]
    server_logprobs = torch.tensor(tokens.behaviour, device=learner.device)
    return float((own_logprobs - server_logprobs).abs().mean())
