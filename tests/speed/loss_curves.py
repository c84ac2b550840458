#!/usr/bin/env python3
"""The loss curve of PyTorch beside attend's: the same initial weights, batches and learning rates.

usage: loss_curves.py START RUN [--attend FILE] [--precision bf16|f32] [--rows N] [-o FILE]
       loss_curves.py --draw FILE… [-o PICTURE]

START is a GPT-2 folder in Hugging Face format (tests/speed/make_gpt2.py writes one with random weights). RUN is the
folder that attend trained from it, with every step logged:

  attend train gpt train.txt --validation valid.txt --from START -o RUN --device cuda --precision bf16 --dropout 0 \\
    --batch 32 --steps 300 --log-every 1 --validate-every 300 --lr 6e-4 --schedule cosine --warmup 50

This script reads the token ids, the options and the learning rates of RUN, draws the same windows, and trains a plain
PyTorch model from START. The result is a JSON file with both curves. --rows N computes a batch in parts of N rows.
--draw puts the curves of such files into one picture, with the difference between the two below.
"""
import argparse
import json
import math
import os
import struct
import subprocess
import sys

MASK = 0xFFFFFFFF
WINDOWS = 0xDA7A0004  # DataStream::windows in src/data/shuffle.h


def philox(key, low, high):
    """Philox4x32-10, as in include/attend/base/random.h."""
    c = [low & MASK, low >> 32 & MASK, high & MASK, high >> 32 & MASK]
    k0, k1 = key & MASK, key >> 32 & MASK
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [p1 >> 32 ^ c[1] ^ k0, p1 & MASK, p0 >> 32 ^ c[3] ^ k1, p0 & MASK]
        k0, k1 = k0 + 0x9E3779B9 & MASK, k1 + 0xBB67AE85 & MASK
    return c


