// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/spf13/cobra"
)

// healthTimeout bounds the command: whoever starts it every few seconds must not collect commands that wait. The server
// needs at most [readyTimeout].
const healthTimeout = 5 * time.Second

// health tells containers and service managers by its exit status whether the server is well. An image without a shell
// has no other program to ask with.
func (c *cli) health() *cobra.Command {
	live := false
	command := &cobra.Command{
		Use: "health", Short: "Says whether the service is ready; the exit status is 0 if it is, else 1", Args: none,
		Long: `
Asks the running server whether the service is ready: whether it has started,
and whether its store can be read and keeps what it must. While the server of
a store that several nodes share cannot be reached, and the service goes on
without it as its option outage says, the service is ready, and the mode is
printed. With --live it only asks whether the server answers. The exit status
is 0 for yes and 1 for no; the reason is printed to standard error.`,
		RunE: func(command *cobra.Command, _ []string) error {
			path := "/moderation/health/ready"
			if live {
				path = "/moderation/health/live"
			}
			ctx, cancel := context.WithTimeout(command.Context(), healthTimeout)
			defer cancel()
			var answer health
			if err := c.client().call(ctx, http.MethodGet, path, nil, &answer); err != nil {
				return err
			}
			return c.print(command, answer, answer.writeText)
		},
	}
	command.Flags().BoolVar(&live, "live", false, "Only ask whether the server answers")
	return command
}

// writeText writes an answer as text.
func (h *health) writeText(w io.Writer) {
	switch h.Mode {
	case "", "normal":
		fmt.Fprintf(w, "%s\n", h.Status)
	default:
		fmt.Fprintf(w, "%s, in the mode %s: %s\n", h.Status, h.Mode, h.Reason)
	}
}
