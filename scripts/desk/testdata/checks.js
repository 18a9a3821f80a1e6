// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// Looks for what keeps people from using a page: no landmarks, headings that skip a level, controls without a name,
// identifiers that are given twice, references that lead nowhere, text with too little contrast (WCAG 2.2, 1.4.3), a
// page that is wider than its window, and targets that are too small (2.5.8).
(() => {
	const mistakes = [];
	const say = (what, element) => mistakes.push(what + ": " + element.outerHTML.slice(0, 120));
	const shown = (element) => element.getClientRects().length > 0;

	for (const landmark of ["header", "main", "h1"]) {
		if (document.querySelectorAll(landmark).length !== 1) mistakes.push("not exactly one " + landmark);
	}
	if (!document.documentElement.lang || !document.title) mistakes.push("no language or no title");
	const skip = document.body.querySelector("a");
	if (!document.querySelector(skip.getAttribute("href"))) mistakes.push("no skip link");
	let level = 0;
	for (const heading of document.querySelectorAll("h1, h2, h3, h4")) {
		const now = Number(heading.tagName[1]);
		if (now > level + 1) say("a heading skips a level", heading);
		level = now;
	}
	for (const nav of document.querySelectorAll("nav")) {
		if (!nav.getAttribute("aria-label")) say("a navigation without a name", nav);
	}
	const name = (element) =>
		element.getAttribute("aria-label") || element.title || element.innerText?.trim() || element.textContent?.trim() ||
		[...(element.labels ?? [])].map((label) => label.textContent).join("").trim() || element.querySelector?.("img[alt]")?.alt;
	for (const control of document.querySelectorAll("a, button, summary, [role=img]")) {
		if (!name(control)) say("no name", control);
	}
	for (const control of document.querySelectorAll("input:not([type=hidden]), select, textarea")) {
		if (!control.getAttribute("aria-label") && ![...control.labels].some((label) => label.textContent.trim())) say("no label", control);
	}
	for (const image of document.querySelectorAll("img:not([alt])")) say("no alt", image);
	const ids = new Set();
	for (const element of document.querySelectorAll("[id]")) {
		if (ids.has(element.id)) say("an id is given twice", element);
		ids.add(element.id);
	}
	for (const attribute of ["aria-labelledby", "aria-describedby", "for"]) {
		for (const element of document.querySelectorAll("[" + attribute + "]")) {
			for (const id of element.getAttribute(attribute).split(" ")) {
				if (!ids.has(id)) say(attribute + " leads nowhere", element);
			}
		}
	}

	const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
	const color = (text) => {
		canvas.clearRect(0, 0, 1, 1);
		canvas.fillStyle = text;
		canvas.fillRect(0, 0, 1, 1);
		const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
		return { rgb: [r, g, b], a: a / 255 };
	};
	const luminance = (rgb) => {
		const [r, g, b] = rgb.map((v) => (v / 255 <= 0.04045 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4));
		return 0.2126 * r + 0.7152 * g + 0.0722 * b;
	};
	const ground = (element) => {
		for (let at = element; at; at = at.parentElement) {
			const { rgb, a } = color(getComputedStyle(at).backgroundColor);
			if (a > 0.99) return rgb;
		}
		return matchMedia("(prefers-color-scheme: dark)").matches ? [18, 18, 18] : [255, 255, 255];
	};
	const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
	const seen = new Set();
	while (walker.nextNode()) {
		const element = walker.currentNode.parentElement;
		if (!walker.currentNode.data.trim() || seen.has(element) || !shown(element) || element.closest(".hidden, .skip, noscript, svg")) continue;
		seen.add(element);
		const style = getComputedStyle(element);
		const under = ground(element);
		const over = color(style.color);
		const text = over.rgb.map((v, i) => v * over.a + under[i] * (1 - over.a));
		const [high, low] = [luminance(text), luminance(under)].sort((a, b) => b - a);
		const large = parseFloat(style.fontSize) >= 24 || (parseFloat(style.fontSize) >= 18.66 && Number(style.fontWeight) >= 700);
		const contrast = (high + 0.05) / (low + 0.05);
		if (contrast < (large ? 3 : 4.5)) say("contrast " + contrast.toFixed(2), element);
	}

	if (document.documentElement.scrollWidth > innerWidth) {
		mistakes.push("the page is " + document.documentElement.scrollWidth + " wide in a window of " + innerWidth);
		for (const element of document.querySelectorAll("main *")) {
			if (element.getBoundingClientRect().right > innerWidth + 1 && shown(element)) {
				say("too far to the right", element);
				break;
			}
		}
	}
	for (const control of document.querySelectorAll("button, input:not([type=hidden]), select, nav a")) {
		const box = control.getBoundingClientRect();
		if (shown(control) && (box.height < 24 || box.width < 24)) say("a small target", control);
	}
	return mistakes;
})()