def read_cache(path):
    """The sequences of a token cache; see src/data/token_cache_format.h."""
    with open(path, "rb") as file:
        data = file.read()
    examples, columns, ids, fingerprint = struct.unpack_from("<4Q", data, len(data) - 56)
    if columns != 1:
        sys.exit(f"{path}: expected plain text, with one column")
    tokens = struct.unpack_from(f"<{ids}i", data, 8)
    starts = struct.unpack_from(f"<{examples + 1}Q", data, 8 + (4 * ids + 7) // 8 * 8)
    return [tokens[starts[i]:starts[i + 1]] for i in range(examples)]


def read_json(*path):
    with open(os.path.join(*path), encoding="utf-8") as file:
        return json.load(file)


def token_stream(run, attend):
    """The part of the text that attend trains on, with the tokens between its pieces."""
    plan = read_json(run, "cache", "dataset.json")
    sequences = read_cache(os.path.join(run, "cache", "training.ids"))
    info = json.loads(subprocess.run([attend, "info", run, "--json"], capture_output=True, text=True, check=True).stdout)
    between = [info["vocabulary"]["special"].get("end", {}).get("id", -1), plan.get("begin", -1)]
    separator = [token for token in between if token >= 0] if plan["by_line"] or len(sequences) > 1 else []
    stream = [token for sequence in sequences for token in (*sequence, *separator)]
    share = 1.0 if plan["own_validation"] else 1 - plan["share"]
    return stream[:int(len(stream) * share)]


def window(stream, seed, step, rows, context):
    """TextWindows::window of src/data/windows.cpp."""
    batch = []
    for row in range(rows):
        words = philox(seed, row, WINDOWS << 32 | step)
        offset = (words[1] << 32 | words[0]) * (len(stream) - context) >> 64
        batch.append(stream[offset:offset + context + 1])
    return batch


def log_of(run):
    """Losses and learning rates by step, of attend."""
    losses, rates = {}, {}
    with open(os.path.join(run, "training.jsonl"), encoding="utf-8") as file:
        for line in file:
            entry = json.loads(line)
            if "lr" in entry and "loss" in entry:
                losses[entry["step"]], rates[entry["step"]] = entry["loss"], entry["lr"]
    return losses, rates


def make_model(start, torch):
    """GPT-2 as plain modules, with the weights of a Hugging Face folder."""
    from safetensors.torch import load_file
    nn, F = torch.nn, torch.nn.functional
    config = read_json(start, "config.json")
    dim, heads, layers = config["n_embd"], config["n_head"], config["n_layer"]

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(dim, eps=1e-5), nn.LayerNorm(dim, eps=1e-5)
            self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
            self.up, self.down = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)

        def forward(self, x):
            batch, length, _ = x.shape
            q, k, v = (part.view(batch, length, heads, -1).transpose(1, 2)
                       for part in self.qkv(self.norm1(x)).split(dim, dim=2))
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(y.transpose(1, 2).reshape(batch, length, dim))
            return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.words = nn.Embedding(config["vocab_size"], dim)
            self.positions = nn.Embedding(config["n_positions"], dim)
            self.layers = nn.ModuleList(Layer() for _ in range(layers))
            self.norm = nn.LayerNorm(dim, eps=1e-5)

        def forward(self, ids, labels):
            x = self.words(ids) + self.positions(torch.arange(ids.shape[1], device=ids.device))
            for layer in self.layers:
                x = layer(x)
            logits = F.linear(self.norm(x), self.words.weight)
            return F.cross_entropy(logits.view(-1, logits.shape[-1]).float(), labels.reshape(-1))

    weights = {name.removeprefix("transformer."): value.float()
               for name, value in load_file(os.path.join(start, "model.safetensors")).items()}
    model = Model()
    with torch.no_grad():
        model.words.weight.copy_(weights["wte.weight"])
        model.positions.weight.copy_(weights["wpe.weight"])
        model.norm.weight.copy_(weights["ln_f.weight"])
        model.norm.bias.copy_(weights["ln_f.bias"])
        for i, layer in enumerate(model.layers):
            for name, module in (("ln_1", layer.norm1), ("ln_2", layer.norm2)):
                module.weight.copy_(weights[f"h.{i}.{name}.weight"])
                module.bias.copy_(weights[f"h.{i}.{name}.bias"])
            for name, module in (("attn.c_attn", layer.qkv), ("attn.c_proj", layer.out), ("mlp.c_fc", layer.up),
                                 ("mlp.c_proj", layer.down)):
                module.weight.copy_(weights[f"h.{i}.{name}.weight"].t())  # Conv1D holds [in, out]
                module.bias.copy_(weights[f"h.{i}.{name}.bias"])
    return model.cuda()


def train(arguments, torch):
    options = read_json(arguments.run, "training.json")
    losses, rates = log_of(arguments.run)
    stream = token_stream(arguments.run, arguments.attend)
    torch.backends.cuda.matmul.allow_tf32 = False
    model = make_model(arguments.start, torch)
    context, rows = model.positions.weight.shape[0], max(options["batch"], 1)
    matrices = [p for p in model.parameters() if p.dim() > 1]
    others = [p for p in model.parameters() if p.dim() <= 1]
    optimizer = torch.optim.AdamW([{"params": matrices, "weight_decay": options["weight_decay"]},
                                   {"params": others, "weight_decay": 0.0}],
                                  betas=(options["beta1"], options["beta2"]), eps=1e-9)
    curve = []
    for step in sorted(rates):
        batch = torch.tensor(window(stream, options["seed"], step - 1, rows, context), device="cuda")
        total = torch.zeros((), device="cuda")
        for part in batch.split(arguments.rows or rows):
            with torch.autocast("cuda", dtype=torch.bfloat16, enabled=arguments.precision == "bf16"):
                loss = model(part[:, :-1], part[:, 1:]) * (len(part) / rows)
            loss.backward()
            total += loss.detach()
        if options["clip"] > 0:
            torch.nn.utils.clip_grad_norm_(model.parameters(), options["clip"])
        for group in optimizer.param_groups:
            group["lr"] = rates[step]
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        curve.append(total)
    return [losses[step] for step in sorted(rates)], [value.item() for value in curve]


