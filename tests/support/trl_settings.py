"""Settings of TRL's trainers for one step on a CPU."""

from __future__ import annotations

ONE_STEP = {
    "max_steps": 1,
    "logging_steps": 1,
    "learning_rate": 1e-3,
    "use_cpu": True,
    "bf16": False,
    "disable_tqdm": True,
    "save_strategy": "no",
    "report_to": "none",
}
