"""Documents and questions of a data set, whatever form it has on the disk."""

import dataclasses
import json
import pathlib
import random
import re
import sys

FORMS = (".json", ".jsonl", ".page")
OPTION = re.compile(r"^\s*\(([A-Z])\)\s*", re.MULTILINE)


@dataclasses.dataclass
class Question:
    text: str
    answers: list  # any of these is right
    options: list = dataclasses.field(default_factory=list)  # of a choice; answers[0] is one of them


@dataclasses.dataclass
class Document:
    name: str
    text: str
    questions: list


def read(path, documents_max=0, questions_max=0, chars=6000, seed=0, shares=None):
    """A file, or all that a folder's files hold. The first ones where fewer are wanted. A folder with a generator
    (tools/reading) writes them, of about `chars` characters, in `shares` of its kinds; none: lists of facts."""
    path = pathlib.Path(path)
    if (path / "documents.py").exists():
        return _generated(path, documents_max or 20, questions_max or 20, chars, seed, shares)
    files = [path] if path.is_file() else sorted(p for p in path.rglob("*") if p.suffix in FORMS and p.is_file())
    documents = []
    for file in files:
        documents += _read_file(file)
    documents = [d for d in documents if d.questions]
    if not documents:
        raise SystemExit(f"{path}: no documents with questions in its files ({', '.join(FORMS)})")
    documents = documents[:documents_max or None]
    for document in documents:
        document.questions = document.questions[:questions_max or None]
    names = [d.name for d in documents]
    for index, document in enumerate(documents):
        if names.count(document.name) > 1:
            document.name += f"-{index}"
    return documents


def _generated(folder, num_documents, num_questions, chars, seed, shares):
    """By seeds that no training of a base uses."""
    sys.path.insert(0, str(folder))
    import corpus
    import documents as generator

    made = []
    for i in range(num_documents):
        rng = random.Random(f"ocl_eval {seed} {i}")
        document = corpus.any_document(rng, (), chars, shares) if shares else generator.Writer(rng).write(chars)
        text, spans = document.render()
        facts = document.facts_within(spans, 0, len(text))
        asked = [fact.question(rng) for fact in rng.sample(facts, min(num_questions, len(facts)))]
        made.append(Document(f"generated-{i}", text, [Question(q[0], [q[1]]) for q in asked]))
    return made


def _page(file):
    """A text, a line ---, then a line for each question: the question | an answer; another that is right, too."""
    text, _, lines = file.read_text().partition("\n---\n")
    asked = [line.partition(" | ") for line in lines.strip().split("\n")]
    return Document(_file_name(file.stem), text, [Question(q, answers.split("; ")) for q, _, answers in asked])


def _read_file(file):
    if file.suffix == ".page":
        return [_page(file)]
    text = file.read_text()
    try:
        rows = json.loads(text)
    except json.JSONDecodeError:
        rows = [json.loads(line) for line in text.splitlines() if line.strip()]
    rows = rows if isinstance(rows, list) else [rows]
    rows = [row for row in rows if isinstance(row, dict)]
    if rows and "instructions" in rows[0]:
        return [_l_eval(row, f"{file.stem}-{i}") for i, row in enumerate(rows)]
    if rows and {"title", "context", "questions"} <= rows[0].keys():
        return _squad(rows)
    return [_plain(row, f"{file.stem}-{i}") for i, row in enumerate(rows) if {"text", "questions"} <= row.keys()]


def _file_name(text):
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-.")[:60] or "document"


def _plain(row, name):
    """{"name", "text", "questions": [{"question", "answer" or "answers", "options"}]}"""
    questions = [Question(q["question"], q.get("answers") or [q["answer"]], q.get("options") or [])
                 for q in row["questions"]]
    return Document(_file_name(row.get("name") or name), row["text"], questions)


def _squad(rows):
    """SQuAD: paragraphs of one title are one document."""
    documents = {}
    for row in rows:
        document = documents.setdefault(row["title"], Document(_file_name(row["title"]), "", []))
        document.text += row["context"].strip() + "\n\n"
        document.questions += [Question(q["question"], q.get("answers") or [q["answer"]]) for q in row["questions"]]
    return list(documents.values())


def _l_eval(row, name):
    """L-Eval's form of QuALITY: a question with its options in one text."""
    questions = []
    for text, output in zip(row["instructions"], row["outputs"]):
        parts = OPTION.split(text)
        options = [option.strip() for option in parts[2::2]]
        right = OPTION.match(output)
        index = ord(right.group(1)) - ord("A") if right else -1
        if 0 <= index < len(options):
            questions.append(Question(parts[0].strip(), [options[index]], options))
    return Document(_file_name(row.get("title") or name), row["input"], questions)
