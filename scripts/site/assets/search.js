// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// The search, without the page that shows it, so that tests can run it. An entry of the index is a heading with the text
// below it: u is its address, p the title of the page and of the part that the heading is in, h the heading, t the text.
(function (root) {
	"use strict";

	var wordCharacter = /[\p{L}\p{N}]/u;

	// terms returns the words of a query, in lower case, without the marks around them.
	function terms(query) {
		return query.toLowerCase().split(/\s+/)
			.map(function (term) { return term.replace(/^[^\p{L}\p{N}_$@\/]+|[^\p{L}\p{N}_]+$/gu, ""); })
			.filter(function (term) { return term !== ""; });
	}

	// places returns where words begin with a term, at most limit of them. With inside, the term may stand anywhere.
	function places(text, term, limit, inside) {
		var found = [];
		for (var at = text.indexOf(term); at >= 0 && found.length < limit; at = text.indexOf(term, at + 1)) {
			if (inside || at === 0 || !wordCharacter.test(text[at - 1]) || !wordCharacter.test(term[0])) {
				found.push(at);
			}
		}
		return found;
	}

	// whole tells whether the word at a place ends with the term.
	function whole(text, at, term) {
		return at + term.length === text.length || !wordCharacter.test(text[at + term.length]);
	}

	// rate returns how well a term fits a text: nothing, the beginning of a word, or a word.
	function rate(text, term, inside) {
		var found = places(text, term, 20, inside);
		if (found.length === 0) {
			return 0;
		}
		return found.some(function (at) { return whole(text, at, term); }) ? 2 : 1;
	}

	// score returns how well an entry fits: 0 if a term is nowhere in it. The heading counts most, then the title of the
	// page, then the text.
	function score(entry, wanted, phrase, inside) {
		var heading = entry.h.toLowerCase(), page = entry.p.toLowerCase(), text = entry.t.toLowerCase();
		var sum = 0, own = false;
		for (var i = 0; i < wanted.length; i++) {
			var inHeading = rate(heading, wanted[i], inside);
			var inPage = rate(page, wanted[i], inside);
			var inText = places(text, wanted[i], 5, inside);
			if (inHeading + inPage + inText.length === 0) {
				return 0;
			}
			own = own || inHeading + inText.length > 0;
			sum += inHeading * 20 + inPage * 8 + inText.length;
			if (inText.some(function (at) { return whole(text, at, wanted[i]); })) {
				sum += 3;
			}
		}
		if (!own && heading !== page) {
			return 0; // only the title of its page fits: the page is found by its first entry
		}
		if (wanted.length > 1) {
			sum += heading.indexOf(phrase) >= 0 ? 30 : 0;
			// "harm share" also means harm_share and harm-share.
			sum += [" ", "_", "-"].some(function (between) { return text.indexOf(wanted.join(between)) >= 0; }) ? 20 : 0;
		}
		if (heading === phrase) {
			sum += 40;
		}
		return sum;
	}

	// densest returns the place from which on most different terms stand close together.
	function densest(marks, text) {
		var best = marks[0][0], most = 0;
		marks.forEach(function (mark, i) {
			var seen = {};
			for (var j = i; j < marks.length && marks[j][1] - mark[0] < 120; j++) {
				seen[text.slice(marks[j][0], marks[j][1])] = true;
			}
			var number = Object.keys(seen).length;
			if (number > most) {
				most = number;
				best = mark[0];
			}
		});
		return best;
	}

	// excerpt returns the part of a text around the first place where a term stands, cut into pieces: those at odd
	// places in the list are terms.
	function excerpt(text, wanted, inside) {
		var lower = text.toLowerCase();
		// A few letters change their length with their case; then nothing can be marked.
		var marks = lower.length !== text.length ? [] : wanted.flatMap(function (term) {
			return places(lower, term, 200, inside).map(function (at) { return [at, at + term.length]; });
		}).sort(function (a, b) { return a[0] - b[0] || b[1] - a[1]; });
		var begin = marks.length ? Math.max(0, densest(marks, lower) - 60) : 0;
		if (begin > 0) {
			begin = text.indexOf(" ", begin) + 1;
		}
		var end = Math.min(text.length, begin + 180);
		if (end < text.length) {
			end = Math.max(text.lastIndexOf(" ", end), begin + 60);
		}
		var pieces = [begin > 0 ? "… " : ""], at = begin;
		marks.forEach(function (mark) {
			if (mark[0] < at || mark[1] > end) {
				return;
			}
			pieces[pieces.length - 1] += text.slice(at, mark[0]);
			pieces.push(text.slice(mark[0], mark[1]), "");
			at = mark[1];
		});
		pieces[pieces.length - 1] += text.slice(at, end) + (end < text.length ? " …" : "");
		return pieces;
	}

	// search returns the best entries: [{entry, pieces}].
	function search(index, query, limit) {
		var wanted = terms(query);
		if (wanted.length === 0) {
			return [];
		}
		var phrase = wanted.join(" "), found = [], inside = false;
		for (var pass = 0; pass < 2 && found.length === 0; pass++) {
			inside = pass === 1; // only when no word begins with the terms
			index.forEach(function (entry, i) {
				var points = score(entry, wanted, phrase, inside);
				if (points > 0) {
					found.push({ entry: entry, points: points, order: i });
				}
			});
		}
		found.sort(function (a, b) { return b.points - a.points || a.order - b.order; });
		return found.slice(0, limit).map(function (one) {
			return { entry: one.entry, pieces: excerpt(one.entry.t, wanted, inside) };
		});
	}

	root.siteSearch = search;
	if (typeof module !== "undefined") {
		module.exports = search;
	}
})(this);
