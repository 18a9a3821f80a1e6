// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"text/tabwriter"
	"time"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"
)

func init() {
	caddycmd.RegisterCommand(caddycmd.Command{
		Name:  "moderation",
		Short: "Manages the moderation service: accounts, keys, usage, feedback, backups, evaluation",
		Long: `
Manages the accounts and keys of a running moderation service, and reads its
usage, feedback and backups.

The commands talk to the admin endpoint of the running server, which has the
database open; "restore" and "check" work on a stopped one, and "evaluate" needs
none. The endpoint is that of --address, else of the environment variable CADDY_ADMIN, else
localhost:2019.

Make an account and a key for it:

  caddy moderation account create acme --tier starter
  KEY=$(caddy moderation key create --account acme)`,
		CobraFunc: func(root *cobra.Command) { newCLI().addTo(root) },
	})
}

// cli is the command with its global flags.
type cli struct {
	address string
	json    bool
	now     func() time.Time
	syncDir func(dir string) error
}

// newCLI returns the command as the program has it.
func newCLI() *cli { return &cli{now: time.Now, syncDir: syncDir} }

// addTo adds the commands to the root command.
func (c *cli) addTo(root *cobra.Command) {
	root.PersistentFlags().StringVar(&c.address, "address", "",
		"Admin endpoint of the server, host:port or unix//path (default localhost:2019, or $CADDY_ADMIN)")
	root.PersistentFlags().BoolVar(&c.json, "json", false, "Print JSON")
	group(root)
	account := &cobra.Command{Use: "account", Short: "Manages accounts: who is limited and billed"}
	account.AddCommand(c.accountCreate(), c.accountList(), c.accountShow(), c.accountUpdate(), c.accountDelete())
	key := &cobra.Command{Use: "key", Short: "Manages the API keys of accounts"}
	key.AddCommand(c.keyCreate(), c.keyList(), c.keyRevoke(), c.keyRotate())
	feedback := &cobra.Command{Use: "feedback", Short: "Reads the feedback on scores"}
	feedback.AddCommand(c.feedbackExport())
	root.AddCommand(group(account), group(key), c.usage(), group(feedback),
		c.backup(), c.restore(), c.check(), c.evaluate())
}

// group makes a command that only holds others. Without one of them it shows its help. An unknown one is an error,
// where cobra would show the help and succeed.
func group(command *cobra.Command) *cobra.Command {
	command.Args = cobra.NoArgs
	command.RunE = func(command *cobra.Command, _ []string) error { return command.Help() }
	return command
}

// one requires exactly one argument; what names it in the error.
func one(what string) cobra.PositionalArgs {
	return func(command *cobra.Command, args []string) error {
		if len(args) != 1 {
			return fmt.Errorf("needs one argument, %s, but has %d: %s", what, len(args), command.UseLine())
		}
		return nil
	}
}

// call sends a request to the server and decodes its answer.
func (c *cli) call(command *cobra.Command, method, path string, in, out any) error {
	return newClient(c.address).call(command.Context(), method, path, in, out)
}

// print prints a value as JSON with --json, and else as the text that writeText writes, in aligned columns.
func (c *cli) print(command *cobra.Command, value any, writeText func(w io.Writer)) error {
	out := command.OutOrStdout()
	if !c.json {
		table := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
		writeText(table)
		return table.Flush()
	}
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(value)
}

// note prints a message that is not part of the output of the command, to the standard error output.
func note(command *cobra.Command, format string, args ...any) {
	fmt.Fprintf(command.ErrOrStderr(), format+"\n", args...)
}

// resource returns the path of a resource by its id, which may hold anything that was typed.
func resource(kind, id string) string {
	return "/moderation/" + kind + "/" + url.PathEscape(id)
}

// day formats a day for people.
func day(t time.Time) string { return t.UTC().Format(time.DateOnly) }

// when formats an instant for people.
func when(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 UTC") }

// or returns text, or absent when it is empty.
func or(text, absent string) string {
	if text == "" {
		return absent
	}
	return text
}
