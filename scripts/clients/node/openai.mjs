// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// The npm package openai: chats with a language model through the guard, which judges the questions and the answers.

import assert from "node:assert/strict";
import OpenAI, { APIError, APIUserAbortError } from "openai";
import { check, fineStory, open, received, site, vile } from "./harness.mjs";

const path = "/v1/chat/completions";
const client = new OpenAI({ apiKey: "none", baseURL: `${site}/v1` }); // retries as it does by default
const question = [{ role: "user", content: "Tell me a story about a harbour." }];

/** Reads a stream: the chunks, the text and how it finished. */
async function read(stream, onText = async () => {}) {
  const got = { chunks: 0, text: "", finish: null };
  for await (const chunk of stream) {
    assert.equal(chunk.object, "chat.completion.chunk");
    got.chunks++;
    got.text += chunk.choices[0]?.delta?.content ?? "";
    got.finish = chunk.choices[0]?.finish_reason ?? got.finish;
    await onText(got.text);
  }
  return got;
}

await check("a fine answer arrives whole", async () => {
  const answer = await client.chat.completions.create({ model: "fine", messages: question });
  assert.equal(answer.choices[0].message.content, fineStory);
  assert.equal(answer.choices[0].finish_reason, "stop");
});

await check("a vile answer ends with content_filter and no exception", async () => {
  const answer = await client.chat.completions.create({ model: "vile", messages: question });
  assert.equal(answer.choices[0].finish_reason, "content_filter");
  assert.equal(answer.choices[0].message.content ?? "", "");
});

await check("a fine stream arrives whole and while it is written", async () => {
  const stream = await client.chat.completions.create(
    { model: "fine", messages: question, stream: true },
    { headers: { "X-Gate": "openai" } }, // the model stops in its second sentence until the first one was read
  );
  const got = await read(stream, async (text) => {
    if (text.includes(".")) await open("openai");
  });
  assert.equal(got.text, fineStory);
  assert.equal(got.finish, "stop");
  assert.ok(got.chunks >= fineStory.split(" ").length / 2, `the text came in ${got.chunks} chunks`);
});

await check("a vile stream ends with content_filter before the vile sentence, without an exception", async () => {
  const stream = await client.chat.completions.create({ model: "vile", messages: question, stream: true });
  const got = await read(stream);
  assert.equal(got.finish, "content_filter");
  assert.ok(got.text.startsWith("The harbour lies in the morning sun."), `the text is ${got.text.slice(0, 300)}`);
  assert.ok(!/find you|worthless/.test(got.text), `the text is ${got.text.slice(0, 300)}`);
});

await check("the model is told to stop then", async () => {
  const all = await received(path, { ended: true });
  assert.equal(all.at(-1).gone, true, "the model told its story to the end");
});

await check("the client's own helper reads a stream to its end", async () => {
  const runner = client.chat.completions.stream({ model: "fine", messages: question });
  const final = await runner.finalChatCompletion();
  assert.equal(final.choices[0].message.content, fineStory);
});

await check("a vile question gives the APIError of a content filter and no retry", async () => {
  const before = (await received(path)).length;
  let requests = 0;
  const counting = client.withOptions({
    fetch: (...args) => {
      requests++;
      return fetch(...args);
    },
  });
  for (const stream of [false, true]) {
    requests = 0;
    const err = await counting.chat.completions
      .create({ model: "fine", messages: [{ role: "user", content: vile }], stream })
      .then(() => assert.fail("the question was answered"), (err) => err);
    assert.ok(err instanceof APIError, `${err}`);
    assert.equal(err.status, 400);
    assert.equal(err.code, "content_filter");
    assert.match(err.message, /content|judged|moderat|reject|refus/i);
    assert.ok(!/undefined|\[object|no body|worthless/.test(err.message), `the message is ${err.message}`);
    assert.equal(requests, 1, `${requests} requests were made`);
  }
  assert.equal((await received(path)).length, before, "the question reached the model");
});

await check("giving up a stream ends the model's request, too", async () => {
  const abort = new AbortController();
  const stream = await client.chat.completions.create(
    { model: "fine", messages: question, stream: true },
    { headers: { "X-Gate": "never" }, signal: abort.signal },
  );
  try {
    await read(stream, async (text) => {
      if (text.includes("morning")) abort.abort();
    });
  } catch (err) {
    assert.ok(err instanceof APIUserAbortError || err.name === "AbortError", `${err}`);
  }
  const all = await received(path, { ended: true });
  assert.equal(all.at(-1).gone, true, "the model told its story to the end");
});
