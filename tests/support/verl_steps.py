"""One step of verl's trainers on exported data sets, run in an environment with verl.

Use: python -P tests/support/verl_steps.py EXPORTS MODEL, since verl brings a package `tests` of its own. EXPORTS holds
the folders `sft` and `rows`. Prints a line of JSON: by trainer, what it logged, and what a test compares with it.
"""

from __future__ import annotations

import json
import os
import sys
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import torch
from hydra import compose, initialize_config_module
from transformers import AutoModelForCausalLM, AutoTokenizer
from verl.plugin.platform.platform_base import PlatformBase
from verl.plugin.platform.platform_manager import set_platform
from verl.utils import tensordict_utils
from verl.utils.config import omega_conf_to_dataclass
from verl.utils.dataset import RLHFDataset
from verl.utils.dataset.multiturn_sft_dataset import MultiTurnSFTDataset
from verl.utils.import_utils import load_extern_object

Told = dict[str, Any]
FIXED = [
    "model.use_remove_padding=False",
    "model.enable_gradient_checkpointing=False",
    "+model.override_config.attn_implementation=sdpa",
    "engine.strategy=fsdp2",
    "+engine.mixed_precision={param_dtype: fp32, reduce_dtype: fp32, buffer_dtype: fp32}",
    "engine.use_torch_compile=False",
    "data.use_dynamic_bsz=False",
    "data.num_workers=0",
    "data.max_length=20000",
    "data.custom_cls.name=LastAnswers",
    "optim.lr=1e-3",
    "trainer.device=cpu",
    "trainer.logger=[console]",
    "trainer.total_training_steps=1",
    "trainer.total_epochs=1",
    "trainer.resume_mode=disable",
]


class CpuModule:
    """`torch.cpu` with what verl asks of a GPU about memory: none."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        known = {"get_device_name": lambda *_: "CPU", "mem_get_info": lambda *_: (0, 0)}
        return known.get(name) or getattr(torch.cpu, name, lambda *_, **__: 0)

    def is_available(self) -> bool:
        return False


class CpuPlatform(PlatformBase):  # type: ignore[misc]
    """A platform for verl's own registry; verl 0.9.1 has none for CPUs."""

    device_name = vendor_name = "cpu"
    device_module = CpuModule()

    def _nothing(self, *_: Any) -> None:
        return None

    set_device = synchronize = manual_seed = manual_seed_all = set_allocator_settings = empty_cache = _nothing
    profiler_start = profiler_stop = cudart = _nothing

    def is_available(self) -> bool:
        return True

    is_platform_available = is_available

    def current_device(self) -> Any:
        return torch.device("cpu")

    def device_count(self) -> int:
        return 1

    def get_device_capability(self, device_index: int = 0) -> tuple[None, None]:
        return None, None

    def communication_backend_name(self) -> str:
        return "gloo"

    def visible_devices_envvar(self) -> str:
        return "CUDA_VISIBLE_DEVICES"

    @contextmanager
    def nvtx_range(self, msg: str) -> Any:
        yield

    def ray_resource_name(self) -> str:
        return "CPU"

    def ray_noset_envvars(self) -> list[str]:
        return []

    def is_ipc_supported(self) -> bool:
        return False


def settings(model: str, sft: Path, n: int) -> Any:
    """Returns the settings of verl's SFT trainer. n: rows of a batch."""
    own = [
        f"model.path={model}",
        f"data.train_files={sft}/train.parquet",
        f"trainer.default_local_dir={Path.cwd()}/out",
    ]
    own += [f"data.custom_cls.path={sft}/verl_conversations.py", f"data.train_batch_size={n}"]
    with initialize_config_module("verl.trainer.config", version_base=None):
        return compose("sft_trainer_engine", overrides=[*FIXED, *own, f"data.micro_batch_size_per_gpu={n}"])


def sft(exports: Path, model: str) -> Told:
    """Runs the SFT trainer for a step on all rows, and reads a row by verl's own dataset."""
    from verl.trainer.sft_trainer import SFTTrainer

    n = pq.read_metadata(exports / "sft" / "train.parquet").num_rows
    trainer = SFTTrainer(settings(model, exports / "sft", n))
    rows = [{name: cell.tolist() for name, cell in trainer.train_dataset[i].items()} for i in range(n)]
    before = _weights(trainer.engine.module)
    logged: Told = {}
    trained = trainer.training_client.train_batch

    def train_batch(data: Any) -> Any:
        output = trained(data=data)
        logged.update({name: tensordict_utils.get(output, "metrics")[name] for name in ("loss", "grad_norm")})
        return output

    trainer.training_client.train_batch = train_batch
    trainer.fit()
    reference, chosen = _reference(model), []
    for row in rows:
        found = _logprobs(reference, row["input_ids"], 1.0)
        chosen += [found[i - 1] for i, used in enumerate(row["loss_mask"]) if used]
    return logged | {"expected": -float(np.mean(chosen)), "rows": rows, "moved": _moved(before, trainer.engine.module)}


