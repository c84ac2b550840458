#!/usr/bin/env python3
"""make_cases.py GOLDENS CASES: writes the repository's reference cases, at most 2 MB.

GOLDENS holds the full set, made with PyTorch, Hugging Face transformers and sacreBLEU. Its op cases, tokenizers and
metrics are copied as they are, a selection of them. Its models are too large, so that smaller ones of the same
architectures are made here, with random weights; reference.py computes what they give. Before anything is written,
reference.py is run on all models of GOLDENS and must agree with transformers on every logit, hidden state, map of
attention and greedily written token. Needs Python 3.9 and nothing else; takes two minutes.
"""

import json
import math
import random
import shutil
import struct
import sys
from pathlib import Path

from reference import ENCODERS, LANGUAGE, PAIRS, dot, vit

WORDS, LENGTH, SHORTER, TARGET = 40, 11, 7, 6

OPS = """activation__gelu activation__gelu_tanh activation__log_softmax activation__relu activation__sigmoid
activation__silu activation__softmax activation__tanh attention__d16_n7_causal attention__d64_n1_causal
attention__huge_scores attention__padding_all_empty bahdanau_attention__masked
clip_grad_norm__plain cross_entropy__smooth0.0_ignoreNone cross_entropy__smooth0.1_ignore2 embedding__plain gru__plain
layer_norm__d100 linear__no_bias linear__plain lstm__plain multihead_attention__single_head optimizer__adam
optimizer__adamw optimizer__sgd positional_encoding__n7_d10 rms_norm__d100 rnn__plain schedule__noam
transformer_decoder_layer__post_relu transformer_encoder_layer__pre_gelu""".split()
# Cases that are reduced to a part. One batch entry with one key head (and its query heads) is a valid case by itself;
# so are the first positions of a causal case, and a case without some of its gradients.
PARTS = {
    "attention__alibi": {"batch": 0, "heads": 1},
    "attention__bias": {"batch": 1, "heads": 1},
    "attention__bias_broadcast": {"heads": 1},
    "attention__bottom_right": {"heads": 1},
    "attention__cross_wide_value": {"heads": 1},
    "attention__d128_n7": {"heads": 1},
    "attention__d8_n33_causal": {"batch": 0},
    "attention__mask_with_empty_rows": {"batch": 0, "heads": 1},
    "attention__one_query": {"batch": 1, "heads": 1, "drop": "grad."},
    "attention__padding": {"batch": 1, "heads": 1},
    "attention__scale": {"heads": 1},
    "attention__softcap": {"heads": 1},
    "attention__window_causal": {"heads": 1, "length": 40, "drop": "grad."},
    "rope__half": {"batch": 0, "heads": 1},
    "rope__interleaved": {"batch": 1, "heads": 1},
    "self_attention_block__plain": {"drop": "grad.param."},
    "transformer__pre": {"drop": "grad.param."},
}
TOKENIZERS = ("bert", "gpt2", "llama")

# How to shrink each architecture: sizes of its tensors, and settings.
SMALLER = {
    "gpt2": ({1200: WORDS, 32: 16, 96: 48, 128: 64}, {"n_embd": 16, "n_positions": 64}),
    "llama": ({1500: WORDS, 48: 24, 16: 8, 96: 48}, {"hidden_size": 24, "head_dim": 4, "intermediate_size": 48}),
    "mistral": ({1500: WORDS, 32: 16, 16: 8, 64: 32}, {"hidden_size": 16, "head_dim": 4, "intermediate_size": 32}),
    "qwen2": ({1300: WORDS, 32: 16, 16: 8, 80: 40}, {"hidden_size": 16, "intermediate_size": 40}),
    "qwen3": (
        {1300: WORDS, 32: 16, 64: 32, 80: 40, 16: 8},
        {"hidden_size": 16, "head_dim": 8, "intermediate_size": 40},
    ),
    "bert": ({1200: WORDS, 32: 16, 64: 32}, {"hidden_size": 16, "intermediate_size": 32}),
    "distilbert": ({1200: WORDS, 32: 16, 64: 32}, {"dim": 16, "hidden_dim": 32}),
    "bart": ({1200: WORDS, 32: 16, 64: 32}, {"d_model": 16, "encoder_ffn_dim": 32, "decoder_ffn_dim": 32}),
    "marian": (
        {2000: WORDS, 32: 16, 64: 32},
        {"d_model": 16, "encoder_ffn_dim": 32, "decoder_ffn_dim": 32, "decoder_vocab_size": WORDS,
         "decoder_start_token_id": WORDS - 1, "pad_token_id": WORDS - 1},
    ),
    "t5": ({2000: WORDS, 32: 16, 64: 32}, {"d_model": 16, "d_ff": 32, "d_kv": 4}),
    "vit": (
        {32: 16, 64: 32, 17: 5},
        {"hidden_size": 16, "intermediate_size": 32, "pooler_output_size": 16, "image_size": 16},
    ),
}
FORMATS = {"F32": "f", "F64": "d", "I64": "q", "BOOL": "?"}


