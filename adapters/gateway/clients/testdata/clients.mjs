// Asks the gateway through the npm clients. Prints a line of JSON for each client and
// feature. The answers are those of the model in clients_test.go.
import assert from "node:assert/strict";
import { z } from "zod";

const url = process.env.GATEWAY_URL;
const pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
const City = z.object({ city: z.string(), population: z.number() });
const place = { type: "object", properties: { city: { type: "string" } }, required: ["city"], additionalProperties: false };

async function run(client, features) {
  for (const [feature, test] of Object.entries(features)) {
    try {
      await test();
      console.log(JSON.stringify({ client, feature, ok: true }));
    } catch (e) {
      console.log(JSON.stringify({ client, feature, ok: false, why: String(e?.stack ?? e).slice(0, 600) }));
    }
  }
}

const user = (content) => [{ role: "user", content }];

// --- npm openai ---
{
  const { default: OpenAI } = await import("openai");
  const { zodResponseFormat, zodTextFormat, zodFunction } = await import("openai/helpers/zod");
  const c = new OpenAI({ baseURL: url + "/v1", apiKey: "none", maxRetries: 0 });
  const model = "stepfall";
  const tools = [{ type: "function", function: { name: "weather", parameters: place } }];
  const ask = (content, more = {}) => c.chat.completions.create({ model, messages: user(content), ...more });
  await run("npm openai (chat)", {
    answer: async () => assert.equal((await ask("hello")).choices[0].message.content, "Hello there."),
    stream: async () => {
      let text = "", chunks = 0;
      for await (const chunk of await ask("hello", { stream: true })) { text += chunk.choices[0].delta.content ?? ""; chunks++; }
      assert.equal(text, "Hello there.");
      assert.ok(chunks > 2);
    },
    tools: async () => {
      const runner = c.chat.completions.runTools({ model, messages: user("weather in two cities"), tools: [
        { type: "function", function: { name: "weather", parse: JSON.parse, parameters: place, function: ({ city }) => "sunny in " + city } }] });
      assert.equal(await runner.finalContent(), "I heard: sunny in Paris; sunny in Rome");
    },
    "streamed tools": async () => {
      const stream = c.chat.completions.stream({ model, messages: user("weather in two cities"), tools });
      const calls = (await stream.finalChatCompletion()).choices[0].message.tool_calls;
      assert.deepEqual(calls.map((t) => t.function.arguments), ['{"city":"Paris"}', '{"city":"Rome"}']);
    },
    "JSON schema": async () => {
      const done = await c.chat.completions.parse({ model, messages: user("a city"), response_format: zodResponseFormat(City, "city") });
      assert.equal(done.choices[0].message.parsed.city, "Paris");
    },
    image: async () => assert.equal((await ask([{ type: "text", text: "look" }, { type: "image_url", image_url: { url: "data:image/png;base64," + pixel } }])).choices[0].message.content, "I see 1 image."),
    "log-probs": async () => assert.equal((await ask("hello", { logprobs: true, top_logprobs: 1 })).choices[0].logprobs.content[0].token, "Hello"),
    choices: async () => assert.equal((await ask("hello", { n: 2 })).choices.length, 2),
    reasoning: async () => assert.equal((await ask("think")).choices[0].message.reasoning_content, "Let me think."),
    refusal: async () => assert.equal((await ask("refuse")).choices[0].message.refusal, "I will not."),
    usage: async () => {
      const u = (await ask("hello")).usage;
      assert.deepEqual([u.prompt_tokens, u.prompt_tokens_details.cached_tokens, u.completion_tokens_details.reasoning_tokens], [12, 4, 3]);
    },
    "usage in streams": async () => {
      let u;
      for await (const chunk of await ask("hello", { stream: true, stream_options: { include_usage: true } })) u = chunk.usage ?? u;
      assert.equal(u.prompt_tokens_details.cached_tokens, 4);
    },
    "request id": async () => assert.match((await ask("hello"))._request_id, /^req_/),
    errors: async () => {
      await assert.rejects(ask("busy"), (e) => e instanceof OpenAI.RateLimitError && e.headers.get("retry-after") === "7");
      await assert.rejects(ask("broken"), (e) => e instanceof OpenAI.InternalServerError && e.status === 503);
      await assert.rejects(ask("hello", { n: 0 }), (e) => e instanceof OpenAI.BadRequestError && e.param === "n");
    },
    models: async () => {
      assert.equal((await c.models.list()).data[1].id, "small");
      assert.equal((await c.models.retrieve("small")).id, "small");
    },
    embeddings: async () => {
      const done = await c.embeddings.create({ model: "vectors", input: ["a", "b"] }); // asks for base64 by itself
      assert.deepEqual(done.data.map((d) => Array.from(d.embedding)), [[0.5, -1], [2, 0]]);
      assert.equal(done.usage.total_tokens, 7);
      await assert.rejects(c.embeddings.create({ model: "small", input: "a" }), (e) => e instanceof OpenAI.BadRequestError && e.param === "model");
    },
  });
  const say = (input, more = {}) => c.responses.create({ model, input, ...more });
  const flat = [{ type: "function", name: "weather", parameters: place, strict: true }];
  await run("npm openai (responses)", {
    answer: async () => assert.equal((await say("hello")).output_text, "Hello there."),
    stream: async () => {
      const stream = c.responses.stream({ model, input: "hello" });
      let text = "";
      for await (const e of stream) if (e.type === "response.output_text.delta") text += e.delta;
      assert.equal(text, "Hello there.");
      assert.equal((await stream.finalResponse()).output_text, "Hello there.");
    },
    tools: async () => {
      const input = user("weather in two cities");
      const first = await say(input, { tools: flat });
      const calls = first.output.filter((o) => o.type === "function_call");
      const next = await say([...input, ...first.output, ...calls.map((o) => ({ type: "function_call_output", call_id: o.call_id, output: "sunny in " + JSON.parse(o.arguments).city }))], { tools: flat });
      assert.equal(next.output_text, "I heard: sunny in Paris; sunny in Rome");
    },
    "streamed tools": async () => {
      const done = await c.responses.stream({ model, input: "weather in two cities", tools: flat }).finalResponse();
      assert.deepEqual(done.output.filter((o) => o.type === "function_call").map((o) => o.arguments), ['{"city":"Paris"}', '{"city":"Rome"}']);
    },
    "JSON schema": async () => assert.equal((await c.responses.parse({ model, input: "a city", text: { format: zodTextFormat(City, "city") } })).output_parsed.city, "Paris"),
    image: async () => assert.equal((await say([{ role: "user", content: [{ type: "input_image", detail: "auto", image_url: "data:image/png;base64," + pixel }] }])).output_text, "I see 1 image."),
    "log-probs": async () => assert.equal((await say("hello", { include: ["message.output_text.logprobs"] })).output.at(-1).content[0].logprobs[0].token, "Hello"),
    reasoning: async () => {
      const r = await say("think", { store: false, include: ["reasoning.encrypted_content"] });
      assert.equal(r.output[0].encrypted_content, "sealed");
      assert.equal((await say([...user("think"), ...r.output, ...user("what did you think?")])).output_text, "You sent back sealed.");
    },
    refusal: async () => assert.equal((await say("refuse")).output[0].content[0].refusal, "I will not."),
    usage: async () => {
      const u = (await say("hello")).usage;
      assert.deepEqual([u.input_tokens, u.input_tokens_details.cached_tokens, u.output_tokens_details.reasoning_tokens], [12, 4, 3]);
    },
    "request id": async () => assert.match((await say("hello"))._request_id, /^req_/),
    errors: async () => {
      await assert.rejects(say("busy"), (e) => e instanceof OpenAI.RateLimitError);
      await assert.rejects(say("hello", { previous_response_id: "resp_1" }), (e) => e instanceof OpenAI.BadRequestError && e.param === "previous_response_id");
    },
  });
}

