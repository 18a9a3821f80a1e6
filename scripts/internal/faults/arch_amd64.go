// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package faults

const arch = 0xc000003e // AUDIT_ARCH_X86_64
