# A list of dictionaries that becomes a table: the list is what takes the memory.
import pandas as pd


def rows(n):
    return [{"key": i % 100, "value": float(i), "name": "n%d" % i} for i in range(n)]


def table(n):
    return pd.DataFrame(rows(n))


t = table(40000)
print(t.groupby("key")["value"].sum().iloc[7])
