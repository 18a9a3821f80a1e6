// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package caddymod_test

import (
	"strings"

	"github.com/caddy-moderation/caddy-moderation/engine"
	"github.com/caddy-moderation/caddy-moderation/quota"
)

// schemaRule says more about a field than its Go type does. A rule for a type begins with a struct or a named type; one
// for a field has the name of the field after it.
type schemaRule struct {
	// rule is put into the schema.
	rule object
	// good and bad are values, as JSON, that Caddy and the schema both accept and both refuse. The first good one also
	// stands where a configuration needs the field to be valid. Without good ones, those of the Go type are tried.
	good, bad []string
	// closed says that the values of rule's enum are all that there are. Caddy's error about a bad one names each.
	closed []string
	// with has the other members that the field needs, as JSON.
	with string
}

// namePattern in a rule is what the names of an object's members match. It takes the place of additionalProperties,
// which has the schema of their values.
const namePattern = "name pattern"

// basePathRule is the rule of a handler's base path.
var basePathRule = schemaRule{
	rule: object{"pattern": `^(/[^*{}?#%/]+)*/?$`},
	good: []string{`"/moderation"`, `"/a/b/"`}, bad: []string{`"moderation"`, `"/a//b"`, `"/a*"`, `"/{env.A}"`},
}

// placeholderRule is the rule of a placeholder that says who a person is.
var placeholderRule = schemaRule{
	rule: object{"pattern": `^\{[^{}\s]+\}$`},
	good: []string{`"{http.auth.user.id}"`, `"{http.request.header.X-User}"`}, bad: []string{`"alice"`, `""`, `"{}"`, `"{a}{b}"`, `1`},
}

// peopleRule is the rule of lists of persons.
var peopleRule = schemaRule{
	good: []string{goodPeople}, bad: []string{`{}`, `[{}]`, `["alice"]`},
}

const goodPeople = `[{"placeholder":"{http.auth.user.id}","users":["alice"]}]`

// userNames is the rule of what a placeholder yields for persons.
var userNames = object{"type": "array", "minItems": 1, "items": object{"type": "string", "pattern": `^[^{}]+$`}}

// expressions is the rule of the words of an account.
var expressions = object{
	"maxItems": quota.MaxExpressions, "items": object{"type": "string", "maxLength": 100, "pattern": `\S`},
}

var badExpressions = []string{`"a"`, `[" "]`, `[1]`, `["` + strings.Repeat("é", 101) + `"]`}

