"""The libCacheSim side of the throughput benchmark; `run.py` calls it, each time in a fresh
process.

    peer.py version                             versions as JSON
    peer.py convert TRACE COUNT BINARY TEXT     the first COUNT references in both forms
    peer.py run CLASS BINARY FRAMES HASH_POWER  one policy over a converted trace; result as JSON

The references are decoded here by a reader of `.swt` that shares no code with Sweephand, so a fault
of Sweephand's decoder would show as faults that disagree.
"""

import json
import resource
import struct
import sys
from importlib import metadata

HEADER_BYTES = 208
CHUNK_HEAD = struct.Struct("<IIQ")
PLANES, ABSOLUTE = 0b0111, 0b1000


def decode(path, count):
    """Page ids of the first `count` references of a trace (fewer if it is shorter). A trace with
    events (pages unmapped) is refused."""
    import numpy as np
    import zstandard

    ids, decoded = [], 0
    decompressor = zstandard.ZstdDecompressor()
    with open(path, "rb") as file:
        header = file.read(HEADER_BYTES)
        records, chunks = (struct.unpack_from("<Q", header, 24 + 8 * word)[0] for word in (0, 15))
        count = min(count, records)
        for _ in range(chunks):
            if decoded >= count:
                break
            payload, raw_length, _ = CHUNK_HEAD.unpack(file.read(CHUNK_HEAD.size))
            raw = decompressor.stream_reader(file.read(payload), read_across_frames=True).readall()
            assert len(raw) == raw_length
            length, at = varint(raw, 0)
            flags = raw[at]
            _, at = varint(raw, at + 1)  # pages first used in this chunk
            events, at = varint(raw, at)
            if events:
                sys.exit("peer.py: the trace has events, which libCacheSim's format cannot tell")
            codes = np.zeros(length, np.uint32)
            for plane in range(flags & PLANES):
                codes |= np.frombuffer(raw, np.uint8, length, at).astype(np.uint32) << np.uint32(8 * plane)
                at += length
            if not flags & ABSOLUTE:
                differences = (codes >> np.uint32(1)) ^ (np.uint32(0) - (codes & np.uint32(1)))
                codes = np.cumsum(differences, dtype=np.uint32)
            ids.append(codes)
            decoded += length
    return np.concatenate(ids)[:count]


def varint(raw, at):
    """The LEB128 number at `at`, and where the next thing begins."""
    value = shift = 0
    while True:
        byte = raw[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, at


def next_uses(ids):
    """For each reference the position of the next one to its page, -1 if there is none."""
    import numpy as np

    positions = np.arange(len(ids), dtype=np.uint64)
    order = (ids.astype(np.uint64) << np.uint64(32)) | positions
    order.sort()
    pages = order >> np.uint64(32)
    order = (order & np.uint64(0xFFFF_FFFF)).astype(np.int64)
    again = pages[1:] == pages[:-1]
    result = np.full(len(ids), -1, np.int64)
    result[order[:-1][again]] = order[1:][again]
    return result


def convert(trace, count, binary, text):
    import numpy as np

    ids = decode(trace, int(count))
    write(ids, binary, text)
    print(json.dumps({"references": len(ids), "distinct_pages": len(np.unique(ids))}))


def write(ids, binary, text):
    """The references as libCacheSim reads them, and as text."""
    import numpy as np

    records = np.zeros(len(ids), np.dtype([("time", "<u4"), ("id", "<u8"), ("size", "<u4"), ("next", "<i8")]))
    assert records.dtype.itemsize == 24
    records["id"] = ids
    records["size"] = 1
    records["next"] = next_uses(ids)
    records.tofile(binary)
    with open(text, "w", encoding="ascii") as file:
        for block in np.array_split(ids, max(1, len(ids) // 1_000_000)):
            file.write("\n".join(map(str, block.tolist())) + "\n")


def cpu_seconds():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def run(policy, binary, frames, hash_power):
    import libcachesim

    begun = cpu_seconds()  # the start of Python is not libCacheSim's
    reader = libcachesim.TraceReader(binary, libcachesim.TraceType.ORACLE_GENERAL_TRACE)
    cache = getattr(libcachesim, policy)(int(frames), hashpower=int(hash_power))
    miss_ratio, _ = cache.process_trace(reader)
    spent = cpu_seconds() - begun
    references = reader.get_num_of_req()
    print(json.dumps({"cpu_s": spent, "references": references, "faults": round(miss_ratio * references)}))


def version():
    import libcachesim  # noqa: F401  (only that they are there)
    import numpy  # noqa: F401
    import zstandard  # noqa: F401

    print(json.dumps({"libcachesim": metadata.version("libcachesim")}))


if __name__ == "__main__":
    {"version": version, "convert": convert, "run": run}[sys.argv[1]](*sys.argv[2:])
