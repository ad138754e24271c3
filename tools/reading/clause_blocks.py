"""Blocks of a document of clauses: some sentences that belong together."""

import re

import clause_nouns as nouns
import clause_roles as roles
import clause_scenes as scenes
import clause_traits as traits
from clause_grammar import CROWD, FIRM, FORCE, MOTION, NO_PASSIVE, ORDER, PERSON, RECIPE, RULE, STAY, THING, Thing, capital, spaced
from clause_speech import Speech, joined

_LABEL = re.compile(r"What is the ([a-z ]+) of \{s\}\?")
_TALKS = ("person", "person", "stay", "traits", "happening", "thing", "animal")
_THINGS = ("furniture", "machines", "vehicles", "instruments", "vessels", "clothes", "valuables", "works", "papers", "tools")


class Blocks(Speech):
    """Each block_ adds sentences to the text, or none."""

    def block_person(self, table=PERSON):
        rng, subject = self.rng, self.a_subject()
        self._start()
        facts, mood = [], self.mood()
        for _ in range(rng.choice((1, 1, 1, 2, 2, 3))):
            kind = rng.random()
            fact = self.clause(subject, table if kind < 0.75 else STAY if kind < 0.85 else MOTION, mood)
            if fact:
                facts.append(fact)
        if not facts:
            return
        if len(facts) > 1:
            for fact in facts:
                fact.passive = False
            says = [self.clause_text(facts[0])]
            says += [self.predicate(fact) for fact in facts[1:]]
            draw = rng.random()
            if draw < 0.2 and subject is not self.speaker:
                text = f"{says[0]}; {subject.pronoun} {joined(says[1:], rng)}"
            elif draw < 0.35 and len(says) == 2:
                text = f"{says[0]}, but {says[1]}" if draw < 0.28 else f"{says[0]} and then {says[1]}"
            else:
                text = joined(says, rng)
            self.add(self._shortened(text), subject)
        else:
            fact = facts[0]
            text = self.clause_text(fact)
            link = rng.choice(scenes.LINKS) + ", " if self.text[-1:] == "." and rng.random() < 0.1 else ""
            if link and not text.startswith("I "):
                text = link + text
            obj = fact.object
            if obj and not fact.roles and not fact.passive and rng.random() < 0.4 and obj is not self.speaker:
                about = self.trait(obj)
                say = self._trait_words(about) if about else ""
                if say:
                    say = self._said_trait(about, say)
                    self.pending.append(about)
                    text += (", who " if obj.is_person else ", which ") + say
            elif rng.random() < 0.15:
                other = self.other_person(subject)
                second = self.clause(other, PERSON, fact.mood)
                if second:
                    text += rng.choice((", and ", "; ", ", while ", ", but ")) + self.clause_text(second, False)
            self.add(self._shortened(text), subject)
            if obj and rng.random() < 0.25 and not obj.is_person:
                self.block_traits_of(obj, rng.choice((1, 1, 2)))

    def _shortened(self, text):
        """As a diary has it: left at dawn."""
        is_short = self.is_terse and text[:2] == "I " and text[:4] != "I am" and self.rng.random() < 0.5
        return text[2:] if is_short else text

    def block_stay(self):
        self.block_person(self.rng.choice((STAY, MOTION)))

    def block_traits(self):
        subject = self.a_subject()
        self.block_traits_of(subject, self.rng.choice((1, 2, 2, 3, 4)))

    def block_thing(self):
        rng = self.rng
        known = [thing for thing in self.things if thing.known and thing.kind in traits.BY_CLASS]
        thing = rng.choice(known[-4:]) if known and rng.random() < 0.6 else self.thing(rng.choice(_THINGS))
        self._introduced(thing)
        self.block_traits_of(thing, rng.choice((1, 2, 2, 3, 3, 4)))

    def _introduced(self, thing):
        """A new thing of which nothing is told yet is there with the article of what is known."""
        if not thing.known and ("{" in thing.intro or thing.kind == "buildings" and self.rng.random() < 0.8):
            thing.intro = thing.name

    def _block_of(self, kind, table, traits_share):
        rng = self.rng
        thing = self.thing(kind)
        if rng.random() < traits_share:
            return self.block_traits_of(thing, rng.choice((2, 3, 3, 4)))
        self._start()
        mood = self.mood() if kind != "force" else rng.choice(("past", "past", "perfect"))
        fact = self.clause(thing, table, mood)
        if fact:
            fact.passive = fact.object is not None and fact.verb_name not in NO_PASSIVE and rng.random() < 0.5
            self.add(self.clause_text(fact), fact.object if fact.passive else thing)
            if fact.object and rng.random() < 0.3 and not fact.object.is_person:
                self.block_traits_of(fact.object, 1)
            elif kind == "firm" and rng.random() < 0.3:
                self.block_traits_of(thing, rng.choice((1, 2)))
        return None

    def block_firm(self):
        self._block_of("firm", FIRM, 0.2)

    def block_force(self):
        self._block_of("force", FORCE, 0.0)

    def block_crowd(self):
        self._block_of("crowd", CROWD, 0.0)

    def block_sums(self):
        self.block_traits_of(self.thing("sums"), self.rng.choice((1, 1, 2, 3)))

    def block_jobs(self):
        self.block_traits_of(self.thing("jobs"), self.rng.choice((2, 3, 4)))

    def block_dues(self):
        self.block_traits_of(self.thing("dues"), self.rng.choice((1, 2)))

    def block_posts(self):
        self.block_traits_of(self.thing("posts"), self.rng.choice((3, 4, 5, 6)))

    def block_trips(self):
        self.block_traits_of(self.thing("trips"), self.rng.choice((3, 4, 5, 6)))

    def block_leases(self):
        self.block_traits_of(self.thing("leases"), self.rng.choice((3, 4, 5, 6)))

    def block_boat(self):
        self._block_of("boats", THING, 0.8)

    def block_plant(self):
        self._block_of("plants", THING, 1.0)

    def block_labels(self):
        """A list of what a thing has: weight: 1.3 kg."""
        rng = self.rng
        known = [thing for thing in self.things if thing.known and thing.kind in _THINGS and not thing.plural]
        if not known:
            return self.block_thing()
        thing = rng.choice(known[-3:])
        made = []
        for _ in range(rng.randint(2, 5)):
            fact = self.trait(thing)
            label = fact and next((match[1] for _, ask in fact.trait.asks[0]
                                   if (match := _LABEL.match(ask)) and "{" not in match[1]), None)
            if label:
                made.append((fact, label))
        if not made:
            return None
        if rng.random() < 0.5:
            self._start()
            says = []
            for fact, label in made:
                self.pending.append(fact)
                says.append(f"{label} {fact.values['{v}']}")
            if thing is not self.topic:
                says[0] += f" ({self.refer(thing, 'object')})"
            return self.add(", ".join(says), thing)
        if thing is not self.topic:
            self._start()
            self.add(f"{self.refer(thing, 'object')}:", thing)
        for fact, label in made:
            self.text += "\n"
            self._start()
            self.pending.append(fact)
            self.add(f"{rng.choice(('- ', ''))}{label[0].upper()}{label[1:]}: {fact.values['{v}']}", thing, is_open=True)
        self.text += "\n"
        return None

    def block_animal(self):
        thing = self.thing("animals")
        self._introduced(thing)
        self.block_traits_of(thing, self.rng.choice((2, 2, 3, 4)))

    def block_event(self):
        self.block_traits_of(self.thing("events"), self.rng.choice((2, 3, 3, 4, 5)))

    def block_building(self):
        thing = self.thing("buildings")
        self._introduced(thing)
        self.block_traits_of(thing, self.rng.choice((2, 3, 3, 4)))

    def block_dish(self):
        self.block_traits_of(self.dish(), self.rng.choice((1, 2, 3)))

    def measured_food(self):
        """Some of it, with its amount."""
        thing = self.thing("food")
        if self.rng.random() < 0.7:
            thing.intro, thing.number = roles.counted_food(self.rng, thing.name[4:])
        return thing

    def dish(self):
        rng = self.rng
        known = [thing for thing in self.things if thing.kind == "dishes"]
        if known and rng.random() < 0.8:
            return known[-1]
        return self.thing("dishes")

    def block_happening(self):
        rng = self.rng
        for _ in range(5):
            verb = rng.choice(THING)
            kind = rng.choice(verb.classes)
            if kind in nouns.COUNT:
                break
        else:
            return
        thing = self.thing(kind)
        self._introduced(thing)
        self._start()
        fact = self.clause(thing, [verb], "past" if self.moods != ("present",) else "perfect")
        if fact:
            self.add(self.clause_text(fact), thing)
            if rng.random() < 0.3:
                self.block_traits_of(thing, 1)

    def block_said(self):
        rng, who, subject = self.rng, self.somebody(), self.somebody()
        if who is subject or who is self.speaker:
            return
        self._start()
        said = self.refer(who, "object")
        fact = self.clause(subject, PERSON, self.mood())
        if fact and said not in ("her", "him", "them"):
            text = self.clause_text(fact, False)
            self.add(rng.choice(scenes.SAID).replace("{who}", said).replace("{it}", text), None)
        elif not fact:
            who.known = who.known and who.at < self.begin

    def block_item(self):
        if not self.text.endswith("\n"):
            self.text += "\n"
        self.items = getattr(self, "items", 0) + 1
        self.text += f"{self.items}. "
        self.topic = None
        getattr(self, self.rng.choice(("block_person", "block_event", "block_building", "block_happening")))()

    def block_rule(self):
        """What may or must be done with things, by anybody."""
        rng = self.rng
        verb = rng.choice(RULE)
        obj = self.thing(rng.choice(verb.classes))
        if not obj.plural:
            return
        self._start()
        fact = self.clause(None, [verb], rng.choice(("can", "must", "may", "must", "should")), obj)
        if fact and fact.roles:
            fact.passive = True
            self.add(self.clause_text(fact), obj)

    def block_part(self):
        """A part of a thing."""
        rng = self.rng
        known = [thing for thing in self.things if thing.known and thing.kind in traits.PART_NAMES and not thing.plural]
        if not known:
            return self.block_thing()
        thing = rng.choice(known[-3:])
        self._start()
        says = []
        for _ in range(rng.choice((1, 1, 2, 3))):
            name = rng.choice(traits.PART_NAMES[thing.kind])
            if name in thing.used:
                continue
            thing.used.add(name)
            fact = self.trait(thing, True)
            fact.name = name
            is_many = name.endswith("*")
            say = rng.choice(fact.trait.says[1 if is_many else 0])
            says.append((fact, self._said_trait(fact, say, "{s}"), spaced(name.rstrip("*")), is_many))
        for i, (fact, say, name, is_many) in enumerate(says):
            self._start()
            self.pending.append(fact)
            if thing is self.topic:
                subject = rng.choice((f"the {name}", f"{thing.possessive} {name}"))
            else:
                subject = f"the {name} of {self.refer(thing, 'object').rstrip(',')}"
            if say[0] == "!":
                self.add(say[2:].replace("{s}", subject), thing)
            else:
                self.add(f"{subject} {say}", thing)
        return None

    def block_orders(self):
        """What is to be done with a thing's parts."""
        rng = self.rng
        known = [thing for thing in self.things if thing.known and thing.kind in traits.PART_NAMES and not thing.plural]
        if not known:
            return
        thing = rng.choice(known[-3:])
        part = rng.choice(traits.PART_NAMES[thing.kind])
        if part in thing.used:
            return
        thing.used.add(part)
        name, is_many = "the " + spaced(part.rstrip("*")), part.endswith("*")
        obj = Thing(name, name, name, "they" if is_many else "it", kind="parts", is_plural=is_many)
        obj.asked = f"{name} of {thing.name}"
        if thing is not self.topic:
            obj.intro = f"{name} of {thing.head}"
        self._start()
        fact = self.clause(None, ORDER, "imperative", obj)
        if fact and fact.roles:
            fact.uses.append(thing)
            self.add(self._order_text(fact), thing)

    def _order_text(self, fact):
        role = fact.roles[-1] if fact.roles else None
        if role and role.letter in ("k", "f", "t") and self.rng.random() < 0.3:
            return f"{role.before + ' ' if role.before else ''}{role.value}, {self.predicate(fact, role)}"
        return self.predicate(fact)

    def block_recipe(self):
        rng = self.rng
        self._start()
        says = []
        for _ in range(rng.choice((1, 2, 2, 3))):
            obj = self.dish() if rng.random() < 0.15 else self.measured_food()
            fact = self.clause(None, RECIPE, "imperative", obj)
            if fact and (fact.roles or obj.number):
                says.append(self._order_text(fact) if not says else self.predicate(fact))
        if says:
            text = says[0] if len(says) == 1 else joined(says, rng) if rng.random() < 0.6 else \
                says[0] + ", then " + joined(says[1:], rng)
            self.add((rng.choice(("Now ", "Then ", "First ", "Meanwhile ")) if rng.random() < 0.2 else "")
                     + (text[0].lower() + text[1:]))

    def block_aside(self):
        rng = self.rng
        self._start()
        text = rng.choice(self.asides) if self.asides and rng.random() < 0.6 else rng.choice(scenes.ASIDES)
        self.add(text.strip())

    def block_talk(self):
        """Two speak in turns."""
        rng = self.rng
        style = rng.randrange(3)
        two = [self.person(plain=style == 0), self.person()]
        if style == 0:
            two[1] = self.person(plain=True)
        last_speaker, self.speaker = self.speaker, None
        if self.text and not self.text.endswith("\n"):
            self.text += "\n\n"
        for i in range(rng.randint(3, 8)):
            speaker = two[i % 2]
            self._start()
            self.topic = None
            first = len(self.facts)
            tag_begin = len(self.text)
            name = self.refer(speaker, "object").rstrip(",")
            if not speaker.answer or speaker.answer not in name:
                name = speaker.name
            self.speaker = speaker
            verb = rng.choice(("said", "said", "asked", "answered", "replied", "murmured", "cried"))
            reply = rng.choice(scenes.REPLIES) if rng.random() < 0.4 else ""
            self.text += (f"{name}:" if style == 0 else f"{capital(name)} {verb}: \"" if style == 1 else "\"")
            self.text += " " + reply if style == 0 and reply else reply
            self.is_glued = style > 0 and not reply
            at = len(self.text)
            while len(self.text) == at:
                getattr(self, "block_" + rng.choice(_TALKS))()
            if style == 2:
                is_short = self.text.endswith("Co.")
                ended = self.text + "," if is_short else self.text[:-1] + "," if self.text[-1] == "." else self.text
                self.text = f"{ended}\" {verb} {name}."
            elif style:
                self.text += "\""
            for fact in self.facts[first:]:
                fact.begin, fact.end = min(fact.begin, tag_begin), len(self.text)
            self.text += "\n" if style == 0 and rng.random() < 0.5 else "\n\n"
            self.speaker = None
        self.speaker = last_speaker
