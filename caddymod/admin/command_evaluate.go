// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/caddy-moderation/caddy-moderation/engine"
	"github.com/caddy-moderation/caddy-moderation/engine/evaluate"
)

// evaluateFlags are the flags of "evaluate".
type evaluateFlags struct {
	data       []string
	thresholds []string
	kinds      []string
	harmShare  string
	misses     int // of --errors
	jobs       int
}

func (c *cli) evaluate() *cobra.Command {
	var flags evaluateFlags
	command := &cobra.Command{
		Use: "evaluate --data FILE|DIR ...", Short: "Measures the judge on labelled texts of your own; needs no server",
		Args: cobra.ArbitraryArgs,
		Long: `Judges labelled texts with the model and the themes that are built into this
program, as the service does, and says how good the verdicts are. No server is
needed and nothing leaves the machine.

The data are JSON Lines, plain or compressed with gzip. A row has a text with
labels from 0 to 1 (what is left out is unknown), or a theme that its text hits
or not:

  {"text": "You are a fool.", "labels": {"harassment": 1, "hate": 0}}
  {"text": "He stole my bike.", "theme": "theft of bicycles", "hit": true}

Labels are hate, harassment, self-harm, sexual and violence, and the attributes
TOXICITY, SEVERE_TOXICITY, IDENTITY_ATTACK, INSULT, PROFANITY, THREAT,
SEXUALLY_EXPLICIT and SPAM. A "kind" in a row splits the figures by it.`,
		Example: `  caddy moderation evaluate --data comments.jsonl --errors 5
  caddy moderation evaluate --data labelled/ --threshold hate=0.6 --json
  zcat comments.jsonl.gz | head -n 1000 | caddy moderation evaluate --data -`,
		RunE: func(command *cobra.Command, args []string) error {
			// Arguments are data, too, because a shell makes arguments of --data *.jsonl.
			data := append(flags.data, args...)
			if len(data) == 0 {
				return errors.New("needs labelled texts: --data FILE, a directory, " +
					"or - for the standard input; see --help")
			}
			moderator, options, err := flags.engine()
			if err != nil {
				return err
			}
			return c.runEvaluation(command, moderator, data, options)
		},
	}
	flags.addTo(command)
	return command
}

// addTo adds the flags to a command.
func (f *evaluateFlags) addTo(command *cobra.Command) {
	flags := command.Flags()
	flags.StringArrayVar(&f.data, "data", nil, "File of JSON Lines, directory of *.jsonl and *.jsonl.gz, "+
		"or - for the standard input. Repeatable; arguments are more of it")
	flags.StringArrayVar(&f.thresholds, "threshold", nil,
		"Flags above another probability, as <category or attribute>=<probability>. Repeatable")
	flags.StringVar(&f.harmShare, "harm-share", "",
		"Moves the probabilities to traffic of which this share is harmful, such as 2% (default the model's own)")
	flags.StringArrayVar(&f.kinds, "kind", nil, "Only rows of this kind. Repeatable")
	flags.IntVar(&f.misses, "errors", 0, "Lists this many wrong verdicts of each label, the most confident ones first")
	flags.IntVar(&f.jobs, "jobs", 0, "Texts that are judged at the same time (default the number of processors)")
}

// engine makes the engine that the service has by default, with the thresholds and the share of harm of the flags.
func (f *evaluateFlags) engine() (*engine.Engine, evaluate.Options, error) {
	options := evaluate.Options{Jobs: f.jobs, Kinds: f.kinds, Misses: f.misses}
	if f.misses < 0 || f.jobs < 0 {
		return nil, options, errors.New("--errors and --jobs must not be negative")
	}
	if f.harmShare != "" {
		share, err := engine.ParseHarmShare(f.harmShare)
		if err != nil {
			return nil, options, fmt.Errorf("--harm-share %s: %w", f.harmShare, err)
		}
		options.HarmShare = share
	}
	var policy engine.Policy
	for _, text := range f.thresholds {
		name, value, found := strings.Cut(text, "=")
		threshold, err := strconv.ParseFloat(value, 64)
		if !found || err != nil || !(threshold > 0 && threshold < 1) {
			return nil, options, fmt.Errorf("--threshold %s must be <name>=<probability> "+
				"with a probability greater than 0 and less than 1, such as hate=0.6", text)
		}
		label, err := evaluate.ParseLabel(name)
		switch {
		case err != nil:
			return nil, options, fmt.Errorf("--threshold %s: %w", text, err)
		case label < engine.NumCategories:
			policy.Thresholds[label] = threshold
		default:
			options.AttributeThresholds[label-engine.NumCategories] = threshold
		}
	}
	moderator, err := engine.New(engine.Options{Policy: policy})
	return moderator, options, err
}

// runEvaluation evaluates an engine and prints the report.
func (c *cli) runEvaluation(
	command *cobra.Command, moderator *engine.Engine, data []string, options evaluate.Options,
) error {
	ctx, stop := signal.NotifyContext(command.Context(), os.Interrupt)
	defer stop()
	input, err := evaluate.Open(data, command.InOrStdin())
	if err != nil {
		return err
	}
	bar := &progress{out: command.ErrOrStderr(), now: c.now, done: input.Progress}
	if isTerminal(bar.out) {
		options.Progress = bar.show
	}
	report, err := evaluate.Run(ctx, moderator, input.Rows(ctx), options)
	bar.clear()
	switch {
	case errors.Is(err, context.Canceled):
		return errors.New("interrupted")
	case err != nil:
		return err
	}
	report.Files = input.Files()
	return c.print(command, report, func(w io.Writer) { _ = report.WriteText(w) })
}
