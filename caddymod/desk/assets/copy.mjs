// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// The copy buttons. Where the clipboard may not be written, as on a page without TLS, they select the text.

const status = document.getElementById("copied");

for (const button of document.querySelectorAll("[data-copy]")) {
	const source = document.getElementById(button.dataset.copy);
	const text = button.textContent;
	button.hidden = false;
	button.addEventListener("click", async () => {
		getSelection().selectAllChildren(source);
		try {
			await navigator.clipboard.writeText(source.textContent);
		} catch {
			return;
		}
		button.textContent = status.textContent = button.dataset.copied;
		setTimeout(() => {
			button.textContent = text;
			status.textContent = "";
		}, 2000);
	});
}
