"""What adapters cost texts that have nothing to do with their documents: perplexities with an adapter on and without."""

import math

import scores

OTHERS = "other documents"
WRITTEN = "the base's own texts"
OTHERS_MAX = 4  # documents that an adapter is tried on, and tokens of each text
TEXTS = 12
TEXT_TOKENS = 256


def texts_of(client, base, documents):
    """Token ids, by kind and document: the documents behind it, in turns, and what the base writes of itself."""
    begin = client.post("/tokenize", {"model": base, "prompt": ""})["tokens"]  # BOS, where the model has one
    whole = [(begin + client.tokens(d.text, base))[:TEXT_TOKENS] for d in documents]
    written = client.written(base, begin or client.tokens("\n", base), TEXTS, TEXT_TOKENS)
    count = min(OTHERS_MAX, len(documents) - 1)
    return {OTHERS: [[whole[(i + k) % len(documents)] for k in range(1, count + 1)] for i in range(len(documents))],
            WRITTEN: [written for _ in documents]}


def _log_perplexities(client, models, texts):
    """Of each document's model over its texts, all tokens but each text's first."""
    cases = [(i, tokens) for i, own in enumerate(texts) for tokens in own if len(tokens) > 1]
    values = client.all(lambda i, tokens: client.likelihood_of(models[i], tokens[:1], tokens[1:]), cases)
    sums = [[0.0, 0] for _ in models]
    for (i, _), (total, count) in zip(cases, values):
        sums[i][0] += total
        sums[i][1] += count
    return [-total / count for total, count in sums]


def measure(client, base, documents, models_by_arm, bootstrap):
    """By kind of text: the base's perplexity, and by how much each arm's adapters raise it, in percent."""
    result = {}
    for kind, texts in texts_of(client, base, documents).items():
        without = _log_perplexities(client, [base] * len(documents), texts)
        rows = {}
        for arm, models in models_by_arm.items():
            rises = [with_it - own for with_it, own in zip(_log_perplexities(client, models, texts), without)]

            def percent(draw):
                return 100 * (math.exp(scores.mean([rises[i] for i in draw])) - 1)

            rows[arm] = {"rise": percent(range(len(documents))), "interval": bootstrap.interval(percent),
                         "by_document": [100 * (math.exp(rise) - 1) for rise in rises]}
        result[kind] = {"base": math.exp(scores.mean(without)), "arms": rows}
    return result


def markdown(result):
    lines = ["", "Perplexity with the adapter on, of texts that have nothing to do with its document.", "",
             "| arm | " + " | ".join(f"{kind}, base {value['base']:.2f}" for kind, value in result.items()) + " |",
             "|---" * (1 + len(result)) + "|"]
    for arm in next(iter(result.values()))["arms"]:
        cells = []
        for value in result.values():
            row = value["arms"][arm]
            cells.append(f"{row['rise']:+.1f} % [{row['interval'][0]:+.1f}, {row['interval'][1]:+.1f}]")
        lines.append(f"| {arm} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"