def shaped(values, shape):
    if len(shape) <= 1:
        return list(values)
    step = len(values) // shape[0]
    return [shaped(values[i * step : (i + 1) * step], shape[1:]) for i in range(shape[0])]


def flat(values):
    return [v for part in values for v in flat(part)] if isinstance(values, list) else [values]


def shape_of(values):
    return [len(values)] + shape_of(values[0]) if isinstance(values, list) else []


def read(path):
    data = Path(path).read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8 : 8 + size])
    metadata = header.pop("__metadata__", {})
    tensors = {}
    for name, entry in header.items():
        begin, end = (8 + size + offset for offset in entry["data_offsets"])
        values = [v for (v,) in struct.iter_unpack("<" + FORMATS[entry["dtype"]], data[begin:end])]
        tensors[name] = shaped(values, entry["shape"])
    return tensors, metadata


def write(path, tensors, metadata):
    header, body = {"__metadata__": metadata}, b""
    for name, values in sorted(tensors.items()):
        numbers = flat(values)
        dtype = {bool: "BOOL", int: "I64", float: "F32"}[type(numbers[0])]
        piece = struct.pack(f"<{len(numbers)}{FORMATS[dtype]}", *numbers)
        header[name] = {"dtype": dtype, "shape": shape_of(values), "data_offsets": [len(body), len(body) + len(piece)]}
        body += piece
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + body)


def logits_of(hidden, words):
    return [[dot(row, word) for word in words] for row in hidden]


def likeliest(logits, margin):
    """The best token. An error if the second best is so close that rounding could change the choice."""
    best, next_best = sorted(logits, reverse=True)[:2]
    if best - next_best < margin * max(map(abs, logits)):
        raise ValueError("two words are equally likely")
    return logits.index(best)


def computed(name, w, c, inputs, greedy, margin):
    """All tensors of a case of this architecture; `greedy` is the length of the generated text."""
    if name == "vit":
        results = [vit(w, c, picture) for picture in inputs["in.pixel_values"]]
        maps = {f"out.attentions.{n}": [r[1][n] for r in results] for n in range(len(results[0][1]))}
        return {"out.logits": [r[0] for r in results], **maps}
    rows = inputs["in.input_ids"]
    lengths = [sum(row) for row in inputs["in.attention_mask"]]
    if name in ENCODERS:
        results = [ENCODERS[name](w, c, row, length) for row, length in zip(rows, lengths)]
        found = {f"out.hidden.{n}": [r[0][n] for r in results] for n in range(len(results[0][0]))}
        found |= {f"out.attentions.{n}": [r[1][n] for r in results] for n in range(len(results[0][1]))}
        found["out.last_hidden"] = [r[0][-1] for r in results]
        if results[0][2]:
            found["out.pooled"] = [r[2] for r in results]
        return found
    if name in LANGUAGE:
        results = [LANGUAGE[name](w, c, row) for row in rows]
        hidden, maps, words = results[0]
        found = {f"out.hidden.{n}": [x] for n, x in enumerate(hidden)}
        found |= {f"out.attentions.{n}": [x] for n, x in enumerate(maps)}
        found["out.logits_batch"] = [logits_of(r[0][-1], words) for r in results]
        found["out.logits"] = found["out.logits_batch"][:1]
        ids = list(rows[0])
        while len(ids) < greedy:
            ids.append(likeliest(logits_of(LANGUAGE[name](w, c, ids)[0][-1][-1:], words)[0], margin))
        return found | {"out.greedy": [ids]}
    model = PAIRS[name](w, c)
    memories = [model.encode(row, length) for row, length in zip(rows, lengths)]
    results = [model.decode(t, m[0], n) for t, m, n in zip(inputs["in.decoder_input_ids"], memories, lengths)]
    found = {"out.encoder_last_hidden": [m[0] for m in memories], "out.logits": [r[0] for r in results]}
    for layer in range(len(results[0][1])):
        found[f"out.encoder_attentions.{layer}"] = [m[1][layer] for m in memories]
        found[f"out.decoder_attentions.{layer}"] = [r[1][layer] for r in results]
        found[f"out.cross_attentions.{layer}"] = [r[2][layer] for r in results]
    ids = [c["decoder_start_token_id"]]
    while len(ids) < greedy and (len(ids) == 1 or ids[-1] != c["eos_token_id"]):
        logits = model.decode(ids, memories[0][0], lengths[0])[0][-1]
        forced = c.get("forced_eos_token_id") if len(ids) + 1 == greedy else None
        ids.append(likeliest(logits, margin) if forced is None else forced)
    return found | {"out.greedy": [ids]}


