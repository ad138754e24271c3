"""How clauses and traits become sentences: who is named how, what is coordinated, what stands in front."""

import clause_roles as roles
from clause_cast import Cast
from clause_facts import CONVERSE, KINDS, ClauseFact, NameFact
from clause_grammar import DATIVE, NO_PASSIVE, capital, plural, verb_phrase

_MENDS = ((",,", ","), (",.", "."), (",;", ";"), (",)", ")"), (", and,", " and,"), (",:", ":"), (", , ", ", "))
_PLACES_OF_ROLES = {
    letter: i
    for i, letter in enumerate(("O", "Q", "C", "A", "TO", "FROM", "M", "W", "L", "F", "V", "w", "K", "E", "G", "s", "g",
                                "T", "PLACE", "z", "o", "n", "m", "b", "q", "c", "e", "h", "p", "d", "D", "y", "f", "t",
                                "u", "k", "r"))
}
_LASTING = {"live", "stay", "sleep", "work", "study", "store", "grow", "wear", "sit", "hide", "feed"}
_FRONT = {"t", "p", "f", "r", "k", "h", "u"}


def mended(text):
    for wrong, right in _MENDS:
        if wrong in text:
            text = text.replace(wrong, right)
    return text


def joined(parts, rng):
    if len(parts) == 1:
        return parts[0]
    return ", ".join(parts[:-1]) + rng.choice((" and ", " and ", ", and ")) + parts[-1]


