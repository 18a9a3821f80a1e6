// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"strings"
)

var categoryNames = [NumCategories]string{"hate", "harassment", "self-harm", "sexual", "violence"}

var attributeNames = [NumAttributes]string{
	"TOXICITY", "SEVERE_TOXICITY", "IDENTITY_ATTACK", "INSULT", "PROFANITY", "THREAT", "SEXUALLY_EXPLICIT", "SPAM",
}

// String returns the name of the category in JSON: "hate", "harassment", "self-harm", "sexual" or "violence".
func (c Category) String() string {
	if int(c) < len(categoryNames) {
		return categoryNames[c]
	}
	return fmt.Sprintf("category %d", uint8(c))
}

// ParseCategory returns the category of a name as [Category.String] gives it. The error lists the names.
func ParseCategory(name string) (Category, error) {
	for i, n := range categoryNames {
		if n == name {
			return Category(i), nil
		}
	}
	return 0, fmt.Errorf("unknown category %q: must be one of %s", name, strings.Join(categoryNames[:], ", "))
}

// String returns the name of the attribute in the Perspective API, for example "TOXICITY".
func (a Attribute) String() string {
	if int(a) < len(attributeNames) {
		return attributeNames[a]
	}
	return fmt.Sprintf("attribute %d", uint8(a))
}

// ParseAttribute returns the attribute of a name as [Attribute.String] gives it. The error lists the names.
func ParseAttribute(name string) (Attribute, error) {
	for i, n := range attributeNames {
		if n == name {
			return Attribute(i), nil
		}
	}
	return 0, fmt.Errorf("unknown attribute %q: must be one of %s", name, strings.Join(attributeNames[:], ", "))
}
