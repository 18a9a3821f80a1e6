// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package stream_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddy-moderation/caddy-moderation/caddymod/guard/stream"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// vile is what these tests reject.
const vile = "kill you"

// moderate rejects every text that says vile.
func moderate(text string) (bool, error) { return !strings.Contains(text, vile), nil }

// recorder returns a function that records what it is asked, and then moderates it.
func recorder(asked *[]string) stream.Moderate {
	return func(text string) (bool, error) {
		*asked = append(*asked, text)
		return moderate(text)
	}
}

// newWriter makes one of the writers.
type newWriter func(io.Writer, stream.Options) io.WriteCloser

func newEvents(w io.Writer, o stream.Options) io.WriteCloser { return stream.NewEvents(w, o) }
func newPlain(w io.Writer, o stream.Options) io.WriteCloser  { return stream.NewPlain(w, o) }
func newText(w io.Writer, o stream.Options) io.WriteCloser   { return stream.NewText(w, o) }

// pass sends chunks through a writer, and returns what came out and the error of Close.
func pass(t testing.TB, make newWriter, o stream.Options, chunks ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	w := make(&out, o)
	for _, chunk := range chunks {
		if n, err := w.Write([]byte(chunk)); err == nil && n != len(chunk) {
			t.Fatalf("got %d of %d bytes written without an error, want all", n, len(chunk))
		}
	}
	err := w.Close()
	if err != nil {
		if _, again := w.Write([]byte("x")); again != err || w.Close() != err {
			t.Errorf("got error %v from Write after Close returned %v, want the same", again, err)
		}
	}
	return out.String(), err
}

// recorded are streams as services send them: testdata/*.sse.
func recorded(t testing.TB) map[string]string {
	t.Helper()
	files, err := filepath.Glob("testdata/*.sse")
	if err != nil || len(files) == 0 {
		t.Fatalf("looking for recorded streams: %v", err)
	}
	streams := map[string]string{}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimSuffix(filepath.Base(file), ".sse")
		streams[name] = string(raw)
		streams[name+"/crlf"] = strings.ReplaceAll(string(raw), "\n", "\r\n")
		streams[name+"/cr"] = strings.ReplaceAll(string(raw), "\n", "\r")
		streams[name+"/mark"] = "\ufeff" + string(raw)
	}
	return streams
}

// pieces cuts s into chunks of n bytes, the first of them of first bytes.
func pieces(s string, first, n int) (chunks []string) {
	for size := first; len(s) > 0; size = n {
		size = min(size, len(s))
		chunks = append(chunks, s[:size])
		s = s[size:]
	}
	return chunks
}

// TestFineStreamsAreUnchanged cuts each stream in every way into two, and into chunks of every size.
func TestFineStreamsAreUnchanged(t *testing.T) {
	t.Parallel()
	o := stream.Options{Moderate: func(string) (bool, error) { return true, nil }}
	for name, recorded := range recorded(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			everyCut(recorded, func(chunks []string) {
				if got, err := pass(t, newEvents, o, chunks...); err != nil || got != recorded {
					t.Fatalf("in %d chunks, the first of %d bytes: got error %v and %q, want the stream unchanged",
						len(chunks), len(chunks[0]), err, got)
				}
			})
		})
	}
}

// everyCut calls try with some hundreds of cuts into two, and with chunks of all small sizes.
func everyCut(s string, try func(chunks []string)) {
	for n := 1; n <= len(s); n += 1 + len(s)/300 {
		try([]string{s[:n], s[n:]})
	}
	for n := 1; n < 12; n++ {
		try(pieces(s, n, n))
	}
}

// TestRejectedStreamsEndAlike compares what is left of streams with something vile in them with golden files, however
// they are cut.
func TestRejectedStreamsEndAlike(t *testing.T) {
	t.Parallel()
	for name, recorded := range recorded(t) {
		if !strings.HasPrefix(name, "vile_") {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := stream.Options{Moderate: moderate}
			want, err := pass(t, newEvents, o, recorded)
			if !errors.Is(err, stream.ErrRejected) {
				t.Fatalf("got error %v, want %v", err, stream.ErrRejected)
			}
			if !strings.Contains(name, "/") {
				golden(t, name, want)
			}
			everyCut(recorded, func(chunks []string) {
				if got, err := pass(t, newEvents, o, chunks...); !errors.Is(err, stream.ErrRejected) || got != want {
					t.Fatalf("in %d chunks, the first of %d bytes: got error %v and\n%s\nwant\n%s", len(chunks),
						len(chunks[0]), err, got, want)
				}
			})
		})
	}
}

// golden compares with a golden file.
func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}

// delta is a chunk of a chat completion.
func delta(text string) string { return deltaOf(0, text) }

