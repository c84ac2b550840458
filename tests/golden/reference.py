"""Every architecture, implemented directly from its definition: plain Python, float64, one sequence at a time.

Slow and independent of attend. make_cases.py proves it against what Hugging Face transformers computed before it writes
anything with it. A matrix is a list of rows; `w` maps the names of a folder's tensors to their values.
"""

import math


def dot(a, b):
    return sum(x * y for x, y in zip(a, b))


def add(x, y):
    return [[a + b for a, b in zip(p, q)] for p, q in zip(x, y)]


def linear(w, name, x, turned=False):
    """x Wᵀ + b. `turned`: the file stores Wᵀ, as GPT-2's do."""
    matrix, bias = w[name + ".weight"], w.get(name + ".bias")
    lines = list(zip(*matrix)) if turned else matrix
    bias = bias or [0.0] * len(lines)
    return [[dot(row, line) + b for line, b in zip(lines, bias)] for row in x]


def layer_norm(w, name, x, eps):
    result = []
    for row in x:
        mean = sum(row) / len(row)
        scale = 1 / math.sqrt(sum((v - mean) ** 2 for v in row) / len(row) + eps)
        result.append([(v - mean) * scale * g + b for v, g, b in zip(row, w[name + ".weight"], w[name + ".bias"])])
    return result


def rms_norm(weight, x, eps):
    result = []
    for row in x:
        scale = 1 / math.sqrt(dot(row, row) / len(row) + eps)
        result.append([v * scale * g for v, g in zip(row, weight)])
    return result


ACTIVATIONS = {
    "gelu": lambda x: 0.5 * x * (1 + math.erf(x / math.sqrt(2))),
    "gelu_new": lambda x: 0.5 * x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    "relu": lambda x: max(x, 0.0),
    "silu": lambda x: x / (1 + math.exp(-x)),
    "swish": lambda x: x / (1 + math.exp(-x)),
}


def activate(kind, x):
    return [[ACTIVATIONS[kind](v) for v in row] for row in x]


