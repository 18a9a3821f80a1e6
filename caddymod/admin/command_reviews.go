// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/spf13/cobra"

	"github.com/caddy-moderation/caddy-moderation/feedback"
)

func (c *cli) reviewExport() *cobra.Command {
	account, file := "", ""
	labelled, force := false, false
	command := &cobra.Command{
		Use:   "export [--account <id>] [--labelled] [--out FILE]",
		Short: "Prints the items of the review queue as JSON Lines, oldest first",
		Args:  none,
		Long: `Prints the items of the review queue as JSON Lines, oldest first, with all
decisions. With --labelled it prints the texts that people have decided, with
their categories, as "caddy moderation evaluate" reads them.`,
		RunE: func(command *cobra.Command, _ []string) error {
			query := url.Values{}
			if account != "" {
				query.Set("account", account)
			}
			if labelled {
				query.Set("labelled", "true")
			}
			path := "/moderation/reviews/export"
			if len(query) > 0 {
				path += "?" + query.Encode()
			}
			return c.save(command, path, or(file, "-"), force)
		},
	}
	set := command.Flags()
	set.StringVar(&account, "account", "", "Only the items of this account")
	set.BoolVar(&labelled, "labelled", false, "Print labelled texts instead of items")
	set.StringVar(&file, "out", "", "Write to this file, which appears when it is whole (default the standard output)")
	set.BoolVar(&force, "force", false, "Replace a file that exists")
	return command
}

// reviewFlags are the flags of review delete.
type reviewFlags struct {
	id, account, author, before, textHash, textFile string
	dryRun, yes                                     bool
}

func (c *cli) reviewDelete() *cobra.Command {
	var flags reviewFlags
	command := &cobra.Command{
		Use: "delete [--id <id>] [--account <id>] [--author <name>] [--before <date or age>] " +
			"[--text-hash <hex> | --text-file FILE]",
		Short: "Erases the items of the review queue that fulfil all conditions", Args: none,
		Long: `Erases the items of the review queue that fulfil all of the conditions, of which
at least one is required: one by its id, those of an account, those of an author
as the site or the item names it, those that were kept before a date
(2026-01-31, midnight UTC), an instant or an age such as 90d, and those of one
text, which is given by its SHA-256 or in a file. The text must be the exact
one: a line feed at its end counts.

Without --yes nothing is erased, and the number of items is shown. Backups that
were made before hold the items.`,
		RunE: func(command *cobra.Command, _ []string) error { return c.deleteReviews(command, &flags) },
	}
	set := command.Flags()
	set.StringVar(&flags.id, "id", "", "Only the item with this id")
	set.StringVar(&flags.account, "account", "", "Only the items of this account")
	set.StringVar(&flags.author, "author", "", "Only the items of this author")
	set.StringVar(&flags.before, "before", "", "Only items from before this date, instant or age, such as 90d")
	set.StringVar(&flags.textHash, "text-hash", "", "Only items with the text with this SHA-256, in hexadecimal digits")
	set.StringVar(&flags.textFile, "text-file", "", "Only items with the text in this file; - is the standard input")
	set.BoolVar(&flags.dryRun, "dry-run", false, "Only say how many items there are")
	set.BoolVar(&flags.yes, "yes", false, "Erase them")
	command.MarkFlagsMutuallyExclusive("text-hash", "text-file")
	command.MarkFlagsMutuallyExclusive("dry-run", "yes")
	return command
}

// deleteReviews runs review delete.
func (c *cli) deleteReviews(command *cobra.Command, flags *reviewFlags) error {
	wanted := reviewDeletion{
		ID: flags.id, Account: flags.account, Author: flags.author, TextSHA256: flags.textHash, DryRun: !flags.yes,
	}
	if flags.before != "" {
		before, err := c.before(flags.before)
		if err != nil {
			return err
		}
		wanted.Before = &before
	}
	if flags.textFile != "" {
		text, err := readText(command, flags.textFile)
		if err != nil {
			return err
		}
		wanted.TextSHA256 = feedback.HashText(string(text)).String()
	}
	if wanted.ID+wanted.Account+wanted.Author+wanted.TextSHA256 == "" && wanted.Before == nil {
		return errors.New("--id, --account, --author, --before, --text-hash or --text-file is required")
	}
	var answer deletedFeedback
	client := c.client()
	client.timeout = 0 // the answer comes when everything is erased, and who leaves before ends the erasure
	if err := client.call(command.Context(), http.MethodPost, "/moderation/reviews/delete", wanted, &answer); err != nil {
		return err
	}
	n, would := answer.Deleted, ""
	if !flags.yes {
		n, would = answer.Selected, "would be "
	}
	if n == nil {
		return errors.New("the server did not say how many items there are; is it another version?")
	}
	if !flags.yes && !flags.dryRun && *n > 0 {
		return fmt.Errorf("%s would be erased, which cannot be undone; add --yes", countItems(*n))
	}
	return c.print(command, answer, func(w io.Writer) { fmt.Fprintf(w, "%s %serased.\n", countItems(*n), would) })
}

func (c *cli) reviewReplay() *cobra.Command {
	since := ""
	var wanted reviewReplay
	command := &cobra.Command{
		Use:   "replay --since <date or age> [--webhook <number>]",
		Short: "Sends decisions to webhooks once more",
		Args:  none,
		Long: `Lets the webhooks of the review queue be sent the decisions since a date
(2026-01-31, midnight UTC), an instant or an age such as 2h once more, for
example after the app has lost them. They have the ids of the first time, so
that an app can tell what it has already. Decisions whose items were erased
meanwhile are not sent.`,
		RunE: func(command *cobra.Command, _ []string) error {
			instant, err := c.instant("--since", since)
			if err != nil {
				return err
			}
			wanted.Since = &instant
			var answer replayed
			err = c.client().call(command.Context(), http.MethodPost, "/moderation/reviews/replay", wanted, &answer)
			if err != nil {
				return err
			}
			return c.print(command, answer, func(w io.Writer) {
				fmt.Fprintf(w, "Decisions that are sent once more: %d, webhooks: %d.\n", answer.Events, answer.Webhooks)
			})
		},
	}
	set := command.Flags()
	set.StringVar(&since, "since", "", "The decisions since this date, instant or age, such as 2h (required)")
	set.IntVar(&wanted.Webhook, "webhook", 0,
		"Only the webhook with this number, counted from 1 in the order of the configuration (default all)")
	if err := command.MarkFlagRequired("since"); err != nil {
		panic(err) // the flag is defined above
	}
	return command
}