def own_dataset(exports: Path, model: str) -> Told:
    """Reads the conversations with one answer by verl's own dataset, which trains all answers and cannot read tools."""
    import pyarrow as pa

    tokenizer, folder = AutoTokenizer.from_pretrained(model), exports / "sft"
    found = [json.loads(row["messages"]) for row in pq.read_table(folder / "train.parquet").to_pylist()]
    single = [messages for messages in found if [each["role"] for each in messages].count("assistant") == 1]
    pq.write_table(pa.table({"messages": single}), "theirs.parquet")
    ours = {"messages": [json.dumps(messages) for messages in single], "tools": ["[]"] * len(single)}
    pq.write_table(pa.table(ours), "ours.parquet")
    limits = {"pad_mode": "no_padding", "max_length": 20000}
    theirs = MultiTurnSFTDataset("theirs.parquet", tokenizer, limits)
    answers = load_extern_object(str(folder / "verl_conversations.py"), "LastAnswers")
    own = answers("ours.parquet", tokenizer, limits)
    names = ("input_ids", "position_ids", "loss_mask")
    refused = []
    for more in ({"pad_mode": "right"}, {"max_length": 10}, {"max_length": 10, "truncation": "right"}):
        try:
            refused.append({"length": len(answers("ours.parquet", tokenizer, limits | more)[0]["input_ids"])})
        except ValueError as why:
            refused.append({"why": str(why)})
    alike = [all(bool(torch.equal(theirs[i][name], own[i][name])) for name in names) for i in range(len(single))]
    return {"alike": alike, "refused": refused}


def rows(exports: Path, model: str) -> Told:
    """Takes a step of verl's policy loss on recorded episodes, as its trainer does with those that it sampled."""
    from verl.workers.config import ActorConfig
    from verl.workers.engine_workers import TrainingWorker, TrainingWorkerConfig
    from verl.workers.utils.losses import ppo_loss
    from verl.workers.utils.padding import left_right_2_no_padding

    path, tokenizer = str(exports / "rows" / "train.parquet"), AutoTokenizer.from_pretrained(model)
    load = load_extern_object(str(exports / "rows" / "verl_rows.py"), "load")
    batch = load(path, tokenizer.pad_token_id)
    config = settings(model, exports / "sft", 1)
    parts = {f"{name}_config": omega_conf_to_dataclass(config[key]) for name, key in _PARTS.items()}
    worker = TrainingWorker(TrainingWorkerConfig(model_type="language_model", **parts))
    actor = ActorConfig(strategy="fsdp2", rollout_n=1, ppo_micro_batch_size_per_gpu=1)
    worker.set_loss_fn(partial(ppo_loss, config=actor))
    worker.reset()
    before, reference = _weights(worker.engine.module), _reference(model)
    stored, steps = pq.read_table(path).to_pylist(), []
    for _ in range(2):  # with the weights that sampled, and with others
        expected, gaps = _ppo(reference, stored, actor)
        data = left_right_2_no_padding(batch.to_tensordict())
        seen = tensordict_utils.NonTensorData(batch.batch["attention_mask"].sum(1).tolist())
        fixed = {"micro_batch_size_per_gpu": 1, "use_dynamic_bsz": False, "distillation_use_topk": False}
        fixed |= {"global_batch_size": len(batch), "compute_loss": True, "calculate_entropy": False}
        tensordict_utils.assign_non_tensor(data, global_token_num=seen, **fixed)
        metrics = tensordict_utils.get(worker.train_batch(data=data), "metrics")
        steps.append({"loss": metrics["loss"], "expected": expected, "gap": max(gaps), "tokens": len(gaps)})
        for held, new in zip(reference.parameters(), _weights(worker.engine.module), strict=True):
            held.data.copy_(new)
    masks = batch.batch["response_mask"].bool()
    return {
        "steps": steps,
        "moved": _moved(before, worker.engine.module),
        "shapes": {name: list(tensor.shape) for name, tensor in batch.batch.items()},
        "uid": batch.non_tensor_batch["uid"].tolist(),
        "temperature": batch.meta_info["temperature"],
        "trained": [ids[mask].tolist() for ids, mask in zip(batch.batch["responses"], masks, strict=True)],
        "scores": batch.batch["token_level_scores"].sum(1).tolist(),
        "mixed": _mixed(load, stored, pq.read_schema(path)),
    }


