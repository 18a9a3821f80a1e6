// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"strings"

	"github.com/caddy-moderation/caddy-moderation/engine/model"
)

// Category is one of the five kinds of harm that a verdict reports. Its value is the index of the category in
// [Result.Categories]; [Category.String] is its name in JSON.
type Category uint8

// The five categories, in the order in which they are reported. The model card (docs/model-card.md) defines them.
const (
	// Hate attacks, demeans or incites against people for a protected trait. Default threshold: 0.7.
	Hate Category = iota
	// Harassment insults, threatens, stalks or humiliates a person. Default threshold: 0.7.
	Harassment
	// SelfHarm expresses the intent of self-harm, encourages it or seeks methods. Default threshold: 0.5.
	SelfHarm
	// Sexual is arousing or explicit sexual talk. Default threshold: 0.8.
	Sexual
	// Violence threatens, incites, glorifies or wishes physical harm. Default threshold: 0.6.
	Violence

	// NumCategories is the number of categories.
	NumCategories = 5
)

// CategoryNames returns the names of all categories, in the order in which they are reported.
func CategoryNames() []string {
	names := make([]string, NumCategories)
	for i := range names {
		names[i] = Category(i).String()
	}
	return names
}

// Attribute is one of the Perspective API attributes that the classifier also scores. Its value is the index of the
// attribute in [Scores.Attributes]; [Attribute.String] is its name in the Perspective API.
type Attribute uint8

// The attributes, in the order of the Perspective documentation, which defines them.
const (
	Toxicity Attribute = iota
	SevereToxicity
	IdentityAttack
	Insult
	Profanity
	Threat
	SexuallyExplicit
	Spam

	// NumAttributes is the number of attributes.
	NumAttributes = 8
)

// The constants above stand in the order of [model.HeadNames], categories first. Where their numbers differ, an
// assignment here does not compile: package model's documentation says how a head is added.
var (
	_ [NumCategories]struct{} = [model.NumCategories]struct{}{}
	_ [NumAttributes]struct{} = [model.Heads - model.NumCategories]struct{}{}
)

var (
	categoryNames  = [NumCategories]string(model.HeadNames[:NumCategories])
	attributeNames = [NumAttributes]string(model.HeadNames[NumCategories:])
)

// String returns the name of the category in JSON: "hate", "harassment", "self-harm", "sexual" or "violence".
func (c Category) String() string {
	if int(c) < len(categoryNames) {
		return categoryNames[c]
	}
	return fmt.Sprintf("category %d", uint8(c))
}

// ParseCategory returns the category with a name that [Category.String] returns. The error lists the names.
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

// ParseAttribute returns the attribute with a name that [Attribute.String] returns. The error lists the names.
func ParseAttribute(name string) (Attribute, error) {
	for i, n := range attributeNames {
		if n == name {
			return Attribute(i), nil
		}
	}
	return 0, fmt.Errorf("unknown attribute %q: must be one of %s", name, strings.Join(attributeNames[:], ", "))
}
