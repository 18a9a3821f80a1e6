// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// Package review keeps a queue of texts that people decide: what the service was not sure of, what it refused, and a
// random sample to learn how often it errs.
//
// A [Queue] keeps items in a documents.Store, which several nodes may share. It serves an item to one reviewer at a
// time, keeps every decision, and forgets items when their time is over or when there are too many. It keeps what
// people have written, which nothing else in the service does beside corrections; so it can encrypt it.
package review

import (
	"errors"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"
)

// Errors of a [Queue].
var (
	// ErrNotFound says that there is no such item: it was erased, or never kept.
	ErrNotFound = errors.New("no such review item")
	// ErrEmpty says that there is nothing to review for this reviewer now.
	ErrEmpty = errors.New("nothing to review")
	// ErrInvalid says that an item or a decision breaks a rule. The message names the member and the rule.
	ErrInvalid = errors.New("invalid")
	// ErrTaken says that another reviewer has the item now, or has decided it.
	ErrTaken = errors.New("another reviewer has this item")
	// ErrKey says that an item is encrypted with another key than the one that is configured.
	ErrKey = errors.New("encrypted with another key")
)

// Limits of an item.
const (
	// MaxTexts is the number of texts of an item.
	MaxTexts = 64
	// MaxTextBytes is the length of all texts of an item together with their names, in bytes as they stand in JSON:
	// 64 KiB. So nothing that people write can make an item too large to be kept.
	MaxTextBytes = 64 << 10
	// MaxContext is the number of texts of the context.
	MaxContext = 10
	// maxContextBytes is the length of all texts of the context, in bytes as they stand in JSON.
	maxContextBytes = 4 << 10
	// maxPassages is the number of passages of all texts together that come with an item. Some more say afterwards what
	// carries a category, one for each text and category.
	maxPassages = 250
	// maxThemes is the number of themes that are noted.
	maxThemes = 10
	// maxNote is the length of a note and of other texts for people, in bytes.
	maxNote = 2000
	// maxName is the length of names, in bytes, and maxPlace that of sites, paths and authors.
	maxName  = 200
	maxPlace = 500
)

// Origin says where an item comes from.
type Origin string

// The origins.
const (
	// Guard is a post that a guard has read.
	Guard Origin = "guard"
	// API is a text that a client has sent.
	API Origin = "api"
	// Answer is an answer of the app, which a guard has read.
	Answer Origin = "answer"
)

// Origins returns all origins.
func Origins() []Origin { return []Origin{Guard, API, Answer} }

// Cause says why an item is kept.
type Cause string

// The causes.
const (
	// Reviewed is a text whose recommendation was review.
	Reviewed Cause = "review"
	// Rejected is a text whose recommendation was reject.
	Rejected Cause = "reject"
	// Sampled is one of a random sample of all texts. It is shown without the verdict, so that the decision measures
	// the service.
	Sampled Cause = "sample"
	// Corrected is a text for which a client has suggested other scores.
	Corrected Cause = "correction"
)

// Causes returns all causes.
func Causes() []Cause { return []Cause{Reviewed, Rejected, Sampled, Corrected} }

// Status says what has become of an item.
type Status string

// The statuses.
const (
	Pending   Status = "pending"
	Approved  Status = "approved"
	Refused   Status = "rejected"
	Escalated Status = "escalated"
)

// Statuses returns all statuses, [Pending] first.
func Statuses() []Status { return []Status{Pending, Escalated, Approved, Refused} }

