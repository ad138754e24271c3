"""What fills the roles of clauses: times, places, prices, reasons, persons and things that the document has not yet."""

import clause_lists as lists
import clause_nouns as nouns
import invented
import prose_values
import values
from clause_grammar import ADJ_OF, Role, a, pair, spaced

NUMBERS = prose_values.NUMBERS
WEEKDAYS = prose_values.WEEKDAYS
_ORDINALS = """second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth""".split()
_TENS = {20: "twenty", 30: "thirty", 40: "forty", 50: "fifty", 60: "sixty", 70: "seventy", 80: "eighty", 90: "ninety"}
_SMALL = """zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen
seventeen eighteen nineteen""".split()
MONEY = """pounds euros crowns francs dollars marks shillings guilders florins kroner""".split()


def in_words(n):
    if n < 20:
        return _SMALL[n]
    if n < 100:
        return _TENS[n - n % 10] + ("-" + _SMALL[n % 10] if n % 10 else "")
    return str(n)


def number(rng, low=2, high=20):
    n = rng.randint(low, high)
    return in_words(n) if n < 100 and rng.random() < 0.7 else str(n)


def price(rng):
    n = rng.randint(2, 95) if rng.random() < 0.6 else rng.randint(100, 2400)
    draw, unit = rng.random(), rng.choice(MONEY)
    if draw < 0.5:
        return f"{in_words(n) if rng.random() < 0.5 else n} {unit}"
    if draw < 0.65:
        return f"{rng.choice('£$€')}{n}"
    if draw < 0.8:
        return f"{n}.{rng.choice((20, 40, 50, 60, 75, 80, 90))} {unit}"
    if draw < 0.9 and n > 1000:
        return f"{n // 1000},{n % 1000:03d} {unit}"
    return f"{n} {unit}"


def duration(rng, long=True):
    draw = rng.random()
    if draw < 0.15:
        return rng.choice(("half an hour", "a quarter of an hour", "an hour and a half", "a whole day", "half a day",
                           "a fortnight", "a year and a half", "almost an hour", "a whole week", "an afternoon",
                           "three quarters of an hour", "a month", "two hours and a half", "a day and a night"))
    unit = rng.choice(("minutes", "hours", "hours", "days", "weeks", "months", "years") if long else
                      ("minutes", "minutes", "hours"))
    n = rng.randint(2, 12) if unit != "minutes" else rng.choice((5, 8, 10, 12, 15, 20, 25, 40, 50))
    text = f"{in_words(n) if rng.random() < 0.8 else n} {unit}"
    if draw < 0.3:
        text = rng.choice(("about ", "almost ", "nearly ", "more than ", "over ")) + text
    elif draw < 0.36 and unit == "hours":
        text += f" and {in_words(rng.choice((5, 10, 20, 40)))} minutes"
    return text


def frequency(rng):
    draw = rng.random()
    if draw < 0.35:
        return f"{rng.choice(lists.FREQUENT)} a {rng.choice(lists.PERIODS[:4])}"
    if draw < 0.7:
        which = rng.choice(("second", "third", "other", "fourth", "tenth", "fifth"))
        return f"every {which} {rng.choice(lists.PERIODS)}"
    if draw < 0.85:
        return f"every {in_words(rng.randint(2, 12))} {rng.choice(('days', 'weeks', 'months', 'years', 'hours'))}"
    return "every " + rng.choice(WEEKDAYS + ["morning", "evening", "night", "spring", "autumn", "month"])


def date(rng, with_year=False):
    day, month = rng.randint(1, 28), rng.choice(values.MONTHS)
    text = rng.choice((f"{day} {month}", f"{day} {month}", f"{month} {day}", f"the {ordinal(day)} of {month}"))
    return text + (f" {rng.randint(1890, 2024)}" if with_year else "")


def ordinal(n):
    if n < 13:
        return ("first", *_ORDINALS)[n - 1]
    return f"{n}{'th' if n in (11, 12, 13) else {1: 'st', 2: 'nd', 3: 'rd'}.get(n % 10, 'th')}"


