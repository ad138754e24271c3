"""Documents of clauses: a clause is a verb with what fills its roles, or a trait of something. Clauses are said in many
ways, and a question can be about any role."""

import clause_nouns as nouns
import clause_roles as roles
import clause_scenes as scenes
import clause_traits as traits
from clause_blocks import Blocks
from clause_facts import OpeningFact
from clause_grammar import Thing, capital, spaced
from clause_values import VALUES


class ClauseWriter(Blocks):
    """Writes one document."""

    def section(self, num_chars):
        """A letter, a report, a sheet."""
        rng = self.rng
        genre = rng.choice(self.genres)
        speaks, weights, moods = scenes.GENRES[genre]
        self.moods, self.mood_weights = tuple(moods), tuple(moods.values())
        self.speaker, self.we, self.topic, self.items = None, None, None, 0
        first, begin = len(self.facts), len(self.text)
        self.people, self.things = [], []
        self.is_terse = genre == "diary"
        self.num_sections += 1
        self.hero = self.person() if genre == "life" else None
        if speaks:
            self.speaker = self.person(plain=True)
            self.speaker.known = True
            if genre in ("letter", "diary") and not any(fact.uses and fact.uses[0].pronoun == "we"
                                                        for fact in self.facts):
                self.we = Thing("we", "we", "we", "we", True, is_plural=True)
                self.we.known, self.we.asked = True, "they"
            self.only_speaker = None if self.speakers else self.speaker
            self.speakers += 1
        writer = self.speaker
        slots = self._open(genre)
        for _ in range(rng.randint(1, 4)):
            self.somebody()
        names, shares = tuple(weights), tuple(weights.values())
        while len(self.text) - begin < num_chars or len(self.facts) == first:
            self.topic = None
            for _ in range(rng.randint(1, 5)):
                at = len(self.text)
                getattr(self, "block_" + rng.choices(names, shares)[0])()
                self.pending = []
                if len(self.text) == at:
                    continue
                if len(self.text) - begin > num_chars:
                    break
            if not self.text.endswith("\n"):
                self.text += "\n\n"
        self.text = self.text.rstrip("\n")
        self._close(genre, writer, slots, begin)
        if writer:
            for fact in self.facts[first:]:
                if writer in fact.uses or getattr(fact, "subject", None) is writer or any(
                        thing.asked.startswith(writer.name) for thing in fact.uses):
                    fact.end = len(self.text)

    def _open(self, genre):
        rng = self.rng
        text, names = rng.choice(scenes.OPENINGS[genre])
        slots = {name: self._slot(name) for name in names.split()}
        if not text:
            return slots
        begin = len(self.text)
        said = text
        for name, value in slots.items():
            said = said.replace("{" + name + "}", value).replace("{" + name.upper() + "}", value.upper())
        said = capital(said)
        self.text += said + rng.choice(("\n\n", "\n\n", " ") if genre in ("diary", "news", "report") and said[-1] == "."
                                       else ("\n\n",))
        self.spans.append((begin, begin + len(said)))
        by = self.speaker.name if self.speaker else ""
        self._ask_about(scenes.OPENING_ASKS.get(genre, {}), slots, by, begin, begin + len(said), said)
        return slots

    def _ask_about(self, asks, slots, by, begin, end, said):
        for name, questions in asks.items():
            if name in slots and slots[name] in said:
                made = []
                for question in questions:
                    question = question.replace("{by}", by)
                    for slot, value in slots.items():
                        question = question.replace("{" + slot + "}", value)
                    made.append(question)
                fact = OpeningFact(made, slots[name], bool(by), begin, end, said)
                self.facts.append(fact)

    def _slot(self, name):
        if name in ("reader", "chair", "clerk", "absent", "inspector", "cook", "owner", "tenant", "witness", "teacher"):
            return self.person_value()
        if name == "writer":
            return self.speaker.name
        if name == "dish":
            dish = self.thing("dishes")
            dish.known, dish.answer, dish.intro = True, dish.name[4:], dish.name
            dish.at = len(self.text)
            dish.used.update(*(trait.marks for trait in traits.BY_CLASS["dishes"] if trait.kind == "number"))
            return dish.name[4:]
        if name == "weekday":
            return self.rng.choice(roles.WEEKDAYS)
        if name == "room":
            return f"the {self.rng.choice(nouns.ADJECTIVES)} {spaced(self.rng.choice(nouns.ROOMS))}"
        return VALUES[name](self.rng, self)

    def _close(self, genre, writer, slots, begin):
        closings = scenes.CLOSINGS.get(genre, ("",))
        text = self.rng.choice(closings)
        if not text:
            if writer and writer.name not in self.text[begin:]:
                text = "{writer}"
            else:
                return
        self.text += "\n\n"
        at = len(self.text)
        for name in ("witness", "teacher"):
            if "{" + name + "}" in text:
                slots = {**slots, name: self._slot(name)}
                text = text.replace("{" + name + "}", slots[name])
        self.text += text.replace("{writer}", writer.name if writer else "")
        self.spans.append((at, len(self.text)))
        if not writer:
            self._ask_about(scenes.CLOSING_ASKS.get(genre, {}), slots, "", at, len(self.text), self.text[at:])
        if writer:
            slots = {**slots, "writer": writer.name}
            questions = scenes.CLOSING_ASKS.get(genre, ()) if genre != "letter" or "reader" in slots else ()
            self._ask_about({"writer": questions} if questions else {}, slots, "", begin if genre == "letter" else at,
                            len(self.text), self.text[at:])

    def write(self, num_chars):
        rng = self.rng
        self.genres = rng.sample(tuple(scenes.GENRES), rng.choice((1, 1, 2, 3)))
        while len(self.text) < num_chars:
            if self.text:
                self.text += rng.choice(("\n\n", "\n\n---\n\n", "\n\n* * *\n\n"))
            left = num_chars - len(self.text)
            self.section(min(left, rng.choice((600, 1000, 1600, 2400, 4000))))
        if self.num_sections > 1:
            self.hero = None
            self.only_speaker = self.only_speaker if self.speakers == 1 else None
        self._drop_doubtful()
        return self

    def _drop_doubtful(self):
        """What could have two answers is not asked."""
        is_once = {}
        for fact in self.facts:
            if isinstance(fact, OpeningFact) and not fact.is_named:
                for question in fact.questions:
                    is_once[question] = is_once.get(question, 0) + 1
        kept = []
        for fact in self.facts:
            if isinstance(fact, OpeningFact):
                fact.questions = [q for q in fact.questions if fact.is_named or is_once[q] == 1]
                if fact.questions:
                    kept.append(fact)
            elif not any(thing.noun in self.twice and
                         (thing.kind == "force" or thing.name[4:] == spaced(thing.noun.rstrip("*")))
                         for thing in fact.uses) and fact.ways(self):
                kept.append(fact)
        self.facts = kept

    @property
    def sentences(self):
        return [Said(self.text[begin:end]) for begin, end in self.spans]

    def render(self):
        return self.text, self.spans

    def facts_within(self, spans, begin, end):
        return [Near(fact, self, any(thing.born < begin for thing in fact.uses)) for fact in self.facts
                if fact.begin >= begin and fact.end <= end]

    def questions(self, count):
        """At most so many (question, answer, begin, end), each question once, in turns over all that was said."""
        rng, made, seen = self.rng, [], set()
        for _ in range(3):
            for fact in rng.sample(self.facts, len(self.facts)):
                if len(made) == count:
                    return made
                near = rng.random() < 0.6
                question, answer = fact.ask(rng, self, near)
                if question not in seen:
                    seen.add(question)
                    begin = fact.begin if near else min([fact.begin] + [thing.born for thing in fact.uses])
                    made.append((question, answer, begin, fact.end))
        return made


class Said:
    __slots__ = ("text",)

    def __init__(self, text):
        self.text = text


class Near:
    """A fact of a passage, as tasks.py asks for it."""
    __slots__ = ("fact", "writer", "near")

    def __init__(self, fact, writer, near):
        self.fact, self.writer, self.near = fact, writer, near  # near: what it is about was introduced elsewhere

    def question(self, rng):
        return self.fact.ask(rng, self.writer, self.near)

    def statement(self, rng):
        return self.fact.sentence