def compare(name, found, expected, mask):
    """Half of the tolerance in the README of GOLDENS: some references were computed in float32."""
    for key, theirs in expected.items():
        if not key.startswith("out.") or key == "out.beam4":
            continue
        ours = found.pop(key)
        if key == "out.greedy":
            assert ours == theirs, (name, key, ours, theirs)
            continue
        if key == "out.logits_batch":
            ours = [row for r, m in zip(ours, mask) for row, real in zip(r, m) if real]
            theirs = [row for r, m in zip(theirs, mask) for row, real in zip(r, m) if real]
        a, b = flat(ours), flat(theirs)
        allowed = 5e-6 if "attentions" in key else 5e-5 * max(map(abs, b))
        worst = max(abs(x - y) for x, y in zip(a, b))
        assert len(a) == len(b) and worst <= allowed, (name, key, worst, allowed)
    assert not found, (name, "not in the reference", sorted(found))


def check(folder):
    w, _ = read(folder / "model.safetensors")
    golden, _ = read(folder / "golden.safetensors")
    inputs = {key: value for key, value in golden.items() if key.startswith("in.")}
    length = len(golden["out.greedy"][0]) if "out.greedy" in golden else 0
    config = json.loads((folder / "config.json").read_text())
    found = computed(folder.name, conv(w), config, inputs, length, 0)
    compare(folder.name, found, golden, inputs.get("in.attention_mask"))


def conv(w):
    """A convolution over patches is a linear map of the flattened patch."""
    name = "vit.embeddings.patch_embeddings.projection.weight"
    return {**w, name: [flat(line) for line in w[name]]} if name in w else w


def single(value):
    return struct.unpack("<f", struct.pack("<f", value))[0]


def random_weights(name, shapes, rng):
    sizes = SMALLER[name][0]
    w = {}
    for key, shape in sorted(shapes.items()):
        table = key.endswith(("position_embeddings.weight", "embed_positions.weight", "wpe.weight"))
        if not key.endswith(("relative_attention_bias.weight", "projection.weight")):
            shape = [n if table and axis == 0 else sizes.get(n, n) for axis, n in enumerate(shape)]
        elif key.endswith("projection.weight"):
            shape = [sizes[shape[0]]] + shape[1:]
        count = math.prod(shape)
        if key.endswith("norm.weight") or "norm" in key.lower() and key.endswith("weight"):
            values = [1 + 0.2 * rng.gauss(0, 1) for _ in range(count)]
        elif len(shape) == 1 or key == "final_logits_bias":
            values = [0.1 * rng.gauss(0, 1) for _ in range(count)]
        else:
            is_table = shape[0] == WORDS or table or "embeddings" in key and "projection" not in key
            fan_in = 1 if is_table or "relative" in key else math.prod(shape[1:])
            spread = 1.3 / math.sqrt(fan_in) if fan_in > 1 else 0.8
            values = [spread * rng.gauss(0, 1) for _ in range(count)]
        w[key] = shaped([single(v) for v in values], shape)
    return w


