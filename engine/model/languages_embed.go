// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

//go:build !moderation_english_only

package model

import "embed"

// languageWeights are the weights files of other languages than English.
//
//go:embed languages
var languageWeights embed.FS
