"""Sweephand from Python: simulate a program's page faults in less memory and under other
replacement policies.

>>> import sweephand
>>> trace = sweephand.Trace.open("numpy.swt")
>>> table = sweephand.simulate(trace, "lru,clock-pro,opt", "25%,50%,75%")
>>> table.to_pandas()

Results are Arrow tables, with one row for each trace, policy and memory size. Errors are
`SweephandError`, with the command's messages. Notes on results are warnings.
"""

from sweephand import plot
from sweephand._multiprogram import multiprogram
from sweephand._progress import Progress
from sweephand._record import record
from sweephand._simulate import ReuseDistances, reuse_distances, simulate
from sweephand._sweep import Sweep, sweep
from sweephand._sweephand import VERSION as __version__
from sweephand._sweephand import SweephandError, Trace
from sweephand._synthesis import generate
from sweephand.policy import Mmu, Policy, Reference, check

__all__ = [
    "Mmu",
    "Policy",
    "Progress",
    "Reference",
    "ReuseDistances",
    "Sweep",
    "SweephandError",
    "Trace",
    "__version__",
    "check",
    "generate",
    "multiprogram",
    "plot",
    "record",
    "reuse_distances",
    "simulate",
    "sweep",
]
