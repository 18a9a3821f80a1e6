#!/usr/bin/env node
// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// Moderates texts. It needs Node 20 or newer, and nothing else; most of it also runs in Deno, Bun and workers. Do not
// ship your key to browsers: call the service from your server.
//
//	export MODERATION_URL=http://localhost:8080 MODERATION_KEY=mod_sk_...
//	node moderate.mjs moderate "You are a wonderful person."
//	node moderate.mjs correct "Nice try." TOXICITY 0.1
//	node moderate.mjs usage

import { setTimeout as sleep } from "node:timers/promises";
import { pathToFileURL } from "node:url";

// ModerationError says that there is no answer, or that it is an error. Its id finds the request in the operator's log.
export class ModerationError extends Error {
	constructor(status, code, detail, id = "", retryAfter = undefined) {
		const mark = id ? ` (id for support: ${id})` : "";
		super(`${status || "no answer"} ${code}: ${detail}${mark}`);
		Object.assign(this, { status, code, id, retryAfter });
	}

	// passes tells whether the same request may succeed later, without anybody doing anything.
	passes() {
		return [0, 408, 429, 502, 503, 504].includes(this.status) && this.code !== "tier_not_configured";
	}
}

export class Moderation {
	// timeout is in seconds, for one attempt; patience for all attempts, and the pauses between them.
	constructor(url, key, { timeout = 5, patience = 30 } = {}) {
		Object.assign(this, { url: url.replace(/\/+$/, ""), key, timeout, patience });
	}

	moderate(text, themes = []) {
		return this.#call("POST", "/v1/moderate/text", { content: text, themes });
	}

	correct(text, attribute, score) {
		return this.#call("POST", "/v1alpha1/comments:suggestscore", {
			comment: { text },
			attributeScores: { [attribute]: { summaryScore: { value: score } } },
			// It is kept with the correction, and tells a repeated request, which is stored twice, from a second one.
			clientToken: crypto.randomUUID(),
		});
	}

	usage() {
		return this.#call("GET", "/v1/usage");
	}

	async #call(method, path, body) {
		const deadline = performance.now() + this.patience * 1000;
		for (let attempt = 0; ; attempt++) {
			let pause;
			try {
				return await this.#attempt(method, path, body);
			} catch (error) {
				if (!(error instanceof ModerationError)) throw error;
				// Without Retry-After: 0.25 to 0.5 s, then twice as much each time, up to 8 s.
				pause = error.retryAfter ?? Math.min(8, 0.5 * 2 ** attempt) * (0.5 + Math.random() / 2);
				if (!error.passes() || performance.now() + pause * 1000 > deadline) throw error;
			}
			await sleep(pause * 1000);
		}
	}

	async #attempt(method, path, body) {
		let response, text;
		try {
			response = await fetch(this.url + path, {
				method,
				headers: { Authorization: `Bearer ${this.key}`, "Content-Type": "application/json" },
				body: body && JSON.stringify(body),
				signal: AbortSignal.timeout(this.timeout * 1000),
			});
			text = await response.text();
		} catch (error) { // no connection, no answer in time, or one that breaks off
			throw new ModerationError(0, "unreachable", error.cause?.message || error.message);
		}
		let answer;
		try {
			answer = JSON.parse(text);
		} catch {
			answer = undefined;
		}
		if (response.ok && answer) return answer;
		throw errorOf(response, answer);
	}
}

// errorOf describes an answer that is an error: a problem, one in Google's format, or one of a proxy, in no format.
function errorOf(response, answer) {
	const code = answer?.code ?? answer?.error?.status ?? "unknown";
	const members = (answer?.errors ?? []).map((e) => `${e.pointer}: ${e.detail}`).join("; ");
	const detail = members || (answer?.detail ?? answer?.error?.message ?? "the answer is not one of the service");
	const retryAfter = response.headers.get("Retry-After") ?? "";
	return new ModerationError(response.status, code, detail, response.headers.get("X-Request-Id") ?? "",
		/^\d+$/.test(retryAfter) ? Number(retryAfter) : undefined);
}

async function main([command, ...rest]) {
	const { MODERATION_URL, MODERATION_KEY, MODERATION_TIMEOUT, MODERATION_PATIENCE } = process.env;
	if (!MODERATION_KEY) throw new Error("MODERATION_KEY is not set");
	const service = new Moderation(MODERATION_URL ?? "http://localhost:8080", MODERATION_KEY,
		{ timeout: Number(MODERATION_TIMEOUT ?? 5), patience: Number(MODERATION_PATIENCE ?? 30) });
	if (command === "moderate" && rest.length === 1) {
		const { id, result } = await service.moderate(rest[0]);
		const flagged = Object.entries(result.categories).filter(([, c]) => c.flagged).map(([name]) => name);
		// What to do is your decision. This is what most sites do:
		const action = { approve: "publish it", review: "hold it for a person", reject: "refuse it" };
		return `${action[result.recommendation]}: ${flagged.join(", ") || "nothing flagged"} (${id})`;
	}
	if (command === "correct" && rest.length === 3) {
		await service.correct(rest[0], rest[1], Number(rest[2]));
		return "the correction is stored";
	}
	if (command === "usage" && rest.length === 0) {
		const period = (await service.usage()).current_period;
		const limit = period.requests_limit || "any number"; // 0 is unlimited
		return `${period.requests_made} requests made of ${limit} until ${period.end_date}`;
	}
	throw new Error("usage: moderate.mjs moderate TEXT | correct TEXT ATTRIBUTE SCORE | usage");
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href) {
	const command = process.argv[2];
	try {
		console.log(await main(process.argv.slice(2)));
	} catch (error) {
		// Without a verdict you must decide, too. Holding the text costs time; publishing it costs more.
		const what = command === "moderate" ? "no verdict, hold it for a person" : "failed";
		console.error(error instanceof ModerationError ? `${what}: ${error.message}` : error.message);
		process.exitCode = 1;
	}
}
