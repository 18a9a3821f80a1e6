// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package desk

import (
	"maps"
	"net/http"
	"strconv"
	"strings"

	"github.com/caddy-moderation/caddy-moderation/audit"
	"github.com/caddy-moderation/caddy-moderation/caddymod/app"
	"github.com/caddy-moderation/caddy-moderation/engine"
	"github.com/caddy-moderation/caddy-moderation/quota"
)

// The names of the fields of an account's settings. That of a threshold begins with thresholdField.
const (
	monthField     = "requests_per_month"
	minuteField    = "requests_per_minute"
	harmShareField = "harm_share"
	anchorField    = "anchor_day"
	thresholdField = "threshold."
)

// setting is a field of the form.
type setting struct {
	Name, Value string
	// Category is set for a threshold, and Default is what holds where the field is empty.
	Category, Default string
	Wrong             bool
}

// settingsBody is what the form of an account's settings shows.
type settingsBody struct {
	Month, Minute, HarmShare, Anchor setting
	Thresholds                       []setting
	// Shifts says that the classifier has a share of harm.
	Shifts  bool
	Problem *fieldProblem
}

// fieldProblem says what is wrong with a field.
type fieldProblem struct {
	Field string
	// Category is set if the field is a threshold.
	Category string
	// Text names the explanation, and Detail is what the service says in English, if it does.
	Text, Detail string
}

// showSettings shows the form with what an account replaces of its tier and of the service.
func showSettings(c *call) error {
	if c.account.Declared {
		return quota.ErrDeclared
	}
	own := c.account.Overrides
	values := map[string]string{}
	for name, limit := range map[string]*int64{monthField: own.RequestsPerMonth, minuteField: own.RequestsPerMinute} {
		if limit != nil {
			values[name] = strconv.FormatInt(*limit, 10)
		}
	}
	if own.HarmShare != nil {
		values[harmShareField] = strconv.FormatFloat(*own.HarmShare, 'f', -1, 64)
	}
	if c.account.AnchorDay != 0 {
		values[anchorField] = strconv.Itoa(c.account.AnchorDay)
	}
	for name, threshold := range own.Thresholds {
		values[thresholdField+name] = strconv.FormatFloat(threshold, 'f', -1, 64)
	}
	c.renderSettings(http.StatusOK, func(name string) string { return values[name] }, nil)
	return nil
}

// renderSettings shows the form with values, and what is wrong with one of them.
func (c *call) renderSettings(status int, value func(field string) string, problem *fieldProblem) {
	of := func(name, otherwise string) setting {
		return setting{
			Name: name, Value: value(name), Default: otherwise, Wrong: problem != nil && problem.Field == name,
		}
	}
	limits := c.services.Gate.Tiers()[c.account.Tier]
	shown := settingsBody{
		Month:   of(monthField, c.limit(limits.RequestsPerMonth)),
		Minute:  of(minuteField, c.limit(limits.RequestsPerMinute)),
		Anchor:  of(anchorField, "1"),
		Shifts:  c.services.Engine.HarmShare() != 0,
		Problem: problem,
	}
	if shown.Shifts {
		share := c.desk.app.HarmShareOf(nil)
		if share == 0 {
			share = c.services.Engine.HarmShare()
		}
		shown.HarmShare = of(harmShareField, strconv.FormatFloat(share, 'g', 4, 64))
	}
	policy := c.services.Engine.Policy()
	for i := range engine.NumCategories {
		name := engine.Category(i).String()
		field := of(thresholdField+name, strconv.FormatFloat(policy.Thresholds[i], 'g', 4, 64))
		field.Category = name
		shown.Thresholds = append(shown.Thresholds, field)
	}
	c.render(status, page{Template: "settings.html", Title: "settings.title", Body: shown})
}

// limit returns a limit of which 0 means none.
func (c *call) limit(n int64) string {
	if n == 0 {
		return c.words.must("unlimited")
	}
	return strconv.FormatInt(n, 10)
}

