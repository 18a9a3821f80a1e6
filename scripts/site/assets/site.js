// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// The search field. Without this script it is hidden, and the pages work.
(function () {
	"use strict";

	var form = document.querySelector(".search"), input = form.querySelector("input");
	var list = form.querySelector("ul"), count = form.querySelector(".count");
	var chosen = -1, loading = false;

	// load gets the index, which is large, once somebody wants to search.
	function load() {
		if (loading) {
			return;
		}
		loading = true;
		var script = document.createElement("script");
		script.src = "search-index.js";
		script.onload = show;
		script.onerror = function () { loading = false; };
		document.head.append(script);
	}

	function piece(name, text, className) {
		var made = document.createElement(name);
		made.textContent = text;
		if (className) {
			made.className = className;
		}
		return made;
	}

	function close() {
		list.hidden = true;
		input.setAttribute("aria-expanded", "false");
		choose(-1);
	}

	function choose(number) {
		var options = list.querySelectorAll("[role=option]");
		chosen = number;
		input.removeAttribute("aria-activedescendant");
		options.forEach(function (option, i) {
			option.setAttribute("aria-selected", String(i === number));
			if (i === number) {
				input.setAttribute("aria-activedescendant", option.id);
				option.scrollIntoView({ block: "nearest" });
			}
		});
	}

	function show() {
		if (typeof searchIndex === "undefined" || input.value.trim() === "") {
			count.textContent = "";
			close();
			return;
		}
		var found = siteSearch(searchIndex, input.value, 20);
		list.replaceChildren();
		found.forEach(function (one, i) {
			var item = document.createElement("li"), link = document.createElement("a");
			item.id = "result" + i;
			item.setAttribute("role", "option");
			link.href = one.entry.u;
			link.tabIndex = -1;
			link.append(piece("b", one.entry.h));
			if (one.entry.p !== one.entry.h) {
				link.append(piece("span", one.entry.p, "page"));
			}
			var excerpt = piece("span", "", "excerpt");
			one.pieces.forEach(function (text, j) { excerpt.append(j % 2 ? piece("mark", text) : text); });
			link.append(excerpt);
			item.append(link);
			list.append(item);
		});
		if (found.length === 0) {
			list.append(piece("li", "Nothing is found.", "none"));
		}
		count.textContent = found.length === 0 ? "Nothing is found." :
			found.length === 1 ? "1 result." : found.length + " results.";
		list.hidden = false;
		input.setAttribute("aria-expanded", "true");
		choose(-1);
	}

	function follow(number) {
		var link = list.querySelectorAll("[role=option] a")[number];
		if (link) {
			close();
			location.href = link.href;
		}
	}

	// The page that is shown may be far down in the list of pages.
	var pages = document.querySelector("nav.wide"), current = pages.querySelector("[aria-current]");
	pages.scrollTop = current.offsetTop - pages.clientHeight / 2;

	input.addEventListener("focus", load);
	input.addEventListener("input", show);
	input.addEventListener("focus", show);
	form.addEventListener("submit", function (event) {
		event.preventDefault();
		follow(Math.max(chosen, 0));
	});
	input.addEventListener("keydown", function (event) {
		var last = list.querySelectorAll("[role=option]").length - 1;
		if (event.key === "Escape") {
			close();
		} else if (event.key === "ArrowDown" && !list.hidden) {
			choose(chosen >= last ? 0 : chosen + 1);
		} else if (event.key === "ArrowUp" && !list.hidden) {
			choose(chosen <= 0 ? last : chosen - 1);
		} else {
			return;
		}
		event.preventDefault();
	});
	list.addEventListener("click", function (event) {
		if (event.target.closest("a")) {
			close();
		}
	});
	document.addEventListener("click", function (event) {
		if (!form.contains(event.target)) {
			close();
		}
	});
	document.addEventListener("keydown", function (event) {
		var typing = event.target.closest && event.target.closest("input, textarea, select, [contenteditable]");
		if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey && !event.altKey) {
			event.preventDefault();
			input.focus();
			input.select();
		}
	});
	if (matchMedia("(hover: hover)").matches) {
		input.placeholder = "Search (press /)"; // there is a keyboard
	}
	form.hidden = false;
})();
