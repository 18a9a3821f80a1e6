// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package commentanalyzer

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

func TestDiscovery(t *testing.T) {
	load(t, "storage badger DIR")
	for _, address := range []string{"/$discovery/rest?version=v1alpha1", "/%24discovery/rest?version=v1alpha1&key=nothing", "/api/x/$discovery/rest"} {
		got := send(t, http.MethodGet, site+address, "")
		if got.status != http.StatusOK || got.header.Get("Content-Type") != "application/json; charset=UTF-8" {
			t.Fatalf("answered %d %v", got.status, got.header)
		}
		var document struct{ RootURL, BaseURL string }
		if err := json.Unmarshal([]byte(got.body), &document); err != nil {
			t.Fatal(err)
		}
		want := site + "/"
		if strings.HasPrefix(address, "/api") {
			want += "api/x/"
		}
		if document.RootURL != want || document.BaseURL != want {
			t.Errorf("%s: the address is %q and %q, want %q", address, document.RootURL, document.BaseURL, want)
		}
	}
	checkGolden(t, "discovery_version", send(t, http.MethodGet, site+DiscoveryPath+"?version=v1", ""))
	checkGolden(t, "discovery_method", send(t, http.MethodPost, site+DiscoveryPath, ""))
	if got := send(t, http.MethodHead, site+DiscoveryPath, ""); got.status != http.StatusOK || got.body != "" || got.header.Get("Content-Length") == "0" {
		t.Errorf("HEAD is answered %d %q", got.status, got.body)
	}
}

// TestAddress: clients must be sent where they came from, and not where anybody else says.
func TestAddress(t *testing.T) {
	t.Parallel()
	rows := []struct {
		name, path, original string
		tls, trusted         bool
		headers              []string
		want                 string
	}{
		{name: "plain", path: DiscoveryPath, want: "http://h.example:8080/"},
		{name: "TLS", path: DiscoveryPath, tls: true, want: "https://h.example:8080/"},
		{name: "a base path", path: "/moderation" + DiscoveryPath, want: "http://h.example:8080/moderation/"},
		{name: "a prefix that handle_path cut off", path: DiscoveryPath, original: "/p/q" + DiscoveryPath, want: "http://h.example:8080/p/q/"},
		{name: "a rewritten address", path: DiscoveryPath, original: "/discovery", want: "http://h.example:8080/"},
		{name: "a proxy that is not trusted", path: DiscoveryPath, headers: []string{"X-Forwarded-Proto", "https", "X-Forwarded-Host", "evil.example", "X-Forwarded-Prefix", "/evil"},
			want: "http://h.example:8080/"},
		{name: "a trusted proxy", path: DiscoveryPath, trusted: true, headers: []string{"X-Forwarded-Proto", "https", "X-Forwarded-Host", "api.example"}, want: "https://api.example/"},
		{name: "two trusted proxies", path: DiscoveryPath, trusted: true, headers: []string{"X-Forwarded-Proto", "https, http", "X-Forwarded-Host", "api.example:8443, inner"},
			want: "https://api.example:8443/"},
		{name: "a trusted proxy that cuts a prefix off", path: DiscoveryPath, trusted: true, headers: []string{"X-Forwarded-Prefix", "/perspective/"}, want: "http://h.example:8080/perspective/"},
		{name: "a trusted proxy that talks nonsense", path: DiscoveryPath, trusted: true,
			headers: []string{"X-Forwarded-Proto", "ftp", "X-Forwarded-Host", "a/b?c", "X-Forwarded-Prefix", "//evil.example"}, want: "http://h.example:8080/"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			request := httptest.NewRequest(http.MethodGet, "http://h.example:8080"+row.path, nil)
			if row.tls {
				request.TLS = &tls.ConnectionState{}
			}
			for i := 0; i < len(row.headers); i += 2 {
				request.Header.Set(row.headers[i], row.headers[i+1])
			}
			ctx := context.WithValue(request.Context(), caddyhttp.VarsCtxKey,
				map[string]any{caddyhttp.TrustedProxyVarKey: row.trusted})
			if row.original != "" {
				ctx = context.WithValue(ctx, caddyhttp.OriginalRequestCtxKey, *httptest.NewRequest(http.MethodGet, "http://h.example:8080"+row.original, nil))
			}
			if got := addressOf(request.WithContext(ctx)); got != row.want {
				t.Errorf("the address is %s, want %s", got, row.want)
			}
		})
	}
}

