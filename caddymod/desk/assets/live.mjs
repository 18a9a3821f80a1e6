// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// Live figures: server-sent events say what an account has used of the minute and of the period, how many requests and
// messages the server has per second, or what guards have done. Without this script the figures are those of when the
// page was made.

const area = document.querySelector("[data-stream]");
const live = area.querySelector("[data-live]");

const note = (ok) => {
	live.hidden = false;
	live.textContent = "· " + (ok ? live.dataset.live : live.dataset.gone);
};

// gauge returns what shows the use of an account.
const gauge = () => {
	const spoken = area.querySelector("[data-say]");
	const number = new Intl.NumberFormat(area.dataset.locale, { useGrouping: "always" });
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

// guards returns what shows the counts of guards and hosts. Rows that the page does not have are not made here: it says
// that there are some.
const guards = () => {
	const locale = area.dataset.locale;
	const number = new Intl.NumberFormat(locale, { useGrouping: "always" });
	const names = JSON.parse(area.dataset.names);
	const more = area.querySelector("[data-more]");
	const rows = Map.groupBy(area.querySelectorAll("[data-row]"), (row) => row.dataset.row);
	// As words.percent in texts.go.
	const percent = (share) => {
		const text = (100 * share).toFixed(1);
		const sure = text === "100.0" && share < 1 ? ">99.9" : text;
		return locale === "en" ? sure + "%" : sure.replace(".", ",") + "\u00a0%";
	};
	const list = (cell, items) => {
		const spans = items.map(([name, count]) => {
			const span = document.createElement("span");
			span.className = "item";
			span.append(name, " " + number.format(count));
			return span;
		});
		cell.replaceChildren(...spans.flatMap((span) => [span, " "]), ...(spans.length ? [] : ["–"]));
	};
	const code = (text) => {
		const element = document.createElement("code");
		element.textContent = text;
		return element;
	};
	const fill = (row, n) => {
		for (const cell of row.querySelectorAll("[data-n]")) {
			cell.textContent = number.format(n[cell.dataset.n]);
		}
		const flagged = row.querySelector("[data-flagged]");
		if (flagged) {
			list(flagged, names.map((name, i) => [name, n.flagged[i]]).filter(([, count]) => count > 0));
			const reasons = Object.entries(n.errors ?? {}).sort(([a], [b]) => (a < b ? -1 : 1));
			list(row.querySelector("[data-errors]"), reasons.map(([reason, count]) => [code(reason), count]));
		}
		if (row.dataset.compare) {
			const said = [number.format(n.would), number.format(n.seen), percent(n.share), number.format(n.review)];
			row.textContent = row.dataset.compare.replace(/\{(\d)\}/g, (_, i) => said[i]);
		}
	};
	return (event) => {
		for (const cell of area.querySelectorAll("[data-sum]")) {
			cell.textContent = number.format(event.sums[cell.dataset.sum]);
		}
		let lacks = event.whole && [...rows.keys()].some((id) => !(id in event.rows));
		for (const [id, n] of Object.entries(event.rows)) {
			const all = rows.get(id) ?? [];
			all.forEach((row) => fill(row, n));
			lacks ||= n.seen > 0 && (all.length === 0 || all.some((row) => "unseen" in row.dataset));
		}
		more.hidden &&= !lacks;
	};
};

const show = area.dataset.names ? guards() : area.querySelector("[data-rate]") ? traffic() : gauge();

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
