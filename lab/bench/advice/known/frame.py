# A list of dictionaries that becomes a table, which takes its columns one by one: the list is what
# takes the memory, and to make the table in parts is what helps.
import pandas as pd


def rows(n):
    return [{"key": i % 100, "value": float(i), "name": "n%d" % i} for i in range(n)]


def table(n):
    return pd.DataFrame(rows(n))


t = table(100_000)
print(t.groupby("key")["value"].sum().iloc[7])
