// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package desk

import (
	"net/http"
	"slices"
	"strings"
	"unicode"

	"github.com/caddy-moderation/caddy-moderation/audit"
	"github.com/caddy-moderation/caddy-moderation/caddymod/app"
	"github.com/caddy-moderation/caddy-moderation/engine"
	"github.com/caddy-moderation/caddy-moderation/quota"
	"github.com/caddy-moderation/caddy-moderation/review"
)

// wordsForm is the size of the largest form with words: a byte becomes at most three, and a line end six.
const wordsForm = 3*quota.MaxExpressionBytes + 2*6*quota.MaxExpressions + smallForm

// wordsRoutes are the pages about the words and languages of an account.
func wordsRoutes() []route {
	const path = "/accounts/{account}/words"
	return []route{
		{method: http.MethodGet, pattern: path, needs: member, serve: showWords},
		{method: http.MethodPost, pattern: path, needs: member, limit: wordsForm, serve: changeWords},
	}
}

// wordsBody is what the page shows.
type wordsBody struct {
	Block, Allow, Languages, OtherLanguage string
	// Field is that of the problem, and Detail says in English what it is. Both are empty without one.
	Field, Detail string
	Changeable    bool
	// Queue says that there are texts of the past to try the words on.
	Queue bool
	// Tried is nil unless somebody wants to know what would have happened.
	Tried *triedWords
}

// triedWords is what other words would have done to texts of the past.
type triedWords struct {
	Recommendations []whatIf
	// Texts is how many there are, Stricter and Milder how many would have been judged otherwise.
	Texts, Stricter, Milder int
}

// showWords shows the words and languages of an account.
func showWords(c *call) error {
	own := &c.account.Overrides
	c.renderWords(http.StatusOK, wordsBody{
		Block: strings.Join(own.Block, "\n"), Allow: strings.Join(own.Allow, "\n"),
		Languages: strings.Join(own.Languages, " "), OtherLanguage: own.OtherLanguage,
	})
	return nil
}

// renderWords shows the page.
func (c *call) renderWords(status int, shown wordsBody) {
	shown.Changeable, shown.Queue = !c.account.Declared, c.services.Reviews != nil
	c.render(status, page{Template: "words.html", Title: "words.title", Tab: "words", Body: shown})
}

// changeWords replaces the words and languages of an account, or shows what others would have done.
func changeWords(c *call) error {
	text := func(name string) string { return strings.ReplaceAll(c.form.Get(name), "\r\n", "\n") }
	typed := wordsBody{
		Block: text("block"), Allow: text("allow"), Languages: text("languages"), OtherLanguage: text("other_language"),
	}
	apply := func(o *quota.Overrides) {
		o.Block, o.Allow = linesOf(typed.Block), linesOf(typed.Allow)
		o.Languages = strings.FieldsFunc(typed.Languages, func(r rune) bool { return r == ',' || unicode.IsSpace(r) })
		o.OtherLanguage = typed.OtherLanguage
	}
	wanted := c.account.Overrides
	apply(&wanted)
	if typed.Field, typed.Detail = problemOf(&wanted); typed.Detail != "" {
		c.renderWords(http.StatusBadRequest, typed)
		return nil
	}
	if c.form.Has("try") {
		var err error
		if typed.Tried, err = c.tryWords(&wanted); err != nil {
			return err
		}
		c.renderWords(http.StatusOK, typed)
		return nil
	}
	changed, err := c.services.Gate.ChangeOverrides(c.r.Context(), c.account.ID, apply)
	if err != nil {
		return err
	}
	c.record(audit.Entry{
		Action: "account.update", Account: changed.ID, Details: app.AccountChanges(&c.account, &changed),
	})
	return c.done("changed", "accounts", c.account.ID, "words")
}

// linesOf returns the lines of a text that are not empty, each once.
func linesOf(text string) (lines []string) {
	known := map[string]bool{}
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && !known[line] {
			known[line] = true
			lines = append(lines, line)
		}
	}
	return lines
}

// problemOf returns the field with a mistake, and what it is; nothing if there is none.
func problemOf(o *quota.Overrides) (field, detail string) {
	err := quota.ValidateOverrides(*o)
	if err == nil {
		err = app.CheckOverrides(o)
	}
	if err == nil {
		return "", ""
	}
	detail = strings.TrimPrefix(message(err), "overrides.")
	for _, name := range []string{"block", "allow", "languages", "other_language"} {
		if strings.HasPrefix(detail, name) {
			return name, detail
		}
	}
	return "block", detail
}

const (
	// triedItems is how many items of each status words are tried on, and triedBytes how long all their texts may be.
	triedItems = 100
	triedBytes = 512 << 10
)

// tryWords judges texts of the account that are in the review queue as they would be judged now, and by other words.
func (c *call) tryWords(wanted *quota.Overrides) (*triedWords, error) {
	tried := new(triedWords)
	for _, name := range recommendations {
		tried.Recommendations = append(tried.Recommendations, whatIf{Name: name})
	}
	if c.services.Reviews == nil {
		return tried, nil
	}
	release, err := c.judging()
	if err != nil {
		return nil, err
	}
	defer release()
	present, others := c.desk.app.RequestOf(&c.account, ""), c.desk.app.RequestBy(wanted)
	size := 0
	for _, status := range review.Statuses() {
		items, _, err := c.services.Reviews.Queue.List(c.r.Context(), review.Query{
			Status: status, Account: c.account.ID, Limit: triedItems,
		})
		if err != nil {
			return nil, err
		}
		for i := range items {
			for j := range items[i].Texts {
				size += len(items[i].Texts[j].Text)
			}
			if size > triedBytes {
				break
			}
			now, err := c.recommend(present, &items[i])
			if err != nil {
				return nil, err
			}
			then, err := c.recommend(others, &items[i])
			if err != nil {
				return nil, err
			}
			tried.count(now, then)
		}
	}
	for i := range tried.Recommendations {
		tried.Recommendations[i].finish(float64(tried.Texts))
	}
	return tried, nil
}

// recommend returns the strictest recommendation for the texts of an item, judged as request says. It is an index of
// recommendations.
func (c *call) recommend(request engine.Request, item *review.Item) (strictest int, err error) {
	for i := range item.Texts {
		request.Content = item.Texts[i].Text
		result, err := c.services.Engine.Moderate(c.r.Context(), request)
		if err != nil {
			return 0, err
		}
		strictest = max(strictest, slices.Index(recommendations, string(result.Recommendation)))
	}
	return strictest, nil
}

// count counts an item with what is recommended, and what would have been.
func (t *triedWords) count(now, then int) {
	t.Texts++
	switch {
	case then > now:
		t.Stricter++
	case then < now:
		t.Milder++
	}
	for i := range t.Recommendations {
		t.Recommendations[i].count(now == i, then == i, 1)
	}
}
