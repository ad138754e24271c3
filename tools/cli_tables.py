#!/usr/bin/env python3
"""Puts the options' tables into docs/cli.md, as the program has them.

  tools/cli_tables.py build/release/graft
"""

import pathlib
import re
import subprocess
import sys

PAGE = pathlib.Path(__file__).resolve().parent.parent / "docs" / "cli.md"
BEGIN, END = "<!-- graft help --markdown -->\n", "<!-- end -->\n"


def main():
    tables = subprocess.run([sys.argv[1], "help", "--markdown"], capture_output=True, text=True, check=True).stdout
    text = PAGE.read_text()
    pattern = re.compile(re.escape(BEGIN) + ".*" + re.escape(END), re.DOTALL)
    if not pattern.search(text):
        sys.exit(f"{PAGE}: no {BEGIN.strip()} ... {END.strip()}")
    PAGE.write_text(pattern.sub(lambda _: f"{BEGIN}\n{tables}\n{END}", text))


if __name__ == "__main__":
    main()
