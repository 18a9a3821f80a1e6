// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// The npm package googleapis, which builds its client from the discovery document, as the Perspective API's quick start did.

import assert from "node:assert/strict";
import { google } from "googleapis";
import { check, fine, keys, rejection, sameMinute, service, vile } from "./service.mjs";

const discover = (base) => google.discoverAPI(`${base}/$discovery/rest?version=v1alpha1`);

/** The promise of an answer, from the callback of the quick start. */
const call = (method, parameters) =>
  new Promise((resolve, reject) => method(parameters, (err, response) => (err ? reject(err) : resolve(response))));

const analyze = (client, text, { key = keys.open, ...more } = {}) =>
  call(client.comments.analyze.bind(client.comments), {
    key,
    resource: { comment: { text }, requestedAttributes: { TOXICITY: {} }, ...more },
  });

let client;

await check("the client is built from the discovery document", async () => {
  client = await discover(service);
});

await check("a comment is scored", async () => {
  const { data } = await analyze(client, vile);
  assert.ok(data.attributeScores.TOXICITY.summaryScore.value > 0.8, JSON.stringify(data));
  assert.equal(data.attributeScores.TOXICITY.summaryScore.type, "PROBABILITY");
  const [whole] = data.attributeScores.TOXICITY.spanScores;
  assert.deepEqual([whole.begin, whole.end], [0, vile.length]);
  assert.equal(whole.score.value, data.attributeScores.TOXICITY.summaryScore.value);
});

await check("a fine comment scores low, members and languages come back", async () => {
  const { data } = await analyze(client, fine, {
    languages: ["en"],
    doNotStore: true,
    clientToken: "token",
    sessionId: "session",
    communityId: "community",
    spanAnnotations: true,
    context: { entries: [{ text: "What did you bake?" }] },
    requestedAttributes: { TOXICITY: { scoreType: "PROBABILITY" }, INSULT: { scoreThreshold: 0.9 } },
  });
  assert.ok(data.attributeScores.TOXICITY.summaryScore.value < 0.5, JSON.stringify(data));
  assert.equal(data.attributeScores.INSULT.summaryScore, undefined);
  assert.deepEqual(data.languages, ["en"]);
  assert.equal(data.clientToken, "token");
});

await check("a long answer comes compressed", async () => {
  const names = ["TOXICITY", "SEVERE_TOXICITY", "IDENTITY_ATTACK", "INSULT", "PROFANITY", "THREAT", "SEXUALLY_EXPLICIT"];
  const { data } = await analyze(client, vile, { requestedAttributes: Object.fromEntries(names.map((name) => [name, {}])) });
  assert.deepEqual(Object.keys(data.attributeScores).sort(), names.sort());
});

await check("a score is suggested", async () => {
  const { data } = await call(client.comments.suggestscore.bind(client.comments), {
    key: keys.open,
    resource: {
      comment: { text: fine },
      attributeScores: { TOXICITY: { summaryScore: { value: 0 } } },
      clientToken: "token",
    },
  });
  assert.equal(data.clientToken, "token");
});

await check("the address with a path works, too", async () => {
  const { data } = await analyze(await discover(`${service}/api/perspective`), vile);
  assert.ok(data.attributeScores.TOXICITY.summaryScore.value > 0.8, JSON.stringify(data));
});

/** Checks an error as the client tells it. */
const refused = async (promise, status, message, detail) => {
  const err = await rejection(promise);
  assert.equal(Number(err.status ?? err.code), status, `${err}`);
  assert.match(err.message, message);
  const { error } = err.response.data;
  assert.equal(error.code, status);
  assert.ok(error.details.some(detail), JSON.stringify(error));
  return err;
};
const errorType = (type) => (detail) => detail.errorType === type;
const reason = (name) => (detail) => detail.reason === name && detail.domain === "googleapis.com";

await check("an empty comment is an error", () =>
  refused(analyze(client, ""), 400, /^Comment must be non-empty\.$/, errorType("COMMENT_EMPTY")),
);

await check("a comment that is too long is an error", () =>
  refused(analyze(client, "a".repeat(20_481)), 400, /^Comment text too long\.$/, errorType("COMMENT_TOO_LONG")),
);

await check("an unknown attribute is an error", () =>
  refused(
    analyze(client, fine, { requestedAttributes: { CHARM: {} } }),
    400,
    /^Unknown requested attribute: CHARM$/,
    errorType("INVALID_REQUEST"),
  ),
);

await check("no attribute at all is an error", () =>
  refused(
    analyze(client, fine, { requestedAttributes: {} }),
    400,
    /^Missing requested_attributes$/,
    errorType("NO_REQUESTED_ATTRIBUTES"),
  ),
);

await check("a language that nobody scores is an error", () =>
  refused(
    analyze(client, fine, { languages: ["eo"] }),
    400,
    /^Attribute TOXICITY does not support request languages: eo$/,
    errorType("LANGUAGE_NOT_SUPPORTED_BY_ATTRIBUTE"),
  ),
);

await check("a score for nothing cannot be suggested", async () => {
  const promise = call(client.comments.suggestscore.bind(client.comments), {
    key: keys.open,
    resource: { comment: { text: fine }, attributeScores: {} },
  });
  assert.equal(Number((await rejection(promise)).status), 400);
});

await check("an unknown key is an error", () =>
  refused(analyze(client, fine, { key: keys.unknown }), 401, /key/, reason("API_KEY_INVALID")),
);

await check("the minute's limit is an error that says when to come back", async () => {
  await sameMinute();
  await analyze(client, fine, { key: keys.small });
  const err = await refused(analyze(client, fine, { key: keys.small }), 429, /minute/, reason("RATE_LIMIT_EXCEEDED"));
  assert.equal(err.response.data.error.status, "RESOURCE_EXHAUSTED");
  assert.ok(err.response.data.error.details.some((detail) => /^\d+s$/.test(detail.retryDelay)));
});

await check("a month that is used up is an error", () =>
  refused(analyze(client, fine, { key: keys.spent }), 429, /period/, reason("RATE_LIMIT_EXCEEDED")),
);
