// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// What the scripts share that call the service itself.

import { check as plainCheck, environment } from "./check.mjs";

/** The service's address. */
export const service = environment("SERVICE");

/** Keys of an account without limits, of one whose month is used up, of one with a request a minute, and of none. */
export const keys = {
  open: environment("KEY_OPEN"),
  spent: environment("KEY_SPENT"),
  small: environment("KEY_SMALL"),
  unknown: environment("KEY_UNKNOWN"),
};

/** Texts about which there is no doubt. */
export const fine = environment("FINE");
export const vile = environment("VILE");

const control = environment("CONTROL");

/** Makes one check, and says so where the exchanges are kept. */
export async function check(what, run) {
  await plainCheck(what, async () => {
    await fetch(`${control}/-/check?what=${encodeURIComponent(what)}`);
    await run();
  });
}

/** What a promise is rejected with. */
export async function rejection(promise) {
  return await promise.then(
    (value) => {
      throw new Error(`it succeeded: ${JSON.stringify(value)?.slice(0, 200)}`);
    },
    (err) => err,
  );
}

/** Waits until two requests can be made within a minute of the clock. */
export async function sameMinute() {
  const left = 60_000 - (Date.now() % 60_000);
  if (left < 5_000) await new Promise((done) => setTimeout(done, left + 100));
}
