// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package quota_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/caddy-moderation/caddy-moderation/quota"
	"github.com/caddy-moderation/caddy-moderation/storage/storagetest"
)

// A call passes the gate in three steps: its key is authenticated, it is admitted, and it is settled.
func Example() {
	ctx := context.Background()
	// A service uses storage/badger and leaves Now out.
	gate, err := quota.New(quota.Options{
		Store: storagetest.NewMemory(),
		Tiers: map[string]quota.Limits{"free": {RequestsPerMonth: 1000, RequestsPerMinute: 2}},
		Now:   func() time.Time { return time.Date(2026, 3, 15, 12, 0, 30, 0, time.UTC) },
	})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := gate.CreateAccount(ctx, quota.Account{ID: "acme"}); err != nil {
		log.Fatal(err)
	}
	secret, _, err := gate.CreateKey(ctx, quota.KeySpec{Account: "acme", Name: "website"})
	if err != nil {
		log.Fatal(err)
	}

	for call := 1; call <= 3; call++ {
		who, err := gate.Authenticate(ctx, secret)
		if err != nil {
			log.Fatal(err)
		}
		decision, err := gate.Admit(ctx, who, 1)
		if err != nil {
			log.Fatal(err)
		}
		if decision.Refused != quota.NoWindow {
			fmt.Printf("call %d: refused by the %s until %s\n",
				call, decision.Refused, decision.MinuteReset.Format(time.TimeOnly))
			continue
		}
		// Here the call does its work. Before it is answered, it is settled.
		outcome := quota.Outcome{Flagged: []string{"harassment"}}
		if err := gate.Settle(ctx, decision, outcome); err != nil {
			log.Fatal(err)
		}
		fmt.Printf("call %d: admitted, %d of %d in this minute\n",
			call, decision.Counts.Minute, decision.Limits.RequestsPerMinute)
	}

	usage, err := gate.Usage(ctx, "acme")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%d requests in March, %d flagged for harassment\n", usage.Counts.Period, usage.Flagged["harassment"])
	// Output:
	// call 1: admitted, 1 of 2 in this minute
	// call 2: admitted, 2 of 2 in this minute
	// call 3: refused by the minute until 12:01:00
	// 2 requests in March, 2 flagged for harassment
}

// Accounts and keys can be declared in the configuration. The store never sees the key.
func ExampleNew_declared() {
	ctx := context.Background()
	gate, err := quota.New(quota.Options{
		Store:    storagetest.NewMemory(),
		Accounts: []quota.Account{{ID: "blog", Tier: "starter"}},
		Keys:     []quota.Key{{ID: "blog-key", Account: "blog", Hash: quota.HashKey("the-key-of-the-blog")}},
	})
	if err != nil {
		log.Fatal(err)
	}
	who, err := gate.Authenticate(ctx, "the-key-of-the-blog")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(who.Account.ID, who.Limits.RequestsPerMonth)

	_, err = gate.Authenticate(ctx, "a-key-that-nobody-has")
	fmt.Println(err, errors.Is(err, quota.ErrUnauthorized))

	_, err = gate.UpdateAccount(ctx, "blog", quota.AccountChange{Tier: new(string)})
	fmt.Println(err)
	// Output:
	// blog 25000
	// unauthorized true
	// account blog: declared in the configuration
}

// A call that ends in an error is refunded: only the minute keeps its count.
func ExampleGate_Settle_refund() {
	ctx := context.Background()
	gate, err := quota.New(quota.Options{Store: storagetest.NewMemory()})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := gate.CreateAccount(ctx, quota.Account{ID: "acme"}); err != nil {
		log.Fatal(err)
	}
	who, err := gate.Identify(ctx, "acme")
	if err != nil {
		log.Fatal(err)
	}
	decision, err := gate.Admit(ctx, who, 5)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("admitted:", decision.Counts.Period)
	if err := gate.Settle(ctx, decision, quota.Outcome{Refund: true}); err != nil {
		log.Fatal(err)
	}
	usage, err := gate.Usage(ctx, "acme")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("settled:", usage.Counts.Period)
	// Output:
	// admitted: 5
	// settled: 0
}

// With anchor day 31 a billing period starts on the last day of shorter months.
func ExamplePeriodOf() {
	p := quota.PeriodOf(31, time.Date(2026, 3, 15, 12, 0, 0, 0, time.UTC))
	fmt.Println(p.Start.Format(time.DateOnly), p.End.Format(time.DateOnly))
	// Output: 2026-02-28 2026-03-31
}
