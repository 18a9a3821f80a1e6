// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap/zapcore"

	"github.com/caddy-moderation/caddy-moderation/caddymod/guard/extract"
	"github.com/caddy-moderation/caddy-moderation/caddymod/guard/policy"
	"github.com/caddy-moderation/caddy-moderation/engine"
)

// Status says how much of a message was moderated.
type Status string

// The statuses.
const (
	// Judged says that all text of the message was moderated.
	Judged Status = "judged"
	// Nothing says that the message has no text.
	Nothing Status = "nothing"
	// Partial says that only a part of the message was moderated, as configured, or that the rest of a large upload is
	// moderated while it flows to the app, each text before the app reads it.
	Partial Status = "partial"
	// Skipped says that the message was not moderated because of its size, as configured.
	Skipped Status = "skipped"
	// Failed says that the message could not be moderated.
	Failed Status = "error"
)

// statuses are all statuses.
var statuses = []Status{Judged, Nothing, Partial, Skipped, Failed}

// recommendations are all recommendations.
var recommendations = []engine.Recommendation{engine.Approve, engine.Review, engine.Reject}

// verdict is the verdict on a message, and what the guard did with the message.
type verdict struct {
	policy.Verdict
	status Status
	action action
	reason string        // a word for why the message was not moderated
	took   time.Duration // how long moderating took
}

// action is what a guard did with a message.
type action string

const (
	passed   action = "passed"   // it went on
	handled  action = "handled"  // the routes of on reject, review or approve took over
	refused  action = "refused"  // it was refused
	aborted  action = "aborted"  // the upload or the stream was ended in the middle
	shadowed action = "shadowed" // it went on because of shadow mode
)

// newVerdict returns the verdict on a message whose texts were classified.
func newVerdict(decided policy.Verdict, results []policy.Classification) *verdict {
	v := &verdict{Verdict: decided, status: Judged}
	if len(results) == 0 {
		v.status = Nothing
	}
	return v
}

// adjust makes the verdict reflect how much of the message could be extracted.
func (v *verdict) adjust(found *extract.Result) {
	v.reason = found.Reason
	switch {
	case found.Refuse != nil:
		*v = verdict{status: Failed, reason: extract.RefuseReason(found.Refuse)}
	case found.Unreadable != nil && v.Recommendation != engine.Reject:
		// The readable part is fine; the rest is unknown.
		*v = verdict{status: Failed, reason: found.Reason}
	case found.Coverage == extract.Skipped:
		*v = verdict{status: Skipped, reason: found.Reason}
	case found.Coverage == extract.Partial:
		v.status = Partial
	}
}

// placeholder returns the value of a placeholder. v is nil before there is a verdict; it is unknown then.
func (v *verdict) placeholder(name string) (any, bool) {
	if v == nil {
		return nil, false
	}
	switch name {
	case "status":
		return string(v.status), true
	case "flagged":
		return v.Flagged, true
	case "recommendation":
		return string(v.Recommendation), true
	case "confidence":
		return v.Confidence, true
	case "categories":
		return strings.Join(v.Flags(), ","), true
	case "themes":
		return strings.Join(v.Themes, ","), true
	case "blocked":
		return v.Blocked, true
	case "language":
		return v.Language, true
	case "other_language":
		return v.OtherLanguage, true
	case "field":
		if len(v.Findings) == 0 {
			return "", true
		}
		return v.Findings[0].Name, true
	case "fields":
		return strings.Join(v.Fields(), ","), true
	case "action":
		return string(v.action), true
	case "reason":
		return v.reason, true
	}
	for c := range v.Categories {
		if engine.Category(c).String() == name {
			return v.Categories[c].Probability, true
		}
	}
	return nil, false
}

// log adds the verdict to a line of a log.
func (v *verdict) log(log zapcore.ObjectEncoder, prefix string) {
	if v == nil {
		return
	}
	log.AddString(prefix+"status", string(v.status))
	log.AddString(prefix+"action", string(v.action))
	if v.Recommendation != "" {
		log.AddString(prefix+"recommendation", string(v.Recommendation))
	}
	if names := v.Flags(); len(names) > 0 {
		log.AddString(prefix+"categories", strings.Join(names, ","))
	}
	if names := v.Fields(); len(names) > 0 {
		for i := range names {
			names[i] = loggable(names[i])
		}
		log.AddString(prefix+"fields", strings.Join(names, ","))
	}
	if v.OtherLanguage {
		log.AddString(prefix+"other_language", v.Language)
	}
	if v.reason != "" && v.status == Failed {
		log.AddString(prefix+"error", v.reason)
	}
}

// loggable returns the name of a field, or "?" if it does not look like one. Names come from the client, and may hold
// text, which must not be logged.
func loggable(name string) string {
	if len(name) > 64 {
		return "?"
	}
	for _, c := range []byte(name) {
		if c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' ||
			strings.IndexByte("/._-:[]#~+", c) >= 0 {
			continue
		}
		return "?"
	}
	return name
}

// setHeaders puts the verdict into the header of the request that goes on to the app. Clients cannot set these fields,
// see [request.StripHeader].
func (v *verdict) setHeaders(header http.Header, id string) {
	values := make([]string, 0, 9) // one array for all fields
	set := func(name, value string) {
		values = append(values, value)
		header[name] = values[len(values)-1 : len(values) : len(values)]
	}
	set("X-Moderation-Id", id)
	set("X-Moderation-Status", string(v.status))
	if v.Recommendation == "" {
		return
	}
	set("X-Moderation-Flagged", strconv.FormatBool(v.Flagged))
	set("X-Moderation-Recommendation", string(v.Recommendation))
	set("X-Moderation-Confidence", strconv.FormatFloat(v.Confidence, 'f', 4, 64))
	if names := v.Flags(); len(names) > 0 {
		set("X-Moderation-Categories", strings.Join(names, ", "))
	}
	if names := v.Fields(); len(names) > 0 {
		for i := range names {
			names[i] = headerName(names[i])
		}
		set("X-Moderation-Fields", strings.Join(names, ", "))
	}
	if v.Language != "" {
		set("X-Moderation-Language", v.Language)
	}
	set("X-Moderation-Scores", v.scores())
}

// scores returns the probabilities of the categories as a list for a header field.
func (v *verdict) scores() string {
	b := make([]byte, 0, 96)
	for c := range v.Categories {
		if c > 0 {
			b = append(b, ", "...)
		}
		b = append(b, engine.Category(c).String()...)
		b = append(b, '=')
		b = strconv.AppendFloat(b, v.Categories[c].Probability, 'f', 4, 64)
	}
	return string(b)
}

// headerName returns the name of a field for a list in a header field. Bytes that are not visible ASCII are
// percent-encoded, and so are the comma, which separates names, and the percent sign.
func headerName(name string) string {
	const hex = "0123456789ABCDEF"
	clean := true
	for i := 0; i < len(name); i++ {
		if mustEscape(name[i]) {
			clean = false
			break
		}
	}
	if clean {
		return name
	}
	var b strings.Builder
	for i := 0; i < len(name); i++ {
		if c := name[i]; mustEscape(c) {
			b.WriteByte('%')
			b.WriteByte(hex[c>>4])
			b.WriteByte(hex[c&15])
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

func mustEscape(c byte) bool { return c <= ' ' || c >= 0x7f || c == ',' || c == '%' }
