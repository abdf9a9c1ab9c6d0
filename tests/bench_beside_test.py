"""tools/bench_beside.py, with programs in place of the two benchmarks.

Usage: bench_beside_test.py SOURCE_DIR
"""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(sys.argv[1]) / "tools" / "bench_beside.py"
SHAPE = {"world_size": 8, "num_heads": 128, "head_dim": 512}

# What each of the two also times, once.
CEILING = {"kernel": "copy_kernel", "layout": None, "dtype": None, "world_size": None, "num_heads": None,
           "head_dim": None, "num_tokens": None, "from": "hbm", "time_us": 517.0}


def ours(kernel, layout, num_tokens, time_us):
    """As `dcpsim bench --json` writes it."""
    return {"kernel": kernel, "layout": layout or None, "dtype": "bf16", **SHAPE, "num_tokens": num_tokens,
            "from": "l2", "time_us": time_us, "bytes": 4096.0, "gbps": 4.096 / time_us, "of_copy_kernel": 0.5}


def theirs(kernel, num_tokens, time_us):
    return {"kernel": kernel, **SHAPE, "num_tokens": num_tokens, "dtype": "bf16", "time_us": time_us}


class BenchBeside(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.addCleanup(self.temporary.cleanup)
        self.folder = pathlib.Path(self.temporary.name)

    def write(self, name, text):
        path = self.folder / name
        path.write_text(f"#!{sys.executable}\nimport sys\nfile = sys.argv[sys.argv.index('--json') + 1]\n{text}\n")
        path.chmod(0o755)
        return path

    def compare(self, our_records, their_records, *options):
        report = json.dumps({"records": [CEILING, *our_records]})
        program = self.write("program", f"assert sys.argv[1] == 'bench'\nopen(file, 'w').write({report!r})")
        lines = "".join(json.dumps(r) + "\n" for r in [{"kernel": "copy", "num_tokens": None}, *their_records])
        peer = self.write("peer.py", f"open(file, 'w').write({lines!r})")
        return self.run_script(peer, "--program", program, *options)

    def run_script(self, *arguments):
        return subprocess.run([sys.executable, SCRIPT, *arguments], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, check=False)

    def test_ratios_and_targets(self):
        rows_file = self.folder / "rows.json"
        done = self.compare(
            [ours("pack", "split", 1, 0.8), ours("combine", "interleaved", 256, 10.0), ours("correct", "", 1, 1.2),
             ours("mask", "", 1, 1.0), ours("pack", "split", 64, 9.0)],
            [theirs("pack", 1, 4.0), theirs("unpack", 256, 16.0), theirs("mask", 1, 9.0), theirs("correct", 1, 1.0),
             theirs("pack", 64, 10.0)],
            "--json", rows_file)
        self.assertEqual(done.returncode, 0, done.stderr + done.stdout)
        rows = json.loads(rows_file.read_text())
        got = [(r["kernel"], r["num_tokens"], round(r["ratio"], 3), r["must"], r["aim"]) for r in rows]
        self.assertEqual(got, [("pack", 1, 0.2, 0.40, 0.35), ("combine", 256, 0.625, 0.70, 0.65),
                               ("mask + correct", 1, 0.12, 0.13, 0.12), ("pack", 64, 0.9, None, None)])
        self.assertEqual(len(done.stdout.splitlines()), 5)

    def test_a_missed_target_is_said_and_is_exit_code_1(self):
        done = self.compare([ours("pack", "interleaved", 256, 8.6), ours("pack", "split", 256, 7.6)],
                            [theirs("pack", 256, 10.0)])
        self.assertEqual(done.returncode, 1, done.stdout)
        interleaved, split = done.stdout.splitlines()[1:]
        self.assertIn("missed", interleaved)
        self.assertNotIn("missed", split)

    def test_what_cannot_be_run_is_exit_code_2(self):
        done = self.run_script(self.folder / "none.py")
        self.assertEqual((done.returncode, "no file" in done.stderr), (2, True), done.stderr)
        peer = self.write("peer.py", "sys.exit('no GPU here')")
        done = self.run_script(peer)
        self.assertEqual((done.returncode, "no GPU here" in done.stderr), (2, True), done.stderr)
        done = self.compare([ours("pack", "split", 1, 1.0)], [theirs("pack", 8, 1.0)])
        self.assertEqual((done.returncode, "has not timed pack" in done.stderr), (2, True), done.stderr)
        for written in ("[1]", "{", '{"kernel": "pack", "num_tokens": 1}', "[" * 100000,
                        json.dumps({**theirs("pack", 1, 1.0), "kernel": [1]})):
            done = self.run_script(self.write("peer.py", f"open(file, 'w').write({written!r})"))
            self.assertEqual((done.returncode, "not what --help says" in done.stderr), (2, True), done.stderr)
            self.assertNotIn("Traceback", done.stderr)
        for file in (self.folder / "none" / "rows.json", self.folder, "", peer):
            before = peer.read_text()
            done = self.run_script(peer, "--json", file)
            self.assertEqual((done.returncode, "error: " in done.stderr), (2, True), done.stderr)
            self.assertNotIn("Traceback", done.stderr)
            self.assertEqual(peer.read_text(), before)
        for us in ("x", 0, -1.0, float("nan"), None):
            done = self.compare([ours("pack", "split", 1, 1.0)], [theirs("pack", 1, us)])
            self.assertEqual((done.returncode, "as a time" in done.stderr), (2, True), done.stderr)
            done = self.compare([ours("pack", "split", 1, 1.0), {**ours("pack", "split", 8, 1.0), "time_us": us}],
                                [theirs("pack", 1, 1.0), theirs("pack", 8, 1.0)])
            self.assertEqual((done.returncode, "as a time" in done.stderr), (2, True), done.stderr)
        for text in ("[]", "{}", '{"records": [1]}'):
            program = self.write("program", f"open(file, 'w').write({text!r})")
            done = self.run_script(self.write("peer.py", "open(file, 'w')"), "--program", program)
            self.assertEqual((done.returncode, "bench_beside: error: " in done.stderr), (2, True), done.stderr)
            self.assertNotIn("Traceback", done.stderr)
        done = self.compare([ours("pack", "split", 1, 1.0)], [theirs("pack", 1, 1.0)], "--cases", "4,96,512")
        self.assertEqual((done.returncode, "has not timed N, H, D" in done.stderr), (2, True), done.stderr)
        done = self.run_script(peer, "--cases", "0,-1,5")
        self.assertEqual((done.returncode, "from 1 on" in done.stderr), (2, True), done.stderr)
        done = self.run_script(peer, "--cases", "8,128")
        self.assertEqual((done.returncode, "is not N,H,D" in done.stderr), (2, True), done.stderr)
        self.assertNotIn("Traceback", done.stderr)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v"])
