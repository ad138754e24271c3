"""What a base knows of unseen documents: answers are right if every token and the end are the likeliest."""

import numpy as np
import torch

import documents
import llama
import tasks
from batches import targets_of
from tasks import ANSWER, PAD


def _row(maker, parts, size):
    ids, kinds = maker.encode(parts)
    if len(ids) > size:
        ids, kinds = ids[:size], kinds[:size]
    pad = size - len(ids)
    return np.pad(ids, (0, pad), constant_values=tasks.EOS), np.pad(kinds, (0, pad), constant_values=PAD)


def questions_only(maker, size):
    """A chat of one question about nothing that was read."""
    while True:
        passage = tasks.Passage(maker.rng, documents.Writer(maker.rng).write(600))
        question, answer = passage.question()
        parts = [("<|begin_of_text|><|start|>user\n" + question, tasks.READ), (tasks.TURN, PAD),
                 (answer + "<|end|>", ANSWER)]
        if sum(len(text) for text, _ in parts) < 3 * size and len(maker.encode(parts)[0]) <= size:
            return _row(maker, parts, size)


def about_document(maker, size, form):
    """A document of 1,500 to 3,500 tokens (of 4,096) with 25 questions, or one."""
    passage = maker.passage(maker.rng.randint(size * 3 // 8, size * 3 // 4), may_crop=False)
    if form == "learn":
        return _row(maker, passage.plain(25, False), size)
    turns = 1 if form == "single" else 25
    text, (question, answer) = passage.text.strip(), passage.question()
    parts = [(f"<|begin_of_text|><|start|>user\n{text}\n\n{question}", tasks.READ), (tasks.TURN, PAD),
             (answer + "<|end|>", ANSWER)]
    for _ in range(turns - 1):
        question, answer = passage.question()
        parts += [(tasks.NEXT_TURN + question, tasks.READ), (tasks.TURN, PAD), (answer + "<|end|>", ANSWER)]
    return _row(maker, parts, size)


def make_rows(maker, form, num_rows, block):
    if form == "closed":
        return [questions_only(maker, 64) for _ in range(num_rows)]
    return [about_document(maker, block, form) for _ in range(num_rows)]


def answers_right(right, classes):
    """For each run of answer tokens: whether all of it is right."""
    is_answer = np.concatenate([[False], classes == ANSWER, [False]])
    begins = np.flatnonzero(is_answer[1:] & ~is_answer[:-1])
    ends = np.flatnonzero(~is_answer[1:] & is_answer[:-1])
    return np.array([right[b:e].all() for b, e in zip(begins, ends)], bool)


def accuracy(model, weights, rows, num_tokens):
    """Of all answers in rows of one size; `num_tokens` in each step, which is what was compiled."""
    size, weights = len(rows[0][0]), llama.leaves(weights)
    per_step, results = num_tokens // size, []
    for at in range(0, len(rows), per_step):
        some = rows[at:at + per_step]
        some = some + [some[0]] * (per_step - len(some))
        real = min(per_step, len(rows) - at) * size
        ids = np.concatenate([ids for ids, _ in some])
        layout = ((per_step, size),)
        targets, classes = targets_of(ids, np.concatenate([kinds for _, kinds in some]), layout)
        ids, targets = (torch.from_numpy(a.astype(np.int64)).to(model.device) for a in (ids, targets))
        x = model.hidden(weights, ids, layout)
        _, right = model.losses(x, weights, targets)
        results.append(answers_right(right.cpu().numpy()[:real], classes[:real]))
    results = np.concatenate(results)
    return float(results.mean()), len(results)


def perplexity(model, weights, rows, num_tokens):
    """Of sampled texts [texts, tokens]: (perplexity, tokens)."""
    size, weights = rows.shape[1], llama.leaves(weights)
    per_step, total, count = num_tokens // size, 0.0, 0
    rows = rows[np.arange(max(len(rows), per_step)) % len(rows)]
    for at in range(0, len(rows) - per_step + 1, per_step):
        ids = rows[at:at + per_step].reshape(-1)
        layout = ((per_step, size),)
        targets, classes = targets_of(ids, np.ones(len(ids), np.uint8), layout)
        ids, targets = (torch.from_numpy(a.astype(np.int64)).to(model.device) for a in (ids, targets))
        x = model.hidden(weights, ids, layout)
        losses, _ = model.losses(x, weights, targets)
        keep = torch.from_numpy(classes != PAD).to(model.device)
        total, count = total + losses.detach()[keep].double().sum().item(), count + int(keep.sum())
    return float(np.exp(total / count)), count
