// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// Package harness runs the checks of the Go programs that call the service. Variables that "go run ./scripts/clients"
// sets tell them where it is. They print a line for each check.
package harness

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"
)

// Service is the service's address, without a slash at the end.
var Service = environment("SERVICE")

// Keys of accounts.
var (
	KeyOpen    = environment("KEY_OPEN")    // without limits
	KeySpent   = environment("KEY_SPENT")   // its month is used up
	KeySmall   = environment("KEY_SMALL")   // a request a minute
	KeyUnknown = environment("KEY_UNKNOWN") // of no account
)

// Texts whose verdict is beyond doubt.
var (
	Fine = environment("FINE")
	Vile = environment("VILE")
)

var control = environment("CONTROL")

func environment(name string) string {
	value, ok := os.LookupEnv(name)
	if !ok {
		fmt.Fprintf(os.Stderr, "%s is not set; run this by \"go run ./scripts/clients\"\n", name)
		os.Exit(2)
	}
	return value
}

// Check announces a check to the relay, runs it, and prints the result. The check may take two minutes.
func Check(what string, run func(context.Context) error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	if response, err := http.Get(control + "/-/check?what=" + url.QueryEscape(what)); err == nil {
		response.Body.Close()
	}
	if err := run(ctx); err != nil {
		fmt.Printf("FAIL: %s: %s\n", what, strings.Join(strings.Fields(err.Error()), " "))
		return
	}
	fmt.Printf("ok: %s\n", what)
}

// SameMinute waits until two requests can be made within a minute of the clock.
func SameMinute() {
	now := time.Now()
	if left := now.Truncate(time.Minute).Add(time.Minute).Sub(now); left < 5*time.Second {
		time.Sleep(left + 100*time.Millisecond)
	}
}