// changeSettings replaces what an account replaces of its tier and of the service.
func changeSettings(c *call) error {
	change, problem := c.settings()
	if problem == nil {
		changed, err := c.services.Gate.UpdateAccount(c.r.Context(), c.account.ID, change)
		if err == nil {
			c.record(audit.Entry{
				Action: "account.update", Account: changed.ID, Details: app.AccountChanges(&c.account, &changed),
			})
			return c.done("changed", "accounts", c.account.ID)
		}
		told, _ := refusalOf(err)
		if told.Status != http.StatusBadRequest {
			return err
		}
		problem = &fieldProblem{Text: told.Text, Detail: told.Detail}
	}
	c.renderSettings(http.StatusBadRequest, c.form.Get, problem)
	return nil
}

// settings reads the form. What the form does not have stays as it is.
func (c *call) settings() (change quota.AccountChange, problem *fieldProblem) {
	own := c.account.Overrides
	for name, to := range map[string]**int64{monthField: &own.RequestsPerMonth, minuteField: &own.RequestsPerMinute} {
		text, has := c.typed(name)
		if has {
			*to = nil
		}
		if text == "" {
			continue
		}
		limit, err := strconv.ParseInt(text, 10, 64)
		if err != nil || limit < 0 {
			return change, &fieldProblem{Field: name, Text: "settings.limit"}
		}
		*to = &limit
	}
	own.Thresholds = maps.Clone(own.Thresholds)
	for i := range engine.NumCategories {
		name := engine.Category(i).String()
		text, has := c.typed(thresholdField + name)
		if has {
			delete(own.Thresholds, name)
		}
		if text == "" {
			continue
		}
		threshold, err := decimalOf(text)
		if err != nil || !(threshold > 0 && threshold < 1) {
			return change, &fieldProblem{Field: thresholdField + name, Category: name, Text: "settings.threshold"}
		}
		if own.Thresholds == nil {
			own.Thresholds = map[string]float64{}
		}
		own.Thresholds[name] = threshold
	}
	text, has := c.typed(harmShareField)
	if has {
		own.HarmShare = nil
	}
	if text != "" {
		share, err := engine.ParseHarmShare(strings.Replace(text, ",", ".", 1))
		if err != nil {
			return change, &fieldProblem{Field: harmShareField, Text: "settings.share"}
		}
		own.HarmShare = &share
	}
	anchor := c.account.AnchorDay
	if text, has = c.typed(anchorField); has {
		anchor = 0
	}
	if text != "" {
		day, err := strconv.Atoi(text)
		if err != nil || day < 1 || day > 31 {
			return change, &fieldProblem{Field: anchorField, Text: "settings.anchor"}
		}
		anchor = day
	}
	return quota.AccountChange{Overrides: &own, AnchorDay: &anchor}, nil
}

// typed returns what was typed into a field, and whether the form has the field.
func (c *call) typed(name string) (text string, has bool) {
	return strings.TrimSpace(c.form.Get(name)), c.form.Has(name)
}

// decimalOf reads a number, in which a comma may stand for the point.
func decimalOf(text string) (float64, error) {
	return strconv.ParseFloat(strings.Replace(text, ",", ".", 1), 64)
}

// deleteBody is what the page shows that asks before an account is deleted.
type deleteBody struct {
	// Wrong says that what was typed is not the id.
	Wrong bool
}

// askDelete shows the page on which an account is deleted.
func askDelete(c *call) error {
	if c.account.Declared {
		return quota.ErrDeclared
	}
	c.renderDelete(http.StatusOK, deleteBody{})
	return nil
}

func (c *call) renderDelete(status int, shown deleteBody) {
	c.render(status, page{Template: "delete.html", Title: "delete.title", Body: shown})
}

// deleteAccount deletes an account whose id was typed, with its keys and its counts.
func deleteAccount(c *call) error {
	if c.account.Declared {
		return quota.ErrDeclared
	}
	if typed, _ := c.typed("confirm"); typed != c.account.ID {
		c.renderDelete(http.StatusBadRequest, deleteBody{Wrong: true})
		return nil
	}
	if err := c.services.DeleteAccount(c.r.Context(), c.account.ID); err != nil {
		return err
	}
	c.record(audit.Entry{Action: "account.delete", Account: c.account.ID})
	return c.done("deleted", "accounts")
}
