"""Values of traits, by kind: each is drawn from many, names are mostly made up."""

import clause_lists as lists
import clause_nouns as nouns
import clause_roles as roles
import invented
import prose_values
import values
from clause_grammar import a, plural, spaced

_INSTRUMENTS = ["the " + spaced(word) for word in nouns.COUNT["instruments"]]
_GOODS = [
    word for name in ("furniture", "vessels", "clothes", "valuables", "tools", "machines", "papers", "instruments")
    for word in nouns.COUNT[name] if "*" not in word
]
_OBJECTS = [
    word for name in ("fittings", "machines", "furniture", "vehicles") for word in nouns.COUNT[name] if "*" not in word
]
_COUNTED = [word for name in ("tools", "vessels", "clothes") for word in nouns.COUNT[name] if "*" not in word]


def _holder(rng):
    before, value = roles.holder(rng)
    return before + " " + value


# Of a class of things: from so many to so many centimetres, and to so many grams.
_CENTIMETRES = {"furniture": (30, 240), "machines": (12, 200), "fittings": (25, 420), "vessels": (5, 60),
                "instruments": (18, 210), "vehicles": (110, 900), "tools": (8, 160), "clothes": (18, 150)}
_GRAMS = {"furniture": (1500, 90_000), "machines": (400, 300_000), "vehicles": (9000, 2_800_000),
          "instruments": (150, 60_000), "vessels": (60, 9000), "valuables": (4, 3000), "animals": (300, 90_000),
          "fittings": (2000, 200_000)}


def _between(rng, low, high):
    """Small ones as often as large ones."""
    return low * (high / low) ** rng.random()


def _length(rng, kind):
    cm = _between(rng, *_CENTIMETRES.get(kind, (5, 200)))
    if cm > 100 and rng.random() < 0.6:
        return rng.choice((f"{cm / 100:.2f} m", f"{cm / 100:.1f} metres", f"{max(2, round(cm / 30))} feet",
                           f"{roles.in_words(max(2, round(cm / 30)))} feet"))
    return rng.choice((f"{cm:.0f} cm", f"{cm:.0f} cm", f"{cm:.1f} cm", f"{cm * 10:.0f} millimetres",
                       f"{roles.in_words(max(2, round(cm / 2.5)))} inches", f"{cm:.0f} centimetres"))


def _weight(rng, kind):
    grams = _between(rng, *_GRAMS.get(kind, (1000, 60_000)))
    if grams < 1000:
        return rng.choice((f"{max(2, round(grams))} grams", f"{max(2, round(grams))} g",
                           f"{roles.in_words(max(2, round(grams / 28)))} ounces"))
    kilos = max(2, round(grams / 1000))
    if kilos > 1000 and rng.random() < 0.5:
        return f"{grams / 1e6:.1f} tons"
    return rng.choice((f"{kilos} kg", f"{grams / 1000:.1f} kg", f"{roles.in_words(kilos)} kilos",
                       f"{max(2, round(grams / 450))} pounds"))


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


def _phone(rng):
    return rng.choice(
        (f"0{rng.randint(11, 999)} {rng.randint(100, 9999)}", f"{rng.randint(100, 999)} {rng.randint(10, 99)}",
         f"0{rng.randint(100, 999)} {rng.randint(100, 999)} {rng.randint(10, 99)}",
         f"{rng.randint(10, 99)} {rng.randint(10, 99)} {rng.randint(10, 99)}"))



def _garment(rng):
    word = rng.choice([word for word in nouns.COUNT["clothes"] if "*" not in word])
    return f"{rng.choice(nouns.ADJECTIVES_OF['clothes'])} {spaced(word)}"


def _future_time(rng):
    before, value, _ = roles.time(rng, "future")
    return f"{before} {value}" if before else value


def _past_time(rng):
    before, value, _ = roles.time(rng, "past")
    return f"{before} {value}" if before else value


def _deed(rng):
    return f"{rng.choice(lists.DEEDS).replace('-', ' ')} the {spaced(rng.choice(_OBJECTS))}"


def _goods(rng):
    adjective = rng.choice(nouns.ADJECTIVES) + " " if rng.random() < 0.5 else ""
    return adjective + spaced(rng.choice(_GOODS))


def _many(rng):
    return plural(spaced(rng.choice(_GOODS)))


