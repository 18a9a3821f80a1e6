// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"go.uber.org/zap"

	"github.com/caddy-moderation/caddy-moderation/caddymod/internal/placeholder"
	"github.com/caddy-moderation/caddy-moderation/caddymod/internal/webhook"
	"github.com/caddy-moderation/caddy-moderation/caddymod/options"
	"github.com/caddy-moderation/caddy-moderation/engine"
	"github.com/caddy-moderation/caddy-moderation/engine/language"
	"github.com/caddy-moderation/caddy-moderation/quota"
	"github.com/caddy-moderation/caddy-moderation/review"
)

// ReviewOptions switch the review queue on: texts that people decide. It keeps what people have written, in the store,
// so it is off unless the option is there.
//
// Kept are texts that a moderate or a moderate_response handler reads, and those that clients send to the API or
// correct, also in the form of OpenAI's or the Perspective API, but nothing that is sent with doNotStore. People decide
// them by the API (/v1/reviews), with a key that has the scope "review".
type ReviewOptions struct {
	// What is kept: texts with the recommendations review and reject, and with correction those for which clients
	// suggest other scores. Default: review.
	Of []string `json:"of,omitempty"`

	// The share of all texts that is kept whatever the service says of them, from 0 to 1, to measure how often it errs.
	// Default: 0.
	Sample float64 `json:"sample,omitempty"`

	// How long an item is kept, whatever has become of it: at least 1 hour. What is erased cannot be brought back.
	// Items are erased within an hour after that, once the server has run for 10 minutes. Default: 30d.
	Keep caddy.Duration `json:"keep,omitempty"`

	// The maximum number of items, from 1 to 10,000,000. With more, the oldest decided ones are erased, then the oldest
	// waiting ones. Default: 100,000.
	Max int64 `json:"max,omitempty"`

	// The share of the items that two reviewers decide, from 0 to 1, to measure how often people agree. Default: 0.05.
	Twice *float64 `json:"twice,omitempty"`

	// The key that the items are encrypted with (AES-256-GCM): a placeholder such as {env.NAME} or {file.PATH} that
	// yields 32 random bytes in Base64 or as hexadecimal digits, as "openssl rand -base64 32" prints them. Items that
	// were kept without a key stay readable. Who loses the key loses the items. Default: they are not encrypted.
	Key string `json:"key,omitempty"`

	// The keys that were used before, as placeholders. What they have encrypted stays readable, and is encrypted with
	// the present key by the hourly sweep; the log says when they are needed no longer. Default: none.
	FormerKeys []string `json:"former_keys,omitempty"`

	// Whether items name authors as the site does. Otherwise they have a keyed hash, which tells authors apart and no
	// more. Default: false.
	PlainAuthors bool `json:"plain_authors,omitempty"`

	// The endpoints that are told what reviewers decide, by signed requests (Standard Webhooks). Default: none.
	Webhooks []ReviewWebhook `json:"webhooks,omitempty"`

	// How decisions of ROOST Coop are taken in. Default: they are not.
	Coop *ReviewCoop `json:"coop,omitempty"`
}

// ReviewWebhook is an endpoint that is told what reviewers decide: a POST for each event, signed as Standard Webhooks
// 1.0 says, in the order of the decisions and at least once. Several nodes with one store deliver each event once.
type ReviewWebhook struct {
	// The address, with http or https. Placeholders such as {env.NAME} are replaced. Redirects are not followed.
	// Required.
	URL string `json:"url"`

	// The secret that requests are signed with: a placeholder such as {env.NAME} or {file.PATH} that yields "whsec_" and
	// 24 to 64 random bytes in Base64. Required.
	Secret string `json:"secret"`

	// The account whose events are sent. Default: all.
	Account string `json:"account,omitempty"`
}

// check returns an error if an option is missing or out of range.
func (w *ReviewWebhook) check() error {
	switch {
	case w.URL == "":
		return errors.New("review: a webhook has no url")
	case w.Secret == "" || !hasPlaceholder(w.Secret):
		return errors.New("review: a webhook needs a secret, which must be a placeholder such as {env.NAME} or " +
			"{file.PATH}: what stands in the configuration can be read by everybody who can reach Caddy's admin endpoint")
	case w.Account != "":
		if err := quota.ValidateID(w.Account); err != nil {
			return fmt.Errorf("review: the account of a webhook: %w", err)
		}
	}
	return nil
}

