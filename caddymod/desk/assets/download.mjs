// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// Shows how far a long download has come, and keeps it only if it is whole. Without this script the link is one that
// the browser follows.

const link = document.querySelector("[data-download]");
const progress = document.querySelector("[data-progress]");
const bar = progress.querySelector("progress");
const rows = progress.querySelector("[data-rows]");
const said = document.querySelector("[data-said]");
const number = new Intl.NumberFormat(document.documentElement.lang, { useGrouping: "always" });
const lineFeed = 10;
let running = null;

const show = (count) => {
	bar.value = count;
	rows.textContent = number.format(count);
};

const save = (content) => {
	const made = document.createElement("a");
	made.href = URL.createObjectURL(content);
	made.download = link.dataset.download;
	made.click();
	setTimeout(() => URL.revokeObjectURL(made.href), 60_000);
};

const start = async () => {
	running = new AbortController();
	let count = 0;
	said.textContent = "";
	progress.hidden = false;
	show(count);
	try {
		const answer = await fetch(link.href, { cache: "no-store", signal: running.signal });
		if (!answer.ok) {
			throw new Error(answer.status);
		}
		// The browser collects the parts, and may do so on the disk.
		const counted = answer.body.pipeThrough(new TransformStream({
			transform(part, to) {
				for (const byte of part) {
					count += byte === lineFeed;
				}
				show(count);
				to.enqueue(part);
			},
		}));
		save(await new Response(counted).blob());
		said.textContent = said.dataset.done.replace("{0}", number.format(count));
	} catch {
		said.textContent = running.signal.aborted ? "" : said.dataset.broken;
	}
	progress.hidden = true;
	running = null;
};

link.addEventListener("click", (event) => {
	event.preventDefault();
	running ?? start();
});
progress.querySelector("button").addEventListener("click", () => {
	running?.abort();
	link.focus();
});
