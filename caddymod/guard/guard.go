// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// Package guard stands in front of an app: the handler moderate judges what people send to it, moderate_response what it
// answers, and the matcher moderation lets other directives ask for the verdict.
//
// A request has one [exchange]: what was read of its body, the texts that were found and what the judge said about them.
// Handlers and matchers share it, so that nothing is read or judged twice.
package guard

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/caddy-moderation/caddy-moderation/caddymod/access"
	"github.com/caddy-moderation/caddy-moderation/caddymod/app"
	"github.com/caddy-moderation/caddy-moderation/engine"
)

// exchange is what is known of one request and its answer.
type exchange struct {
	id       string
	body     *capture
	readings []reading
	// counted names the directions and accounts that the message is counted for.
	counted []string
	// request is the latest verdict on the request, response the one on the answer. Nil before there is one.
	request, response *Verdict
}

// reading is what was found in a request by one way of reading it, and what the classifier said.
type reading struct {
	key     string
	found   found
	results []judged
}

// exchangeVar is the name of the request variable that carries the exchange from one handler or matcher to the next.
const exchangeVar = "moderation.guard"

// exchangeOf returns the request's exchange. The first time it makes one, and makes it known to placeholders and to the
// access log.
func exchangeOf(r *http.Request, a *app.App) *exchange {
	ctx := r.Context()
	if known, ok := caddyhttp.GetVar(ctx, exchangeVar).(*exchange); ok {
		return known
	}
	x := &exchange{id: access.IDOf(ctx, a)}
	caddyhttp.SetVar(ctx, exchangeVar, x)
	if replacer, ok := ctx.Value(caddy.ReplacerCtxKey).(*caddy.Replacer); ok {
		replacer.Map(x.placeholder)
	}
	if extra, ok := ctx.Value(caddyhttp.ExtraLogFieldsCtxKey).(*caddyhttp.ExtraLogFields); ok {
		extra.Add(zap.Inline(x))
	}
	return x
}

// placeholder yields {http.moderation.*} of the verdict on the request and {http.moderation.response.*} of the one on the
// answer. They are unknown until there is a verdict.
func (x *exchange) placeholder(key string) (any, bool) {
	name, ok := strings.CutPrefix(key, "http.moderation.")
	if !ok {
		return nil, false
	}
	if name == "id" {
		return x.id, true
	}
	if name, ok := strings.CutPrefix(name, "response."); ok {
		return x.response.placeholder(name)
	}
	return x.request.placeholder(name)
}

// MarshalLogObject adds the verdicts to a line of the access log.
func (x *exchange) MarshalLogObject(log zapcore.ObjectEncoder) error {
	if x.request == nil && x.response == nil {
		return nil
	}
	log.AddString("moderation_id", x.id)
	x.request.log(log, "moderation_")
	x.response.log(log, "moderation_response_")
	return nil
}

// Status says how far a message was judged.
type Status string

// The statuses.
const (
	// Judged says that all text of the message was judged.
	Judged Status = "judged"
	// Nothing says that there was no text to judge.
	Nothing Status = "nothing"
	// Partial says that a large upload goes on to the app while its later fields are judged, each before the app reads it,
	// or that only the first part of the message was judged, as configured.
	Partial Status = "partial"
	// Skipped says that the message was not judged, because of its size, as configured.
	Skipped Status = "skipped"
	// Failed says that the message could not be judged.
	Failed Status = "error"
)

// Verdict is what the guard found in a message: the worst of all its texts.
type Verdict struct {
	Status Status
	// Flagged says that a category is flagged, a theme hits or a blocked word was found.
	Flagged bool
	// Recommendation is the strictest of all texts. It is empty when the message was not judged.
	Recommendation engine.Recommendation
	// Confidence is that of the text that decided.
	Confidence float64
	// Categories holds the highest probability of each category, and whether it is flagged in any text.
	Categories [engine.NumCategories]engine.CategoryResult
	// Themes are the themes that hit, without repetition.
	Themes []string
	// Blocked says that a blocked word was found.
	Blocked bool
	// Fields are the texts that are not approved.
	Fields []Finding
	// Action is what became of the message.
	Action Action
	// Reason says in a word why the message was not judged.
	Reason string

	took time.Duration // what judging took
	// hostile says that a text is rejected for something else than what a person in a crisis says.
	hostile bool
}