// Item is a text, or the texts of one post, with what the service has said of it. Its JSON form is that of the API and
// of the export.
type Item struct {
	// ID is unique and sorts by time: "rev_" and 26 characters.
	ID string `json:"id"`
	// Time is when the item was kept, in UTC.
	Time   time.Time `json:"time"`
	Origin Origin    `json:"origin"`
	Cause  Cause     `json:"cause"`
	// Account is the id of the account that is served. Default: none, which a guard without one has.
	Account string `json:"account,omitempty"`
	// Site is the host that a guard protects, and Path the path of the request, without its query.
	Site string `json:"site,omitempty"`
	Path string `json:"path,omitempty"`
	// RequestID is that of the answer, such as "mod_...".
	RequestID string `json:"request_id,omitempty"`
	// Texts are what was written.
	Texts []Text `json:"texts"`
	// LeftOut is how many more texts there were than are kept.
	LeftOut int `json:"left_out,omitempty"`
	// Author is what tells authors apart: a keyed hash of what the site calls them, or that itself if the operator
	// wants it so. Default: not known.
	Author string `json:"author,omitempty"`
	// Language is the language of the text (BCP 47), if it is known.
	Language string `json:"language,omitempty"`
	// Recommendation, Flagged, Probabilities and Confidence are what the service has said, and Model is its version.
	Recommendation string             `json:"recommendation"`
	Flagged        []string           `json:"flagged"`
	Probabilities  map[string]float64 `json:"probabilities"`
	Confidence     float64            `json:"confidence"`
	Model          string             `json:"model"`
	// Themes are the themes that were found, at most 10. Blocked says that a blocked word was, and OtherLanguage that a
	// text is in another language than expected. So a reviewer sees what has decided beside the categories.
	Themes        []string `json:"themes,omitempty"`
	Blocked       bool     `json:"blocked,omitempty"`
	OtherLanguage bool     `json:"other_language,omitempty"`
	// Suggested are the scores that a client has suggested, by the name of the attribute, each from 0 to 1. Default:
	// none.
	Suggested map[string]float64 `json:"suggested,omitempty"`
	// Context are the texts that were there before, which the client has sent along, the latest last. Default: none.
	Context []string `json:"context,omitempty"`

	// Status is what has become of it.
	Status Status `json:"status"`
	// Twice says that two reviewers are to decide it, to learn how often people agree.
	Twice bool `json:"twice,omitempty"`
	// Decisions are all that were made, the oldest first.
	Decisions []Decision `json:"decisions"`
}

// Text is one text of an item.
type Text struct {
	// Name is the name of the field, if it has one.
	Name string `json:"name,omitempty"`
	Text string `json:"text"`
	// Cut says that the text went on, and that the rest is not kept.
	Cut bool `json:"cut,omitempty"`
	// Passages are the parts that carry a category, blocked words, and the parts that carry a theme.
	Passages []Passage `json:"passages,omitempty"`
}

// What a passage may be beside one that carries a category.
const (
	// BlockedPassage is a blocked word, and ThemePassage one that carries a theme.
	BlockedPassage = "blocked"
	ThemePassage   = "theme"
)

// Passage is a part of a text that carries a category.
type Passage struct {
	// Category is its name, or [BlockedPassage] or [ThemePassage].
	Category string `json:"category"`
	// Begin and End count Unicode code points; End is exclusive.
	Begin int `json:"begin"`
	End   int `json:"end"`
}

// Action is what a reviewer decides.
type Action string

// The actions.
const (
	// Approve says that the text may stand.
	Approve Action = "approve"
	// Reject says that it may not.
	Reject Action = "reject"
	// Escalate passes it to somebody else, with a note.
	Escalate Action = "escalate"
	// Skip leaves it to another reviewer.
	Skip Action = "skip"
	// Undo takes the reviewer's last decision about the item back.
	Undo Action = "undo"
)

// Actions returns all actions.
func Actions() []Action { return []Action{Approve, Reject, Escalate, Skip, Undo} }

// Decision is what a reviewer has decided about an item.
type Decision struct {
	// ID is unique and sorts by time: "dec_" and 26 characters.
	ID string `json:"id"`
	// Time is in UTC.
	Time time.Time `json:"time"`
	// Reviewer says who it was.
	Reviewer string `json:"reviewer"`
	Action   Action `json:"action"`
	// Reason is why, in a word of the operator's, and Note what one reviewer tells the next.
	Reason string `json:"reason,omitempty"`
	Note   string `json:"note,omitempty"`
	// Categories says for each category that the reviewer looked at whether the text is of it.
	Categories map[string]bool `json:"categories,omitempty"`
	// Undone says that the reviewer has taken it back.
	Undone bool `json:"undone,omitempty"`
}

// final reports whether an action decides what becomes of an item.
func (a Action) final() bool { return a == Approve || a == Reject || a == Escalate }

// validate returns an error that wraps [ErrInvalid] unless an item may be kept.
func (i *Item) validate() error {
	size := 0
	for _, t := range i.Texts {
		size += encodedLength(t.Text) + encodedLength(t.Name)
	}
	switch {
	case !slices.Contains(Origins(), i.Origin):
		return invalid("origin is guard, api or answer")
	case !slices.Contains(Causes(), i.Cause):
		return invalid("cause is review, reject, sample or correction")
	case len(i.Texts) == 0 || len(i.Texts) > MaxTexts:
		return invalid("an item has 1 to %d texts", MaxTexts)
	case size > MaxTextBytes:
		return invalid("the texts of an item have at most %d bytes", MaxTextBytes)
	}
	return nil
}

