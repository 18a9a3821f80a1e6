// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/caddy-moderation/caddy-moderation/engine"
	"github.com/caddy-moderation/caddy-moderation/engine/words"
	"github.com/caddy-moderation/caddy-moderation/quota"
)

// accountFlags are the flags that describe an account.
type accountFlags struct {
	name, tier, status string
	anchorDay          int
	perMonth           string
	perMinute          string
	thresholds         []string
	harmShare          string
	allow, block       string
	languages          string
	otherLanguage      string
	force              bool
}

// addTo adds the flags to a command.
func (f *accountFlags) addTo(command *cobra.Command) {
	flags := command.Flags()
	flags.StringVar(&f.name, "name", "", "Name for people, at most 200 characters")
	flags.StringVar(&f.tier, "tier", "", "One of the configured tiers (default \"free\")")
	flags.StringVar(&f.status, "status", "",
		"Subscription status: active, trialing and past_due are served; "+
			"canceled and paused are refused (default \"active\")")
	flags.BoolVar(&f.force, "force", false,
		"Set a status that is none of these; the account is refused")
	flags.IntVar(&f.anchorDay, "anchor-day", 0,
		"Day of the month, 1 to 31, on which the billing period starts; 0 is the calendar month")
	const limit = "Replaces the tier's limit; 0 is unlimited, \"tier\" goes back to the tier's"
	flags.StringVar(&f.perMonth, "requests-per-month", "", limit)
	flags.StringVar(&f.perMinute, "requests-per-minute", "", limit)
	flags.StringArrayVar(&f.thresholds, "threshold", nil,
		"Replaces a flag threshold, as <category>=<probability>; \"default\" goes back to the service's. Repeatable")
	flags.StringVar(&f.harmShare, "harm-share", "",
		"Share of the account's texts that are harmful, such as 2%; \"default\" goes back to the service's")
	flags.StringVar(&f.allow, "allow-file", "",
		"File with words that do not count in the account's texts, one in a line, with # before comments "+
			"(- is standard input); \"none\" takes them away")
	flags.StringVar(&f.block, "block-file", "",
		"File with words that reject a text, in the same form; \"none\" takes them away")
	flags.StringVar(&f.languages, "languages", "",
		"Languages that texts are expected to be in, such as en,pt-BR; \"none\" takes them away")
	flags.StringVar(&f.otherLanguage, "other-language", "",
		"What is recommended at least for texts that are in another one: pass, review or reject")
}

// overrides returns o with the changes that the flags ask for.
func (f *accountFlags) overrides(command *cobra.Command, o quota.Overrides) (quota.Overrides, error) {
	var err error
	if o.RequestsPerMonth, err = parseLimit("--requests-per-month", f.perMonth, o.RequestsPerMonth); err != nil {
		return o, err
	}
	if o.RequestsPerMinute, err = parseLimit("--requests-per-minute", f.perMinute, o.RequestsPerMinute); err != nil {
		return o, err
	}
	if o.HarmShare, err = parseHarmShare(f.harmShare, o.HarmShare); err != nil {
		return o, err
	}
	if o.Allow, err = readWords(command, "--allow-file", f.allow, o.Allow); err != nil {
		return o, err
	}
	if o.Block, err = readWords(command, "--block-file", f.block, o.Block); err != nil {
		return o, err
	}
	switch f.languages {
	case "":
	case takeAway:
		o.Languages, o.OtherLanguage = nil, ""
	default:
		o.Languages = strings.FieldsFunc(f.languages, func(r rune) bool { return r == ',' || r == ' ' })
	}
	if f.otherLanguage != "" {
		o.OtherLanguage = f.otherLanguage
	}
	if len(f.thresholds) == 0 {
		return o, nil
	}
	thresholds := map[string]float64{}
	maps.Copy(thresholds, o.Thresholds)
	for _, text := range f.thresholds {
		category, value, ok := strings.Cut(text, "=")
		if !ok || category == "" {
			return o, fmt.Errorf("--threshold %s must be <category>=<probability>, "+
				"such as hate=0.8, or <category>=default", text)
		}
		if value == "default" {
			delete(thresholds, category)
			continue
		}
		threshold, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return o, fmt.Errorf("--threshold %s: the probability must be a number "+
				"greater than 0 and less than 1, or \"default\"", text)
		}
		thresholds[category] = threshold
	}
	o.Thresholds = thresholds
	return o, nil
}