// --- npm @anthropic-ai/sdk ---
{
  const { default: Anthropic } = await import("@anthropic-ai/sdk");
  const c = new Anthropic({ baseURL: url, apiKey: "none", maxRetries: 0 });
  const base = { model: "stepfall", max_tokens: 2000 };
  const ask = (content, more = {}) => c.messages.create({ ...base, messages: user(content), ...more });
  const tools = [{ name: "weather", input_schema: place }];
  await run("npm @anthropic-ai/sdk", {
    answer: async () => assert.equal((await ask("hello")).content[0].text, "Hello there."),
    stream: async () => assert.equal(await c.messages.stream({ ...base, messages: user("hello") }).finalText(), "Hello there."),
    tools: async () => {
      const messages = user("weather in two cities");
      const first = await ask(null, { messages, tools });
      assert.equal(first.stop_reason, "tool_use");
      const next = await ask(null, { tools, messages: [...messages, { role: "assistant", content: first.content }, { role: "user", content: first.content
        .filter((b) => b.type === "tool_use").map((b) => ({ type: "tool_result", tool_use_id: b.id, content: "sunny in " + b.input.city })) }] });
      assert.equal(next.content[0].text, "I heard: sunny in Paris; sunny in Rome");
    },
    "streamed tools": async () => {
      const done = await c.messages.stream({ ...base, messages: user("weather in two cities"), tools }).finalMessage();
      assert.deepEqual(done.content.filter((b) => b.type === "tool_use").map((b) => b.input.city), ["Paris", "Rome"]);
    },
    "JSON schema": async () => {
      const done = await ask("a city", { output_config: { format: { type: "json_schema", schema: { type: "object", properties: { city: { type: "string" }, population: { type: "integer" } } } } } });
      assert.equal(JSON.parse(done.content[0].text).city, "Paris");
    },
    image: async () => assert.equal((await ask([{ type: "image", source: { type: "base64", media_type: "image/png", data: pixel } }])).content[0].text, "I see 1 image."),
    reasoning: async () => {
      const more = { thinking: { type: "enabled", budget_tokens: 1024 } };
      for (const done of [await ask("think", more), await c.messages.stream({ ...base, messages: user("think"), ...more }).finalMessage()]) {
        assert.equal(done.content[0].thinking, "Let me think.");
        assert.equal(done.content[0].signature, "signed");
        const next = await ask(null, { ...more, messages: [...user("think"), { role: "assistant", content: done.content }, ...user("what did you think?")] });
        assert.equal(next.content[0].text, "You sent back signed.");
      }
    },
    refusal: async () => assert.equal((await ask("refuse")).stop_reason, "refusal"),
    usage: async () => {
      const u = (await ask("hello")).usage;
      assert.deepEqual([u.input_tokens, u.cache_read_input_tokens, u.output_tokens], [8, 4, 8]);
    },
    "usage in streams": async () => assert.equal((await c.messages.stream({ ...base, messages: user("hello") }).finalMessage()).usage.output_tokens, 8),
    "request id": async () => assert.match((await ask("hello"))._request_id, /^req_/),
    errors: async () => {
      await assert.rejects(ask("busy"), (e) => e instanceof Anthropic.RateLimitError && e.headers.get("retry-after") === "7");
      await assert.rejects(ask("broken"), (e) => e instanceof Anthropic.InternalServerError && e.status === 503);
    },
    models: async () => assert.equal((await c.models.retrieve("small")).display_name, "small"),
    "token count": async () => assert.ok((await c.messages.countTokens({ model: "stepfall", messages: user("hello") })).input_tokens > 0),
  });
}

