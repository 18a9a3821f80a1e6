// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package words_test

import (
	"fmt"
	"strings"

	"github.com/caddy-moderation/caddy-moderation/engine/words"
)

func Example() {
	list, err := words.Parse([]string{"viagra", "buy now"})
	if err != nil {
		panic(err)
	}
	content := "V1agra!!! Buy... now."
	for _, m := range list.Find(nil, content) {
		fmt.Printf("%q at bytes %d to %d: %s\n", content[m.Begin:m.End], m.Begin, m.End, m.Expression)
	}
	fmt.Printf("%q\n", list.Cut(content))
	// Output:
	// "V1agra" at bytes 0 to 6: viagra
	// "Buy... now" at bytes 10 to 20: buy now
	// " !!!  ."
}

func ExampleRead() {
	list, err := words.Read(strings.NewReader("# What nobody may advertise\n\nviagra\nbuy now  # two words\n"))
	if err != nil {
		panic(err)
	}
	fmt.Println(list.Len())

	_, err = words.Read(strings.NewReader("viagra\n---\n"))
	fmt.Println(err)
	// Output:
	// 2
	// line 2: the expression has no letter, digit or emoji
}

func ExampleMerge() {
	site, forum := []string{"viagra"}, []string{"VIAGRA", "spoiler"}
	one, err := words.Parse(site)
	if err != nil {
		panic(err)
	}
	other, err := words.Parse(forum)
	if err != nil {
		panic(err)
	}
	fmt.Println(words.Merge(one, other).Len())
	// Output: 2
}