func deltaOf(choice int, text string) string {
	return fmt.Sprintf(`data: {"id":"c1","object":"chat.completion.chunk","created":7,"model":"m","choices":[{"index":%d,"delta":{"content":%q},"finish_reason":null}]}`+"\n\n", choice, text)
}

// tool is a chunk that calls a tool, finish one that ends a choice.
const (
	tool   = `data: {"id":"c1","choices":[{"index":0,"delta":{"tool_calls":[{"function":{"arguments":"{}"}}]},"finish_reason":null}]}` + "\n\n"
	finish = `data: {"id":"c1","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\n"
	ping   = ": ping\n\n"
	end    = "data: [DONE]\n\n"
)

// TestReleasesInTime sends events one by one, and checks how many of those that wait are out after each.
func TestReleasesInTime(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		o      stream.Options
		events []string
		out    []int // number of events that are out after each
	}{
		{"what has no text goes at once", stream.Options{}, []string{ping, tool, delta(""), end}, []int{1, 2, 3, 4}},
		{"the end of a sentence", stream.Options{}, []string{delta("Hello"), delta(" there"), delta("."), delta(" Now")}, []int{0, 0, 3, 3}},
		{"the end within an event", stream.Options{}, []string{delta("Hello"), delta(" there. Now"), delta(" it"), delta(" is!")}, []int{0, 1, 1, 4}},
		{"quotes and brackets follow", stream.Options{}, []string{delta(`"Hello`), delta("."), delta(`")`), delta(" \n"), delta("Next")}, []int{0, 2, 3, 4, 4}},
		{"ideographs", stream.Options{}, []string{delta("你"), delta("好。"), delta("」")}, []int{0, 2, 3}},
		{"a new line", stream.Options{}, []string{delta("# Title"), delta("\n"), delta("\n")}, []int{0, 2, 3}},
		{"so many characters", stream.Options{Hold: 10}, []string{delta("one "), delta("two "), delta("three "), delta("x")}, []int{0, 0, 3, 3}},
		{"a long event", stream.Options{Hold: 10}, []string{delta(strings.Repeat("long ", 100)), delta("x")}, []int{1, 1}},
		{"order is kept", stream.Options{}, []string{delta("Hello"), ping, tool, delta(".")}, []int{0, 0, 0, 4}},
		{"a reason to finish", stream.Options{}, []string{delta("Hello"), finish, end}, []int{0, 2, 3}},
		{"the end", stream.Options{}, []string{delta("Hello"), end}, []int{0, 2}},
		{"two choices", stream.Options{}, []string{deltaOf(0, "One"), deltaOf(1, "Two"), deltaOf(1, "."), deltaOf(0, ".")}, []int{0, 0, 0, 4}},
		{"a choice that waits", stream.Options{Hold: 10}, []string{deltaOf(0, "One"), deltaOf(1, "Two."), deltaOf(1, " Three.")}, []int{0, 0, 3}},
		{"half a character", stream.Options{Hold: 3}, []string{`data: "abcd\ud83d"` + "\n\n", `data: "\ude00"` + "\n\n", "data: \"x\"\n\n"}, []int{0, 2, 2}},
		{"own place", stream.Options{Delta: [][]string{{"a", "*"}}}, []string{`data: {"a":{"b":"Hello"}}` + "\n\n", delta("x"), `data: {"a":["."]}` + "\n\n"}, []int{0, 0, 3}},
		{"messages of programs", stream.Options{}, []string{`data: {"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"Sunny and warm"}]}}` + "\n\n", `data: {"say":"hi"}` + "\n\n", `data: {"say":"lol no"}` + "\n\n"}, []int{1, 2, 3}},
		{"words of an unknown place", stream.Options{}, []string{`data: {"say":"Hi"}` + "\n\n", `data: {"say":" all"}` + "\n\n", `data: {"say":"."}` + "\n\n"}, []int{1, 1, 3}},
		{"plain words", stream.Options{}, []string{"data: Hello\n\n", "data:  there.\n\n"}, []int{0, 2}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			flushed := 0
			o := test.o
			o.Moderate = moderate
			o.Flush = func() error { flushed = out.Len(); return nil }
			w := stream.NewEvents(&out, o)
			all := strings.Join(test.events, "")
			for i, event := range test.events {
				if _, err := w.Write([]byte(event)); err != nil {
					t.Fatal(err)
				}
				want := strings.Join(test.events[:test.out[i]], "")
				if out.String() != want {
					t.Fatalf("after event %d: got %q\nwant %q", i, out.String(), want)
				}
				if flushed != out.Len() {
					t.Fatalf("after event %d: got %d bytes flushed, want %d", i, flushed, out.Len())
				}
			}
			if err := w.Close(); err != nil || out.String() != all || flushed != len(all) {
				t.Errorf("at the end: got error %v, %d bytes flushed and %q\nwant %q", err, flushed, out.String(), all)
			}
		})
	}
}

