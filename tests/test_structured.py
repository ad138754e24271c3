"""Answers in a given form: each that ends is valid by its schema, whatever the schema, and a real server binds the demo
model's answers to it."""

import json
import os
import pathlib
import random
import re
import subprocess
import typing

import jsonschema
import openai
import pydantic
import pytest

from conftest import DEMO, ENDS, LONG_TESTS, ROOT, THINKS, Server, binary, model_that_reasons

CONFORMANCE = pathlib.Path(os.environ.get("GRAFT_CONFORMANCE", ROOT.parent / "shared" / "conformance"))
LIBRARY = ROOT / "build" / "grammar" / "libgraft_grammar.so"
needs_library = pytest.mark.skipif(not LIBRARY.exists(), reason="needs libgraft_grammar.so (make grammar)")

# What each followed keyword does, and how they go together.
SCHEMAS = [
    {"type": "object", "properties": {"zeta": {"type": "string"}, "age": {"type": "integer"}}, "required": ["age"]},
    {"type": "object"},
    {"type": "object", "properties": {}},
    {"type": "object", "additionalProperties": {"type": "integer"}, "maxProperties": 3},
    {"type": "object", "patternProperties": {"^x-": {"type": "boolean"}}, "additionalProperties": False},
    {"type": "object", "propertyNames": {"pattern": "^[a-z]{2,4}$"}, "minProperties": 1},
    {"properties": {"a": {}, "b": {}, "c": {"type": "null"}}, "minProperties": 2, "maxProperties": 2},
    {"type": "array", "items": {"type": "boolean"}, "minItems": 2, "maxItems": 5},
    {"type": "array", "prefixItems": [{"const": 1}, {"type": "string"}], "items": False, "minItems": 1},
    {"type": "array", "prefixItems": [{"const": 1}], "minItems": 3},
    {"type": "string", "minLength": 3, "maxLength": 7},
    {"type": "string", "pattern": r"^\d{3}-[^\d]+(\.|x)$"},
    {"type": "string", "pattern": r"b[a-c]d|e"},
    {"type": "string", "format": "date-time"},
    {"type": "string", "format": "uuid"},
    {"type": "integer", "minimum": -3, "exclusiveMaximum": 120},
    {"type": "integer", "multipleOf": 7},
    {"type": "integer", "multipleOf": 7, "minimum": 10, "maximum": 100},
    {"type": "number", "minimum": -2.25, "maximum": 3.5},
    {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 0.5},
    {"type": "number", "minimum": 1000.75},
    {"type": ["string", "null"], "maxLength": 4},
    {"enum": ["a/b", "\"quoted\"", 3, 2.5, None, True, {"k": [1, {}]}, "\u00e9\n"]},
    {"const": {"a": [1, "x"]}},
    {"anyOf": [{"type": "integer"}, {"type": "string", "maxLength": 2}]},
    {"oneOf": [{"type": "object", "properties": {"kind": {"const": kind}, kind: {"type": "number"}},
                "required": ["kind", kind]} for kind in ("cat", "dog")]},
    {"allOf": [{"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
               {"properties": {"b": {"type": "string"}}, "required": ["b"]}]},
    {"$defs": {"node": {"type": "object", "properties": {"value": {"type": "integer"}, "next": {
        "anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]}}, "required": ["value", "next"]}},
     "$ref": "#/$defs/node"},
    True,
]


class Answers:
    """Answers drawn at random under a schema's mask, and whether texts are answers. A build without tests lacks the
    program, and takes the one of the preset dev."""

    def __init__(self):
        program = pathlib.Path(binary()).parent / "schema_answers"
        if not program.exists():
            program = ROOT / "build" / "dev" / "schema_answers"
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, schema, answers=0, texts=()):
        self.process.stdin.write(json.dumps({"schema": schema, "answers": answers, "texts": list(texts)}) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.process.stdin.close()
        assert self.process.wait(60) == 0


def check(schema, validator, found):
    """Every answer that ended is JSON and valid; none was left without a token. How many ended."""
    for answer in found["answers"]:
        assert "stuck" not in answer and "refuses" not in answer, (schema, answer)
        if answer["ended"]:
            error = next(validator.iter_errors(json.loads(answer["text"])), None)
            assert error is None, (schema, answer, error)
    return sum(answer["ended"] for answer in found["answers"])


@needs_library
def test_answers_are_valid_by_their_schemas():
    with Answers() as answers:
        for schema in SCHEMAS:
            found = answers.ask(schema, 12)
            assert "answers" in found, (schema, found)
            assert check(schema, jsonschema.Draft202012Validator(schema), found) >= 6, (schema, found)


@needs_library
def test_white_space_is_bounded():
    with Answers() as answers:
        texts = ['{"a":1}', '{ "a" : 1 }', '{"a": 1}', '{\n"a":\n1\n}', '{"a":  1}', '{"a":1} ', '{\n  "a": 1}']
        found = answers.ask({"type": "object", "properties": {"a": {"type": "integer"}}}, 0, texts)
        assert found["accepted"] == [True] * 4 + [False] * 3


@needs_library
def test_answers_are_utf8():
    """Classes of characters leave out bytes that are none: in the drawn texts those would be U+FFFD."""
    with Answers() as answers:
        for pattern in ("^[^a]$", "^.{2}$", "^[^b]*$", r"^\W$", "^[^a-z]{3}$"):
            found = answers.ask({"type": "string", "pattern": pattern}, 300)["answers"]
            assert [answer for answer in found if "\ufffd" in answer["text"]] == [], pattern


# Of each pattern texts that have a match of it, and texts that have none.
PATTERNS = {
    r"\d{3}": (["123", "ab123cd", "\u00e9 1234"], ["12", "1a23"]),
    "^https://": (["https://", "https://a/b"], ["http://a", "see https://a"]),
    "b$": (["b", "ab"], ["ba", ""]),
    "^[A-Z]": (["A", "Ab"], ["a", "aB", ""]),
    "a|b": (["a", "xbx"], ["c", ""]),
    "^a|b$": (["a", "ax", "xb"], ["xa", "bx"]),
    "^$|^x-": (["", "x-1"], ["1", "a x-1"]),
    "^(a|b)$": (["a", "b"], ["ab", "xa", ""]),
    "": (["", "a"], []),
}


@needs_library
def test_patterns_match_where_their_anchors_say():
    with Answers() as answers:
        for pattern, (matched, others) in PATTERNS.items():
            assert all(re.search(pattern, text) for text in matched)
            assert not any(re.search(pattern, text) for text in others)
            texts = [json.dumps(text, ensure_ascii=False) for text in matched + others]
            expected = [True] * len(matched) + [False] * len(others)
            assert answers.ask({"type": "string", "pattern": pattern}, 0, texts)["accepted"] == expected, pattern
            names = [f"{{{text}: null}}" for text in texts]
            schema = {"type": "object", "patternProperties": {pattern: {"type": "null"}}}
            assert answers.ask(schema, 0, names)["accepted"] == expected, pattern


@needs_library
def test_names_that_a_pattern_lists_come_once():
    schema = {"type": "object", "patternProperties": {"^(a|b)$": {"type": "integer"}}}
    texts = ['{"a": 1, "b": 2}', '{"b": 2}', "{}", '{"a": 1, "a": 2}', '{"a": 1, "b": 2, "a": 3}']
    with Answers() as answers:
        found = answers.ask(schema, 30, texts)
        assert found["accepted"] == [True] * 3 + [False] * 2
        for answer in found["answers"]:
            names = [name for name, _ in json.loads(answer["text"], object_pairs_hook=list)]
            assert len(names) == len(set(names)), answer


class RandomSchemas:
    """Schemas of the keywords that are followed, nested and put together by chance."""

    def __init__(self, seed):
        self.random = random.Random(seed)

    def make(self, depth=3):
        kinds = [self.string, self.number, self.integer, self.fixed, self.types]
        if depth > 0:
            kinds += 2 * [self.object, self.array, self.any_of, self.all_of]
        schema = self.random.choice(kinds)(depth)
        if self.random.random() < 0.1:
            schema["description"] = "about it"
        return schema

    def maybe(self, schema, key, value, chance=0.4):
        if self.random.random() < chance:
            schema[key] = value

    def string(self, _):
        schema, low = {"type": "string"}, self.random.randrange(4)
        match self.random.randrange(4):
            case 0:
                schema["pattern"] = self.random.choice(["^[a-z]{1,3}$", r"^\d+(-\d+)?$", "x|yz", r"^[^\"\\]{2}$", "^(ab)*$", ""])
            case 1:
                schema["format"] = self.random.choice(["date", "time", "date-time", "uuid", "ipv4", "email", "hostname", "uri"])
            case _:
                self.maybe(schema, "minLength", low)
                self.maybe(schema, "maxLength", low + self.random.randrange(4))
        return schema

    def bounds(self, schema, step):
        low = self.random.randrange(-40, 40) * step
        high = low + self.random.randrange(1, 60) * step
        self.maybe(schema, self.random.choice(["minimum", "exclusiveMinimum"]), low)
        self.maybe(schema, self.random.choice(["maximum", "exclusiveMaximum"]), high)
        return schema

    def number(self, _):
        return self.bounds({"type": "number"}, self.random.choice([1, 0.5, 0.25, 10]))

    def integer(self, _):
        schema = self.bounds({"type": "integer"}, 1)
        if len(schema) != 2:  # beside bounds it wants both
            self.maybe(schema, "multipleOf", self.random.choice([1, 2, 3, 10]), 0.2)
        return schema

    def fixed(self, _):
        values = [None, True, 0, -1.5, "", "a", "\u00e9\n\"", [], [1, "x"], {"k": {"l": [None]}}, "a/b\\", 10**6]
        if self.random.random() < 0.3:
            return {"const": self.random.choice(values)}
        return {"enum": self.random.sample(values, self.random.randrange(1, 5))}

    def types(self, _):
        return {"type": self.random.sample(["string", "integer", "boolean", "null"], self.random.randrange(1, 4))}

    def object(self, depth):
        names = self.random.sample(["a", "b c", "\u00e9", "$x", "d\"e", "longer_name"], self.random.randrange(4))
        schema = {"type": "object", "properties": {name: self.make(depth - 1) for name in names}}
        self.maybe(schema, "required", self.random.sample(names, self.random.randrange(len(names) + 1)), 0.7)
        self.maybe(schema, "additionalProperties", self.random.choice([True, False, {"type": "integer"}]))
        if not names:
            self.maybe(schema, "maxProperties", self.random.randrange(1, 4))
        return schema

    def array(self, depth):
        schema, low = {"type": "array"}, self.random.randrange(3)
        self.maybe(schema, "items", self.make(depth - 1), 0.8)
        self.maybe(schema, "prefixItems", [self.make(depth - 1) for _ in range(self.random.randrange(1, 3))], 0.2)
        self.maybe(schema, "minItems", low)
        self.maybe(schema, "maxItems", low + self.random.randrange(4))
        return schema

    def any_of(self, depth):
        return {"anyOf": [self.make(depth - 1) for _ in range(self.random.randrange(1, 4))]}

    def all_of(self, depth):
        return {"allOf": [self.object(depth - 1) for _ in range(2)]}


@needs_library
def test_random_schemas():
    """Whatever schema is accepted: an answer that ends is valid, and none is left without a token."""
    schemas, accepted, drawn, ended = RandomSchemas(7), 0, 0, 0
    with Answers() as answers:
        for _ in range(3000 if LONG_TESTS else 60):
            schema = schemas.make()
            found = answers.ask(schema, 3)
            assert "failed" not in found, (schema, found)
            if "refused" in found:
                continue
            accepted, drawn = accepted + 1, drawn + 3
            ended += check(schema, jsonschema.Draft202012Validator(schema), found)
    assert accepted >= 30 and ended >= 0.9 * drawn


def conformance(name):
    if not (CONFORMANCE / name).exists():
        pytest.skip(f"needs {name} of the conformance files (GRAFT_CONFORMANCE)")
    return CONFORMANCE / name


@needs_library
def test_tools_of_others():
    """500 functions: of each the answers are valid; one wants a list that is one of some strings, which nothing is."""
    tools = json.loads((conformance("tool_schemas") / "bfcl_tools.json").read_text())
    with Answers() as answers:
        for tool in tools:
            schema = tool["parameters"]
            found = answers.ask(schema, 6 if LONG_TESTS else 1)
            if tool["name"] == "extract_parameters_v1":
                assert found == {"refused": "properties.metrics: no value is allowed there"}
                continue
            assert "answers" in found, (tool, found)
            assert check(schema, jsonschema.Draft202012Validator(schema), found) == len(found["answers"])


@needs_library
def test_schema_suite():
    """JSON Schema's own tests: what is accepted is never too wide, and most of its answers end."""
    from referencing import Registry, Resource
    from referencing.jsonschema import DRAFT202012
    folder = conformance("json_schema_suite")
    remotes = folder / "remotes"
    registry = Registry().with_resources(
        (f"http://localhost:1234/{path.relative_to(remotes)}",
         Resource(contents=json.loads(path.read_text()), specification=DRAFT202012))
        for path in sorted(remotes.rglob("*.json")))
    accepted, refused, ended = 0, 0, 0
    with Answers() as answers:
        for path in sorted((folder / "tests").glob("*.json")):
            for group in json.loads(path.read_text()):
                schema, texts = group["schema"], [json.dumps(test["data"]) for test in group["tests"]]
                found = answers.ask(schema, 4, texts)
                if "refused" in found:
                    assert re.match(r"\S.*: ", found["refused"]), found
                    refused += 1
                    continue
                accepted += 1
                ended += check(schema, jsonschema.Draft202012Validator(schema, registry=registry), found)
                for test, is_answer in zip(group["tests"], found["accepted"], strict=True):
                    assert test["valid"] or not is_answer, (path.name, group["description"], schema, test)
    assert accepted >= 190 and refused >= 100 and ended > 0.95 * 4 * accepted


@pytest.fixture(scope="module")
def server():
    with Server() as server:
        yield server


def chat(server, **kwargs):
    return server.client().chat.completions.create(
        **{"model": "base", "messages": [{"role": "user", "content": "Who are you?"}], "max_tokens": 60, "seed": 5,
           **kwargs})


PERSON = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 6},
                                           "age": {"type": "integer", "minimum": 0, "maximum": 150}},
          "required": ["name", "age"], "additionalProperties": False}


def schema_format(schema, **kwargs):
    return {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema, **kwargs}}


@needs_library
def test_response_format(server):
    reply = chat(server, model="austen", response_format=schema_format(PERSON, strict=True), n=2)
    for choice in reply.choices:
        assert choice.finish_reason == "stop"
        jsonschema.validate(json.loads(choice.message.content), PERSON)
        assert list(json.loads(choice.message.content)) == ["name", "age"]
    cut = chat(server, response_format=schema_format(PERSON), max_tokens=4).choices[0]
    assert cut.finish_reason == "length" and cut.message.content.startswith("{")
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chat(
        server, response_format=schema_format(PERSON), stream=True))
    jsonschema.validate(json.loads(text), PERSON)
    assert chat(server, response_format={"type": "json_object"}, max_tokens=5).choices[0].message.content[0] == "{"
    free = chat(server, temperature=0, max_tokens=8).choices[0].message.content
    assert chat(server, temperature=0, max_tokens=8,
                response_format={"type": "text"}).choices[0].message.content == free


