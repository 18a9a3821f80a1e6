// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"bytes"
	stdjson "encoding/json"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"go.uber.org/zap"

	"github.com/caddy-moderation/caddy-moderation/audit"
	"github.com/caddy-moderation/caddy-moderation/caddymod/access"
	"github.com/caddy-moderation/caddy-moderation/caddymod/app"
	"github.com/caddy-moderation/caddy-moderation/caddymod/internal/body"
	"github.com/caddy-moderation/caddy-moderation/caddymod/internal/response"
	"github.com/caddy-moderation/caddy-moderation/caddymod/metrics"
	"github.com/caddy-moderation/caddy-moderation/caddymod/problem"
	"github.com/caddy-moderation/caddy-moderation/quota"
	"github.com/caddy-moderation/caddy-moderation/review"
)

// reviewsPath is the path of the review queue, below the base path.
const reviewsPath = "/v1/reviews"

const (
	// maxDecision is the size, in bytes, of the largest body.
	maxDecision = 64 << 10
	// decisionTimeout is the time that a body may take to arrive.
	decisionTimeout = 30 * time.Second
	// maxEvents is the largest number of events in an answer, defaultEvents that without a limit.
	maxEvents, defaultEvents = 1000, 100
)

// reviews serves the review queue: the items of the caller's account, for a key with the scope "review".
//
//	GET    /v1/reviews                 a page of items
//	GET    /v1/reviews/stats           how many there are
//	GET    /v1/reviews/events          what was decided, as a page or as a stream
//	POST   /v1/reviews/next            the next item for a reviewer, whom nobody else is served it for a while
//	GET    /v1/reviews/{id}            one item
//	DELETE /v1/reviews/{id}            erases it
//	POST   /v1/reviews/{id}/decision   decides it
//	POST   /v1/reviews/{id}/release    gives it back undecided
//	POST   /v1/reviews/coop            takes a decision of Coop in, with the option coop
type reviews struct {
	app    *app.App
	access access.Middleware
	path   string // of the queue

	streaming access.Middleware
	streams   streams
	ended     chan struct{}
	endOnce   sync.Once
}

func (h *reviews) provision(owner *app.App, base string) {
	h.app, h.path = owner, base+reviewsPath
	h.access = access.Middleware{App: owner, Operation: metrics.Reviews, Free: true}
	h.streaming = access.Middleware{App: owner, Operation: metrics.Stream, Free: true}
	h.ended = make(chan struct{})
}

// serves reports whether a path is one of the queue.
func (h *reviews) serves(path string) bool {
	rest, ok := strings.CutPrefix(path, h.path)
	return ok && (rest == "" || rest[0] == '/') && h.app.KeepsReviews()
}

// ServeHTTP answers a request to the queue.
func (h *reviews) ServeHTTP(w http.ResponseWriter, r *http.Request, _ caddyhttp.Handler) error {
	if h.wantsStream(r) {
		return h.streaming.Serve(w, r, h.route)
	}
	return h.access.Serve(w, r, h.route)
}

// route finds what answers an authenticated call.
func (h *reviews) route(w http.ResponseWriter, r *http.Request, call *access.Call) error {
	if !slices.Contains(call.Who.Key.Scopes, quota.ReviewScope) {
		return call.Refuse(w, r, problem.New(problem.MissingScope,
			`This needs a key with the scope "review". Ask the operator for one.`))
	}
	rest := strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, h.path), "/")
	id, action, _ := strings.Cut(rest, "/")
	methods := map[string]access.Handler{}
	switch {
	case rest == "":
		methods[http.MethodGet] = h.list
	case rest == "stats":
		methods[http.MethodGet] = h.stats
	case rest == "events":
		methods[http.MethodGet] = h.events
		if h.wantsStream(r) {
			methods[http.MethodGet] = h.stream
		}
	case rest == "coop" && call.Services.Reviews.Coop != nil:
		methods[http.MethodPost] = h.coop
	case rest == "next":
		methods[http.MethodPost] = h.next
	case action == "" && rest == id:
		methods[http.MethodGet], methods[http.MethodDelete] = h.item(id), h.erase(id)
	case action == "decision":
		methods[http.MethodPost] = h.decide(id)
	case action == "release":
		methods[http.MethodPost] = h.release(id)
	default:
		return call.Problem(w, r, problem.New(problem.NotFound, ""))
	}
	method := r.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	handle, ok := methods[method]
	if !ok {
		var allowed []string
		for method := range methods {
			allowed = append(allowed, method)
		}
		slices.Sort(allowed)
		w.Header().Set("Allow", strings.Join(allowed, ", "))
		return call.Problem(w, r, problem.New(problem.MethodNotAllowed, "Use "+strings.Join(allowed, " or ")+"."))
	}
	return handle(w, r, call)
}

