"""Blocks of a document of clauses that are about things, firms, events, orders and recipes."""

import re

import clause_nouns as nouns
import clause_roles as roles
import clause_traits as traits
from clause_describing import Describing
from clause_grammar import CROWD, FIRM, FORCE, NO_PASSIVE, ORDER, RECIPE, RULE, THING, Thing, spaced
from clause_speech import joined

_LABEL = re.compile(r"What is the ([a-z ]+) of \{s\}\?")
_THINGS = ("furniture", "machines", "vehicles", "instruments", "vessels", "clothes", "valuables", "works", "papers",
           "tools")


class ThingBlocks(Describing):
    """Each block_ adds sentences to the text, or none."""

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
        bullet = rng.choice(("- ", ""))
        for fact, label in made:
            self.text += "\n"
            self._start()
            self.pending.append(fact)
            self.add(f"{bullet}{label[0].upper()}{label[1:]}: {fact.values['{v}']}",
                     thing,
                     is_open=True)
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
            may_link = rng.random() < 0.2 and not text.startswith(("if ", "when ", "as ", "If ", "When ", "As "))
            self.add((rng.choice(("Now ", "Then ", "First ", "Meanwhile ")) if may_link else "")
                     + (text[0].lower() + text[1:]))
