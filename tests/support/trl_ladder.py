"""One step of TRL's GRPOTrainer on the live ladder, by the code of docs/exports.md, in an environment with TRL.

Use: python -m tests.support.trl_ladder MODEL, in a folder with the files that the page names. A model of random weights
calls no tools, so it learns two calls by heart first. Prints a line of JSON: what the trainer logged.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl.chat_template_utils import qwen2_5_chat_template

from sciagent import Campaign
from sciagent.training.environment.trl_environment import TrlLadder
from tests.support.trl_settings import ONE_STEP

PAGE = Path(__file__).parents[2] / "docs" / "exports.md"
CALLS = ("CCCCO", "CCCCCCCCCC")  # the first has a logP in the window, the second has not
MORE = {**ONE_STEP, "max_tool_calling_iterations": 1, "max_completion_length": 128}


def teach(folder: Path, out: Path) -> None:
    """Lets a model learn to answer the opening of an episode by one of two calls, and saves it with a template that TRL
    knows."""
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModelForCausalLM.from_pretrained(folder)
    tokenizer.chat_template = qwen2_5_chat_template
    with Campaign.from_yaml("ladder.yaml").environment("rewards.yaml") as environment:
        ladder = TrlLadder(environment, 1)
        [row], shown = ladder.prompts(1, "demonstration"), ladder()
        prompt = [row["prompt"][0], {"role": "user", "content": shown.reset(**row)}]
    asked = tokenizer.apply_chat_template(
        prompt, tools=[shown.propose], add_generation_prompt=True, tokenize=True, return_dict=False
    )
    calls = [f'{{"name": "propose", "arguments": {{"smiles": "{smiles}"}}}}' for smiles in CALLS]
    answers = [tokenizer(f"<tool_call>\n{call}\n</tool_call><|im_end|>")["input_ids"] for call in calls]
    pad = [max(map(len, answers)) - len(answer) for answer in answers]
    ids = torch.tensor([asked + answer + [0] * n for answer, n in zip(answers, pad, strict=True)])
    labels = torch.tensor([[-100] * len(asked) + a + [-100] * n for a, n in zip(answers, pad, strict=True)])
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for _ in range(100):
        loss = model(input_ids=ids, labels=labels).loss
        if loss < 0.05:
            break
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
    model.save_pretrained(out)
    tokenizer.save_pretrained(out)


def main(folder: str) -> None:
    torch.manual_seed(1)
    teach(Path(folder), Path("taught"))
    [code] = [part for part in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL) if "TrlLadder" in part]
    variables: dict[str, Any] = {"more": MORE}
    begun = AutoModelForCausalLM.from_pretrained("taught")
    code = code.replace("MODEL", "taught").replace("max_completion_length=2048", "**more")
    exec(code, variables)
    trainer = variables["trainer"]
    pairs = zip(begun.parameters(), trainer.model.parameters(), strict=True)
    [logged] = [line for line in trainer.state.log_history if "reward" in line]
    print(json.dumps({"logged": logged, "moved": any(not torch.equal(old, new) for old, new in pairs)}))


if __name__ == "__main__":
    main(*sys.argv[1:])
