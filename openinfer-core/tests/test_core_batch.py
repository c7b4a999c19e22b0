"""Batches without a device: messages to workers, inputs and results in files, and the order and retries of inputs."""

from __future__ import annotations

import struct
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import openinfer as oi
from openinfer.cli.batch_results import FolderResults, StackedResults
from openinfer.dtypes import BF16, F32, I4
from openinfer.simulate.batch import Job, Session, WorkerLostError
from openinfer.simulate.batch.answers import Outcome, decode_answer, encode_error, encode_outputs
from openinfer.simulate.batch.batch import only_input
from openinfer.simulate.batch.frames import decode, decode_values, encode_values
from openinfer.simulate.batch.inputs import open_inputs
from openinfer.simulate.batch.job import ReceivedJob
from openinfer.simulate.batch.schedule import Task, outcomes
from openinfer.simulate.values import Tensor
from openinfer.testing.waiting import limit_s

STATEFUL = oi.graph("dynamic { x: i32; } persistent { n: i32; } block entry { return x; }")
STATELESS = oi.graph("dynamic { x: i32; } block entry { return x; }")


def job_of(graph: oi.Graph = STATELESS, **options: object) -> Job:
    return Job(graph=graph, model=oi.Model.from_arrays({}), sizes={}, **options)


# Messages

TYPES = [np.dtype(t) for t in ("?", "i1", "u2", "<i4", ">i8", "f2", "f4", "f8", "c8")]
TYPES += [np.dtype(ml_dtypes.bfloat16), np.dtype(ml_dtypes.float8_e5m2), np.dtype("V2")]


@st.composite
def arrays(draw: st.DrawFn) -> np.ndarray:
    dtype = draw(st.sampled_from(TYPES))
    shape = tuple(draw(st.lists(st.integers(0, 3), max_size=3)))
    size = int(np.prod(shape)) * dtype.itemsize
    array = np.frombuffer(bytearray(draw(st.binary(min_size=size, max_size=size))), np.uint8)
    # Bytes other than 0 and 1 are not bools.
    return ((array & 1) if dtype.kind == "b" else array).view(dtype).reshape(shape)


numbers = st.booleans() | st.integers() | st.floats()
values = numbers | st.recursive(st.lists(numbers, max_size=3), lambda e: st.lists(e, max_size=3)) | arrays()


@given(st.dictionaries(st.text(max_size=4), values, max_size=4))
@settings(max_examples=150)
def test_values_come_out_as_they_went_in(sent: dict[str, object]) -> None:
    got = decode_values(encode_values(sent))
    assert list(got) == list(sent)
    for name, value in sent.items():
        if isinstance(value, np.ndarray):
            assert (got[name].dtype, got[name].shape) == (value.dtype, value.shape)
            assert got[name].tobytes() == value.tobytes()
        else:
            assert repr(got[name]) == repr(value)


def test_columns_first_and_parts_of_arrays_are_sent_in_c_order() -> None:
    a = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    got = decode_values(encode_values({"t": a.T, "part": a[:, ::2, 1]}))
    assert got["t"].tolist() == a.T.tolist()
    assert got["part"].tolist() == [[1, 9], [13, 21]]
    assert got["t"].flags.writeable


@pytest.mark.parametrize(
    "value", [object(), "text", np.array([object()]), [object()], {"a": 1}, np.array(["x"], object)]
)
def test_what_is_no_number_is_refused(value: object) -> None:
    with pytest.raises(oi.DTypeError) as caught:
        encode_values({"x": value})
    assert caught.value.code == "insert-mismatch"


@given(st.binary(max_size=60))
@settings(max_examples=150)
def test_damaged_bytes_are_an_error_and_no_more(data: bytes) -> None:
    with pytest.raises(oi.SerializationError, match="damaged"):
        decode(data)


@given(st.integers(0, 200), st.integers(0, 255))
@settings(max_examples=150)
def test_a_changed_byte_is_an_error_or_other_values(place: int, byte: int) -> None:
    frame = bytearray(encode_values({"x": np.arange(3, dtype=np.float32), "n": 1}))
    frame[place % len(frame)] = byte
    with suppress(oi.SerializationError):
        decode(bytes(frame))


def test_objects_are_never_made_from_bytes() -> None:
    frame = encode_values({"x": np.arange(2, dtype=np.float64)}).replace(b'"<f8"', b'"|O8"')
    with pytest.raises(oi.SerializationError):
        decode(frame)


