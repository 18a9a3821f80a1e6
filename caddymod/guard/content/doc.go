// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package content

import (
	_ "github.com/andybalholm/brotli"
	_ "github.com/klauspost/compress/zstd"
	_ "golang.org/x/net/html"
	_ "golang.org/x/text/encoding/htmlindex"
	_ "golang.org/x/text/encoding/ianaindex"
	_ "golang.org/x/text/encoding/unicode/utf32"
)