def attention(q, k, v, heads, sees, key_heads=None, scale=None, bias=None):
    """The outputs of all heads, concatenated, and the weights [heads][q][k]."""
    width = len(q[0]) // heads
    group = heads // (key_heads or heads)
    scale = 1 / math.sqrt(width) if scale is None else scale
    maps, result = [], [[] for _ in q]
    for h in range(heads):
        own, shared = slice(h * width, (h + 1) * width), slice(h // group * width, (h // group + 1) * width)
        maps.append([])
        for i, row in enumerate(q):
            scores = [
                scale * dot(row[own], k[j][shared]) + (bias[h][i][j] if bias else 0.0) if sees(i, j) else -math.inf
                for j in range(len(k))
            ]
            top = max(scores)
            weights = [math.exp(s - top) for s in scores]
            total = sum(weights)
            weights = [x / total for x in weights]
            maps[-1].append(weights)
            result[i] += [dot(weights, column) for column in zip(*(line[shared] for line in v))]
    return result, maps


def causal(i, j):
    return j <= i


def gpt2(w, c, ids):
    eps, heads = c["layer_norm_epsilon"], c["n_head"]
    words = w["transformer.wte.weight"]
    x = add([words[i] for i in ids], w["transformer.wpe.weight"])
    hidden, maps = [x], []
    for layer in range(c["n_layer"]):
        at = f"transformer.h.{layer}."
        qkv = linear(w, at + "attn.c_attn", layer_norm(w, at + "ln_1", x, eps), turned=True)
        d = len(x[0])
        y, seen = attention(*([row[n * d : (n + 1) * d] for row in qkv] for n in range(3)), heads, causal)
        x = add(x, linear(w, at + "attn.c_proj", y, turned=True))
        y = linear(w, at + "mlp.c_fc", layer_norm(w, at + "ln_2", x, eps), turned=True)
        x = add(x, linear(w, at + "mlp.c_proj", activate(c["activation_function"], y), turned=True))
        hidden.append(x)
        maps.append(seen)
    hidden[-1] = layer_norm(w, "transformer.ln_f", x, eps)
    return hidden, maps, words


def turn(x, heads, theta):
    """Rotary positions in the layout of Llama: feature i is paired with i + width / 2."""
    width = len(x[0]) // heads
    half = width // 2
    result = []
    for place, row in enumerate(x):
        turned = list(row)
        for h in range(heads):
            for i in range(half):
                angle = place * theta ** (-2 * i / width)
                a, b = row[h * width + i], row[h * width + half + i]
                turned[h * width + i] = a * math.cos(angle) - b * math.sin(angle)
                turned[h * width + half + i] = b * math.cos(angle) + a * math.sin(angle)
        result.append(turned)
    return result


def head_norm(w, name, x, heads, eps):
    if name + ".weight" not in w:
        return x
    width = len(x[0]) // heads
    parts = [rms_norm(w[name + ".weight"], [row[h * width : (h + 1) * width] for row in x], eps) for h in range(heads)]
    return [[v for part in row for v in part] for row in zip(*parts)]


def llama(w, c, ids):
    """Also Mistral, Qwen2 and Qwen3: windows, biases and head norms are used if config and weights have them."""
    eps, heads, key_heads = c["rms_norm_eps"], c["num_attention_heads"], c["num_key_value_heads"]
    theta, window = c["rope_parameters"]["rope_theta"], c.get("sliding_window")

    def sees(i, j):
        return j <= i and (window is None or i - j < window)

    x = [w["model.embed_tokens.weight"][i] for i in ids]
    hidden, maps = [x], []
    for layer in range(c["num_hidden_layers"]):
        at = f"model.layers.{layer}."
        y = rms_norm(w[at + "input_layernorm.weight"], x, eps)
        q, k, v = (linear(w, at + f"self_attn.{name}_proj", y) for name in "qkv")
        q = turn(head_norm(w, at + "self_attn.q_norm", q, heads, eps), heads, theta)
        k = turn(head_norm(w, at + "self_attn.k_norm", k, key_heads, eps), key_heads, theta)
        y, seen = attention(q, k, v, heads, sees, key_heads)
        x = add(x, linear(w, at + "self_attn.o_proj", y))
        y = rms_norm(w[at + "post_attention_layernorm.weight"], x, eps)
        gate = activate(c["hidden_act"], linear(w, at + "mlp.gate_proj", y))
        up = linear(w, at + "mlp.up_proj", y)
        x = add(x, linear(w, at + "mlp.down_proj", [[a * b for a, b in zip(p, q)] for p, q in zip(gate, up)]))
        hidden.append(x)
        maps.append(seen)
    hidden[-1] = rms_norm(w["model.norm.weight"], x, eps)
    return hidden, maps, w.get("lm_head.weight") or w["model.embed_tokens.weight"]


def post_norm_layer(w, x, names, heads, activation, eps, keys):
    """BERT's layer; the first `keys` keys are real, the rest padding."""
    q, k, v = (linear(w, names[part], x) for part in ("q", "k", "v"))
    y, seen = attention(q, k, v, heads, lambda i, j: j < keys)
    x = layer_norm(w, names["norm1"], add(x, linear(w, names["out"], y)), eps)
    y = linear(w, names["down"], activate(activation, linear(w, names["up"], x)))
    return layer_norm(w, names["norm2"], add(x, y), eps), seen


def bert(w, c, ids, length):
    """Hidden states, attention weights, and the pooled first token."""
    eps = c["layer_norm_eps"]
    words, kind = w["embeddings.word_embeddings.weight"], w["embeddings.token_type_embeddings.weight"][0]
    x = add(add([words[i] for i in ids], w["embeddings.position_embeddings.weight"]), [kind] * len(ids))
    x = layer_norm(w, "embeddings.LayerNorm", x, eps)
    hidden, maps = [x], []
    for layer in range(c["num_hidden_layers"]):
        at = f"encoder.layer.{layer}."
        names = {n: at + "attention.self." + full for n, full in (("q", "query"), ("k", "key"), ("v", "value"))}
        names |= {"out": at + "attention.output.dense", "norm1": at + "attention.output.LayerNorm"}
        names |= {"up": at + "intermediate.dense", "down": at + "output.dense", "norm2": at + "output.LayerNorm"}
        x, seen = post_norm_layer(w, x, names, c["num_attention_heads"], c["hidden_act"], eps, length)
        hidden.append(x)
        maps.append(seen)
    return hidden, maps, [math.tanh(v) for v in linear(w, "pooler.dense", x[:1])[0]]


def distilbert(w, c, ids, length):
    x = add([w["embeddings.word_embeddings.weight"][i] for i in ids], w["embeddings.position_embeddings.weight"])
    x = layer_norm(w, "embeddings.LayerNorm", x, 1e-12)
    hidden, maps = [x], []
    for layer in range(c["n_layers"]):
        at = f"transformer.layer.{layer}."
        names = {n: f"{at}attention.{n}_lin" for n in ("q", "k", "v", "out")}
        names |= {"norm1": at + "sa_layer_norm", "norm2": at + "output_layer_norm"}
        names |= {"up": at + "ffn.lin1", "down": at + "ffn.lin2"}
        x, seen = post_norm_layer(w, x, names, c["n_heads"], c["activation"], 1e-12, length)
        hidden.append(x)
        maps.append(seen)
    return hidden, maps, None


def vit(w, c, picture):
    """The logits and attention weights of picture[channel][row][column]."""
    size, eps = c["patch_size"], c["layer_norm_eps"]
    patches = []
    for top in range(0, c["image_size"], size):
        for left in range(0, c["image_size"], size):
            patches.append([v for plane in picture for row in plane[top : top + size] for v in row[left : left + size]])
    x = w["vit.embeddings.cls_token"][0] + linear(w, "vit.embeddings.patch_embeddings.projection", patches)
    x = add(x, w["vit.embeddings.position_embeddings"][0])
    maps = []
    for layer in range(c["num_hidden_layers"]):
        at = f"vit.encoder.layer.{layer}."
        y = layer_norm(w, at + "layernorm_before", x, eps)
        q, k, v = (linear(w, at + "attention.attention." + name, y) for name in ("query", "key", "value"))
        y, seen = attention(q, k, v, c["num_attention_heads"], lambda i, j: True)
        x = add(x, linear(w, at + "attention.output.dense", y))
        y = linear(w, at + "intermediate.dense", layer_norm(w, at + "layernorm_after", x, eps))
        x = add(x, linear(w, at + "output.dense", activate(c["hidden_act"], y)))
        maps.append(seen)
    return linear(w, "classifier", layer_norm(w, "vit.layernorm", x[:1], eps))[0], maps


class Bart:
    """Also Marian, which has sinusoidal positions and no norm after its embeddings."""

    def __init__(self, w, c):
        self.w, self.c = w, c

    def embed(self, side, ids):
        w, words = self.w, self.w["model.shared.weight"]
        width = len(words[0])
        scale = math.sqrt(width) if self.c["scale_embedding"] else 1.0
        x = [[scale * v for v in words[i]] for i in ids]
        table = f"model.{side}.embed_positions.weight"
        if table in w:
            x = add(x, w[table][2:])
        else:
            angles = [[p / 10000 ** (2 * i / width) for i in range(width // 2)] for p in range(len(ids))]
            x = add(x, [[math.sin(a) for a in row] + [math.cos(a) for a in row] for row in angles])
        norm = f"model.{side}.layernorm_embedding"
        return layer_norm(w, norm, x, 1e-5) if norm + ".weight" in w else x

    def attend(self, name, x, memory, heads, sees):
        q = linear(self.w, name + ".q_proj", x)
        k, v = (linear(self.w, f"{name}.{part}_proj", memory) for part in "kv")
        y, seen = attention(q, k, v, heads, sees)
        x = add(x, linear(self.w, name + ".out_proj", y))
        return layer_norm(self.w, name + "_layer_norm", x, 1e-5), seen

    def feed_forward(self, at, x):
        y = linear(self.w, at + "fc2", activate(self.c["activation_function"], linear(self.w, at + "fc1", x)))
        return layer_norm(self.w, at + "final_layer_norm", add(x, y), 1e-5)

    def encode(self, ids, length):
        x, maps = self.embed("encoder", ids), []
        for layer in range(self.c["encoder_layers"]):
            at = f"model.encoder.layers.{layer}."
            x, seen = self.attend(at + "self_attn", x, x, self.c["encoder_attention_heads"], lambda i, j: j < length)
            x = self.feed_forward(at, x)
            maps.append(seen)
        return x, maps

    def decode(self, ids, memory, length):
        heads = self.c["decoder_attention_heads"]
        x, own, cross = self.embed("decoder", ids), [], []
        for layer in range(self.c["decoder_layers"]):
            at = f"model.decoder.layers.{layer}."
            x, seen = self.attend(at + "self_attn", x, x, heads, causal)
            own.append(seen)
            x, seen = self.attend(at + "encoder_attn", x, memory, heads, lambda i, j: j < length)
            cross.append(seen)
            x = self.feed_forward(at, x)
        bias = self.w["final_logits_bias"][0]
        return [[dot(row, word) + b for word, b in zip(self.w["model.shared.weight"], bias)] for row in x], own, cross


class T5:
    def __init__(self, w, c):
        self.w, self.c = w, c

    def bucket(self, distance, both_ways):
        """The bucket of key − query: half of the buckets are exact, the rest grow logarithmically."""
        count, most, first = self.c["relative_attention_num_buckets"], self.c["relative_attention_max_distance"], 0
        if both_ways:
            count //= 2
            first = count if distance > 0 else 0
            distance = abs(distance)
        else:
            distance = max(-distance, 0)
        exact = count // 2
        if distance < exact:
            return first + distance
        grown = exact + int(math.log(distance / exact) / math.log(most / exact) * (count - exact))
        return first + min(grown, count - 1)

    def bias(self, side, length):
        table = self.w[f"{side}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"]
        rows = [[self.bucket(j - i, side == "encoder") for j in range(length)] for i in range(length)]
        return [[[table[b][h] for b in row] for row in rows] for h in range(self.c["num_heads"])]

    def norm(self, name, x):
        return rms_norm(self.w[name + ".weight"], x, self.c["layer_norm_epsilon"])

    def attend(self, at, name, x, memory, sees, bias):
        y = self.norm(at + "layer_norm", x)
        q = linear(self.w, f"{at}{name}.q", y)
        k, v = (linear(self.w, f"{at}{name}.{part}", y if memory is None else memory) for part in "kv")
        y, seen = attention(q, k, v, self.c["num_heads"], sees, scale=1.0, bias=bias)
        return add(x, linear(self.w, f"{at}{name}.o", y)), seen

    def feed_forward(self, at, x):
        y = activate("relu", linear(self.w, at + "DenseReluDense.wi", self.norm(at + "layer_norm", x)))
        return add(x, linear(self.w, at + "DenseReluDense.wo", y))

    def encode(self, ids, length):
        x, bias, maps = [self.w["shared.weight"][i] for i in ids], self.bias("encoder", len(ids)), []
        for layer in range(self.c["num_layers"]):
            at = f"encoder.block.{layer}.layer."
            x, seen = self.attend(at + "0.", "SelfAttention", x, None, lambda i, j: j < length, bias)
            x = self.feed_forward(at + "1.", x)
            maps.append(seen)
        return self.norm("encoder.final_layer_norm", x), maps

    def decode(self, ids, memory, length):
        x, bias = [self.w["shared.weight"][i] for i in ids], self.bias("decoder", len(ids))
        own, cross = [], []
        for layer in range(self.c["num_decoder_layers"]):
            at = f"decoder.block.{layer}.layer."
            x, seen = self.attend(at + "0.", "SelfAttention", x, None, causal, bias)
            own.append(seen)
            x, seen = self.attend(at + "1.", "EncDecAttention", x, memory, lambda i, j: j < length, None)
            cross.append(seen)
            x = self.feed_forward(at + "2.", x)
        scale = 1 / math.sqrt(self.c["d_model"])
        x = [[scale * v for v in row] for row in self.norm("decoder.final_layer_norm", x)]
        return [[dot(row, word) for word in self.w["shared.weight"]] for row in x], own, cross


LANGUAGE = {"gpt2": gpt2, "llama": llama, "mistral": llama, "qwen2": llama, "qwen3": llama}
ENCODERS = {"bert": bert, "distilbert": distilbert}
PAIRS = {"bart": Bart, "marian": Bart, "t5": T5}
