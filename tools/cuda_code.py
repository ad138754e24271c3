#!/usr/bin/env python3
"""cuda_code.py PROGRAM: whether a program of the preset `dist` has what the preset promises, by cuobjdump.

Every file of CUDA code has machine code for each architecture of the preset, and text for those that later cards
compile; files of Hopper's own instructions have code for it alone. Kernels of products, attention and LoRA that lesser
cards run keep nothing in local memory, which is where a compiler puts what finds no register (`SPILLS` says which do
all the same, and why)."""

import collections
import glob
import json
import os
import re
import shutil
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# What must not spill, as parts of a file's path.
FOLDERS = ("kernels/gemm/", "kernels/attention/", "kernels/lora/")
# Files of these folders whose kernels may keep an array in local memory: why they do.
SPILLS = {
    "kernels/attention/attention_cuda.cu": "the plain kernel, of shapes and dtypes that no other takes",
}

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
        if not any(folder in module.path for folder in FOLDERS) or any(module.path.endswith(path) for path in SPILLS):
            continue
        lines += [f"{module.path}, {module.architecture}: {name} keeps {stack} bytes in local memory"
                  for name, stack in module.stacks.items() if stack > 0]
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
    output = subprocess.run([find_cuobjdump(), "--dump-resource-usage", sys.argv[1]], stdout=subprocess.PIPE, text=True,
                            check=True).stdout
    modules = read_modules(output)
    lines = missing(modules, code, text) + spilling(modules)
    print("\n".join(lines[:40]))
    kernels = sum(len(module.stacks) for module in modules)
    print(f"== {len({module.path for module in modules})} files of CUDA code for {' '.join(sorted(code))}, text for "
          f"{' '.join(sorted(text))}: {kernels} kernels, {len(lines)} problems")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
