"""Okapi BM25 over a document's passages: the rival that needs no training."""

import collections
import math
import re

WORD = re.compile(r"\w+")
K1, B = 1.2, 0.75


def words(text):
    return WORD.findall(text.lower())


def passages(text, size):
    """Of about `size` words, which begin and end between words."""
    spans = [m.span() for m in re.finditer(r"\S+", text)]
    return [text[spans[i][0]:spans[min(i + size, len(spans)) - 1][1]] for i in range(0, len(spans), size)]


def best(question, texts, count):
    """The `count` passages that the question's words say most about, in the document's order."""
    bags = [collections.Counter(words(t)) for t in texts]
    lengths = [sum(bag.values()) for bag in bags]
    average = sum(lengths) / max(1, len(lengths))
    scores = [0.0] * len(texts)
    for word in set(words(question)):
        holders = sum(word in bag for bag in bags)
        rarity = math.log(1 + (len(bags) - holders + 0.5) / (holders + 0.5))
        for i, bag in enumerate(bags):
            times = bag[word]
            scores[i] += rarity * times * (K1 + 1) / (times + K1 * (1 - B + B * lengths[i] / average)) if times else 0
    chosen = sorted(range(len(texts)), key=lambda i: -scores[i])[:count]
    return [texts[i] for i in sorted(chosen)]
