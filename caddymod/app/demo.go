// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"

	"github.com/caddy-moderation/caddy-moderation/quota"
)

// demoAccount is the id of the account that the first start makes.
const demoAccount = "demo"

// firstStart makes the account "demo" with a key in an empty database, and prints the key, which nothing shows again.
func (a *App) firstStart(services *Services) error {
	if a.Demo != nil && !*a.Demo || len(a.Accounts) > 0 || isShared(a.storage) {
		return nil
	}
	ctx := context.Background()
	seeded, err := services.Store.Seeded(ctx)
	if err != nil || seeded {
		return err
	}
	_, err = services.Gate.CreateAccount(ctx, quota.Account{
		ID: demoAccount, Name: "Made at the first start", Tier: a.defaultTier(), Status: quota.Active,
	})
	// The account exists already when an earlier start ended between here and MarkSeeded.
	if err != nil && !errors.Is(err, quota.ErrExists) {
		return err
	}
	secret, key, err := services.Gate.CreateKey(ctx, quota.KeySpec{Account: demoAccount, Name: "first start"})
	if err != nil {
		return err
	}
	limits := a.Tiers[a.defaultTier()]
	// The key goes to the terminal that started Caddy and not to the logger, whose files may be kept for years.
	_, err = fmt.Fprintf(a.notice, `
The moderation service made the account %q (tier %s: %s) and its API key. It is shown only now:

    %s

Try it:

    curl %s \
      -H 'Authorization: Bearer %s' \
      -H 'Content-Type: application/json' \
      -d '{"content": "You are a wonderful person."}'

%s
`, demoAccount, a.defaultTier(), limitsText(limits), secret, a.firstURL(), secret, a.nextCommands(key))
	if err != nil {
		// A key that nobody saw is of no use. The next start tries again.
		a.logger.Warn("the key of the first start could not be shown; make one with: caddy moderation key create",
			zap.Error(err))
		_, err := services.Gate.RevokeKey(ctx, key.ID)
		return err
	}
	return services.Store.MarkSeeded(ctx)
}

// nextCommands returns the commands that replace the key, which a terminal keeps, and lift the limits of the account,
// ready to be pasted.
func (a *App) nextCommands(key quota.Key) string {
	address, ok := adminAddress(a.ctx)
	if !ok {
		return "The admin endpoint is off: no command can replace this key or change the account's limits.\n"
	}
	flag := ""
	if address != defaultAdmin {
		flag = " --address " + shellWord(address)
	}
	command := shellWord(os.Args[0]) + " moderation"
	return fmt.Sprintf(`Replace the key, which this terminal keeps, and lift the limits:

    %[1]s key rotate %[2]s --overlap 0s%[4]s
    %[1]s account update %[3]s --requests-per-month 0 --requests-per-minute 0%[4]s
`, command, key.ID, demoAccount, flag)
}

// defaultAdmin is the admin endpoint that the commands use without being told.
const defaultAdmin = "localhost:2019"

// adminAddress returns the address of the admin endpoint as a command takes it, and false if the endpoint is off.
func adminAddress(ctx caddy.Context) (string, bool) {
	listen, disabled := adminOption(ctx)
	if disabled {
		return "", false
	}
	if replaced, err := caddy.NewReplacer().ReplaceOrErr(listen, true, true); err == nil {
		listen = replaced
	}
	listen = cmp.Or(listen, caddy.DefaultAdminListen)
	parsed, err := caddy.ParseNetworkAddress(listen)
	if err != nil || parsed.IsFdNetwork() {
		return listen, true
	}
	if parsed.IsUnixNetwork() {
		path, _, _ := strings.Cut(parsed.Host, "|") // the permissions are for the server
		return caddy.JoinNetworkAddress(parsed.Network, path, ""), true
	}
	if parsed.Host == "" || isUnspecified(parsed.Host) {
		parsed.Host = "localhost"
	}
	return parsed.JoinHostPort(0), true
}

// adminOption returns the address in Caddy's option "admin", empty for the default, and whether the endpoint is off.
// Caddy tells apps nothing of it, so it is read from the configuration inside their context. If a version of Caddy
// keeps that elsewhere, the default is assumed; a test notices.
func adminOption(ctx caddy.Context) (listen string, disabled bool) {
	config := reflect.ValueOf(ctx).FieldByName("cfg")
	if !config.IsValid() || config.Type() != reflect.TypeFor[*caddy.Config]() || config.IsNil() {
		return "", false
	}
	admin := config.Elem().FieldByName("Admin")
	if admin.IsNil() {
		return "", false
	}
	return admin.Elem().FieldByName("Listen").String(), admin.Elem().FieldByName("Disabled").Bool()
}

// shellWord returns text as one word of a shell's command.
func shellWord(text string) string {
	plain := func(r rune) bool {
		return r < utf8.RuneSelf && (unicode.IsLetter(r) || unicode.IsDigit(r)) || strings.ContainsRune("/.:_-+@%", r)
	}
	if text != "" && !strings.ContainsFunc(text, func(r rune) bool { return !plain(r) }) {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// limitsText describes a tier's limits.
func limitsText(limits quota.Limits) string {
	count := func(n int64, window string) string {
		if n == 0 {
			return "unlimited requests a " + window
		}
		return strconv.FormatInt(n, 10) + " requests a " + window
	}
	return count(limits.RequestsPerMonth, "month") + ", " + count(limits.RequestsPerMinute, "minute")
}
