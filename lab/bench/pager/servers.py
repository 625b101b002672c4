#!/usr/bin/env python3
"""Servers in half of their memory, under the kernel's swap and under `sweephand run`: requests a
second, answers checked. See README.md."""
import argparse
import csv
import datetime
import json
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[3]
VARIANTS = {
    "native": None,
    "kernel": ["--kernel"],
    "default": [],
    "swap:clock-pro-strict": ["--backend", "swap", "--policy", "clock-pro-strict"],
}
# Pairs of a key and a value of 512 bytes. Every value says whose it is.
PAIRS = 150_000
REDIS_PAIRS = 120_000
CLIENTS = 4
# For a server that fills its memory, or ends.
PATIENCE_SECONDS = 90

# A server and its client in one program. One key in three requests is any; the others are mostly
# among a fifth of all.
GO = """
package main
import ("bytes"; "fmt"; "io"; "math"; "math/rand"; "net/http"; "os"; "strconv"; "sync"; "sync/atomic"; "time")
func value(i int) []byte { return bytes.Repeat([]byte(fmt.Sprintf("%016x", uint64(i+1)*0x9e3779b97f4a7c15)), 32) }
func main() {
  pairs, _ := strconv.Atoi(os.Args[3])
  address := "127.0.0.1:" + os.Args[2]
  if os.Args[1] == "serve" {
    all := map[string][]byte{}
    for i := 0; i < pairs; i++ { all[strconv.Itoa(i)] = value(i) }
    http.HandleFunc("/quit", func(http.ResponseWriter, *http.Request) { os.Exit(0) })
    http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { w.Write(all[r.URL.Path[1:]]) })
    panic(http.ListenAndServe(address, nil))
  }
  seconds, _ := strconv.Atoi(os.Args[4])
  clients, _ := strconv.Atoi(os.Args[5])
  end := time.Now().Add(time.Duration(seconds) * time.Second)
  var asked, wrong atomic.Int64
  var all sync.WaitGroup
  for c := 0; c < clients; c++ {
    all.Add(1)
    go func(seed int64) {
      defer all.Done()
      chance := rand.New(rand.NewSource(seed))
      client := http.Client{Transport: &http.Transport{}}
      for time.Now().Before(end) {
        i := int(float64(pairs) * math.Pow(chance.Float64(), 3)) * 7919 % pairs
        answer, err := client.Get("http://" + address + "/" + strconv.Itoa(i))
        if err != nil { fmt.Fprintln(os.Stderr, err); wrong.Add(1); return }
        got, err := io.ReadAll(answer.Body)
        answer.Body.Close()
        if err != nil || !bytes.Equal(got, value(i)) { wrong.Add(1) }
        asked.Add(1)
      }
    }(int64(c))
  }
  all.Wait()
  fmt.Println(asked.Load(), wrong.Load())
}
"""

JAVA = """
import com.sun.net.httpserver.*;
import java.net.*;
import java.util.*;
public class Serve {
  static byte[] value(int i) { return String.format("%016x", (i + 1) * 0x9e3779b97f4a7c15L).repeat(32).getBytes(); }
  public static void main(String[] a) throws Exception {
    HashMap<String, byte[]> all = new HashMap<>();
    for (int i = 0; i < Integer.parseInt(a[1]); i++) all.put(Integer.toString(i), value(i));
    HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", Integer.parseInt(a[0])), 16);
    server.setExecutor(java.util.concurrent.Executors.newFixedThreadPool(4));
    server.createContext("/", exchange -> {
      String key = exchange.getRequestURI().getPath().substring(1);
      if (key.equals("quit")) Runtime.getRuntime().halt(0);
      byte[] found = all.get(key);
      exchange.sendResponseHeaders(200, found.length);
      exchange.getResponseBody().write(found);
      exchange.close();
    });
    server.start();
  }
}
"""

