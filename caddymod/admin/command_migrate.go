// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/signal"
	"strings"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/caddy-moderation/caddy-moderation/caddymod/app"
	"github.com/caddy-moderation/caddy-moderation/storage/badger"
	"github.com/caddy-moderation/caddy-moderation/storage/contents"
)

// migrateFlags are the flags of the command migrate.
type migrateFlags struct {
	redisFlags
	config, fromConfig            string
	stopped, undo, status, damage bool
}

func (c *cli) migrate() *cobra.Command {
	var flags migrateFlags
	command := &cobra.Command{
		Use:   "migrate badger|redis PLACE badger|redis PLACE",
		Short: "Moves everything from one store to another, while the server runs",
		Args: func(command *cobra.Command, args []string) error {
			if flags.status || flags.undo && len(args) == 0 {
				return none(command, args)
			}
			if flags.undo && len(args) == 2 {
				return nil
			}
			if len(args) != 4 {
				return fmt.Errorf("needs four arguments, two storages with their places, but has %d: %s", len(args),
					command.UseLine())
			}
			return nil
		},
		Long: `Moves accounts, keys, counts and feedback from one store to another:

  caddy moderation migrate badger /var/lib/caddy/moderation redis 10.0.0.5:6379
  caddy moderation migrate redis 10.0.0.5:6379 badger /var/lib/caddy/moderation

The running server does it. It copies everything while it goes on, then refuses
what must be counted or kept (503, Retry-After) for the short time in which it
copies what has changed since and compares both stores. After that it stays so
until the configuration with the new storage is loaded, which --config FILE does
at once; the storage of that file says how the target is reached. Should FILE be
refused, the migration is undone.

Whatever goes wrong before, or an interrupt, leaves the old store as it was and
in use. The target must be empty, or what an interrupted migration has left: it
cannot be opened until a migration into it has finished.

When no server runs, "migrate --undo badger DIR" opens a store again that was
moved, as it was then.

If no server has the directory of badger open, the command does it by itself;
with redis, say --stopped when all servers are stopped.`,
		RunE: func(command *cobra.Command, args []string) error {
			// An interrupt cancels the request, which ends the migration.
			ctx, stop := signal.NotifyContext(command.Context(), os.Interrupt)
			defer stop()
			switch {
			case flags.status:
				return c.showMigration(ctx, command, http.MethodGet)
			case flags.undo && len(args) == 2:
				return c.reopen(ctx, command, args, &flags)
			case flags.undo:
				return c.showMigration(ctx, command, http.MethodDelete)
			}
			return c.runMigration(ctx, command, args, &flags)
		},
	}
	command.Flags().StringVar(&flags.config, "config", "",
		"Configuration with the new storage, which is loaded when everything is moved")
	command.Flags().StringVar(&flags.fromConfig, "from-config", "",
		"Configuration that says how the old storage is reached, if the server is stopped")
	command.Flags().BoolVar(&flags.stopped, "stopped", false, "All servers are stopped: this command does the work")
	command.Flags().BoolVar(&flags.damage, "leave-out-damaged", false, "Leave records out that are damaged")
	command.Flags().BoolVar(&flags.status, "status", false, "Show how far the migration of the running server is")
	command.Flags().BoolVar(&flags.undo, "undo", false,
		"Go on with the old store after a finished migration, before the new configuration is loaded")
	addRedisFlags(command, &flags.redisFlags)
	return command
}

// addRedisFlags adds the flags that say how a redis target is reached.
func addRedisFlags(command *cobra.Command, flags *redisFlags) {
	command.Flags().StringVar(&flags.prefix, "prefix", "", "Prefix of the names in the redis target (default mod)")
	command.Flags().BoolVar(&flags.cluster, "cluster", false, "The addresses of the redis target are of a cluster")
	command.Flags().StringVar(&flags.sentinel, "sentinel", "",
		"The addresses of the redis target are of sentinels, which watch this master")
}

