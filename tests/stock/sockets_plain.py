"""What the preload costs sockets that are not in IWARP_MODE: iperf3 with writes of 64 KiB over TCP,
in pairs of a round without libweft-sockets.so and one with it at both ends.

usage: sockets_plain.py WEFT [ROUNDS [SECONDS]]     WEFT: the weft program of a build
"""
import json
import os
import statistics
import subprocess
import sys

from stock import free_port

# No socket of iperf3's meets this rule.
PRELOAD = ["run", "--sockets", "--iwarp-port", "1", "--"]


def octets_per_second(start, seconds):
    port = str(free_port())
    # One end on each of two cores, where there are two.
    cores = sorted(os.sched_getaffinity(0))
    pinned = [["taskset", "-c", str(core)] for core in (cores[0], cores[-1])]
    server = subprocess.Popen([*pinned[0], *start, "iperf3", "-s", "-1", "-p", port,
                               "--forceflush"], stdout=subprocess.PIPE, text=True)
    try:
        while "listening" not in server.stdout.readline():
            if server.poll() is not None:
                sys.exit("iperf3 does not listen")
        client = subprocess.run([*pinned[1], *start, "iperf3", "-c", "127.0.0.1", "-p", port, "-l",
                                 "64K", "-t", str(seconds), "-J"], capture_output=True, text=True,
                                timeout=seconds + 60, check=True)
        server.communicate(timeout=60)
    finally:
        server.kill()
        server.wait()
    return json.loads(client.stdout)["end"]["sum_received"]["bits_per_second"] / 8


def main():
    weft = os.path.abspath(sys.argv[1])
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 7
    seconds = int(sys.argv[3]) if len(sys.argv) > 3 else 2
    ratios = []
    for number in range(rounds):
        # Who goes first takes turns, too: what else the machine does comes and goes.
        order = [[], [weft, *PRELOAD]]
        measured = {len(start): octets_per_second(start, seconds)
                    for start in (order if number % 2 == 0 else reversed(order))}
        plain, preloaded = (measured[key] for key in sorted(measured))
        ratios.append(preloaded / plain)
        print(f"{plain / 1e9:.2f} GB/s, preloaded {preloaded / 1e9:.2f}, ratio {ratios[-1]:.3f}",
              flush=True)
    print(f"median of {rounds} ratios: {statistics.median(ratios):.3f}")


if __name__ == "__main__":
    main()
