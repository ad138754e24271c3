"""Documents of natural prose: letters, minutes, product sheets, recipes, notices, reports, dialogues. A form
(forms_*.py) is plain text, line by line:

    form NAME | HEADING, how the form's parts are called in questions
    part SLOT=KIND ...          values of one letter, one meeting: its frames have them, too
    open TEXT / close TEXT      the part's first and last lines; several: one is drawn
    ask SLOT: QUESTION | ...    about the part

    frame SLOT=KIND ...         some sentences, drawn for a part once at most
    say TEXT                    several facts; several lines: one is drawn
    ask SLOT: QUESTION | ...

In a text {slot} is a value, {slot.first} and {slot.last} are names of a person, {slot.many} is the plural of a noun,
{slot.bare} leaves out the article, {Slot} begins with a capital, [a|b|c] is one of these, and \\n a new line. A question is asked
only where it can have one answer: its frame or part is there once in the document, or the question names one of its
values. One that begins with ~ is asked where the document has one part."""

import re
from dataclasses import dataclass, field

import forms_home
import forms_pages_home
import forms_pages_more
import forms_pages_public
import forms_pages_town
import forms_public
import forms_trade
import page_values
import prose_values
from clause_grammar import plural

_TOKENS = re.compile(r"\[|\]|\||\{[^}]*\}|[^\[\]|{}]+")
KINDS = prose_values.KINDS | page_values.KINDS
_ARTICLE = re.compile(r"\b([Aa]) (?=[aeiou])")


def _compiled(text):
    """Strings, ('slot', name, part, is_capital), and lists of alternatives."""
    tokens = _TOKENS.findall(text.replace("\\n", "\n"))

    def sequence(at, is_inner):
        parts = []
        while at < len(tokens) and not (is_inner and tokens[at] in "|]"):
            token = tokens[at]
            at += 1
            if token == "[":
                choices = []
                while tokens[at - 1] != "]":
                    choice, at = sequence(at, True)
                    choices.append(choice)
                    at += 1
                parts.append(choices)
            elif token[0] == "{":
                name, _, part = token[1:-1].partition(".")
                parts.append((name[0].lower() + name[1:], part, name[0].isupper()))
            else:
                parts.append(token)
        return parts, at

    return sequence(0, False)[0]


def _slots_in(parts):
    found = set()
    for part in parts:
        if isinstance(part, tuple):
            found.add(part[0])
        elif isinstance(part, list):
            for choice in part:
                found |= _slots_in(choice)
    return found


def many(noun):
    """A sack of salt: sacks of salt."""
    head, of, rest = noun.partition(" of ")
    return plural(head) + of + rest


_PIECES = {"first": lambda text: text.split(" ")[0], "last": lambda text: text.split(" ")[-1], "many": many,
           "bare": lambda text: text.removeprefix("an ").removeprefix("a ").removeprefix("the ")}


def _whole(words, text):
    return re.search(rf"(?<!\w){re.escape(words)}(?!\w)", text)


def filled(parts, rng, values):
    out = []
    for part in parts:
        if isinstance(part, str):
            out.append(part)
        elif isinstance(part, list):
            out.append(filled(rng.choice(part), rng, values))
        else:
            name, piece, is_capital = part
            value = values[name]
            if piece:
                value = _PIECES[piece](value)
            out.append(value[:1].upper() + value[1:] if is_capital else value)
    return "".join(out)


def said(parts, rng, values):
    """A statement: begun with a capital, with the article that its words want."""
    text = _ARTICLE.sub(r"\1n ", filled(parts, rng, values))
    return text[:1].upper() + text[1:]


@dataclass
class Frame:
    slots: list = field(default_factory=list)  # (name, kind)
    says: list = field(default_factory=list)
    asks: list = field(default_factory=list)  # (slot, question, slots in it, whether of a document of one part alone)

    def add_ask(self, line):
        slot, questions = line.split(":", 1)
        for text in re.split(r" \| ", questions):
            text = text.strip()
            parts = _compiled(text.lstrip("~ "))
            self.asks.append((slot.strip(), parts, _slots_in(parts), text[0] == "~"))


@dataclass
class Form:
    name: str
    part: Frame = field(default_factory=Frame)
    opens: list = field(default_factory=list)
    closes: list = field(default_factory=list)
    frames: list = field(default_factory=list)


def _slots(text):
    slots = [tuple(slot.split("=")) for slot in text.split()]
    for _, kind in slots:
        if kind not in KINDS:
            raise ValueError(f"no kind of value is called {kind}")
    return slots


def parsed(text):
    forms = []
    for line in text.strip().split("\n"):
        word, _, rest = line.strip().partition(" ")
        if word == "form":
            forms.append(Form(rest))
        elif word == "part":
            forms[-1].part.slots = _slots(rest)
        elif word in ("open", "close"):
            (forms[-1].opens if word == "open" else forms[-1].closes).append(_compiled(rest))
        elif word == "frame":
            forms[-1].frames.append(Frame(_slots(rest)))
        elif word == "say":
            forms[-1].frames[-1].says.append(_compiled(rest))
        elif word == "ask":
            (forms[-1].frames[-1] if forms[-1].frames else forms[-1].part).add_ask(rest)
        elif word:
            raise ValueError(f"a form has no line '{line}'")
    return forms


MODULES = (forms_home, forms_public, forms_trade, forms_pages_home, forms_pages_more,
           forms_pages_public, forms_pages_town)
FORMS = [form for module in MODULES for form in parsed(module.TEXT)]


