// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/caddy-moderation/caddy-moderation/engine"
	"github.com/caddy-moderation/caddy-moderation/engine/language"
	"github.com/caddy-moderation/caddy-moderation/engine/words"
	"github.com/caddy-moderation/caddy-moderation/quota"
)

// RequestOf returns the request by which a text of an account is judged: by its thresholds, words, languages and share
// of harm.
func (a *App) RequestOf(account *quota.Account, content string) engine.Request {
	request := a.requestBy(&account.Overrides)
	request.Content = content
	request.Allow, request.Block = a.words.of(account)
	return request
}

// RequestBy returns the request, without a text, by which texts would be judged with other overrides. It makes lists of
// the words each time.
func (a *App) RequestBy(own *quota.Overrides) engine.Request {
	request := a.requestBy(own)
	request.Allow, request.Block = listOf(own.Allow), listOf(own.Block)
	return request
}

// requestBy returns the request without a text and without words.
func (a *App) requestBy(own *quota.Overrides) engine.Request {
	request := engine.Request{
		Policy: levelsBy(own), HarmShare: a.HarmShareOf(own.HarmShare), Languages: own.Languages,
	}
	switch least := engine.Recommendation(own.OtherLanguage); least {
	case engine.Review, engine.Reject:
		request.OtherLanguage = least
	}
	return request
}

// LevelsOf returns what an account changes of the engine's policy; nil when it changes nothing.
func LevelsOf(account *quota.Account) *engine.Policy { return levelsBy(&account.Overrides) }

func levelsBy(own *quota.Overrides) *engine.Policy {
	if len(own.Thresholds) == 0 {
		return nil
	}
	levels := new(engine.Policy)
	for i := range levels.Thresholds {
		levels.Thresholds[i] = own.Thresholds[engine.Category(i).String()]
	}
	return levels
}

// CheckOverrides returns an error that names the member unless the engine can judge by what an account replaces. The
// gate keeps it without knowing the engine, and checks the rest.
func CheckOverrides(o *quota.Overrides) error {
	for _, name := range slices.Sorted(maps.Keys(o.Thresholds)) {
		if _, err := engine.ParseCategory(name); err != nil {
			return fmt.Errorf("thresholds: %w", err)
		}
	}
	if err := CheckHarmShare(o.HarmShare); err != nil {
		return err
	}
	if _, err := words.Parse(o.Allow); err != nil {
		return fmt.Errorf("allow: %w", err)
	}
	if _, err := words.Parse(o.Block); err != nil {
		return fmt.Errorf("block: %w", err)
	}
	for _, tag := range o.Languages {
		if err := language.CheckTag(tag); err != nil {
			return fmt.Errorf("languages: %w", err)
		}
	}
	return nil
}

// maxCachedExpressions is how many expressions of accounts are ready to be searched for, some 100 bytes each.
const maxCachedExpressions = 200_000

// accountWords has the words of accounts ready to be searched for. They are made when they are first needed, and anew
// when the account has others.
type accountWords struct {
	mu          sync.RWMutex
	byAccount   map[string]readyWords
	expressions int
}

// readyWords are the words of an account.
type readyWords struct {
	allow, block         []string // what the lists are made of
	allowList, blockList *words.List
}

// of returns the words of an account; nil for none.
func (w *accountWords) of(account *quota.Account) (allow, block *words.List) {
	own := &account.Overrides
	if len(own.Allow)+len(own.Block) == 0 {
		return nil, nil
	}
	w.mu.RLock()
	ready, ok := w.byAccount[account.ID]
	w.mu.RUnlock()
	if ok && slices.Equal(ready.allow, own.Allow) && slices.Equal(ready.block, own.Block) {
		return ready.allowList, ready.blockList
	}
	ready = readyWords{
		allow: own.Allow, block: own.Block, allowList: listOf(own.Allow), blockList: listOf(own.Block),
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.expressions > maxCachedExpressions || w.byAccount == nil {
		w.byAccount, w.expressions = map[string]readyWords{}, 0
	}
	before := w.byAccount[account.ID]
	w.byAccount[account.ID] = ready
	w.expressions -= len(before.allow) + len(before.block)
	w.expressions += len(own.Allow) + len(own.Block)
	return ready.allowList, ready.blockList
}

// checkExpression checks one expression of a list.
func checkExpression(text string) error {
	_, err := words.Parse([]string{text})
	return err
}

// listOf makes a list. A store may hold what nobody could set: such expressions are left out, and the others count.
func listOf(expressions []string) *words.List {
	if list, err := words.Parse(expressions); err == nil {
		return list
	}
	var lists []*words.List
	for _, one := range expressions {
		if list, err := words.Parse([]string{one}); err == nil {
			lists = append(lists, list)
		}
	}
	return words.Merge(lists...)
}
