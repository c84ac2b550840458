#!/usr/bin/env python3
"""The speed of attend on a GPU beside PyTorch's, in one run.

usage: gpu.py [--attend FILE] [--only PARTS] [--json FILE] [--no-torch] [--list]

PARTS is a list of attention, options, weights, f32, gpt2, base, tiny, characters, decode (default: all). Needs PyTorch
with CUDA; `transformers` for decode. A line that fails is reported with the reason, and the others still run. Times
are medians of 20 runs, measured with CUDA events after a warm-up; inputs are random.
"""
import argparse
import json
import math
import statistics
import subprocess
import sys
import time

RUNS = 20
PARTS = ["attention", "options", "weights", "f32", "gpt2", "base", "tiny", "characters", "decode"]

try:
    import torch
    import torch.nn as nn
    import torch.nn.functional as F
except ImportError:
    torch = None


# ── Measuring ───────────────────────────────────────────────────────────────────────────────────────────────────────

def seconds_of(work, before=None, runs=RUNS, warm=3):
    """The median time of work() on the GPU. before() runs ahead of each call and is not counted."""
    times = []
    for run in range(warm + runs):
        if before is not None:
            before()
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        torch.cuda.synchronize()
        begin.record()
        work()
        end.record()
        torch.cuda.synchronize()
        if run >= warm:
            times.append(begin.elapsed_time(end) / 1e3)
    return statistics.median(times)


class Lines:
    """The table: a line for each workload, with PyTorch's figures by the name of the method."""

    def __init__(self):
        self.lines = []

    def add(self, workload, unit, target, **methods):
        """methods: functions that return a figure in the line's unit. `target`: what attend's figure is divided by."""
        line = {"workload": workload, "unit": unit, "target": target, "torch": {}, "errors": {}}
        for name, method in methods.items():
            if torch is None:
                continue
            try:
                line["torch"][name] = method()
            except Exception as error:  # one missing kernel or library must not end the run
                line["errors"][name] = f"{type(error).__name__}: {error}".splitlines()[0][:200]
            finally:
                torch.cuda.empty_cache()
        self.lines.append(line)
        print(f"  {workload}: " + ", ".join(f"{k} {v:,.4g}" for k, v in line["torch"].items()) +
              "".join(f" [{k}: {v}]" for k, v in line["errors"].items()), file=sys.stderr, flush=True)


# ── Attention ───────────────────────────────────────────────────────────────────────────────────────────────────────

def backend(name):
    from torch.nn.attention import SDPBackend, sdpa_kernel
    return sdpa_kernel({"cudnn": SDPBackend.CUDNN_ATTENTION, "flash": SDPBackend.FLASH_ATTENTION}[name])


def inputs(heads, length, dim, dtype=None):
    dtype = dtype or torch.bfloat16
    shape = (1, heads, length, dim)
    return [torch.randn(shape, device="cuda", dtype=dtype, requires_grad=True) for _ in range(3)]


def visible_pairs(length, causal):
    return length * (length + 1) / 2 if causal else length * length


def attention_rates(heads, length, dim, causal, call):
    """Functions that return TFLOP/s of the forward and of the backward pass."""
    operations = 4 * heads * dim * visible_pairs(length, causal)

    def forward():
        q, k, v = inputs(heads, length, dim)
        with torch.no_grad():
            return operations / seconds_of(lambda: call(q, k, v)) / 1e12

    def backward():
        q, k, v = inputs(heads, length, dim)
        dy = torch.randn_like(q)
        state = {}

        def before():
            q.grad = k.grad = v.grad = None
            state["y"] = call(q, k, v)

        return 2.5 * operations / seconds_of(lambda: state["y"].backward(dy), before) / 1e12

    return forward, backward


def sdpa_call(name, causal, bias=None):
    def call(q, k, v):
        with backend(name):
            return F.scaled_dot_product_attention(q, k, v, attn_mask=bias, is_causal=causal)
    return call


def attention(lines):
    for heads, dim in ((16, 128), (32, 64)):
        for causal in (False, True):
            cudnn = attention_rates(heads, 16384, dim, causal, sdpa_call("cudnn", causal))
            flash = attention_rates(heads, 16384, dim, causal, sdpa_call("flash", causal))
            suffix = f"_bf16_d{dim}_16k" + ("_causal" if causal else "")
            for index, direction in enumerate(("forward", "backward")):
                lines.add(f"attention_{direction}{suffix}", "TFLOP/s", "cudnn", cudnn=cudnn[index], flash=flash[index])