// runMigration migrates, by the running server or by itself.
func (c *cli) runMigration(ctx context.Context, command *cobra.Command, args []string, flags *migrateFlags) error {
	from, err := newPlace(args[0], args[1], redisFlags{})
	if err != nil {
		return err
	}
	to, err := newPlace(args[2], args[3], flags.redisFlags)
	if err != nil {
		return err
	}
	var next configuration
	if flags.config != "" {
		if next, err = readConfiguration(flags.config); err != nil {
			return err
		}
		if err := next.check(to); err != nil {
			return err
		}
		to.storage = next.storage
	}
	if flags.fromConfig != "" {
		old, err := readConfiguration(flags.fromConfig)
		if err == nil {
			err = old.check(from)
		}
		if err != nil {
			return err
		}
		from.storage = old.storage
	}
	running := !flags.stopped
	if from.kind == "badger" {
		if running, err = badger.InUse(from.text); errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("there is no directory %s", from.text)
		} else if err != nil {
			return err
		}
		if running && flags.stopped {
			return fmt.Errorf("a server has %s open: it is not stopped", from.text)
		}
	}
	if !running {
		return c.migrateStopped(ctx, command, from, to, flags)
	}
	return c.migrateRunning(ctx, command, from, to, &next, flags)
}

// reopen opens a store again that was moved.
func (c *cli) reopen(ctx context.Context, command *cobra.Command, args []string, flags *migrateFlags) error {
	from, err := newPlace(args[0], args[1], flags.redisFlags)
	if err != nil {
		return err
	}
	if flags.fromConfig != "" {
		old, err := readConfiguration(flags.fromConfig)
		if err == nil {
			err = old.check(from)
		}
		if err != nil {
			return err
		}
		from.storage = old.storage
	}
	where, err := app.Reopen(ctx, from.storage)
	if err != nil {
		return err
	}
	note(command, "%s can be opened again, with what it held when it was moved.", where)
	return nil
}

// migrateStopped migrates without a server.
func (c *cli) migrateStopped(ctx context.Context, command *cobra.Command, from, to place, flags *migrateFlags) error {
	show := &migrationShow{command: command}
	_, err := app.Migrate(ctx, app.MigrateOptions{
		From: from.storage, To: to.storage, LeaveOutDamaged: flags.damage, Tell: show.tell,
	}, zap.NewNop())
	if err != nil {
		return err
	}
	if err := c.printMigration(command, &show.last); err != nil {
		return err
	}
	note(command, "Start the server with the new storage. The old one is not opened any more; the error says how to "+
		"go back.")
	return nil
}

// migrateRunning has the running server migrate.
func (c *cli) migrateRunning(
	ctx context.Context, command *cobra.Command, from, to place, next *configuration, flags *migrateFlags,
) error {
	client := c.client()
	answer, err := client.open(ctx, http.MethodPost, "/moderation/migrate", map[string]any{
		"from": from.storage, "to": to.storage, "leave_out_damaged": flags.damage,
	})
	if err != nil {
		return err
	}
	defer answer.Close()
	show := &migrationShow{command: command}
	scanner := bufio.NewScanner(answer)
	scanner.Buffer(nil, 1<<20)
	for scanner.Scan() {
		var state app.Migration
		if err := json.Unmarshal(scanner.Bytes(), &state); err != nil {
			return client.brokenOff(err)
		}
		show.tell(state)
	}
	switch err := scanner.Err(); {
	case show.last.Error != "":
		return errors.New(show.last.Error)
	case err != nil:
		return client.brokenOff(err)
	case show.last.Phase != contents.Finished:
		return client.brokenOff(io.ErrUnexpectedEOF)
	}
	if err := c.printMigration(command, &show.last); err != nil {
		return err
	}
	if next.json == nil {
		note(command, "The service is read-only now. Load the configuration with the new storage (caddy reload), or go back "+
			"with: caddy moderation migrate --undo")
		return leftOutOf(&show.last)
	}
	if err := client.load(ctx, next.json); err != nil {
		// The service is not kept waiting for somebody who looks at the configuration.
		return errors.Join(fmt.Errorf("%s was refused: %w", next.file, err), c.undoAfter(ctx, command))
	}
	note(command, "%s is loaded: the service uses the new store.", next.file)
	return leftOutOf(&show.last)
}

// undoAfter undoes the migration because the new configuration was refused.
func (c *cli) undoAfter(ctx context.Context, command *cobra.Command) error {
	var state app.Migration
	if err := c.client().call(context.WithoutCancel(ctx), http.MethodDelete, "/moderation/migrate", nil, &state); err != nil {
		return fmt.Errorf("and the migration could not be undone: %w. The service is read-only; repeat: "+
			"caddy moderation migrate --undo", err)
	}
	note(command, "The migration is undone: the service goes on with the old store. Nothing is lost.")
	return nil
}

