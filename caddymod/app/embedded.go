// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"github.com/caddyserver/caddy/v2"
)

// Embedded is a stand-in until the model lands.
type Embedded struct{ engineClassifier }
type engineClassifier = interface{ Version() string }

func (*Embedded) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "moderation.classifiers.embedded",
		New: func() caddy.Module { return new(Embedded) },
	}
}