def flex_call(score=None, block=None):
    from torch.nn.attention.flex_attention import flex_attention
    compiled = torch.compile(flex_attention)
    return lambda q, k, v: compiled(q, k, v, score_mod=score, block_mask=block)


def options(lines):
    heads, length, dim = 32, 8192, 64

    def flex(causal, make):
        def rate(index):
            return lambda: attention_rates(heads, length, dim, causal, make())[index]()
        return rate

    def causal_flex():
        from torch.nn.attention.flex_attention import create_block_mask
        block = create_block_mask(lambda b, h, i, j: i >= j, None, None, length, length, device="cuda")
        return flex_call(block=block)

    def alibi_flex():
        slopes = torch.exp2(-8 * (torch.arange(heads, device="cuda") + 1) / heads)
        return flex_call(lambda score, b, h, i, j: score - slopes[h] * (i - j).abs())

    def softcap_flex():
        return flex_call(lambda score, b, h, i, j: 30 * torch.tanh(score / 30))

    for name, causal, make in (("causal", True, causal_flex), ("alibi", False, alibi_flex),
                               ("softcap", False, softcap_flex)):
        rate = flex(causal, make)
        for index, direction in enumerate(("forward", "backward")):
            lines.add(f"attention_{direction}_bf16_d64_8k_{name}", "TFLOP/s", "flex", flex=rate(index))

    def biased(index):
        def rate():
            bias = torch.randn(1, 1, length, length, device="cuda", dtype=torch.bfloat16)
            return attention_rates(16, length, 128, False, sdpa_call("cudnn", False, bias))[index]()
        return rate

    for index, direction in enumerate(("forward", "backward")):
        lines.add(f"attention_{direction}_bf16_d128_8k_bias", "TFLOP/s", "cudnn", cudnn=biased(index))
    # Our own plain kernel is what the other options are compared with.
    for size in ("d64", "d128"):
        for direction in ("forward", "backward"):
            for name in ("", "_window", "_mask", "_padding", "_varlen", "_dropout", "_gqa") + \
                    (("_bias",) if size == "d64" else ("_causal", "_alibi", "_softcap")):
                lines.add(f"attention_{direction}_bf16_{size}_8k{name}", "TFLOP/s", None)


def weights(lines):
    def need_weights():
        layer = nn.MultiheadAttention(1024, 16, batch_first=True, device="cuda", dtype=torch.bfloat16)
        x = torch.randn(1, 8192, 1024, device="cuda", dtype=torch.bfloat16)
        with torch.no_grad():
            plain = seconds_of(lambda: layer(x, x, x, need_weights=False))
            return seconds_of(lambda: layer(x, x, x, need_weights=True)) / plain

    lines.add("attention_weights_bf16_d64_8k", "× the time", "need_weights", need_weights=need_weights)


def f32(lines):
    def products():
        a, b = (torch.randn(8192, 8192, device="cuda") for _ in range(2))
        torch.backends.cuda.matmul.allow_tf32 = False
        return 2 * 8192**3 / seconds_of(lambda: a @ b) / 1e12

    lines.add("attention_forward", "TFLOP/s", "cublas_product", cublas_product=products)


# ── Training ────────────────────────────────────────────────────────────────────────────────────────────────────────

