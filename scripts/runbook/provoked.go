// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package main

// provocation says what provokes an entry of the page.
type provocation struct {
	// by are scenarios. The first runs the commands of the entry.
	by []string
	// reason says why nothing provokes it, when by is empty.
	reason string
}

// provoked has a provocation for each entry of the page, by its title.
var provoked = map[string]provocation{
	"ModerationStoreDown":                                {by: []string{"disk-full"}},
	"ModerationErrors":                                   {by: []string{"disk-full"}},
	"ModerationDiskNearlyFull":                           {by: []string{"disk-full"}},
	"ModerationDiskTooSmallToCompact":                    {by: []string{"disk-full"}},
	"Writes are refused until the database is compacted": {by: []string{"compaction"}},
	"ModerationGuardNotCounted":                          {by: []string{"disk-full"}},
	"The server does not start on a disk":                {by: []string{"disk-full"}},
	"ModerationStoreFlapping":                            {by: []string{"store-killed"}},
	"A file is not as after an orderly end":              {by: []string{"store-killed"}},
	"ModerationStoreUnreachable":                         {by: []string{"shared-store"}},
	"The database of the store was emptied":              {by: []string{"shared-store"}},
	"The server of the store is refused":                 {by: []string{"shared-store"}},
	"ModerationSlow":                                     {by: []string{"slow"}},
	"ModerationNoTraffic":                                {by: []string{"slow"}},
	"ModerationDown":                                     {by: []string{"down"}},
	"ModerationRestarts":                                 {by: []string{"down"}},
	"No server answers a command":                        {by: []string{"down"}},
	"ModerationMissing":                                  {by: []string{"caddy"}},
	"ModerationConfigReloadFailed":                       {by: []string{"caddy"}},
	"A port is in use":                                   {by: []string{"caddy"}},
	"There is no certificate":                            {by: []string{"caddy"}},
	"The directory is in use":                            {by: []string{"in-use"}},
	"ModerationGuardFailsOpen":                           {by: []string{"guard"}},
	"ModerationGuardFailsClosed":                         {by: []string{"guard"}},
	"ModerationGuardRejectsMost":                         {by: []string{"guard"}},
	"ModerationRejectsJumped":                            {by: []string{"guard"}},
	"ModerationQuotaRefusals":                            {by: []string{"limits"}},
	"ModerationKeysRefused":                              {by: []string{"limits"}},
	"ModerationTierMissing":                              {by: []string{"limits"}},
	"ModerationFeedbackRefused":                          {by: []string{"limits"}},
	"A command is refused":                               {by: []string{"limits"}},
	"ModerationBackupOld":                                {by: []string{"backup"}},
	"A backup is refused":                                {by: []string{"backup"}},
	"A restore did not finish":                           {by: []string{"backup"}},
	"ModerationVersionSkew":                              {by: []string{"names"}},
	"ModerationMemory":                                   {by: []string{"resources"}},
	"ModerationCPU":                                      {by: []string{"resources"}},
	"ModerationGuardSlow":                                {by: []string{"resources"}},
	"ModerationDescriptors":                              {by: []string{"descriptors"}},
	"The database is damaged":                            {by: []string{"damage"}},
	"A record is damaged":                                {by: []string{"damage"}},
	"A newer version has written the database":           {by: []string{"damage"}},
	"A file of the database cannot be read":              {by: []string{"unreadable"}},
	"The upgrade of the database stops":                  {by: []string{"upgrade"}},
	"The directory is gone":                              {by: []string{"moved"}},
	"The disk has failed":                                {by: []string{"sync-fails", "read-only"}},
	"The store has no process of its own":                {by: []string{"no-programs"}},
	"The disk does not answer":                           {by: []string{"frozen", "stopped"}},
	"The service is still starting":                      {by: []string{"starting"}},
	"An old store is closed under requests":              {by: []string{"linger"}},
	"Go is too old to build":                             {by: []string{"build"}},
	"The program was replaced while it ran": {
		reason: "the server starts the file that it was started from, which Linux keeps; it happens on other systems only",
	},
	"ModerationClockWrong": {
		reason: "the clock of a machine cannot be changed for one program: a Go program reads it without a system call. " +
			"rules_test.yml tests the rule, and the scenario names sees that the metric is the time",
	},
}
