"""Has the PyPI clients walk through the nine cascades: a question, a loop of tool calls
with reasoning, and one more question. Prints a line of JSON for each conversation."""
import asyncio
import json
import os
import sys
import urllib.request

CASCADES = json.loads(os.environ["CASCADES"])
FIRST, SECOND = "Done: 1 2 3 4.", "Done again."
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
CHAT_TOOLS = [{"type": "function", "function": {"name": "lookup", "description": "looks up", "parameters": SCHEMA}}]
TURNS = 8


def found(n):
    return f"found {n}"


def refused(url):
    with urllib.request.urlopen(url + "/refused") as r:
        return [f["Model"] + " refused: " + f["Message"] for f in json.load(r)]


def run(client, walk):
    for name, url in sorted(CASCADES.items()):
        refused(url)
        row = {"client": client, "feature": name, "ok": True}
        try:
            texts = walk(url)
            assert texts == [FIRST, SECOND], f"the conversation took another way: {texts!r}"
        except Exception as e:  # whatever a client throws is the result
            row.update(ok=False, why=f"{type(e).__name__}: {e}"[:400])
        why = refused(url)
        if why:
            row.update(ok=False, why=why[0])
        print(json.dumps(row), flush=True)


def chat(stream):
    import openai

    def walk(url):
        c = openai.OpenAI(base_url=url + "/v1", api_key="none", max_retries=0)
        messages, texts = [{"role": "user", "content": "Look up."}], []
        for _ in range(TURNS):
            q = dict(model="stepfall", messages=messages, tools=CHAT_TOOLS, reasoning_effort="medium")
            if stream:
                with c.chat.completions.stream(**q) as s:
                    said = s.get_final_completion().choices[0].message
            else:
                said = c.chat.completions.create(**q).choices[0].message
            message = said.model_dump(exclude_none=True)
            message.pop("parsed", None)
            for t in message.get("tool_calls", []):
                t["function"].pop("parsed_arguments", None)
            messages.append(message)
            for t in said.tool_calls or []:
                messages.append({"role": "tool", "tool_call_id": t.id, "content": found(t.function.arguments)})
            if not said.tool_calls:
                texts.append(said.content)
                if len(texts) == 2:
                    break
                messages.append({"role": "user", "content": "And again?"})
        return texts

    return walk


def responses(stream):
    import openai

    def walk(url):
        c = openai.OpenAI(base_url=url + "/v1", api_key="none", max_retries=0)
        items, texts = [{"role": "user", "content": "Look up."}], []
        for _ in range(TURNS):
            q = dict(model="stepfall", input=items, store=False, include=["reasoning.encrypted_content"], reasoning={"effort": "medium", "summary": "auto"},
                     tools=[{"type": "function", "name": "lookup", "parameters": SCHEMA, "strict": False}])
            if stream:
                with c.responses.stream(**q) as s:
                    r = s.get_final_response()
            else:
                r = c.responses.create(**q)
            results = []
            for item in r.output:
                own = item.model_dump(exclude_none=True)
                own.pop("parsed_arguments", None)
                for part in own.get("content") or []:
                    part.pop("parsed", None)
                items.append(own)
                if item.type == "function_call":
                    results.append({"type": "function_call_output", "call_id": item.call_id, "output": found(item.arguments)})
            items += results
            if not results:
                texts.append(r.output_text)
                if len(texts) == 2:
                    break
                items.append({"role": "user", "content": "And again?"})
        return texts

    return walk


def messages(stream):
    import anthropic

    def walk(url):
        c = anthropic.Anthropic(base_url=url, api_key="none", max_retries=0)
        said, texts = [{"role": "user", "content": "Look up."}], []
        for _ in range(TURNS):
            q = dict(model="stepfall", max_tokens=8000, thinking={"type": "enabled", "budget_tokens": 2000}, messages=said,
                     tools=[{"name": "lookup", "description": "looks up", "input_schema": SCHEMA}])
            if stream:
                with c.messages.stream(**q) as s:
                    m = s.get_final_message()
            else:
                m = c.messages.create(**q)
            said.append({"role": "assistant", "content": m.content})
            results = [{"type": "tool_result", "tool_use_id": b.id, "content": found(json.dumps(b.input))} for b in m.content if b.type == "tool_use"]
            if results:
                said.append({"role": "user", "content": results})
                continue
            texts.append("".join(b.text for b in m.content if b.type == "text"))
            if len(texts) == 2:
                break
            said.append({"role": "user", "content": "And again?"})
        return texts

    return walk