// page is an answer with items.
type page struct {
	Items []review.Item `json:"items"`
	// Next is the cursor of the next page, absent after the last.
	Next string `json:"next,omitempty"`
}

func (h *reviews) list(w http.ResponseWriter, r *http.Request, call *access.Call) error {
	query := r.URL.Query()
	if request := query.Get("request_id"); request != "" {
		items, err := call.Services.Reviews.Queue.OfRequest(r.Context(), request, call.Who.Account.ID)
		if err != nil {
			return h.failed(w, r, call, err)
		}
		return h.send(w, r, call, page{Items: items})
	}
	limit, invalid := limitOf(query.Get("limit"), 20, 100)
	if invalid != nil {
		return call.Problem(w, r, invalid)
	}
	items, next, err := call.Services.Reviews.Queue.List(r.Context(), review.Query{
		Status: review.Status(query.Get("status")), Account: call.Who.Account.ID, Order: review.Order(query.Get("order")),
		After: query.Get("cursor"), Limit: limit,
	})
	if err != nil {
		return h.failed(w, r, call, err)
	}
	return h.send(w, r, call, page{Items: items, Next: next})
}

// limitOf parses the parameter limit.
func limitOf(text string, byDefault, most int) (int, *problem.Problem) {
	if text == "" {
		return byDefault, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > most {
		return 0, problem.New(problem.InvalidRequest, "The parameter limit is a number from 1 to "+strconv.Itoa(most)+".")
	}
	return n, nil
}

func (h *reviews) stats(w http.ResponseWriter, r *http.Request, call *access.Call) error {
	stats, err := call.Services.Reviews.Stats(r.Context(), call.Who.Account.ID)
	if err != nil {
		return h.failed(w, r, call, err)
	}
	return h.send(w, r, call, stats)
}

// eventsPage is an answer with events.
type eventsPage struct {
	Events []review.Event `json:"events"`
}

func (h *reviews) events(w http.ResponseWriter, r *http.Request, call *access.Call) error {
	query := r.URL.Query()
	limit, invalid := limitOf(query.Get("limit"), defaultEvents, maxEvents)
	if invalid != nil {
		return call.Problem(w, r, invalid)
	}
	events, _, err := call.Services.Reviews.Queue.Events(r.Context(), query.Get("after"), call.Who.Account.ID, limit)
	if err != nil {
		return h.failed(w, r, call, err)
	}
	if events == nil {
		events = []review.Event{}
	}
	return h.send(w, r, call, eventsPage{events})
}

// reviewing is the body of a request of a reviewer.
type reviewing struct {
	// Reviewer says who it is. Default: the id of the key.
	Reviewer string `json:"reviewer"`
	// Order is for the next item.
	Order review.Order `json:"order"`
	// Action, Reason, Note and Categories are for a decision.
	Action     review.Action   `json:"action"`
	Reason     string          `json:"reason"`
	Note       string          `json:"note"`
	Categories map[string]bool `json:"categories"`
}

// read reads the body of a request. An absent body is an empty object.
func (h *reviews) read(w http.ResponseWriter, r *http.Request, call *access.Call) (*reviewing, *problem.Problem) {
	wanted := new(reviewing)
	if r.ContentLength != 0 {
		if err := body.CheckJSON(r); err != nil {
			return nil, body.Problem(w.Header(), err)
		}
		received, err := body.Read(w, r, maxDecision, decisionTimeout)
		if err != nil {
			return nil, body.Problem(w.Header(), err)
		}
		defer received.Release()
		if invalid := decodeReviewing(received.Bytes(), wanted); invalid != nil {
			return nil, invalid
		}
	}
	if wanted.Reviewer == "" {
		wanted.Reviewer = call.Who.Key.ID
	}
	return wanted, nil
}

// decodeReviewing decodes a body as strictly as those of texts are, and names a member that is misspelled: a decision
// must not lose its reason.
func decodeReviewing(data []byte, into *reviewing) *problem.Problem {
	decoder := jsontext.NewDecoder(bytes.NewReader(data))
	err := json.UnmarshalDecode(decoder, into, json.RejectUnknownMembers(true))
	if err == nil {
		err = body.EndJSON(decoder)
	}
	if err == nil {
		return nil
	}
	var semantic *json.SemanticError
	if errors.As(err, &semantic) && semantic.JSONPointer != "" {
		detail := "This member has another type than it should."
		if errors.Is(err, json.ErrUnknownName) {
			detail = "There is no such member."
		}
		p := problem.New(problem.InvalidRequest, detail)
		p.Errors = []problem.FieldError{{Pointer: string(semantic.JSONPointer), Detail: detail}}
		return p
	}
	return malformed(data, err)
}

func (h *reviews) next(w http.ResponseWriter, r *http.Request, call *access.Call) error {
	wanted, invalid := h.read(w, r, call)
	if invalid != nil {
		return call.Problem(w, r, invalid)
	}
	item, err := call.Services.Reviews.Queue.Next(r.Context(), wanted.Reviewer, wanted.Order, call.Who.Account.ID)
	if errors.Is(err, review.ErrEmpty) {
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	if err != nil {
		return h.failed(w, r, call, err)
	}
	return h.send(w, r, call, item)
}

// own returns an item of the caller's account. Others do not exist for the caller.
func (h *reviews) own(r *http.Request, call *access.Call, id string) (review.Item, error) {
	item, err := call.Services.Reviews.Queue.Item(r.Context(), id)
	if err == nil && item.Account != call.Who.Account.ID {
		return review.Item{}, review.ErrNotFound
	}
	return item, err
}

func (h *reviews) item(id string) access.Handler {
	return func(w http.ResponseWriter, r *http.Request, call *access.Call) error {
		item, err := h.own(r, call, id)
		if err != nil {
			return h.failed(w, r, call, err)
		}
		return h.send(w, r, call, item)
	}
}

func (h *reviews) erase(id string) access.Handler {
	return func(w http.ResponseWriter, r *http.Request, call *access.Call) error {
		_, err := h.own(r, call, id)
		if err == nil {
			_, err = call.Services.Reviews.Queue.Erase(r.Context(), review.Selection{ID: id})
		}
		if err != nil {
			return h.failed(w, r, call, err)
		}
		call.Services.Audit.Record(r.Context(), audit.Entry{
			Via: audit.API, Actor: call.Who.Key.ID, Action: "review.erase", Account: call.Who.Account.ID, Target: id,
		})
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
}

func (h *reviews) decide(id string) access.Handler {
	return func(w http.ResponseWriter, r *http.Request, call *access.Call) error {
		wanted, invalid := h.read(w, r, call)
		if invalid != nil {
			return call.Problem(w, r, invalid)
		}
		if _, err := h.own(r, call, id); err != nil {
			return h.failed(w, r, call, err)
		}
		item, err := call.Services.Reviews.Queue.Decide(r.Context(), id, review.Decision{
			Reviewer: wanted.Reviewer, Action: wanted.Action, Reason: wanted.Reason, Note: wanted.Note,
			Categories: wanted.Categories,
		})
		if err != nil {
			return h.failed(w, r, call, err)
		}
		return h.send(w, r, call, item)
	}
}

func (h *reviews) release(id string) access.Handler {
	return func(w http.ResponseWriter, r *http.Request, call *access.Call) error {
		wanted, invalid := h.read(w, r, call)
		if invalid != nil {
			return call.Problem(w, r, invalid)
		}
		_, err := h.own(r, call, id)
		if err == nil {
			err = call.Services.Reviews.Queue.Release(r.Context(), wanted.Reviewer, id)
		}
		if err != nil {
			return h.failed(w, r, call, err)
		}
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
}

// failed answers a call that the queue has refused.
func (h *reviews) failed(w http.ResponseWriter, r *http.Request, call *access.Call, err error) error {
	switch {
	case errors.Is(err, review.ErrNotFound):
		return call.Problem(w, r, problem.New(problem.NotFound, "There is no such item. It may have been erased."))
	case errors.Is(err, review.ErrTaken):
		return call.Problem(w, r, problem.New(problem.ReviewTaken,
			"Another reviewer has this item now, or has decided it."))
	case errors.Is(err, review.ErrInvalid):
		_, detail, _ := strings.Cut(err.Error(), review.ErrInvalid.Error()+": ")
		return call.Problem(w, r, problem.New(problem.InvalidRequest, strings.ToUpper(detail[:1])+detail[1:]+"."))
	case errors.Is(err, review.ErrKey):
		h.app.Logger().Error("reading the review queue", zap.String("moderation_id", call.ID), zap.Error(err))
		return call.Problem(w, r, problem.New(problem.InternalError,
			"The item is encrypted with another key than the one that the server has."))
	}
	return call.Unavailable(w, r, "using the review queue", err)
}

// send answers with a value.
func (h *reviews) send(w http.ResponseWriter, r *http.Request, call *access.Call, value any) error {
	var b bytes.Buffer
	e := stdjson.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(value); err != nil {
		h.app.Logger().Error("writing review items", zap.String("moderation_id", call.ID), zap.Error(err))
		return call.Problem(w, r, problem.New(problem.InternalError, "The answer could not be written."))
	}
	response.SendJSON(w, r, http.StatusOK, b.Bytes())
	return nil
}
