// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package stream

import (
	"slices"
	"strings"
)

// kind is the interface that a stream speaks, as far as it matters for how it ends.
type kind uint8

const (
	unknownKind    kind = iota
	choicesKind         // OpenAI's chat completions and completions, and all that speak like them
	responsesKind       // OpenAI's responses
	assistantsKind      // OpenAI's assistants
	messagesKind        // Anthropic's messages
	contentsKind        // Gemini's contents
	ollamaKind          // Ollama's /api/chat and /api/generate
	dataKind            // the AI SDK's data stream protocol, version 1
	uiKind              // the AI SDK's stream of user interface messages
	cohereKind          // Cohere's chat, version 2
	cohereLineKind      // Cohere's chat, version 1
	difyKind
	textGenerationKind // Hugging Face's text generation inference
	llamaKind          // llama.cpp's /completion
	langServeKind
)

// meaning says what stands at a place: any of these.
type meaning uint16

const (
	isText       meaning = 1 << iota // what an option names as text
	isOutput                         // text only if the event's type says so: arguments of tools and sound stand at the same place
	isFinish                         // anything but null ends the text
	isEnd                            // true ends the text
	isType                           // the type of an event
	isIndex                          // of a content block
	isSequence                       // the number of an event of responses
	isResponse                       // of responses: what the answer is so far
	isIdentifier                     // one of meta's
	isFamiliar                       // only streams have it whose other places are known
	isUsual                          // what such streams have besides texts: it is not read there
	isKept                           // not usual, within what is
	isBranch                         // its elements are alternatives
	isIgnored                        // never read
)

// inherited are the meanings that hold for all that is within a value.
const inherited = isText | isUsual

// place is a JSON Pointer in parts and what stands there.
type place struct {
	parts   []string
	meaning meaning
	kind    kind  // the interface that has it, if no other does
	text    *node // what texts of an option's place are known by
}

// places makes places of pointers.
func places(m meaning, pointers ...string) (all []place) {
	for _, pointer := range pointers {
		all = append(all, place{parts: strings.Split(pointer, "/")[1:], meaning: m})
	}
	return all
}

func placeOf(m meaning, k kind, pointer string) place {
	return place{parts: strings.Split(pointer, "/")[1:], meaning: m, kind: k}
}

// structure are the places that tell how a stream goes.
func structure() []place {
	return slices.Concat(
		[]place{
			placeOf(isFamiliar|isBranch, choicesKind, "/choices"),
			placeOf(isFamiliar|isBranch, contentsKind, "/candidates"),
			placeOf(isEnd, ollamaKind, "/done"),
			placeOf(isEnd, llamaKind, "/stop"),
			placeOf(isEnd, cohereLineKind, "/is_finished"),
			placeOf(0, textGenerationKind, "/token/text"),
			placeOf(0, difyKind, "/task_id"),
		},
		places(isFinish, "/choices/*/finish_reason", "/candidates/*/finishReason", "/delta/stop_reason", "/error"),
		places(isType, "/type"),
		places(isIndex, "/index"),
		places(isSequence, "/sequence_number"),
		places(isResponse, "/response"),
		places(isIdentifier, "/id", "/object", "/created", "/model", "/created_at"),
	)
}

// noText are the places of the streams that are known where nothing stands that anybody reads: names of kinds, identifiers,
// what is computed, and what a model says to programs. Everything else is text.
func noText() []place {
	return slices.Concat(
		places(isIgnored,
			"/choices/*/delta/tool_calls", "/choices/*/delta/function_call", "/choices/*/message/tool_calls", "/choices/*/message/function_call",
			"/choices/*/logprobs", "/choices/*/delta/audio/data", "/choices/*/message/audio/data", "/choices/*/content_filter_results",
			"/choices/*/delta/reasoning_details/*/data", "/candidates/*/content/parts/*/functionCall",
			"/candidates/*/content/parts/*/inlineData/data", "/candidates/*/content/parts/*/thoughtSignature",
			"/candidates/*/safetyRatings", "/candidates/*/logprobsResult"),
		places(isOutput, "/delta", "/arguments", "/input", "/code", "/partial_image_b64", "/item/arguments", "/item/input", "/item/code", "/item/result"),
		places(isUsual,
			"/id", "/object", "/model", "/type", "/system_fingerprint", "/service_tier", "/obfuscation", "/usage", "/provider",
			"/prompt_filter_results", "/choices/*/delta/role", "/choices/*/message/role", "/choices/*/finish_reason",
			"/choices/*/native_finish_reason", "/choices/*/delta/content/*/type", "/choices/*/delta/audio/id",
			"/candidates/*/content/role", "/candidates/*/finishReason", "/usageMetadata", "/modelVersion", "/responseId",
			"/message", "/content_block/type", "/content_block/id", "/content_block/name", "/content_block/input", "/content_block/signature",
			"/delta/type", "/delta/stop_reason", "/delta/stop_sequence", "/delta/partial_json", "/delta/signature",
			"/item_id", "/item/id", "/item/type", "/item/status", "/item/role", "/item/call_id", "/item/encrypted_content", "/part/type",
			"/response/*", "/response/output/*/id", "/response/output/*/type", "/response/output/*/status", "/response/output/*/role",
			"/response/output/*/call_id", "/response/output/*/arguments", "/response/output/*/input", "/response/output/*/code",
			"/response/output/*/result", "/response/output/*/encrypted_content", "/response/output/*/content/*/type",
			"/response/output/*/content/*/logprobs", "/logprobs"),
		places(isKept, "/response/output", "/message/content"),
	)
}

// knownWays are the ways to all places that are known.
var knownWays = waysTo(slices.Concat(structure(), noText()))

