"""Asks the gateway through the PyPI clients, as clients.mjs does through npm's."""
import json
import os

import anthropic
import openai
from pydantic import BaseModel

URL = os.environ["GATEWAY_URL"]
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
PLACE = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"], "additionalProperties": False}


class City(BaseModel):
    city: str
    population: int


def run(client, features):
    for feature, test in features.items():
        try:
            got = test()
            assert got is None or got is True, f"got {got!r}"
            print(json.dumps({"client": client, "feature": feature, "ok": True}), flush=True)
        except Exception as e:  # whatever a client throws is the result
            print(json.dumps({"client": client, "feature": feature, "ok": False, "why": f"{type(e).__name__}: {e}"[:600]}), flush=True)


def user(content):
    return [{"role": "user", "content": content}]


def raises(kind, test, **attributes):
    try:
        test()
    except kind as e:
        for name, want in attributes.items():
            assert getattr(e, name) == want, f"{name} is {getattr(e, name)!r}"
        return e
    raise AssertionError("no error")


def chat(client):
    c = openai.OpenAI(base_url=URL + "/v1", api_key="none", max_retries=0)
    tools = [{"type": "function", "function": {"name": "weather", "parameters": PLACE, "strict": True}}]

    def ask(content, **more):
        return c.chat.completions.create(model="stepfall", messages=user(content), **more)

    def stream():
        pieces = [chunk.choices[0].delta.content or "" for chunk in ask("hello", stream=True)]
        assert "".join(pieces) == "Hello there." and len(pieces) > 2

    def with_tools():
        messages = user("weather in two cities")
        said = c.chat.completions.create(model="stepfall", messages=messages, tools=tools).choices[0].message
        messages.append(said)
        for t in said.tool_calls:
            messages.append({"role": "tool", "tool_call_id": t.id, "content": "sunny in " + json.loads(t.function.arguments)["city"]})
        return c.chat.completions.create(model="stepfall", messages=messages, tools=tools).choices[0].message.content == "I heard: sunny in Paris; sunny in Rome"

    def streamed_tools():
        with c.chat.completions.stream(model="stepfall", messages=user("weather in two cities"), tools=tools) as s:
            calls = s.get_final_completion().choices[0].message.tool_calls
        assert [t.function.arguments for t in calls] == ['{"city":"Paris"}', '{"city":"Rome"}']

    def usage_in_streams():
        chunks = list(ask("hello", stream=True, stream_options={"include_usage": True}))
        return chunks[-1].usage.prompt_tokens_details.cached_tokens == 4

    def errors():
        raises(openai.RateLimitError, lambda: ask("busy"))
        raises(openai.InternalServerError, lambda: ask("broken"), status_code=503)
        raises(openai.BadRequestError, lambda: ask("hello", n=0), param="n")

    def embeddings():
        done = c.embeddings.create(model="vectors", input=["a", "b"])  # asks for base64 by itself
        assert [d.embedding for d in done.data] == [[0.5, -1], [2, 0]] and done.usage.total_tokens == 7
        raises(openai.BadRequestError, lambda: c.embeddings.create(model="small", input="a"), param="model")

    run(client, {
        "answer": lambda: ask("hello").choices[0].message.content == "Hello there.",
        "stream": stream, "tools": with_tools, "streamed tools": streamed_tools,
        "JSON schema": lambda: c.chat.completions.parse(model="stepfall", messages=user("a city"), response_format=City).choices[0].message.parsed.city == "Paris",
        "image": lambda: ask([{"type": "image_url", "image_url": {"url": "data:image/png;base64," + PIXEL}}]).choices[0].message.content == "I see 1 image.",
        "log-probs": lambda: ask("hello", logprobs=True, top_logprobs=1).choices[0].logprobs.content[0].token == "Hello",
        "choices": lambda: len(ask("hello", n=2).choices) == 2,
        "reasoning": lambda: ask("think").choices[0].message.reasoning_content == "Let me think.",
        "refusal": lambda: ask("refuse").choices[0].message.refusal == "I will not.",
        "usage": lambda: ask("hello").usage.completion_tokens_details.reasoning_tokens == 3,
        "usage in streams": usage_in_streams,
        "request id": lambda: ask("hello")._request_id.startswith("req_"),
        "errors": errors,
        "models": lambda: [m.id for m in c.models.list()] == ["stepfall", "small", "vectors"] and c.models.retrieve("small").id == "small",
        "embeddings": embeddings,
    })


