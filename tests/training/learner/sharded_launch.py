"""The command line of sciagent, whose weights are sharded on a CPU, which `accelerate` does on GPUs only."""

from __future__ import annotations

from accelerate import PartialState
from accelerate.utils import DistributedType

from sciagent.cli.main import main

if __name__ == "__main__":
    PartialState(cpu=True)
    PartialState._shared_state["distributed_type"] = DistributedType.MULTI_GPU
    main()
