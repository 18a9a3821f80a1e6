// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package content

import (
	"fmt"
	"slices"
	"strings"
)

// roleFilter leaves out what is said in a chat by roles that are not wanted. It understands an object with an array
// of messages, as in the APIs of OpenAI, Anthropic, Gemini and Ollama, and leaves out the messages of other known
// roles, and members that replace a system message. A text is left out only if every parser sees the same role: the
// JSON is correct, and the message has exactly one member that may be taken for "role", which is spelled so and holds
// a string without escapes.
type roleFilter struct {
	wanted []string
	// spans are the pieces, by their index in jsonScanner.dst, that are left out.
	spans []byteRange
	// message is the current message, nil outside of messages.
	message *message
	// lists and systems are the members of the outermost object that are messages or replace a system message.
	lists   []string
	systems []systemText
	held    message
	// many says that there are so many pieces that some may have been joined, so that their indexes mean nothing.
	many bool
}

// message is an object in an array of messages.
type message struct {
	from int // of its texts
	role string
	// blocks are the blocks of rich text around the message, without its own texts.
	blocks []textBlock
	// named is the number of members that may be taken for "role". plain says that the one was spelled so and holds a
	// string without escapes.
	named int
	plain bool
}

// systemText is a member that replaces a system message.
type systemText struct {
	name string
	byteRange
}

// messageLists are the members that hold messages. systemMembers replace a system message in the list that they map
// to.
var (
	messageLists  = []string{"messages", "input", "contents"}
	systemMembers = map[string]string{
		"system": "messages", "instructions": "input", "systemInstruction": "contents",
		"system_instruction": "contents",
	}
	knownRoles = []string{"system", "developer", "user", "assistant", "model", "tool", "function"}
)

// CheckRole returns an error for a role that no API knows.
func CheckRole(role string) error {
	if !slices.Contains(knownRoles, role) {
		return fmt.Errorf("there is no role %q; it must be one of %s", role, strings.Join(knownRoles, ", "))
	}
	return nil
}

// others reports whether a role is known and not wanted.
func (r *roleFilter) others(role string) bool {
	return slices.Contains(knownRoles, role) && !slices.Contains(r.wanted, role)
}

// opened is called at the beginning of each container.
func (r *roleFilter) opened(s *jsonScanner) {
	// The outermost value is an object, the list its member, and this an element of the list.
	if s.depth == 3 && s.frames[0].object && !s.frames[1].object && s.frames[2].object &&
		slices.Contains(messageLists, s.frames[0].key) {
		r.held = message{from: len(s.dst), blocks: slices.Clone(s.blocks)}
		r.message = &r.held
	}
}

// closed is called at the end of each container, with the scanner at the depth outside of it.
func (r *roleFilter) closed(s *jsonScanner) {
	if s.depth == 1 && !s.frames[1].object && slices.Contains(messageLists, s.frames[0].key) {
		r.lists = append(r.lists, s.frames[0].key)
	}
	if s.depth != 2 || r.message == nil {
		return
	}
	if m := r.message; m.named == 1 && m.plain && r.others(m.role) {
		r.spans = append(r.spans, byteRange{m.from, len(s.dst)})
		s.blocks = m.blocks // what it says goes on in no other message
	}
	r.message = nil
}

// named is called at the name of each member. spelled says that it has no escapes.
func (r *roleFilter) named(s *jsonScanner, name string, spelled bool) {
	before, _, _ := strings.Cut(name, "\x00")
	switch {
	case s.depth == 3 && r.message != nil && strings.EqualFold(strings.TrimSpace(before), "role"):
		r.message.named++
		r.message.plain, r.message.role = spelled && name == "role", ""
	case s.depth == 1 && s.frames[0].object:
		if len(r.systems) > 0 {
			last := &r.systems[len(r.systems)-1]
			last.to = min(last.to, len(s.dst))
		}
		for member := range systemMembers {
			if strings.EqualFold(strings.TrimSpace(before), member) {
				if !spelled || name != member {
					name = "" // another spelling of it
				}
				r.systems = append(r.systems, systemText{name: name, byteRange: byteRange{len(s.dst), 1 << 62}})
			}
		}
	}
}

// value is called at each string.
func (r *roleFilter) value(s *jsonScanner, text string, plain bool) {
	switch {
	case s.depth == 3 && r.message != nil && s.frames[2].key == "role":
		r.message.role = text
		r.message.plain = r.message.plain && plain
	case s.depth == 1 && s.frames[0].key == "input":
		r.lists = append(r.lists, "input") // may also be one text
	}
}

// leaveOut removes the texts of other roles once all of the JSON is scanned.
func (r *roleFilter) leaveOut(s *jsonScanner) {
	if r.others("system") && len(r.systems) == 1 {
		if text := r.systems[0]; slices.Contains(r.lists, systemMembers[text.name]) {
			r.spans = append(r.spans, byteRange{text.from, min(text.to, len(s.dst))})
		}
	}
	if len(r.spans) == 0 {
		return
	}
	slices.SortFunc(r.spans, func(a, b byteRange) int { return a.from - b.from })
	kept, next := s.dst[:0], 0
	for i := range s.dst {
		for next < len(r.spans) && i >= r.spans[next].to {
			next++
		}
		if next == len(r.spans) || i < r.spans[next].from {
			kept = append(kept, s.dst[i])
		}
	}
	clear(s.dst[len(kept):])
	s.dst = kept
}
