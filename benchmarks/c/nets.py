"""Networks with random weights, each twice: as a program with a model, and as an ONNX model of the same arithmetic.

The first four have the shapes of MLPerf Tiny's reference models, batch norms folded into the weights; `decoder_layer`
is a layer of GPT-2's small size for one token after 255 others. `cached_layer` is the same with a cache: persistent
memory of the program, past and present keys and values of the ONNX model.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from byte_layers import QuantisedBuilder, SmallWeights
from imported_nets import as_halves, cumsum, dilated, magika, swin
from net_builder import Builder, Net


def resnet8(kind: type[Builder] = Builder) -> Net:
    """Image classification: 3x32x32, three residual stages."""
    b = kind(1)
    x = b.conv(b.input("image", 1, 3, 32, 32), "stem", 16, (3, 3))
    y = b.conv(b.conv(x, "a1", 16, (3, 3)), "a2", 16, (3, 3), relu=False)
    x = b.add(x, y, "a", relu=True)
    for stage, channels in (("b", 32), ("c", 64)):
        y = b.conv(x, f"{stage}1", channels, (3, 3), (2, 2))
        y = b.conv(y, f"{stage}2", channels, (3, 3), relu=False)
        short = b.conv(x, f"{stage}0", channels, (1, 1), (2, 2), relu=False)
        x = b.add(short, y, stage, relu=True)
    b.classes(x, 10)
    return b.net("ResNet-8")


def mobilenet(side: int = 96, scale: float = 0.25, classes: int = 2, *, kind: type[Builder] = Builder) -> Net:
    """Visual wake words: MobileNetV1, depthwise separable convolutions."""
    b = kind(2)
    x = b.conv(b.input("image", 1, 3, side, side), "stem", int(32 * scale), (3, 3), (2, 2))
    blocks = [(64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *[(512, 1)] * 5, (1024, 2), (1024, 1)]
    for number, (wide, stride) in enumerate(blocks):
        x = b.conv(x, f"d{number}", b.shapes[x][1], (3, 3), (stride, stride), depthwise=True)
        x = b.conv(x, f"p{number}", int(wide * scale), (1, 1))
    b.classes(x, classes)
    return b.net(f"MobileNetV1 {scale} {side}²", tolerance=1e-4)


def autoencoder(kind: type[Builder] = Builder) -> Net:
    """Anomaly detection: ten layers of products."""
    b = kind(3)
    x = b.input("frame", 1, 640)
    widths = [128, 128, 128, 128, 8, 128, 128, 128, 128, 640]
    for number, width in enumerate(widths):
        x = b.linear(x, f"y{number}", width, relu=number < len(widths) - 1)
    b.output(x)
    return b.net("FC autoencoder")


def ds_cnn(kind: type[Builder] = Builder) -> Net:
    """Keyword spotting: 49 frames of 10 coefficients."""
    b = kind(4)
    x = b.conv(b.input("frames", 1, 1, 49, 10), "stem", 64, (10, 4), (2, 2))
    for number in range(4):
        x = b.conv(x, f"d{number}", 64, (3, 3), depthwise=True)
        x = b.conv(x, f"p{number}", 64, (1, 1))
    b.classes(x, 12)
    return b.net("DS-CNN")


def decoder_layer(b: Builder | None = None, width: int = 768, heads: int = 12, tokens: int = 256) -> Net:
    """A layer of GPT-2's small size: one token, keys and values of the others are inputs."""
    b = b or Builder(5)
    b.output(_decoder_layer(b, b.input("x", 1, width), "", heads, tokens))
    return b.net("GPT-2 layer", tolerance=1e-4)


def decoder(layers: int = 2, width: int = 128, heads: int = 4, tokens: int = 201) -> Net:
    """A small decoder: one token, keys and values of the others are inputs of each layer."""
    b = Builder(9)
    x = b.input("x", 1, width)
    for number in range(layers):
        x = _decoder_layer(b, x, f"l{number}_", heads, tokens)
    b.output(x)
    return b.net(f"decoder of {layers} layers", tolerance=1e-4)


def cached_layer(width: int = 768, heads: int = 12, past: int = 256, room: int = 1024) -> Net:
    """A layer of GPT-2's small size with its cache: one token after others, of which there may be ``room`` in all."""
    b = Builder(10)
    x = b.input("x", 1, width)
    parts = _projected(b, x, "", heads)
    b.output(_fed_forward(b, x, _attended_to_cache(b, parts, heads, past, room), ""))
    return b.net(f"GPT-2 layer with a cache of {past}", tolerance=1e-4)


def _decoder_layer(b: Builder, x: str, prefix: str, heads: int, tokens: int) -> str:
    """Append a layer for one token after others; the names of its values begin with a prefix."""
    depth, past = b.shapes[x][1] // heads, tokens - 1
    b.input(f"{prefix}keys", heads, past, depth)
    b.input(f"{prefix}values", heads, past, depth)
    parts = _projected(b, x, prefix, heads)
    return _fed_forward(b, x, _attended(b, parts, prefix, tokens), prefix)


