// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package main

import (
	"context"
	"errors"
)

// hostsInNamespace is not called: there are no namespaces.
func hostsInNamespace(context.Context, []string) error { return errors.New("there are no namespaces") }
