"""What is asked about a document, as parts of a text; each has a class, by which its loss is weighted."""

import json

import documents
import prompts
import values

PAD, READ, WRITTEN, ANSWER = range(4)
BOS, EOS = 0, 1
TURN = "<|end|>\n<|start|>assistant\n"
NEXT_TURN = "\n<|start|>user\n"


def summary(rng, facts, most):
    """Statements of facts in their order, spread over the passage."""
    count = min(len(facts), most)
    chosen = [facts[i * len(facts) // count] for i in range(count)]
    return " ".join(fact.statement(rng) for fact in chosen)


def _fill_json(rng, attributes):
    entity = rng.choice(attributes).entity
    own = [a for a in attributes if a.entity is entity][:4]
    keys = [rng.choice(a.nouns) for a in own]
    form = json.dumps({"name": entity.name, **dict.fromkeys(keys)})
    full = json.dumps({"name": entity.name, **{key: a.value for key, a in zip(keys, own)}})
    return rng.choice(prompts.FILL_JSON).replace("{form}", form), full


def edit(rng, text):
    words = [w for w in text.rstrip(".?").split(" ") if len(w) > 3 and w.isalpha()]
    if not words:
        return rng.choice(prompts.REPEAT).replace("{text}", text), text
    old, new = rng.choice(words), rng.choice(values.THINGS + values.GOODS)
    order = rng.choice(prompts.REPLACE).replace("{old}", old).replace("{new}", new).replace("{text}", text)
    return order, " ".join(new if w.strip(".,:?") == old and w == old else w for w in text.split(" "))


def _tell(rng, attributes):
    entity = rng.choice(attributes).entity
    own = [a for a in attributes if a.entity is entity][:4]
    return rng.choice(prompts.TELL_ABOUT).replace("{subject}", entity.name), " ".join(a.statement(rng) for a in own)


class Passage:
    """A passage with the facts in it; asks and answers about it."""

    def __init__(self, rng, document, crop_chars=0):
        self.rng = rng
        text, spans = document.render()
        begin, end = 0, len(text)
        if crop_chars and crop_chars < len(text):
            begin = text.find(" ", rng.randrange(len(text) - crop_chars))
            end = min(begin + crop_chars, len(text))
        self.text = text[begin:end]
        self.facts = document.facts_within(spans, begin, end)
        self.attributes = [f for f in self.facts if isinstance(f, documents.Attribute)]
        self.sentences = [s.text for s, (b, e) in zip(document.sentences, spans) if b >= begin and e <= end]
        self.order = []

    def next_fact(self):
        if not self.order:
            self.order = self.rng.sample(self.facts, len(self.facts))
        return self.order.pop()

    def question(self):
        return self.next_fact().question(self.rng)

    def turn(self):
        """What a user says, what is answered, and the class of the answer."""
        rng, draw = self.rng, self.rng.random()
        if draw < 0.80:
            return *self.question(), ANSWER
        if draw < 0.84:
            fact = self.next_fact()
            return (rng.choice(prompts.IN_A_SENTENCE).replace("{question}", fact.question(rng)[0]),
                    fact.statement(rng), WRITTEN)
        if draw < 0.87:
            sentence = rng.choice(self.sentences)
            start = " ".join(sentence.split(" ")[:rng.randint(3, 5)])
            return rng.choice(prompts.COPY_SENTENCE).replace("{start}", start), sentence, WRITTEN
        if draw < 0.88:
            text = rng.choice(self.sentences)
            return rng.choice(prompts.REPEAT).replace("{text}", text), text, WRITTEN
        if draw < 0.90:
            return *edit(rng, rng.choice(self.sentences)), WRITTEN
        if draw < 0.93 and self.attributes:
            return *_fill_json(rng, self.attributes), ANSWER
        if draw < 0.95 and self.attributes:
            return *_tell(rng, self.attributes), WRITTEN
        if draw < 0.97:
            return rng.choice(prompts.SUMMARIZE), summary(rng, self.facts, 6), WRITTEN
        question, answer = self.question()
        return rng.choice(prompts.WRITE_QUESTION), f"Question: {question}\nAnswer: {answer}", WRITTEN

    def plain(self, num_questions, summary_first):
        """The passage as `graft learn` shows it: (text, class) in turns."""
        rng = self.rng
        parts = [("<|begin_of_text|>", PAD), (self.text, READ)]
        about = [(prompts.LEARN_SUMMARY, PAD), (summary(rng, self.facts, 6) + "<|end_of_text|>", WRITTEN)]
        if summary_first:
            return parts + about
        lead = rng.choice((prompts.LEARN_QUESTION, prompts.LEARN_QUESTION, "\n\nQuestion:"))
        for i in range(num_questions):
            question, answer = self.question()
            parts.append((prompts.NEXT_QUESTION if i else lead, WRITTEN if i else PAD))
            parts += [(" " + question + prompts.ANSWER, WRITTEN), (" " + answer, ANSWER)]
        return parts + [("<|end_of_text|>", WRITTEN)]

    def asked(self, num_questions):
        """Questions as tools/ocl_eval and most programs ask them: the passage and one in a message, nothing else."""
        parts = []
        for i in range(num_questions):
            question, answer = self.question()
            parts += [(NEXT_TURN + question, READ)] if i else [
                (f"<|begin_of_text|><|start|>user\n{self.text.strip()}\n\n{question}", READ)]
            parts += [(TURN, PAD), (answer + "<|end|>", ANSWER)]
        return parts

    def chat(self, num_turns):
        rng = self.rng
        text = self.text.strip()
        said, answer, kind = self.turn() if rng.random() < 0.4 else (*self.question(), ANSWER)
        if rng.random() < 0.15:
            system = rng.choice(prompts.SYSTEM_PASSAGES).replace("{passage}", text)
        else:
            system = rng.choice(prompts.SYSTEMS)
            ask = rng.choice(prompts.ASK_ABOUT if kind == ANSWER else prompts.ASK_ABOUT[:1])
            said = ask.replace("{question}", said).replace("{passage}", text)
        head = "<|begin_of_text|>" + (f"<|start|>system\n{system}<|end|>\n" if system else "")
        parts = [(head + "<|start|>user\n" + said, READ)]
        for i in range(num_turns):
            if i:
                said, answer, kind = self.turn()
                parts.append((NEXT_TURN + said, READ))
            parts += [(TURN, PAD), (answer + "<|end|>", kind)]
        return parts


def closed_book(rng, num_questions):
    """Questions about nothing that was read: the form of an answer, whose value nobody can know."""
    passage = Passage(rng, documents.Writer(rng).write(num_questions * 60 + 300))
    if not passage.facts:
        return closed_book(rng, num_questions)
    if rng.random() < 0.4:
        parts = passage.plain(min(num_questions, 6), False)
        del parts[1]
        return [(text, WRITTEN if kind == ANSWER else kind) for text, kind in parts]
    parts = [("<|begin_of_text|><|start|>user\n" + passage.question()[0], READ)]
    for i in range(num_questions):
        question, answer = passage.question()
        parts += [(NEXT_TURN + question, READ)] if i else []
        parts += [(TURN, PAD), (answer + "<|end|>", WRITTEN)]
    return parts