// schemaRules has the rules of types and of fields. A field that is not in it may have any value of its Go type, but no
// negative number. TestSchemaAgreesWithCaddy compares each with what Caddy accepts.
var schemaRules = map[string]schemaRule{
	"app.App.StorageRaw": {
		good: []string{
			`{"module":"badger"}`, `{"module":"badger","dir":"data"}`, `{"module":"redis","addresses":["localhost"]}`,
		},
		bad: []string{
			`{}`, `"badger"`, `{"module":"badger","folder":"data"}`, `{"module":"badger","dir":1}`, `{"module":"redis"}`,
		},
	},
	"app.App.ClassifierRaw": {
		good: []string{`{"module":"embedded"}`},
		bad:  []string{`{}`, `"embedded"`, `{"module":"embedded","weights":"x"}`, `{"module":"embedded","model":1}`},
	},
	"desk.Desk": {
		// Somebody must have a role.
		rule: object{"anyOf": []any{
			given("operators", "minItems"), given("members", "minItems"), given("reviewers", "minItems"),
			object{"required": []any{"tokens"}, "properties": object{"tokens": object{"const": true}}},
		}},
		good: []string{
			`{"operators":[{"placeholder":"{http.auth.user.id}","users":["alice"]}]}`,
			`{"reviewers":[{"placeholder":"{http.auth.user.id}","users":["alice"]}],"operators":[]}`, `{"tokens":true}`,
		},
		bad: []string{`{}`, `{"operators":[]}`, `{"base_path":"/desk"}`, `{"tokens":false}`},
	},
	"desk.Desk.BasePath": {
		rule: basePathRule.rule, good: basePathRule.good, bad: basePathRule.bad, with: `{"operators":` + goodPeople + `}`,
	},
	"desk.Desk.Tokens": {
		good: []string{`true`, `false`}, bad: []string{`"yes"`, `1`}, with: `{"operators":` + goodPeople + `}`,
	},
	"desk.Desk.Operators":      peopleRule,
	"desk.Desk.Reviewers":      peopleRule,
	"desk.People.Placeholder":  placeholderRule,
	"desk.Members.Placeholder": placeholderRule,
	"desk.People.Users": {
		rule: userNames, good: []string{`["alice"]`, `["a b","ä"]`}, bad: []string{`[]`, `"alice"`, `[""]`, `["{env.A}"]`, `[1]`},
	},
	"desk.Desk.Members": {
		good: []string{`[{"placeholder":"{http.auth.user.id}","accounts":{"acme":["carol"]}}]`}, bad: []string{`{}`, `[{}]`, `["carol"]`},
	},
	"desk.Members.Accounts": {
		rule: object{"minProperties": 1, namePattern: "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$", "additionalProperties": userNames},
		good: []string{`{"acme":["carol"]}`, `{"a.b_c-d":["carol","dan"]}`},
		bad:  []string{`{}`, `{"a b":["carol"]}`, `{"acme":[]}`, `{"acme":"carol"}`, `{"acme":[""]}`, `{"":["carol"]}`},
	},
	"app.App.KeyPrefix": {
		rule: object{"pattern": "^[A-Za-z0-9]{1,20}$"},
		good: []string{`"mod"`, `"A1"`}, bad: []string{`"my-key"`, `"a_b"`, `"` + strings.Repeat("a", 21) + `"`},
	},
	"app.App.Tiers": {
		rule: object{namePattern: "^[a-z][a-z0-9_]{0,63}$"},
		good: []string{`{"free":{"requests_per_month":1,"requests_per_minute":1}}`, `{"a_1":{}}`},
		bad:  []string{`{"Free":{}}`, `{"1":{}}`, `{"free":[]}`, `{"free":{"requests_per_month":-1}}`},
	},
	"app.App.Thresholds":   {rule: thresholdMap(false), good: goodThresholds, bad: badThresholds},
	"app.App.RejectLevels": {rule: thresholdMap(true), good: goodLevels, bad: badLevels},
	// At least a day, or 0. The schema does not compare durations.
	"app.FeedbackOptions.Keep": {
		good: []string{`"90d"`, `"24h"`, `86400000000000`, `"0"`, `0`}, bad: []string{`"soon"`, `true`, `"-90d"`},
	},
	"app.ReviewOptions.Of": {
		rule: object{"items": object{"enum": []any{"review", "reject", "correction"}}},
		good: []string{`["review"]`, `["review","reject","correction"]`, `[]`}, bad: []string{`["approve"]`, `"review"`},
	},
	"app.ReviewOptions.Sample": {
		rule: object{"maximum": 1, "minimum": 0}, good: []string{`0.01`, `1`}, bad: []string{`1.5`, `-0.1`, `"1%"`},
	},
	"app.ReviewOptions.Twice": {
		rule: object{"maximum": 1, "minimum": 0}, good: []string{`0.01`, `0`}, bad: []string{`1.5`, `-0.1`, `"1%"`},
	},
	// At least an hour, or 0. The schema does not compare durations.
	"app.ReviewOptions.Keep": {
		good: []string{`"30d"`, `"1h"`, `"0"`}, bad: []string{`"soon"`, `true`, `"-30d"`},
	},
	"app.ReviewOptions.Max": {
		rule: object{"maximum": 10_000_000}, good: []string{`1`, `0`}, bad: []string{`-1`, `10000001`, `"1"`},
	},
	"app.ReviewOptions.Key": {
		rule: object{"pattern": `^(\{[^{}]+\})?$`}, good: []string{`"{env.MODERATION_TEST_REVIEW_KEY}"`},
		bad: []string{`"secret"`, `1`},
	},
	"app.ReviewOptions.Coop": {
		good: []string{`{"public_key":"{env.MODERATION_TEST_COOP_KEY}","approve":["a"]}`}, bad: []string{`{}`, `[]`},
	},
	"app.ReviewCoop.PublicKey": {
		good: []string{`"{env.MODERATION_TEST_COOP_KEY}"`}, bad: []string{`1`, `true`}, with: `{"approve":["a"]}`,
	},
	"app.ReviewCoop.Approve":  {good: []string{`["a","b"]`}, bad: []string{`"a"`, `[1]`}, with: coopKey},
	"app.ReviewCoop.Reject":   {good: []string{`["c","d"]`}, bad: []string{`"a"`, `[1]`}, with: coopKey},
	"app.ReviewCoop.Escalate": {good: []string{`["e"]`}, bad: []string{`"a"`, `[1]`}, with: coopKey},
	"app.ReviewOptions.Webhooks": {
		good: []string{`[]`, `[{"url":"https://app.example/hook","secret":"{env.MODERATION_TEST_WEBHOOK_SECRET}"}]`},
		bad:  []string{`{}`, `[{}]`, `[{"url":"https://app.example"}]`, `["https://app.example"]`},
	},
	"app.ReviewWebhook.URL": {
		rule: object{"minLength": 1}, good: []string{`"https://app.example/hook"`}, bad: []string{`""`, `1`},
	},
	"app.ReviewWebhook.Secret": {
		rule: object{"pattern": `^\{[^{}]+\}$`}, good: []string{`"{env.MODERATION_TEST_WEBHOOK_SECRET}"`},
		bad: []string{`"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"`, `""`, `1`},
	},
	"app.ReviewWebhook.Account": {
		rule: object{"pattern": "^([A-Za-z0-9][A-Za-z0-9._-]{0,63})?$"}, good: []string{`"acme"`, `""`},
		bad: []string{`"a b"`, `1`},
	},
	"app.ReviewOptions.PlainAuthors": {good: []string{`true`, `false`}, bad: []string{`1`, `"yes"`}},
	"app.Key.Scopes": {
		rule: object{"items": object{"enum": []any{"review"}}, "uniqueItems": true},
		good: []string{`["review"]`, `[]`}, bad: []string{`["admin"]`, `"review"`},
	},
	"guard.Moderate.Author": {good: []string{`"{http.request.header.X-User}"`, `""`}, bad: []string{`1`}},
	"app.App.HarmShare":     harmShareRule,
	"app.Account.HarmShare": harmShareRule,
	"app.Account.Allow":     {rule: expressions, good: []string{`["ass"]`}, bad: badExpressions},
	"app.Account.Block":     {rule: expressions, good: []string{`["two words"]`}, bad: badExpressions},
	"app.Account.Languages": {
		rule: languageTags, good: []string{`["en"]`, `["pt-BR","hi-Latn"]`}, bad: []string{`"en"`, `["english language"]`, `["e"]`},
	},
	"app.Account.OtherLanguage": {
		rule: object{"enum": []any{"", "pass", "review", "reject"}}, with: `{"languages":["en"]}`,
		good: []string{`"pass"`, `"review"`, `"reject"`}, bad: []string{`"refuse"`, `true`},
	},
	"app.App.Accounts": {
		good: []string{`[]`, `[{"id":"acme"},{"id":"a.b_c-d"}]`},
		bad:  []string{`{}`, `[{}]`, `["acme"]`, `[{"id":"acme","keys":{}}]`},
	},
	"app.Account.ID": {
		rule: object{"pattern": "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"},
		good: []string{`"acme"`, `"A.b_c-9"`}, bad: []string{`""`, `"-a"`, `"a b"`, `"é"`},
	},
	"app.Account.Name": {rule: plainString(200), good: []string{`"Acme Corporation"`, `"Ä"`}, bad: badText(200)},
	"app.Account.Tier": {good: []string{`"free"`}, bad: []string{`1`}},
	"app.Account.Status": {
		// Any word is a status, but these have a meaning.
		rule: object{"anyOf": []any{
			object{"enum": []any{"active", "trialing", "past_due", "canceled", "paused"}},
			object{"pattern": "^[a-z][a-z0-9_]{0,31}$"},
		}},
		good: []string{`"active"`, `"past_due"`, `"canceled"`}, bad: []string{`"Active"`, `"past due"`, `1`},
	},
	"app.Account.AnchorDay":  {rule: object{"maximum": 31}, good: []string{`31`, `0`}, bad: []string{`32`, `-1`, `1.5`}},
	"app.Account.Thresholds": {rule: thresholdMap(false), good: goodThresholds, bad: badThresholds},
	"app.Account.Keys":       {good: []string{`[]`}, bad: []string{`{}`, `[{}]`, `["{env.ACME_MODERATION_KEY}"]`}},
	"app.Key.Key": {
		rule: object{"pattern": `^(sha256:[0-9A-Fa-f]{64}|\{[^{}]+\})$`},
		good: []string{`"{env.ACME_MODERATION_KEY}"`, `"sha256:` + strings.Repeat("aB", 32) + `"`},
		bad:  []string{`"mod_sk_1"`, `"sha256:00"`, `"{env.A}{env.B}"`, `"{}"`},
	},
	"app.Key.Name":        {rule: plainString(200), good: []string{`"comments"`}, bad: badText(200)},
	"app.Key.Environment": {rule: plainString(64), good: []string{`"production"`}, bad: badText(64)},
	"app.Key.Expires": {
		rule: object{"pattern": `^([0-9]{4}-[0-9]{2}-[0-9]{2}` +
			`(T[0-9]{2}:[0-9]{2}:[0-9]{2}([.,][0-9]+)?(Z|[+-][0-9]{2}:[0-9]{2}))?)?$`},
		good: []string{`"2099-01-31"`, `"2099-01-31T12:00:00Z"`, `"2099-01-31T12:00:00.5+01:00"`},
		bad:  []string{`"tomorrow"`, `"31.1.2099"`, `"2099-01-31 12:00"`, `4102444800`},
	},
	"app.Redis.Addresses": {
		rule: object{"minItems": 1, "items": object{"type": "string", "minLength": 1}},
		good: []string{`["redis.example"]`, `["rediss://user:{env.ACME_MODERATION_KEY}@redis.example:6380/0"]`},
		bad:  []string{`[]`, `"redis.example"`, `[""]`, `[1]`},
	},
	"app.Redis.Cluster":  {good: []string{`false`, `true`}, bad: []string{`"yes"`, `1`}},
	"app.Redis.Database": {rule: object{"maximum": 65535}, good: []string{`3`, `0`}, bad: []string{`-1`, `65536`, `"1"`}},
	"app.Redis.Prefix": {
		rule: object{"pattern": "^[A-Za-z0-9._-]{0,20}$"},
		good: []string{`"sites.example"`, `""`}, bad: []string{`"{a}"`, `"a:b"`, `"` + strings.Repeat("a", 21) + `"`},
	},
	// From 1ms to 1m. The schema does not compare durations.
	"app.Redis.Timeout":      {good: []string{`"100ms"`, `250000000`, `"0"`}, bad: []string{`"soon"`, `"-1s"`, `true`}},
	"app.RedisReplicas.Wait": {good: []string{`"100ms"`, `250000000`}, bad: []string{`"soon"`, `"-1s"`, `true`}},
	"app.RedisReplicas.Replicas": {
		rule: object{"minimum": 1, "maximum": 100}, good: []string{`1`, `2`}, bad: []string{`0`, `101`, `"1"`},
	},
	"app.Redis.WaitReplicas": {
		good: []string{`{"replicas":1,"wait":"100ms"}`}, bad: []string{`1`, `{}`, `{"replicas":1}`, `{"wait":"1s"}`},
	},
	"app.Redis.Pool": {
		rule: object{"enum": []any{0, 1, 2, 4, 8, 16, 32, 64, 128, 256}},
		good: []string{`8`, `0`}, bad: []string{`3`, `512`, `-1`, `"4"`},
	},
	"app.Redis.Outage":                {rule: oneOf(outages), closed: outages},
	"app.Redis.Lease":                 {rule: object{"maximum": 1_000_000}, good: []string{`50`, `0`}, bad: []string{`-1`, `1000001`}},
	"app.Redis.Sentinel":              {good: []string{`{"master":"mymaster"}`}, bad: []string{`"mymaster"`, `{}`}},
	"app.RedisSentinel.Master":        {rule: object{"minLength": 1}, good: []string{`"mymaster"`}, bad: []string{`""`, `1`}},
	"app.RedisTLS":                    {rule: object{"dependencies": object{"certificate": []any{"key"}, "key": []any{"certificate"}}}},
	"app.RedisTLS.CA":                 {good: []string{`"{env.MODERATION_TEST_CERT}"`, `""`}, bad: []string{`1`}},
	"app.RedisTLS.Certificate":        {good: []string{`"{env.MODERATION_TEST_CERT}"`}, bad: []string{`1`}, with: `{"key":"{env.MODERATION_TEST_CERT}"}`},
	"app.RedisTLS.Key":                {good: []string{`"{env.MODERATION_TEST_CERT}"`}, bad: []string{`1`}, with: `{"certificate":"{env.MODERATION_TEST_CERT}"}`},
	"app.RedisTLS.InsecureSkipVerify": {good: []string{`false`, `true`}, bad: []string{`"yes"`, `1`}},

	"app.Embedded.Model": {good: []string{`""`}, bad: []string{`1`}},

	"policy.Policy.Categories":   {rule: listOf(categoryNames()), closed: categoryNames(), good: []string{`["hate"]`}},
	"policy.Policy.Thresholds":   {rule: thresholdMap(false), good: goodThresholds, bad: badThresholds},
	"policy.Policy.RejectLevels": {rule: thresholdMap(true), good: goodLevels, bad: badLevels},
	"policy.Policy.Languages": {
		rule: languageTags, good: []string{`["en"]`, `["pt-BR","hi-Latn"]`}, bad: []string{`"en"`, `["english language"]`, `["e"]`},
	},
	"policy.Policy.OtherLanguage": {
		rule: object{"enum": []any{"", "pass", "review", "reject"}}, with: `{"languages":["en"]}`,
		good: []string{`"pass"`, `"review"`, `"reject"`}, bad: []string{`"refuse"`, `true`},
	},
	"policy.Policy.HarmShare": harmShareRule,
	"policy.Policy.Themes": {
		rule: object{"maxItems": 10, "items": object{"type": "string", "maxLength": 100, "pattern": `\S`}},
		good: []string{`["spoilers"]`, `["` + strings.Repeat("é", 100) + `"]`},
		bad: []string{
			`"spoilers"`, `[" "]`, `["` + strings.Repeat("é", 101) + `"]`, `[` + strings.Repeat(`"a",`, 10) + `"a"]`,
		},
	},
	"policy.Policy.Allow":      {rule: notBlank, good: []string{`["ass"]`}, bad: []string{`"ass"`, `[""]`, `[1]`}},
	"policy.Policy.Block":      {rule: notBlank, good: []string{`["two words"]`}, bad: []string{`"a"`, `[" "]`, `[1]`}},
	"policy.Policy.AllowFiles": {good: []string{`["../examples/words/allow.txt"]`}, bad: []string{`"words.txt"`, `[1]`}},
	"policy.Policy.BlockFiles": {good: []string{`["../examples/words/allow.txt"]`}, bad: []string{`"words.txt"`, `[1]`}},
	"policy.Policy.Account": {
		rule: object{"pattern": "^([A-Za-z0-9][A-Za-z0-9._-]{0,63})?$"},
		good: []string{`"acme"`}, bad: []string{`"a b"`, `".a"`},
	},
	"policy.Policy.EnforceQuota": {good: []string{`true`, `false`}, bad: []string{`"yes"`, `1`}, with: `{"account":"acme"}`},

	"guard.Moderate":         {rule: guardNeeds},
	"guard.ModerateResponse": {rule: guardNeeds},

	"request.Fields.JSON":                    pointers,
	"guard.ModerateResponse.JSON":            pointers,
	"guard.Stream.Delta":                     {rule: listed(pointers.rule, 32), good: pointers.good, bad: pointers.bad},
	"guard.Stream.Hold":                      {rule: object{"maximum": 10_000}, good: []string{`10000`}, bad: []string{`10001`, `-1`}},
	"guard.Stream.Context":                   {rule: object{"maximum": 100_000}, good: []string{`100000`}, bad: []string{`100001`, `-1`}},
	"request.Fields.Form":                    {rule: notBlank, good: []string{`["comment"]`}, bad: []string{`"comment"`, `[" "]`}},
	"request.Fields.Query":                   {rule: notBlank, good: []string{`["q"]`}, bad: []string{`"q"`, `[""]`}},
	"request.Fields.Header":                  {rule: notBlank, good: []string{`["Subject"]`}, bad: []string{`"Subject"`, `[""]`}},
	"request.Fields.Roles":                   {rule: listOf(roles), closed: roles, good: []string{`["user"]`}},
	"extract.Limits.MaxBodyOverflow":         {rule: oneOf(bodies), closed: bodies},
	"guard.ModerateResponse.MaxBodyOverflow": {rule: oneOf(bodies[1:]), closed: bodies[1:]},
	"extract.Limits.MaxTextOverflow":         {rule: oneOf(texts), closed: texts},
	"guard.Moderate.OnError":                 {rule: oneOf(onError), closed: onError},
	"guard.ModerateResponse.OnError":         {rule: oneOf(onError), closed: onError},
	"guard.Reactions": {
		good: []string{`{"reject":[{"handle":[{"handler":"static_response"}]}]}`},
		bad:  []string{`{"refuse":[]}`},
	},

	// Nothing but conditions make a matcher match.
	"guard.Matcher": {
		rule: object{"anyOf": []any{
			object{"required": []any{"flagged"}, "properties": object{"flagged": object{"const": true}}},
			given("recommendations", "minItems"), given("statuses", "minItems"), given("categories", "minProperties"),
			given("languages", "minItems"),
		}},
		with: `{"flagged":true}`,
	},
	"guard.Matcher.Flagged":         {good: []string{`true`}, bad: []string{`"yes"`, `1`}},
	"guard.Matcher.Recommendations": {rule: listOf(verdicts), closed: verdicts, good: []string{`["reject"]`}},
	"guard.Matcher.Languages": {
		rule: languageTags, good: []string{`["es"]`, `["und","zh"]`}, bad: []string{`"es"`, `["e"]`},
	},
	"guard.Matcher.Statuses": {rule: listOf(statusNames), closed: statusNames, good: []string{`["judged"]`}},
	"guard.Matcher.Categories": {
		rule: categoryMap(object{"type": "number", "minimum": 0, "maximum": 1}),
		good: []string{`{"hate":0.9}`, `{"self-harm":0,"violence":1}`},
		bad:  []string{`{"anger":0.5}`, `{"hate":1.01}`, `{"hate":-0.1}`, `{"hate":"0.5"}`, `["hate"]`},
	},

	"cors.Origins": {
		rule: object{"type": "array", "items": object{"type": "string", "pattern": `^(\*|https?://[^/?#@*\s]+)$`}},
		good: []string{`["https://www.example.com"]`, `["*"]`, `["http://localhost:3000"]`},
		bad: []string{
			`"*"`, `["www.example.com"]`, `["https://*.example.com"]`, `["https://example.com/"]`, `["ftp://example.com"]`,
		},
	},
	"api.API.BasePath":       basePathRule,
	"health.Health.BasePath": basePathRule,
	"api.API.ScoringPath": {
		rule: object{"pattern": `^[A-Za-z0-9._~-]*$`, "not": object{"enum": []any{".", ".."}}},
		good: []string{`"perspective"`, `"a.b~c-d_e"`}, bad: []string{`"a/b"`, `".."`, `"ä"`},
	},
	"commentanalyzer.Analyze.Attributes": {
		rule: object{
			namePattern:            `^[A-Za-z0-9_./-]{1,128}$`,
			"additionalProperties": object{"enum": anyOf(attributeNames())},
		},
		good: []string{`{"RUDENESS":"INSULT","SPAM":"off"}`},
		bad:  []string{`{"RUDENESS":"RUDE"}`, `{"A B":"INSULT"}`, `{"RUDENESS":0.5}`, `["INSULT"]`},
	},
	"commentanalyzer.Analyze.Unscored": {rule: oneOf(unscored), closed: unscored},
	"commentanalyzer.Analyze.Languages": {
		rule: object{"items": object{"type": "string", "pattern": "^[A-Za-z0-9_-]{1,35}$"}},
		good: []string{`["en","pt-BR"]`}, bad: []string{`"en"`, `["English, please"]`, `[""]`},
	},
	"compare.Compare.ProxyRaw": {
		good: []string{`{"handler":"reverse_proxy","upstreams":[{"dial":"localhost:3000"}]}`},
		bad:  []string{`{}`, `"https://example.com"`, `{"handler":"moderate","onerror":"pass"}`},
	},
	"compare.Compare.Thresholds": {
		rule: object{"maxItems": 10, "uniqueItems": true, "items": probabilityBelow(false)},
		good: []string{`[0.5,0.9]`},
		bad:  []string{`0.5`, `[0]`, `[1]`, `[0.5,0.5]`, `[0.1,0.2,0.3,0.4,0.5,0.6,0.7,0.8,0.9,0.91,0.92]`, `["0.5"]`},
	},
}

