"""Sweephand from Python: simulate a program's page faults in less memory and under other
replacement policies.

>>> import sweephand
>>> trace = sweephand.Trace.open("traces/numpy.swt", name="numpy")
>>> table = sweephand.simulate(trace, "lru,clock-pro,opt", "25%,50%,75%")
>>> table.to_pandas().pivot(index="policy", columns="memory", values="faults").columns.tolist()
['25%', '50%', '75%']

- Traces: `Trace`, `record`, `generate`, `info`.
- One program: `simulate`, `reuse_distances`, `advise`, `report`, `plot`, `policies`.
- Many traces: `sweep`. Many programs: `multiprogram`.
- Policies of one's own: `Policy`, `check`.

Results are Arrow tables, with one row for each trace, policy and memory size. Errors are
`SweephandError`, with the command's messages. Notes on results are warnings.
"""

from sweephand import plot
from sweephand._multiprogram import multiprogram
from sweephand._progress import Progress
from sweephand._record import record
from sweephand._simulate import ReuseDistances, reuse_distances, simulate
from sweephand._study import Advice, Info, Report, advise, info, policies, report
from sweephand._sweep import Sweep, sweep
from sweephand._sweephand import VERSION as __version__
from sweephand._sweephand import SweephandError, Trace
from sweephand._synthesis import generate
from sweephand._table import Table
from sweephand.policy import Mmu, Policy, Reference, check

__all__ = [
    "Advice",
    "Info",
    "Mmu",
    "Policy",
    "Progress",
    "Reference",
    "Report",
    "ReuseDistances",
    "Sweep",
    "SweephandError",
    "Table",
    "Trace",
    "__version__",
    "advise",
    "check",
    "generate",
    "info",
    "multiprogram",
    "plot",
    "policies",
    "record",
    "report",
    "reuse_distances",
    "simulate",
    "sweep",
]
