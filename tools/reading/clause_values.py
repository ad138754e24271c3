"""Values of traits, by kind: each is drawn from many, names are mostly made up."""

import clause_nouns as nouns
import clause_roles as roles
import prose_values
import values
from clause_grammar import a, plural, spaced

_INSTRUMENTS = ["the " + spaced(word) for word in nouns.COUNT["instruments"]]
_SIGHTS = "the sea;snow;a desert;an elephant;the Alps;an opera;a whale;the northern lights;a volcano;Venice;a comet;" \
          "the Nile;a glacier;a balloon;palm trees;the Danube;a total eclipse;an iceberg;a coral reef;Lapland".split(";")
_SAYINGS = "Mind the step;Pass the salt;Who goes there;Nothing today, thank you;Long live the king;Shut the door;" \
           "More tea, vicar;All aboard;Good evening, officer;Where is my hat;Never on Sundays;Wipe your feet;Ship ahoy;" \
           "Not in front of the children;Poor old Henry;Ten past four;Sit down;Bring the bill;Fish again;" \
           "Off with his head;Open the window".split(";")
_COUNTED = [word for name in ("tools", "vessels", "clothes") for word in nouns.COUNT[name] if "*" not in word]


def _holder(rng):
    before, value = roles.holder(rng)
    return before + " " + value


def _length(rng):
    n = rng.randint(3, 240)
    return rng.choice((f"{n} cm", f"{n} cm", f"{n / 10:.1f} cm", f"{rng.randint(1, 4)}.{rng.randint(1, 99)} m",
                       f"{n} millimetres", f"{roles.number(rng, 2, 30)} inches", f"{n} centimetres",
                       f"{roles.in_words(rng.randint(2, 12))} feet"))


def _weight(rng):
    return rng.choice((f"{rng.randint(2, 90)} kg", f"{rng.randint(1, 40)}.{rng.randint(1, 9)} kg",
                       f"{rng.randint(12, 180) * 5} grams", f"{roles.in_words(rng.randint(2, 40))} kilos",
                       f"{rng.randint(2, 90)} pounds", f"{roles.in_words(rng.randint(2, 12))} ounces"))


def _years(rng):
    if rng.random() < 0.15:
        return f"{rng.randint(14, 60)} months"
    return f"{roles.number(rng, 2, 95)} years"


def _days(rng):
    return f"{roles.number(rng, 2, 20)} {rng.choice(('days', 'days', 'weeks', 'months'))}"


def _shape(rng):
    return a(spaced(rng.choice(nouns.SHAPES)))


def _place(rng, scene):
    before, value, _ = roles.place(rng, scene)
    return before + " " + value


def _person(rng, scene):
    return scene.person_value()


def _days_off(rng):
    first = rng.choice(roles.WEEKDAYS)
    return f"on {first}s"


def _phone(rng):
    return rng.choice((f"0{rng.randint(11, 999)} {rng.randint(100, 9999)}", f"{rng.randint(100, 999)} {rng.randint(10, 99)}",
                       f"0{rng.randint(100, 999)} {rng.randint(100, 999)} {rng.randint(10, 99)}",
                       f"{rng.randint(10, 99)} {rng.randint(10, 99)} {rng.randint(10, 99)}"))


def _ordinal(rng):
    return roles.ordinal(rng.randint(2, 9))


def _food(rng):
    return rng.choice(nouns.MASS["food"])


