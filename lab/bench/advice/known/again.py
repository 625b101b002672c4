# Small objects of one line go, and those of another come where they were: the second line is told.
def first(n):
    return [[i] for i in range(n)]


def second(n):
    return [(i, i + 1) for i in range(n)]


def total(pairs):
    return sum(pair[0] for pair in pairs)


rows = first(60000)
del rows
pairs = second(60000)
for _ in range(6):
    s = total(pairs)
print(s)
