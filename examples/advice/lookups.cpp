// Looks up keys in a sorted table: `lookups RECORDS QUERIES come` or `... sorted`. As they come, each
// search goes to another part of the table. Sorted, one search continues near the one before. The
// result is the same.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

struct Record {
    std::uint64_t key;
    std::uint64_t value[7];
};

static std::uint64_t scattered(std::uint64_t number)
{
    number = (number ^ number >> 31) * 0x9e3779b97f4a7c15;
    return number ^ number >> 29;
}

static std::vector<Record> make_table(std::size_t records)
{
    std::vector<Record> table(records);
    for (std::size_t at = 0; at < records; at++)
        table[at] = {at * 3, {at, at + 1}};
    return table;
}

template <typename Row> static const Row &find(const std::vector<Row> &table, std::uint64_t key)
{
    auto found = std::lower_bound(table.begin(), table.end(), key,
                                  [](const Row &row, std::uint64_t key) { return row.key < key; });
    return found == table.end() ? table.back() : *found;
}

int main(int count, char **words)
{
    std::size_t records = count > 1 ? std::atol(words[1]) : 100000, queries = count > 2 ? std::atol(words[2]) : 20000;
    std::vector<Record> table = make_table(records);
    std::vector<std::uint64_t> keys(queries);
    for (std::size_t at = 0; at < queries; at++)
        keys[at] = scattered(at) % (3 * records);
    if (count > 3 && std::string(words[3]) == "sorted")
        std::sort(keys.begin(), keys.end());
    std::uint64_t sum = 0;
    for (std::uint64_t key : keys)
        sum += find(table, key).value[0];
    std::printf("%llu\n", (unsigned long long)sum);
}