VALUES = {
    "length": lambda r, s: _length(r), "weight": lambda r, s: _weight(r), "price": lambda r, s: roles.price(r),
    "material": lambda r, s: spaced(r.choice(nouns.MASS["materials"])), "colour": lambda r, s: roles.colour(r),
    "firm": lambda r, s: s.fresh(prose_values.firm), "town": lambda r, s: s.fresh(values.place),
    "number": lambda r, s: roles.number(r, 2, 24), "few": lambda r, s: roles.in_words(r.randint(2, 12)),
    "count": lambda r, s: str(r.randint(13, 900)) if r.random() < 0.7 else roles.in_words(r.randint(2, 9) * 10),
    "litres": lambda r, s: r.choice((f"{r.randint(1, 60)} litres", f"{r.randint(1, 9)}.{r.randint(1, 9)} litres",
                                     f"{roles.in_words(r.randint(2, 14))} pints", f"{roles.in_words(r.randint(2, 9))} cups")),
    "decibels": lambda r, s: f"{r.randint(21, 90)} decibels", "metres": lambda r, s: f"{roles.number(r, 6, 160)} metres",
    "power": lambda r, s: r.choice((f"{r.randint(2, 60) * 50} watts", f"{r.randint(1, 9)}.{r.randint(1, 9)} kilowatts")),
    "years": lambda r, s: _years(r), "days": lambda r, s: _days(r), "months": lambda r, s: roles.duration(r),
    "short": lambda r, s: roles.duration(r, False), "duration": lambda r, s: roles.duration(r),
    "code": lambda r, s: prose_values.code(r) if r.random() < 0.6 else f"{r.randint(10, 99)}-{r.randint(100, 9999)}",
    "frequency": lambda r, s: roles.frequency(r), "stuff": lambda r, s: spaced(r.choice(nouns.MASS["stuffs"])),
    "stuff2": lambda r, s: spaced(r.choice(nouns.MASS["stuffs"])), "holder": lambda r, s: _holder(r),
    "year": lambda r, s: str(r.randint(1480, 2019)), "person": _person, "shape": lambda r, s: _shape(r),
    "name": lambda r, s: s.fresh(_name), "tongue": lambda r, s: r.choice(nouns.TONGUES),
    "topic": lambda r, s: r.choice(nouns.TOPICS), "date": lambda r, s: roles.date(r), "food": lambda r, s: _food(r),
    "bite": lambda r, s: spaced(r.choice(nouns.MASS["bites"])), "fear": lambda r, s: spaced(r.choice(nouns.FEARS)),
    "saying": lambda r, s: r.choice(_SAYINGS), "place": _place, "days_off": lambda r, s: _days_off(r),
    "building": lambda r, s: a(spaced(r.choice(nouns.COUNT["buildings"]).replace("swimming-bath*", "school"))),
    "hour": lambda r, s: prose_values.hour(r), "phone": lambda r, s: _phone(r), "street": lambda r, s: prose_values.KINDS["street"](r),
    "a_thing": lambda r, s: a(spaced(r.choice(_COUNTED))),
    "the_object": lambda r, s: "the " + spaced(r.choice(nouns.COUNT["fittings"]).rstrip("*")),
    "game": lambda r, s: r.choice(nouns.GAMES) if r.random() < 0.4 else r.choice(_INSTRUMENTS),
    "collection": lambda r, s: plural(spaced(r.choice(_COUNTED))),
    "trade": lambda r, s: a(r.choice(nouns.PEOPLE)), "height": lambda r, s: f"{r.randint(140, 209)} cm",
    "pet": lambda r, s: a(f"{r.choice(nouns.ANIMAL_ADJECTIVES)} {spaced(r.choice(nouns.COUNT['animals']))}"),
    "the_room": lambda r, s: f"the {r.choice(nouns.ADJECTIVES)} {spaced(r.choice(nouns.ROOMS))}",
    "sight": lambda r, s: r.choice(_SIGHTS), "ordinal": lambda r, s: _ordinal(r),
}


def _name(rng):
    draw = rng.random()
    if draw < 0.5:
        return values.made_name(rng)
    if draw < 0.65:
        return "the " + rng.choice("Bishop Duke Admiral Professor Countess Major Baron Tsar Pope Colonel Sultan".split())
    return rng.choice("""Biscuit Duchess Pepper Mustard Captain Whisper Thunder Button Pickle Ginger Nutmeg Bramble Tinker
Marble Pebble Truffle Domino Cobweb Bonnet Comet Fidget Rascal Velvet Waffle Zephyr Moth Turnip Sorrel Tansy Aurelia
Octavia Nimbus Pudding Treacle Minor""".split())