// endpoint returns where the webhook leads to, with placeholders replaced. No error tells the address or the secret.
func (w *ReviewWebhook) endpoint() (e webhook.Endpoint, err error) {
	address, err := placeholder.ExpandInURL(w.URL)
	if err != nil {
		return e, fmt.Errorf("review: the url of a webhook: %w", err)
	}
	parsed, err := url.Parse(address)
	if err != nil || parsed.Scheme != "http" && parsed.Scheme != "https" || parsed.Host == "" {
		return e, errors.New("review: the url of a webhook must begin with https:// or http:// and name a host")
	}
	text, err := placeholder.Expand(w.Secret)
	if err != nil {
		return e, fmt.Errorf("review: the secret of a webhook: %w", err)
	}
	secret, err := webhook.ParseSecret(text)
	if err != nil {
		return e, fmt.Errorf("review: %w", err)
	}
	return webhook.Endpoint{URL: address, Secret: secret, Account: w.Account}, nil
}

// Limits and defaults of [ReviewOptions].
const (
	minReviewKeep     = time.Hour
	maxReviews        = 10_000_000
	defaultReviews    = 100_000
	defaultReviewKeep = 30 * 24 * time.Hour
	defaultTwice      = 0.05
)

// check returns an error if an option is missing or out of range, or a placeholder does not yield what it must.
func (o *ReviewOptions) check() error {
	if err := o.checkRanges(); err != nil {
		return err
	}
	if _, _, err := o.keys(); err != nil {
		return err
	}
	if _, err := o.Coop.coop(); err != nil {
		return err
	}
	for i := range o.Webhooks {
		if err := o.Webhooks[i].check(); err != nil {
			return err
		}
		if _, err := o.Webhooks[i].endpoint(); err != nil {
			return err
		}
	}
	return nil
}

// checkRanges returns an error if an option is out of range.
func (o *ReviewOptions) checkRanges() error {
	for _, of := range o.Of {
		if of != string(engine.Review) && of != string(engine.Reject) && of != string(review.Corrected) {
			return fmt.Errorf("review: of has %q; it takes review, reject and correction", of)
		}
	}
	twice := 0.0
	if o.Twice != nil {
		twice = *o.Twice
	}
	for name, share := range map[string]float64{"sample": o.Sample, "twice": twice} {
		if share < 0 || share > 1 || share != share {
			return fmt.Errorf("review: %s is %v; it must be a share from 0 to 1", name, share)
		}
	}
	if keep := time.Duration(o.Keep); keep != 0 && keep < minReviewKeep {
		return fmt.Errorf("review: keep is %s; it must be 1 hour or more, such as 30d", keep)
	}
	if o.Max < 0 || o.Max > maxReviews {
		return fmt.Errorf("review: max is %d; it must be from 1 to %d", o.Max, maxReviews)
	}
	if o.Key == "" && len(o.FormerKeys) > 0 {
		return errors.New("review: there are former keys, but no key")
	}
	for _, key := range append([]string{o.Key}, o.FormerKeys...) {
		if (o.Key != "" || key != "") && !hasPlaceholder(key) {
			return errors.New("review: the key must be a placeholder such as {env.NAME} or {file.PATH}: what stands in the " +
				"configuration can be read by everybody who can reach Caddy's admin endpoint")
		}
	}
	return nil
}

// keys returns the keys that the options yield; the present one is nil without one.
func (o *ReviewOptions) keys() (present *review.Key, former []review.Key, err error) {
	if o.Key == "" {
		return nil, nil, nil
	}
	all := make([]review.Key, 1+len(o.FormerKeys))
	for i, from := range append([]string{o.Key}, o.FormerKeys...) {
		text, err := placeholder.Expand(from)
		if err != nil {
			return nil, nil, fmt.Errorf("review: key: %w", err)
		}
		if all[i], err = review.ParseKey(text); err != nil {
			return nil, nil, fmt.Errorf("review: %w", err)
		}
		if slices.Contains(all[:i], all[i]) {
			return nil, nil, fmt.Errorf("review: key %d is the same as one before it", i+1)
		}
	}
	return &all[0], all[1:], nil
}

