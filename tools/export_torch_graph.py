"""Writes captured PyTorch CUDA graphs, and the allocator's history, for `dcpsim audit --graph`.

    export = GraphExport()                        # before the buffers that graphs use are made
    export.name("staging", staging)               # optional
    graph = torch.cuda.CUDAGraph(keep_graph=True)
    with torch.cuda.graph(graph):
        ...
    export.add("decode", graph)
    ...                                           # whatever the engine does before it replays
    export.write("decode.json")

docs/GRAPH_JSON.md documents the file. Kernel arguments come from the driver (12.4 or newer), so
that Triton's and NCCL's kernels are read too; nothing says what a kernel does with a pointer, so
every pointer counts as read and written. The native caching allocator only. The private pool of a
graph is one buffer for each of its segments: what is reused inside it is not looked into.
"""

import ctypes
import json

_KERNEL, _MEMCPY, _MEMSET = 0, 1, 2
_KINDS = {3: "host", 4: "child_graph", 5: "empty", 6: "wait_event", 7: "record_event",
          10: "mem_alloc", 11: "mem_free", 13: "conditional"}
_PROGRAMMATIC = 1        # CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC
_BUFFER_POINTER = 1      # CU_LAUNCH_PARAM_BUFFER_POINTER


class _KernelParams(ctypes.Structure):  # CUDA_KERNEL_NODE_PARAMS_v2
    _fields_ = [("func", ctypes.c_void_p), ("dims", ctypes.c_uint * 7),
                ("kernel_params", ctypes.POINTER(ctypes.c_void_p)),
                ("extra", ctypes.POINTER(ctypes.c_void_p)), ("kern", ctypes.c_void_p),
                ("ctx", ctypes.c_void_p)]


class _CopyEnd(ctypes.Structure):  # one side of CUDA_MEMCPY3D
    _fields_ = [("x", ctypes.c_size_t), ("y", ctypes.c_size_t), ("z", ctypes.c_size_t),
                ("lod", ctypes.c_size_t), ("memory_type", ctypes.c_uint),
                ("host", ctypes.c_void_p), ("device", ctypes.c_uint64),
                ("array", ctypes.c_void_p), ("reserved", ctypes.c_void_p),
                ("pitch", ctypes.c_size_t), ("height", ctypes.c_size_t)]

    def access(self, mode, width, height, depth):
        base = self.device if self.device else self.host
        if not base:
            return None  # an array: it has no address
        pitch, rows = self.pitch or width, self.height or height
        first = base + (self.z * rows + self.y) * pitch + self.x
        size = ((depth - 1) * rows + height - 1) * pitch + width
        return {"address": first, "size_bytes": size, "mode": mode}


class _CopyParams(ctypes.Structure):  # CUDA_MEMCPY3D_v2
    _fields_ = [("src", _CopyEnd), ("dst", _CopyEnd), ("width", ctypes.c_size_t),
                ("height", ctypes.c_size_t), ("depth", ctypes.c_size_t)]


class _SetParams(ctypes.Structure):  # CUDA_MEMSET_NODE_PARAMS_v1
    _fields_ = [("dst", ctypes.c_uint64), ("pitch", ctypes.c_size_t), ("value", ctypes.c_uint),
                ("element_size", ctypes.c_uint), ("width", ctypes.c_size_t),
                ("height", ctypes.c_size_t)]


class _EdgeData(ctypes.Structure):  # CUgraphEdgeData
    _fields_ = [("from_port", ctypes.c_ubyte), ("to_port", ctypes.c_ubyte),
                ("type", ctypes.c_ubyte), ("reserved", ctypes.c_ubyte * 5)]


class _Driver:
    def __init__(self):
        self.library = ctypes.CDLL("libcuda.so.1")

    def has(self, name):
        return hasattr(self.library, name)

    def call(self, name, *arguments):
        return getattr(self.library, name)(*arguments)

    def check(self, name, *arguments):
        result = self.call(name, *arguments)
        if result != 0:
            raise RuntimeError(f"{name} failed with error {result}")


def _nodes(driver, graph):
    count = ctypes.c_size_t()
    driver.check("cuGraphGetNodes", graph, None, ctypes.byref(count))
    nodes = (ctypes.c_void_p * count.value)()
    driver.check("cuGraphGetNodes", graph, nodes, ctypes.byref(count))
    return list(nodes)


