// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// The live gauge: server-sent events say what is used of the minute and of the period.

const grid = document.querySelector("[data-stream]");
const live = grid.querySelector("[data-live]");
const spoken = grid.querySelector("[data-say]");
const number = new Intl.NumberFormat(grid.dataset.locale);
let said = "";
let next = 0; // when something may be said again: nobody wants to hear a number every second

const note = (ok) => {
	live.hidden = false;
	live.textContent = "· " + (ok ? live.dataset.live : live.dataset.gone);
};

const show = (event) => {
	for (const name of ["minute", "period"]) {
		grid.querySelector(`[data-used=${name}]`).textContent = number.format(event[name].used);
		grid.querySelector(`[data-share=${name}]`).setAttribute("width", event[name].share);
	}
	const text = spoken.dataset.say.replace("{0}", number.format(event.minute.used));
	if (text !== said && Date.now() >= next) {
		if (said !== "") {
			spoken.textContent = text;
			next = Date.now() + 10_000;
		}
		said = text;
	}
};

const open = () => {
	const stream = new EventSource(grid.dataset.stream);
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