// parse parses the Caddyfile option.
func (a *App) parseReview(d *caddyfile.Dispenser) error {
	o := new(ReviewOptions)
	var most *int64
	if err := options.Block(d, "review", map[string]options.Option{
		"of": {Parse: func(d *caddyfile.Dispenser) error {
			o.Of = d.RemainingArgs()
			if len(o.Of) == 0 {
				return d.Err("'of' needs at least 1 argument: of review|reject|correction...")
			}
			return nil
		}},
		"sample": shareOption(func(share float64) { o.Sample = share }),
		"twice":  shareOption(func(share float64) { o.Twice = &share }),
		"keep":   options.Duration(&o.Keep),
		"max":    options.Whole(&most, "<number>"),
		"key": {Parse: func(d *caddyfile.Dispenser) error {
			args := d.RemainingArgs()
			if len(args) == 0 || slices.Contains(args, "") {
				return d.Err("'key' needs at least 1 argument, and none that is empty: key <placeholder> [<former>...]")
			}
			o.Key, o.FormerKeys = args[0], args[1:]
			if len(o.FormerKeys) == 0 {
				o.FormerKeys = nil
			}
			return nil
		}},

		"plain_authors": options.Flag(&o.PlainAuthors),
		"webhook":       {Parse: o.parseWebhook, Repeat: true},
		"coop":          {Parse: o.parseCoop},
	}); err != nil {
		return err
	}
	if most != nil {
		if o.Max = *most; o.Max == 0 {
			return d.Errf("review: max is 0; it must be from 1 to %d", maxReviews)
		}
	}
	if err := o.checkRanges(); err != nil {
		return d.Err(err.Error())
	}
	a.Review = o
	return nil
}

func (o *ReviewOptions) parseWebhook(d *caddyfile.Dispenser) error {
	args, err := options.ArgsBeforeBlock(d, "<url>")
	if err != nil {
		return err
	}
	w := ReviewWebhook{URL: args[0]}
	if err := options.Block(d, "webhook", map[string]options.Option{
		"secret":  options.Text(&w.Secret, "<placeholder>"),
		"account": options.Text(&w.Account, "<id>"),
	}); err != nil {
		return err
	}
	o.Webhooks = append(o.Webhooks, w)
	return nil
}

// shareOption is an option with a share such as 1% or 0.01.
func shareOption(set func(float64)) options.Option {
	return options.Option{Parse: func(d *caddyfile.Dispenser) error {
		name := d.Val()
		args, err := options.Args(d, "<share>")
		if err != nil {
			return err
		}
		digits, percent := strings.CutSuffix(args[0], "%")
		share, err := strconv.ParseFloat(digits, 64)
		if percent {
			share /= 100
		}
		if err != nil || !(share >= 0 && share <= 1) {
			return d.Errf("%s is '%s'; it must be a share such as 1%% or 0.01", name, args[0])
		}
		set(share)
		return nil
	}}
}

// Reviews keeps texts for review. A nil *Reviews keeps nothing.
type Reviews struct {
	// Queue has the items.
	Queue *review.Queue
	// Coop takes decisions of Coop in; nil if the configuration has none.
	Coop *Coop

	app    *App
	of     []string
	sample float64
	plain  bool
	most   int64
	// added is how many items were kept since the last sweep, and sweeping says that one is under way.
	added    atomic.Int64
	sweeping atomic.Bool
	// resealed says that nothing is left that is encrypted with a former key.
	resealed atomic.Bool
	stats    reviewStats
}

// newReviews returns the queue that the configuration describes, nil if it has none.
func (a *App) newReviews(services *Services) (*Reviews, error) {
	o := a.Review
	if o == nil {
		return nil, nil
	}
	r := &Reviews{app: a, of: o.Of, sample: o.Sample, plain: o.PlainAuthors, most: o.Max}
	if len(r.of) == 0 {
		r.of = []string{string(engine.Review)}
	}
	if r.most == 0 {
		r.most = defaultReviews
	}
	keep, twice := time.Duration(o.Keep), defaultTwice
	if keep == 0 {
		keep = defaultReviewKeep
	}
	if o.Twice != nil {
		twice = *o.Twice
	}
	key, former, err := o.keys()
	if err != nil {
		return nil, err
	}
	if r.Coop, err = o.Coop.coop(); err != nil {
		return nil, err
	}
	r.Queue, err = review.New(review.Options{
		Store: services.Store, Keep: keep, Max: int(r.most), Key: key, FormerKeys: former, Twice: twice,
		Now: services.Now, Random: a.random,
	})
	return r, err
}