def random_inputs(name, config, rng):
    if name == "vit":
        size = config["image_size"]
        pixels = [single(rng.gauss(0, 1)) for _ in range(2 * 3 * size * size)]
        return {"in.pixel_values": shaped(pixels, [2, 3, size, size])}
    pad = config.get("pad_token_id") or 0
    ids = [[rng.randrange(3, WORDS - 1) for _ in range(LENGTH)] for _ in range(2)]
    mask = [[1] * LENGTH, [1] * SHORTER + [0] * (LENGTH - SHORTER)]
    padded = [[i if m else pad for i, m in zip(*row)] for row in zip(ids, mask)]
    inputs = {"in.input_ids": padded, "in.attention_mask": mask}
    if name in PAIRS:
        rows = [[rng.randrange(3, WORDS - 1) for _ in range(TARGET - 1)] for _ in range(2)]
        inputs["in.decoder_input_ids"] = [[config["decoder_start_token_id"]] + row for row in rows]
    return inputs


def make(name, source, target):
    shapes = {key: shape_of(value) for key, value in read(source / "model.safetensors")[0].items()}
    config = json.loads((source / "config.json").read_text())
    config.update(SMALLER[name][1])
    if "vocab_size" in config:
        config["vocab_size"] = WORDS
    kinds = {"vit": "image_classifier"} | dict.fromkeys(ENCODERS, "encoder") | dict.fromkeys(PAIRS, "seq2seq")
    metadata = {"kind": json.dumps(kinds.get(name, "causal_lm")), "note": json.dumps("made by make_cases.py")}
    for seed in range(100):
        rng = random.Random(f"{name} {seed}")
        w, inputs = random_weights(name, shapes, rng), random_inputs(name, config, rng)
        try:
            found = computed(name, conv(w), config, inputs, LENGTH + 20 if name in LANGUAGE else 16, 1e-3)
        except ValueError:
            continue
        if len(set(found.get("out.greedy", [range(9)])[0])) > 4:  # not the same few tokens over and over
            break
    target.mkdir(parents=True)
    (target / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    write(target / "model.safetensors", w, {"format": "pt"})
    write(target / "golden.safetensors", {**inputs, **found}, metadata)
    if name in PAIRS:  # each word is a letter
        vocabulary = {chr(ord("A") + i): i for i in range(WORDS)}
        model = {"type": "BPE", "vocab": vocabulary, "merges": []}
        (target / "tokenizer.json").write_text(json.dumps({"model": model}) + "\n")


def part_of(tensors, batch=None, heads=None, length=None, drop=None):
    tensors = {key: value for key, value in tensors.items() if drop is None or not key.startswith(drop)}
    q, k = (tensors.get("in." + name, tensors.get("in.x")) for name in "qk")
    group = len(q[0]) // len(k[0]) if heads else 0
    for key, value in tensors.items():
        if batch is not None and isinstance(value[0], list) and len(value) == len(q):
            value = value[batch : batch + 1]
        if heads is not None:
            kept = heads if len(shape_of(value)) == 4 and shape_of(value)[1] == len(k[0]) else heads * group
            value = [line[:kept] for line in value] if isinstance(value[0], list) else value[:kept]
        if length is not None:
            value = [[[c[:length] if key == "out.weights" else c for c in b[:length]] for b in a] for a in value]
        tensors[key] = value
    return tensors


def copy(source, target, names):
    target.mkdir(parents=True)
    for name in names:
        if (source / name).exists():
            shutil.copyfile(source / name, target / name)


def main(goldens, cases):
    for name in SMALLER:
        check(goldens / "models" / name)
        print(name, "agrees with transformers", flush=True)
    for name in SMALLER:
        make(name, goldens / "models" / name, cases / "models" / name)
    copy(goldens / "ops", cases / "ops", [op + ".safetensors" for op in OPS])
    for name, part in PARTS.items():
        tensors, metadata = read(goldens / "ops" / (name + ".safetensors"))
        write(cases / "ops" / (name + ".safetensors"), part_of(tensors, **part), metadata)
    for name in TOKENIZERS:
        copy(goldens / "models" / name, cases / "tokenizers" / name,
             ["tokenizer.json", "tokenizer_config.json", "tokenizer_cases.json"])
    shutil.copyfile(goldens / "metrics.json", cases / "metrics.json")
    print(sum(path.stat().st_size for path in cases.rglob("*") if path.is_file()), "bytes")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
