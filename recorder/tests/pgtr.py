# SPDX-License-Identifier: GPL-2.0-or-later
"""A decoder of the PGTR version 1 stream, and plain models to hold it against."""

import bisect
from collections import OrderedDict, namedtuple


def _record(name, fields):
    """A named tuple that equals only its own kind: a Reference is no Unmap."""
    base = namedtuple(name, fields)
    methods = {
        "__slots__": (),
        "__eq__": lambda a, b: type(a) is type(b) and tuple.__eq__(a, b),
        "__ne__": lambda a, b: not a == b,
        "__hash__": tuple.__hash__,
    }
    return type(name, (base,), methods)


Reference = _record("Reference", "page write")
Alloc = _record("Alloc", "address length kind")
Free = _record("Free", "address")
Mark = _record("Mark", "instructions references")
Map = _record("Map", "page count")
Unmap = _record("Unmap", "page count")
Remap = _record("Remap", "source target count")
End = _record("End", "instructions references runs records objects peak_bytes syscall_pages")

CONTROL = [End, Alloc, Free, Mark, Map, Unmap, Remap]
PLACE, MADE, CODE, NOTE, ARENA, SMALL, GONE = range(len(CONTROL), len(CONTROL) + 7)
KINDS = ["malloc", "calloc", "realloc", "memalign", "mmap", "mremap"]


class Trace:
    """The whole stream: `window`, `flags`, `program`, `records`, and `end` (None: cut short).
    `places` has the stacks, each a list of (description, module, offset); `made` has the place of
    each object, by its number in the order of allocation; `code` has that of the code of each
    reference, or None. `arenas` has (first page, pages), `small` the address, bytes and place of
    the small allocations that are told, `gone` the addresses of those that went."""

    def __init__(self, data):
        self._data, self._at = data, 6
        if data[:6] != b"PGTR\x01\x0c":
            raise ValueError("not a PGTR version 1 stream with 4 KiB pages")
        self.window, self.flags, length = self._varint(), self._varint(), self._varint()
        self.program = data[self._at:self._at + length].decode()
        self._at += length
        self.records, self.end, page = [], None, 0
        self.places, self.made, self.code, self.notes = [], {}, [], []
        self.arenas, self.small, self.gone = [], [], []
        objects, code = 0, None
        while self._at < len(data):
            if self.end:
                raise ValueError("records after END")
            v = self._varint()
            if v == PLACE << 1 | 1:
                caller = self._varint()
                stack = [tuple(line.split("\t")) for line in self._text().splitlines()]
                self.places.append(stack + (self.places[caller - 1] if caller else []))
                continue
            if v == CODE << 1 | 1:
                code = self._varint()
                continue
            if v in (ARENA << 1 | 1, SMALL << 1 | 1, GONE << 1 | 1):
                told, fields = {ARENA: (self.arenas, 2), SMALL: (self.small, 3), GONE: (self.gone, 1)}[v >> 1]
                told.append(tuple(self._varint() for _ in range(fields)))
                continue
            if v == NOTE << 1 | 1:
                self.notes.append(self._text())
                continue
            if v == MADE << 1 | 1:
                self.made[objects - 1] = self._varint()
                continue
            if v & 1:
                control = CONTROL[v >> 1]
                record = control(*(self._varint() for _ in control._fields))
                self.end = record if control is End else None
                objects += control is Alloc
            else:
                zigzag = v >> 2
                page += (zigzag >> 1) ^ -(zigzag & 1)
                record = Reference(page, bool(v & 2))
                self.code.append(code)
            self.records.append(record)

    def _text(self):
        length = self._varint()
        self._at += length
        return self._data[self._at - length:self._at].decode()

    def _varint(self):
        value = shift = 0
        while True:
            byte = self._data[self._at]
            self._at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    def of(self, kind):
        return [r for r in self.records if isinstance(r, kind)]

    @property
    def references(self):
        return self.of(Reference)


def reduce_epoch(runs):
    """Of each page the first and the last run, in time order; later writes go into the last."""
    first, last, later_write = {}, {}, {}
    for at, run in enumerate(runs):
        if run.page in first:
            last[run.page] = at
            later_write[run.page] = later_write.get(run.page, False) or run.write
        else:
            first[run.page] = at
    kept = [(at, runs[at]) for at in first.values()]
    kept += [(at, Reference(page, later_write[page])) for page, at in last.items()]
    return [run for _, run in sorted(kept)]


def reduce(records, window):
    """What a recorder with this window makes of the records of one with K = 1."""
    out, epoch, pages = [], [], set()
    for record in records:
        control = not isinstance(record, Reference)
        if control or (record.page not in pages and len(pages) == window):
            out += reduce_epoch(epoch)
            epoch, pages = [], set()
        if control:
            out.append(record)
        else:
            epoch.append(record)
            pages.add(record.page)
    return out + reduce_epoch(epoch)


class _Counts:
    """How many marks lie at or below a time (a Fenwick tree)."""

    def __init__(self, size):
        self.tree = [0] * (size + 1)

    def add(self, at, amount):
        while at < len(self.tree):
            self.tree[at] += amount
            at += at & -at

    def upto(self, at):
        total = 0
        while at > 0:
            total += self.tree[at]
            at -= at & -at
        return total


def lru_distances(records):
    """The LRU stack distance of each reference that is not a first one, and the number of those.
    A page dies with its UNMAP."""
    times, latest, distances, cold = _Counts(len(records)), {}, [], 0
    for now, record in enumerate(records, 1):
        if isinstance(record, Unmap):
            gone = range(record.page, record.page + record.count)
            for page in [p for p in latest if p in gone]:
                times.add(latest.pop(page), -1)
        if not isinstance(record, Reference):
            continue
        if record.page in latest:
            distances.append(times.upto(now) - times.upto(latest[record.page] - 1))
            times.add(latest[record.page], -1)
        else:
            cold += 1
        latest[record.page] = now
        times.add(now, 1)
    return sorted(distances), cold


def lru_faults(records, memories):
    """LRU fault counts at these memory sizes, in pages."""
    distances, cold = lru_distances(records)
    return [cold + len(distances) - bisect.bisect_right(distances, m) for m in memories]


def naive_lru_faults(records, memory):
    """The same the slow and obvious way."""
    frames, faults = OrderedDict(), 0
    for record in records:
        if isinstance(record, Unmap):
            for page in range(record.page, record.page + record.count):
                frames.pop(page, None)
        elif isinstance(record, Reference):
            if record.page in frames:
                frames.move_to_end(record.page)
            else:
                faults += 1
                if len(frames) == memory:
                    frames.popitem(last=False)
                frames[record.page] = True
    return faults