// --- npm ai, with its three providers ---
{
  const { generateText, streamText, generateObject, tool, stepCountIs } = await import("ai");
  const weather = tool({ inputSchema: z.object({ city: z.string() }), execute: async ({ city }) => "sunny in " + city });
  const providers = {
    "npm ai + @ai-sdk/openai": (await import("@ai-sdk/openai")).createOpenAI({ baseURL: url + "/v1", apiKey: "none" })("stepfall"),
    "npm ai + openai-compatible": (await import("@ai-sdk/openai-compatible")).createOpenAICompatible({ name: "stepfall", baseURL: url + "/v1", supportsStructuredOutputs: true, includeUsage: true })("stepfall"),
    "npm ai + @ai-sdk/anthropic": (await import("@ai-sdk/anthropic")).createAnthropic({ baseURL: url + "/v1", apiKey: "none" })("stepfall"),
  };
  for (const [name, model] of Object.entries(providers)) {
    const base = { model, maxRetries: 0, maxOutputTokens: 2000 };
    await run(name, {
      answer: async () => assert.equal((await generateText({ ...base, prompt: "hello" })).text, "Hello there."),
      stream: async () => {
        let text = "";
        for await (const piece of streamText({ ...base, prompt: "hello" }).textStream) text += piece;
        assert.equal(text, "Hello there.");
      },
      tools: async () => assert.equal((await generateText({ ...base, prompt: "weather in two cities", tools: { weather }, stopWhen: stepCountIs(3) })).text, "I heard: sunny in Paris; sunny in Rome"),
      "streamed tools": async () => assert.equal(await streamText({ ...base, prompt: "weather in two cities", tools: { weather }, stopWhen: stepCountIs(3) }).text, "I heard: sunny in Paris; sunny in Rome"),
      "JSON schema": async () => assert.equal((await generateObject({ ...base, prompt: "a city", schema: City })).object.city, "Paris"),
      image: async () => assert.equal((await generateText({ ...base, messages: [{ role: "user", content: [{ type: "file", mediaType: "image/png", data: pixel }] }] })).text, "I see 1 image."),
      usage: async () => assert.equal((await generateText({ ...base, prompt: "hello" })).usage.inputTokens, 12),
      "usage in streams": async () => assert.equal((await streamText({ ...base, prompt: "hello" }).usage).inputTokens, 12),
      errors: async () => {
        await assert.rejects(generateText({ ...base, prompt: "busy" }), (e) => e.statusCode === 429 && e.responseHeaders["retry-after"] === "7");
      },
    });
  }
}

