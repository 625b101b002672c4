"""Policies of your own, in Python."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Literal

from sweephand import _sweephand
from sweephand._sweephand import Mmu, Reference

__all__ = ["Mmu", "Policy", "Reference", "check"]


class Policy(ABC):
    """A page replacement policy over a fixed number of frames.

    A policy of your own need not derive from this class, which only lists the methods. They are
    those of the Rust interface. At a reference to a page that is not resident, the simulation calls
    `fault`, then, while no frame is free, `victim` and `evict`, then `insert`. A reference to a
    resident page sets its reference bit. A policy of the `vm` model learns nothing else about it.
    Pages are whole numbers that count up from 0 by first touch.

    The simulation calls these methods only if a class has them:

    `fault(reference)`: a reference to a page that is not resident, before room is made for it.
    `hits(pages)`: in the `exact` model: the references to resident pages since the last call of
        any method, in their order, as a uint32 array of shape (hits,). In the `offline` model
        `hits(pages, next_uses)`, the second of the same type and shape, with 2**32 - 1 for pages
        that are not used again.
    `hit(reference)`: the same one by one, for classes without `hits`; slower.
    `assign(page, object, mmu)`, `renumber(page, page_number)`, `free_object(object)`: with
        `needs_places`: a page belongs to another object, has another page number, an object is
        gone.
    `check()`: raises if an invariant of the policy's state does not hold; the conformance suite
        calls it after every step.

    The attribute `hand_steps`, if there is one, counts list entries looked at, for the column of
    that name. The attribute `name`, if there is one, is the policy's name in results, instead of
    its class's.

    >>> class Fifo(sweephand.Policy):
    ...     def __init__(self, frames):
    ...         self.pages = []
    ...     def victim(self, mmu):
    ...         return self.pages[0] if self.pages else None
    ...     def evict(self, page):
    ...         self.pages.remove(page)
    ...     def insert(self, reference, mmu):
    ...         self.pages.append(reference.page)
    ...         return False
    ...     def remove(self, page):
    ...         if page in self.pages:
    ...             self.pages.remove(page)
    >>> sweephand.simulate([1, 2, 3, 1, 2, 4], ["fifo", Fifo], 3)["faults"].to_pylist()
    [4, 4]
    """

    model: ClassVar[Literal["vm", "exact", "offline"]] = "vm"
    """What the policy has to be shown: faults and reference bits; every hit; the future as well."""
    needs_places: ClassVar[bool] = False
    """Whether page numbers and objects matter to it."""

    @abstractmethod
    def __init__(self, frames: int) -> None:
        """An empty memory with this many page frames, at least 1."""

    @abstractmethod
    def victim(self, mmu: Mmu) -> int | None:
        """Proposes the resident page to evict next; None if no page is resident.
        `mmu.test_and_clear_referenced(page)` returns the reference bit of a resident page and
        clears it. The simulation may refuse the proposal and call this again."""

    @abstractmethod
    def evict(self, page: int) -> None:
        """Confirms that the latest proposal has been evicted."""

    @abstractmethod
    def insert(self, reference: Reference, mmu: Mmu) -> bool:
        """Takes in a page that has been loaded, and returns its reference bit for when the access
        that faulted is done: True or False, and nothing else."""

    @abstractmethod
    def remove(self, page: int) -> None:
        """Forgets a page, resident, remembered or unknown, because its contents are gone."""


PolicyMaker = Callable[[int], Any]
"""A class of policies, or a function that makes a policy for a number of frames."""


def check(policy: str | PolicyMaker, *, thorough: bool = False) -> None:
    """Puts a policy through the conformance suite. Raises a `SweephandError` that says which rule
    the policy breaks, with the string of references and the memory size that show it.

    The suite plays every short string of references, and random longer ones, at several memory
    sizes. After each step it checks that victims are resident, that the policy asks only for bits
    of resident pages, and that its `check` finds nothing. It also checks that the policy never
    takes fewer faults than OPT, that pages fault once if they all fit, that only the order of page
    numbers matters, that a policy of the `vm` model sees nothing but reference bits of hits, and
    that pages may be removed, evicted ahead of need, or referenced just before they are evicted.

    policy: a class, a function that makes a policy for a number of frames, or a name.
    thorough: the whole suite, as the built-in policies pass it: minutes instead of seconds.

    >>> sweephand.check("clock")
    """
    _sweephand.check(policy, thorough)