// The values of options that take one of a few.
var (
	bodies      = []string{"stream", "reject", "pass", "prefix"}
	texts       = []string{"reject", "pass", "prefix", "suffix", "both"}
	onError     = []string{"pass", "reject"}
	outages     = []string{"local", "deny", "allow"}
	unscored    = []string{"omit", "error"}
	verdicts    = []string{"approve", "review", "reject"}
	coopKey     = `{"public_key":"{env.MODERATION_TEST_COOP_KEY}"}`
	statusNames = []string{"judged", "nothing", "partial", "skipped", "error"}
	roles       = []string{"system", "developer", "user", "assistant", "model", "tool", "function"}
)

func categoryNames() (names []string) {
	for i := range engine.NumCategories {
		names = append(names, engine.Category(i).String())
	}
	return names
}

// attributeNames returns the values of the option "attributes".
func attributeNames() (names []string) {
	for i := range engine.NumAttributes {
		names = append(names, engine.Attribute(i).String())
	}
	return append(names, "off")
}

func anyOf(names []string) (values []any) {
	for _, name := range names {
		values = append(values, name)
	}
	return values
}

func oneOf(names []string) object { return object{"enum": anyOf(names)} }

func listOf(names []string) object { return object{"items": oneOf(names)} }

// listed returns the rule of a list with a maximum length.
func listed(rule object, most int) object { return object{"items": rule["items"], "maxItems": most} }

