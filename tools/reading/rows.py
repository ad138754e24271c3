"""Rows of tokens: documents with what is asked about them."""

import numpy as np

import corpus
import tasks


# Of what a row is filled with: short pages of which one to three things are asked, as a program asks them.
SINGLE = 0.3
SHORT = (40, 520)  # tokens of such a page


class RowMaker:
    """Makes rows of `size` tokens."""

    def __init__(self, tokenizer, rng, asides=()):
        self.tokenizer = tokenizer
        self.rng = rng
        self.asides = asides

    def encode(self, parts):
        encoded = self.tokenizer.encode_batch([text for text, _ in parts], add_special_tokens=False)
        ids = np.concatenate([np.array(e.ids, np.uint16) for e in encoded])
        kinds = np.concatenate([np.full(len(e.ids), kind, np.uint8) for e, (_, kind) in zip(encoded, parts)])
        return ids, kinds

    def passage(self, num_tokens, may_crop=True):
        rng = self.rng
        chars = int(num_tokens * 3.3)
        while True:
            crop = chars if may_crop and rng.random() < 0.25 else 0
            document = corpus.any_document(rng, self.asides, chars + (600 if crop else 0))
            passage = tasks.Passage(rng, document, crop)
            if passage.facts:
                return passage

    def parts(self, num_tokens, size):
        rng = self.rng
        passage = self.passage(num_tokens)
        count = min(max(2, (size - num_tokens) // 14), 2 + len(passage.facts) * 5 // 4)
        draw = rng.random()
        if draw < 0.08:
            return passage.plain(0, True)
        if draw < 0.38:
            return passage.plain(count, False)
        return passage.chat(count)

    def single(self, left):
        shortest, longest = SHORT
        passage = self.passage(self.rng.randint(shortest, max(shortest + 1, min(longest, int(left * 0.8)))), False)
        return passage.asked(self.rng.choice((1, 1, 2, 3)))

    def row(self, size):
        """Documents with questions until the row is full; the last one is cut."""
        rng, all_ids, all_kinds, left = self.rng, [], [], size
        while left > 0:
            if size <= 1024 and rng.random() < 0.06:
                parts = tasks.closed_book(rng, rng.randint(2, 12))
            elif rng.random() < SINGLE:
                parts = self.single(left)
            else:
                longest = min(int(left * 0.8), 3600)
                parts = self.parts(rng.randint(min(60, longest), max(61, longest)) if left < 1600 or size < 4096
                                   else rng.randint(1300, max(1301, longest)), left)
            ids, kinds = self.encode(parts)
            all_ids.append(ids[:left])
            all_kinds.append(kinds[:left])
            left -= len(all_ids[-1])
        return np.concatenate(all_ids), np.concatenate(all_kinds)
