#!/usr/bin/env python3
"""Writes a folder as Hugging Face has GPT-2's smallest, 124 million parameters, with made-up weights: to measure loading
and generation without a download.

usage: make_gpt2.py FOLDER [f32|f16|bf16]
"""

import array
import json
import os
import random
import struct
import sys

WORDS, CONTEXT, WIDTH, LAYERS, HEADS = 50257, 1024, 768, 12, 12
BLOCK = 1 << 20  # random values; longer tensors repeat them


def shapes():
    yield "wte.weight", [WORDS, WIDTH]
    yield "wpe.weight", [CONTEXT, WIDTH]
    for i in range(LAYERS):
        layer = f"h.{i}."
        for norm in ("ln_1", "ln_2"):
            yield layer + norm + ".weight", [WIDTH]
            yield layer + norm + ".bias", [WIDTH]
        # Conv1D: [in, out]
        for name, rows, columns in (("attn.c_attn", WIDTH, 3 * WIDTH), ("attn.c_proj", WIDTH, WIDTH),
                                    ("mlp.c_fc", WIDTH, 4 * WIDTH), ("mlp.c_proj", 4 * WIDTH, WIDTH)):
            yield layer + name + ".weight", [rows, columns]
            yield layer + name + ".bias", [columns]
    yield "ln_f.weight", [WIDTH]
    yield "ln_f.bias", [WIDTH]


def packed(values, kind):
    if kind == "f32":
        return array.array("f", values).tobytes()
    if kind == "f16":
        return struct.pack(f"<{len(values)}e", *values)
    return b"".join(struct.pack("<f", value)[2:] for value in values)


def write_weights(path, kind):
    size = 4 if kind == "f32" else 2
    random.seed(1)
    block = packed([random.gauss(0, 0.02) for _ in range(BLOCK)], kind)
    one = packed([1.0], kind)
    header, offset = {}, 0
    for name, shape in shapes():
        count = 1
        for length in shape:
            count *= length
        header[name] = {"dtype": {"f32": "F32", "f16": "F16", "bf16": "BF16"}[kind], "shape": shape,
                        "data_offsets": [offset, offset + count * size]}
        offset += count * size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text)
        for name, shape in shapes():
            begin, end = header[name]["data_offsets"]
            is_norm = ".ln_" in "." + name and name.endswith("weight")
            source = one * (BLOCK // 16) if is_norm else block
            left = end - begin
            while left > 0:
                out.write(source[:left])
                left -= min(left, len(source))


def byte_characters():
    """GPT-2's printable stand-ins for bytes."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in printable]
    return [chr(b) for b in printable] + [chr(256 + i) for i in range(len(others))]


def write_tokenizer(folder):
    tokens = byte_characters()
    tokens += [f"Ġword{i}" for i in range(WORDS - 1 - len(tokens))] + ["<|endoftext|>"]
    vocabulary = {token: i for i, token in enumerate(tokens)}
    end = {"id": WORDS - 1, "content": "<|endoftext|>", "single_word": False, "lstrip": False, "rstrip": False,
           "normalized": False, "special": True}
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    document = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [end], "normalizer": None,
                "pre_tokenizer": level, "post_processor": level, "decoder": level,
                "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": "",
                          "end_of_word_suffix": "", "fuse_unk": False, "vocab": vocabulary, "merges": []}}
    with open(os.path.join(folder, "tokenizer.json"), "w", encoding="utf-8") as out:
        json.dump(document, out, ensure_ascii=False)


def main():
    if len(sys.argv) not in (2, 3) or (len(sys.argv) == 3 and sys.argv[2] not in ("f32", "f16", "bf16")):
        sys.exit(__doc__)
    folder, kind = sys.argv[1], sys.argv[2] if len(sys.argv) == 3 else "f32"
    os.makedirs(folder, exist_ok=True)
    config = {"architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "vocab_size": WORDS, "n_positions": CONTEXT,
              "n_ctx": CONTEXT, "n_embd": WIDTH, "n_layer": LAYERS, "n_head": HEADS, "n_inner": None,
              "activation_function": "gelu_new", "layer_norm_epsilon": 1e-05, "bos_token_id": WORDS - 1,
              "eos_token_id": WORDS - 1, "tie_word_embeddings": True}
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as out:
        json.dump(config, out, indent=2)
    write_tokenizer(folder)
    write_weights(os.path.join(folder, "model.safetensors"), kind)


if __name__ == "__main__":
    main()