// webhookPause is how often senders look for events.
const webhookPause = 2 * time.Second

// senders deliver the events of a configuration, for as long as it runs.
type senders struct {
	cancel context.CancelFunc
	ended  sync.WaitGroup
}

// startSenders starts the senders of the configuration, if it has webhooks.
func (a *App) startSenders(services *Services) error {
	if a.Review == nil || len(a.Review.Webhooks) == 0 {
		return nil
	}
	ctx, cancel := context.WithCancel(context.Background())
	a.senders = &senders{cancel: cancel}
	for i := range a.Review.Webhooks {
		endpoint, err := a.Review.Webhooks[i].endpoint()
		if err != nil {
			cancel()
			return err
		}
		sender := &webhook.Sender{
			Endpoint: endpoint, Queue: services.Reviews.Queue, Store: services.Store, Client: webhook.NewClient(),
			Now: services.Now, Told: a.toldOfWebhook,
		}
		a.senders.ended.Go(func() { sender.Run(ctx, webhookPause) })
	}
	return nil
}

// ErrNoWebhook says that the configuration has no such webhook.
var ErrNoWebhook = errors.New("no such webhook")

// Replay lets a webhook be sent the events since an instant once more: the one with a number, counted from 1 in the
// order of the configuration, or with 0 all of them. It returns how many these are, and how many webhooks.
func (r *Reviews) Replay(
	ctx context.Context, services *Services, number int, since time.Time,
) (events, webhooks int, err error) {
	all := r.app.Review.Webhooks
	switch {
	case len(all) == 0:
		return 0, 0, fmt.Errorf("%w: the option review has none", ErrNoWebhook)
	case number < 0 || number > len(all):
		return 0, 0, fmt.Errorf("%w: the option review has %d, counted from 1", ErrNoWebhook, len(all))
	case number > 0:
		all = all[number-1 : number]
	}
	for i := range all {
		endpoint, err := all[i].endpoint()
		if err != nil {
			return events, webhooks, err
		}
		n, err := webhook.Replay(ctx, services.Store, r.Queue, &endpoint, since)
		if err != nil {
			return events, webhooks, err
		}
		events, webhooks = events+n, webhooks+1
	}
	return events, webhooks, nil
}

// toldOfWebhook counts and logs what came of an attempt.
func (a *App) toldOfWebhook(outcome webhook.Outcome, event string, err error) {
	a.metrics.ReviewWebhook(string(outcome))
	switch outcome {
	case webhook.GivenUp:
		a.logger.Error("an event of the review queue is given up: the endpoint has not taken it, or it cannot be read",
			zap.String("event", event), zap.Error(err))
	case webhook.Failed:
		a.logger.Warn("an event of the review queue could not be delivered; it is tried again",
			zap.String("event", event), zap.Error(err))
	case webhook.Delivered:
	}
}

// stop ends the senders: what is on its way is broken off, and sent again by the next configuration.
func (s *senders) stop() {
	if s != nil {
		s.cancel()
		s.ended.Wait()
	}
}

// KeepsReviews reports whether texts are kept for review.
func (a *App) KeepsReviews() bool { return a.Review != nil }

// Cause returns why a text with a recommendation is kept, and whether it is: by chance, if a sample is kept.
func (r *Reviews) Cause(recommendation engine.Recommendation) (review.Cause, bool) {
	if r == nil {
		return "", false
	}
	if r.sample > 0 {
		var chance [8]byte
		if _, err := io.ReadFull(r.app.random, chance[:]); err == nil &&
			float64(binary.BigEndian.Uint64(chance[:])>>11)/(1<<53) < r.sample {
			return review.Sampled, true
		}
	}
	if slices.Contains(r.of, string(recommendation)) {
		return review.Cause(recommendation), true
	}
	return "", false
}

