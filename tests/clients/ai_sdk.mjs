// Vercel's AI SDK with three of its providers: openai-compatible, openai (chat and responses),
// anthropic.

import {
  LONG, PICTURE, QUESTION, ensure, isOne, obeyedRetry, packages, raised, run,
} from "./cases.mjs";

const { APICallError, embedMany, generateText, jsonSchema, streamText, tool } = packages("ai");
const { createOpenAICompatible } = packages("@ai-sdk/openai-compatible");
const { createOpenAI } = packages("@ai-sdk/openai");
const { createAnthropic } = packages("@ai-sdk/anthropic");

globalThis.AI_SDK_LOG_WARNINGS = false;
const weather = tool({ inputSchema: jsonSchema({ type: "object", properties: {} }) });
const GENERATING = ["sim", "tiny"];

const compatible = (facts, options = {}) =>
  createOpenAICompatible({
    name: "fairway", baseURL: `${facts.url}/v1`, apiKey: facts.key, includeUsage: true, ...options,
  });
const openai = (facts) => createOpenAI({ baseURL: `${facts.url}/v1`, apiKey: facts.key });
const anthropic = (facts) => createAnthropic({ baseURL: `${facts.url}/v1`, apiKey: facts.key });

// Each form of a model that the SDK can talk to.
const forms = (facts, name) => [
  compatible(facts)(name),
  openai(facts).chat(name),
  openai(facts).responses(name),
  anthropic(facts)(name),
];
const asked = { prompt: QUESTION, maxOutputTokens: 8, maxRetries: 0 };

async function parts(stream) {
  const found = [];
  for await (const part of stream.fullStream) found.push(part);
  return found;
}

async function aWholeAnswerHasTextAndUsageAndLimits(facts) {
  for (const name of GENERATING) {
    for (const model of forms(facts, name)) {
      const told = await generateText({ model, ...asked });
      ensure(told.text, model.provider);
      isOne([model.provider, told.usage.outputTokens], [model.provider, 8]);
      ensure(told.response.headers["x-fairway-call-id"]);
    }
  }
}

async function aStreamHasTextAndUsage(facts) {
  for (const name of GENERATING) {
    for (const model of forms(facts, name)) {
      const stream = streamText({ model, ...asked });
      const found = await parts(stream);
      ensure(found.some((part) => part.type === "text-delta" && part.text), model.provider);
      isOne([model.provider, (await stream.usage).outputTokens], [model.provider, 8]);
    }
  }
}

async function aToolIsCalledWholeAndInDeltas(facts) {
  const fields = { ...asked, prompt: "call a tool", tools: { weather } };
  for (const [model, input] of [
    [compatible(facts)("scripted"), { city: "Graz" }],
    [openai(facts).chat("scripted"), { city: "Graz" }],
    [anthropic(facts)("scripted"), { place: "Graz" }],
  ]) {
    const { toolCalls } = await generateText({ model, ...fields });
    isOne(toolCalls.map((call) => [call.toolName, call.input]), [["weather", input]]);
    const found = await parts(streamText({ model, ...fields }));
    const deltas = found.filter((part) => part.type === "tool-input-delta");
    isOne(JSON.parse(deltas.map((part) => part.delta).join("")), input);
  }
}

async function unknownFieldsAndPicturesReachTheReplica(facts) {
  const content = [
    { type: "text", text: "echo" },
    { type: "image", image: PICTURE },
  ];
  const vendor = { deep: [1, 2.5, null, "ü"] };
  const { text } = await generateText({
    model: compatible(facts)("scripted"),
    messages: [{ role: "user", content }],
    providerOptions: { fairway: { vendor } },
    maxRetries: 0,
  });
  const sent = JSON.parse(text);
  isOne(sent.messages[0].content[1].image_url.url, PICTURE);
  isOne(sent.vendor, vendor);
}

async function cachedTokensAreInTheUsage(facts) {
  for (const model of forms(facts, "sim")) {
    const long = { ...asked, model, prompt: `${model.provider} ${LONG}` };
    await generateText(long);
    const { usage } = await generateText(long);
    ensure(usage.inputTokenDetails.cacheReadTokens > 0, model.provider);
  }
}

async function refusalsAreItsOwnErrors(facts) {
  for (const model of forms(facts, "gpt-9")) {
    const error = await raised(APICallError, () => generateText({ model, ...asked }));
    isOne([error.statusCode, error.isRetryable], [404, false]);
  }
  const stranger = compatible(facts, { apiKey: "sk-wrong" })("sim");
  const refused = await raised(APICallError, () => generateText({ model: stranger, ...asked }));
  isOne([refused.statusCode, refused.data.error.code], [401, "invalid_api_key"]);
  const hot = { ...asked, model: compatible(facts)("sim"), temperature: 9 };
  isOne((await raised(APICallError, () => generateText(hot))).data.error.param, "temperature");
}

async function aLimitIsItsOwnErrorAndItsRetryWaits(facts) {
  const model = compatible(facts, { apiKey: facts.slow_key })("scripted");
  const ask = (maxRetries) => () => generateText({ ...asked, model, maxRetries });
  await ask(0)();
  const error = await raised(APICallError, ask(0));
  isOne([error.statusCode, error.isRetryable], [429, true]);
  await obeyedRetry(ask(3));
}

async function aBrokenStreamEndsWithAnErrorPart(facts) {
  for (const model of [compatible(facts)("scripted"), anthropic(facts)("scripted")]) {
    const stream = streamText({ ...asked, model, prompt: "break", onError() {} });
    const found = await parts(stream);
    const texts = found.filter((part) => part.type === "text-delta").map((part) => part.text);
    isOne(texts.join(""), "t0 t1 ");
    ensure(found.some((part) => part.type === "error"), model.provider);
  }
}

async function aStreamCanBeLeft(facts) {
  const leaving = new AbortController();
  const model = compatible(facts)("scripted");
  const stream = streamText({ ...asked, model, prompt: "endless", abortSignal: leaving.signal });
  let seen = 0;
  for await (const part of stream.fullStream) {
    if (part.type === "text-delta" && ++seen === 3) leaving.abort();
  }
  ensure(seen >= 3);
}

async function vectorsAreFloats(facts) {
  for (const name of ["sim-vectors", "tiny-vectors"]) {
    for (const model of [compatible(facts).embeddingModel(name), openai(facts).embedding(name)]) {
      const { embeddings } = await embedMany({ model, values: ["The sea", "The wind"] });
      isOne(embeddings.length, 2);
      ensure(embeddings[0].length >= 16 && embeddings[0].every(Number.isFinite));
    }
  }
}

await run("ai", [
  aWholeAnswerHasTextAndUsageAndLimits,
  aStreamHasTextAndUsage,
  aToolIsCalledWholeAndInDeltas,
  unknownFieldsAndPicturesReachTheReplica,
  cachedTokensAreInTheUsage,
  refusalsAreItsOwnErrors,
  aLimitIsItsOwnErrorAndItsRetryWaits,
  aBrokenStreamEndsWithAnErrorPart,
  aStreamCanBeLeft,
  vectorsAreFloats,
]);