@needs_library
def test_a_responses_text_format(server):
    """As OpenAI's client asks for it from a class, and with a call that is asked for."""
    class Person(pydantic.BaseModel):
        model_config = pydantic.ConfigDict(extra="forbid")
        name: typing.Annotated[str, pydantic.Field(max_length=6)]
        age: typing.Annotated[int, pydantic.Field(ge=0, le=150)]
    client = server.client()
    reply = client.responses.parse(model="austen", input="Who are you?", text_format=Person, max_output_tokens=60)
    assert isinstance(reply.output_parsed, Person) and reply.status == "completed"
    assert reply.text.format.type == "json_schema" and reply.text.format.name == "Person"
    reply = client.responses.create(model="base", input="Who are you?", max_output_tokens=5,
                                    text={"format": {"type": "json_object"}})
    assert reply.output_text[0] == "{" and reply.status == "incomplete"
    with pytest.raises(openai.BadRequestError) as error:
        client.responses.create(model="base", input="Who?", text={"format": {
            "type": "json_schema", "name": "a", "schema": {"properties": {"a": {"uniqueItems": True}}}}})
    assert error.value.body["param"] == "text.format.schema.properties.a.uniqueItems"
    with Server("--tool-parser", "hermes") as hermes:
        tool = {"type": "function", "name": "greet", "parameters": PERSON, "strict": True}
        reply = hermes.client().responses.create(model="base", input="Who are you?", max_output_tokens=150, tools=[tool],
                                                 tool_choice={"type": "function", "name": "greet"})
        [call] = [item for item in reply.output if item.type == "function_call"]
        assert call.name == "greet"
        jsonschema.validate(json.loads(call.arguments), PERSON)


