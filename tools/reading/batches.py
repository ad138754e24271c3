"""Steps' tokens: tasks that other processes make ahead, and what is rehearsed."""

import multiprocessing
import queue
import random
import threading
import time

import numpy as np
import torch

from rows import RowMaker
from tasks import PAD

# The share of the time from which on a step has so many of its blocks with sequences of 1/8, 1/4, 1/2 and 1 block.
# Pages that people ask about have 150 to 500 tokens: half of the last stage has sequences that hold one or two of them.
STAGES = ((0.00, (1.0, 0.0, 0.0, 0.0)), (0.10, (0.4, 0.6, 0.0, 0.0)), (0.24, (0.25, 0.35, 0.4, 0.0)),
          (0.42, (0.2, 0.3, 0.2, 0.3)))


def _make_blocks(tokenizer_path, asides, block, seed, queues, is_over):
    from tokenizers import Tokenizer
    torch.set_num_threads(1)
    maker = RowMaker(Tokenizer.from_file(tokenizer_path), random.Random(seed), asides)
    while not is_over.is_set():
        size = min(queues, key=lambda s: queues[s].qsize())
        made = []
        for _ in range(4):
            rows = [maker.row(size) for _ in range(block // size)]
            made.append((np.concatenate([ids for ids, _ in rows]), np.concatenate([kinds for _, kinds in rows])))
        while not is_over.is_set():
            try:
                queues[size].put(made, timeout=0.2)
                break
            except queue.Full:
                size_now = min(queues, key=lambda s: queues[s].qsize())
                if size_now != size and queues[size_now].qsize() < 8:
                    break  # others wait; what was made is dropped


def counts_at(share, num_blocks):
    shares = next(mix for begin, mix in reversed(STAGES) if share >= begin)
    counts = [round(part * num_blocks) for part in shares]
    counts[counts.index(max(counts))] += num_blocks - sum(counts)
    return counts


def targets_of(ids, kinds, layout):
    """What follows each token, and its class: none behind a sequence's last token."""
    targets, classes = np.roll(ids, -1), np.roll(kinds, -1)
    ends = np.cumsum(np.concatenate([np.full(count, tokens) for count, tokens in layout])) - 1
    classes[ends] = PAD
    return targets, classes


class Batches:
    """`next(share)`: ids, targets and classes of a step, and its layout."""

    def __init__(self, tokenizer_path, asides, rehearsal, num_task, block, workers, seed):
        self.block, self.num_task, self.rehearsal = block, num_task, rehearsal
        self.rng = np.random.default_rng(seed)
        context = multiprocessing.get_context("spawn")
        self.is_over = context.Event()
        self.queues = {block // part: context.Queue(16) for part in (8, 4, 2, 1)}
        self.processes = [context.Process(target=_make_blocks, daemon=True, args=(
            tokenizer_path, asides, block, seed * 1000 + i, self.queues, self.is_over)) for i in range(workers)]
        for process in self.processes:
            process.start()
        self.spare = {size: [] for size in self.queues}
        self.share = 0.0
        self.ready = queue.Queue(4)
        self.waited = 0.0
        threading.Thread(target=self._fill, daemon=True).start()

    def _take(self, size):
        while not self.spare[size]:
            try:
                self.spare[size] = self.queues[size].get(timeout=5.0)
            except queue.Empty:
                if ended := [p.name for p in self.processes if p.exitcode]:
                    raise RuntimeError(f"{', '.join(ended)} ended: what they printed stands above") from None
        return self.spare[size].pop()

    def _fill(self):
        try:
            self._fill_until_over()
        except Exception as error:
            self.ready.put(error)  # a run that waited for the next batch would stand still
            raise

    def _fill_until_over(self):
        while not self.is_over.is_set():
            ids, kinds, layout = [], [], []
            for size, count in zip(self.queues, counts_at(self.share, self.num_task)):
                for _ in range(count):
                    block_ids, block_kinds = self._take(size)
                    ids.append(block_ids)
                    kinds.append(block_kinds)
                if count:
                    layout.append((count * self.block // size, size))
            targets, classes = targets_of(np.concatenate(ids), np.concatenate(kinds), layout)
            ids, layout = self._rehearse(ids, layout)
            packed = [torch.from_numpy(a.astype(np.int64)) for a in (np.concatenate(ids), targets, classes)]
            self.ready.put(([t.pin_memory() if torch.cuda.is_available() else t for t in packed], tuple(layout)))

    def _rehearse(self, ids, layout):
        for rows, num_blocks in self.rehearsal:
            count = num_blocks * self.block // rows.shape[1]
            ids.append(rows[self.rng.integers(0, len(rows), count)].reshape(-1))
            layout.append((count, rows.shape[1]))
        return ids, layout

    def next(self, share):
        self.share = share
        begin = time.monotonic()
        batch = self.ready.get()
        self.waited += time.monotonic() - begin
        if isinstance(batch, Exception):
            raise batch
        return batch

    def stop(self):
        self.is_over.set()
        for process in self.processes:
            process.kill()
