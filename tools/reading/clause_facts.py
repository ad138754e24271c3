"""What a sentence of clauses tells, and what can be asked about it."""

import re

from clause_grammar import ASKS, NO_PASSIVE, capital, owned, pair, plural, spaced, verb_phrase


KINDS = {  # what things of a class are called by one word
    "instruments": "instrument", "animals": "animal", "vehicles": "vehicle", "machines": "machine", "plants": "plant",
    "dishes": "dish", "tools": "tool", "buildings": "building", "events": "event", "boats": "boat"
}
_BEHIND_VERB = re.compile(r"\b(?:is|was|does|do|did|has|can|must|will|could) \{s\}(?! and)")
_NOT_ROLES = {"S", "O", "number", "amount", "whose", "which"}
CONVERSE = {("sell", "TO"): ("buy", ), ("give", "TO"): ("get", "receive"),
            ("lend", "TO"): ("borrow", ), ("send", "TO"): ("get", "receive"), ("hand", "TO"): ("get", "receive"),
            ("deliver", "TO"): ("receive", "get"),
            ("bring", "TO"): ("get", "receive"), ("leave", "TO"): ("inherit", "get"), ("buy", "FROM"): ("sell", ),
            ("borrow", "FROM"): ("lend", ), ("rent", "FROM"): ("let", "own"), ("receive", "FROM"): ("send", "give"),
            ("accept", "FROM"): ("give", "offer"), ("inherit", "FROM"): ("leave", ), ("return", "TO"): ("get back", )}


class Fact:
    """What a sentence tells: it asks about itself. text[begin:end] has all that is needed."""
    __slots__ = ("begin", "end", "sentence", "uses")

    def settle(self, begin, end, sentence):
        self.end, self.sentence = end, sentence
        self.begin = min([begin] + [thing.at for thing in self.uses])


class TraitFact(Fact):
    """A trait of a thing, a person or a part of a thing."""
    __slots__ = ("trait", "subject", "values", "name")

    def __init__(self, trait, subject, values, name=None):
        self.trait, self.subject, self.values, self.uses = trait, subject, values, [subject]
        self.name = name  # of a part

    def ways(self, writer):
        return ("value",)

    def filled(self, text, name, possessive, owned_name):
        for slot, value in self.values.items():
            text = text.replace(slot, value)
        return text.replace("{s}", name).replace("{ps}", possessive).replace("{so}", owned_name)

    def ask(self, rng, writer, near):
        subject = self.subject
        name, agree = writer.asked(subject, near), subject.agree
        if self.name:
            agree = 1 if self.name.endswith("*") else 0
            part = spaced(self.name.rstrip("*"))
            name = f"the {part} of {name}" if rng.random() < 0.8 or not subject.head else f"{owned(name)} {part}"
        what, question = rng.choice(self.trait.asks[agree])
        if what == "s":
            answer = subject.answer
            if self.values["{v}"] and writer.text.count(self.values["{v}"]) > 1 or subject is writer.speaker:
                what, question = self.trait.asks[agree][0]
                answer = self.values["{" + what + "}"] if what != "s" else subject.answer
        else:
            answer = self.values["{" + what + "}"]
        if not self.name and _BEHIND_VERB.search(question):
            name = writer.asked_subject(subject, near)
        return capital(self.filled(question, name, subject.possessive, owned(name))), answer


