"""A language model of two layers with random weights and its own small tokenizer: real machinery, no meaning."""

from __future__ import annotations

from pathlib import Path

from sciagent.agent.install_and_find_models import HERMES_TEMPLATE

SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
TEXT = [
    "The gap of benzene is wider than that of anthracene; a donor and an acceptor make it narrower.",
    '{"name": "propose", "arguments": {"smiles": "c1ccccc1O", "why": "a donor raises the HOMO", "n": 12}}',
    "<tool_call> </tool_call> <tool_response> </tool_response> system user assistant",
]


def write_tiny_model(folder: Path, context: int = 2048) -> Path:
    """As Hugging Face lays models out; the same weights every time. There are more logits than tokens, as in many."""
    import torch
    from tokenizers import Tokenizer, decoders, pre_tokenizers, trainers
    from tokenizers.models import BPE
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    bpe = Tokenizer(BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    bpe.train_from_iterator(
        TEXT * 20, trainers.BpeTrainer(vocab_size=400, special_tokens=SPECIAL, initial_alphabet=alphabet)
    )
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=bpe, bos_token=SPECIAL[1], eos_token=SPECIAL[2], pad_token=SPECIAL[2], unk_token=SPECIAL[0]
    )
    tokenizer.chat_template = HERMES_TEMPLATE.read_text(encoding="utf-8")
    config = LlamaConfig(
        vocab_size=len(tokenizer) + 5,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=context,
        initializer_range=0.3,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
    )
    with torch.random.fork_rng():
        torch.manual_seed(7)
        model = LlamaForCausalLM(config)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
