"""What of tools/export_torch_graph.py needs no GPU, held to what `dcpsim audit --graph` reads.

Usage: export_torch_graph_test.py SOURCE_DIR DCPSIM
"""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

SOURCE, DCPSIM = pathlib.Path(sys.argv[1]), sys.argv[2]
sys.path.insert(0, str(SOURCE / "tools"))
from export_torch_graph import allocations, graph_record, ordered  # noqa: E402

STAGING, OUT, POOL = 0x10000, 0x20000, 0x40000


def event(action, addr, size):
    return {"action": action, "addr": addr, "size": size}


def snapshot(trace):
    """The output was there before the history began; the pool segment is a graph's."""
    blocks = [{"size": 512, "state": "active_allocated"}, {"size": 512, "state": "inactive"}]
    return {"device_traces": [trace],
            "segments": [{"device": 0, "address": OUT, "total_size": 1024, "blocks": blocks,
                          "segment_pool_id": (0, 0)},
                         {"device": 0, "address": POOL, "total_size": 4096, "blocks": [],
                          "segment_pool_id": (0, 1)}]}


CAPTURED = [event("alloc", STAGING, 256), event("alloc", POOL, 64),
            event("free_completed", POOL, 64)]
REGROWN = [event("free_requested", STAGING, 256), event("free_completed", STAGING, 256),
           event("alloc", STAGING + 0x1000, 1024)]


def pointer(address):
    return address.to_bytes(8, "little").hex()


def pack_and_unpack(captured_at):
    nodes = {7: {"op": "pack", "arguments": [pointer(STAGING), pointer(POOL), "04000000"]},
             3: {"op": "unpack", "arguments": [pointer(POOL), pointer(OUT)]}}
    return graph_record("decode", captured_at, [3, 7], [(7, 3, False)], dict(nodes).get)


def audit(trace, captured_at=len(CAPTURED)):
    record = {"rank": 0, "graphs": [pack_and_unpack(captured_at)],
              "allocations": allocations(snapshot([]), snapshot(trace),
                                         names=[(1, STAGING, "staging")])}
    with tempfile.TemporaryDirectory() as folder:
        path, report = pathlib.Path(folder) / "g.json", pathlib.Path(folder) / "report.json"
        path.write_text(json.dumps({"format": "dcpsim-graph", "version": 1, "ranks": [record]}))
        done = subprocess.run([DCPSIM, "audit", "--graph", path, "--json", report],
                              capture_output=True, text=True)
        return done, json.loads(report.read_text())["audits"][0]


class ExportTest(unittest.TestCase):
    def test_a_staging_buffer_that_was_regrown_after_the_capture_is_found(self):
        done, report = audit(CAPTURED + REGROWN)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertEqual([(h["kind"], h["buffer"], h["node"]) for h in report["hazards"]],
                         [("stale_pointer", "staging", "pack")])

    def test_the_sound_twin_is_clean(self):
        done, report = audit(CAPTURED)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(len(report["graphs"][0]["buffers"]), 3)

    def test_a_pool_segment_may_lie_where_tensors_were_before(self):
        before = [event("alloc", POOL - 512, 1024), event("alloc", POOL + 512, 512),
                  event("free_completed", POOL - 512, 1024),
                  event("free_completed", POOL + 512, 512), event("segment_alloc", POOL, 4096)]
        trace = CAPTURED[:1] + before + CAPTURED[1:]
        made = allocations(snapshot([]), snapshot(trace))
        self.assertEqual([(a["born"], a.get("died")) for a in made if a["address"] >= POOL - 512],
                         [(2, 4), (3, 5), (6, None)])
        done, _ = audit(trace, len(trace))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_nodes_come_after_what_they_depend_on(self):
        self.assertEqual(ordered([1, 2, 3], [(3, 1, False), (2, 3, False)]), [2, 3, 1])
        self.assertEqual([n["dependencies"] for n in pack_and_unpack(3)["nodes"]], [[], [0]])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
