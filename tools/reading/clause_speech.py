"""How clauses and traits become sentences: who is named how, what is coordinated, what stands in front."""

import re

import clause_roles as roles
import clause_traits as traits
from clause_cast import Cast
from clause_facts import CONVERSE, ClauseFact, NameFact, TraitFact
from clause_grammar import DATIVE, NO_PASSIVE, a, capital, owned, verb_phrase
from clause_values import VALUES

_MENDS = ((",,", ","), (",.", "."), (",;", ";"), (",)", ")"), (", and,", " and,"), (",:", ":"), (", , ", ", "))
_PLACES_OF_ROLES = {letter: i for i, letter in enumerate(
    ("O", "Q", "C", "A", "TO", "FROM", "M", "W", "L", "F", "V", "w", "K", "E", "G", "s", "g", "T", "PLACE", "z", "o", "n", "m", "b",
     "q", "c", "e", "h", "p", "d", "D", "y", "f", "t", "u", "k", "r"))}
_LASTING = {"live", "stay", "sleep", "work", "study", "store", "grow", "wear", "sit", "hide", "feed"}
_PARTICIPLE = re.compile(r"(?:is|are|was|were) ((?:built|made|founded|designed|owned|painted|planted|bought|run|organised|"
                         r"named|born|decorated|wrapped|lined|called|covered|heated|haunted|attended|known) .*)")
