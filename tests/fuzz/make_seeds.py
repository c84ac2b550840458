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

folder = pathlib.Path(sys.argv[1]) / "safetensors"
folder.mkdir(parents=True, exist_ok=True)
for name, content in SEEDS.items():
    (folder / name).write_bytes(content)
