"""Import modules of PyTorch by both ways, as programs of torch.export and as ONNX, and verify them.

    python benchmarks/torch_modules.py [NAME ...] [--ways pt2 onnx] [--keep FOLDER]

Weights are random: nothing is downloaded. It needs `openinfer-core[onnx,torch]`, `openinfer-backend-cpu` and the
packages `torchvision` and `onnxscript`; the builds of `torch` and `torchvision` have to fit each other, both with CUDA
or both without it. A row has the statements of a program, the seconds of import and verification, and the largest
difference of an output from the original's, as a part of its largest magnitude.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torchvision.models as vision
from torch import Tensor, nn
from torch.export import Dim
from torch.nn import functional

from openinfer import importers

WIDTH, HEADS, LENGTH, VOCABULARY = 32, 4, 12, 50


class CausalLayer(nn.Module):
    """Attention to what came before and two linear layers, as in GPT-2 (`examples/char-gpt`)."""

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
        return h + self.down(functional.gelu(self.up(self.norm2(h)), approximate="tanh"))


class Gpt(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(64, WIDTH)
        self.layers = nn.ModuleList(CausalLayer() for _ in range(3))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, ids: Tensor) -> Tensor:
        h = self.tokens(ids) + self.places.weight[: ids.shape[1]]
        for layer in self.layers:
            h = layer(h)
        return self.head(self.norm(h))


class LlamaLayer(nn.Module):
    """Rotary embeddings, keys shared by groups of heads, RMS norms and a gated product."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.RMSNorm(WIDTH), nn.RMSNorm(WIDTH)
        self.q, self.out = nn.Linear(WIDTH, WIDTH, bias=False), nn.Linear(WIDTH, WIDTH, bias=False)
        self.kv = nn.Linear(WIDTH, WIDTH, bias=False)
        self.gate, self.up = nn.Linear(WIDTH, 64, bias=False), nn.Linear(WIDTH, 64, bias=False)
        self.down = nn.Linear(64, WIDTH, bias=False)

    def forward(self, h: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        batch, length, _ = h.shape
        x = self.norm1(h)
        q = rotated(self.q(x).view(batch, length, HEADS, -1).transpose(1, 2), cos, sin)
        k, v = self.kv(x).view(batch, length, 2, HEADS // 2, -1).permute(2, 0, 3, 1, 4)
        k, v = (part.repeat_interleave(2, dim=1) for part in (rotated(k, cos, sin), v))
        seen = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        h = h + self.out(seen.transpose(1, 2).reshape(batch, length, WIDTH))
        x = self.norm2(h)
        return h + self.down(functional.silu(self.gate(x)) * self.up(x))


def rotated(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat([-second, first], dim=-1) * sin


class Llama(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.layers = nn.ModuleList(LlamaLayer() for _ in range(3))
        self.norm = nn.RMSNorm(WIDTH)
        width = WIDTH // HEADS
        angles = torch.outer(torch.arange(64), 10000 ** (-torch.arange(0, width, 2) / width)).repeat(1, 2)
        self.register_buffer("cos", angles.cos())
        self.register_buffer("sin", angles.sin())

    def forward(self, ids: Tensor) -> Tensor:
        h, length = self.tokens(ids), ids.shape[1]
        for layer in self.layers:
            h = layer(h, self.cos[:length], self.sin[:length])
        return self.norm(h) @ self.tokens.weight.T


class CachedStep(nn.Module):
    """A decoding step whose keys and values are buffers: the place of a token is a counter of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.qkv = nn.Embedding(VOCABULARY, WIDTH), nn.Linear(WIDTH, 3 * WIDTH)
        self.out, self.head = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, VOCABULARY)
        self.register_buffer("keys", torch.zeros(1, HEADS, 16, WIDTH // HEADS))
        self.register_buffer("values", torch.zeros(1, HEADS, 16, WIDTH // HEADS))
        self.register_buffer("length", torch.zeros(1, dtype=torch.int64))

    def forward(self, ids: Tensor) -> Tensor:
        h = self.tokens(ids)
        q, k, v = self.qkv(h).view(1, 1, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        self.keys.index_copy_(2, self.length, k)
        self.values.index_copy_(2, self.length, v)
        mask = torch.arange(16)[None] <= self.length
        seen = functional.scaled_dot_product_attention(q, self.keys, self.values, attn_mask=mask)
        self.length.add_(1)
        return self.head(h + self.out(seen.transpose(1, 2).reshape(1, 1, WIDTH)))


class Bert(nn.Module):
    """An encoder whose padding is hidden by a mask, with a pooled result."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(64, WIDTH)
        self.norm = nn.LayerNorm(WIDTH)
        self.layers = nn.ModuleList(nn.MultiheadAttention(WIDTH, HEADS, batch_first=True) for _ in range(2))
        self.pool = nn.Linear(WIDTH, WIDTH)

    def forward(self, ids: Tensor, mask: Tensor) -> dict[str, Tensor]:
        h = self.norm(self.tokens(ids) + self.places(torch.arange(ids.shape[1])))
        hidden = mask == 0
        for layer in self.layers:
            h = h + layer(h, h, h, key_padding_mask=hidden, need_weights=False)[0]
        return {"hidden": h, "pooled": torch.tanh(self.pool(h[:, 0]))}


class T5Block(nn.Module):
    """Attention with a bias for each distance, which tables of buckets give."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.qkv = nn.RMSNorm(WIDTH), nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.bias, self.out = nn.Embedding(8, HEADS), nn.Linear(WIDTH, WIDTH, bias=False)

    def forward(self, h: Tensor) -> Tensor:
        batch, length, _ = h.shape
        places = torch.arange(length)
        distance = (places[None, :] - places[:, None]).abs().clamp(max=7)
        bias = self.bias(distance).permute(2, 0, 1).unsqueeze(0)
        q, k, v = self.qkv(self.norm(h)).view(batch, length, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        weights = torch.softmax(q @ k.transpose(-2, -1) + bias, dim=-1)
        return h + self.out((weights @ v).transpose(1, 2).reshape(batch, length, WIDTH))


class Seq2Seq(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.model = nn.Transformer(WIDTH, HEADS, 1, 1, 64, batch_first=True)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        mask = nn.Transformer.generate_square_subsequent_mask(LENGTH)
        return self.model(source, target, tgt_mask=mask, tgt_is_causal=True)


class Whisper(nn.Module):
    """Convolutions over a spectrogram, and an encoder."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2 = nn.Conv1d(20, WIDTH, 3, padding=1), nn.Conv1d(WIDTH, WIDTH, 3, 2, 1)
        self.encoder = nn.TransformerEncoder(encoder_layer(), 2, enable_nested_tensor=False)

    def forward(self, mel: Tensor) -> Tensor:
        h = functional.gelu(self.conv2(functional.gelu(self.conv1(mel))))
        return self.encoder(h.transpose(1, 2))


class Forecaster(nn.Module):
    """As in `examples/recurrent-gru`: the state is an input and an output."""

    def __init__(self, layer: type[nn.Module]) -> None:
        super().__init__()
        self.layer, self.head = layer(3, 16), nn.Linear(16, 1)

    def forward(self, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        states, hn = self.layer(x, h)
        return self.head(states), hn


class Tagger(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.lstm = nn.Embedding(VOCABULARY, 16), nn.LSTM(16, 16, 2, batch_first=True, bidirectional=True)
        self.head = nn.Linear(32, 5)

    def forward(self, ids: Tensor) -> Tensor:
        return torch.log_softmax(self.head(self.lstm(self.tokens(ids))[0]), -1)


def encoder_layer(**options: Any) -> nn.TransformerEncoderLayer:
    return nn.TransformerEncoderLayer(WIDTH, HEADS, 64, batch_first=True, **options)


def digits() -> nn.Module:
    """Convolutions and a linear layer, as in `examples/digits`."""
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 8, 3, padding=1), nn.ReLU(), nn.AvgPool2d(2),
        nn.Flatten(), nn.Linear(128, 10),
    )  # fmt: skip


def vit() -> nn.Module:
    return vision.VisionTransformer(image_size=32, patch_size=8, num_layers=3, num_heads=4, hidden_dim=32, mlp_dim=64)


BATCH = Dim("batch", min=1, max=64)
SEQUENCE = Dim("sequence", min=2, max=48)


def image(size: int) -> tuple[Tensor]:
    return (torch.randn(1, 3, size, size),)


def ids(*shape: int) -> Tensor:
    return torch.randint(VOCABULARY, shape)


@dataclass(frozen=True)
class Module:
    """A module: how it is made, its example inputs, and which of their dims vary."""

    make: Callable[[], nn.Module]
    inputs: Callable[[], tuple[Tensor, ...]]
    dynamic: tuple[dict[int, Any] | None, ...] | None = None


def classifier(name: str, size: int = 64, **options: Any) -> Module:
    return Module(lambda: vision.get_model(name, weights=None, **options), lambda: image(size))


SEQUENCES = ({0: BATCH, 1: SEQUENCE},)

MODULES = {
    **{
        name: classifier(name)
        for name in (
            "resnet18", "mobilenet_v2", "mobilenet_v3_small", "squeezenet1_1", "shufflenet_v2_x0_5", "mnasnet0_5",
            "efficientnet_b0", "regnet_y_400mf", "densenet121", "convnext_tiny", "swin_t", "resnext50_32x4d",
        )
    },
    "googlenet": classifier("googlenet", aux_logits=False, init_weights=False),
    "inception_v3": classifier("inception_v3", 96, aux_logits=False, init_weights=False),
    "swin_v2_t": classifier("swin_v2_t"),
    "maxvit_t": classifier("maxvit_t", 224),
    "vit": Module(vit, lambda: image(32)),
    "transformer encoder": Module(
        lambda: nn.TransformerEncoder(encoder_layer(), 3, enable_nested_tensor=False),
        lambda: (torch.randn(2, LENGTH, WIDTH),),
        SEQUENCES,
    ),
    "pre-norm encoder": Module(
        lambda: nn.TransformerEncoder(encoder_layer(norm_first=True, activation="gelu"), 3, enable_nested_tensor=False),
        lambda: (torch.randn(2, LENGTH, WIDTH),),
    ),
    "transformer": Module(Seq2Seq, lambda: (torch.randn(2, 9, WIDTH), torch.randn(2, LENGTH, WIDTH))),
    "gpt": Module(Gpt, lambda: (ids(2, LENGTH),), SEQUENCES),
    "llama": Module(Llama, lambda: (ids(2, LENGTH),), SEQUENCES),
    "bert": Module(Bert, lambda: (ids(2, LENGTH), torch.ones(2, LENGTH, dtype=torch.int64))),
    "t5 block": Module(T5Block, lambda: (torch.randn(2, LENGTH, WIDTH),), SEQUENCES),
    "whisper encoder": Module(Whisper, lambda: (torch.randn(1, 20, 30),)),
    "cached step": Module(CachedStep, lambda: (ids(1, 1),)),
    "digits": Module(digits, lambda: (torch.randn(2, 1, 8, 8),), ({0: BATCH},)),
    "gru forecaster": Module(lambda: Forecaster(nn.GRU), lambda: (torch.randn(6, 2, 3), torch.zeros(1, 2, 16))),
    "lstm tagger": Module(Tagger, lambda: (ids(2, 7),)),
}  # fmt: skip


def exported(module: nn.Module, entry: Module, way: str, path: Path) -> None:
    """Write a module as a program of torch.export or as ONNX."""
    inputs = entry.inputs()
    if way == "pt2":
        torch.export.save(torch.export.export(module, inputs, dynamic_shapes=entry.dynamic), path)
        return
    torch.onnx.export(module, inputs, str(path), dynamo=True, dynamic_shapes=entry.dynamic, verbose=False)


@dataclass(frozen=True)
class Row:
    """What became of a module: text for each column."""

    statements: str
    seconds: str
    difference: str
    agrees: bool


def tried(name: str, way: str, folder: Path) -> Row:
    """Export, import and verify a module."""
    torch.manual_seed(0)
    entry = MODULES[name]
    module = entry.make().eval()
    path = folder / f"{name.replace(' ', '_')}.{way}"
    exported(module, entry, way, path)
    begin = time.perf_counter()
    model = importers.load(path)
    imported_s = time.perf_counter() - begin
    checked = importers.verify(path, model)
    seconds = f"{imported_s:.1f} + {time.perf_counter() - begin - imported_s:.1f}"
    largest = max((difference.relative for difference in checked.outputs.values()), default=0.0)
    if not checked.agrees:
        print(f"{name} ({way}): {checked}", file=sys.stderr)
    return Row(str(model.report.statements), seconds, f"{largest:.1g}", checked.agrees)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(MODULES)}; all by default")
    parser.add_argument("--ways", nargs="+", choices=("pt2", "onnx"), default=["pt2", "onnx"])
    parser.add_argument("--keep", type=Path, help="leave the files in this folder")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    counts = dict.fromkeys(options.ways, 0)
    names = options.names or list(MODULES)
    columns = ("module", "way", "statements", "import + verification, s", "largest difference", "agrees")
    print(f"| {' | '.join(columns)} |\n{'|---' * len(columns)}|")
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        for name in names:
            for way in options.ways:
                try:
                    row = tried(name, way, folder)
                except Exception as error:  # noqa: BLE001 - a row of the table says what went wrong
                    traceback.print_exc(limit=-1)
                    row = Row("", "", type(error).__name__, agrees=False)
                counts[way] += row.agrees
                shown = "yes" if row.agrees else "no"
                print(f"| {name} | {way} | {row.statements} | {row.seconds} | {row.difference} | {shown} |", flush=True)
    print(", ".join(f"{count} of {len(names)} by {way}" for way, count in counts.items()))


if __name__ == "__main__":
    main()