// Corrections reports whether texts are kept for which clients suggest other scores.
func (r *Reviews) Corrections() bool {
	return r != nil && slices.Contains(r.of, string(review.Corrected))
}

// maxExplained is how many bytes of the texts of an item are explained.
const maxExplained = 20_000

// keepPatience is how long a request waits until an item is kept.
const keepPatience = 5 * time.Second

// Keep keeps an item, with the passages of its texts that carry a category. When it returns the item is durable, or the
// error is logged and counted: what cannot be kept is no reason to stop the text. Author is what the site calls the
// author.
func (r *Reviews) Keep(ctx context.Context, item review.Item, author string) {
	r.KeepAll(ctx, []review.Item{item}, author)
}

// KeepOnce keeps an item as [Reviews.Keep] does, unless its texts are kept for its account already: an app gives the
// same answer to many. A sample is kept whatever is there: it stands for what was not drawn.
func (r *Reviews) KeepOnce(ctx context.Context, item review.Item) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), keepPatience)
	defer cancel()
	item.Fit()
	if item.Cause != review.Sampled {
		// What a store cannot tell it will not keep either, and then that is said.
		if known, err := r.Queue.Known(ctx, &item); known && err == nil {
			return
		}
	}
	r.keepWithin(ctx, []review.Item{item}, "")
}

// KeepAll keeps the items of one request as [Reviews.Keep] does. The request waits no longer for many than for one.
func (r *Reviews) KeepAll(ctx context.Context, items []review.Item, author string) {
	if len(items) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), keepPatience)
	defer cancel()
	r.keepWithin(ctx, items, author)
}

// keepWithin keeps items before the context ends, and says what was not kept.
func (r *Reviews) keepWithin(ctx context.Context, items []review.Item, author string) {
	kept, err := r.keep(ctx, items, author)
	for i := range items {
		r.app.metrics.Review(string(items[i].Cause), i < kept)
	}
	if err != nil {
		r.app.logger.Error("a text could not be kept for review", zap.String("moderation_id", items[0].RequestID),
			zap.Int("texts", len(items)-kept), zap.Error(err))
	}
	// The sweeper comes once an hour. A flood must not fill the store until then.
	if r.added.Add(int64(kept))*20 > r.most && r.sweeping.CompareAndSwap(false, true) {
		go r.trim()
	}
}

// Author returns what items say of an author whom the site gives this name. What items say already stays as it is.
func (r *Reviews) Author(ctx context.Context, name string) (string, error) {
	if r.plain || name == "" || strings.HasPrefix(name, review.AuthorPrefix) {
		return name, nil
	}
	return r.Queue.HashAuthor(ctx, name)
}

// keep keeps items, and returns how many: the first ones.
func (r *Reviews) keep(ctx context.Context, items []review.Item, author string) (kept int, err error) {
	if !r.plain {
		// Whatever the name is: nobody can take the hash of another author for a name.
		if author, err = r.Queue.HashAuthor(ctx, author); err != nil {
			return 0, err
		}
	}
	for i := range items {
		item := &items[i]
		item.Author = author
		item.Fit()
		if item.Recommendation == string(engine.Approve) {
			continue
		}
		left := maxExplained
		for n := range item.Texts {
			// What is explained is read once more: nobody shall make that much work.
			if left -= len(item.Texts[n].Text); left < 0 {
				break
			}
			if err := r.explain(ctx, &item.Texts[n]); err != nil {
				return 0, err
			}
		}
	}
	return r.Queue.AddAll(ctx, items)
}

// explain finds the passages of a text.
func (r *Reviews) explain(ctx context.Context, t *review.Text) error {
	_, explanation, err := r.app.engine.Explain(ctx, engine.Request{Content: t.Text})
	if err != nil {
		return err
	}
	for c, x := range explanation {
		if x.Passage != (engine.Span{}) {
			t.Passages = append(t.Passages, review.Passage{
				Category: engine.Category(c).String(), Begin: x.Passage.Begin, End: x.Passage.End,
			})
		}
	}
	return nil
}

