// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// The live throughput of this node: server-sent events say how many requests and messages there are per second. Without
// this script the figures are those of the moment at which the page was made.

const area = document.querySelector("[data-traffic]");
const live = area.querySelector("[data-live]");
const number = new Intl.NumberFormat(area.dataset.locale, { minimumFractionDigits: 1, maximumFractionDigits: 1, useGrouping: false });

const note = (ok) => {
	live.hidden = false;
	live.textContent = "· " + (ok ? live.dataset.live : live.dataset.gone);
};

const show = (traffic) => {
	for (const cell of area.querySelectorAll("[data-rate]")) {
		const [what, span] = cell.dataset.rate.split(".");
		cell.textContent = number.format(traffic[what][span]);
	}
};

const open = () => {
	const stream = new EventSource(area.dataset.traffic);
	stream.addEventListener("message", (message) => {
		note(true);
		show(JSON.parse(message.data));
	});
	stream.addEventListener("unknown", () => note(false));
	stream.addEventListener("error", () => {
		note(false);
		// The browser asks again by itself, unless the answer was an error.
		if (stream.readyState === EventSource.CLOSED) {
			setTimeout(open, 10_000);
		}
	});
	addEventListener("pagehide", () => stream.close(), { once: true });
};

open();
addEventListener("pageshow", (event) => event.persisted && open());
