"""Writes a decode step's partials, and what the engine made of them, for `dcpsim check`.

    write_partials("step7.safetensors", lse_base="e", partial_out=..., partial_lse=..., out=...)

Tensors are PyTorch's or numpy's; docs/VECTORS.md names them and their shapes. In a distributed
engine every rank writes its own file, without the leading [N]: "step7.rank-0.safetensors", ...
"""

import json
import struct

DTYPES = {"float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16",
          "int64": "I64", "int32": "I32", "uint8": "U8"}


def _bytes(tensor):
    """Row-major bytes; PyTorch's bfloat16 has no numpy form but its bits."""
    if hasattr(tensor, "detach"):
        import torch
        return tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes()
    return tensor.tobytes(order="C")


def write_partials(path, lse_base, metadata=None, **tensors):
    """`lse_base`: "e" or 2; `metadata`: strategy, interleave, source. None stands for no tensor."""
    header = {"__metadata__": {"lse_base": str(lse_base),
                               **{key: str(value) for key, value in (metadata or {}).items()}}}
    data = []
    end = 0
    for name, tensor in tensors.items():
        if tensor is None:
            continue
        data.append(_bytes(tensor))
        begin, end = end, end + len(data[-1])
        header[name] = {"dtype": DTYPES[str(tensor.dtype).replace("torch.", "")],
                        "shape": list(tensor.shape), "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + b"".join(data))