@pytest.mark.parametrize(
    "tensor",
    [
        Tensor(F32, (2,), np.array([1, np.nan], np.float32)),
        Tensor(BF16, (1, 2), np.array([[1, 2]], ml_dtypes.bfloat16)),
        Tensor(I4, (3,), np.array([0x21, 0x03], np.uint8)),
        Tensor(F32, (), np.array(2, np.float32)),
        Tensor(F32, (0, 2), np.zeros((0, 2), np.float32)),
    ],
)
def test_outputs_keep_type_shape_and_storage(tensor: Tensor) -> None:
    got = decode_answer(3, "c", encode_outputs({"y": tensor}))
    assert (got.index, got.name, got.error) == (3, "c", None)
    assert (got.outputs["y"].dtype, got.outputs["y"].shape) == (tensor.dtype, tensor.shape)
    assert got.outputs["y"].storage.tobytes() == tensor.storage.tobytes()


def test_errors_keep_class_code_message_and_place() -> None:
    sent = oi.ShapeError("no", code="insert-mismatch", block="entry", node_index=4, node_desc="op f")
    got = decode_answer(0, "", encode_error(sent)).error
    assert (type(got), got.code, str(got)) == (oi.ShapeError, "insert-mismatch", "no")
    assert (got.block, got.node_index, got.node_desc) == ("entry", 4, "op f")
    assert isinstance(decode_answer(0, "", encode_error(oi.PluginError("p"))).error, oi.PluginError)
    assert isinstance(decode_answer(0, "", encode_error(oi.DeviceError("d"))).error, oi.DeviceError)
    assert str(decode_answer(0, "", encode_error(KeyError("k"))).error) == "KeyError: 'k'"


def test_a_model_in_memory_is_sent_with_sizes_tensors_and_metadata() -> None:
    metadata = {"name": "é", "k": 2.5, "n": -3, "on": True, "a": np.array([1, 2], np.int16)}
    bf16 = np.array([1, 2], ml_dtypes.bfloat16)
    model = oi.Model.from_arrays({"w": bf16, "v": np.eye(2)}, sizevars={"B": 2}, metadata=metadata)
    sent = Job(graph=STATEFUL, model=model, sizes={"B": 3}, device="d", outputs=("x",), steps=2, keep_state=True)

    received = ReceivedJob.from_bytes(sent.to_bytes())
    got = received.job(model)

    assert got.graph == STATEFUL
    assert (got.sizes, got.device, got.outputs, got.steps, got.keep_state) == ({"B": 3}, "d", ("x",), 2, True)
    tensors = {name: received.arrays[place] for name, place in received.model["tensors"].items()}
    assert tensors["w"].dtype == bf16.dtype
    assert tensors["v"].tolist() == [[1, 0], [0, 1]]
    assert received.model["sizevars"] == {"B": 2}
    assert received.model["metadata"]["name"] == {"value": "é"}
    assert received.arrays[received.model["metadata"]["a"]["array"]].tolist() == [1, 2]


def test_an_environment_of_the_program_is_not_sent() -> None:
    with pytest.raises(oi.PluginError, match="in-process"):
        job_of(environment=oi.Environment()).to_bytes()


# The order of inputs, retries and the look-ahead


def number(request: bytes) -> int:
    return decode_values(request)["x"]


def answer(value: int) -> bytes:
    return encode_outputs({"x": Tensor(oi.Environment.default().dtypes["i32"], (), np.array(value, np.int32))})


class Worker:
    """Answers with the running sum of what it was given, which is the memory that a lost worker takes along."""

    def __init__(self, runner: Runner) -> None:
        self.runner = runner
        self.sum = 0
        self.closed = False

    def run(self, request: bytes) -> bytes:
        assert not self.closed
        x = number(request)
        self.runner.before(x)
        self.sum += x
        return answer(self.sum if self.runner.sums else x)

    def close(self) -> None:
        assert not self.closed
        self.closed = True


class Runner:
    def __init__(self, workers: int, before: Callable[[int], None] = lambda _: None, *, sums: bool = False) -> None:
        self.workers = workers
        self.inline = False
        self.before = before
        self.sums = sums
        self.started: list[Worker] = []
        self.closed = 0

    def start(self, _: Job) -> Worker:
        self.started.append(Worker(self))
        return self.started[-1]

    def close(self) -> None:
        self.closed += 1


