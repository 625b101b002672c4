#!/usr/bin/env python3
"""Compares ways to store the chunks of a trace: bytes a reference, and the time to get the raw
chunk back. See README.md.

    payload.py TRACE...        needs zstandard and lz4
"""

import sys
import time

import lz4.block
import zstandard
from peer import CHUNK_HEAD, HEADER_BYTES, varint

ROUNDS = 5
MOST_CHUNKS = 60


def chunks(path):
    """The raw chunks of a trace, each cut into its columns."""
    decompressor = zstandard.ZstdDecompressor()
    with open(path, "rb") as file:
        count = int.from_bytes(file.read(HEADER_BYTES)[144:152], "little")
        for _ in range(min(count, MOST_CHUNKS)):
            payload, _, _ = CHUNK_HEAD.unpack(file.read(CHUNK_HEAD.size))
            raw = decompressor.stream_reader(file.read(payload), read_across_frames=True).readall()
            references, at = varint(raw, 0)
            planes = raw[at] & 0b111
            _, at = varint(raw, at + 1)
            _, at = varint(raw, at)
            columns = [raw[:at]]
            for _ in range(planes):
                columns.append(raw[at : at + references])
                at += references
            yield references, raw, [column for column in [*columns, raw[at:]] if column]


def least_time(work):
    times = []
    for _ in range(ROUNDS):
        begun = time.process_time()
        work()
        times.append(time.process_time() - begun)
    return min(times)


def main(path):
    read = list(chunks(path))
    references = sum(count for count, _, _ in read)
    decompressor = zstandard.ZstdDecompressor()

    def report(name, size, work):
        nanoseconds = least_time(work) / references * 1e9
        print(f"{path},{name},{references},{size / references:.3f},{nanoseconds:.2f}", flush=True)

    def unpack(frames):
        return lambda: [decompressor.decompress(frame, max_output_size=size) for frame, size in frames]

    report("plain", sum(len(raw) for _, raw, _ in read), lambda: [bytearray(raw) for _, raw, _ in read])
    packed = [(lz4.block.compress(raw, store_size=False), len(raw)) for _, raw, _ in read]
    report(
        "lz4",
        sum(len(block) for block, _ in packed),
        lambda: [lz4.block.decompress(block, uncompressed_size=size) for block, size in packed],
    )
    for level in (1, 6, 12):
        compressor = zstandard.ZstdCompressor(level=level)
        frames = [(compressor.compress(raw), len(raw)) for _, raw, _ in read]
        report(f"zstd {level}", sum(len(frame) for frame, _ in frames), unpack(frames))
    compressor = zstandard.ZstdCompressor(level=6)
    for share in (1.0, 0.875, 0.75, 0.5):
        frames, plain = [], []
        for _, _, columns in read:
            for column in columns:
                frame = compressor.compress(column)
                if len(frame) < share * len(column):
                    frames.append((frame, len(column)))
                else:
                    plain.append(column)
        size = sum(len(frame) for frame, _ in frames) + sum(len(column) + 12 for column in plain)
        compressed = unpack(frames)
        report(
            f"zstd 6 where a column comes below {share}",
            size,
            lambda compressed=compressed, plain=plain: (compressed(), [bytearray(column) for column in plain]),
        )


if __name__ == "__main__":
    print("trace,stored,references,bytes_per_reference,ns_per_reference")
    for trace in sys.argv[1:]:
        main(trace)
