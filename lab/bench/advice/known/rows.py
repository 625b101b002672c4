# A list of dictionaries that is gone over again and again: its line is told, not the allocator's.
def make(n):
    return [{"a": i, "b": str(i)} for i in range(n)]
def total(rows):
    return sum(r["a"] for r in rows)
def main():
    rows = make(40000)
    for _ in range(4):
        s = total(rows)
    print(s)
main()
