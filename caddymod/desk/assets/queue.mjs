// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// The review queue by keyboard: a approve, r reject, e escalate, s skip, u undo, v show the texts, ? the guide. Without
// this script the same forms work, and the texts are in a details element.

const main = document.querySelector("main");
const find = (selector) => main.querySelector(selector);
const form = find("[data-decide]");
let busy = false;

// Storage that the browser refuses is as if it were empty.
const stored = {
	get(name) {
		try {
			return sessionStorage.getItem("queue." + name) ?? "";
		} catch {
			return "";
		}
	},
	set(name, value) {
		try {
			sessionStorage.setItem("queue." + name, value);
		} catch {
			// then it is forgotten
		}
	},
};

// The texts, blurred until they are asked for; the choice is kept for the visit.
const texts = find("[data-texts]");
const show = find("[data-show]");
const unveil = find("[data-unveil]");
const veil = (shown) => {
	main.toggleAttribute("data-seen", shown);
	if (unveil) {
		unveil.checked = shown;
	}
	if (texts) {
		texts.classList.toggle("blurred", !shown);
		find("[data-texts] [data-blur]").inert = !shown;
		show.firstElementChild.textContent = shown ? show.dataset.hide : show.dataset.label;
		show.setAttribute("aria-pressed", shown);
	}
};
const turn = () => {
	const shown = !main.hasAttribute("data-seen");
	stored.set("shown", shown ? "yes" : "");
	veil(shown);
};
if (texts) {
	const details = find("[data-veil]");
	show.dataset.label = show.firstElementChild.textContent;
	show.hidden = false;
	details.dataset.scripted = "";
	veil(stored.get("shown") === "yes");
	details.open = true;
	// Of a long text the passage that counts is to be seen.
	for (const box of texts.querySelectorAll(".box")) {
		const mark = box.querySelector("mark");
		if (mark) {
			const below = mark.getBoundingClientRect().top - box.getBoundingClientRect().top;
			box.scrollTop = Math.max(below - box.clientHeight / 3, 0);
		}
	}
	show.addEventListener("click", turn);
} else {
	veil(stored.get("shown") === "yes");
}
unveil?.addEventListener("change", turn);

// What was decided is said once the page is there: a live region that is full from the beginning is not read out.
const said = find("[data-say]");
if (said) {
	const live = find("[data-live]");
	setTimeout(() => (live.textContent = (said.querySelector("span") ?? said).textContent), 200);
}

// How many were decided in this visit, and for how long without a break.
const longest = 50 * 60_000;
const pause = 10 * 60_000; // without a decision for so long there was a break
const { last = "", undone = "", skipped } = find("[data-last]")?.dataset ?? {};
let decided = Number(stored.get("decided"));
const now = Date.now();
if (last && stored.get("last") !== last) {
	decided += skipped === undefined ? 1 : 0;
	stored.set("counted", skipped === undefined ? "yes" : "");
	if (now - Number(stored.get("latest")) > pause) {
		stored.set("began", now);
	}
	stored.set("latest", now);
	stored.set("last", last);
	stored.set("note." + last, "");
} else if (undone && stored.get("last") === undone) {
	decided = Math.max(decided - (stored.get("counted") ? 1 : 0), 0);
	stored.set("last", "");
}
stored.set("decided", decided);
const count = find("[data-count]");
if (count && decided > 0) {
	count.textContent = " · " + count.dataset.count.replace("{0}", new Intl.NumberFormat(document.documentElement.lang).format(decided));
	count.hidden = false;
}
const reminder = find("[data-break]");
if (reminder && Number(stored.get("began")) && now - Number(stored.get("latest")) < pause) {
	reminder.hidden = now - Number(stored.get("began")) < longest;
	reminder.querySelector("[data-dismiss]").addEventListener("click", () => {
		stored.set("began", Date.now());
		reminder.hidden = true;
		main.focus();
	});
}

