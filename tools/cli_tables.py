#!/usr/bin/env python3
"""Puts the options' tables into the pages, as the programs have them.

  tools/cli_tables.py build/release/graft build/release/graft-bench
"""

import pathlib
import re
import subprocess
import sys

DOCS = pathlib.Path(__file__).resolve().parent.parent / "docs"
PAGES = {"graft": DOCS / "cli.md", "graft-bench": DOCS / "inside" / "graft-bench.md"}
END = "<!-- end -->\n"


def main():
    for program in map(pathlib.Path, sys.argv[1:]):
        tables = subprocess.run([program, "help", "--markdown"], capture_output=True, text=True, check=True).stdout
        page = PAGES[program.name]
        begin = f"<!-- {program.name} help --markdown -->\n"
        text = page.read_text()
        pattern = re.compile(re.escape(begin) + ".*" + re.escape(END), re.DOTALL)
        if not pattern.search(text):
            sys.exit(f"{page}: no {begin.strip()} ... {END.strip()}")
        page.write_text(pattern.sub(lambda _: f"{begin}\n{tables}\n{END}", text))


if __name__ == "__main__":
    main()
