// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// The npm package openai: its moderations. With the argument "retry", whether it repeats what was refused.

import assert from "node:assert/strict";
import OpenAI, { AuthenticationError, BadRequestError, RateLimitError } from "openai";
import { check, fine, keys, rejection, sameMinute, service, vile } from "./service.mjs";

const client = (apiKey, options) => new OpenAI({ apiKey, baseURL: `${service}/v1`, ...options });
const ask = (input, { key = keys.open, ...options } = {}) => client(key, options).moderations.create({ input });

if (process.argv[2] === "retry") {
  await check("what the minute's limit refuses is repeated when the minute is over", async () => {
    const patient = client(keys.small);
    await patient.moderations.create({ input: fine });
    const answer = await patient.moderations.create({ input: vile });
    assert.equal(answer.results[0].flagged, true);
  });
  process.exit();
}

await check("a text is judged", async () => {
  const answer = await ask(vile);
  assert.match(answer.id, /^modr-/);
  assert.equal(answer.results.length, 1);
  const [result] = answer.results;
  assert.equal(result.flagged, true);
  assert.equal(result.categories.harassment, true);
  assert.equal(result.categories["sexual/minors"], false);
  assert.equal(Object.keys(result.categories).length, 13);
  assert.deepEqual(Object.keys(result.category_scores), Object.keys(result.categories));
  assert.deepEqual(Object.keys(result.category_applied_input_types), Object.keys(result.categories));
  assert.ok(result.category_scores.violence > 0.5, JSON.stringify(result));
});

await check("several texts have a result each, in their order", async () => {
  const { results } = await ask([fine, vile, fine]);
  assert.deepEqual(
    results.map((result) => result.flagged),
    [false, true, false],
  );
});

await check("parts of text are one input", async () => {
  const { results } = await ask([
    { type: "text", text: fine },
    { type: "text", text: vile },
  ]);
  assert.deepEqual(
    results.map((result) => result.flagged),
    [true],
  );
});

await check("the model is taken and told back", async () => {
  const answer = await client(keys.open).moderations.create({ input: fine, model: "text-moderation-latest" });
  assert.equal(answer.model, "text-moderation-latest");
  assert.equal(answer.results[0].flagged, false);
});

await check("an address with a slash too many works, too", async () => {
  const answer = await ask(fine, { baseURL: `${service}/v1/` });
  assert.equal(answer.results[0].flagged, false);
});

await check("the id of a request is told", async () => {
  const { request_id, response } = await client(keys.open).moderations.create({ input: fine }).withResponse();
  assert.match(request_id, /^mod_/);
  assert.equal(response.headers.get("x-request-id"), request_id);
});

const refused = async (promise, kind, status, code) => {
  const err = await rejection(promise);
  assert.ok(err instanceof kind, `${err?.constructor?.name}: ${err}`);
  assert.deepEqual([err.status, err.code], [status, code], `${err}`);
  assert.ok(!/undefined|\[object|no body/.test(err.message), err.message);
  return err;
};

await check("an image is an error", async () => {
  const input = [
    { type: "text", text: fine },
    { type: "image_url", image_url: { url: "https://example.com/a.png" } },
  ];
  const err = await refused(ask(input), BadRequestError, 400, "unsupported_value");
  assert.equal(err.param, "input[1]");
  assert.equal(err.type, "invalid_request_error");
});

await check("no input is an error", async () => {
  const err = await rejection(client(keys.open).moderations.create({}));
  assert.ok(err instanceof BadRequestError, `${err}`);
  assert.equal(err.param, "input");
});

await check("a number is an error", async () => {
  const err = await rejection(ask(7));
  assert.ok(err instanceof BadRequestError, `${err}`);
});

await check("an unknown key is an error that is not repeated", () =>
  refused(ask(fine, { key: keys.unknown }), AuthenticationError, 401, "invalid_api_key"),
);

await check("the minute's limit is an error that says when to come back", async () => {
  await sameMinute();
  const { response } = await client(keys.small).moderations.create({ input: fine }).withResponse();
  assert.equal(response.headers.get("x-ratelimit-remaining-requests"), "0");
  const err = await refused(ask(fine, { key: keys.small, maxRetries: 0 }), RateLimitError, 429, "rate_limit_exceeded");
  assert.match(err.headers.get("retry-after"), /^\d+$/);
});

await check("a batch that no minute has room for is an error that is not repeated", () =>
  refused(ask([fine, fine], { key: keys.small }), BadRequestError, 400, "array_above_max_length"),
);

await check("a month that is used up is an error that is not repeated", () =>
  refused(ask(fine, { key: keys.spent }), RateLimitError, 429, "insufficient_quota"),
);