// Deciding.
const send = (action) => {
	const button = form?.querySelector(`button[value=${action}]`);
	if (!button || busy) {
		return;
	}
	form.requestSubmit(button);
};
const open = (id, first) => {
	const dialog = document.getElementById(id);
	if (!dialog || busy) {
		return;
	}
	dialog.showModal();
	dialog.querySelector(first)?.focus();
};
const reject = (reason, other) => {
	form.elements.reason.value = reason;
	form.elements.other.value = other;
	document.getElementById("why").dataset.told = "";
	send("reject");
};
const escalate = () => {
	form.elements.note.value = document.getElementById("told").value;
	document.getElementById("pass").dataset.told = "";
	send("escalate");
};

if (form) {
	find("[data-reasons]").hidden = true;
	const guide = find("[data-keys]");
	guide.hidden = false;
	guide.addEventListener("click", () => open("keys", "[data-close]"));
	const why = document.getElementById("why");
	const typed = document.getElementById("typed");
	const told = document.getElementById("told");
	form.addEventListener("submit", (event) => {
		// A click on these two asks first.
		const dialog = { reject: "why", escalate: "pass" }[event.submitter?.value];
		if (busy || (dialog && document.getElementById(dialog).dataset.told === undefined)) {
			event.preventDefault();
			if (dialog === "why") {
				open("why", "h2"); // not a reason: Enter rejects without one
			} else if (dialog === "pass") {
				told.value = form.elements.note.value || told.value;
				open("pass", "#told");
			}
			return;
		}
		busy = true;
	});
	// A note outlives a page that could not be sent, in this tab.
	const name = "note." + form.getAttribute("action").split("/").at(-2);
	const note = form.elements.note;
	if (note.value === "" && stored.get(name)) {
		note.value = told.value = stored.get(name);
		note.closest("details").open = true;
	}
	for (const field of [note, told]) {
		field.addEventListener("input", () => stored.set(name, field.value));
	}
	for (const button of why.querySelectorAll("[data-reason]")) {
		button.addEventListener("click", () => reject(button.dataset.reason, ""));
	}
	why.querySelector("[data-typed]").addEventListener("click", () => reject("", typed.value));
	why.addEventListener("keydown", (event) => {
		if (event.ctrlKey || event.metaKey || event.altKey || event.repeat || event.isComposing) {
			return;
		}
		if (event.target === typed) {
			if (event.key === "Enter") {
				event.preventDefault();
				reject("", typed.value);
			}
			return;
		}
		if (event.key === "Enter" && !event.target.closest("button")) {
			event.preventDefault();
			reject("", typed.value);
		} else if (event.key === "0") {
			event.preventDefault();
			typed.focus();
		} else if (/^[1-9]$/.test(event.key)) {
			event.preventDefault();
			why.querySelectorAll("[data-reason]")[Number(event.key) - 1]?.click();
		}
	});
	told.addEventListener("keydown", (event) => {
		if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
			event.preventDefault();
			escalate();
		}
	});
	find("[data-told]").addEventListener("click", escalate);
	for (const button of main.querySelectorAll("dialog [data-close]")) {
		button.addEventListener("click", () => button.closest("dialog").close());
	}
}
addEventListener("pageshow", () => {
	busy = false;
	// The page may be one that was left by a decision: what was chosen then is not chosen again.
	for (const dialog of main.querySelectorAll("dialog")) {
		delete dialog.dataset.told;
		dialog.close();
	}
	if (form) {
		form.elements.reason.value = form.elements.other.value = "";
	}
});

const actions = {
	a: () => send("approve"),
	r: () => send("reject"),
	e: () => send("escalate"),
	s: () => send("skip"),
	u: () => {
		const undo = find("[data-undo]");
		if (undo && !busy) {
			busy = true;
			undo.requestSubmit(undo.querySelector("button"));
		}
	},
	v: () => (texts || unveil) && turn(),
	"?": () => open("keys", "[data-close]"),
};

addEventListener("keydown", (event) => {
	// The focus leaves a dialog a moment after it was closed.
	const typing = !event.target.closest?.("dialog:not([open])") &&
		event.target.closest?.("input:not([type=checkbox]), textarea, select, [contenteditable], dialog");
	if (event.defaultPrevented || typing || event.repeat || event.isComposing || event.ctrlKey || event.metaKey || event.altKey ||
		document.querySelector("dialog[open]") || !Object.hasOwn(actions, event.key)) {
		return;
	}
	event.preventDefault();
	actions[event.key]();
});