def _edges(driver, graph):
    """(from, to, is_programmatic) of every edge, as node handles."""
    count = ctypes.c_size_t()
    if not driver.has("cuGraphGetEdges_v2"):  # then no edge can be programmatic
        driver.check("cuGraphGetEdges", graph, None, None, ctypes.byref(count))
        first, second = ((ctypes.c_void_p * count.value)() for _ in range(2))
        driver.check("cuGraphGetEdges", graph, first, second, ctypes.byref(count))
        return [(a, b, False) for a, b in zip(first, second)]
    driver.check("cuGraphGetEdges_v2", graph, None, None, None, ctypes.byref(count))
    first, second = ((ctypes.c_void_p * count.value)() for _ in range(2))
    data = (_EdgeData * count.value)()
    driver.check("cuGraphGetEdges_v2", graph, first, second, data, ctypes.byref(count))
    return [(a, b, d.type == _PROGRAMMATIC) for a, b, d in zip(first, second, data)]


def _argument_buffer(extra):
    """Where all arguments lie one after the other, as NCCL passes them; else None."""
    i = 0
    while extra and extra[i]:
        if extra[i] == _BUFFER_POINTER:
            return extra[i + 1]
        i += 2
    return None


def _kernel(driver, node):
    params = _KernelParams()
    driver.check("cuGraphKernelNodeGetParams_v2", node, ctypes.byref(params))
    of, handle = ("cuFunc", params.func) if params.func else ("cuKernel", params.kern)
    handle = ctypes.c_void_p(handle)
    name = ctypes.c_char_p()
    named = driver.call(of + "GetName", ctypes.byref(name), handle)
    buffer = _argument_buffer(params.extra)
    arguments = []
    while True:
        offset, size = ctypes.c_size_t(), ctypes.c_size_t()
        index = ctypes.c_size_t(len(arguments))
        if driver.call(of + "GetParamInfo", handle, index, ctypes.byref(offset),
                       ctypes.byref(size)) != 0:
            break  # CUDA_ERROR_INVALID_VALUE: there is no further one
        if params.kernel_params:
            address = params.kernel_params[len(arguments)]
        elif buffer:
            address = buffer + offset.value
        else:
            break
        arguments.append(ctypes.string_at(address, size.value).hex())
    text = name.value.decode() if named == 0 and name.value else "kernel"
    return {"op": text, "arguments": arguments}


def _node(driver, handle):
    node = ctypes.c_void_p(handle)
    kind = ctypes.c_uint()
    driver.check("cuGraphNodeGetType", node, ctypes.byref(kind))
    if kind.value == _KERNEL:
        return _kernel(driver, node)
    if kind.value == _MEMCPY:
        copy = _CopyParams()
        driver.check("cuGraphMemcpyNodeGetParams", node, ctypes.byref(copy))
        size = (copy.width, max(copy.height, 1), max(copy.depth, 1))
        ends = [copy.src.access("read", *size), copy.dst.access("write", *size)]
        return {"op": "memcpy", "accesses": [end for end in ends if end]}
    if kind.value == _MEMSET:
        fill = _SetParams()
        driver.check("cuGraphMemsetNodeGetParams", node, ctypes.byref(fill))
        width = fill.width * fill.element_size
        size = width if fill.height <= 1 else (fill.height - 1) * fill.pitch + width
        return {"op": "memset",
                "accesses": [{"address": fill.dst, "size_bytes": size, "mode": "write"}]}
    return {"op": _KINDS.get(kind.value, f"node_type_{kind.value}"), "accesses": []}


def ordered(nodes, edges):
    """Handles in an order in which each comes after what it depends on; else as they are."""
    missing = {node: 0 for node in nodes}
    after = {node: [] for node in nodes}
    for first, second, _ in edges:
        missing[second] += 1
        after[first].append(second)
    ready = [node for node in nodes if missing[node] == 0]
    order = []
    while ready:
        node = ready.pop(0)
        order.append(node)
        for each in after[node]:
            missing[each] -= 1
            if missing[each] == 0:
                ready.append(each)
    return order


