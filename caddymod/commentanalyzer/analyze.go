// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package commentanalyzer

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/caddy-moderation/caddy-moderation/caddymod/access"
	"github.com/caddy-moderation/caddy-moderation/caddymod/app"
	"github.com/caddy-moderation/caddy-moderation/caddymod/internal/body"
	"github.com/caddy-moderation/caddy-moderation/caddymod/internal/cors"
	"github.com/caddy-moderation/caddy-moderation/caddymod/internal/directive"
	"github.com/caddy-moderation/caddy-moderation/caddymod/internal/tracing"
	"github.com/caddy-moderation/caddy-moderation/caddymod/metrics"
	"github.com/caddy-moderation/caddy-moderation/caddymod/options"
	"github.com/caddy-moderation/caddy-moderation/caddymod/problem"
	"github.com/caddy-moderation/caddy-moderation/engine"
	"github.com/caddy-moderation/caddy-moderation/engine/language"
)

func init() {
	caddy.RegisterModule(new(Analyze))
	directive.Handler[Analyze]("moderation_analyze")
	httpcaddyfile.RegisterDirectiveOrder("moderation_analyze", httpcaddyfile.Before, "respond")
}

// AnalyzePath is the end of the path at which [Analyze] scores comments.
const AnalyzePath = "/v1alpha1/comments:analyze"

// maxAnalyzeBody is the size, in bytes, of the largest body. It leaves room for a context: clients of the Perspective
// API may send up to 1 MB for each text of it.
const maxAnalyzeBody = 4 << 20

// Values of Analyze.Unscored.
const (
	unscoredOmit  = "omit"
	unscoredError = "error"
)

// Analyze is a handler that scores comments as the Perspective API does. It answers POST requests whose path ends in
// /v1alpha1/comments:analyze, serves the discovery document at /$discovery/rest, and passes every other path on.
//
// The key may be in the query parameter "key", in the header Authorization: Bearer or in X-Goog-Api-Key. A request
// counts once, like a text moderation; categories that it flags by the account's thresholds are counted, too. No part
// of the comment is stored, unless the app has the option review: then a comment may be kept in the review queue, with
// the texts of the context, but never one of a request with doNotStore. The discovery document needs no key and is not
// counted.
//
// Errors have the format that clients of Google's APIs parse.
type Analyze struct {
	// The attributes to answer differently from the default, by name. The value is the attribute whose score is given:
	// TOXICITY, SEVERE_TOXICITY, IDENTITY_ATTACK, INSULT, PROFANITY, THREAT, SEXUALLY_EXPLICIT or SPAM, or "off" for no
	// score. The names may be those of the Perspective API or any others. Default: none.
	Attributes map[string]string `json:"attributes,omitempty"`
	// What to do with a request that asks for some attributes without a score: "omit" answers the others and lists
	// these in the member unscoredAttributes; "error" refuses the request. A request that asks only for attributes
	// without a score is always refused. Default: "omit".
	Unscored string `json:"unscored,omitempty"`
	// The languages that the classifier knows, as BCP 47 tags. For a comment in another language, the member
	// languageSupported of the answer is false. Default: those that the classifier says it knows, or "en".
	Languages []string `json:"languages,omitempty"`
	// The origins, such as "https://www.example.com", whose pages may call the service from a browser; "*" allows all
	// origins. Default: none.
	CORSOrigins cors.Origins `json:"cors_origins,omitempty"`

	app    *app.App
	access access.Middleware
	table  attributeTable
	known  []string // the languages, in lower case
	keeps  bool     // comments may be kept for review
}

// CaddyModule returns the Caddy module information.
func (*Analyze) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "http.handlers.moderation_analyze",
		New: func() caddy.Module { return new(Analyze) },
	}
}

// Provision finds the app, fills in the defaults and makes the table of attributes.
func (a *Analyze) Provision(ctx caddy.Context) error {
	owner, err := app.LoadWithStore(ctx)
	if err != nil {
		return err
	}
	a.app, a.keeps = owner, owner.KeepsReviews()
	a.access = access.Middleware{
		App:       owner,
		Operation: metrics.Analyze,
		Sources:   access.Sources{Query: true, GoogleHeader: true},
		Problem:   WriteProblem,
	}
	if a.Unscored == "" {
		a.Unscored = unscoredOmit
	}
	known := a.Languages
	if len(known) == 0 {
		known = owner.Engine().Languages()
	}
	if len(known) == 0 {
		known = []string{"en"}
	}
	for _, tag := range known {
		a.known = append(a.known, strings.ToLower(tag))
	}
	a.table, err = newAttributeTable(a.Attributes)
	return err
}

// Validate checks the configuration.
func (a *Analyze) Validate() error {
	if !isUnscored(a.Unscored) {
		return fmt.Errorf("unscored is %q; it must be %s or %s", a.Unscored, unscoredOmit, unscoredError)
	}
	for _, tag := range a.Languages {
		if !isLanguage(tag) {
			return fmt.Errorf("%q is not a language tag such as en or pt-BR", tag)
		}
	}
	return a.CORSOrigins.Validate()
}

