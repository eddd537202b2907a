"""Samples by a server of vLLM. Each version of the policy is an adapter there, under a name with its content's hash."""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sciagent.agent.messages import Message, Sampled, Sampling
from sciagent.agent.models import ModelError
from sciagent.agent.policies.batches import BatchPolicy, ThreadedPolicy
from sciagent.agent.policies.endpoint import EndpointPolicy
from sciagent.agent.serving import served as lora_adapters
from sciagent.agent.serving import served_cards
from sciagent.agent.serving.served_cards import ServedCard
from sciagent.domain.policies import PolicyIdentity
from sciagent.errors import UsageError
from sciagent.training.learner.adapters import write_adapter
from sciagent.training.learner.loading import LoadedModel

if TYPE_CHECKING:
    from sciagent.training.learner.step import Learner

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
        self._endpoint, self._name, self._folder, self._versions = endpoint, name, folder.absolute(), versions
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
        bases = lora_adapters.served_bases(self._endpoint)
        hashes = [known.base_sha256 for name in bases if (known := served_cards.find(name)) is not None]
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
        return lora_adapters.load(self._endpoint, version.name, folder)

    def _unload(self, kept: int) -> None:
        """Unloads all versions but the last ones, those of a run that was killed among them."""
        n = max(len(self._asked) - kept, 0)
        old, self._asked = self._asked[:n], self._asked[n:]
        for policy in old:
            policy.close()
        names = {policy.name for policy in self._asked}
        for served in lora_adapters.loaded(self._endpoint):
            if served.partition("@")[0] == self._name and served not in names:
                lora_adapters.unload(self._endpoint, served)
        for folder in self._folder.glob("*"):  # the server may read the folder of a loaded adapter again
            if folder.name not in names:
                shutil.rmtree(folder, ignore_errors=True)


def asking(name: str, endpoint: str) -> EndpointPolicy:
    """Returns a client of a server that `serve-model --trainable` started."""
    return EndpointPolicy(name, endpoint, logprobs="processed", grammar="llguidance")


def policy_elsewhere(identity: PolicyIdentity, endpoint: str) -> BatchPolicy:
    """Returns a version that another process has loaded into the server."""
    if served_cards.find(identity.name) is None:  # on another machine
        base, adapter = identity.base_sha256, identity.adapter_sha256
        served_cards.keep(ServedCard(name=identity.name, base_sha256=base, adapter_sha256=adapter))
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
    n, output = len(tokens.output_ids), torch.tensor(tokens.output_ids, device=learner.device)
    ids = torch.tensor([[*tokens.prompt_ids, *tokens.output_ids[:-1]]], device=learner.device)
    with torch.inference_mode():
        logits = learner.model(input_ids=ids, use_cache=False).logits[0, -n:].float()
    table = torch.log_softmax(logits / PROBE.temperature, dim=-1)
    there = torch.tensor(tokens.behaviour, device=learner.device)
    return float((table.gather(-1, output[:, None])[:, 0] - there).abs().mean())