// TestModeratesInContext checks which texts are moderated.
func TestModeratesInContext(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		make   newWriter
		o      stream.Options
		chunks []string
		want   []string
	}{
		{"sentence by sentence", newEvents, stream.Options{}, []string{delta("I will"), delta(" come."), delta(" And"), delta(" see.")},
			[]string{"I will come.", "I will come. And see."}},
		{"together", newEvents, stream.Options{}, []string{delta("I will") + delta(" come.") + delta(" And") + delta(" see.")},
			[]string{"I will come. And see."}},
		{"so much of it, from a word on", newEvents, stream.Options{Context: 12}, []string{delta("Soon I will come."), delta(" And see.")},
			[]string{"Soon I will come.", "will come. And see."}},
		{"a long word of it", newEvents, stream.Options{Context: 8}, []string{delta("I will welcome."), delta(" And see.")},
			[]string{"I will welcome.", "elcome. And see."}},
		{"a part without an end", newEvents, stream.Options{}, []string{delta("Hello"), finish, end}, []string{"Hello"}},
		{"two choices", newEvents, stream.Options{}, []string{deltaOf(0, "One."), deltaOf(1, "Two."), deltaOf(0, " Three.")},
			[]string{"One.", "Two.", "One. Three."}},
		{"all places of a name", newEvents, stream.Options{}, []string{`data: {"choices":[{"delta":{"content":"a."},"delta":{"content":"b.","content":"c."}}]}` + "\n\n"},
			[]string{"a.b.c."}},
		{"escapes", newEvents, stream.Options{}, []string{`data: {"choices":[{"d\u0065lta":{"content":"\u0061\n\ud83d"},"index":1}]}` + "\n\n", `data: {"choices":[{"delta":{"content":"\ude00."},"index":1}]}` + "\n\n"},
			[]string{"a\n😀."}},
		{"lone halves", newEvents, stream.Options{}, []string{`data: "\ude00a\ud83d"` + "\n\n", `data: "b."` + "\n\n"}, []string{"\ufffda\ufffdb."}},
		{"an escaped backslash", newEvents, stream.Options{}, []string{`data: "a\\ud83d."` + "\n\n" + `data: "b\\ud83d"` + "\n\n"}, []string{`a\ud83d.`, `a\ud83d.b\ud83d`}},
		{"lines of data", newEvents, stream.Options{}, []string{"data: {\"choices\":\ndata: [{\"text\":\ndata: \"Hi.\"}]}\n\n"}, []string{"Hi."}},
		{"lines of text", newEvents, stream.Options{}, []string{"data: a\ndata: b\ndata: c\n\n"}, []string{"a\nb\nc"}},
		{"an event without its end", newEvents, stream.Options{}, []string{"data: Hi."}, []string{"Hi."}},
		{"responses", newEvents, stream.Options{}, []string{
			`data: {"type":"response.output_text.delta","delta":"Hi."}` + "\n\n",
			`data: {"type":"response.function_call_arguments.delta","delta":"{a.}"}` + "\n\n",
			`data: {"type":"response.audio.delta","delta":"UklG."}` + "\n\n",
			`data: {"delta":"Ho.","type":"response.refusal.delta"}` + "\n\n"}, []string{"Hi.", "Hi.Ho."}},
		{"messages", newEvents, stream.Options{}, []string{
			`data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hi"}}` + "\n\n",
			`data: {"type":"content_block_stop","index":0}` + "\n\n",
			`data: {"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{."}}` + "\n\n",
			`data: {"type":"content_block_delta","index":2,"delta":{"type":"text_delta","text":"Ho."}}` + "\n\n"}, []string{"Hi", "Hi\nHo."}},
		{"contents", newEvents, stream.Options{}, []string{
			`data: {"candidates":[{"content":{"parts":[{"text":"Hi"}],"role":"model"}}],"modelVersion":"g"}` + "\n\n",
			`data: {"candidates":[{"content":{"parts":[{"text":" there"},{"text":"."}]},"finishReason":"STOP"}]}` + "\n\n"}, []string{"Hi there."}},
		{"an unknown kind", newEvents, stream.Options{}, []string{`data: {"from":"Ann","say":["Hi","there"],"n":{"x":1,"y":"z"}}` + "\n\n", `data: {"type":"chat","say":"Ho"}` + "\n\n"},
			[]string{"Ann", "Ann", "Hi", "Hi", "there", "there", "z", "z", "chat", "Ho", "Ho"}},
		{"messages of people, and what they are together", newEvents, stream.Options{}, []string{`data: {"say":"I will"}` + "\n\n", `data: {"say":"kill"}` + "\n\n"},
			[]string{"I will", "I will", "I will\nkill", "I willkill"}},
		{"the text of an error", newEvents, stream.Options{}, []string{`data: {"error":{"message":"x."}}` + "\n\n"}, []string{"x.", "x."}},
		{"known kinds without text", newEvents, stream.Options{}, []string{`data: {"choices":[],"id":"x","object":"","prompt_filter_results":[{"a":"b."}]}` + "\n\n" + `data: {"type":"ping"}` + "\n\n" + `data: {"type":"response.created","response":{"id":"x."}}` + "\n\n"}, nil},
		{"a container", newEvents, stream.Options{Delta: [][]string{{"out"}}}, []string{`data: {"out":{"a":["x","y."],"b":{"c":1}},"in":"z."}` + "\n\n"},
			[]string{"xy."}},
		{"the whole data", newEvents, stream.Options{Delta: [][]string{{}}}, []string{`data: ["x","y."]` + "\n\n"}, []string{"xy."}},
		{"not this data", newEvents, stream.Options{Delta: [][]string{{"out"}}}, []string{"data: Hello.\n\n", "data: {\n\n"}, nil},
		{"broken data", newEvents, stream.Options{}, []string{`data: {"choices":[{"text":"Hi."}` + "\n\n"}, []string{"Hi.", `{"choices":[{"text":"Hi."}`}},
		{"no text", newEvents, stream.Options{}, []string{"data: 1\n\n", "data: null\n\n", "data: {}\n\n", "data\n\n", "event: x\n\n", "\n\n"}, nil},
		{"text", newText, stream.Options{}, []string{"I wi", "ll come. A", "nd see", "."}, []string{"I will come. ", "I will come. And see."}},
		{"text at a word", newText, stream.Options{Hold: 8}, []string{"one two three ", "four."}, []string{"one two ", "one two three four."}},
		{"text without words", newText, stream.Options{Hold: 4, Context: 4}, []string{"abcdefghij"}, []string{"abcd", "abcdefgh", "efghij"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var asked []string
			o := test.o
			o.Moderate = recorder(&asked)
			if got, err := pass(t, test.make, o, test.chunks...); err != nil {
				t.Fatalf("got error %v and %q, want no error", err, got)
			}
			if fmt.Sprintf("%q", asked) != fmt.Sprintf("%q", test.want) {
				t.Errorf("got %q\nwant %q", asked, test.want)
			}
		})
	}
}

