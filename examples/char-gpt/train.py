"""Train a character GPT on documentation of Python's standard library: writes `gpt.oinf` and `golden.npz`.

For development only: `run.py` needs none of what this script does. `README.md` has the commands.
"""

from __future__ import annotations

import argparse
import ast
import math
import sysconfig
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from openinfer_oinf import TensorSpec, quantize_array, save_file

HERE = Path(__file__).parent
WIDTH, HEADS, LAYERS, CONTEXT = 96, 4, 4, 256
TRAINED_LENGTH = 128
CHARACTERS = "\n" + "".join(map(chr, range(32, 127)))
"""Characters by token; others are left out of the text."""

PROMPT = "Return a list of the "
GOLDEN = 160
"""Tokens that the trained model generates from the prompt, greedily, for comparison."""


def read_text() -> str:
    """Return the docstrings of the modules of the standard library, in order of their names, and Python's licence."""
    found: list[str] = []
    folder = Path(sysconfig.get_path("stdlib"))
    for path in sorted([*folder.glob("*.py"), *folder.glob("[a-z]*/*.py")]):
        if "site-packages" in path.parts or "test" in str(path.relative_to(folder)):
            continue
        kinds = (ast.Module, ast.ClassDef, ast.FunctionDef)
        tree = ast.parse(path.read_text(encoding="utf-8"))
        texts = [ast.get_docstring(node) for node in ast.walk(tree) if isinstance(node, kinds)]
        found += [text for text in texts if text]
    licence = folder / "LICENSE.txt"
    if licence.exists():
        found.append(licence.read_text(encoding="utf-8"))
    return "\n\n".join("".join(c for c in text if c in CHARACTERS) for text in found)


def encoded(text: str) -> Tensor:
    return torch.tensor([CHARACTERS.index(character) for character in text])


class Layer(nn.Module):
    """Attention to what came before, then two linear layers, each after a norm and added to what it read."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, h: Tensor) -> Tensor:
        batch, length, _ = h.shape
        q, k, v = self.qkv(self.norm1(h)).view(batch, length, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        seen = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        h = h + self.out(seen.transpose(1, 2).reshape(batch, length, WIDTH))
        return h + self.down(functional.gelu(self.up(self.norm2(h))))


class Gpt(nn.Module):
    """Tokens [B, S] to logits [B, S, V]."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(len(CHARACTERS), WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, len(CHARACTERS), bias=False)
        for parameter in self.parameters():
            if parameter.dim() == 2:
                nn.init.normal_(parameter, std=0.04)

    def forward(self, ids: Tensor) -> Tensor:
        h = self.tokens(ids) + self.places.weight[: ids.shape[1]]
        for layer in self.layers:
            h = layer(h)
        return self.head(self.norm(h))


def batch_loss(model: Gpt, text: Tensor, starts: Tensor, length: int) -> Tensor:
    rows = torch.stack([text[start : start + length + 1] for start in starts.tolist()])
    logits = model(rows[:, :-1])
    return functional.cross_entropy(logits.reshape(-1, logits.shape[-1]), rows[:, 1:].reshape(-1))


