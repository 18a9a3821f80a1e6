// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package redistest

import "syscall"

func attributes() *syscall.SysProcAttr { return nil }
