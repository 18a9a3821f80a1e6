// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// What the scripts share that talk to the guard: the site and what the app behind it received.

import { createHash } from "node:crypto";
import { environment } from "./check.mjs";

export { check, skip } from "./check.mjs";

/** The site's addresses, and the app's own, past the guard. */
export const site = environment("SITE");
export const siteTLS = environment("SITE_TLS");
export const sitePin = environment("SITE_PIN");
export const app = environment("APP");

/** Texts about which there is no doubt. */
export const fine = environment("FINE");
export const vile = environment("VILE");
export const fineStory = environment("FINE_STORY");

/** A temporary folder. */
export const folder = environment("FOLDER");

/** What the app received at a path, oldest first; with ended, once it is done with the last request. */
export async function received(path, { ended = false } = {}) {
  const answer = await fetch(`${app}/-/received?path=${encodeURIComponent(path)}${ended ? "&ended" : ""}`);
  if (!answer.ok) throw new Error(await answer.text());
  return await answer.json();
}

/** Lets the app go on where it waits at the gate. */
export async function open(gate) {
  await fetch(`${app}/-/go?gate=${encodeURIComponent(gate)}`);
}

/** Throws when the app has received a whole request at the path. */
export async function unseen(path) {
  const all = await received(path);
  if (all.some((seen) => seen.whole)) throw new Error(`the app received the request to ${path}`);
}

/** Throws unless the app received exactly these bytes, once, at the path. */
export async function same(path, bytes) {
  const all = await received(path, { ended: true });
  if (all.length !== 1) throw new Error(`the app received ${all.length} requests at ${path}, want 1`);
  const hash = sha256(bytes);
  if (!all[0].whole || all[0].sha256 !== hash) {
    throw new Error(`the app received ${all[0].length} bytes with SHA-256 ${all[0].sha256}; sent were ${bytes.length} with ${hash}`);
  }
}

export function sha256(bytes) {
  return createHash("sha256").update(bytes).digest("hex");
}

/** Throws unless a fetch was answered with the refusal to a program. */
export async function refusal(answer) {
  const text = await answer.text();
  if (answer.status !== 422) throw new Error(`status ${answer.status}, want 422; body: ${text.slice(0, 300)}`);
  const problem = JSON.parse(text);
  if (problem.code !== "content_rejected" || !problem.categories?.includes("harassment")) {
    throw new Error(`the refusal lacks its code or the category: ${text.slice(0, 300)}`);
  }
  if (text.includes("worthless")) throw new Error(`the refusal repeats the text: ${text.slice(0, 300)}`);
}
