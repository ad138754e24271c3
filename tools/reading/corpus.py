#!/usr/bin/env python3
"""Documents without an end, each with questions, for `graft learn --learner encoder --corpus`: one JSON object a line,

    {"name": ..., "text": ..., "questions": [{"question", "answer", "begin", "end"}, ...]}

An answer can be read in text[begin:end], counted in characters. Document i of a seed is the same in every run, and no
other is like it.

usage: corpus.py --seed 1 | graft learn --learner encoder --corpus - --encoder DIR ...
       corpus.py --seed 1 --documents 20000 --out FOLDER      files of 1,000 documents each
"""

import argparse
import json
import multiprocessing
import pathlib
import random
import sys
import time

import clauses
import documents
import prose
from rewording import Reworded

_BATCH = 64  # documents that a process makes at a time


SHARES = (0.15, 0.4, 0.45)  # of documents of facts, of forms of prose, of clauses
REWORDED = 0.4  # of documents of prose and of clauses, in other words
WRITERS = (documents.Writer, prose.ProseWriter, clauses.ClauseWriter)


def any_document(rng, asides, num_chars, shares=SHARES):
    """Of entities and their attributes, of the forms of prose, or of clauses. Of no characters nothing could be asked,
    and a maker of rows would look for ever for a document with facts."""
    writer, = rng.choices(WRITERS, shares)
    num_chars = max(60, num_chars)
    document = writer(rng, asides).write(num_chars)
    return Reworded(document, rng) if writer is not documents.Writer and rng.random() < REWORDED else document


def _questions_of_facts(document, spans, rng, count):
    made, seen = [], set()
    at = [i for i, sentence in enumerate(document.sentences) if sentence.fact]
    for _ in range(3):
        for i in rng.sample(at, len(at)):
            if len(made) == count:
                return made
            question, answer = document.sentences[i].fact.question(rng)
            if question in seen:
                continue
            seen.add(question)
            first = document.sentences[i].needs
            made.append((question, answer, spans[i if first < 0 else first][0], spans[i][1]))
    return made


def asked_document(rng, asides, num_chars, count, shares=SHARES):
    """(text, [(question, answer, begin, end)])"""
    while True:
        document = any_document(rng, asides, num_chars, shares)
        if hasattr(document, "questions"):
            text, made = document.text, document.questions(count)
        else:
            text, spans = document.render()
            made = _questions_of_facts(document, spans, rng, count)
        if made:
            return text, made


def line_of(options, index):
    rng = random.Random(options.seed * 1_000_003 + index)
    shortest, longest = options.chars
    text, made = asked_document(rng, (), rng.randint(shortest, longest), options.questions, options.shares)
    keys = ("question", "answer", "begin", "end")
    return json.dumps({"name": f"{options.seed}.{index}", "text": text,
                       "questions": [dict(zip(keys, asked)) for asked in made]}, ensure_ascii=False)


def _lines(work):
    options, first = work
    last = min(first + _BATCH, options.first + options.documents) if options.documents else first + _BATCH
    return "\n".join(line_of(options, i) for i in range(first, last)) + "\n"


def _work(options):
    first, end = options.first, options.first + options.documents
    while not options.documents or first < end:
        yield options, first
        first += _BATCH


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="number of the first document")
    parser.add_argument("--documents", type=int, default=0, help="so many; 0: without an end")
    parser.add_argument("--chars", type=int, nargs=2, default=(400, 7000), help="of a document")
    parser.add_argument("--questions", type=int, default=32, help="of a document, at most")
    parser.add_argument("--shares", type=float, nargs=3, default=SHARES, metavar=("FACTS", "PROSE", "CLAUSES"),
                        help="of documents of the three kinds")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--out", default="", help="a folder for files of 1,000 documents; none: standard output")
    parser.add_argument("--rate", type=float, default=0.0, help="for so many seconds: write nothing, print how fast")
    return parser.parse_args()


def _blocks(options):
    if options.workers < 2:
        yield from map(_lines, _work(options))
        return
    with multiprocessing.Pool(options.workers) as pool:
        # A window of work is handed out at a time: the pool would else take all of a stream without an end.
        work = _work(options)
        while batch := [item for item, _ in zip(work, range(8 * options.workers))]:
            yield from pool.imap(_lines, batch)


def _tell_rate(options):
    begin, chars, made = time.monotonic(), 0, 0
    for block in _blocks(options):
        made += _BATCH
        chars += sum(len(json.loads(line)["text"]) for line in block.splitlines())
        if (seconds := time.monotonic() - begin) > options.rate:
            break
    print(f"{made / seconds:.0f} documents/s, {chars / seconds / 1e6:.2f} M characters of text a second")


def main():
    options = arguments()
    if options.rate:
        return _tell_rate(options)
    if not options.out:
        try:
            for block in _blocks(options):
                sys.stdout.write(block)
        except BrokenPipeError:  # the reader has had enough
            sys.stderr.close()
        return None
    folder = pathlib.Path(options.out)
    folder.mkdir(parents=True, exist_ok=True)
    lines = [line for block in _blocks(options) for line in block.splitlines()]
    for i in range(0, len(lines), 1000):
        (folder / f"{options.first + i:08}.jsonl").write_text("\n".join(lines[i:i + 1000]) + "\n", encoding="utf-8")
    return None


if __name__ == "__main__":
    main()
