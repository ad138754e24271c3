"""The official client calls tools. No small model can choose to, so a scripted one does (src/server/scripted_server.cc);
the HTTP server, the chat template and the parsers are the real ones."""

import contextlib
import json
import os
import pathlib
import subprocess

import openai
import pytest

from conftest import ROOT, binary

SCRIPTED = pathlib.Path(binary()).parent / "scripted_server"
TOOLS = [{"type": "function", "function": {
    "name": name, "description": f"Finds the {what} of a city.", "strict": True,
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}
    for name, what in (("get_weather", "weather"), ("get_time", "time"))]
# Qwen's way of showing tools, calls and results.
TEMPLATE = """{%- if tools %}<tools>{% for tool in tools %}{{ tool | tojson }}{% endfor %}</tools>
{% endif %}{%- for m in messages %}<|{{ m.role }}|>{{ m.content or '' }}{% for c in m.tool_calls or [] %}
<tool_call>{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}}</tool_call>{% endfor %}
{% endfor %}<|assistant|>{# <think> #}"""


def call(name, **arguments):
    return f"<tool_call>\n{json.dumps({'name': name, 'arguments': arguments}, ensure_ascii=False)}\n</tool_call>"


@contextlib.contextmanager
def scripted(folder, *answers, template=TEMPLATE):
    """A client of a server that gives these answers, one for each request."""
    if not SCRIPTED.exists():
        pytest.skip(f"no {SCRIPTED.name} beside {binary()}: build the dev preset's tests")
    path = folder / "script.json"
    path.write_text(json.dumps({"chat_template": template, "answers": answers}))
    process = subprocess.Popen([SCRIPTED, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                               env={**os.environ, "GRAFT_SOURCE_DIR": str(ROOT)})
    try:
        port = next(int(line.split()[1]) for line in process.stdout if line.startswith("port "))
        yield openai.OpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key="none", max_retries=0, timeout=60)
    finally:
        process.stdin.close()
        assert process.wait(60) == 0


def run(arguments):
    return f"{arguments['city']}: fine"


def test_an_agent_calls_two_tools_and_answers(tmp_path):
    with scripted(tmp_path, "<think>Look it up.</think>Let me see.\n" + call("get_weather", city="Zürich"),
                  call("get_time", city="Zürich"), "Fine, at noon.") as client:
        messages, seen = [{"role": "user", "content": "How is it in Zürich?"}], []
        for _ in range(3):
            choice = client.chat.completions.create(model="demo", messages=messages, tools=TOOLS).choices[0]
            messages.append(choice.message.model_dump(exclude_none=True))
            for one in choice.message.tool_calls or []:
                seen.append(one.function.name)
                messages.append({"role": "tool", "tool_call_id": one.id,
                                 "content": run(json.loads(one.function.arguments))})
        assert seen == ["get_weather", "get_time"]
        assert choice.finish_reason == "stop" and choice.message.content == "Fine, at noon."
        assert messages[1]["reasoning_content"] == "Look it up." and messages[1]["content"] == "Let me see."
        assert messages[2]["content"] == "Zürich: fine"


def test_a_stream_of_calls_is_put_together_by_the_client(tmp_path):
    text = "<think>Two.</think>" + call("get_weather", city="Bern") + call("get_time", city="Ghent\n\"é\"")
    with scripted(tmp_path, text) as client:
        with client.chat.completions.stream(model="demo", messages=[{"role": "user", "content": "?"}],
                                            tools=TOOLS) as stream:
            for _ in stream:
                pass
            choice = stream.get_final_completion().choices[0]
    assert choice.finish_reason == "tool_calls" and not choice.message.content
    assert [(c.function.name, json.loads(c.function.arguments)) for c in choice.message.tool_calls] == [
        ("get_weather", {"city": "Bern"}), ("get_time", {"city": "Ghent\n\"é\""})]


def test_a_call_comes_before_its_end(tmp_path):
    with scripted(tmp_path, call("get_weather", city="A long name of a city, " * 8)) as client:
        names, pieces = [], []
        for chunk in client.chat.completions.create(model="demo", messages=[{"role": "user", "content": "?"}],
                                                    tools=TOOLS, stream=True):
            for one in chunk.choices[0].delta.tool_calls or []:
                names += [one.function.name] if one.function.name else []
                pieces.append(one.function.arguments)
    assert names == ["get_weather"] and len(pieces) > 10
    assert json.loads("".join(pieces))["city"].startswith("A long name")


def test_a_call_of_a_function_that_is_not_there_is_refused(tmp_path):
    with scripted(tmp_path, "x") as client:
        with pytest.raises(openai.BadRequestError) as error:
            client.chat.completions.create(model="demo", messages=[{"role": "user", "content": "?"}], tools=TOOLS,
                                           tool_choice={"type": "function", "function": {"name": "get_space"}})
        assert error.value.param == "tool_choice" and "get_space" in str(error.value)