// crisis reports whether self-harm is flagged, and nothing is rejected for anything else.
func (v *Verdict) crisis() bool {
	return v.Categories[engine.SelfHarm].Flagged && !v.hostile
}

// Finding is a text that is not approved.
type Finding struct {
	// Name is the place of the text in the message.
	Name           string
	Recommendation engine.Recommendation
	// Categories are the flagged ones.
	Categories []string
}

// Action is what a guard did with a message.
type Action string

// The actions.
const (
	Passed   Action = "passed"   // it went on
	Handled  Action = "handled"  // the directives of on reject, review or approve took over
	Refused  Action = "refused"  // it was refused
	Aborted  Action = "aborted"  // the upload or the stream was ended in the middle
	Shadowed Action = "shadowed" // it went on because of shadow mode
)

// flagged names the flagged categories.
func (v *Verdict) flagged() []string {
	var names []string
	for c := range v.Categories {
		if v.Categories[c].Flagged {
			names = append(names, engine.Category(c).String())
		}
	}
	return names
}

// fields names the places that are not approved.
func (v *Verdict) fields() []string {
	var names []string
	for _, finding := range v.Fields {
		if !slices.Contains(names, finding.Name) {
			names = append(names, finding.Name)
		}
	}
	return names
}

// placeholder yields a value by its name; unknown for a verdict that is not there yet.
func (v *Verdict) placeholder(name string) (any, bool) {
	if v == nil {
		return nil, false
	}
	switch name {
	case "status":
		return string(v.Status), true
	case "flagged":
		return v.Flagged, true
	case "recommendation":
		return string(v.Recommendation), true
	case "confidence":
		return v.Confidence, true
	case "categories":
		return strings.Join(v.flagged(), ","), true
	case "themes":
		return strings.Join(v.Themes, ","), true
	case "blocked":
		return v.Blocked, true
	case "field":
		if len(v.Fields) == 0 {
			return "", true
		}
		return v.Fields[0].Name, true
	case "fields":
		return strings.Join(v.fields(), ","), true
	case "action":
		return string(v.Action), true
	case "reason":
		return v.Reason, true
	}
	for c := range v.Categories {
		if engine.Category(c).String() == name {
			return v.Categories[c].Probability, true
		}
	}
	return nil, false
}

// log adds the verdict to a line of a log.
func (v *Verdict) log(log zapcore.ObjectEncoder, prefix string) {
	if v == nil {
		return
	}
	log.AddString(prefix+"status", string(v.Status))
	log.AddString(prefix+"action", string(v.Action))
	if v.Recommendation != "" {
		log.AddString(prefix+"recommendation", string(v.Recommendation))
	}
	if names := v.flagged(); len(names) > 0 {
		log.AddString(prefix+"categories", strings.Join(names, ","))
	}
	if names := v.fields(); len(names) > 0 {
		for i := range names {
			names[i] = loggable(names[i])
		}
		log.AddString(prefix+"fields", strings.Join(names, ","))
	}
	if v.Reason != "" && v.Status == Failed {
		log.AddString(prefix+"error", v.Reason)
	}
}

// loggable is the name of a field when it looks like one. Names come from the client, and may be content: what does not
// look like a name stays out of logs.
func loggable(name string) string {
	if len(name) > 64 {
		return "?"
	}
	for _, c := range []byte(name) {
		if c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' || strings.IndexByte("/._-:[]#~+", c) >= 0 {
			continue
		}
		return "?"
	}
	return name
}

// headerPrefix begins the header fields that carry the verdict to the app.
const headerPrefix = "X-Moderation-"

