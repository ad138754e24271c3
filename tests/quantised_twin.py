"""What a quantised checkpoint's codes stand for, by the formulas of docs/weights.md and nothing of graft: a folder of
tests/goldens/quantised as the same model in plain numbers. Slow, and enough for small models."""

import hashlib
import json
import shutil
import struct

WIDTHS = {"F32": ("f", 4), "F16": ("e", 2), "BF16": ("H", 2), "I32": ("I", 4), "I64": ("q", 8), "U8": ("B", 1)}
AWQ_PLACES = (0, 4, 1, 5, 2, 6, 3, 7)


def f32(value):
    return struct.unpack("<f", struct.pack("<f", value))[0]


def bf16_bits(value):
    bits = struct.unpack("<I", struct.pack("<f", value))[0]
    return (bits + 0x7fff + (bits >> 16 & 1)) >> 16


def read_file(path):
    """Tensors as {name: (dtype, shape, bytes)}."""
    data = path.read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    tensors = {}
    for name, entry in json.loads(data[8:8 + size]).items():
        if name != "__metadata__":
            begin, end = entry["data_offsets"]
            tensors[name] = entry["dtype"], entry["shape"], data[8 + size + begin:8 + size + end]
    return tensors


def write_file(path, tensors):
    header, data = {}, b""
    for name, (dtype, shape, numbers) in tensors.items():
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [len(data), len(data) + len(numbers)]}
        data += numbers
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


class Parts:
    """The tensors of one weight."""

    def __init__(self, tensors, module):
        self.tensors, self.module = tensors, module

    def has(self, end):
        return self.module + end in self.tensors

    def shape(self, end):
        return self.tensors[self.module + end][1]

    def dtype(self, end):
        return self.tensors[self.module + end][0]

    def raw(self, end):
        return self.tensors[self.module + end][2]

    def values(self, end):
        dtype, _, data = self.tensors[self.module + end]
        kind, width = WIDTHS[dtype]
        values = struct.unpack(f"<{len(data) // width}{kind}", data)
        if dtype == "BF16":
            return struct.unpack(f"<{len(values)}f", b"".join(struct.pack("<I", value << 16) for value in values))
        return values


def nf4(parts):
    state = json.loads(parts.raw(".weight.quant_state.bitsandbytes__nf4"))
    book, absmax = parts.values(".weight.quant_map"), parts.values(".weight.absmax")
    if parts.has(".weight.nested_absmax"):
        nested, codes = parts.values(".weight.nested_absmax"), parts.values(".weight.nested_quant_map")
        offset = f32(state["nested_offset"])
        absmax = [f32(f32(codes[code] * nested[i // state["nested_blocksize"]]) + offset)
                  for i, code in enumerate(absmax)]
    codes = [half for byte in parts.raw(".weight") for half in (byte >> 4, byte & 15)]
    numbers = [book[code] * absmax[i // state["blocksize"]] for i, code in enumerate(codes)]
    return {"bfloat16": "BF16", "float16": "F16"}[state["dtype"]], state["shape"], numbers


def compressed(parts):
    n, k = parts.values(".weight_shape")
    words, scales = parts.values(".weight_packed"), parts.values(".weight_scale")
    groups = parts.shape(".weight_scale")[1]
    per_word = -(-k // parts.shape(".weight_packed")[1])
    bits, middle = 32 // per_word, 1 << (32 // per_word - 1)
    group_of = parts.values(".weight_g_idx") if parts.has(".weight_g_idx") else [i * groups // k for i in range(k)]
    zero_words = parts.values(".weight_zero_point") if parts.has(".weight_zero_point") else None
    numbers = []
    for row in range(n):
        for column in range(k):
            group = group_of[column]
            code = words[(row * k + column) // per_word] >> (column % per_word * bits) & ((1 << bits) - 1)
            zero = middle if zero_words is None else \
                zero_words[row // per_word * groups + group] >> (row % per_word * bits) & ((1 << bits) - 1)
            numbers.append((code - zero) * scales[row * groups + group])
    return parts.dtype(".weight_scale"), [n, k], numbers


def gptq(parts, is_v1):
    words, zero_words, scales = (parts.values(end) for end in (".qweight", ".qzeros", ".scales"))
    groups, n = parts.shape(".scales")
    per_word = n // parts.shape(".qzeros")[1]
    bits, k = 32 // per_word, parts.shape(".qweight")[0] * per_word
    ones = sum(1 << (bits * i) for i in range(per_word)) if is_v1 else 0
    group_of = parts.values(".g_idx")
    numbers = []
    for row in range(n):
        for column in range(k):
            group = group_of[column]
            code = words[column // per_word * n + row] >> (column % per_word * bits) & ((1 << bits) - 1)
            word = (zero_words[group * (n // per_word) + row // per_word] + ones) & 0xffffffff
            zero = word >> (row % per_word * bits) & ((1 << bits) - 1)
            numbers.append((code - zero) * scales[group * n + row])
    return parts.dtype(".scales"), [n, k], numbers


def awq(parts):
    words, zero_words, scales = (parts.values(end) for end in (".qweight", ".qzeros", ".scales"))
    (groups, n), k = parts.shape(".scales"), parts.shape(".qweight")[0]
    numbers = []
    for row in range(n):
        shift = 4 * AWQ_PLACES[row % 8]
        for column in range(k):
            group = column * groups // k
            zero = zero_words[group * (n // 8) + row // 8] >> shift & 15
            numbers.append(((words[column * (n // 8) + row // 8] >> shift & 15) - zero) * scales[group * n + row])
    return parts.dtype(".scales"), [n, k], numbers


def reader(config):
    method = config["quant_method"]
    if method == "bitsandbytes":
        return ".weight.absmax", nf4
    if method == "compressed-tensors":
        return ".weight_packed", compressed
    return ".qweight", awq if method == "awq" else lambda parts: gptq(parts, config["checkpoint_format"] == "gptq")


def write_twin(source, folder, hashes=None):
    """The model of a quantised folder in plain numbers, whose SHA-256 are `hashes`, as dequantised.json has them."""
    config = json.loads((source / "config.json").read_text())
    mark, read = reader(config.pop("quantization_config"))
    tensors = read_file(source / "model.safetensors")
    expected = dict(hashes or json.loads((source / "dequantised.json").read_text()))
    twin = dict(tensors)
    for module in [name.removesuffix(mark) for name in tensors if name.endswith(mark)]:
        dtype, shape, numbers = read(Parts(tensors, module))
        data = struct.pack(f"<{len(numbers)}e", *numbers) if dtype == "F16" else \
            struct.pack(f"<{len(numbers)}H", *map(bf16_bits, numbers))
        assert hashlib.sha256(data).hexdigest() == expected.pop(module + ".weight")["sha256"], module
        for name in [name for name in twin if name.startswith(module + ".")]:
            del twin[name]
        twin[module + ".weight"] = dtype, shape, data
    assert not expected, expected.keys()
    shutil.copytree(source, folder, ignore=shutil.ignore_patterns("model.safetensors", "config.json"))
    write_file(folder / "model.safetensors", twin)
    (folder / "config.json").write_text(json.dumps(config))