// given returns the schema of a matcher in which a condition is given.
func given(name, least string) object {
	return object{"required": []any{name}, "properties": object{name: object{least: 1}}}
}

// notBlank is the rule of lists of names.
var notBlank = object{"items": object{"type": "string", "pattern": `\S`}}

// pointers is the rule of lists of JSON Pointers.
var pointers = schemaRule{
	rule: object{"items": object{"type": "string", "pattern": `^(/([^/~]|~[01])*)*$`}},
	good: []string{`["/comment","/posts/*/text"]`, `["/a~1b","" ]`},
	bad:  []string{`"/comment"`, `["comment"]`, `["/a~2"]`, `["/a~"]`},
}

// guardNeeds is the rule of guards: what needs another option.
var guardNeeds = object{"allOf": []any{
	object{
		"if":   object{"required": []any{"enforce_quota"}, "properties": object{"enforce_quota": object{"const": true}}},
		"then": object{"required": []any{"account"}},
	},
	object{
		"if": object{
			"required":   []any{"other_language"},
			"properties": object{"other_language": object{"enum": []any{"review", "reject"}}},
		},
		"then": object{"required": []any{"languages"}, "properties": object{"languages": object{"minItems": 1}}},
	},
}}

// languageTags is the rule of lists of language tags.
var languageTags = object{"items": object{"type": "string", "pattern": `^[A-Za-z0-9]{2,8}(-[A-Za-z0-9-]*)?$`, "maxLength": 35}}