@needs_library
def test_other_forms(server):
    def ask(**body):
        reply = server.client().completions.create(model="base", prompt="It was", max_tokens=50, seed=2,
                                                   extra_body=body)
        return reply.choices[0].text
    choices = ["a dark night", "a bright day"]
    assert ask(structured_outputs={"choice": choices}) in choices
    assert ask(guided_choice=choices) in choices
    assert re.fullmatch(r"[0-9]{3}-[a-f]{2,5}", ask(structured_outputs={"regex": "[0-9]{3}-[a-f]{2,5}"}))
    assert re.fullmatch(r"[0-9]{3}-[a-f]{2,5}", ask(guided_regex="[0-9]{3}-[a-f]{2,5}"))
    assert re.fullmatch(r"(yes|no)( (yes|no)){2}", ask(guided_grammar='root ::= w (" " w){2}\nw ::= "yes" | "no"'))
    jsonschema.validate(json.loads(ask(guided_json=json.dumps(PERSON))), PERSON)
    jsonschema.validate(json.loads(ask(structured_outputs={"json": PERSON})), PERSON)


@needs_library
def test_refusals(server):
    def refused(param, words, **kwargs):
        with pytest.raises(openai.BadRequestError) as error:
            chat(server, **kwargs)
        assert error.value.body["param"] == param and words in error.value.body["message"], error.value.body
    refused("response_format.json_schema.schema.properties.a.uniqueItems", "not supported",
            response_format=schema_format({"properties": {"a": {"uniqueItems": True}}}))
    refused("response_format.json_schema.schema", "no value", response_format=schema_format(False))
    refused("response_format.json_schema", "required", response_format={"type": "json_schema"})
    refused("response_format.type", "json_object", response_format={"type": "yaml"})
    refused("guided_regex", "exclude each other", response_format={"type": "json_object"},
            extra_body={"guided_regex": "a"})
    refused("min_tokens", "put together", response_format={"type": "json_object"}, extra_body={"min_tokens": 3})
    refused("thinking_token_budget", "--reasoning-parser", extra_body={"thinking_token_budget": 5})
    refused(None, "cannot be compiled", extra_body={"guided_grammar": "root ::= ("})
    refused(None, "cannot be compiled", extra_body={"guided_regex": "("})