def time(rng, mood):
    """(text with its preposition, without it, kind)"""
    draw, day = rng.random(), rng.choice(WEEKDAYS)
    if mood == "present":
        if draw < 0.5:
            return "on", day + "s", "day"
        if draw < 0.75:
            return "", rng.choice((f"every {day}", "every morning", "every evening", "in winter", "in summer",
                                   "at noon", "at dawn", "before breakfast", "after lunch", "at night")), ""
        return "at", prose_values.hour(rng), "hour"
    if draw < 0.22:
        return "on", day + rng.choice(("", "", " morning", " evening", " afternoon")), "day"
    if draw < 0.42:
        return "on", date(rng), "date"
    if draw < 0.52:
        return "at", prose_values.hour(rng), "hour"
    if mood in ("past", "perfect"):
        if draw < 0.68:
            return "in", str(rng.randint(1870, 2023)), "year"
        if draw < 0.8:
            return "", f"{in_words(rng.randint(2, 30))} {rng.choice(('years', 'days', 'weeks', 'months'))} ago", ""
        return "", rng.choice(
            ("at dawn", "last autumn", "last week", "in spring", "in " + rng.choice(values.MONTHS), "yesterday",
             "last winter", "during the war", "after the harvest", "the day before yesterday", "last night",
             "at midnight", "before the war", "during the sermon", "in the middle of the night", "at the age of " +
             in_words(rng.randint(16, 80)), "on the " + ordinal(rng.randint(2, 28)), "after supper", "last " + day)), ""
    return "", rng.choice((
        "tomorrow", "next spring", "next week", "in " + rng.choice(values.MONTHS), "next " + day, "after Easter",
        f"in {in_words(rng.randint(2, 12))} {rng.choice(('days', 'weeks', 'months'))}", "before Christmas",
        "at the weekend", "on the " + ordinal(rng.randint(2, 28)), "this evening", "in the new year")), ""


_THINGS = [
    spaced(word) for name in ("fittings", "machines", "vehicles") for word in nouns.COUNT[name] if "*" not in word
]


def reason(rng, subject, is_speaker):
    draw = rng.random()
    if draw < 0.4:
        return f"the {rng.choice(_THINGS)} {rng.choice(lists.BROKEN).strip()}"
    if draw < 0.6:
        return rng.choice(lists.WEATHER)
    if draw < 0.85 and subject and subject.is_person and not subject.plural:
        text = rng.choice(lists.OWN)
        if is_speaker:
            return text.replace("{p}", "I").replace("{o}", "my").replace("I was", "I was")
        return text.replace("{p}", subject.pronoun).replace("{o}", subject.possessive)
    return f"the {rng.choice(nouns.PEOPLE)} {rng.choice(lists.PERSON_REASONS)}"


def _reason(rng, subject, speaks):
    if rng.random() < 0.2:
        return "because of", rng.choice(lists.CAUSES)
    return "because", reason(rng, subject, speaks)


def distance(rng):
    return f"{number(rng, 2, 60)} {rng.choice(('kilometres', 'miles', 'metres', 'km', 'leagues', 'yards'))}"


def purpose(rng, subject, is_speaker):
    own = "my" if is_speaker else subject.possessive if subject and subject.is_person else "the"
    return (rng.choice(lists.PURPOSES).replace("{x}", rng.choice(_THINGS)).replace("{o}", own)
            .replace("{kin}", rng.choice(nouns.KIN)).replace("{trade}", rng.choice(nouns.PEOPLE))
            .replace("{tongue}", rng.choice(nouns.TONGUES)))


def condition(rng):
    return rng.choice(("if", "if", "when", "as soon as")) + " " + rng.choice((
        f"the {rng.choice(_THINGS)} {rng.choice(lists.THING_STATES)}",
        rng.choice(("it rains", "it freezes", "the river rises", "the bell rings", "the light turns red", "it snows",
                    "nobody answers", "guests come", "the moon is full", "the wind turns", "the tide is low",
                    "it smells of apples", "the mixture thickens", "the paint is dry", "the water is ready")),
        f"the {rng.choice(nouns.PEOPLE)} "
        + rng.choice(("agrees", "is away", "comes", "asks for it", "is ill", "has gone"))
    ))


def place(rng, scene):
    """(before, value, kind)"""
    draw = rng.random()
    if draw < 0.3:
        return rng.choice(("in", "in", "in", "near")), scene.fresh(invented.place), "town"
    if draw < 0.5:
        return "in", "the " + spaced(rng.choice(nouns.ROOMS)), ""
    if draw < 0.75:
        return rng.choice(("behind", "near", "beside", "opposite", "in front of", "by")), rng.choice(nouns.SPOTS), ""
    if draw < 0.9:
        return "in", f"the {rng.choice(ADJ_OF)} {spaced(rng.choice(nouns.ROOMS))}", ""
    return rng.choice(
        ("at", "in")
    ), f"{scene.fresh(invented.name)} {rng.choice(lists.ESTATES)}", ""


def holder(rng):
    draw = rng.random()
    if draw < 0.5:
        return rng.choice(("in", "in", "in", "behind", "under", "beside")), \
            f"the {rng.choice(ADJ_OF) + ' ' if rng.random() < 0.5 else ''}{spaced(rng.choice(nouns.HOLDERS))}"
    if draw < 0.8:
        return "in", "the " + spaced(rng.choice(nouns.ROOMS))
    return rng.choice(("under", "behind", "on")), "the " + spaced(rng.choice(nouns.COUNT["furniture"]))


def _plain(word):
    return spaced(word.rstrip("*"))


def material(rng, kind):
    return rng.choice(lists.MATERIALS.get(kind) or lists.MATERIALS["furniture"])