def responses(client):
    c = openai.OpenAI(base_url=URL + "/v1", api_key="none", max_retries=0)
    tools = [{"type": "function", "name": "weather", "parameters": PLACE, "strict": True}]

    def ask(input, **more):
        return c.responses.create(model="stepfall", input=input, **more)

    def stream():
        with c.responses.stream(model="stepfall", input="hello") as s:
            text = "".join(e.delta for e in s if e.type == "response.output_text.delta")
            return text == "Hello there." and s.get_final_response().output_text == text

    def with_tools():
        items = user("weather in two cities")
        first = ask(items, tools=tools)
        items += first.output
        items += [{"type": "function_call_output", "call_id": o.call_id, "output": "sunny in " + json.loads(o.arguments)["city"]} for o in first.output if o.type == "function_call"]
        return ask(items, tools=tools).output_text == "I heard: sunny in Paris; sunny in Rome"

    def streamed_tools():
        with c.responses.stream(model="stepfall", input="weather in two cities", tools=tools) as s:
            done = s.get_final_response()
        assert [o.arguments for o in done.output if o.type == "function_call"] == ['{"city":"Paris"}', '{"city":"Rome"}']

    def reasoning():
        r = ask("think", store=False, include=["reasoning.encrypted_content"])
        assert r.output[0].encrypted_content == "sealed"
        return ask(user("think") + r.output + user("what did you think?")).output_text == "You sent back sealed."

    run(client, {
        "answer": lambda: ask("hello").output_text == "Hello there.",
        "stream": stream, "tools": with_tools, "streamed tools": streamed_tools,
        "JSON schema": lambda: c.responses.parse(model="stepfall", input="a city", text_format=City).output_parsed.city == "Paris",
        "image": lambda: ask([{"role": "user", "content": [{"type": "input_image", "detail": "auto", "image_url": "data:image/png;base64," + PIXEL}]}]).output_text == "I see 1 image.",
        "log-probs": lambda: ask("hello", include=["message.output_text.logprobs"]).output[-1].content[0].logprobs[0].token == "Hello",
        "reasoning": reasoning,
        "refusal": lambda: ask("refuse").output[0].content[0].refusal == "I will not.",
        "usage": lambda: ask("hello").usage.input_tokens_details.cached_tokens == 4,
        "request id": lambda: ask("hello")._request_id.startswith("req_"),
        "errors": lambda: raises(openai.BadRequestError, lambda: ask("hello", previous_response_id="resp_1"), param="previous_response_id") and None,
    })


def messages(client):
    c = anthropic.Anthropic(base_url=URL, api_key="none", max_retries=0)
    tools = [{"name": "weather", "input_schema": PLACE}]

    def ask(content, **more):
        return c.messages.create(**{"model": "stepfall", "max_tokens": 2000, "messages": user(content), **more})

    def final(content, **more):
        with c.messages.stream(model="stepfall", max_tokens=2000, messages=user(content), **more) as s:
            return s.get_final_message()

    def with_tools():
        first = ask("weather in two cities", tools=tools)
        results = [{"type": "tool_result", "tool_use_id": b.id, "content": "sunny in " + b.input["city"]} for b in first.content if b.type == "tool_use"]
        history = user("weather in two cities") + [{"role": "assistant", "content": first.content}, {"role": "user", "content": results}]
        return ask(None, messages=history, tools=tools).content[0].text == "I heard: sunny in Paris; sunny in Rome"

    def reasoning():
        more = {"thinking": {"type": "enabled", "budget_tokens": 1024}}
        for done in (ask("think", **more), final("think", **more)):
            assert done.content[0].thinking == "Let me think." and done.content[0].signature == "signed", done
            history = user("think") + [{"role": "assistant", "content": done.content}] + user("what did you think?")
            assert ask(None, messages=history, **more).content[0].text == "You sent back signed."

    def errors():
        raises(anthropic.RateLimitError, lambda: ask("busy"))
        raises(anthropic.InternalServerError, lambda: ask("broken"), status_code=503)

    schema = {"type": "object", "properties": {"city": {"type": "string"}, "population": {"type": "integer"}}}
    run(client, {
        "answer": lambda: ask("hello").content[0].text == "Hello there.",
        "stream": lambda: final("hello").content[0].text == "Hello there.",
        "tools": with_tools,
        "streamed tools": lambda: [b.input["city"] for b in final("weather in two cities", tools=tools).content if b.type == "tool_use"] == ["Paris", "Rome"],
        "JSON schema": lambda: json.loads(ask("a city", extra_body={"output_config": {"format": {"type": "json_schema", "schema": schema}}}).content[0].text)["city"] == "Paris",
        "image": lambda: ask([{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}}]).content[0].text == "I see 1 image.",
        "reasoning": reasoning,
        "refusal": lambda: ask("refuse").stop_reason == "refusal",
        "usage": lambda: ask("hello").usage.cache_read_input_tokens == 4,
        "usage in streams": lambda: final("hello").usage.output_tokens == 8,
        "request id": lambda: ask("hello")._request_id.startswith("req_"),
        "errors": errors,
        "models": lambda: c.models.retrieve("small").display_name == "small",
        "token count": lambda: c.messages.count_tokens(model="stepfall", messages=user("hello")).input_tokens > 0,
    })


def langchain(client):
    from langchain_openai import ChatOpenAI

    llm = ChatOpenAI(model="stepfall", base_url=URL + "/v1", api_key="none", max_retries=0)
    tools = [{"type": "function", "function": {"name": "weather", "parameters": PLACE}}]
    run(client, {
        "answer": lambda: llm.invoke("hello").content == "Hello there.",
        "stream": lambda: "".join(chunk.content for chunk in llm.stream("hello")) == "Hello there.",
        "tools": lambda: [t["args"]["city"] for t in llm.bind_tools(tools).invoke("weather in two cities").tool_calls] == ["Paris", "Rome"],
        "JSON schema": lambda: llm.with_structured_output(City).invoke("a city").city == "Paris",
        "usage": lambda: llm.invoke("hello").usage_metadata["input_token_details"]["cache_read"] == 4,
        "errors": lambda: raises(openai.RateLimitError, lambda: llm.invoke("busy")) and None,
    })


chat("PyPI openai (chat)")
responses("PyPI openai (responses)")
messages("PyPI anthropic")
langchain("PyPI langchain-openai")
