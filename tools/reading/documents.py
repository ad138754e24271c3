"""Generated documents: entities with attributes, events, asides; every fact can be asked for in many wordings."""

import re
from dataclasses import dataclass, field

import facts
import values
import wording


def _fields(line):
    return [[part.strip() for part in column.split(";") if part.strip()] for column in line.split("|")]


ENTITIES = {name: (maker, pronouns.split(), [_fields(line) for line in table.strip().split("\n")])
            for name, (maker, pronouns, table) in facts.ENTITIES.items()}
EVENTS = []
for block in facts.EVENTS.strip().split("\n\n"):
    slots, statements, questions = block.split("\n")
    EVENTS.append(([slot.split("=") for slot in slots.split()], [s.strip() for s in statements.split(";")],
                   [q.strip().split(": ", 1) for q in questions.split(";")]))
POSSESSIVES = {"it": "its", "she": "her", "he": "his"}
OBJECTS = {"it": "it", "she": "her", "he": "him"}


def capital(text):
    return text[:1].upper() + text[1:]


def _ends(sentence):
    return capital(sentence) if sentence[-1] in ".?" else capital(sentence) + "."


def _fill(template, subject, possessive, value, noun="", pronoun=""):
    text = template
    if pronoun:
        text = re.sub(r"^\{s\}", pronoun, text).replace("{s}", OBJECTS[pronoun])
    return (text.replace("{ps}", possessive).replace("{s}", subject).replace("{n}", noun).replace("{v}", value))


@dataclass
class Entity:
    kind: str
    name: str
    pronoun: str

    @property
    def possessive(self):
        return self.name + ("'" if self.name.endswith("s") else "'s")


@dataclass
class Attribute:
    """A fact of an entity."""
    entity: Entity
    nouns: list
    kind: str
    statements: list
    questions: list
    value: str
    can_reverse: bool = True

    def statement(self, rng, by_pronoun=False):
        own = self.statements and rng.random() < 0.55
        if by_pronoun:
            template = rng.choice(self.statements if own else wording.PRONOUN_STATEMENTS)
            possessive = POSSESSIVES[self.entity.pronoun]
            text = _fill(template, "", possessive, self.value, rng.choice(self.nouns), self.entity.pronoun)
        else:
            template = rng.choice(self.statements if own else wording.STATEMENTS)
            text = _fill(template, self.entity.name, self.entity.possessive, self.value, rng.choice(self.nouns))
        return _ends(text)

    def question(self, rng):
        if self.can_reverse and rng.random() < 0.1:
            template = rng.choice(wording.REVERSE_QUESTIONS).replace("{c}", self.entity.kind)
            return _ask(_fill(template, "", "", self.value, rng.choice(self.nouns))), self.entity.name
        if self.questions and rng.random() < 0.5:
            template = rng.choice(self.questions)
        else:
            word = "Who" if self.kind == "person" else "What"
            template = rng.choice(wording.QUESTIONS).replace("{w}", word).replace("{lw}", word.lower())
        return _ask(_fill(template, self.entity.name, self.entity.possessive, "", rng.choice(self.nouns))), self.value


@dataclass
class Event:
    values: dict
    statements: list
    questions: list

    def _with_values(self, template):
        return re.sub(r"\{(\w)\}", lambda m: self.values[m[1]], template)

    def statement(self, rng, by_pronoun=False):
        return _ends(self._with_values(rng.choice(self.statements)))

    def question(self, rng):
        slot, template = rng.choice(self.questions)
        return _ask(self._with_values(template)), self.values[slot]


def _ask(question):
    return capital(question)


@dataclass
class Sentence:
    text: str
    fact: object = None
    needs: int = -1  # the sentence that names what this one only points at; -1: it stands alone


@dataclass
class Document:
    sentences: list = field(default_factory=list)
    breaks: set = field(default_factory=set)  # sentences before which a paragraph ends
    is_list: bool = False

    def render(self):
        """The text, and where each sentence begins and ends in it."""
        text, spans = "", []
        for i, sentence in enumerate(self.sentences):
            if text:
                text += "\n\n" if i in self.breaks else "\n" if sentence.text.startswith("- ") else " "
            spans.append((len(text), len(text) + len(sentence.text)))
            text += sentence.text
        return text, spans

    def facts_within(self, spans, begin, end):
        def is_within(i):
            return spans[i][0] >= begin and spans[i][1] <= end
        return [s.fact for i, s in enumerate(self.sentences)
                if s.fact and is_within(i) and (s.needs < 0 or is_within(s.needs))]


