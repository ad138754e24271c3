#!/usr/bin/env python3
"""Writes older.json: what transformers makes of vocab.json with merges.txt, what tiktoken makes of its
own files, and what transformers 5 makes of a LlamaTokenizer. The vocabularies are those of
components.json. Needs transformers 5.24, tokenizers 0.23 and tiktoken 0.14.
"""

import base64
import json
import os
import tempfile

import tiktoken
import transformers

from make_goldens import LLAMA3

HERE = os.path.dirname(os.path.abspath(__file__))


def write(folder, name, content):
    with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
        file.write(content if isinstance(content, str) else json.dumps(content))


def ids_of(tokenizer, texts):
    return [tokenizer.encode(text, add_special_tokens=False) for text in texts]


def merge_pairs(base):
    return [merge if isinstance(merge, list) else merge.split(" ")
            for merge in base["model"]["merges"]]


def vocab_and_merges(base, texts):
    """Qwen2Tokenizer and GPT2Tokenizer of a folder without tokenizer.json."""
    cases = []
    merges = "#version: 0.2\n" + "\n".join(" ".join(pair) for pair in merge_pairs(base)) + "\n"
    for config in ({"tokenizer_class": "Qwen2Tokenizer", "eos_token": "<|im_end|>",
                    "pad_token": "<|endoftext|>",
                    "additional_special_tokens": ["<|im_start|>", "<|im_end|>"]},
                   {"tokenizer_class": "Qwen2Tokenizer",
                    "added_tokens_decoder": {"420": {"content": "<|im_start|>", "special": True},
                                             "421": {"content": "<sep>", "special": False}}},
                   {"tokenizer_class": "GPT2Tokenizer", "add_prefix_space": True},
                   {"tokenizer_class": "GPT2Tokenizer"}):
        with tempfile.TemporaryDirectory() as folder:
            write(folder, "vocab.json", base["model"]["vocab"])
            write(folder, "merges.txt", merges)
            write(folder, "tokenizer_config.json", config)
            tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        cases.append({"config": config, "ids": ids_of(tokenizer, texts)})
    return {"merges": merges, "cases": cases}


def tiktoken_case(base, texts):
    """The base's tokens as tiktoken ranks them: bytes, then merges."""
    alphabet = [chr(c) for c in (*range(33, 127), *range(161, 173), *range(174, 256))]
    of_char = {c: ord(c) for c in alphabet}
    for byte in range(256):
        if byte not in of_char.values():
            of_char[chr(256 + len(of_char) - len(alphabet))] = byte
    tokens = [bytes([byte]) for byte in range(256)]
    for left, right in merge_pairs(base):
        token = bytes(of_char[c] for c in left + right)
        if token not in tokens:
            tokens.append(token)
    special = {"<|im_start|>": len(tokens), "<s>": len(tokens) + 3}
    encoding = tiktoken.Encoding("test", pat_str=LLAMA3, special_tokens=special,
                                 mergeable_ranks={token: rank for rank, token in enumerate(tokens)})
    lines = "".join(f"{base64.b64encode(token).decode()} {rank}\n"
                    for rank, token in enumerate(tokens))
    return {"file": lines, "special": special,
            "ids": [encoding.encode(text, allowed_special="all") for text in texts]}


def llama_cases(base, texts):
    """LlamaTokenizer of transformers 5, which goes by its own rules."""
    cases = []
    for config in ({"legacy": False}, {"legacy": True}, {}, {"add_prefix_space": False}):
        config = dict(config, tokenizer_class="LlamaTokenizer", bos_token="<s>", eos_token="</s>",
                      unk_token="<unk>")
        with tempfile.TemporaryDirectory() as folder:
            write(folder, "tokenizer.json", base)
            write(folder, "tokenizer_config.json", config)
            tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        ids = ids_of(tokenizer, texts)
        cases.append({"config": config, "ids": ids,
                      "decoded": [tokenizer.decode(i, skip_special_tokens=False) for i in ids]})
    return cases


def main():
    with open(os.path.join(HERE, "components.json")) as file:
        components = json.load(file)
    byte_level, metaspace = (family["tokenizer"] for family in components["families"])
    texts = components["texts"] + ["<|im_start|>user\nhi<|im_end|> <|endoftext|>", "a<s> b</s>c",
                                   "  two", "<s>  x", "\u2581y 12345 \u00e9e\u0301"]
    with open(os.path.join(HERE, "older.json"), "w") as file:
        json.dump({"texts": texts, "vocab_and_merges": vocab_and_merges(byte_level, texts),
                   "tiktoken": tiktoken_case(byte_level, texts),
                   "llama_transformers5": llama_cases(metaspace, texts)},
                  file, ensure_ascii=True, separators=(",", ":"))
        file.write("\n")


if __name__ == "__main__":
    main()
