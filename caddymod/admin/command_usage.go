// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"

	"github.com/spf13/cobra"
)

func (c *cli) usage() *cobra.Command {
	account := ""
	command := &cobra.Command{
		Use: "usage --account <id>", Short: "Shows what an account has used", Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			var usage usageReport
			if err := c.call(command, http.MethodGet, resource("usage", account), nil, &usage); err != nil {
				return err
			}
			return c.print(command, usage, usage.writeText)
		},
	}
	command.Flags().StringVar(&account, "account", "", "Account to show")
	require(command, "account")
	return command
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
}

// ofLimit formats a limit, to stand behind a count.
func ofLimit(n int64) string {
	if n == 0 {
		return "(unlimited)"
	}
	return fmt.Sprintf("of %d", n)
}