def graph_record(name, captured_at, nodes, edges, read_node):
    """`nodes`, `edges`: of handles; `read_node` makes of a handle what it does."""
    order = ordered(nodes, edges)
    index = {node: i for i, node in enumerate(order)}
    records = [read_node(node) for node in order]
    for record in records:
        record["dependencies"] = []
    for first, second, programmatic in sorted(edges, key=lambda e: (index[e[1]], index[e[0]])):
        edge = {"node": index[first], "programmatic": 1} if programmatic else index[first]
        records[index[second]]["dependencies"].append(edge)
    return {"name": name, "captured_at": captured_at, "nodes": records}


def _blocks(segment):
    address = segment["address"]
    for block in segment["blocks"]:
        yield block.get("address", address), block
        address += block["size"]


def _private_segments(snapshot, device):
    return [segment for segment in snapshot["segments"]
            if segment.get("device", 0) == device
            and tuple(segment.get("segment_pool_id", (0, 0))) != (0, 0)]


def _birth(segment, since):
    """The moment that took it from the driver: its bytes may have been tensors' before. 0: before
    the first snapshot."""
    return max((moment for moment, entry in since
                if entry["action"] in ("segment_alloc", "segment_map")
                and entry["addr"] == segment["address"]), default=0)


def allocations(first, last, device=0, names=()):
    """Of two snapshots: what was live at the first, and all since by the second's trace. A moment
    is a number of trace entries. `names`: (moment, address, name)."""
    trace = last["device_traces"][device]
    start = len(first["device_traces"][device])
    since = list(enumerate(trace[start:], start + 1))
    private = [(segment, _birth(segment, since)) for segment in _private_segments(last, device)]
    records, live = [], {}

    def is_private(address, moment):
        return any(born <= moment and s["address"] <= address < s["address"] + s["total_size"]
                   for s, born in private)

    def begin(address, size, moment):
        live[address] = {"address": address, "size_bytes": size, "born": moment}
        records.append(live[address])

    for segment in first["segments"]:
        for address, block in _blocks(segment):
            held = segment.get("device", 0) == device and block["state"] == "active_allocated"
            if held and not is_private(address, 0):
                begin(address, block["size"], 0)
    for moment, entry in since:
        if is_private(entry["addr"], moment):
            continue
        if entry["action"] == "alloc":
            begin(entry["addr"], entry["size"], moment)
        elif entry["action"] == "free_completed" and entry["addr"] in live:
            live.pop(entry["addr"])["died"] = moment
    for segment, born in private:
        records.append({"name": "graph pool segment", "owner": "graph pool",
                        "address": segment["address"], "size_bytes": segment["total_size"],
                        "born": born})
    for moment, address, name in names:
        for record in records:
            end = record.get("died", float("inf"))
            inside = record["address"] <= address < record["address"] + record["size_bytes"]
            if inside and record["born"] <= moment < end and "name" not in record:
                record["name"] = name
    return records


class GraphExport:
    """Records the allocator of the current device from now on, and graphs as they are added."""

    def __init__(self):
        import torch
        self.torch = torch
        self.device = torch.cuda.current_device()
        torch.cuda.memory._record_memory_history(max_entries=10_000_000)
        self.first = torch.cuda.memory._snapshot()
        self.graphs, self.names = [], []

    def _now(self):
        return len(self.torch.cuda.memory._snapshot()["device_traces"][self.device])

    def name(self, name, tensor):
        """What reports call the tensor's memory."""
        self.names.append((self._now(), tensor.data_ptr(), name))

    def add(self, name, graph):
        """Right after the capture of a graph that was made with keep_graph=True."""
        driver = _Driver()
        raw = ctypes.c_void_p(graph.raw_cuda_graph())
        self.graphs.append(graph_record(name, self._now(), _nodes(driver, raw),
                                        _edges(driver, raw), lambda node: _node(driver, node)))

    def write(self, path, rank=0):
        """As of now: what was freed since a capture is freed."""
        record = {"rank": rank, "graphs": self.graphs,
                  "allocations": allocations(self.first, self.torch.cuda.memory._snapshot(),
                                             self.device, self.names)}
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"format": "dcpsim-graph", "version": 1, "ranks": [record]}, file)
