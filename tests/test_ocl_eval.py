"""tools/ocl_eval: data of every form, scores, BM25, the bootstrap, and with GRAFT_LONG_TESTS a whole run."""

import argparse
import json
import re
import subprocess
import sys
import xml.etree.ElementTree

import pytest

from conftest import DEMO, LONG_TESTS, ROOT, binary

sys.path.insert(0, str(ROOT / "tools" / "ocl_eval"))
import arms
import bm25
import data
import perplexity
import scores

PLAIN = {"name": "A light/house", "text": "The keeper was Finch.",
         "questions": [{"question": "Who was the keeper?", "answer": "Finch"}]}


def test_every_form_is_read(tmp_path):
    (tmp_path / "plain.jsonl").write_text(json.dumps(PLAIN) + "\n" + json.dumps({**PLAIN, "questions": []}) + "\n")
    (tmp_path / "squad.json").write_text(json.dumps(
        [{"title": "T", "context": context, "questions": [{"question": context + "?", "answer": "yes"}]}
         for context in ("one", "two")]))
    (tmp_path / "leval.jsonl").write_text(json.dumps(
        {"input": "a story", "instructions": ["Why?\n\n (A) Because. \n (B) No reason. "],
         "outputs": ["(B) No reason."]}))
    documents = {d.name: d for d in data.read(tmp_path)}
    assert set(documents) == {"A-light-house", "T", "leval-0"}
    assert documents["T"].text == "one\n\ntwo\n\n" and len(documents["T"].questions) == 2
    choice = documents["leval-0"].questions[0]
    assert choice.text == "Why?" and choice.options == ["Because.", "No reason."] and choice.answers == ["No reason."]
    assert len(data.read(tmp_path, documents_max=1)) == 1
    with pytest.raises(SystemExit, match="no documents"):
        data.read(tmp_path / "nowhere")


def test_pages_by_hand():
    pages = {part: data.read(ROOT / "tests" / "pages" / part) for part in ("tuning", "unused")}
    assert [len(pages[part]) for part in pages] == [20, 10]
    for page in pages["tuning"] + pages["unused"]:
        assert len(page.questions) == 10 and 80 < len(page.text.split()) < 260, page.name
        text = scores.normal(page.text.replace("\n", " "))
        for question in page.questions:
            assert question.text.endswith("?"), question
            assert any(scores.normal(answer) in text for answer in question.answers), question


def test_an_encoder_is_an_arm_for_each_compression():
    options = argparse.Namespace(encoder="", compressions="")
    assert arms._encoders(options) == []
    options.encoder = "E"
    assert arms._encoders(options)[0].learner == ["encoder", "--encoder", "E"]
    options.compressions = "4,16"
    made = {arm.name: arm.learner for arm in arms._encoders(options)}
    assert list(made) == ["encoder 4", "encoder 4 + distill", "encoder 16", "encoder 16 + distill"]
    assert made["encoder 16"][-2:] == ["--compression", "16"]
    assert made["encoder 4 + distill"] == ["distill", "--encoder", "E", "--compression", "4", "--steps", "20"]


def test_a_generator_writes_documents_and_knows_the_answers():
    documents = data.read(ROOT / "tools" / "reading", 2, 5, chars=900)
    again = data.read(ROOT / "tools" / "reading", 2, 5, chars=900)
    assert [d.text for d in documents] == [d.text for d in again]
    assert documents[0].text != documents[1].text
    for document in documents:
        assert 0 < len(document.questions) <= 5
        assert any(q.answers[0] in document.text for q in document.questions)
    prose = data.read(ROOT / "tools" / "reading", 3, 5, chars=900, shares=(0, 0.5, 0.5))
    assert prose == data.read(ROOT / "tools" / "reading", 3, 5, chars=900, shares=(0, 0.5, 0.5))
    for document in prose:
        assert all(q.answers[0].lower() in document.text.lower() for q in document.questions), document


def test_answers_are_compared_as_squad_does():
    assert scores.of_text("The Grey  Parrot.", ["grey parrot"]) == {"exact": 1.0, "f1": 1.0, "contains": 1.0}
    half = scores.of_text("a parrot and a dog", ["grey parrot"])
    assert half["exact"] == 0.0 and half["contains"] == 0.0 and half["f1"] == pytest.approx(0.4)
    assert scores.of_choice([-2.0, -1.0], [-1.0, -3.0], ["x", "y"], ["y"]) == {"choice": 1.0, "letter": 0.0}


def test_recovery_is_the_share_of_what_reading_adds():
    arms = {"none": [[{"exact": 0.0}], [{"exact": 0.0}]], "whole": [[{"exact": 1.0}], [{"exact": 1.0}]],
            "half": [[{"exact": 1.0}], [{"exact": 0.0}]]}
    metrics, table = scores.summary(arms, list(arms), "none", "whole", scores.Bootstrap(2, draws=200))
    assert metrics == ["exact"]
    rows = {row["arm"]: row["exact"] for row in table}
    assert rows["half"]["recovery"] == 0.5 and rows["half"]["recovery_interval"] == [0.0, 1.0]
    assert rows["whole"]["recovery"] == 1.0 and rows["none"]["mean"] == 0.0


def test_a_server_takes_the_names_of_all_adapters():
    options = argparse.Namespace(rank=2, memory_tokens=4, prefix_tokens=8, cut=0.8, passages=5, passage_words=100,
                                 encoder="demo/encoder", compressions="4,16")
    document = data.Document("A-light-house", "text", [])
    names = [arms.adapter_name(document, arm) for arm in arms.arms(options)]
    assert all(re.fullmatch(r"[\w.:/@-]{1,200}", name, re.ASCII) for name in names), names
    assert len(set(names)) == len(names)


