#!/usr/bin/env python3
"""Times the combine kernels and, in the same minute on the same GPU, those of another benchmark, and prints
the ratios beside the project's targets.

    tools/bench_beside.py PEER [--program build/dcpsim] [--cases N,H,D ...] [--python PYTHON] [--json FILE]

PEER is a Python script that takes `--cases N,H,D ... --json FILE` and writes an object per line with the keys
kernel (pack, unpack, mask or correct), world_size, num_heads, head_dim, num_tokens and time_us. Both sides have
to follow the method of bench/kernel_bench.hpp, else the ratios mean nothing.

Exit code 0: every target that the rows shown must meet is met; 1: one is missed; 2: bad input, or one of the two
could not be run or has not timed what the other has.
"""

import argparse
import json
import math
import subprocess
import sys
import tempfile
from pathlib import Path

# (kernel, layout or None for any, fewest tokens, most): (must, aim), times the peer's time.
TARGETS = {
    ("pack", None, 1, 8): (0.40, 0.35),
    ("pack", "interleaved", 256, None): (0.85, 0.75),
    ("pack", "split", 256, None): (0.76, 0.68),
    ("combine", None, 1, 8): (0.70, 0.60),
    ("combine", None, 256, None): (0.70, 0.65),
    ("mask + correct", None, 1, 1): (0.13, 0.12),
    ("mask + correct", None, 64, 64): (0.35, 0.30),
    ("mask + correct", None, 256, None): (0.61, 0.50),
}
# Of `dcpsim bench`: the kernels of the peer that do the same work together.
SAME_WORK = {"pack": ["pack"], "combine": ["unpack"], "correct": ["mask", "correct"]}


def target_of(kernel, layout, num_tokens):
    for (name, of_layout, fewest, most), target in TARGETS.items():
        if name == kernel and of_layout in (None, layout) and fewest <= num_tokens <= (most or num_tokens):
            return target
    return None, None


class Unusable(Exception):
    """What keeps the two from being compared."""


def run(command, folder=None):
    command = [str(word) for word in command]
    try:
        done = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              errors="replace", check=False)
    except (OSError, ValueError) as error:
        raise Unusable(f"'{command[0]}' cannot be run: {error}") from None
    if done.returncode != 0:
        raise Unusable(f"'{' '.join(command)}' ended with {done.returncode}:\n{done.stdout}")


def is_time(value):
    return isinstance(value, (int, float)) and math.isfinite(value) and value > 0


def key_of(record):
    return tuple(record[name] for name in ("world_size", "num_heads", "head_dim", "num_tokens"))


def times_of_peer(peer, python, cases, folder):
    file = folder / "peer.json"
    run([python, peer, "--cases", *(",".join(map(str, case)) for case in cases), "--json", file], peer.parent)
    times = {}
    try:
        for line in file.read_text().splitlines():
            record = json.loads(line)
            if record.get("num_tokens") is None:
                continue
            times[(record["kernel"], *key_of(record))] = record["time_us"]
            if not is_time(record["time_us"]):
                raise Unusable(f"{peer} gives '{record['time_us']}' as a time")
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise Unusable(f"what {peer} wrote is not what --help says: {type(error).__name__} {error}") from None
    return times


def records_of_program(program, case, folder):
    n, heads, dim = case
    file = folder / f"program-{n}-{heads}-{dim}.json"
    run([program, "bench", "--filter", f"[pc]*-N{n}-H{heads}-D{dim}-T*", "--json", file])
    try:
        records = [{**record, "case": case} for record in json.loads(file.read_text())["records"]
                   if record["kernel"] in SAME_WORK and key_of(record)[:3] == case]
        for record in records:
            if not is_time(record["time_us"]):
                raise Unusable(f"'{program} bench' gives '{record['time_us']}' as a time")
        return records
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise Unusable(f"what '{program} bench' wrote has no records: {type(error).__name__} {error}") from None


# A row for each of the program's records; Unusable where the peer has not timed the same.
def rows_of(records, peer_times):
    for r in records:
        times = [peer_times.get((kernel, *key_of(r))) for kernel in SAME_WORK[r["kernel"]]]
        kernel = "mask + correct" if r["kernel"] == "correct" else r["kernel"]
        if None in times:
            raise Unusable(f"the peer has not timed {' and '.join(SAME_WORK[r['kernel']])} of N, H, D {r['case']} "
                           f"with {r['num_tokens']} tokens")
        must, aim = target_of(kernel, r.get("layout"), r["num_tokens"])
        yield {"kernel": kernel, "layout": r.get("layout") or "", "world_size": r["world_size"],
               "num_heads": r["num_heads"], "head_dim": r["head_dim"], "num_tokens": r["num_tokens"],
               "time_us": r["time_us"], "peer_us": sum(times), "ratio": r["time_us"] / sum(times), "must": must,
               "aim": aim, "of_copy_kernel": r.get("of_copy_kernel")}


def is_missed(row):
    """A target has two decimals, and so has what is held to it."""
    return row["must"] is not None and round(row["ratio"], 2) > row["must"]


def two_decimals(value, width):
    return f"{'-' if value is None else format(value, '.2f'):>{width}}"


def compare(args):
    if not args.peer.is_file():
        raise Unusable(f"no file {args.peer}")
    if args.json is not None:
        if args.json.is_dir() or not args.json.absolute().parent.is_dir():
            raise Unusable(f"{args.json} cannot be written: it is a folder, or in none")
        if args.json.exists() and args.json.samefile(args.peer):
            raise Unusable(f"{args.json} is the peer")
    with tempfile.TemporaryDirectory() as folder:
        peer_times = times_of_peer(args.peer.resolve(), args.python, args.cases, Path(folder))
        rows = []
        for case in args.cases:
            of_case = list(rows_of(records_of_program(args.program, case, Path(folder)), peer_times))
            if not of_case:
                raise Unusable(f"'{args.program} bench' has not timed N, H, D {case}")
            rows += of_case
    print("kernel          layout        N    H    D     T        us   peer us  ratio  must   aim  of copy")
    for row in rows:
        print(f"{row['kernel']:15} {row['layout']:11} {row['world_size']:3} {row['num_heads']:4} {row['head_dim']:4} "
              f"{row['num_tokens']:5} {row['time_us']:9.2f} {row['peer_us']:9.2f} {row['ratio']:6.2f}"
              f"{two_decimals(row['must'], 6)}{two_decimals(row['aim'], 6)}{two_decimals(row['of_copy_kernel'], 9)}"
              f"{'  missed' if is_missed(row) else ''}", flush=True)
    if args.json is not None:
        args.json.write_text(json.dumps(rows, indent=1) + "\n")
    return 1 if any(map(is_missed, rows)) else 0


def case_of(text):
    try:
        n, heads, dim = map(int, text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"'{text}' is not N,H,D") from None
    if min(n, heads, dim) < 1:
        raise argparse.ArgumentTypeError(f"'{text}' is not three numbers from 1 on")
    return n, heads, dim


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("peer", type=Path)
    parser.add_argument("--program", default="build/dcpsim")
    parser.add_argument("--cases", metavar="N,H,D", nargs="+", type=case_of, default=[(8, 128, 512)])
    parser.add_argument("--python", default=sys.executable, help="that runs PEER")
    parser.add_argument("--json", metavar="FILE", type=Path, help="write the rows as a list")
    args = parser.parse_args()
    if "/" in args.python:
        args.python = str(Path(args.python).absolute())  # the peer runs in its own folder
    try:
        return compare(args)
    except (Unusable, OSError) as error:
        print(f"bench_beside: error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
