#!/usr/bin/env python3
"""Faults of CLOCK-Pro and CLOCK-Pro+ beside those of the simulator of Caffeine.

    lab/papers/clock-pro-2005/caffeine.py CHECKOUT [TRACE ...] [--sweephand COMMAND]

CHECKOUT is a clone of https://github.com/ben-manes/caffeine. Its two policies are compiled as they
are, against a few classes that stand for the simulator's (below), so javac is all they need. Each
TRACE is a file of page numbers, one a line. Without any, loops and random strings are compared.
Both sides have the same bounds of the cold allocation and the same history. Ours starts a new test
for a referenced page out of its test (referenced-cold=new-test), and hits that repeat the reference
before are collapsed, as there.
"""

import argparse
import csv
import pathlib
import random
import subprocess
import tempfile

PACKAGE = "com.github.benmanes.caffeine.cache.simulator"
# Theirs, what is nearest to it here, and the largest share of cold pages.
POLICIES = {
    "ClockPro": ("clock-pro:referenced-cold=new-test,collapse=on", 1.0),
    "ClockProPlus": ("clock-pro-plus:referenced-cold=new-test,collapse=on", 0.5),
}
STUBS = {
    f"{PACKAGE}.BasicSettings": """import com.typesafe.config.Config;
        public class BasicSettings {
          private final Config config;
          public BasicSettings(Config config) { this.config = config; }
          public Config config() { return config; }
          public long maximumSize() { return config.getInt("maximum-size"); }
        }""",
    f"{PACKAGE}.policy.Policy": """public interface Policy {
          @interface PolicySpec { String name(); }
          interface KeyOnlyPolicy {
            void record(long key);
            void finished();
            PolicyStats stats();
            default String name() { return ""; }
          }
        }""",
    f"{PACKAGE}.policy.PolicyStats": """public class PolicyStats {
          public long misses, requests;
          public PolicyStats(String name) {}
          public void recordOperation() {}
          public void recordEviction() {}
          public void recordHit() { requests++; }
          public void recordMiss() { requests++; misses++; }
          public long requestCount() { return requests; }
        }""",
    "com.typesafe.config.Config": """public class Config {
          public final java.util.Map<String, Double> values = new java.util.HashMap<>();
          public int getInt(String name) { return values.get(name).intValue(); }
          public double getDouble(String name) { return values.get(name); }
        }""",
    "com.google.common.base.Preconditions": """public class Preconditions {
          public static void checkState(boolean state) { checkState(state, ""); }
          public static void checkState(boolean state, String message) {
            if (!state) throw new IllegalStateException(message);
          }
        }""",
    "com.google.common.base.MoreObjects": """public class MoreObjects {
          public static MoreObjects toStringHelper(Object object) { return new MoreObjects(); }
          public MoreObjects add(String name, Object value) { return this; }
        }""",
    "com.google.errorprone.annotations.Var": "public @interface Var {}",
    "org.jspecify.annotations.Nullable": """
        @java.lang.annotation.Target(java.lang.annotation.ElementType.TYPE_USE)
        public @interface Nullable {}""",
    "it.unimi.dsi.fastutil.longs.Long2ObjectMap": "public interface Long2ObjectMap<V> extends java.util.Map<Long, V> {}",
    "it.unimi.dsi.fastutil.longs.Long2ObjectOpenHashMap": """
        public class Long2ObjectOpenHashMap<V> extends java.util.HashMap<Long, V> implements Long2ObjectMap<V> {}""",
    "Main": f"""import java.nio.file.*;
        public class Main {{
          public static void main(String[] arguments) throws Exception {{
            long[] keys = Files.lines(Path.of(arguments[0])).mapToLong(Long::parseLong).toArray();
            boolean plus = arguments[1].equals("ClockProPlus");
            String prefix = plus ? "clockproplus." : "clockpro.";
            for (int i = 3; i < arguments.length; i++) {{
              var config = new com.typesafe.config.Config();
              config.values.put("maximum-size", Double.valueOf(arguments[i]));
              config.values.put(prefix + "lower-bound-resident-cold", 1.0);
              config.values.put(prefix + "percent-min-resident-cold", 0.0);
              config.values.put(prefix + "percent-max-resident-cold", Double.valueOf(arguments[2]));
              config.values.put(prefix + "non-resident-multiplier", 1.0);
              {PACKAGE}.policy.Policy.KeyOnlyPolicy policy = plus
                  ? new {PACKAGE}.policy.irr.ClockProPlusPolicy(config)
                  : new {PACKAGE}.policy.irr.ClockProPolicy(config);
              for (long key : keys) policy.record(key);
              policy.finished();
              System.out.println(policy.stats().misses);
            }}
          }}
        }}""",
}


