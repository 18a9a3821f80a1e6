// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// The requests of two comment systems. They are whole applications, so their requests are reproduced: the same bodies
// in the same order, with the same header fields and timeouts.

// commentSystem calls the service as a comment system does.
type commentSystem struct {
	*session
	http   *http.Client
	header http.Header
}

// newCommentSystem returns a comment system that waits for each answer at most as long as the timeout.
func newCommentSystem(s *session, timeout time.Duration, header http.Header) *commentSystem {
	header.Set("Content-Type", "application/json")
	return &commentSystem{s, &http.Client{Timeout: timeout, Transport: new(http.Transport)}, header}
}

// post posts a body as JSON.
func (c *commentSystem) post(ctx context.Context, path, key string, body any) (a answer, err error) {
	data, err := json.Marshal(body)
	if err != nil {
		return a, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.URL+path+"?key="+url.QueryEscape(key),
		bytes.NewReader(data))
	if err != nil {
		return a, err
	}
	request.Header = c.header
	response, err := c.http.Do(request)
	if err != nil {
		return a, err
	}
	return answerOf(response)
}

// check runs one check and announces it to the relay.
func (c *commentSystem) check(r *report, what string, do func() error) {
	c.begin(what)
	r.check(what, do)
}

// summary returns the summary score of an attribute.
func (a answer) summary(attribute string) (float64, error) {
	if err := a.status(http.StatusOK); err != nil {
		return 0, err
	}
	var scores struct {
		AttributeScores map[string]struct {
			SummaryScore *struct{ Value *float64 }
		}
	}
	if err := json.Unmarshal(a.Body, &scores); err != nil {
		return 0, err
	}
	score := scores.AttributeScores[attribute].SummaryScore
	if score == nil || score.Value == nil {
		return 0, fmt.Errorf("no score: %.300s", a.Body)
	}
	return *score.Value, nil
}

// wantScore returns an error unless the score is above the threshold, or not above it.
func (a answer) wantScore(attribute string, threshold float64, above bool) error {
	score, err := a.summary(attribute)
	if err == nil && score > threshold != above {
		err = fmt.Errorf("the score is %g; above %g: want %t", score, threshold, above)
	}
	return err
}

// wantError returns an error unless the answer is an error in Google's envelope without scores.
func (a answer) wantError(status int, name string) error {
	var envelope struct {
		Error struct {
			Code   int
			Status string
		}
		AttributeScores any
	}
	if err := errors.Join(a.status(status), json.Unmarshal(a.Body, &envelope)); err != nil {
		return err
	}
	if envelope.Error.Code != status || envelope.Error.Status != name || envelope.AttributeScores != nil {
		return fmt.Errorf("the answer is %.300s, want %s", a.Body, name)
	}
	return nil
}

type (
	commentText struct {
		Text string `json:"text"`
	}
	noParameters struct{}

	coralAnalysis struct {
		Comment             commentText             `json:"comment"`
		DoNotStore          bool                    `json:"doNotStore"`
		RequestedAttributes map[string]noParameters `json:"requestedAttributes"`
		Languages           []string                `json:"languages"`
	}
	coralSuggestion struct {
		Comment commentText `json:"comment"`
		Context struct {
			Entries []commentText `json:"entries"`
		} `json:"context"`
		AttributeScores map[string]coralScores `json:"attributeScores"`
		Languages       []string               `json:"languages"`
		CommunityID     string                 `json:"communityId"`
		ClientToken     string                 `json:"clientToken"`
	}
	coralScores struct {
		SummaryScore struct {
			Value float64 `json:"value"`
		} `json:"summaryScore"`
	}
)

// coral calls the service as Coral (github.com/coralproject/talk) does with a "custom endpoint". Coral waits 800 ms
// for a score and then lets the comment through without one.
func coral(ctx context.Context, r *report, s *session) error {
	const threshold = 0.8
	c := newCommentSystem(s, 800*time.Millisecond,
		http.Header{"Accept": {"application/json, text/plain, */*"}, "User-Agent": {"Coral"}})
	analyze := func(endpoint, key, model, text string) (answer, error) {
		return c.post(ctx, endpoint+"/comments:analyze", key, coralAnalysis{
			Comment: commentText{text}, DoNotStore: true,
			RequestedAttributes: map[string]noParameters{model: {}}, Languages: []string{"en"},
		})
	}
	for _, endpoint := range []string{"/v1alpha1", "/api/perspective/v1alpha1"} {
		for _, model := range []string{"TOXICITY", "SEVERE_TOXICITY"} {
			c.check(r, fmt.Sprintf("a vile comment is withheld for %s at %s", model, endpoint), func() error {
				a, err := analyze(endpoint, s.key(open), model, vile)
				return errors.Join(err, a.wantScore(model, threshold, true))
			})
		}
	}
	c.check(r, "a fine comment is not withheld", func() error {
		a, err := analyze("/v1alpha1", s.key(open), "TOXICITY", fine)
		return errors.Join(err, a.wantScore("TOXICITY", threshold, false))
	})
	for _, moderated := range []struct {
		what  string
		value float64
	}{{"approves", 0}, {"rejects", 1}} {
		c.check(r, "what a moderator "+moderated.what+" is told", func() error {
			suggestion := coralSuggestion{
				Comment: commentText{vile}, AttributeScores: map[string]coralScores{}, Languages: []string{"en"},
				CommunityID: "Coral:https://coral.example", ClientToken: "comment:1d2c",
			}
			suggestion.Context.Entries = []commentText{{`{"url":"https://news.example/story?commentID=1d2c","Coral_comment_id":"1d2c"}`}}
			scores := coralScores{}
			scores.SummaryScore.Value = moderated.value
			suggestion.AttributeScores["TOXICITY"] = scores
			a, err := c.post(ctx, "/v1alpha1/comments:suggestscore", s.key(open), suggestion)
			var told struct{ ClientToken string }
			if err := errors.Join(err, a.status(http.StatusOK), json.Unmarshal(a.Body, &told)); err != nil {
				return err
			}
			if told.ClientToken != suggestion.ClientToken {
				return fmt.Errorf("the answer is %s", a.Body)
			}
			return nil
		})
	}
	c.check(r, "an attribute that nobody scores is an error", func() error {
		a, err := analyze("/v1alpha1", s.key(open), "CHARM", fine)
		return errors.Join(err, a.wantError(http.StatusBadRequest, "INVALID_ARGUMENT"))
	})
	c.check(r, "an unknown key is an error", func() error {
		a, err := analyze("/v1alpha1", s.unknown, "TOXICITY", fine)
		return errors.Join(err, a.wantError(http.StatusUnauthorized, "UNAUTHENTICATED"))
	})
	c.check(r, "the minute's limit is an error", func() error {
		sameMinute()
		a, err := analyze("/v1alpha1", s.key(s.name), "TOXICITY", fine)
		if err := errors.Join(err, a.status(http.StatusOK)); err != nil {
			return err
		}
		a, err = analyze("/v1alpha1", s.key(s.name), "TOXICITY", fine)
		return errors.Join(err, a.wantError(http.StatusTooManyRequests, "RESOURCE_EXHAUSTED"))
	})
	c.check(r, "a moderator is heard when the minute's limit is reached", func() error {
		a, err := c.post(ctx, "/v1alpha1/comments:suggestscore", s.key(s.name), map[string]any{
			"comment": commentText{fine}, "attributeScores": map[string]coralScores{"TOXICITY": {}},
		})
		return errors.Join(err, a.status(http.StatusOK))
	})
	return nil
}

