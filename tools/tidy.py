#!/usr/bin/env python3
"""The house's rules that a machine can check: layers, circles, sizes, headers, forbidden words.

Prints every violation as path:line: what, and exits with 1 if there is one.
"""

import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
LINE_COLUMNS_MAX = 100
PROSE_COLUMNS_MAX = 120
FUNCTION_LINES_MAX = 70
FILE_LINES_MAX = 600
# Assembled, so that this file does not trip over itself.
UNFINISHED = re.compile(r"\b(TO" + r"DO|FIX" + r"ME|XX" + r"X|HA" + r"CK)\b")
MACHINE_PATH = re.compile(r"(?<![\w.])/(work|root|home)/")
THROW = re.compile(r"^\s*throw\b")
# Comments speak of things as things: who and whose are people, and a sentence has a subject and a verb.
DIALECT = re.compile(r"(?<!people )(?<!person )\b[Ww]ho\b|\b(?:[Ww]hose|[Ww]hom|[Ww]hoever|[Nn]obody|[Ll]ikewise)\b|"
                     r"\b(?:[Ss]ome|[Aa]ny|[Ee]very)(?:body|one)\b|(?:^|[.:] )(?:Of|As are|Null of) ")
# Both lists shrink: what stands here is older than its rule.
DIALECT_FILES = ("src/kernels/attention/attention_decode", "src/kernels/attention/attention_prompt_roles",
                 "src/kernels/gemm/gemm_codes.h")
LONG_FUNCTIONS = {"src/kernels/attention/attention_decode_warps.cuh": 73, "src/kernels/attention/attention_prefill.cu": 76,
                  "src/kernels/lora/lora_activate.cu": 71}

problems = []


def report(path, line, what):
    problems.append(f"{path}:{line}: {what}")


def read_layers():
    layers = {}
    with open(os.path.join(ROOT, "LAYERS")) as file:
        for line in file:
            line = line.split("#")[0].strip()
            if line:
                folder, _, allowed = line.partition(":")
                layers[folder] = set(allowed.split()) | {folder}
    return layers


def check_layers(layers):
    """May-include must be acyclic: every folder's allowed ones stand above it in the file."""
    seen = set()
    for folder, allowed in layers.items():
        for other in allowed - {folder}:
            if other not in seen:
                report("LAYERS", 0, f"{folder} may include {other}, which is not declared before it")
        seen.add(folder)


def check_includes(path, lines, layers):
    folder = path.split("/")[1]
    if folder not in layers:
        report(path, 0, f"folder {folder} has no line in LAYERS")
        return
    for number, line in enumerate(lines, 1):
        match = re.match(r'\s*#include "([^"]+)"', line)
        if not match:
            continue
        target = match.group(1).split("/")[0]
        if "/" not in match.group(1):
            report(path, number, f'include "{match.group(1)}" must start at src/')
        elif target not in layers[folder]:
            report(path, number, f"{folder}/ may not include {target}/ (LAYERS)")


def functions(lines):
    """(first line, number of lines) of each. Google style puts a function's closing brace in the column of its first
    line: two depths are looked at, functions of a namespace and methods of a class. A signature may be wrapped."""
    for indent in ("", "  "):
        start = opened = None  # the first line of what may be a signature, and of a function
        for number, line in enumerate(lines, 1):
            if opened is not None:
                if line.startswith(indent + "}"):
                    yield opened, number - opened + 1
                    start = opened = None
                continue
            rest = line[len(indent):]
            if line.startswith(indent) and re.match(r"[\w\[~]", rest):
                is_other = re.match(r"(?:namespace|class|struct|enum|union|extern|using|typedef|TEST\w*|return|if|for|while|"
                                    r"switch|do|else|case)\b|[\w:>-]+\.", rest)
                start = None if is_other else number
            if start is not None and line.endswith("{"):
                signature = " ".join(lines[start - 1:number])
                opened = start if re.search(r"\)[^;=]*\{$", signature) and ";" not in signature else None
                start = None
            elif line.endswith((";", "}")):
                start = None


