"""The arms of the comparison: what each has of the document, and how its adapters are made."""

import dataclasses
import json
import pathlib
import subprocess

import bm25


@dataclasses.dataclass
class Arm:
    name: str
    what: str
    learner: list = None  # of `graft learn`; None: nothing is learned
    context: str = ""  # "whole", "cut", "first" or "passages"; "": none
    of_another: str = ""  # the arm whose adapters are asked about another document


NONE, WHOLE = "no context", "in context"


def arms(options):
    """In the order of the table. The first five are the seed's Table 1 in its order, as far as one document has an
    adapter of its own here."""
    rank = ["--rank", str(options.rank)]
    return [
        Arm(NONE, "the base and the question"),
        Arm(WHOLE, "the base, the document and the question", context="whole"),
        Arm("in context cut", f"the first {options.cut:.0%} of the document alone", context="cut"),
        Arm("next-token", f"LoRA of rank {options.rank} on the document's text", ["next-token", *rank]),
        Arm("distill", f"LoRA of rank {options.rank}, taught by the base in context", ["distill", *rank]),
        Arm("memory", "virtual tokens, taught likewise", ["memory", *_tokens(options.memory_tokens)]),
        Arm("memory + LoRA", f"both, rank {options.rank}", ["memory", *_tokens(options.memory_tokens), *rank]),
        Arm("prefix", "keys and values, taught likewise", ["prefix", *_tokens(options.prefix_tokens)]),
        Arm("wrong document", "distill's adapter of another document", of_another="distill"),
        Arm("first tokens", "as much of the document's beginning as prefix has tokens", context="first"),
        Arm("BM25", f"the {options.passages} best passages of {options.passage_words} words", context="passages"),
    ]


def _tokens(count):
    return ["--virtual-tokens", str(count)] if count else []


def adapter_name(document, arm):
    return f"{document.name}.{arm.name.replace(' ', '')}"


def learn(options, documents, arm, folder):
    """The adapters of an arm, those that are not there yet. Returns what graft.json says of each."""
    texts = folder / "texts"
    texts.mkdir(parents=True, exist_ok=True)
    missing = []
    for document in documents:
        (texts / f"{document.name}.txt").write_text(document.text)
        if not (folder / "adapters" / adapter_name(document, arm) / "graft.json").exists():
            missing.append(document)
    if missing:
        command = [options.graft, "learn", *(str(texts / f"{d.name}.txt") for d in missing), "--model", options.model,
                   "--adapters", str(folder / "adapters"), "--seed", str(options.seed), "--learner", *arm.learner]
        for document in missing:
            command += ["--name", adapter_name(document, arm)]
        command += ["--prompts", "chat"] if options.chat else []
        subprocess.run([*command, *options.learn_args.split()], check=True)
    return {d.name: json.loads((folder / "adapters" / adapter_name(d, arm) / "graft.json").read_text())
            for d in documents}


def bytes_of(folder, document, arm):
    files = pathlib.Path(folder / "adapters" / adapter_name(document, arm)).rglob("adapter_model.safetensors")
    return sum(file.stat().st_size for file in files)


def context_of(options, client, arm, document, question, prefix_tokens):
    """The text that stands before the question."""
    if arm.context == "whole":
        return document.text
    if arm.context == "cut":
        return document.text[:int(len(document.text) * options.cut)]
    if arm.context == "first":
        return client.cut(document.text, options.base, prefix_tokens)
    if arm.context == "passages":
        pieces = bm25.passages(document.text, options.passage_words)
        return "\n\n".join(bm25.best(question.text, pieces, options.passages))
    return ""
