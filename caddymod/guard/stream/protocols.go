// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package stream

import (
	"slices"
	"strings"
)

// protocol is the API that a stream is from, as far as it matters for how to end it.
type protocol uint8

const (
	unknownProtocol       protocol = iota
	completionsProtocol            // OpenAI's chat completions and completions, and compatible APIs
	responsesProtocol              // OpenAI's responses
	assistantsProtocol             // OpenAI's assistants
	messagesProtocol               // Anthropic's messages
	geminiProtocol                 // Gemini's contents
	ollamaProtocol                 // Ollama's /api/chat and /api/generate
	aiSDKDataProtocol              // the AI SDK's data stream protocol, version 1
	aiSDKMessagesProtocol          // the AI SDK's stream of user interface messages
	cohereProtocol                 // Cohere's chat, version 2
	cohereV1Protocol               // Cohere's chat, version 1
	difyProtocol
	textGenerationProtocol // Hugging Face's text generation inference
	llamaProtocol          // llama.cpp's /completion
	langServeProtocol
)

// meaning says what stands at a place: a set of these.
type meaning uint16

const (
	isText       meaning = 1 << iota // text, by an option
	isOutput                         // text only for some types of events: tool arguments and audio stand here, too
	isFinish                         // anything except null ends the text
	isEnd                            // true ends the text
	isType                           // the type of an event
	isIndex                          // the index of a content block
	isSequence                       // OpenAI's responses: the number of the event
	isResponse                       // OpenAI's responses: the response so far
	isIdentifier                     // a member of meta
	isFamiliar                       // only protocols whose other places are known have it
	isUsual                          // no text in such protocols
	isKept                           // text within what is usual
	isBranch                         // its elements are alternatives
	isIgnored                        // never read
)

// inherited are the meanings that hold for everything within a value.
const inherited = isText | isUsual

// place is a JSON Pointer, split into parts, and what stands there.
type place struct {
	parts    []string
	meaning  meaning
	protocol protocol // the protocol that alone has it, if any
	text     *node    // the node of all texts at an option's place
}

// places returns the places of pointers.
func places(m meaning, pointers ...string) (all []place) {
	for _, pointer := range pointers {
		all = append(all, place{parts: strings.Split(pointer, "/")[1:], meaning: m})
	}
	return all
}

func placeOf(m meaning, k protocol, pointer string) place {
	return place{parts: strings.Split(pointer, "/")[1:], meaning: m, protocol: k}
}

// structurePlaces returns the places that tell the structure of a stream.
func structurePlaces() []place {
	return slices.Concat(
		[]place{
			placeOf(isFamiliar|isBranch, completionsProtocol, "/choices"),
			placeOf(isFamiliar|isBranch, geminiProtocol, "/candidates"),
			placeOf(isEnd, ollamaProtocol, "/done"),
			placeOf(isEnd, llamaProtocol, "/stop"),
			placeOf(isEnd, cohereV1Protocol, "/is_finished"),
			placeOf(0, textGenerationProtocol, "/token/text"),
			placeOf(0, difyProtocol, "/task_id"),
		},
		places(isFinish, "/choices/*/finish_reason", "/candidates/*/finishReason", "/delta/stop_reason", "/error"),
		places(isType, "/type"),
		places(isIndex, "/index"),
		places(isSequence, "/sequence_number"),
		places(isResponse, "/response"),
		places(isIdentifier, "/id", "/object", "/created", "/model", "/created_at"),
	)
}

