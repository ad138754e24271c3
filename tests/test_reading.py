"""demo/base reads: what it was taught is what graft learn says, and it answers about a passage in its context."""

import argparse
import json
import random
import re
import sys

from conftest import ROOT

sys.path.insert(0, str(ROOT / "tools" / "reading"))

import clauses  # noqa: E402
import corpus  # noqa: E402
import documents  # noqa: E402
import page_values  # noqa: E402
import prompts  # noqa: E402
import prose  # noqa: E402
import prose_values  # noqa: E402
import rewording  # noqa: E402
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
    few = {"weekday", "small", "kin", "role", "quality", "plant", "material", "product", "object", "wait", "tongue",
           "degrees", "food", "colour", "trade"}  # as people have them: so much, at least
    for kind, draw in prose_values.KINDS.items():
        assert len({draw(rng) for _ in range(4000)}) >= (7 if kind in few else 100), kind
    few = {"few", "days", "month", "kinship", "beast2", "saying", "day", "ordinal", "building", "skill", "ailment",
           "part", "many_food", "vessel", "kitchen"}
    for kind, draw in page_values.KINDS.items():
        assert len({draw(rng) for _ in range(4000)}) >= (7 if kind in few else 100), kind


def test_prose_has_what_its_questions_ask():
    """All questions of every frame, each with one answer, which stands where it is said to stand."""
    asked = set()
    for seed in range(1200):
        rng = random.Random(seed)
        document = prose.ProseWriter(rng).write((400, 900, 2500)[seed % 3])
        text, spans = document.render()
        assert "{" not in text and "[" not in text and "|" not in text, text
        assert all(sentence.text == text[begin:end] for sentence, (begin, end) in zip(document.sentences, spans))
        answers = {}
        for question, answer, begin, end in document.questions(400):
            assert answer.lower() in text[begin:end].lower(), (question, answer, text[begin:end])
            assert question[0].isupper() and question.endswith("?") and "{" not in question, question
            assert answers.setdefault(question, answer) == answer, question
        asked |= {id(one.frame) for one in document.asked if one.asks}
    frames = [frame for form in prose.FORMS for frame in [form.part, *form.frames]]
    assert asked == {id(frame) for frame in frames}


def test_clauses_have_what_their_questions_ask():
    """Each answer stands where it is said to stand, and no question has two answers."""
    for seed in range(300):
        document = clauses.ClauseWriter(random.Random(seed)).write(2500)
        text, spans = document.render()
        assert not set("{}<>") & set(text) and "  " not in text, text
        assert all(sentence.text == text[begin:end] for sentence, (begin, end) in zip(document.sentences, spans))
        answers = {}
        asked = document.questions(400)
        assert len(asked) > 10
        for question, answer, begin, end in asked:
            assert answer and answer.lower() in text[begin:end].lower(), (question, answer, text[begin:end])
            assert question[0].isupper() and question.endswith("?") and not set("{}<>") & set(question), question
        for fact in document.facts:
            for _ in range(8):
                question, answer = fact.ask(document.rng, document, True)
                assert answers.setdefault(question, answer) == answer, (question, answer, answers[question])


def test_pages_for_tuning_are_not_in_the_forms():
    """Five words in a row that they share would make a base know the pages by which it is measured."""
    def fives(text):
        words = re.findall(r"[a-z0-9']+", text.lower())
        return {tuple(words[i:i + 5]) for i in range(len(words) - 4)}

    pages = (ROOT / "tests" / "pages" / "tuning").glob("*.page")
    written = set().union(*(fives(page.read_text().partition("\n---\n")[0]) for page in pages))
    assert len(written) > 2000
    for module in prose.MODULES:
        for line in module.TEXT.split("\n"):
            if module.__name__.startswith("forms_pages") and not line.startswith("ask"):
                shared = [five for part in re.split(r"\{[^}]*\}|\[[^\]]*\]", line) for five in fives(part) & written]
                assert not shared, (line, shared)


