// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/spf13/cobra"
)

func (c *cli) auditExport() *cobra.Command {
	account, actor, action, since, file := "", "", "", "", ""
	force := false
	command := &cobra.Command{
		Use:   "export [--account <id>] [--actor <name>] [--action <name>] [--since <date or age>] [--out FILE]",
		Short: "Prints the audit log as JSON Lines, the earliest entry first",
		Args:  none,
		Long: `Prints the entries of the audit log that fulfil all conditions as JSON Lines, the
earliest first: who has made, changed or revoked what, by the desk or by these
commands. It ends with an error where an entry is missing or was changed.

Of actions by commands the actor is the user of the operating system, as the
command says; nobody has checked that.`,
		RunE: func(command *cobra.Command, _ []string) error {
			query := url.Values{}
			for name, value := range map[string]string{"account": account, "actor": actor, "action": action} {
				if value != "" {
					query.Set(name, value)
				}
			}
			if since != "" {
				from, err := c.before(since)
				if err != nil {
					return err
				}
				query.Set("since", from.UTC().Format(time.RFC3339))
			}
			path := "/moderation/audit"
			if len(query) > 0 {
				path += "?" + query.Encode()
			}
			return c.save(command, path, or(file, "-"), force)
		},
	}
	set := command.Flags()
	set.StringVar(&account, "account", "", "Only what was done to this account")
	set.StringVar(&actor, "actor", "", "Only what this person did")
	set.StringVar(&action, "action", "", "Only this action, such as key.revoke, or all of a kind, such as key")
	set.StringVar(&since, "since", "", "Only what was done since this date, instant or age, such as 90d")
	set.StringVar(&file, "out", "", "Write to this file, which appears when it is whole (default the standard output)")
	set.BoolVar(&force, "force", false, "Replace a file that exists")
	return command
}

func (c *cli) auditVerify() *cobra.Command {
	return &cobra.Command{
		Use: "verify", Short: "Checks that no entry of the audit log is missing or was changed", Args: none,
		RunE: func(command *cobra.Command, _ []string) error {
			var answer audited
			client := c.client()
			client.timeout = 0 // it reads the whole log
			if err := client.call(command.Context(), http.MethodGet, "/moderation/audit/verify", nil, &answer); err != nil {
				return err
			}
			return c.print(command, answer, func(w io.Writer) {
				fmt.Fprintf(w, "The audit log is whole: %d entries.\n", answer.Entries)
			})
		},
	}
}
