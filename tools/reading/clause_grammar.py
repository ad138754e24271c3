"""Forms of words, the things and persons that clauses are about, and how roles of clauses are asked for."""

import re

import clause_nouns as nouns
import verbs_other
import verbs_people

VOWELS = "aeiou"
_AN = re.compile(r"^(?!one\b|eu)(?:hour|honest|heir|[aeio]|un[^i]|u[^nst])", re.I)
_PLURALS = {"shelf": "shelves", "knife": "knives", "calf": "calves", "loaf": "loaves", "scarf": "scarves",
            "goose": "geese", "mouse": "mice", "child": "children", "sheep": "sheep", "deer": "deer", "foal": "foals",
            "piano": "pianos", "cello": "cellos", "banjo": "banjos", "radio": "radios", "photograph": "photographs",
            "diploma": "diplomas", "carp": "carp", "goldfish": "goldfish", "cactus": "cacti", "pike": "pike", "trout": "trout", "staircase": "staircases",
            "pair-of-spectacles": "pairs of spectacles", "cup-and-saucer": "cups and saucers", "canoe": "canoes"}
KEPT_HYPHENS = {
    "second-hand", "hand-made", "one-eyed", "three-legged", "bad-tempered", "one-armed", "left-handed",
    "brother-in-law", "sister-in-law", "great-aunt", "great-uncle", "mother-of-pearl", "hand-driven", "three-wheeled",
    "well-oiled", "two-seated", "out-of-tune", "blue-rimmed", "long-handled", "brand-new", "life-size", "two-part",
    "half-timbered", "white-washed", "red-roofed"
}


def spaced(word):
    return word if word in KEPT_HYPHENS else word.replace("-", " ")


def pair(noun):
    """Of a thing that stands in the plural alone: scissors, gloves."""
    return noun if noun.endswith("s") and not noun.endswith("ss") else plural(noun)


def plural(noun):
    if noun in _PLURALS:
        return _PLURALS[noun]
    if noun.endswith(("s", "x", "ch", "sh")):
        return noun + "es"
    if noun.endswith("y") and noun[-2] not in VOWELS:
        return noun[:-1] + "ies"
    return noun + "s"


def a(words):
    return ("an " if _AN.match(words) else "a ") + words


def owned(name):
    return name + ("'" if name.endswith("s") else "'s")


_IRREGULAR = {row.split()[0]: row.split() for row in verbs_other.IRREGULAR.replace("\n", "").split(";")}


def _forms(lemma):
    """Base, third person, past, participle and -ing form; of several words the first is the verb."""
    verb, _, rest = lemma.partition(" ")
    rest = " " + rest if rest else ""
    if verb.endswith(("s", "x", "ch", "sh", "z", "o")):
        third = verb + "es"
    elif verb.endswith("y") and verb[-2] not in VOWELS:
        third = verb[:-1] + "ies"
    else:
        third = {"be": "is", "have": "has"}.get(verb, verb + "s")
    if verb in verbs_other.DOUBLED:
        past, ing = verb + verb[-1] + "ed", verb + verb[-1] + "ing"
    elif verb.endswith("e"):
        past, ing = verb + "d", (verb if verb.endswith(("ee", "oe", "ye")) else verb[:-1]) + "ing"
        if verb.endswith("ie"):
            ing = verb[:-2] + "ying"
    elif verb.endswith("y") and verb[-2] not in VOWELS:
        past, ing = verb[:-1] + "ied", verb + "ing"
    else:
        past, ing = verb + "ed", verb + "ing"
    if verb in ("cut", "put", "set", "run", "win", "dig", "get", "sit", "swim", "let", "shut", "hit", "spin", "split"):
        ing = verb + verb[-1] + "ing"
    part = past
    if verb in _IRREGULAR:
        _, past, part = _IRREGULAR[verb]
    return tuple(form + rest for form in (verb, third, past, part, ing))


_CACHE = {}


def forms(lemma):
    if lemma not in _CACHE:
        _CACHE[lemma] = _forms(lemma)
    return _CACHE[lemma]


