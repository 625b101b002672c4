"""Policies in Python."""

import subprocess
import sys
from collections import OrderedDict
from pathlib import Path

import numpy as np
import policies
import pytest

import sweephand
from sweephand import SweephandError, Trace

SIZES = ["1p", "5%", "20%", "60%", "100%"]


def counts(trace: Trace, policy: object, **options: object) -> list[list[object]]:
    """The rows of a policy, without its name."""
    table = sweephand.simulate(trace, policy, SIZES, **options).drop_columns(["policy"])
    return [list(row.values()) for row in table.to_pylist()]


@pytest.fixture(scope="module")
def mixed() -> Trace:
    return sweephand.generate("mixed", zipf_pages=2000, loop_pages=500, references=60_000)


def test_clock_counts_what_the_built_in_one_counts(mixed: Trace) -> None:
    assert counts(mixed, policies.Clock) == counts(mixed, "clock")
    assert counts(mixed, policies.Clock, collapse=True) == counts(mixed, "clock", collapse=True)


def test_clock_counts_the_same_on_a_recorded_trace_with_unmaps(project: Path) -> None:
    trace = Trace.open(project / "traces" / "numpy.swt")
    built_in = sweephand.simulate(trace, "clock", "40%").to_pydict()
    ours = sweephand.simulate(trace, policies.Clock, "40%").to_pydict()
    assert ours.pop("policy") == ["Clock"] and built_in.pop("policy") == ["clock"]
    assert ours == built_in


def test_lru_is_shown_hits_in_batches(mixed: Trace) -> None:
    assert counts(mixed, policies.Lru) == counts(mixed, "lru")

    class OneByOne(policies.Lru):
        hits = None

        def hit(self, reference: sweephand.Reference) -> None:
            self.stack.move_to_end(reference.page)

    assert counts(mixed, OneByOne) == counts(mixed, "lru")


class Opt:
    """Evicts the page used last, if ever; looks at all of them."""

    model = "offline"

    def __init__(self, frames: int) -> None:
        self.next_use: dict[int, int] = {}

    def hits(self, pages: np.ndarray, next_uses: np.ndarray) -> None:
        assert pages.dtype == next_uses.dtype == np.uint32 and pages.shape == next_uses.shape
        self.next_use.update(zip(pages.tolist(), next_uses.tolist(), strict=True))

    def victim(self, mmu: object) -> int | None:
        return max(self.next_use, key=lambda page: self.next_use[page], default=None)

    def evict(self, page: int) -> None:
        del self.next_use[page]

    def insert(self, reference: sweephand.Reference, mmu: object) -> bool:
        never = 2**32 - 1
        self.next_use[reference.page] = never if reference.next_use is None else reference.next_use
        return False

    def remove(self, page: int) -> None:
        self.next_use.pop(page, None)


def test_the_future_can_be_asked_for() -> None:
    trace = sweephand.generate("zipf", pages=60, references=3000)
    table = sweephand.simulate(trace, ["opt", Opt], ["10%", "40%"])
    faults = table["faults"].to_pylist()
    assert faults[:2] == faults[2:]
    sweephand.check(Opt)


def test_page_numbers_and_objects_can_be_asked_for() -> None:
    seen = []

    class Looks(policies.Clock):
        needs_places = True

        def fault(self, reference: sweephand.Reference) -> None:
            seen.append((reference.page, reference.page_number, reference.object, reference.next_use))

    sweephand.simulate(Trace.from_numpy([900, 5, 900, 70]), Looks, 3)
    assert seen == [(0, 900, 0, None), (1, 5, 0, None), (2, 70, 0, None)]


def test_the_policies_of_the_book_conform() -> None:
    for policy in (policies.Clock, policies.Comeback, policies.Lru):
        sweephand.check(policy)
    sweephand.check("clock-pro")


def test_policies_stand_beside_others_and_take_parameters() -> None:
    def small(frames: int) -> object:
        policy = policies.Comeback(frames)
        policy.frames, policy.name = 1, "comeback-1"
        return policy

    # 1 and 2 come back, and are spared when 6 comes.
    trace = Trace.from_numpy([1, 2, 3, 4, 1, 2, 5, 6, 1, 2])
    table = sweephand.simulate(trace, ["clock", small, policies.Comeback], 3)
    assert table["policy"].to_pylist() == ["clock", "comeback-1", "Comeback"]
    assert table["faults"].to_pylist() == [10, 10, 8]


class Broken(policies.Clock):
    def evict(self, page: int) -> None:
        pass


class Forgets(policies.Lru):
    def evict(self, page: int) -> None:
        pass


class Stray(policies.Clock):
    def insert(self, reference: sweephand.Reference, mmu: sweephand.Mmu) -> bool:
        mmu.test_and_clear_referenced(reference.page + 1)
        return super().insert(reference, mmu)


class Reads(policies.Clock):
    """Wants more than the bit: it evicts in the order of page numbers."""

    def victim(self, mmu: sweephand.Mmu) -> int | None:
        pages = [page for page in self.pages if page is not None]
        if not pages:
            return None
        self.hand = self.pages.index(max(pages, key=lambda page: page % 3))
        return self.pages[self.hand]


class Fails(policies.Clock):
    def insert(self, reference: sweephand.Reference, mmu: sweephand.Mmu) -> bool:
        raise ZeroDivisionError("in the middle")


class Unsure(policies.Clock):
    def check(self) -> None:
        assert len(self.pages) < 2, "more than one frame"


