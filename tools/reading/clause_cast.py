"""The persons and things of a document of clauses."""

import clause_nouns as nouns
import clause_roles as roles
import invented
import prose_values
import values
from clause_grammar import Thing, a, owned, pair, plural, spaced
from clause_lists import listed

_STUFF = set(nouns.MASS)
_SPECIAL = {"dues", "keepables", "beasts", "sums", "jobs", "trips", "posts", "leases", "firm", "force", "crowd"}
_NAMED = {"boats": 0.7, "vehicles": 0.12, "machines": 0.12, "animals": 0.12, "instruments": 0.06, "buildings": 0.15,
          "works": 0.1}  # shares of things that have a name or a number
_FORCES = listed("""the rain;the storm;the frost;the flood;moths*;mice*;rats*;woodworm;lightning;the hail;
the wind;the sun;a fire;ants*;wasps*;an avalanche;mould;the snow;a landslide;a falling tree;the tide;jackdaws*;
martens*""")


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
        return self.fresh(lambda r: r.choice(names) if rng.random() < 0.6 else invented.first_name(r))

    def _last(self):
        return self.fresh(lambda r: invented.surname(r) if r.random() < 0.7 else r.choice(values.LAST))

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
            made.used.add("trade")
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
            made = Thing(name if rng.random() < 0.6 else a(name[4:]), name, "the " + trade, rng.choice(("she", "he")),
                         True)
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
        if kind in _SPECIAL:
            return self._special(kind)
        if kind in _NAMED and rng.random() < _NAMED[kind]:
            return self._named(kind)
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
            made = Thing(f"{number} {described}",
                         "the " + described,
                         "the " + plural(noun),
                         "they",
                         kind=kind,
                         is_plural=True)
            made.number, made.counted = number, described
        elif draw < 0.24 and kind not in ("events", "dishes"):
            owner = owned("the " + rng.choice(nouns.PEOPLE) if rng.random() < 0.5 else self.person_value())
            made = Thing(f"{owner} {described}", f"{owner} {described}", "the " + described, kind=kind)
            made.whose, made.counted = owner, described
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

    def _special(self, kind):
        rng = self.rng
        if kind == "firm":
            name = self.fresh(prose_values.firm)
            made = Thing(name, name, name, kind=kind)
            made.answer = name
        elif kind == "force":
            word = rng.choice(_FORCES)
            if word in self.taken:
                self.twice.add(word)
            self.taken.add(word)
            name = word.rstrip("*")
            made = Thing(name, name, name, "they" if word[-1] == "*" else "it", kind=kind, is_plural=word[-1] == "*")
            made.noun = word
        elif kind in ("keepables", "beasts"):
            several = plural(spaced(self.fresh(lambda r: r.choice(nouns.COUNT[kind]))))
            made = Thing(several, "the " + several, several, "they", kind=kind, is_plural=True)
            made.asked = several
        elif kind == "crowd":
            people = plural(self.fresh(lambda r: r.choice(nouns.PEOPLE)))
            number = roles.number(rng, 2, 60)
            made = Thing(f"{number} {people}", "the " + people, "the " + people, "they", True, kind, True)
            made.number, made.counted = number, people
        else:
            name, head = self._abstract(kind)
            made = Thing(name, name, head, kind=kind)
        self.things.append(made)
        return made

    def _abstract(self, kind):
        """(the damage to the pier, the damage)"""
        rng = self.rng
        about = spaced(
            self.fresh(lambda r: r.choice(nouns.COUNT["fittings" if kind == "sums" else "buildings"])).rstrip("*"))
        if kind == "posts":
            name = f"the post of {self.fresh(lambda r: r.choice(nouns.TRADES))}"
            return name, name
        if kind == "leases":
            return f"the lease of the {about}", f"the lease of the {about}"
        if kind == "trips":
            name = f"the {self.fresh(lambda r: r.choice(nouns.COUNT[kind]))} to {self.fresh(invented.place)}"
            return name, name
        noun = spaced(rng.choice(nouns.COUNT[kind]))
        if kind == "dues":
            name = self.fresh(lambda r: f"the next {r.choice(nouns.COUNT[kind])}")
            return name, name
        link = {"jobs": "in", "sums": "for"}[kind] if noun != "damage" else "to"
        name = f"the {noun} {link} the {about}"
        return name, name

    def _named(self, kind):
        """The ferry Lady Aurelia, boiler 2: known by its name."""
        rng = self.rng
        word = self.fresh(lambda r: r.choice(nouns.COUNT[kind]))
        noun = spaced(word.rstrip("*"))
        if kind in ("machines",) or kind == "vehicles" and rng.random() < 0.5:
            name = self.fresh(lambda r: f"{noun} {r.randint(1, 40)}")
            made = Thing(name, name, name, kind=kind)
            made.answer = name
            made.which = noun
        else:
            name = self.fresh(lambda r: roles.proper(r))
            article = "" if kind == "animals" else "the "
            if kind == "works":
                name, article = f'"{name}"', ""
            intro = f"the {noun} {name}" if rng.random() < 0.6 else f"{a(noun)} called {name}"
            made = Thing(intro, article + name, article + name, kind=kind)
            made.answer, made.named, made.which = name, noun, noun
            made.used.add("name")
        self.things.append(made)
        return made
