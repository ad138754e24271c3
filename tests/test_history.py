"""Conversations as clients send them back: the official client's parse() on its second turn, with what it has read out of
the first, and what gateways put into messages. A scripted model answers (as in test_tools.py)."""

import json

import openai
import pydantic
import pytest

from test_tools import call, scripted

STRICT = """{%- for m in messages %}{%- if m.role == 'system' and not loop.first %}
{{- raise_exception('System message must be at the beginning.') }}{%- endif %}<|{{ m.role }}|>{{ m.content }}
{% endfor %}<|assistant|>"""
PARTS = """{%- for m in messages %}<|{{ m.role }}|>{% for p in m.content %}{% if p.type == 'text' %}{{ p.text }}{% endif %}
{%- endfor %}{{ "\\n" }}{% endfor %}<|assistant|>"""


class Weather(pydantic.BaseModel):
    city: str
    degrees: int


class GetWeather(pydantic.BaseModel):
    """Finds the weather of a city."""
    city: str


def prompt(client, **body):
    """The text that a chat becomes."""
    plain = client.with_options(base_url=str(client.base_url).removesuffix("/v1/"))
    tokens = plain.post("/tokenize", body=body, cast_to=object)["tokens"]
    return plain.post("/detokenize", body={"model": "demo", "tokens": tokens}, cast_to=object)["prompt"]


def test_a_parsed_answer_goes_back(tmp_path):
    answer = json.dumps({"city": "Bern", "degrees": 7})
    with scripted(tmp_path, answer, answer) as client:
        messages = [{"role": "user", "content": "How is it in Bern?"}]
        for turn in range(2):
            message = client.chat.completions.parse(model="demo", messages=messages,
                                                    response_format=Weather).choices[0].message
            assert message.parsed == Weather(city="Bern", degrees=7)
            messages += [message, {"role": "user", "content": f"And at {turn}?"}]
        assert answer in prompt(client, messages=[m if isinstance(m, dict) else m.model_dump() for m in messages])


def test_a_parsed_call_goes_back(tmp_path):
    tool = openai.pydantic_function_tool(GetWeather)
    with scripted(tmp_path, call("GetWeather", city="Bern"), "It is fine.") as client:
        messages = [{"role": "user", "content": "How is it in Bern?"}]
        message = client.chat.completions.parse(model="demo", messages=messages, tools=[tool]).choices[0].message
        [asked] = message.tool_calls
        assert asked.function.parsed_arguments == GetWeather(city="Bern")
        messages += [message, {"role": "tool", "tool_call_id": asked.id, "content": "fine"}]
        last = client.chat.completions.parse(model="demo", messages=messages, tools=[tool]).choices[0].message
        assert last.content == "It is fine."


def test_a_parsed_response_goes_back(tmp_path):
    answer = json.dumps({"city": "Bern", "degrees": 7})
    with scripted(tmp_path, answer, answer) as client:
        first = client.responses.parse(model="demo", input="How is it in Bern?", text_format=Weather)
        assert first.output_parsed == Weather(city="Bern", degrees=7)
        items = [{"role": "user", "content": "How is it in Bern?"}, *first.output, {"role": "user", "content": "Now?"}]
        again = client.responses.parse(model="demo", input=items, text_format=Weather)
        assert again.output_parsed == first.output_parsed


def test_what_gateways_add_changes_nothing(tmp_path):
    plain = [{"role": "user", "content": "q"},
             {"role": "assistant", "content": None, "tool_calls": [
                 {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"b": 1, "a": 2}'}}]},
             {"role": "tool", "tool_call_id": "c1", "content": "r"}]
    tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
    extra = {"provider_specific_fields": {"a": 1}, "thinking_blocks": [{"type": "thinking", "thinking": "x"}], "id": "m",
             "reasoning_details": [], "parsed": {}, "metadata": {}, "cache_control": {"type": "ephemeral"}, "phase": "x",
             "created_at": 1, "usage": {}, "finish_reason": "stop", "citations": [], "images": [], "index": 0}
    with scripted(tmp_path) as client:
        wanted = prompt(client, messages=plain, tools=[tool])
        for name, value in extra.items():
            for at in (1, 2):
                messages = [dict(message) for message in plain]
                messages[at][name] = value
                assert prompt(client, messages=messages, tools=[tool]) == wanted, name
        told = json.loads(json.dumps(plain))
        [one] = told[1]["tool_calls"]
        one.update(extra_content={"google": {}}, thought_signature="s", cache_control={}, index=0)
        one["function"].update(arguments={"b": 1, "a": 2}, parsed_arguments={"b": 1})
        assert prompt(client, messages=told, tools=[{**tool, "cache_control": {"type": "ephemeral"}}]) == wanted
        for messages in ([{**plain[0], "images": ["x"]}], [{**plain[0], "parsed": {"b": 1}}]):
            with pytest.raises(openai.BadRequestError, match="Unrecognized field"):
                prompt(client, messages=messages)


def test_instructions_go_with_a_developer_item(tmp_path):
    with scripted(tmp_path, "One.", "Two.", template=STRICT) as client:
        items = [{"role": "developer", "content": "Be kind."}, {"role": "user", "content": "q"}]
        first = client.responses.create(model="demo", instructions="Be brief.", input=items)
        assert first.output_text == "One."
        again = client.responses.create(model="demo", instructions="Be brief.", input="And now?",
                                        previous_response_id=first.id)
        assert again.output_text == "Two."
        leading = [{"role": "system", "content": "Be brief."}, {"role": "developer", "content": "Be kind."}]
        assert prompt(client, messages=leading + [items[1]]).startswith("<|system|>Be brief.\n\nBe kind.\n<|user|>q")
        with pytest.raises(openai.BadRequestError, match="no system or developer message behind the first turn"):
            client.chat.completions.create(model="demo", messages=[items[1], leading[0]])


def test_a_template_that_walks_over_parts_gets_parts(tmp_path):
    with scripted(tmp_path, "Fine.", template=PARTS) as client:
        parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
        assert prompt(client, messages=[{"role": "user", "content": "hello"}]) == "<|user|>hello\n<|assistant|>"
        assert prompt(client, messages=[{"role": "user", "content": parts}]) == "<|user|>ab\n<|assistant|>"
        reply = client.responses.create(model="demo", instructions="Be brief.", input="hello")
        assert reply.output_text == "Fine."