if torch is not None:
    class Block(nn.Module):
        def __init__(self, dim, heads, bias):
            super().__init__()
            self.heads = heads
            self.norm1, self.norm2 = nn.LayerNorm(dim, bias=bias), nn.LayerNorm(dim, bias=bias)
            self.qkv, self.out = nn.Linear(dim, 3 * dim, bias=bias), nn.Linear(dim, dim, bias=bias)
            self.up, self.down = nn.Linear(dim, 4 * dim, bias=bias), nn.Linear(4 * dim, dim, bias=bias)

        def forward(self, x):
            batch, length, dim = x.shape
            q, k, v = (part.view(batch, length, self.heads, -1).transpose(1, 2)
                       for part in self.qkv(self.norm1(x)).split(dim, dim=2))
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(y.transpose(1, 2).reshape(batch, length, dim))
            return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))

    class Gpt(nn.Module):
        """GPT-2: learned positions, norms first, the embedding as output matrix."""

        def __init__(self, vocab, context, dim, heads, layers, bias=True):
            super().__init__()
            self.words, self.positions = nn.Embedding(vocab, dim), nn.Embedding(context, dim)
            self.blocks = nn.ModuleList(Block(dim, heads, bias) for _ in range(layers))
            self.norm = nn.LayerNorm(dim, bias=bias)
            for parameter in self.parameters():
                if parameter.dim() > 1:
                    nn.init.normal_(parameter, 0, 0.02)

        def forward(self, ids, labels):
            x = self.words(ids) + self.positions(torch.arange(ids.shape[1], device=ids.device))
            for block in self.blocks:
                x = block(x)
            logits = F.linear(self.norm(x), self.words.weight)
            return F.cross_entropy(logits.view(-1, logits.shape[-1]).float(), labels.view(-1))

    class Pairs(nn.Module):
        """The translation model of nn.Transformer, with one shared embedding."""

        def __init__(self, vocab, length, dim, heads, ffn, layers):
            super().__init__()
            self.words = nn.Embedding(vocab, dim)
            self.layers = nn.Transformer(dim, heads, layers, layers, ffn, dropout=0.1, batch_first=True)
            self.register_buffer("waves", torch.randn(length, dim) * 0.1)
            self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(length))
            self.dim, self.drop = dim, nn.Dropout(0.1)
            nn.init.normal_(self.words.weight, 0, dim**-0.5)

        def embed(self, ids):
            return self.drop(self.words(ids) * math.sqrt(self.dim) + self.waves)

        def forward(self, source, target, padding, labels):
            y = self.layers(self.embed(source), self.embed(target), tgt_mask=self.mask, tgt_is_causal=True,
                            src_key_padding_mask=padding, memory_key_padding_mask=padding)
            logits = F.linear(y, self.words.weight)
            return F.cross_entropy(logits.view(-1, logits.shape[-1]).float(), labels.view(-1), ignore_index=-100,
                                   label_smoothing=0.1)


def training_rate(make, batch, tokens, mode, limit=30):
    """Tokens per second of whole steps in bf16: loss, backward, clipping, AdamW. mode: eager, compile or graphs."""
    torch.manual_seed(1)
    torch.set_float32_matmul_precision("high")
    model = make().cuda().train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True, capturable=mode == "graphs")
    call = torch.compile(model) if mode == "compile" else model

    def step():
        with torch.autocast("cuda", dtype=torch.bfloat16, cache_enabled=mode != "graphs"):
            loss = call(*batch)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=mode != "graphs")

    begin = time.monotonic()
    if mode == "graphs":
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                step()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            step()
        return tokens / seconds_of(graph.replay)
    step()  # compiles
    runs = RUNS if time.monotonic() - begin < limit else 5
    return tokens / seconds_of(step, runs=runs, warm=5)


def language_batch(vocab, rows, length):
    return [torch.randint(vocab, (rows, length), device="cuda") for _ in range(2)]


def pair_batch(vocab, rows, length):
    source, target, labels = (torch.randint(vocab, (rows, length), device="cuda") for _ in range(3))
    padding = torch.zeros(rows, length, device="cuda", dtype=torch.bool)
    padding[::4, -1] = True
    labels[::4, -1] = -100
    return [source, target, padding, labels]


def train_line(lines, name, target, make, batch, tokens, modes):
    methods = {mode: (lambda mode=mode: training_rate(make, batch(), tokens, mode)) for mode in modes}
    lines.add(name, "tokens/s", target, **methods)


def gpt2(lines):
    train_line(lines, "train_gpt2_32x1024_bf16", "compile", lambda: Gpt(50304, 1024, 768, 12, 12),
               lambda: language_batch(50304, 32, 1024), 32 * 1024, ("compile", "eager"))


def base(lines):
    train_line(lines, "train_base_128x64_bf16", "compile", lambda: Pairs(32000, 64, 512, 8, 2048, 6),
               lambda: pair_batch(32000, 128, 64), 128 * 64 - 32, ("compile", "eager"))


def tiny(lines):
    train_line(lines, "train_tiny_273x15_bf16", "graphs", lambda: Pairs(10000, 15, 128, 4, 256, 4),
               lambda: pair_batch(10000, 273, 15), 273 * 15 - 69, ("eager", "compile", "graphs"))


def characters(lines):
    train_line(lines, "train_characters_64x256_bf16", "compile", lambda: Gpt(65, 256, 384, 6, 6, bias=False),
               lambda: language_batch(65, 64, 256), 64 * 256, ("compile", "eager"))


