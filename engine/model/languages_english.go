// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

//go:build moderation_english_only

package model

import "embed"

// languageWeights is empty in a build for English alone.
var languageWeights embed.FS