def tasks(count: int, taken: list[int] | None = None) -> Iterator[Task]:
    for index in range(count):
        if taken is not None:
            taken.append(index)
        yield Task.given(index, f"input {index}", {"x": index})


def run(runner: Runner, count: int, *, retries: int = 2, look_ahead: int = 6, job: Job | None = None) -> list[Outcome]:
    return list(outcomes(runner, job or job_of(), tasks(count), look_ahead=look_ahead, retries=retries))


def results(found: list[Outcome]) -> list[int | str]:
    return [o.error.code if o.error is not None else int(o.outputs["x"].array) for o in found]


@pytest.mark.parametrize("workers", [1, 2, 5])
def test_results_come_in_order_whatever_takes_how_long(workers: int) -> None:
    runner = Runner(workers, lambda x: time.sleep(0.02 if x % 4 == 0 else 0))
    assert results(run(runner, 17)) == list(range(17))
    assert len(runner.started) <= workers
    assert all(worker.closed for worker in runner.started)
    assert runner.closed == 1


@pytest.mark.parametrize("look_ahead", [1, 3])
def test_no_more_inputs_are_taken_than_the_look_ahead(look_ahead: int) -> None:
    taken: list[int] = []
    found = outcomes(Runner(2), job_of(), tasks(20, taken), look_ahead=look_ahead, retries=0)
    for yielded, outcome in enumerate(found):
        assert outcome.index == yielded
        assert len(taken) <= yielded + look_ahead


def test_an_endless_stream_gives_results_at_once() -> None:
    def endless() -> Iterator[Task]:
        yield from tasks(3)
        raise AssertionError("asked for more than is needed")

    found = outcomes(Runner(2), job_of(), endless(), look_ahead=2, retries=0)
    assert next(found).index == 0
    found.close()


def test_an_input_whose_worker_is_lost_is_run_again() -> None:
    once = iter([True])

    def before(x: int) -> None:
        if x == 3 and next(once, False):
            raise WorkerLostError("gone")

    runner = Runner(2, before)
    assert results(run(runner, 6)) == list(range(6))
    assert all(worker.closed for worker in runner.started)


@pytest.mark.parametrize("retries", [0, 2])
def test_an_input_that_always_loses_its_worker_fails_and_the_rest_go_on(retries: int) -> None:
    tried: list[int] = []

    def before(x: int) -> None:
        if x == 2:
            tried.append(x)
            raise WorkerLostError("gone")

    assert results(run(Runner(2, before), 5, retries=retries)) == [0, 1, "worker-lost", 3, 4]
    assert len(tried) == retries + 1


def test_the_memory_of_a_lost_worker_is_made_again_from_the_inputs_before() -> None:
    losses = {4, 7}

    def before(x: int) -> None:
        if x in losses:
            losses.remove(x)
            raise WorkerLostError("gone")

    runner = Runner(1, before, sums=True)
    found = run(runner, 9, job=job_of(STATEFUL, keep_state=True))
    assert results(found) == [sum(range(index + 1)) for index in range(9)]
    assert len(runner.started) == 3


class Hanging(Runner):
    """Workers that hang with some inputs until they are closed."""

    def __init__(self, workers: int, hang: Callable[[int, int], bool], *, sums: bool = False) -> None:
        super().__init__(workers, sums=sums)
        self.hang = hang
        self.tried: list[int] = []

    def start(self, job: Job) -> Worker:
        worker, ended = super().start(job), threading.Event()
        run, close = worker.run, worker.close

        def waits(request: bytes) -> bytes:
            self.tried.append(number(request))
            if self.hang(number(request), len(self.started)):
                assert ended.wait(limit_s(20)), "the worker was not closed"
                raise WorkerLostError("closed")
            return run(request)

        def closes() -> None:
            close()
            ended.set()

        worker.run, worker.close = waits, closes
        return worker


