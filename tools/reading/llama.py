"""demo/base in PyTorch for training: the layers' weights as stacks, all tokens of a step in one row of rows. What is
compiled sees [tokens, ...] alone, so that sequences of any lengths take the same code."""

import json
import pathlib

import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file

LAYERS, HIDDEN, HEADS, KV_HEADS, HEAD, VOCAB = 12, 256, 4, 2, 64, 8192
EPSILON, THETA = 1e-5, 10000.0
STACKS = {"q": "self_attn.q_proj", "k": "self_attn.k_proj", "v": "self_attn.v_proj", "o": "self_attn.o_proj",
          "gate": "mlp.gate_proj", "up": "mlp.up_proj", "down": "mlp.down_proj",
          "norm1": "input_layernorm", "norm2": "post_attention_layernorm"}
MATRICES = ("q", "k", "v", "o", "gate", "up", "down")


def load(folder, device):
    """{stack: [layers, out, in]} and embeddings and norm, fp32."""
    tensors = {}
    for path in sorted(pathlib.Path(folder).glob("*.safetensors")):
        tensors.update(load_file(path))
    weights = {name: torch.stack([tensors[f"model.layers.{i}.{part}.weight"] for i in range(LAYERS)])
               for name, part in STACKS.items()}
    weights["embed"] = tensors["model.embed_tokens.weight"]
    weights["norm"] = tensors["model.norm.weight"]
    return {name: tensor.float().to(device).contiguous() for name, tensor in weights.items()}


def save(weights, like, folder):
    """In the shards of the folder `like`, bf16."""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    index = json.loads((pathlib.Path(like) / "model.safetensors.index.json").read_text())
    tensors = {"model.embed_tokens.weight": weights["embed"], "model.norm.weight": weights["norm"]}
    for name, part in STACKS.items():
        for i in range(LAYERS):
            tensors[f"model.layers.{i}.{part}.weight"] = weights[name][i]
    tensors = {name: tensor.detach().to("cpu", torch.bfloat16).contiguous() for name, tensor in tensors.items()}
    for shard in sorted(set(index["weight_map"].values())):
        save_file({name: tensors[name] for name, where in index["weight_map"].items() if where == shard},
                  folder / shard, metadata={"format": "pt"})
    (folder / "model.safetensors.index.json").write_text(json.dumps(index, indent=2) + "\n")


def leaves(weights):
    """The same numbers, which take gradients: what was compiled for training is compiled for such weights alone."""
    return {name: tensor.detach().requires_grad_() for name, tensor in weights.items()}


def normed(x, weight):
    return (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + EPSILON) * weight).bfloat16()


def rotated(x, cos, sin):
    a, b = x.float().chunk(2, -1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1).bfloat16()


def before_attention(x, norm, q, k, v, cos, sin):
    """x [n, hidden] fp32 -> q [n, heads, head], k and v [n, kv heads, head]"""
    h, n = normed(x, norm), x.shape[0]
    return (rotated((h @ q.T).view(n, HEADS, HEAD), cos, sin), rotated((h @ k.T).view(n, KV_HEADS, HEAD), cos, sin),
            (h @ v.T).view(n, KV_HEADS, HEAD))


def after_attention(x, attended, o, norm, gate, up, down):
    x = x + (attended @ o.T).float()
    h = normed(x, norm)
    return x + ((F.silu(h @ gate.T) * (h @ up.T)) @ down.T).float()


def token_losses(x, norm, embed, targets):
    """-log p of each row's target, and whether it is the likeliest."""
    logits = (normed(x, norm) @ embed.bfloat16().T).float()
    return torch.logsumexp(logits, -1) - logits.gather(1, targets[:, None])[:, 0], logits.argmax(-1) == targets


def divergences(x, norm, embed, teacher_x, teacher_norm, teacher_embed):
    """KL(teacher || x) of each row."""
    logq = torch.log_softmax((normed(x, norm) @ embed.bfloat16().T).float(), -1)
    teacher = normed(teacher_x, teacher_norm) @ teacher_embed.bfloat16().T
    logp = torch.log_softmax(teacher.float(), -1)
    return (logp.exp() * (logp - logq)).sum(-1)


