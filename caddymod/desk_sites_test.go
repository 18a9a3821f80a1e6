// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package caddymod_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"github.com/caddy-moderation/caddy-moderation/engine"
	"github.com/caddy-moderation/caddy-moderation/storage"
)

// rowsOf returns the rows of all tables of a page: their cells by the label of their column, "" being the head of the
// row, and "table" the id of what names the table.
func rowsOf(t testing.TB, page []byte) (rows []map[string]string) {
	t.Helper()
	document, err := html.Parse(bytes.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}
	attribute := func(node *html.Node, name string) string {
		for _, a := range node.Attr {
			if a.Key == name {
				return a.Val
			}
		}
		return ""
	}
	table, inBody := "", false
	for node := range document.Descendants() {
		if node.Type != html.ElementNode {
			continue
		}
		switch node.Data {
		case "table":
			table, inBody = attribute(node, "aria-labelledby"), false
		case "tbody":
			inBody = true
		case "tr":
			if inBody {
				rows = append(rows, map[string]string{"table": table})
			}
		case "th", "td":
			if inBody && len(rows) > 0 && (node.Data == "th" || attribute(node, "data-label") != "") {
				rows[len(rows)-1][attribute(node, "data-label")] = strings.Join(strings.Fields(textOf(node)), " ")
			}
		}
	}
	return rows
}

// textOf returns the text of a node.
func textOf(node *html.Node) string {
	var b strings.Builder
	for child := range node.Descendants() {
		if child.Type == html.TextNode {
			b.WriteString(child.Data)
		}
	}
	return b.String()
}

// rowOf returns the row of a table with a head, or nil.
func rowOf(rows []map[string]string, table, head string) map[string]string {
	i := slices.IndexFunc(rows, func(row map[string]string) bool {
		return row[""] == head && (table == "" || row["table"] == table)
	})
	if i < 0 {
		return nil
	}
	return rows[i]
}

