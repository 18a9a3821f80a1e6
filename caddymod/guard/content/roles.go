// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package content

import (
	"fmt"
	"slices"
	"strings"
)

// roles leaves out what others than certain roles say in a chat: of an object with an array of messages, as the interfaces of
// OpenAI, Anthropic, Gemini and Ollama have it, the messages whose role is another one that is known, and what stands for a
// system's message beside them. A text is left out only where every parser sees the same role: the JSON is correct, and the
// message has one member whose name may be taken for "role", and that is spelled so and holds a plain string.
type roles struct {
	wanted []string
	// spans are the texts in scanner.dst that are left out.
	spans []span
	// message is the message that is being read, nil outside of messages.
	message *message
	// lists and systems are the members of the whole that are messages or a system's.
	lists   []string
	systems []systemText
	held    message
	// many says that there are so many texts that some may have been joined, whose places mean nothing then.
	many bool
}

// message is an object in an array of messages.
type message struct {
	from int // of its texts
	role string
	// blocks are those of rich text around it, without its own texts.
	blocks []passage
	// named is how many members there are whose names may be taken for "role", plain that the one was spelled so and a
	// plain string.
	named int
	plain bool
}

// systemText is the text of a member that takes the place of a system's message.
type systemText struct {
	name string
	span
}

// messageLists are the members that hold messages, and systemMembers those that belong to a list of that name and take the
// place of a system's message in it.
var (
	messageLists  = []string{"messages", "input", "contents"}
	systemMembers = map[string]string{
		"system": "messages", "instructions": "input", "systemInstruction": "contents", "system_instruction": "contents",
	}
	knownRoles = []string{"system", "developer", "user", "assistant", "model", "tool", "function"}
)

// CheckRole returns an error for a role that no interface knows.
func CheckRole(role string) error {
	if !slices.Contains(knownRoles, role) {
		return fmt.Errorf("there is no role %q; it must be one of %s", role, strings.Join(knownRoles, ", "))
	}
	return nil
}

// others reports whether a role is known, and none of those that are read.
func (r *roles) others(role string) bool {
	return slices.Contains(knownRoles, role) && !slices.Contains(r.wanted, role)
}

// opened takes note of an object that begins in the whole's messages.
func (r *roles) opened(s *scanner) {
	// The whole is an object, the list its member, and this the list's element.
	if s.depth == 3 && s.frames[0].object && !s.frames[1].object && s.frames[2].object && slices.Contains(messageLists, s.frames[0].key) {
		r.held = message{from: len(s.dst), blocks: slices.Clone(s.blocks)}
		r.message = &r.held
	}
}

// closed takes note of a container that has ended, whose depth is that of the scanner.
func (r *roles) closed(s *scanner) {
	if s.depth == 1 && !s.frames[1].object && slices.Contains(messageLists, s.frames[0].key) {
		r.lists = append(r.lists, s.frames[0].key)
	}
	if s.depth != 2 || r.message == nil {
		return
	}
	if m := r.message; m.named == 1 && m.plain && r.others(m.role) {
		r.spans = append(r.spans, span{m.from, len(s.dst)})
		s.blocks = m.blocks // what it says goes on in no other message
	}
	r.message = nil
}

// named takes note of a member's name; spelled says that there were no escapes in it.
func (r *roles) named(s *scanner, name string, spelled bool) {
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
				r.systems = append(r.systems, systemText{name: name, span: span{len(s.dst), 1 << 62}})
			}
		}
	}
}

// value takes note of a string.
func (r *roles) value(s *scanner, text string, plain bool) {
	switch {
	case s.depth == 3 && r.message != nil && s.frames[2].key == "role":
		r.message.role = text
		r.message.plain = r.message.plain && plain
	case s.depth == 1 && s.frames[0].key == "input":
		r.lists = append(r.lists, "input") // may also be one text
	}
}

// leaveOut takes the texts of other roles out, when all of the JSON is read.
func (r *roles) leaveOut(s *scanner) {
	if r.others("system") && len(r.systems) == 1 {
		if text := r.systems[0]; slices.Contains(r.lists, systemMembers[text.name]) {
			r.spans = append(r.spans, span{text.from, min(text.to, len(s.dst))})
		}
	}
	if len(r.spans) == 0 {
		return
	}
	slices.SortFunc(r.spans, func(a, b span) int { return a.from - b.from })
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
