"""The persons and things of a document of clauses."""

import clause_nouns as nouns
import clause_roles as roles
import prose_values
import values
from clause_grammar import Thing, a, owned, pair, plural, spaced

_STUFF = set(nouns.MASS)


class Cast:
    """Persons and things of a document, none like another."""

    def __init__(self, rng):
        self.rng = rng
        self.taken = set()
        self.twice = set()   # nouns that are there more than once: their things keep their adjectives
        self.people, self.things = [], []
        self.speaker = None
        self.trades = set()

    def fresh(self, make):
        for _ in range(30):
            name = make(self.rng)
            if name not in self.taken:
                break
        self.taken.add(name)
        return name

    def _first(self, pronoun):
        rng = self.rng
        names = nouns.FEMALE if pronoun == "she" else nouns.MALE
        return self.fresh(lambda r: r.choice(names) if rng.random() < 0.65 else values.made_name(r))

    def _last(self):
        return self.fresh(lambda r: values.made_name(r) if r.random() < 0.7 else r.choice(values.LAST))

    def person(self, plain=False):
        """Somebody who is new."""
        rng = self.rng
        pronoun = rng.choice(("she", "he"))
        draw = 0.3 if plain else rng.random()
        if draw < 0.22:
            title = rng.choice(nouns.TITLES[pronoun])
            name = f"{title} {self._last()}"
            if title in ("Sister", "Father"):
                name = f"{title} {self._first(pronoun)}"
            made = Thing(name, name, name, pronoun, True)
        else:
            first, last = self._first(pronoun), self._last()
            name = first if draw > 0.85 else f"{first} {last}"
            made = Thing(name, name, rng.choice((first, first, last)) if name != first else first, pronoun, True)
        made.answer = name
        if draw > 0.4 and (trade := self._trade()):
            adjective = rng.choice(nouns.PERSON_ADJECTIVES) + " " if rng.random() < 0.35 else ""
            made.said_of = f"the {adjective}{trade}"
            made.intro = (f"{name}, {a(adjective + trade)},", f"{a(adjective + trade)} called {name}",
                          f"the {adjective}{trade}, {name},", f"{a(adjective + trade)} named {name}",
                          f"the {adjective}{trade} {name}")[rng.randrange(5)]
        self.people.append(made)
        return made

    def _trade(self):
        trade = self.rng.choice(nouns.PEOPLE)
        if trade in self.trades:
            return ""
        self.trades.add(trade)
        return trade

    def role_person(self):
        """The porter, my nephew: who has no name."""
        rng = self.rng
        kin = rng.choice(nouns.KIN)
        if self.speaker and kin not in self.trades and rng.random() < 0.6:
            self.trades.add(kin)
            pronoun = "she" if kin in nouns.FEMALE_KIN else rng.choice(("she", "he")) if kin == "cousin" else "he"
            made = Thing("my " + kin, "my " + kin, "my " + kin, pronoun, True)
            made.asked, made.answer = owned(self.speaker.name) + " " + kin, "my " + kin
        else:
            trade = self._trade()
            if not trade:
                return self.person()
            name = f"the {rng.choice(nouns.PERSON_ADJECTIVES) + ' ' if rng.random() < 0.3 else ''}{trade}"
            made = Thing(name if rng.random() < 0.6 else a(name[4:]), name, "the " + trade, rng.choice(("she", "he")), True)
            made.answer = ""
        self.people.append(made)
        return made

    def somebody(self):
        rng = self.rng
        if self.people and rng.random() < 0.6:
            return rng.choice(self.people[-8:])
        return self.person() if rng.random() < 0.7 else self.role_person()

    def other_person(self, but, nor=None):
        for _ in range(4):
            person = self.somebody()
            if person is not but and person is not nor and person is not self.speaker:
                return person
        return self.person()

    def person_value(self):
        """A name as a value of a trait."""
        person = self.person(plain=True)
        person.intro, person.known = person.name, True
        self.people.remove(person)
        return person.name

    def thing(self, kind, subject=None):
        rng = self.rng
        if kind == "persons":
            return self.other_person(subject)
        if kind in _STUFF:
            return self._stuff(kind)
        for _ in range(6):
            word = rng.choice(nouns.COUNT[kind])
            if word not in self.taken:
                break
        else:
            self.twice.add(word)
        self.taken.add(word)
        is_pair, noun = word.endswith("*"), spaced(word.rstrip("*"))
        adjectives = nouns.ANIMAL_ADJECTIVES if kind == "animals" else \
            nouns.EVENT_ADJECTIVES if kind == "events" else nouns.ADJECTIVES_OF.get(kind, nouns.ADJECTIVES)
        draw = rng.random()
        adjective = rng.choice(adjectives) if draw < 0.5 or word in self.twice or kind == "events" else ""
        if adjective and adjective + noun in self.taken:
            adjective = rng.choice(adjectives)
        self.taken.add(adjective + noun)
        described = (adjective + " " if adjective else "") + noun
        draw = rng.random()
        if is_pair:
            described = (adjective + " " if adjective else "") + pair(noun)
            made = Thing(rng.choice(("{poss} ", "the ", "a pair of ", "")) + described, "the " + described,
                         "the " + pair(noun), "they", kind=kind, is_plural=True)
        elif draw < 0.16 and kind not in ("events", "buildings", "fittings", "dishes"):
            number = roles.number(rng, 2, 40)
            described = (adjective + " " if adjective else "") + plural(noun)
            made = Thing(f"{number} {described}", "the " + described, "the " + plural(noun), "they", kind=kind, is_plural=True)
            made.number, made.counted = number, described
        elif draw < 0.24 and kind not in ("events", "dishes"):
            owner = rng.choice((rng.choice(nouns.KIN), rng.choice(nouns.PEOPLE)))
            made = Thing(f"the {owned(owner)} {described}", f"the {owned(owner)} {described}", "the " + described, kind=kind)
            made.whose, made.counted = f"the {owned(owner)}", described
        elif draw < 0.3 and kind in ("fittings", "buildings"):
            before, where, _ = roles.place(rng, self)
            name = f"the {described} {before} {where}"
            made = Thing(name, name, name, kind=kind)
            made.which = noun
        elif kind in ("fittings", "events") or draw < 0.34:
            made = Thing("the " + described, "the " + described, "the " + noun, kind=kind)
        elif draw < 0.45 and subject and subject.is_person and kind != "buildings":
            made = Thing("{poss} " + described, "the " + described, "the " + noun, kind=kind)
        else:
            made = Thing(a(described), "the " + described, "the " + noun, kind=kind)
        made.noun = word
        if kind == "events" or word in self.twice:
            made.head = made.name
        self.things.append(made)
        return made

    def _stuff(self, kind):
        rng = self.rng
        for _ in range(8):
            word = rng.choice(nouns.MASS[kind])
            if word not in self.taken:
                break
        else:
            self.twice.add(word)
        self.taken.add(word)
        noun, word = word, spaced(word)
        several = word.endswith("s") and not word.endswith("ss")
        intro, draw, number = word, rng.random(), ""
        if kind == "goods" and draw < 0.6:
            unit = rng.choice(("sacks", "crates", "tons", "boxes", "cartloads", "barrels", "bags"))
            number = roles.number(rng, 2, 60)
            intro, counted = f"{number} {unit} of {word}", f"{unit} of {word}"
        elif kind == "drinks" and draw < 0.6:
            intro = f"{rng.choice(('a glass', 'a jug', 'a cup', 'two bottles', 'a mug', 'a flask', 'a can'))} of {word}"
        elif draw < 0.8:
            intro = rng.choice(("the ", "some ", "")) + word
        made = Thing(intro, "the " + word, "the " + word, "they" if several else "it", kind=kind, is_plural=several)
        made.noun = noun
        if number:
            made.number, made.counted = number, counted
        self.things.append(made)
        return made
