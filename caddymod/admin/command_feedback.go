// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/spf13/cobra"

	"github.com/caddy-moderation/caddy-moderation/feedback"
)

// feedbackFlags are the flags of feedback delete.
type feedbackFlags struct {
	account, before, textHash, textFile string
	dryRun, yes                         bool
}

func (c *cli) feedbackDelete() *cobra.Command {
	var flags feedbackFlags
	command := &cobra.Command{
		Use:   "delete [--account <id>] [--before <date or age>] [--text-hash <hex> | --text-file FILE]",
		Short: "Deletes the feedback that fulfils all conditions", Args: none,
		Long: `Deletes the records of feedback that fulfil all of the conditions, of which at
least one is required: those of an account, those that were accepted before a
date (2026-01-31, midnight UTC), an instant or an age such as 90d, and those of
one text, which is given by its SHA-256 or in a file. The text must be the exact
one: a line feed at its end counts.

Without --yes nothing is deleted, and the number of records is shown. When the
command succeeds, the records are gone for good; a deletion that was interrupted
can be repeated. What accounts have used of their daily bounds stays used.
Backups that were made before hold the records.`,
		RunE: func(command *cobra.Command, _ []string) error { return c.deleteFeedback(command, &flags) },
	}
	set := command.Flags()
	set.StringVar(&flags.account, "account", "", "Only the feedback of this account, which may be deleted already")
	set.StringVar(&flags.before, "before", "", "Only feedback from before this date, instant or age, such as 90d")
	set.StringVar(&flags.textHash, "text-hash", "", "Only feedback on the text with this SHA-256, in hexadecimal digits")
	set.StringVar(&flags.textFile, "text-file", "", "Only feedback on the text in this file; - is the standard input")
	set.BoolVar(&flags.dryRun, "dry-run", false, "Only say how many records there are")
	set.BoolVar(&flags.yes, "yes", false, "Delete them")
	command.MarkFlagsMutuallyExclusive("text-hash", "text-file")
	command.MarkFlagsMutuallyExclusive("dry-run", "yes")
	return command
}

// deleteFeedback runs feedback delete.
func (c *cli) deleteFeedback(command *cobra.Command, flags *feedbackFlags) error {
	wanted := feedbackDeletion{Account: flags.account, TextSHA256: flags.textHash, DryRun: !flags.yes}
	if flags.before != "" {
		before, err := c.before(flags.before)
		if err != nil {
			return err
		}
		wanted.Before = &before
	}
	endsLine := false
	if flags.textFile != "" {
		text, err := readText(command, flags.textFile)
		if err != nil {
			return err
		}
		endsLine = bytes.HasSuffix(text, []byte("\n"))
		wanted.TextSHA256 = feedback.HashText(string(text)).String()
	}
	if flags.textHash != "" {
		if _, err := feedback.ParseTextHash(flags.textHash); err != nil {
			return fmt.Errorf("--text-hash: %w", err)
		}
	}
	if wanted.Account == "" && wanted.Before == nil && wanted.TextSHA256 == "" {
		return errors.New("--account, --before, --text-hash or --text-file is required")
	}
	var answer deletedFeedback
	client := c.client()
	client.timeout = 0 // the answer comes when everything is deleted, and who leaves before ends the deletion
	if err := client.call(command.Context(), http.MethodPost, "/moderation/feedback/delete", wanted, &answer); err != nil {
		return err
	}
	if flags.yes && answer.Deleted == nil || !flags.yes && answer.Selected == nil {
		return errors.New("the server did not say how many records there are; is it another version?")
	}
	n, would := answer.Deleted, ""
	if n == nil {
		n, would = answer.Selected, "would be "
	}
	if *n == 0 && endsLine {
		note(command, "The text ends with a line feed, which counts. Without it: printf %%s \"$(cat FILE)\" | ... --text-file -")
	}
	if would != "" && !flags.dryRun && *n > 0 {
		return fmt.Errorf("%s would be deleted, which cannot be undone; add --yes", countRecords(*n))
	}
	if err := c.print(command, answer, func(w io.Writer) {
		fmt.Fprintf(w, "%s %sdeleted.\n", countRecords(*n), would)
	}); err != nil {
		return err
	}
	if answer.Damaged > 0 {
		return fmt.Errorf("%s damaged, and stay: it is not known whether they fulfil the conditions", areRecords(answer.Damaged))
	}
	return nil
}

// countRecords says how many records there are.
func countRecords(n int64) string {
	if n == 1 {
		return "1 record of feedback"
	}
	return fmt.Sprintf("%d records of feedback", n)
}

// areRecords is countRecords with a verb.
func areRecords(n int64) string {
	if n == 1 {
		return countRecords(n) + " is"
	}
	return countRecords(n) + " are"
}

// readText reads a text from a file, or from the standard input if its name is "-".
func readText(command *cobra.Command, name string) ([]byte, error) {
	from := command.InOrStdin()
	if name != "-" {
		file, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		defer file.Close()
		from = file
	}
	text, err := io.ReadAll(io.LimitReader(from, feedback.MaxRecordBytes+1))
	switch {
	case err != nil:
		return nil, err
	case len(text) > feedback.MaxRecordBytes:
		return nil, fmt.Errorf("--text-file %s is longer than any text of a record, %d bytes", name, feedback.MaxRecordBytes)
	case len(text) == 0:
		return nil, fmt.Errorf("--text-file %s is empty", name)
	}
	return text, nil
}

// before parses an instant, a date (midnight UTC) or an age.
func (c *cli) before(text string) (time.Time, error) { return c.instant("--before", text) }

// instant reads the value of a flag: a date, an instant, or an age, which is counted back from now.
func (c *cli) instant(flag, text string) (time.Time, error) {
	for _, layout := range []string{time.RFC3339, time.DateOnly} {
		if instant, err := time.Parse(layout, text); err == nil {
			return instant.UTC(), nil
		}
	}
	age, err := caddy.ParseDuration(text)
	if err != nil || age <= 0 {
		return time.Time{}, fmt.Errorf("%s %s must be a date like 2026-01-31, an instant like 2026-01-31T12:00:00Z "+
			"or an age like 90d", flag, text)
	}
	return c.now().UTC().Add(-age), nil
}
