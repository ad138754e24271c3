"""Kinds of values of pages (forms_pages_*.py), beside those of prose_values.py: things of any word, with their articles,
and clauses."""

import clause_lists as lists
import clause_nouns as nouns
import clause_roles as roles
import invented
import prose_values
import word_lists
from clause_grammar import a, forms, plural, spaced

_THINGS = [spaced(word) for name in ("furniture", "vessels", "clothes", "valuables", "tools", "machines", "papers",
                                     "instruments", "fittings", "keepables") for word in nouns.COUNT[name]
           if "*" not in word]
_ADJECTIVES = nouns.ADJECTIVES + word_lists.ADJECTIVES + [word for some in nouns.ADJECTIVES_OF.values()
                                                          for word in some]
_STUFFS = [spaced(word) for some in nouns.MASS.values() for word in some]
_STATES = """is shut;is too narrow;leaks;is under water;is too loud;cannot be heard;is locked at night;has no roof;
is being painted;is out of order;is too dear;smells of {stuff};has not come;is too steep;has no brakes;breaks easily;
is full of {many};does not fit;is slippery;draws {many};needs {stuff};must be kept dry;may fall;is not ours;
belongs to the {trade};has got {many} in it;lets in the rain;is afraid of {many};cannot stand {stuff}"""
_PAST = """had lost {an};had no {stuff} left;could not find the {noun};had promised it to the {trade};did not like {stuff};
had broken {an};wanted {an};had been bitten by {an_animal};was tired of {many};had sold the {noun};was cold;
always had {stuff};was late;could not sleep;had seen {an_animal};knew the {trade};had forgotten the {noun}"""
_FUTURE = """arrives;breaks;is empty;is full;turns {colour};rises;falls below zero;is ill;says no;rings;is frozen;comes;
is ready;agrees;is away;stops;goes out;shows {colour};begins to smell"""
_STATES, _PAST, _FUTURE = map(lists.listed, (_STATES, _PAST, _FUTURE))
_VERBS = """mend paint clean sell move replace insure measure rebuild inspect varnish weigh lock polish open fetch count
carry draw photograph hide cover empty return load wash burn lift feed guard keep lend""".split()


def noun(rng):
    draw = rng.random()
    if draw < 0.5:
        return rng.choice(_THINGS)
    if draw < 0.75:
        return rng.choice(word_lists.NOUNS)
    return rng.choice(word_lists.RARE) if draw < 0.9 else invented.word(rng)


def described(rng):
    draw = rng.random()
    if draw < 0.45:
        return noun(rng)
    if draw < 0.6:
        return f"{noun(rng)} of {stuff(rng)}"
    return f"{rng.choice(_ADJECTIVES)} {noun(rng)}"


def stuff(rng):
    return rng.choice(_STUFFS) if rng.random() < 0.85 else invented.word(rng)


def titled(rng):
    draw = rng.random()
    title = rng.choice("Mr Mrs Miss Ms Dr Master Canon Captain Sister Father Frau Herr Professor Old Young".split())
    if draw < 0.15:
        return f"{title} {prose_values.person(rng)}"
    return f"{title} {invented.surname(rng) if rng.random() < 0.6 else prose_values.surname(rng)}"


def named(rng):
    """Somebody, as people say it."""
    draw = rng.random()
    if draw < 0.4:
        return prose_values.person(rng)
    if draw < 0.6:
        return titled(rng)
    if draw < 0.75:
        return prose_values.KINDS["first"](rng)
    if draw < 0.85:
        return f"{rng.choice('ABCDEFGHIJKLMNOPRSTW')}. {prose_values.surname(rng)}"
    return f"{prose_values.KINDS['first'](rng)}'s {rng.choice(nouns.KIN)}"


def _worded(rng, text):
    for slot, make in (("{stuff}", stuff), ("{many}", lambda r: plural(noun(r))), ("{noun}", noun),
                       ("{an}", lambda r: a(described(r))), ("{trade}", lambda r: r.choice(nouns.PEOPLE)),
                       ("{an_animal}", lambda r: a(spaced(r.choice(nouns.COUNT["animals"])))),
                       ("{colour}", roles.colour)):
        if slot in text:
            text = text.replace(slot, make(rng))
    return text