@pytest.mark.parametrize("workers", [1, 3])
def test_an_input_that_takes_too_long_fails_once_and_the_rest_go_on(workers: int) -> None:
    runner = Hanging(workers, lambda x, _: x in (1, 2))
    limit = limit_s(0.3)
    found = list(outcomes(runner, job_of(), tasks(6), look_ahead=6, retries=2, timeout=limit))
    assert results(found) == [0, "input-timeout", "input-timeout", 3, 4, 5]
    assert str(found[1].error) == f"this input took longer than {limit:g} s: its worker was ended"
    assert sorted(runner.tried) == list(range(6))
    assert all(worker.closed for worker in runner.started)


def test_the_memory_of_a_worker_that_hung_is_made_again_without_its_input() -> None:
    runner = Hanging(1, lambda x, _: x == 2, sums=True)
    job = job_of(STATEFUL, keep_state=True)
    found = list(outcomes(runner, job, tasks(5), look_ahead=5, retries=0, timeout=limit_s(0.3)))
    assert results(found) == [0, 1, "input-timeout", 4, 8]


def test_a_worker_that_hangs_while_memory_is_made_again_is_lost() -> None:
    losses = {2}

    def hang(x: int, started: int) -> bool:
        return x == 1 and started == 2

    runner = Hanging(1, hang, sums=True)

    def before(x: int) -> None:
        if x in losses:
            losses.remove(x)
            raise WorkerLostError("gone")

    runner.before = before
    job = job_of(STATEFUL, keep_state=True)
    assert results(list(outcomes(runner, job, tasks(4), look_ahead=4, retries=2, timeout=limit_s(0.3)))) == [0, 1, 3, 6]
    assert len(runner.started) == 3


def test_an_answer_that_comes_while_its_worker_is_ended_is_none() -> None:
    class Late(Runner):
        def start(self, job: Job) -> Worker:
            worker, ended = super().start(job), threading.Event()
            close = worker.close
            worker.run = lambda request: answer(number(request)) if ended.wait(limit_s(20)) else b""
            worker.close = lambda: (close(), ended.set())
            return worker

    runner = Late(1)
    found = list(outcomes(runner, job_of(), tasks(2), look_ahead=2, retries=0, timeout=limit_s(0.1)))
    assert results(found) == ["input-timeout"] * 2
    assert len(runner.started) == 2


def test_a_limit_takes_workers_that_can_be_ended() -> None:
    runner = Runner(1)
    runner.inline = True
    with pytest.raises(oi.OpenInferError, match="Runner runs inputs in this process") as caught:
        list(outcomes(runner, job_of(), tasks(1), look_ahead=1, retries=0, timeout=1.0))
    assert (caught.value.code, runner.closed) == ("input-timeout", 1)


def test_a_worker_that_cannot_be_started_ends_the_batch() -> None:
    class Refusing(Runner):
        def start(self, _: Job) -> Worker:
            raise KeyError("seat")

    runner = Refusing(2)
    with pytest.raises(oi.PluginError, match="runner Refusing cannot start a worker: KeyError: 'seat'"):
        run(runner, 3)
    assert runner.closed == 1


def test_an_answer_that_is_none_names_the_runner() -> None:
    class Babbling(Runner):
        def start(self, _: Job) -> Worker:
            return SimpleNamespace(run=lambda _: b"hello", close=lambda: None)

    with pytest.raises(oi.PluginError, match="runner Babbling returned no answer"):
        run(Babbling(1), 1)


def test_leaving_early_ends_workers_that_are_in_the_middle_of_an_input() -> None:
    release = threading.Event()

    class Blocking(Runner):
        def close(self) -> None:
            super().close()
            release.set()

    def before(x: int) -> None:
        if x:
            release.wait(limit_s(20))
            raise WorkerLostError("ended")

    runner = Blocking(2, before)
    found = outcomes(runner, job_of(), tasks(9), look_ahead=4, retries=2)
    assert next(found).index == 0
    begun = time.monotonic()
    found.close()
    assert time.monotonic() - begun < limit_s(5)
    assert runner.closed == 1
    assert {t.name for t in threading.enumerate() if t.name.startswith("openinfer-batch")} == set()


def test_an_input_that_cannot_be_read_fails_alone() -> None:
    def unreadable() -> dict[str, int]:
        raise FileNotFoundError(2, "No such file", "a.npz")

    mixed = [Task.read(0, "a", unreadable), Task.given(1, "b", {"x": 7}), Task.given(2, "c", {"x": object()})]
    found = list(outcomes(Runner(1), job_of(), mixed, look_ahead=2, retries=0))
    assert results(found) == ["input-file", 7, "insert-mismatch"]
    assert str(found[0].error) == "cannot read this input: No such file: a.npz"