_STUFFS = [spaced(word) for word in nouns.MASS["stuffs"]]
_FOOD = nouns.MASS["food"]


def colour(rng):
    word = rng.choice(nouns.COLOURS)
    return rng.choice(nouns.SHADES) + " " + word if rng.random() < 0.45 else word


def draw(scene, letter, mood, subject, obj=None):
    """A role, or none where it does not fit."""
    rng = scene.rng
    speaks = subject is not None and subject is scene.speaker
    if letter == "t" and mood in ("perfect", "imperative"):
        return None
    if letter == "t":
        return Role("t", *(lambda t: (t[0], t[1], None, t[2]))(time(rng, mood)))
    if letter == "p":
        before, value, kind = place(rng, scene)
        return Role("p", before, value, kind=kind)
    if letter == "PLACE":
        return Role("PLACE", *holder(rng))
    if letter in "gs" and len(letter) == 1:
        return Role(letter, "to" if letter == "g" else "from", scene.fresh(invented.place))
    if letter in ("TO", "FROM", "b", "c", "q"):
        if letter == "FROM" and rng.random() < 0.25:
            return Role("FROM", "from", scene.fresh(prose_values.firm), kind="firm")
        thing = scene.other_person(subject, obj)
        return Role(letter, {"TO": "to", "FROM": "from", "b": "for", "c": "with", "q": "to"}[letter], thing=thing)
    if letter == "M":
        return Role("M", rng.choice(("from", "of", "out of")), material(rng, obj.kind))
    before, value = _SIMPLE[letter](rng, scene, mood, subject, speaks)
    return Role(letter, before, value) if value else None


_SIMPLE = {
    "d": lambda r, *_: ("for", duration(r)),
    "D": lambda r, *_: ("in", duration(r)),
    "m": lambda r, *_: ("for", price(r)),
    "w": lambda r, s, *_: ("with", tool(r)),
    "W": lambda r, *_: ("with", r.choice(_STUFFS)),
    "K": lambda r, *_: ("with", r.choice(lists.KITCHEN)),
    "E": lambda r, *_: ("with", r.choice(_FOOD)),
    "n": lambda r, *_: ("with", r.choice(lists.ACTS)),
    "r": lambda r, s, m, subject, speaks: _reason(r, subject, speaks) if m in ("past", "perfect") else ("", ""),
    "e": lambda r, s, m, *_: ("", distance(r) if m == "past" else ""),
    "u": lambda r, s, m, subject, speaks: ("", purpose(r, subject, speaks)),
    "f": lambda r, s, m, *_: ("", frequency(r) if m in ("present", "must", "should", "imperative", "future") else ""),
    "k": lambda r, s, m, *_: ("", condition(r) if m not in ("past", "perfect") else ""),
    "G": lambda r, *_: ("to", "the " + spaced(r.choice(nouns.ROOMS))),
    "h": lambda r, *_: ("", r.choice(lists.VEHICLES)),
    "o": lambda r, *_: ("about", r.choice(nouns.TOPICS)),
    "A": lambda r, *_: ("as", a(r.choice(nouns.PEOPLE))),
    "C": lambda r, *_: ("", colour(r)),
    "T": lambda r, *_: ("through", "the " + spaced(r.choice(nouns.COUNT["openings"]))),
    "y": lambda r, *_: ("until", date(r) if r.random() < 0.6 else r.choice(WEEKDAYS)),
    "V": lambda r, *_: ("in", r.choice(lists.VESSELS)),
    "F": lambda r, *_: ("in", r.choice(lists.FATS)),
    "L": lambda r, *_: ("in", r.choice(lists.LIQUIDS)),
    "z": lambda r, *_: ("at", f"{r.randint(14, 50) * 5} degrees"),
}


def proper(rng):
    """A name of a boat, a picture, a house."""
    draw = rng.random()
    if draw < 0.3:
        return rng.choice(lists.PROPER)
    if draw < 0.65:
        return values.title(rng)
    return invented.name(rng)


def tool(rng):
    word = rng.choice(nouns.COUNT["tools"])
    adjective = rng.choice(ADJ_OF) + " " if rng.random() < 0.3 else ""
    if word.endswith("*"):
        return rng.choice(("a pair of ", "")) + adjective + pair(_plain(word))
    return a(adjective + _plain(word))


def counted_food(rng, word):
    """Some of a food: (text with its amount, amount's number, what is counted)"""
    amount = rng.choice(
        (f"{rng.randint(2, 40) * 25} g", f"{in_words(rng.randint(2, 6))} cups", f"{rng.randint(2, 9)} dl",
         f"{in_words(rng.randint(2, 6))} spoons", f"{rng.randint(2, 14) * 50} ml",
         f"{in_words(rng.randint(2, 4))} handfuls", "a pinch", f"{rng.randint(2, 5)} kg", "half a pound", "a pound",
         "a cup", "a glass", "a tin", "a spoonful", "two teaspoons"))
    return f"{amount} of {word}", amount
