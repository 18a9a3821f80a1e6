// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// Package openapi holds the description of the service's HTTP interface.
package openapi

import _ "embed"

// Document is the OpenAPI 3.1 document, as it is served at /openapi.json.
//
//go:embed openapi.json
var Document []byte