// discoveryType is what the document says of a type.
type discoveryType struct {
	Ref                  string `json:"$ref"`
	Type, Format         string
	Items                *discoveryType
	AdditionalProperties *discoveryType
	Properties           map[string]*discoveryType
}

// TestDiscoveryIsComplete: a client library finds every type, and the document names exactly the members that the
// handlers read and write.
func TestDiscoveryIsComplete(t *testing.T) {
	t.Parallel()
	var document struct {
		Kind, DiscoveryVersion, Protocol, ID, Name, Version, ServicePath, BasePath, BatchPath string
		Parameters                                                                            map[string]any
		Schemas                                                                               map[string]*discoveryType
		Resources                                                                             map[string]struct {
			Methods map[string]struct {
				ID, Path, FlatPath, HTTPMethod string
				Request, Response              discoveryType
			}
		}
	}
	if err := json.Unmarshal(discoveryDocument, &document); err != nil {
		t.Fatal(err)
	}
	said := fmt.Sprint(document.Kind, document.DiscoveryVersion, document.Protocol, document.ID, document.Name,
		document.Version,
		document.ServicePath, document.BasePath, document.BatchPath)
	if want := "discovery#restDescriptionv1restcommentanalyzer:v1alpha1commentanalyzerv1alpha1batch"; said != want {
		t.Errorf("the document is of %s, want %s", said, want)
	}
	parameters := slices.Sorted(maps.Keys(document.Parameters))
	if want := []string{"$.xgafv", "access_token", "alt", "callback", "fields", "key", "oauth_token", "prettyPrint", "quotaUser", "uploadType", "upload_protocol"}; !slices.Equal(parameters, want) {
		t.Errorf("the parameters are %v, want %v", parameters, want)
	}
	var check func(where string, said *discoveryType)
	check = func(where string, said *discoveryType) {
		switch {
		case said.Ref != "":
			if document.Schemas[said.Ref] == nil {
				t.Errorf("%s: there is no %s", where, said.Ref)
			}
		case said.Items != nil:
			check(where+"[]", said.Items)
		case said.AdditionalProperties != nil:
			check(where+"{}", said.AdditionalProperties)
		case said.Type == "":
			t.Errorf("%s has no type", where)
		}
		for name, property := range said.Properties {
			check(where+"."+name, property)
		}
	}
	for name, schema := range document.Schemas {
		check(name, schema)
	}
	for name, path := range map[string]string{"analyze": AnalyzePath, "suggestscore": SuggestScorePath} {
		method := document.Resources["comments"].Methods[name]
		if "/"+method.Path != path || method.FlatPath != method.Path || method.HTTPMethod != http.MethodPost || method.ID != "commentanalyzer.comments."+name {
			t.Errorf("%s is %+v", name, method)
		}
		check(name, &method.Request)
		check(name, &method.Response)
	}
	members := func(of any) []string {
		var names []string
		for i := range reflect.TypeOf(of).NumField() {
			name, _, _ := strings.Cut(reflect.TypeOf(of).Field(i).Tag.Get("json"), ",")
			names = append(names, name)
		}
		slices.Sort(names)
		return names
	}
	for name, want := range map[string][]string{
		// These three are accepted and have no effect.
		"AnalyzeCommentRequest":      slices.Sorted(slices.Values(append(members(analyzeRequest{}), "communityId", "sessionId"))),
		"AnalyzeCommentResponse":     members(analyzeResponse{}),
		"AttributeParameters":        members(attributeParameters{}),
		"AttributeScores":            members(attributeAnswer{}),
		"SpanScore":                  members(spanAnswer{}),
		"Score":                      members(scoreAnswer{}),
		"SuggestCommentScoreRequest": members(suggestScoreRequest{}),
		"TextEntry":                  members(textEntry{}),
		"Context":                    members(conversation{}),
		"ArticleAndParentComment":    members(articleContext{}),
	} {
		if got := slices.Sorted(maps.Keys(document.Schemas[name].Properties)); !slices.Equal(got, want) {
			t.Errorf("%s has the members %v, want %v", name, got, want)
		}
	}
}
