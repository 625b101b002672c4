"""Blocks made and read at known lines. run.py has their numbers."""


def make(size):
    return bytearray(size)


def read(block):
    total = 0
    for at in range(0, len(block), 4096):
        total += block[at]
    return total


blocks = []
for _ in range(3):
    blocks.append(make(1200000))
print(read(blocks[0]))
