// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package commentanalyzer

import (
	"bytes"
	_ "embed"
	"net/http"
	"net/url"
	"strings"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-moderation/caddy-moderation/caddymod/access"
	"github.com/caddy-moderation/caddy-moderation/caddymod/internal/response"
	"github.com/caddy-moderation/caddy-moderation/caddymod/problem"
)

// DiscoveryPath is the end of the path at which [Analyze] serves the discovery document, from which Google's client
// libraries build clients. A program that builds its client from
//
//	https://commentanalyzer.googleapis.com/$discovery/rest?version=v1alpha1
//
// calls this service when it builds it from this path here.
const DiscoveryPath = "/$discovery/rest"

// discoveryDocument is the document, with a placeholder for the address of the service.
//
//go:embed discovery.json
var discoveryDocument []byte

// addressPlaceholder is replaced by the address.
var addressPlaceholder = []byte(`"{address}"`)

// discover answers with the discovery document. It needs no key, because it holds nothing secret.
func (a *Analyze) discover(w http.ResponseWriter, r *http.Request) error {
	id := access.NewID(a.app)
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		WriteProblem(w, r, id, problem.New(problem.MethodNotAllowed, "The method must be GET."))
		return nil
	}
	if version := r.URL.Query().Get("version"); version != "" && version != "v1alpha1" {
		WriteProblem(w, r, id, problem.New(problem.NotFound,
			"Discovery document not found for this version. The version is v1alpha1."))
		return nil
	}
	// There is no error, because the text is valid UTF-8.
	address, _ := jsontext.AppendQuote(nil, strings.ToValidUTF8(addressOf(r), ""))
	document := bytes.ReplaceAll(discoveryDocument, addressPlaceholder, address)
	// The document depends on header fields that caches do not look at: it must not be stored.
	problem.SetHeaders(w.Header(), id)
	response.Send(w, r, http.StatusOK, jsonType, document)
	return nil
}

// addressOf returns the address, with a slash at the end, below which the client reaches the service: the one that
// the client used. Proxies that the server trusts (Caddy's option trusted_proxies) report it.
func addressOf(r *http.Request) string {
	address := url.URL{Scheme: "http", Host: r.Host}
	if r.TLS != nil {
		address.Scheme = "https"
	}
	// Handlers before this one may have removed a prefix of the path.
	path := r.URL.Path
	if original, ok := r.Context().Value(caddyhttp.OriginalRequestCtxKey).(http.Request); ok && original.URL != nil &&
		strings.HasSuffix(original.URL.Path, DiscoveryPath) {
		path = original.URL.Path
	}
	address.Path = strings.TrimSuffix(path, DiscoveryPath) + "/"
	if trusted, _ := caddyhttp.GetVar(r.Context(), caddyhttp.TrustedProxyVarKey).(bool); trusted {
		if scheme := forwarded(r, "X-Forwarded-Proto"); scheme == "http" || scheme == "https" {
			address.Scheme = scheme
		}
		if host := forwarded(r, "X-Forwarded-Host"); isHost(host) {
			address.Host = host
		}
		// Caddy does not set this field. Proxies do that remove a prefix of the path (StripPrefix of Traefik).
		prefix := forwarded(r, "X-Forwarded-Prefix")
		if strings.HasPrefix(prefix, "/") && !strings.HasPrefix(prefix, "//") {
			address.Path = strings.TrimSuffix(prefix, "/") + address.Path
		}
	}
	return address.String()
}

// forwarded returns what the proxy next to the client reported: each proxy appends to the list.
func forwarded(r *http.Request, name string) string {
	first, _, _ := strings.Cut(r.Header.Get(name), ",")
	return strings.TrimSpace(first)
}

// isHost reports whether a text is a host, with or without a port.
func isHost(text string) bool {
	parsed, err := url.Parse("//" + text)
	return err == nil && text != "" && parsed.Host == text
}