// nonTextPlaces returns the places of known protocols where there is nothing that a person reads: types, identifiers,
// figures, and what a model says to programs. Everything else is text.
func nonTextPlaces() []place {
	return slices.Concat(
		places(isIgnored,
			"/choices/*/delta/tool_calls", "/choices/*/delta/function_call", "/choices/*/message/tool_calls",
			"/choices/*/message/function_call",
			"/choices/*/logprobs", "/choices/*/delta/audio/data", "/choices/*/message/audio/data",
			"/choices/*/content_filter_results",
			"/choices/*/delta/reasoning_details/*/data", "/candidates/*/content/parts/*/functionCall",
			"/candidates/*/content/parts/*/inlineData/data", "/candidates/*/content/parts/*/thoughtSignature",
			"/candidates/*/safetyRatings", "/candidates/*/logprobsResult"),
		places(isOutput, "/delta", "/arguments", "/input", "/code", "/partial_image_b64", "/item/arguments",
			"/item/input", "/item/code", "/item/result"),
		places(isUsual,
			"/id", "/object", "/model", "/type", "/system_fingerprint", "/service_tier", "/obfuscation", "/usage",
			"/provider",
			"/prompt_filter_results", "/choices/*/delta/role", "/choices/*/message/role", "/choices/*/finish_reason",
			"/choices/*/native_finish_reason", "/choices/*/delta/content/*/type", "/choices/*/delta/audio/id",
			"/candidates/*/content/role", "/candidates/*/finishReason", "/usageMetadata", "/modelVersion",
			"/responseId",
			"/message", "/content_block/type", "/content_block/id", "/content_block/name", "/content_block/input",
			"/content_block/signature",
			"/delta/type", "/delta/stop_reason", "/delta/stop_sequence", "/delta/partial_json", "/delta/signature",
			"/item_id", "/item/id", "/item/type", "/item/status", "/item/role", "/item/call_id",
			"/item/encrypted_content", "/part/type",
			"/response/*", "/response/output/*/id", "/response/output/*/type", "/response/output/*/status",
			"/response/output/*/role",
			"/response/output/*/call_id", "/response/output/*/arguments", "/response/output/*/input",
			"/response/output/*/code",
			"/response/output/*/result", "/response/output/*/encrypted_content", "/response/output/*/content/*/type",
			"/response/output/*/content/*/logprobs", "/logprobs"),
		places(isKept, "/response/output", "/message/content"),
	)
}

// knownPlaces are all known places.
var knownPlaces = pointersTo(slices.Concat(structurePlaces(), nonTextPlaces()))

func pointersTo(places []place) []*place {
	ways := make([]*place, len(places))
	for i := range places {
		ways[i] = &places[i]
	}
	return ways
}

// holdMode is how the values at a place are held back.
type holdMode uint8

const (
	holdByLooks holdMode = iota // by their looks
	holdText                    // fragments of a text, whatever their looks
	holdLabel                   // words are no fragments of a text
)

// holdModeOf returns the mode of a member by its name. It decides what waits for the end of a sentence, and never
// what is extracted.
func holdModeOf(name string) holdMode {
	switch name {
	case "content", "text", "delta", "answer", "response", "token", "completion", "generated_text", "message",
		"output", "thinking", "reasoning", "reasoning_content", "value", "data", "transcript", "refusal",
		"output_text", "v", "chunk", "result", "parts", "thought", "summary", "body", "reply", "t", "content_delta",
		"textDelta", "text_delta", "outputText", "0:", "g:":
		return holdText
	case "type", "object", "role", "id", "model", "event", "name", "status", "created", "created_at", "index", "node",
		"finish_reason",
		"finishReason", "stop_reason", "done_reason", "event_type", "op", "path", "p", "o", "kind", "state", "step",
		"stage", "action",
		"author", "sender", "user", "username", "source", "url", "href", "format", "language", "lang", "version",
		"mode", "agent",
		"run_type", "langgraph_node", "ls_provider", "ls_model_name", "ls_model_type", "tags", "object_type",
		"channel", "topic",
		"stopReason", "stop_type", "finishType", "provider", "timestamp", "time", "date", "key", "ns":
		return holdLabel
	}
	if strings.HasSuffix(name, "_id") || strings.HasSuffix(name, "Id") || strings.HasSuffix(name, "ID") ||
		strings.HasSuffix(name, "_at") {
		return holdLabel
	}
	return holdByLooks
}

// holdsFragments reports whether a member holds fragments of a text in every stream that has it.
func holdsFragments(name string) bool {
	switch name {
	case "delta", "token", "chunk", "textDelta", "text_delta", "content_delta", "completion":
		return true
	}
	return false
}
