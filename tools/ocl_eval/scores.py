"""What an answer is worth, and what a difference of arms is worth: paired, over documents."""

import collections
import random
import re
import string

CHOICE, LETTER, EXACT, F1, HELD = "choice", "letter", "exact", "f1", "contains"


def normal(text):
    """As SQuAD compares answers."""
    text = "".join(c for c in text.lower() if c not in string.punctuation)
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", text).split())


def _f1(said, answer):
    said, answer = said.split(), answer.split()
    same = sum((collections.Counter(said) & collections.Counter(answer)).values())
    if not same:
        return 0.0
    precision, recall = same / len(said), same / len(answer)
    return 2 * precision * recall / (precision + recall)


def of_text(said, answers):
    said = normal(said)
    wanted = [normal(a) for a in answers]
    return {EXACT: float(said in wanted), F1: max(_f1(said, a) for a in wanted),
            HELD: float(any(a and f" {a} " in f" {said} " for a in wanted))}


def of_choice(means, letters, options, answers):
    """Of log-likelihoods, by option: the option's mean over its tokens, and its letter's."""
    right = options.index(answers[0])
    best = [max(range(len(options)), key=values.__getitem__) for values in (means, letters)]
    return {CHOICE: float(best[0] == right), LETTER: float(best[1] == right)}


def mean(values):
    return sum(values) / len(values) if values else 0.0


class Bootstrap:
    """Draws documents, the same ones for all arms: questions of one document are not independent."""

    def __init__(self, num_documents, draws=2000, seed=0):
        rng = random.Random(seed)
        self.draws = [[rng.randrange(num_documents) for _ in range(num_documents)] for _ in range(draws)]

    def interval(self, statistic):
        """The middle 95 %. `statistic` of a list of documents' indexes; None where it is not defined."""
        values = sorted(v for v in (statistic(draw) for draw in self.draws) if v is not None)
        if not values:
            return None
        return [values[int(share * (len(values) - 1))] for share in (0.025, 0.975)]


def summary(arms, names, none, whole, bootstrap):
    """`arms`: by name a list of documents, each a list of scores (dicts) of its questions. What of the gain of
    `whole` over `none` each keeps is its recovery."""
    def over(arm, metric, draw):
        return mean([s[metric] for d in draw for s in arms[arm][d] if metric in s])

    everyone = list(range(len(arms[none])))
    metrics = sorted({m for arm in arms.values() for document in arm for s in document for m in s})
    table = []
    for arm in names:
        row = {"arm": arm}
        for metric in metrics:
            def recovery(draw):
                gain = over(whole, metric, draw) - over(none, metric, draw)
                return (over(arm, metric, draw) - over(none, metric, draw)) / gain if gain > 0 else None

            row[metric] = {"mean": over(arm, metric, everyone),
                           "interval": bootstrap.interval(lambda draw: over(arm, metric, draw)),
                           "less_none": over(arm, metric, everyone) - over(none, metric, everyone),
                           "less_none_interval": bootstrap.interval(
                               lambda draw: over(arm, metric, draw) - over(none, metric, draw)),
                           "recovery": recovery(everyone), "recovery_interval": bootstrap.interval(recovery)}
        table.append(row)
    return metrics, table
