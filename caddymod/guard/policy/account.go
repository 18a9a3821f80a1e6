// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"go.uber.org/zap"

	"github.com/caddy-moderation/caddy-moderation/caddymod/app"
	"github.com/caddy-moderation/caddy-moderation/caddymod/internal/tracing"
	"github.com/caddy-moderation/caddy-moderation/caddymod/problem"
	"github.com/caddy-moderation/caddy-moderation/quota"
	"github.com/caddy-moderation/caddy-moderation/storage"
)

// Charge is the charge of one message to an account. It is made durable while the message goes on, and must be durable
// before a byte of the answer goes out, so that nothing is answered that could be forgotten. All methods accept nil,
// which stands for no charge.
type Charge struct {
	services   *app.Services
	decision   quota.Decision
	account    string
	settlement quota.Settlement
	harmShare  *float64  // of the account
	once       sync.Once // Wait is called by the writer of the answer, and by the reader of the body
	err        error
}

// Charged has the accounts that a message is charged to already, so that each counts it once however many handlers and
// matchers moderate it. The zero value is empty. It is used by one goroutine at a time.
type Charged struct{ accounts []chargedAccount }

type chargedAccount struct {
	name      string   // of the direction and the account
	harmShare *float64 // of the account
}

// errQuota says that the limits of the account are used up.
var errQuota = errors.New("the limits of the account are used up")

// ErrUncounted says that a message must not go on because it could not be counted.
var ErrUncounted = errors.New("the message could not be counted")

// HasAccount reports whether messages are charged to an account.
func (m *Moderator) HasAccount() bool { return m.account != "" }

// FailClosed reports whether a message that cannot be counted must not go on.
func (m *Moderator) FailClosed() bool { return m.failClosed }

// Charge charges a message to the account. The charge is nil if the message is charged to it already or there is no
// account. After an error the message must not be moderated.
func (m *Moderator) Charge(ctx context.Context, charged *Charged) (*Charge, error) {
	account := string(m.direction) + " " + m.account
	if m.account == "" {
		return nil, nil
	}
	if i := slices.IndexFunc(charged.accounts, func(c chargedAccount) bool { return c.name == account }); i >= 0 {
		m.learnHarmShare(charged.accounts[i].harmShare)
		return nil, nil
	}
	_, span := tracing.Start(ctx, tracing.Charge)
	c, err := m.admit(ctx)
	if err != nil {
		span.Refuse(chargeReason(err), !errors.Is(err, errQuota))
	}
	span.End()
	unavailable := errors.Is(err, storage.ErrUnavailable) || errors.Is(err, app.ErrStarting)
	switch {
	case err == nil:
		charged.accounts = append(charged.accounts, chargedAccount{account, c.harmShare})
		return c, nil
	case errors.Is(err, errQuota):
		return nil, err
	case unavailable && m.failClosed, m.enforceQuota && !unavailable:
		return nil, fmt.Errorf("%w: %w", ErrUncounted, err)
	}
	// The message is still moderated: a failing store is no reason to let a threat through.
	m.ReportUncounted(err)
	return nil, nil
}

// chargeReason returns the reason for an error of [Moderator.admit], for the trace.
func chargeReason(err error) string {
	if errors.Is(err, errQuota) {
		return ReasonQuota
	}
	return ReasonAccount
}

// admit charges one message to the account.
func (m *Moderator) admit(ctx context.Context) (c *Charge, err error) {
	services, err := m.app.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			services.Release()
		}
	}()
	who, err := services.Gate.Identify(ctx, m.account)
	if err != nil && (m.enforceQuota || who.Account.ID == "") {
		return nil, err
	}
	m.learnHarmShare(who.Account.Overrides.HarmShare)
	if !m.enforceQuota {
		who.Limits = quota.Limits{}
	}
	decision, err := services.Gate.Admit(ctx, who, 1)
	if err == nil && decision.Refused != quota.NoWindow {
		reason := problem.RateLimitExceeded
		if decision.Refused == quota.MonthWindow {
			reason = problem.MonthlyQuotaExhausted
		}
		services.Statistics.Refused(services.Now(), who.Account.ID, string(reason))
		err = errQuota
	}
	if err != nil {
		return nil, err
	}
	m.app.Metrics().AdmittedInOutage(decision.Counts.Basis, 1)
	return &Charge{
		services: services, decision: decision, account: who.Account.ID, harmShare: who.Account.Overrides.HarmShare,
	}, nil
}

// ReportUncounted logs and counts a message that could not be counted.
func (m *Moderator) ReportUncounted(err error) {
	m.app.Metrics().GuardError(m.direction, ReasonAccount)
	m.logger.Error("a message that was judged could not be counted", zap.String("account", m.account), zap.Error(err))
}

// Settle begins to make the charge durable, with the names of the flagged categories.
func (c *Charge) Settle(flagged []string) {
	if c == nil {
		return
	}
	c.settlement = c.services.Gate.Record(c.decision, quota.Outcome{Flagged: flagged})
}

// Judged counts a message in the statistics of the account, with its verdict.
func (c *Charge) Judged(v *Verdict) {
	if c == nil {
		return
	}
	c.services.Statistics.Answered(c.services.Now(), c.account)
	if v.Recommendation == "" { // a part of it could not be judged
		return
	}
	c.services.CountText(c.account, v.Recommendation, v.Flags(), &v.Categories)
}

// Wait returns when the charge is durable, or when the store has failed and taken it back. It may be called several
// times, after [Charge.Settle].
func (c *Charge) Wait() error { return c.WaitIn(context.Background()) }

// WaitIn is [Charge.Wait] as a step in the trace of the request whose context is given. It waits even if the context
// has ended.
func (c *Charge) WaitIn(ctx context.Context) error {
	if c == nil {
		return nil
	}
	c.once.Do(func() {
		_, span := tracing.Start(ctx, tracing.Settle)
		defer span.End()
		defer c.services.Release()
		c.err = c.settlement.Wait(context.Background()) // a client that leaves does not undo what was done for it
		if c.err != nil {
			span.Refuse(ReasonAccount, true)
		}
	})
	return c.err
}

// Flag counts categories that are flagged after the charge was settled. The caller must hold the services of the app
// until then, see [app.App.TryAcquire].
func (c *Charge) Flag(flagged []string) error {
	if c == nil || len(flagged) == 0 || c.Wait() != nil {
		return nil
	}
	return c.services.Gate.Flag(context.Background(), c.decision, flagged)
}

// refund takes the charge back, because the message was not moderated. It does not wait for the store.
func (c *Charge) refund() {
	if c == nil {
		return
	}
	defer c.services.Release()
	c.services.Gate.Record(c.decision, quota.Outcome{Refund: true})
}

// warnOfAccount warns of an account that does not exist. Accounts of the configuration are known when it starts, others
// may be created later, so that it is no error.
func (m *Moderator) warnOfAccount() {
	services, err := m.app.Services(context.Background())
	if err != nil {
		return // the app reports it itself
	}
	if _, err = services.Gate.Identify(context.Background(), m.account); err == nil {
		return
	}
	consequence := "what is judged for it is not counted"
	if m.enforceQuota {
		consequence = "with enforce_quota nothing is judged, and on_error says what follows"
	}
	m.logger.Warn("the account of a guard cannot be used: "+consequence+
		"; declare it in the global option moderation, or make it with: caddy moderation account create",
		zap.String("account", m.account), zap.Error(err))
}
