// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"fmt"
	"strings"
	"testing"
)

// TestParseAddress: what people paste is understood, what is not is refused, and no error repeats a password.
func TestParseAddress(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		text string
		want Address
		dial string // with the port
	}{
		{"localhost", Address{Dial: "localhost:"}, "localhost:6379"},
		{"10.0.0.5:6380", Address{Dial: "10.0.0.5:6380"}, "10.0.0.5:6380"},
		{"[::1]:6380", Address{Dial: "[::1]:6380"}, "[::1]:6380"},
		{"::1", Address{Dial: "[::1]:"}, "[::1]:6379"},
		{"[::1]", Address{Dial: "[::1]:"}, "[::1]:6379"},
		{"/run/redis.sock", Address{Dial: "/run/redis.sock"}, "/run/redis.sock"},
		{"unix//run/redis.sock", Address{Dial: "/run/redis.sock"}, "/run/redis.sock"},
		{"unix:///run/redis.sock", Address{Dial: "/run/redis.sock"}, "/run/redis.sock"},
		{"redis://localhost", Address{Dial: "localhost:"}, "localhost:6379"},
		{"redis://user:s3cr3t@db.example:6380/3", Address{
			Dial: "db.example:6380", Username: "user", Password: "s3cr3t", Database: 3,
		}, "db.example:6380"},
		{"rediss://:s3%2Fcr%403t@[2001:db8::1]/", Address{
			Dial: "[2001:db8::1]:", TLS: true, Password: "s3/cr@3t",
		}, "[2001:db8::1]:6379"},
		{"valkey://db:1", Address{Dial: "db:1"}, "db:1"},
		{"valkeys://db:1/0", Address{Dial: "db:1", TLS: true}, "db:1"},
	} {
		if !strings.Contains(test.text, "/3") && !strings.HasSuffix(test.text, "/0") {
			test.want.Database = -1
		}
		got, err := ParseAddress(test.text)
		if err != nil || got != test.want || got.WithPort(Standalone) != test.dial {
			t.Errorf("%s: got %+v, %s (%v), want %+v, %s", test.text, got, got.WithPort(Standalone), err, test.want, test.dial)
		}
	}
	if got := (Address{Dial: "s1:"}).WithPort(Sentinel); got != "s1:26379" {
		t.Errorf("a sentinel without a port: got %s, want s1:26379", got)
	}
	for text, want := range map[string]string{
		"":                            "no host",
		":6379":                       "no host",
		"a:b:c":                       "host:port",
		"host:0":                      "port",
		"host:70000":                  "port",
		"host:s3cr3t":                 "port",
		"user:s3cr3t@host:6379":       "host:port",
		"host/3":                      "host:port",
		"http://host":                 "scheme",
		"redis://":                    "no host",
		"redis://u:s3cr3t@":           "no host",
		"redis://u:s3/cr3t@host":      "no URL",
		"redis://u:s3#cr3t@host":      "no URL",
		"redis://u:s3%cr3t@host":      "no URL",
		"redis://u:s3cr3t@host/x":     "number of a database",
		"redis://u:s3cr3t@host/-1":    "number of a database",
		"redis://u:s3cr3t@host/0?a=b": "parameters",
		"unix://run/s3cr3t":           "unix:///path",
		"unix:///run/redis.sock?db=1": "unix:///path",
	} {
		_, err := ParseAddress(text)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "cr3t") {
			t.Errorf("%s: got the error %v, want one with %q", text, err, want)
		}
	}
}

// TestOptionsPrintNoSecret guards against a password in a log, in whichever way the options come there.
func TestOptionsPrintNoSecret(t *testing.T) {
	t.Parallel()
	options := Options{
		Addresses: []string{"db:6379"}, Username: "who", Password: "s3cr3t", SentinelUsername: "who",
		SentinelPassword: "s3cr3t", Prefix: "mod", Topology: Standalone,
	}
	for _, format := range []string{"%v", "%+v", "%#v", "%s"} {
		if got := fmt.Sprintf(format, options); strings.Contains(got, "s3cr3t") || strings.Contains(got, "who") ||
			!strings.Contains(got, "db:6379") {
			t.Errorf("%s: got %s, want the address and no secret", format, got)
		}
	}
}
