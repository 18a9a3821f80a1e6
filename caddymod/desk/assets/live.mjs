// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// Live figures: server-sent events say what an account has used of the minute and of the period, or how many requests
// and messages the server has per second. Without this script the figures are those of when the page was made.

const area = document.querySelector("[data-stream]");
const live = area.querySelector("[data-live]");

const note = (ok) => {
	live.hidden = false;
	live.textContent = "· " + (ok ? live.dataset.live : live.dataset.gone);
};

// gauge returns what shows the use of an account.
const gauge = () => {
	const spoken = area.querySelector("[data-say]");
	const number = new Intl.NumberFormat(area.dataset.locale);
	let said = "";
	let next = 0; // when something may be said again: nobody wants to hear a number every second
	return (event) => {
		for (const name of ["minute", "period"]) {
			area.querySelector(`[data-used=${name}]`).textContent = number.format(event[name].used);
			area.querySelector(`[data-share=${name}]`).setAttribute("width", event[name].share);
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
};

// traffic returns what shows the throughput of the server.
const traffic = () => {
	const digits = { minimumFractionDigits: 1, maximumFractionDigits: 1, useGrouping: false };
	const number = new Intl.NumberFormat(area.dataset.locale, digits);
	return (event) => {
		for (const cell of area.querySelectorAll("[data-rate]")) {
			const [what, span] = cell.dataset.rate.split(".");
			cell.textContent = number.format(event[what][span]);
		}
	};
};

const show = area.querySelector("[data-rate]") ? traffic() : gauge();

const open = () => {
	const stream = new EventSource(area.dataset.stream);
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