def check_functions(path, lines):
    for start, count in functions(lines):
        if count > LONG_FUNCTIONS.get(path, FUNCTION_LINES_MAX):
            report(path, start, f"function of {count} lines, the limit is {FUNCTION_LINES_MAX}")


def check_dialect(path, lines):
    for number, line in enumerate(lines, 1):
        comment = re.search(r"(?:^|\s)// ?(.*)", line)
        if comment and (found := DIALECT.search(re.sub(r"`[^`]*`", "", comment.group(1)))):
            report(path, number, f"'{found.group().strip()}' of things, or a fragment: say it in a plain sentence")


def note_arrows(path, text, arrows):
    """Folders below a top folder, and which others of it they include; what only tests and benches include is not
    counted."""
    if re.search(r"(?:^|/)[^/]*(?:test|bench|fuzz)[^/]*$", path):
        return
    folder = os.path.dirname(path)[len("src/"):]
    for name in re.findall(r'^\s*#include "([^"]+)"', text, re.M):
        other = os.path.dirname(name)
        if other != folder and other.split("/")[0] == folder.split("/")[0]:
            arrows.setdefault(folder, set()).add(other)


def check_circles(arrows):
    def reached(folder, seen):
        for other in arrows.get(folder, set()) - seen:
            seen.add(other)
            reached(other, seen)
        return seen
    from_each = {folder: reached(folder, set()) for folder in arrows}
    circles = {(a, b) for a in arrows for b in from_each[a] if a < b and a in from_each.get(b, set())}
    for a, b in sorted(circles):
        report(f"src/{a}", 0, f"includes {b}/, which includes it: one direction must go")


def check_names(paths):
    """One name, one file: a reader who hears it knows which is meant. Each op has a bench for a GPU of its own."""
    first = {}
    for path in sorted(paths):
        name = os.path.basename(path)
        if name not in ("CMakeLists.txt", "cuda_bench.cu") and first.setdefault(name, path) != path:
            report(path, 0, f"has the name of {first[name]}: give it one of its own")


def check_source(path, text, layers):
    lines = text.split("\n")
    check_includes(path, lines, layers)
    is_test = path.endswith(("_test.cc", "_fuzz.cc"))
    if len(lines) > FILE_LINES_MAX and not is_test:
        report(path, 0, f"{len(lines)} lines, the limit is {FILE_LINES_MAX}")
    if not is_test:
        check_functions(path, lines)
    if not path.startswith(DIALECT_FILES):
        check_dialect(path, lines)
    if path.endswith(".h"):
        if not lines[0].startswith("//"):
            report(path, 1, "a header opens with what it is, its invariant and its thread")
        if "#pragma once" not in text:
            report(path, 1, "no #pragma once")
    for number, line in enumerate(lines, 1):
        if len(line) > LINE_COLUMNS_MAX:
            report(path, number, f"{len(line)} columns, the limit is {LINE_COLUMNS_MAX}")
        if THROW.search(line) and not path.endswith("base/out_of_memory.cc"):
            report(path, number, "no throw of ours: return a Status")
        if "\t" in line:
            report(path, number, "a tab")
        if re.match(r"\s*(?:\} )?(?:else )?if \(.*\) (?:EXPECT|ASSERT)_", line):
            report(path, number, "braces around an assertion behind an if: gcc suspects the else in it")