def test_arms_of_other_sizes():
    made = arms.sized_arms("distill 4, prefix 32")
    assert [arm.name for arm in made] == ["distill 4", "prefix 32"]
    assert [arm.learner for arm in made] == [["distill", "--rank", "4"], ["prefix", "--virtual-tokens", "32"]]
    for wrong in ("distill", "encoder 4", "distill four"):
        with pytest.raises(SystemExit, match="--sizes"):
            arms.sized_arms(wrong)


class TokenCounter:
    """Each letter is a token. A base says each with 1 nat less than nothing, an adapter with `adapter` less."""

    def __init__(self, adapter):
        self.adapter = adapter

    def post(self, path, body):
        return {"tokens": [0]}

    def tokens(self, text, model):
        return [ord(c) for c in text]

    def written(self, model, start, count, tokens_max):
        return [start + [7] * tokens_max] * count

    def likelihood_of(self, model, prompt, tokens):
        return -len(tokens) * (1.0 if model == "base" else self.adapter), len(tokens)

    def all(self, work, cases):
        return [work(*case) for case in cases]


def test_what_adapters_cost_other_texts():
    documents = [data.Document(f"d{i}", "abc" * (i + 1), []) for i in range(3)]
    texts = perplexity.texts_of(TokenCounter(1.0), "base", documents)
    own = [0] + [ord(c) for c in documents[0].text]
    assert own not in texts[perplexity.OTHERS][0] and len(texts[perplexity.OTHERS][0]) == 2
    assert all(len(text) <= 1 + perplexity.TEXT_TOKENS for text in texts[perplexity.WRITTEN][0])
    models = {"distill": [f"{d.name}.distill" for d in documents]}
    result = perplexity.measure(TokenCounter(1.1), "base", documents, models, scores.Bootstrap(3, draws=50))
    for kind in (perplexity.OTHERS, perplexity.WRITTEN):
        assert result[kind]["base"] == pytest.approx(2.71828, rel=1e-4)
        assert result[kind]["arms"]["distill"]["rise"] == pytest.approx(100 * (2.71828 ** 0.1 - 1), rel=1e-4)
    assert "+10.5 %" in perplexity.markdown(result)


def test_further_documents_are_texts_that_adapters_leave_as_they_are(tmp_path):
    arms.write_texts(tmp_path / "kept", [data.Document("b", "two", []), data.Document("a", "one", [])])
    options = argparse.Namespace(graft="graft", model="m", seed=0, prompts="chat", learn_args="", keep_documents=2)
    command = arms._learn_command(options, tmp_path, ["d.txt"], [])
    given = [command[i + 1] for i, word in enumerate(command) if word == "--keep-text"]
    assert [open(path).read() for path in given] == ["one", "two"]
    options.keep_documents = 0
    assert "--keep-text" not in arms._learn_command(options, tmp_path, ["d.txt"], [])


def test_bm25_finds_the_passage():
    text = "The bridge is long. " * 5 + "The parrot was called Solomon. " + "The bridge is long. " * 5
    pieces = bm25.passages(text, 5)
    assert "Solomon" in bm25.best("What was the parrot called?", pieces, 1)[0]
    assert len(bm25.best("parrot", pieces, 3)) == 3


@pytest.mark.skipif(not LONG_TESTS, reason="learns many adapters")
def test_a_whole_run(tmp_path):
    command = [sys.executable, str(ROOT / "tools" / "ocl_eval"), "--model", str(DEMO / "base"), "--graft", binary(),
               "--data", str(ROOT / "tools" / "reading"), "--out", str(tmp_path), "--documents", "2", "--questions", "4",
               "--chars", "400", "--rank", "2", "--memory-tokens", "4", "--prefix-tokens", "8", "--learn-args",
               "--quiet --questions 2 --outputs 1 --output-tokens 8 --passes 1 --window-tokens 64 --learning-rate 0.001"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1200)
    assert done.returncode == 0, done.stderr
    result = json.loads((tmp_path / "result.json").read_text())
    arms = {row["arm"]: row for row in result["table"]}
    assert {"no context", "in context", "distill", "question only", "wrong document", "BM25"} <= set(arms)
    assert arms["in context"]["exact"]["mean"] >= arms["no context"]["exact"]["mean"]
    assert (tmp_path / "result.md").read_text().count("\n| ") == len(arms) + 1


def test_curves_are_drawn(tmp_path):
    rows = [{"step": step, "tokens": 1e6 * step, "answer_loss": 2.0 / (1 + step), "piece_loss": 3.0,
             "looks": [{"compression": 4, "recovery": 0.1 * step}]} for step in (0, 1, 3, 2, 3)]
    (tmp_path / "a&b.curves.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    done = subprocess.run([sys.executable, str(ROOT / "tools" / "curves.py"), str(tmp_path / "a&b.curves.jsonl"), "--out",
                           str(tmp_path / "curves.svg")], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    picture = xml.etree.ElementTree.parse(tmp_path / "curves.svg").getroot()
    lines = [line.get("points").split() for line in picture.iter("{http://www.w3.org/2000/svg}polyline")]
    assert [len(line) for line in lines] == [4, 4, 4], "the step that was made twice counts once"
    assert "a&b 1/4" in [text.text for text in picture.iter("{http://www.w3.org/2000/svg}text")]
