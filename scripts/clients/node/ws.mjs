// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// The npm package ws: an echo through the guard.

import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import WebSocket from "ws";
import { check, fine, site, siteTLS, vile } from "./harness.mjs";

for (const [what, url, options] of [
  ["ws", `${site.replace("http", "ws")}/websocket`, {}],
  ["wss", `${siteTLS.replace("http", "ws")}/websocket`, { rejectUnauthorized: false }],
]) {
  await check(`${what} echoes texts, bytes and pings and closes well`, async () => {
    const socket = new WebSocket(url, options);
    await once(socket, "open");
    for (const message of [fine, vile, randomBytes(100_000)]) {
      socket.send(message);
      const [data, binary] = await once(socket, "message");
      assert.equal(binary, typeof message !== "string");
      assert.ok(Buffer.from(message).equals(data), "the echo differs");
    }
    socket.ping("are you there");
    const [pong] = await once(socket, "pong");
    assert.equal(pong.toString(), "are you there");
    socket.close(1000);
    const [code] = await once(socket, "close");
    assert.equal(code, 1000);
  });
}

await check("twenty at once keep their messages apart", async () => {
  await Promise.all(
    Array.from({ length: 20 }, async (_, i) => {
      const socket = new WebSocket(`${site.replace("http", "ws")}/websocket`);
      await once(socket, "open");
      socket.send(`message ${i}`);
      const [data] = await once(socket, "message");
      assert.equal(data.toString(), `message ${i}`);
      socket.terminate();
    }),
  );
});
