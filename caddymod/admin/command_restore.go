// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/caddy-moderation/caddy-moderation/caddymod/app"
	"github.com/caddy-moderation/caddy-moderation/storage/badger"
	"github.com/caddy-moderation/caddy-moderation/storage/contents"
)

func (c *cli) restore() *cobra.Command {
	dir, address, config := "", "", ""
	var flags redisFlags
	command := &cobra.Command{
		Use:   "restore FILE --dir DIR | --redis ADDRESS | --config FILE",
		Short: "Fills an empty store from a backup, for a server that is stopped",
		Args:  one("the name of the file"),
		Long: `Fills an empty store from a backup, whatever store the backup was made of:

  --dir DIR        a badger database in DIR, which must be missing or empty
  --redis ADDRESS  a redis storage, whose prefix must have no names
  --config FILE    the storage that a configuration names, such as that in
                   /etc/caddy/Caddyfile

Start the server with this storage afterwards. With - the backup is read from the
standard input. A backup that is not whole is refused. An interrupted restore
leaves a store that is refused; repeat the restore, into badger after emptying
DIR.`,
		RunE: func(command *cobra.Command, args []string) error {
			to, err := restorePlace(dir, address, config, flags)
			if err != nil {
				return err
			}
			from := command.InOrStdin()
			if args[0] != "-" {
				file, err := os.Open(args[0])
				if err != nil {
					return err
				}
				defer file.Close()
				from = file
			}
			where, err := c.restoreTo(command.Context(), to, from)
			if err != nil {
				return err
			}
			note(command, "Restored into %s.", where)
			return nil
		},
	}
	command.Flags().StringVar(&dir, "dir", "", "Directory of the new badger database")
	command.Flags().StringVar(&address, "redis", "", "Address of the redis storage")
	command.Flags().StringVar(&config, "config", "", "Configuration that names the storage")
	addRedisFlags(command, &flags)
	return command
}

// restorePlace returns the place that the flags name.
func restorePlace(dir, address, config string, flags redisFlags) (place, error) {
	named := 0
	for _, flag := range []string{dir, address, config} {
		if flag != "" {
			named++
		}
	}
	if named != 1 {
		return place{}, errors.New("needs one of --dir, --redis and --config, which say where to")
	}
	switch {
	case dir != "":
		p, err := newPlace("badger", dir, redisFlags{})
		p.text = dir
		return p, err
	case address != "":
		return newPlace("redis", address, flags)
	}
	c, err := readConfiguration(config)
	if err != nil {
		return place{}, err
	}
	return c.place()
}

// restoreTo fills a store from a backup of any store, and returns the name of the place.
func (c *cli) restoreTo(ctx context.Context, to place, from io.Reader) (where string, err error) {
	buffered := bufio.NewReader(from)
	head, err := buffered.Peek(len(contents.Magic))
	neutral := err == nil && string(head) == contents.Magic
	// An error of the file is met again when it is read.
	switch {
	case to.kind == "badger" && to.text != "" && !neutral:
		return to.text, c.restoreInto(ctx, to.text, buffered)
	case neutral:
		return c.restoreContents(ctx, to, buffered)
	}
	return c.restoreBadger(ctx, to, buffered)
}

// restoreContents fills a store from a backup that is a file of contents.
func (c *cli) restoreContents(ctx context.Context, to place, from io.Reader) (where string, err error) {
	var parents []string
	if to.kind == "badger" && to.text != "" {
		if parents, err = missingParents(to.text); err != nil {
			return "", err
		}
	}
	where, err = app.Restore(ctx, to.storage, from, zap.NewNop())
	if err != nil {
		return "", err
	}
	return where, c.syncParents(to.text, parents)
}

// restoreBadger fills a store of another kind from a backup of badger: by way of a database of badger, which is removed
// afterwards.
func (c *cli) restoreBadger(ctx context.Context, to place, from io.Reader) (where string, err error) {
	temporary, err := os.MkdirTemp("", "caddy-moderation-restore-")
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temporary)) }()
	dir := filepath.Join(temporary, "database")
	if err := badger.Restore(ctx, dir, from); err != nil {
		return "", err
	}
	storage, err := json.Marshal(map[string]any{"module": "badger", "dir": dir})
	if err != nil {
		return "", err
	}
	_, err = app.Migrate(ctx, app.MigrateOptions{
		From: storage, To: to.storage, Tell: func(m app.Migration) { where = m.To },
	}, zap.NewNop())
	return where, err
}