class ClauseFact(Fact):
    """A verb with its roles."""
    __slots__ = ("verb", "verb_name", "subject", "object", "roles", "mood", "passive", "object_said")

    def __init__(self, verb, verb_name, subject, obj, made, mood, passive):
        self.verb, self.verb_name, self.subject, self.object = verb, verb_name, subject, obj
        self.roles, self.mood, self.passive, self.object_said = made, mood, passive, ""
        self.uses = []

    def ways(self, writer):
        """What can be asked for."""
        ways = [role for role in self.roles]
        is_only = all(writer.counts[name] == 1 for name in self.verb.names)
        if self.subject and self.subject.pronoun != "we" and (self.object or is_only) and self.subject in self.uses:
            ways.append("S")
        if self.object:
            if self.subject in self.uses or is_only:
                ways.append("O")
            if self.object.number and self.object.number in self.object_said:
                ways.append("number" if self.object.counted else "amount")
            if self.object.whose and self.object.whose in self.object_said:
                ways.append("whose")
            if self.object.which and self.object.which in self.object_said:
                ways.append("which")
        return ways + self._deeds(writer)

    def _deeds(self, writer):
        """What happened to a thing that nothing else happened to; what was done for a purpose or on a condition."""
        if self.verb.kind == "thing":
            only = not any(other is not self and isinstance(other, ClauseFact) and self.subject in
                           (other.subject, other.object) for other in writer.facts)
            return ["event"] if only and self.subject in self.uses and self.deed() in self.sentence else []
        if self.object and not self.passive and any(
                role.letter in "uk" and writer.text.count(role.value) == 1 for role in self.roles) and \
                (self.mood == "imperative" or self.subject in self.uses) and self.deed() in self.sentence:
            return ["deed"]
        return []

    def deed(self):
        """The verb as it is said, with its object."""
        agree = self.subject.agree if self.subject else 1
        finite = self.verb_name if self.mood == "imperative" else verb_phrase(self.verb_name, self.mood, agree)[0]
        return f"{finite} {self.object_said}" if self.object else finite

    def _ask_deed(self, rng, writer, near):
        if self.verb.kind == "thing":
            name = writer.asked(self.subject, near)
            return rng.choice((f"What happened to {name}?", f"What happened to {name}?", f"What became of {name}?",
                               f"What was the matter with {name}?", f"What is said about {name}?")), self.deed()
        role = next(role for role in self.roles if role.letter in "uk" and writer.text.count(role.value) == 1)
        if self.mood == "imperative":
            return f"What should {rng.choice(('one', 'one', 'be done', 'you'))} do {role.value}?".replace(
                "be done do", "be done"), self.deed()
        _, aux, _ = verb_phrase("do", self.mood, self.subject.agree)
        done = "done" if self.mood == "perfect" else "do"
        return f"What {aux} {writer.asked_subject(self.subject, near)} {done} {role.value}?", self.deed()

    def _extras(self, rng, writer, near, asked, share):
        """Other roles, said in the question too."""
        said = []
        for role in self.roles:
            if role is not asked and role.letter not in ("r", "u", "k", "C") and rng.random() < share:
                said.append(writer.asked_role(role, near))
                share = 0.1
        return "".join(" " + text for text in said)

    def ask(self, rng, writer, near):
        way = rng.choice(self.ways(writer))
        if way in ("event", "deed"):
            return self._ask_deed(rng, writer, near)
        mood = "should" if self.mood == "imperative" else self.mood
        names = self.verb.names
        agent = self.subject if self.subject in self.uses else None  # whether the text says by whom
        passive = self.object is not None and (agent is None or rng.random() < (0.65 if self.passive else 0.25))
        name = rng.choice(names) if rng.random() < 0.4 else self.verb_name
        if passive and name in NO_PASSIVE:
            name, passive = names[0], agent is None or name != names[0] and names[0] not in NO_PASSIVE
        if way not in _NOT_ROLES and (turned := CONVERSE.get((self.verb.key, way.letter))) and rng.random() < 0.45:
            return self._ask_converse(rng, writer, near, mood, rng.choice(turned), way)
        if way == "S":
            return self._ask_subject(rng, writer, near, name, mood, passive)
        subject = "" if agent is None else writer.asked(agent, near) if passive else writer.asked_subject(agent, near)
        if way in ("O", "number", "amount", "whose", "which"):
            return self._ask_object(rng, writer, near, name, mood, passive, way, subject)
        with_before, phrases = ASKS.get(f"{way.letter} {way.kind}" if way.kind else way.letter) or ASKS[way.letter]
        front, left = rng.choice(phrases)
        if way.letter == "T" and way.answer.endswith("window"):
            front, left = "Through which window", ""
        if way.letter == "D" and agent and mood == "past" and rng.random() < 0.6:
            thing = " " + writer.asked(self.object, near) if self.object else ""
            return f"How long did it take {subject} to {name}{thing}?", way.answer
        with_before = with_before and not left and not front.startswith(("On ", "In ", "At ", "To "))
        answer = f"{way.before} {way.answer}" if with_before and way.before else way.answer
        extras = self._extras(rng, writer, near, way, 0.15)
        left = " " + left if left else ""
        if self.object:
            thing = writer.asked(self.object, near)
            if passive:
                _, aux, rest = verb_phrase(name, mood, self.object.agree, True)
                by = f" by {subject}" if subject and rng.random() < 0.3 else ""
                return f"{front} {aux} {thing} {rest}{left}{by}{extras}?", answer
            _, aux, rest = verb_phrase(name, mood, self.subject.agree)
            return f"{front} {aux} {subject} {rest} {thing}{left}{extras}?", answer
        _, aux, rest = verb_phrase(name, mood, self.subject.agree)
        return f"{front} {aux} {subject} {rest}{left}{extras}?", answer

    def _ask_converse(self, rng, writer, near, mood, name, way):
        """Sold to her: who bought it?"""
        extras = self._extras(rng, writer, near, way, 0.1)
        who = "Which firm" if way.kind == "firm" else "Who"
        return f"{who} {verb_phrase(name, mood, 0)[0]} {writer.asked(self.object, near)}{extras}?", way.answer

    def _ask_subject(self, rng, writer, near, name, mood, passive):
        extras = self._extras(rng, writer, near, None, 0.2)
        subject, answer = self.subject, self.subject.answer
        who = "Who" if subject.is_person else rng.choice(("Who", "Which firm")) if subject.kind == "firm" else "What"
        agree = 0
        if subject.number and rng.random() < 0.7:
            who, answer, agree = f"How many {subject.counted}", subject.number, 1
        elif subject.which:
            who = f"Which {subject.which}"
        elif subject.said_of and not near and rng.random() < 0.2:
            who = f"Which {subject.said_of.rsplit(' ', 1)[-1]}"
        if self.object is None:
            needed = extras or "".join(" " + writer.asked_role(role, near) for role in self.roles[:1]
                                       if role.letter not in ("r", "u", "k"))
            return f"{who} {verb_phrase(name, mood, agree)[0]}{needed}?", answer
        thing = writer.asked(self.object, near)
        if passive and not subject.number:
            _, aux, rest = verb_phrase(name, mood, self.object.agree, True)
            if who == "What":
                return f"By what {aux} {thing} {rest}{extras}?", answer
            if rng.random() < 0.5:
                return f"By whom {aux} {thing} {rest}{extras}?", answer
            return f"Who {aux} {thing} {rest} by{extras}?", answer
        return f"{who} {verb_phrase(name, mood, agree)[0]} {thing}{extras}?", answer

    @staticmethod
    def _ask_amount(rng, obj):
        much = "many" if obj.plural else "much"
        question = rng.choice(
            (f"How {much} {obj.name[4:]} {'are' if obj.plural else 'is'} needed?",
             f"What amount of {obj.name[4:]} is needed?", f"How {much} {obj.name[4:]} should one take?"))
        return question, obj.number

    def _ask_object(self, rng, writer, near, name, mood, passive, way, subject):
        obj, agree = self.object, 0
        answer = self.object_said
        if way == "number":
            word, answer, agree = f"How many {obj.counted}", obj.number, 1
        elif way == "whose":
            word, answer, agree = f"Whose {obj.counted}", obj.whose, obj.agree
        elif way == "amount":
            return self._ask_amount(rng, obj)
        elif way == "which":
            word, agree = f"Which {obj.which}", obj.agree
        else:
            word = ("Who" if passive or rng.random() < 0.6 else "Whom") if obj.is_person else "What"
            noun = spaced(obj.noun.rstrip("*"))
            if noun and not obj.is_person and obj.answer.count(" ") > noun.count(" ") + 1 and rng.random() < 0.15:
                noun = pair(noun) if obj.plural else noun
                if noun in obj.answer:
                    word, agree = f"Which {noun}", obj.agree
            elif (kind := KINDS.get(obj.kind)) and rng.random() < 0.25:
                word = f"{rng.choice(('What', 'Which'))} {plural(kind) if obj.plural else kind}"
                agree = obj.agree
        extras = self._extras(rng, writer, near, None, 0.3)
        if passive or not subject:
            by = f" by {subject}" if subject else ""
            if not by and not extras:  # an order: what should be done, by its instrument alone
                extras = "".join(" " + writer.asked_role(role, near) for role in self.roles[:1])
            return f"{word} {verb_phrase(name, mood, agree, True)[0]}{by}{extras}?", answer
        _, aux, rest = verb_phrase(name, mood, self.subject.agree)
        return f"{word} {aux} {subject} {rest}{extras}?", answer


