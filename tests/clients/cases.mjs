// What the programs in JavaScript have in common: as cases.py, which says what goes in and out.

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";

export const folder = process.argv[2];
export const packages = createRequire(join(folder, "package.json"));

export const QUESTION = "Tell me about the sea.";
export const LONG = "the quick brown fox and the lazy dog went to the sea ".repeat(40);
export const PICTURE = "data:image/png;base64,iVBORw0KGgo=";
const LEAST_WAIT_MS = 500;
const LONGEST_WAIT_MS = 20_000;

export function ensure(truth, what) {
  if (!truth) throw new Error(what ?? "it is not so");
}

export function isOne(value, wanted) {
  const [told, right] = [JSON.stringify(value), JSON.stringify(wanted)];
  ensure(told === right, `${told} is not ${right}`);
}

export const talk = (content = QUESTION) => [{ role: "user", content }];

export async function raised(kind, call) {
  try {
    await call();
  } catch (error) {
    if (kind.isInstance ? kind.isInstance(error) : error instanceof kind) return error;
    throw error;
  }
  throw new Error(`no ${kind.name} was raised`);
}

// `call` retries by itself, under a limit of one call a second.
export async function obeyedRetry(call) {
  const began = performance.now();
  await call();
  await call();
  const took = performance.now() - began;
  ensure(LEAST_WAIT_MS <= took && took <= LONGEST_WAIT_MS, `waited ${Math.round(took)} ms`);
}

export async function run(name, cases) {
  const facts = JSON.parse(readFileSync(0, "utf8"));
  const { version } = JSON.parse(readFileSync(join(folder, "node_modules", name, "package.json")));
  console.log(JSON.stringify({ version }));
  for (const check of cases) {
    let problem = "";
    try {
      await check(facts);
    } catch (error) {
      problem = `${error?.name}: ${error?.message}`.slice(0, 400) || "unknown";
    }
    const title = check.name.replace(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`);
    console.log(JSON.stringify({ case: title, problem }));
  }
}