// leftOutOf returns an error that names the records that were left out.
func leftOutOf(state *app.Migration) error {
	if len(state.LeftOut) == 0 {
		return nil
	}
	return fmt.Errorf("damaged records are left out: %s", strings.Join(state.LeftOut, ", "))
}

// showMigration asks the server for the state of the migration, or to undo it, and prints it.
func (c *cli) showMigration(ctx context.Context, command *cobra.Command, method string) error {
	var state app.Migration
	if err := c.client().call(ctx, method, "/moderation/migrate", nil, &state); err != nil {
		return err
	}
	if err := c.printMigration(command, &state); err != nil {
		return err
	}
	if method == http.MethodDelete {
		note(command, "The migration is undone: the service goes on with the old store.")
	}
	return nil
}

// printMigration prints what a migration has done.
func (c *cli) printMigration(command *cobra.Command, state *app.Migration) error {
	return c.print(command, state, func(w io.Writer) {
		fmt.Fprintf(w, "From\t%s\n", state.From)
		fmt.Fprintf(w, "To\t%s\n", state.To)
		fmt.Fprintf(w, "State\t%s\n", state.Phase)
		if state.Error != "" {
			fmt.Fprintf(w, "Error\t%s\n", state.Error)
		}
		r := state.Report
		if r == nil {
			return
		}
		row := func(what string, before, after any) { fmt.Fprintf(w, "%s\t%v\tthen\t%v\n", what, before, after) }
		row("Accounts", r.Source.Accounts, r.Target.Accounts)
		row("Keys", r.Source.Keys, r.Target.Keys)
		row("Counts", r.Source.Windows, r.Target.Windows)
		row("Requests", r.Source.Requests, r.Target.Requests)
		row("Feedback", r.Source.Feedback, r.Target.Feedback)
		row("Digest", r.Source.Digest[:8], r.Target.Digest[:8])
		fmt.Fprintf(w, "Copied twice\t%d accounts and days of feedback, which were changed during the copy\n", r.Again)
		fmt.Fprintf(w, "Read-only\t%.2f s, until the comparison was done\n", r.ReadOnly)
	})
}

// migrationShow shows on a terminal how far a migration is, and notes its phases elsewhere.
type migrationShow struct {
	command *cobra.Command
	last    app.Migration
}

func (s *migrationShow) tell(state app.Migration) {
	was := s.last
	s.last = state
	err := s.command.ErrOrStderr()
	if isTerminal(err) {
		fmt.Fprint(err, clearLine)
		if state.Report == nil && state.Error == "" {
			fmt.Fprintf(err, "%s: %d items", state.Phase, state.Items)
		}
		return
	}
	if was.Phase == state.Phase || state.Error != "" {
		return
	}
	switch state.Phase {
	case contents.Copying:
		note(s.command, "Copying from %s to %s, while the service goes on.", state.From, state.To)
	case contents.Reading:
		note(s.command, "Reading the copy.")
	case contents.ReadOnly:
		note(s.command, "The service is read-only: copying what has changed, and comparing.")
	}
}

// load has the server load a configuration, as "caddy reload" does.
func (c *client) load(ctx context.Context, config json.RawMessage) error {
	to, err := c.endpoint()
	if err != nil {
		return err
	}
	err = c.loadAt(ctx, to, config)
	if errors.Is(err, errOrigin) {
		to.origin = "" // see client.open
		err = c.loadAt(ctx, to, config)
	}
	return err
}

func (c *client) loadAt(ctx context.Context, to endpoint, config json.RawMessage) error {
	response, err := c.send(ctx, to, http.MethodPost, "/load", config)
	if err != nil {
		return err
	}
	text, err := io.ReadAll(io.LimitReader(response.Body, maxBody))
	_ = response.Body.Close()
	if response.StatusCode == http.StatusOK {
		return nil
	}
	var failure struct {
		Error string `json:"error"`
	}
	if err == nil && json.Unmarshal(bytes.TrimSpace(text), &failure) == nil && failure.Error != "" {
		return c.refused(response, failure.Error, false)
	}
	return fmt.Errorf("the server at %s answered %d", c.address, response.StatusCode)
}
