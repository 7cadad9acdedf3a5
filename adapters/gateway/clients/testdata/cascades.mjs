// Has the npm clients walk through the nine cascades, as cascades.py does with PyPI's.
import assert from "node:assert/strict";
import { z } from "zod";

const cascades = JSON.parse(process.env.CASCADES);
const first = "Done: 1 2 3 4.", second = "Done again.", turns = 8;
const schema = { type: "object", properties: { n: { type: "integer" } }, required: ["n"] };
const found = (n) => `found ${n}`;

async function refused(url) {
  return (await (await fetch(url + "/refused")).json()).map((f) => `${f.Model} refused: ${f.Message}`);
}

async function run(client, walk) {
  for (const [feature, url] of Object.entries(cascades).sort()) {
    await refused(url);
    const row = { client, feature, ok: true };
    try {
      assert.deepEqual(await walk(url), [first, second], "the conversation took another way");
    } catch (e) {
      Object.assign(row, { ok: false, why: String(e?.message ?? e).slice(0, 400) });
    }
    const why = await refused(url);
    if (why.length) Object.assign(row, { ok: false, why: why[0] });
    console.log(JSON.stringify(row));
  }
}

// loop asks until there is no call left, twice.
async function loop(ask, again) {
  const texts = [];
  for (let i = 0; i < turns && texts.length < 2; i++) {
    const text = await ask();
    if (text !== undefined && texts.push(text) < 2) again("And again?");
  }
  return texts;
}

{
  const { default: OpenAI } = await import("openai");
  const client = (url) => new OpenAI({ baseURL: url + "/v1", apiKey: "none", maxRetries: 0 });
  const tools = [{ type: "function", function: { name: "lookup", description: "looks up", parameters: schema } }];
  for (const stream of [false, true]) {
    await run(`npm openai (chat${stream ? ", streamed" : ""})`, (url) => {
      const c = client(url), messages = [{ role: "user", content: "Look up." }];
      return loop(async () => {
        const q = { model: "stepfall", messages, tools, reasoning_effort: "medium" };
        const { parsed, ...said } = (stream ? await c.chat.completions.stream(q).finalChatCompletion() : await c.chat.completions.create(q)).choices[0].message;
        messages.push(said);
        for (const t of said.tool_calls ?? []) {
          delete t.function.parsed_arguments;
          messages.push({ role: "tool", tool_call_id: t.id, content: found(t.function.arguments) });
        }
        return said.tool_calls?.length ? undefined : said.content;
      }, (content) => messages.push({ role: "user", content }));
    });
    await run(`npm openai (responses${stream ? ", streamed" : ""})`, (url) => {
      const c = client(url), input = [{ role: "user", content: "Look up." }];
      return loop(async () => {
        const q = { model: "stepfall", input, store: false, include: ["reasoning.encrypted_content"], reasoning: { effort: "medium", summary: "auto" },
          tools: [{ type: "function", name: "lookup", parameters: schema, strict: false }] };
        const r = stream ? await c.responses.stream(q).finalResponse() : await c.responses.create(q);
        const calls = r.output.filter((item) => item.type === "function_call");
        input.push(...r.output.map(({ parsed_arguments, ...item }) => item), ...calls.map((f) => ({ type: "function_call_output", call_id: f.call_id, output: found(f.arguments) })));
        return calls.length ? undefined : r.output_text;
      }, (content) => input.push({ role: "user", content }));
    });
  }
}

