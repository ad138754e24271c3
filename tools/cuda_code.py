#!/usr/bin/env python3
"""cuda_code.py PROGRAM: whether a program of the preset `dist` has what the preset promises, by cuobjdump.

Every file of CUDA code has machine code for each architecture of the preset, and text for those that later cards
compile; files of Hopper's own instructions have code for it alone. Kernels of products, attention and LoRA that lesser
cards run keep nothing in local memory, which is where a compiler puts what finds no register (`SPILLS` says which do
all the same, and why). No copy to shared memory has lost its register, as ptxas of CUDA 13.0 may lose it
(workshop/cuda_gemm_ampere.md): the GPU ends such a kernel with an illegal instruction."""

import collections
import glob
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# What must not spill, as parts of a file's path.
FOLDERS = ("kernels/gemm/", "kernels/attention/", "kernels/attention_backward/", "kernels/lora/")
# Files of these folders with kernels that keep so many bytes in local memory, and why they may (nvcc 13.0).
SPILLS = {
    "kernels/attention/attention_prefill.cu": (832, "finished splits lie there, which no register has room for"),
    "kernels/attention/attention_decode.cu": (24, "more than eight heads of a key head, capped scores; sm_120: heads of 64"),
    "kernels/attention/attention_prompt_mma.cu": (16, "heads of 128, two blocks: sm_100, and sm_120, which runs the other"),
    "kernels/attention_backward/attention_backward_mma.cu": (24, "the keys' pass of heads of 128"),
    "kernels/gemm/gemm_cuda.cu": (8, "fp32, for comparisons"),
}
# An instruction is two words of 64 bits. cp.async, with a hint for the second-level cache and part of its address in a
# uniform register, whose number is in the second word. Zero is what ptxas of CUDA 13.0 wrote there for any number.
COPY_BY_UNIFORM, OPERATION_BITS, UNIFORM_BITS = 0xDAE, 0xFFF, 0x3F

Module = collections.namedtuple("Module", "path kind architecture stacks")  # stacks: bytes by kernel


def wanted(architectures):
    """(code, text): the names of a preset's architectures, as cuobjdump prints them."""
    code, text = set(), set()
    for name in architectures.split(";"):
        number, _, kind = name.partition("-")
        if kind != "virtual":
            code.add(f"sm_{number}")
        if kind != "real":
            text.add(f"sm_{number}")
    return code, text


def read_modules(output):
    """The modules of `cuobjdump --dump-resource-usage`."""
    modules = []
    for part in re.split(r"^Fatbin (?=elf|ptx)", output, flags=re.M)[1:]:
        kind = part[:3]
        architecture = re.search(r"^arch = (\S+)", part, re.M).group(1)
        path = re.search(r"^identifier = (\S+)", part, re.M)
        kernels = re.findall(r"^ Function (\S+):\n.*?STACK:(\d+)", part, re.M)
        modules.append(Module(path.group(1) if path else "?", kind, architecture,
                              {name: int(stack) for name, stack in kernels}))
    return modules


def missing(modules, code, text):
    """A line for each file that lacks an architecture."""
    by_path = collections.defaultdict(lambda: (set(), set()))
    for module in modules:
        by_path[module.path][module.kind == "ptx"].add(module.architecture)
    lines = []
    for path, (has_code, has_text) in sorted(by_path.items()):
        if has_code == {"sm_90a"} and not has_text:
            continue  # Hopper's own
        for name in sorted(code - has_code):
            lines.append(f"{path} has no code for {name}")
        for name in sorted(text - has_text):
            lines.append(f"{path} has no text for {name}")
    if not any(has_code >= code and has_text >= text for has_code, has_text in by_path.values()):
        lines.append("no file has code for all architectures")
    return lines


def spilling(modules):
    """A line for each kernel that keeps something in local memory where none is to."""
    own = {path for path in {module.path for module in modules}
           if {module.architecture for module in modules if module.path == path} == {"sm_90a"}}
    lines = []
    for module in modules:
        if module.path in own or module.architecture == "sm_90a":
            continue
        if not any(folder in module.path for folder in FOLDERS):
            continue
        allowed = max((bytes_kept for path, (bytes_kept, _) in SPILLS.items() if module.path.endswith(path)), default=0)
        lines += [f"{module.path}, {module.architecture}: {name} keeps {stack} bytes in local memory"
                  for name, stack in module.stacks.items() if stack > allowed]
    return lines


def code_of_kernels(cubin):
    """(kernel, machine code) of each kernel of a cubin, which is an ELF file of 64 bits."""
    table = struct.unpack_from("<Q", cubin, 0x28)[0]
    size, count, names = struct.unpack_from("<HHH", cubin, 0x3A)
    sections = [struct.unpack_from("<IIQQQQ", cubin, table + i * size) for i in range(count)]
    for name_at, _, _, _, begin, length in sections:
        name_at += sections[names][4]
        name = cubin[name_at:cubin.index(b"\0", name_at)].decode()
        if name.startswith(".text."):
            yield name.removeprefix(".text."), cubin[begin:begin + length]


def lost_registers(code):
    """How many copies of a kernel's code name a register that they lost."""
    words = memoryview(code).cast("Q")
    return sum(1 for first, second in zip(words[::2], words[1::2])
               if first & OPERATION_BITS == COPY_BY_UNIFORM and second & UNIFORM_BITS == 0)


def losing(cuobjdump, program):
    """A line for each kernel with such copies."""
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([cuobjdump, "--extract-elf", "all", os.path.abspath(program)], cwd=folder, check=True,
                       stdout=subprocess.DEVNULL)
        for path in sorted(glob.glob(folder + "/*.cubin")):
            with open(path, "rb") as file:
                cubin = file.read()
            lines += [f"{os.path.basename(path)}: {name} has {lost} copies whose register was lost"
                      for name, code in code_of_kernels(cubin) if (lost := lost_registers(code))]
    return lines


def find_cuobjdump():
    own = glob.glob(os.path.join(ROOT, "build/venv-cuda/lib/python3*/site-packages/nvidia/cu*/bin/cuobjdump"))
    for path in [os.environ.get("CUOBJDUMP"), shutil.which("cuobjdump"), "/usr/local/cuda/bin/cuobjdump", *own]:
        if path and os.path.exists(path):
            return path
    sys.exit("cuobjdump is missing: it is part of the CUDA toolkit, and tools/install.sh dist installs it alone")


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    with open(os.path.join(ROOT, "CMakePresets.json")) as file:
        presets = {preset["name"]: preset for preset in json.load(file)["configurePresets"]}
    code, text = wanted(presets["dist"]["cacheVariables"]["CMAKE_CUDA_ARCHITECTURES"])
    cuobjdump = find_cuobjdump()
    output = subprocess.run([cuobjdump, "--dump-resource-usage", sys.argv[1]], stdout=subprocess.PIPE, text=True,
                            check=True).stdout
    modules = read_modules(output)
    lines = missing(modules, code, text) + spilling(modules) + losing(cuobjdump, sys.argv[1])
    print("\n".join(lines[:40]))
    kernels = sum(len(module.stacks) for module in modules)
    print(f"== {len({module.path for module in modules})} files of CUDA code for {' '.join(sorted(code))}, text for "
          f"{' '.join(sorted(text))}: {kernels} kernels, {len(lines)} problems")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