// --- npm @langchain/openai, with an agent ---
{
  const { ChatOpenAI } = await import("@langchain/openai");
  const { createAgent, tool } = await import("langchain");
  const llm = new ChatOpenAI({ model: "stepfall", apiKey: "none", maxRetries: 0, configuration: { baseURL: url + "/v1" } });
  await run("npm @langchain/openai", {
    answer: async () => assert.equal((await llm.invoke("hello")).text, "Hello there."),
    stream: async () => {
      let text = "";
      for await (const chunk of await llm.stream("hello")) text += chunk.text;
      assert.equal(text, "Hello there.");
    },
    tools: async () => {
      const weather = tool(({ city }) => "sunny in " + city, { name: "weather", description: "the weather", schema: z.object({ city: z.string() }) });
      const done = await createAgent({ model: llm, tools: [weather] }).invoke({ messages: user("weather in two cities") });
      assert.equal(done.messages.at(-1).text, "I heard: sunny in Paris; sunny in Rome");
    },
    "JSON schema": async () => assert.equal((await llm.withStructuredOutput(City).invoke("a city")).city, "Paris"),
    usage: async () => assert.equal((await llm.invoke("hello")).usage_metadata.input_token_details.cache_read, 4),
    errors: async () => { await assert.rejects(llm.invoke("busy"), (e) => e.status === 429 || /429/.test(e.message)); },
  });
}
process.exit(0);
