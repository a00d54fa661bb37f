"""A llama model with random weights, small enough to build in a test and real enough to serve.

Deterministic for (preset, seed). Its vocabulary is the 256 bytes, some English words and word ends;
the output bias admits printable word tokens only, so it never ends by itself and never emits half a
UTF-8 character: an answer has exactly ``max_tokens`` tokens. The words make no sense.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import gguf
import numpy as np
import numpy.typing as npt

_WORDS = """
the of and to in a is that for it as was with be by on not he his but at are this have from or had
an they which one you all her she there would their we him been has when who will no more if out so
up said what its about than into them can only other time new some could these two may first then do
any like my now over such our man me even most made after also did many before must well back years
through much where your way down should because long each just those people how too little state
good very make world still see own work men day get here old life both between being under three
never know same last another while us might great go come since against right came take used few
house use place during high without again home around small however found part school thought
general number public system set group give order write text data value name list return error limit
rate class function string true false none import def self print open close read file line code key
index example model token request response server queue tenant quota cache prefix batch policy
message user assistant answer question
"""
_WORD_ENDS = """
ing ed er ly tion ment es al ity ous ive able est ness th en ar on re st nt ll ch sh qu
"""
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
TEMPLATE = (
    "{% for m in messages %}{{'<|im_start|>' + m['role'] + '\\n' + m['content'] + '<|im_end|>' "
    "+ '\\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
CONTEXT_TOKENS = 8_192


@dataclass(frozen=True, slots=True)
class Shape:
    width: int
    layers: int
    heads: int
    kv_heads: int
    hidden: int

    @property
    def head_width(self) -> int:
        return self.width // self.heads


PRESETS = {
    "nano": Shape(64, 2, 2, 1, 192),
    "mid": Shape(192, 3, 3, 1, 512),
    "tiny": Shape(256, 4, 4, 2, 768),
}

Weights = npt.NDArray[np.float32]


def build(folder: Path, preset: str = "nano", seed: int = 7) -> Path:
    """Writes ``<preset>.gguf`` into ``folder`` and returns its path."""
    shape = PRESETS[preset]
    tokens, merges = vocabulary()
    path = folder / f"{preset}.gguf"
    writer = gguf.GGUFWriter(str(path), "llama")
    _describe(writer, shape, preset)
    _add_tokenizer(writer, tokens, merges)
    for name, weights in _tensors(shape, tokens, np.random.Generator(np.random.PCG64(seed))):
        # norms stay in 32 bits, everything else is halved
        writer.add_tensor(name, weights if weights.ndim == 1 else weights.astype(np.float16))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def vocabulary() -> tuple[list[str], list[str]]:
    """(tokens, merges) of a byte-level BPE: whole words first, word ends last."""
    alphabet = _byte_alphabet()
    tokens = [alphabet[byte] for byte in range(256)]
    known = set(tokens)
    merges = []
    words = _WORDS.split()
    starts = [f" {word}" for word in words]
    for text in [*starts, *words, *(word.capitalize() for word in words), *_WORD_ENDS.split()]:
        units = [alphabet[byte] for byte in text.encode()]
        left = units[0]
        for right in units[1:]:
            if left + right not in known:
                known.add(left + right)
                tokens.append(left + right)
                merges.append(f"{left} {right}")
            left += right
    return tokens, merges


def _byte_alphabet() -> dict[int, str]:
    """GPT-2's printable stand-ins for bytes."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    alphabet = {byte: chr(byte) for byte in printable}
    others = (byte for byte in range(256) if byte not in alphabet)
    return alphabet | {byte: chr(256 + index) for index, byte in enumerate(list(others))}


def _describe(writer: gguf.GGUFWriter, shape: Shape, preset: str) -> None:
    writer.add_name(f"random-{preset}")
    writer.add_context_length(CONTEXT_TOKENS)
    writer.add_embedding_length(shape.width)
    writer.add_block_count(shape.layers)
    writer.add_feed_forward_length(shape.hidden)
    writer.add_head_count(shape.heads)
    writer.add_head_count_kv(shape.kv_heads)
    writer.add_rope_dimension_count(shape.head_width)
    writer.add_rope_freq_base(10_000.0)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_F16)


def _add_tokenizer(writer: gguf.GGUFWriter, tokens: list[str], merges: list[str]) -> None:
    ordinary = len(tokens)
    kinds = [gguf.TokenType.NORMAL] * ordinary + [gguf.TokenType.CONTROL] * len(SPECIAL)
    writer.add_vocab_size(ordinary + len(SPECIAL))
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens + SPECIAL)
    writer.add_token_merges(merges)
    writer.add_token_types(kinds)
    writer.add_bos_token_id(ordinary)
    writer.add_eos_token_id(ordinary + 2)
    writer.add_add_bos_token(False)
    writer.add_chat_template(TEMPLATE)


def _tensors(
    shape: Shape, tokens: list[str], rng: np.random.Generator
) -> Iterator[tuple[str, Weights]]:
    def noise(rows: int, columns: int, scale: float | None = None) -> Weights:
        wide = rng.standard_normal((rows, columns), dtype=np.float32)
        return wide * np.float32(columns**-0.5 if scale is None else scale)

    def residual(rows: int, columns: int) -> Weights:
        weights = noise(rows, columns)
        weights[0] = 0  # channel 0 of the residual stays constant: it carries the output bias
        return weights

    width, ones = shape.width, np.ones(shape.width, np.float32)
    all_tokens = tokens + SPECIAL
    embedding = noise(len(all_tokens), width, 1.0)
    embedding[:, 0] = 3.0
    output = noise(len(all_tokens), width, 2.0 * width**-0.5)
    output[:, 0] = [0.0 if _is_word(index, tokens) else -40.0 for index in range(len(all_tokens))]
    yield "token_embd.weight", embedding
    yield "output_norm.weight", ones
    yield "output.weight", output
    kv_width = shape.kv_heads * shape.head_width
    for layer in range(shape.layers):
        name = f"blk.{layer}."
        yield name + "attn_norm.weight", ones
        yield name + "ffn_norm.weight", ones
        yield name + "attn_q.weight", noise(width, width)
        yield name + "attn_k.weight", noise(kv_width, width)
        yield name + "attn_v.weight", noise(kv_width, width)
        yield name + "attn_output.weight", residual(width, width)
        yield name + "ffn_gate.weight", noise(shape.hidden, width)
        yield name + "ffn_up.weight", noise(shape.hidden, width)
        yield name + "ffn_down.weight", residual(width, shape.hidden)


def _is_word(index: int, tokens: list[str]) -> bool:
    return 256 <= index < len(tokens) and len(tokens[index]) >= 3
