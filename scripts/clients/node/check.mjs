// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// Checks that print a line each, and what the scripts find in their environment.

/** What go run ./scripts/clients tells a script. */
export const environment = (name) => {
  const value = process.env[name];
  if (value === undefined) throw new Error(`${name} is not set; run this by "go run ./scripts/clients"`);
  return value;
};

const oneLine = (text) => String(text).replace(/\s+/g, " ").trim();

/** Makes one check: do throws when it fails, or takes longer than 30 s. */
export async function check(what, run) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error("took longer than 30 s")), 30_000);
  });
  try {
    await Promise.race([run(), late]);
    console.log(`ok: ${what}`);
  } catch (err) {
    const cause = err?.cause ? ` (${err.cause})` : "";
    console.log(`FAIL: ${what}: ${oneLine(err?.message ?? err)}${oneLine(cause)}`);
    process.exitCode = 1;
  } finally {
    clearTimeout(timer);
  }
}

/** Says that something cannot be checked here. */
export function skip(what, why) {
  console.log(`skip: ${what}: ${oneLine(why)}`);
}
