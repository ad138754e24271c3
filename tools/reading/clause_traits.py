"""What things, persons, animals, events and buildings are like. A line:

    classes | predicate; predicate | kind of value | question / question

{v} is the value, {av} is it with its article, {w} another of the second kind, {aw} this one with its article; {s} is
the subject, {ps} its possessive, {so} its name as a possessive; a verb in <> agrees with the subject. A predicate
that begins with ! is a sentence of its own. A question asks for {v}, or for what stands before its colon: w, or s for
the subject. A line that begins with two spaces goes on."""

import re

import clause_grammar
import traits_life
import traits_public
import traits_things

_AGREE = {"is": ("is", "are", "am"), "was": ("was", "were", "was"), "has": ("has", "have", "have"),
          "does": ("does", "do", "do"), "do": ("does", "do", "do"), "it": ("it", "them", "me"), "will": ("will",) * 3,
          "must": ("must",) * 3, "may": ("may",) * 3, "should": ("should",) * 3, "can": ("can",) * 3, "grew": ("grew",) * 3, "used": ("used",) * 3,
          "took": ("took",) * 3, "started": ("started",) * 3, "lay": ("lay",) * 3, "lost": ("lost",) * 3,
          "won": ("won",) * 3}
KEYS_OF = {}  # by a verb's form, the keys of verbs that have it
for _verb in (verb for table in clause_grammar.TABLES for verb in table):
    for _form in (form for name in _verb.names for form in clause_grammar.forms(name)):
        KEYS_OF.setdefault(_form, set()).add(_verb.key)
VERB_FORMS = frozenset(form for name in KEYS_OF for form in name.split(" "))
for _word in "make makes made work open do have has had put".split():  # said of too much
    KEYS_OF.pop(_word, None)
_VERB = re.compile(r"<(\w+)>")


def agreeing(text, agree):
    text = text.replace("<can> not", "cannot")

    def verb(match):
        word = match[1]
        if word in _AGREE:
            return _AGREE[word][agree]
        return word if agree else word[:-1] + "ies" if word[-1] == "y" and word[-2] not in "aeiou" else word + (
            "es" if word.endswith(("s", "sh", "ch", "o")) else "s")
    return _VERB.sub(verb, text)


def _ask(text):
    """(what is asked for, the question)"""
    return tuple(text.split(":", 1)) if text[:2] in ("w:", "s:") else ("aw", text[3:]) if text[:3] == "aw:" else ("v",
                                                                                                                  text)


class Trait:
    """A line, for subjects of one, of several and for I."""
    __slots__ = ("says", "kind", "more", "asks", "marks")

    def __init__(self, columns):
        says, kinds, asks = columns
        self.kind, _, self.more = kinds.partition(" ")
        self.says = [[agreeing(say.strip(), agree) for say in re.split(r"; ", says)] for agree in range(3)]
        self.asks = [[_ask(agreeing(ask.strip(), agree)) for ask in asks.split(" / ")] for agree in range(2)]
        # What no other trait or clause of the same thing may answer: its questions, and their verbs.
        words = {word.strip("?") for _, ask in self.asks[0] for word in ask.split(" ")}
        self.marks = frozenset({ask
                                for _, ask in self.asks[0]
                                }.union(*(KEYS_OF.get(word, ()) for word in words),
                                        ("make", ) if any(ask[:8] == "Who made" or ask[:9] == "Who makes"
                                                          for _, ask in self.asks[0]) else ()))


def _by_class(table):
    made = {}
    for line in table.strip().replace("\n  ", " ").split("\n"):
        classes, *columns = [column.strip() for column in line.split(" | ")]
        trait = Trait(columns)
        for name in classes.split():
            made.setdefault(name, []).append(trait)
    return made


BY_CLASS = _by_class("\n".join(module.TEXT.strip() for module in (traits_things, traits_life, traits_public)))
BY_CLASS["boats"] += BY_CLASS["vehicles"]
BY_CLASS["texts"] += [trait for trait in BY_CLASS["papers"] if trait.kind in ("number", "tongue", "topic", "year")]
BY_CLASS["texts"] += [trait for trait in BY_CLASS["works"] if trait.kind in ("person", "town", "age")]
BY_CLASS["dogs"] = BY_CLASS["animals"]
OF_PARTS = _by_class(traits_things.PART_TEXT)
PART_NAMES = {line.split(":")[0]: line.split(":")[1].split() for line in traits_things.PARTS.strip().split("\n")}