type (
	discourseAnalysis struct {
		Comment             commentText                    `json:"comment"`
		DoNotStore          bool                           `json:"doNotStore"`
		SessionID           string                         `json:"sessionId"`
		RequestedAttributes map[string]discourseParameters `json:"requestedAttributes"`
	}
	discourseParameters struct {
		ScoreType string `json:"scoreType"`
	}
)

// discourse calls the service as Discourse does with its plugin discourse-perspective-api, behind a host name that
// leads here. Discourse waits for 3 s, and takes an answer that it cannot read for a score of 0.
func discourse(ctx context.Context, r *report, s *session) error {
	const flag = 0.9
	c := newCommentSystem(s, 3*time.Second, http.Header{"Accept": {"*/*"}, "User-Agent": {"Discourse/2026.1.0"}})
	analyze := func(key, model, text string) (answer, error) {
		return c.post(ctx, "/v1alpha1/comments:analyze", key, discourseAnalysis{
			Comment: commentText{text}, DoNotStore: true, SessionID: "https://forum.example_7",
			RequestedAttributes: map[string]discourseParameters{model: {"PROBABILITY"}},
		})
	}
	for _, model := range []string{"TOXICITY", "SEVERE_TOXICITY"} {
		c.check(r, "a vile post is flagged for "+model, func() error {
			a, err := analyze(s.key(open), model, vile)
			return errors.Join(err, a.wantScore(model, flag, true))
		})
		c.check(r, "a fine post is not flagged for "+model, func() error {
			a, err := analyze(s.key(open), model, fine)
			return errors.Join(err, a.wantScore(model, flag, false))
		})
	}
	c.check(r, "a post in a language that the model does not know is scored", func() error {
		a, err := analyze(s.key(open), "TOXICITY", "Danke für das Rezept, der Kuchen war wunderbar.")
		_, unscored := a.summary("TOXICITY")
		return errors.Join(err, unscored)
	})
	c.check(r, "the longest post that is sent is scored", func() error {
		a, err := analyze(s.key(open), "TOXICITY", strings.Repeat("so gut ", 20<<10/7)+"!!!!!")
		_, unscored := a.summary("TOXICITY")
		return errors.Join(err, unscored)
	})
	c.check(r, "an empty post is an error", func() error {
		a, err := analyze(s.key(open), "TOXICITY", "")
		return errors.Join(err, a.wantError(http.StatusBadRequest, "INVALID_ARGUMENT"))
	})
	c.check(r, "a post that is too long is an error", func() error {
		a, err := analyze(s.key(open), "TOXICITY", strings.Repeat("ä", 20<<10))
		return errors.Join(err, a.wantError(http.StatusBadRequest, "INVALID_ARGUMENT"))
	})
	c.check(r, "an unknown key is an error", func() error {
		a, err := analyze(s.unknown, "TOXICITY", fine)
		return errors.Join(err, a.wantError(http.StatusUnauthorized, "UNAUTHENTICATED"))
	})
	c.check(r, "the minute's limit is an error", func() error {
		sameMinute()
		a, err := analyze(s.key(s.name), "TOXICITY", fine)
		if err := errors.Join(err, a.status(http.StatusOK)); err != nil {
			return err
		}
		a, err = analyze(s.key(s.name), "TOXICITY", fine)
		return errors.Join(err, a.wantError(http.StatusTooManyRequests, "RESOURCE_EXHAUSTED"))
	})
	c.check(r, "a month that is used up is an error", func() error {
		a, err := analyze(s.key(spent), "TOXICITY", fine)
		return errors.Join(err, a.wantError(http.StatusTooManyRequests, "RESOURCE_EXHAUSTED"))
	})
	return nil
}