// TestNamesAreNoText checks that what events are called counts only where it is to be rejected, and so do further
// views.
func TestNamesAreNoText(t *testing.T) {
	t.Parallel()
	var texts, names []string
	o := stream.Options{Moderate: recorder(&texts), RejectOnly: recorder(&names)}
	event := func(typ, text string) string {
		return fmt.Sprintf(`data: {"event":"on_%s","run_id":"a9b3d7c1-5b7e-4a54-9f0e-1c3d5e7f9a1b","at":"2025-01-01T10:00:00Z","data":{"content":%q}}`, typ, text) + "\n\n"
	}
	if _, err := pass(t, newEvents, o, event("model", "Hi"), event("model", " there."), event("tool", "Ho."),
		end); err != nil {
		t.Fatal(err)
	}
	if got, want := fmt.Sprintf("%q %q", texts, names),
		`["Hi" "Hi there." "Ho."] ["on_model" "Hi" "on_tool" "Hi there.Ho." "Ho."]`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestTextOfAKnownAPIIsNoName guards against answers of language models that count only where they are to be rejected,
// and with hardly anything of what went before them.
func TestTextOfAKnownAPIIsNoName(t *testing.T) {
	t.Parallel()
	before := strings.Repeat("So it goes on. ", 20)
	for name, chunks := range map[string][]string{
		"chat":     {delta(before), delta("Hi.")},
		"messages": {`data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"` + before + `"}}` + "\n\n", `data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hi."}}` + "\n\n"},
		"a string": {`data: "` + before + `"` + "\n\n", `data: "Hi."` + "\n\n"},
	} {
		var texts, names []string
		o := stream.Options{Moderate: recorder(&texts), RejectOnly: recorder(&names)}
		if _, err := pass(t, newEvents, o, chunks...); err != nil {
			t.Fatal(err)
		}
		if len(names) > 0 || len(texts) != 2 || texts[1] != before+"Hi." {
			t.Errorf("%s: got the texts %q and the names %q, want no name, and the last text behind all others", name, texts, names)
		}
	}
}

// TestJudged checks that each part of a text is told once, however it comes and whatever becomes of it.
func TestJudged(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		make   newWriter
		stream string
		want   string
	}{
		"a chat":          {newEvents, delta("One. ") + delta("Two") + delta(" three.") + delta(" Four") + finish + end, "One. Two three. Four"},
		"a rejected chat": {newEvents, delta("One. ") + delta("Two. ") + delta(vile+".") + delta(" Never."), "One. Two. " + vile + "."},
		"text":            {newPlain, "One. Two three. Four", "One. Two three. Four"},
		"rejected text":   {newText, "One. Two. " + vile + ". Never.", "One. Two. " + vile + "."},
		"events as text":  {newPlain, "data: \"One. Two.\"\n\ndata: \" Three.\"\n\n", "One. Two. Three."},
		"names":           {newEvents, `data: {"id":"a9b3d7c1-5b7e-4a54","choices":[{"delta":{"role":"assistant","content":"Hi."}}]}` + "\n\n", "Hi."},
		"a small context": {newText, strings.Repeat("One two three. ", 100), strings.Repeat("One two three. ", 100)},
	} {
		for _, size := range []int{1, 7, 1 << 20} {
			var told strings.Builder
			o := stream.Options{
				Moderate: moderate, Judged: func(text []byte) { told.Write(text) }, Context: 20,
			}
			_, _ = pass(t, test.make, o, pieces(test.stream, size, size)...)
			// What follows the end of a sentence belongs to it, and is not told if nothing comes behind it.
			if got := told.String(); strings.TrimSpace(got) != strings.TrimSpace(test.want) {
				t.Errorf("%s, in pieces of %d bytes: got %q, want %q", name, size, got, test.want)
			}
		}
	}
}

