// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package api

import _ "embed"

// openapiDocument describes the service's HTTP interface in OpenAPI 3.1, as it is served at /openapi.json.
//
//go:embed openapi.json
var openapiDocument []byte