def _projected(b: Builder, x: str, prefix: str, heads: int) -> list[str]:
    """Append the query, key and value of a token [heads, 1, depth]."""
    width = b.shapes[x][1]
    row, head = (1, width), (heads, 1, width // heads)
    qkv, thirds = f"{prefix}qkv", f"{prefix}thirds"
    b.linear(_layer_norm(b, x, f"{prefix}n1"), qkv, 3 * width, scale=0.02)
    parts = [f"{prefix}{name}0" for name in "qkv"]
    made = dict.fromkeys(parts, row)
    b.line(f"op split({qkv}, axis=1, sizes=[{width}, {width}, {width}]) >> {', '.join(parts)};", **made)
    b.node("Split", (qkv, b.integers(thirds, width, width, width)), *parts, axis=1)
    for part in parts:
        name = part[:-1]
        b.line(f"op reshape({part}, shape={list(head)}) >> {name};", **{name: head})
        b.node("Reshape", (part, b.integers(f"{name}_shape", *head)), name)
    return [part[:-1] for part in parts]


def _attended(b: Builder, parts: Sequence[str], prefix: str, tokens: int) -> str:
    """Append the attention of a query to keys and values that are inputs, and to its own."""
    q, k, v = parts
    heads, _, depth = b.shapes[q]
    every = (heads, tokens, depth)
    for name, old, new in (("all_keys", "keys", k), ("all_values", "values", v)):
        whole = f"{prefix}{name}"
        b.line(f"op concat({prefix}{old}, {new}, axis=1) >> {whole};", **{whole: every})
        b.node("Concat", (f"{prefix}{old}", new), whole, axis=1)
    keys, scores, scaled = f"{prefix}all_keys", f"{prefix}scores", f"{prefix}scaled"
    b.line(f"op matmul({q}, {keys}, trans_b=true) >> {scores};", **{scores: (heads, 1, tokens)})
    scale_by = b.weight(f"{prefix}scale_by", np.full((1,), 1 / math.sqrt(depth)))
    b.line(f"op mul({scores}, {scale_by}) >> {scaled};", **{scaled: (heads, 1, tokens)})
    chances, mixed = f"{prefix}chances", f"{prefix}mixed"
    b.line(f"op softmax({scaled}, axis=2) >> {chances};", **{chances: (heads, 1, tokens)})
    b.line(f"op matmul({chances}, {prefix}all_values) >> {mixed};", **{mixed: (heads, 1, depth)})
    _attention_nodes(b, q, keys, f"{prefix}all_values", prefix)
    attended = f"{prefix}attended"
    b.line(f"op reshape({mixed}, shape=[1, {heads * depth}]) >> {attended};", **{attended: (1, heads * depth)})
    b.multiply_adds += 2 * heads * tokens * depth
    return attended


def _attended_to_cache(b: Builder, parts: Sequence[str], heads: int, past: int, room: int) -> str:
    """Append the attention of a query to keys and values in a cache, after its own were appended to it."""
    q, k, v = parts
    _, _, depth = b.shapes[q]
    b.counter("n", past)
    b.line("cache.read n >> at;")
    for name, new, cache in (("keys", k, "K"), ("values", v, "V")):
        array = b.cache(cache, "t", past, room, heads, depth)
        b.past(f"past_{name}", array.transpose(1, 0, 2), f"present_{name}")
        b.node("Concat", (f"past_{name}", new), f"present_{name}", axis=1)
        b.line(f"op reshape({new}, shape=[{heads}, {depth}]) >> {new}_row;", **{f"{new}_row": (heads, depth)})
        b.line(f"cache.write {new}_row >> {cache}[at];")
        b.line(f"cache.read {cache}[0..at + 1] >> {name};")
    row = (1, heads * depth)
    b.line(f"op reshape({q}, shape=[1, {heads * depth}]) >> q_row;", q_row=row)
    b.line("op attn(q_row, keys, values) >> attended;", attended=row)
    b.line("cache.increment n;")
    b.weight("scale_by", np.full((1,), 1 / math.sqrt(depth)), is_used=False)
    _attention_nodes(b, q, "present_keys", "present_values", "")
    b.multiply_adds += 2 * heads * (past + 1) * depth
    return "attended"


def _attention_nodes(b: Builder, q: str, keys: str, values: str, prefix: str) -> None:
    heads, _, depth = b.shapes[q]

    def of(name: str) -> str:
        return f"{prefix}{name}"

    b.node("Transpose", (keys,), of("keys_t"), perm=[0, 2, 1])
    b.node("MatMul", (q, of("keys_t")), of("scores"))
    b.node("Mul", (of("scores"), of("scale_by")), of("scaled"))
    b.node("Softmax", (of("scaled"),), of("chances"), axis=2)
    b.node("MatMul", (of("chances"), values), of("mixed"))
    b.node("Reshape", (of("mixed"), b.integers(of("row"), 1, heads * depth)), of("attended"))


def _fed_forward(b: Builder, x: str, attended: str, prefix: str) -> str:
    """Append what comes after the attention of a layer."""

    def of(name: str) -> str:
        return f"{prefix}{name}"

    width = b.shapes[x][1]
    x1 = b.add(x, b.linear(attended, of("projected"), width, scale=0.02), of("x1"))
    h, active = b.linear(_layer_norm(b, x1, of("n2")), of("wide"), 4 * width, scale=0.02), of("active")
    b.line(f'op gelu({h}, approximate="tanh") >> {active};', **{active: (1, 4 * width)})
    b.node("Gelu", (h,), active, approximate="tanh")
    return b.add(x1, b.linear(active, of("narrow"), width, scale=0.02), of("y"))


def _layer_norm(b: Builder, x: str, y: str) -> str:
    width = b.shapes[x][1]
    gain = b.weight(f"{y}_g", 1 + 0.1 * b.rng.standard_normal(width))
    bias = b.normal(f"{y}_b", 0.1, width)
    b.line(f"op layer_norm({x}, {gain}, {bias}, eps=1e-5) >> {y};", **{y: (1, width)})
    b.node("LayerNormalization", (x, gain, bias), y, axis=-1, epsilon=1e-5)
    return y


def lstm_cell(width: int = 128) -> Net:
    """One step of an LSTM cell: two products, three sigmoids, two tanhs."""
    b = Builder(6)
    b.input("x", 1, width)
    b.input("h", 1, width)
    b.input("c", 1, width)
    row = (1, width)
    b.add(b.linear("x", "from_x", 4 * width, scale=0.1), b.linear("h", "from_h", 4 * width, scale=0.1), "gates")
    sizes = ", ".join([str(width)] * 4)
    b.line(f"op split(gates, axis=1, sizes=[{sizes}]) >> i0, f0, g0, o0;", i0=row, f0=row, g0=row, o0=row)
    b.node("Split", ("gates", b.integers("quarters", *[width] * 4)), "i0", "f0", "g0", "o0", axis=1)
    for name, function in (("i", "sigmoid"), ("f", "sigmoid"), ("g", "tanh"), ("o", "sigmoid")):
        _call(b, function, f"{name}0", y=name)
    _call(b, "mul", "f", "c", y="kept")
    _call(b, "mul", "i", "g", y="new")
    _call(b, "add", "kept", "new", y="c_next")
    _call(b, "tanh", "c_next", y="squashed")
    _call(b, "mul", "o", "squashed", y="h_next")
    b.output("h_next")
    b.output("c_next")
    return b.net("LSTM cell", tolerance=1e-4)


def _call(b: Builder, function: str, *inputs: str, y: str) -> None:
    b.line(f"op {function}({', '.join(inputs)}) >> {y};", **{y: b.shapes[inputs[0]]})
    b.node(function.capitalize(), inputs, y)


def audio_front() -> Net:
    """Half a second of 16 kHz audio through a strided convolution: 64 filters of 400 samples, every 160."""
    b = Builder(7)
    x = b.input("samples", 1, 1, 1, 8000)
    b.output(b.conv(x, "features", 64, (1, 400), (1, 160), padding=(0, 0, 0, 0)))
    return b.net("1-D convolution front end", tolerance=1e-4)


def depthwise() -> Net:
    """A depthwise convolution of 3x3 over 64 channels at 112²."""
    b = Builder(8)
    b.output(b.conv(b.input("x", 1, 64, 112, 112), "y", 64, (3, 3), depthwise=True))
    return b.net("depthwise 3x3 112²")


NETS: Mapping[str, Callable[[], Net]] = {
    "resnet8": resnet8,
    "mobilenet": mobilenet,
    "autoencoder": autoencoder,
    "ds_cnn": ds_cnn,
    "resnet8_int8": lambda: resnet8(QuantisedBuilder),
    "mobilenet_int8": lambda: mobilenet(kind=QuantisedBuilder),
    "autoencoder_int8": lambda: autoencoder(QuantisedBuilder),
    "ds_cnn_int8": lambda: ds_cnn(QuantisedBuilder),
    "gpt2": decoder_layer,
    "gpt2_int8": lambda: decoder_layer(SmallWeights(5, bits=8)),
    "gpt2_int4": lambda: decoder_layer(SmallWeights(5, bits=4, group=32)),
    "gpt2_cached": cached_layer,
    "gpt2_cached_1024": lambda: cached_layer(past=1024, room=2048),
    "decoder": decoder,
    "lstm": lstm_cell,
    "audio": audio_front,
    "mobilenet224": lambda: mobilenet(224, 1.0, 1000),
    "depthwise": depthwise,
    "resnet8_f16": lambda: as_halves(resnet8()),
    "mobilenet_f16": lambda: as_halves(mobilenet()),
    "autoencoder_f16": lambda: as_halves(autoencoder()),
    "ds_cnn_f16": lambda: as_halves(ds_cnn()),
    "gpt2_f16": lambda: as_halves(decoder_layer()),
    "cumsum": cumsum,
    "dilated": dilated,
    "swin": swin,
    "magika": magika,
}
