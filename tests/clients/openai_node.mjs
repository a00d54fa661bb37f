// The official `openai` client for JavaScript.

import {
  LONG, PICTURE, QUESTION, ensure, isOne, obeyedRetry, packages, raised, run, talk,
} from "./cases.mjs";

const OpenAI = packages("openai").OpenAI;
const TOOL = {
  type: "function",
  function: { name: "weather", parameters: { type: "object", properties: {} } },
};
const GENERATING = ["sim", "tiny"];

const client = (facts, options = {}) =>
  new OpenAI({ baseURL: `${facts.url}/v1`, apiKey: facts.key, maxRetries: 0, ...options });

const chat = (facts, model, text = QUESTION, fields = {}) =>
  client(facts).chat.completions.create({ model, messages: talk(text), max_tokens: 8, ...fields });

async function gathered(stream) {
  const chunks = [];
  for await (const chunk of stream) chunks.push(chunk);
  return chunks;
}

async function modelsAreListed(facts) {
  const listed = (await gathered(client(facts).models.list())).map((each) => each.id);
  ensure(["sim", "tiny", "scripted"].every((name) => listed.includes(name)), listed.join());
  isOne((await client(facts).models.retrieve("sim")).id, "sim");
}

async function aWholeAnswerHasTextAndUsageAndLimits(facts) {
  for (const model of GENERATING) {
    const { data, response } = await chat(facts, model).withResponse();
    ensure(data.choices[0].message.content);
    isOne([data.choices[0].finish_reason, data.usage.completion_tokens], ["length", 8]);
    ensure(Number(response.headers.get("x-ratelimit-remaining-tokens")) > 0);
    isOne(data._request_id, response.headers.get("x-request-id"));
  }
}

async function aStreamHasTextAndTheUsageItAskedFor(facts) {
  for (const model of GENERATING) {
    const plain = await gathered(await chat(facts, model, QUESTION, { stream: true }));
    ensure(plain.map((each) => each.choices[0].delta.content ?? "").join(""));
    ensure(plain.every((each) => !each.usage));
    const fields = { stream: true, stream_options: { include_usage: true } };
    const last = (await gathered(await chat(facts, model, QUESTION, fields))).at(-1);
    isOne([last.choices, last.usage.completion_tokens], [[], 8]);
  }
}

async function itsOwnAccumulationWorks(facts) {
  const asked = { model: "sim", messages: talk(), max_tokens: 8 };
  const stream = client(facts).chat.completions.stream(asked);
  ensure(await stream.finalContent());
}

async function aToolIsCalledWholeAndInDeltas(facts) {
  const whole = await chat(facts, "scripted", "call a tool", { tools: [TOOL] });
  const [call] = whole.choices[0].message.tool_calls;
  isOne([call.function.name, JSON.parse(call.function.arguments)], ["weather", { city: "Graz" }]);
  const chunks = await gathered(
    await chat(facts, "scripted", "call a tool", { tools: [TOOL], stream: true }),
  );
  const pieces = chunks.flatMap((chunk) =>
    chunk.choices.flatMap((choice) => choice.delta.tool_calls ?? []),
  );
  isOne(pieces.map((piece) => piece.function.arguments ?? "").join(""), '{"city":"Graz"}');
}

async function unknownFieldsAndPicturesReachTheReplica(facts) {
  const picture = { type: "image_url", image_url: { url: PICTURE } };
  const parts = [{ type: "text", text: "echo" }, picture];
  const vendor = { deep: [1, 2.5, null, "ü"] };
  const told = await chat(facts, "scripted", parts, { vendor });
  const sent = JSON.parse(told.choices[0].message.content);
  isOne(sent.messages[0].content, parts);
  isOne(sent.vendor, vendor);
}

async function cachedTokensAreInTheUsage(facts) {
  for (const model of GENERATING) {
    await chat(facts, model, `node ${LONG}`);
    const { usage } = await chat(facts, model, `node ${LONG}`);
    ensure(usage.prompt_tokens_details.cached_tokens > 0, model);
  }
}

