"""Persistent memory taken out of executors and put back (``specification: runtime.host.13``)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import openinfer as oi
from openinfer.dsl import graph
from openinfer.simulate import Executor, Simulator, Snapshot
from openinfer_oinf import OinfWriter, open_oinf

TEXT = """
dynamic { x: f32[2] @init(1.0); p: i4[3] @init(2); t: i32 @init(0); far: i32 @init(0); }
volatile { y: f32[2, 2]; }
persistent { n: i64 @init(5); w: bf16[2]; K(l, t_): f32[2] @table @fixed(l=2); S(i): i4[3] @table @init(-1);
  A(i, j): f32[2, 2] @auto_dim(i, j) @init(3.0); C(k, i, j): f32[2, 2] @table @auto_dim(i, j); }
block entry {
  cache.increment n;
  loop l (l in 0..2) { cache.write x >> K[l, t]; }
  cache.write p >> S[far];
  cache.read A[t, far] >> y;
  cache.read C[1, t, 0] >> y;
  return;
}
"""
VARIABLES = ("n", "w", "K", "S", "A", "C")


def executor(text: str = TEXT) -> Executor:
    return Simulator(oi.Model.from_arrays({}), graph(text)).make_executor()


def stepped() -> Executor:
    ex = executor()
    for t in range(3):
        ex.step(x=[t, -t], t=t, far=2 * t, p=[t, 1, 0])
    return ex


def values(ex: Executor) -> list[Any]:
    return [np.asarray(ex.fetch(name)).astype(float).tolist() for name in VARIABLES]


@pytest.mark.rule("runtime.host.13")
def test_a_snapshot_brings_everything_back() -> None:
    ex = stepped()
    before, snapshot = values(ex), ex.snapshot()
    ex.step(x=[9, 9], t=4, far=7)
    ex.reset()
    ex.restore(snapshot)
    assert values(ex) == before
    ex.step(x=[9, 9], t=3)
    assert ex.fetch("K").shape == (2, 4, 2)


def test_a_snapshot_is_not_changed_by_later_steps() -> None:
    ex = stepped()
    before, snapshot = values(ex), ex.snapshot()
    for _ in range(2):
        ex.step(x=[9, 9], t=1, far=1)
    other = executor()
    other.restore(snapshot)
    assert values(other) == before


@pytest.mark.rule("runtime.host.13")
def test_a_snapshot_survives_in_a_file(tmp_path: Path) -> None:
    ex = stepped()
    ex.snapshot().save(tmp_path / "state.oinf")
    other = executor()
    other.restore(tmp_path / "state.oinf")
    assert values(other) == values(ex)
    other.step(x=[7, 7], t=3, far=9)
    ex.step(x=[7, 7], t=3, far=9)
    assert values(other) == values(ex)


@pytest.mark.parametrize(("dtype", "value"), [("i1", -1), ("u2", 3), ("i4", -3), ("t1", 1), ("t2", -1)])
def test_initial_values_that_end_within_a_byte_survive_in_a_file(dtype: str, value: int, tmp_path: Path) -> None:
    ex = executor(f"persistent {{ P: {dtype}[3] @init({value}); }} block entry {{ return; }}")
    ex.step()

    ex.snapshot().save(tmp_path / "state.oinf")

    ex.restore(Snapshot.load(tmp_path / "state.oinf"))
    assert ex.fetch("P").tolist() == [value] * 3


@pytest.mark.rule("runtime.host.13")
def test_the_file_holds_tables_in_the_documented_form(tmp_path: Path) -> None:
    stepped().snapshot().save(tmp_path / "state.oinf")
    with oi.ModelLoader.open(tmp_path / "state.oinf") as file:
        assert file.sizevars == {
            "K.l.len": 2, "K.t_.len": 3, "A.i.count": 2, "A.j.count": 4, "C.i.count": 2, "C.j.count": 0
        }  # fmt: skip
        shapes = {name: info.shape for name, info in file.tensors.items()}
        assert shapes == {
            "n": (), "w": (2,), "K": (2, 3, 2), "S.0": (3,), "S.2": (3,), "S.4": (3,), "A": (4, 6), "C.1": (4, 2)
        }  # fmt: skip
        assert len(file.load_metadata_string("openinfer.graph")) == 64
        assert file.load_tensor("S.4").tolist() == [2, 1, 0]
        assert file.load_tensor("K")[1].tolist() == [[0, 0], [1, -1], [2, -2]]


def test_an_empty_table_is_saved_and_empties_another(tmp_path: Path) -> None:
    executor().snapshot().save(tmp_path / "state.oinf")
    ex = stepped()
    ex.restore(tmp_path / "state.oinf")
    assert values(ex) == values(executor())


@pytest.mark.rule("runtime.host.14")
def test_the_state_of_another_program_is_refused_unless_forced() -> None:
    ex = executor("persistent { n: i64; other: f32; } block entry { cache.increment n; return; }")
    with pytest.raises(oi.ExecutionError, match="another program") as caught:
        ex.restore(stepped().snapshot())
    assert caught.value.code == "state-mismatch"
    assert ex.fetch("n") == 0
    ex.restore(stepped().snapshot(), force=True)
    assert ex.fetch("n", "other") == (8, 0.0)


@pytest.mark.rule("runtime.host.14")
@pytest.mark.parametrize(("lost", "said"), [("n", "`n`"), ("K", "`K`"), ("S.", "`S`"), ("C.", "`C`")])
def test_a_state_without_a_variable_is_refused_unless_forced(lost: str, said: str) -> None:
    ex, whole = executor(), stepped().snapshot()
    tensors = {name: tensor for name, tensor in whole.tensors.items() if not name.startswith(lost)}
    partial, before = Snapshot(whole.graph, whole.sizes, tensors), values(ex)
    with pytest.raises(oi.ExecutionError, match=f"it has no {said}") as caught:
        ex.restore(partial)
    assert caught.value.code == "state-mismatch"
    assert values(ex) == before
    ex.restore(partial, force=True)
    assert values(ex) != before


@pytest.mark.rule("runtime.host.14")
@pytest.mark.parametrize(
    ("persistent", "error", "said"),
    [
        ("n: i32;", oi.DTypeError, r"`n` as i64\[\], the program needs i32\[\]"),
        ("w: bf16[3];", oi.ShapeError, r"`w` as bf16\[2\]"),
        ("K(a): f32[2] @table;", oi.ShapeError, "`K`"),
        ("K(l, t_): f32[2] @table @fixed(t_=2);", oi.CacheLimitError, "`t_` of `K` reaches 3: @fixed allows up to 2"),
        ("S(i): i4[3] @table @fixed(i=4);", oi.CacheLimitError, "`i` of `S` reaches 5"),
        ("A(i, j): f32[2, 2] @auto_dim(i, j) @fixed(j=3);", oi.CacheLimitError, "`j` of `A` reaches 4"),
        ("A(i, j): f32[2, 3] @auto_dim(i, j);", oi.ShapeError, r"needs f32\[4,7\]"),
    ],
)
def test_a_state_that_does_not_fit_changes_nothing(persistent: str, error: type[Exception], said: str) -> None:
    ex = executor(f"persistent {{ first: i32; {persistent} }} block entry {{ return; }}")
    before = ex.snapshot()
    with pytest.raises(error, match=said):
        ex.restore(stepped().snapshot(), force=True)
    assert {n: t.storage.tolist() for n, t in ex.snapshot().tensors.items()} == {
        n: t.storage.tolist() for n, t in before.tensors.items()
    }


def test_a_model_without_state_is_refused(tmp_path: Path) -> None:
    empty = Snapshot("hash", {}, {})
    empty.save(tmp_path / "state.oinf")
    assert Snapshot.load(tmp_path / "state.oinf").graph == "hash"
    from openinfer_oinf import save_file

    save_file({"n": np.int64(3)}, tmp_path / "model.oinf")
    with pytest.raises(oi.ExecutionError, match="holds no saved state"):
        executor().restore(tmp_path / "model.oinf")


def test_a_state_is_written_in_a_format_that_is_known(tmp_path: Path) -> None:
    executor().snapshot().save(tmp_path / "state.bin")
    assert Snapshot.load(tmp_path / "state.bin").sizes["A.i.count"] == 0
    with pytest.raises(oi.ModelError):
        executor().snapshot().save(tmp_path / "nowhere" / "state.oinf")


SMALL = """
dynamic { x: f32[2]; far: i32; }
persistent { n: i32; K(t): f32[2] @table; S(i): i4[3] @table; on: bitset[2]; }
block entry { cache.read n >> t; cache.write x >> K[t]; cache.read S[far] >> made; cache.increment n; return; }
"""


def small_state(path: Path) -> bytes:
    """Write the state of a program with a number, a table with all of its entries, and one with some."""
    ex = executor(SMALL)
    for far in (1, 3):
        ex.step(x=[far, -far], far=far)
    ex.snapshot().save(path)
    return path.read_bytes()


def damaged_at(data: bytes, place: int, mask: int) -> bytes:
    return data[:place] + bytes([data[place] ^ mask]) + data[place + 1 :]


@pytest.mark.rule("runtime.host.24")
def test_a_saved_state_with_any_byte_changed_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "state.oinf"
    whole = small_state(path)
    ex = executor(SMALL)
    ex.restore(path)
    before = ex.snapshot()
    for place in range(len(whole)):
        path.write_bytes(damaged_at(whole, place, 1 << place % 8))
        with pytest.raises((oi.ModelError, oi.ExecutionError)):
            ex.restore(path, force=True)
    after = ex.snapshot()
    assert {n: t.storage.tolist() for n, t in after.tensors.items()} == {
        n: t.storage.tolist() for n, t in before.tensors.items()
    }


@pytest.mark.rule("runtime.host.24")
def test_a_saved_state_that_is_cut_off_or_overwritten_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "state.oinf"
    whole = small_state(path)
    rng = np.random.default_rng(5)
    for _ in range(150):
        start, length = int(rng.integers(len(whole))), int(rng.integers(1, 64))
        part = whole[start : start + length]
        changed = [bytes(len(part)), rng.bytes(len(part)), whole[:length][: len(part)]][int(rng.integers(3))]
        found = whole[:start] + changed + whole[start + len(part) :]
        for data in (found, whole[:start]):
            if data == whole:
                continue
            path.write_bytes(data)
            with pytest.raises((oi.ModelError, oi.ExecutionError)):
                Snapshot.load(path)


@pytest.mark.rule("runtime.host.24")
def test_a_state_from_before_checksums_is_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "state.oinf"
    small_state(path)
    held = Snapshot.load(path)
    with OinfWriter(path) as writer:
        for name, size in held.sizes.items():
            writer.sizevar(name, size)
        writer.metadata("openinfer.graph", held.graph)
        for name, tensor in held.tensors.items():
            writer.declare(name, tensor.dtype.name, tensor.shape)
        for name, tensor in held.tensors.items():
            writer.write_raw(name, np.ascontiguousarray(tensor.storage).reshape(-1).view(np.uint8))
    assert Snapshot.load(path).digest() == held.digest()


def test_checksums_of_a_saved_state_are_those_of_the_container(tmp_path: Path) -> None:
    small_state(tmp_path / "state.oinf")
    with open_oinf(tmp_path / "state.oinf") as file:
        assert file.checksums.exist
        assert set(file.checksums.digests) == set(file)


GIVEN: dict[str, Any] = {
    "n": 7,
    "w": [0.5, -2.0],
    "K": np.arange(12, dtype=np.float32).reshape(2, 3, 2),
    "S": [[1, 2, 3], [-4, -5, -6]],
    "A": np.full((4, 3), 0.25, np.float32),
    "C": np.ones((2, 3, 2), np.float32),
}


@pytest.mark.rule("runtime.host.23")
def test_values_by_name_are_restored() -> None:
    ex = executor()
    ex.restore(GIVEN)
    assert values(ex) == [np.asarray(GIVEN[name]).astype(float).tolist() for name in VARIABLES]
    ex.step(t=1, far=2, x=[8, 9])
    assert ex.fetch("n") == 8
    assert ex.fetch("K")[:, 1].tolist() == [[8, 9], [8, 9]]
    assert ex.fetch("A").shape == (4, 4)


@pytest.mark.rule("runtime.host.23")
@pytest.mark.parametrize("name", VARIABLES)
def test_variables_that_are_not_named_keep_their_values(name: str) -> None:
    ex, untouched = stepped(), stepped()
    ex.restore({name: GIVEN[name]})
    for variable, value, before in zip(VARIABLES, values(ex), values(untouched), strict=True):
        assert value == (np.asarray(GIVEN[name]).astype(float).tolist() if variable == name else before)


@pytest.mark.rule("runtime.host.23")
@pytest.mark.parametrize(
    ("name", "value", "error", "said"),
    [
        ("nn", 1, oi.ExecutionError, "unknown variable `nn`: did you mean `n`?"),
        ("x", [1, 2], oi.ExecutionError, "`x` is dynamic: only persistent variables keep a value"),
        (3, 1, oi.ExecutionError, "restore takes the names of variables as strings, found int: 3"),
        ("w", [1, 2, 3], oi.ShapeError, r"`w` is declared bf16\[2\], found a value of shape \[3\]"),
        ("w", np.ones(2), oi.DTypeError, "`w` is declared bf16, found an array of float64"),
        ("n", "7", oi.DTypeError, "`n` takes numbers, lists of them or arrays, found str"),
        ("K", np.ones((2, 2), np.float32), oi.ShapeError, r"rank 3 \[l, t_, 2\], found shape \[2, 2\]"),
        ("K", np.ones((3, 1, 2), np.float32), oi.CacheLimitError, "`l` of `K` reaches 3: @fixed allows up to 2"),
        ("K", [[[1, 2]], [[3]]], oi.ShapeError, "`K`"),
        ("S", [[9, 0, 0]], oi.DTypeError, "`S`"),
        ("A", np.ones((1, 2), np.float32), oi.ShapeError, "`A`"),
    ],
)
def test_values_by_name_that_do_not_fit_change_nothing(
    name: Any, value: Any, error: type[Exception], said: str
) -> None:
    ex = stepped()
    before = values(ex)
    with pytest.raises(error, match=said):
        ex.restore({"n": 100, name: value})
    assert values(ex) == before


@pytest.mark.rule("runtime.host.23")
@pytest.mark.parametrize("device", ["cpu", "c", "vulkan"])
@pytest.mark.usefixtures("needs_device")
def test_devices_that_keep_variables_take_values_by_name(device: str) -> None:
    text = """
    dynamic { x: f32[2]; } volatile { y: f32[2]; } persistent { h: f32[2]; n: i32; K(t): f32[2] @table; }
    block entry {
      cache.read h >> old; op add(old, x) >> y; cache.write y >> h; cache.read n >> at; cache.write y >> K[at];
      cache.increment n; return y;
    }
    """
    simulator = Simulator(oi.Model.from_arrays({}), graph(text), device=device, limits={"t": 8})
    with simulator.make_executor() as ex:
        ex.step(x=[1, 1])
        ex.restore({"h": [10, 20], "n": 2, "K": np.array([[1, 2], [3, 4]], np.float32)})
        ex.step(x=[1, 1])
        assert ex.outputs()["y"].tolist() == [11, 21]
        assert ex.fetch("K").tolist() == [[1, 2], [3, 4], [11, 21]]
        ex.restore({"h": [0, 0]})
        ex.step(x=[1, 1])
        assert ex.fetch("K").tolist() == [[1, 2], [3, 4], [11, 21], [1, 1]]
        ex.reset()
        assert (ex.fetch("n"), ex.fetch("h").tolist()) == (0, [0, 0])


def test_snapshots_wait_for_the_step_to_end() -> None:
    ex = executor()
    run = ex.iterate()
    next(run)
    with pytest.raises(oi.StepStateError, match="take a snapshot"):
        ex.snapshot()
    with pytest.raises(oi.StepStateError, match="restore memory"):
        ex.restore(Snapshot("", {}, {}))
    with pytest.raises(oi.StepStateError, match="restore memory"):
        ex.restore({"n": 1})