class NameFact(Fact):
    """An introduction: what somebody is, and what the name is."""
    __slots__ = ("thing", "kind", "is_unique")

    def __init__(self, thing, kind):
        self.thing, self.kind, self.uses = thing, kind, [thing]

    def ways(self, writer):
        return ("name",)

    def ask(self, rng, writer, near):
        thing, kind = self.thing, self.kind
        if thing.is_person and rng.random() < 0.3:
            verb = rng.choice((f"What does {thing.name} work as?", f"What is {thing.name}?",
                               f"What is {thing.name} by trade?", f"What is the profession of {thing.name}?"))
            return verb, kind
        return rng.choice(
            (f"What is the name of the {kind}?", f"What is the {kind} called?", f"What is the {owned(kind)} name?",
             f"Who is the {kind}?" if thing.is_person else f"What name has the {kind}?")), thing.answer


class OpeningFact(Fact):
    """What a beginning or an end tells, of which the questions are known."""
    __slots__ = ("questions", "value", "is_named")

    def __init__(self, questions, value, is_named, begin, end, sentence):
        self.questions, self.value, self.is_named = questions, value, is_named
        self.begin, self.end, self.sentence, self.uses = begin, end, sentence, []

    def ask(self, rng, writer, near):
        return rng.choice(self.questions), self.value