def train(text: Tensor, steps: int, batch: int) -> Gpt:
    torch.manual_seed(0)
    model = Gpt()
    optimiser = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.05, betas=(0.9, 0.98))
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 3e-3, total_steps=steps, pct_start=0.1)
    for step in range(steps):
        # A tenth of the batches is as long as the context, so that every place is trained.
        length, rows = (CONTEXT, batch // 2) if step % 10 == 9 else (TRAINED_LENGTH, batch)
        starts = torch.randint(len(text) - length - 1, (rows,))
        loss = batch_loss(model, text, starts, length)
        optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        schedule.step()
        if step % 50 == 0:
            print(f"step {step}: {loss.item() / math.log(2):.3f} bits a character", flush=True)
    return model.eval()


@torch.no_grad()
def held_back_bits(model: Gpt, text: Tensor) -> float:
    starts = torch.arange(0, len(text) - CONTEXT - 1, CONTEXT)[:64]
    return batch_loss(model, text, starts, CONTEXT).item() / math.log(2)


@torch.no_grad()
def quantised(model: Gpt) -> dict[str, object]:
    """Round the linear layers to int8, a scale for each output, in the model too; return all weights by name."""
    weights: dict[str, object] = {}
    for name, module in model.named_modules():
        if isinstance(module, nn.Linear):
            stored = quantize_array(module.weight.numpy().T, "i8", axis=1)
            module.weight.copy_(torch.from_numpy(stored.real_values().T.copy()))
            weights[f"{name}.weight"] = TensorSpec(stored.values, dtype="i8")
            weights[f"{name}.scale"] = stored.quant.scale.values
            if module.bias is not None:
                weights[f"{name}.bias"] = module.bias.numpy()
        elif isinstance(module, nn.Embedding | nn.LayerNorm):
            weights |= {f"{name}.{part}": value.numpy() for part, value in module.named_parameters()}
    return weights


@torch.no_grad()
def greedy(model: Gpt) -> tuple[list[int], np.ndarray]:
    """Return the tokens that follow the prompt, and the logits that each was chosen from."""
    ids, rows = encoded(PROMPT), []
    for _ in range(GOLDEN):
        logits = model(ids[None])[0, -1]
        rows.append(logits.numpy())
        ids = torch.cat([ids, logits.argmax()[None]])
    return ids[len(PROMPT) :].tolist(), np.array(rows)


class Step(nn.Module):
    """A decoding step of a trained model: one token and the keys and values before it, to logits and those after it."""

    def __init__(self, model: Gpt) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: Tensor, past: Tensor) -> tuple[Tensor, Tensor]:
        """Map ids [1, 1] and past [L, 2, 1, H, T, Dh] to logits [1, V] and present [L, 2, 1, H, T+1, Dh]."""
        h = self.model.tokens(ids) + self.model.places.weight[past.shape[4]]
        present = []
        for layer, before in zip(self.model.layers, past, strict=True):
            q, k, v = layer.qkv(layer.norm1(h)).view(1, 1, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
            k, v = torch.cat([before[0], k], dim=2), torch.cat([before[1], v], dim=2)
            present.append(torch.stack([k, v]))
            h = h + layer.out(functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(1, 1, WIDTH))
            h = h + layer.down(functional.gelu(layer.up(layer.norm2(h))))
        return self.model.head(self.model.norm(h))[0], torch.stack(present)


def export_step(model: Gpt, path: Path, past: int = 128) -> None:
    """Write a decoding step after `past` tokens as ONNX, in f32, for comparing speed."""
    before = torch.zeros(LAYERS, 2, 1, HEADS, past, WIDTH // HEADS)
    names = {"input_names": ["ids", "past"], "output_names": ["logits", "present"]}
    ids = torch.zeros(1, 1, dtype=torch.int64)
    torch.onnx.export(Step(model), (ids, before), str(path), dynamo=True, external_data=False, **names)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--onnx", type=Path, help="also write a decoding step as ONNX to this file")
    options = parser.parse_args()
    torch.set_num_threads(1)
    text = encoded(read_text())
    split = len(text) * 19 // 20
    print(f"{len(text):,} characters, {len(text) - split:,} of them held out")
    model = train(text[:split], options.steps, options.batch)
    before = held_back_bits(model, text[split:])
    weights = quantised(model)
    after = held_back_bits(model, text[split:])
    print(f"held out: {before:.3f} bits a character in f32, {after:.3f} in int8")

    sizes = {"V": len(CHARACTERS), "D": WIDTH, "H": HEADS, "Dh": WIDTH // HEADS, "L": LAYERS, "C": CONTEXT, "S": 1}
    record = {"characters.utf8": CHARACTERS, "bits.f32": before, "bits.int8": after}
    save_file(weights, HERE / "gpt.oinf", sizevars=sizes, metadata=record)
    tokens, logits = greedy(model)
    prompt = np.array(encoded(PROMPT), np.int64)
    np.savez_compressed(HERE / "golden.npz", prompt=prompt, tokens=np.array(tokens, np.int64), logits=logits)
    if options.onnx:
        export_step(model, options.onnx)
    print(PROMPT + "".join(CHARACTERS[token] for token in tokens))


if __name__ == "__main__":
    main()