{
  const { default: Anthropic } = await import("@anthropic-ai/sdk");
  const client = (url) => new Anthropic({ baseURL: url, apiKey: "none", maxRetries: 0 });
  const thinking = { type: "enabled", budget_tokens: 2000 };
  const text = (m) => m.content.filter((b) => b.type === "text").map((b) => b.text).join("");
  for (const stream of [false, true]) {
    await run(`npm @anthropic-ai/sdk${stream ? " (streamed)" : ""}`, (url) => {
      const c = client(url), messages = [{ role: "user", content: "Look up." }];
      return loop(async () => {
        const q = { model: "stepfall", max_tokens: 8000, thinking, messages, tools: [{ name: "lookup", description: "looks up", input_schema: schema }] };
        const m = stream ? await c.messages.stream(q).finalMessage() : await c.messages.create(q);
        messages.push({ role: "assistant", content: m.content });
        const results = m.content.filter((b) => b.type === "tool_use").map((b) => ({ type: "tool_result", tool_use_id: b.id, content: found(b.input.n) }));
        if (!results.length) return text(m);
        messages.push({ role: "user", content: results });
      }, (content) => messages.push({ role: "user", content }));
    });
  }
  await run("npm @anthropic-ai/sdk (toolRunner)", async (url) => {
    const { betaZodTool } = await import("@anthropic-ai/sdk/helpers/beta/zod");
    const lookup = betaZodTool({ name: "lookup", description: "looks up", inputSchema: z.object({ n: z.number() }), run: ({ n }) => found(n) });
    let messages = [{ role: "user", content: "Look up." }];
    const texts = [];
    for (let i = 0; i < 2; i++) {
      const runner = client(url).beta.messages.toolRunner({ model: "stepfall", max_tokens: 8000, thinking, tools: [lookup], messages });
      const last = await runner.runUntilDone();
      texts.push(text(last));
      messages = [...runner.params.messages];
      if (messages.at(-1).role !== "assistant") messages.push({ role: "assistant", content: last.content });
      messages.push({ role: "user", content: "And again?" });
    }
    return texts;
  });
}

{
  const { generateText, streamText, tool, stepCountIs, isStepCount } = await import("ai");
  const tools = { lookup: tool({ description: "looks up", inputSchema: z.object({ n: z.number() }), execute: async ({ n }) => found(n) }) };
  const kinds = {
    "openai-compatible": async (url) => [(await import("@ai-sdk/openai-compatible")).createOpenAICompatible({ name: "stepfall", baseURL: url + "/v1", apiKey: "none" })("stepfall"), { stepfall: { reasoningEffort: "medium" } }],
    "openai, chat": async (url) => [(await import("@ai-sdk/openai")).createOpenAI({ baseURL: url + "/v1", apiKey: "none" }).chat("stepfall"), { openai: { reasoningEffort: "medium", forceReasoning: true } }],
    "openai, responses": async (url) => [(await import("@ai-sdk/openai")).createOpenAI({ baseURL: url + "/v1", apiKey: "none" }).responses("stepfall"),
      { openai: { store: false, include: ["reasoning.encrypted_content"], reasoningEffort: "medium", reasoningSummary: "auto", forceReasoning: true } }],
    anthropic: async (url) => [(await import("@ai-sdk/anthropic")).createAnthropic({ baseURL: url + "/v1", apiKey: "none" })("stepfall"), { anthropic: { thinking: { type: "enabled", budgetTokens: 2000 } } }],
  };
  for (const [kind, make] of Object.entries(kinds)) {
    for (const stream of [false, true]) {
      await run(`npm ai (${kind}${stream ? ", streamed" : ""})`, async (url) => {
        const [model, providerOptions] = await make(url);
        const messages = [{ role: "user", content: "Look up." }], texts = [];
        for (let i = 0; i < 2; i++) {
          const q = { model, messages, tools, providerOptions, maxRetries: 0, maxOutputTokens: 8000, stopWhen: (isStepCount ?? stepCountIs)(turns), onError() {} };
          const r = stream ? streamText(q) : await generateText(q);
          texts.push(await r.text);
          const response = await r.response;
          messages.push(...((await r.responseMessages) ?? response.messages), { role: "user", content: "And again?" });
        }
        return texts;
      });
    }
  }
}

{
  const { Agent, Runner, tool, setTracingDisabled, OpenAIChatCompletionsModel, OpenAIResponsesModel } = await import("@openai/agents");
  const { default: OpenAI } = await import("openai");
  setTracingDisabled(true);
  const lookup = tool({ name: "lookup", description: "looks up", parameters: z.object({ n: z.number() }), execute: async ({ n }) => found(n) });
  for (const [kind, Model] of [["chat", OpenAIChatCompletionsModel], ["responses", OpenAIResponsesModel]]) {
    await run(`npm @openai/agents (${kind})`, async (url) => {
      const model = new Model(new OpenAI({ baseURL: url + "/v1", apiKey: "none", maxRetries: 0 }), "stepfall");
      const agent = new Agent({ name: "a", model, tools: [lookup], modelSettings: { store: false, reasoning: { effort: "medium" }, ...(kind === "responses" ? { providerData: { include: ["reasoning.encrypted_content"] } } : {}) } });
      const runner = new Runner({ tracingDisabled: true });
      const one = await runner.run(agent, "Look up.");
      const two = await runner.run(agent, [...one.history, { role: "user", content: "And again?" }]);
      return [one.finalOutput, two.finalOutput];
    });
  }
}