_FRONT = {"t", "p", "f", "r", "k", "h", "u"}
# Kinds of values that a thing has once; those of a pair count as one.
_ONCE = {"holder", "place", "town", "material", "colour", "name", "year", "trade", "age", "when"}
_AS_ONE = {"pet_name": "name", "years": "age", "wood": "material", "date": "when", "weekday": "when", "days_off": "when", "odd_holder": "holder"}

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
        self.we = None       # who speaks, with others
        self.is_glued = False  # the next sentence follows without a space
        self.spans = []      # of sentences
        self.counts = {}     # of verbs
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
            if verb.key not in (subject or obj).used:
                break
        else:
            return None
        if obj is None and verb.classes and verb.kind != "thing":
            kind = rng.choice(verb.classes)
            known = [t for t in self.things[-6:] if t.kind == kind and verb.key not in t.used and t.known]
            obj = rng.choice(known) if known and rng.random() < 0.35 else self.thing(kind, subject)
            if obj is subject or obj.is_person and "by " + verb.key in obj.used or verb.needed in obj.used or \
                    any(name in obj.used for name in CONVERSE.get((verb.key, verb.needed), ())):
                return None
        if subject:
            subject.used.add(verb.key)
        if obj:
            obj.used.add("by " + verb.key if obj.is_person else verb.key)
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
        self.counts[verb.key] = self.counts.get(verb.key, 0) + 1
        if obj and not obj.is_person:
            self._mark(obj, made)
        made = self._fitting(made, (subject, obj) if subject else (obj,))
        passive = obj is not None and verb.kind == "person" and rng.random() < 0.18 and subject not in (self.speaker, self.we)
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
        self.begin = len(self.text) + (1 if self.text and not self.text.endswith(("\n", " ")) and not self.is_glued else 0)

    def a_subject(self):
        if self.speaker and self.rng.random() < 0.45:
            return self.we if self.we and self.rng.random() < 0.35 else self.speaker
        if self.topic is not None and self.topic.is_person and self.rng.random() < 0.4:
            return self.topic
        return self.somebody()

    def trait(self, thing, part=False):
        kind = "person" if thing.is_person else thing.kind
        options = (traits.OF_PARTS if part else traits.BY_CLASS).get(kind)
        if not options:
            return None
        for _ in range(8):
            trait = self.rng.choice(options)
            kinds = [_AS_ONE.get(kind, kind) for kind in (trait.kind, trait.more)]
            if part or trait.marks.isdisjoint(thing.used) and not any(kind in _ONCE and kind in thing.used for kind in kinds):
                break
        else:
            return None
        thing.used.update(trait.marks)
        thing.used.update(kinds)
        self.kind = thing.kind  # what is drawn may depend on it
        values = self.trait_values(trait)
        if trait.more == "animal_part":
            if values["{w}"] in thing.used:
                return None
            thing.used.add(values["{w}"])
        return TraitFact(trait, thing, values)

    def trait_values(self, trait):
        made = {"{v}": VALUES[trait.kind](self.rng, self)}
        if trait.more:
            made["{w}"] = word = VALUES[trait.more](self.rng, self)
            made["{aw}"] = a(word)
        made["{av}"] = a(made["{v}"]) if made["{v}"] else ""
        return made

    def _trait_words(self, fact, own_sentence=False):
        """A predicate, or a sentence that begins with !."""
        thing, rng = fact.subject, self.rng
        says = fact.trait.says[2 if thing is self.speaker else thing.agree]
        if not own_sentence:
            says = [say for say in says if say[0] != "!"]
            if not says:
                return ""
        return rng.choice(says)

    def _said_trait(self, fact, say, name=""):
        """A predicate or a sentence with all its values."""
        thing = fact.subject
        mine = thing is self.speaker
        return fact.filled(say, name, "my" if mine else thing.possessive,
                           "my" if mine else thing.possessive if name == thing.object_pronoun else owned(name or "the"))

    def block_traits_of(self, thing, count):
        """Its traits, in one sentence or several."""
        rng = self.rng
        self._start()
        made = []
        for _ in range(count):
            fact = self.trait(thing)
            if fact:
                made.append(fact)
        while made:
            some, made = made[:(n := rng.choice((1, 2, 2, 3)))], made[n:]
            self._start()
            if len(some) == 1:
                say = self._trait_words(some[0], True)
                if say[0] == "!":
                    self._introduced(thing)
                    if not thing.known and not thing.is_person:
                        thing.intro = thing.name
                    self.pending.append(some[0])
                    name = self.refer(thing, "object")
                    self.add(self._said_trait(some[0], say[2:], name.rstrip(",")), thing)
                    continue
                says = [self._said_trait(some[0], say)]
            else:
                says = [self._trait_words(fact) for fact in some]
                says = [say and self._said_trait(fact, say) for fact, say in zip(some, says)]
                some = [fact for fact, say in zip(some, says) if say]
                says = [say for say in says if say]
                if not says:
                    continue
            self.pending.extend(some)
            subject = self.refer(thing, "subject")
            self.add(self._coordinated(thing, subject, says), thing)

    def _coordinated(self, thing, subject, says):
        rng, draw = self.rng, self.rng.random()
        if len(says) > 1 and draw < 0.12 and not thing.is_person:
            return f"{subject} {says[0]} ({thing.pronoun} {says[1]})" + (f" and {joined(says[2:], rng)}" if says[2:] else "")
        if len(says) == 2 and draw < 0.3 and subject not in ("I", "it", "he", "she", "they", "me"):
            return f"{subject}, which {says[0]}, {says[1]}" if not thing.is_person else \
                f"{subject}, who {says[0]}, {says[1]}"
        if len(says) > 1 and draw < 0.42:
            pronoun = thing.pronoun if subject != "I" else "I"
            return f"{subject} {says[0]}; {pronoun} {joined(says[1:], rng)}"
        if len(says) > 1 and subject not in ("I", "it", "he", "she", "they", "we") and draw > 0.7 and \
                (match := _PARTICIPLE.match(says[0])):
            return f"{match[1]}, {subject} {joined(says[1:], rng)}"
        kept = [says[0]]
        for before, say in zip(says, says[1:]):
            word = say.split(" ", 1)[0]
            same = before.split(" ", 1)[0] == word and word in ("is", "are", "was", "were", "has", "am", "can", "must")
            kept.append(say.split(" ", 1)[1] if same and rng.random() < 0.8 else say)
        return f"{subject} {joined(kept, rng)}"