class Speech(Cast):
    """Puts clauses and traits into sentences."""

    def __init__(self, rng, asides=()):
        super().__init__(rng)
        self.asides = asides
        self.text = ""
        self.begin = 0       # of the sentence that is being made
        self.facts = []      # of the document
        self.pending = []    # of the sentence
        self.kind = ""       # of the thing whose trait is drawn
        self.topic = None    # the last sentence's subject
        self.moods, self.mood_weights = (), ()
        self.is_terse = False  # a diary
        self.hero = None     # whose life it is
        self.we = None       # who speaks, with others
        self.is_glued = False  # the next sentence follows without a space
        self.spans = []      # of sentences
        self.counts = {}     # of verbs
        self.num_sections = 0
        self.speakers = 0    # sections in which somebody says I
        self.only_speaker = None  # of a document in which no other says I
        self.kinds_named = set()  # the farmer, the ferry: whose name was told

    # Naming.

    def refer(self, thing, case, owner=None):
        """How the text names it here: by its introduction, a pronoun or a name."""
        if thing is self.speaker:
            return {"subject": "I", "object": "me"}[case]
        if thing is self.we:
            return {"subject": "we", "object": "us"}[case]
        if not thing.known:
            thing.known, thing.at, thing.born = True, self.begin, self.begin
            text = thing.intro
            if "{" in text:
                text = text.replace("{poss}", "my" if owner is self.speaker or owner is None and self.speaker else
                                    owner.possessive if owner else "the")
            thing.answer = thing.answer or text
            if thing.named or thing.said_of:
                self._name_told(thing)
            return text
        if thing is self.topic and self.rng.random() < 0.7:
            kind = KINDS.get(thing.kind)
            if kind and self.rng.random() < 0.15 and sum(one.kind == thing.kind for one in self.things) == 1:
                return "the " + (plural(kind) if thing.plural else kind)
            return thing.pronoun if case == "subject" else thing.object_pronoun
        draw = self.rng.random()
        if draw < 0.45 or thing.noun in self.twice:
            thing.at = self.begin if thing.name == thing.answer else thing.at
            return thing.name
        return thing.said_of if thing.said_of and draw < 0.7 else thing.head

    def _name_told(self, thing):
        """That it has this name can be asked for, where there is no other of its kind."""
        kind = thing.named or thing.said_of.rsplit(" ", 1)[-1]
        if kind not in self.kinds_named:
            self.pending.append(NameFact(thing, kind))
        self.kinds_named.add(kind)

    def asked(self, thing, near):
        """How a question names it."""
        draw = self.rng.random()
        if thing.asked:
            return thing.asked
        if thing is self.only_speaker and draw < 0.4:
            return "the writer"
        if thing.said_of and not near and draw < 0.2:
            return thing.said_of
        if draw < 0.6 or thing.noun in self.twice:
            return thing.name
        return thing.head

    def asked_subject(self, thing, near):
        """Likewise, where a pronoun may stand for the one person that a document is about."""
        if thing is not None and thing in (self.only_speaker, self.hero) and self.rng.random() < 0.3:
            return thing.pronoun
        return self.asked(thing, near)

    def asked_role(self, role, near):
        value = self.asked(role.thing, near) if role.thing else role.value
        return f"{role.before} {value}" if role.before else value

    # Clauses.

    def mood(self):
        return self.rng.choices(self.moods, self.mood_weights)[0]

    def clause(self, subject, table, mood, obj=None):
        rng = self.rng
        wanted = mood
        for _ in range(12):
            verb, mood = rng.choice(table), wanted
            if obj and obj.kind not in verb.classes or verb.kind == "thing" and subject.kind not in verb.classes:
                continue
            if (subject or obj).used.isdisjoint(verb.names):
                break
        else:
            return None
        if obj is None and verb.classes and verb.kind != "thing":
            kind = rng.choice(verb.classes)
            known = [t for t in self.things[-6:] if t.kind == kind and t.known and t.used.isdisjoint(verb.names)]
            obj = rng.choice(known) if known and rng.random() < 0.35 else self.thing(kind, subject)
            if obj is subject or obj.is_person and any("by " + name in obj.used for name in verb.names) or verb.needed in obj.used or \
                    any(name in obj.used for name in CONVERSE.get((verb.key, verb.needed), ())):
                return None
        if subject:
            subject.used.update(verb.names)
        if obj:
            obj.used.update(["by " + name for name in verb.names] if obj.is_person else verb.names)
            obj.used.add(verb.needed or verb.key)
            obj.used.update(CONVERSE.get((verb.key, verb.needed), ()))
        letters = [verb.needed] if verb.needed else []
        if mood == "present":  # what is done again and again
            letters += ["f"] if "f" in verb.optional else []
            mood = mood if letters and letters[-1] == "f" or verb.key in _LASTING else rng.choice(("past", "future"))
        count = min(rng.choices((0, 1, 2, 3), (0.2, 0.45, 0.25, 0.1))[0], len(verb.optional))
        if not verb.classes and verb.kind in ("stay", "motion"):
            count = max(count, 1)
        letters += rng.sample(verb.optional, count)
        made = [role for letter in letters if (role := roles.draw(self, letter, mood, subject, obj))]
        if not made and verb.kind in ("stay", "motion"):
            made = [roles.draw(self, "p" if verb.kind == "stay" else "c", mood, subject, obj)]
        for name in verb.names:
            self.counts[name] = self.counts.get(name, 0) + 1
        if obj and not obj.is_person:
            self._mark(obj, made)
        made = self._fitting(made, (subject, obj) if subject else (obj,))
        passive = obj is not None and verb.kind == "person" and rng.random() < 0.18 and subject not in (self.speaker,
                                                                                                        self.we)
        name = rng.choice(verb.names)
        if passive and name in NO_PASSIVE:
            passive = False
        return ClauseFact(verb, name, subject, obj, made, mood, passive)

    @staticmethod
    def _mark(obj, made):
        for role in made:
            kind = {"PLACE": "holder", "C": "colour", "M": "material", "G": "holder"}.get(role.letter)
            if kind:
                obj.used.add(kind)

    @staticmethod
    def _fitting(made, used):
        """Not two of a kind: two reasons, two places, the same person."""
        seen, kept = set(used), []
        for role in sorted(made, key=lambda role: _PLACES_OF_ROLES[role.letter]):
            group = {"u": "r", "k": "t", "g": "p", "PLACE": "p", "G": "p", "f": "t", "D": "d", "y": "t", "n": "w",
                     "W": "w", "K": "w", "E": "w", "L": "V", "F": "V",
                     "e": "d", "q": "c"}.get(role.letter, role.letter)
            if group not in seen and (role.thing is None or role.thing not in seen):
                seen.add(group)
                if role.thing:
                    seen.add(role.thing)
                kept.append(role)
        return kept

    def _role(self, fact, role, subject):
        value = role.value
        if role.thing:
            value = self.refer(role.thing, "object", subject)
            role.answer = role.thing.answer
            fact.uses.append(role.thing)
        return f"{role.before} {value}" if role.before else value

    def predicate(self, fact, without=None):
        """What stands behind the subject."""
        subject, obj = fact.subject, fact.object
        if fact not in self.pending:
            self.pending.append(fact)
        made = [role for role in fact.roles if role is not without]
        if fact.passive:
            parts = [verb_phrase(fact.verb_name, fact.mood, obj.agree, True)[0]]
            if subject and (subject.known or self.rng.random() < 0.7):
                parts.append("by " + self.refer(subject, "object"))
                fact.uses.append(subject)
            return " ".join(parts + [self._role(fact, role, obj) for role in made])
        if subject and subject not in fact.uses:
            fact.uses.append(subject)
        agree = 2 if subject is self.speaker and subject else subject.agree if subject else 1
        finite = fact.verb_name if fact.mood == "imperative" else verb_phrase(fact.verb_name, fact.mood, agree)[0]
        parts = [finite]
        if obj:
            to = made[0] if made and made[0].letter == "TO" and fact.verb_name in DATIVE else None
            if to and to.thing and self.rng.random() < 0.5 and not obj.known:
                before, to.before = to.before, ""
                parts.append(self._role(fact, to, subject))
                to.before = before
                made = made[1:]
            said = self.refer(obj, "object", subject)
            parts.append(said)
            fact.uses.append(obj)
            fact.object_said = obj.answer if obj.is_person or said in ("it", "them", "her", "him", "me") else said
        return " ".join(parts + [self._role(fact, role, subject) for role in made])

    def subject_of(self, fact):
        """The subject's words: of a passive clause, what is done to."""
        self.pending.append(fact)
        thing = fact.object if fact.passive else fact.subject
        said = self.refer(thing, "subject", fact.subject)
        fact.uses.append(thing)
        if fact.passive:
            fact.object_said = thing.answer if thing.is_person or said in ("it", "they", "she", "he") else said
        return said

    def clause_text(self, fact, may_front=True):
        front = ""
        role = None
        if may_front and fact.roles and self.rng.random() < 0.25:
            role = self.rng.choice(fact.roles)
            if role.letter in _FRONT and not (role.letter in "ru" and fact.subject and not fact.subject.known):
                words = "since" if role.before == "because" and self.rng.random() < 0.4 else role.before
                front = (words + " " if words else "") + role.value + ", "
            else:
                role = None
        return front + self.subject_of(fact) + " " + self.predicate(fact, role)

    # Sentences.

    def add(self, text, topic=None, is_open=False):
        """A sentence, with the facts that are pending."""
        text = capital(text)
        if (text[-1] not in ".?!:\"" or text[-1] == '"' and text[-2] not in ".?!") and not is_open:
            text += "."
        text = mended(text)
        if self.text and not self.text.endswith(("\n", " ")) and not self.is_glued:
            self.text += " "
        self.is_glued = False
        begin = len(self.text)
        self.text += text
        self.spans.append((begin, len(self.text)))
        for fact in self.pending:
            fact.settle(begin, len(self.text), text)
            self.facts.append(fact)
        self.pending = []
        self.begin = len(self.text)
        self.topic = topic

    def _start(self):
        """Where the next sentence will begin."""
        self.begin = len(self.text) + (1 if self.text and not self.text.endswith(
            ("\n", " ")) and not self.is_glued else 0)

    def a_subject(self):
        if self.speaker and self.rng.random() < 0.45:
            return self.we if self.we and self.rng.random() < 0.35 else self.speaker
        if self.hero and self.rng.random() < 0.55:
            return self.hero
        if self.topic is not None and self.topic.is_person and self.rng.random() < 0.4:
            return self.topic
        return self.somebody()
