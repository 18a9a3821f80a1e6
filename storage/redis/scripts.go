// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package redis

import (
	_ "embed"
	"strconv"
	"strings"

	"github.com/redis/rueidis"

	"github.com/caddy-moderation/caddy-moderation/quota"
)

var (
	//go:embed scripts/windows.lua
	windowsSource string
	//go:embed scripts/take.lua
	takeSource string
	//go:embed scripts/apply.lua
	applySource string
	//go:embed scripts/heartbeat.lua
	heartbeatSource string
)

var (
	takeScript      = newScript(takeSource)
	applyScript     = newScript(applySource)
	heartbeatScript = newScript(heartbeatSource)
)

// newScript makes a script of its source. The client does not repeat it by itself: a repeated call must be known, see
// [counters.eval].
func newScript(source string) *rueidis.Lua {
	source = strings.Replace(source, "-- include windows", windowsSource, 1)
	source = strings.NewReplacer(
		"KEPT_MINUTES", strconv.Itoa(quota.KeptMinutes),
		"KEPT_DAYS", strconv.Itoa(quota.KeptDays),
		"KEPT_PERIODS", strconv.Itoa(quota.KeptPeriods),
	).Replace(source)
	return rueidis.NewLuaScript(source)
}

// repeatable are the scripts that do no harm when they run twice.
var repeatable = map[*rueidis.Lua]bool{}

// newRepeatable makes such a script, when the package is initialized.
func newRepeatable(source string) *rueidis.Lua {
	script := rueidis.NewLuaScript(source)
	repeatable[script] = true
	return script
}
