"""Blocks of a document of clauses that are about persons, what is said, and dialogues."""

import clause_scenes as scenes
from clause_grammar import MOTION, PERSON, STAY, capital
from clause_speech import joined
from clause_things import ThingBlocks

_TALKS = ("person", "person", "stay", "traits", "happening", "thing", "animal")


class Blocks(ThingBlocks):
    """Each block_ adds sentences to the text, or none."""

    def block_person(self, table=PERSON):
        rng, subject = self.rng, self.a_subject()
        self._start()
        facts, mood = [], self.mood()
        for _ in range(rng.choice((1, 1, 1, 2, 2, 3))):
            kind = rng.random()
            fact = self.clause(subject, table if kind < 0.75 else STAY if kind < 0.85 else MOTION, mood)
            if fact:
                facts.append(fact)
        if not facts:
            return
        if len(facts) > 1:
            for fact in facts:
                fact.passive = False
            says = [self.clause_text(facts[0])]
            says += [self.predicate(fact) for fact in facts[1:]]
            draw = rng.random()
            if draw < 0.2 and subject is not self.speaker:
                text = f"{says[0]}; {subject.pronoun} {joined(says[1:], rng)}"
            elif draw < 0.35 and len(says) == 2:
                text = f"{says[0]}, but {says[1]}" if draw < 0.28 else f"{says[0]} and then {says[1]}"
            else:
                text = joined(says, rng)
            self.add(self._shortened(text), subject)
        else:
            fact = facts[0]
            reason = self._reason_apart(fact)
            text = self.clause_text(fact)
            link = rng.choice(scenes.LINKS) + ", " if self.text[-1:] == "." and rng.random() < 0.1 else ""
            if link and not text.startswith("I "):
                text = link + text
            obj = fact.object
            is_alone = not reason and not fact.passive and not fact.roles
            if obj and is_alone and rng.random() < 0.4 and obj is not self.speaker:
                about = self.trait(obj)
                say = self._trait_words(about) if about else ""
                if say:
                    say = self._said_trait(about, say)
                    self.pending.append(about)
                    text += (", who " if obj.is_person else ", which ") + say
            elif not reason and rng.random() < 0.15:
                other = self.other_person(subject)
                second = self.clause(other, PERSON, fact.mood)
                if second:
                    text += rng.choice((", and ", "; ", ", while ", ", but ")) + self.clause_text(second, False)
            self.add(self._shortened(text), subject)
            if reason:
                self._start()
                self.add(rng.choice(scenes.REASONS).replace("{why}", reason.value), subject)
                fact.roles.append(reason)
                fact.end = len(self.text)
            elif obj and rng.random() < 0.25 and not obj.is_person:
                self.block_traits_of(obj, rng.choice((1, 1, 2)))

    def _reason_apart(self, fact):
        """The reason, if a sentence of its own is to tell it."""
        reason = next((role for role in fact.roles if role.letter == "r" and role.before == "because"), None)
        if not reason or self.rng.random() < 0.6:
            return None
        fact.roles = [role for role in fact.roles if role is not reason]
        return reason

    def _shortened(self, text):
        """As a diary has it: left at dawn."""
        is_short = self.is_terse and text[:2] == "I " and text[:4] != "I am" and self.rng.random() < 0.5
        return text[2:] if is_short else text

    def block_stay(self):
        self.block_person(self.rng.choice((STAY, MOTION)))

    def block_traits(self):
        subject = self.a_subject()
        subject = self.speaker if subject is self.we else subject
        self.block_traits_of(subject, self.rng.choice((1, 2, 2, 3, 4)))

    def block_said(self):
        rng, who, subject = self.rng, self.somebody(), self.somebody()
        if who is subject or who is self.speaker:
            return
        self._start()
        said = self.refer(who, "object")
        fact = self.clause(subject, PERSON, self.mood())
        if fact and said not in ("her", "him", "them"):
            text = self.clause_text(fact, False)
            self.add(rng.choice(scenes.SAID).replace("{who}", said).replace("{it}", text), None)
        elif not fact:
            who.known = who.known and who.at < self.begin

    def block_item(self):
        if not self.text.endswith("\n"):
            self.text += "\n"
        self.items = getattr(self, "items", 0) + 1
        self.text += f"{self.items}. "
        self.topic = None
        getattr(self, self.rng.choice(("block_person", "block_event", "block_building", "block_happening")))()

    def block_aside(self):
        rng = self.rng
        self._start()
        text = rng.choice(self.asides) if self.asides and rng.random() < 0.6 else rng.choice(scenes.ASIDES)
        self.add(text.strip())

    def block_talk(self):
        """Two speak in turns."""
        rng = self.rng
        style = rng.randrange(3)
        two = [self.person(plain=style == 0), self.person()]
        if style == 0:
            two[1] = self.person(plain=True)
        last_speaker, self.speaker = self.speaker, None
        if self.text and not self.text.endswith("\n"):
            self.text += "\n\n"
        for i in range(rng.randint(3, 8)):
            speaker = two[i % 2]
            self._start()
            self.topic = None
            first = len(self.facts)
            tag_begin = len(self.text)
            name = self.refer(speaker, "object")
            name = name if style == 1 else name.rstrip(",")
            if not speaker.answer or speaker.answer not in name:
                name = speaker.name
            self.speaker = speaker
            verb = rng.choice(("said", "said", "answered", "replied", "murmured", "cried", "explained"))
            reply = rng.choice(scenes.REPLIES) if rng.random() < 0.4 else ""
            self.text += (f"{name}:" if style == 0 else f"{capital(name)} {verb}: \"" if style == 1 else "\"")
            self.text += " " + reply if style == 0 and reply else reply
            self.is_glued = style > 0 and not reply
            at = len(self.text)
            while len(self.text) == at:
                getattr(self, "block_" + rng.choice(_TALKS))()
            if style == 2:
                is_short = self.text.endswith("Co.")
                ended = self.text + "," if is_short else self.text[:-1] + "," if self.text[-1] == "." else self.text
                self.text = f"{ended}\" {verb} {name}."
            elif style:
                self.text += "\""
            for fact in self.facts[first:]:
                fact.begin, fact.end = min(fact.begin, tag_begin), len(self.text)
            self.text += "\n" if style == 0 and rng.random() < 0.5 else "\n\n"
            self.speaker = None
        self.speaker = last_speaker
