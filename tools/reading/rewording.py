"""Documents whose words are others: nouns and adjectives that lists have become other ones, rare ones or invented ones,
the same in the text and in what is asked. A base that knows what a list holds would guess; so it has to copy.

What sentences and questions are made of (is made of, costs, the rent) stays as it is."""

import bisect
import re

import clause_lists as lists
import clause_nouns as nouns
import clause_scenes
import clause_traits
import facts
import invented
import prose
import prose_values
import traits_life
import traits_public
import traits_things
import values
import word_lists
from clause_grammar import plural

_WORD = re.compile(r"[A-Za-z]+")
_SLOT = re.compile(r"\{[^}]*\}|\w+=\w+")
# What questions call things by, beside the lines of traits and forms.
_KEPT = """instrument animal vehicle machine plant dish tool building event boat one two half whole day night week month
year hour minute time water people children pounds marks crowns three four five six seven eight nine ten eleven twelve
hundred half first second third last out the and with for made own clock pair""".split()


def _fixed_words():
    """Those of lines that are said and asked as they stand."""
    texts = [module.TEXT for module in (traits_things, traits_life, traits_public, *prose.MODULES)]
    texts.append(traits_things.PART_TEXT)
    texts.append(" ".join(line for table in (clause_scenes.OPENINGS, clause_scenes.CLOSINGS, clause_scenes.OPENING_ASKS,
                                             clause_scenes.CLOSING_ASKS) for line in map(str, table.values())))
    found = {word for text in texts for word in _WORD.findall(_SLOT.sub(" ", text).lower())}
    return found | set(_KEPT) | clause_traits.VERB_FORMS


def _words_of(lists_of_words):
    return {word for words in lists_of_words for entry in words for word in _WORD.findall(entry.lower())
            if len(word) > 2}


_NOUNS = _words_of([*nouns.COUNT.values(), *nouns.MASS.values(), nouns.PEOPLE, nouns.ROOMS, nouns.HOLDERS, nouns.SHAPES,
                    nouns.COLOURS, lists.WOOD, *lists.MATERIALS.values(), lists.FOOD_PIECES, lists.EXTRAS,
                    lists.SMALL_PARTS, values.GOODS, values.ANIMALS, values.THINGS, values.TRADES, values.COLOURS,
                    prose_values.FOODS, prose_values.OBJECTS, prose_values.PRODUCTS, prose_values.MATERIALS,
                    prose_values.PLANTS, prose_values.ROOMS])
_ADJECTIVES = _words_of([*nouns.ADJECTIVES_OF.values(), nouns.ADJECTIVES, nouns.ANIMAL_ADJECTIVES,
                         nouns.PERSON_ADJECTIVES, values.ADJECTIVES, nouns.SHADES])
_FIXED = _fixed_words()
# By a word: whether it is an adjective, and whether it is of several. A singular stands behind its plural.
_OLD = {}
for _word in sorted((_NOUNS | _ADJECTIVES) - _FIXED):
    _OLD[_word] = (_word in _ADJECTIVES and _word not in _NOUNS, "")
for _word in sorted(_NOUNS - _FIXED):
    if plural(_word) not in _FIXED and plural(_word) != _word:
        _OLD[plural(_word)] = (False, _word)
_COMMON = [word for word in word_lists.NOUNS if word not in _FIXED]
_RARE = [word for word in word_lists.RARE if word not in _FIXED]
_MANNERS = [word for word in word_lists.ADJECTIVES if word not in _FIXED]


def _same_article(old, new):
    return (old[0] in "aeiou") == (new[0] in "aeiou")


