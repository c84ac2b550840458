#!/usr/bin/env python3
"""Writes the fuzzers' first inputs: small files, right and wrong. Usage: make_seeds.py tests/fuzz/corpus"""
import json
import pathlib
import struct
import sys


def safetensors(header, data=b"", length=None):
    text = header if isinstance(header, str) else json.dumps(header, separators=(",", ":"))
    raw = text.encode()
    return struct.pack("<Q", len(raw) if length is None else length) + raw + data


def tensor(dtype, shape, begin, end):
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


SEEDS = {
    "empty": safetensors({}),
    "padded": safetensors("{}      "),
    "one": safetensors({"w": tensor("F32", [2], 0, 8)}, bytes(8)),
    "metadata": safetensors({"__metadata__": {"format": "pt", "名": "值"}, "w": tensor("F16", [1, 3], 0, 6)}, bytes(6)),
    "dtypes": safetensors({"a": tensor("F64", [], 0, 8), "b": tensor("I64", [1], 8, 16), "c": tensor("I32", [1], 16, 20),
                           "d": tensor("BF16", [1], 20, 22), "e": tensor("I16", [1], 22, 24), "f": tensor("I8", [1], 24, 25),
                           "g": tensor("U8", [1], 25, 26), "h": tensor("BOOL", [2], 26, 28)}, bytes(27) + b"\1"),
    "no_elements": safetensors({"a": tensor("F32", [0, 4], 0, 0), "b": tensor("U8", [2], 0, 2)}, bytes(2)),
    "overlap": safetensors({"a": tensor("U8", [4], 0, 4), "b": tensor("U8", [4], 2, 6)}, bytes(6)),
    "hole": safetensors({"a": tensor("U8", [2], 0, 2), "b": tensor("U8", [2], 3, 5)}, bytes(5)),
    "too_large": safetensors({"a": tensor("F32", [1 << 32, 1 << 32], 0, 0)}),
    "bad_bool": safetensors({"a": tensor("BOOL", [2], 0, 2)}, b"\1\7"),
    "long_header": safetensors({}, length=1 << 40),
    "nested": safetensors('{"a":' + "[" * 40),
    "twice": safetensors('{"a":{"dtype":"U8","shape":[],"data_offsets":[0,1]},"a":{}}', bytes(1)),
}



def component(kind, **fields):
    return {"type": kind, **fields}


def tokenizer(model, text="a b", **parts):
    return json.dumps({"model": model, **parts}, separators=(",", ":"), ensure_ascii=False).encode() + b"\0" + text.encode()


def field(number, wire, value):
    return bytes([number << 3 | wire]) + value


def message(number, content):
    return field(number, 2, bytes([len(content)]) + content)


def piece(text, score, kind=1):
    return message(1, message(1, text.encode()) + field(2, 5, struct.pack("<f", score)) + field(3, 0, bytes([kind])))


BPE = component("BPE", vocab={"a": 0, "b": 1, "ab": 2, "Ġ": 3}, merges=["a b"])
REPLACE = component("Replace", pattern={"Regex": "a+"}, content="b")
DOUBLE = component("Replace", pattern={"String": "a"}, content="aa")
TEMPLATE = component("TemplateProcessing", single=[{"SpecialToken": {"id": "x", "type_id": 0}},
                                                   {"Sequence": {"id": "A", "type_id": 0}}],
                     special_tokens={"x": {"id": "x", "ids": [1], "tokens": ["b"]}})
PIECES = piece("<unk>", 0, 2) + piece("▁", -1) + piece("a", -2) + piece("b", -3) + piece("ab", -4) + piece("<s>", 0, 3)

TOKENIZERS = {
    "bpe": tokenizer(BPE, pre_tokenizer=component("ByteLevel", add_prefix_space=True), decoder=component("ByteLevel")),
    "bytes": tokenizer(component("BPE", vocab={"<unk>": 0, "<0x61>": 1}, merges=[], unk_token="<unk>", fuse_unk=True,
                                 byte_fallback=True), decoder=component("ByteFallback")),
    "wordpiece": tokenizer(component("WordPiece", vocab={"[UNK]": 0, "a": 1, "##b": 2}), "ab ba",
                           normalizer=component("BertNormalizer"), pre_tokenizer=component("BertPreTokenizer"),
                           decoder=component("WordPiece")),
    "unigram": tokenizer(component("Unigram", unk_id=0, vocab=[["<unk>", 0], ["▁a", -1], ["b", -2]]),
                         pre_tokenizer=component("Metaspace"), decoder=component("Metaspace")),
    "words": tokenizer(component("WordLevel", vocab={"a": 0, "?": 1}, unk_token="?"),
                       pre_tokenizer=component("Sequence", pretokenizers=[component("Whitespace"), component("Digits")])),
    "split": tokenizer(BPE, normalizer=component("Sequence", normalizers=[component("NFKC"), REPLACE]),
                       pre_tokenizer=component("Split", pattern={"Regex": "\\s+"}, behavior="MergedWithNext"),
                       decoder=component("Sequence", decoders=[component("Fuse"), component("Strip", start=1, stop=1)])),
    "added": tokenizer(BPE, "a <X> b", post_processor=TEMPLATE,
                       added_tokens=[{"id": 5, "content": "<X>", "lstrip": True, "rstrip": True, "special": True}]),
    "charsmap": tokenizer(BPE, normalizer=component("Precompiled", precompiled_charsmap="CAAAAAAAAAAAAAAA")),
    "doubling_normalizer": tokenizer(BPE, normalizer=component("Sequence", normalizers=[DOUBLE] * 40)),
    "doubling_pre_tokenizer": tokenizer(BPE, "é", pre_tokenizer=component("Sequence", pretokenizers=[
        component("ByteLevel", add_prefix_space=False, use_regex=False)] * 40)),
    "doubling_decoder": tokenizer(BPE, decoder=component("Sequence", decoders=[DOUBLE] * 40)),
    "backtracking": tokenizer(BPE, "aaaaaaaaaaaaaaac " * 40, pre_tokenizer=component("Sequence", pretokenizers=[
        component("WhitespaceSplit"), component("Split", pattern={"Regex": "(a+)+$b"}, behavior="Isolated")])),
    "nested": b'{"model":' + b"[" * 100,
    "sentencepiece": PIECES,
    "sentencepiece_bpe": PIECES + message(2, field(3, 0, b"\2")) + message(3, field(4, 0, b"\0")),
}

for name, seeds in {"safetensors": SEEDS, "tokenizer": TOKENIZERS}.items():
    folder = pathlib.Path(sys.argv[1]) / name
    folder.mkdir(parents=True, exist_ok=True)
    for seed, content in seeds.items():
        (folder / seed).write_bytes(content)
