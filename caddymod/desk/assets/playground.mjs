// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// The sliders of the playground: what other thresholds would change, decided here as engine.Policy.Decide does.

const nearThreshold = 0.8;
const box = document.querySelector("[data-verdict]");

if (box) {
	const percent = new Intl.NumberFormat(document.documentElement.lang, {
		style: "percent", minimumFractionDigits: 1, maximumFractionDigits: 1,
	});
	const rows = [...box.querySelectorAll("[data-category]")].map((row) => ({
		probability: Number(row.dataset.probability),
		threshold: Number(row.dataset.threshold),
		rejectLevel: Number(row.dataset.rejectLevel),
		slider: row.querySelector("input"),
		output: row.querySelector("output"),
		flag: row.querySelector("[data-flag]"),
		fill: row.querySelector(".fill"),
	}));
	const outcome = box.querySelector("[data-outcome]");
	const reset = box.querySelector("[data-reset]");

	const decide = () => {
		let verdict = "approve";
		let flagged = false;
		let moved = false;
		for (const row of rows) {
			let { threshold, rejectLevel } = row;
			if (row.slider.value !== row.slider.defaultValue) {
				moved = true;
				threshold = Number(row.slider.value) / 1000;
				rejectLevel = (1 + threshold) / 2; // half-way, as for a threshold of an account
			}
			const over = row.probability > threshold;
			flagged ||= over;
			if (over && row.probability >= rejectLevel) {
				verdict = "reject";
			} else if (!over && row.probability >= nearThreshold * threshold && verdict === "approve") {
				verdict = "review";
			}
			row.flag.hidden = !over;
			row.fill.classList.toggle("hot", over);
			row.output.textContent = percent.format(threshold);
			row.slider.setAttribute("aria-valuetext", percent.format(threshold));
		}
		if (box.dataset.settled === "true") {
			verdict = "reject";
		} else if ((flagged || box.dataset.reviewed === "true") && verdict === "approve") {
			verdict = "review";
		}
		outcome.textContent = moved ? box.dataset.changed.replace("{0}", box.dataset[verdict]) : "";
		outcome.className = moved ? "badge " + verdict : "";
		reset.hidden = !moved;
	};

	for (const row of rows) {
		row.slider.hidden = false;
		row.slider.addEventListener("input", decide);
	}
	reset.addEventListener("click", () => {
		for (const row of rows) {
			row.slider.value = row.slider.defaultValue;
		}
		decide();
		rows[0].slider.focus();
	});
	box.querySelector("[data-slider-help]").hidden = false;
	// A browser that restores a page restores the sliders, too.
	decide();
}