def _span(rng):
    return f"{roles.in_words(rng.randint(2, 12))} hours" + (
        f" and {roles.in_words(rng.choice((5, 10, 20, 30, 45)))} minutes" if rng.random() < 0.5 else "")


def _water(rng, scene):
    name = scene.fresh(invented.name)
    return rng.choice(
        (f"Lake {name}", f"the {name} Sound", f"the river {name}", f"the {name} Pass", f"the {name} Moor"))


def _wage(rng):
    return f"{rng.randint(4, 39)}.{rng.choice((20, 40, 50, 80))}" + rng.choice(("", " euros", " pounds", " crowns"))


def _odd_holder(rng):
    return f"the {rng.choice(nouns.ADJECTIVES)} {spaced(rng.choice(nouns.HOLDERS))}"


def _own(rng, scene):
    described = f"{rng.choice(nouns.ADJECTIVES)} {spaced(rng.choice(_COUNTED))}"
    return a(described) if rng.random() < 0.5 else "the " + described


def _extra(rng):
    return "the " + rng.choice(lists.EXTRAS)


def _gerund(rng):
    return f"{rng.choice(lists.GERUNDS)} {rng.choice(lists.GERUND_THINGS)}"


def _scene(rng):
    return f"{a(rng.choice(nouns.PERSON_ADJECTIVES) + ' ' + rng.choice(nouns.PEOPLE))} {rng.choice(lists.SCENE_DEEDS)}"


