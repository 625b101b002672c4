"""Types of the extension module."""

from collections.abc import Callable, Sequence
from os import PathLike
from typing import final

import numpy as np
import numpy.typing as npt

__all__ = [
    "POLICIES",
    "SIZES",
    "STUDY_POLICIES",
    "STUDY_SIZES",
    "VERSION",
    "Dataset",
    "Hasher",
    "Mmu",
    "Plan",
    "Reference",
    "SweephandError",
    "Trace",
    "advise",
    "bounded_threads",
    "check",
    "check_hash",
    "generate",
    "info",
    "is_url",
    "main",
    "multiprogram",
    "policies",
    "report",
    "reuse_distances",
    "run_cell",
    "serve",
    "simulate",
]

POLICIES: str
SIZES: str
STUDY_POLICIES: str
STUDY_SIZES: str
VERSION: str

_Progress = Callable[[int, int], object]
_Column = tuple[str, str, list[str] | npt.NDArray[np.int64] | npt.NDArray[np.float64], npt.NDArray[np.bool_] | None]

class SweephandError(Exception): ...

@final
class Trace:
    @staticmethod
    def open(path: str | PathLike[str], *, name: str | None = None) -> Trace: ...
    @staticmethod
    def from_numpy(
        pages: npt.ArrayLike,
        writes: npt.ArrayLike | None = None,
        instructions: int | None = None,
        *,
        page_bytes: int = 4096,
        name: str | None = None,
    ) -> Trace: ...
    @staticmethod
    def from_addresses(
        addresses: npt.ArrayLike,
        writes: npt.ArrayLike | None = None,
        instructions: int | None = None,
        *,
        page_bytes: int = 4096,
        name: str | None = None,
    ) -> Trace: ...
    def to_numpy(self) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.bool_]]: ...
    def page_ids(self) -> npt.NDArray[np.uint32]: ...
    def save(self, path: str | PathLike[str]) -> None: ...
    def renamed(self, name: str) -> Trace: ...
    @property
    def name(self) -> str: ...
    @property
    def header_json(self) -> str: ...
    @property
    def checksum(self) -> str: ...
    @property
    def records(self) -> int: ...
    @property
    def references(self) -> int: ...
    @property
    def distinct_pages(self) -> int: ...
    @property
    def instructions(self) -> int | None: ...
    @property
    def page_bytes(self) -> int: ...
    @property
    def window(self) -> int: ...
    @property
    def program(self) -> str: ...
    @property
    def command(self) -> list[str]: ...
    def __len__(self) -> int: ...
    def __getitem__(self, part: slice, /) -> Trace: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...

@final
class Reference:
    @property
    def page(self) -> int: ...
    @property
    def page_number(self) -> int: ...
    @property
    def object(self) -> int: ...
    @property
    def next_use(self) -> int | None: ...

@final
class Mmu:
    def test_and_clear_referenced(self, page: int) -> bool: ...

def check(policy: object, thorough: bool) -> None: ...

@final
class Plan:
    @staticmethod
    def open(path: str | PathLike[str]) -> Plan: ...
    @staticmethod
    def parse_json(text: str, folder: str | PathLike[str]) -> Plan: ...
    def traces(self) -> list[tuple[str, str, str | None]]: ...

@final
class Dataset:
    def __new__(cls, folder: str | PathLike[str]) -> Dataset: ...
    def known_hash(self, location: str, token: str) -> str | None: ...
    def remember_hashes(self, traces: Sequence[tuple[str, str, str]]) -> None: ...
    def want(self, plan: Plan, traces: Sequence[tuple[str, str, str | None]], prune: bool) -> tuple[int, int, int]: ...
    def cell(self, missing: int) -> str: ...
    def add(self, rows: Sequence[str]) -> None: ...
    def fail(self, missing: int, attempts: int, error: str) -> str: ...
    def run_local(
        self,
        workers: int | None,
        retries: int,
        command: Sequence[str],
        environment: Sequence[tuple[str, str]],
        progress: _Progress | None,
    ) -> tuple[int, list[str]]: ...
    def close(self) -> None: ...

@final
class Hasher:
    def update(self, bytes: bytes) -> None: ...
    def finish(self) -> str: ...

def run_cell(cell: str, path: str | PathLike[str]) -> tuple[bool, str]: ...
def serve(fetch: Callable[[str], str]) -> None: ...
def check_hash(path: str | PathLike[str], hash: str, name: str) -> None: ...
def is_url(location: str) -> bool: ...
def main(words: Sequence[str], command: PathLike[str]) -> int: ...
def generate(pattern: str, given: Sequence[tuple[str, str | None]], output: str | PathLike[str] | None) -> Trace: ...
def bounded_threads(asked: int | None, work: int) -> int: ...
def simulate(
    traces: Sequence[Trace],
    policies: Sequence[object],
    memory: Sequence[str],
    collapse: bool,
    sample: str | None,
    sample_seed: int | None,
    warmup: str | None,
    threads: int | None,
    progress: _Progress | None,
) -> tuple[list[_Column], str]: ...
def reuse_distances(trace: Trace, progress: _Progress | None) -> tuple[npt.NDArray[np.int64], int]: ...
def policies(names: str) -> str: ...
def info(trace: Trace, objects: int, verify: bool) -> str: ...
def advise(
    trace: Trace,
    policies: Sequence[object],
    memory: Sequence[str],
    threads: int | None,
    progress: _Progress | None,
) -> tuple[str, str]: ...
def report(
    traces: Sequence[Trace],
    policies: Sequence[object],
    memory: Sequence[str],
    threads: int | None,
    progress: _Progress | None,
) -> tuple[str, str]: ...
def multiprogram(
    configurations: Sequence[str],
    policies: Sequence[str] | None,
    theta: Sequence[int],
    seeds: Sequence[int],
    irim: int | None,
    threads: int | None,
    progress: _Progress | None,
) -> tuple[list[_Column], str]: ...