class Llama:
    """Weights are passed in: {stack: tensor}, and so is the layout: [(sequences, tokens of each), ...]."""

    def __init__(self, device, compiled, chunk):
        self.device, self.chunk = device, chunk  # rows whose logits are made at once
        wrap = (lambda f: torch.compile(f, dynamic=False)) if compiled else (lambda f: f)
        self.before, self.after = wrap(before_attention), wrap(after_attention)
        self.token_losses, self.divergences = wrap(token_losses), wrap(divergences)
        self.tables = {}

    def table(self, layout):
        if layout not in self.tables:
            positions = torch.cat([torch.arange(tokens).repeat(count) for count, tokens in layout]).double()
            rates = THETA ** (-torch.arange(0, HEAD, 2).double() / HEAD)
            angles = (positions[:, None] * rates).to(self.device)
            self.tables[layout] = angles.cos().float()[:, None], angles.sin().float()[:, None]
        return self.tables[layout]

    @staticmethod
    def attend(q, k, v, layout):
        outs, at = [], 0
        for count, tokens in layout:
            rows = slice(at, at + count * tokens)
            parts = [t[rows].view(count, tokens, -1, HEAD).transpose(1, 2) for t in (q, k, v)]
            out = F.scaled_dot_product_attention(*parts, is_causal=True, enable_gqa=True)
            outs.append(out.transpose(1, 2).reshape(count * tokens, HEADS * HEAD))
            at += count * tokens
        return outs[0] if len(outs) == 1 else torch.cat(outs)

    def hidden(self, weights, ids, layout):
        """ids [n] -> [n, hidden] fp32, before the last norm."""
        cos, sin = self.table(layout)
        layers = {name: weights[name].bfloat16().unbind() for name in MATRICES}
        norms = weights["norm1"].unbind(), weights["norm2"].unbind()
        x = F.embedding(ids, weights["embed"])
        for i in range(LAYERS):
            q, k, v = self.before(x, norms[0][i], *(layers[name][i] for name in "qkv"), cos, sin)
            attended = self.attend(q, k, v, layout)
            x = self.after(x, attended, layers["o"][i], norms[1][i], *(layers[n][i] for n in ("gate", "up", "down")))
        return x

    def losses(self, x, weights, targets):
        parts = [self.token_losses(rows, weights["norm"], weights["embed"], wanted)
                 for rows, wanted in zip(x.split(self.chunk), targets.split(self.chunk))]
        return torch.cat([loss for loss, _ in parts]), torch.cat([right for _, right in parts])

    def divergence(self, x, weights, teacher_x, teacher):
        parts = [self.divergences(rows, weights["norm"], weights["embed"], taught, teacher["norm"], teacher["embed"])
                 for rows, taught in zip(x.split(self.chunk), teacher_x.split(self.chunk))]
        return torch.cat(parts)


class Muon:
    """Momentum whose steps are made orthogonal (Newton-Schulz), scaled to the size of Adam's, for stacks of matrices;
    Adam for the others."""

    def __init__(self, weights):
        self.weights = weights
        self.momenta = {name: torch.zeros_like(weights[name]) for name in MATRICES}
        others = [weights[name] for name in weights if name not in MATRICES]
        self.adam = torch.optim.AdamW(others, lr=0.0, betas=(0.9, 0.95), weight_decay=0.0)

    @staticmethod
    def orthogonal(stack):
        x = stack.bfloat16()
        is_tall = x.shape[-2] > x.shape[-1]
        x = x.mT if is_tall else x
        x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
        for _ in range(5):
            square = x @ x.mT
            x = 3.4445 * x + (-4.7750 * square + 2.0315 * square @ square) @ x
        return x.mT if is_tall else x

    @torch.no_grad()
    def step(self, rate):
        for name, momentum in self.momenta.items():
            weight = self.weights[name]
            momentum.lerp_(weight.grad, 0.05)
            update = self.orthogonal(weight.grad.lerp(momentum, 0.95)).float()
            weight.mul_(1.0 - 0.02 * rate).add_(update, alpha=-rate * 0.2 * max(weight.shape[-2:]) ** 0.5)
            weight.grad = None
        for group in self.adam.param_groups:
            group["lr"] = 0.5 * rate
        self.adam.step()
        self.adam.zero_grad(set_to_none=True)