// postTo sends a text to a host of the server.
func postTo(t testing.TB, host, text string) int {
	t.Helper()
	request, err := http.NewRequest(http.MethodPost, base+"/comments", strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	request.Host = host
	request.Header.Set("Content-Type", "text/plain")
	got, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer got.Body.Close()
	_, _ = io.Copy(io.Discard, got.Body)
	return got.StatusCode
}

// guardedSites is a configuration with a guard that acts on one host and one in shadow mode for all others. policy goes
// into the second.
func guardedSites(dir, policy string) string {
	config := siteConfig(dir, "demo off", "moderation_desk /desk"+deskBlock+`
	@shop host shop.example
	handle @shop {
		moderate
		respond shop
	}
	handle {
		moderate {
			shadow
			`+policy+`
		}
		respond forum
	}
	`)
	return strings.Replace(config, base+" {", "http://:"+port+" {", 1)
}

// TestDeskGuards guards against figures of one host or guard that stand at another, against a page that anybody but an
// operator sees, and against counts that a reload resets.
func TestDeskGuards(t *testing.T) {
	stayPut(t)
	dir := t.TempDir()
	load(t, guardedSites(dir, ""))
	for _, message := range []struct {
		host, text string
		status     int
	}{
		{"shop.example", vile, http.StatusForbidden}, {"shop.example", fine, http.StatusOK},
		{"SHOP.example:80", fine, http.StatusOK},
		{"forum.example", vile, http.StatusOK}, {"forum.example", vile, http.StatusOK},
		{"forum.example", fine, http.StatusOK}, {"forum.example", fine, http.StatusOK},
	} {
		got := postTo(t, message.host, message.text)
		if (got == http.StatusOK) != (message.status == http.StatusOK) {
			t.Fatalf("%s: got %d, want %d", message.host, got, message.status)
		}
	}
	check := func(when string) {
		t.Helper()
		page := visit(t, "alice", "/desk/guards", nil)
		rows := rowsOf(t, page.body)
		shop, forum := rowOf(rows, "", "shop.example"), rowOf(rows, "", "forum.example")
		for _, want := range []struct {
			row         map[string]string
			name, value string
		}{
			{shop, "Seen", "3"}, {shop, "Refused", "1"}, {shop, "Nothing found", "2"}, {shop, "Would be refused", ""},
			{forum, "Seen", "4"}, {forum, "Refused", "0"}, {forum, "Would be refused", "2"}, {forum, "Nothing found", "2"},
		} {
			if want.row[want.name] != want.value {
				t.Errorf("%s: %s of %s: got %q, want %q", when, want.name, want.row[""], want.row[want.name], want.value)
			}
		}
		if shop["table"] == forum["table"] || !strings.Contains(shop["Flagged"], "Harassment 1") ||
			!strings.Contains(forum["Flagged"], "Harassment 2") {
			t.Errorf("%s: got %v and %v", when, shop, forum)
		}
		for _, want := range []string{
			"would have refused so many messages: 2 of 4 (50.0%)", "<bdi>shop.example</bdi>", ">shadow<", ">enforcing<",
		} {
			if !strings.Contains(string(page.body), want) {
				t.Errorf("%s: the page does not say %q: %s", when, want, page.body)
			}
		}
	}
	check("at first")
	for _, user := range []string{"carol", "erin", "mallory", ""} {
		for _, path := range []string{"/desk/guards", "/desk/guards/counts", "/desk/node", "/desk/node/traffic",
			"/desk/accounts/acme/settings", "/desk/accounts/acme/delete"} {
			if got := visit(t, user, path, nil); got.status != http.StatusForbidden {
				t.Errorf("%q at %s: got %d, want 403", user, path, got.status)
			}
		}
	}
	reload(t, guardedSites(dir, "threshold hate 0.9"))
	check("after a reload")
	// A guard that is gone does not come back with what it had.
	reload(t, strings.Replace(guardedSites(dir, ""), "moderate\n", "", 1))
	if got := string(visit(t, "alice", "/desk/guards", nil).body); strings.Contains(got, "shop.example") {
		t.Errorf("a guard that is no more is shown: %s", got)
	}
}

// TestDeskGuardsStream guards against counts that stand still while the page is open, that are told again although
// nothing has changed, that tell what clients have written, and against a stream that outlives its configuration.
func TestDeskGuardsStream(t *testing.T) {
	stayPut(t)
	config := guardedSites(t.TempDir(), "")
	load(t, config)
	postTo(t, "shop.example", fine)
	postTo(t, "forum.example", fine)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	type numbers struct {
		Seen, Approved, Review, Refused, Would, Unjudged int64
		Share                                            float64
		Flagged                                          []int64
	}
	type event struct {
		Whole bool
		Sums  map[string]int64
		Rows  map[string]numbers
	}
	var lines *bufio.Scanner
	open := func() {
		t.Helper()
		request, _ := http.NewRequestWithContext(ctx, http.MethodGet, base+"/desk/guards/counts", nil)
		request.Header.Set("X-User", "alice")
		stream, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { stream.Body.Close() })
		if got := stream.Header.Get("Content-Type"); got != "text/event-stream" {
			t.Fatalf("got a stream of %q", got)
		}
		lines = bufio.NewScanner(stream.Body)
	}
	next := func() (got event) {
		t.Helper()
		for lines.Scan() {
			data, ok := strings.CutPrefix(lines.Text(), "data: ")
			if !ok {
				continue
			}
			if strings.Contains(data, "example") || strings.Contains(data, "<") {
				t.Errorf("the event has more than numbers: %s", data)
			}
			if err := json.Unmarshal([]byte(data), &got); err != nil {
				t.Fatalf("%v: %s", err, data)
			}
			return got
		}
		t.Fatalf("the stream ended: %v", lines.Err())
		return got
	}
	open()
	page := string(visit(t, "alice", "/desk/guards", nil).body)
	ids := regexp.MustCompile(`<tr role="row" data-row="([0-9a-f]{16})">\s*<th[^>]*><bdi>([a-z.]+)</bdi>`)
	hosts := map[string]string{}
	for _, match := range ids.FindAllStringSubmatch(page, -1) {
		hosts[match[2]] = match[1]
	}
	shop, forum := hosts["shop.example"], hosts["forum.example"]
	first := next()
	if !first.Whole || len(first.Rows) != 4 || first.Sums["seen"] != 2 ||
		first.Rows[shop].Seen != 1 || first.Rows[forum].Seen != 1 {
		t.Fatalf("the first event: got %+v, want the rows of %v", first, hosts)
	}
	postTo(t, "forum.example", vile)
	got := next()
	harassment := slices.Index(engine.CategoryNames(), "harassment")
	if n := got.Rows[forum]; got.Whole || len(got.Rows) != 2 || got.Sums["would"] != 1 ||
		n.Seen != 2 || n.Would != 1 || n.Share != 0.5 || n.Refused != 0 || n.Flagged[harassment] != 1 {
		t.Errorf("after a message: got %+v, want what has changed", got)
	}
	// All that has not changed is not told again, and a host that appears is.
	postTo(t, "new.example", fine)
	if got = next(); len(got.Rows) != 2 || got.Sums["seen"] != 4 {
		t.Errorf("after a message to another host: got %+v", got)
	}
	reload(t, config)
	for lines.Scan() {
	}
	if ctx.Err() != nil {
		t.Error("the stream goes on after the reload")
	}
	open()
	if again := next(); !again.Whole || again.Rows[forum].Seen != 2 || again.Rows[shop].Seen != 1 {
		t.Errorf("after the reload: got %+v, want the same rows", again)
	}
}

