"""The identity of a policy: the hashes of the weights of a model."""

from __future__ import annotations

from dataclasses import dataclass

from sciagent.domain.evidence_keys_and_pooled_replicates import content_hash

SCRIPT = "script"  # the source of a policy that is no model
IN_PROCESS = "in process"  # the source of a model of this machine


@dataclass(frozen=True)
class PolicyIdentity:
    """The model that answered, as far as it is known."""

    name: str
    """The name under which it is asked, such as `smollm2@93a1…`."""
    source: str
    """The address of its server, `in process`, or `script`."""
    base_sha256: str | None = None
    """SHA-256 of the base model's weights; None for a server's model whose weights are unknown."""
    adapter_sha256: str | None = None
    """SHA-256 of the adapter; None without one."""

    @property
    def hash(self) -> str:
        """The hash of the weights, wherever they run; the hash of address and name if the weights are unknown."""
        if self.base_sha256 is None:
            return content_hash({"endpoint": self.source, "name": self.name})
        return content_hash({"base": self.base_sha256, "adapter": self.adapter_sha256})