class Writer:
    """Writes one document."""

    def __init__(self, rng, asides=()):
        self.rng = rng
        self.asides = asides
        self.names = set()
        self.document = Document()
        self.length = 0

    def add(self, text, fact=None, needs=-1, is_new_paragraph=False):
        if is_new_paragraph and self.document.sentences:
            self.document.breaks.add(len(self.document.sentences))
        self.document.sentences.append(Sentence(text, fact, needs))
        self.length += len(text) + 1
        return len(self.document.sentences) - 1

    def fresh(self, make):
        """A value that the document has not; after many tries, one that it has."""
        for _ in range(50):
            name = make(self.rng)
            if name not in self.names:
                break
        self.names.add(name)
        return name

    def entity(self, kind):
        rng = self.rng
        maker, pronouns, _ = ENTITIES[kind]
        makers = {"place": values.place, "title": values.title, "person": values.person, "made": values.made_name}
        what = re.search(r"\{(\w+)\}", maker)[1]
        known = sorted(name for name in self.names if what == "place" and " " not in name)
        if known and rng.random() < 0.1:  # a name that is easily taken for another
            before = ("New", "Old", "Little", "Great", "Upper", "Lower")
            word = self.fresh(lambda r: r.choice(before) + " " + r.choice(known))
        else:
            word = self.fresh(makers[what])
        return Entity(kind, maker.replace("{" + what + "}", word), rng.choice(pronouns))

    def attributes(self, entity, count):
        rng = self.rng
        rows = rng.sample(ENTITIES[entity.kind][2], min(count, len(ENTITIES[entity.kind][2])))
        made = []
        for nouns, (kind,), statements, questions in rows:
            made.append(Attribute(entity, nouns, kind, statements, questions, values.KINDS[kind](rng)))
            if kind == "person" and rng.random() < 0.12:
                former = ["former " + noun for noun in nouns]
                made.append(Attribute(entity, former, kind, [], [], values.person(rng), False))
        return made

    def aside(self):
        rng = self.rng
        if self.asides and rng.random() < 0.5:
            return rng.choice(self.asides)
        return (rng.choice(wording.ASIDES).replace("{adj}", rng.choice(values.ADJECTIVES))
                .replace("{goods}", rng.choice(values.GOODS)).replace("{animal}", rng.choice(values.ANIMALS))
                .replace("{thing}", rng.choice(values.THINGS)).replace("{trade}", rng.choice(values.TRADES)))

    def section(self, entity, attributes):
        named, is_new = -1, True
        for attribute in attributes:
            by_pronoun = named >= 0 and self.rng.random() < 0.35
            at = self.add(attribute.statement(self.rng, by_pronoun), attribute, named if by_pronoun else -1, is_new)
            if not by_pronoun:
                named = at
            is_new = False
            if self.rng.random() < 0.08:
                self.add(self.aside())
                named = -1

    def listing(self, entity, attributes):
        head = self.add(capital(entity.name) + ":", is_new_paragraph=True)
        for attribute in attributes:
            self.add(f"- {self.rng.choice(attribute.nouns)}: {attribute.value}", attribute, head)

    def mixed(self, attributes):
        self.rng.shuffle(attributes)
        is_new = True
        for attribute in attributes:
            self.add(attribute.statement(self.rng), attribute, -1, is_new)
            is_new = False

    def event(self):
        slots, statements, questions = self.rng.choice(EVENTS)
        event = Event({slot: self.fresh(values.KINDS[kind]) for slot, kind in slots}, statements, questions)
        self.add(event.statement(self.rng), event, -1, self.rng.random() < 0.4)

    def write(self, num_chars):
        rng = self.rng
        kinds = rng.sample(sorted(ENTITIES), rng.randint(1, 5))
        if rng.random() < 0.4:
            title = _title(rng)
            self.add(title)
            self.document.breaks.add(1)
        event_share = rng.choice((0.1, 0.3, 0.5))
        list_share = rng.choice((0.0, 0.0, 0.3))
        later = []
        while self.length < num_chars:
            draw = rng.random()
            if draw < event_share:
                self.event()
            elif draw < event_share + 0.1:
                self.add(self.aside(), is_new_paragraph=rng.random() < 0.3)
            else:
                self._entities(kinds, list_share, later)
        return self.document

    def _entities(self, kinds, list_share, later):
        rng = self.rng
        entity = self.entity(rng.choice(kinds))
        attributes = self.attributes(entity, rng.randint(2, 7))
        if rng.random() < list_share:
            self.listing(entity, attributes)
        elif rng.random() < 0.2:
            other = self.entity(entity.kind)
            self.mixed(attributes + self.attributes(other, rng.randint(2, 5)))
        elif len(attributes) > 3 and rng.random() < 0.3:
            later.append((entity, attributes[3:]))
            self.section(entity, attributes[:3])
        else:
            self.section(entity, attributes)
        if later and rng.random() < 0.4:
            self.section(*later.pop(0))


def _title(rng):
    subject = rng.choice((values.place, values.title, values.person))(rng)
    title = rng.choice(wording.TITLES).replace("{x}", subject)
    return "# " + title if rng.random() < 0.4 else title