@needs_library
@pytest.mark.skipif(not LONG_TESTS, reason="takes seconds of a core, as it must")
def test_a_form_that_costs_too_much_is_refused(server):
    """Its masks, or its compilation: either has a bound, and others are served on."""
    def rules(i, count):
        return f'r{i} ::= [^{chr(97 + i % 26)}]* | "{i}" r{i * 7 % count}'
    grammar = "root ::= " + " ".join(f"r{i}" for i in range(1200)) + "\n" + "\n".join(rules(i, 1200) for i in range(1200))
    regex = "".join(f"([^{chr(97 + i % 26)}]|{chr(97 + i * 7 % 26)}.)*" for i in range(4000))
    for form in ({"guided_grammar": grammar}, {"guided_regex": regex}):
        with pytest.raises(openai.BadRequestError) as error:
            chat(server, extra_body=form)
        assert re.search("go(es)? on with the form|too much time to compile", str(error.value)), error.value
        assert chat(server, max_tokens=3).choices[0].message.content


@needs_library
def test_calls_that_are_asked_for():
    """Of one function or any, in the forms of two models; arguments are valid by their schemas."""
    tools = [{"type": "function", "function": {"name": "greet", "parameters": PERSON}},
             {"type": "function", "function": {"name": "stop", "parameters": {"type": "object", "properties": {}}}}]
    schemas = {tool["function"]["name"]: tool["function"]["parameters"] for tool in tools}
    for parser in ("hermes", "llama3_json"):
        with Server("--tool-parser", parser) as server:
            named = {"type": "function", "function": {"name": "greet"}}
            for choice in (named, "required"):
                reply = chat(server, tools=tools, tool_choice=choice, parallel_tool_calls=False,
                             max_tokens=150).choices[0]
                assert reply.finish_reason == "tool_calls", reply
                (call,) = reply.message.tool_calls
                assert choice == "required" or call.function.name == "greet"
                jsonschema.validate(json.loads(call.function.arguments), schemas[call.function.name])