# Linked statically: one thread for each connection.
STATIC = r"""
#include <arpa/inet.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
static char **all;
static long pairs;
static void *serve(void *argument)
{
    int connection = (int)(intptr_t)argument;
    char request[4096], answer[1024];
    size_t have = 0;
    for (;;) {
        ssize_t got = read(connection, request + have, sizeof request - 1 - have);
        if (got <= 0) break;
        have += got;
        request[have] = 0;
        if (!strstr(request, "\r\n\r\n")) continue;
        have = 0;
        if (!strncmp(request, "GET /quit", 9)) _exit(0);
        long key = atol(request + 5);
        int head = sprintf(answer, "HTTP/1.1 200 OK\r\nContent-Length: 512\r\n\r\n");
        memcpy(answer + head, all[key % pairs], 512);
        if (write(connection, answer, head + 512) != head + 512) break;
    }
    close(connection);
    return 0;
}
int main(int count, char **arguments)
{
    if (count != 3) return 2;
    pairs = atol(arguments[2]);
    all = malloc(pairs * sizeof *all);
    for (long i = 0; i < pairs; i++) {
        all[i] = malloc(513);
        for (int part = 0; part < 32; part++) sprintf(all[i] + part * 16, "%016lx", (i + 1) * 0x9e3779b97f4a7c15);
    }
    struct sockaddr_in place = {.sin_family = AF_INET, .sin_port = htons(atoi(arguments[1])), .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int listening = socket(AF_INET, SOCK_STREAM, 0), one = 1;
    setsockopt(listening, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(listening, (void *)&place, sizeof place) || listen(listening, 16)) return 1;
    for (;;) {
        int connection = accept(listening, 0, 0);
        pthread_t thread;
        if (connection >= 0 && !pthread_create(&thread, 0, serve, (void *)(intptr_t)connection)) pthread_detach(thread);
    }
}
"""


def build(directory):
    """Compiles the servers. Returns the command of each, without port and number of pairs."""
    for name, text in (("kv.go", GO), ("Serve.java", JAVA), ("serve.c", STATIC)):
        (directory / name).write_text(text)
    commands = {}
    if shutil.which("go"):
        subprocess.run(["go", "build", "-o", "kv", "kv.go"], cwd=directory, check=True)
        commands["go"] = [str(directory / "kv"), "serve"]
    if shutil.which("javac"):
        subprocess.run(["javac", "Serve.java"], cwd=directory, check=True)
        commands["java"] = ["java", "-Xmx320m", "-XX:+UseSerialGC", "-Dsun.net.httpserver.nodelay=true", "-cp", str(directory), "Serve"]
    subprocess.run(["gcc", "-O2", "-static", "-pthread", "-o", "serve", "serve.c"], cwd=directory, check=True)
    commands["static"] = [str(directory / "serve")]
    if shutil.which("redis-server"):
        commands["redis"] = ["redis-server", "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--enable-debug-command", "local",
                             "--dir", str(directory), "--port"]
    return commands


def free_port():
    with socket.socket() as place:
        place.bind(("127.0.0.1", 0))
        return place.getsockname()[1]


def wait_for(port, started):
    end = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < end:
        if started.poll() is not None:
            raise RuntimeError(f"the server has ended with {started.returncode}")
        try:
            socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_SECONDS).close()
            return
        except OSError:
            time.sleep(0.1)
    raise RuntimeError("the server does not answer")


def redis(port, *arguments, **more):
    command = ["redis-cli", "-h", "127.0.0.1", "-p", str(port), *arguments]
    return subprocess.run(command, check=True, capture_output=True, timeout=2 * PATIENCE_SECONDS, **more).stdout.decode()


def fill_redis(port):
    """Gives redis all pairs."""
    def text(word):
        return b"$%d\r\n%s\r\n" % (len(word), word)
    pairs = ((b"key:%012d" % i, (b"%016x" % ((i + 1) * 0x9e3779b97f4a7c15 % 2**64)) * 32) for i in range(REDIS_PAIRS))
    redis(port, "--pipe", input=b"".join(b"*3\r\n" + text(b"SET") + text(key) + text(value) for key, value in pairs))


def ask(directory, name, port, seconds, rate):
    """Asks a server for so long. Returns the requests a second, and what it answers in all, or how
    many answers were wrong."""
    if name != "redis":
        command = [directory / "kv", "ask", str(port), str(PAIRS), str(seconds), str(CLIENTS)]
        asked, wrong = subprocess.run(command, check=True, capture_output=True, timeout=seconds + PATIENCE_SECONDS).stdout.split()
        return int(asked) / seconds, int(wrong)
    begun, asked = time.monotonic(), 0
    while time.monotonic() < begun + seconds:
        some = max(2000, int(rate))
        command = ["redis-benchmark", "-h", "127.0.0.1", "-p", str(port), "-t", "get", "-r", str(REDIS_PAIRS), "-n", str(some),
                   "-c", str(CLIENTS), "-q"]
        subprocess.run(command, check=True, capture_output=True, timeout=PATIENCE_SECONDS * 2)
        asked += some
    rate = asked / (time.monotonic() - begun)
    return rate, redis(port, "DEBUG", "DIGEST")