class Thrifty(policies.Clock):
    def victim(self, mmu: sweephand.Mmu) -> None:
        return None


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        (Broken, "Broken, 1 frames, string [0, 1, 0, 0, 0]: page 0 has no reference bit: it is not resident"),
        (Forgets, "policy 'Forgets': victim 0 is not resident"),
        (Stray, "page 1 has no reference bit: it is not resident"),
        (Reads, "other victims when pages are renamed in order"),
        (Fails, "ZeroDivisionError: in the middle"),
        (Unsure, "AssertionError: more than one frame"),
        (Thrifty, "policy 'Thrifty': no victim among resident pages"),
    ],
)
def test_what_breaks_is_said(policy: type, words: str) -> None:
    with pytest.raises(SweephandError) as error:
        sweephand.check(policy)
    assert words in str(error.value)
    assert policy.__name__ + ", " in str(error.value)


def test_exceptions_come_out_of_a_simulation(e1: Trace) -> None:
    with pytest.raises(ZeroDivisionError, match="in the middle"):
        sweephand.simulate(e1, ["lru", Fails, "fifo"], "all")
    with pytest.raises(SweephandError, match="policy 'Forgets': victim 0 is not resident"):
        sweephand.simulate(e1, Forgets, 1)

    class TooSmall(policies.Clock):
        def __init__(self, frames: int) -> None:
            if frames == 4:
                raise ValueError("four is too few")
            super().__init__(frames)

    with pytest.raises(ValueError, match="four is too few"):
        sweephand.simulate(e1, TooSmall, [3, 4])


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        (object(), "give a name, or a class"),
        (type("NoVictim", (), {"__init__": lambda self, frames: None}), "policy 'NoVictim': has no method victim"),
        (type("Other", (policies.Clock,), {"model": "live"}), "policy 'Other': model 'live': write 'vm', 'exact' or 'offline'"),
        (type("Deaf", (policies.Clock,), {"model": "exact"}), "policy 'Deaf': has no method hit or hits"),
        (type("Named", (policies.Clock,), {"name": "a:b"}), "policy 'a:b': a name has no colon and no comma"),
        (type("Odd", (policies.Clock,), {"name": None}), "policy 'Odd': name None: a name is a string"),
        (type("Odd", (policies.Clock,), {"model": None}), "policy 'Odd': model None: write 'vm', 'exact' or 'offline'"),
        (type("Odd", (policies.Clock,), {"needs_places": "no"}), "policy 'Odd': needs_places 'no': write True or False"),
        (type("lru", (policies.Clock,), {}), "policy 'lru': is what a built-in one is called"),
        (policies.Clock(3), "(did you mean the class Clock?)"),
        (lambda frames: policies.Clock, "policy 'Clock': the function made the class"),
    ],
)
def test_what_is_no_policy_is_refused(e1: Trace, policy: object, words: str) -> None:
    with pytest.raises(SweephandError) as error:
        sweephand.simulate(e1, [policy], 3)
    assert words in str(error.value)


@pytest.mark.parametrize(
    ("returned", "words"),
    [
        (None, "policy 'Vague': insert returned None: return the page's reference bit, True or False"),
        (0, "policy 'Vague': insert returned 0: "),
        ("", "policy 'Vague': insert returned '': "),
    ],
)
def test_the_bit_that_insert_returns_is_one(e1: Trace, returned: object, words: str) -> None:
    class Vague(policies.Clock):
        def insert(self, reference: sweephand.Reference, mmu: sweephand.Mmu) -> object:
            super().insert(reference, mmu)
            return returned

    with pytest.raises(SweephandError) as error:
        sweephand.simulate(e1, Vague, 3)
    assert str(error.value).startswith(words)


def test_steps_that_are_none_are_refused(e1: Trace) -> None:
    class Backward(policies.Clock):
        def victim(self, mmu: sweephand.Mmu) -> int | None:
            self.hand_steps = -9
            page: int | None = super().victim(mmu)
            self.hand_steps = -9
            return page

    with pytest.raises(SweephandError, match="policy 'Backward': hand_steps -9: is no count of steps"):
        sweephand.simulate(e1, Backward, 3)


def test_two_policies_are_not_called_the_same(e1: Trace) -> None:
    other = type("Clock", (policies.Clock,), {})
    assert sweephand.simulate(e1, [policies.Clock, "lru", policies.Clock, "lru"], 3).num_rows == 2
    with pytest.raises(SweephandError, match="policy 'Clock': two are called so; give one another name"):
        sweephand.simulate(e1, [policies.Clock, other], 3)


def test_the_mmu_is_lent_for_a_call(e1: Trace) -> None:
    kept = []

    class Keeps(policies.Clock):
        def victim(self, mmu: sweephand.Mmu) -> int | None:
            kept.append(mmu)
            return super().victim(mmu)

    sweephand.simulate(e1, Keeps, 3)
    with pytest.raises(SweephandError, match="only by the method that it was given to"):
        kept[0].test_and_clear_referenced(0)


def test_ctrl_c_stops_a_policy_in_python() -> None:
    program = f"""
import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})
import os, signal, threading, policies, sweephand
# Also where whoever runs the tests ignores it.
signal.signal(signal.SIGINT, signal.default_int_handler)
trace = sweephand.generate("uniform", pages=100_000, references=20_000_000)
threading.Timer(1, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
try:
    sweephand.simulate(trace, policies.Clock, ["5%", "10%"])
except KeyboardInterrupt:
    print("interrupted")
"""
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False)
    assert result.stdout == "interrupted\n", result.stderr


def test_the_book_is_read_whole() -> None:
    assert issubclass(policies.Comeback, policies.Clock)
    assert isinstance(policies.Lru(1).stack, OrderedDict)