def tool_runner(url):
    import anthropic
    from anthropic import beta_tool

    @beta_tool
    def lookup(n: int) -> str:
        """looks up"""
        return found(n)

    c = anthropic.Anthropic(base_url=url, api_key="none", max_retries=0)
    said, texts = [{"role": "user", "content": "Look up."}], []
    for _ in range(2):
        runner = c.beta.messages.tool_runner(model="stepfall", max_tokens=8000, thinking={"type": "enabled", "budget_tokens": 2000}, tools=[lookup], messages=said)
        last = None
        for last in runner:
            said.append({"role": "assistant", "content": last.content})
            answer = runner.generate_tool_call_response()
            if answer is not None:
                said.append(answer)
        texts.append("".join(b.text for b in last.content if b.type == "text"))
        said.append({"role": "user", "content": "And again?"})
    return texts


def litellm(prefix, path):
    import litellm as lite

    def walk(url):
        messages, texts = [{"role": "user", "content": "Look up."}], []
        for _ in range(TURNS):
            said = lite.completion(model=prefix + "stepfall", api_base=url + path, api_key="none", messages=messages, tools=CHAT_TOOLS, num_retries=0,
                                   **({"thinking": {"type": "enabled", "budget_tokens": 2000}, "max_tokens": 8000, "allowed_openai_params": ["thinking"]} if prefix == "anthropic/" else {"reasoning_effort": "medium", "allowed_openai_params": ["reasoning_effort"]})).choices[0].message
            messages.append(said.model_dump(exclude_none=True))
            for t in said.tool_calls or []:
                messages.append({"role": "tool", "tool_call_id": t.id, "content": found(t.function.arguments)})
            if not said.tool_calls:
                texts.append(said.content)
                if len(texts) == 2:
                    break
                messages.append({"role": "user", "content": "And again?"})
        return texts

    return walk


def langchain(make):
    from langchain_core.messages import HumanMessage, ToolMessage
    from langchain_core.tools import tool

    @tool
    def lookup(n: int) -> str:
        """looks up"""
        return found(n)

    def walk(url):
        model = make(url).bind_tools([lookup])
        said, texts = [HumanMessage("Look up.")], []
        for _ in range(TURNS):
            m = model.invoke(said)
            said.append(m)
            said += [ToolMessage(found(t["args"]["n"]), tool_call_id=t["id"]) for t in m.tool_calls]
            if not m.tool_calls:
                texts.append(m.text if isinstance(m.text, str) else m.text())
                if len(texts) == 2:
                    break
                said.append(HumanMessage("And again?"))
        return texts

    return walk


def agents(kind):
    from agents import Agent, ModelSettings, OpenAIChatCompletionsModel, OpenAIResponsesModel, Runner, function_tool, set_tracing_disabled
    from openai import AsyncOpenAI
    from openai.types.shared import Reasoning

    set_tracing_disabled(True)

    @function_tool
    def lookup(n: int) -> str:
        """looks up"""
        return found(n)

    def walk(url):
        async def go():
            make = OpenAIResponsesModel if kind == "responses" else OpenAIChatCompletionsModel
            model = make(model="stepfall", openai_client=AsyncOpenAI(base_url=url + "/v1", api_key="none", max_retries=0))
            settings = ModelSettings(reasoning=Reasoning(effort="medium"), store=False, **({"response_include": ["reasoning.encrypted_content"]} if kind == "responses" else {}))
            agent = Agent(name="a", model=model, model_settings=settings, tools=[lookup])
            first = await Runner.run(agent, "Look up.")
            second = await Runner.run(agent, first.to_input_list() + [{"role": "user", "content": "And again?"}])
            return [first.final_output, second.final_output]

        return asyncio.run(go())

    return walk