// Fit cuts what is too long for an item, and notes in the item that it has.
func (i *Item) Fit() {
	if more := len(i.Texts) - MaxTexts; more > 0 {
		i.LeftOut += more
		i.Texts = i.Texts[:MaxTexts]
	}
	left := MaxTextBytes
	for n := range i.Texts {
		t := &i.Texts[n]
		t.Name = t.Name[:prefixWithin(t.Name, min(left, maxName))]
		left -= encodedLength(t.Name)
		if end := prefixWithin(t.Text, left); end < len(t.Text) {
			t.Text, t.Cut = t.Text[:end], true
		}
		left -= encodedLength(t.Text)
	}
	// A post with one blocked word after the other in many fields must not be too large to be kept.
	passages := maxPassages
	for n := range i.Texts {
		t := &i.Texts[n]
		t.Passages = t.Passages[:min(len(t.Passages), passages)]
		passages -= len(t.Passages)
	}
	i.Themes = i.Themes[:min(len(i.Themes), maxThemes)]
	i.Context = i.Context[max(len(i.Context)-MaxContext, 0):]
	left = maxContextBytes
	for n := len(i.Context) - 1; n >= 0; n-- {
		// The latest say most.
		if i.Context[n] = i.Context[n][:prefixWithin(i.Context[n], left)]; i.Context[n] == "" {
			i.Context = i.Context[n+1:]
			break
		}
		left -= encodedLength(i.Context[n])
	}
	for _, text := range []*string{&i.Site, &i.Path, &i.Author} {
		*text = (*text)[:prefixWithin(*text, maxPlace)]
	}
}

// encodedLength is how many bytes a text has as a JSON string at most, without its quotation marks.
func encodedLength(text string) (n int) {
	for i, r := range text {
		n += encodedRune(text[i:], r)
	}
	return n
}

// prefixWithin returns the length of the longest beginning of a text that has at most limit bytes as JSON.
func prefixWithin(text string, limit int) int {
	for i, r := range text {
		if limit -= encodedRune(text[i:], r); limit < 0 {
			return i
		}
	}
	return len(text)
}

// encodedRune is how many bytes the rune at the beginning of a text has in JSON: those that encoding/json escapes have
// up to six.
func encodedRune(text string, r rune) int {
	switch {
	case r == '"' || r == '\\':
		return 2
	case r < ' ' || r == '\u2028' || r == '\u2029' || r == utf8.RuneError:
		return 6
	}
	_, size := utf8.DecodeRuneInString(text)
	return size
}

// validate returns an error that wraps [ErrInvalid] unless a decision may be made.
func (d *Decision) validate() error {
	switch {
	case !slices.Contains(Actions(), d.Action):
		return invalid("action is approve, reject, escalate, skip or undo")
	case d.Reviewer == "" || len(d.Reviewer) > maxName:
		return invalid("reviewer has 1 to %d bytes", maxName)
	case len(d.Note) > maxNote:
		return invalid("note has at most %d bytes", maxNote)
	case len(d.Reason) > maxName:
		return invalid("reason has at most %d bytes", maxName)
	case len(d.Categories) > MaxTexts:
		return invalid("categories has at most %d members", MaxTexts)
	}
	for name := range d.Categories {
		if name == "" || len(name) > maxName {
			return invalid("the names in categories have 1 to %d bytes", maxName)
		}
	}
	return nil
}

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrInvalid, fmt.Sprintf(format, args...))
}

// Final returns the decision that the status rests on, nil while there is none.
func (i *Item) Final() *Decision {
	if i.Status == Pending {
		return nil
	}
	for n := len(i.Decisions) - 1; n >= 0; n-- {
		if d := &i.Decisions[n]; d.Action.final() && !d.Undone {
			return d
		}
	}
	return nil
}

// Labels returns what people have said about categories: for each of these categories that they said something about,
// whether the texts are of it. What is approved is of no category, unless the reviewer has said otherwise; of what is
// rejected only the categories count that the reviewer has looked at. While an item waits or is escalated there are
// none.
func (i *Item) Labels(categories []string) map[string]bool {
	decision := i.Final()
	if decision == nil || i.Status == Escalated {
		return nil
	}
	labels := make(map[string]bool, len(categories))
	for _, name := range categories {
		is, looked := decision.Categories[name]
		if looked || i.Status == Approved {
			labels[name] = is
		}
	}
	return labels
}

// Pair returns the first decisions of two reviewers about an item that both were to decide, the earlier one first, and
// whether there are two.
func (i *Item) Pair() (first, second Decision, ok bool) {
	if !i.Twice {
		return Decision{}, Decision{}, false
	}
	found := false
	for _, d := range i.Decisions {
		if d.Undone || d.Action != Approve && d.Action != Reject {
			continue
		}
		switch {
		case !found:
			first, found = d, true
		case d.Reviewer != first.Reviewer:
			return first, d, true
		}
	}
	return Decision{}, Decision{}, false
}
