// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// A link has its token behind the #, which no server and no log sees. It is put into the form, and taken out of the
// address and the history. The person still presses the button: programs that look at links must not use them up.

const token = location.hash.slice(1);
const field = document.getElementById("token");
if (token) {
	field.value = token;
	history.replaceState(null, "", location.pathname);
	document.querySelector("main button").focus();
} else {
	field.focus();
}