@needs_library
def test_an_answer_has_its_form_or_is_a_call():
    """response_format beside tools that the model may call: each answer is one or the other, and both come."""
    tools = [{"type": "function", "function": {"name": "greet", "parameters": PERSON, "strict": True}}]
    answer = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}
    vocabulary = json.loads((ROOT / "demo" / "base" / "tokenizer.json").read_text())["model"]["vocab"]
    # A call begins with <, the form with {, which the model likes better.
    no_brace = {str(token_id): -100 for token, token_id in vocabulary.items() if token.startswith("{")}
    with Server("--tool-parser", "hermes") as server:
        for bias, wanted in (({}, "stop"), (no_brace, "tool_calls")):
            reasons = set()
            for seed in range(4):
                reply = chat(server, tools=tools, response_format=schema_format(answer), max_tokens=150, seed=seed, n=4,
                             temperature=1, logit_bias=bias, parallel_tool_calls=False)
                for choice in reply.choices:
                    reasons.add(choice.finish_reason)
                    if choice.finish_reason == "tool_calls":
                        for call in choice.message.tool_calls:
                            jsonschema.validate(json.loads(call.function.arguments), PERSON)
                    elif choice.finish_reason == "stop":
                        jsonschema.validate(json.loads(choice.message.content), answer)
            assert wanted in reasons, (wanted, reasons)


