"""Makes small language models with random weights, whose tokens are learned from recorded conversations."""

from __future__ import annotations

import importlib.metadata
import random
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sciagent.agent import install_and_find_models
from sciagent.agent.install_and_find_models import HERMES_TEMPLATE, Model
from sciagent.errors import UsageError
from sciagent.training.learner.learner_rows_and_rendered_conversations import Conversations
from sciagent.training.learner.row_selection import FILE, KINDS

UNKNOWN = "<|endoftext|>"
BEGIN = "<|im_start|>"
END = "<|im_end|>"
TAGS = ("<think>", "</think>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>")
"""Parts of the chat template that are one token each."""
HEAD = 32  # size of an attention head


@dataclass(frozen=True)
class ModelShape:
    """The size of a model in the architecture of Llama. Raises UsageError for a size that is not possible."""

    hidden_size: int = 192
    """Numbers in the state of a token; a multiple of 32, since each attention head has 32."""
    layers: int = 4
    vocabulary: int = 2048
    """Most tokens of the tokenizer."""
    context: int = 8192
    """Most tokens of a prompt and its answer."""

    def __post_init__(self) -> None:
        if self.hidden_size < HEAD or self.hidden_size % HEAD:
            raise UsageError(f"a hidden size is a multiple of {HEAD}, not {self.hidden_size}")
        if self.layers < 1 or self.context < 1:
            raise UsageError("a model has at least one layer, and a context of at least one token")
        least = 256 + len(TAGS) + 3  # the bytes, the tags, and UNKNOWN, BEGIN and END
        if self.vocabulary < least:
            raise UsageError(f"a vocabulary has at least {least} tokens: one for each byte, and those of the template")


def add_random_model(
    name: str, folders: Sequence[Path], shape: ModelShape, seed: int, tell: install_and_find_models.Tell
) -> Model:
    """Makes a model and adds it to the models of this machine. The same texts, shape and seed make the same weights.

    folders: data sets of conversations, whose texts the tokenizer is trained on. Raises UsageError for folders without
    conversations, or if there is another model of that name.
    """
    texts = [text for folder in folders for text in conversations(folder)]
    if not texts:
        raise UsageError("the data sets are empty; a tokenizer is trained on their conversations")
    tokenizer = trained_tokenizer(texts, shape.vocabulary)
    tokenizer_text = tokenizer.backend_tokenizer.to_str() + tokenizer.chat_template
    source = f"random weights, seed {seed}, {shape}, tokenizer {install_and_find_models.sha256(tokenizer_text)}"

    def has_same_source(model: Model) -> bool:
        return model.source == source

    known = install_and_find_models.same_as(name, has_same_source, tell)
    if known is not None:
        return known
    with install_and_find_models.making(name) as folder:
        _network(tokenizer, shape, source).save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        model = Model(
            name=name,
            source=source,
            licence="as that of its texts",
            weights=install_and_find_models.fingerprints(sorted(folder.glob("*.safetensors"))),
            template="sciagent",
            template_sha256=install_and_find_models.sha256(install_and_find_models.own_template(folder)),
            versions={package: importlib.metadata.version(package) for package in ("transformers", "torch")},
            added=datetime.now(UTC),
        )
        install_and_find_models.write(folder, model)
    return model


def conversations(folder: Path) -> Iterator[str]:
    """Yields the text of each row of a data set of conversations. Raises UsageError for another folder."""
    import pyarrow.parquet as pq

    file = None
    kind = b""  # of the data set, as its file states it
    if (folder / FILE).is_file():
        file = pq.ParquetFile(folder / FILE)
        metadata = file.schema_arrow.metadata or {}
        kind = metadata.get(b"dataset", b"")
    if file is None or kind.decode() not in KINDS["sft"].datasets:
        raise UsageError(f"{folder} is no data set of conversations; make one: sciagent dataset build sft")
    untrained_tokenizer = _wrapped(_byte_pairs())  # only its chat template is used
    rendering = Conversations(untrained_tokenizer, ends=())
    for batch in file.iter_batches(batch_size=64, columns=["prompt", "completion", "tools"]):
        yield from map(rendering.text, batch.to_pylist())


def trained_tokenizer(texts: Iterable[str], vocabulary: int) -> Any:
    """Returns a tokenizer of transformers: byte-level BPE, learned from the texts, with sciagent's chat template.

    Each digit is a token of its own, so that no number is unknown. vocabulary: most tokens.
    """
    from tokenizers import pre_tokenizers, trainers

    bpe = _byte_pairs()
    marks = [UNKNOWN, BEGIN, END]
    # texts are cut at the marks and tags, so that no token is learned across one
    separators = re.compile("|".join(re.escape(text) for text in [*marks, *TAGS]))
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary - len(TAGS),  # `_wrapped` adds the tags
        special_tokens=marks,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    parts = (part for text in texts for part in separators.split(text))
    bpe.train_from_iterator(parts, trainer)
    return _wrapped(bpe)


def _byte_pairs() -> Any:
    from tokenizers import Tokenizer, decoders, pre_tokenizers
    from tokenizers.models import BPE

    bpe = Tokenizer(BPE())
    split = [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    bpe.pre_tokenizer = pre_tokenizers.Sequence(split)
    bpe.decoder = decoders.ByteLevel()
    return bpe


def _wrapped(bpe: Any) -> Any:
    from transformers import AddedToken, PreTrainedTokenizerFast

    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=bpe, bos_token=BEGIN, eos_token=END, pad_token=END, unk_token=UNKNOWN
    )
    tokenizer.add_tokens([AddedToken(tag, normalized=False, special=False) for tag in TAGS])
    tokenizer.chat_template = HERMES_TEMPLATE.read_text(encoding="utf-8")
    return tokenizer


def _network(tokenizer: Any, shape: ModelShape, source: str) -> Any:
    """Returns a model with random weights, which depend on `source`: no two tokenizers get the same weights."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM
    from transformers.utils import logging

    logging.disable_progress_bar()
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=shape.hidden_size,
        # 8/3 of the hidden size, as in Llama, rounded down to a multiple of HEAD
        intermediate_size=8 * shape.hidden_size // 3 // HEAD * HEAD,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.hidden_size // HEAD,
        max_position_embeddings=shape.context,
        tie_word_embeddings=True,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    with torch.random.fork_rng():
        torch.manual_seed(random.Random(source).getrandbits(63))
        return LlamaForCausalLM(config)