// categoryMap returns the rule of an object with a value for each category.
func categoryMap(value object) object {
	members := object{}
	for _, name := range categoryNames() {
		members[name] = value
	}
	return object{"properties": members, "additionalProperties": false}
}

// probabilityBelow returns the schema of a probability that is greater than 0 and less than 1, or 1 if that is allowed.
func probabilityBelow(one bool) object {
	if one {
		return object{"type": "number", "exclusiveMinimum": 0, "maximum": 1}
	}
	return object{"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1}
}

// thresholdMap returns the rule of thresholds or of reject levels. A schema cannot say that a level must be at least
// the threshold.
func thresholdMap(one bool) object { return categoryMap(probabilityBelow(one)) }

var (
	goodThresholds = []string{`{"hate":0.75}`, `{"hate":0.01,"harassment":0.99,"self-harm":0.5,"sexual":0.5,"violence":0.5}`}
	badThresholds  = []string{`{"anger":0.5}`, `{"hate":0}`, `{"hate":1}`, `{"hate":"0.5"}`, `{"Hate":0.5}`, `[0.5]`}
	goodLevels     = []string{`{"hate":0.95}`, `{"hate":1}`}
	badLevels      = []string{`{"anger":0.9}`, `{"hate":0}`, `{"hate":1.01}`, `{"hate":"1"}`}
	harmShareRule  = schemaRule{
		rule: object{"minimum": engine.MinHarmShare, "maximum": engine.MaxHarmShare},
		good: []string{`0.02`, `0.0001`, `0.99`}, bad: []string{`0`, `0.00009`, `0.991`, `"2%"`, `2`},
	}
)

// plainString returns the rule of a text without control characters.
func plainString(most int) object {
	return object{"maxLength": most, "pattern": `^[^\x00-\x1f\x7f-\x9f]*$`}
}

// badText returns texts that such a rule refuses.
func badText(most int) []string {
	return []string{`"a\tb"`, `"\u009f"`, `"` + strings.Repeat("é", most+1) + `"`, `1`}
}