// TestTextIsReleasedInTime sends plain text in chunks, and checks what is out after each.
func TestTextIsReleasedInTime(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		hold   int
		chunks []string
		out    []string
		err    error
	}{
		{"sentences", 0, []string{"Hello", " there", ". Now", " it is!)"}, []string{"", "", "Hello there. ", "Hello there. Now it is!)"}, nil},
		{"what follows", 0, []string{"(Hello.", ") ", "\n", "x"}, []string{"(Hello.", "(Hello.) ", "(Hello.) \n", "(Hello.) \n"}, nil},
		{"words", 10, []string{"one two three", " fou"}, []string{"one two ", "one two "}, nil},
		{"no words", 4, []string{"äöüßäöüß"}, []string{"äöüßäöüß"}, nil},
		{"characters in two", 2, []string{"a\xf0", "\x9f", "\x98", "\x80"}, []string{"", "", "", "a😀"}, nil},
		{"other bytes", 2, []string{"\xff\xfe\xc3", "\xff"}, []string{"\xff\xfe", "\xff\xfe\xc3\xff"}, nil},
		{"rejected", 0, []string{"Hello. I", " kill", " you", ". Bye."}, []string{"Hello. ", "Hello. ", "Hello. ", "Hello. "}, stream.ErrRejected},
		{"rejected over sentences", 0, []string{"I. kill", " you.", "x."}, []string{"I. ", "I. ", "I. "}, stream.ErrRejected},
		{"rejected at the end", 0, []string{"I. kill", " you"}, []string{"I. ", "I. "}, stream.ErrRejected},
		{"rejected when it is cut", 12, []string{"I will kill you "}, []string{"I will kill "}, stream.ErrRejected},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			flushed := 0
			w := stream.NewText(&out, stream.Options{Moderate: moderate, Hold: test.hold,
				Flush: func() error { flushed = out.Len(); return nil }})
			for i, chunk := range test.chunks {
				_, _ = w.Write([]byte(chunk)) // the error is that of Close
				if out.String() != test.out[i] || flushed != out.Len() {
					t.Fatalf("after chunk %d: got %q with %d bytes flushed, want %q", i, out.String(), flushed,
						test.out[i])
				}
			}
			err := w.Close()
			want := strings.Join(test.chunks, "")
			if test.err != nil {
				want = test.out[len(test.out)-1]
			}
			if !errors.Is(err, test.err) || out.String() != want {
				t.Errorf("at the end: got error %v and %q, want %v and %q", err, out.String(), test.err, want)
			}
		})
	}
}

// TestTextIsUnchanged cuts text in every way.
func TestTextIsUnchanged(t *testing.T) {
	t.Parallel()
	fine := "Hello there. How are you? 你好。再见! \xff\xfe \xf0\x9f Ünicode… \"Quoted.\" 3.14 " + strings.Repeat("long ",
		20) + strings.Repeat("x", 50) + "\xf0\x9f\x98"
	rejected := fine + " I. will kill you. Bye."
	for _, text := range []string{fine, rejected} {
		for _, hold := range []int{0, 1, 7, 40} {
			o := stream.Options{Moderate: moderate, Hold: hold, Context: 50}
			want, wantErr := pass(t, newText, o, text)
			if (wantErr == nil) != (text == fine) || wantErr == nil && want != text {
				t.Fatalf("hold %d: got error %v and %q, want %q unchanged or rejected", hold, wantErr, want, text)
			}
			everyCut(text, func(chunks []string) {
				if got, err := pass(t, newText, o, chunks...); err != wantErr || got != want {
					t.Fatalf("hold %d, in %d chunks, the first of %d bytes: got %v, %q, want %v, %q", hold,
						len(chunks), len(chunks[0]), err, got, wantErr, want)
				}
			})
		}
	}
}

