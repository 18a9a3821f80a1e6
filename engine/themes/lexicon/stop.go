// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package lexicon

import "strings"

// IsStop reports whether a folded word is a stop word: an article, pronoun, preposition, auxiliary or the like, which
// says nothing about the subject of a text.
func IsStop(word []byte) bool {
	_, ok := stop[string(word)]
	return ok
}

var stop = func() map[string]struct{} {
	m := make(map[string]struct{})
	for w := range strings.FieldsSeq(`
		a about above across after again against ago ain all almost along already also although always am among an
		and another any anybody anyone anything are aren arent around as at away back be became because become been
		before behind being below between both but by can cannot cant could couldnt d did didnt do does doesnt doing
		don done dont down during each either else enough etc even ever every everybody everyone everything few for
		from further get gets getting go goes going gone gonna got had hadnt has hasnt have havent having he hed
		hell her here heres hers herself hes him himself his how however i id if ill im in instead into is isn isnt
		it itd itll its itself ive just keep kept let lets like ll m made make makes many may maybe me might mine
		more most much must my myself near need never no nobody none nor not nothing now of off often oh ok okay on
		once one ones only onto or other others our ours ourselves out over own per perhaps please put quite rather
		re really s said same say says see seem seen shall she shed shell shes should shouldnt since so some
		somebody someone something sometimes somewhere soon still such sure t take than that thats the their theirs
		them themselves then there theres these they theyd theyll theyre theyve thing things this those though
		through thus til till to together too toward towards u under until up upon ur us use used using usually ve
		very via wanna want was wasnt we wed well went were werent weve what whatever whats when where whether which
		while who whom whose why will with within without wont would wouldnt yeah yes yet you youd youll your youre
		yours yourself yourselves youve lot lots bit kind sort way yep nope hey hi hello am pm mr mrs ms dr`) {
		m[w] = struct{}{}
	}
	return m
}()