def check_types(path, text, types):
    """A type that a header defines has a name of its own: two of one name in one binary are
    undefined behaviour, which no linker reports. A nested namespace is part of the name."""
    namespaces = []
    for number, line in enumerate(text.split("\n"), 1):
        opened = re.match(r"(?:inline )?namespace ([\w:]*) ?\{$", line)
        if opened:
            namespaces.append(opened.group(1))
        elif re.match(r"\}\s*// namespace", line) and namespaces:
            namespaces.pop()
        defined = re.match(r"(?:struct|class|enum(?: class)?|union) (?:\[\[\w+\]\] )?(?:alignas\(\w+\) )?"
                           r"(\w+)(?: final)?(?: :.*)? ?\{", line)
        if not defined:
            continue
        name = "::".join(namespaces + [defined.group(1)])
        if types.get(name, path) != path:  # the same file: alternatives of the preprocessor
            report(path, number, f"{name} is defined in {types[name]}, too; rename one of them")
        types.setdefault(name, path)


# Constants and types that stand at the start of a line; functions may share a name by their arguments.
FILE_LOCAL = re.compile(r"(?:struct|class|enum(?: class)?|union) (\w+).*\{|using (\w+) =|"
                        r"(?:static |inline )*(?:constexpr|const) [^=({]*?(\w+)(?:\[\w*\])*(?: =|\{)")


def check_file_local(path, text, names):
    """Files of a folder are compiled together (cmake/graft.cmake): what each keeps in an anonymous namespace
    has a name of its own there. A file that needs the same one gives its namespace a name."""
    inside = False
    for number, line in enumerate(text.split("\n"), 1):
        if line == "namespace {":
            inside = True
        elif line == "}  // namespace":
            inside = False
        found = FILE_LOCAL.match(line) if inside else None
        if not found:
            continue
        name = next(filter(None, found.groups()))
        kind = "test" if path.endswith("_test.cc") else "source"
        other = names.setdefault((path.split("/")[1], kind, name), path)
        if other != path:
            report(path, number, f"{other} has a {name} of its own, too, and is compiled with this file; "
                                 "rename one of them")


def check_words(path, text):
    for number, line in enumerate(text.split("\n"), 1):
        if UNFINISHED.search(line):
            report(path, number, "unfinished work is not committed")
        if MACHINE_PATH.search(line):
            report(path, number, "a path of one machine")


def check_prose(path, text):
    """Pages are read in editors, too. A table's row and code may be as long as they must."""
    is_code = False
    for number, line in enumerate(text.split("\n"), 1):
        if line.startswith("```"):
            is_code = not is_code
        elif not is_code and not line.startswith("|") and len(line) > PROSE_COLUMNS_MAX:
            report(path, number, f"{len(line)} columns, the limit is {PROSE_COLUMNS_MAX}")


def main():
    layers = read_layers()
    check_layers(layers)
    types = {}
    file_local = {}
    arrows = {}
    files = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, text=True,
                           capture_output=True, check=True).stdout.split("\n")
    for path in sorted(filter(None, files)):
        full = os.path.join(ROOT, path)
        if not os.path.isfile(full):
            continue
        is_source = path.startswith("src/") and path.endswith((".h", ".cc", ".cu", ".cuh"))
        is_text = path.endswith((".py", ".sh", ".md", ".cmake", ".txt")) or path == "Makefile"
        if not (is_source or is_text) or path.startswith("demo/") or path.startswith("tests/data/"):
            continue
        with open(full, encoding="utf-8") as file:
            text = file.read()
        if is_source:
            check_source(path, text, layers)
            note_arrows(path, text, arrows)
        if is_source and path.endswith((".h", ".cuh")):
            check_types(path, text, types)
        # CUDA's and the CPU kernels' are compiled one by one; no_ files stand in for others.
        if is_source and path.endswith(".cc") and not re.search(r"(_cpu|_fuzz|onednn_bench|/no_\w+)\.cc$", path):
            check_file_local(path, text, file_local)
        if re.fullmatch(r"docs/(inside/)?[\w-]+\.md|(README|ARCHITECTURE|CONTRIBUTING|SECURITY)\.md", path):
            check_prose(path, text)
        if is_source or is_text:
            check_words(path, text)
    check_names(path for path in files if path.startswith("src/") and os.path.isfile(os.path.join(ROOT, path)))
    check_circles(arrows)
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