WIDTH, LEFT, RIGHT = 800, 70, 20
STYLE = """<style>
text { font: 13px sans-serif; fill: #333 } .axis { stroke: #999 } .attend { stroke: #1f6fb4 } .torch { stroke: #d9730d }
.line { fill: none; stroke-width: 1.5 } .torch { stroke-dasharray: 5 4 }
@media (prefers-color-scheme: dark) { text { fill: #ddd } .attend { stroke: #6cb2f0 } .torch { stroke: #f2a65a } }
</style>"""


class Panel:
    """A part of the picture with its own y axis, linear or logarithmic."""

    def __init__(self, top, height, steps, values, log, title):
        self.scale = math.log10 if log else float
        values = [v for v in values if v > 0] if log else values
        self.low, self.high = self.scale(min(values)), self.scale(max(values))
        self.top, self.height, self.steps = top, height, steps
        self.parts = [f'<text x="{LEFT}" y="{top - 8}">{title}</text>']
        ticks = [10.0**e for e in range(math.ceil(self.low), math.floor(self.high) + 1)] if log else \
            range(math.ceil(self.low), math.floor(self.high) + 1)
        for tick in ticks:
            y = self.y(tick)
            self.parts.append(f'<line class="axis" stroke-opacity="0.4" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" '
                              f'y2="{y:.1f}"/><text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{tick:g}</text>')

    def y(self, value):
        return self.top + self.height * (1 - (self.scale(value) - self.low) / (self.high - self.low))

    def add(self, values, kind):
        points = " ".join(f"{LEFT + (WIDTH - LEFT - RIGHT) * i / (self.steps - 1):.1f},{self.y(v):.1f}"
                          for i, v in enumerate(values) if v > 0)
        self.parts.append(f'<polyline class="line {kind}" points="{points}"/>')


def draw(files, path):
    """One column of panels: the losses of each file, and the relative differences of all."""
    parts, top = [], 40
    for name in files:
        curves = read_json(name)
        ours, theirs = curves["attend"], curves["torch"]
        gaps = [abs(a - b) / b for a, b in zip(ours, theirs)]
        losses = Panel(top, 220, len(ours), ours + theirs, False, f"loss, {curves['precision']}")
        losses.add(ours, "attend")
        losses.add(theirs, "torch")
        below = Panel(top + 260, 90, len(ours), gaps, True, f"relative difference, {curves['precision']}")
        below.add(gaps, "attend")
        parts += losses.parts + below.parts
        top += 400
    legend = (f'<g transform="translate({WIDTH - 230}, 56)"><line class="line attend" x2="30"/><text x="38" y="4">attend'
              f'</text><line class="line torch" x2="30" y1="20" y2="20"/><text x="38" y="24">PyTorch</text></g>')
    with open(path, "w", encoding="utf-8") as out:
        out.write(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {top}">{STYLE}\n' +
                  "\n".join(parts) + f'\n{legend}\n<text x="{WIDTH / 2}" y="{top - 20}" text-anchor="middle">'
                  'step, 1 at the left</text></svg>\n')


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    if "--draw" in sys.argv:
        parser.add_argument("--draw", nargs="+", required=True, help="files with curves")
        parser.add_argument("-o", "--output", default="losses.svg")
        arguments = parser.parse_args()
        return draw(arguments.draw, arguments.output)
    parser.add_argument("start", help="GPT-2 folder with the initial weights")
    parser.add_argument("run", help="folder that attend trained")
    parser.add_argument("--attend", default="build/release/attend")
    parser.add_argument("--precision", choices=["bf16", "f32"], default="bf16")
    parser.add_argument("--rows", type=int, default=0, help="rows per forward pass (default: the whole batch)")
    parser.add_argument("-o", "--output", default="losses.json")
    arguments = parser.parse_args()
    import torch
    ours, theirs = train(arguments, torch)
    with open(arguments.output, "w", encoding="utf-8") as out:
        json.dump({"precision": arguments.precision, "attend": ours, "torch": theirs, "version": torch.__version__}, out)
    for steps in (20, 100, len(ours)):
        worst = max((abs(a - b) / abs(b) for a, b in zip(ours[:steps], theirs[:steps])), default=0)
        print(f"first {min(steps, len(ours))} losses: largest relative difference {worst:.2e}")


if __name__ == "__main__":
    main()
