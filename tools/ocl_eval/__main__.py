#!/usr/bin/env python3
"""What adapters know of their documents, beside the base that reads them: the columns of table 1 of "Dynamic
LoRA serving system for offline context learning" (Cao and Tan) and the controls that it lacks, on any Hugging Face folder.

  python3 tools/ocl_eval --model DIR --data FILE_OR_FOLDER --out DIR

It makes adapters by `graft learn`, serves them by `graft serve`, asks every question of every document of every arm,
and writes result.json and result.md into --out. Adapters that are in --out already are not made anew. The data is
SQuAD with its paragraphs by title, L-Eval's QuALITY, lines of {"name", "text", "questions": [{"question", "answer" or
"answers", "options"}]}, or tools/reading, which writes documents. Python's own library is all that it needs.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import time

import arms as arms_of
import asking
import data
import perplexity
import scores

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from local_server import free_port, wait_ready


def parse(argv):
    parser = argparse.ArgumentParser(prog="ocl_eval", description=__doc__.split("\n")[0])
    add = parser.add_argument
    add("--model", required=True, help="a Hugging Face folder")
    add("--data", required=True, help="a file, or a folder of them")
    add("--out", required=True, help="folder of adapters and results")
    add("--graft", default="build/release/graft", help="the program")
    add("--documents", type=int, default=0, help="the first ones alone; 0: all")
    add("--questions", type=int, default=0, help="of each document, likewise")
    add("--chars", type=int, default=6000, help="of a document that a generator writes")
    add("--shares", type=float, nargs=3, metavar=("FACTS", "PROSE", "CLAUSES"),
        help="of documents that it writes; tools/reading/corpus.py trains with 0.15 0.4 0.45; none: facts alone")
    add("--arms", default="", help="those alone, with commas between them; all arms are compared with the first two")
    add("--sizes", default="", help="further arms, as in 'distill 4,prefix 32': a learner and its rank, or its virtual "
                                    "tokens")
    add("--prompts", choices=("auto", "plain", "chat"), default="auto",
        help="how adapters are taught and asked: in plain text, or by the model's chat template; auto: by that where "
             "there is one")
    add("--rank", type=int, default=16, help="of LoRA")
    add("--memory-tokens", type=int, default=0, help="0: the learner's own")
    add("--prefix-tokens", type=int, default=128, help="of prefix and of the first tokens")
    add("--encoder", default="", help="the folder of one that graft learn --corpus taught: an arm for it")
    add("--compressions", default="", help="of the encoder, with commas between them: an arm each; none: its least")
    add("--cut", type=float, default=0.8, help="share of the document that is left where it is cut")
    add("--passages", type=int, default=5, help="of BM25")
    add("--passage-words", type=int, default=100)
    add("--answer-tokens", type=int, default=32)
    add("--seed", type=int, default=0)
    add("--threads", type=int, default=16, help="questions at once")
    add("--processes", type=int, default=1, help="of graft learn at once, for parts of an arm's documents")
    add("--learn-args", default="", help="further arguments of graft learn, in one word")
    add("--serve-args", default="", help="likewise of graft serve")
    add("--keep-documents", type=int, default=0,
        help="so many further documents, which nobody is asked about, are the texts that adapters leave as they are "
             "(graft learn --keep-text)")
    add("--perplexity", action="store_true",
        help="besides, what adapters cost other texts: the other documents, and what the base writes of itself")
    add("--url", default="", help="a server that has the adapters of --out/adapters; none is started")
    return parser.parse_args(argv)


class Serving:
    """A server of --out/adapters, or somebody else's."""

    def __init__(self, options, folder):
        self.url = options.url
        self.process = None
        if self.url:
            return
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        self.log = open(folder / "serve.log", "w")
        self.process = subprocess.Popen([options.graft, "serve", "--model", options.model, "--adapters",
                                         str(folder / "adapters"), "--host", "127.0.0.1", "--port", str(port),
                                         *options.serve_args.split()], stderr=self.log)

    def __enter__(self):
        if self.process:
            wait_ready(self.url, self.process, 600)
        return self.url

    def __exit__(self, *unused):
        if self.process:
            self.process.terminate()
            self.process.wait(60)
            self.log.close()


def ask_all(options, client, arm, documents, made):
    """Scores of the arm, by document and question."""
    def model_of(index):
        if arm.of_another:
            other = documents[(index + 1) % len(documents)]
            return arms_of.adapter_name(other, made[arm.of_another])
        return arms_of.adapter_name(documents[index], arm) if arm.learner else options.base

    def one(index, question):
        context = arms_of.context_of(options, client, arm, documents[index], question, options.prefix_tokens)
        model = model_of(index)
        if question.options:
            return scores.of_choice(*client.choose(model, context, question), question.options, question.answers)
        said = client.answer(model, context, question.text)
        return {**scores.of_text(said, question.answers), "said": said}

    cases = [(i, question) for i, document in enumerate(documents) for question in document.questions]
    values = iter(client.all(one, cases))
    return [[next(values) for _ in document.questions] for document in documents]


