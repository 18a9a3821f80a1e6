// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/caddy-moderation/caddy-moderation/storage/badger"
)

func (c *cli) feedbackExport() *cobra.Command {
	account, file, consumer := "", "", ""
	force, fromStart := false, false
	command := &cobra.Command{
		Use:   "export [--account <id> | --consumer NAME] [--out FILE]",
		Short: "Prints the feedback on scores as JSON Lines, oldest first",
		Args:  none,
		Long: `Prints the feedback on scores as JSON Lines, oldest first.

With --consumer it prints what was kept since the last export with that name, in
the order in which it arrived, and --out appends to the file. Each record is
given once, but twice if an export is interrupted between writing and saying so:
the member "id" tells. It needs the storage redis.`,
		RunE: func(command *cobra.Command, _ []string) error {
			switch {
			case consumer != "" && account != "":
				return errors.New("--consumer takes the feedback of all accounts: leave --account out")
			case consumer != "":
				return c.consume(command, consumer, file, fromStart)
			case fromStart:
				return errors.New("--from-start is for --consumer")
			}
			return c.save(command, withAccount("/moderation/feedback/export", account), or(file, "-"), force)
		},
	}
	command.Flags().StringVar(&account, "account", "", "Only the feedback of this account")
	command.Flags().StringVar(&file, "out", "",
		"Write to this file, which appears when it is whole (default the standard output)")
	command.Flags().BoolVar(&force, "force", false, "Replace a file that exists")
	command.Flags().StringVar(&consumer, "consumer", "", "Continue where the export of this name has stopped")
	command.Flags().BoolVar(&fromStart, "from-start", false, "Let the consumer begin again with all that is kept")
	return command
}

func (c *cli) backup() *cobra.Command {
	force, lenient := false, false
	command := &cobra.Command{
		Use: "backup FILE", Short: "Saves accounts, keys, counts and feedback of a running server",
		Args: one("the name of the file"),
		Long: `Saves a consistent copy of everything that the running server keeps: accounts,
keys (their hashes), counts and feedback. The file appears when it is whole, and
only its owner can read it. With - it goes to the standard output. A record that
is damaged ends the backup, unless --leave-out-damaged is given: then it is made
without such records, says which they are, and the status is 1.`,
		RunE: func(command *cobra.Command, args []string) error {
			path := "/moderation/backup"
			if lenient {
				path += "?damaged=leave-out"
			}
			return c.save(command, path, args[0], force)
		},
	}
	command.Flags().BoolVar(&lenient, "leave-out-damaged", false, "Make the backup without records that are damaged")
	command.Flags().BoolVar(&force, "force", false, "Replace a file that exists")
	return command
}

// restoreInto makes a database from a backup. Without an error, the names of all new directories survive a loss of
// power.
func (c *cli) restoreInto(ctx context.Context, dir string, from io.Reader) error {
	parents, err := missingParents(dir)
	if err != nil {
		return err
	}
	if err := badger.Restore(ctx, dir, from); err != nil {
		return err
	}
	return c.syncParents(dir, parents)
}

// syncParents syncs the directories in which a restored directory has made new names.
func (c *cli) syncParents(dir string, parents []string) error {
	for _, parent := range parents {
		if err := c.syncDir(parent); err != nil {
			return fmt.Errorf("%s is restored, but may not be there after a loss of power: %w", dir, err)
		}
	}
	return nil
}

// save writes an answer of the server to a file, or to the standard output when its name is "-".
func (c *cli) save(command *cobra.Command, path, name string, force bool) error {
	// An interrupt cancels the request and lets this function return, so that no part of a file is left behind.
	ctx, stop := signal.NotifyContext(command.Context(), os.Interrupt)
	defer stop()
	if name != "-" {
		if err := checkFree(name, force); err != nil {
			return err
		}
	}
	client := c.client()
	answer, err := client.open(ctx, http.MethodGet, path, nil)
	if err != nil {
		return err
	}
	defer answer.Close()
	if name == "-" {
		if _, err := io.Copy(command.OutOrStdout(), answer); err != nil {
			return client.brokenOff(err)
		}
		return answer.leftOut()
	}
	size, err := c.writeFile(name, answer, client.brokenOff)
	if err != nil {
		return err
	}
	note(command, "Wrote %d bytes to %s.", size, name)
	return answer.leftOut()
}

// checkFree returns an error when a file exists that must not be replaced. A device, such as /dev/null, and a link to
// one, such as /dev/stdout, are never replaced: that would take them from every other program.
func checkFree(name string, force bool) error {
	info, err := os.Lstat(name)
	if err == nil && info.Mode().Type() == fs.ModeSymlink {
		if target, err := os.Stat(name); err == nil {
			info = target // a link that leads nowhere can be replaced
		}
	}
	if err == nil && info.Mode()&(fs.ModeType&^fs.ModeSymlink) != 0 {
		return fmt.Errorf("%s is not a file and cannot be replaced by one; name another file", name)
	}
	if !force && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s exists; add --force to replace it", name)
	}
	return nil
}

// writeFile writes a file that appears under its name once it is whole and on the disk. Without an error, the name
// survives a loss of power, too. broken makes the error of one from reading.
func (c *cli) writeFile(name string, from io.Reader, broken func(error) error) (int64, error) {
	part, size, err := writePart(name, from, broken)
	if err != nil {
		return 0, err
	}
	if err := os.Rename(part, name); err != nil {
		return 0, errors.Join(err, os.Remove(part))
	}
	if err := c.syncDir(filepath.Dir(name)); err != nil {
		return 0, fmt.Errorf("%s is written, but may not be there after a loss of power: %w", name, err)
	}
	return size, nil
}

// writePart writes and syncs a file under a temporary name, beside the one that it will have.
func writePart(name string, from io.Reader, broken func(error) error) (part string, size int64, err error) {
	// A temporary file is readable by its owner alone, as a backup should be.
	file, err := os.CreateTemp(filepath.Dir(name), filepath.Base(name)+".*.part")
	if err != nil {
		return "", 0, err
	}
	defer func() {
		if err != nil {
			_ = file.Close()
			err = errors.Join(err, os.Remove(file.Name()))
		}
	}()
	if size, err = io.Copy(file, from); err != nil {
		return "", 0, broken(err)
	}
	if err = file.Sync(); err != nil {
		return "", 0, err
	}
	return file.Name(), size, file.Close()
}

// syncDir syncs a directory, so that the names in it survive a loss of power.
func syncDir(dir string) error {
	if runtime.GOOS == "windows" {
		return nil // directories cannot be synced there, and need not be
	}
	opened, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer opened.Close()
	if err := opened.Sync(); err != nil && !errors.Is(err, errors.ErrUnsupported) && !errors.Is(err, syscall.EINVAL) {
		return err // some file systems have nothing to sync
	}
	return nil
}

// missingParents returns the directories that get a new name when dir is made with its parents, the innermost first.
func missingParents(dir string) (parents []string, err error) {
	if dir, err = filepath.Abs(dir); err != nil {
		return nil, err
	}
	for {
		if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
			return parents, nil
		}
		dir = filepath.Dir(dir)
		parents = append(parents, dir)
	}
}