@needs_library
def test_reasoning_ends_where_it_has_had_its_tokens(tmp_path):
    tool = {"type": "function", "function": {"name": "greet", "parameters": PERSON}}
    endless = {str(ENDS): -100, "1": -100}  # left to itself, it would reason on
    (tmp_path / "adapters").mkdir()
    with Server("--tool-parser", "hermes", model=model_that_reasons(tmp_path / "base"),
                adapters=tmp_path / "adapters") as server:
        def ask(*, max_tokens=24, stream=False, **fields):
            extra = {name: fields.pop(name) for name in ("thinking_token_budget",) if name in fields}
            return chat(server, temperature=0, max_tokens=max_tokens, stream=stream, logit_bias=endless,
                        extra_body={"return_token_ids": True, **extra}, **fields)

        free = ask()
        assert free.prompt_token_ids[-1] == THINKS and ENDS not in free.choices[0].token_ids
        assert free.choices[0].finish_reason == "length" and not free.choices[0].message.content
        bound = ask(thinking_token_budget=5, n=2)
        for choice in bound.choices:
            assert choice.token_ids[:5] == free.choices[0].token_ids[:5] and choice.token_ids[5] == ENDS
            assert choice.message.reasoning_content and choice.message.content
        chunks = list(ask(thinking_token_budget=5, stream=True))
        assert sum((chunk.choices[0].token_ids for chunk in chunks if hasattr(chunk.choices[0], "token_ids")),
                   []) == bound.choices[0].token_ids
        assert [chunk.prompt_token_ids for chunk in chunks if hasattr(chunk, "prompt_token_ids")] == [
            free.prompt_token_ids]
        assert ask(thinking_token_budget=-1).choices[0].token_ids == free.choices[0].token_ids
        # A form or a call gets half of the tokens, or what the budget leaves.
        for budget, end in (({}, 100), ({"thinking_token_budget": 7}, 7), ({"thinking_token_budget": -1}, 100)):
            formed = ask(max_tokens=200, response_format=schema_format(PERSON), **budget).choices[0]
            assert formed.token_ids.index(ENDS) == end and formed.finish_reason == "stop"
            jsonschema.validate(json.loads(formed.message.content), PERSON)
            called = ask(max_tokens=200, tools=[tool], tool_choice="required", parallel_tool_calls=False,
                         **budget).choices[0]
            assert called.token_ids.index(ENDS) == end and called.finish_reason == "tool_calls"
            jsonschema.validate(json.loads(called.message.tool_calls[0].function.arguments), PERSON)
        # Of a completion the prompt's text tells.
        for prompt, end in (("<think>It was", 4), ("<think>x</think>It was", None)):
            text = server.client().completions.create(
                model="base", prompt=prompt, max_tokens=12, temperature=0, logit_bias=endless,
                extra_body={"return_token_ids": True, "thinking_token_budget": 4}).choices[0]
            assert (text.token_ids.index(ENDS) if ENDS in text.token_ids else None) == end