class Asked:
    """A frame or a part of one document, with its values; answers what is asked about it."""

    def __init__(self, frame, values, own):
        self.frame, self.values, self.own = frame, values, own
        self.span = (0, 0)       # of its own sentences
        self.part_span = (0, 0)  # of the letter, the meeting
        self.text = ""
        self.part_text = ""      # in small letters
        self.asks = []           # what can be asked, once the document is written

    def prepare(self, is_only, has_one_part):
        """Keeps what can be asked: with one answer, which the text has."""
        text = self.part_text
        self.asks = [(slot, parts, slots) for slot, parts, slots, needs_one_part in self.frame.asks
                     if (has_one_part if needs_one_part else is_only or slots & self.own)
                     and self.answer(slot, text)]

    def answer(self, slot, text):
        """The value as it stands in the (small) text: a noun that is there in the plural alone is the answer so."""
        value = self.values[slot]
        at = text.find(value.lower())
        if at < 0:
            return ""
        behind = text[at + len(value):at + len(value) + 2]
        if behind[:1].isalpha() and many(value).lower() in text and not _whole(value.lower(), text):
            return many(value)
        return value

    def question(self, rng):
        """(question, answer, begin, end): the answer can be read in text[begin:end]. There must be one (`asks`)."""
        slot, parts, slots = rng.choice(self.asks)
        own = self.text.lower()
        answer = self.answer(slot, self.part_text)
        within = all(self.values[name].lower() in own for name in slots | {slot})
        begin, end = self.span if within else self.part_span
        return said(parts, rng, self.values), answer, begin, end

    def statement(self, rng):
        """Its facts in other words; of a letter or a meeting itself: as it begins."""
        says = self.frame.says
        return said(rng.choice(says), rng, self.values) if says else self.text.split("\n")[0]


class ProseFact:
    """What tasks.py asks for: a question with its answer, and a statement."""

    def __init__(self, asked):
        self.asked = asked

    def question(self, rng):
        return self.asked.question(rng)[:2]

    def statement(self, rng):
        return self.asked.statement(rng)


class ProseWriter:
    """Writes one document of parts of a form, or of several."""

    def __init__(self, rng, asides=()):
        self.rng, self.asides = rng, asides
        self.taken = set()
        self.text = ""
        self.asked = []
        self.counts = {}
        self.num_parts = 0

    def _values(self, slots):
        rng, made = self.rng, {}
        for name, kind in slots:
            for _ in range(20):
                value = KINDS[kind](rng)
                if value not in self.taken:
                    break
            self.taken.add(value)
            made[name] = value
        return made

    def _add(self, frame, text, values, own):
        asked = Asked(frame, values, own)
        asked.span = (len(self.text), len(self.text) + len(text))
        asked.text = text
        self.text += text
        self.counts[id(frame)] = self.counts.get(id(frame), 0) + 1
        self.asked.append(asked)
        return asked

    def _part(self, form, num_chars):
        rng = self.rng
        begin, first = len(self.text), len(self.asked)
        self.num_parts += 1
        values = self._values(form.part.slots)
        if form.opens:
            self.text += filled(rng.choice(form.opens), rng, values) + "\n\n"
        frames = rng.sample(form.frames, len(form.frames))
        count = rng.randint(2, max(3, len(frames)))
        for frame in frames[:count]:
            own = self._values(frame.slots)
            text = said(rng.choice(frame.says), rng, values | own)
            self._add(frame, text, values | own, set(own))
            if self.asides and rng.random() < 0.1:
                self.text += " " + rng.choice(self.asides)
            self.text += "\n\n" if rng.random() < 0.25 or text.endswith(":") else \
                "\n" if text.startswith(("-", "*")) else " "
            if len(self.text) > num_chars and len(self.asked) > first:
                break
        self.text = self.text.rstrip()
        if form.closes:
            self.text += "\n\n" + filled(rng.choice(form.closes), rng, values)
        if form.part.asks:
            about = Asked(form.part, values, set(values))
            about.span = (begin, len(self.text))
            about.text = self.text[begin:]
            self.asked.append(about)
            self.counts[id(form.part)] = self.counts.get(id(form.part), 0) + 1
        for asked in self.asked[first:]:
            asked.part_span = (begin, len(self.text))
            asked.part_text = self.text[begin:].lower()

    def write(self, num_chars):
        rng = self.rng
        forms = rng.sample(FORMS, min(len(FORMS), rng.choice((1, 1, 2, 3, 6))))
        while len(self.text) < num_chars:
            if self.text:
                self.text += rng.choice(("\n\n", "\n\n", "\n\n---\n\n", "\n\n* * *\n\n"))
            self._part(rng.choice(forms), num_chars)
        for asked in self.asked:
            asked.prepare(self.counts[id(asked.frame)] == 1, self.num_parts == 1)
        return self

    @property
    def sentences(self):
        return self.asked  # each has its text

    def render(self):
        return self.text, [asked.span for asked in self.asked]

    def facts_within(self, spans, begin, end):
        return [ProseFact(asked) for asked in self.asked
                if asked.part_span[0] >= begin and asked.part_span[1] <= end and asked.asks]

    def questions(self, count):
        """At most so many (question, answer, begin, end), each question once, in turns over all that was said."""
        rng, made, seen = self.rng, [], set()
        able = [asked for asked in self.asked if asked.asks]
        for _ in range(3):
            for asked in rng.sample(able, len(able)):
                if len(made) == count:
                    return made
                found = asked.question(rng)
                if found[0] not in seen:
                    seen.add(found[0])
                    made.append(found)
        return made
