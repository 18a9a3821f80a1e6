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
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/spf13/cobra"

	"github.com/caddy-moderation/caddy-moderation/quota"
)

func (c *cli) keyCreate() *cobra.Command {
	var wanted newKey
	var expires string
	command := &cobra.Command{
		Use: "create --account <id>", Short: "Creates a key and prints it, this once", Args: none,
		Long: `Creates an API key and prints it, and nothing else, on the standard output. It
is shown this once: the server keeps only its SHA-256.`,
		Example: "  KEY=$(caddy moderation key create " +
			"--account acme --name website --environment production --expires 90d)",
		RunE: func(command *cobra.Command, _ []string) error {
			var err error
			if wanted.Expires, err = c.expiry(expires); err != nil {
				return err
			}
			if wanted.Account == "" {
				return errors.New("--account is empty")
			}
			made, err := c.callForKey(command, "/moderation/keys", wanted)
			if err != nil {
				return err
			}
			return c.printMade(command, made)
		},
	}
	flags := command.Flags()
	flags.StringVar(&wanted.Account, "account", "", "Account that the key belongs to")
	flags.StringVar(&wanted.Name, "name", "", "Name for people, at most 200 characters")
	flags.StringVar(&wanted.Environment, "environment", "",
		"Label for people, such as production, at most 64 characters")
	flags.StringSliceVar(&wanted.Scopes, "scope", nil,
		"What the key may do beside moderating: review, to read and decide the account's items in the review queue")
	flags.StringVar(&expires, "expires", "",
		"When the key stops to be valid: 2027-01-31, 2027-01-31T12:00:00Z or a duration such as 90d (default never)")
	require(command, "account")
	return command
}

func (c *cli) keyList() *cobra.Command {
	account := ""
	command := &cobra.Command{
		Use: "list [--account <id>]", Short: "Lists what is known of keys", Args: none,
		RunE: func(command *cobra.Command, _ []string) error {
			keys := []quota.Key{}
			query := url.Values{}
			if account != "" {
				query.Set("account", account)
			}
			return c.list(command, "/moderation/keys", query, &keys, func(w io.Writer) { c.writeKeys(w, keys) })
		},
	}
	command.Flags().StringVar(&account, "account", "", "Only the keys of this account")
	return command
}

// writeKeys writes keys as a table.
func (c *cli) writeKeys(w io.Writer, keys []quota.Key) {
	fmt.Fprintln(w, "ID\tACCOUNT\tNAME\tENVIRONMENT\tSCOPES\tCREATED\tEXPIRES\tLAST USED\tSTATE")
	for _, k := range keys {
		created, expires := day(k.Created), "never"
		if k.Declared {
			created = "-"
		}
		if k.Expires != nil {
			expires = when(*k.Expires)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", k.ID, k.Account, or(k.Name, "-"), or(k.Environment, "-"),
			or(strings.Join(k.Scopes, ","), "-"), created, expires, or(k.LastUsed, "never"), c.state(k))
	}
}

func (c *cli) keyRevoke() *cobra.Command {
	return &cobra.Command{
		Use: "revoke <key id>", Short: "Refuses a key from the next request on", Args: keyID,
		RunE: func(command *cobra.Command, args []string) error {
			var key quota.Key
			if err := c.call(command, http.MethodPost, resource("keys", args[0])+"/revoke", nil, &key); err != nil {
				return err
			}
			return c.print(command, key, func(w io.Writer) {
				fmt.Fprintf(w, "Key %s of account %s is revoked since %s.\n", key.ID, key.Account, when(*key.Revoked))
			})
		},
	}
}

func (c *cli) keyRotate() *cobra.Command {
	overlap := ""
	command := &cobra.Command{
		Use: "rotate <key id>", Short: "Replaces a key and prints the new one, this once",
		Args: keyID,
		Long: `Creates a key with the account, name, environment and expiry of an old one, and
prints it, and nothing else, on the standard output. The old key stays valid
for the overlap, so that its users have time to change. The new key has the
expiry that the old one had before.

A key is replaced once. If the new key got lost, rotate the new one, or revoke
it and rotate the old one again.`,
		RunE: func(command *cobra.Command, args []string) error {
			if err := checkOverlap(overlap); err != nil {
				return err
			}
			made, err := c.callForKey(command, resource("keys", args[0])+"/rotate", rotation{Overlap: overlap})
			if err != nil {
				return err
			}
			if err := c.printMade(command, made); err != nil {
				return err
			}
			if made.Old != nil {
				note(command, "The new key %s. The old key, %s, %s.",
					c.validity(made.Key), made.Old.ID, c.validity(*made.Old))
			}
			return nil
		},
	}
	command.Flags().StringVar(&overlap, "overlap", "24h",
		"How long the old key stays valid, such as 24h or 7d; 0s ends it at once")
	return command
}

// printMade prints a new key. The standard output gets only the key, so that a shell can put it into a variable.
func (c *cli) printMade(command *cobra.Command, made madeKey) error {
	note(command, "Key %s of account %s. It is shown this once.", made.Key.ID, made.Key.Account)
	if err := c.print(command, made, func(w io.Writer) { fmt.Fprintln(w, made.Secret) }); err != nil {
		return fmt.Errorf("key %s is valid, but could not be shown: %w; revoke it, and make another one",
			made.Key.ID, err)
	}
	return nil
}

// validity returns, for people, how long a key is valid.
func (c *cli) validity(k quota.Key) string {
	switch {
	case k.Expires == nil:
		return "never expires"
	case !c.now().Before(*k.Expires):
		return "is refused from now on"
	}
	return "is valid until " + when(*k.Expires)
}

// state returns, for people, whether a key is valid.
func (c *cli) state(k quota.Key) string {
	switch {
	case k.Revoked != nil:
		return "revoked"
	case k.Expires != nil && !c.now().Before(*k.Expires):
		return "expired"
	case k.Declared:
		return "valid, in the configuration"
	case k.Replaced != nil:
		return "valid, replaced by " + k.Replaced.By
	}
	return "valid"
}

// expiry parses an instant, a date (midnight UTC) or a duration from now. Empty means never.
func (c *cli) expiry(text string) (*time.Time, error) {
	if text == "" {
		return nil, nil
	}
	for _, layout := range []string{time.RFC3339, time.DateOnly} {
		if instant, err := time.Parse(layout, text); err == nil {
			instant = instant.UTC()
			return &instant, nil
		}
	}
	duration, err := caddy.ParseDuration(text)
	if err != nil || duration <= 0 {
		return nil, fmt.Errorf("--expires %s must be a date like 2027-01-31, an instant like 2027-01-31T12:00:00Z "+
			"or a duration like 90d", text)
	}
	instant := c.now().UTC().Add(duration).Truncate(time.Second)
	return &instant, nil
}

// checkOverlap checks the value of --overlap.
func checkOverlap(text string) error {
	if overlap, err := caddy.ParseDuration(text); err != nil || overlap < 0 {
		return fmt.Errorf("--overlap %s must be a duration such as 24h or 7d, or 0s", text)
	}
	return nil
}

// withAccount adds the query parameter account to a path, unless it is empty.
func withAccount(path, account string) string {
	if account == "" {
		return path
	}
	return path + "?" + url.Values{"account": {account}}.Encode()
}

// require marks a flag as required.
func require(command *cobra.Command, flag string) {
	if err := command.MarkFlagRequired(flag); err != nil {
		panic(err) // the command has no such flag
	}
}