def why_then(rng):
    draw = rng.random()
    if draw < 0.3:
        return roles.reason(rng, None, False)
    if draw < 0.45:
        return prose_values.trouble(rng)
    who = f"the {rng.choice(nouns.PEOPLE)}" if rng.random() < 0.5 else prose_values.KINDS["first"](rng)
    return f"{who} {_worded(rng, rng.choice(_PAST))}"


def why_now(rng):
    return f"the {noun(rng)} {_worded(rng, rng.choice(_STATES))}"


def condition(rng):
    if rng.random() < 0.25:
        return roles.condition(rng).split(" ", 1)[1].removeprefix("soon as ")
    who = rng.choice(nouns.PEOPLE) if rng.random() < 0.4 else noun(rng)
    return f"the {who} {_worded(rng, rng.choice(_FUTURE))}"


def spot(rng):
    before = rng.choice("behind near beside opposite under by at in on".split())
    draw = rng.random()
    if draw < 0.3:
        return f"{before} {rng.choice(nouns.SPOTS)}"
    if draw < 0.5:
        return f"in the {spaced(rng.choice(nouns.ROOMS))}"
    if draw < 0.7:
        return f"{before} the {noun(rng)}"
    if draw < 0.85:
        return f"in {a(described(rng))} {rng.choice(('by', 'behind', 'under', 'near'))} the {noun(rng)}"
    return f"{rng.choice(('at', 'in', 'near'))} {invented.place(rng)}"


def room(rng):
    adjective = rng.choice(prose_values.SIDES + nouns.ADJECTIVES) + " " if rng.random() < 0.7 else ""
    return f"the {adjective}{spaced(rng.choice(nouns.ROOMS))}"


def deed(rng):
    return f"{rng.choice(_VERBS)} the {noun(rng)}"


def plain_sum(rng):
    draw = rng.random()
    if draw < 0.4:
        return str(rng.randint(3, 99) * 5)
    if draw < 0.7:
        return f"{rng.randint(2, 99)}.{rng.randint(1, 19) * 5:02d}"
    return f"{rng.randint(1, 90)},{rng.randint(0, 999):03d}" if draw < 0.85 else str(rng.randint(2, 999))


def money(rng):
    draw, unit = rng.random(), rng.choice(roles.MONEY)
    if draw < 0.2:
        return f"{rng.randint(1, 90)},{rng.randint(0, 999):03d} {unit}"
    if draw < 0.3:
        return f"{rng.choice('£$€')}{rng.randint(1, 40)},{rng.randint(0, 999):03d}"
    return f"{rng.randint(2, 60)} {unit} and {rng.randint(5, 95)}" if draw < 0.35 else roles.price(rng)


def count(rng):
    return str(rng.randint(13, 480)) if rng.random() < 0.45 else roles.in_words(rng.randint(2, 40))


def hour(rng):
    draw, n = rng.random(), rng.randint(1, 12)
    if draw < 0.2:
        return f"{roles.in_words(n)} in the {rng.choice(('morning', 'evening', 'afternoon'))}"
    if draw < 0.35:
        return f"{n}.{rng.choice(('05', '10', '15', '20', '30', '40', '45', '50'))}"
    if draw < 0.5:
        return roles.in_words(n)
    return rng.choice(("noon", "midnight", "dawn", "dusk")) if draw < 0.55 else prose_values.hour(rng)


def when(rng):
    before, value, _ = roles.time(rng, "past")
    text = f"{before} {value}".strip()
    return when(rng) if text.startswith("at the age") else text


def past(rng):
    """Behind since or until."""
    draw = rng.random()
    if draw < 0.3:
        return "last " + rng.choice(prose_values.WEEKDAYS + ["spring", "summer", "autumn", "winter", "week", "year"])
    if draw < 0.5:
        return str(rng.randint(1890, 2023))
    if draw < 0.7:
        return "the " + rng.choice("harvest war flood wedding funeral election fire strike storm frost fair".split())
    return rng.choice((roles.date(rng), rng.choice(prose_values.MONTHS), "Easter", "Christmas", "Whitsun"))