// isUnscored reports whether value is a value of Analyze.Unscored.
func isUnscored(value string) bool { return value == unscoredOmit || value == unscoredError }

// ServeHTTP scores the comment, or answers with the discovery document.
func (a *Analyze) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	// The path is decoded: some clients send the colon as %3A.
	analyze := strings.HasSuffix(r.URL.Path, AnalyzePath)
	if !analyze && !strings.HasSuffix(r.URL.Path, DiscoveryPath) {
		return next.ServeHTTP(w, r)
	}
	if a.CORSOrigins.Serve(w, r) {
		return nil
	}
	if analyze {
		return a.access.Serve(w, r, a.handle)
	}
	return a.discover(w, r)
}

// handle answers an admitted call.
func (a *Analyze) handle(w http.ResponseWriter, r *http.Request, call *access.Call) error {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		return call.Problem(w, r, problem.New(problem.MethodNotAllowed, "The method must be POST."))
	}
	data, err := readBody(w, r, maxAnalyzeBody)
	if err != nil {
		return call.Problem(w, r, body.Problem(w.Header(), err))
	}
	wanted, failed := a.decode(data.Bytes(), call.Services.Engine)
	data.Release()
	if failed != nil {
		failed.write(w, r, call.ID)
		return nil
	}
	ctx, span := tracing.Start(r.Context(), tracing.Classify)
	span.Text(wanted.text)
	answer, verdict, err := a.analyze(ctx, call, wanted)
	span.Classified(verdict, err)
	if err != nil && r.Context().Err() != nil {
		return gone(w)
	}
	if err != nil {
		a.app.Logger().Error("scoring a comment", zap.String("moderation_id", call.ID), zap.Error(err))
		w.Header().Set("Retry-After", "1")
		return call.Problem(w, r, problem.New(problem.ClassifierUnavailable,
			"The classifier cannot answer now. Try again."))
	}
	a.keepForReview(ctx, call, wanted, verdict)
	writeJSON(w, r, http.StatusOK, answer)
	return nil
}

// keepForReview keeps the comment for review with the verdict by the policy of the account, if the configuration asks
// for it and the client allows it.
func (a *Analyze) keepForReview(ctx context.Context, call *access.Call, wanted *analysis, verdict *engine.Result) {
	if wanted.doNotStore {
		return
	}
	reviews := call.Services.Reviews
	cause, kept := reviews.Cause(verdict.Recommendation)
	if !kept {
		return
	}
	item := a.app.APIItem(cause, call.Who.Account.ID, call.ID, wanted.text, verdict)
	item.Context = wanted.context
	reviews.Keep(ctx, item, "")
}

// analyzeResponse is the answer. Its last three members are not those of the Perspective API, whose clients ignore
// them.
type analyzeResponse struct {
	AttributeScores   map[string]attributeAnswer `json:"attributeScores"`
	Languages         []string                   `json:"languages"`
	DetectedLanguages []string                   `json:"detectedLanguages"`
	ClientToken       string                     `json:"clientToken,omitempty"`
	// LanguageSupported reports whether the classifier knows the language of the comment.
	LanguageSupported bool `json:"languageSupported"`
	// UnscoredAttributes are the requested names without a score.
	UnscoredAttributes []string `json:"unscoredAttributes,omitempty"`
	// ModelVersion names the model that the scores come from.
	ModelVersion string `json:"modelVersion"`
}

type (
	attributeAnswer struct {
		SpanScores   []spanAnswer `json:"spanScores,omitempty"`
		SummaryScore *scoreAnswer `json:"summaryScore,omitempty"`
	}
	spanAnswer struct {
		Begin int         `json:"begin"`
		End   int         `json:"end"`
		Score scoreAnswer `json:"score"`
	}
	scoreAnswer struct {
		Value float64 `json:"value"`
		Type  string  `json:"type"`
	}
)