// checkStatus returns an error when the flags ask for a status that is not known, without --force.
func (f *accountFlags) checkStatus() error {
	if err := quota.ValidateStatus(quota.Status(f.status)); err != nil && !f.force {
		return fmt.Errorf("%s; with --force any word is set, and the account is refused", message(err))
	}
	return nil
}

// overridden reports whether a flag asks for a change of overrides.
func (f *accountFlags) overridden() bool {
	return f.perMonth != "" || f.perMinute != "" || f.harmShare != "" || len(f.thresholds) > 0 ||
		f.allow != "" || f.block != "" || f.languages != "" || f.otherLanguage != ""
}

// takeAway is the value of flags that takes something away.
const takeAway = "none"

// readWords reads the file of a flag with words. Without a name the words stay what they are.
func readWords(command *cobra.Command, flag, name string, current []string) ([]string, error) {
	switch name {
	case "":
		return current, nil
	case takeAway:
		return nil, nil
	}
	var file io.Reader = command.InOrStdin()
	if name != "-" {
		opened, err := os.Open(name)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", flag, err)
		}
		defer opened.Close()
		file = opened
	}
	list, err := words.Read(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", flag, err)
	}
	return list.Expressions(), nil
}

// parseLimit parses the value of a flag that replaces a limit. Without one the limit stays what it is.
func parseLimit(flag, text string, current *int64) (*int64, error) {
	switch text {
	case "":
		return current, nil
	case "tier":
		return nil, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return nil, fmt.Errorf("%s %s must be a whole number of 0 or more, or \"tier\"", flag, text)
	}
	return &n, nil
}

// parseHarmShare parses the value of the flag --harm-share. Without one the share stays what it is.
func parseHarmShare(text string, current *float64) (*float64, error) {
	switch text {
	case "":
		return current, nil
	case "default":
		return nil, nil
	}
	share, err := engine.ParseHarmShare(text)
	if err != nil {
		return nil, fmt.Errorf("--harm-share %s: %w, or \"default\"", text, err)
	}
	return &share, nil
}

func (c *cli) accountCreate() *cobra.Command {
	var flags accountFlags
	command := &cobra.Command{
		Use: "create <id>", Short: "Creates an account", Args: one("the id of the account"),
		Example: "  caddy moderation account create acme --name \"Acme Corporation\" --tier starter",
		RunE: func(command *cobra.Command, args []string) error {
			if err := flags.checkStatus(); err != nil && flags.status != "" {
				return err
			}
			overrides, err := flags.overrides(command, quota.Overrides{})
			if err != nil {
				return err
			}
			wanted := newAccount{
				ID: args[0], Name: flags.name, Tier: flags.tier, Status: quota.Status(flags.status),
				AnchorDay: flags.anchorDay, Overrides: overrides, Force: flags.force,
			}
			var account quota.Account
			if err := c.call(command, http.MethodPost, "/moderation/accounts", wanted, &account); err != nil {
				return err
			}
			return c.print(command, account, accountText(account))
		},
	}
	flags.addTo(command)
	return command
}

func (c *cli) accountList() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "Lists the accounts", Args: none,
		RunE: func(command *cobra.Command, _ []string) error {
			accounts := []quota.Account{}
			return c.list(command, "/moderation/accounts", url.Values{}, &accounts, func(w io.Writer) {
				fmt.Fprintln(w, "ID\tNAME\tTIER\tSTATUS\tCREATED\tKEPT IN")
				for _, a := range accounts {
					created, kept := day(a.Created), "store"
					if a.Declared {
						created, kept = "-", "configuration"
					}
					fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", a.ID, or(a.Name, "-"), a.Tier, statusText(a.Status),
						created, kept)
				}
			})
		},
	}
}

func (c *cli) accountShow() *cobra.Command {
	return &cobra.Command{
		Use: "show <id>", Short: "Shows an account", Args: one("the id of the account"),
		RunE: func(command *cobra.Command, args []string) error {
			var account quota.Account
			if err := c.call(command, http.MethodGet, resource("accounts", args[0]), nil, &account); err != nil {
				return err
			}
			return c.print(command, account, accountText(account))
		},
	}
}

func (c *cli) accountUpdate() *cobra.Command {
	var flags accountFlags
	command := &cobra.Command{
		Use: "update <id>", Short: "Changes an account; what no flag names stays as it is",
		Args:    one("the id of the account"),
		Example: "  caddy moderation account update acme --tier growth --status active",
		RunE: func(command *cobra.Command, args []string) error {
			changed, err := c.change(command, args[0], &flags)
			if err != nil {
				return err
			}
			change := accountChange{AccountChange: changed, Force: flags.force}
			var account quota.Account
			if err := c.call(command, http.MethodPatch, resource("accounts", args[0]), change, &account); err != nil {
				return err
			}
			return c.print(command, account, accountText(account))
		},
	}
	flags.addTo(command)
	return command
}

