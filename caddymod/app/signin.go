// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package app

// LetSignIn says that a desk of the configuration lets people sign in with links.
func (a *App) LetSignIn() { a.signsIn.Store(true) }

// SignsIn reports whether a desk of the configuration lets people sign in with links.
func (a *App) SignsIn() bool { return a.signsIn.Load() }
