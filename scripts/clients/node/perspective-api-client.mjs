// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// The npm package perspective-api-client. Its host is in its code; an interceptor of the HTTP library that it uses changes
// the address, as the guide tells its users to.

import assert from "node:assert/strict";
import { createRequire } from "node:module";
import Perspective from "perspective-api-client";
import { check, fine, keys, rejection, sameMinute, service, vile } from "./service.mjs";

let base = service;
const axios = createRequire(createRequire(import.meta.url).resolve("perspective-api-client"))("axios");
axios.interceptors.request.use((config) => {
  config.url = config.url.replace("https://commentanalyzer.googleapis.com", base);
  return config;
});

const client = (apiKey) => new Perspective({ apiKey });

await check("a comment is scored", async () => {
  const answer = await client(keys.open).analyze(vile);
  assert.ok(answer.attributeScores.TOXICITY.summaryScore.value > 0.8, JSON.stringify(answer));
  assert.equal(answer.attributeScores.TOXICITY.spanScores[0].end, vile.length);
});

await check("attributes are chosen by lower-case names", async () => {
  const answer = await client(keys.open).analyze(fine, { attributes: ["toxicity", "severe_toxicity", "flirtation"] });
  assert.ok(answer.attributeScores.TOXICITY.summaryScore.value < 0.5, JSON.stringify(answer));
  assert.ok(answer.attributeScores.SEVERE_TOXICITY);
});

await check("a whole request is passed on", async () => {
  const answer = await client(keys.open).analyze({
    comment: { text: `<b>${fine}</b>` },
    requestedAttributes: { TOXICITY: {} },
    languages: ["en"],
    clientToken: "token",
  });
  assert.equal(answer.clientToken, "token");
  assert.equal(answer.attributeScores.TOXICITY.spanScores[0].end, fine.length);
});

await check("the longest text that the client sends is scored", async () => {
  const answer = await client(keys.open).analyze("so good ".repeat(3_000), { truncate: true });
  assert.equal(answer.attributeScores.TOXICITY.spanScores[0].end, 20_480);
});

await check("the address with a path works, too", async () => {
  base = `${service}/api/perspective`;
  const answer = await client(keys.open).analyze(vile);
  base = service;
  assert.ok(answer.attributeScores.TOXICITY.summaryScore.value > 0.8, JSON.stringify(answer));
});

const refused = async (promise, status, message) => {
  const err = await rejection(promise);
  assert.equal(err.name, "ResponseError", `${err}`);
  assert.match(err.message, message);
  assert.equal(err.response.status, status);
  return err;
};

await check("an empty comment is an error", () =>
  refused(client(keys.open).analyze("", { validate: false }), 400, /^Comment must be non-empty\.$/),
);

await check("a comment that is too long is an error", () =>
  refused(client(keys.open).analyze("é".repeat(20_000)), 400, /^Comment text too long\.$/),
);

await check("an unknown attribute is an error", () =>
  refused(client(keys.open).analyze(fine, { attributes: ["charm"] }), 400, /^Unknown requested attribute: CHARM$/),
);

await check("an unknown key is an error", () => refused(client(keys.unknown).analyze(fine), 401, /key/));

await check("the minute's limit is an error", async () => {
  await sameMinute();
  await client(keys.small).analyze(fine);
  const err = await refused(client(keys.small).analyze(fine), 429, /minute/);
  assert.match(err.response.headers["retry-after"], /^\d+$/);
});

await check("a month that is used up is an error", () => refused(client(keys.spent).analyze(fine), 429, /period/));