@needs_library
def test_structural_tags(server):
    tag = {"type": "triggered_tags", "triggers": ["<f="], "at_least_one": True, "stop_after_first": True,
           "tags": [{"begin": "<f=greet>", "content": {"type": "json_schema", "json_schema": PERSON}, "end": "</f>"}]}
    for body in ({"response_format": {"type": "structural_tag", "format": tag}},
                 {"structured_outputs": {"structural_tag": json.dumps({"type": "structural_tag", "format": tag})}}):
        text = server.client().completions.create(model="base", prompt="It was", max_tokens=150, seed=3,
                                                  extra_body=body).choices[0].text
        jsonschema.validate(json.loads(re.fullmatch("<f=greet>(.*)</f>", text, re.DOTALL)[1]), PERSON)
    older = {"type": "structural_tag", "triggers": ["<f="],
             "structures": [{"begin": "<f=greet>", "schema": PERSON, "end": "</f>"}]}
    assert chat(server, response_format=older, max_tokens=5).choices[0].message.content


def test_without_the_library():
    with Server(env={"GRAFT_GRAMMAR_LIBRARY": "/nowhere/libgraft_grammar.so"}) as server:
        with pytest.raises(openai.BadRequestError, match="make grammar"):
            chat(server, response_format={"type": "json_object"})
        assert chat(server, max_tokens=3).choices[0].message.content