def _mixed(load: Any, stored: list[Told], schema: Any) -> Told:
    """Tells what becomes of a file whose first row has another temperature and no reward."""
    import pyarrow as pa

    changed = [row if i else row | {"temperature": 1.5, "token_level_scores": None} for i, row in enumerate(stored)]
    pq.write_table(pa.Table.from_pylist(changed, schema=schema), "mixed.parquet")
    refused = []
    for temperature in (None, 0.3):
        try:
            load("mixed.parquet", 0, temperature)
        except ValueError as why:
            refused.append(str(why))
    undecided = load("mixed.parquet", 0, 1.5)
    return {"refused": refused, "rows": [len(load("mixed.parquet", 0, each)) for each in (0.7, 1.5)]} | {
        "scored": "token_level_scores" in undecided.batch
    }


_PARTS = {
    "model": "model",
    "engine": "engine",
    "optimizer": "optim",
    "checkpoint": "checkpoint",
    "profiler": "profiler",
}


def prompts(exports: Path, model: str) -> Told:
    """Reads the openings by verl's dataset for its own rollouts."""
    from omegaconf import OmegaConf

    config = OmegaConf.create({"max_prompt_length": 20000, "filter_overlong_prompts_workers": 1, "cache_dir": "cache"})
    path = str(exports / "rows" / "prompts.train.parquet")
    dataset = RLHFDataset(path, AutoTokenizer.from_pretrained(model), config)
    names = ("raw_prompt", "data_source", "reward_model", "index", "extra_info")
    return {"rows": [{name: dataset[i][name] for name in names} for i in range(len(dataset))]}


def _ppo(reference: Any, stored: list[Told], actor: Any) -> tuple[float, list[float]]:
    """Returns the clipped loss by its formula, and the gaps between log-probabilities recorded and computed here.

    loss = - mean over tokens of min(ratio * A, clip(ratio) * A), where ratio = exp(log pi - log behaviour); of negative
    advantages at most -clip_ratio_c * A (Ye et al., arXiv:1912.09729).
    """
    losses, gaps = [], []
    for row in stored:
        found = _logprobs(reference, row["prompts"] + row["responses"], row["temperature"])
        for i, used in enumerate(row["response_mask"]):
            if not used:
                continue
            now, worth = found[len(row["prompts"]) + i - 1], row["advantages"][i]
            gaps.append(abs(now - row["rollout_log_probs"][i]))
            ratio = np.exp(now - row["rollout_log_probs"][i])
            gain = min(ratio * worth, np.clip(ratio, 1 - actor.clip_ratio_low, 1 + actor.clip_ratio_high) * worth)
            losses.append(-(max(gain, actor.clip_ratio_c * worth) if worth < 0 else gain))
    return float(np.mean(losses)), gaps


def _reference(model: str) -> Any:
    return AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32)


def _logprobs(reference: Any, ids: list[int], temperature: float) -> list[float]:
    """Returns (t - 1,) log-probabilities of the ids after the first, of the unpadded sequence."""
    with torch.inference_mode():
        table = torch.log_softmax(reference(torch.tensor([ids])).logits[0, :-1].float() / temperature, -1)
    return [float(each) for each in table[torch.arange(len(ids) - 1), torch.tensor(ids[1:])]]


def _weights(module: Any) -> list[torch.Tensor]:
    return [parameter.detach().full_tensor().clone() for parameter in module.parameters()]


def _moved(before: list[torch.Tensor], module: Any) -> bool:
    return any(not torch.equal(old, new) for old, new in zip(before, _weights(module), strict=True))


def main() -> None:
    exports, model = Path(sys.argv[1]), sys.argv[2]
    set_platform(CpuPlatform())
    os.environ |= {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}
    os.environ |= {"VERL_ENGINE_DEVICE": "cuda", "VERL_ENGINE_VENDOR": "nvidia"}  # the FSDP engine also runs on CPUs
    torch.distributed.init_process_group("gloo", init_method=f"file://{Path.cwd()}/group", rank=0, world_size=1)
    tasks = {"prompts": prompts, "own_dataset": own_dataset, "sft": sft, "rows": rows}
    told = {name: task(exports, model) for name, task in tasks.items()}
    torch.distributed.destroy_process_group()
    sys.stdout.write("\n" + json.dumps(told) + "\n")


if __name__ == "__main__":
    main()
