// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"fmt"
	"strings"
)

// WithDefaults returns the options with the defaults of those that are not given, or says which of them is wrong.
// [Open] does the same.
func (o Options) WithDefaults() (Options, error) {
	err := o.complete()
	return o, err
}

// String describes the options for logs and errors, without user names and passwords.
func (o Options) String() string {
	text := fmt.Sprintf("%s %s, database %d, prefix %s", o.Topology, strings.Join(o.Addresses, " "), o.Database, o.Prefix)
	if o.TLS != nil {
		text += ", with TLS"
	}
	return text
}

// GoString is [Options.String]: no way to print the options shows a password.
func (o Options) GoString() string { return "redis.Options{" + o.String() + "}" }