def pydantic_ai(kind):
    from pydantic_ai import Agent

    def walk(url):
        if kind == "anthropic":
            from pydantic_ai.models.anthropic import AnthropicModel
            from pydantic_ai.providers.anthropic import AnthropicProvider
            from anthropic import AsyncAnthropic
            model = AnthropicModel("stepfall", provider=AnthropicProvider(anthropic_client=AsyncAnthropic(api_key="none", base_url=url, max_retries=0)))
            settings = {"anthropic_thinking": {"type": "enabled", "budget_tokens": 2000}, "max_tokens": 8000}
        else:
            from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
            from pydantic_ai.providers.openai import OpenAIProvider
            make = OpenAIResponsesModel if kind == "responses" else OpenAIChatModel
            model = make("stepfall", provider=OpenAIProvider(base_url=url + "/v1", api_key="none"))
            settings = {"openai_reasoning_effort": "medium"}
        agent = Agent(model, model_settings=settings)

        @agent.tool_plain
        def lookup(n: int) -> str:
            """looks up"""
            return found(n)

        first = agent.run_sync("Look up.")
        second = agent.run_sync("And again?", message_history=first.all_messages())
        return [first.output, second.output]

    return walk


def instructor(url):
    import instructor as structured
    import openai
    from pydantic import BaseModel

    class City(BaseModel):
        city: str

    c = structured.from_openai(openai.OpenAI(base_url=url + "/v1", api_key="none", max_retries=0), mode=structured.Mode.JSON_SCHEMA)
    got = c.chat.completions.create(model="stepfall", response_model=City, messages=[{"role": "user", "content": "A city."}], max_retries=0)
    assert got.city == "Paris", got
    return [FIRST, SECOND]


def every():
    yield "PyPI openai (chat)", lambda: chat(False)
    yield "PyPI openai (chat, streamed)", lambda: chat(True)
    yield "PyPI openai (responses)", lambda: responses(False)
    yield "PyPI openai (responses, streamed)", lambda: responses(True)
    yield "PyPI anthropic", lambda: messages(False)
    yield "PyPI anthropic (streamed)", lambda: messages(True)
    yield "PyPI anthropic (tool_runner)", lambda: tool_runner
    yield "PyPI litellm (openai)", lambda: litellm("openai/", "/v1")
    yield "PyPI litellm (anthropic)", lambda: litellm("anthropic/", "")

    def langchain_openai(url, **more):
        from langchain_openai import ChatOpenAI
        return ChatOpenAI(model="stepfall", base_url=url + "/v1", api_key="none", max_retries=0, **more)

    def langchain_anthropic(url):
        from langchain_anthropic import ChatAnthropic
        return ChatAnthropic(model="stepfall", base_url=url, api_key="none", max_retries=0, max_tokens=8000, thinking={"type": "enabled", "budget_tokens": 2000})

    yield "PyPI langchain-openai (chat)", lambda: langchain(lambda url: langchain_openai(url, reasoning_effort="medium"))
    yield "PyPI langchain-openai (responses)", lambda: langchain(lambda url: langchain_openai(url, use_responses_api=True, reasoning={"effort": "medium", "summary": "auto"}, store=False, include=["reasoning.encrypted_content"]))
    yield "PyPI langchain-anthropic", lambda: langchain(langchain_anthropic)
    yield "PyPI openai-agents (chat)", lambda: agents("chat")
    yield "PyPI openai-agents (responses)", lambda: agents("responses")
    yield "PyPI instructor", lambda: instructor
    yield "PyPI pydantic-ai (chat)", lambda: pydantic_ai("chat")
    yield "PyPI pydantic-ai (responses)", lambda: pydantic_ai("responses")
    yield "PyPI pydantic-ai (anthropic)", lambda: pydantic_ai("anthropic")


# The newest openai does not go with all agents, so that these have an environment of
# their own.
OFFICIAL = sys.argv[1] == "official"

for client, make in every():
    if OFFICIAL != client.startswith(("PyPI openai (", "PyPI anthropic")):
        continue
    try:
        walk = make()
    except ImportError as e:
        print(f"skipped: {client}: {e}", flush=True)
        continue
    run(client, walk)