// errDown is the error of a moderation that does not work.
var errDown = errors.New("moderation is down")

// TestModerationThatFails checks that the stream ends or continues.
func TestModerationThatFails(t *testing.T) {
	t.Parallel()
	down := func(string) (bool, error) { return false, errDown }
	all := delta("Hello.") + end
	if got, err := pass(t, newEvents, stream.Options{Moderate: down, FailOpen: true}, all); err != nil || got != all {
		t.Errorf("events that fail open: got error %v and %q, want %q", err, got, all)
	}
	got, err := pass(t, newEvents, stream.Options{Moderate: down}, all)
	if !errors.Is(err, stream.ErrUnjudged) || !errors.Is(err, errDown) || errors.Is(err, stream.ErrRejected) ||
		!strings.Contains(got, "content_filter") || strings.Contains(got, "Hello") {
		t.Errorf("events that fail closed: got error %v and %q, want %v and the final events", err, got,
			stream.ErrUnjudged)
	}
	if got, err := pass(t, newText, stream.Options{Moderate: down, FailOpen: true}, "Hello. You"); err != nil ||
		got != "Hello. You" {
		t.Errorf("text that fails open: got error %v and %q, want it unchanged", err, got)
	}
	if got, err := pass(t, newText, stream.Options{Moderate: down}, "Hello. You"); !errors.Is(err, errDown) ||
		got != "" {
		t.Errorf("text that fails closed: got error %v and %q, want %v and nothing", err, got, errDown)
	}
}

// TestHugeEvents checks that huge events are moderated as plain text, whatever else fails: after what is before them,
// and before what is after them.
func TestHugeEvents(t *testing.T) {
	t.Parallel()
	words := strings.Repeat("word ", stream.MaxEvent/4)
	huge, vileHuge := delta(words), delta(words+strings.ReplaceAll(vile, "k", `\u006b`)+". "+words)
	vileHuge = strings.ReplaceAll(vileHuge, `\\u`, `\u`)
	fine, bad := delta("Hello"), delta("I kill you.")
	for n := 10_000; n < len(huge); n *= 100 {
		for _, open := range []bool{false, true} {
			o := stream.Options{Moderate: moderate, FailOpen: open}
			got, err := pass(t, newEvents, o, pieces(fine+huge+ping+fine+bad, n, n)...)
			if !errors.Is(err, stream.ErrRejected) || !strings.HasPrefix(got, fine+huge+ping+"data: ") ||
				!strings.HasSuffix(got, end) {
				t.Errorf("in chunks of %d bytes: got error %v and %d bytes, want %d and the final events", n, err,
					len(got), len(fine+huge+ping))
			}
			got, err = pass(t, newEvents, o, pieces(fine+vileHuge+fine, n, n)...)
			if !errors.Is(err, stream.ErrRejected) || strings.Contains(got, "ill you") ||
				!strings.HasSuffix(got, "[DONE]\n\n") {
				t.Errorf("in chunks of %d bytes: got error %v and %d bytes, want nothing vile and the final events",
					n, err, len(got))
			}
		}
	}
}

// TestMemoryIsBounded sends text that never ends behind an alternative that waits, and events without text behind text.
func TestMemoryIsBounded(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	w := stream.NewEvents(&out, stream.Options{Moderate: moderate, Hold: 1 << 30})
	sent := 0
	for i := range 20000 {
		event := tool
		if i%2 == 0 {
			event = deltaOf(i%1000, "word")
		}
		n, err := w.Write([]byte(event))
		if err != nil {
			t.Fatal(err)
		}
		if sent += n; sent-out.Len() > stream.MaxEvent+len(event) {
			t.Fatalf("got %d bytes held, want %d at most", sent-out.Len(), stream.MaxEvent+len(event))
		}
	}
	if err := w.Close(); err != nil || out.Len() != sent {
		t.Errorf("got error %v and %d bytes, want %d", err, out.Len(), sent)
	}
}