def test_an_input_that_is_no_mapping_fails_alone() -> None:
    mixed = [Task.given(index, "", values) for index, values in enumerate(({"x": 1}, [2], 3.0, {"x": 4}))]
    found = list(outcomes(Runner(1), job_of(), mixed, look_ahead=4, retries=0))
    assert results(found) == [1, "insert-mismatch", "insert-mismatch", 4]
    assert str(found[2].error) == "insert takes a mapping of names to values, found float"


class HostileArray:
    def __array__(self, *_: object, **__: object) -> np.ndarray:
        raise KeyError("oops")


class HostileMapping(dict[str, int]):
    def items(self) -> Any:
        raise RuntimeError("no items")


NESTED: list[object] = []
for _ in range(100_000):
    NESTED = [NESTED]


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"x": HostileArray()}, "KeyError: 'oops'"),
        ({"x": [HostileArray()]}, "cannot be sent"),
        ({"x": SimpleNamespace(__dlpack__=lambda: 1 // 0)}, "Error"),
        (HostileMapping(x=1), "RuntimeError: no items"),
        ({"x": NESTED}, "RecursionError"),
    ],
    ids=["array", "array in a list", "dlpack", "mapping", "nesting"],
)
@pytest.mark.parametrize("inline", [False, True])
def test_an_input_whose_values_fail_fails_alone(values: Any, told: str, inline: bool) -> None:
    given = [Task.given(index, "", each) for index, each in enumerate(({"x": 1}, values, {"x": 3}))]
    runner = Runner(2)
    runner.inline = inline
    found = list(outcomes(runner, job_of(), given, look_ahead=3, retries=0))
    assert results(found) == [1, "insert-mismatch", 3]
    assert told in str(found[1].error)


@pytest.mark.parametrize("inline", [False, True])
@pytest.mark.parametrize("workers", [1, 3])
def test_results_of_the_inputs_before_an_error_of_their_source_come_first(inline: bool, workers: int) -> None:
    def failing() -> Iterator[Task]:
        yield from tasks(5)
        raise LookupError("no more")

    runner = Runner(workers, lambda _: time.sleep(0.02))
    runner.inline = inline
    found = outcomes(runner, job_of(), failing(), look_ahead=8, retries=0)
    assert results([next(found) for _ in range(5)]) == list(range(5))
    with pytest.raises(LookupError, match="no more"):
        next(found)
    assert (runner.closed, list(found)) == (1, [])


def test_an_interrupt_while_an_input_is_made_ends_the_batch_at_once() -> None:
    def interrupted() -> Iterator[Task]:
        yield from tasks(2)
        raise KeyboardInterrupt

    runner = Runner(1, lambda _: time.sleep(0.01))
    with pytest.raises(KeyboardInterrupt):
        list(outcomes(runner, job_of(), interrupted(), look_ahead=8, retries=0))
    assert runner.closed == 1


def test_values_are_copied_when_they_are_taken() -> None:
    buffer = np.zeros((), np.int32)

    def reusing() -> Iterator[Task]:
        for index in range(6):
            buffer[()] = index
            yield Task.given(index, "", {"x": buffer})

    found = list(outcomes(Runner(1), job_of(), reusing(), look_ahead=4, retries=0))
    assert results(found) == list(range(6))


# Inputs in files


def alone() -> str:
    return "x"


def test_rows_of_an_archive_are_inputs(tmp_path: Path) -> None:
    x, n = np.arange(12, dtype=np.float32).reshape(3, 2, 2), np.array([5, 6, 7], np.int64)
    for save in (np.savez, np.savez_compressed):
        save(tmp_path / "b.npz", x=x, n=n)
        inputs = open_inputs(str(tmp_path / "b.npz"), alone)
        assert inputs.stems == ("0", "1", "2")
        read = [item.load() for item in inputs]
        assert [r["x"].tolist() for r in read] == x.tolist()
        assert [(r["n"].shape, int(r["n"])) for r in read] == [((), 5), ((), 6), ((), 7)]


def test_rows_of_a_single_array_are_for_the_only_variable(tmp_path: Path) -> None:
    np.save(tmp_path / "b.npy", np.arange(6).reshape(3, 2))
    inputs = open_inputs(str(tmp_path / "b.npy"), alone)
    assert [item.load()["x"].tolist() for item in inputs] == [[0, 1], [2, 3], [4, 5]]


def test_files_of_a_folder_are_inputs_in_the_order_of_their_names(tmp_path: Path) -> None:
    np.savez(tmp_path / "b.npz", x=[2], n=[3])
    np.save(tmp_path / "a.npy", [1])
    (tmp_path / "notes.txt").write_text("not an input")
    for source in (str(tmp_path), str(tmp_path / "*.np?")):
        inputs = open_inputs(source, alone)
        assert inputs.stems == ("a", "b")
        assert [{k: v.tolist() for k, v in i.load().items()} for i in inputs] == [{"x": [1]}, {"x": [2], "n": [3]}]


def test_results_of_files_whose_names_are_the_same_are_numbered(tmp_path: Path) -> None:
    for name in ("a.npy", "a.npz", "b.npy"):
        np.savez(tmp_path / name.replace("npy", "npz"), x=[1])
        np.save(tmp_path / name.replace("npz", "npy"), [1])
    assert open_inputs(str(tmp_path), alone).stems == ("0-a", "1-a", "2-b", "3-b")


@pytest.mark.parametrize(
    ("save", "told"),
    [
        (lambda f: np.savez(f, x=np.zeros(2), y=np.zeros(3)), "different numbers of inputs.*: x 2, y 3"),
        (lambda f: np.savez(f, x=np.float32(1)), "a single number"),
        (lambda f: np.savez(f), "holds no arrays"),
        (lambda f: np.savez(f, x=np.array([object()])), "Python objects"),
        (lambda f: np.savez(f, x=np.asfortranarray(np.zeros((2, 3)))), "column by column"),
        (lambda f: f.write_bytes(b"PK\x03\x04 and no more"), "cannot be read as arrays"),
        (lambda f: f.write_bytes(b""), "cannot be read as arrays"),
    ],
)
def test_an_archive_that_holds_no_inputs_says_why(tmp_path: Path, save: Callable[[Path], None], told: str) -> None:
    save(tmp_path / "b.npz")
    with pytest.raises(oi.ExecutionError, match=told) as caught:
        open_inputs(str(tmp_path / "b.npz"), alone)
    assert caught.value.code == "input-file"


def test_results_are_saved_in_a_folder_that_is_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no such folder") as caught:
        StackedResults(tmp_path / "none" / "y.npz", ["y"], [])
    assert caught.value.filename == str(tmp_path / "none")


def test_an_array_that_claims_more_than_its_file_holds_is_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.zeros(2, np.float32))
    data = (tmp_path / "a.npy").read_bytes().replace(b"(2,), }", b"(10**9,), }".replace(b"10**9", b"9999"))
    (tmp_path / "a.npy").write_bytes(data)
    with pytest.raises(oi.ExecutionError, match="cannot be read as arrays"):
        open_inputs(str(tmp_path / "a.npy"), alone)