// TestDeskGuardsBoundHosts guards against clients that fill the memory, or the page, with names of hosts.
func TestDeskGuardsBoundHosts(t *testing.T) {
	load(t, guardedSites(t.TempDir(), ""))
	const flood = 300
	for i := range flood {
		postTo(t, fmt.Sprintf("h%d.example", i), fine)
	}
	postTo(t, `a_<b>.example`, fine)
	postTo(t, "shop.example", fine)
	rows := rowsOf(t, visit(t, "alice", "/desk/guards", nil).body)
	other := rowOf(rows, "", "all other hosts")
	if len(rows) > 103 || other["Seen"] == "" || other["Seen"] == "0" {
		t.Errorf("got %d rows, and %v for the others", len(rows), other)
	}
	if got := rowOf(rows, "", "shop.example"); got["Seen"] != "1" {
		t.Errorf("the host that the configuration names: got %v", got)
	}
	seen := 0
	for _, row := range rows {
		n := 0
		_, _ = fmt.Sscan(row["Seen"], &n)
		seen += n
	}
	if seen < flood {
		t.Errorf("got %d messages in all rows, want at least %d", seen, flood)
	}
}

// TestDeskNode guards against figures that are not those of this process, and against throughput that stands still.
func TestDeskNode(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"id":"modr-1","results":[{"flagged":true,"category_scores":{"harassment":0.9}}]}`)
	}))
	t.Cleanup(other.Close)
	config := guardConfig(t, "moderation_desk /desk"+deskBlock+`
	handle /v1/moderations {
		moderation_compare `+other.URL+`
	}
	handle {
		moderation_api
	}`)
	load(t, config)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	request, _ := http.NewRequestWithContext(ctx, http.MethodGet, base+"/desk/node/traffic", nil)
	request.Header.Set("X-User", "alice")
	stream, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Body.Close()
	if got := stream.Header.Get("Content-Type"); got != "text/event-stream" {
		t.Fatalf("got a stream of %q", got)
	}
	for range 3 {
		moderate(t, acmeKey, `{"content":"hello"}`)
	}
	moderate(t, "mod_sk_wrong", `{"content":"hello"}`)
	ask(t, base+"/v1/moderations", `{"input":["`+vile+`"]}`)
	moved := false
	for lines := bufio.NewScanner(stream.Body); !moved && lines.Scan(); {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		moved = ok && !strings.Contains(data, `"requests":{"minute":0,`)
	}
	if !moved {
		t.Error("the throughput did not move")
	}
	// What is compared is counted after the client has its answer.
	var rows []map[string]string
	var page reply
	for ctx.Err() == nil && rowOf(rows, "compared", "harassment") == nil {
		page = visit(t, "alice", "/desk/node", nil)
		rows = rowsOf(t, page.body)
	}
	if got := rowOf(rows, "operations", "text"); got["Answered"] != "3" || got["No valid key"] != "1" ||
		!strings.HasSuffix(got["p99"], "ms") {
		t.Errorf("the operation text: got %v", got)
	}
	if got := rowOf(rows, "compared", "harassment"); got["Both above"] != "1" || got["Agreement"] != "100.0%" {
		t.Errorf("the comparison: got %v", got)
	}
	// The server lists itself in the store, and once only after a reload.
	reload(t, strings.Replace(config, "moderation_api", "moderation_api\nrespond other", 1))
	var nodes []map[string]string
	comesAbout(t, "the list of nodes", func() bool {
		nodes = nil
		for _, row := range rowsOf(t, visit(t, "alice", "/desk/node", nil).body) {
			if row["table"] == "nodes" {
				nodes = append(nodes, row)
			}
		}
		return len(nodes) > 0
	})
	if name, _ := os.Hostname(); len(nodes) != 1 || nodes[0][""] != name+" this one" || nodes[0]["Last seen"] == "" {
		t.Errorf("the nodes: got %v", nodes)
	}
	for _, want := range []string{"<code>badger</code>", "<code>invalid_key</code>", "<code>go1"} {
		if !strings.Contains(string(page.body), want) {
			t.Errorf("the page does not say %q: %s", want, page.body)
		}
	}
}

// TestDeskNodeWithoutStore guards against pages that are gone when they are needed.
func TestDeskNodeWithoutStore(t *testing.T) {
	load(t, onWaiting(t, "moderation_desk"+deskBlock+"moderate"))
	gone := fmt.Errorf("%w: the disk of /var/lib/secret is full", storage.ErrUnavailable)
	disk.health.Store(&gone)
	disk.unread.Store(true)
	defer disk.health.Store(nil)
	defer disk.unread.Store(false)
	for path, want := range map[string]string{"/node": "/var/lib/secret is full", "/guards": "enforcing"} {
		got := visit(t, "alice", path, nil)
		if got.status != http.StatusOK || !strings.Contains(string(got.body), want) {
			t.Errorf("%s: got %d %s, want %q", path, got.status, got.body, want)
		}
	}
}

// TestDeskOfOperatorsWithASession guards against pages that are gone while the store is, or hang with it, because the
// operator has a session beside the role that the configuration gives.
func TestDeskOfOperatorsWithASession(t *testing.T) {
	load(t, onWaiting(t, "moderation_desk /desk"+strings.Replace(deskBlock, "operator", "tokens\n	operator", 1)))
	const alice = "moderation_desk=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
	hanging := func(ctx context.Context) error {
		<-ctx.Done()
		return context.Cause(ctx)
	}
	gone := func(context.Context) error { return storage.ErrUnavailable }
	for name, read := range map[string]func(context.Context) error{"gone": gone, "hanging": hanging} {
		disk.reading.Store(&read)
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/desk/node", nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("X-User", "alice")
		request.Header.Set("Cookie", alice)
		answer, err := client.Do(request)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		answer.Body.Close()
		cancel()
		if answer.StatusCode != http.StatusOK {
			t.Errorf("%s: got %d, want 200", name, answer.StatusCode)
		}
	}
	// Nobody else has a role without the store.
	disk.reading.Store(&gone)
	for user, want := range map[string]int{"": http.StatusServiceUnavailable, "carol": http.StatusServiceUnavailable} {
		if got := visit(t, user, "/desk/node", nil, "Cookie", alice); got.status != want {
			t.Errorf("%q: got %d, want %d", user, got.status, want)
		}
	}
}

// TestDeskSettings guards against settings that are lost, taken for others, or refused without saying which.
func TestDeskSettings(t *testing.T) {
	stayPut(t)
	load(t, guardConfig(t, "moderation_desk /desk"+deskBlock+"moderation_api"))
	visit(t, "alice", "/desk/accounts", url.Values{"id": {"beta"}, "tier": {"free"}})
	const path = "/desk/accounts/beta/settings"
	good := func() url.Values {
		return url.Values{
			"requests_per_month": {"5"}, "requests_per_minute": {""}, "threshold.hate": {"0,7"}, "harm_share": {"0.02"},
			"anchor_day": {"15"},
		}
	}
	for field, bad := range map[string][]string{
		"requests_per_month": {"-1", "many", "1.5"}, "requests_per_minute": {"99999999999999999999"},
		"threshold.hate": {"0", "1", "NaN", "x"}, "harm_share": {"2", "x"}, "anchor_day": {"32", "0", "-1", "x"},
	} {
		for _, value := range bad {
			form := good()
			form.Set(field, value)
			got := visit(t, "alice", path, form)
			at := strings.Index(string(got.body), `id="`+field+`"`)
			if got.status != http.StatusBadRequest || at < 0 {
				t.Fatalf("%s of %s: got %d %s", field, value, got.status, got.body)
			}
			input, _, _ := strings.Cut(string(got.body)[at:], ">")
			if !strings.Contains(input, `aria-invalid="true"`) || !strings.Contains(input, `value="`+value+`"`) ||
				strings.Count(string(got.body), "aria-invalid") != 1 {
				t.Errorf("%s of %s: the field is not named: %s", field, value, got.body)
			}
		}
	}
	if got := string(visit(t, "alice", path, nil).body); strings.Contains(got, `value="5"`) {
		t.Errorf("a refused form has changed something: %s", got)
	}
	if got := visit(t, "alice", path, good()); got.status != http.StatusSeeOther {
		t.Fatalf("a good form: got %d %s", got.status, got.body)
	}
	page := string(visit(t, "alice", path, nil).body)
	for _, want := range []string{`value="5"`, `value="0.7"`, `value="0.02"`, `value="15"`} {
		if !strings.Contains(page, want) {
			t.Errorf("the form lacks %s: %s", want, page)
		}
	}
	overview := string(visit(t, "alice", "/desk/accounts/beta", nil).body)
	if !strings.Contains(overview, `<span data-limit="period">5</span>`) {
		t.Errorf("the limit does not hold: %s", overview)
	}
	visit(t, "alice", path, url.Values{"threshold.hate": {""}})
	page = string(visit(t, "alice", path, nil).body)
	if strings.Contains(page, `value="0.7"`) || !strings.Contains(page, `value="5"`) {
		t.Errorf("an emptied field, and those that the form lacks: %s", page)
	}
	if got := visit(t, "alice", "/desk/accounts/acme/settings", good()); got.status != http.StatusConflict {
		t.Errorf("the settings of a declared account: got %d, want 409", got.status)
	}
}

// TestDeskDeletesAccounts guards against an account that is deleted by a slip, and against one that is not.
func TestDeskDeletesAccounts(t *testing.T) {
	stayPut(t)
	load(t, guardConfig(t, "moderation_desk /desk"+deskBlock+"moderation_api"))
	visit(t, "alice", "/desk/accounts", url.Values{"id": {"beta"}, "tier": {"free"}})
	for _, typed := range []url.Values{{}, {"confirm": {"Beta"}}, {"confirm": {"acme"}}} {
		got := visit(t, "alice", "/desk/accounts/beta/delete", typed)
		if got.status != http.StatusBadRequest || !strings.Contains(string(got.body), `aria-invalid="true"`) {
			t.Errorf("%v: got %d %s", typed, got.status, got.body)
		}
	}
	if got := visit(t, "alice", "/desk/accounts/beta", nil); got.status != http.StatusOK {
		t.Fatalf("the account before: got %d", got.status)
	}
	got := visit(t, "alice", "/desk/accounts/beta/delete", url.Values{"confirm": {"beta"}})
	if got.status != http.StatusSeeOther || got.header.Get("Location") != "/desk/accounts?done=deleted" {
		t.Errorf("deleting: got %d to %q", got.status, got.header.Get("Location"))
	}
	if got := visit(t, "alice", "/desk/accounts/beta", nil); got.status != http.StatusNotFound {
		t.Errorf("the account after: got %d, want 404", got.status)
	}
	log := string(visit(t, "alice", "/desk/audit.jsonl", nil).body)
	if !strings.Contains(log, `"account.delete"`) {
		t.Errorf("the audit log does not tell of it: %s", log)
	}
	if got := visit(t, "alice", "/desk/accounts/acme/delete", url.Values{"confirm": {"acme"}}); got.status != http.StatusConflict {
		t.Errorf("a declared account: got %d, want 409", got.status)
	}
}

// TestDeskKeyScopes guards against a member who makes a key that decides what reviewers decide.
func TestDeskKeyScopes(t *testing.T) {
	load(t, guardConfig(t, "moderation_desk /desk"+deskBlock))
	const path = "/desk/accounts/acme/keys"
	if got := visit(t, "carol", path, url.Values{"scope": {"review"}}); got.status != http.StatusForbidden ||
		strings.Contains(string(got.body), "mod_sk_") {
		t.Errorf("a member: got %d, want 403", got.status)
	}
	if got := string(visit(t, "carol", path, nil).body); strings.Contains(got, `name="scope"`) {
		t.Errorf("a member is offered scopes: %s", got)
	}
	if got := visit(t, "alice", path, url.Values{"scope": {"everything"}}); got.status != http.StatusBadRequest {
		t.Errorf("an unknown scope: got %d, want 400", got.status)
	}
	if got := visit(t, "alice", path, url.Values{"name": {"app"}, "scope": {"review"}}); got.status != http.StatusCreated {
		t.Fatalf("an operator: got %d %s", got.status, got.body)
	}
	rows := rowsOf(t, visit(t, "carol", path, nil).body)
	i := slices.IndexFunc(rows, func(row map[string]string) bool { return strings.HasPrefix(row[""], "app") })
	if i < 0 || rows[i]["Scopes"] != "review" {
		t.Errorf("the list: got %v", rows)
	}
}
