"""Makes the model of the experiment: random weights, and a tokenizer whose tokens may span words.

    python -m benchmarks.learning.newborn NAME --texts SFT_FOLDER [--hidden 256] [--layers 4]

Texts are cut before each digit and after it, at the ends of lines, and between the arguments of a call. Each piece may
become one token, so that a call has 7 tokens in place of 35.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sciagent.agent.install_and_find_models import HERMES_TEMPLATE

SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
HEAD = 32  # numbers of an attention head
CUTS = (r"\n+", r"\d")
BETWEEN = r'", (?=")'  # between two texts of a call


def texts(folder: Path) -> Iterator[str]:
    """Yields the messages of a data set of conversations."""
    import pyarrow.parquet as pq

    for batch in pq.ParquetFile(folder / "train.parquet").iter_batches(64, columns=["prompt", "completion", "turn"]):
        for cells in batch.to_pylist():
            if cells["turn"] >= 3:
                yield from (message["content"] for message in [*cells["prompt"], *cells["completion"]])


def tokenizer_of(folder: Path, vocabulary: int) -> Any:
    """Returns a tokenizer of transformers: byte-level BPE, with sciagent's chat template."""
    from tokenizers import Regex, Tokenizer, decoders, pre_tokenizers, trainers
    from tokenizers.models import BPE
    from transformers import PreTrainedTokenizerFast

    bpe = Tokenizer(BPE())
    bpe.pre_tokenizer = pre_tokenizers.Sequence(
        [
            *(pre_tokenizers.Split(Regex(cut), "isolated") for cut in CUTS),
            pre_tokenizers.Split(Regex(BETWEEN), "merged_with_next"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    bpe.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=list(SPECIAL),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
        max_token_length=400,
    )
    roles = ["system\n", "user\n", "assistant\n"] * 1000
    bpe.train_from_iterator([*texts(folder), *roles], trainer)
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=bpe, bos_token=SPECIAL[1], eos_token=SPECIAL[2], pad_token=SPECIAL[2], unk_token=SPECIAL[0]
    )
    tokenizer.chat_template = HERMES_TEMPLATE.read_text(encoding="utf-8")
    return tokenizer


def make(folder: Path, tokenizer: Any, hidden: int, layers: int, seed: int) -> int:
    """Writes a model in the architecture of Llama; returns the number of its parameters."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=hidden,
        intermediate_size=8 * hidden // 3 // HEAD * HEAD,
        num_hidden_layers=layers,
        num_attention_heads=hidden // HEAD,
        max_position_embeddings=2048,
        tie_word_embeddings=True,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    torch.manual_seed(seed)
    model = LlamaForCausalLM(config)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return int(model.num_parameters())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--texts", type=Path, required=True)
    parser.add_argument("--hidden", type=int, default=256)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--vocabulary", type=int, default=2048)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    words = tokenizer_of(given.texts, given.vocabulary)
    n = make(given.folder, words, given.hidden, given.layers, given.seed)
    sys.stdout.write(f"{n} parameters, {len(words)} tokens\n")
