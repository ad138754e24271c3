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
    way: str = "documents"  # how its adapters are made: "documents" or "questions"


NONE, WHOLE = "no context", "in context"
STEPS = 20  # of distill, where an adapter begins as an encoder's


def arms(options):
    """In the order of the table. The first five are the paper's table 1 in its order, as far as one document has an
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
        *_encoders(options),
        Arm("question only", f"LoRA of rank {options.rank} on questions and answers of the other half of the documents",
            ["task", *rank], way="questions"),
        Arm("wrong document", "distill's adapter of another document", of_another="distill"),
        Arm("first tokens", "as much of the document's beginning as prefix has tokens", context="first"),
        Arm("BM25", f"the {options.passages} best passages of {options.passage_words} words", context="passages"),
    ]


# What --sizes may name: arms of one learner that differ in what its adapters take.
SIZED = {"distill": "--rank", "next-token": "--rank", "memory": "--virtual-tokens", "prefix": "--virtual-tokens"}


def sized_arms(words):
    """"distill 4,prefix 32": further arms, a learner and its rank or its virtual tokens each."""
    made = []
    for word in filter(None, (word.strip() for word in words.split(","))):
        learner, _, size = word.partition(" ")
        if learner not in SIZED or not size.isdigit():
            raise SystemExit(f"--sizes: '{word}' is not a learner ({', '.join(SIZED)}) and a number")
        what = "rank" if SIZED[learner] == "--rank" else "virtual tokens"
        made.append(Arm(word, f"{learner} with {what} {size}", [learner, SIZED[learner], size]))
    return made


def _encoders(options):
    """Those that are there make adapters; none is learned here."""
    if not options.encoder:
        return []
    made = []
    for c in [int(word) for word in options.compressions.split(",") if word] or [0]:
        name, what = f"encoder {c}" if c else "encoder", f"by the encoder {options.encoder}" + (f", 1/{c}" if c else "")
        asked = ["--encoder", options.encoder, *(["--compression", str(c)] if c else [])]
        made.append(Arm(name, what, ["encoder", *asked]))
        made.append(Arm(f"{name} + distill", f"{what}, and {STEPS} steps of distill from there",
                        ["distill", *asked, "--steps", str(STEPS)]))
    return made


def _tokens(count):
    return ["--virtual-tokens", str(count)] if count else []


def adapter_name(document, arm):
    return f"{document.name}.{arm.name.replace(' ', '').replace('+', '-')}"


def _learn_command(options, folder, files, arguments):
    command = [options.graft, "learn", *map(str, files), "--model", options.model, "--adapters",
               str(folder / "adapters"), "--seed", str(options.seed), *map(str, arguments)]
    own = options.learn_args.split()
    if "--texts" not in own:  # what the base writes is the same for all learners
        own += ["--texts", str(folder / "written")]
    if options.keep_documents:
        own += [word for file in sorted((folder / "kept").glob("*.txt")) for word in ("--keep-text", str(file))]
    return [*command, "--prompts", options.prompts, *own]


def _run_all(commands):
    """Side by side. Waits for all before it says that one failed."""
    running = [subprocess.Popen(command) for command in commands]
    failed = [process for process in running if process.wait() != 0]
    if failed:
        raise subprocess.CalledProcessError(failed[0].returncode, failed[0].args)


def _manifest(folder, document, arm):
    return folder / "adapters" / adapter_name(document, arm) / "graft.json"


def write_texts(folder, documents):
    folder.mkdir(parents=True, exist_ok=True)
    for document in documents:
        (folder / f"{document.name}.txt").write_text(document.text)


def learn(options, documents, arm, folder):
    """The adapters of an arm, those that are not there yet. Returns what graft.json says of each."""
    missing = [d for d in documents if not _manifest(folder, d, arm).exists()]
    texts = folder / "texts"
    write_texts(texts, documents)
    if missing and arm.way == "questions":
        _learn_questions(options, documents, arm, folder)
    elif missing:
        num_parts = min(options.processes, len(missing))
        commands = []
        for part in (missing[i::num_parts] for i in range(num_parts)):
            names = [word for d in part for word in ("--name", adapter_name(d, arm))]
            commands.append(_learn_command(options, folder, [texts / f"{d.name}.txt" for d in part],
                                           ["--learner", *arm.learner, *names]))
        _run_all(commands)
    return {d.name: json.loads(_manifest(folder, d, arm).read_text()) for d in documents}


def _learn_questions(options, documents, arm, folder):
    """What the form of questions and answers alone is worth. No document is asked about by an adapter that learned
    its questions: each half has that of the other one."""
    for half in range(2):
        name = f"half-{half}.{arm.name.replace(' ', '').replace('+', '-')}"
        file = folder / f"{name}.jsonl"
        file.write_text("".join(json.dumps({"question": q.text, "answer": q.answers[0]}) + "\n"
                                for d in documents[half::2] for q in d.questions))
        _run_all([_learn_command(options, folder, [file], ["--learner", *arm.learner, "--name", name, "--replace"])])
        for document in documents[1 - half::2]:
            link = folder / "adapters" / adapter_name(document, arm)
            link.unlink(missing_ok=True)
            link.symlink_to(name)


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
