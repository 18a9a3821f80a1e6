// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package themes

import "strings"

// set makes a set of the words of a string.
func set(words string) map[string]bool {
	m := make(map[string]bool)
	for w := range strings.FieldsSeq(words) {
		m[w] = true
	}
	return m
}

// connectives are the words that divide a theme into parts that are all needed.
var connectives = set(`
	of with without by in on at for from to into onto about against during under over behind between
	through near via that which who whom whose where when while because as than using involving after before towards
	toward among`)

// leadingFiller are words that may stand before a theme and speak of posts, not of the theme.
var leadingFiller = set(`
	content contents post posts posting text texts message messages comment comments mention mentions
	mentioning reference references referencing refer refers referring discussion discussions discussing discuss talk
	talking talks promotion promotions promoting promote promotes depiction depictions depicting depict depicts
	celebration celebrating celebrates glorification glorifying glorifies anything everything something any all stuff
	topic topics theme themes subject subjects related relating regarding concerning contain contains containing
	describe describes describing description descriptions involving involve involves conversation conversations chat
	statement statements remarks claim claims claiming screen block flag hide material materials question questions
	opinion opinions news gossip rumour rumours rumor rumors story stories report reports reporting spoilers`)

// trailingFiller are words that may stand after a theme and speak of posts, not of the theme.
var trailingFiller = set(`
	content contents post posts posting material materials related topic topics theme themes talk
	discussion discussions reference references mention mentions stuff texts messages comments`)

// optionalWords are words of a theme that texts on it often leave out.
var optionalWords = set(`
	illegal illegally legal real fake false new old good bad big small large great young human people person
	persons someone somebody man men woman women anyone others user users customer customers member members public
	private online offline internet social personal physical local global national international general common
	popular various certain specific different particular extreme extremely serious severe violent dangerous harmful
	explicit graphic offensive inappropriate unwanted unsafe kind kinds type types form forms act acts activity
	activities use uses usage using used practice practices issue issues matter matters idea ideas life lives living
	way ways means things thing time times day days place places made making make kept keeping keep having getting
	being taking doing reading seeing telling talk talking chasing letting paid services
	service products product messages message event events world modern home house display fun praise claims
	policy full many much actual actually purpose deliberately covertly secretly own
	price value adult adults body bodies sighting sightings video videos photo photos picture pictures footage`)