// change returns the change of an account that the flags ask for.
func (c *cli) change(command *cobra.Command, id string, flags *accountFlags) (quota.AccountChange, error) {
	var change quota.AccountChange
	given := command.Flags().Changed
	if given("name") {
		change.Name = &flags.name
	}
	if given("tier") {
		change.Tier = &flags.tier
	}
	if given("status") {
		if err := flags.checkStatus(); err != nil {
			return change, err
		}
		status := quota.Status(flags.status)
		change.Status = &status
	}
	if given("anchor-day") {
		change.AnchorDay = &flags.anchorDay
	}
	if flags.overridden() {
		var current quota.Account
		if err := c.call(command, http.MethodGet, resource("accounts", id), nil, &current); err != nil {
			return change, err
		}
		overrides, err := flags.overrides(command, current.Overrides)
		if err != nil {
			return change, err
		}
		change.Overrides = &overrides
	}
	if change == (quota.AccountChange{}) {
		return change, errors.New("nothing to change; see --help for what can be")
	}
	return change, nil
}

func (c *cli) accountDelete() *cobra.Command {
	confirmed := false
	command := &cobra.Command{
		Use: "delete <id> --yes", Short: "Deletes an account, its keys and its counts; its feedback is kept",
		Args: one("the id of the account"),
		RunE: func(command *cobra.Command, args []string) error {
			if !confirmed {
				return fmt.Errorf("deleting account %s deletes its keys and its counts, too, "+
					"and cannot be undone; add --yes", args[0])
			}
			if err := c.call(command, http.MethodDelete, resource("accounts", args[0]), nil, nil); err != nil {
				return err
			}
			note(command, "Account %s is deleted.", args[0])
			return nil
		},
	}
	command.Flags().BoolVar(&confirmed, "yes", false, "Yes, delete it")
	return command
}

// accountText returns a function that writes an account as text.
func accountText(a quota.Account) func(w io.Writer) {
	return func(w io.Writer) {
		fmt.Fprintf(w, "Account\t%s\n", a.ID)
		if a.Name != "" {
			fmt.Fprintf(w, "Name\t%s\n", a.Name)
		}
		fmt.Fprintf(w, "Tier\t%s\nStatus\t%s\n", a.Tier, statusText(a.Status))
		if a.AnchorDay != 0 {
			fmt.Fprintf(w, "Period starts on day\t%d\n", a.AnchorDay)
		}
		if n := a.Overrides.RequestsPerMonth; n != nil {
			fmt.Fprintf(w, "Requests per month\t%s\n", limitText(*n))
		}
		if n := a.Overrides.RequestsPerMinute; n != nil {
			fmt.Fprintf(w, "Requests per minute\t%s\n", limitText(*n))
		}
		for _, category := range slices.Sorted(maps.Keys(a.Overrides.Thresholds)) {
			fmt.Fprintf(w, "Threshold %s\t%v\n", category, a.Overrides.Thresholds[category])
		}
		if share := a.Overrides.HarmShare; share != nil {
			fmt.Fprintf(w, "Share of harm\t%s\n", engine.FormatHarmShare(*share))
		}
		if n := len(a.Overrides.Allow); n > 0 {
			fmt.Fprintf(w, "Allowed words\t%d\n", n)
		}
		if n := len(a.Overrides.Block); n > 0 {
			fmt.Fprintf(w, "Blocked words\t%d\n", n)
		}
		if len(a.Overrides.Languages) > 0 {
			fmt.Fprintf(w, "Languages\t%s (others: %s)\n", strings.Join(a.Overrides.Languages, " "),
				or(a.Overrides.OtherLanguage, "pass"))
		}
		if a.Declared {
			fmt.Fprintln(w, "Kept in\tconfiguration")
			return
		}
		fmt.Fprintf(w, "Created\t%s\nUpdated\t%s\n", when(a.Created), when(a.Updated))
	}
}

// statusText formats a status for people: an account that is refused should be seen at a glance.
func statusText(s quota.Status) string {
	if s.Served() {
		return string(s)
	}
	return string(s) + " (refused)"
}

// limitText formats a limit for people.
func limitText(n int64) string {
	if n == 0 {
		return "unlimited"
	}
	return strconv.FormatInt(n, 10)
}