// analyze scores the text, and its sentences where spans are asked for. It also returns the verdict for the statistics.
func (a *Analyze) analyze(
	ctx context.Context, call *access.Call, wanted *analysis,
) (*analyzeResponse, *engine.Result, error) {
	classifier := call.Services.Engine
	judging := call.Judging(wanted.text)
	harmShare := judging.HarmShare
	judging.HarmShare = 0
	if len(wanted.languages) > 0 {
		judging.Languages, judging.OtherLanguage = wanted.languages, ""
	}
	result, err := classifier.Moderate(ctx, judging)
	if err != nil {
		return nil, nil, err
	}
	// The scores are on a scale that clients know, and stay. What is flagged for the statistics is what the text
	// moderation flags, for the share of harm in the account's texts.
	verdict := result
	classifier.Shift(harmShare).Apply(&verdict)
	classifier.Policy().With(judging.Policy).Decide(&verdict)
	call.SetVerdict(&verdict)
	// The first span is always the whole text: some clients look nowhere else.
	spans := []sentence{{end: utf16Length(wanted.text)}}
	scores := [][engine.NumAttributes]float64{result.Attributes}
	if wanted.spans {
		parts := sentences(wanted.text)
		if len(parts) == 1 {
			parts = nil // it is the whole text, which has its scores
		}
		for _, part := range parts {
			if err := ctx.Err(); err != nil {
				return nil, nil, err
			}
			own, err := classifier.Classify(ctx, part.text)
			if err != nil {
				return nil, nil, err
			}
			spans, scores = append(spans, part), append(scores, own.Attributes)
		}
	}
	detected := detectedLanguages(result.Language, classifier, wanted.text)
	answer := &analyzeResponse{
		AttributeScores:    make(map[string]attributeAnswer, len(wanted.attributes)),
		Languages:          wanted.languages,
		DetectedLanguages:  detected,
		ClientToken:        wanted.clientToken,
		LanguageSupported:  a.supports(wanted.languages, detected),
		UnscoredAttributes: wanted.unscored,
		ModelVersion:       classifier.Version(),
	}
	if len(answer.Languages) == 0 {
		answer.Languages = detected[:1]
	}
	scale := scaleOf(answer.ModelVersion)
	for _, attribute := range wanted.attributes {
		answer.AttributeScores[attribute.name] = attribute.answer(scale, spans, scores)
	}
	return answer, &verdict, nil
}

// answer returns the scores of one attribute, without those below its threshold.
func (wanted *wantedAttribute) answer(
	scale *scale, spans []sentence, scores [][engine.NumAttributes]float64,
) (given attributeAnswer) {
	for i, span := range spans {
		value := scale.answer(wanted.score, scores[i][wanted.score])
		if value < wanted.threshold {
			continue
		}
		score := scoreAnswer{Value: value, Type: probability}
		if i == 0 {
			given.SummaryScore = &score
		}
		given.SpanScores = append(given.SpanScores, spanAnswer{Begin: span.begin, End: span.end, Score: score})
	}
	return given
}

// detectedLanguages is the language of a text as a list. Where the classifier does not say it, it is guessed.
func detectedLanguages(found engine.Language, classifier *engine.Engine, text string) []string {
	if found.Tag == "" {
		found = classifier.DetectLanguage(text)
	}
	return []string{found.Tag}
}

// supports reports whether the classifier knows both a language that the request names and the one that was detected.
func (a *Analyze) supports(wanted, detected []string) bool {
	if len(wanted) > 0 && !slices.ContainsFunc(wanted, a.knows) {
		return false
	}
	return detected[0] == language.Undetermined || a.knows(detected[0])
}

// UnmarshalCaddyfile sets up the module from Caddyfile tokens. Syntax:
//
//	moderation_analyze [<matcher>] {
//		attribute    <name> <score|off>
//		unscored     omit|error
//		languages    <tag>...
//		cors_origins <origin>...
//	}
func (a *Analyze) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // the directive's name
	allowed := a.Options()
	allowed["cors_origins"] = cors.Option(&a.CORSOrigins)
	return options.Block(d, "moderation_analyze", allowed)
}

// Options returns the Caddyfile options of the scoring itself, for directives that have a block for them.
func (a *Analyze) Options() map[string]options.Option {
	return map[string]options.Option{
		"attribute": {Parse: a.parseAttribute, Repeat: true},
		"unscored": {Parse: func(d *caddyfile.Dispenser) error {
			args, err := options.Args(d, "omit|error")
			if err != nil {
				return err
			}
			if !isUnscored(args[0]) {
				return d.Errf("unscored is '%s'; it must be %s or %s", args[0], unscoredOmit, unscoredError)
			}
			a.Unscored = args[0]
			return nil
		}},
		"languages": {Parse: func(d *caddyfile.Dispenser) error {
			tags := d.RemainingArgs()
			if len(tags) == 0 {
				return d.Errf("'languages' needs at least 1 argument: languages <tag>...")
			}
			for _, tag := range tags {
				if !isLanguage(tag) {
					return d.Errf("'%s' is not a language tag such as en or pt-BR", tag)
				}
			}
			a.Languages = tags
			if d.NextBlock(d.Nesting()) {
				return d.Errf("'languages' takes no block")
			}
			return nil
		}},
	}
}

// parseAttribute parses the option attribute.
func (a *Analyze) parseAttribute(d *caddyfile.Dispenser) error {
	args, err := options.Args(d, "<name> <score|off>")
	if err != nil {
		return err
	}
	name := args[0]
	if _, twice := a.Attributes[name]; twice {
		return d.Errf("attribute %s is given twice", name)
	}
	if _, err := newAttributeTable(map[string]string{name: args[1]}); err != nil {
		return d.Err(err.Error())
	}
	if a.Attributes == nil {
		a.Attributes = map[string]string{}
	}
	a.Attributes[name] = args[1]
	return nil
}

// Interface guards
var (
	_ caddy.Provisioner           = (*Analyze)(nil)
	_ caddy.Validator             = (*Analyze)(nil)
	_ caddyfile.Unmarshaler       = (*Analyze)(nil)
	_ caddyhttp.MiddlewareHandler = (*Analyze)(nil)
)
