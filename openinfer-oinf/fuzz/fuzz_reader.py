"""Read mutated containers: `python openinfer-oinf/fuzz/fuzz_reader.py [--files N] [--seed S]`.

Every file has to be read, or refused with an `OinfError`: in at most ``--limit`` seconds of processor time, in an
address space at most 64 MiB larger than that of the process before its first file, and without any other exception or
warning. Prints how often each code was found. Exit codes: 0 all went well, 1 a file broke a rule (it is kept in
`--keep`), 3 a code of the format description's table of verdicts was never reached.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
import warnings
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from mutations import mutated
from seed_files import SeedFile, seed_files

from openinfer_oinf import Finding, OinfError, open_oinf, verify_oinf

VERDICTS = (
    "E_TRUNCATED",
    "E_MAGIC",
    "E_VERSION",
    "E_HEADER_FLAGS",
    "E_RESERVED",
    "E_PADDING",
    "E_FILE_SIZE",
    "E_ALIGN",
    "E_SECTION_ORDER",
    "E_TABLE_OVERRUN",
    "E_SECTION_GAP",
    "E_COUNT",
    "E_STRING",
    "E_NAME",
    "E_DUPLICATE",
    "E_META_TYPE",
    "E_META_FLAGS",
    "E_BOUNDS",
    "E_META_SIZE",
    "E_VALUE",
    "E_DIM_OVERFLOW",
    "E_DTYPE",
    "E_NDIM",
    "E_TENSOR_FLAGS",
    "E_NODATA",
    "E_DATA_SIZE",
    "E_NOQUANT",
    "E_QUANT",
    "E_QUANT_VALUE",
    "E_OVERLAP",
    "E_HOLE",
)

MIB = 1 << 20
BATCH = 1000
SECONDS = 0.2


@dataclass
class Tally:
    """What became of the files, of which each may take ``limit`` seconds."""

    limit: float = SECONDS
    files: int = 0
    valid: int = 0
    codes: Counter[str] = field(default_factory=Counter[str])
    broken: list[str] = field(default_factory=list[str])
    slowest: float = 0.0


def read_everything(source: bytes | Path, random: Random) -> tuple[Finding, ...]:
    """Read all that a file holds; its findings, whether it is refused or not."""
    check = "compat" if random.random() < 0.25 else "strict"
    mmap = random.random() < 0.5
    try:
        with open_oinf(source, check=check, verify="eager", mmap=mmap) as file:
            for name in file.metadata:
                file.metadata.typed(name)
            for tensor in file.tensors():
                if tensor.has_data and tensor.size < 1000:
                    tensor.dequantize()
                    if tensor.ndim:
                        _ = tensor[::2], tensor[-1:, ..., 0:3] if tensor.ndim > 1 else tensor[-1:]
                file.get(tensor.name)
                _ = tensor.quant
            findings = file.warnings
        if random.random() < 0.02:
            verify_oinf(source, check=check, file=False, deep=True)
    except OinfError as error:
        return error.findings
    return findings


def fuzz_batch(
    number: int, seed: int, seeds: list[SeedFile], tally: Tally, keep: Path, scratch: Path, count: int
) -> None:
    """Read `count` files that follow from `seed` and the number of the batch alone."""
    random = Random(f"{seed}/{number}")  # noqa: S311
    for at in range(count):
        data = mutated(seeds, random)
        by_path = random.random() < 0.005
        if by_path:
            scratch.write_bytes(data)
        # The processor's time: what else runs on the machine does not make a file slow.
        started = time.process_time()
        try:
            findings = read_everything(scratch if by_path else data, random)
        except Exception as error:  # noqa: BLE001 - any exception but OinfError is what is searched for
            _record(tally, keep, data, f"{type(error).__name__}: {error}", number, at)
            findings = ()
        seconds = time.process_time() - started
        if seconds > tally.limit:
            _record(tally, keep, data, f"took {seconds:.2f} s", number, at)
        tally.slowest = max(tally.slowest, seconds)
        tally.files += 1
        tally.valid += not any(finding.is_error for finding in findings)
        tally.codes.update({finding.code for finding in findings})


def _record(tally: Tally, keep: Path, data: bytes, what: str, batch: int, at: int) -> None:
    keep.mkdir(parents=True, exist_ok=True)
    path = keep / f"batch{batch}_{at}.oinf"
    path.write_bytes(data)
    tally.broken.append(f"{what} (batch {batch}, file {at}, kept as {path})")


def limit_address_space(largest_file: int) -> bool:
    """Refuse the process more than 64 MiB above what it has, and a file; False where the system cannot."""
    try:
        import resource

        pages = int(Path("/proc/self/statm").read_text().split()[0])
    except (ImportError, OSError):
        return False
    limit = pages * resource.getpagesize() + 64 * MIB + largest_file
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    return True


def table_of(tally: Tally) -> str:
    rows = [f"{code:<18} {tally.codes[code]:>9}" for code in (*VERDICTS, *sorted({*tally.codes} - {*VERDICTS}))]
    return "\n".join(rows)


def main() -> int:
    parser = argparse.ArgumentParser(description="Read mutated containers.")
    parser.add_argument("--files", type=int, default=100_000, metavar="N")
    parser.add_argument("--seed", type=int, default=0, metavar="S")
    parser.add_argument(
        "--first-batch", type=int, default=0, metavar="B", help=f"batches of {BATCH} files: where to start"
    )
    parser.add_argument("--keep", type=Path, default=Path("fuzz-findings"), metavar="DIR")
    parser.add_argument("--limit", type=float, default=SECONDS, metavar="SECONDS", help="of processor time for a file")
    arguments = parser.parse_args()

    warnings.simplefilter("error")
    seeds, tally = seed_files(), Tally(arguments.limit)
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder) / "mutated.oinf"
        # Once before the limit, so that what is loaded on first use is loaded.
        fuzz_batch(-1, arguments.seed, seeds, Tally(), arguments.keep, scratch, 200)
        limited = limit_address_space(max(len(each.data) for each in seeds) + 64 * 1024)
        started = time.perf_counter()
        for batch in range(-(-arguments.files // BATCH)):
            count = min(BATCH, arguments.files - batch * BATCH)
            fuzz_batch(arguments.first_batch + batch, arguments.seed, seeds, tally, arguments.keep, scratch, count)
        seconds = time.perf_counter() - started

    limit = "address space limited" if limited else "address space not limited on this system"
    sys.stdout.write(
        f"{table_of(tally)}\n{tally.files} files in {seconds:.0f} s, {tally.valid} still valid, slowest "
        f"{tally.slowest * 1000:.0f} ms, {limit}\n"
    )
    sys.stdout.writelines(f"BROKEN: {each}\n" for each in tally.broken)
    unreached = [code for code in VERDICTS if not tally.codes[code]]
    if tally.broken:
        return 1
    if unreached:
        sys.stdout.write(f"never reached: {', '.join(unreached)}\n")
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main())