@pytest.mark.filterwarnings("ignore:Reading .* additional header parsing:UserWarning")
@given(st.binary(max_size=80), st.integers(0, 300))
@settings(max_examples=60, deadline=None)
def test_rubbish_in_an_archive_is_an_error(rubbish: bytes, place: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "b.npz")
        np.savez_compressed(file, x=np.arange(6).reshape(3, 2))
        data = file.read_bytes()
        file.write_bytes(data[:place] + rubbish + data[place + len(rubbish) :])
        with suppress(oi.ExecutionError):
            for item in open_inputs(str(file), alone):
                item.load()


@pytest.mark.parametrize("change", [100, -1])
def test_an_archive_whose_directory_leads_out_of_it_is_an_error(tmp_path: Path, change: int) -> None:
    file = tmp_path / "b.npz"
    np.savez(file, x=np.zeros(2))
    data = file.read_bytes()
    # The last 6 bytes: where the directory starts, and the length of a comment.
    (start,) = struct.unpack("<I", data[-6:-2])
    file.write_bytes(data[:-6] + struct.pack("<I", start + change) + data[-2:])
    with pytest.raises(oi.ExecutionError, match="cannot be read as arrays"):
        open_inputs(str(file), alone)


def test_a_header_that_does_not_parse_is_an_error(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.zeros(2))
    data = (tmp_path / "a.npy").read_bytes().replace(b"}", b"(")
    (tmp_path / "a.npy").write_bytes(data)
    with pytest.raises(oi.ExecutionError, match="cannot be read as arrays"):
        open_inputs(str(tmp_path / "a.npy"), alone)


