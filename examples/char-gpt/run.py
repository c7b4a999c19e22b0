"""Decodes with a character GPT everywhere: a prompt in one step, then token by token; compares with PyTorch.

`python run.py` needs no PyTorch. `--say TEXT` goes on from another prompt, with `--temperature` and `--seed`;
`--time` measures a step, `--picture` draws `shares.svg`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

sys.path.append(str(Path(__file__).resolve().parents[1]))

import agreement

import openinfer as oi
from openinfer.synth import Synthesis

HERE = Path(__file__).resolve().parent
MOST = 1e-3
"""Largest difference of logits, whose magnitudes are near 10."""

PAST = 128
"""Tokens before the one that is measured."""

TEMPERATURE = np.float32(0.8)


def stream(
    executor: oi.Executor, prompt: agreement.Array, count: int, **settings: np.generic
) -> Iterator[tuple[int, agreement.Array]]:
    """Yield tokens and the logits after them: the prompt in one step, then each token in a step of its own."""
    executor.reset()
    ids = prompt
    for _ in range(count):
        executor.step(ids=ids, **settings)
        ids, logits = executor.fetch("token", "logits")
        yield int(ids[0]), logits


def sampled(logits: agreement.Array, number: int, seed: int) -> int:
    """Return the token that the program draws as its `number`-th: the same arithmetic in NumPy."""
    bits = (number * 0x9E3779B9 + seed) & 0xFFFFFFFF
    bits = ((bits ^ bits >> 16) * 0x7FEB352D) & 0xFFFFFFFF
    bits = ((bits ^ bits >> 15) * 0x846CA68B) & 0xFFFFFFFF
    uniform = ((bits ^ bits >> 16) >> 8) * 2.0**-24
    best = np.argsort(-logits, kind="stable")[:20]
    powers = np.exp((logits[best] - logits[best[0]]) / TEMPERATURE)
    return int(best[min(19, np.count_nonzero(np.cumsum(powers / powers.sum()) <= uniform))])


GREEDY = {"cpu": 160, "c": 160, "vulkan": 24}
"""Tokens that a device generates; a software Vulkan device takes long for each."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--say", metavar="TEXT", help="go on from this text")
    parser.add_argument("--temperature", type=float, default=0.8)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--time", action="store_true", help="measure microseconds a token")
    parser.add_argument("--onnx", type=Path, help="with --time: the step that train.py exported, for onnxruntime")
    parser.add_argument("--picture", action="store_true", help="draw shares.svg")
    options = parser.parse_args()
    model, graph = oi.ModelLoader.open(HERE / "gpt.oinf"), oi.load_graph(HERE / "gpt.oi")
    characters = bytes(model.metadata["characters.utf8"]).decode()
    if options.say is not None:
        prompt = np.array([characters.index(character) for character in options.say], np.int64)
        settings = {"temperature": np.float32(options.temperature), "seed": np.uint32(options.seed)}
        print(options.say, end="")
        executor = oi.Simulator(model).make_executor(graph)
        for token, _ in stream(executor, prompt, model.size_of("C") - len(prompt), **settings):
            print(characters[token], end="", flush=True)
        print()
        return 0

    with np.load(HERE / "golden.npz", allow_pickle=False) as golden:
        prompt, tokens, logits = (golden[name] for name in ("prompt", "tokens", "logits"))
    print("".join(characters[token] for token in [*prompt, *tokens]))
    claims = agreement.Claims()
    if options.picture:
        powers = np.exp(logits - logits.max(axis=1, keepdims=True))
        lines = {"share of the chosen character": powers.max(axis=1) / powers.sum(axis=1)}
        agreement.write_chart(HERE / "shares.svg", "How sure the model is of each character that it generates", lines)
    if options.time:
        measure(model, graph, np.concatenate([prompt, tokens]), options.onnx)
        return 0

    def on_device(device: str) -> None:
        executor = oi.Simulator(model, device=device).make_executor(graph)
        count = GREEDY[device]
        found, rows = zip(*stream(executor, prompt, count), strict=True)
        holds = list(found) == tokens[:count].tolist()
        claims.check(f"device {device}, {count} greedy tokens are PyTorch's", holds=holds)
        claims.near(f"device {device}, logits", np.array(rows), logits[:count], MOST)
        drawn = list(stream(executor, prompt, count // 4, temperature=TEMPERATURE, seed=np.uint32(7)))
        wanted = [sampled(row, number + 1, 7) for number, (_, row) in enumerate(drawn)]
        claims.check(f"device {device}, sampled tokens are NumPy's", holds=[token for token, _ in drawn] == wanted)

    agreement.on_each_device(on_device)
    as_c(model, graph, prompt, tokens, claims)
    return 1 if claims.failed else 0


def as_c(
    model: oi.Model, graph: oi.Graph, prompt: agreement.Array, tokens: agreement.Array, claims: agreement.Claims
) -> None:
    """Check the synthesised programs, whose steps all take one token."""
    ids = np.concatenate([prompt, tokens[:-1]])
    steps = {"ids": ids[:, None], "temperature": np.zeros(len(ids), np.float32), "seed": np.ones(len(ids), np.uint32)}

    def made(target: str) -> Synthesis:
        return oi.Synthesizer(target).synthesize(model, graph, sizes={"S": 1})

    for target, outputs in agreement.on_each_target(made, steps, len(ids)):
        found = outputs["token"][len(prompt) - 1 :, 0]
        claims.check(f"target {target}, greedy tokens are PyTorch's", holds=found.tolist() == tokens.tolist())
    print(agreement.shown_sizes(made("c").plan))


def measure(model: oi.Model, graph: oi.Graph, ids: agreement.Array, exported: Path | None) -> None:
    """Print microseconds of a token after 128 others."""
    calls = {}
    one = ids[PAST : PAST + 1]
    for device in agreement.DEVICES:
        try:
            executor = oi.Simulator(model, device=device).make_executor(graph)
        except oi.DeviceError:
            continue
        executor.step(ids=ids[:PAST])
        calls[f"device {device}"] = lambda step=executor.step: step(ids=one)
    if exported is not None:
        past = np.zeros((model.size_of("L"), 2, 1, model.size_of("H"), PAST, model.size_of("Dh")), np.float32)
        calls |= agreement.onnxruntime_call(exported, {"ids": one[None], "past": past})
    agreement.print_times(agreement.fastest(calls))


if __name__ == "__main__":
    sys.exit(main())
