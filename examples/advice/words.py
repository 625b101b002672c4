"""Counts the words of a file: `words.py FILE whole` or `words.py FILE lines`.

`whole` reads the file into a list of lines first. Each line is used once, so the list only takes
memory from the table of words. `lines` reads a line when it is needed. The result is the same.
"""

import sys


def count(lines):
    table = {}
    for line in lines:
        for word in line.split():
            seen = table.get(word)
            if seen is None:
                table[word] = [1]
            else:
                seen[0] += 1
    return table


def main():
    path, how = sys.argv[1:]
    with open(path) as file:
        if how == "whole":
            lines = file.read().splitlines()
            table = count(lines)
        else:
            table = count(file)
    print(len(table), sum(seen[0] for seen in table.values()), max(table))


main()
