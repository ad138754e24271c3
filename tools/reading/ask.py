#!/usr/bin/env python3
"""Asks a running server about unseen documents, each question in a chat of its own, and prints how many answers are
exactly right.

usage: ask.py --url http://127.0.0.1:8000 --documents 40 [--closed]
"""

import argparse
import concurrent.futures
import http.client
import json
import random
import urllib.parse

import documents
from tasks import Passage


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--url", default="http://127.0.0.1:8000")
    parser.add_argument("--model", default="base")
    parser.add_argument("--documents", type=int, default=40)
    parser.add_argument("--questions", type=int, default=25, help="of each document")
    parser.add_argument("--chars", type=int, nargs=2, default=(5200, 10200), help="of a document: 1,500 to 3,500 tokens")
    parser.add_argument("--closed", action="store_true", help="the questions alone, without their documents")
    parser.add_argument("--seed", type=int, default=2_000_000_000)
    parser.add_argument("--show", type=int, default=0, help="print so many wrong answers")
    return parser.parse_args()


def answer_of(options, content):
    connection = http.client.HTTPConnection(urllib.parse.urlparse(options.url).netloc, timeout=600)
    connection.request("POST", "/v1/chat/completions", json.dumps({
        "model": options.model, "messages": [{"role": "user", "content": content}], "temperature": 0,
        "max_tokens": 32}), {"Content-Type": "application/json"})
    reply = json.loads(connection.getresponse().read())
    if "error" in reply:
        raise RuntimeError(reply["error"]["message"])
    return reply["choices"][0]["message"]["content"].strip(), reply["usage"]["prompt_tokens"]


def ask_about_document(options, rng, pool):
    passage = Passage(rng, documents.Writer(rng).write(rng.randint(*options.chars)))
    pairs = [passage.question() for _ in range(min(options.questions, len(passage.facts)))]
    asked = [question if options.closed else f"{passage.text.strip()}\n\n{question}" for question, _ in pairs]
    answers = [answer_of(options, asked[0]), *pool.map(lambda text: answer_of(options, text), asked[1:])]
    return [(question, right, given, tokens) for (question, right), (given, tokens) in zip(pairs, answers)]


def main():
    options = arguments()
    results = []
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        for i in range(options.documents):
            results += ask_about_document(options, random.Random(options.seed + i), pool)
    wrong = [result for result in results if result[1] != result[2]]
    for question, right, given, _ in wrong[:options.show]:
        print(f"{question}  right: {right}  given: {given}")
    tokens = [tokens for *_, tokens in results]
    print(f"{len(results) - len(wrong)} of {len(results)} answers right ({1 - len(wrong) / len(results):.1%}); "
          f"{options.documents} documents, prompts of {min(tokens)} to {max(tokens)} tokens")


if __name__ == "__main__":
    main()
