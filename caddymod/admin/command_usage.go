// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/caddy-moderation/caddy-moderation/quota"
)

func (c *cli) usage() *cobra.Command {
	account, key := "", ""
	command := &cobra.Command{
		Use: "usage --account <id> | --key <key id>", Short: "Shows what an account and its keys have used",
		Args: none,
		Long: `Shows what an account has used: requests in the period and in the minute, limits,
flagged content, the requests of each key in the period, and those of each day.
With --key it shows one key. A key that the configuration no longer declares is
found with --account and --key together.`,
		RunE: func(command *cobra.Command, _ []string) error {
			if account == "" && key == "" {
				return errors.New("--account or --key is required")
			}
			if key != "" {
				if err := checkKeyID(key); err != nil {
					return err
				}
			}
			if account == "" {
				var holder quota.Key
				if err := c.call(command, http.MethodGet, resource("keys", key), nil, &holder); err != nil {
					return err
				}
				account = holder.Account
			}
			var usage usageReport
			if err := c.call(command, http.MethodGet, resource("usage", account), nil, &usage); err != nil {
				return err
			}
			if key == "" {
				return c.print(command, usage, usage.writeText)
			}
			one, err := usage.ofKey(key)
			if err != nil {
				return err
			}
			return c.print(command, one, one.writeText)
		},
	}
	command.Flags().StringVar(&account, "account", "", "Account to show")
	command.Flags().StringVar(&key, "key", "", "Id of the only key to show")
	return command
}

// usageOfKey is what one key has used.
type usageOfKey struct {
	Account string    `json:"account"`
	Start   time.Time `json:"start"`
	End     time.Time `json:"end"`
	Key     keyUsage  `json:"key"`
}

// ofKey returns what one key has used.
func (u *usageReport) ofKey(id string) (*usageOfKey, error) {
	i := slices.IndexFunc(u.Keys, func(k keyUsage) bool { return k.ID == id })
	if i < 0 {
		return nil, fmt.Errorf("account %s has no key %s", u.Account.ID, id)
	}
	return &usageOfKey{Account: u.Account.ID, Start: u.Period.Start, End: u.Period.End, Key: u.Keys[i]}, nil
}

// writeText writes the usage of a key as text.
func (u *usageOfKey) writeText(w io.Writer) {
	fmt.Fprintf(w, "Key\t%s\nName\t%s\nAccount\t%s\n", u.Key.ID, or(u.Key.Name, "-"), u.Account)
	fmt.Fprintf(w, "Period\t%s to %s\n", day(u.Start), day(u.End))
	fmt.Fprintf(w, "Requests in the period\t%d\nLast used\t%s\n", u.Key.Requests, u.Key.lastUsed())
}

// writeText writes a report as text. It leaves out days without requests.
func (u *usageReport) writeText(w io.Writer) {
	fmt.Fprintf(w, "Account\t%s\nTier\t%s\nStatus\t%s\n", u.Account.ID, u.Account.Tier, u.Account.Status)
	fmt.Fprintf(w, "Period\t%s to %s\n", day(u.Period.Start), day(u.Period.End))
	perMonth, perMinute := "of unknown: the tier is not configured", "of unknown"
	if u.Limits != nil {
		perMonth, perMinute = ofLimit(u.Limits.RequestsPerMonth), ofLimit(u.Limits.RequestsPerMinute)
	}
	fmt.Fprintf(w, "Requests in the period\t%d %s\n", u.Period.Requests, perMonth)
	fmt.Fprintf(w, "Requests in the minute\t%d %s\n", u.Minute.Requests, perMinute)
	for _, category := range slices.Sorted(maps.Keys(u.Flagged)) {
		fmt.Fprintf(w, "Flagged %s\t%d\n", category, u.Flagged[category])
	}
	for _, d := range u.Days {
		if d.Requests != 0 {
			fmt.Fprintf(w, "%s\t%d\n", d.Date, d.Requests)
		}
	}
	u.writeKeys(w)
}

// writeKeys writes what the keys have used in the period.
func (u *usageReport) writeKeys(w io.Writer) {
	withoutKey := u.Period.Requests
	if len(u.Keys) > 0 {
		fmt.Fprintln(w, "\nKEY\tNAME\tENVIRONMENT\tREQUESTS IN THE PERIOD\tLAST USED")
	}
	for _, k := range u.Keys {
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%s\n", k.ID, or(k.Name, "-"), or(k.Environment, "-"), k.Requests, k.lastUsed())
		withoutKey -= k.Requests
	}
	// Requests are admitted while the report is made: those of keys may be counted later than those of the account.
	if len(u.Keys) > 0 && withoutKey > 0 {
		fmt.Fprintf(w, "without a key\t-\t-\t%d\t-\n", withoutKey)
	}
}

// lastUsed returns, for people, when a key was last used.
func (k *keyUsage) lastUsed() string {
	switch {
	case k.Removed:
		return "removed from the configuration"
	case k.Declared:
		return "not kept"
	}
	return or(k.LastUsed, "never")
}

// ofLimit formats a limit, to stand behind a count.
func ofLimit(n int64) string {
	if n == 0 {
		return "(unlimited)"
	}
	return fmt.Sprintf("of %d", n)
}
