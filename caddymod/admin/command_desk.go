// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/caddy-moderation/caddy-moderation/sessions"
)

func (c *cli) deskLink() *cobra.Command {
	var wanted newLink
	address := ""
	command := &cobra.Command{
		Use:   "link --user <name> [--operator] [--reviewer] [--account <id>]... [--valid <duration>] [--url <address>]",
		Short: "Makes a link with which a person signs in to the desk, once",
		Args:  none,
		Long: `Makes a link with which a person signs in to the desk, once, and prints it, and
nothing else, on the standard output. The roles are those of the session that
begins with it, which lasts for 12 hours.

Without --url the token is printed, which can be pasted into the page on which
people sign in. The desk needs the option tokens.`,
		RunE: func(command *cobra.Command, _ []string) error {
			if address != "" {
				parsed, err := url.Parse(address)
				if err != nil || parsed.Scheme != "https" && parsed.Scheme != "http" || parsed.Host == "" ||
					parsed.RawQuery != "" || parsed.Fragment != "" {
					return errors.New("--url is the address of the desk, such as https://moderation.example.com/desk")
				}
			}
			var made madeLink
			if err := c.call(command, http.MethodPost, "/moderation/desk/links", wanted, &made); err != nil {
				return err
			}
			if err := c.print(command, made, func(w io.Writer) {
				if address == "" {
					fmt.Fprintln(w, made.Token)
				} else {
					fmt.Fprintf(w, "%s/sign-in#%s\n", strings.TrimSuffix(address, "/"), made.Token)
				}
			}); err != nil {
				return err
			}
			note(command, "It works once, until %s.", when(made.Until))
			return nil
		},
	}
	set := command.Flags()
	set.StringVar(&wanted.User, "user", "", "Name of the person")
	set.BoolVar(&wanted.Operator, "operator", false, "The person may see and do everything")
	set.BoolVar(&wanted.Reviewer, "reviewer", false, "The person may decide what is in the review queue")
	set.StringArrayVar(&wanted.Accounts, "account", nil, "The person is a member of this account")
	set.StringVar(&wanted.Valid, "valid", "", "For how long the link can be used (default 15m)")
	set.StringVar(&address, "url", "", "Address of the desk")
	require(command, "user")
	return command
}

func (c *cli) deskSessions() *cobra.Command {
	return &cobra.Command{
		Use: "sessions", Short: "Lists who is signed in to the desk by a link", Args: none,
		RunE: func(command *cobra.Command, _ []string) error {
			found := []sessions.Session{}
			return c.list(command, "/moderation/desk/sessions", url.Values{}, &found, func(w io.Writer) {
				fmt.Fprintln(w, "ID\tUSER\tROLES\tSINCE\tUNTIL")
				for _, s := range found {
					var roles []string
					if s.Operator {
						roles = append(roles, "operator")
					}
					if s.Reviewer {
						roles = append(roles, "reviewer")
					}
					for _, account := range s.Accounts {
						roles = append(roles, "member of "+account)
					}
					fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", s.ID, s.User, strings.Join(roles, ", "), when(s.Since), when(s.Until))
				}
			})
		},
	}
}

func (c *cli) deskSignOut() *cobra.Command {
	var wanted sessionEnd
	command := &cobra.Command{
		Use: "sign-out --user <name> | --session <id>", Short: "Ends sessions of the desk at once", Args: none,
		Long: `Ends the sessions of a person and takes back the links that the person has not
used yet, or ends one session. It holds from the next request on.`,
		RunE: func(command *cobra.Command, _ []string) error {
			var answer endedSessions
			if err := c.call(command, http.MethodPost, "/moderation/desk/sign-out", wanted, &answer); err != nil {
				return err
			}
			return c.print(command, answer, func(w io.Writer) {
				fmt.Fprintf(w, "Sessions and links that were ended: %d.\n", answer.Ended)
			})
		},
	}
	set := command.Flags()
	set.StringVar(&wanted.User, "user", "", "All sessions and links of this person")
	set.StringVar(&wanted.Session, "session", "", "The session with this id")
	command.MarkFlagsMutuallyExclusive("user", "session")
	command.MarkFlagsOneRequired("user", "session")
	return command
}
