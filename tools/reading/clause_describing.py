"""How things, persons and their parts are described: which traits they have, and how several are said in a sentence."""

import re

import clause_traits as traits
from clause_facts import TraitFact
from clause_grammar import a, owned
from clause_speech import Speech, joined
from clause_values import VALUES

# Kinds of values that a thing has once; those of a pair count as one.
_ONCE = {"holder", "place", "town", "material", "colour", "name", "year", "trade", "age", "when"}
_AS_ONE = {
    "pet_name": "name", "years": "age", "wood": "material", "date": "when", "weekday": "when", "days_off": "when",
    "odd_holder": "holder"
}
_PARTICIPLE = re.compile(
    r"(?:is|are|was|were) ((?:built|made|founded|designed|owned|painted|planted|bought|run|organised|"
    r"named|born|decorated|wrapped|lined|called|covered|heated|haunted|attended|known) .*)")
_OF_IT = re.compile(r"^The ([a-z ]+) of \{s\}")  # its width


class Describing(Speech):
    """Draws traits and puts them into sentences."""

    def trait(self, thing, part=False):
        kind = "person" if thing.is_person else thing.kind
        options = (traits.OF_PARTS if part else traits.BY_CLASS).get(kind)
        if not options:
            return None
        for _ in range(8):
            trait = self.rng.choice(options)
            kinds = [_AS_ONE.get(kind, kind) for kind in (trait.kind, trait.more)]
            if part or trait.marks.isdisjoint(thing.used) and not any(kind in _ONCE and kind in thing.used
                                                                      for kind in kinds):
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
        if name == thing.object_pronoun:
            say = _OF_IT.sub(r"{so} \1", say)
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
            return f"{subject} {says[0]} ({thing.pronoun} {says[1]})" + (f" and {joined(says[2:], rng)}"
                                                                         if says[2:] else "")
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