// TestCallsAreBounded counts the moderations of text that is cut small, and of text that comes at once.
func TestCallsAreBounded(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("a.b ", 10000)
	count := 0
	o := stream.Options{Moderate: func(string) (bool, error) { count++; return true, nil }}
	if _, err := pass(t, newText, o, text); err != nil || count > len(text)/stream.DefaultContext+10 {
		t.Errorf("%d characters at once: got error %v after %d calls, want few", len(text), err, count)
	}
	count = 0
	if _, err := pass(t, newText, o, pieces(text, 1, 1)...); err != nil || count > 2*10000 {
		t.Errorf("20000 sentences: got error %v after %d calls, want one for each at most", err, count)
	}
	count = 0
	words := strings.Repeat("word ", 10000)
	if _, err := pass(t, newText, o, pieces(words, 1, 1)...); err != nil || count > len(words)/stream.DefaultHold+1 {
		t.Errorf("%d characters: got error %v after %d calls, want %d at most", len(words), err, count,
			len(words)/stream.DefaultHold+1)
	}
}

// errGone is the error of a client that has left.
var errGone = errors.New("gone")

// gone is a client that leaves after some writes.
type gone struct{ left int }

func (g *gone) Write(p []byte) (int, error) {
	if g.left--; g.left < 0 {
		return 0, errGone
	}
	return len(p), nil
}

// TestClientThatLeaves checks that a client that has left gets nothing more, and that nothing more is moderated.
func TestClientThatLeaves(t *testing.T) {
	t.Parallel()
	asked := 0
	o := stream.Options{Moderate: func(string) (bool, error) { asked++; return true, nil }}
	events := stream.NewEvents(&gone{1}, o)
	text := stream.NewText(&gone{1}, o)
	for range 3 {
		_, _ = events.Write([]byte(delta("Hello.")))
		_, _ = text.Write([]byte("Hello."))
	}
	if err := events.Close(); err != errGone {
		t.Errorf("closing events: got error %v, want %v", err, errGone)
	}
	if err := text.Close(); err != errGone {
		t.Errorf("closing text: got error %v, want %v", err, errGone)
	}
	if asked != 4 {
		t.Errorf("got %d calls, want 4", asked)
	}
}

// TestOwnFinalEvents replaces the final events.
func TestOwnFinalEvents(t *testing.T) {
	t.Parallel()
	o := stream.Options{Moderate: moderate, Final: [][]byte{[]byte(`{"error":"moderated"}`), []byte("two\r\nlines")}}
	got, err := pass(t, newEvents, o, "data: Hello.\n\ndata: I kill you.\n\n")
	want := "data: Hello.\n\ndata: {\"error\":\"moderated\"}\n\ndata: two\ndata: lines\n\n"
	if !errors.Is(err, stream.ErrRejected) || got != want {
		t.Errorf("got error %v and %q, want %v and %q", err, got, stream.ErrRejected, want)
	}
}

// TestFilteredAnswers checks that filtered answers say so, and keep nothing that may be text.
func TestFilteredAnswers(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, answer, want string }{
		{"chat", `{"id":"c","object":"chat.completion","created":7,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"x"},"finish_reason":"stop"},{"index":1,"message":{"content":"y"}}],"usage":{"total_tokens":3},"citations":["x"]}`,
			`{"id":"c","object":"chat.completion","created":7,"model":"m","usage":{"total_tokens":3},"choices":[{"index":0,"message":{"role":"assistant","content":"","refusal":null},"logprobs":null,"finish_reason":"content_filter"},{"index":1,"message":{"role":"assistant","content":"","refusal":null},"logprobs":null,"finish_reason":"content_filter"}]}`},
		{"completion", `{"object":"text_completion","choices":[]}`, `{"object":"text_completion","choices":[{"index":0,"text":"","logprobs":null,"finish_reason":"content_filter"}]}`},
		{"response", `{"id":"r","object":"response","status":"completed","output":[{"x":"y"}]}`, `{"id":"r","object":"response","status":"incomplete","incomplete_details":{"reason":"content_filter"},"error":null,"output":[]}`},
		{"message", `{"type":"message","role":"assistant","content":[{"text":"x"}],"stop_reason":"end_turn"}`, `{"type":"message","role":"assistant","content":[],"stop_reason":"refusal","stop_sequence":null}`},
		{"contents", `{"candidates":[{"content":{"parts":[{"text":"x"}]},"finishReason":"STOP"}],"usageMetadata":{"totalTokenCount":3},"modelVersion":"g"}`,
			`{"usageMetadata":{"totalTokenCount":3},"modelVersion":"g","candidates":[{"index":0,"content":{"role":"model","parts":[]},"finishReason":"SAFETY"}]}`},
		{"Ollama's chat", `{"model":"m","created_at":"2023","message":{"role":"assistant","content":"x"},"done":true,"done_reason":"stop","eval_count":3}`,
			`{"model":"m","created_at":"2023","eval_count":3,"message":{"role":"assistant","content":""},"done":true,"done_reason":"content_filter"}`},
		{"Ollama's generate", `{"model":"m","response":"x","done":true,"context":[1]}`, `{"model":"m","response":"","done":true,"done_reason":"content_filter"}`},
		{"Cohere", `{"id":"c","finish_reason":"COMPLETE","message":{"role":"assistant","content":[{"type":"text","text":"x"}]}}`,
			`{"id":"c","finish_reason":"ERROR","message":{"role":"assistant","content":[]}}`},
		{"text generation", `{"generated_text":"x","details":{"seed":1}}`, `{"generated_text":""}`},
		{"something else", `{"object":"list"}`, ""},
		{"something with a message", `{"message":{"role":"assistant"},"ok":true}`, ""},
		{"an array", `[]`, ""},
		{"half an answer", `{"object":"chat.completion","choices":[`, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if got := string(stream.Filtered([]byte(test.answer))); got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
	}
}

