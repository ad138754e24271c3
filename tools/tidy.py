#!/usr/bin/env python3
"""The house's rules that a machine can check: layers, sizes, headers, forbidden words.

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


def check_functions(path, lines):
    """Google style puts a function's closing brace in the column of its first line: two depths are
    looked at, functions of a namespace and methods of a class."""
    for indent in ("", "  "):
        start = None
        for number, line in enumerate(lines, 1):
            if start is None:
                opens = line.startswith(indent) and not line[len(indent):len(indent) + 1].isspace()
                if opens and re.search(r"\)[^;=]*\{$", line) and "(" in line:
                    if not re.match(r"\s*(namespace|class|struct|enum|union|TEST|#|//)", line):
                        start = number
            elif line.startswith(indent + "}"):
                if number - start + 1 > FUNCTION_LINES_MAX:
                    report(path, start, f"function of {number - start + 1} lines, the limit is "
                                        f"{FUNCTION_LINES_MAX}")
                start = None


def check_source(path, text, layers):
    lines = text.split("\n")
    check_includes(path, lines, layers)
    is_test = path.endswith(("_test.cc", "_fuzz.cc"))
    if len(lines) > FILE_LINES_MAX and not is_test:
        report(path, 0, f"{len(lines)} lines, the limit is {FILE_LINES_MAX}")
    if not is_test:
        check_functions(path, lines)
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
        if is_source and path.endswith((".h", ".cuh")):
            check_types(path, text, types)
        # CUDA's and the CPU kernels' are compiled one by one; no_ files stand in for others.
        if is_source and path.endswith(".cc") and not re.search(r"(_cpu|_fuzz|onednn_bench|/no_\w+)\.cc$", path):
            check_file_local(path, text, file_local)
        if re.fullmatch(r"docs/(inside/)?[\w-]+\.md|(README|ARCHITECTURE|CONTRIBUTING|SECURITY)\.md", path):
            check_prose(path, text)
        if is_source or is_text:
            check_words(path, text)
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