// setHeaders puts the verdict into the header of the request that goes on to the app.
func (v *Verdict) setHeaders(header http.Header, id string) {
	values := make([]string, 0, 8) // one array for all fields
	set := func(name, value string) {
		values = append(values, value)
		header[name] = values[len(values)-1 : len(values) : len(values)]
	}
	set("X-Moderation-Id", id)
	set("X-Moderation-Status", string(v.Status))
	if v.Recommendation == "" {
		return
	}
	set("X-Moderation-Flagged", strconv.FormatBool(v.Flagged))
	set("X-Moderation-Recommendation", string(v.Recommendation))
	set("X-Moderation-Confidence", strconv.FormatFloat(v.Confidence, 'f', 4, 64))
	if names := v.flagged(); len(names) > 0 {
		set("X-Moderation-Categories", strings.Join(names, ", "))
	}
	if names := v.fields(); len(names) > 0 {
		for i := range names {
			names[i] = fieldName(names[i])
		}
		set("X-Moderation-Fields", strings.Join(names, ", "))
	}
	set("X-Moderation-Scores", v.scores())
}

// scores writes the probabilities of the categories.
func (v *Verdict) scores() string {
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

// fieldName is a name as it can stand in a header field: all but visible ASCII, and what separates names, is
// percent-encoded.
func fieldName(name string) string {
	const hex = "0123456789ABCDEF"
	clean := true
	for i := 0; i < len(name); i++ {
		if c := name[i]; c <= ' ' || c >= 0x7f || c == ',' || c == '%' {
			clean = false
			break
		}
	}
	if clean {
		return name
	}
	var b strings.Builder
	for i := 0; i < len(name); i++ {
		if c := name[i]; c <= ' ' || c >= 0x7f || c == ',' || c == '%' {
			b.WriteByte('%')
			b.WriteByte(hex[c>>4])
			b.WriteByte(hex[c&15])
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// strip removes fields that only a guard may set. Servers behind CGI-like gateways read underscores as hyphens, so that
// both count. Nor may a client have a proxy remove what the guard says, or what it went by: no list of fields that end at
// the next hop names any of it.
func strip(header http.Header) {
	for name := range header {
		if guarded(name, headerPrefix) {
			delete(header, name)
		}
	}
	for _, list := range hopLists {
		if values, ok := header[list]; ok {
			stripList(header, list, values)
		}
	}
}

// guarded reports whether the name of a header field begins with a prefix, in any case and with either kind of dash.
func guarded(name, prefix string) bool {
	if len(name) < len(prefix) || name[0]|0x20 != prefix[0]|0x20 {
		return false
	}
	return strings.EqualFold(strings.ReplaceAll(name[:len(prefix)], "_", "-"), prefix)
}

// hopLists are the header fields that name others, or are read so by some proxy. What Connection names a proxy must remove
// (RFC 9110, section 7.6.1).
var hopLists = [...]string{"Connection", "Proxy-Connection", "Keep-Alive", "Te", "Trailer", "Upgrade"}

// bodyPrefix begins the header fields that say what a body is. A body that was read as a form must not reach the app without
// its type.
const bodyPrefix = "Content-"

// stripList removes names from a list that is in the header.
func stripList(header http.Header, list string, values []string) {
	forbidden := func(item string) bool {
		item = strings.TrimSpace(item)
		return guarded(item, headerPrefix) || guarded(item, bodyPrefix)
	}
	clean := true
	for _, value := range values {
		for item := range strings.SplitSeq(value, ",") {
			clean = clean && !forbidden(item)
		}
	}
	if clean {
		return
	}
	var kept []string // what else it names, such as close and Upgrade
	for _, value := range values {
		for item := range strings.SplitSeq(value, ",") {
			if item = strings.TrimSpace(item); item != "" && !forbidden(item) {
				kept = append(kept, item)
			}
		}
	}
	if len(kept) == 0 {
		delete(header, list)
		return
	}
	header[list] = []string{strings.Join(kept, ", ")}
}