func waysTo(places []place) []*place {
	ways := make([]*place, len(places))
	for i := range places {
		ways[i] = &places[i]
	}
	return ways
}

// standing is how the values at a place are held back.
type standing uint8

const (
	anything standing = iota // by what they look like
	running                  // they are pieces of a text, whatever they look like
	label                    // words among them are no pieces of a text
)

// standingOf says what a member is by its name. It decides what waits for the end of a sentence, and never what is read.
func standingOf(name string) standing {
	switch name {
	case "content", "text", "delta", "answer", "response", "token", "completion", "generated_text", "message", "output", "thinking",
		"reasoning", "reasoning_content", "value", "data", "transcript", "refusal", "output_text", "v", "chunk", "result", "parts",
		"thought", "summary", "body", "reply", "t", "content_delta", "textDelta", "text_delta", "outputText", "0:", "g:":
		return running
	case "type", "object", "role", "id", "model", "event", "name", "status", "created", "created_at", "index", "node", "finish_reason",
		"finishReason", "stop_reason", "done_reason", "event_type", "op", "path", "p", "o", "kind", "state", "step", "stage", "action",
		"author", "sender", "user", "username", "source", "url", "href", "format", "language", "lang", "version", "mode", "agent",
		"run_type", "langgraph_node", "ls_provider", "ls_model_name", "ls_model_type", "tags", "object_type", "channel", "topic",
		"stopReason", "stop_type", "finishType", "provider", "timestamp", "time", "date", "key", "ns":
		return label
	}
	if strings.HasSuffix(name, "_id") || strings.HasSuffix(name, "Id") || strings.HasSuffix(name, "ID") || strings.HasSuffix(name, "_at") {
		return label
	}
	return anything
}

// isPieces reports whether a member holds pieces of a text in every stream that has it.
func isPieces(name string) bool {
	switch name {
	case "delta", "token", "chunk", "textDelta", "text_delta", "content_delta", "completion":
		return true
	}
	return false
}

// node is a place of a stream. Elements of an array are one place, and so are members whose names are numbers.
type node struct {
	name     string
	children []*node
	ways     []*place // places that it leads to, or is, or is within
	depth    int
	meaning  meaning
	kind     kind
	standing standing
	branch   bool // it is within an alternative
	certain  bool // it holds pieces of a text, whatever the stream
	// first is the first variant of the text here, mixed says that there are others.
	first variant
	begun bool
	mixed bool
}

// variant tells texts at the same place apart: by the alternative and by the type of the events.
type variant struct {
	choice int
	typ    string
}

// Limits of what is known of a stream.
const (
	maxNodes = 1024
	maxName  = 64 // bytes
)

// tree are the places of a stream as it shows them.
type tree struct {
	root, rest *node // rest is where all is for which there is no more room
	raw        *node // the text of events that are too large to be read
	count      int
	// nodes and ways are memory that is not used yet.
	nodes []node
	ways  []*place
	named bool // only places that options name are read
}

func newTree(o *Options) *tree {
	t := &tree{named: len(o.Delta) > 0, ways: make([]*place, 0, 128)}
	t.root, t.rest, t.raw = &node{standing: running}, new(node), &node{standing: running}
	if t.root.ways = knownWays; t.named {
		t.root.ways = waysTo(structure())
	}
	for _, parts := range o.Delta[:min(len(o.Delta), MaxDelta)] {
		t.root.ways = append(t.root.ways, &place{parts: parts, meaning: isText, text: &node{standing: running}})
	}
	t.root.settle()
	return t
}

// settle works out what a node means.
func (n *node) settle() {
	for _, way := range n.ways {
		switch {
		case len(way.parts) == n.depth:
			n.meaning |= way.meaning
			if way.kind != unknownKind {
				n.kind = way.kind
			}
		case len(way.parts) < n.depth:
			n.meaning |= way.meaning & inherited
		}
	}
	if n.meaning&isKept != 0 {
		n.meaning &^= isUsual
		n.ways = slices.DeleteFunc(slices.Clone(n.ways), func(way *place) bool {
			return len(way.parts) <= n.depth && way.meaning&isUsual != 0
		})
	}
}

// child returns a member or an element of a node.
func (t *tree) child(n *node, name string) *node {
	for _, child := range n.children {
		if child.name == name {
			return child
		}
	}
	if n == t.rest {
		return n
	}
	if len(t.nodes) == 0 {
		t.nodes = make([]node, 16)
	}
	child := &t.nodes[0]
	t.nodes = t.nodes[1:]
	*child = node{depth: n.depth + 1, standing: standingOf(name), branch: n.branch || n.meaning&isBranch != 0, certain: isPieces(name)}
	first := len(t.ways)
	if name == "*" && n != t.root {
		child.standing, child.certain = n.standing, n.certain
	}
	for _, way := range n.ways {
		if n.depth >= len(way.parts) && way.meaning&inherited != 0 || n.depth < len(way.parts) && (way.parts[n.depth] == "*" || way.parts[n.depth] == name) {
			t.ways = append(t.ways, way)
		}
	}
	child.ways = t.ways[first:len(t.ways):len(t.ways)]
	switch {
	case t.count < maxNodes:
		t.count++
		child.name = strings.Clone(name)
		n.children = append(n.children, child)
	case !t.named:
		return t.rest
	}
	child.settle()
	return child
}

// memberOf is the name by which a member is known.
func (t *tree) memberOf(name string) string {
	if t.named {
		return name
	}
	digits := 0
	for _, c := range []byte(name) {
		if c >= '0' && c <= '9' {
			digits++
		}
	}
	// Numbers and identifiers differ from event to event.
	if digits > 0 && digits == len(name) || digits >= 3 && len(name) >= 16 || len(name) > maxName {
		return "*"
	}
	return name
}
