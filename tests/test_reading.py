"""demo/base reads: what it was taught is what graft learn says, and it answers about a passage in its context."""

import json
import random
import re
import sys

from conftest import ROOT

sys.path.insert(0, str(ROOT / "tools" / "reading"))

import documents  # noqa: E402
import prompts  # noqa: E402
import tasks  # noqa: E402
import values  # noqa: E402


def passage(seed, chars):
    rng = random.Random(seed)
    return tasks.Passage(rng, documents.Writer(rng).write(chars))


def test_graft_learn_says_what_the_base_was_taught():
    sources = "".join((ROOT / "src" / "tuning" / file).read_text() for file in ("recipe.cc", "question_form.cc"))
    said = [json.loads(f'"{text}"') for text in re.findall(r'"((?:[^"\\]|\\.)*)"', sources)]
    for prompt in (prompts.LEARN_SUMMARY, prompts.LEARN_QUESTION, prompts.SUMMARIZE[0], prompts.WRITE_QUESTION[0]):
        assert prompt in said, prompt


def test_a_document_has_what_its_questions_ask():
    assert passage(5, 2000).text == passage(5, 2000).text != passage(6, 2000).text
    for seed in range(40):
        page = passage(seed, 3000)
        for fact in page.facts:
            question, answer = fact.question(page.rng)
            assert answer.lower() in page.text.lower() and "{" not in question + answer, (question, answer)
        assert "{" not in page.text


def test_no_answer_can_be_guessed():
    rng = random.Random(1)
    for kind, draw in values.KINDS.items():
        assert len({draw(rng) for _ in range(4000)}) >= 100, kind


def test_a_passage_is_cut_to_what_it_says():
    for seed in range(40):
        rng = random.Random(seed)
        page = tasks.Passage(rng, documents.Writer(rng).write(3000), crop_chars=700)
        assert len(page.text) <= 700
        for fact in page.facts:
            assert fact.question(rng)[1].lower() in page.text.lower()


def test_the_base_answers_about_what_it_reads(server):
    def answer(content):
        reply = server.client().chat.completions.create(model="base", temperature=0, max_tokens=24,
                                                        messages=[{"role": "user", "content": content}])
        return reply.choices[0].message.content.strip()

    asked = right = guessed = 0
    for seed in (101, 102, 103):
        page = passage(seed, 1200)
        for question, wanted in [page.question() for _ in range(8)]:
            asked += 1
            right += answer(f"{page.text.strip()}\n\n{question}") == wanted
            guessed += answer(question) == wanted
    assert right >= 0.75 * asked and guessed <= 1, (right, guessed, asked)