# ── Decoding ────────────────────────────────────────────────────────────────────────────────────────────────────────

def decode(lines):
    def generate(rows):
        def rate():
            from transformers import GPT2Config, GPT2LMHeadModel
            model = GPT2LMHeadModel(GPT2Config()).to("cuda", torch.bfloat16).eval()
            ids = torch.randint(50257, (rows, 32), device="cuda")
            mask = torch.ones_like(ids)
            with torch.no_grad():
                seconds = seconds_of(lambda: model.generate(ids, attention_mask=mask, do_sample=False, pad_token_id=0,
                                                            min_new_tokens=128, max_new_tokens=128), runs=3, warm=1)
            return rows * 128 / seconds
        return rate

    for rows in (1, 64):
        lines.add(f"generate_gpt2_{rows}_bf16", "tokens/s", "transformers", transformers=generate(rows))


# ── attend, and the table ───────────────────────────────────────────────────────────────────────────────────────────

def figure_of(line, row):
    return {"TFLOP/s": row["gflops"] / 1e3, "tokens/s": row.get("tokens_per_second"),
            "× the time": row["share"]}[line["unit"]]


def attend_rows(program, names):
    """The results of `attend bench` by workload. Raises an error with the program's last line."""
    command = [program, "bench", "--device", "cuda", "--json", *names]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60 + 20 * len(names))
    if done.returncode != 0:
        raise RuntimeError((done.stderr.strip().splitlines() or ["failed"])[-1][:200])
    return {row["name"]: row for row in json.loads(done.stdout)["results"]}


def add_attend(program, lines):
    """Adds attend's figure to each line. All workloads run in one process; if that fails, each in its own."""
    try:
        rows = attend_rows(program, [line["workload"] for line in lines])
    except (RuntimeError, subprocess.TimeoutExpired):
        rows = {}
        for line in lines:
            try:
                rows.update(attend_rows(program, [line["workload"]]))
            except (RuntimeError, subprocess.TimeoutExpired) as error:
                line["errors"]["attend"] = str(error)[:200]
    for line in lines:
        if line["workload"] in rows:
            line["attend"] = figure_of(line, rows[line["workload"]])


def print_table(lines):
    print("| workload | unit | PyTorch | attend | ratio |")
    print("|---|---|---|---|---|")
    for line in lines:
        theirs = ", ".join(f"{name} {value:,.4g}" for name, value in line["torch"].items())
        ours, target = line.get("attend"), line["torch"].get(line["target"])
        ratio = f"{ours / target:.2f} × {line['target']}" if ours and target else ""
        shown = f"{ours:,.4g}" if ours else ""
        problems = "; ".join(f"{name}: {text}" for name, text in line["errors"].items())
        print(f"| {line['workload']} | {line['unit']} | {theirs} | {shown} | {ratio}{' ' + problems if problems else ''} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--attend", default="build/release/attend", help="the program (empty: PyTorch only)")
    parser.add_argument("--only", default=",".join(PARTS), help="parts to run, separated by commas")
    parser.add_argument("--json", help="file for all figures")
    parser.add_argument("--no-torch", action="store_true", help="attend only")
    parser.add_argument("--list", action="store_true", help="print the parts and exit")
    arguments = parser.parse_args()
    if arguments.list:
        print("\n".join(PARTS))
        return
    unknown = set(arguments.only.split(",")) - set(PARTS)
    if unknown:
        sys.exit(f"gpu.py: unknown part {', '.join(sorted(unknown))}; expected {', '.join(PARTS)}")
    global torch
    if arguments.no_torch:
        torch = None
    elif torch is None or not torch.cuda.is_available():
        sys.exit("gpu.py: PyTorch with CUDA is needed; use --no-torch to measure attend alone")
    lines = Lines()
    for part in PARTS:
        if part in arguments.only.split(","):
            print(part, file=sys.stderr, flush=True)
            globals()[part](lines)
    if torch is not None:
        torch.cuda.empty_cache()
    if arguments.attend:
        add_attend(arguments.attend, lines.lines)
    print_table(lines.lines)
    if arguments.json:
        versions = {} if torch is None else {"torch": torch.__version__, "device": torch.cuda.get_device_name(0)}
        with open(arguments.json, "w", encoding="utf-8") as out:
            json.dump({"versions": versions, "lines": lines.lines}, out, indent=2)


if __name__ == "__main__":
    main()