async function theTierThatServedIsTold(facts) {
  for (const [tier, told] of [["auto", "default"], ["flex", "flex"]]) {
    isOne((await chat(facts, "sim", QUESTION, { service_tier: tier })).service_tier, told);
  }
}

async function refusalsAreItsOwnErrors(facts) {
  const wrong = () => client(facts, { apiKey: "sk-wrong" }).models.list();
  isOne((await raised(OpenAI.AuthenticationError, wrong)).code, "invalid_api_key");
  const missing = await raised(OpenAI.NotFoundError, () => chat(facts, "gpt-9"));
  isOne([missing.code, missing.param], ["model_not_found", "model"]);
  const hot = () => chat(facts, "sim", QUESTION, { temperature: 9 });
  isOne((await raised(OpenAI.BadRequestError, hot)).param, "temperature");
  const long = () => chat(facts, "tiny", "the sea ".repeat(2500), { stream: true });
  ensure((await raised(OpenAI.BadRequestError, long)).message.includes("context"));
}

async function aLimitIsItsOwnErrorAndItsRetryWaits(facts) {
  const ask = (maxRetries) => () =>
    client(facts, { apiKey: facts.slow_key, maxRetries }).chat.completions.create({
      model: "scripted", messages: talk(), max_tokens: 1,
    });
  await ask(0)();
  isOne((await raised(OpenAI.RateLimitError, ask(0))).code, "requests_per_minute");
  await obeyedRetry(ask(3));
}

async function aBrokenStreamRaisesAfterWhatCame(facts) {
  const texts = [];
  const error = await raised(OpenAI.APIError, async () => {
    for await (const chunk of await chat(facts, "scripted", "break", { stream: true })) {
      if (chunk.choices[0].delta.content) texts.push(chunk.choices[0].delta.content);
    }
  });
  isOne([texts, error.code], [["t0 ", "t1 "], "upstream_incomplete"]);
}

async function aStreamCanBeLeft(facts) {
  const stream = await chat(facts, "scripted", "endless", { stream: true });
  let seen = 0;
  for await (const _ of stream) if (++seen === 3) break;
  const other = await chat(facts, "scripted", "endless", { stream: true });
  other.controller.abort();
}

async function vectorsAreFloatsOrBase64(facts) {
  for (const model of ["sim-vectors", "tiny-vectors"]) {
    const ask = (fields) => client(facts).embeddings.create({ model, ...fields });
    const two = await ask({ input: ["The sea", "The wind"] });
    isOne(two.data.map((each) => each.index), [0, 1]);
    const floats = (await ask({ input: "The sea", encoding_format: "float" })).data[0].embedding;
    ensure(floats.every((each, at) => Math.abs(each - two.data[0].embedding[at]) < 1e-5));
  }
}

async function responsesAreWholeStreamedAndCounted(facts) {
  for (const model of GENERATING) {
    const { responses } = client(facts);
    const asked = { model, input: QUESTION, instructions: "Be kind." };
    const whole = await responses.create({ ...asked, max_output_tokens: 8 });
    ensure(whole.output_text);
    const { input_tokens: counted } = await responses.inputTokens.count(asked);
    isOne([whole.usage.output_tokens, whole.usage.input_tokens], [8, counted]);
    const events = await gathered(
      await responses.create({ ...asked, max_output_tokens: 8, stream: true }),
    );
    const deltas = events.filter((each) => each.type === "response.output_text.delta");
    ensure(deltas.map((each) => each.delta).join(""));
    ensure(["response.completed", "response.incomplete"].includes(events.at(-1).type));
  }
}

await run("openai", [
  modelsAreListed,
  aWholeAnswerHasTextAndUsageAndLimits,
  aStreamHasTextAndTheUsageItAskedFor,
  itsOwnAccumulationWorks,
  aToolIsCalledWholeAndInDeltas,
  unknownFieldsAndPicturesReachTheReplica,
  cachedTokensAreInTheUsage,
  theTierThatServedIsTold,
  refusalsAreItsOwnErrors,
  aLimitIsItsOwnErrorAndItsRetryWaits,
  aBrokenStreamRaisesAfterWhatCame,
  aStreamCanBeLeft,
  vectorsAreFloatsOrBase64,
  responsesAreWholeStreamedAndCounted,
]);
