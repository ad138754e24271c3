"""Agents' libraries drive a server: langchain-openai, litellm and pydantic-ai. No small model can choose to call, so calls
are scripted (src/server/scripted_server.cc), or forced upon the demo model by grammars. The stage `agents` of
`make test-all` runs this, in build/venv-agents."""

import json
import os

import pydantic
import pytest

from conftest import ROOT, Server
from test_tools import call, scripted

os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # of prices, which are asked for over the net otherwise
needs_library = pytest.mark.skipif(not (ROOT / "build" / "grammar" / "libgraft_grammar.so").exists(), reason="needs libgraft_grammar.so (make grammar)")
PERSON = {"first_name": "Ada", "age": 36}


class Person(pydantic.BaseModel):
    """Somebody."""

    first_name: str = pydantic.Field(max_length=12)
    age: int = pydantic.Field(ge=0, le=150)


def get_weather(city: str) -> str:
    """Finds the weather of a city."""
    return f"{city}: fine"


def get_time(city: str) -> str:
    """Finds the time of a city."""
    return f"{city}: noon"


TOOLS = {tool.__name__: tool for tool in (get_weather, get_time)}


@pytest.fixture(scope="module")
def bound():
    """The demo model, whose answers grammars force into a form."""
    with Server("--tool-parser", "hermes") as server:
        yield server


def chain(url, **kwargs):
    from langchain_openai import ChatOpenAI
    return ChatOpenAI(base_url=str(url), api_key="none", max_retries=0, timeout=120, **{"model": "demo", **kwargs})


def test_langchain_binds_tools(tmp_path):
    from langchain_core.messages import HumanMessage, ToolMessage
    answers = (call("get_weather", city="Bern") + call("get_time", city="Bern"), "Fine, at noon.")
    for stream in (False, True):
        with scripted(tmp_path, *answers) as client:
            model = chain(client.base_url).bind_tools(list(TOOLS.values()))

            def ask(messages):
                if not stream:
                    return model.invoke(messages)
                chunks = list(model.stream(messages))
                whole = chunks[0]
                for chunk in chunks[1:]:
                    whole = whole + chunk
                return whole

            messages = [HumanMessage("How is it in Bern?")]
            messages.append(ask(messages))
            assert [one["name"] for one in messages[-1].tool_calls] == ["get_weather", "get_time"]
            for one in messages[-1].tool_calls:
                messages.append(ToolMessage(TOOLS[one["name"]](**one["args"]), tool_call_id=one["id"]))
            assert ask(messages).content == "Fine, at noon."


@pytest.mark.parametrize(("method", "answer"), [("function_calling", call("Person", **PERSON)),
                                                ("json_schema", json.dumps(PERSON)), ("json_mode", json.dumps(PERSON))])
def test_langchains_structured_output(tmp_path, method, answer):
    with scripted(tmp_path, answer) as client:
        found = chain(client.base_url).with_structured_output(Person, method=method).invoke("Who? Answer in JSON.")
    assert found == Person(**PERSON)


@needs_library
@pytest.mark.parametrize("method", ["function_calling", "json_schema"])
def test_langchains_structured_output_is_forced(bound, method):
    model = chain(bound.url + "/v1", model="base", max_tokens=300, seed=3)
    found = model.with_structured_output(Person, method=method).invoke("Who are you?")
    assert isinstance(found, Person)


def litellm_tools():
    return [{"type": "function", "function": {"name": name, "description": tool.__doc__, "parameters": {
        "type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}
        for name, tool in TOOLS.items()]


def test_litellm_calls_and_answers(tmp_path):
    import litellm
    with scripted(tmp_path, call("get_weather", city="Bern"), call("get_time", city="Bern"), "Fine.") as client:
        to = {"model": "openai/demo", "api_base": str(client.base_url), "api_key": "none", "timeout": 60,
              "num_retries": 0, "tools": litellm_tools()}
        messages = [{"role": "user", "content": "How is it in Bern?"}]
        first = litellm.completion(messages=messages, **to).choices[0].message
        messages.append(first.model_dump(exclude_none=True))
        messages.append({"role": "tool", "tool_call_id": first.tool_calls[0].id, "content": "fine"})
        second = litellm.stream_chunk_builder(list(litellm.completion(messages=messages, stream=True, **to)))
        messages.append(second.choices[0].message.model_dump(exclude_none=True))
        messages.append({"role": "tool", "tool_call_id": second.choices[0].message.tool_calls[0].id, "content": "noon"})
        last = litellm.completion(messages=messages, **to)
    assert [one.function.name for one in (*first.tool_calls, *second.choices[0].message.tool_calls)] == list(TOOLS)
    assert json.loads(second.choices[0].message.tool_calls[0].function.arguments) == {"city": "Bern"}
    assert last.choices[0].message.content == "Fine." and last.choices[0].finish_reason == "stop"


@needs_library
def test_litellm_forces_a_call_and_a_form(bound):
    import litellm
    to = {"model": "openai/base", "api_base": bound.url + "/v1", "api_key": "none", "timeout": 120, "num_retries": 0,
          "max_tokens": 300, "seed": 4, "messages": [{"role": "user", "content": "Who are you?"}]}
    reply = litellm.completion(tools=litellm_tools(), tool_choice={"type": "function", "function": {"name": "get_time"}},
                               **to)
    call_made, = reply.choices[0].message.tool_calls
    assert call_made.function.name == "get_time" and list(json.loads(call_made.function.arguments)) == ["city"]
    assert Person.model_validate_json(litellm.completion(response_format=Person, **to).choices[0].message.content)


def agent_model(url, name):
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider
    return OpenAIChatModel(name, provider=OpenAIProvider(base_url=str(url), api_key="none"))


def test_an_agent_drives_two_tools_to_the_end(tmp_path):
    from pydantic_ai import Agent
    seen = []

    def noted(tool):
        def run(city: str) -> str:
            seen.append((tool.__name__, city))
            return tool(city)
        run.__name__, run.__doc__ = tool.__name__, tool.__doc__
        return run

    with scripted(tmp_path, "<think>Look.</think>" + call("get_weather", city="Bern"), call("get_time", city="Bern"),
                  "Fine, at noon.") as client:
        agent = Agent(agent_model(client.base_url, "demo"), tools=[noted(tool) for tool in TOOLS.values()])
        result = agent.run_sync("How is it in Bern?")
    assert seen == [("get_weather", "Bern"), ("get_time", "Bern")]
    assert result.output == "Fine, at noon." and result.usage.requests == 3


@needs_library
def test_an_agents_output_is_forced(bound):
    """By a call that its output is, and by a schema of its answer."""
    from pydantic_ai import Agent, NativeOutput
    for output in (Person, NativeOutput(Person)):
        agent = Agent(agent_model(bound.url + "/v1", "base"), output_type=output,
                      model_settings={"max_tokens": 300, "seed": 5})
        assert isinstance(agent.run_sync("Who are you?").output, Person)