_BE = {"past": ("was", "were", "was"), "present": ("is", "are", "am")}
_MODALS = {"future": "will", "must": "must", "can": "can", "should": "should", "may": "may", "would": "would"}


def verb_phrase(lemma, mood, agree, passive=False):
    """(what stands behind the subject, the auxiliary of a question, what stands behind the subject then). `agree`: 0
    one, 1 several, 2 I."""
    base, third, past, part, _ = forms(lemma)
    if mood in _MODALS:
        rest = "be " + part if passive else base
        return _MODALS[mood] + " " + rest, _MODALS[mood], rest
    if mood == "perfect":
        aux = "has" if agree == 0 else "have"
        rest = "been " + part if passive else part
        return aux + " " + rest, aux, rest
    if passive:
        aux = _BE[mood][agree]
        return aux + " " + part, aux, part
    if mood == "past":
        return past, "did", base
    return (third, "does", base) if agree == 0 else (base, "do", base)


def capital(text):
    return text[:1].upper() + text[1:]


ADJ_OF = nouns.ADJECTIVES


class Thing:
    """What is spoken of. `intro`: at its first mention, where {poss} is the subject's; `name`: from then on; `answer`:
    what is said when it is asked for."""
    __slots__ = ("intro", "name", "head", "asked", "plural", "pronoun", "is_person", "kind", "number", "counted",
                 "whose", "which", "named", "noun", "known", "at", "born", "answer", "used", "said_of")

    def __init__(self, intro, name, head, pronoun="it", is_person=False, kind="", is_plural=False):
        self.intro, self.name, self.head, self.pronoun = intro, name, head, pronoun
        self.is_person, self.kind, self.plural = is_person, kind, is_plural
        self.asked = ""      # its name in questions, where that is another
        self.number, self.counted = "", ""  # eight, bolts
        self.whose, self.which = "", ""     # her uncle's; bridge
        self.named = ""      # what it is that has a name: a ferry
        self.noun = ""
        self.known, self.at = False, 0      # whether the text has named it, and where it did last
        self.born = 0        # where it was named first
        self.answer = ""
        self.used = set()    # verbs and traits that it had
        self.said_of = ""    # a description that the introduction gives: the old cobbler

    @property
    def object_pronoun(self):
        return {"it": "it", "she": "her", "he": "him", "they": "them", "we": "us"}[self.pronoun]

    @property
    def possessive(self):
        return {"it": "its", "she": "her", "he": "his", "they": "their", "we": "our"}[self.pronoun]

    @property
    def agree(self):
        return 1 if self.plural else 0


class Role:
    """A role of a clause: preposition and value, a text or a thing."""
    __slots__ = ("letter", "before", "value", "thing", "kind", "text", "answer")

    def __init__(self, letter, before, value="", thing=None, kind=""):
        self.letter, self.before, self.value, self.thing, self.kind = letter, before, value, thing, kind
        self.text, self.answer = "", value