def test_a_source_that_names_nothing_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("")
    for source in (str(tmp_path), str(tmp_path / "*.npz"), str(tmp_path / "missing.npz")):
        with pytest.raises(oi.ExecutionError, match="names no inputs"):
            open_inputs(source, alone)
    with pytest.raises(oi.ExecutionError, match=r"neither \.npz nor \.npy"):
        open_inputs(str(tmp_path / "a.txt"), alone)


def test_the_only_variable_is_the_one_that_needs_a_value() -> None:
    graph = oi.graph("dynamic { x: f32; y: f32; s: f32 @init(1.0); } block entry { return; }")
    assert only_input(graph, ["x"]) == "y"
    assert only_input(graph, ["x", "y"]) == "s"
    with pytest.raises(oi.ExecutionError, match="found `x`, `y`"):
        only_input(graph)


# Results in files


def done(index: int, **outputs: np.ndarray) -> Outcome:
    return Outcome(index, f"input {index}", {name: Tensor(F32, a.shape, a) for name, a in outputs.items()})


def test_results_of_all_inputs_stand_in_one_archive_with_the_numbers_of_their_inputs(tmp_path: Path) -> None:
    results = StackedResults(tmp_path / "r.npz", ["file", "y"], [])
    rows = [np.array([i, i + 0.5], np.float32) for i in range(4)]
    for index in (0, 2, 3):
        results.add(done(index, file=rows[index], y=np.array(index, np.float32)))
    results.add(Outcome(1, "b", {}, oi.ExecutionError("no")))
    assert list(tmp_path.iterdir()) == []
    results.finish()
    results.close()
    with np.load(tmp_path / "r.npz") as found:
        assert found["file"].tolist() == [[0, 0.5], [2, 2.5], [3, 3.5]]
        assert found["y"].dtype == np.float32
        assert found["batch.index"].tolist() == [0, 2, 3]


def test_outputs_that_differ_in_shape_are_saved_one_by_one_only(tmp_path: Path) -> None:
    stacked = StackedResults(tmp_path / "r.npz", ["y"], [])
    stacked.add(done(0, y=np.zeros(2, np.float32)))
    with pytest.raises(oi.ExecutionError, match=r"\[3\], float32 \[2\] before.*--output-dir"):
        stacked.add(done(1, y=np.zeros(3, np.float32)))
    stacked.close()
    folder = FolderResults(str(tmp_path / "out"), ("a", "b"), [])
    for index in range(2):
        folder.add(done(index, y=np.zeros(2 + index, np.float32)))
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == ["a.npz", "b.npz"]
    assert np.load(tmp_path / "out" / "b.npz")["y"].shape == (3,)


def test_the_same_results_are_the_same_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = []
    for now in (1e9, 1.5e9):
        monkeypatch.setattr(time, "time", lambda now=now: now)
        folder = FolderResults(str(tmp_path), ("a",), [])
        folder.add(done(0, y=np.ones(3, np.float32)))
        written.append((tmp_path / "a.npz").read_bytes())
    assert written[0] == written[1]


def test_a_file_is_there_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.npz").write_bytes(b"before")
    folder = FolderResults(str(tmp_path), ("a",), [])

    def fail(*_: object, **__: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(np.lib.format, "write_array", fail)
    with pytest.raises(OSError, match="disk full"):
        folder.add(done(0, y=np.ones(3, np.float32)))
    assert [(p.name, p.read_bytes()) for p in tmp_path.iterdir()] == [("a.npz", b"before")]


def test_a_result_never_takes_the_place_of_an_input(tmp_path: Path) -> None:
    file = tmp_path / "a.npz"
    for make in (lambda: FolderResults(str(tmp_path), ("a",), [file]), lambda: StackedResults(file, ["y"], [file])):
        with pytest.raises(oi.ExecutionError, match="is an input") as caught:
            make()
        assert caught.value.code == "batch-output"


def test_a_session_needs_a_device() -> None:
    with pytest.raises(oi.DeviceError, match="unknown device 'nowhere'"):
        Session(job_of(device="nowhere"))