VALUES = {
    "length": lambda r, s: _length(r, s.kind),
    "weight": lambda r, s: _weight(r, s.kind),
    "price": lambda r, s: roles.price(r),
    "material": lambda r, s: roles.material(r, s.kind),
    "colour": lambda r, s: roles.colour(r),
    "firm": lambda r, s: s.fresh(prose_values.firm),
    "town": lambda r, s: s.fresh(invented.place),
    "number": lambda r, s: roles.number(r, 2, 24),
    "few": lambda r, s: roles.in_words(r.randint(2, 12)),
    "count": lambda r, s: str(r.randint(13, 900)) if r.random() < 0.7 else roles.in_words(r.randint(2, 9) * 10),
    "litres": lambda r, s: r.choice(
        (f"{r.randint(1, 60)} litres", f"{r.randint(1, 9)}.{r.randint(1, 9)} litres",
         f"{roles.in_words(r.randint(2, 14))} pints", f"{roles.in_words(r.randint(2, 9))} cups")),
    "decibels": lambda r, s: f"{r.randint(21, 90)} decibels",
    "metres": lambda r, s: f"{roles.number(r, 6, 160)} metres",
    "power": lambda r, s: r.choice(
        (f"{r.randint(2, 60) * 50} watts", f"{r.randint(1, 9)}.{r.randint(1, 9)} kilowatts")),
    "years": lambda r, s: _years(r),
    "days": lambda r, s: _days(r),
    "months": lambda r, s: roles.duration(r),
    "short": lambda r, s: roles.duration(r, False),
    "duration": lambda r, s: roles.duration(r),
    "code": lambda r, s: prose_values.code(r) if r.random() < 0.6 else f"{r.randint(10, 99)}-{r.randint(100, 9999)}",
    "frequency": lambda r, s: roles.frequency(r),
    "stuff": lambda r, s: spaced(r.choice(nouns.MASS["stuffs"])),
    "stuff2": lambda r, s: spaced(r.choice(nouns.MASS["stuffs"])),
    "holder": lambda r, s: _holder(r),
    "year": lambda r, s: str(r.randint(1480, 2019)),
    "person": _person,
    "shape": lambda r, s: _shape(r),
    "name": lambda r, s: s.fresh(_name),
    "tongue": lambda r, s: r.choice(nouns.TONGUES),
    "topic": lambda r, s: r.choice(nouns.TOPICS),
    "date": lambda r, s: roles.date(r),
    "food": lambda r, s: r.choice(nouns.MASS["food"]),
    "bite": lambda r, s: spaced(r.choice(nouns.MASS["bites"])),
    "fear": lambda r, s: spaced(r.choice(nouns.FEARS)),
    "saying": lambda r, s: r.choice(lists.SAYINGS),
    "place": _place,
    "days_off": lambda r, s: r.choice(roles.WEEKDAYS) + "s",
    "building": lambda r, s: a(spaced(r.choice(nouns.COUNT["buildings"]).replace("swimming-bath*", "school"))),
    "hour": lambda r, s: prose_values.hour(r),
    "phone": lambda r, s: _phone(r),
    "street": lambda r, s: prose_values.KINDS["street"](r),
    "a_thing": lambda r, s: a(spaced(r.choice(_COUNTED))),
    "the_object": lambda r, s: "the " + spaced(r.choice(nouns.COUNT["fittings"]).rstrip("*")),
    "game": lambda r, s: r.choice(nouns.GAMES) if r.random() < 0.4 else r.choice(_INSTRUMENTS),
    "collection": lambda r, s: plural(spaced(r.choice(_COUNTED))),
    "trade": lambda r, s: a(r.choice(nouns.PEOPLE)),
    "height": lambda r, s: f"{r.randint(140, 209)} cm",
    "pet": lambda r, s: a(f"{r.choice(nouns.ANIMAL_ADJECTIVES)} {spaced(r.choice(nouns.COUNT['animals']))}"),
    "the_room": lambda r, s: f"the {r.choice(nouns.ADJECTIVES)} {spaced(r.choice(nouns.ROOMS))}",
    "floor": lambda r, s: f"the {roles.ordinal(r.randint(2, 9))} floor",
    "trade2": lambda r, s: a(r.choice(nouns.PEOPLE)),
    "wood": lambda r, s: spaced(r.choice(lists.WOOD)),
    "a_clothes": lambda r, s: a(_garment(r)),
    "a_tool": lambda r, s: roles.tool(r),
    "a_tie": lambda r, s: r.choice(lists.TIES),
    "building2": lambda r, s: a(_goods(r)),
    "the_goods": lambda r, s: "the " + _goods(r),
    "future_time": lambda r, s: _future_time(r),
    "none": lambda r, s: "",
    "age": lambda r, s: roles.in_words(r.randint(31, 104)),
    "past_time": lambda r, s: _past_time(r),
    "reason": lambda r, s: roles.reason(r, None, False),
    "activity": lambda r, s: r.choice(lists.ACTIVITIES),
    "deed": lambda r, s: _deed(r),
    "a_goods": lambda r, s: a(_goods(r)),
    "goods": lambda r, s: s.fresh(_goods),
    "goods_many": lambda r, s: _many(r),
    "span": lambda r, s: _span(r),
    "water": lambda r, s: _water(r, s),
    "distance": lambda r, s: roles.distance(r),
    "wage": lambda r, s: _wage(r),
    "drink": lambda r, s: spaced(r.choice(nouns.MASS["drinks"])),
    "subject": lambda r, s: r.choice(lists.SUBJECTS),
    "kin": lambda r, s: r.choice(nouns.KIN),
    "skill": lambda r, s: r.choice(lists.SKILLS),
    "odd_holder": lambda r, s: s.fresh(_odd_holder),
    "goods_stuff": lambda r, s: spaced(r.choice(nouns.MASS["goods"])),
    "own": lambda r, s: _own(r, s),
    "ailment": lambda r, s: r.choice(lists.AILMENTS),
    "vehicle": lambda r, s: r.choice(lists.VEHICLES),
    "first": lambda r, s: s.person_value().split(" ")[0],
    "weekdays": lambda r, s: r.choice(roles.WEEKDAYS) + "s",
    "weekday": lambda r, s: r.choice(roles.WEEKDAYS),
    "voice": lambda r, s: r.choice(("alto", "bass", "tenor", "soprano")),
    "the_instrument": lambda r, s: r.choice(_INSTRUMENTS),
    "belief": lambda r, s: roles.reason(r, None, False),
    "pen": lambda r, s: r.choice(lists.PENS),
    "cond": lambda r, s: roles.condition(r).split(" ", 1)[1].removeprefix("soon as "),
    "cond_full": lambda r, s: roles.condition(r),
    "colour2": lambda r, s: roles.colour(r),
    "animal_part": lambda r, s: r.choice("tail beak muzzle collar belly nose back head".split()),
    "animal_part_a": lambda r, s: r.choice(
        ("an ear", "a tooth", "two toes", "an eye", "half a tail", "a claw", "a horn")),
    "opening": lambda r, s: "the " + spaced(r.choice(nouns.COUNT["openings"])),
    "opening2": lambda r, s: "the " + spaced(r.choice(nouns.COUNT["openings"])),
    "naming": lambda r, s: r.choice(lists.NAMINGS),
    "pet_name": lambda r, s: s.fresh(_name),
    "bite2": lambda r, s: spaced(r.choice(nouns.MASS["bites"])),
    "small_parts": lambda r, s: r.choice(lists.SMALL_PARTS),
    "the_extra": lambda r, s: _extra(r),
    "the_extra2": lambda r, s: _extra(r),
    "the_extra3": lambda r, s: _extra(r),
    "event_clause": lambda r, s: r.choice(lists.EVENT_CLAUSES),
    "bar": lambda r, s: f"{r.randint(1, 12)}.{r.randint(1, 9)} bar",
    "degrees": lambda r, s: f"{r.randint(12, 60) * 5} degrees",
    "fuel": lambda r, s: r.choice(lists.FUELS),
    "gap": lambda r, s: r.choice("gear lift drawer step string wheel pedal burner key lever switch".split()),
    "wrap": lambda r, s: r.choice(lists.WRAPS),
    "motifs": lambda r, s: plural(spaced(r.choice(nouns.SHAPES))),
    "gerund": lambda r, s: _gerund(r),
    "the_furniture": lambda r, s: "the " + spaced(r.choice(nouns.COUNT["furniture"])),
    "away": lambda r, s: r.choice(lists.AWAY),
    "scene": lambda r, s: _scene(r),
    "brand": lambda r, s: s.fresh(invented.name),
    "visit_time": lambda r, s: r.choice(
        (f"on {r.choice(roles.WEEKDAYS)}s", f"after {prose_values.hour(r)}", "any morning",
         f"until {prose_values.hour(r)}", "in the evening", f"from {roles.date(r)} on")),
    "food_mass": lambda r, s: r.choice([word for word in nouns.MASS["food"] if not word.endswith("s")]),
    "too": lambda r, s: r.choice("fat dear strong sweet bitter salty dry sour mild hard".split()),
    "liquid": lambda r, s: r.choice(lists.LIQUIDS),
    "bake_vessel": lambda r, s: r.choice(lists.VESSELS),
    "next_time": lambda r, s: r.choice(("the next day", "the next morning", "Sunday", "the evening", "the third day",
                                        "noon", "it is cold", "the guests are there", "the following week")),
    "amount": lambda r, s: f"{r.randint(2, 40) * 25} g"
    if r.random() < 0.6 else f"{roles.in_words(r.randint(2, 9))} spoons",
    "food_pieces": lambda r, s: r.choice(lists.FOOD_PIECES),
    "dish": lambda r, s: spaced(r.choice(nouns.COUNT["dishes"])),
    "repairs": lambda r, s: r.choice(lists.REPAIRS),
    "year2": lambda r, s: str(r.randint(1480, 2019)),
    "long_time": lambda r, s: f"{roles.number(r, 2, 40)} {r.choice(('years', 'months', 'weeks'))}",
    "own_part": lambda r, s:
    f"its {r.choice(('roof', 'chimney', 'door', 'windows', 'tower', 'gate', 'bell', 'gutter', 'balcony'))}",
    "people_many": lambda r, s: plural(r.choice(nouns.PEOPLE)),
    "opening_act": lambda r, s: r.choice(lists.ACTS),
    "ordinal_day": lambda r, s: roles.ordinal(r.randint(2, 28)),
    "date2": lambda r, s: roles.date(r),
    "sight": lambda r, s: r.choice(lists.SIGHTS),
    "ordinal": lambda r, s: roles.ordinal(r.randint(2, 9)),
}


def _name(rng):
    draw = rng.random()
    if draw < 0.5:
        return invented.name(rng)
    if draw < 0.65:
        return "the " + rng.choice(
            "Bishop Duke Admiral Professor Countess Major Baron Tsar Pope Colonel Sultan".split())
    return rng.choice(
        """Biscuit Duchess Pepper Mustard Captain Whisper Thunder Button Pickle Ginger Nutmeg Bramble Tinker
Marble Pebble Truffle Domino Cobweb Bonnet Comet Fidget Rascal Velvet Waffle Zephyr Moth Turnip Sorrel Tansy Aurelia
Octavia Nimbus Pudding Treacle Minor""".split())
