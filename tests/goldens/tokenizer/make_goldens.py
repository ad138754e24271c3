#!/usr/bin/env python3
"""Writes components.json: for every component of a tokenizer.json that Graft supports, a small
tokenizer, texts and what HF's `tokenizers` package makes of them. Needs that package, version 0.23;
the output changes only with it.
"""

import json
import os

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

HERE = os.path.dirname(os.path.abspath(__file__))

CORPUS = [
    "the quick brown fox jumps over the lazy dog. It's 1984 and we've read 3,141 pages of the book;",
    "don't they'll I'M you're   def main(x):\n\treturn x + 1\n\n  # the end of the function",
    "Ångström naïve café résumé — “quotes” über straße Привет мир, παράδειγμα 你好 世界",
    "hello hello world world the the and and of of in in to to a a is is it it that that",
]
TEXTS = [
    "",
    " ",
    "Hello, world! It's the end.",
    "  leading and trailing   ",
    "tabs\tand\n\nlines\r\n  \n end",
    "I'M, don't, they'LL 1234567 3.14 x_1",
    "naïve café e\u0301 A\u030a Ångström İstanbul ΑΣ ﬁ ２ ½",
    "你好 世界 привет 🙂👩‍👩‍👧 \u00a0\u3000\u200b\u180e",
    "the▁book <s> </s>the <sep>the  <sep>  [M] [M]x hello helloworld",
    "aaaaaaaaaaaaaaaaaaaa      !!!???...",
    "<0x41> <unk>\x00\x7f",
]
BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True,
              "use_regex": False}
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
          r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
GPT4O = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
         r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+"
         r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}"
         r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")


def with_added(base, *tokens):
    """The base's added tokens and more, with the ids that the package gives them."""
    listed = list(base["added_tokens"])
    next_id = len(base["model"]["vocab"])
    for content, flags in tokens:
        token = {"id": base["model"]["vocab"].get(content, next_id), "content": content,
                 "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
                 "special": True}
        token.update(flags)
        listed.append(token)
        next_id += token["id"] == next_id
    return {"added_tokens": listed}


def byte_level_base():
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=420, special_tokens=["<s>", "</s>"],
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
                                  show_progress=False)
    tokenizer.train_from_iterator(CORPUS, trainer)
    return json.loads(tokenizer.to_str())


def metaspace_base():
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    special = ["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256)]
    trainer = trainers.BpeTrainer(vocab_size=480, special_tokens=special, show_progress=False)
    tokenizer.train_from_iterator(CORPUS[:2] + CORPUS[3:], trainer)
    base = json.loads(tokenizer.to_str())
    base["added_tokens"] = base["added_tokens"][:3]
    base["pre_tokenizer"] = None
    base["normalizer"] = sequence("normalizers", {"type": "Prepend", "prepend": "▁"},
                                  replace("String", " ", "▁"))
    base["decoder"] = sequence("decoders", replace("String", "▁", " "), {"type": "ByteFallback"},
                               {"type": "Fuse"},
                               {"type": "Strip", "content": " ", "start": 1, "stop": 0})
    return base


def sequence(field, *members):
    return {"type": "Sequence", field: list(members)}


def replace(kind, pattern, content):
    return {"type": "Replace", "pattern": {kind: pattern}, "content": content}


def split(kind, pattern, behavior, invert=False):
    return {"type": "Split", "pattern": {kind: pattern}, "behavior": behavior, "invert": invert}


def metaspace(scheme, cuts):
    return {"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": cuts}


def with_bytes(*members):
    return {"pre_tokenizer": sequence("pretokenizers", *members, BYTE_LEVEL)}


def byte_level_cases(base):
    end = len(base["model"]["vocab"])
    yield "ByteLevel", {}
    yield "ByteLevel prefix", {"pre_tokenizer": dict(BYTE_LEVEL, add_prefix_space=True,
                                                     use_regex=True)}
    for behavior in ("Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"):
        for invert in (False, True):
            yield f"Split {behavior} {invert}", with_bytes(
                split("Regex", r"\s+|[aeiou]", behavior, invert))
        yield f"Split string {behavior}", with_bytes(split("String", " ", behavior))
        yield f"Punctuation {behavior}", with_bytes({"type": "Punctuation", "behavior": behavior})
    for name, regex in (("Llama 3", LLAMA3), ("GPT-4o", GPT4O), ("words", r"\w+|[^\w\s]+"),
                        ("empty matches", r"x*"), ("lines", r"^\s+|\s+$|.")):
        yield f"regex {name}", with_bytes(split("Regex", regex, "Isolated"))
    yield "Whitespace", with_bytes({"type": "Whitespace"})
    yield "WhitespaceSplit", with_bytes({"type": "WhitespaceSplit"})
    yield "BertPreTokenizer", with_bytes({"type": "BertPreTokenizer"})
    yield "CharDelimiterSplit", with_bytes({"type": "CharDelimiterSplit", "delimiter": "e"})
    for single in (False, True):
        yield f"Digits {single}", with_bytes({"type": "Digits", "individual_digits": single})
    for name in ("NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents"):
        yield name, {"normalizer": {"type": name}}
    yield "normalizer ByteLevel", {"normalizer": {"type": "ByteLevel"}, "pre_tokenizer": None}
    yield "Strip", {"normalizer": {"type": "Strip", "strip_left": True, "strip_right": True}}
    yield "normalizers", {"normalizer": sequence(
        "normalizers", {"type": "NFD"}, {"type": "StripAccents"}, {"type": "Lowercase"},
        replace("Regex", r"\s+", " "))}
    yield "no pre-tokenizer", {"pre_tokenizer": None}
    yield "no decoder", {"decoder": None}
    yield "ignore_merges", {"model": {"ignore_merges": True, "vocab": {"zzqy": end}},
                            "pre_tokenizer": sequence("pretokenizers", BYTE_LEVEL)}
    yield "template", {"post_processor": {
        "type": "TemplateProcessing",
        "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}},
                   {"Sequence": {"id": "A", "type_id": 0}},
                   {"SpecialToken": {"id": "</s>", "type_id": 0}}],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {token: {"id": token, "ids": [i], "tokens": [token]}
                           for i, token in enumerate(("<s>", "</s>"))}}}
    yield "RobertaProcessing", {"post_processor": {
        "type": "RobertaProcessing", "sep": ["</s>", 1], "cls": ["<s>", 0], "trim_offsets": True,
        "add_prefix_space": True}}
    yield "processors", {"post_processor": {"type": "Sequence", "processors": [
        BYTE_LEVEL, {"type": "BertProcessing", "sep": ["</s>", 1], "cls": ["<s>", 0]},
        {"type": "BertProcessing", "sep": ["<s>", 0], "cls": ["</s>", 1]}]}}
    yield "added tokens", with_added(
        base, ("<sep>", {"lstrip": True}), ("[M]", {"rstrip": True}),
        ("hello", {"single_word": True, "special": False}),
        ("don't", {"normalized": True, "special": False}), ("   ", {}))


