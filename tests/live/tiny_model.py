"""Writes a tiny Llama with random weights and a tokenizer made on the spot.

`python FILE FOLDER [SPREAD]`.

Run by vLLM's own Python: transformers and tokenizers are not among our dependencies.
"""
# pyright: reportMissingImports=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

import sys
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

TEMPLATE = (
    "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


def make(folder: Path, spread: float) -> None:
    """`spread`: the standard deviation of the weights; with a large one, few steps overfit."""
    torch.manual_seed(0)
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=2048,
        special_tokens=["<|endoftext|>", "<|im_start|>", "<|im_end|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )
    # A text that does not change: with other tokens, the same steps reach another loss.
    made.train([str(Path(__file__).parents[2] / "LICENSE")], trainer)
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=made, eos_token="<|im_end|>", pad_token="<|endoftext|>"
    )
    tokenizer.chat_template = TEMPLATE
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=32,
        max_position_embeddings=8192,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=2,
        pad_token_id=0,
        initializer_range=spread,
    )
    LlamaForCausalLM(config).to(torch.bfloat16).save_pretrained(folder)
    tokenizer.save_pretrained(folder)


if __name__ == "__main__":
    make(Path(sys.argv[1]), float(sys.argv[2]) if len(sys.argv) > 2 else 0.02)