// trim erases what is too much.
func (r *Reviews) trim() {
	defer r.sweeping.Store(false)
	services := r.app.TryAcquire()
	if services == nil {
		return
	}
	defer services.Release()
	r.added.Store(0)
	n, err := r.Queue.Trim(context.Background())
	r.told(n, err)
}

// sweep erases what is too old or too much.
func (r *Reviews) sweep(ctx context.Context) {
	if r == nil {
		return
	}
	r.added.Store(0)
	n, err := r.Queue.Sweep(ctx)
	if ctx.Err() == nil {
		r.told(n, err)
	}
	r.reseal(ctx)
}

// reseal encrypts with the present key what former ones have encrypted, and says when these are needed no longer.
func (r *Reviews) reseal(ctx context.Context) {
	if len(r.app.Review.FormerKeys) == 0 || r.resealed.Load() {
		return
	}
	done, err := r.Queue.Reseal(ctx)
	told := []zap.Field{
		zap.Int("encrypted", done.Done), zap.Int("unreadable", done.Unreadable), zap.Int("changed", done.Changed),
	}
	switch {
	case ctx.Err() != nil:
	case err != nil:
		r.app.logger.Error("review items could not be encrypted with the present key; it is tried again",
			append(told, zap.Error(err))...)
	case done.Unreadable > 0:
		r.resealed.Store(true)
		r.app.logger.Warn("review items that can be read are encrypted with the present key; others need a key that is "+
			"not in the configuration, or are damaged", told...)
	case done.Done+done.Changed > 0:
		// Another node may still have written with a former key. The next sweep looks again.
		r.app.logger.Info("review items were encrypted with the present key", told...)
	default:
		r.resealed.Store(true)
		r.app.logger.Info("all review items are encrypted with the present key: the former keys can be taken out of the " +
			"configuration")
	}
}

func (r *Reviews) told(erased int, err error) {
	if erased > 0 {
		r.app.logger.Info("review items were erased that are kept no longer", zap.Int("items", erased))
	}
	if err != nil {
		r.app.logger.Error("old review items could not be erased; it is tried again", zap.Error(err))
	}
}

// APIItem returns an item with a text that a client of an account has sent, and what the service has said of it.
func (a *App) APIItem(cause review.Cause, account, requestID, text string, result *engine.Result) review.Item {
	item := a.ReviewItem(cause, result.Recommendation, result.Confidence, &result.Categories)
	item.Origin, item.Account, item.RequestID = review.API, account, requestID
	item.Texts = []review.Text{{Text: text}}
	item.Blocked, item.OtherLanguage = len(result.Blocked) > 0, result.OtherLanguage
	MarkPassages(&item.Texts[0], review.BlockedPassage, result.Blocked)
	for i := range result.Themes {
		if theme := &result.Themes[i]; theme.Flagged {
			item.Themes = append(item.Themes, theme.Theme)
			MarkPassages(&item.Texts[0], review.ThemePassage, theme.Matches)
		}
	}
	if result.Language.Tag != language.Undetermined {
		item.Language = result.Language.Tag
	}
	return item
}

// MarkPassages adds the parts of a text that something stands in: a category, [review.BlockedPassage] or
// [review.ThemePassage].
func MarkPassages(t *review.Text, what string, spans []engine.Span) {
	for _, span := range spans[:min(len(spans), maxMarked)] {
		t.Passages = append(t.Passages, review.Passage{Category: what, Begin: span.Begin, End: span.End})
	}
}

// maxMarked is how many parts of a text are marked for one reason.
const maxMarked = 100

// ReviewItem returns the part of an item that is the same for all texts: what the service has said.
func (a *App) ReviewItem(
	cause review.Cause, recommendation engine.Recommendation, confidence float64,
	categories *[engine.NumCategories]engine.CategoryResult,
) review.Item {
	item := review.Item{
		Cause: cause, Recommendation: string(recommendation), Confidence: confidence, Flagged: []string{},
		Probabilities: make(map[string]float64, engine.NumCategories), Model: a.engine.Version(),
	}
	for c := range categories {
		name := engine.Category(c).String()
		item.Probabilities[name] = categories[c].Probability
		if categories[c].Flagged {
			item.Flagged = append(item.Flagged, name)
		}
	}
	return item
}