def markdown(options, metrics, table, about):
    lines = [f"{about['documents']} documents, {about['questions']} questions, model {about['model']}. Brackets: 95 % "
             "by a paired bootstrap over documents. Recovery: the arm's share of what reading the document adds to "
             "none.", "", "| arm | " + " | ".join(f"{m} | recovery" for m in metrics) + " | bytes a document |",
             "|---" * (2 * len(metrics) + 2) + "|"]
    for row in table:
        cells = [row["arm"]]
        for metric in metrics:
            value = row[metric]
            cells.append(f"{100 * value['mean']:.1f} {_range(value['interval'], 100, 1)}")
            share = value["recovery"]
            cells.append("-" if share is None else f"{share:.2f} {_range(value['recovery_interval'], 1, 2)}")
        lines.append("| " + " | ".join(cells + [f"{row['bytes']:,}" if row["bytes"] else ""]) + " |")
    return "\n".join(lines) + "\n"


def _range(interval, factor, digits):
    return "" if interval is None else f"[{factor * interval[0]:.{digits}f}, {factor * interval[1]:.{digits}f}]"


def chosen_arms(options):
    sized = arms_of.sized_arms(options.sizes)
    everyone = arms_of.arms(options) + sized
    wanted = [name.strip() for name in options.arms.split(",") if name.strip()]
    unknown = set(wanted) - {arm.name for arm in everyone}
    if unknown:
        raise SystemExit(f"--arms: {', '.join(sorted(unknown))}; there are {', '.join(a.name for a in everyone)}")
    needed = {arms_of.NONE, arms_of.WHOLE, *wanted, *(arm.name for arm in sized)}
    needed |= {arm.of_another for arm in everyone if arm.name in needed}
    return [arm for arm in everyone if not wanted or arm.name in needed]


def main(argv):
    options = parse(argv)
    if options.prompts == "auto":
        options.prompts = "chat" if asking.has_template(options.model) else "plain"
    folder = pathlib.Path(options.out)
    (folder / "adapters").mkdir(parents=True, exist_ok=True)
    wanted = options.documents and options.documents + options.keep_documents
    documents = data.read(options.data, wanted, options.questions, options.chars, options.seed, options.shares)
    if options.keep_documents:
        documents, kept = documents[:-options.keep_documents], documents[-options.keep_documents:]
        arms_of.write_texts(folder / "kept", kept)
    if len(documents) < 2:
        raise SystemExit("one document has no other one whose adapter is the wrong one: two are needed")
    arms = chosen_arms(options)
    made = {arm.name: arm for arm in arms}
    learned, seconds = {}, {}
    for arm in arms:
        if arm.learner:
            begin = time.monotonic()
            learned[arm.name] = arms_of.learn(options, documents, arm, folder)
            seconds[arm.name] = time.monotonic() - begin
    results = {}
    with Serving(options, folder) as url:
        client = asking.Client(url, options.prompts == "chat", options.answer_tokens, options.threads)
        options.base = next(name for name, model in client.models().items() if model.get("parent") is None)
        for arm in arms:
            results[arm.name] = ask_all(options, client, arm, documents, made)
            print(arm.name, {k: round(v, 3) for k, v in _means(results[arm.name]).items()}, flush=True)
        models = {arm.name: [arms_of.adapter_name(d, arm) for d in documents] for arm in arms if arm.learner}
        costs = (perplexity.measure(client, options.base, documents, models, scores.Bootstrap(len(documents)))
                 if options.perplexity and models else None)
    numbers = {name: [[{k: v for k, v in s.items() if k != "said"} for s in document] for document in arm]
               for name, arm in results.items()}
    metrics, table = scores.summary(numbers, [arm.name for arm in arms], arms_of.NONE, arms_of.WHOLE,
                                    scores.Bootstrap(len(documents)))
    for row in table:
        arm = made[row["arm"]]
        row.update(what=arm.what, seconds=seconds.get(arm.name),
                   bytes=sum(arms_of.bytes_of(folder, d, arm) for d in documents) // len(documents) if arm.learner else 0)
    about = {"model": options.model, "documents": len(documents), "questions": sum(len(d.questions) for d in documents),
             "options": {k: v for k, v in vars(options).items() if k != "url"}}
    (folder / "result.json").write_text(json.dumps({"about": about, "table": table, "answers": results,
                                                    "perplexity": costs, "learned": learned}, indent=1,
                                                   ensure_ascii=False) + "\n")
    text = markdown(options, metrics, table, about) + (perplexity.markdown(costs) if costs else "")
    (folder / "result.md").write_text(text)
    print("\n" + text)


def _means(documents):
    flat = [s for document in documents for s in document]
    return {k: scores.mean([s[k] for s in flat]) for k in flat[0] if k != "said"}


if __name__ == "__main__":
    main(sys.argv[1:])