# By role and kind: (what begins a question, what is left behind), the first is the commonest. Behind the bar: whether
# the answer has its preposition.
ASKS = {
    "p": (True, (("Where", ""),)),
    "p town": (True, (("Where", ""), ("Where", ""), ("In which town", ""), ("In which place", ""))),
    "PLACE": (True, (("Where", ""),)),
    "t": (True, (("When", ""),)),
    "t day": (True, (("When", ""), ("When", ""), ("On which day", ""), ("On what day", ""))),
    "t date": (True, (("When", ""), ("When", ""), ("On what date", ""), ("On which day", ""))),
    "t year": (True, (("When", ""), ("In which year", ""), ("In what year", ""))),
    "t hour": (True, (("When", ""), ("At what time", ""), ("At what time", ""))),
    "d": (False, (("How long", ""), ("For how long", ""))),
    "D": (False, (("In what time", ""), ("Within what time", ""))),
    "m": (False, (("For how much", ""), ("How much", "for"), ("At what price", ""), ("For what price", ""))),
    "w": (False, (("With what", ""), ("What", "with"))),
    "W": (False, (("With what", ""), ("What", "with"))),
    "K": (False, (("With what", ""), ("What", "with"))),
    "E": (False, (("With what", ""), ("What", "with"))),
    "n": (False, (("With what", ""), ("What", "with"))),
    "b": (False, (("For whom", ""), ("Who", "for"))),
    "c": (False, (("With whom", ""), ("Who", "with"), ("In whose company", ""))),
    "r": (False, (("Why", ""), ("Why", ""), ("For what reason", ""))),
    "u": (True, (("Why", ""), ("For what purpose", ""))),
    "f": (False, (("How often", ""),)),
    "k": (True, (("When", ""), ("On what condition", ""), ("In what case", ""))),
    "M": (False, (("What", "of"), ("Out of what", ""), ("Of what", ""))),
    "G": (True, (("Where", ""), ("Where", "to"))),
    "g": (False, (("Where", ""), ("To which place", ""), ("Where", "to"))),
    "s": (False, (("From where", ""), ("Where", "from"))),
    "h": (True, (("How", ""), ("By what means", ""))),
    "o": (False, (("About what", ""), ("What", "about"))),
    "A": (False, (("As what", ""), ("What", "as"))),
    "e": (False, (("How far", ""), ("What distance", ""))),
    "q": (False, (("To whom", ""), ("Who", "to"))),
    "C": (False, (("What colour", ""), ("In what colour", ""))),
    "T": (False, (("Through what", ""), ("What", "through"))),
    "y": (False, (("Until when", ""), ("To what day", ""))),
    "V": (False, (("In what", ""), ("What", "in"))),
    "F": (False, (("In what", ""), ("What", "in"))),
    "L": (False, (("In what", ""), ("What", "in"))),
    "z": (False, (("At what temperature", ""), ("How hot", ""))),
    "TO": (False, (("To whom", ""), ("Who", "to"), ("To whom", ""))),
    "FROM": (False, (("From whom", ""), ("Who", "from"))),
    "FROM firm": (False, (("Where", "from"), ("From whom", ""), ("From which firm", ""))),
}


class Verb:
    __slots__ = ("names", "classes", "optional", "needed", "kind", "key")

    def __init__(self, line, kind):
        columns = [column.strip() for column in line.split("|")]
        self.names = columns[0].split("/")
        self.classes = columns[1].split() if len(columns) > 2 else []
        letters = columns[-1].split()
        self.optional = [letter for group in letters if not group.isupper() or len(group) == 1 for letter in group]
        self.needed = next((group for group in letters if group.isupper() and len(group) > 1), "")
        self.kind, self.key = kind, self.names[0]


def _verbs(table, kind):
    return [Verb(line, kind) for line in table.strip().split("\n")]


PERSON = _verbs(verbs_people.PERSON, "person")
MOTION = _verbs(verbs_people.MOTION, "motion")
STAY = _verbs(verbs_people.STAY, "stay")
THING = _verbs(verbs_other.THING, "thing")
RECIPE = _verbs(verbs_other.RECIPE, "recipe")
ORDER = _verbs(verbs_other.ORDER, "order")
FIRM = _verbs(verbs_other.FIRM, "person")
FORCE = _verbs(verbs_other.FORCE, "person")
CROWD = _verbs(verbs_people.CROWD, "person")
NO_PASSIVE = {
    "search for", "look for", "come across", "make off with", "run after", "run into", "meet", "marry", "call on",
    "go to", "get", "ring up", "perform on", "leave behind", "listen to", "have", "run away from", "put up again",
    "follow", "attend"
}
DATIVE = {
    "give", "lend", "hand", "pass", "send", "post", "show", "offer", "bring", "promise", "sell", "leave", "bequeath"
}
RULE = _verbs(verbs_other.RULE, "rule")
TABLES = (RULE, PERSON, MOTION, STAY, THING, RECIPE, ORDER, FIRM, FORCE, CROWD)