def compile_policies(checkout, folder):
    """The two policies and what stands for the rest of the simulator."""
    irr = checkout / "simulator/src/main/java" / PACKAGE.replace(".", "/") / "policy/irr"
    sources = [irr / f"{policy}Policy.java" for policy in POLICIES]
    for name, text in STUBS.items():
        package, _, simple = name.rpartition(".")
        path = folder / f"{simple}.java"
        path.write_text((f"package {package};\n" if package else "") + text)
        sources.append(path)
    subprocess.run(["javac", "-nowarn", "-d", folder, *sources], check=True)


def strings(paths):
    """Reference strings by name, each with the numbers of frames to run it in."""
    if paths:
        for path in paths:
            pages = [int(line) for line in path.read_text().split()]
            distinct = len(set(pages))
            yield path.stem, pages, [max(distinct * share // 10, 3) for share in range(1, 10)]
        return
    yield "loop of 150", [time % 150 for time in range(9_000)], [45, 90, 135]
    numbers = random.Random(2005)
    for distinct in (20, 60, 200):
        pages = [numbers.randrange(distinct) for _ in range(20_000)]
        yield f"{distinct} at random", pages, [distinct * share // 10 for share in range(2, 10, 2)]
        pages = [int(distinct * numbers.random() ** 3) for _ in range(20_000)]
        yield f"{distinct} skewed", pages, [distinct * share // 10 for share in range(2, 10, 2)]
        pages = [page for time in range(20_000) for page in (time % distinct, numbers.randrange(distinct))]
        yield f"{distinct} looped, mixed", pages, [distinct * share // 10 for share in range(2, 10, 2)]


def theirs(folder, path, policy, frames):
    """Faults in the simulator of Caffeine, by frames; none where it fails."""
    faults = []
    for count in frames:
        command = ["java", "-cp", folder, "Main", path, policy, str(POLICIES[policy][1]), str(count)]
        run = subprocess.run(command, capture_output=True, text=True)
        faults.append(int(run.stdout) if run.returncode == 0 else None)
    return faults


def ours(command, path, policy, frames):
    """Our faults, by frames."""
    memory = ",".join(f"{count}p" for count in frames)
    command = [command, "simulate", path, "--policy", policy, "--memory", memory, "--format", "csv"]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    rows = {int(row["memory_pages"]): int(row["faults"]) for row in csv.DictReader(output.splitlines())}
    return [rows[count] for count in frames]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("checkout", type=pathlib.Path)
    parser.add_argument("traces", nargs="*", type=pathlib.Path)
    parser.add_argument("--sweephand", default="sweephand")
    arguments = parser.parse_args()
    print("| string | frames | policy | ours | Caffeine | difference |")
    print("|---|---:|---|---:|---:|---:|")
    differences = {}
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        compile_policies(arguments.checkout, folder)
        path = folder / "string.txt"
        for name, pages, frames in strings(arguments.traces):
            path.write_text("".join(f"{page}\n" for page in pages))
            for policy, (spec, _) in POLICIES.items():
                both = zip(frames, ours(arguments.sweephand, path, spec, frames), theirs(folder, path, policy, frames))
                for count, mine, other in both:
                    if other is None:
                        print(f"| {name} | {count} | {policy} | {mine:,} | fails | |")
                        continue
                    percent = 100 * (mine - other) / other
                    differences.setdefault(policy, []).append(percent)
                    print(f"| {name} | {count} | {policy} | {mine:,} | {other:,} | {percent:+.1f} % |")
    for policy, percents in differences.items():
        equal = sum(percent == 0 for percent in percents)
        absolute = sum(map(abs, percents)) / len(percents)
        print(f"{policy}: {len(percents)} cells, {equal} equal; ours take {sum(percents) / len(percents):+.2f} % on average,")
        print(f"and are {absolute:.2f} % off whichever way, {max(map(abs, percents)):.1f} % at most")


if __name__ == "__main__":
    main()
