// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// Node's own fetch: JSON, forms with files, bodies that are streamed, compressed bodies, answers that are streamed.

import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import zlib from "node:zlib";
import { check, fine, fineStory, open, received, refusal, same, sha256, site, skip, unseen, vile } from "./harness.mjs";

const json = { "Content-Type": "application/json" };

await check("a JSON post arrives as sent", async () => {
  const body = JSON.stringify({ comment: fine, tags: ["cake", "küche", "🍰"] });
  const answer = await fetch(`${site}/echo/fetch-json`, { method: "POST", headers: json, body });
  assert.equal(answer.status, 200);
  assert.equal(await answer.text(), body);
  await same("/echo/fetch-json", Buffer.from(body));
});

await check("a vile JSON post is refused", async () => {
  const path = "/echo/fetch-json-vile";
  await refusal(await fetch(site + path, { method: "POST", headers: json, body: JSON.stringify({ comment: vile }) }));
  await unseen(path);
});

await check("PUT and PATCH are judged, too", async () => {
  for (const method of ["PUT", "PATCH"]) {
    const path = `/echo/fetch-${method}`;
    await refusal(await fetch(site + path, { method, headers: json, body: JSON.stringify({ comment: vile }) }));
    await unseen(path);
  }
});

const photo = randomBytes(300_000);
const form = (caption) => {
  const data = new FormData();
  data.append("photo", new Blob([photo], { type: "image/png" }), "photo.png");
  data.append("caption", caption);
  return data;
};

await check("FormData with a Blob arrives byte for byte", async () => {
  const path = "/upload/fetch";
  const answer = await fetch(site + path, { method: "POST", body: form(fine) });
  assert.equal(answer.status, 200, await answer.text());
  const [seen] = await received(path, { ended: true });
  assert.deepEqual(
    seen.parts.map(({ name, filename, length, sha256 }) => ({ name, filename, length, sha256 })),
    [
      { name: "photo", filename: "photo.png", length: photo.length, sha256: sha256(photo) },
      { name: "caption", filename: undefined, length: fine.length, sha256: sha256(fine) },
    ],
  );
});

await check("FormData with a vile field is refused", async () => {
  const path = "/upload/fetch-vile";
  await refusal(await fetch(site + path, { method: "POST", body: form(vile) }));
  await unseen(path);
});

await check("URLSearchParams are judged", async () => {
  const path = "/echo/fetch-params";
  await refusal(await fetch(site + path, { method: "POST", body: new URLSearchParams({ name: "Ann", comment: vile }) }));
  await unseen(path);
});

/** Sends the text in pieces with pauses between them. */
const streamed = (text) =>
  new ReadableStream({
    async start(controller) {
      for (const piece of text.match(/.{1,7}/gsu)) {
        controller.enqueue(new TextEncoder().encode(piece));
        await new Promise((done) => setTimeout(done, 5));
      }
      controller.close();
    },
  });

await check("a streamed body arrives as sent", async () => {
  const path = "/echo/fetch-streamed";
  const body = JSON.stringify({ comment: fine });
  const answer = await fetch(site + path, { method: "POST", headers: json, body: streamed(body), duplex: "half" });
  assert.equal(answer.status, 200);
  assert.equal(await answer.text(), body);
  await same(path, Buffer.from(body));
});

await check("a vile streamed body is refused", async () => {
  const path = "/echo/fetch-streamed-vile";
  const body = streamed(JSON.stringify({ comment: vile }));
  await refusal(await fetch(site + path, { method: "POST", headers: json, body, duplex: "half" }));
  await unseen(path);
});

for (const [coding, compress] of [
  ["gzip", zlib.gzipSync],
  ["br", zlib.brotliCompressSync],
  ["deflate", zlib.deflateSync],
  ["zstd", zlib.zstdCompressSync],
]) {
  if (compress === undefined) {
    skip(`a body in ${coding}`, `Node ${process.version} cannot make it`);
    continue;
  }
  await check(`a body in ${coding} arrives as sent, a vile one is refused`, async () => {
    const headers = { ...json, "Content-Encoding": coding };
    const body = compress(JSON.stringify({ comment: fine }));
    const answer = await fetch(`${site}/echo/fetch-${coding}`, { method: "POST", headers, body });
    assert.equal(answer.status, 200);
    await same(`/echo/fetch-${coding}`, body);
    const path = `/echo/fetch-${coding}-vile`;
    await refusal(await fetch(site + path, { method: "POST", headers, body: compress(JSON.stringify({ comment: vile })) }));
    await unseen(path);
  });
}

await check("a streamed answer arrives while it is written", async () => {
  const answer = await fetch(`${site}/drip/fetch`);
  let got = "";
  for await (const chunk of answer.body.pipeThrough(new TextDecoderStream())) {
    got += chunk;
    await open(`/drip/fetch/${got.split("\n").length - 1}`);
  }
  assert.equal(got, "line 0\nline 1\nline 2\n");
});

await check("a judged story arrives sentence by sentence", async () => {
  const answer = await fetch(`${site}/judged/story/fine?gate=fetch`);
  let got = "";
  for await (const chunk of answer.body.pipeThrough(new TextDecoderStream())) {
    got += chunk;
    if (got.includes(".")) await open("fetch");
  }
  assert.equal(got, fineStory);
});

await check("an abort in the middle of an answer ends the app's request, too", async () => {
  const path = "/drip/fetch-abort";
  const abort = new AbortController();
  const answer = await fetch(site + path, { signal: abort.signal });
  const reader = answer.body.getReader();
  await reader.read();
  abort.abort();
  await assert.rejects(reader.read(), { name: "AbortError" });
  const [seen] = await received(path, { ended: true });
  assert.equal(seen.gone, true, "the app answered to the end");
});

await check("an abort in the middle of a body reaches nobody", async () => {
  const path = "/echo/fetch-abort";
  const abort = new AbortController();
  const body = new ReadableStream({
    start(controller) {
      controller.enqueue(new TextEncoder().encode('{"comment": "'));
      setTimeout(() => abort.abort(), 100);
    },
  });
  await assert.rejects(fetch(site + path, { method: "POST", headers: json, body, duplex: "half", signal: abort.signal }), {
    name: "AbortError",
  });
  await new Promise((done) => setTimeout(done, 200)); // Nothing tells that nothing comes.
  await unseen(path);
});
