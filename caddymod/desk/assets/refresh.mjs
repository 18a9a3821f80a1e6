// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// Looks from time to time whether the page is another one by now, and only then loads it: a page that is read aloud, or
// is large on a small screen, does not begin anew for nothing.

const seconds = Number(document.documentElement.dataset.refresh);
const textOf = (page) => page.querySelector("main")?.textContent ?? "";
const before = performance.getEntriesByType("navigation")[0].responseStatus + textOf(document);

const look = async () => {
	try {
		const answer = await fetch(location.href, { signal: AbortSignal.timeout(10_000) });
		const now = answer.status + textOf(new DOMParser().parseFromString(await answer.text(), "text/html"));
		if (now !== before) {
			location.reload();
			return;
		}
	} catch {
		// The server is away.
	}
	setTimeout(look, 1000 * seconds);
};
setTimeout(look, 1000 * seconds);
