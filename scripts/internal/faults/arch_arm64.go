// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package faults

const arch = 0xc00000b7 // AUDIT_ARCH_AARCH64