class Rewording:
    """Other words for those of a document: of each always the same, and no word for two."""

    def __init__(self, rng, text):
        self.rng = rng
        self.share = rng.choice((0.4, 0.7, 1.0))
        self.mix = rng.choice(((1, 0, 0), (0, 1, 0), (0, 0, 1), (1, 1, 1), (1, 1, 1), (1, 2, 2)))
        self.taken = set(_WORD.findall(text.lower()))
        self.made = {}

    def _fresh(self, old, is_adjective):
        rng = self.rng
        for _ in range(60):
            kind, = rng.choices(range(3), self.mix)
            new = invented.word(rng) if kind == 2 else rng.choice(
                _MANNERS if is_adjective and rng.random() < 0.7 else (_COMMON, _RARE)[kind])
            if new not in self.taken and plural(new) not in self.taken and _same_article(old, new) and \
                    new not in _OLD and plural(new) not in _OLD:
                self.taken |= {new, plural(new)}
                return new
        return old

    def _other(self, word):
        is_adjective, one = _OLD[word]
        if one and one in _OLD:
            new = self.of(one)
            return word if new == one else plural(new)
        return word if self.rng.random() > self.share else self._fresh(word, is_adjective)

    def of(self, word):
        """Of a small word."""
        if word not in self.made:
            self.made[word] = self._other(word)
        return self.made[word]

    def _replaced(self, match):
        word = match[0]
        small = word.lower()
        if small not in _OLD:
            return word
        new = self.of(small)
        return new if word == small else new.upper() if word.isupper() and len(word) > 1 else new.capitalize()

    def text(self, text):
        return _WORD.sub(self._replaced, text)


class _Places:
    """Where what stood at a place of the old text stands in the new one, and back."""

    def __init__(self, old, rewording):
        self.old_begins, self.old_ends, self.new_begins, self.new_ends = [0], [0], [0], [0]
        parts, last, at = [], 0, 0
        for match in _WORD.finditer(old):
            new = rewording._replaced(match)
            if new != match[0]:
                parts += [old[last:match.start()], new]
                at += match.start() - last
                self.old_begins.append(match.start())
                self.old_ends.append(match.end())
                self.new_begins.append(at)
                at += len(new)
                self.new_ends.append(at)
                last = match.end()
        self.text = "".join(parts + [old[last:]])

    @staticmethod
    def _moved(place, begins, ends, to_begins, to_ends, to_end):
        i = bisect.bisect_right(begins, place) - 1
        if place < ends[i]:  # within a word that is another
            return to_ends[i] if to_end and place > begins[i] else to_begins[i]
        return to_ends[i] + place - ends[i]

    def new(self, place):
        return self._moved(place, self.old_begins, self.old_ends, self.new_begins, self.new_ends, False)

    def old(self, place, to_end):
        return self._moved(place, self.new_begins, self.new_ends, self.old_begins, self.old_ends, to_end)


class _Sentence:
    __slots__ = ("text",)

    def __init__(self, text):
        self.text = text


class _Fact:
    """A fact of the document, in its words."""
    __slots__ = ("fact", "rewording")

    def __init__(self, fact, rewording):
        self.fact, self.rewording = fact, rewording

    def question(self, rng):
        question, answer = self.fact.question(rng)
        return self.rewording.text(question), self.rewording.text(answer)

    def statement(self, rng):
        return self.rewording.text(self.fact.statement(rng))


class Reworded:
    """A document of prose or of clauses in other words."""

    def __init__(self, document, rng):
        text, spans = document.render()
        self.document = document
        self.rewording = Rewording(rng, text)
        self.places = _Places(text, self.rewording)
        self.text = self.places.text
        self.spans = [(self.places.new(begin), self.places.new(end)) for begin, end in spans]

    @property
    def sentences(self):
        return [_Sentence(self.text[begin:end]) for begin, end in self.spans]

    def render(self):
        return self.text, self.spans

    def facts_within(self, spans, begin, end):
        old = self.document.render()[1]
        found = self.document.facts_within(old, self.places.old(begin, True), self.places.old(end, False))
        return [_Fact(fact, self.rewording) for fact in found]

    def questions(self, count):
        say, new = self.rewording.text, self.places.new
        return [(say(question), say(answer), new(begin), new(end))
                for question, answer, begin, end in self.document.questions(count)]