def test_a_document_in_other_words_has_what_its_questions_ask():
    """Its nouns are others, the same ones wherever they stand; what is asked stays answered once."""
    changed = total = 0
    for seed in range(160):
        rng = random.Random(seed)
        document = (prose.ProseWriter, clauses.ClauseWriter)[seed % 2](rng).write(rng.choice((300, 900, 2500)))
        other = rewording.Reworded(document, rng)
        text, spans = other.render()
        assert all(sentence.text == text[begin:end] for sentence, (begin, end) in zip(other.sentences, spans))
        old, new = document.render()[0].split(" "), text.split(" ")
        assert len(old) == len(new)
        changed, total = changed + sum(a != b for a, b in zip(old, new)), total + len(old)
        answers = {}
        for question, answer, begin, end in other.questions(200):
            assert answer.lower() in text[begin:end].lower(), (question, answer, text[begin:end])
            assert answers.setdefault(question, answer) == answer, question
        page = tasks.Passage(rng, other, crop_chars=rng.choice((0, 150, 700)))
        for fact in page.facts:
            assert fact.question(rng)[1].lower() in page.text.lower()
    assert 0.04 < changed / total < 0.4


def test_a_passage_is_asked_as_programs_ask():
    page = tasks.Passage(random.Random(3), clauses.ClauseWriter(random.Random(3)).write(600))
    parts = page.asked(2)
    text = "".join(text for text, _ in parts)
    assert text.startswith(f"<|begin_of_text|><|start|>user\n{page.text.strip()}\n\n")
    assert text.count("<|start|>assistant\n") == 2 and text.endswith("<|end|>")
    assert [kind for _, kind in parts] == [tasks.READ, tasks.PAD, tasks.ANSWER] * 2


def test_of_a_document_of_no_length_something_is_asked_too():
    """As at the end of a row of tokens: a maker looks until it has a document with facts."""
    for i in range(3):
        shares = [float(i == j) for j in range(3)]
        assert any(tasks.Passage(rng, corpus.any_document(rng, (), 0, shares)).facts
                   for rng in map(random.Random, range(10)))


def test_clauses_are_the_same_for_a_seed_and_no_two_alike():
    texts = [clauses.ClauseWriter(random.Random(seed)).write(700).text for seed in range(200)]
    assert texts[:20] == [clauses.ClauseWriter(random.Random(seed)).write(700).text for seed in range(20)]
    sentences = [sentence for text in texts for sentence in text.split(". ") if len(sentence) > 60]
    assert len(set(texts)) == 200 and len(set(sentences)) > 0.99 * len(sentences)


def test_a_corpus_is_the_same_in_every_run_and_no_document_comes_twice():
    options = argparse.Namespace(seed=7, first=0, documents=0, chars=(300, 900), questions=6, shares=corpus.SHARES)
    lines = [corpus.line_of(options, i) for i in range(60)]
    assert lines == [corpus.line_of(options, i) for i in range(60)]
    made = [json.loads(line) for line in lines]
    assert len({one["text"] for one in made}) == 60
    for one in made:
        assert 0 < len(one["questions"]) <= 6
        for asked in one["questions"]:
            assert asked["answer"].lower() in one["text"][asked["begin"]:asked["end"]].lower(), asked


def test_what_is_asked_of_a_cut_passage_can_be_made():
    """All that a passage of clauses is used for; beside sentences of books, which have any sign."""
    asides = ("'Oh {no},' said the king.", "He went away | and [came] back.", "Yes", "It was late; so late!")
    for seed in range(150):
        rng = random.Random(seed)
        document = clauses.ClauseWriter(rng, asides if seed % 2 else ()).write(rng.choice((60, 200, 900, 3000)))
        page = tasks.Passage(rng, document, crop_chars=rng.choice((0, 150, 700)))
        if page.facts:
            parts = page.chat(6) + page.plain(5, False) + page.plain(0, True)
            assert all(text for text, kind in parts if kind == tasks.ANSWER)
        for fact in page.facts:
            assert fact.question(rng)[1].lower() in page.text.lower()


def test_a_passage_is_cut_to_what_it_says():
    for seed in range(40):
        rng = random.Random(seed)
        page = tasks.Passage(rng, corpus.any_document(rng, (), 3000), crop_chars=700)
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