def quit_server(name, port, started):
    try:
        if name == "redis":
            subprocess.run(["redis-cli", "-p", str(port), "shutdown", "nosave"], capture_output=True, timeout=PATIENCE_SECONDS)
        else:
            with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_SECONDS) as connection:
                connection.sendall(b"GET /quit HTTP/1.1\r\nHost: x\r\n\r\n")
                connection.recv(1)
    except (OSError, subprocess.TimeoutExpired):
        pass
    try:
        started.wait(PATIENCE_SECONDS)
    except subprocess.TimeoutExpired:
        started.send_signal(signal.SIGTERM)
        started.wait(PATIENCE_SECONDS)


def peak_kib(process):
    for line in pathlib.Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1])
    raise RuntimeError("no VmHWM")


def run(args, directory, name, command, options, memory_mib, rate):
    """One server under one variant. `memory_mib` 0: all memory. Returns the requests a second, the
    answers, the counts and the peak."""
    port, stats = free_port(), directory / "stats.json"
    stats.unlink(missing_ok=True)
    arguments = [*command, str(port)] + ([] if name == "redis" else [str(PAIRS)])
    attach = options == "pid"
    if options is not None and not attach:
        arguments = [args.sweephand, "run", *options, "--swap", args.directory, "--memory", f"{memory_mib}MiB",
                     "--stats", str(stats), "--", *arguments]
    with open(directory / "said", "w") as said:
        started = subprocess.Popen(arguments, stdout=said, stderr=said)
        attached = None
        try:
            wait_for(port, started)
            if name == "redis":
                redis(port, "config", "set", "maxmemory-policy", "noeviction")
                fill_redis(port)
            peak = peak_kib(started.pid)
            if attach:
                attached = subprocess.Popen(
                    [args.sweephand, "run", "--pid", str(started.pid), "--memory", f"{memory_mib}MiB", "--swap", args.directory,
                     "--stats", str(stats)], stdout=said, stderr=said)
                time.sleep(3)
            rate, answers = ask(directory, name, port, args.seconds, rate)
        finally:
            quit_server(name, port, started)
            if attached:
                attached.wait(PATIENCE_SECONDS)
    counts = json.loads(stats.read_text()) if stats.exists() else {}
    return rate, answers, counts, peak


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=10, help="of requests in each run")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--share", type=float, default=0.5, help="of the memory that a server takes by itself")
    parser.add_argument("--servers", default="redis,go,java,static")
    parser.add_argument("--variants", default="kernel,default,swap:clock-pro-strict")
    parser.add_argument("--directory", default="/var/tmp", help="a directory on a disk")
    parser.add_argument("--sweephand", default=str(ROOT / "target/release/sweephand"))
    parser.add_argument("-o", "--output")
    args = parser.parse_args()
    rows, failed = [], False
    with tempfile.TemporaryDirectory(dir=args.directory) as folder:
        directory = pathlib.Path(folder)
        commands = build(directory)
        for name in args.servers.split(","):
            if name not in commands:
                print(f"{name}: not installed", file=sys.stderr)
                continue
            native, expected, _, peak = run(args, directory, name, commands[name], None, 0, 20_000)
            memory = int(peak * args.share / 1024)
            print(f"{name}: {native:.0f} requests a second in {peak // 1024} MiB; now {memory} MiB", file=sys.stderr)
            variants = args.variants.split(",") + (["pid"] if name == "redis" else [])
            for round_number in range(args.rounds):
                for variant in variants:
                    row = {"server": name, "memory_mib": memory, "native_mib": peak // 1024, "native": round(native),
                           "variant": variant, "round": round_number}
                    try:
                        options = "pid" if variant == "pid" else VARIANTS[variant]
                        rate, answers, counts, _ = run(args, directory, name, commands[name], options, memory, 2000)
                        row |= {"requests_a_second": round(rate), "right": answers == expected}
                        names = ["pages_read", "pages_written", "evictions", "overruled_pages", "directed_ns"]
                        row |= {count: counts.get(count) for count in names}
                        failed |= answers != expected
                    except (RuntimeError, subprocess.SubprocessError) as error:
                        failed = True
                        row["right"] = f"failed: {error}; {(directory / 'said').read_text()[-200:]}"
                    rows.append(row)
                    print(row, file=sys.stderr)
    output = args.output or pathlib.Path(__file__).parent / f"results/servers-{datetime.date.today()}.csv"
    names = ["server", "memory_mib", "native_mib", "native", "variant", "round", "requests_a_second", "right", "pages_read",
             "pages_written", "evictions", "overruled_pages", "directed_ns"]
    with open(output, "w", newline="") as file:
        table = csv.DictWriter(file, names)
        table.writeheader()
        table.writerows(rows)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
