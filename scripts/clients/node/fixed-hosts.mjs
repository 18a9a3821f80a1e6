// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// Programs with the hosts of Google and OpenAI in their code, as docs/fixed-hosts.md leaves them: unchanged. With the
// argument "untrusted" they do not know the root, and must refuse the server.

import assert from "node:assert/strict";
import { google } from "googleapis";
import OpenAI from "openai";
import Perspective from "perspective-api-client";
import { check, environment } from "./check.mjs";

const fine = environment("FINE");
const vile = environment("VILE");
const key = environment("PERSPECTIVE_KEY");

/** Google's quick start, with the address that it has. */
const discovery = "https://commentanalyzer.googleapis.com/$discovery/rest?version=v1alpha1";
const analyze = async (text) => {
  const client = await google.discoverAPI(discovery);
  const resource = { comment: { text }, requestedAttributes: { TOXICITY: {} } };
  const { data } = await client.comments.analyze({ key, resource });
  return data.attributeScores.TOXICITY.summaryScore.value;
};

const openai = new OpenAI({ maxRetries: 0 }); // the key is in OPENAI_API_KEY

if (process.argv[2] === "untrusted") {
  const refused = async (promise) => {
    const err = await promise.then(
      () => assert.fail("the server was trusted"),
      (err) => err,
    );
    const told = [err.code, err.cause?.code, err.cause?.cause?.code, err.message, err.cause?.message].join(" ");
    assert.match(told, /SELF_SIGNED|UNABLE_TO|certificate/i);
  };
  await check("googleapis refuses the server", () => refused(analyze(fine)));
  await check("openai refuses the server", () => refused(openai.moderations.create({ input: fine })));
  process.exit();
}

await check("googleapis scores a comment", async () => {
  assert.ok((await analyze(vile)) > 0.8);
  assert.ok((await analyze(fine)) < 0.5);
});

await check("perspective-api-client scores a comment", async () => {
  const answer = await new Perspective({ apiKey: key }).analyze(vile);
  assert.ok(answer.attributeScores.TOXICITY.summaryScore.value > 0.8);
});

await check("openai moderates texts", async () => {
  const { results } = await openai.moderations.create({ input: [fine, vile] });
  assert.deepEqual(results.map((result) => result.flagged), [false, true]);
});

await check("openai's chats go to the real host", async () => {
  const answer = await openai.chat.completions.create({ model: "m", messages: [{ role: "user", content: "Hello." }] });
  assert.equal(answer.choices[0].message.content, "real");
});

await check("a name that the root is not for is refused", async () => {
  const err = await fetch("https://other.example/").then(
    () => assert.fail("the name was trusted"),
    (err) => err,
  );
  assert.match(`${err.cause?.code} ${err.cause?.message}`, /PERMITTED|permitted|constraint/i);
});
