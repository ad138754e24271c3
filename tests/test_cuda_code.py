"""tools/cuda_code.py, which looks at what an archive's program has for GPUs."""

import importlib.util
import struct
from pathlib import Path

SPEC = importlib.util.spec_from_file_location("cuda_code", Path(__file__).parent.parent / "tools/cuda_code.py")
cuda_code = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(cuda_code)

CODE, TEXT = cuda_code.wanted("80-real;90a-real;100;120-real")


def module(path, architecture, stack=0, kind="elf"):
    """As cuobjdump 13 prints it."""
    head = (f"\nFatbin {kind} code:\n================\narch = {architecture}\ncode version = [1,8]\nhost = linux\n"
            f"compile_size = 64bit\ncompressed\nidentifier = ../../src/{path}\n")
    if kind == "ptx":
        return head + "ptxasOptions =  --generate-line-info \n"
    return head + ("\nResource usage:\n Common:\n  GLOBAL:0\n Function _Z5CleanPf:\n  REG:8 STACK:0 SHARED:0 LOCAL:0 "
                   "CONSTANT[0]:360 TEXTURE:0 SURFACE:0 SAMPLER:0\n Function _Z5OtherPf:\n"
                   f"  REG:255 STACK:{stack} SHARED:16 LOCAL:0 CONSTANT[0]:360 TEXTURE:0 SURFACE:0 SAMPLER:0\n")


def whole(path, stack=0):
    return "".join(module(path, name, stack) for name in sorted(CODE)) + module(path, "sm_100", kind="ptx")


def problems(output):
    modules = cuda_code.read_modules(output)
    return cuda_code.missing(modules, CODE, TEXT) + cuda_code.spilling(modules)


def test_the_preset_says_what_is_wanted():
    assert CODE == {"sm_80", "sm_90a", "sm_100", "sm_120"} and TEXT == {"sm_100"}


def test_a_whole_program_has_no_problem():
    output = whole("kernels/gemm/gemm_mma.cu") + module("kernels/gemm/gemm_hopper.cu", "sm_90a", stack=64)
    assert len(cuda_code.read_modules(output)) == 6
    assert problems(output) == []


def test_what_is_missing_is_named():
    output = whole("kernels/rope/rope_cuda.cu") + module("kernels/lora/lora_cuda.cu", "sm_80")
    found = problems(output)
    assert "../../src/kernels/lora/lora_cuda.cu has no code for sm_120" in found
    assert "../../src/kernels/lora/lora_cuda.cu has no text for sm_100" in found
    assert len(found) == 4
    assert problems(module("kernels/gemm/gemm_hopper.cu", "sm_90a")) == ["no file has code for all architectures"]


def test_spills_of_the_family_are_named():
    found = problems(whole("kernels/lora/lora_expand.cu", stack=24))
    assert len(found) == 3, "not Hopper's"
    assert found[0].endswith("_Z5OtherPf keeps 24 bytes in local memory")
    assert problems(whole("kernels/sampling/sampling_cuda.cu", stack=24)) == []
    assert len(problems(whole("kernels/attention_backward/attention_backward_mma.cu", stack=32))) == 3


def test_what_may_spill_may_not_spill_more():
    assert problems(whole("kernels/attention/attention_decode.cu", stack=24)) == []
    assert len(problems(whole("kernels/attention/attention_decode.cu", stack=32))) == 3


def instruction(first, second):
    return struct.pack("<QQ", first, second)


def cubin(**kernels):
    """An ELF file with these kernels' code."""
    names = b"\0.shstrtab\0" + b"".join(f".text.{name}\0".encode() for name in kernels)
    data, sections, name_at = b"\0" * 64, [struct.pack("<IIQQQQIIQQ", *[0] * 10)], len("\0.shstrtab\0")
    for name, code in kernels.items():
        sections.append(struct.pack("<IIQQQQIIQQ", name_at, 1, 6, 0, len(data), len(code), 0, 0, 128, 0))
        name_at += len(f".text.{name}\0")
        data += code
    sections.append(struct.pack("<IIQQQQIIQQ", 1, 3, 0, 0, len(data), len(names), 0, 0, 1, 0))
    data += names
    header = bytearray(data)
    struct.pack_into("<Q", header, 0x28, len(data))
    struct.pack_into("<HHH", header, 0x3A, 64, len(sections), len(sections) - 1)
    return bytes(header) + b"".join(sections)


def test_copies_that_lost_their_register_are_found():
    # LDGSTS [R7+UR0], desc[UR1][R4.64] of ptxas 13.0, the same by UR6 of 13.5, and one without a hint.
    lost = instruction(0x0000000004077DAE, 0x000FE8000B901D40)
    kept = instruction(0x0000000004077DAE, 0x000FE8000B901D46)
    plain = instruction(0x0000000004077FAE, 0x000FE80008141D40)
    assert [cuda_code.lost_registers(code) for code in (lost, kept, plain, lost + plain + lost)] == [1, 0, 0, 2]
    found = dict(cuda_code.code_of_kernels(cubin(first=plain + lost, second=kept)))
    assert found == {"first": plain + lost, "second": kept}
