"""Names and words that no list has, in shapes that real ones have: what has them can only be copied."""

import values

_ONSETS = """b b bl br c c ch cl cr d d dr f f fl fr g g gl gr h h j k k l l m m n n p p ph pl pr qu r r s s sc sh sk sl
sm sn sp st str sw t t th tr tw v w wh y z""".split()
_INNER = "b bb br c ck d dd dr f ff g gg k l l ll lb ld lm lt lv m m mb mm mp n n nd ng nk nn nt p pp r r rd rg rk rl " \
         "rm rn rr rt rv s sk ss st t th tt tr v x z zz".split()
_VOWELS = "a a a e e e i i i o o o u u ai au ea ee ei ie oa oo ou y".split()
_SHORT = "a a e e i i o o u".split()
_CODAS = "b ck d ft g l ld lk ll lm lt m mp n nd ng nk nt p pt r rd rk rl rm rn rp rt s sh sk ss st t tch th x".split()
_FIRST_ENDS = """a a a ah el en ette ia ie ika in ina ine is ita itha o ola on or ric rin rio us wen win y bert mund na
lda ric vy thea""".split()
_LAST_ENDS = """a ard aro bury by combe cott croft den der dge ell ello elli en er eras ers ez field ford gate gren ham
ic ini ison ky ley low man mann moor more oda olo ova ow quist rup sen ski son stad stone ström thwaite ton ulu uya vic
well wick win wood worth yan zky""".split()
_PLACE_ENDS = """a aven bach berg borough bourne bridge brook burg bury by chester combe cote dale den don esk field
ford gate ham haven heim hill holm holt hurst ia ing ingen isk ley low mere minster mouth ness o ow port rup sea stad
stead sted stow strand thorpe ton vik ville wald well wich wick wood worth""".split()
_WORD_ENDS = "le er ow y in ick et on age ard ell een ish ock and oot um a o ing".split()


def _syllable(rng):
    return rng.choice(_ONSETS) + rng.choice(_VOWELS)


def _stem(rng):
    """Ends in consonants."""
    begin = rng.choice(_SHORT) if rng.random() < 0.15 else _syllable(rng)
    stem = begin + rng.choice(_INNER)
    return stem + rng.choice(_SHORT) + rng.choice(_INNER) if rng.random() < 0.3 else stem


def word(rng):
    """As a noun of everyday: splonk, tarrow."""
    if rng.random() < 0.5:
        return _syllable(rng) + rng.choice(_CODAS)
    return _stem(rng) + rng.choice(_WORD_ENDS)


def _name(rng, ends):
    if rng.random() < 0.3:
        return values.made_name(rng)
    stem, end = _stem(rng), rng.choice(ends)
    if end[0] not in "aeiou" and stem[-2] not in "aeiou":
        stem = stem[:-1]
    return (stem + end).capitalize()


def first_name(rng):
    return _name(rng, _FIRST_ENDS)


def surname(rng):
    draw = rng.random()
    name = _name(rng, _LAST_ENDS)
    if draw < 0.03:
        return rng.choice(("Mc", "O'", "Fitz")) + name
    if draw < 0.06:
        return f"{name}-{_name(rng, _LAST_ENDS)}"
    return rng.choice(("van ", "de ", "von ", "di ")) + name if draw < 0.09 else name


def place(rng):
    draw = rng.random()
    if draw < 0.3:
        return values.place(rng)
    name = _name(rng, _PLACE_ENDS)
    if draw < 0.36:
        return rng.choice(("St ", "Upper ", "Lower ", "Great ", "Little ", "Port ", "Old ", "Bad ", "West ")) + name
    return name


def name(rng):
    """Of anything."""
    return _name(rng, rng.choice((_FIRST_ENDS, _LAST_ENDS, _PLACE_ENDS)))
