#!/usr/bin/env python3
"""Draws the curves of encoders that `graft learn --corpus` taught: what share of reading their memories bring, and the
losses, by tokens of documents. Several files are compared in one picture.

usage: curves.py encoder.curves.jsonl [other.curves.jsonl ...] --out curves.svg
"""

import argparse
import html
import json
import pathlib

WIDTH, HEIGHT, LEFT, TOP, GAP = 420, 260, 56, 34, 60
COLOURS = ("#1b6ca8", "#c8553d", "#3a7d44", "#8e5aa6", "#b08900", "#4c566a", "#d1495b", "#00798c")


def read(path):
    """Lines of runs that went on; a step that was made twice counts once, as it was made last."""
    by_step = {}
    for line in pathlib.Path(path).read_text().splitlines():
        row = json.loads(line)
        by_step[row["step"]] = row
    return [by_step[step] for step in sorted(by_step)]


def series_of(name, rows):
    """Three panels, each a list of (label, points)."""
    tokens = [row["tokens"] / 1e6 for row in rows]
    recoveries = {}
    for x, row in zip(tokens, rows):
        for look in row["looks"]:
            recoveries.setdefault(look["compression"], []).append((x, look["recovery"]))
    losses = [(key, [(x, row[key]) for x, row in zip(tokens, rows) if row[key] > 0])
              for key in ("answer_loss", "piece_loss")]
    return ([(f"{name} 1/{c}", points) for c, points in sorted(recoveries.items())],
            *([(f"{name}", points)] for _, points in losses))


def panel(title, lines, at, top_value):
    """An SVG group at column `at`: axes, lines, labels."""
    points = [point for _, line in lines for point in line]
    x_max = max((x for x, _ in points), default=1.0) or 1.0
    y_max = top_value or max((y for _, y in points), default=1.0) or 1.0
    x0 = at * (WIDTH + GAP) + LEFT

    def place(x, y):
        return f"{x0 + x / x_max * WIDTH:.1f},{TOP + (1 - min(max(y / y_max, 0.0), 1.0)) * HEIGHT:.1f}"

    out = [f'<text x="{x0}" y="{TOP - 12}" class="title">{html.escape(title)}</text>',
           f'<rect x="{x0}" y="{TOP}" width="{WIDTH}" height="{HEIGHT}" class="frame"/>']
    for i in range(5):
        y = y_max * i / 4
        height = TOP + (1 - i / 4) * HEIGHT
        out.append(f'<line x1="{x0}" y1="{height}" x2="{x0 + WIDTH}" y2="{height}" class="grid"/>'
                   f'<text x="{x0 - 6}" y="{height + 4}" class="y">{y:.2f}</text>'
                   f'<text x="{x0 + WIDTH * i / 4}" y="{TOP + HEIGHT + 16}" class="x">{x_max * i / 4:.3g}</text>')
    for i, (label, line) in enumerate(lines):
        colour = COLOURS[i % len(COLOURS)]
        if line:
            out.append(f'<polyline points="{" ".join(place(*point) for point in line)}" stroke="{colour}"/>')
        out.append(f'<text x="{x0 + 8}" y="{TOP + 16 + 14 * i}" fill="{colour}">{html.escape(label)}</text>')
    return "\n".join(out)


def picture(named_rows):
    """`named_rows`: (name, rows of read) each."""
    panels = [[], [], []]
    for name, rows in named_rows:
        for lines, more in zip(panels, series_of(name, rows)):
            lines += more
    titles = ("recovery on held out documents", "loss on answers, nats a token", "loss on pieces, nats a token")
    width = 3 * (WIDTH + GAP) + LEFT
    groups = [panel(title, lines, i, 1.0 if i == 0 else 0.0) for i, (title, lines) in enumerate(zip(titles, panels))]
    style = ("text{font:12px sans-serif}.title{font-weight:bold}.y{text-anchor:end;fill:#555}.x{text-anchor:middle;"
             "fill:#555}.frame{fill:none;stroke:#999}.grid{stroke:#e4e4e4}polyline{fill:none;stroke-width:1.6}")
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{TOP + HEIGHT + 44}">\n'
            f'<style>{style}</style>\n' + "\n".join(groups)
            + f'\n<text x="{LEFT}" y="{TOP + HEIGHT + 36}">millions of tokens of documents</text>\n</svg>\n')


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("curves", nargs="+")
    parser.add_argument("--out", default="curves.svg")
    options = parser.parse_args()
    named = [(pathlib.Path(path).name.removesuffix(".curves.jsonl"), read(path)) for path in options.curves]
    pathlib.Path(options.out).write_text(picture(named))


if __name__ == "__main__":
    main()
