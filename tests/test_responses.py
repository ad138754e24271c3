"""/v1/responses by the official client: what it parses, streams and puts together, on a real server and on one whose
model follows a script (as in test_tools.py)."""

import json

import openai
import pytest

from test_tools import call, run, scripted

TOOLS = [{"type": "function", "name": name, "description": f"Finds the {what} of a city.", "strict": True,
          "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"],
                         "additionalProperties": False}}
         for name, what in (("get_weather", "weather"), ("get_time", "time"))]
THOUGHT = "<think>Look it up.</think>Let me see.\n" + call("get_weather", city="Zürich")


def outputs(response):
    """What the client answers to calls: their results."""
    return [{"type": "function_call_output", "call_id": item.call_id, "output": run(json.loads(item.arguments))}
            for item in response.output if item.type == "function_call"]


def test_a_real_model_answers(server):
    client = server.client()
    on = {"ignore_eos": True}  # the length ends the answer, whatever the model would say
    whole = client.responses.create(model="austen", input="Begin.", max_output_tokens=8, temperature=0,
                                    metadata={"a": "b"}, instructions="Be brief.", extra_body=on)
    assert whole.status == "incomplete" and whole.incomplete_details.reason == "max_output_tokens"
    assert whole.usage.output_tokens == 8 and whole.metadata == {"a": "b"} and whole.output_text
    assert whole.usage.input_tokens_details.cache_write_tokens == 0
    chat = client.chat.completions.create(
        model="austen", max_tokens=8, temperature=0, extra_body=on,
        messages=[{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Begin."}])
    assert whole.output_text == chat.choices[0].message.content
    assert whole.usage.input_tokens == chat.usage.prompt_tokens
    events = list(client.responses.create(model="austen", input="Begin.", max_output_tokens=8, temperature=0,
                                          instructions="Be brief.", stream=True, extra_body=on))
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert "".join(e.delta for e in events if e.type == "response.output_text.delta") == whole.output_text
    assert events[-1].type == "response.incomplete" and events[-1].response.output_text == whole.output_text


def test_a_conversation_goes_on_with_another_adapter(server):
    client = server.client()
    one = client.responses.create(model="austen", input="Begin.", max_output_tokens=8, temperature=0)
    two = client.responses.create(model="doyle", input="And then?", previous_response_id=one.id, max_output_tokens=8,
                                  temperature=0)
    chat = client.chat.completions.create(model="doyle", max_tokens=8, temperature=0, messages=[
        {"role": "user", "content": "Begin."}, {"role": "assistant", "content": one.output_text},
        {"role": "user", "content": "And then?"}])
    assert two.output_text == chat.choices[0].message.content and two.previous_response_id == one.id


def test_stored_responses_are_read_listed_and_deleted(server):
    client = server.client()
    response = client.responses.create(model="austen", max_output_tokens=4, input=[
        {"role": "user", "content": f"line {i}"} for i in range(30)])
    again = client.responses.retrieve(response.id)
    assert again.output_text == response.output_text and again.id == response.id
    items = list(client.responses.input_items.list(response.id, limit=7, order="asc"))
    assert [item.content[0].text for item in items] == [f"line {i}" for i in range(30)]
    client.responses.delete(response.id)
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(response.id)
    with pytest.raises(openai.BadRequestError) as error:
        client.responses.create(model="austen", input="x", previous_response_id=response.id)
    assert error.value.code == "previous_response_not_found"
    private = client.responses.create(model="austen", input="x", max_output_tokens=2, store=False)
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(private.id)


def test_an_agent_calls_two_tools_by_previous_response(tmp_path):
    with scripted(tmp_path, THOUGHT, call("get_time", city="Zürich"), "Fine, at noon.") as client:
        response = client.responses.create(model="demo", input="How is it in Zürich?", tools=TOOLS)
        assert [item.type for item in response.output] == ["reasoning", "message", "function_call"]
        assert response.output[0].content[0].text == "Look it up." and response.output_text == "Let me see."
        for _ in range(2):
            response = client.responses.create(model="demo", input=outputs(response), tools=TOOLS,
                                               previous_response_id=response.id)
        assert response.output_text == "Fine, at noon."


def test_an_agent_sends_the_whole_conversation_itself(tmp_path):
    with scripted(tmp_path, THOUGHT, "Fine.") as client:
        items = [{"role": "user", "content": "How is it in Zürich?"}]
        response = client.responses.create(model="demo", input=items, tools=TOOLS, store=False,
                                           include=["reasoning.encrypted_content"])
        items += [item.model_dump(exclude_none=True) for item in response.output] + outputs(response)
        response = client.responses.create(model="demo", input=items, tools=TOOLS, store=False)
        assert response.output_text == "Fine."


def test_a_stream_is_put_together_by_the_client(tmp_path):
    with scripted(tmp_path, THOUGHT + call("get_time", city="Ghent\n\"é\"")) as client:
        with client.responses.stream(model="demo", input="?", tools=TOOLS) as stream:
            types = [event.type for event in stream]
            final = stream.get_final_response()
    assert types[:2] == ["response.created", "response.in_progress"] and types[-1] == "response.completed"
    calls = [(item.name, json.loads(item.arguments)) for item in final.output if item.type == "function_call"]
    assert calls == [("get_weather", {"city": "Zürich"}), ("get_time", {"city": "Ghent\n\"é\""})]
    for begun, ended in (("output_item.added", "output_item.done"), ("content_part.added", "content_part.done")):
        assert types.count(f"response.{begun}") == types.count(f"response.{ended}") > 1


def test_what_cannot_be_done_is_refused_by_name(server):
    client = server.client()
    for field, value in {"background": True, "conversation": "conv_1", "truncation": "auto",
                         "tools": [{"type": "web_search"}], "prompt": {"id": "pmpt_1"},
                         "input": [{"type": "item_reference", "id": "msg_1"}]}.items():
        with pytest.raises(openai.BadRequestError) as error:
            client.responses.create(**{"model": "austen", "input": "x", field: value})
        assert error.value.param.startswith(field), error.value


def test_openai_agents_drives_two_tools(tmp_path):
    agents = pytest.importorskip("agents", reason="pip install openai-agents")
    agents.set_tracing_disabled(True)
    seen = []

    @agents.function_tool
    def get_weather(city: str) -> str:
        seen.append(("weather", city))
        return "sunny"

    @agents.function_tool
    def get_time(city: str) -> str:
        seen.append(("time", city))
        return "noon"

    for streams in False, True:
        with scripted(tmp_path, THOUGHT, call("get_time", city="Zürich"), "Fine, at noon.") as client:
            model = agents.OpenAIResponsesModel(
                model="demo", openai_client=openai.AsyncOpenAI(base_url=client.base_url, api_key="none"))
            agent = agents.Agent(name="guide", instructions="Help.", tools=[get_weather, get_time], model=model)
            result = run_agent(agents, agent, streams)
            assert result == "Fine, at noon." and seen == [("weather", "Zürich"), ("time", "Zürich")]
            seen.clear()


def run_agent(agents, agent, streams):
    import asyncio

    async def run():
        if not streams:
            return (await agents.Runner.run(agent, "How is it in Zürich?")).final_output
        result = agents.Runner.run_streamed(agent, "How is it in Zürich?")
        async for _ in result.stream_events():
            pass
        return result.final_output

    return asyncio.run(run())