// FuzzEvents looks for streams that are changed, or that are handled in another way when they are cut in another way.
func FuzzEvents(f *testing.F) {
	for name, recorded := range recorded(f) {
		if !strings.Contains(name, "/") {
			f.Add(recorded, 7, 20)
		}
	}
	f.Add("data: I\r\rdata:  kill you.\r\n\r\n\n:\n", 3, 3)
	f.Fuzz(func(t *testing.T, recorded string, n, hold int) {
		n = 1 + (n&0xffff)%(len(recorded)+1)
		o := stream.Options{Moderate: func(string) (bool, error) { return true, nil }, Hold: hold % 100, Context: 50}
		if got, err := pass(t, newEvents, o, pieces(recorded, n, n)...); err != nil || got != recorded {
			t.Fatalf("got error %v and %q, want the stream unchanged", err, got)
		}
		o.Moderate = moderate
		want, wantErr := pass(t, newEvents, o, recorded)
		got, err := pass(t, newEvents, o, pieces(recorded, n, n)...)
		if err != wantErr || got != want {
			t.Fatalf("in chunks of %d bytes: got %v, %q, want %v, %q", n, err, got, wantErr, want)
		}
	})
}

// FuzzLines does the same for lines of JSON.
func FuzzLines(f *testing.F) {
	for i := range formats {
		f.Add(strings.Join(formats[i].write("Hello.", " I", " ki", "ll you."), ""), 7, 20)
	}
	f.Add("[[1,{\"a\":\"I kill\"}, 7 ]\n{\"a\":\" you", 3, 3)
	f.Fuzz(func(t *testing.T, recorded string, n, hold int) {
		n = 1 + (n&0xffff)%(len(recorded)+1)
		for _, make := range []newWriter{newLines, newPlain} {
			o := stream.Options{Moderate: func(string) (bool, error) { return true, nil }, Hold: hold % 100,
				Context: 50}
			if got, err := pass(t, make, o, pieces(recorded, n, n)...); err != nil || got != recorded {
				t.Fatalf("got error %v and %q, want the stream unchanged", err, got)
			}
			o.Moderate = moderate
			want, wantErr := pass(t, make, o, recorded)
			got, err := pass(t, make, o, pieces(recorded, n, n)...)
			if err != wantErr || got != want {
				t.Fatalf("in chunks of %d bytes: got %v, %q, want %v, %q", n, err, got, wantErr, want)
			}
		}
		_ = stream.ExtractTexts([]byte(recorded))
		growth := new(stream.Detector)
		growth.Add([]byte(recorded))
		_ = growth.Streams()
	})
}

// FuzzText does the same for plain text.
func FuzzText(f *testing.F) {
	f.Add("Hello there. I kill you. Bye.", 3, 10)
	f.Add("\xff\xf0\x9f.", 1, 1)
	f.Fuzz(func(t *testing.T, text string, n, hold int) {
		n = 1 + (n&0xffff)%(len(text)+1)
		o := stream.Options{Moderate: moderate, Hold: hold % 100, Context: 50}
		want, wantErr := pass(t, newText, o, text)
		if wantErr == nil && want != text || !strings.HasPrefix(text, want) {
			t.Fatalf("got error %v and %q, want %q or its beginning", wantErr, want, text)
		}
		if got, err := pass(t, newText, o, pieces(text, n, n)...); err != wantErr || got != want {
			t.Fatalf("in chunks of %d bytes: got %v, %q, want %v, %q", n, err, got, wantErr, want)
		}
	})
}

// BenchmarkEvents streams an answer token by token. Its moderation costs nothing.
func BenchmarkEvents(b *testing.B) {
	for _, name := range []string{"chat", "vile_messages"} {
		recorded := recorded(b)[name]
		events := strings.SplitAfter(recorded, "\n\n")
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(recorded)))
			b.ReportAllocs()
			for b.Loop() {
				w := stream.NewEvents(io.Discard, stream.Options{Moderate: func(string) (bool, error) {
					return true,
						nil
				}})
				for _, event := range events {
					_, _ = io.WriteString(w, event)
				}
			}
		})
	}
}
