"""Writes a tiny language model with made-up weights: two megabytes, milliseconds per token, no sense at all.

Attention and feed-forward add nothing, embeddings are one-hot, so the output matrix is a table that says how
likely each token is after each other one. What a grammar forces out of it is valid; that is all that is asked.
"""

from __future__ import annotations

from pathlib import Path

import gguf
import numpy as np

_TEMPLATE = """
{%- if tools %}<|im_start|>system
You may call these functions:
{% for tool in tools %}{{ tool | tojson }}
{% endfor %}A call is written as
<tool_call>
{"name": "the name", "arguments": {}}
</tool_call><|im_end|>
{% endif %}
{%- for message in messages %}<|im_start|>{{ message.role }}
{% if message.content is string %}{{ message.content }}{% endif %}
{%- for call in message.tool_calls or [] %}
<tool_call>
{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}}
</tool_call>
{%- endfor %}<|im_end|>
{% endfor %}
{%- if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""

_WIDTH = 320
_HIDDEN = 32
_SPECIAL = ("<|im_start|>", "<|im_end|>", "<|endoftext|>")
_MARKERS = ("<tool_call>", "</tool_call>")


def write_tiny_model(path: Path, *, seed: int = 7) -> Path:
    """The path, with a model file at it."""
    tokens = _byte_tokens() + list(_SPECIAL) + list(_MARKERS)
    writer = gguf.GGUFWriter(str(path), "llama")
    _describe(writer, tokens)
    for name, values in _tensors(tokens, np.random.default_rng(seed)):
        writer.add_tensor(name, values.astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _byte_tokens() -> list[str]:
    """One token per byte and one pair, in the alphabet of byte-level vocabularies: printable bytes are themselves."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    letters = {byte: chr(byte) for byte in printable} | {byte: chr(256 + n) for n, byte in enumerate(others)}
    return [letters[byte] for byte in range(256)] + ["na"]


def _describe(writer: gguf.GGUFWriter, tokens: list[str]) -> None:
    kinds = [gguf.TokenType.NORMAL] * (len(tokens) - len(_SPECIAL) - len(_MARKERS))
    kinds += [gguf.TokenType.CONTROL] * len(_SPECIAL) + [gguf.TokenType.USER_DEFINED] * len(_MARKERS)
    writer.add_name("tiny")
    writer.add_context_length(32768)
    writer.add_embedding_length(_WIDTH)
    writer.add_block_count(1)
    writer.add_feed_forward_length(_HIDDEN)
    writer.add_head_count(4)
    writer.add_head_count_kv(4)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_rope_dimension_count(_WIDTH // 4)
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens)
    writer.add_token_types(kinds)
    writer.add_token_merges(["n a"])  # an empty list of merges is refused
    writer.add_bos_token_id(tokens.index("<|endoftext|>"))
    writer.add_eos_token_id(tokens.index("<|im_end|>"))
    writer.add_add_bos_token(False)
    writer.add_chat_template(_TEMPLATE)


def _tensors(tokens: list[str], random: np.random.Generator) -> list[tuple[str, np.ndarray]]:
    one, zero = np.ones(_WIDTH), np.zeros
    square = zero((_WIDTH, _WIDTH))
    return [
        ("token_embd.weight", np.eye(len(tokens), _WIDTH)),
        ("output_norm.weight", one),
        # The norm makes the length of a one-hot vector sqrt(width); divided out, the table holds plain logits.
        ("output.weight", _likely_next(tokens, random) / np.sqrt(_WIDTH)),
        ("blk.0.attn_norm.weight", one),
        ("blk.0.attn_q.weight", square),
        ("blk.0.attn_k.weight", square),
        ("blk.0.attn_v.weight", square),
        ("blk.0.attn_output.weight", square),
        ("blk.0.ffn_norm.weight", one),
        ("blk.0.ffn_gate.weight", zero((_HIDDEN, _WIDTH))),
        ("blk.0.ffn_up.weight", zero((_HIDDEN, _WIDTH))),
        ("blk.0.ffn_down.weight", zero((_WIDTH, _HIDDEN))),
    ]


def _likely_next(tokens: list[str], random: np.random.Generator) -> np.ndarray:
    """Rows are next tokens, columns the present one; logits."""
    table = np.zeros((len(tokens), _WIDTH))
    table[:, : len(tokens)] = random.normal(0, 1, (len(tokens), len(tokens)))
    # Whatever closes something comes soon, so that strings, objects and replies end.
    for closer, bonus in (('"', 5.0), ("}", 5.0), ("]", 4.0), ("<|im_end|>", 5.0)):
        table[tokens.index(closer)] += bonus
    for blank in b" \t\n\r":
        table[blank] -= 4  # the first 256 tokens are the bytes in order
    line_end, call = ord("\n"), tokens.index("<tool_call>")
    table[call, line_end] += 20  # the reply begins after a line end: with a call
    table[line_end, call] += 20
    return table
