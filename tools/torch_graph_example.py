"""Pack and unpack of a decode step in a PyTorch graph, over a staging buffer that is kept, freed or
regrown after the capture, written for `dcpsim audit --graph`.

    python3 tools/torch_graph_example.py KERNELS kept|freed|regrown FILE.json
    dcpsim audit --graph FILE.json          # kept: no finding; the others: stale_pointer

KERNELS is a folder with a module seed_kernels that has new_send_buffer(out, world_size),
pack_send(out, lse, send, world_size, seq_lens, query_start_loc) and
unpack_combine(recv, head_dim, return_lse, base_e). Needs a GPU and PyTorch 2.8 or newer.
"""

import sys
from pathlib import Path

WORLD_SIZE, TOKENS, HEADS, DIM = 2, 4, 8, 64


def main(kernels_folder, fate, path):
    sys.path[:0] = [kernels_folder, str(Path(__file__).parent)]
    import export_torch_graph
    import seed_kernels
    import torch

    export = export_torch_graph.GraphExport()
    out = torch.randn(TOKENS, HEADS, DIM, device="cuda", dtype=torch.bfloat16)
    lse = torch.randn(TOKENS, HEADS, device="cuda")
    lengths = torch.arange(TOKENS, device="cuda", dtype=torch.int32)
    boundaries = torch.arange(TOKENS + 1, device="cuda", dtype=torch.int32)
    staging = seed_kernels.new_send_buffer(out, WORLD_SIZE)
    export.name("partial_out", out)
    export.name("partial_lse", lse)
    export.name("seq_lens", lengths)
    export.name("query_start_loc", boundaries)
    export.name("staging", staging)

    def step():
        seed_kernels.pack_send(out, lse, staging, WORLD_SIZE, lengths, boundaries)
        return seed_kernels.unpack_combine(staging, DIM, True, True)

    step()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph(keep_graph=True)
    with torch.cuda.graph(graph):
        combined = step()
    export.add("decode", graph)
    if fate == "freed":
        del staging
    elif fate == "regrown":
        staging = torch.empty(2 * staging.numel(), device="cuda", dtype=staging.dtype)
    export.write(path)
    del combined


if __name__ == "__main__":
    if len(sys.argv) != 4 or sys.argv[2] not in ("kept", "freed", "regrown"):
        sys.exit(__doc__)
    main(*sys.argv[1:])