def soon(rng):
    before, value, _ = roles.time(rng, "future")
    return f"{before} {value}".strip()


def _measure(rng, units, low, high):
    n = rng.randint(low, high)
    text = f"{n}.{rng.randint(1, 9)}" if rng.random() < 0.3 else roles.in_words(n) if rng.random() < 0.3 else str(n)
    return f"{text} {rng.choice(units)}"


_DAYS = """first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth fourteenth
fifteenth sixteenth seventeenth eighteenth nineteenth twentieth twenty-first twenty-second twenty-third twenty-fourth
twenty-fifth twenty-sixth twenty-seventh twenty-eighth""".split()
KINDS = {
    "n": described,
    "noun": noun,
    "an": lambda rng: a(described(rng)),
    "the": lambda rng: "the " + described(rng),
    "ns": lambda rng: plural(noun(rng)),
    "num_ns": lambda rng: f"{roles.in_words(rng.randint(2, 20))} {plural(noun(rng))}",
    "stuff": stuff,
    "num": count,
    "few": lambda rng: roles.in_words(rng.randint(2, 19)),
    "dur": roles.duration,
    "short": lambda rng: roles.duration(rng, False),
    "often": roles.frequency,
    "sum": plain_sum,
    "money": money,
    "time": hour,
    "days": lambda rng: rng.choice(prose_values.WEEKDAYS) + "s",
    "month": lambda rng: rng.choice(prose_values.MONTHS),
    "when": when,
    "past": past,
    "soon": soon,
    "who": named,
    "titled": titled,
    "trader": lambda rng: "the " + rng.choice(nouns.PEOPLE),
    "job": lambda rng: rng.choice(nouns.PEOPLE),
    "kinship": lambda rng: rng.choice(nouns.KIN),
    "spot": spot,
    "hall": room,
    "why": why_then,
    "cause": why_now,
    "cond": condition,
    "act": deed,
    "doing": lambda rng: (lambda words: forms(words[0])[4] + " " + words[1])(deed(rng).split(" ", 1)),
    "shade": roles.colour,
    "beast2": lambda rng: spaced(rng.choice(nouns.COUNT["animals"])),
    "saying": lambda rng: rng.choice(lists.SAYINGS),
    "cm": lambda rng: _measure(rng, ("cm", "cm", "centimetres", "inches", "mm"), 4, 240),
    "metre": lambda rng: _measure(rng, ("metres", "m", "feet", "yards"), 2, 90),
    "way": lambda rng: _measure(rng, ("kilometres", "miles", "km", "leagues"), 2, 90),
    "kg": lambda rng: _measure(rng, ("kg", "kilos", "pounds", "tons", "grams"), 2, 90),
    "litre": lambda rng: _measure(rng, ("litres", "pints", "gallons", "cups"), 2, 30),
    "bar": lambda rng: f"{rng.randint(1, 19)}.{rng.randint(1, 9)}",
    "boat": roles.proper,
    "ordinal": lambda rng: roles.ordinal(rng.randint(2, 12)),
    "day": lambda rng: "the " + rng.choice(_DAYS),
    "building": lambda rng: a(spaced(rng.choice(nouns.COUNT["buildings"]).rstrip("*"))),
    "skill": lambda rng: rng.choice(lists.SKILLS),
    "ailment": lambda rng: rng.choice(lists.AILMENTS),
    "name2": lambda rng: rng.choice(lists.PROPER) if rng.random() < 0.2 else invented.name(rng),
    "part": lambda rng: rng.choice("""lid handle wheel drawer pedal string gear lamp bell spring hinge shelf leg cord
chain tube valve belt strap key switch pipe seat pocket sleeve spoke rung window blade zip wing""".split()),
    "many_food": lambda rng: rng.choice(lists.FOOD_PIECES),
    "vessel": lambda rng: rng.choice(lists.VESSELS),
    "kitchen": lambda rng: rng.choice(lists.KITCHEN),
    "event2": lambda rng: a(f"{rng.choice(nouns.EVENT_ADJECTIVES)} {spaced(rng.choice(nouns.COUNT['events']))}"),
}

