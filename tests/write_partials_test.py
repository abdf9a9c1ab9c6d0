"""tools/write_partials.py, held to what `dcpsim check` reads.

Usage: write_partials_test.py SOURCE_DIR DCPSIM
"""

import pathlib
import subprocess
import sys
import tempfile
import types
import unittest

import numpy

SOURCE, DCPSIM = pathlib.Path(sys.argv[1]), sys.argv[2]
sys.path.insert(0, str(SOURCE / "tools"))
from write_partials import write_partials  # noqa: E402


class FakeTensor:
    """As much of torch.Tensor as the writer may use; bfloat16 as its bits, not contiguous."""

    def __init__(self, array, dtype):
        self.array, self.dtype, self.shape = array, "torch." + dtype, array.shape

    def detach(self):
        return self

    cpu = detach

    def contiguous(self):
        return FakeTensor(numpy.ascontiguousarray(self.array), str(self.dtype)[6:])

    def flatten(self):
        return FakeTensor(self.array.reshape(-1), str(self.dtype)[6:])

    def view(self, dtype):
        assert dtype == "torch.uint8" and self.array.flags["C_CONTIGUOUS"]
        return FakeTensor(self.array.view(numpy.uint8), "uint8")

    def numpy(self):
        assert self.dtype != "torch.bfloat16"
        return self.array


def bf16_bits(array):
    return (array.astype(numpy.float32).view(numpy.uint32) >> 16).astype(numpy.uint16)


def partials():
    """2 ranks, 3 rows, 4 heads, 8 elements; small integers, which every dtype holds."""
    random = numpy.random.default_rng(5)
    return {"partial_out": random.integers(-8, 8, (2, 3, 4, 8)).astype(numpy.float32),
            "partial_lse": random.normal(size=(2, 3, 4)).astype(numpy.float32)}


def combined(base, partial_out, partial_lse):
    weights = numpy.power(float(base), partial_lse.astype(numpy.float64))
    out = (weights[..., None] * partial_out).sum(0) / weights.sum(0)[..., None]
    return {"out": out.astype(numpy.float32),
            "lse": (numpy.log(weights.sum(0)) / numpy.log(base)).astype(numpy.float32)}


class WritePartials(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def path(self, name="dump.safetensors"):
        return str(pathlib.Path(self.folder.name) / name)

    def check(self):
        run = subprocess.run([DCPSIM, "check", self.folder.name], capture_output=True, text=True)
        return run.returncode, run.stdout + run.stderr

    def test_right_results_pass(self):
        data = partials()
        write_partials(self.path(), lse_base=2, metadata={"strategy": "a2a"}, seq_lens=None,
                       **data, **combined(2, **data))
        code, text = self.check()
        self.assertEqual(code, 0, text)
        self.assertIn("dump                      engine", text)

    def test_a_wrong_base_is_named(self):
        data = partials()
        write_partials(self.path(), lse_base="e", **data, **combined(2, **data))
        code, text = self.check()
        self.assertEqual(code, 1, text)
        self.assertIn("reproduced by wrong_base: the lse, in base e, was taken for base 2", text)

    def test_masks_are_read(self):
        data = partials()
        results = combined(numpy.e, **data)
        results["out"][2:], results["lse"][2:] = 0, -numpy.inf  # padding
        write_partials(self.path(), lse_base="e", seq_lens=numpy.array([[3, 1], [2, 1]]),
                       query_start_loc=numpy.array([0, 1, 2], numpy.int32), **data, **results)
        code, text = self.check()
        self.assertEqual(code, 0, text)

    def test_one_file_per_rank_is_joined(self):
        data = partials()
        results = combined(numpy.e, **data)
        for rank in range(2):
            heads = slice(2 * rank, 2 * rank + 2)
            write_partials(self.path(f"step.rank-{rank}.safetensors"), lse_base="e",
                           out=results["out"][:, heads], lse=results["lse"][:, heads],
                           **{name: tensor[rank] for name, tensor in data.items()})
        code, text = self.check()
        self.assertEqual(code, 0, text)
        self.assertIn("1 cases", text)

    def test_torch_tensors_keep_their_bits(self):
        sys.modules["torch"] = types.SimpleNamespace(uint8="torch.uint8")
        self.addCleanup(sys.modules.pop, "torch")
        data = partials()
        results = combined(numpy.e, **data)
        head_major = bf16_bits(data["partial_out"]).transpose(0, 2, 1, 3).copy()
        write_partials(self.path(), lse_base="e",
                       partial_out=FakeTensor(head_major.transpose(0, 2, 1, 3), "bfloat16"),
                       partial_lse=FakeTensor(data["partial_lse"], "float32"),
                       out=FakeTensor(bf16_bits(results["out"]), "bfloat16"))
        code, text = self.check()
        self.assertEqual(code, 0, text)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
