// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strings"
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
none. The endpoint is that of --address, else of the environment variable
CADDY_ADMIN, else localhost:2019. Caddy's remote admin endpoint is an address
that begins with https://, with --tls-cert, --tls-key and --tls-ca.

Make an account and a key for it:

  caddy moderation account create acme --tier starter
  KEY=$(caddy moderation key create --account acme)`,
		CobraFunc: func(root *cobra.Command) { newCLI().addTo(root) },
	})
}

// cli is the command with its global flags.
type cli struct {
	address string
	files   tlsFiles
	json    bool
	// timeout is how long an answer may take to begin.
	timeout time.Duration
	now     func() time.Time
	syncDir func(dir string) error
}

// newCLI returns the command as the program has it.
func newCLI() *cli { return &cli{timeout: answerTimeout, now: time.Now, syncDir: syncDir} }

// addTo adds the commands to the root command.
func (c *cli) addTo(root *cobra.Command) {
	root.PersistentFlags().StringVar(&c.address, "address", "",
		"Admin endpoint of the server: host:port, unix//path or https://host:port "+
			"(default localhost:2019, or $CADDY_ADMIN)")
	root.PersistentFlags().StringVar(&c.files.cert, "tls-cert", "", "Client certificate, for an https:// address")
	root.PersistentFlags().StringVar(&c.files.key, "tls-key", "", "Private key of the client certificate")
	root.PersistentFlags().StringVar(&c.files.ca, "tls-ca", "",
		"Certificates of the authorities of the server's certificate (default the system's)")
	root.PersistentFlags().BoolVar(&c.json, "json", false, "Print JSON")
	group(root)
	account := &cobra.Command{Use: "account", Short: "Manages accounts: who is limited and billed"}
	account.AddCommand(c.accountCreate(), c.accountList(), c.accountShow(), c.accountUpdate(), c.accountDelete())
	key := &cobra.Command{Use: "key", Short: "Manages the API keys of accounts"}
	key.AddCommand(c.keyCreate(), c.keyList(), c.keyRevoke(), c.keyRotate())
	feedback := &cobra.Command{Use: "feedback", Short: "Reads and deletes the feedback on scores"}
	feedback.AddCommand(c.feedbackExport(), c.feedbackDelete())
	review := &cobra.Command{Use: "review", Short: "Reads and erases the items of the review queue, and sends decisions again"}
	review.AddCommand(c.reviewExport(), c.reviewDelete(), c.reviewReplay())
	log := &cobra.Command{Use: "audit", Short: "Reads and checks the record of what people did"}
	log.AddCommand(c.auditExport(), c.auditVerify())
	desk := &cobra.Command{Use: "desk", Short: "Lets people sign in to the desk"}
	desk.AddCommand(c.deskLink(), c.deskSessions(), c.deskSignOut())
	root.SetFlagErrorFunc(flagError)
	root.AddCommand(group(account), group(key), c.usage(), group(feedback), group(review), group(log), group(desk),
		c.backup(), c.restore(), c.migrate(), c.check(), c.evaluate(), c.health())
}

// group makes a command that only holds others. Without one of them it shows its help. An unknown one is an error,
// where cobra would show the help and succeed.
func group(command *cobra.Command) *cobra.Command {
	command.Args = func(command *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		unknown := fmt.Sprintf("unknown command %q for %q", args[0], command.CommandPath())
		if similar := command.SuggestionsFor(args[0]); len(similar) > 0 {
			return fmt.Errorf("%s; did you mean %s?", unknown, strings.Join(similar, " or "))
		}
		var names []string
		for _, sub := range command.Commands() {
			if sub.IsAvailableCommand() {
				names = append(names, sub.Name())
			}
		}
		return fmt.Errorf("%s; there are %s", unknown, strings.Join(names, ", "))
	}
	command.SuggestionsMinimumDistance = 2
	command.RunE = func(command *cobra.Command, _ []string) error { return command.Help() }
	return command
}

// one requires exactly one argument; what names it in the error.
func one(what string) cobra.PositionalArgs {
	return func(command *cobra.Command, args []string) error {
		if len(args) != 1 {
			return fmt.Errorf("needs one argument, %s, but has %d: %s", what, len(args), command.UseLine())
		}
		if args[0] == "" {
			return fmt.Errorf("%s is empty: %s", what, command.UseLine())
		}
		return nil
	}
}

// none requires that there is no argument. What the command works on is named by flags, which people forget.
func none(command *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("takes no argument, but has %d: %s", len(args), command.UseLine())
	}
	return nil
}

// keyID requires exactly one argument, the id of a key. A key in its place is not repeated, and not sent to the server,
// whose log names what is asked for.
func keyID(command *cobra.Command, args []string) error {
	if err := one("the id of the key")(command, args); err != nil {
		return err
	}
	return checkKeyID(args[0])
}

// checkKeyID refuses what cannot be the id of a key, without repeating it.
func checkKeyID(id string) error {
	if strings.HasPrefix(id, "key_") {
		return nil
	}
	return errors.New("the id of a key begins with key_; \"caddy moderation key list\" shows it. " +
		"The key itself is not its id")
}

// wholeNumber is what the flag package says of a value that is no number.
var wholeNumber = regexp.MustCompile(`^invalid argument "(.*)" for "(--.*)" flag: strconv\.ParseInt: .*$`)

// flagError says what is wrong with a flag.
func flagError(command *cobra.Command, err error) error {
	if found := wholeNumber.FindStringSubmatch(err.Error()); found != nil {
		return fmt.Errorf("%s %s must be a whole number", found[2], found[1])
	}
	return fmt.Errorf("%w; see \"%s --help\"", err, command.CommandPath())
}

// client returns a client for the admin endpoint that the flags name.
func (c *cli) client() *client {
	client := newClient(c.address)
	client.files, client.timeout = c.files, c.timeout
	return client
}

// call sends a request to the server and decodes its answer.
func (c *cli) call(command *cobra.Command, method, path string, in, out any) error {
	return c.client().call(command.Context(), method, path, in, out)
}

// list prints a list of the server. Records that are damaged are left out of it; then the error says which they are.
func (c *cli) list(command *cobra.Command, path string, query url.Values, out any, writeText func(io.Writer)) error {
	query.Set("damaged", "leave-out")
	path += "?" + query.Encode()
	leftOut, err := c.client().callLenient(command.Context(), http.MethodGet, path, nil, out)
	if err != nil {
		return err
	}
	if err := c.print(command, out, writeText); err != nil {
		return err
	}
	return leftOut
}

// callForKey is call for an answer that holds a key. It warns before anything is sent if others may read it.
func (c *cli) callForKey(command *cobra.Command, path string, in any) (made madeKey, err error) {
	client := c.client()
	warned := strings.HasPrefix(client.address, "https://")
	client.connected = func(connection net.Conn) {
		if !warned && leavesTheMachine(connection) {
			warned = true
			note(command, "Warning: the key comes from %s without encryption. Run the command on that machine, or use "+
				"an endpoint with TLS (https://).", connection.RemoteAddr())
		}
	}
	err = client.call(command.Context(), http.MethodPost, path, in, &made)
	return made, err
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