def metaspace_cases(base):
    tokens = with_added(base, ("<sep>", {"lstrip": True, "rstrip": True}),
                        ("book", {"normalized": True, "special": False}))
    yield "Llama legacy", tokens
    for scheme in ("first", "always", "never"):
        for cuts in (False, True):
            part = metaspace(scheme, cuts)
            yield f"Metaspace {scheme} {cuts}", dict(tokens, normalizer=None, pre_tokenizer=part,
                                                     decoder=part)
    yield "no byte_fallback", {"model": {"byte_fallback": False}}
    yield "no fuse_unk", {"model": {"byte_fallback": False, "fuse_unk": False}}
    yield "no unk_token", {"model": {"byte_fallback": False, "unk_token": None}}
    yield "byte token missing", {"model": {"vocab": {"<0xF0>": None, "<0xE3>": None}}}
    yield "decoder Strip alone", {"decoder": sequence(
        "decoders", replace("String", "▁", " "), {"type": "ByteFallback"},
        {"type": "Strip", "content": " ", "start": 1, "stop": 0})}
    yield "decoder Replace after Fuse", {"decoder": sequence(
        "decoders", {"type": "ByteFallback"}, {"type": "Fuse"}, replace("String", "▁", "  "),
        {"type": "Strip", "content": " ", "start": 2, "stop": 0})}
    yield "decoder Replace by regex", {"decoder": sequence(
        "decoders", replace("Regex", "▁+|e", "<>"), {"type": "ByteFallback"})}


def merge_patch(target, patch):
    """RFC 7396, but that null at the top is kept: a null section says something."""
    for key, value in patch.items():
        if isinstance(value, dict) and isinstance(target.get(key), dict) and key in ("model",
                                                                                     "vocab"):
            merge_patch(target[key], value)
        elif value is None and key.startswith("<0x"):
            target.pop(key)
        else:
            target[key] = value


def case(base, name, patch):
    file = json.loads(json.dumps(base))
    merge_patch(file, patch)
    tokenizer = Tokenizer.from_str(json.dumps(file))
    encodings = [tokenizer.encode(text).ids for text in TEXTS]
    # Ids that no text has: byte tokens that are not UTF-8, every third id of the vocabulary.
    odd = [3 + byte for byte in b"\xe4\xbd\xa0\xff\xf0\x9f"] + list(range(0, 400, 7))
    return {"name": name, "patch": patch, "ids": encodings,
            "decoded": [tokenizer.decode(ids, skip_special_tokens=False) for ids in encodings],
            "odd_ids": odd, "odd_decoded": tokenizer.decode(odd, skip_special_tokens=True)}


def main():
    families = []
    for make, cases in ((byte_level_base, byte_level_cases), (metaspace_base, metaspace_cases)):
        base = make()
        families.append({"tokenizer": base,
                         "cases": [case(base, name, patch) for name, patch in cases(base)]})
    with open(os.path.join(HERE, "components.json"), "w") as file:
        json.dump({"texts": TEXTS, "families": families}, file, ensure_ascii=True,
                  separators=(",", ":"))
        file.write("\n")


if __name__ == "__main__":
    main()
