#!/usr/bin/env python3
"""Times the combine kernels and, in the same minute on the same GPU, those of another benchmark, and prints
the ratios beside the project's targets.

    tools/bench_beside.py PEER [--program build/dcpsim] [--cases N,H,D ...] [--python PYTHON] [--json FILE]

PEER is a Python script that takes `--cases N,H,D ... --json FILE` and writes an object per line with the keys
kernel (pack, unpack, mask or correct), world_size, num_heads, head_dim, num_tokens and time_us. Both sides have
to follow the method of bench/kernel_bench.hpp, else the ratios mean nothing.

Exit code 0: every target that must be met is met; 1: one is missed; 2: one of the two could not be run.
"""

import argparse
import json
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


def run(command, folder=None):
    try:
        done = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              check=False)
    except OSError as error:
        sys.exit(fail(f"{command[0]} cannot be run: {error.strerror}"))
    if done.returncode != 0:
        sys.exit(fail(f"'{' '.join(map(str, command))}' ended with {done.returncode}:\n{done.stdout}"))


def fail(message):
    print(f"bench_beside: error: {message}", file=sys.stderr)
    return 2


def key_of(record):
    return tuple(record[name] for name in ("world_size", "num_heads", "head_dim", "num_tokens"))


def times_of_peer(peer, python, cases, folder):
    file = folder / "peer.json"
    run([python, peer.resolve(), "--cases", *(",".join(map(str, case)) for case in cases), "--json", file],
        peer.resolve().parent)
    try:
        records = [json.loads(line) for line in file.read_text().splitlines()]
        return {(r["kernel"], *key_of(r)): r["time_us"] for r in records if r.get("num_tokens") is not None}
    except (OSError, ValueError, KeyError, AttributeError) as error:
        sys.exit(fail(f"what {peer} wrote is not what --help says: {type(error).__name__} {error}"))


def records_of_program(program, case, folder):
    file = folder / "program.json"
    n, heads, dim = case
    run([program, "bench", "--filter", f"[pc]*-N{n}-H{heads}-D{dim}-T*", "--json", file])
    return json.loads(file.read_text())["records"]


def rows_of(records, peer_times):
    for r in records:
        if r["name"] not in SAME_WORK:
            continue
        times = [peer_times.get((kernel, *key_of(r))) for kernel in SAME_WORK[r["name"]]]
        if None in times:
            continue
        kernel = "mask + correct" if r["name"] == "correct" else r["name"]
        must, aim = target_of(kernel, r.get("layout"), r["num_tokens"])
        yield {"kernel": kernel, "layout": r.get("layout") or "", "world_size": r["world_size"],
               "num_heads": r["num_heads"], "head_dim": r["head_dim"], "num_tokens": r["num_tokens"],
               "time_us": r["time_us"], "peer_us": sum(times), "ratio": r["time_us"] / sum(times), "must": must,
               "aim": aim, "of_copy_kernel": r["of_copy_kernel"]}


def is_missed(row):
    """A target has two decimals, and so has what is held to it."""
    return row["must"] is not None and round(row["ratio"], 2) > row["must"]


def case_of(text):
    try:
        n, heads, dim = map(int, text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"'{text}' is not N,H,D") from None
    return n, heads, dim


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("peer", type=Path)
    parser.add_argument("--program", default="build/dcpsim")
    parser.add_argument("--cases", metavar="N,H,D", nargs="+", type=case_of, default=[(8, 128, 512)])
    parser.add_argument("--python", default=sys.executable, help="that runs PEER")
    parser.add_argument("--json", metavar="FILE", type=Path, help="write the rows as a list")
    args = parser.parse_args()
    if not args.peer.is_file():
        return fail(f"no file {args.peer}")
    if args.json and not args.json.absolute().parent.is_dir():
        return fail(f"no folder {args.json.parent}")
    with tempfile.TemporaryDirectory() as folder:
        peer_times = times_of_peer(args.peer, args.python, args.cases, Path(folder))
        records = [r for case in args.cases for r in records_of_program(args.program, case, Path(folder))]
    rows = list(rows_of(records, peer_times))
    if not rows:
        return fail("the two have timed nothing in common")
    print("kernel          layout        N    H    D     T        us   peer us  ratio  must   aim  of copy")
    for row in rows:
        targets = "".join(f"{row[name]:6.2f}" if row[name] else "     -" for name in ("must", "aim"))
        print(f"{row['kernel']:15} {row['layout']:11} {row['world_size']:3} {row['num_heads']:4} {row['head_dim']:4} "
              f"{row['num_tokens']:5} {row['time_us']:9.2f} {row['peer_us']:9.2f} {row['ratio']:6.2f}{targets} "
              f"{row['of_copy_kernel']:8.2f}{'  missed' if is_missed(row) else ''}")
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1) + "\n")
    return 1 if any(map(is_missed, rows)) else 0


if __name__ == "__main__":
    sys.exit(main())
