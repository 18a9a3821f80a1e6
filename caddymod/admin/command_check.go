// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"slices"

	"github.com/spf13/cobra"

	"github.com/caddy-moderation/caddy-moderation/storage/badger"
)

func (c *cli) check() *cobra.Command {
	save, force := "", false
	command := &cobra.Command{
		Use: "check DIR", Short: "Reads a database that no server has open and says whether it is whole",
		Args: one("the directory of the database"),
		Long: `Reads everything in the directory of a badger database that no server has open,
compares it with what was acknowledged, and says what is damaged or missing. It
changes nothing in the directory. The status is 0 when the database is whole, and
1 when it is not.

With --save it writes what can still be read to a backup, which "restore" takes,
and says what is left out. Where the newest state of a record is lost, an older
one may stand in for it.`,
		RunE: func(command *cobra.Command, args []string) error {
			ctx, stop := signal.NotifyContext(command.Context(), os.Interrupt)
			defer stop()
			report, err := c.checkDatabase(ctx, command, args[0], save, force)
			if err != nil {
				return err
			}
			if err := c.print(command, report, func(w io.Writer) { writeCheck(w, report) }); err != nil {
				return err
			}
			damage := report.Err()
			switch {
			case damage != nil && save == "":
				note(command, "Restore your last backup into another directory. "+
					"Or save what can be read with --save FILE, and restore that.")
			case damage != nil:
				note(command, "What can be read is in %s: caddy moderation restore %s --dir ANOTHER_DIRECTORY",
					save, save)
			}
			return damage
		},
	}
	command.Flags().StringVar(&save, "save", "", "Write what can be read to this file, as a backup")
	command.Flags().BoolVar(&force, "force", false, "Replace a file that exists")
	return command
}

// checkDatabase checks a directory, and saves what can be read in it to the file save, unless that is empty.
func (c *cli) checkDatabase(
	ctx context.Context, command *cobra.Command, dir, save string, force bool,
) (*badger.CheckReport, error) {
	if save == "" {
		return badger.Check(ctx, dir, nil)
	}
	if err := checkFree(save, force); err != nil {
		return nil, err
	}
	var report *badger.CheckReport
	from, to := io.Pipe()
	go func() {
		var err error
		report, err = badger.Check(ctx, dir, to)
		to.CloseWithError(err)
	}()
	size, err := c.writeFile(save, from, func(err error) error { return err })
	if err != nil {
		return nil, errors.Join(err, from.Close())
	}
	note(command, "Wrote %d bytes to %s.", size, save)
	return report, nil
}

// writeCheck writes a report as text.
func writeCheck(w io.Writer, r *badger.CheckReport) {
	fmt.Fprintf(w, "tables\t%d\nlogs\t%d\nbytes read\t%d\n", r.Tables, r.Logs, r.Bytes)
	if r.Committed > 0 {
		fmt.Fprintf(w, "newest write\t%d\nnewest acknowledged write\t%d\n", r.Newest, r.Committed)
	}
	for _, record := range slices.Sorted(maps.Keys(r.Records)) {
		fmt.Fprintf(w, "%s\t%d\n", record, r.Records[record])
	}
	for _, f := range r.Findings {
		what := "left by a crash, and no loss"
		if f.Damage {
			what = "damage"
		}
		fmt.Fprintf(w, "%s: %s\n", what, f)
	}
	for _, what := range r.Missing {
		fmt.Fprintf(w, "missing, or older than it was: %s\n", what)
	}
	for _, name := range r.Unlisted {
		fmt.Fprintf(w, "may hold what had been deleted: %s\n", name)
	}
	for _, what := range slices.Sorted(maps.Keys(r.LeftOut)) {
		fmt.Fprintf(w, "left out: %s (%d)\n", what, r.LeftOut[what])
	}
	if r.Err() == nil {
		fmt.Fprintln(w, "The database is whole.")
		return
	}
	fmt.Fprintln(w, "The database is damaged.")
}
